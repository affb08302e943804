//! The other end of a wire that takes no frames.
//!
//! A full link holds frames back, as a device without room does. The inet server then holds back
//! what is to be sent on this interface, and programs' memory stays in use. The other end may
//! belong to another user, so that may not last for ever. An end has [`PATIENCE`] to take what lies
//! in the full link. If some of it is left then, frames to send are dropped, until the end has
//! taken everything. The kernel's network devices have the same watchdog.

use std::time::Duration;

/// How long the other end has for what is in a full link: some 200 KiB a second at least.
#[cfg(not(test))]
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
#[cfg(test)]
pub(super) const PATIENCE: Duration = Duration::from_millis(100);

/// Whether the other end takes frames.
#[derive(Debug, Default)]
pub(super) struct StallWatch {
    /// While [`PATIENCE`] runs: the other end must have taken so many frames at its end.
    awaited: Option<u64>,
    dropping: bool,
}

impl StallWatch {
    /// The link is full after `sent` frames. Returns whether [`PATIENCE`] begins now.
    pub(super) fn full(&mut self, sent: u64) -> bool {
        let begins = self.awaited.is_none();
        self.awaited.get_or_insert(sent);
        begins
    }

    /// [`PATIENCE`] is over, and the other end has taken so many frames. Returns whether frames are
    /// dropped from now on.
    pub(super) fn is_over(&mut self, taken: u64) -> bool {
        self.dropping |= self.awaited.take().is_some_and(|awaited| taken < awaited);
        self.dropping
    }

    /// Are frames to be dropped? `left`: frames that the other end has not taken.
    pub(super) fn drops(&mut self, left: usize) -> bool {
        self.dropping &= left > 0;
        self.dropping
    }

    /// Are frames dropped, as far as known?
    pub(super) fn is_dropping(&self) -> bool {
        self.dropping
    }
}
