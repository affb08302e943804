//! Connecting a stream and waiting for it: one sleep, however many calls.
//!
//! The call ends at once with EINPROGRESS, without a bell for the thread. The thread sleeps until
//! the socket's words say how the attempt came out, or until the call's result says that there is
//! no attempt. The call does not complete later: if a signal ended this wait, a later result would
//! be lost, while the error word keeps it for SO_ERROR.
//!
//! A call for a spare socket travels with it, where a thread connects more than once.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;

use abi::call::{CallFlags, Request};
use abi::{Errno, SocketFlags};

use super::core::{SocketCore, syn_room};
use super::send::SendHalf;
use crate::membership::{CallOutcome, NewCall, RawBatch, SocketSpec};
use crate::wait::Wait;

impl SocketCore {
    /// Is a connection attempt under way?
    pub(super) fn connecting(&self) -> Result<bool, Errno> {
        self.check()?;
        Ok(self.flags().has(SocketFlags::CONNECTING))
    }

    /// How a connection attempt came out; `None` while it goes on.
    fn connected(&self) -> Result<Option<()>, Errno> {
        if self.connecting()? {
            return Ok(None);
        }
        match self.take_error() {
            Some(errno) => Err(errno),
            None if self.flags().has(SocketFlags::CONNECTED) => Ok(Some(())),
            // Over already, and another thread has taken the reason.
            None => Err(Errno::CONNABORTED),
        }
    }

    /// Waits for the outcome of an attempt. EINPROGRESS when the time is over.
    pub(super) fn wait_connected(&self, wait: Wait) -> Result<(), Errno> {
        let over = || !matches!(self.connecting(), Ok(true));
        match self.wait_until(wait, || self.connected(), over) {
            Err(Errno::AGAIN) => Err(Errno::INPROGRESS),
            other => other,
        }
    }
}

/// A call that begins an attempt, and its result once it is known.
struct ConnectAttempt<'s> {
    core: &'s SocketCore,
    send: &'s SendHalf,
    batch: RefCell<RawBatch<'s>>,
    tag: u32,
    begun: Cell<Option<CallOutcome>>,
}

/// Connects a stream to `addr`; may wait.
pub(super) fn connect_waiting(
    core: &SocketCore,
    send: &SendHalf,
    addr: SocketAddr,
    wait: Wait,
) -> Result<(), Errno> {
    core.check_family(addr)?;
    core.membership.server.check_memory()?;
    core.check()?;
    let mut batch = RawBatch::new(&core.membership)?;
    let flags = CallFlags::NONBLOCK.with(CallFlags::QUIET);
    let connect = Request::Connect { socket: core.id, addr };
    let tag = batch.surely_register(&NewCall::with_flags(connect, flags))?;
    batch.make_spare(SocketSpec { kind: core.kind, family: core.family })?;
    batch.flush();
    let (batch, begun) = (RefCell::new(batch), Cell::new(None));
    let attempt = ConnectAttempt { core, send, batch, tag, begun };
    let ended = core.wait_until(wait, || attempt.outcome(), || attempt.is_over());
    let Err(early @ (Errno::AGAIN | Errno::INTR | Errno::CANCELED)) = ended else { return ended };
    match attempt.surely_begun()? {
        Ok(_) => attempt.outcome().map(drop),
        Err(under_way @ (Errno::INPROGRESS | Errno::ALREADY)) => {
            Err(if early == Errno::AGAIN { under_way } else { early })
        }
        Err(errno) => Err(errno),
    }
}

impl ConnectAttempt<'_> {
    /// The call's result, if it is known.
    fn begun(&self) -> Result<Option<CallOutcome>, Errno> {
        if self.begun.get().is_none() {
            let outcome = self.batch.borrow_mut().outcome(self.tag, Wait::No)?;
            self.begun.set(outcome);
        }
        Ok(self.begun.get())
    }

    /// How the attempt came out; `None` while it goes on.
    fn outcome(&self) -> Result<Option<()>, Errno> {
        match self.begun()? {
            None => Ok(None),
            Some(Ok(words)) => {
                self.send.set_syn_room(syn_room(&words));
                Ok(Some(()))
            }
            Some(Err(Errno::INPROGRESS | Errno::ALREADY)) => self.core.connected(),
            Some(Err(errno)) => Err(errno),
        }
    }

    fn is_over(&self) -> bool {
        match self.begun() {
            Ok(None) => false,
            Ok(Some(Err(Errno::INPROGRESS | Errno::ALREADY))) => {
                !matches!(self.core.connecting(), Ok(true))
            }
            Ok(Some(_)) | Err(_) => true,
        }
    }

    /// The call's result. The server rings no bell for a call that has begun an attempt. So a
    /// second call is made; its answer comes after the first one's.
    fn surely_begun(&self) -> Result<CallOutcome, Errno> {
        if self.begun()?.is_none() {
            let mut batch = self.batch.borrow_mut();
            let after = batch.surely_register(&NewCall::new(Request::Null))?;
            batch.surely_wait(after)?;
        }
        Ok(self.begun()?.unwrap_or(Err(Errno::INPROGRESS)))
    }
}
