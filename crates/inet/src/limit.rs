//! Rate limits: bounds on how often something is done.

use alloc::boxed::Box;
use core::hash::BuildHasher;
use core::net::IpAddr;
use core::time::Duration;

use crate::secret::KeyedHash;
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

/// Buckets of [`RateLimits`].
const BUCKETS: usize = 1024;

/// Token buckets for each of many addresses. An address has the bucket that a secret hash chooses,
/// so the memory is bounded, and nobody can tell which addresses share a bucket.
#[derive(Debug)]
pub(crate) struct RateLimits {
    hash: KeyedHash,
    /// The bucket that is looked at.
    limit: RateLimit,
    /// When each bucket would be full again.
    full_at: Box<[Instant]>,
}

impl RateLimits {
    /// Full buckets. A rate or burst of 0 counts as 1.
    pub(crate) fn new(hash: KeyedHash, rate: u32, burst: u32) -> Self {
        let full_at = [Instant::ZERO; BUCKETS].into();
        Self { hash, limit: RateLimit::new(rate, burst), full_at }
    }

    /// Takes a token of `address` if there is one.
    pub(crate) fn take(&mut self, now: Instant, address: IpAddr) -> bool {
        #[expect(clippy::cast_possible_truncation, reason = "a part of the hash is enough")]
        let at = self.hash.hash_one(address) as usize % BUCKETS;
        let Some(full_at) = self.full_at.get_mut(at) else { return false };
        self.limit.full_at = *full_at;
        let allowed = self.limit.take(now);
        *full_at = self.limit.full_at;
        allowed
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;
    use crate::secret::Secret;

    #[test]
    fn each_address_has_a_bucket() {
        let mut limits = RateLimits::new(Secret::new(&[7; 16]).tables(), 10, 3);
        let start = Instant::from_nanos(5_000_000_000);
        let address = |n: u8| IpAddr::V4(Ipv4Addr::new(192, 0, 2, n));
        assert_eq!((0..9).filter(|_| limits.take(start, address(1))).count(), 3);
        let others = (2..102).filter(|n| limits.take(start, address(*n))).count();
        assert!(others > 98, "{others}");
    }

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
