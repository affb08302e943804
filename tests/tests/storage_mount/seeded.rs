//! Numbers from a seed, so that a run can be repeated.

use std::time::Duration;

/// Numbers from a seed (xorshift).
pub(crate) struct Seeded(pub(crate) u64);

impl Seeded {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    pub(crate) fn pause(&mut self, most: u64) {
        std::thread::sleep(Duration::from_millis(self.below(most)));
    }
}
