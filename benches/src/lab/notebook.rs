//! All samples of one experiment while it is measured, and what the engine knows of them.
//!
//! The samples are kept in the shape of the results file, so a run goes on with a file that an
//! earlier one has written.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lab::statistics::{NOISY, Precision, Verdict};
use lab::{Experiment, Figure, FigureKind, Mark, Point, Sample, Series};

use super::experiment::{LabExperiment, MeasuredValue, MeasuredValues};

/// A point of one set-up: its place among the points, and that of the set-up.
type SetupPoint = (usize, usize);
/// Bits of x and of y.
type PlaceBits = (u64, u64);
/// A place in a figure: figure, series, place on the axes.
type FigurePlace = (usize, String, PlaceBits);

/// The samples of a moment, to which a notebook can go back.
pub(crate) struct EarlierSamples(Vec<Figure>);

/// See the module.
pub(crate) struct Notebook {
    name: &'static str,
    title: &'static str,
    figures: Vec<Figure>,
    judged: Vec<bool>,
    /// Timelines of an earlier run: they have lanes, which cannot be made again of samples.
    timelines: Vec<Figure>,
    /// The round that comes next, or that goes on.
    pub(crate) round: u32,
    /// The point with which that round goes on; 0 if it begins.
    pub(crate) next_point: usize,
    /// How long it was measured, in all runs.
    pub(crate) spent: Duration,
    /// Nothing more is to be measured.
    pub(crate) is_over: bool,
    /// Where the values of a cell are.
    places: BTreeMap<SetupPoint, BTreeSet<FigurePlace>>,
    discarded: BTreeMap<SetupPoint, u32>,
    /// Of cells whose values are not known.
    failures: Vec<String>,
}

impl Notebook {
    /// An empty one for an experiment with this name and title.
    pub(crate) fn new(
        name: &'static str,
        title: &'static str,
        experiment: &dyn LabExperiment,
    ) -> Self {
        let plans = experiment.figures();
        Self {
            name,
            title,
            judged: plans.iter().map(|plan| plan.is_judged).collect(),
            figures: plans.iter().map(super::experiment::FigurePlan::figure).collect(),
            timelines: Vec::new(),
            round: 0,
            next_point: 0,
            spent: Duration::ZERO,
            is_over: false,
            places: BTreeMap::new(),
            discarded: BTreeMap::new(),
            failures: Vec::new(),
        }
    }

    /// Takes the samples of an earlier run. If that was interrupted in a round, the round has so
    /// many points; 0: it is whole. Series of papers and figures that were made of others are made
    /// again; the experiment finds the earlier run's timelines behind its own figures.
    pub(crate) fn restore(&mut self, earlier: &Experiment, points: usize) {
        let timelines = earlier.figures.iter().filter(|it| it.kind == FigureKind::Timeline);
        self.timelines = timelines.cloned().collect();
        for figure in &mut self.figures {
            let same = earlier.figures.iter().find(|it| it.name == figure.name);
            let series = same.into_iter().flat_map(|it| &it.series).filter(|it| !it.reference);
            figure.series = series.cloned().collect();
        }
        let rounds = self.figures.iter().flat_map(|figure| &figure.series);
        let samples = rounds.flat_map(|series| &series.points).flat_map(|point| &point.samples);
        let last = samples.map(|sample| sample.round).max();
        self.next_point = if last.is_some() { points } else { 0 };
        self.round = last.map_or(0, |last| last + u32::from(points == 0));
    }

    /// What is known now.
    pub(crate) fn samples(&self) -> EarlierSamples {
        EarlierSamples(self.figures.clone())
    }

    /// The turn of this point was interrupted, before which `earlier` was known. The round goes on
    /// with the point, or begins anew if nothing was found in it.
    pub(crate) fn cut_off(&mut self, point: usize, earlier: EarlierSamples) {
        self.figures = earlier.0;
        let points = self.figures.iter().flat_map(|it| &it.series).flat_map(|it| &it.points);
        let mut samples = points.flat_map(|point| &point.samples);
        let has_begun = samples.any(|sample| sample.round == self.round);
        self.next_point = if has_begun { point } else { 0 };
    }

    /// Takes what one measurement has found.
    pub(crate) fn insert(&mut self, cell: SetupPoint, round: u32, measured: &MeasuredValues) {
        for reading in &measured.readings {
            let MeasuredValue { figure, series, x, y, value } = reading;
            let Some(target) = self.figures.get_mut(*figure) else { continue };
            let point = point_of(target, series, (*x, *y));
            point.samples.push(Sample { round, value: *value });
            point.warm_up += measured.warm_up;
            let place = (*figure, series.clone(), bits((*x, *y)));
            self.places.entry(cell).or_default().insert(place);
        }
    }

    /// A measurement to warm up, whose values do not count.
    pub(crate) fn warm(&mut self, cell: SetupPoint, measured: &MeasuredValues) {
        for reading in &measured.readings {
            let place = (reading.figure, reading.series.clone(), bits((reading.x, reading.y)));
            self.places.entry(cell).or_default().insert(place);
        }
    }

    /// A measurement failed.
    pub(crate) fn fail(&mut self, cell: SetupPoint, what: String) {
        *self.discarded.entry(cell).or_default() += 1;
        self.failures.push(what);
    }

    /// What failed, in words.
    pub(crate) fn failures(&self) -> &[String] {
        &self.failures
    }

    /// Are all intervals at this point narrow?
    pub(crate) fn is_narrow(&self, point: usize, precision: &Precision) -> bool {
        let cells = self.places.iter().filter(|((of, _), _)| *of == point);
        let judged = cells
            .flat_map(|(_, places)| places)
            .filter(|(figure, ..)| self.judged.get(*figure) == Some(&true));
        let mut verdicts = judged.filter_map(|(figure, series, (x, y))| {
            let series = self.figures[*figure].series.iter().find(|it| it.name == *series)?;
            let values = series.at(f64::from_bits(*x), f64::from_bits(*y))?.values();
            Some(precision.judge(&values, Duration::ZERO))
        });
        verdicts.all(|verdict| verdict == Verdict::Narrow)
    }

    /// As the results file has it, with what the experiment concludes of it.
    pub(crate) fn experiment(&self, of: &dyn LabExperiment) -> Experiment {
        let mut figures = self.figures.clone();
        for (cell, count) in &self.discarded {
            for (figure, series, place) in self.places.get(cell).into_iter().flatten() {
                let point = figures[*figure].series.iter_mut().find(|it| it.name == *series);
                let point = point
                    .and_then(|it| it.points.iter_mut().find(|it| bits((it.x, it.y)) == *place));
                if let Some(point) = point {
                    // Those of an earlier run are counted as well.
                    point.discarded += *count;
                }
            }
        }
        figures.retain(|figure| !figure.series.is_empty());
        for figure in &mut figures {
            mark(figure);
            // The set-up that others are compared with may have failed, or not have had its turn.
            if figure.base_series().is_none() {
                figure.base = None;
            }
        }
        figures.extend(self.timelines.iter().cloned());
        let findings = of.conclude(&mut figures);
        let (name, title) = (self.name.to_owned(), self.title.to_owned());
        Experiment { name, title, findings, figures }
    }
}

fn bits((x, y): (f64, f64)) -> PlaceBits {
    (x.to_bits(), y.to_bits())
}

/// The point, which is made if it is not there.
fn point_of<'a>(figure: &'a mut Figure, series: &str, (x, y): (f64, f64)) -> &'a mut Point {
    let at = figure.series.iter().position(|it| it.name == series).unwrap_or_else(|| {
        let (name, points) = (series.to_owned(), Vec::new());
        figure.series.push(Series { name, reference: false, points });
        figure.series.len() - 1
    });
    let points = &mut figure.series[at].points;
    let at = points.partition_point(|point| (point.x, point.y) < (x, y));
    if points.get(at).is_none_or(|point| bits((point.x, point.y)) != bits((x, y))) {
        let (samples, marks) = (Vec::new(), Vec::new());
        points.insert(at, Point { x, y, samples, warm_up: 0, discarded: 0, marks });
    }
    &mut points[at]
}

/// Marks points whose interval is wide, and those that have fewer rounds than others at that place.
fn mark(figure: &mut Figure) {
    let most: BTreeMap<PlaceBits, usize> =
        figure.series.iter().flat_map(|it| &it.points).fold(BTreeMap::new(), |mut most, point| {
            let rounds = most.entry(bits((point.x, point.y))).or_default();
            *rounds = (*rounds).max(point.by_round().len());
            most
        });
    for point in figure.series.iter_mut().flat_map(|series| &mut series.points) {
        point.marks.clear();
        let is_whole = most.get(&bits((point.x, point.y))) == Some(&point.by_round().len());
        if point.discarded > 0 || !is_whole {
            point.marks.push(Mark::Partial);
        }
        let interval = point.interval();
        if interval.is_none_or(|interval| interval.relative_half_width() > NOISY)
            || point.by_round().len() < 2
        {
            point.marks.push(Mark::Noisy);
        }
    }
}
