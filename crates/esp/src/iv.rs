//! Initialization vectors.
//!
//! A combined cipher breaks when a vector is used twice with one key (RFC 4106 3.1). Keys are set
//! by hand, so they outlive a server. The vectors therefore count from the time of day, in
//! nanoseconds: a server that starts again begins beyond all that its predecessor can have used,
//! because no server sends a packet in a nanosecond. An association that is added again in the same
//! server begins beyond those of all others, whatever the clock says. The first bit differs in the
//! two directions, for those who use one key in both.
//!
//! The vectors of block ciphers must not be predictable (RFC 3602 3). They are the system's random
//! numbers.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::rand::{GetRandomFlags, getrandom};
use rustix::time::{ClockId, clock_gettime};

use crate::error::CipherRefusal;

/// 2020-01-01, seconds since 1970.
const EARLIEST: u64 = 1_577_836_800;
/// The first bit of a vector: which of the two directions.
const DIRECTION: u64 = 1 << 63;

/// A number beyond all counted vectors of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Counted vectors of one association.
#[derive(Debug)]
pub(crate) struct Counted {
    next: u64,
    direction: u64,
}

impl Counted {
    /// The vectors of packets from `source` to `destination`.
    pub(crate) fn new(source: IpAddr, destination: IpAddr) -> Result<Self, CipherRefusal> {
        let now = clock_gettime(ClockId::Realtime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        if seconds < EARLIEST {
            return Err(CipherRefusal::Clock);
        }
        let nanos = seconds.saturating_mul(1_000_000_000) + now.tv_nsec.unsigned_abs();
        let next = nanos.max(NEXT.load(Ordering::Relaxed));
        Ok(Self { next, direction: if source > destination { DIRECTION } else { 0 } })
    }

    /// The vectors from `first` on.
    #[cfg(test)]
    pub(crate) fn exactly(first: u64) -> Self {
        Self { next: first & !DIRECTION, direction: first & DIRECTION }
    }

    /// The next vector; `None` if there is none left.
    pub(crate) fn next(&mut self) -> Option<[u8; 8]> {
        if self.next >= DIRECTION {
            return None;
        }
        let vector = self.direction | self.next;
        self.next += 1;
        Some(vector.to_be_bytes())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        NEXT.fetch_max(self.next, Ordering::Relaxed);
    }
}

/// Bytes of random numbers that are fetched at once.
const POOL: usize = 4096;

/// Random vectors of one association.
#[derive(Debug)]
pub(crate) struct Random {
    pool: Vec<u8>,
    used: usize,
}

impl Random {
    pub(crate) fn new() -> Self {
        Self { pool: Vec::new(), used: 0 }
    }

    /// Fills a vector; `None` if the system has no random numbers.
    pub(crate) fn fill(&mut self, vector: &mut [u8]) -> Option<()> {
        if self.pool.len() - self.used < vector.len() {
            self.pool.resize(POOL, 0);
            let mut filled = 0;
            while filled < POOL {
                let rest = self.pool.get_mut(filled..)?;
                filled += getrandom(rest, GetRandomFlags::empty()).ok()?;
            }
            self.used = 0;
        }
        let end = self.used + vector.len();
        let taken = self.pool.get_mut(self.used..end)?;
        vector.copy_from_slice(taken);
        taken.fill(0);
        self.used = end;
        Some(())
    }
}
