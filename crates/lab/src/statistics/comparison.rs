//! Is there a difference between two sets of samples, and between which of many pairs of sets?
//!
//! [`difference`] is Yuen's test: Welch's t test on means without the least and the greatest fifth
//! of the samples. An outlier in one set neither hides a difference nor makes one.
//! [`distance`] is the same for one set, whose mean is compared with 0.
//! [`adjusted`] is the method of Benjamini and Hochberg (1995). Of a thousand points without any
//! change, fifty have `p < 0.05`. Adjusted, a file without any change has one such point in one
//! of twenty comparisons, and where much has changed, small changes are still seen.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// The part of the samples that is left out at each end.
const TRIMMED: f64 = 0.2;
/// Fewer samples than this have no spread that could be relied on.
const LEAST: usize = 3;

/// How likely a difference this large is between samples of the same distribution (two-sided
/// p-value, 0 to 1). `None` with fewer than three samples in one of the sets.
#[must_use]
pub fn difference(one: &[f64], other: &[f64]) -> Option<f64> {
    let (one, other) = (Trimmed::new(one)?, Trimmed::new(other)?);
    let error = one.error + other.error;
    let distance = (one.mean - other.mean).abs();
    if error <= 0.0 {
        // All samples agree, as counts do.
        return Some(if distance == 0.0 { 1.0 } else { 0.0 });
    }
    let part = |it: &Trimmed| it.error * it.error / it.freedom;
    let freedom = error * error / (part(&one) + part(&other));
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some((2.0 * student.sf(distance / error.sqrt())).min(1.0))
}

/// How likely a mean this far from 0 is if the true one is 0 (two-sided p-value, 0 to 1). `None`
/// with fewer than three samples.
#[must_use]
pub fn distance(samples: &[f64]) -> Option<f64> {
    let Trimmed { mean, error, freedom } = Trimmed::new(samples)?;
    if error <= 0.0 {
        return Some(if mean == 0.0 { 1.0 } else { 0.0 });
    }
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some((2.0 * student.sf(mean.abs() / error.sqrt())).min(1.0))
}

/// A trimmed mean, its squared standard error, and the degrees of freedom of that.
struct Trimmed {
    mean: f64,
    error: f64,
    freedom: f64,
}

impl Trimmed {
    fn new(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let count = sorted.len();
        if count < LEAST {
            return None;
        }
        let cut = (TRIMMED * count as f64).floor() as usize;
        let kept = count - 2 * cut;
        let mean = sorted[cut..count - cut].iter().sum::<f64>() / kept as f64;
        // Winsorized: what was cut takes the value of the last that was kept.
        let (low, high) = (sorted[cut], sorted[count - 1 - cut]);
        let pulled: Vec<f64> = sorted.iter().map(|value| value.clamp(low, high)).collect();
        let middle = pulled.iter().sum::<f64>() / count as f64;
        let squares: f64 = pulled.iter().map(|value| (value - middle).powi(2)).sum();
        let freedom = (kept - 1) as f64;
        Some(Self { mean, error: squares / (kept as f64 * freedom), freedom })
    }
}

/// The p-values of many comparisons, each adjusted for their number: those below 0.05 hold one
/// false difference in twenty at most.
#[must_use]
pub fn adjusted(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|a, b| values[*b].total_cmp(&values[*a]));
    let mut adjusted = vec![1.0; values.len()];
    let mut least: f64 = 1.0;
    for (behind, index) in order.into_iter().enumerate() {
        let rank = values.len() - behind;
        least = least.min(values[index] * (values.len() as f64 / rank as f64));
        adjusted[index] = least;
    }
    adjusted
}
