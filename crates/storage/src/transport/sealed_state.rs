//! What the halves of a sealed session share.

use std::cell::Cell;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What the halves of a session tell each other, and others.
#[derive(Debug, Default)]
pub(crate) struct SealedState {
    /// The peer has asked for another key.
    pub(super) answer: Cell<bool>,
    /// The operator has asked for other keys, of both directions.
    pub(crate) rekey: Cell<bool>,
    pub(super) counts: Cell<SealedCounts>,
}

/// What a sealed session has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedCounts {
    /// Bytes of content that were sealed.
    pub sealed: u64,
    /// Of these, bytes that were sealed while earlier ones were on their way.
    pub hidden: u64,
    /// Bytes of content that were opened.
    pub opened: u64,
    /// Time in which the wire had nothing to do and the cipher worked.
    pub wire_waited: Duration,
    /// Time in which the cipher waited for room in the socket.
    pub cipher_waited: Duration,
    /// Changes of the own key.
    pub rekeys: u64,
    /// Changes of the peer's key.
    pub peer_rekeys: u64,
}

impl SealedState {
    /// What the session has done so far.
    pub(crate) fn counts(&self) -> SealedCounts {
        self.counts.get()
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut SealedCounts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }
}
