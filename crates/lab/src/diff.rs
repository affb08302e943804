//! What changed between two results files.
//!
//! Points are paired by experiment, figure, series and place. Two files come from two runs, and
//! between runs the whole machine may have become faster or slower. So where a figure has a base
//! (such as Linux), the ratio to it within rounds is compared, and the base's own change is shown
//! as [`Drift`] and not judged. A figure without a base is compared by its values.
//!
//! A change is a [`Judgement::Regression`] if two things hold. The median is worse by more than the
//! bound. And the difference is significant among all that is looked at
//! ([`statistics::adjusted`](crate::statistics::adjusted)): a file with a thousand points and
//! without a change raises a false alarm in one of twenty comparisons at most. The price is that a
//! change in one point of a thousand needs about ten rounds to be seen. What only looks like a
//! regression is [`Judgement::Suspected`]: more rounds tell. [`Judgement::Improvement`] and
//! [`Judgement::Promising`] are the same for what is better. All points of a series together are
//! judged as well ([`Change::x`] is `None`): what makes all of them a little worse is seen there.
//! Series are few, so they are a family of their own: the number of points does not hide them.
//!
//! The interval of a change is for itself; it does not know of the other points.
//!
//! One file may have two builds, which took turns in one run ([`compare_builds`]). What the machine
//! did meets both alike, so the present build's ratio to the earlier one within each round is
//! judged, and fewer rounds tell more.

mod change;
mod pairs;
#[cfg(test)]
mod tests;

pub use change::{Change, Drift, Judgement};
pub use pairs::Unpaired;

use self::change::judge;
use self::pairs::{Pair, pairs, pairs_of_builds};
use crate::results::Results;
use crate::statistics::{adjusted, median};

/// Points, and series as a whole.
const FAMILIES: f64 = 2.0;

/// What is compared, and what counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiffOptions {
    /// By which part of the old value a change is worse before it counts: 0.05 is 5 %.
    pub bound: f64,
    /// Compare values even where a figure has a base.
    pub absolute: bool,
}

impl DiffOptions {
    /// The bound in percent, to a hundredth.
    #[must_use]
    pub fn percent(&self) -> f64 {
        (1e4 * self.bound).round() / 1e2
    }
}

impl Default for DiffOptions {
    fn default() -> Self {
        Self { bound: 0.05, absolute: false }
    }
}

/// All that changed, and what could not be compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// What counted.
    pub options: DiffOptions,
    /// One for each pair of points but those of bases, in the order of the second file.
    pub changes: Vec<Change>,
    /// How the bases changed.
    pub drifts: Vec<Drift>,
    /// What is in one file only, or differs in unit or direction.
    pub unpaired: Vec<Unpaired>,
}

impl Difference {
    /// The changes of this kind, the largest first.
    #[must_use]
    pub fn of(&self, judgement: Judgement) -> Vec<&Change> {
        let mut found: Vec<&Change> =
            self.changes.iter().filter(|change| change.judgement == judgement).collect();
        let size = |change: &Change| change.worse.unwrap_or(0.0).abs();
        found.sort_by(|a, b| size(b).total_cmp(&size(a)));
        found
    }

    /// How many changes there are of each kind, without a full stop.
    #[must_use]
    pub fn counts(&self) -> String {
        let number = |judgement| self.of(judgement).len();
        format!(
            "{} compared: {} worse by more than {} %, {} perhaps worse, {} better, {} perhaps \
             better, {} unchanged, {} with too few rounds",
            self.changes.len(),
            number(Judgement::Regression),
            self.options.percent(),
            number(Judgement::Suspected),
            number(Judgement::Improvement),
            number(Judgement::Promising),
            number(Judgement::Unchanged),
            number(Judgement::Unjudged),
        )
    }
}

/// Compares the later file `after` with the earlier one `before`.
#[must_use]
pub fn compare(before: &Results, after: &Results, options: DiffOptions) -> Difference {
    let (pairs, unpaired) = pairs(before, after, options.absolute);
    let (bases, judged): (Vec<Pair>, Vec<Pair>) = pairs.into_iter().partition(|pair| pair.is_base);
    let changes = changes(&judged, options.bound);
    Difference { options, changes, drifts: drifts(&bases), unpaired }
}

/// Compares the present build of a run with the earlier one that was measured in turn with it.
/// Nothing is compared in a file without an earlier build.
#[must_use]
pub fn compare_builds(results: &Results, bound: f64) -> Difference {
    let (pairs, unpaired) = pairs_of_builds(results);
    // Values are compared, not ratios to a base.
    let options = DiffOptions { bound, absolute: true };
    Difference { options, changes: changes(&pairs, bound), drifts: Vec::new(), unpaired }
}

/// All changes, judged together.
fn changes(pairs: &[Pair], bound: f64) -> Vec<Change> {
    let judged = pairs.iter().zip(judgements(pairs, bound));
    judged.map(|(pair, (judgement, likelihood))| Change::new(pair, judgement, likelihood)).collect()
}

/// What each change means, and its likelihood without a change, adjusted for their number.
fn judgements(pairs: &[Pair], bound: f64) -> Vec<(Judgement, Option<f64>)> {
    let tests: Vec<Option<f64>> = pairs.iter().map(Pair::likelihood).collect();
    let of_family = |is_whole: bool| {
        let family = pairs.iter().zip(&tests).filter(|(pair, _)| pair.x.is_none() == is_whole);
        adjusted(&family.filter_map(|(_, test)| *test).collect::<Vec<_>>()).into_iter()
    };
    let (mut wholes, mut points) = (of_family(true), of_family(false));
    let mut one = |(pair, test): (&Pair, &Option<f64>)| {
        let family = if pair.x.is_none() { &mut wholes } else { &mut points };
        let significance = test.and_then(|raw| Some((raw, FAMILIES * family.next()?)));
        (judge(pair, significance, bound), significance.map(|(_, adjusted)| adjusted.min(1.0)))
    };
    pairs.iter().zip(&tests).map(&mut one).collect()
}

/// One for each base of a figure: the median of its points' ratios.
fn drifts(bases: &[Pair]) -> Vec<Drift> {
    let mut drifts: Vec<Drift> = Vec::new();
    for pair in bases {
        let is_of = |drift: &&Drift| {
            (drift.experiment.as_str(), drift.figure.as_str()) == (pair.experiment, pair.figure)
        };
        if drifts.iter().any(|drift| is_of(&drift)) {
            continue;
        }
        let of_figure =
            bases.iter().filter(|it| (it.experiment, it.figure) == (pair.experiment, pair.figure));
        let ratios: Vec<f64> = of_figure.filter_map(Pair::ratio).collect();
        if let Some(ratio) = median(&ratios) {
            drifts.push(Drift {
                experiment: pair.experiment.to_owned(),
                figure: pair.figure.to_owned(),
                base: pair.series.to_owned(),
                ratio,
            });
        }
    }
    drifts
}
