//! Marks: a set of small numbers in a region. One side adds numbers, the other side takes them.
//!
//! The set is a bitmap with a summary, which has a bit for each word of the bitmap. So taking costs
//! time for the marks that are there, not for all numbers there could be. The marker sets the
//! number's bit, and then the word's bit in the summary unless that is set. The taker clears the
//! summary, and then each word that the summary named.
//!
//! No mark is lost. If the marker finds the summary's bit set, the taker will take that bit later,
//! and the word after it. Suppose the word was taken before the number's bit came into it. Then the
//! exchange that set the bit would have read the taker's value, and the marker would see the
//! summary as the taker left it. A word may be found empty: then it was taken together with an
//! earlier mark. The model check is `loom_models`.
//!
//! A hostile marker can name numbers that do not exist. A hostile taker can lose marks that are for
//! itself.

use crate::sync::{Ordering, Word64};

/// See the module's head. At most 4,096 numbers.
#[derive(Debug, Clone)]
pub struct Marks {
    /// Bit `i`: some bit of `words[i]` is set, or was.
    pub summary: Word64,
    /// Bit `n` of word `i`: the number `64 * i + n` is marked.
    pub words: Box<[Word64]>,
}

impl Marks {
    /// Marks a number, after what it stands for was published. One that there is none of is
    /// ignored.
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

    /// Takes all marks, before what they stand for is looked at: `each` gets the place of a word,
    /// and its bits.
    pub fn take(&self, mut each: impl FnMut(usize, u64)) {
        // Looked at without taking the cache line: mostly there is nothing.
        if self.summary.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut summary = self.summary.swap(0, Ordering::SeqCst);
        while summary != 0 {
            let word = summary.trailing_zeros() as usize;
            summary &= summary - 1;
            if let Some(bits) = self.words.get(word) {
                each(word, bits.swap(0, Ordering::SeqCst));
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Backing, Region};

    fn marks(words: usize) -> Marks {
        let (region, _) = Region::create("marks", 4096, Backing::Small).unwrap();
        let word = |at: usize| region.word64(64 + 8 * at).unwrap();
        Marks { summary: region.word64(0).unwrap(), words: (0..words).map(word).collect() }
    }

    fn taken(marks: &Marks) -> Vec<usize> {
        let mut all = Vec::new();
        marks.take(|word, bits| {
            all.extend((0..64).filter(|n| bits >> n & 1 == 1).map(|n| word * 64 + n));
        });
        all
    }

    #[test]
    fn what_is_marked_is_taken_once() {
        let marks = marks(3);
        assert!(marks.is_empty());
        for number in [191, 0, 64, 63, 0] {
            marks.set(number);
        }
        assert!(!marks.is_empty());
        assert_eq!(taken(&marks), [0, 63, 64, 191]);
        assert!(marks.is_empty());
        assert_eq!(taken(&marks), []);
    }

    #[test]
    fn numbers_that_there_are_not_are_ignored() {
        let marks = marks(1);
        marks.set(64);
        marks.set(u16::MAX);
        assert!(marks.is_empty());
        marks.summary.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(taken(&marks), []);
    }

    #[test]
    fn two_threads_lose_none() {
        let marks = marks(2);
        let marker = marks.clone();
        let thread =
            std::thread::spawn(move || (0..100_000_u32).for_each(|n| marker.set((n % 128) as u16)));
        let mut seen = [0_u64; 2];
        while seen != [u64::MAX; 2] || !thread.is_finished() {
            marks.take(|word, bits| seen[word] |= bits);
        }
        thread.join().unwrap();
    }
}
