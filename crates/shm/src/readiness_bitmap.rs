//! The readiness bitmap: a set of small numbers (sockets with news) in a region. The producer adds
//! numbers, the consumer takes them.
//!
//! The bitmap has a summary word. Bit `i` stands for the words `i`, `i + 64`, `i + 128` and so on.
//! So taking costs time for the numbers in the set, not for all that there could be. The producer
//! sets the number's bit, and then the word's bit in the summary unless that is set. The consumer
//! clears the summary, and then each word that the summary named. It says below which number its
//! own numbers lie, and skips the words above. So 4,096 numbers cost one word for each bit of the
//! summary, and 65,536 numbers cost 16.
//!
//! No number is lost. If the producer finds the summary's bit set, the consumer will take that bit
//! later, and the word after it. Suppose the word was taken before the number's bit came into it.
//! Then the exchange that set the bit would have read the consumer's value, and the producer would
//! see the summary as the consumer left it. A word may be found empty: then it was taken together
//! with an earlier number. The model check is `loom_models`.
//!
//! A hostile producer can name numbers that do not exist. A hostile consumer can lose numbers that
//! are for itself.

use crate::sync::{Ordering, Word64, Words64};

/// See the module's head. At most 65,536 numbers.
#[derive(Debug, Clone)]
pub struct ReadinessBitmap {
    /// Bit `i`: some bit of `words[i + 64 * n]` is set, or was, for some `n`.
    pub summary: Word64,
    /// Bit `n` of word `i`: the number `64 * i + n` is in the set.
    pub words: Words64,
}

impl ReadinessBitmap {
    /// Adds a number. Its news must be published before. A number above the last is ignored.
    #[inline]
    pub fn set(&self, number: u16) {
        let (word, bit) = (usize::from(number / 64), 1 << (number % 64));
        let Some(bits) = self.words.get(word) else { return };
        bits.fetch_or(bit, Ordering::SeqCst);
        let named = 1 << (word % 64);
        if self.summary.load(Ordering::SeqCst) & named == 0 {
            self.summary.fetch_or(named, Ordering::SeqCst);
        }
    }

    /// Is there nothing to take?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.summary.load(Ordering::SeqCst) == 0
    }

    /// Takes all numbers below `below`, rounded up to a whole word: `each` gets the index of a
    /// word, and its bits. Look at the news of a number only after this. Higher numbers may be
    /// lost; the caller knows that there are none.
    #[inline]
    pub fn take(&self, below: usize, mut each: impl FnMut(usize, u64)) {
        // Looked at without taking the cache line: mostly there is nothing.
        if self.summary.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut summary = self.summary.swap(0, Ordering::SeqCst);
        let words = &self.words[..self.words.len().min(below.div_ceil(64))];
        while summary != 0 {
            let mut word = summary.trailing_zeros() as usize;
            summary &= summary - 1;
            while let Some(bits) = words.get(word) {
                each(word, bits.swap(0, Ordering::SeqCst));
                word += 64;
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Backing, Region};

    fn bitmap(words: usize) -> ReadinessBitmap {
        let (region, _) = Region::create("bitmap", 3 * 4096, Backing::Small).unwrap();
        let words = Words64::in_region(&region, 64, words).unwrap();
        ReadinessBitmap { summary: region.word64(0).unwrap(), words }
    }

    fn taken(bitmap: &ReadinessBitmap) -> Vec<usize> {
        let mut all = Vec::new();
        bitmap.take(usize::MAX, |word, bits| {
            all.extend((0..64).filter(|n| bits >> n & 1 == 1).map(|n| word * 64 + n));
        });
        all
    }

    #[test]
    fn a_number_that_is_set_is_taken_once() {
        let bitmap = bitmap(3);
        assert!(bitmap.is_empty());
        for number in [191, 0, 64, 63, 0] {
            bitmap.set(number);
        }
        assert!(!bitmap.is_empty());
        assert_eq!(taken(&bitmap), [0, 63, 64, 191]);
        assert!(bitmap.is_empty());
        assert_eq!(taken(&bitmap), []);
    }

    #[test]
    fn numbers_above_the_last_are_ignored() {
        let bitmap = bitmap(1);
        bitmap.set(64);
        bitmap.set(u16::MAX);
        assert!(bitmap.is_empty());
        bitmap.summary.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(taken(&bitmap), []);
    }

    #[test]
    fn numbers_that_share_a_bit_of_the_summary_are_all_taken() {
        let bitmap = bitmap(1024);
        for number in [3, 4096 + 3, 65_535, 64] {
            bitmap.set(number);
        }
        let mut looks = 0;
        bitmap.take(4096, |_, _| looks += 1);
        assert_eq!(looks, 3, "a word for each bit: 0, 1 and 63");
        bitmap.set(3);
        bitmap.set(65_535);
        assert_eq!(taken(&bitmap), [3, 4096 + 3, 65_535]);
        assert!(bitmap.is_empty());
    }

    #[test]
    fn two_threads_lose_none() {
        let bitmap = bitmap(2);
        let producer = bitmap.clone();
        let thread = std::thread::spawn(move || {
            (0..100_000_u32).for_each(|n| producer.set((n % 128) as u16));
        });
        let mut seen = [0_u64; 2];
        while seen != [u64::MAX; 2] || !thread.is_finished() {
            bitmap.take(128, |word, bits| seen[word] |= bits);
        }
        thread.join().unwrap();
    }
}
