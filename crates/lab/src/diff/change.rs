//! How a pair of points changed, and what that means.

use std::ops::RangeInclusive;

use serde::Serialize;

use super::pairs::Pair;

/// A difference this unlikely without a change is significant.
const SIGNIFICANT: f64 = 0.02;

/// Changes of a base that say little about the machine.
const DRIFTS: RangeInclusive<f64> = 0.75..=4.0 / 3.0;

/// What a change means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Judgement {
    /// Worse by more than the bound, and significant.
    Regression,
    /// Worse by more than the bound. Significant by itself, not among so many points.
    Suspected,
    /// Better by more than the bound, and significant.
    Improvement,
    /// Better by more than the bound. Significant by itself, not among so many points.
    Promising,
    /// None of these.
    Unchanged,
    /// Fewer than three rounds in one of the files, or a value of 0 to compare with.
    Unjudged,
}

/// How one point changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the figure.
    pub figure: String,
    /// Name of the series.
    pub series: String,
    /// Place on the horizontal axis; `None`: all points of the series together.
    pub x: Option<f64>,
    /// Place on the second axis, if the figure has one.
    pub y: Option<f64>,
    /// Unit of `before` and `after`. `x`: they are ratios, to the base or to the median before.
    pub unit: String,
    /// The base of these ratios.
    pub base: Option<String>,
    /// Median in the first file.
    pub before: f64,
    /// Median in the second file.
    pub after: f64,
    /// After to before.
    pub ratio: Option<f64>,
    /// The 95 % interval of the ratio, by itself.
    pub low: Option<f64>,
    /// Its upper end.
    pub high: Option<f64>,
    /// By which part of the old value it is worse; below 0: better.
    pub worse: Option<f64>,
    /// How likely such a difference is without a change, adjusted for the number of points.
    pub likelihood: Option<f64>,
    /// What it means.
    pub judgement: Judgement,
}

/// How the base of a figure changed: the machine, rather than Tasuki.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Drift {
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the figure.
    pub figure: String,
    /// Name of the base.
    pub base: String,
    /// Median over its points, after to before.
    pub ratio: f64,
}

impl Drift {
    /// Has the machine changed so much that both should be measured again? In another state of the
    /// machine Tasuki and the base do not gain or lose the same, so the ratio may change as well.
    #[must_use]
    pub fn is_large(&self) -> bool {
        !DRIFTS.contains(&self.ratio)
    }
}

/// Judges a pair. `significance` is the likelihood by itself and the adjusted one.
pub(super) fn judge(pair: &Pair, significance: Option<(f64, f64)>, bound: f64) -> Judgement {
    let (Some(ratio), Some((raw, adjusted))) = (pair.ratio(), significance) else {
        return Judgement::Unjudged;
    };
    let worse = pair.direction.worse(ratio);
    if worse > bound && adjusted < SIGNIFICANT {
        Judgement::Regression
    } else if worse > bound && raw < SIGNIFICANT {
        Judgement::Suspected
    } else if worse < -bound && adjusted < SIGNIFICANT {
        Judgement::Improvement
    } else if worse < -bound && raw < SIGNIFICANT {
        Judgement::Promising
    } else {
        Judgement::Unchanged
    }
}

impl Change {
    pub(super) fn new(pair: &Pair, judgement: Judgement, likelihood: Option<f64>) -> Self {
        let ratio = pair.ratio_interval();
        Self {
            experiment: pair.experiment.to_owned(),
            figure: pair.figure.to_owned(),
            series: pair.series.to_owned(),
            x: pair.x,
            y: pair.y,
            unit: pair.unit.to_owned(),
            base: pair.to.map(str::to_owned),
            before: pair.median_before().unwrap_or(0.0),
            after: pair.median_after().unwrap_or(0.0),
            ratio: ratio.map(|it| it.middle),
            low: ratio.map(|it| it.low),
            high: ratio.map(|it| it.high),
            worse: ratio.map(|it| pair.direction.worse(it.middle)),
            likelihood,
            judgement,
        }
    }
}
