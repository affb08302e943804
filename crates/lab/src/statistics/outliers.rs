//! How many samples lie far away from the others.

use super::median::quantile_of_sorted;

/// How far the fences are from the quartiles, in interquartile ranges (Tukey 1977).
const FENCE: f64 = 1.5;
/// Quartiles of fewer samples say nothing.
const FEWEST: usize = 5;

/// How many of them lie beyond Tukey's fences: more than 1.5 interquartile ranges below the lower
/// quartile or above the upper one. Of fewer than five samples there is none.
///
/// They are counted for the reader and stay where they are: medians and intervals have them in.
#[must_use]
pub fn outliers(values: &[f64]) -> usize {
    if values.len() < FEWEST {
        return 0;
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let quartile = |at| quantile_of_sorted(&sorted, at);
    let (Some(lower), Some(upper)) = (quartile(0.25), quartile(0.75)) else { return 0 };
    let room = FENCE * (upper - lower);
    let is_beyond = |value: &&f64| **value < lower - room || **value > upper + room;
    sorted.iter().filter(is_beyond).count()
}
