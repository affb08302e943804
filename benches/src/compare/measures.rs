//! What `compare` measures, and the figures that the lab's files have of it: one for each measure
//! of one kind of set-up and role. Its series are the set-ups, its base is the kernel's, its places
//! are the sizes.

use lab::results::BEFORE;
use lab::{Direction, FigureKind};

use crate::lab::experiment::{FigurePlan, MeasuredValue, bytes_axis};
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

/// The figures of a kind of set-ups in one role, in the order of the measures. `words` measure all
/// of them again.
pub(super) fn plans(kind: Setup, role: Role, has_base: bool, words: &str) -> Vec<FigurePlan> {
    let (short, end) = (short(kind), if role == Role::Server { ", the server's end" } else { "" });
    let title = Setup::BASES.iter().find(|(base, _)| *base == kind).map_or("", |(_, title)| title);
    let plan = |measure: &Measure| FigurePlan {
        name: format!("{}-{short}-{}", measure.name, word(&role)),
        title: format!("{}. {title}{end}", measure.title),
        axis: bytes_axis(measure.axis),
        unit: measure.unit,
        direction: measure.direction,
        base: has_base.then(|| kind.title()),
        words: format!("{words} --test {}", word(&measure.test)),
        is_judged: true,
        kind: FigureKind::Lines,
        second: None,
    };
    MEASURES.iter().map(plan).collect()
}

/// A kind of set-ups, in the names of its figures.
fn short(kind: Setup) -> &'static str {
    match kind {
        Setup::LinuxOff => "off",
        Setup::LinuxOn => "on",
        Setup::Pasta => "passt",
        _ => "wire",
    }
}

/// The values that figures show of a row.
pub(super) fn values(row: &Row) -> impl Iterator<Item = MeasuredValue> {
    let of_test = |(_, measure): &(usize, &Measure)| measure.test == row.sample.test;
    MEASURES.iter().enumerate().filter(of_test).filter_map(|(figure, measure)| {
        Some(MeasuredValue {
            figure,
            series: series(row.setup, row.build),
            x: f64::from(row.sample.size),
            y: 0.0,
            value: (measure.figure)(row)?,
        })
    })
}

/// The name of a set-up's series.
pub(super) fn series(setup: Setup, build: Build) -> String {
    let before = if build == Build::Before { BEFORE } else { "" };
    format!("{}{before}", setup.title())
}

/// A value as the command line has it.
pub(super) fn word(value: &impl clap::ValueEnum) -> String {
    value.to_possible_value().map_or(String::new(), |word| word.get_name().to_owned())
}
