//! The rows of `compare` as a results file of the lab (docs/reference/lab-results.md), which
//! `tasuki lab` compares and shows.
//!
//! A figure is one measure of one kind of set-up and role. Its series are the set-ups, its base is
//! the kernel's, its places are the sizes. Each row gives one sample, in its round. The file is
//! written after every round, marked as partial until the last, so a run that is ended early leaves
//! what it found.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, Result};
use lab::statistics::NOISY;
use lab::{
    Axis, Calibration, Direction, Experiment, Figure, FigureKind, Machine, Mark, Origin, Point,
    Results, Sample, Scale, Series,
};

use crate::described;
use crate::machine::MachineState;
use crate::protocol::Test;
use crate::row::{Row, RowFigure};
use crate::setup::{Build, Role, Setup};

/// What a figure shows of rows.
struct Measure {
    name: &'static str,
    title: &'static str,
    axis: &'static str,
    unit: &'static str,
    test: Test,
    direction: Direction,
    figure: RowFigure,
}

const SENDS: Measure = Measure {
    name: "send",
    title: "Send",
    axis: "bytes per write",
    unit: "MiB/s",
    test: Test::Send,
    direction: Direction::Higher,
    figure: Row::sweep_rate,
};
const TRIPS: Measure = Measure {
    name: "round-trip",
    title: "Round trip, median",
    axis: "bytes per request",
    unit: "µs",
    test: Test::Rtt,
    direction: Direction::Lower,
    figure: |row| row.sample.median_us,
};
const MEASURES: [Measure; 9] = [
    SENDS,
    Measure { name: "receive", title: "Receive", test: Test::Receive, ..SENDS },
    TRIPS,
    Measure {
        name: "round-trip-p99",
        title: "Round trip, 99th percentile",
        figure: |row| row.sample.p99_us,
        ..TRIPS
    },
    Measure {
        name: "connects",
        title: "Connect, request, close",
        unit: "per second",
        test: Test::Connect,
        direction: Direction::Higher,
        figure: Row::sweep_rate,
        ..TRIPS
    },
    Measure {
        name: "connects-p99",
        title: "Connect, request, close, 99th percentile",
        test: Test::Connect,
        figure: |row| row.sample.p99_us,
        ..TRIPS
    },
    Measure {
        name: "turns",
        title: "Round trip of two processes that take turns, median",
        test: Test::Turns,
        ..TRIPS
    },
    Measure {
        name: "cpu-send",
        title: "Processor time, send",
        unit: "s/GiB",
        direction: Direction::Lower,
        figure: Row::cpu_per_gib,
        ..SENDS
    },
    Measure {
        name: "cpu-receive",
        title: "Processor time, receive",
        unit: "s/GiB",
        test: Test::Receive,
        direction: Direction::Lower,
        figure: Row::cpu_per_gib,
        ..SENDS
    },
];

/// The run that the rows are of.
pub(crate) struct ResultsRun {
    made: Origin,
    began: SystemTime,
    /// Rounds that were asked for.
    rounds: u32,
    properties: BTreeMap<String, String>,
    /// Words of the command but those that choose set-ups, roles and measures.
    words: String,
}

impl ResultsRun {
    /// Begins. `words` are the options of the command that all its figures need.
    pub(crate) fn new(tasuki: &Path, rounds: u32, congestion: &str, words: &str) -> Result<Self> {
        let began = SystemTime::now();
        let since = began.duration_since(SystemTime::UNIX_EPOCH).context("the clock")?;
        let mut properties = described::properties();
        properties.insert("congestion control of the kernel's ends".into(), congestion.into());
        let program: Vec<String> = std::env::args().skip(1).collect();
        let made = Origin {
            by: concat!("tasuki-bench ", env!("CARGO_PKG_VERSION")).to_owned(),
            command: format!("tasuki-bench {}", program.join(" ")),
            tasuki: described::tasuki(tasuki)?,
            began: since.as_secs(),
            seconds: 0,
        };
        Ok(Self { made, began, rounds, properties, words: words.to_owned() })
    }

    /// Writes what there is after `done` rounds.
    ///
    /// # Errors
    /// Those of the file.
    pub(crate) fn write(
        &self,
        file: &Path,
        rows: &[Row],
        done: u32,
        failures: &[String],
    ) -> Result<()> {
        let results = self.results(rows, done, failures);
        results.check().context("results that `tasuki lab` would refuse")?;
        let text = serde_json::to_vec(&results)?;
        let beside = file.with_extension("json.new");
        fs::write(&beside, text)
            .and_then(|()| fs::rename(&beside, file))
            .with_context(|| format!("writing the results {}", file.display()))
    }

    fn results(&self, rows: &[Row], done: u32, failures: &[String]) -> Results {
        let seconds = self.began.elapsed().map_or(0, |passed| passed.as_secs());
        let missing = (done < self.rounds)
            .then(|| format!("{done} of {} rounds were measured.", self.rounds))
            .or_else(|| {
                let first = failures.first()?;
                Some(format!("{} measurements failed, such as {first}", failures.len()))
            });
        let kinds = Setup::BASES.iter().flat_map(|(base, title)| {
            [Role::Client, Role::Server].map(|role| (*base, *title, role))
        });
        let figures = kinds.flat_map(|kind| {
            MEASURES.iter().filter_map(move |measure| self.figure(rows, kind, measure, done))
        });
        Results {
            format: lab::results::FORMAT.to_owned(),
            version: lab::results::VERSION,
            made: Origin { seconds, ..self.made.clone() },
            machine: self.machine(rows),
            partial: missing.map(|sentence| described::one_line(&sentence)),
            experiments: vec![Experiment {
                name: "compare".to_owned(),
                title: "Tasuki beside the kernel".to_owned(),
                findings: Vec::new(),
                figures: figures.collect(),
            }],
        }
    }

    /// One measure of one kind of set-ups; `None` without rows of it.
    fn figure(
        &self,
        rows: &[Row],
        (base, title, role): (Setup, &str, Role),
        measure: &Measure,
        done: u32,
    ) -> Option<Figure> {
        let has = |row: &&Row| {
            (row.setup.base(), row.role, row.sample.test) == (base, role, measure.test)
                && (measure.figure)(row).is_some()
        };
        let rows: Vec<&Row> = rows.iter().filter(has).collect();
        let mut setups: Vec<(Setup, Build)> =
            rows.iter().map(|row| (row.setup, row.build)).collect();
        setups.sort_by_key(|(setup, build)| (*setup != base, *setup, *build == Build::Before));
        setups.dedup();
        let (first, _) = setups.first()?;
        let series = setups.iter().map(|setup| series(&rows, *setup, measure, done));
        let only: Vec<String> = setups.iter().map(|(setup, _)| word(setup)).collect();
        let only: BTreeSet<String> = only.into_iter().collect();
        let only: Vec<String> = only.into_iter().collect();
        let kind = match base {
            Setup::LinuxOff => "off",
            Setup::LinuxOn => "on",
            _ => "wire",
        };
        let end = if role == Role::Server { ", the server's end" } else { "" };
        Some(Figure {
            name: format!("{}-{kind}-{}", measure.name, word(&role)),
            title: format!("{}. {title}{end}", measure.title),
            axis: Axis { title: measure.axis.to_owned(), unit: "B".to_owned(), scale: Scale::Log },
            unit: measure.unit.to_owned(),
            direction: measure.direction,
            command: format!(
                "tasuki-bench compare{} --only {} --role {} --test {}",
                self.words,
                only.join(","),
                word(&role),
                word(&measure.test)
            ),
            kind: FigureKind::Lines,
            second: None,
            lanes: Vec::new(),
            base: (*first == base).then(|| base.title().to_owned()),
            series: series.collect(),
        })
    }

    fn machine(&self, rows: &[Row]) -> Machine {
        let mut states: Vec<(u32, MachineState)> = Vec::new();
        for row in rows {
            // All rows of one command have one state.
            if let Some(state) = row.machine
                && states.last() != Some(&(row.round, state))
            {
                states.push((row.round, state));
            }
        }
        let calibration = |name: &str, unit: &str, figure: fn(&MachineState) -> f64| {
            let sample = |(round, state): &(u32, MachineState)| Sample {
                round: *round,
                value: figure(state),
            };
            Calibration {
                name: name.to_owned(),
                unit: unit.to_owned(),
                samples: states.iter().map(sample).collect(),
            }
        };
        Machine {
            system: described::system(),
            processor: described::processor(),
            processors: described::processors() as u32,
            properties: self.properties.clone(),
            calibration: vec![
                calibration("cost of a wake-up", "µs", |state| state.wake_up_us),
                calibration("time stolen by the hypervisor", "%", |state| state.steal_percent),
                calibration("load", "processes", |state| state.load),
            ],
        }
    }
}

/// The points of a set-up, by size.
fn series(rows: &[&Row], setup: (Setup, Build), measure: &Measure, done: u32) -> Series {
    let mut points: BTreeMap<u32, Vec<Sample>> = BTreeMap::new();
    for row in rows.iter().filter(|row| (row.setup, row.build) == setup) {
        if let Some(value) = (measure.figure)(row) {
            points.entry(row.sample.size).or_default().push(Sample { round: row.round, value });
        }
    }
    let point = |(size, samples): (u32, Vec<Sample>)| {
        let discarded = done.saturating_sub(samples.len() as u32);
        let x = f64::from(size);
        let mut point = Point { x, y: 0.0, samples, warm_up: 0, discarded, marks: Vec::new() };
        if discarded > 0 {
            point.marks.push(Mark::Partial);
        }
        if point.interval().is_some_and(|interval| interval.relative_half_width() > NOISY) {
            point.marks.push(Mark::Noisy);
        }
        point
    };
    let before = if setup.1 == Build::Before { ", before" } else { "" };
    Series {
        name: format!("{}{before}", setup.0.title()),
        reference: false,
        points: points.into_iter().map(point).collect(),
    }
}

/// A value as the command line has it.
fn word(value: &impl clap::ValueEnum) -> String {
    value.to_possible_value().map_or(String::new(), |word| word.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Sample as RowSample;

    fn row(setup: Setup, build: Build, round: u32, rate: f64) -> Row {
        let machine = MachineState { wake_up_us: 5.0, steal_percent: 0.0, load: 1.0 };
        let sample = RowSample::of_rate(Test::Send, 1024, rate);
        let (role, machine) = (Role::Client, Some(machine));
        Row { setup, build, role, round, sample, cpu: None, gib: 1.0, machine }
    }

    fn run(rounds: u32) -> ResultsRun {
        ResultsRun {
            made: Origin::default(),
            began: SystemTime::now(),
            rounds,
            properties: BTreeMap::new(),
            words: " --rounds 2".to_owned(),
        }
    }

    #[test]
    fn rows_become_a_file_that_the_lab_takes() {
        let rows = [
            row(Setup::Split, Build::New, 0, 150.0),
            row(Setup::Split, Build::Before, 0, 120.0),
            row(Setup::LinuxOn, Build::New, 0, 100.0),
            row(Setup::LinuxOn, Build::New, 1, 110.0),
            row(Setup::Split, Build::New, 1, 165.0),
            row(Setup::Split, Build::Before, 1, 132.0),
        ];
        let results = run(2).results(&rows, 2, &[]);
        let text = serde_json::to_vec(&results).expect("JSON");
        let results = Results::parse(&text).expect("a good file");
        assert_eq!(results.partial, None);
        let [figure] = &results.experiments[0].figures[..] else { panic!("{results:?}") };
        assert_eq!((&figure.name[..], figure.base.as_deref()), ("send-on-client", Some("Linux")));
        let names: Vec<&str> = figure.series.iter().map(|series| &series.name[..]).collect();
        assert_eq!(names, ["Linux", "split", "split, before"]);
        let ratios = figure.series[1].points[0].ratios_to(&figure.series[0].points[0]);
        assert_eq!(ratios, [(0, 1.5), (1, 1.5)].into());
        let command =
            "tasuki-bench compare --rounds 2 --only linux-on,split --role client --test send";
        assert_eq!(figure.command, command);
        // The two states in a row of one round are one command's.
        assert_eq!(results.machine.calibration[0].samples.len(), 2);
    }

    #[test]
    fn what_is_missing_is_told() {
        let rows = [
            row(Setup::LinuxOn, Build::New, 0, 100.0),
            row(Setup::LinuxOn, Build::New, 1, 100.0),
            row(Setup::Split, Build::New, 1, 100.0),
        ];
        let failures = ["round 1: split send: it ended\n with 1".to_owned()];
        let results = run(2).results(&rows, 2, &failures);
        results.check().expect("a good file");
        let said = results.partial.expect("something is missing");
        let expected = "1 measurements failed, such as round 1: split send: it ended with 1";
        assert_eq!(said, expected);
        let points = &results.experiments[0].figures[0].series[1].points;
        assert_eq!((points[0].discarded, &points[0].marks[..]), (1, &[Mark::Partial][..]));
        let early = run(5).results(&rows, 2, &[]).partial.expect("something is missing");
        assert_eq!(early, "2 of 5 rounds were measured.");
    }
}
