//! Randomness that a seed repeats on every machine.

use core::ops::RangeInclusive;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A source of random numbers.
#[derive(Debug, Clone)]
pub struct Random(ChaCha8Rng);

impl Random {
    /// The source that `seed` names.
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Another source. It is independent of later draws from this one.
    pub fn fork(&mut self) -> Self {
        Self::new(self.0.next_u64())
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number of `range`, all equally likely (nearly: the ranges here are small).
    pub fn in_range(&mut self, range: RangeInclusive<u64>) -> u64 {
        let span = range.end() - range.start();
        match span.checked_add(1) {
            Some(count) => range.start() + self.0.next_u64() % count,
            None => self.0.next_u64(),
        }
    }

    /// A number of `range`, all orders of magnitude equally likely.
    pub fn magnitude(&mut self, range: RangeInclusive<u64>) -> u64 {
        let (low, high) = (*range.start() as f64 + 1.0, *range.end() as f64 + 1.0);
        let exponent = low.ln() + (high.ln() - low.ln()) * self.fraction();
        ((exponent.exp() - 1.0) as u64).clamp(*range.start(), *range.end())
    }

    /// A number in 0.0..1.0.
    pub fn fraction(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// `true` with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.fraction() < p
    }
}
