//! The fifth paper's experiment: blocks of a disk plain, by TLS, sealed above TCP, by ESP below it,
//! and encrypted end to end, read and written, by the size of a block and by the delay of the wire.
//! With the paper's cipher, triple DES, programs encrypt whole blocks above TCP. The worlds are
//! those of `tasuki-bench storage`.
//!
//! Transports are measured with a unit that keeps no bytes: nothing but the way to it takes time.
//! End to end needs one with a header, which is in memory. What it costs is told beside the same
//! unit in plain ([`ReadyMemory`]).

mod axes;
mod end_to_end;
mod paper;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use lab::plan::{ExperimentName, LabOptions, StorageCipher};
use lab::statistics::median;
use lab::{Direction, Figure, FigureKind};

use self::axes::{DiskAxis, DiskSetting, axes};
use super::experiment::{FigurePlan, LabExperiment, MeasuredValue, MeasuredValues};
use crate::hosts::Programs;
use crate::storage::{ReadyBlocks, ReadyMemory, ReadyTransport, StorageRow};

/// Requests that are open at a time.
const DEPTH: u16 = 8;
/// The same of the programs that encrypt whole blocks. The paper's had one; with more, the next
/// block is encrypted while one is on its way.
const BLOCK_DEPTH: u16 = 4;
const SECONDS: f64 = 1.0;
const QUICK_SECONDS: f64 = 0.5;
/// Transports as `tasuki-bench storage` names them, disks in memory, and the one that others are
/// compared with.
const DISKS: [&str; 6] =
    ["plain", "tls", "sealed", BASE, ReadyMemory::PLAIN, ReadyMemory::END_TO_END];
const BASE: &str = "esp";
/// The same for triple DES.
const BLOCKS_BASE: &str = "3DES by ESP";

/// A set-up, made and ready.
enum ReadyDisk {
    Transport(ReadyTransport),
    Memory(ReadyMemory),
    Blocks(ReadyBlocks),
}

/// See the module.
pub(crate) struct DiskTransfers {
    programs: Programs,
    axes: Vec<DiskAxis>,
    cipher: StorageCipher,
    seconds: f64,
    /// Of the command that repeats a figure, besides those of its axis.
    more_words: String,
    /// By set-up and delay. Made when they are needed first. Those without a delay are kept, and of
    /// each set-up one with a delay.
    ready: BTreeMap<(usize, u32), ReadyDisk>,
    /// How many were made.
    made: usize,
}

/// A value of a measurement, which is one figure for each axis.
struct DiskFigure {
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    direction: Direction,
    value: fn(&StorageRow, Option<f64>) -> Option<f64>,
}

const FIGURES: [DiskFigure; 5] = [
    DiskFigure {
        name: "rate",
        title: "one behind the other",
        unit: "MiB/s",
        direction: Direction::Higher,
        value: |row, _| Some(row.mib()),
    },
    DiskFigure {
        name: "cpu",
        title: "processor time of both sides",
        unit: "s/GiB",
        direction: Direction::Lower,
        value: |row, _| {
            let (user, system) = row.cpu_per_gib();
            Some(user + system)
        },
    },
    DiskFigure {
        name: "cpu-user",
        title: "processor time of both sides, user",
        unit: "s/GiB",
        direction: Direction::Lower,
        value: |row, _| Some(row.cpu_per_gib().0),
    },
    DiskFigure {
        name: "cpu-system",
        title: "processor time of both sides, system",
        unit: "s/GiB",
        direction: Direction::Lower,
        value: |row, _| Some(row.cpu_per_gib().1),
    },
    DiskFigure {
        name: "hidden",
        title: "share of the sealing that the wire hides",
        unit: "%",
        direction: Direction::Higher,
        value: |_, hidden| hidden.map(|part| 100.0 * part),
    },
];

impl DiskTransfers {
    /// As the options say.
    pub(crate) fn new(programs: &Programs, options: &LabOptions) -> Self {
        Self {
            programs: programs.clone(),
            axes: axes(options),
            cipher: options.cipher.unwrap_or_default(),
            seconds: if options.quick { QUICK_SECONDS } else { SECONDS },
            more_words: options.kept_words(ExperimentName::Storage),
            ready: BTreeMap::new(),
            made: 0,
        }
    }

    fn names(&self) -> &'static [&'static str] {
        match self.cipher {
            StorageCipher::Aes => &DISKS,
            StorageCipher::TripleDes => &ReadyBlocks::NAMES,
        }
    }

    fn base(&self) -> &'static str {
        match self.cipher {
            StorageCipher::Aes => BASE,
            StorageCipher::TripleDes => BLOCKS_BASE,
        }
    }

    /// The axis and the setting of a point.
    fn at(&self, point: usize) -> Option<(usize, DiskSetting)> {
        let all = self.axes.iter().enumerate();
        all.flat_map(|(at, axis)| axis.points.iter().map(move |it| (at, *it))).nth(point)
    }

    fn setup(&mut self, setup: usize, delay: u32) -> Result<&ReadyDisk> {
        let key = (setup, delay);
        if !self.ready.contains_key(&key) {
            self.ready.retain(|(other, delay), _| *other != setup || *delay == 0);
            let name = *self.names().get(setup).context("a set-up")?;
            let us = delay * 1000;
            // Those of two builds stand beside each other.
            let number = 2 * self.made + self.programs.build as usize;
            self.made += 1;
            let (tasuki, in_memory) =
                (&self.programs.tasuki, [ReadyMemory::PLAIN, ReadyMemory::END_TO_END]);
            let made = match self.cipher {
                StorageCipher::Aes if in_memory.contains(&name) => {
                    ReadyDisk::Memory(ReadyMemory::new(tasuki, number, name, us)?)
                }
                StorageCipher::Aes => {
                    ReadyDisk::Transport(ReadyTransport::null(tasuki, number, name, us)?)
                }
                StorageCipher::TripleDes => {
                    ReadyDisk::Blocks(ReadyBlocks::new(tasuki, number, name, us)?)
                }
            };
            self.ready.insert(key, made);
        }
        self.ready.get(&key).context("a set-up")
    }

    /// The kind of transfer, for a title.
    fn kind(&self, axis: &DiskAxis) -> &'static str {
        match (self.cipher, axis.is_write()) {
            (StorageCipher::TripleDes, _) => "Whole blocks over sockets",
            (StorageCipher::Aes, false) => "Reads",
            (StorageCipher::Aes, true) => "Writes",
        }
    }
}

/// The name of a figure of an axis.
fn name(axis: &DiskAxis, figure: &DiskFigure) -> String {
    let rate = if axis.is_write() { "write" } else { "read" };
    axis.name(if figure.name == "rate" { rate } else { figure.name })
}

impl LabExperiment for DiskTransfers {
    fn figures(&self) -> Vec<FigurePlan> {
        let plan = |axis: &DiskAxis, figure: &DiskFigure| FigurePlan {
            name: name(axis, figure),
            title: format!("{}, {}{}", self.kind(axis), figure.title, axis.title()),
            axis: axis.axis(),
            unit: figure.unit,
            direction: figure.direction,
            base: (figure.unit != "%").then(|| self.base()),
            words: axis.words(self.cipher) + &self.more_words,
            is_judged: figure.name == "rate",
            kind: FigureKind::Lines,
            second: None,
        };
        let all = self.axes.iter().flat_map(|axis| FIGURES.iter().map(move |it| (axis, it)));
        all.map(|(axis, figure)| plan(axis, figure)).collect()
    }

    fn points(&self) -> Vec<String> {
        let of = |axis: &DiskAxis| {
            let (access, unit) = (if axis.is_write() { "write" } else { "read" }, axis.axis().unit);
            let place = |setting: &DiskSetting| lab::report::place(axis.place(*setting), &unit);
            axis.points.iter().map(|it| format!("{access} {}", place(it))).collect::<Vec<_>>()
        };
        self.axes.iter().flat_map(of).collect()
    }

    fn setups(&self) -> Vec<String> {
        self.names().iter().map(|name| (*name).to_owned()).collect()
    }

    fn has_tasuki(&self, _setup: usize) -> bool {
        true
    }

    fn begin_round(&mut self, round: u32) {
        if round > 0 {
            self.ready.clear();
        }
    }

    fn measure(&mut self, point: usize, setup: usize) -> Result<MeasuredValues> {
        let (at, setting) = self.at(point).context("a point")?;
        let series = (*self.names().get(setup).context("a set-up")?).to_owned();
        let (seconds, requests) = (self.seconds, (setting.access(), setting.size, DEPTH));
        let (row, hidden) = match self.setup(setup, setting.delay)? {
            ReadyDisk::Transport(disk) => disk.transfer(requests, seconds)?,
            ReadyDisk::Memory(disk) => (disk.transfer(requests, seconds)?, None),
            ReadyDisk::Blocks(blocks) => (blocks.read(setting.size, BLOCK_DEPTH, seconds)?, None),
        };
        let x = self.axes.get(at).context("an axis")?.place(setting);
        let first = at * FIGURES.len();
        let values = FIGURES.iter().enumerate().filter_map(|(figure, it)| {
            let value = (it.value)(&row, hidden)?;
            Some(MeasuredValue { figure: first + figure, series: series.clone(), x, y: 0.0, value })
        });
        Ok(MeasuredValues { readings: values.collect(), warm_up: 0 })
    }

    fn conclude(&self, figures: &mut Vec<Figure>) -> Vec<String> {
        let shares = paper::shares(figures, self.cipher);
        let said: Vec<String> = shares.iter().filter_map(paper::sentence).collect();
        let kept = figures.iter().filter_map(end_to_end::sentence);
        let said: Vec<String> = said.into_iter().chain(kept).collect();
        figures.extend(shares);
        said.into_iter().chain(figures.iter().filter_map(hidden)).collect()
    }
}

/// How much of the sealing the wire hides, from the first place to the last.
fn hidden(figure: &Figure) -> Option<String> {
    if !figure.name.starts_with("hidden") {
        return None;
    }
    let points = &figure.series.first()?.points;
    let said = |point: &lab::Point| {
        let percent = median(&point.values())?;
        Some(format!("{percent:.0} % at {}", lab::report::place(point.x, &figure.axis.unit)))
    };
    let (first, last) = (said(points.first()?)?, said(points.last()?)?);
    let range = if points.len() == 1 { first } else { format!("{first}, {last}") };
    Some(format!("Of the sealing of reads the wire hides {range} ({}).", figure.axis.title))
}
