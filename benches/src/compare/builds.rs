//! An earlier build of Tasuki beside the present one: the ratio of each figure, with its interval,
//! and what it means.
//!
//! Both builds take turns in every round. What is worse is judged as by `tasuki lab diff` of the
//! results file (see [`lab::diff`]), with a smaller bound.

use std::fmt::Write as _;

use lab::Results;
use lab::diff::{Change, Judgement, compare_builds};

/// By which part of the earlier value a figure is worse before it is named.
const BOUND: f64 = 0.03;

/// A table of all that was measured in both builds, empty without an earlier one.
pub(super) fn markdown(results: &Results) -> String {
    let found = compare_builds(results, BOUND);
    let mut text = String::new();
    if found.changes.is_empty() {
        return text;
    }
    text.push_str("\n## New build to the one before\n\n");
    text.push_str("Median of the ratios within rounds, and its 95 % interval.\n\n");
    text.push_str("| figure | set-up | bytes | new / before | |\n|---|---|---:|---|---|\n");
    for change in &found.changes {
        let bytes = change.x.map_or("all".to_owned(), |x| x.to_string());
        let (figure, series) = (&change.figure, &change.series);
        let word = word(change.judgement);
        let _ = writeln!(text, "| {figure} | {series} | {bytes} | {} | {word} |", ratio(change));
    }
    let _ = writeln!(text, "\n{}.", found.counts());
    text
}

fn word(judgement: Judgement) -> &'static str {
    match judgement {
        Judgement::Regression => "**worse**",
        Judgement::Suspected => "worse?",
        Judgement::Improvement => "better",
        Judgement::Promising => "better?",
        Judgement::Unchanged | Judgement::Unjudged => "",
    }
}

fn ratio(change: &Change) -> String {
    match (change.ratio, change.low, change.high) {
        (Some(ratio), Some(low), Some(high)) => format!("{ratio:.2} ({low:.2} to {high:.2})"),
        (Some(ratio), ..) => format!("{ratio:.2}"),
        _ => String::new(),
    }
}
