//! Random numbers out of a seed (SplitMix64).

/// A source of random numbers.
pub(crate) struct Random(u64);

impl Random {
    /// The numbers of this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let end = end.max(1) as u64;
        usize::try_from(self.next() % end).unwrap_or_default()
    }

    /// As [`Random::below`], for places in tables.
    pub(crate) fn below16(&mut self, end: u16) -> u16 {
        u16::try_from(self.below(end.into())).unwrap_or_default()
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of these.
    pub(crate) fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// A word that finds mistakes: a bound, a near miss of the word that was there, or any word.
    pub(crate) fn word(&mut self, now: u64) -> u64 {
        match self.below(12) {
            0 => 0,
            1 => 1,
            2 => u64::MAX,
            3 => u64::from(u32::MAX),
            4 => 1 << self.below(64),
            5 => now.wrapping_add(1),
            6 => now.wrapping_sub(1),
            7 => now.wrapping_add(1 << self.below(20)),
            8 => now ^ 1 << self.below(64),
            9 => now | u64::MAX << 32,
            10 => self.next() & 0xffff,
            _ => self.next(),
        }
    }

    /// Random bytes.
    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}
