//! Initialization vectors.
//!
//! A combined cipher breaks when a vector is used twice with one key (RFC 4106 3.1). Keys are set
//! by hand, so they outlive a server. The owner of the key therefore reserves a block of vectors
//! for each association, on the disk, and no vector is outside the block. The first bit differs in
//! the two directions, for those who use one key in both.
//!
//! The vectors of block ciphers must not be predictable (RFC 3602 3). They are the system's random
//! numbers.

use std::net::IpAddr;

use abi::xfrm::XfrmVectors;
use rustix::rand::{GetRandomFlags, getrandom};

/// The first bit of a vector: which of the two directions.
const DIRECTION: u64 = 1 << 63;

/// Counted vectors of one association.
#[derive(Debug)]
pub(crate) struct Counted {
    next: u64,
    end: u64,
    direction: u64,
}

impl Counted {
    /// The reserved vectors, for packets from `source` to `destination`.
    pub(crate) fn new(reserved: XfrmVectors, source: IpAddr, destination: IpAddr) -> Self {
        let direction = if source > destination { DIRECTION } else { 0 };
        Self { next: reserved.first, end: reserved.end.min(DIRECTION), direction }
    }

    /// The vectors from `first` on.
    #[cfg(test)]
    pub(crate) fn exactly(first: u64) -> Self {
        Self { next: first & !DIRECTION, end: DIRECTION, direction: first & DIRECTION }
    }

    /// The next vector; `None` if there is none left.
    pub(crate) fn next(&mut self) -> Option<[u8; 8]> {
        if self.next >= self.end {
            return None;
        }
        let vector = self.direction | self.next;
        self.next += 1;
        Some(vector.to_be_bytes())
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
