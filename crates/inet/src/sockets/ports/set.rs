//! A set of ephemeral ports: a bit for each, by its number in the range.

use alloc::boxed::Box;
use alloc::vec;

/// A set of ephemeral ports.
#[derive(Debug)]
pub(super) struct PortSet(Box<[u64]>);

impl PortSet {
    /// An empty set of numbers below `count`.
    pub(super) fn new(count: u32) -> Self {
        Self(vec![0; count.div_ceil(64) as usize].into())
    }

    #[inline]
    pub(super) fn has(&self, number: u32) -> bool {
        self.word(number as usize / 64) >> (number % 64) & 1 != 0
    }

    /// Adds a number or removes it. Returns whether that changed anything.
    #[inline]
    pub(super) fn set(&mut self, number: u32, on: bool) -> bool {
        let Some(word) = self.0.get_mut(number as usize / 64) else { return false };
        let before = *word;
        let bit = 1 << (number % 64);
        *word = if on { before | bit } else { before & !bit };
        *word != before
    }

    /// 64 numbers.
    #[inline]
    pub(super) fn word(&self, at: usize) -> u64 {
        self.0.get(at).copied().unwrap_or(0)
    }
}

/// The first of the numbers below `count` whose bit is clear in `blocked`, from `from` on and
/// around the end. It looks at each word of 64 numbers at most twice.
pub(super) fn next_clear(count: u32, from: u32, blocked: impl Fn(usize) -> u64) -> Option<u32> {
    let words = count.div_ceil(64);
    let (first, bit) = (from / 64, from % 64);
    (0..=words).find_map(|n| {
        let at = (first + n) % words.max(1);
        let mut clear = !blocked(at as usize);
        if n == 0 {
            clear &= !0 << bit;
        }
        if n == words {
            clear &= !(!0 << bit);
        }
        if at + 1 == words && !count.is_multiple_of(64) {
            clear &= !(!0 << (count % 64));
        }
        (clear != 0).then(|| at * 64 + clear.trailing_zeros())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_next_number_around_the_end() {
        let mut set = PortSet::new(130);
        let next = |set: &PortSet, from| next_clear(130, from, |at| set.word(at));
        assert_eq!(next(&set, 129), Some(129));
        assert!((0..130).all(|number| set.set(number, true)));
        assert!(!set.set(7, true));
        assert_eq!((0..130).find_map(|from| next(&set, from)), None);
        for clear in [0, 63, 64, 100, 127, 128, 129] {
            assert!(set.has(clear) && set.set(clear, false) && !set.has(clear));
            assert!((0..130).all(|from| next(&set, from) == Some(clear)), "{clear}");
            set.set(clear, true);
        }
    }
}
