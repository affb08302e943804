//! The outcome of a run: the baseline, a row for each kind, and the verdicts.

use serde::{Deserialize, Serialize};

use super::kind::{Kind, Side};
use super::neighbour::Measured;
use crate::median::median;

/// One kind in one round.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Fairness {
    pub(super) kind: Kind,
    pub(super) round: u32,
    /// See `own_pace` of the parent.
    pub(super) own_pace: Option<f64>,
    pub(super) alone: Measured,
    /// None: the neighbour did not answer, or the kind could not begin.
    pub(super) beside: Option<Measured>,
}

/// All of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct FairnessOutcome {
    /// The instances that the baseline is the median of.
    instances: usize,
    /// Figures of an instance alone, with which all others are compared: each one the median of
    /// all instances.
    baseline: Measured,
    found: Vec<Fairness>,
}

const HEAD: &str = "\
    | worst | threads | its calls and frames/s | alone, median µs | beside it | p99 \
    | alone, MiB/s | beside it | fair share | within |\n\
    |---|---:|---:|---:|---:|---:|---:|---:|---:|---|\n";

impl FairnessOutcome {
    /// From the figures of all instances alone; `None` if there are none.
    pub(super) fn new(alone: &[Measured], found: Vec<Fairness>) -> Option<Self> {
        let of = |figure: fn(&Measured) -> f64| median(alone.iter().map(figure).collect());
        let baseline = Measured {
            median_us: of(|one| one.median_us)?,
            p99_us: of(|one| one.p99_us)?,
            mib_per_second: of(|one| one.mib_per_second)?,
        };
        Some(Self { instances: alone.len(), baseline, found })
    }

    /// The median of a figure of all rounds of a kind.
    fn of(&self, kind: Kind, figure: impl Fn(&Fairness) -> Option<f64>) -> Option<f64> {
        median(self.found.iter().filter(|one| one.kind == kind).filter_map(figure).collect())
    }

    /// The median of a figure beside a kind, to that of the baseline.
    fn ratio(&self, kind: Kind, figure: fn(&Measured) -> f64) -> Option<f64> {
        let beside = self.of(kind, |one| one.beside.as_ref().map(figure));
        beside.map(|beside| beside / figure(&self.baseline))
    }

    /// The greatest ratio of round trips beside a kind that is within the bound, and the least of
    /// throughput.
    fn bounds(&self, kind: Kind) -> (f64, f64) {
        let scale = Kind::SCALES.into_iter().find(|(threads, _)| *threads == kind.threads());
        let scale = scale.map_or(Kind::Compute1, |(_, scale)| scale);
        let trip = self.ratio(scale, |one| one.median_us).unwrap_or(1.0).max(1.0) * 2.0;
        let rate = self.ratio(scale, |one| one.mib_per_second).unwrap_or(1.0).min(1.0) / 2.0;
        (trip, rate)
    }

    fn verdict(&self, kind: Kind) -> String {
        let (most, share) = self.bounds(kind);
        let trip = self.ratio(kind, |one| one.median_us);
        let rate = self.ratio(kind, |one| one.mib_per_second);
        match (trip, rate) {
            _ if kind.side() == Side::Nowhere => "scale".to_owned(),
            (Some(trip), Some(rate)) if trip <= most && rate >= share => "yes".to_owned(),
            (Some(trip), Some(rate)) => {
                let mut missed = Vec::new();
                missed.extend((trip > most).then(|| format!("round trip (≤ {most:.1})")));
                missed.extend((rate < share).then(|| "throughput".to_owned()));
                format!("**no**: {}", missed.join(", "))
            }
            _ => "**no**: stopped".to_owned(),
        }
    }

    fn row(&self, kind: Kind) -> String {
        let cell = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "none".to_owned(), |value| format!("{value:.digits$}"))
        };
        let (_, share) = self.bounds(kind);
        let is_scale = kind.side() == Side::Nowhere;
        format!(
            "| {} | {} | {} | {} | {}x | {}x | {} | {}x | {} | {} |\n",
            kind.name(),
            kind.threads(),
            cell(self.of(kind, |one| one.own_pace), 0),
            cell(self.of(kind, |one| Some(one.alone.median_us)), 0),
            cell(self.ratio(kind, |one| one.median_us), 2),
            cell(self.ratio(kind, |one| one.p99_us), 1),
            cell(self.of(kind, |one| Some(one.alone.mib_per_second)), 0),
            cell(self.ratio(kind, |one| one.mib_per_second), 2),
            if is_scale { String::new() } else { format!("{share:.2}x") },
            self.verdict(kind),
        )
    }

    /// A row for each kind, and the legend. `alone` is the kind's own instances, ratios are to the
    /// baseline.
    pub(super) fn table(&self) -> String {
        let mut kinds: Vec<Kind> = self.found.iter().map(|one| one.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let rows: String = kinds.into_iter().map(|kind| self.row(kind)).collect();
        let Measured { median_us, p99_us, mib_per_second } = self.baseline;
        format!(
            "{HEAD}{rows}\n\
             Baseline: {median_us:.1} µs (p99 {p99_us:.0} µs) and {mib_per_second:.0} MiB/s, the \
             medians of {} instances alone. `alone` is of the kind's own instances. `beside it` \
             and `p99` are beside the kind, to the baseline.\n",
            self.instances,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(median_us: f64, mib_per_second: f64) -> Measured {
        Measured { median_us, p99_us: 2.0 * median_us, mib_per_second }
    }

    fn found(kind: Kind, alone: Measured, beside: Measured) -> Fairness {
        Fairness { kind, round: 1, own_pace: Some(1.0), alone, beside: Some(beside) }
    }

    /// The same time beside a kind, with an instance alone that was quick or slow by chance.
    #[test]
    fn a_verdict_does_not_depend_on_the_own_instance_alone() {
        for alone in [22.0, 35.0] {
            let all: Vec<_> =
                [22.0, 34.0, 35.0, 36.0, alone].map(|trip| measured(trip, 100.0)).into();
            let found = vec![
                found(Kind::Compute1, measured(35.0, 100.0), measured(35.0, 80.0)),
                found(Kind::CallFlood, measured(alone, 100.0), measured(56.0, 50.0)),
            ];
            let outcome = FairnessOutcome::new(&all, found).unwrap();
            assert_eq!(outcome.verdict(Kind::CallFlood), "yes", "{alone}");
            let table = outcome.table();
            assert!(table.contains(&format!("| call-flood | 1 | 1 | {alone:.0} | 1.6")), "{table}");
            assert!(table.contains("the medians of 5 instances alone"), "{table}");
        }
    }

    #[test]
    fn what_is_beyond_a_bound_is_named() {
        let alone = measured(30.0, 100.0);
        let all = vec![
            found(Kind::Compute1, alone, measured(45.0, 60.0)),
            found(Kind::CallFlood, alone, measured(90.0, 30.0)),
            found(Kind::PingFlood, alone, measured(91.0, 29.0)),
            Fairness { beside: None, ..found(Kind::SynFlood, alone, alone) },
        ];
        let outcome = FairnessOutcome::new(&[alone], all).unwrap();
        assert_eq!(outcome.verdict(Kind::Compute1), "scale");
        assert_eq!(outcome.verdict(Kind::CallFlood), "yes");
        assert_eq!(outcome.verdict(Kind::PingFlood), "**no**: round trip (≤ 3.0), throughput");
        assert_eq!(outcome.verdict(Kind::SynFlood), "**no**: stopped");
        assert!(FairnessOutcome::new(&[], Vec::new()).is_none());
    }
}
