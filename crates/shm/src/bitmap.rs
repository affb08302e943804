//! Which pages of a pool are taken: first fit from low addresses, in private memory.
//!
//! One bit per page, set when taken. `hint` is a lower bound of the first free page, so that the
//! common case (single areas, low pages in use) looks at one word.

/// The taken pages of one pool.
#[derive(Debug)]
pub(crate) struct Bitmap {
    /// Up to the highest page that was ever taken; the others are free.
    words: Vec<u64>,
    pages: u32,
    free: u32,
    hint: u32,
}

impl Bitmap {
    /// All of `pages` pages free.
    pub(crate) fn new(pages: u32) -> Self {
        Self { words: Vec::new(), pages, free: pages, hint: 0 }
    }

    /// Number of free pages.
    pub(crate) fn free(&self) -> u32 {
        self.free
    }

    /// Takes the first run of `count` free pages.
    pub(crate) fn take(&mut self, count: u16) -> Option<u32> {
        let count = u32::from(count);
        if count == 0 || count > self.free {
            return None;
        }
        self.hint = self.next(self.hint, false);
        let mut start = self.hint;
        while start < self.pages && count <= self.pages - start {
            let end = self.next_within(start, start + count);
            if end - start == count {
                self.set(start, count);
                return Some(start);
            }
            start = self.next(end, false);
        }
        None
    }

    /// Marks pages taken, all of which must be free and inside.
    pub(crate) fn set(&mut self, page: u32, count: u32) {
        let words = (page + count).div_ceil(64) as usize;
        if self.words.len() < words {
            self.words.resize(words, 0);
        }
        self.each(page, count, |word, mask| {
            debug_assert_eq!(*word & mask, 0, "pages taken twice");
            *word |= mask;
        });
        self.free -= count;
        if page == self.hint {
            self.hint = page + count;
        }
    }

    /// Marks pages free, all of which must be taken and inside.
    pub(crate) fn clear(&mut self, page: u32, count: u32) {
        self.each(page, count, |word, mask| {
            debug_assert_eq!(*word & mask, mask, "pages freed twice");
            *word &= !mask;
        });
        self.free += count;
        self.hint = self.hint.min(page);
    }

    /// The first taken page from `page` on.
    pub(crate) fn next_taken(&self, page: u32) -> Option<u32> {
        Some(self.next(page, true)).filter(|page| *page < self.pages)
    }

    /// The first page from `page` on that is taken (or free); the number of pages if there is none.
    fn next(&self, page: u32, taken: bool) -> u32 {
        let mut index = (page / 64) as usize;
        let mut mask = u64::MAX << (page % 64);
        while let Some(&word) = self.words.get(index) {
            let found = (if taken { word } else { !word }) & mask;
            if found != 0 {
                let bit = u32::try_from(index).unwrap_or(u32::MAX / 64) * 64;
                return (bit + found.trailing_zeros()).min(self.pages);
            }
            mask = u64::MAX;
            index += 1;
        }
        let known = u32::try_from(self.words.len()).unwrap_or(u32::MAX / 64) * 64;
        if taken { self.pages } else { page.max(known).min(self.pages) }
    }

    /// The first taken page in `page..end`, or `end`.
    fn next_within(&self, page: u32, end: u32) -> u32 {
        let mut at = page;
        while at < end {
            let word = self.words.get((at / 64) as usize).copied().unwrap_or(0);
            let run = (word >> (at % 64)).trailing_zeros().min(64 - at % 64);
            at += run;
            if !at.is_multiple_of(64) || run == 0 {
                break;
            }
        }
        at.min(end)
    }

    fn each(&mut self, page: u32, count: u32, mut change: impl FnMut(&mut u64, u64)) {
        for (index, mask) in masks(page, count) {
            if let Some(word) = self.words.get_mut(index) {
                change(word, mask);
            }
        }
    }
}

/// The words and bits of `count` pages from `page` on.
pub(crate) fn masks(page: u32, count: u32) -> impl Iterator<Item = (usize, u64)> {
    let (mut at, end) = (u64::from(page), u64::from(page) + u64::from(count));
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let bit = at % 64;
        let bits = (64 - bit).min(end - at);
        let word = usize::try_from(at / 64).ok()?;
        at += bits;
        Some((word, (u64::MAX >> (64 - bits)) << bit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_cover_exactly_the_pages() {
        for page in [0_u32, 1, 63, 64, 100] {
            for count in [1_u32, 2, 63, 64, 65, 130, 300] {
                let bits: Vec<u64> = masks(page, count)
                    .flat_map(|(word, mask)| {
                        (0..64)
                            .filter(move |b| mask >> b & 1 == 1)
                            .map(move |b| word as u64 * 64 + b)
                    })
                    .collect();
                let expected: Vec<u64> = (page..page + count).map(u64::from).collect();
                assert_eq!(bits, expected, "page {page} count {count}");
            }
        }
        assert_eq!(masks(5, 0).count(), 0);
    }

    #[test]
    fn first_fit_and_the_last_page() {
        let mut map = Bitmap::new(130);
        assert_eq!(map.take(64), Some(0));
        assert_eq!(map.take(66), Some(64));
        assert_eq!((map.take(1), map.free()), (None, 0));
        map.clear(60, 10);
        map.clear(129, 1);
        assert_eq!(map.take(11), None);
        assert_eq!(map.take(10), Some(60));
        assert_eq!(map.take(1), Some(129));
        assert_eq!(map.take(0), None);
    }

    #[test]
    fn runs_agree_with_a_naive_search() {
        // A fixed linear congruential generator: any mixture of holes will do.
        let mut state = 1_u32;
        let mut random = move |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % below
        };
        let pages = 300;
        let mut map = Bitmap::new(pages);
        let mut taken = vec![false; pages as usize];
        let mut held = Vec::new();
        for _ in 0..20_000 {
            if random(2) == 0 {
                let count = u16::try_from(1 + random(90)).unwrap();
                let n = usize::from(count);
                let expected = taken.windows(n).position(|w| w.iter().all(|t| !t));
                let got = map.take(count);
                assert_eq!(got.map(|p| p as usize), expected);
                if let Some(page) = got {
                    taken[page as usize..page as usize + n].fill(true);
                    held.push((page, count));
                }
            } else if !held.is_empty() {
                let (page, count) = held.swap_remove(random(held.len() as u32) as usize);
                map.clear(page, count.into());
                taken[page as usize..page as usize + usize::from(count)].fill(false);
            }
            assert_eq!(map.free() as usize, taken.iter().filter(|t| !**t).count());
        }
    }
}
