//! The rings of a client's threads.

use std::collections::VecDeque;

use abi::Errno;
use abi::call::{PackagedResult, ReplyWords, ReturnPath};
use shm::{Consumer, Producer, PushError, ReadinessBitmap, Ringer};

use crate::fault::ClientFault;

/// The outcome of a call, for its result slot.
pub(crate) type PostedOutcome<'a> = Result<&'a ReplyWords, Errno>;

/// The rings of one thread.
pub(crate) struct ClientThread {
    pub(crate) requests: Consumer,
    pub(super) results: Producer,
    pub(super) bell: Ringer,
    pub(super) news: ReadinessBitmap,
    /// Results that found the ring full, oldest first.
    pub(super) backlog: VecDeque<PackagedResult>,
}

impl ClientThread {
    /// Stages a result; false if there is no room.
    #[inline(always)]
    pub(super) fn stage(
        &mut self,
        path: ReturnPath,
        outcome: PostedOutcome<'_>,
    ) -> Result<bool, ClientFault> {
        match self.results.stage(&PackagedResult::encode_parts(path, outcome)) {
            Ok(()) => Ok(true),
            Err(PushError::Full) => Ok(false),
            Err(PushError::Fault(fault)) => Err(ClientFault::Ring { ring: "result", fault }),
        }
    }

    /// Publishes all results for which there is room.
    pub(super) fn publish(&mut self) -> Result<(), ClientFault> {
        while let Some(&PackagedResult { path, outcome }) = self.backlog.front() {
            if !self.stage(path, outcome.as_ref().map_err(|errno| *errno))? {
                break;
            }
            self.backlog.pop_front();
        }
        self.results.publish();
        Ok(())
    }
}

/// Marks a socket in the news bitmaps of the threads that wait for it. The end of the iteration
/// rings them.
pub(super) fn mark_news(threads: &[Option<ClientThread>], mut waiters: u64, socket: u16) {
    while waiters != 0 {
        let number = waiters.trailing_zeros() as usize;
        waiters &= waiters - 1;
        if let Some(Some(thread)) = threads.get(number) {
            thread.news.set(socket);
        }
    }
}
