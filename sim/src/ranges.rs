//! A set of places in a stream, as ranges that neither touch nor overlap.

use std::collections::BTreeMap;

/// The set.
#[derive(Debug, Clone, Default)]
pub struct Ranges(BTreeMap<i64, i64>);

impl Ranges {
    /// Adds `start..end`.
    pub fn add(&mut self, mut start: i64, mut end: i64) {
        if start >= end {
            return;
        }
        while let Some((&from, &to)) = self.0.range(..=end).next_back() {
            if to < start {
                break;
            }
            (start, end) = (start.min(from), end.max(to));
            self.0.remove(&from);
        }
        self.0.insert(start, end);
    }

    /// Whether all of `start..end` is in the set.
    pub fn covers(&self, start: i64, end: i64) -> bool {
        start >= end || self.0.range(..=start).next_back().is_some_and(|(_, to)| *to >= end)
    }

    /// Whether any of `start..end` is in the set.
    pub fn touches(&self, start: i64, end: i64) -> bool {
        start < end && self.0.range(..end).next_back().is_some_and(|(_, to)| *to > start)
    }

    /// The end of the range that holds `start`; `start` if none does.
    pub fn reach(&self, start: i64) -> i64 {
        let holder = self.0.range(..=start).next_back();
        holder.map_or(start, |(_, to)| (*to).max(start))
    }

    /// Forgets everything before `end`.
    pub fn forget_before(&mut self, end: i64) {
        while let Some((&from, &to)) = self.0.first_key_value()
            && from < end
        {
            self.0.remove(&from);
            if to > end {
                self.0.insert(end, to);
            }
        }
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a plain list of places.
    #[test]
    fn behaves_like_a_list_of_places() {
        let mut random = crate::random::Random::new(5);
        for _ in 0..200 {
            let (mut set, mut list) = (Ranges::default(), [false; 64]);
            for _ in 0..random.in_range(1..=12) {
                let start = random.in_range(0..=63) as usize;
                let end = start + random.in_range(0..=63 - start as u64) as usize;
                set.add(start as i64, end as i64);
                list[start..end].fill(true);
                let from = random.in_range(0..=63) as usize;
                let to = from + random.in_range(0..=63 - from as u64) as usize;
                let part = &list[from..to];
                assert_eq!(set.covers(from as i64, to as i64), part.iter().all(|in_it| *in_it));
                assert_eq!(set.touches(from as i64, to as i64), part.iter().any(|in_it| *in_it));
                let reach = list[from..].iter().position(|in_it| !in_it);
                assert_eq!(set.reach(from as i64), reach.map_or(64, |len| from + len) as i64);
            }
        }
    }
}
