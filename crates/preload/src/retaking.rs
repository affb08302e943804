//! Sending and receiving on a socket that other processes may take, also in the middle of a call.
//!
//! An operation on a socket that has moved to another process gives ESTALE. Then the socket is
//! taken back, and the operation goes on where it was. Two processes that both wait in a call would
//! only pass the socket to and fro, so each leaves the other one a pause that grows. Calls that do
//! not wait, such as getsockname, are made anew in the same way ([`repeated`]).

use core::cell::{Cell, RefCell};
use core::ffi::c_int;
use core::net::SocketAddr;
use core::time::Duration;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::thread;

use rustix::io::Errno;
use sockets::{Received, SendFlags, SocketKind, Wait};

use crate::descriptors::socket;
use crate::errno::Outcome;
use crate::open_socket::OpenSocket;
use crate::transfer::Endpoint;

/// Between two tries to take a socket back that has moved: the first and the longest pause.
pub(crate) const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(8)];
/// So often a call that must not wait takes the socket back.
const TRIES: u32 = 8;
/// Buffers of a call that allocates no memory.
const FEW: usize = 4;

/// Makes a call about a socket until no other process has taken the socket in the middle of it.
/// `call` looks its descriptor up each time, which takes the socket back.
pub(crate) fn repeated<T>(mut call: impl FnMut() -> Outcome<T>) -> Outcome<T> {
    let mut tries = 0;
    loop {
        match call() {
            Err(Errno::STALE) => pause(tries),
            other => return other,
        }
        tries += 1;
    }
}

/// Before a socket is taken back: nothing at first, then a pause that grows.
fn pause(tries: u32) {
    if tries > 0 {
        thread::sleep((PAUSES[0] * (1 << (tries - 1).min(8))).min(PAUSES[1]));
    }
}

/// A descriptor's socket during one call.
pub(crate) struct SharedEndpoint {
    fd: c_int,
    open: RefCell<Arc<OpenSocket>>,
    tries: Cell<u32>,
}

impl SharedEndpoint {
    pub(crate) fn new(fd: c_int, open: Arc<OpenSocket>) -> Self {
        Self { fd, open: RefCell::new(open), tries: Cell::new(0) }
    }

    /// Repeats an operation until the socket has not moved meanwhile.
    fn repeat<T>(
        &self,
        wait: Wait,
        mut operation: impl FnMut(&OpenSocket) -> Outcome<T>,
    ) -> Outcome<T> {
        loop {
            let open = Arc::clone(&self.open.borrow());
            match operation(&open) {
                Err(Errno::STALE) => self.take_back(wait)?,
                other => return other,
            }
        }
    }

    /// Takes the socket back, after a pause from the second time on.
    fn take_back(&self, wait: Wait) -> Outcome<()> {
        let tries = self.tries.get();
        self.tries.set(tries.saturating_add(1));
        match (wait, tries) {
            (Wait::No, TRIES..) => return Err(Errno::AGAIN),
            (Wait::No, _) => {}
            _ => pause(tries),
        }
        let open = socket(self.fd)?;
        self.open.replace(open);
        Ok(())
    }

    /// Sends on a stream. A part that was sent before the socket moved counts.
    fn send_stream(&self, bufs: &[IoSlice<'_>], flags: SendFlags, wait: Wait) -> Outcome<usize> {
        // Nothing is allocated for few buffers: a signal handler may have interrupted malloc(3).
        let (mut few, mut many) = ([IoSlice::new(&[]); FEW], Vec::new());
        let mut left = match few.get_mut(..bufs.len()) {
            Some(few) => few,
            None => {
                many.extend_from_slice(bufs);
                &mut many[..]
            }
        };
        left.copy_from_slice(bufs);
        let total = left.iter().fold(0_usize, |sum, buf| sum.saturating_add(buf.len()));
        let mut sent = 0;
        loop {
            let out = self.repeat(wait, |open| open.send(left, flags, None, wait));
            match out {
                Err(_) if sent > 0 => return Ok(sent),
                Err(errno) => return Err(errno),
                Ok(now) => sent += now,
            }
            if wait == Wait::No || sent >= total || !self.open.borrow().socket.is_moved() {
                return Ok(sent);
            }
            let now = out.unwrap_or(0);
            IoSlice::advance_slices(&mut left, now);
        }
    }
}

impl Endpoint for SharedEndpoint {
    fn kind(&self) -> SocketKind {
        self.open.borrow().kind()
    }

    fn send(
        &self,
        bufs: &[IoSlice<'_>],
        flags: SendFlags,
        to: Option<SocketAddr>,
        wait: Wait,
    ) -> Outcome<usize> {
        match self.kind() {
            SocketKind::Stream => self.send_stream(bufs, flags, wait),
            _ => self.repeat(wait, |open| open.send(bufs, flags, to, wait)),
        }
    }

    fn wait_for_more(&self, than: usize, wait: Wait) -> Outcome<bool> {
        self.repeat(wait, |open| open.wait_for_more(than, wait))
    }

    fn recv_urgent(&self, peek: bool) -> Outcome<Option<u8>> {
        self.repeat(Wait::No, |open| open.recv_urgent(peek))
    }

    fn recv_error(&self, bufs: &mut [IoSliceMut<'_>]) -> Outcome<Received> {
        self.repeat(Wait::No, |open| open.recv_error(bufs))
    }

    fn connect_fast(&self, to: SocketAddr, wait: Wait) -> Outcome<()> {
        self.repeat(wait, |open| open.connect_fast(to, wait))
    }

    fn recv(&self, bufs: &mut [IoSliceMut<'_>], peek: bool, wait: Wait) -> Outcome<Received> {
        self.repeat(wait, |open| open.recv(bufs, peek, wait))
    }
}
