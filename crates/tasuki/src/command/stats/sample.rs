//! An instance's counters, and their meanings.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use abi::stats::{Histogram, is_duration};

use super::targets::TargetSample;

/// The reference pages of all counters.
const PAGES: [&str; 2] = [
    include_str!("../../../../../docs/reference/counters.md"),
    include_str!("../../../../../docs/reference/counters-storage.md"),
];

/// The requested part of an instance's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) instance: String,
    pub(super) counters: BTreeMap<String, u64>,
    pub(super) histograms: Vec<Histogram>,
    /// Name, pages and free pages.
    pub(super) pools: Vec<(String, u32, u32)>,
    /// Of its targets and their units.
    pub(super) targets: Vec<TargetSample>,
}

/// Gauges: they say how much there is now, not how often something happened.
pub(super) fn is_gauge(name: &str) -> bool {
    ["target.sessions", "unit.in-flight"].contains(&name)
        || is_duration(name)
        || (name.starts_with("memory.") && name != "memory.frames-refused")
}

impl Sample {
    /// The difference to `before`.
    pub(super) fn since(&self, before: &Self) -> Self {
        let mut since = self.clone();
        for (name, value) in since.counters.iter_mut().filter(|(name, _)| !is_gauge(name)) {
            // A driver that was started anew counts from 0.
            *value = value.saturating_sub(before.counters.get(name).copied().unwrap_or(0));
        }
        for histogram in &mut since.histograms {
            let earlier = before.histograms.iter().find(|one| one.name == histogram.name);
            let Some(earlier) = earlier else { continue };
            histogram.sum = histogram.sum.saturating_sub(earlier.sum);
            for (now, then) in histogram.buckets.iter_mut().zip(&earlier.buckets) {
                *now = now.saturating_sub(*then);
            }
        }
        since.targets.iter_mut().for_each(|target| target.since(&before.targets, is_gauge));
        since
    }
}

/// A layer of a page, and its counters in its order: name and meaning.
pub(super) struct Layer {
    pub(super) title: &'static str,
    pub(super) rows: Vec<(&'static str, &'static str)>,
}

/// The pages' tables.
pub(super) fn layers() -> Vec<Layer> {
    let mut layers: Vec<Layer> = Vec::new();
    for line in PAGES.iter().flat_map(|page| page.lines()) {
        if let Some(title) = line.strip_prefix("## ") {
            layers.push(Layer { title, rows: Vec::new() });
        }
        let cells = line.strip_prefix("| `").and_then(|row| row.split_once("` | "));
        if let (Some((name, meaning)), Some(layer)) = (cells, layers.last_mut()) {
            layer.rows.push((name, meaning.trim_end_matches(" |")));
        }
    }
    layers
}

/// The meaning of a counter; empty for one that the pages do not have.
pub(super) fn meaning(name: &str) -> &'static str {
    // Each scrape of /metrics asks for all of them.
    static MEANINGS: LazyLock<HashMap<&str, &str>> =
        LazyLock::new(|| layers().into_iter().flat_map(|layer| layer.rows).collect());
    MEANINGS.get(name).copied().unwrap_or("")
}
