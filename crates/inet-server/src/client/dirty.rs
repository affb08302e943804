//! The set of a client's places to look at. Taking the next one costs the same whether thousands
//! wait or none.

/// Words of places: a bit for each of 65,536.
const MOST_WORDS: usize = 1024;

/// A set of places. They are taken in rounds; a round begins where the one before ended.
pub(crate) struct DirtySet {
    /// As many as the highest place that was ever added needs.
    words: Vec<u64>,
    /// Bit `i % 64` of word `i / 64`: `words[i]` is not 0.
    summary: [u64; MOST_WORDS / 64],
    /// Bit `i`: `summary[i]` is not 0.
    top: u64,
    /// Most words.
    most: usize,
    /// The place after the last one taken.
    next: usize,
}

impl DirtySet {
    /// An empty set, for `words` times 64 places, at most 65,536.
    pub(crate) fn new(words: usize) -> Self {
        let summary = [0; MOST_WORDS / 64];
        Self { words: Vec::new(), summary, top: 0, most: words.min(MOST_WORDS), next: 0 }
    }

    /// Adds places of one word. A word that does not exist is ignored.
    #[inline]
    pub(crate) fn add(&mut self, word: usize, bits: u64) {
        if bits == 0 {
            return;
        }
        if word >= self.words.len() && !self.grow(word) {
            return;
        }
        if let Some(to) = self.words.get_mut(word)
            && let Some(summary) = self.summary.get_mut(word / 64)
        {
            *to |= bits;
            *summary |= 1 << (word % 64);
            self.top |= 1 << (word / 64);
        }
    }

    #[cold]
    fn grow(&mut self, word: usize) -> bool {
        if word < self.most {
            self.words.resize(word + 1, 0);
        }
        word < self.most
    }

    /// Is the set empty?
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.top == 0
    }

    /// Takes the next place.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<u16> {
        if self.top == 0 {
            return None;
        }
        let place = self.first_from(self.next).or_else(|| self.first_from(0))?;
        let (word, group) = (place / 64, place / (64 * 64));
        let (left, summary) = (self.words.get_mut(word)?, self.summary.get_mut(group)?);
        *left &= !(1 << (place % 64));
        if *left == 0 {
            *summary &= !(1 << (word % 64));
            if *summary == 0 {
                self.top &= !(1 << group);
            }
        }
        self.next = place + 1;
        u16::try_from(place).ok()
    }

    /// The first place of the set that is `from` or later.
    #[inline]
    fn first_from(&self, from: usize) -> Option<usize> {
        let (word, bit) = (from / 64, from % 64);
        let here = self.words.get(word)? >> bit << bit;
        if here != 0 {
            return Some(word * 64 + here.trailing_zeros() as usize);
        }
        let group = word / 64;
        let later = self.summary.get(group)? & above(word % 64);
        let word = if later == 0 {
            let group = (self.top & above(group)).trailing_zeros() as usize;
            group * 64 + self.summary.get(group)?.trailing_zeros() as usize
        } else {
            group * 64 + later.trailing_zeros() as usize
        };
        Some(word * 64 + self.words.get(word)?.trailing_zeros() as usize)
    }
}

/// All bits above one.
#[inline]
fn above(bit: usize) -> u64 {
    u64::MAX << bit << 1
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

    #[test]
    fn places_of_all_groups_are_taken_in_order() {
        let mut dirty = DirtySet::new(1024);
        for word in [1023, 64, 0, 500] {
            dirty.add(word, 1 << 63 | 1);
        }
        let taken: Vec<_> = std::iter::from_fn(|| dirty.take()).collect();
        assert_eq!(taken, [0, 63, 4096, 4159, 32_000, 32_063, 65_472, 65_535]);
        assert!(dirty.is_empty());
        dirty.add(3, 1);
        assert_eq!(dirty.take(), Some(192), "the round begins again");
    }
}
