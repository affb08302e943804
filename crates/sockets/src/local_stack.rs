//! The stack inside this very process (mode `library`): the calling threads do its work.
//!
//! The instance answers `Hello` with the servers' ends of its connections instead of a welcome. The
//! library's host has named a function with [`set_host`], which makes a [`LocalStack`] of them.
//! From then on [`crate::Client`] is admitted as to any other instance, with the same regions,
//! rings and words. Two things differ:
//!
//! * Where the server's bell would be rung, the caller does the server's work
//!   ([`LocalStack::work`]).
//! * A waiting thread works until its own bell has rung. With nothing to do it sleeps on the
//!   descriptors that would wake a server.
//!
//! Small sends are *collected*: while bytes of a stream are on their way, a send only queues its
//! own bytes for the next thread that works ([`LocalStack::post`]), up to 64 KiB or a full queue.
//!
//! One thread at a time sleeps on those descriptors: the *poller*. The other threads sleep on their
//! own bells, which a working thread rings. When the poller leaves, the stack wakes one of them by
//! its descriptor, and that thread becomes the poller.

use std::fmt::Debug;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use abi::Errno;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use shm::{Channel, Message, TryRecv};

use crate::descriptors::move_high;
use crate::error::ConnectError;

/// The longest sleep for an answer without a look at everything.
const SLICE: Duration = Duration::from_secs(1);

/// The stack inside this process.
pub trait LocalStack: Send + Sync + Debug {
    /// Does the stack's work in the calling thread. Ends when there is no more work, after a good
    /// deal of it, or when `enough` says so after some of it. Does nothing in a signal handler that
    /// interrupted this function.
    fn work(&self, enough: &mut dyn FnMut() -> bool);

    /// Announces work that the caller need not do. Another thread begins with it in microseconds,
    /// unless a call does it before. `false`: the caller has to do it, because the stack has not
    /// worked for so long that peers may have answered meanwhile.
    fn post(&self) -> bool;

    /// Makes the calling thread the poller. `false`: another thread is the poller, and writes
    /// `wakeup` when it leaves.
    fn become_poller(&self, wakeup: &Arc<OwnedFd>) -> bool;

    /// The calling thread is the poller no longer, and does not wait to become it.
    fn leave_poller(&self, wakeup: &Arc<OwnedFd>);

    /// For the poller only: spins for a while before a sleep. True: there is work, or `enough` is
    /// true.
    fn spin(&self, enough: &mut dyn FnMut() -> bool) -> bool;

    /// For the poller only: sleeps until something happens or a timer of the stack is due, for at
    /// most `most`.
    ///
    /// # Errors
    /// EINTR; EDEADLK in a signal handler that came in the middle of [`LocalStack::work`].
    fn wait(&self, most: Option<Duration>) -> Result<(), Errno>;

    /// As [`LocalStack::wait`], and until poll(2) reports something for `fds`.
    ///
    /// # Errors
    /// As there, and poll(2)'s.
    fn wait_with(&self, fds: &mut [PollFd<'_>], most: Option<Duration>) -> Result<(), Errno>;

    /// Ends [`LocalStack::wait`] whenever `bell` is rung, from now on.
    fn watch(&self, bell: BorrowedFd<'_>);

    /// After EINTR: were the handlers of all signals installed with SA_RESTART?
    fn restarts(&self) -> bool;

    /// Is the stack gone?
    fn is_over(&self) -> bool;

    /// The process ends and has said goodbye. Returns when none of its data is under way any more,
    /// at the latest after the instance's drain time.
    fn finish(&self);
}

/// Makes the stack of this process from the servers' ends of an instance's connections: first the
/// inet server's, then each driver's.
pub type Host = fn(Vec<OwnedFd>) -> Result<Arc<dyn LocalStack>, String>;

static HOST: OnceLock<Host> = OnceLock::new();

/// Sets the function that takes an instance's stack into this process. Without it, an instance in
/// mode `library` refuses this process. The first call counts.
pub fn set_host(host: Host) {
    // A second one is not wanted.
    let _ = HOST.set(host);
}

/// Takes the stack into this process.
pub(crate) fn host(connections: Vec<OwnedFd>) -> Result<Arc<dyn LocalStack>, ConnectError> {
    let refused = |message: String| ConnectError::Refused { message };
    let host = HOST.get().ok_or_else(|| {
        refused(
            "in mode library only programs of `tasuki run` can use it, through the preloaded \
             library"
                .to_owned(),
        )
    })?;
    host(connections).map_err(refused)
}

/// The next message of a channel. Its sender may ask the stack in this process first, so the
/// calling thread does the stack's work meanwhile.
pub(crate) fn recv(
    channel: &mut Channel,
    stack: Option<&dyn LocalStack>,
) -> Result<Option<Message>, shm::ChannelError> {
    let Some(stack) = stack else { return channel.recv() };
    let turn = PollerTurn::new(stack).map_err(shm::ChannelError::System)?;
    loop {
        stack.work(&mut || false);
        match channel.try_recv()? {
            TryRecv::Message(message) => return Ok(Some(message)),
            TryRecv::Ended => return Ok(None),
            TryRecv::Empty => {}
        }
        // Neither a signal nor anything else that poll has to say is of interest.
        let _ = turn.wait_with(&mut [PollFd::new(channel, PollFlags::IN)], Some(SLICE));
    }
}

/// A wait of a thread without a bell: as the poller, or until the poller leaves.
pub struct PollerTurn<'a> {
    stack: &'a dyn LocalStack,
    wakeup: Arc<OwnedFd>,
}

impl<'a> PollerTurn<'a> {
    /// # Errors
    /// The system's, when it has no descriptor left.
    pub fn new(stack: &'a dyn LocalStack) -> Result<Self, Errno> {
        let wakeup = shm::eventfd().map_err(|_| Errno::NFILE)?;
        Ok(Self { stack, wakeup: Arc::new(move_high(wakeup)) })
    }

    /// As [`LocalStack::wait_with`], also while another thread is the poller.
    ///
    /// # Errors
    /// As there.
    pub fn wait_with(&self, fds: &mut [PollFd<'_>], most: Option<Duration>) -> Result<(), Errno> {
        if self.stack.become_poller(&self.wakeup) {
            self.stack.wait_with(fds, most)
        } else {
            wait_for_poller(&self.wakeup, fds, most)
        }
    }
}

impl Drop for PollerTurn<'_> {
    fn drop(&mut self) {
        self.stack.leave_poller(&self.wakeup);
    }
}

/// Waits until the poller leaves, or poll(2) reports something for `fds`.
pub(crate) fn wait_for_poller(
    wakeup: &OwnedFd,
    fds: &mut [PollFd<'_>],
    most: Option<Duration>,
) -> Result<(), Errno> {
    let mut all = Vec::with_capacity(fds.len() + 1);
    all.push(PollFd::new(wakeup, PollFlags::IN));
    all.extend(fds.iter().cloned());
    let most = most.and_then(|most| Timespec::try_from(most).ok());
    poll(&mut all, most.as_ref())?;
    shm::drain(wakeup);
    refresh(fds, all.get(1..).unwrap_or_default())
}

/// Polls `fds` again, without waiting, if poll(2) reported something for their `copies`. The result
/// for a copy cannot be written into the original.
///
/// # Errors
/// poll(2)'s.
pub fn refresh(fds: &mut [PollFd<'_>], copies: &[PollFd<'_>]) -> Result<(), Errno> {
    if copies.iter().any(|fd| !fd.revents().is_empty()) {
        poll(fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).map(drop)
    } else {
        fds.iter_mut().for_each(PollFd::clear_revents);
        Ok(())
    }
}
