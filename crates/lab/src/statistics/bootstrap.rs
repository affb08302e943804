//! Intervals of medians by the percentile bootstrap, with a seeded generator.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::median::{median, quantile_of_sorted};

/// How often samples are drawn again.
const RESAMPLES: usize = 2000;
/// With more samples than this, order statistics by the normal approximation give the same
/// interval for less work.
const MANY: usize = 400;
/// Any number: it makes results reproducible.
const SEED: u64 = 0x7a5u64;
/// The part that lies below a 95 % interval, and the part that lies above.
const TAIL: f64 = 0.025;
/// The normal distribution's quantile of it.
const DEVIATIONS: f64 = 1.959_963_984_540_054;

/// A middle value, and where the true one lies by 95 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The median of the samples.
    pub middle: f64,
    /// The interval's lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Interval {
    /// Half of the width, as a part of the middle: 0.05 is "plus or minus 5 %". Infinite around 0.
    #[must_use]
    pub fn relative_half_width(&self) -> f64 {
        let half = (self.high - self.low) / 2.0;
        if half == 0.0 { 0.0 } else { (half / self.middle).abs() }
    }

    /// Does it have this value?
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// The median and its 95 % interval; `None` without samples.
#[must_use]
pub fn median_interval(samples: &[f64]) -> Option<Interval> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = quantile_of_sorted(&sorted, 0.5)?;
    let (low, high) = if sorted.len() > MANY {
        by_order(&sorted)
    } else {
        let mut medians = medians(&sorted, &mut ChaCha8Rng::seed_from_u64(SEED));
        tails(&mut medians)?
    };
    Some(Interval { middle, low, high })
}

/// The ratio of the medians of two independent sets of samples, `after` to `before`, and its 95 %
/// interval. `None` without samples, or where a median of `before` is not above 0.
///
/// Where both were taken in the same rounds, [`median_interval`] of the ratios within rounds is
/// narrower.
#[must_use]
pub fn ratio_interval(after: &[f64], before: &[f64]) -> Option<Interval> {
    let above = median(before).filter(|middle| *middle > 0.0)?;
    let middle = median(after)? / above;
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let (after, before) = (thinned(after), thinned(before));
    let after = medians(&after, &mut random);
    let before = medians(&before, &mut random);
    let mut ratios: Vec<f64> = after
        .iter()
        .zip(&before)
        .filter(|(_, before)| **before > 0.0)
        .map(|(after, before)| after / before)
        .collect();
    let (low, high) = tails(&mut ratios)?;
    Some(Interval { middle, low, high })
}

/// Medians of samples that are drawn again from these.
fn medians(samples: &[f64], random: &mut ChaCha8Rng) -> Vec<f64> {
    let mut drawn = vec![0.0; samples.len()];
    let one = |_| {
        drawn.fill_with(|| samples[random.random_range(0..samples.len())]);
        middle_of(&mut drawn)
    };
    if samples.is_empty() { Vec::new() } else { (0..RESAMPLES).map(one).collect() }
}

/// The median of values, of which there is one at least, without sorting all of them.
fn middle_of(values: &mut [f64]) -> f64 {
    let half = values.len() / 2;
    let is_even = values.len().is_multiple_of(2);
    let (below, upper, _) = values.select_nth_unstable_by(half, f64::total_cmp);
    let upper = *upper;
    if is_even {
        let lower = below.iter().copied().max_by(f64::total_cmp).unwrap_or(upper);
        f64::midpoint(lower, upper)
    } else {
        upper
    }
}

fn tails(values: &mut [f64]) -> Option<(f64, f64)> {
    values.sort_unstable_by(f64::total_cmp);
    Some((quantile_of_sorted(values, TAIL)?, quantile_of_sorted(values, 1.0 - TAIL)?))
}

/// The ranks between which the median lies by 95 %: the number of samples below it is binomial.
fn by_order(sorted: &[f64]) -> (f64, f64) {
    let count = sorted.len() as f64;
    let away = DEVIATIONS * count.sqrt() / 2.0;
    let low = (count / 2.0 - away).floor().max(0.0) as usize;
    let high = ((count / 2.0 + away).ceil() as usize).min(sorted.len() - 1);
    (sorted[low], sorted[high])
}

/// At most [`MANY`] samples with the same distribution: every k-th in order.
fn thinned(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let step = sorted.len().div_ceil(MANY).max(1);
    sorted.into_iter().skip(step / 2).step_by(step).collect()
}
