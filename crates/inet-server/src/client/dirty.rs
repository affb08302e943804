//! The set of a client's places to look at. Taking the next one costs the same whether thousands
//! wait or none.

/// A set of places. They are taken in rounds; a round begins where the one before ended.
pub(crate) struct DirtySet {
    words: Box<[u64]>,
    /// Bit `i`: `words[i]` is not 0.
    summary: u64,
    /// The place after the last one taken.
    next: usize,
}

impl DirtySet {
    /// An empty set, for `words` times 64 places, at most 4,096.
    pub(crate) fn new(words: usize) -> Self {
        Self { words: vec![0; words.min(64)].into_boxed_slice(), summary: 0, next: 0 }
    }

    /// Adds places of one word. A word that does not exist is ignored.
    pub(crate) fn add(&mut self, word: usize, bits: u64) {
        if let Some(to) = self.words.get_mut(word)
            && bits != 0
        {
            *to |= bits;
            self.summary |= 1 << word;
        }
    }

    /// Is the set empty?
    pub(crate) fn is_empty(&self) -> bool {
        self.summary == 0
    }

    /// Takes the next place.
    pub(crate) fn take(&mut self) -> Option<u16> {
        if self.summary == 0 {
            return None;
        }
        let (word, bit) = (self.next / 64, self.next % 64);
        let here = self.words.get(word).map_or(0, |bits| bits >> bit << bit);
        let (word, bits) = if here != 0 {
            (word, here)
        } else {
            let later = self.summary & (u64::MAX << word << 1);
            let round = if later != 0 { later } else { self.summary };
            let word = round.trailing_zeros() as usize;
            (word, self.words.get(word).copied()?)
        };
        let bit = bits.trailing_zeros() as usize;
        let left = self.words.get_mut(word)?;
        *left &= !(1 << bit);
        if *left == 0 {
            self.summary &= !(1 << word);
        }
        let place = word * 64 + bit;
        self.next = if place + 1 < self.words.len() * 64 { place + 1 } else { 0 };
        u16::try_from(place).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_taken_in_rounds() {
        let mut dirty = DirtySet::new(3);
        assert_eq!(dirty.take(), None);
        dirty.add(1, 0b11);
        dirty.add(2, 1 << 63);
        assert_eq!((dirty.take(), dirty.take()), (Some(64), Some(65)));
        // One that comes again waits for the others.
        dirty.add(1, 0b1);
        dirty.add(0, 1 << 7);
        let taken: Vec<_> = std::iter::from_fn(|| dirty.take()).collect();
        assert_eq!(taken, [191, 7, 64]);
        assert!(dirty.is_empty());
        dirty.add(1, 0b1);
        assert_eq!(dirty.take(), Some(64), "the only one, though its place was before");
    }

    #[test]
    fn places_that_there_are_not_are_ignored() {
        let mut dirty = DirtySet::new(1);
        dirty.add(1, u64::MAX);
        dirty.add(0, 0);
        assert!(dirty.is_empty());
    }

    #[test]
    fn the_most_places_there_are() {
        let mut dirty = DirtySet::new(64);
        dirty.add(63, u64::MAX);
        let taken: Vec<_> = std::iter::from_fn(|| dirty.take()).collect();
        assert_eq!(taken, (4032..4096).collect::<Vec<_>>());
        dirty.add(63, 1 << 63);
        assert_eq!(dirty.take(), Some(4095));
        dirty.add(63, 1 << 63);
        dirty.add(0, 1);
        assert_eq!(dirty.take(), Some(0));
    }
}
