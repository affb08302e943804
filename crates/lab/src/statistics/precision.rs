//! The rule when a measurement may end: its interval is narrow, or its time is up.

use std::time::Duration;

use super::bootstrap::median_interval;

/// A point whose interval is wider than plus or minus this part of its median is noisy.
pub const NOISY: f64 = 0.05;

/// When a point has been measured often enough.
///
/// A rule that looks after every sample and ends at the first narrow interval gives intervals that
/// are a little too narrow. `least` bounds this: below six samples an interval means little.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Precision {
    /// Samples that are taken in any case, if the time allows.
    pub least: usize,
    /// Half of the interval's width as a part of the median, such as 0.05, which is enough.
    pub half_width: f64,
    /// The time for the point.
    pub time: Duration,
}

/// What the rule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Measure another round.
    GoOn,
    /// The interval is narrow enough.
    Narrow,
    /// The time is up; the point is noisy.
    OutOfTime,
}

impl Default for Precision {
    fn default() -> Self {
        Self { least: 6, half_width: NOISY, time: Duration::from_secs(60) }
    }
}

impl Precision {
    /// Go on after these samples, one of each round, and this time?
    #[must_use]
    pub fn judge(&self, samples: &[f64], spent: Duration) -> Verdict {
        let is_narrow = || {
            let interval = median_interval(samples);
            interval.is_some_and(|it| it.relative_half_width() <= self.half_width)
        };
        if samples.len() >= self.least && is_narrow() {
            Verdict::Narrow
        } else if spent >= self.time {
            Verdict::OutOfTime
        } else {
            Verdict::GoOn
        }
    }
}
