//! Medians, their intervals, a test for a difference, and the rule when a measurement may end.
//!
//! Samples of a machine under load are skewed and have outliers. So the middle is the median, its
//! interval comes from the bootstrap (no distribution is assumed), and the test for a difference
//! compares trimmed means. One sample a round goes in: samples of one round depend on each other.
//!
//! With `n` samples no interval of the median can be surer than `1 - 2 / 2^n`. So five samples give
//! at most 93.75 %, and their interval is from the least to the greatest one.
//!
//! Outliers are counted, and stay in: nothing is left out because it is far away.

mod bootstrap;
mod comparison;
mod median;
mod outliers;
mod precision;
#[cfg(test)]
mod tests;

pub use bootstrap::{Interval, median_interval, ratio_interval};
pub use comparison::{adjusted, difference, distance};
pub use median::{median, quantile};
pub use outliers::outliers;
pub use precision::{NOISY, Precision, Verdict};
