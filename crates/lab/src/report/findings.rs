//! What was found, in at most six sentences, out of the figures.
//!
//! Comparisons are those with one base: the kernel, where it is one, else the base of most figures.
//! Sentences about bases of other kinds, such as one call beside many, stand below the titles of
//! their experiments. A run with an earlier build has a sentence about what has become worse and
//! better since, in place of the worst point beside the base.

use std::collections::BTreeMap;

use super::number::short;
use super::view::{FigureView, PointView, SeriesView};
use crate::diff::{DiffOptions, compare_builds};
use crate::results::{BEFORE, Results};
use crate::statistics::{Interval, NOISY, median, median_interval};

/// A point that can be compared with its base.
struct Compared<'a> {
    figure: &'a FigureView,
    series: &'a SeriesView,
    point: &'a PointView,
    ratio: Interval,
}

/// The base that comes first, where it is one.
const KERNEL: &str = "Linux";
/// Figures in the sentence of medians, and series of each, at most.
const MOST_FIGURES: usize = 4;
const MOST_SERIES: usize = 3;

/// The sentences.
pub(super) fn sentences(results: &Results, figures: &[Vec<FigureView>]) -> Vec<String> {
    let all: Vec<&FigureView> = figures.iter().flatten().collect();
    let series = all.iter().flat_map(|it| &it.series).filter(|it| !it.is_reference);
    let points: Vec<&PointView> = series.flat_map(|it| &it.points).collect();
    let base = base(&all);
    let with_base = |it: &&&FigureView| it.base.is_some() && it.base.as_deref() == base;
    let compared: Vec<Compared> =
        all.iter().filter(with_base).flat_map(|it| compared(it)).collect();
    let mut said = vec![measured(results, all.len(), &points)];
    said.extend(base.and_then(|base| overall(base, &compared)));
    said.extend(base.and_then(|base| medians(base, figures)));
    said.extend(builds(results).or_else(|| worst(&compared)));
    said.push(noise(&points));
    said.push(rest(results));
    said.retain(|sentence| !sentence.is_empty());
    said
}

/// The base of all comparisons.
fn base<'a>(figures: &[&'a FigureView]) -> Option<&'a str> {
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for base in figures.iter().filter_map(|it| it.base.as_deref()) {
        *count.entry(base).or_default() += 1;
    }
    count.into_iter().max_by_key(|(base, count)| (*base == KERNEL, *count)).map(|(base, _)| base)
}

/// Without series of an earlier build.
fn present(figure: &FigureView) -> impl Iterator<Item = &SeriesView> {
    figure.series.iter().filter(|series| !series.name.ends_with(BEFORE))
}

fn compared(figure: &FigureView) -> Vec<Compared<'_>> {
    let mut all = Vec::new();
    for series in present(figure) {
        let with = series.points.iter().filter_map(|point| Some((point, point.ratio?)));
        all.extend(with.map(|(point, ratio)| Compared { figure, series, point, ratio }));
    }
    all
}

fn measured(results: &Results, figures: usize, points: &[&PointView]) -> String {
    let rounds = points.iter().map(|point| point.rounds).max().unwrap_or(0);
    format!(
        "{} in {} were measured in {} on {}, {} with {}.",
        many(points.len(), "point"),
        many(figures, "figure"),
        many(rounds, "round"),
        results.machine.system,
        results.machine.processor,
        many(results.machine.processors as usize, "processor"),
    )
}

/// How many points are better and worse than their base beyond doubt: the interval of the ratio
/// does not have 1.
fn overall(base: &str, compared: &[Compared]) -> Option<String> {
    let (mut better, mut worse) = (0, 0);
    for it in compared.iter().filter(|it| !it.ratio.contains(1.0)) {
        let is_worse = it.figure.direction.worse(it.ratio.middle) > 0.0;
        *(if is_worse { &mut worse } else { &mut better }) += 1;
    }
    let alike = compared.len() - better - worse;
    (!compared.is_empty()).then(|| {
        format!(
            "Compared with {base} round by round, {} better, {} worse, and {alike} cannot be told \
             apart.",
            are(better),
            are(worse),
        )
    })
}

/// The medians over all places of the first figures: of one experiment, or of each the first.
fn medians(base: &str, figures: &[Vec<FigureView>]) -> Option<String> {
    let has_base = |it: &&FigureView| it.base.as_deref() == Some(base);
    let of_each = if figures.len() > 1 { 1 } else { MOST_FIGURES };
    let first = figures.iter().flat_map(|all| all.iter().filter(has_base).take(of_each));
    let parts: Vec<String> = first.filter_map(medians_of).take(MOST_FIGURES).collect();
    (!parts.is_empty()).then(|| {
        let base = if base == KERNEL { "Linux's" } else { "the base's" };
        format!("Medians of all places, in parts of {base}: {}.", parts.join("; "))
    })
}

fn medians_of(figure: &FigureView) -> Option<String> {
    let of_series = |series: &SeriesView| {
        let ratios = series.points.iter().filter_map(|point| Some(point.ratio?.middle));
        Some(format!("{} {}", series.name, short(median(&ratios.collect::<Vec<_>>())?)))
    };
    let all: Vec<String> = present(figure).filter_map(of_series).take(MOST_SERIES).collect();
    (!all.is_empty()).then(|| format!("{}: {} ({})", figure.title, all.join(", "), figure.better()))
}

/// The point that is furthest on the wrong side of its base, if there is one.
fn worst(compared: &[Compared]) -> Option<String> {
    // Logarithms: half of the base's is as far away as twice of it.
    let far = |it: &Compared| it.figure.direction.worse(1.0 + it.ratio.middle.max(1e-9).ln());
    let clear = compared.iter().filter(|it| !it.ratio.contains(1.0) && far(it) > 0.0);
    let found = clear.reduce(|a, b| if far(b) > far(a) { b } else { a })?;
    let (figure, ratio) = (found.figure, found.ratio);
    Some(format!(
        "The worst point is “{}” in “{}” at {}: {} times the value of {} ({} to {}; {}).",
        found.series.name,
        figure.title,
        figure.place(found.point.x, found.point.y),
        short(ratio.middle),
        figure.base.as_deref().unwrap_or("the base"),
        short(ratio.low),
        short(ratio.high),
        figure.better(),
    ))
}

/// What changed since the earlier build, if there is one in the run.
fn builds(results: &Results) -> Option<String> {
    let earlier = results.made.before.as_ref()?;
    let found = compare_builds(results, DiffOptions::default().bound);
    Some(format!("Since {earlier}, measured in turn, {}.", found.counts()))
}

fn noise(points: &[&PointView]) -> String {
    let noisy = points.iter().filter(|point| point.noisy).count();
    let discarded: u32 = points.iter().map(|point| point.counts.discarded).sum();
    let percent = short(100.0 * NOISY);
    let more = match discarded {
        0 => String::new(),
        some => format!(" {} failed or discarded.", are_samples(some)),
    };
    match noisy {
        0 => format!("No point is noisy (interval beyond ±{percent} %).{more}"),
        some => format!(
            "{some} of {} are noisy: the interval is wider than ±{percent} %.{more}",
            many(points.len(), "point")
        ),
    }
}

/// That something is missing, else what the machine was like.
fn rest(results: &Results) -> String {
    if let Some(reason) = &results.partial {
        return format!("The results are not complete: {reason}");
    }
    let Some(first) = results.machine.calibration.first() else { return String::new() };
    let values: Vec<f64> = first.samples.iter().map(|sample| sample.value).collect();
    let most = values.iter().copied().fold(0.0, f64::max);
    median_interval(&values).map_or(String::new(), |it| {
        let (middle, most) = (short(it.middle), short(most));
        format!("The machine's {} was {middle} {}, at most {most}.", first.name, first.unit)
    })
}

fn many(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

fn are(number: usize) -> String {
    if number == 1 { "1 point is".to_owned() } else { format!("{number} points are") }
}

fn are_samples(number: u32) -> String {
    if number == 1 { "1 sample".to_owned() } else { format!("{number} samples") }
}
