//! A bound on frames without progress. While no stream moves on, the frames of any second are
//! limited. Two hosts that answer each other's every segment would never stop by themselves.

use core::time::Duration;

use inet::Instant;

/// Frames in a second without progress: more than a window of small segments, each answered.
const MOST_IN_A_SECOND: u64 = 20_000;
/// Frames without any progress, however long it takes.
const MOST_IN_ALL: u64 = 100_000;
/// Frames of a world.
const MOST: u64 = 3_000_000;

/// LiveCounts frames.
#[derive(Debug)]
pub struct LivelockGuard {
    since: Instant,
    in_second: u64,
    in_all: u64,
    total: u64,
}

impl LivelockGuard {
    /// From now on.
    pub fn new(now: Instant) -> Self {
        Self { since: now, in_second: 0, in_all: 0, total: 0 }
    }

    /// A frame leaves.
    ///
    /// # Errors
    /// If the frame exceeds a bound.
    pub fn sent(&mut self, now: Instant) -> Result<(), String> {
        if now - self.since >= Duration::from_secs(1) {
            (self.since, self.in_second) = (now, 0);
        }
        self.in_second += 1;
        self.in_all += 1;
        self.total += 1;
        let over = self.in_second > MOST_IN_A_SECOND || self.in_all > MOST_IN_ALL;
        if over || self.total > MOST {
            let Self { in_second, in_all, total, .. } = self;
            return Err(format!(
                "{in_second} frames in a second, {in_all} without progress, {total}"
            ));
        }
        Ok(())
    }

    /// A stream has moved on.
    pub fn progress(&mut self) {
        (self.in_second, self.in_all) = (0, 0);
    }
}
