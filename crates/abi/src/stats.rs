//! Sizes of batches, as servers count them for `tasuki stats`.
//!
//! A [`Sizes`] is plain memory of the counting process: each batch costs one addition to the sum
//! and one to a bucket. It crosses a control connection only on request, as a [`Histogram`].

use serde::{Deserialize, Serialize};

/// Buckets of a histogram. The first counts batches of 1. Bucket `i` counts batches of more than
/// `2^(i-1)` and at most `2^i`. The last one counts all larger batches.
pub const BUCKETS: usize = 12;

/// Counts batches of one kind by their size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sizes {
    sum: u64,
    buckets: [u64; BUCKETS],
}

impl Sizes {
    /// Counts a batch of `size`; an empty batch does not count.
    pub fn add(&mut self, size: usize) {
        if size == 0 {
            return;
        }
        let bucket = (usize::BITS - (size - 1).leading_zeros()) as usize;
        self.sum += size as u64;
        self.buckets[bucket.min(BUCKETS - 1)] += 1;
    }

    /// The counts so far, under a name.
    #[must_use]
    pub fn histogram(&self, name: &str) -> Histogram {
        Histogram { name: name.to_owned(), sum: self.sum, buckets: self.buckets.to_vec() }
    }
}

/// Sizes of batches, as a server reports them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// Such as `nic.rx-per-step`; see docs/reference/counters.md.
    pub name: String,
    /// All sizes together.
    pub sum: u64,
    /// Batches by size, [`BUCKETS`] numbers.
    pub buckets: Vec<u64>,
}

impl Histogram {
    /// Batches in all.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, &bucket| sum.saturating_add(bucket))
    }

    /// The largest size in bucket `index`; `None` for the last one, which has no end.
    #[must_use]
    pub fn most(index: usize) -> Option<u64> {
        (index + 1 < BUCKETS).then(|| 1 << index)
    }

    /// Adds the counts of another process under the same name.
    pub fn merge(&mut self, other: &Self) {
        self.sum = self.sum.saturating_add(other.sum);
        for (ours, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *ours = ours.saturating_add(*theirs);
        }
    }
}

/// Is a counter of this name a duration of the present, in nanoseconds? Those of several drivers
/// are not added up; the longest counts.
#[must_use]
pub fn is_duration(name: &str) -> bool {
    name.ends_with("-ns")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_has_its_bucket() {
        let mut sizes = Sizes::default();
        for size in [0, 1, 2, 3, 4, 5, 64, 65, 1024, 1025, usize::MAX >> 1] {
            sizes.add(size);
        }
        let histogram = sizes.histogram("x");
        assert_eq!(histogram.buckets, [1, 1, 2, 1, 0, 0, 1, 1, 0, 0, 1, 2]);
        assert_eq!(histogram.count(), 10);
        assert_eq!((Histogram::most(0), Histogram::most(10)), (Some(1), Some(1024)));
        assert_eq!(Histogram::most(BUCKETS - 1), None);
    }

    #[test]
    fn two_processes_are_one_histogram() {
        let (mut a, mut b) = (Sizes::default(), Sizes::default());
        a.add(3);
        b.add(4);
        b.add(9);
        let mut all = a.histogram("x");
        all.merge(&b.histogram("x"));
        assert_eq!((all.sum, all.count(), all.buckets[2]), (16, 3, 2));
    }

    #[test]
    fn durations_are_told_by_their_unit() {
        assert!(is_duration("server.spin-bound-ns"));
        assert!(!is_duration("server.spins-won"));
    }
}
