//! The counters of an instance's targets, and of their units.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use storage::{Counts, LatencyHistogram};

use crate::command::target::{TargetReport, reports};

/// The counters of a target, or of one of its units.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct TargetSample {
    /// The target's name, as commands have it.
    pub(super) target: String,
    /// The unit; `None`: the target itself.
    pub(super) lun: Option<u16>,
    pub(super) counters: Counts,
    pub(super) histograms: Vec<LatencyHistogram>,
}

/// The counters of the instance's targets whose names are wanted.
pub(super) fn samples(instance: &str, wanted: impl Fn(&str) -> bool) -> Vec<TargetSample> {
    let all = reports().into_iter().filter(|report| report.instance == instance);
    let mut samples: Vec<TargetSample> = all.flat_map(samples_of).collect();
    for sample in &mut samples {
        sample.counters.retain(|name, _| wanted(name));
        sample.histograms.retain(|histogram| wanted(&histogram.name));
    }
    samples.retain(|sample| !sample.counters.is_empty() || !sample.histograms.is_empty());
    samples
}

fn samples_of(report: TargetReport) -> Vec<TargetSample> {
    let TargetReport { target, status, .. } = report;
    let own = TargetSample {
        target: target.clone(),
        lun: None,
        counters: status.counters,
        histograms: Vec::new(),
    };
    let units = status.luns.into_iter().map(|unit| TargetSample {
        target: target.clone(),
        lun: Some(unit.lun),
        counters: unit.counters,
        histograms: unit.histograms,
    });
    std::iter::once(own).chain(units).collect()
}

impl TargetSample {
    /// What stands above its counters.
    pub(super) fn title(&self) -> String {
        match self.lun {
            None => format!("Target {}", self.target),
            Some(lun) => format!("Target {}, logical unit {lun}", self.target),
        }
    }

    /// The difference to the same target's or unit's counters in `before`.
    pub(super) fn since(&mut self, before: &[Self], is_gauge: impl Fn(&str) -> bool) {
        let same = |one: &&Self| one.target == self.target && one.lun == self.lun;
        let Some(before) = before.iter().find(same) else { return };
        for (name, value) in self.counters.iter_mut().filter(|(name, _)| !is_gauge(name)) {
            // A target that was started anew counts from 0.
            *value = value.saturating_sub(before.counters.get(name).copied().unwrap_or(0));
        }
        for histogram in &mut self.histograms {
            let earlier = before.histograms.iter().find(|one| one.name == histogram.name);
            let Some(earlier) = earlier else { continue };
            histogram.sum = histogram.sum.saturating_sub(earlier.sum);
            for (now, then) in histogram.buckets.iter_mut().zip(&earlier.buckets) {
                *now = now.saturating_sub(*then);
            }
        }
    }
}

/// A histogram in a line: how many, their mean, and how many up to each latency.
pub(super) fn latencies(histogram: &LatencyHistogram) -> String {
    let count = count(histogram);
    let mean = histogram.sum as f64 / count.max(1) as f64;
    let mut text = format!("{count}, mean {mean:.1}");
    let mut least = 0;
    for (index, &commands) in histogram.buckets.iter().enumerate() {
        let most = LatencyHistogram::most(index);
        if commands > 0 {
            let most = most.map_or_else(String::new, |most| most.to_string());
            // Writing to a string does not fail.
            let _ = write!(text, "  {least}-{most}:{commands}");
        }
        least = most.map_or(least, |most| most + 1);
    }
    text
}

/// Commands in all.
pub(super) fn count(histogram: &LatencyHistogram) -> u64 {
    histogram.buckets.iter().fold(0, |sum, &commands| sum.saturating_add(commands))
}

/// The same counter of all targets and units, by name.
pub(super) fn by_counter(all: &[TargetSample]) -> BTreeMap<&str, Vec<(&TargetSample, u64)>> {
    let mut found: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for sample in all {
        for (name, value) in &sample.counters {
            found.entry(name).or_default().push((sample, *value));
        }
    }
    found
}

/// The same histogram of all units, by name.
pub(super) fn by_histogram(
    all: &[TargetSample],
) -> BTreeMap<&str, Vec<(&TargetSample, &LatencyHistogram)>> {
    let mut found: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for sample in all {
        for histogram in &sample.histograms {
            found.entry(&histogram.name).or_default().push((sample, histogram));
        }
    }
    found
}
