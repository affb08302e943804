//! What the shim keeps of one Tasuki socket, beside the socket itself.
//!
//! An entry is to descriptors what the kernel's open file description is: `dup` shares it, and
//! with it the mode (O_NONBLOCK), the timeouts and the place in epoll sets. It counts its
//! descriptors itself, not by references, because a thread that waits holds a reference too: with
//! the last descriptor the socket is closed there and then.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;
use sockets::{Readiness, Received, RecvFlags, SendFlags, Socket, SocketKind, Wait, Watch};

use crate::epoll::EpollSet;
use crate::errno::Outcome;
use crate::placeholder;
use crate::registrations::Source;
use crate::table::{Holder, Kind, Table};
use crate::time;
use crate::transfer::Endpoint;

/// All descriptors of this process.
pub(crate) static TABLE: Table<Held> = Table::new();

/// Is `fd` a Tasuki socket, usable or inherited? Otherwise its calls are the kernel's.
#[inline]
pub(crate) fn is_socket(fd: c_int) -> bool {
    matches!(TABLE.kind(fd), Kind::Socket | Kind::Inherited)
}

/// The socket of `fd`.
///
/// # Errors
/// EBADF for an inherited one, or one that was closed just now.
pub(crate) fn socket(fd: c_int) -> Outcome<Arc<Entry>> {
    match TABLE.get(fd) {
        Some(Held::Socket(entry)) => Ok(entry),
        _ => Err(Errno::BADF),
    }
}

/// Makes `fd`, which the kernel gave out just now, stand for `held`.
///
/// # Errors
/// EMFILE when the number is beyond the table. `held` is released then.
pub(crate) fn install(fd: c_int, held: Held) -> Outcome<()> {
    let (released, outcome) = match TABLE.put(fd, held) {
        // Something was there only if the program closed the number behind the shim's back.
        Ok(stale) => (stale, Ok(())),
        Err(held) => (Some(held), Err(Errno::MFILE)),
    };
    release(released);
    outcome
}

/// What a descriptor stands for.
#[derive(Clone)]
pub(crate) enum Held {
    /// A Tasuki socket.
    Socket(Arc<Entry>),
    /// A kernel epoll instance.
    Epoll(Arc<EpollSet>),
    /// The shim's own.
    Internal,
}

impl Holder for Held {
    fn kind(&self) -> Kind {
        match self {
            Self::Socket(_) => Kind::Socket,
            Self::Epoll(_) => Kind::Epoll,
            Self::Internal => Kind::Internal,
        }
    }
}

impl Held {
    /// One more descriptor is about to stand for this; false if the last one was just closed.
    pub(crate) fn share(&self) -> bool {
        match self {
            Self::Socket(entry) => entry.share(),
            Self::Epoll(_) | Self::Internal => true,
        }
    }
}

/// One descriptor less stands for what is `held`, if anything.
pub(crate) fn release(held: Option<Held>) {
    if let Some(Held::Socket(entry)) = held {
        entry.release();
    }
}

/// Sleeps until a socket's version is no longer the one given, poll(2) reports something for
/// `kernel`, the deadline passes, or for no reason.
///
/// # Errors
/// EINTR, and what poll(2) gives.
pub(crate) fn wait_any(
    watched: &[(Arc<Entry>, u32)],
    kernel: &mut [PollFd<'_>],
    deadline: Option<Instant>,
) -> Outcome<()> {
    if watched.is_empty() {
        let left = deadline.map(time::left).map(Timespec::try_from);
        return poll(kernel, left.and_then(Result::ok).as_ref()).map(drop);
    }
    let watches: Vec<_> = watched
        .iter()
        .map(|(entry, version)| Watch { socket: &entry.socket, version: *version })
        .collect();
    sockets::wait_any(&watches, kernel, deadline)
}

/// Before a wait ends without anything: true if that brought the stack to work, which may have
/// changed one of the `watched` sockets.
pub(crate) fn attend(watched: &[(Arc<Entry>, u32)]) -> bool {
    watched.first().is_some_and(|(first, _)| first.socket.attend())
}

/// A direction's timeout in nanoseconds; 0 is none.
#[derive(Default)]
pub(crate) struct Timeout(AtomicU64);

impl Timeout {
    /// The timeout, `None` for none.
    pub(crate) fn get(&self) -> Option<Duration> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }

    /// Sets it; what is too long to count (500 years) is none.
    pub(crate) fn set(&self, timeout: Option<Duration>) {
        let nanos = timeout.map_or(0, |t| u64::try_from(t.as_nanos()).unwrap_or(0));
        self.0.store(nanos, Ordering::Relaxed);
    }
}

/// One open Tasuki socket.
pub(crate) struct Entry {
    /// The socket.
    pub(crate) socket: Socket,
    /// SO_RCVTIMEO.
    pub(crate) receive_timeout: Timeout,
    /// SO_SNDTIMEO.
    pub(crate) send_timeout: Timeout,
    nonblocking: AtomicBool,
    /// Its descriptors are duplicates of the kept placeholder.
    on_kept: AtomicBool,
    descriptors: AtomicUsize,
    watchers: Mutex<Vec<Weak<EpollSet>>>,
}

impl Entry {
    /// An entry with one descriptor.
    pub(crate) fn new(socket: Socket, nonblocking: bool) -> Arc<Self> {
        Arc::new(Self {
            socket,
            receive_timeout: Timeout::default(),
            send_timeout: Timeout::default(),
            nonblocking: AtomicBool::new(nonblocking),
            on_kept: AtomicBool::new(false),
            descriptors: AtomicUsize::new(1),
            watchers: Mutex::default(),
        })
    }

    /// The entry of a connection accepted on this one; it takes over the timeouts, as on Linux.
    pub(crate) fn accepted(&self, socket: Socket, nonblocking: bool) -> Arc<Self> {
        let entry = Self::new(socket, nonblocking);
        entry.receive_timeout.set(self.receive_timeout.get());
        entry.send_timeout.set(self.send_timeout.get());
        entry
    }

    /// O_NONBLOCK.
    pub(crate) fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed)
    }

    /// Sets O_NONBLOCK.
    pub(crate) fn set_nonblocking(&self, on: bool) {
        self.nonblocking.store(on, Ordering::Relaxed);
    }

    /// Whether its descriptor is a duplicate of the kept placeholder.
    pub(crate) fn set_on_kept(&self, on: bool) {
        self.on_kept.store(on, Ordering::Release);
    }

    /// How long a receiving call may wait.
    pub(crate) fn receive_wait(&self, dont_wait: bool) -> Wait {
        self.wait(dont_wait, &self.receive_timeout)
    }

    /// How long a sending call may wait.
    pub(crate) fn send_wait(&self, dont_wait: bool) -> Wait {
        self.wait(dont_wait, &self.send_timeout)
    }

    fn wait(&self, dont_wait: bool, timeout: &Timeout) -> Wait {
        if dont_wait || self.is_nonblocking() { Wait::No } else { Wait::at_most(timeout.get()) }
    }

    /// `set` watches this socket from now on, and is told when it closes.
    pub(crate) fn watched_by(&self, set: &Arc<EpollSet>) {
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = Arc::downgrade(set);
        watchers.retain(|other| other.strong_count() > 0 && !other.ptr_eq(&mine));
        watchers.push(mine);
    }

    /// Has the last descriptor been closed?
    pub(crate) fn is_closed(&self) -> bool {
        self.descriptors.load(Ordering::Acquire) == 0
    }

    /// Is there but one descriptor?
    pub(crate) fn is_last(&self) -> bool {
        self.descriptors.load(Ordering::Acquire) == 1
    }

    fn share(&self) -> bool {
        let more = |count: usize| count.checked_add(1).filter(|_| count > 0);
        self.descriptors.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    fn release(self: Arc<Self>) {
        if self.descriptors.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        if self.on_kept.load(Ordering::Acquire) {
            placeholder::end(!self.is_nonblocking());
        }
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        let watchers = core::mem::take(&mut *watchers);
        for set in watchers.iter().filter_map(Weak::upgrade) {
            set.forget(&self);
        }
        self.socket.close_soon();
    }
}

impl Source for Arc<Entry> {
    fn readiness(&self) -> Readiness {
        self.socket.readiness()
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(self, other)
    }
}

impl Endpoint for Entry {
    fn kind(&self) -> SocketKind {
        self.socket.kind()
    }

    fn send(
        &self,
        bufs: &[IoSlice<'_>],
        flags: SendFlags,
        to: Option<SocketAddr>,
        wait: Wait,
    ) -> Outcome<usize> {
        self.socket.send(bufs, flags, to, wait)
    }

    fn recv_urgent(&self, peek: bool) -> Outcome<Option<u8>> {
        self.socket.recv_urgent(peek)
    }

    fn connect_fast(&self, to: SocketAddr, wait: Wait) -> Outcome<()> {
        self.socket.connect_fast(to, wait)
    }

    fn recv(&self, bufs: &mut [IoSliceMut<'_>], peek: bool, wait: Wait) -> Outcome<Received> {
        self.socket.recv(bufs, RecvFlags { peek }, wait)
    }
}
