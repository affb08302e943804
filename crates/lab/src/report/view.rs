//! What a report shows of a file: the statistics of each point, once for table, plot and sentences.

use serde::Serialize;

use super::number::{place, short};
use super::units::MachineUnit;
use crate::results::{
    Direction, Figure, FigureKind, Lane, Mark, Results, Scale, SecondAxis, Series,
};
use crate::statistics::{Interval, NOISY, median_interval};

/// A point and its statistics.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PointView {
    pub(super) x: f64,
    /// On the second axis.
    pub(super) y: f64,
    pub(super) rounds: usize,
    pub(super) value: Interval,
    /// To the base, of the rounds that both have.
    pub(super) ratio: Option<Interval>,
    pub(super) noisy: bool,
    pub(super) partial: bool,
    pub(super) counts: SampleCounts,
}

/// How many samples a point has, and how many were left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SampleCounts {
    /// Those of the median.
    pub(super) samples: usize,
    /// Those of them which are far away from the others.
    pub(super) outliers: usize,
    pub(super) warm_up: u32,
    pub(super) discarded: u32,
}

/// A series.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SeriesView {
    pub(super) name: String,
    pub(super) is_base: bool,
    /// Figures of a paper: not measured here.
    pub(super) is_reference: bool,
    pub(super) points: Vec<PointView>,
}

/// A figure.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FigureView {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) x_title: String,
    pub(super) x_unit: String,
    pub(super) x_scale: Scale,
    pub(super) unit: String,
    pub(super) direction: Direction,
    pub(super) command: String,
    pub(super) kind: FigureKind,
    pub(super) second: Option<SecondAxis>,
    pub(super) base: Option<String>,
    pub(super) series: Vec<SeriesView>,
    pub(super) places: Vec<f64>,
    /// Those on the second axis.
    pub(super) second_places: Vec<f64>,
    pub(super) lanes: Vec<Lane>,
}

/// All figures of a file, by experiment.
pub(super) fn view(results: &Results) -> Vec<Vec<FigureView>> {
    let of = |experiment: &crate::results::Experiment| {
        experiment.figures.iter().map(|figure| of_figure(&experiment.name, figure)).collect()
    };
    results.experiments.iter().map(of).collect()
}

/// A name that no other figure of the file has.
pub(super) fn id(experiment: &str, figure: &str) -> String {
    if experiment.is_empty() { figure.to_owned() } else { format!("{experiment}-{figure}") }
}

pub(super) fn of_figure(experiment: &str, figure: &Figure) -> FigureView {
    let base = figure.base_series();
    // What was not measured here, and parts of all, have no noise.
    let has_noise = |series: &Series| figure.kind != FigureKind::Histogram && !series.reference;
    let series = figure.series.iter().map(|series| {
        let is_base = base.is_some_and(|base| base.name == series.name);
        let points = series.points.iter().filter_map(|point| {
            let value = point.interval()?;
            let base =
                base.filter(|_| !is_base && !series.reference).and_then(|base| base.beside(point));
            let ratios = base.map(|base| point.ratios_to(base).into_values().collect::<Vec<_>>());
            Some(PointView {
                x: point.x,
                y: point.y,
                rounds: point.by_round().len(),
                value,
                ratio: ratios.and_then(|ratios| median_interval(&ratios)),
                noisy: has_noise(series)
                    && (point.marks.contains(&Mark::Noisy) || value.relative_half_width() > NOISY),
                partial: point.marks.contains(&Mark::Partial),
                counts: SampleCounts {
                    samples: point.samples.len(),
                    outliers: figure.outliers(point),
                    warm_up: point.warm_up,
                    discarded: point.discarded,
                },
            })
        });
        let (name, points) = (series.name.clone(), points.collect());
        SeriesView { name, is_base, is_reference: series.reference, points }
    });
    FigureView {
        id: id(experiment, &figure.name),
        title: figure.title.clone(),
        x_title: figure.axis.title.clone(),
        x_unit: figure.axis.unit.clone(),
        x_scale: figure.axis.scale,
        unit: figure.unit.clone(),
        direction: figure.direction,
        command: figure.command.clone(),
        kind: figure.kind,
        second: figure.second.clone(),
        base: figure.base.clone(),
        series: series.collect(),
        places: figure.places(),
        second_places: figure.second_places(),
        lanes: figure.lanes.clone(),
    }
}

/// All that the page's script reads.
#[derive(Serialize)]
pub(super) struct PageData<'a> {
    pub(super) figures: Vec<FigureData<'a>>,
    /// Times that the machine took for simple things.
    pub(super) units: Vec<MachineUnit<'a>>,
}

/// The figure as the page's script reads it.
#[derive(Serialize)]
pub(super) struct FigureData<'a> {
    id: &'a str,
    title: &'a str,
    x_title: &'a str,
    x_unit: &'a str,
    x_log: bool,
    unit: &'a str,
    kind: FigureKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    second: Option<&'a SecondAxis>,
    base: Option<&'a str>,
    places: &'a [f64],
    second_places: &'a [f64],
    #[serde(skip_serializing_if = "<[Lane]>::is_empty")]
    lanes: &'a [Lane],
    series: Vec<SeriesData<'a>>,
}

#[derive(Serialize)]
struct SeriesData<'a> {
    name: &'a str,
    is_base: bool,
    is_reference: bool,
    values: Vec<PointData>,
    ratios: Vec<PointData>,
}

/// Place, middle, low, high, rounds, place on the second axis, 1 if the point is noisy and 0 if it
/// is not. A noisy point is marked in all views of it, that of its ratios as well.
type PointData = [f64; 7];

impl FigureView {
    pub(super) fn data(&self) -> FigureData<'_> {
        let of = |point: &PointView, it: Interval| {
            let noisy = f64::from(u8::from(point.noisy));
            [point.x, it.middle, it.low, it.high, point.rounds as f64, point.y, noisy]
        };
        let series = self.series.iter().map(|series| SeriesData {
            name: &series.name,
            is_base: series.is_base,
            is_reference: series.is_reference,
            values: series.points.iter().map(|point| of(point, point.value)).collect(),
            ratios: series
                .points
                .iter()
                .filter_map(|point| Some(of(point, point.ratio?)))
                .collect(),
        });
        FigureData {
            id: &self.id,
            title: &self.title,
            x_title: &self.x_title,
            x_unit: &self.x_unit,
            x_log: self.x_scale == Scale::Log,
            unit: &self.unit,
            kind: self.kind,
            second: self.second.as_ref(),
            base: self.base.as_deref(),
            places: &self.places,
            second_places: &self.second_places,
            lanes: &self.lanes,
            series: series.collect(),
        }
    }

    /// Is it drawn as columns, without noise of its own?
    pub(super) fn is_histogram(&self) -> bool {
        self.kind == FigureKind::Histogram
    }

    /// Is a point of it noisy?
    fn has_noisy(&self) -> bool {
        self.series.iter().flat_map(|series| &series.points).any(|point| point.noisy)
    }

    /// Has a point of it samples that are far away from the others?
    pub(super) fn has_outliers(&self) -> bool {
        let measured = self.series.iter().filter(|series| !series.is_reference);
        measured.flat_map(|it| &it.points).any(|point| point.counts.outliers > 0)
    }

    /// What the mark of a noisy point means, if the plot has one.
    pub(super) fn noise_note(&self) -> Option<String> {
        let mark = match self.kind {
            FigureKind::StackedBars => "~ marks a bar that has a noisy point, and the point",
            FigureKind::HeatMap => "~ marks a noisy point",
            _ => "A hollow mark, and ~ in the table, is a noisy point",
        };
        let percent = short(100.0 * NOISY);
        let is_noisy = format!("the interval is wider than ±{percent} %, or of one round only");
        self.has_noisy().then(|| format!("{mark}: {is_noisy}."))
    }

    /// A place on the axes, for people.
    pub(super) fn place(&self, x: f64, y: f64) -> String {
        let across = place(x, &self.x_unit);
        match self.second_place(y) {
            None => across,
            Some(down) if self.kind == FigureKind::StackedBars => format!("{across}, {down}"),
            Some(down) => format!("{across} × {down}"),
        }
    }

    /// A place on the second axis, for people: the name of a part, or a number with its unit.
    pub(super) fn second_place(&self, y: f64) -> Option<String> {
        let second = self.second.as_ref()?;
        let name = second.names.get(y as usize).cloned();
        Some(name.unwrap_or_else(|| place(y, &second.unit)))
    }

    /// Which values are better, in words.
    pub(super) fn better(&self) -> &'static str {
        match (self.kind, self.direction) {
            (FigureKind::Histogram, _) => "a class begins at its place",
            (FigureKind::Timeline, _) => "all panels have one axis of time",
            (_, Direction::Higher) => "higher is better",
            (_, Direction::Lower) => "lower is better",
        }
    }
}
