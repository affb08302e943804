//! The middle of some figures, and other quantiles.

/// The middle of them, or between the middle two; `None` without any. They are finite.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The value below which the part `at` (0 to 1) of them lies, between two of them by their
/// distance (the definition of most tools, R's type 7); `None` without any.
#[must_use]
pub fn quantile(values: &[f64], at: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    quantile_of_sorted(&sorted, at)
}

/// The same, of values in order.
pub(super) fn quantile_of_sorted(sorted: &[f64], at: f64) -> Option<f64> {
    let place = at.clamp(0.0, 1.0) * sorted.len().checked_sub(1)? as f64;
    let (lower, upper) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(lower + (upper - lower) * place.fract())
}
