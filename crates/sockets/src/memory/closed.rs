//! Sending halves of closed sockets whose memory the server may still read.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use abi::SocketFlags;
use abi::client::SocketWords;

use super::send_queue::SendQueue;
use super::tx_pool::TxPool;
use crate::lock::lock;

/// The sending half of a socket that was closed before everything was released.
struct ClosedSendHalf {
    index: u16,
    words: SocketWords,
    queue: SendQueue,
}

impl ClosedSendHalf {
    /// Has the server released all its memory? The words still belong to this socket: the client
    /// hears of a new socket at this index before any byte of that socket can be released.
    fn is_released(&self) -> bool {
        let flags = SocketFlags::from_bits_retain(self.words.flags.load(Ordering::Acquire));
        !flags.has(SocketFlags::OPEN) || self.words.tx_released.get() >= self.queue.sent()
    }
}

impl std::fmt::Debug for ClosedSendHalf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClosedSendHalf").field("index", &self.index).finish_non_exhaustive()
    }
}

/// All of a client's closed sending halves.
#[derive(Debug, Default)]
pub(crate) struct ClosedSendHalves(Mutex<Vec<ClosedSendHalf>>);

impl ClosedSendHalves {
    /// Keeps the memory of `queue` until the server has released it.
    pub(crate) fn add(&self, index: u16, words: SocketWords, queue: SendQueue) {
        lock(&self.0).push(ClosedSendHalf { index, words, queue });
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }

    /// The server has made a new socket at `index`, so it uses nothing of the old one any more.
    pub(crate) fn end(&self, index: u16, pool: &TxPool) {
        self.end_if(pool, |half| half.index == index);
    }

    /// Takes back the memory that the server has released.
    pub(crate) fn reap(&self, pool: &TxPool) {
        self.end_if(pool, ClosedSendHalf::is_released);
    }

    fn end_if(&self, pool: &TxPool, is_over: impl Fn(&ClosedSendHalf) -> bool) {
        lock(&self.0).retain_mut(|half| {
            let over = is_over(half);
            if over {
                half.queue.empty(pool);
            }
            !over
        });
    }

    /// In a forked child: leaks all of them. A dropped area writes into the owner table, and that
    /// table is the parent's.
    pub(crate) fn forget(&mut self) {
        let halves = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        halves.drain(..).for_each(std::mem::forget);
    }
}
