//! Which points of two files belong together, and what is compared of them.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::results::{Direction, Experiment, Figure, FigureKind, Point, Results, Series};
use crate::statistics::{Interval, difference, distance, median, median_interval, ratio_interval};

/// Something that is in one file only, or that cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Unpaired {
    /// `experiment/figure`, `experiment/figure/series` or, with `@`, its place.
    pub what: String,
    /// Why it is not compared.
    pub reason: &'static str,
}

/// What ends the names of figures that are made of others: in percent of the base, in parts of the
/// first place.
const DERIVED: [&str; 2] = ["-share", "-relative"];

const ONLY_BEFORE: &str = "only in the first file";
const ONLY_AFTER: &str = "only in the second file";

/// A figure of each round.
type Rounds = BTreeMap<u32, f64>;

/// Two points that belong together, or two series.
#[derive(Clone)]
pub(super) struct Pair<'a> {
    pub(super) experiment: &'a str,
    pub(super) figure: &'a str,
    pub(super) series: &'a str,
    /// The place; `None`: all points of the series together.
    pub(super) x: Option<f64>,
    /// That on the second axis; `None` without one.
    pub(super) y: Option<f64>,
    pub(super) unit: &'a str,
    pub(super) direction: Direction,
    /// The base whose ratio is compared; `None`: the values are.
    pub(super) to: Option<&'a str>,
    /// Of each round: the value or the ratio.
    pub(super) before: Rounds,
    pub(super) after: Rounds,
    /// It is a base that others are compared with.
    pub(super) is_base: bool,
    /// Both were measured in turn, in the same rounds.
    pub(super) in_turn: bool,
}

/// The figures, without their rounds.
fn values(rounds: &Rounds) -> Vec<f64> {
    rounds.values().copied().collect()
}

impl<'a> Pair<'a> {
    /// The values of a point, of two runs.
    fn new(
        experiment: &'a str,
        figure: &'a Figure,
        (series, point): (&'a str, &Point),
        before: Rounds,
        after: Rounds,
    ) -> Self {
        Self {
            experiment,
            figure: &figure.name,
            series,
            x: Some(point.x),
            y: figure.second.is_some().then_some(point.y),
            unit: &figure.unit,
            direction: figure.direction,
            to: None,
            before,
            after,
            is_base: false,
            in_turn: false,
        }
    }

    /// The median before.
    pub(super) fn median_before(&self) -> Option<f64> {
        median(&values(&self.before))
    }

    /// The median after.
    pub(super) fn median_after(&self) -> Option<f64> {
        median(&values(&self.after))
    }

    /// After to before, within the rounds that both have.
    fn ratios(&self) -> Vec<f64> {
        let of_round = |(round, after): (&u32, &f64)| {
            self.before.get(round).filter(|before| **before > 0.0).map(|before| after / before)
        };
        self.after.iter().filter_map(of_round).collect()
    }

    /// After to before: the median of the ratios within rounds, or the ratio of the medians.
    pub(super) fn ratio(&self) -> Option<f64> {
        if self.in_turn {
            return median(&self.ratios());
        }
        let before = self.median_before().filter(|before| *before > 0.0)?;
        Some(self.median_after()? / before)
    }

    /// The same with its interval.
    pub(super) fn ratio_interval(&self) -> Option<Interval> {
        if self.in_turn {
            return median_interval(&self.ratios());
        }
        ratio_interval(&values(&self.after), &values(&self.before))
    }

    /// How likely such a difference is without a change; `None`: too few rounds. Noise is in
    /// proportion to the value, so logarithms are compared, if no value is 0.
    pub(super) fn likelihood(&self) -> Option<f64> {
        if self.in_turn {
            let ratios = self.ratios();
            let are_positive = ratios.iter().all(|ratio| *ratio > 0.0);
            let far = |ratio: &f64| if are_positive { ratio.ln() } else { ratio - 1.0 };
            return distance(&ratios.iter().map(far).collect::<Vec<_>>());
        }
        let are_positive = self.before.values().chain(self.after.values()).all(|it| *it > 0.0);
        let scaled = |rounds: &Rounds| -> Vec<f64> {
            let scale = |value: f64| if are_positive { value.ln() } else { value };
            rounds.values().copied().map(scale).collect()
        };
        difference(&scaled(&self.after), &scaled(&self.before))
    }
}

/// All points of a series as one pair: of each round the median of its figures, each in units of
/// its median before. Its noise is less than that of a point, and an outlier does not matter. So it
/// shows a small change that all points have. `None` with one point, or without rounds.
fn whole_series<'a>(points: &[Pair<'a>]) -> Option<Pair<'a>> {
    let units: Vec<f64> = points.iter().filter_map(Pair::median_before).collect();
    if points.len() < 2 || units.len() < points.len() || units.iter().any(|unit| *unit <= 0.0) {
        return None;
    }
    let middles = |all: Vec<&Rounds>| -> Rounds {
        let of_round = |round: u32| {
            let each =
                all.iter().zip(&units).map(|(rounds, unit)| Some(rounds.get(&round)? / unit));
            let each: Option<Vec<f64>> = each.collect();
            Some((round, median(&each?)?))
        };
        all[0].keys().copied().filter_map(of_round).collect()
    };
    let before = middles(points.iter().map(|pair| &pair.before).collect());
    let after = middles(points.iter().map(|pair| &pair.after).collect());
    let is_there = !before.is_empty() && !after.is_empty();
    is_there.then(|| Pair { x: None, y: None, unit: "x", before, after, ..points[0].clone() })
}

/// The same of two builds that took turns. What disturbs a pair of samples is over at the next
/// point, so each pair counts for itself: rounds are as many as there are pairs.
fn whole_series_in_turn<'a>(points: &[Pair<'a>]) -> Option<Pair<'a>> {
    let unit = |pair: &Pair| pair.median_before().filter(|unit| *unit > 0.0);
    let units: Vec<f64> = points.iter().filter_map(unit).collect();
    if points.len() < 2 || units.len() < points.len() {
        return None;
    }
    let each = points.iter().zip(&units).flat_map(|(pair, unit)| {
        let both = pair
            .after
            .iter()
            .filter_map(|(round, after)| Some((pair.before.get(round)? / unit, after / unit)));
        both.collect::<Vec<_>>()
    });
    let (before, after): (Rounds, Rounds) =
        (0..).zip(each).map(|(at, (before, after))| ((at, before), (at, after))).unzip();
    Some(Pair { x: None, y: None, unit: "x", before, after, ..points[0].clone() })
}

/// All pairs, in the order of the second file, and what has no counterpart.
pub(super) fn pairs<'a>(
    before: &'a Results,
    after: &'a Results,
    absolute: bool,
) -> (Vec<Pair<'a>>, Vec<Unpaired>) {
    let (mut found, mut unpaired) = (Vec::new(), Vec::new());
    let mut miss = |what: String, reason| unpaired.push(Unpaired { what, reason });
    let histogram = FigureKind::Histogram;
    for (experiment, new) in figures(after).filter(|(_, it)| it.kind != histogram) {
        let name = format!("{}/{}", experiment.name, new.name);
        let Some(old) = figure(before, &experiment.name, &new.name) else {
            miss(name, ONLY_AFTER);
            continue;
        };
        if (&old.unit, old.direction) != (&new.unit, new.direction) {
            miss(name, "another unit or direction in each file");
            continue;
        }
        if (&old.second, old.kind) != (&new.second, new.kind) {
            miss(name, "another kind or second axis in each file");
            continue;
        }
        of_figure(&experiment.name, (old, new), absolute, &mut found, &mut miss);
    }
    for (experiment, old) in figures(before).filter(|(_, it)| it.kind != histogram) {
        if figure(after, &experiment.name, &old.name).is_none() {
            miss(format!("{}/{}", experiment.name, old.name), ONLY_BEFORE);
        }
    }
    (found, unpaired)
}

/// All pairs of an earlier build and the present one, which took turns in one run, and what was
/// measured with the earlier one only.
pub(super) fn pairs_of_builds(results: &Results) -> (Vec<Pair<'_>>, Vec<Unpaired>) {
    let (mut found, mut unpaired) = (Vec::new(), Vec::new());
    for (experiment, figure) in figures(results).filter(|(_, it)| it.kind != FigureKind::Histogram)
    {
        let mut of_series = |earlier: &Series, name: &str| {
            let what = format!("{}/{}/{}", experiment.name, figure.name, earlier.name);
            let Some(series) = figure.series.iter().find(|it| it.name == name) else {
                unpaired.push(Unpaired { what, reason: "the present build has no such series" });
                return;
            };
            let points = series.points.iter().filter_map(|point| {
                let old = earlier.beside(point)?;
                let (before, after) = (old.by_round(), point.by_round());
                Some(Pair {
                    in_turn: true,
                    ..Pair::new(&experiment.name, figure, (&series.name, point), before, after)
                })
            });
            let points: Vec<Pair<'_>> = points.collect();
            found.extend(match figure.kind {
                // One measurement has all parts, so they are no samples of their own.
                FigureKind::StackedBars => whole_series(&points),
                _ => whole_series_in_turn(&points),
            });
            found.extend(points);
        };
        for earlier in &figure.series {
            if let Some(name) = earlier.before_of() {
                of_series(earlier, name);
            }
        }
    }
    (found, unpaired)
}

/// Those that were measured.
fn figures(results: &Results) -> impl Iterator<Item = (&Experiment, &Figure)> {
    let all = |it| figures_of(it).map(move |figure| (it, figure));
    results.experiments.iter().flat_map(all)
}

/// Without figures that are made of another one's samples: that one is compared.
fn figures_of(experiment: &Experiment) -> impl Iterator<Item = &Figure> {
    let is_made = |figure: &Figure| {
        let of = DERIVED.iter().find_map(|suffix| figure.name.strip_suffix(suffix));
        of.is_some_and(|of| experiment.figures.iter().any(|it| it.name == of))
    };
    experiment.figures.iter().filter(move |figure| !is_made(figure))
}

fn figure<'a>(results: &'a Results, experiment: &str, name: &str) -> Option<&'a Figure> {
    let mut all = figures(results);
    let is_it = |(of, it): &(&Experiment, &Figure)| of.name == experiment && it.name == name;
    all.find(is_it).map(|(_, figure)| figure)
}

/// Was it measured, with the present build of its run?
fn is_present(series: &Series) -> bool {
    !series.reference && series.before_of().is_none()
}

fn of_figure<'a>(
    experiment: &'a str,
    (old, new): (&'a Figure, &'a Figure),
    absolute: bool,
    found: &mut Vec<Pair<'a>>,
    miss: &mut impl FnMut(String, &'static str),
) {
    let name = format!("{experiment}/{}", new.name);
    let has_base = old.base == new.base && new.base.is_some() && !absolute;
    let bases = if has_base { old.base_series().zip(new.base_series()) } else { None };
    for series in new.series.iter().filter(|series| is_present(series)) {
        let Some(earlier) = old.series.iter().find(|it| it.name == series.name) else {
            miss(format!("{name}/{}", series.name), ONLY_AFTER);
            continue;
        };
        let is_base = bases.is_some_and(|(_, base)| base.name == series.name);
        let bases = bases.filter(|_| !is_base);
        let mut points = Vec::new();
        for point in &series.points {
            let Some(old_point) = earlier.beside(point) else {
                miss(format!("{name}/{}@{}", series.name, place(new, point)), ONLY_AFTER);
                continue;
            };
            let (before, after, to) = compared((old_point, point), bases);
            points.push(Pair {
                unit: if to.is_some() { "x" } else { &new.unit },
                to,
                is_base,
                ..Pair::new(experiment, new, (&series.name, point), before, after)
            });
        }
        found.extend(whole_series(&points));
        found.extend(points);
        for gone in earlier.points.iter().filter(|point| series.beside(point).is_none()) {
            miss(format!("{name}/{}@{}", series.name, place(old, gone)), ONLY_BEFORE);
        }
    }
    let has = |name: &str| new.series.iter().any(|series| series.name == name);
    for gone in old.series.iter().filter(|series| is_present(series) && !has(&series.name)) {
        miss(format!("{name}/{}", gone.name), ONLY_BEFORE);
    }
}

/// `x`, or `x,y` with a second axis.
fn place(figure: &Figure, point: &Point) -> String {
    match figure.second {
        Some(_) => format!("{},{}", point.x, point.y),
        None => point.x.to_string(),
    }
}

/// What is compared of two points: the ratios to the base where both files have them.
fn compared<'a>(
    (before, after): (&Point, &Point),
    bases: Option<(&'a Series, &'a Series)>,
) -> (Rounds, Rounds, Option<&'a str>) {
    let places = bases.and_then(|(old, new)| Some((old.beside(before)?, new.beside(after)?)));
    if let (Some((old, new)), Some((_, base))) = (places, bases) {
        let ratios = (before.ratios_to(old), after.ratios_to(new));
        if !ratios.0.is_empty() && !ratios.1.is_empty() {
            return (ratios.0, ratios.1, Some(&base.name));
        }
    }
    (before.by_round(), after.by_round(), None)
}
