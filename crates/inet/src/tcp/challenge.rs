//! How often segments that cannot be accepted are answered (RFC 5961 7).

use core::time::Duration;

use crate::Instant;

/// Least time between two answers to segments without payload.
const PAUSE: Duration = Duration::from_millis(500);

/// The limit of challenge ACKs, and of other answers to segments that cannot be accepted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ChallengeLimit {
    last: Option<Instant>,
}

impl ChallengeLimit {
    /// Whether a segment without payload may be answered now. Two sides that disagree would answer
    /// each other endlessly, so the limit is two a second, as in Linux.
    pub(super) fn permits(&mut self, now: Instant) -> bool {
        let pausing = self.last.is_some_and(|last| now - last < PAUSE);
        if !pausing {
            self.last = Some(now);
        }
        !pausing
    }
}
