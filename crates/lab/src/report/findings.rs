//! What was found, in at most six sentences, out of the figures.

use std::collections::BTreeSet;

use super::number::short;
use super::view::{FigureView, PointView, SeriesView};
use crate::results::Results;
use crate::statistics::{Interval, NOISY, median_interval};

/// A point that can be compared with its base.
struct Compared<'a> {
    figure: &'a FigureView,
    series: &'a SeriesView,
    point: &'a PointView,
    ratio: Interval,
}

/// The sentences.
pub(super) fn sentences(results: &Results, figures: &[Vec<FigureView>]) -> Vec<String> {
    let figures: Vec<&FigureView> = figures.iter().flatten().collect();
    let series = figures.iter().flat_map(|it| &it.series).filter(|it| !it.is_reference);
    let points: Vec<&PointView> = series.flat_map(|it| &it.points).collect();
    let compared: Vec<Compared> = figures.iter().flat_map(|figure| compared(figure)).collect();
    let mut said = vec![measured(results, figures.len(), &points)];
    said.extend(overall(&compared));
    said.extend(extreme(&compared, "best", |worse, least| worse < least));
    said.extend(extreme(&compared, "worst", |worse, least| worse > least));
    said.push(noise(&points));
    said.push(rest(results));
    said.retain(|sentence| !sentence.is_empty());
    said
}

fn compared(figure: &FigureView) -> Vec<Compared<'_>> {
    let mut all = Vec::new();
    for series in &figure.series {
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
fn overall(compared: &[Compared]) -> Option<String> {
    let bases: BTreeSet<&str> =
        compared.iter().filter_map(|it| it.figure.base.as_deref()).collect();
    let (mut better, mut worse) = (0, 0);
    for it in compared.iter().filter(|it| !it.ratio.contains(1.0)) {
        let is_worse = it.figure.direction.worse(it.ratio.middle) > 0.0;
        *(if is_worse { &mut worse } else { &mut better }) += 1;
    }
    let alike = compared.len() - better - worse;
    let bases: Vec<&str> = bases.into_iter().collect();
    (!compared.is_empty()).then(|| {
        format!(
            "Compared with {} round by round, {} better, {} worse, and {alike} cannot be told \
             apart.",
            bases.join(" and "),
            are(better),
            are(worse),
        )
    })
}

/// The best or the worst point of all, if it is on that side of its base.
fn extreme(compared: &[Compared], word: &str, beats: fn(f64, f64) -> bool) -> Option<String> {
    // Logarithms: half of the base's is as far away as twice of it.
    let far = |it: &Compared| it.figure.direction.worse(1.0 + it.ratio.middle.max(1e-9).ln());
    let clear = compared.iter().filter(|it| !it.ratio.contains(1.0) && beats(far(it), 0.0));
    let found = clear.reduce(|a, b| if beats(far(b), far(a)) { b } else { a })?;
    let (figure, ratio) = (found.figure, found.ratio);
    Some(format!(
        "The {word} point is “{}” in “{}” at {}: {} times the value of {} ({} to {}; {}).",
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

fn noise(points: &[&PointView]) -> String {
    let noisy = points.iter().filter(|point| point.noisy).count();
    let discarded: u32 = points.iter().map(|point| point.discarded).sum();
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
