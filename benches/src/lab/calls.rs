//! The third paper's experiment: calls that travel together, beside calls one by one, getpid(2) and
//! io_uring; calls of several priorities, calls that wait, and computing meanwhile. `tasuki-bench
//! calls` measures, in a process of its own, since it ties itself to a processor.

use anyhow::Result;
use lab::plan::{ExperimentName, LabOptions, listed};
use lab::{Axis, Direction, Figure, FigureKind, Scale};

use super::derived::Reference;
use super::experiment::{FigurePlan, LabExperiment, MeasuredValue, MeasuredValues};
use super::frames;
use super::part::{asked, two_processors};
use crate::calls::{CallFigure, CallReport, MixedFigure};

const BATCHES: [u32; 7] = [1, 3, 10, 30, 100, 300, 1000];
const QUICK_BATCHES: [u32; 3] = [1, 10, 100];
/// Milliseconds of each figure.
const MILLIS: u32 = 10;
const QUICK_MILLIS: u32 = 5;
/// The series that others are compared with.
const GETPID: &str = "getpid(2), singly";

/// Where the server is, and whether it sleeps: a figure each.
const PLACES: [(&str, &str, bool, bool); 4] = [
    ("sleeping-other", "the server sleeps, on another processor", false, false),
    ("running-other", "the server is awake, on another processor", true, false),
    ("sleeping-same", "the server sleeps, on the same processor", false, true),
    ("running-same", "the server is awake, on the same processor", true, true),
];

/// What a series is called before its place, and its value.
type MixedValue = (&'static str, fn(&MixedFigure) -> f64);

/// Figures of calls of several kinds, behind those of [`PLACES`]: name, title, axis, unit, which
/// values are better, and the series of each place.
struct MixedPlan {
    name: &'static str,
    title: &'static str,
    axis: &'static str,
    unit: &'static str,
    direction: Direction,
    values: &'static [MixedValue],
}

const MIXED: [MixedPlan; 3] = [
    MixedPlan {
        name: "urgent",
        title: "Mixed priorities: from the submission of the last call to its result",
        axis: "calls that travel together",
        unit: "ns",
        direction: Direction::Lower,
        values: &[("ordinary", |it| it.ordinary_ns), ("urgent", |it| it.urgent_ns)],
    },
    MixedPlan {
        name: "waiting",
        title: "Time of a null call, 16 together, while other calls wait",
        axis: "calls that wait",
        unit: "ns",
        direction: Direction::Lower,
        values: &[("null", |it| it.beside_waiting_ns)],
    },
    MixedPlan {
        name: "hidden",
        title: "Computing while calls are on their way: the part of their time that is hidden",
        axis: "calls that travel together",
        unit: "%",
        direction: Direction::Higher,
        values: &[("null", |it| 100.0 * it.hidden)],
    },
];

/// See the module.
pub(crate) struct PackagedCalls {
    batches: Vec<u32>,
    millis: u32,
    quick: bool,
    /// Frames of a device are measured, too.
    has_frames: bool,
    /// Of the command that repeats a figure, besides those of its axis.
    more_words: String,
}

impl PackagedCalls {
    /// As the options say. Those who ask for calls or for frames alone get nothing else. Frames
    /// that were asked for are measured without rights, too: that fails, and so is told.
    pub(crate) fn new(options: &LabOptions) -> Self {
        let usual = if options.quick { &QUICK_BATCHES[..] } else { &BATCHES };
        let usual = if options.frames { &[] } else { usual };
        let given = options.batch.as_ref().map(|places| places.all().to_vec());
        let millis = if options.quick { QUICK_MILLIS } else { MILLIS };
        Self {
            batches: given.unwrap_or_else(|| usual.to_vec()),
            millis,
            quick: options.quick,
            has_frames: options.frames || options.batch.is_none() && frames::may_measure(),
            more_words: options.kept_words(ExperimentName::Calls),
        }
    }
}

/// Where a figure belongs.
fn figure_of(call: &CallFigure) -> Option<usize> {
    let is_it = |(_, _, running, same): &(&str, &str, bool, bool)| {
        (*running, *same) == (call.running, call.same_processor)
    };
    PLACES.iter().position(is_it)
}

/// The values of calls of several kinds, each in its figure.
fn mixed_readings(found: &MixedFigure) -> Vec<MeasuredValue> {
    let is_it = |(_, _, running, same): &&(&str, &str, bool, bool)| {
        (*running, *same) == (found.running, found.same_processor)
    };
    let place = PLACES.iter().find(is_it).map_or("", |(_, place, ..)| place);
    let of_plan = |(at, plan): (usize, &MixedPlan)| {
        let reading = |(kind, value): &MixedValue| MeasuredValue {
            figure: PLACES.len() + at,
            series: format!("{kind}: {place}"),
            x: f64::from(found.count),
            y: 0.0,
            value: value(found),
        };
        plan.values.iter().map(reading).collect::<Vec<_>>()
    };
    MIXED.iter().enumerate().flat_map(of_plan).collect()
}

impl LabExperiment for PackagedCalls {
    fn figures(&self) -> Vec<FigurePlan> {
        let plan = |(name, place, ..): &(&str, &str, bool, bool)| FigurePlan {
            name: (*name).to_owned(),
            title: format!("Time of a call: {place}"),
            axis: Axis {
                title: "calls that travel together".to_owned(),
                unit: String::new(),
                scale: Scale::Log,
            },
            unit: "ns",
            direction: Direction::Lower,
            base: Some(GETPID),
            words: format!("calls --batch {}{}", listed(&self.batches), self.more_words),
            is_judged: true,
            kind: FigureKind::Lines,
            second: None,
        };
        let of_places: Vec<FigurePlan> = PLACES.iter().map(plan).collect();
        let mixed = MIXED.iter().map(|mixed| FigurePlan {
            name: mixed.name.to_owned(),
            title: mixed.title.to_owned(),
            axis: Axis { title: mixed.axis.to_owned(), ..of_places[0].axis.clone() },
            unit: mixed.unit,
            direction: mixed.direction,
            base: None,
            // Their noise is that of the scheduler.
            is_judged: false,
            ..of_places[0].clone()
        });
        let mixed: Vec<FigurePlan> = mixed.collect();
        let frames = self.has_frames.then(|| frames::plans(&self.more_words));
        of_places.into_iter().chain(mixed).chain(frames.into_iter().flatten()).collect()
    }

    /// Batches, then frames of a device.
    fn points(&self) -> Vec<String> {
        let batches = self.batches.iter().map(|batch| format!("{batch} together"));
        batches.chain(self.has_frames.then(|| "frames of a device".to_owned())).collect()
    }

    /// One command measures all calls, in turn.
    fn setups(&self) -> Vec<String> {
        vec!["all calls".to_owned()]
    }

    fn measure(&mut self, point: usize, _: usize) -> Result<MeasuredValues> {
        let Some(batch) = self.batches.get(point).copied() else {
            let readings = frames::measure(PLACES.len() + MIXED.len(), self.quick)?;
            return Ok(MeasuredValues { readings, warm_up: 1 });
        };
        let words = [
            "calls".to_owned(),
            format!("--count={batch}"),
            "--rounds=1".to_owned(),
            "--mixed".to_owned(),
            format!("--millis={}", self.millis),
        ];
        let words = [&words[..], &two_processors()?].concat();
        let found: CallReport = asked(&words)?;
        let x = f64::from(batch);
        let mut readings = Vec::new();
        for call in &found.figures {
            let Some(figure) = figure_of(call) else { continue };
            let title = call.call.title();
            let ways = [("together", call.packaged_ns), ("singly", call.single_ns)];
            readings.extend(ways.map(|(way, value)| MeasuredValue {
                figure,
                series: format!("{title}, {way}"),
                x,
                y: 0.0,
                value,
            }));
        }
        let nops = found.kernel.nop_ns.iter().map(|(_, nanos)| ("io_uring NOP, together", *nanos));
        let polled = found.kernel.polled_nop_ns.iter();
        let polled = polled.map(|(_, nanos)| ("io_uring NOP with SQPOLL, together", *nanos));
        let kernel: Vec<(&str, f64)> =
            [(GETPID, found.kernel.getpid_ns)].into_iter().chain(nops).chain(polled).collect();
        for figure in 0..PLACES.len() {
            readings.extend(kernel.iter().map(|(series, value)| MeasuredValue {
                figure,
                series: (*series).to_owned(),
                x,
                y: 0.0,
                value: *value,
            }));
        }
        readings.extend(found.mixed.iter().flat_map(mixed_readings));
        // Each figure begins with a batch that does not count.
        Ok(MeasuredValues { readings, warm_up: 1 })
    }

    fn conclude(&self, figures: &mut Vec<Figure>) -> Vec<String> {
        // Microseconds for 100 calls of getpid, as nanoseconds for one.
        let papers = [
            ("paper 3: Celeron 300 MHz, singly", 1275.0),
            ("paper 3: Celeron 300 MHz, 100 together", 1627.0),
            ("paper 3: Pentium 4 1.8 GHz, singly", 959.0),
            ("paper 3: Pentium 4 1.8 GHz, 100 together", 456.0),
        ];
        let are_calls = |figure: &&mut Figure| PLACES.iter().any(|(name, ..)| figure.name == *name);
        for figure in figures.iter_mut().filter(are_calls) {
            figure.series.extend(papers.iter().map(|(name, nanos)| {
                Reference { name: (*name).to_owned(), points: vec![(100.0, *nanos)] }.series()
            }));
        }
        Vec::new()
    }
}
