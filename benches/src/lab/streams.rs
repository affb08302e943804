//! The second paper's experiment: bytes a second by the size of a write, and connections a second.
//! Clients on Tasuki and servers on Tasuki stand beside Linux. The hosts are those of `tasuki-bench
//! compare`.
//!
//! The paper also has its stack at both ends. So has `throughput`: two instances whose TAP devices
//! are on one bridge. Each end has the device of the other set-ups then, as both computers of the
//! paper have, and so it stands beside the kernel's two ends of a veth pair ([`crate::bridged`]).

mod setups;

use anyhow::{Context as _, Result};
use lab::plan::{ExperimentName, LabOptions, listed};
use lab::{Axis, Direction, Figure, FigureKind, Scale};

use self::setups::{StreamSetup, chosen, further};
use super::derived::{Reference, share_of_base};
use super::experiment::{FigurePlan, LabExperiment, MeasuredValue, MeasuredValues, bytes_axis};
use super::peers::peer_words;
use super::units::UnitSweep;
use crate::clients::output_of;
use crate::hosts::{Host, Programs};
use crate::protocol::warm_up_of;
use crate::row::Sample;

/// Bytes of a write.
const SIZES: [u32; 7] = [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
const QUICK_SIZES: [u32; 2] = [1 << 10, 64 << 10];
/// Bytes of a sample.
const BYTES: u64 = 512 << 20;
const QUICK_BYTES: u64 = 128 << 20;
/// Connections of a sample, and bytes of the request on each.
const COUNT: u32 = 1000;
const QUICK_COUNT: u32 = 200;
const REQUEST: u32 = 64;
/// The second paper's rump kernel at one end, percent of Linux's, means over sizes.
const PAPER_SEND: f64 = 10.3;
const PAPER_RECEIVE: f64 = 24.7;
/// At both ends, MiB/s, the least and the most of all sizes; and Linux, at any size.
const PAPER_BOTH: [(&str, f64); 2] = [("least", 5.0), ("most", 14.0)];
const PAPER_LINUX: f64 = 112.0;

/// One of the figures.
struct StreamFigure {
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    /// As `client --test` has it.
    test: &'static str,
    direction: Direction,
    is_judged: bool,
    value: fn(&Sample) -> Option<f64>,
}

const THROUGHPUT: &[StreamFigure] = &[
    StreamFigure {
        name: "send",
        title: "Send",
        unit: "MiB/s",
        test: "send",
        direction: Direction::Higher,
        is_judged: true,
        value: |sample| Some(sample.rate),
    },
    StreamFigure {
        name: "receive",
        title: "Receive",
        unit: "MiB/s",
        test: "receive",
        direction: Direction::Higher,
        is_judged: true,
        value: |sample| Some(sample.rate),
    },
];

const CONNECTIONS: &[StreamFigure] = &[
    StreamFigure {
        name: "connects",
        title: "Connect, request, close",
        unit: "per second",
        test: "connect",
        direction: Direction::Higher,
        is_judged: true,
        value: |sample| Some(sample.rate),
    },
    StreamFigure {
        name: "connects-p99",
        title: "Connect, request, close, 99th percentile",
        unit: "µs",
        test: "connect",
        direction: Direction::Lower,
        is_judged: false,
        value: |sample| sample.p99_us,
    },
];

/// See the module.
pub(crate) struct Streams {
    name: ExperimentName,
    figures: &'static [StreamFigure],
    sizes: Vec<u32>,
    units: UnitSweep,
    bytes: u64,
    count: u32,
    setups: Vec<StreamSetup>,
    programs: Programs,
    /// Of the command that repeats a figure, besides those of its axis.
    more_words: String,
}

impl Streams {
    /// Bytes a second.
    pub(crate) fn throughput(programs: &Programs, options: &LabOptions) -> Self {
        let usual = if options.quick { &QUICK_SIZES[..] } else { &SIZES };
        let has_units = options.unit.is_some() || options.areas.is_some();
        let usual = if has_units { &[] } else { usual };
        let given = options.size.as_ref().map(|places| places.all().to_vec());
        let sizes = given.unwrap_or_else(|| usual.to_vec());
        let mut made = Self::new(ExperimentName::Throughput, THROUGHPUT, sizes, programs, options);
        made.units = UnitSweep::new(options);
        let with_units = !made.units.cells().is_empty();
        made.setups.extend(further(options, made.name.name(), with_units));
        made
    }

    /// Connections a second.
    pub(crate) fn connections(programs: &Programs, options: &LabOptions) -> Self {
        Self::new(ExperimentName::Connections, CONNECTIONS, vec![REQUEST], programs, options)
    }

    fn new(
        name: ExperimentName,
        figures: &'static [StreamFigure],
        sizes: Vec<u32>,
        programs: &Programs,
        options: &LabOptions,
    ) -> Self {
        let peers = options.peers.as_deref().filter(|_| name == ExperimentName::Throughput);
        Self {
            name,
            figures,
            sizes,
            units: UnitSweep::none(),
            bytes: if options.quick { QUICK_BYTES } else { BYTES },
            count: if options.quick { QUICK_COUNT } else { COUNT },
            setups: chosen(options),
            programs: programs.clone(),
            more_words: options.kept_words(name) + &peer_words(peers),
        }
    }

    fn has_both_ends(&self) -> bool {
        self.setups.iter().any(StreamSetup::is_tasuki_at_both_ends)
    }

    /// One cell of transfer units, in the directions that the set-up has.
    fn measure_cell(&mut self, cell: usize, setup: usize) -> Result<MeasuredValues> {
        let setup = self.setups.get_mut(setup).context("a set-up")?;
        if !setup.has_cells() {
            return Ok(MeasuredValues::default());
        }
        let (bytes, areas) = *self.units.cells().get(cell).context("a cell")?;
        let tests: Vec<(usize, Vec<String>)> = UnitSweep::tests(setup.is_native())
            .map(|(at, test)| (at, self.units.client(test, (bytes, areas))))
            .collect();
        let (before, series) = (self.figures.len(), setup.title());
        let host = setup.host(&self.programs)?;
        let mut readings = Vec::new();
        for (at, words) in tests {
            readings.push(MeasuredValue {
                figure: before + at,
                series: series.clone(),
                x: f64::from(bytes),
                y: f64::from(areas),
                value: sample(host, &words)?.rate,
            });
        }
        Ok(MeasuredValues { readings, warm_up: 0 })
    }
}

impl LabExperiment for Streams {
    fn figures(&self) -> Vec<FigurePlan> {
        let sizes = listed(&self.sizes);
        let has_base = self.setups.iter().any(StreamSetup::is_base);
        let plan = |figure: &StreamFigure| FigurePlan {
            name: figure.name.to_owned(),
            title: figure.title.to_owned(),
            axis: match self.name {
                ExperimentName::Throughput => bytes_axis("bytes of a write"),
                _ => Axis { scale: Scale::Linear, ..bytes_axis("bytes of a request") },
            },
            unit: figure.unit,
            direction: figure.direction,
            base: has_base.then_some("Linux"),
            words: match self.name {
                ExperimentName::Throughput => {
                    format!("throughput --size {sizes}{}", self.more_words)
                }
                name => format!("{}{}", name.name(), self.more_words),
            },
            is_judged: figure.is_judged,
            kind: FigureKind::Lines,
            second: None,
        };
        let lines = self.figures.iter().map(plan);
        let maps = self.units.plans(has_base.then_some("Linux"));
        lines.chain(maps).collect()
    }

    /// Sizes, then cells of transfer units.
    fn points(&self) -> Vec<String> {
        let sizes = self.sizes.iter().map(|size| lab::report::place(f64::from(*size), "B"));
        sizes.chain(self.units.cells().iter().map(|cell| UnitSweep::title(*cell))).collect()
    }

    fn setups(&self) -> Vec<String> {
        self.setups.iter().map(StreamSetup::title).collect()
    }

    fn has_tasuki(&self, setup: usize) -> bool {
        self.setups.get(setup).is_some_and(StreamSetup::has_tasuki)
    }

    fn begin_round(&mut self, round: u32) {
        if round > 0 {
            self.setups.iter_mut().for_each(StreamSetup::renew);
        }
    }

    fn measure(&mut self, point: usize, setup: usize) -> Result<MeasuredValues> {
        let Some(size) = self.sizes.get(point).copied() else {
            return self.measure_cell(point - self.sizes.len(), setup);
        };
        let setup = self.setups.get_mut(setup).context("a set-up")?;
        if setup.is_native() {
            return Ok(MeasuredValues::default());
        }
        let (bytes, count, figures) = (self.bytes, self.count, self.figures);
        let title = setup.title();
        let host = setup.host(&self.programs)?;
        let mut tests: Vec<&str> = figures.iter().map(|figure| figure.test).collect();
        tests.dedup();
        let mut readings = Vec::new();
        let warm_up = if tests.contains(&"connect") { warm_up_of(count) } else { 0 };
        for test in tests {
            let words = [
                format!("--test={test}"),
                format!("--size={size}"),
                format!("--bytes={bytes}"),
                format!("--count={count}"),
            ];
            let sample = sample(host, &words)?;
            let of_it = figures.iter().enumerate().filter(|(_, figure)| figure.test == test);
            readings.extend(of_it.filter_map(|(figure, it)| {
                Some(MeasuredValue {
                    figure,
                    series: title.clone(),
                    x: f64::from(size),
                    y: 0.0,
                    value: (it.value)(&sample)?,
                })
            }));
        }
        Ok(MeasuredValues { readings, warm_up })
    }

    fn conclude(&self, figures: &mut Vec<Figure>) -> Vec<String> {
        if self.name != ExperimentName::Throughput {
            return Vec::new();
        }
        for (name, paper) in [("send", PAPER_SEND), ("receive", PAPER_RECEIVE)] {
            let Some(figure) = figures.iter().find(|figure| figure.name == name) else { continue };
            let papers = papers(&figure.places(), paper, self.has_both_ends());
            let (share, title) =
                (format!("{name}-share"), format!("{}, share of Linux", figure.title));
            let more = share_of_base(figure, (&share, &title), Direction::Higher, &papers);
            figures.extend(more);
        }
        UnitSweep::conclude(figures);
        Vec::new()
    }
}

/// The second paper's shares of Linux: at one end, and at both if that is measured.
fn papers(places: &[f64], one_end: f64, has_both_ends: bool) -> Vec<Reference> {
    let flat = |what: &str, share| {
        Reference::flat(&format!("paper 2: rump kernel at {what} of all sizes"), places, share)
    };
    let both = PAPER_BOTH
        .iter()
        .filter(|_| has_both_ends)
        .map(|(which, rate)| flat(&format!("both ends, {which}"), 100.0 * rate / PAPER_LINUX));
    [flat("one end, mean", one_end)].into_iter().chain(both).collect()
}

/// What a client measures.
fn sample(host: &Host, words: &[String]) -> Result<Sample> {
    let said = output_of(host, words, None)?;
    Sample::of_line(&said).with_context(|| format!("what the client prints: `{said}`"))
}
