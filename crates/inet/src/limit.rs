//! A rate limit: a bound on how often something is done.

use core::time::Duration;

use crate::time::Instant;

/// A token bucket: `rate` per second on average, `burst` at once.
#[derive(Debug)]
pub(crate) struct RateLimit {
    /// Time between two tokens.
    interval: Duration,
    burst: Duration,
    /// When the bucket would be full again if nothing more was taken.
    full_at: Instant,
}

impl RateLimit {
    /// A full bucket. A rate or burst of 0 counts as 1.
    pub(crate) fn new(rate: u32, burst: u32) -> Self {
        let interval = Duration::from_secs(1) / rate.max(1);
        Self { interval, burst: interval * burst.max(1), full_at: Instant::ZERO }
    }

    /// Takes a token if there is one.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let full_at = self.full_at.max(now) + self.interval;
        let allowed = full_at.since(now) <= self.burst;
        if allowed {
            self.full_at = full_at;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_then_rate() {
        let mut limit = RateLimit::new(10, 3);
        let start = Instant::from_nanos(5_000_000_000);
        assert_eq!((0..9).filter(|_| limit.take(start)).count(), 3);
        let later = start + Duration::from_millis(250);
        assert_eq!((0..9).filter(|_| limit.take(later)).count(), 2);
        let much_later = later + Duration::from_secs(60);
        assert_eq!((0..9).filter(|_| limit.take(much_later)).count(), 3);
    }
}
