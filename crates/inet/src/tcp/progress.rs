//! The times of a connection's last progress, last sent data and last received segment.

use core::time::Duration;

use crate::Instant;

/// The clocks of one connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    /// When the peer last acknowledged something new, or something was sent while nothing was in
    /// flight.
    made_at: Instant,
    /// When data was last sent, for the first time or again.
    sent_at: Instant,
    /// When an acceptable segment last came.
    heard_at: Instant,
}

impl Progress {
    pub(super) fn new(now: Instant) -> Self {
        Self { made_at: now, sent_at: now, heard_at: now }
    }

    /// When there was progress.
    #[inline]
    pub(super) fn made_at(&self) -> Instant {
        self.made_at
    }

    /// The wait for an acknowledgement begins anew.
    #[inline]
    pub(super) fn restart(&mut self, now: Instant) {
        self.made_at = now;
    }

    /// When data was last sent.
    #[inline]
    pub(super) fn sent_at(&self) -> Instant {
        self.sent_at
    }

    /// Data is sent.
    #[inline]
    pub(super) fn sent(&mut self, now: Instant) {
        self.sent_at = now;
    }

    /// When the peer's last segment came.
    #[inline]
    pub(super) fn heard_at(&self) -> Instant {
        self.heard_at
    }

    /// An acceptable segment has come.
    #[inline]
    pub(super) fn segment_received(&mut self, now: Instant) {
        self.heard_at = now;
    }

    /// Whether a segment of the peer came within `time`.
    pub(super) fn heard_within(&self, now: Instant, time: Duration) -> bool {
        now - self.heard_at <= time
    }

    /// When a segment was last sent or received.
    pub(super) fn idle_since(&self) -> Instant {
        self.heard_at.max(self.sent_at)
    }

    /// The handshake is over.
    pub(super) fn established(&mut self, now: Instant) {
        self.made_at = now;
        self.heard_at = now;
    }
}
