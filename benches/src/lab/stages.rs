//! The first paper's table: where the time of a send goes, stage by stage, in each mode, beside the
//! columns of the paper; and the same of a receive.
//!
//! `tasuki stages` measures, on a program that pauses after each send. So nothing overlaps with the
//! send before; stages of one send may overlap, since the program goes on while the result travels.
//! Linux has no such stages: its bar has those that its tracepoints tell, or the time of the system
//! call ([`linux`]).

mod linux;
mod paper;

use anyhow::{Context as _, Result};
use lab::plan::{ExperimentName, LabOptions, LabSetup, listed};
use lab::{Direction, Figure, FigureKind, SecondAxis, Series};
use serde_json::Value;

use self::linux::LinuxSends;
use super::experiment::{FigurePlan, LabExperiment, MeasuredValue, MeasuredValues, bytes_axis};
use crate::hosts::Programs;
use crate::instruments::{Instance, Making};

const SIZES: [u32; 5] = [256, 1024, 16 << 10, 256 << 10, 4 << 20];
const QUICK_SIZES: [u32; 2] = [256, 64 << 10];
/// Sends of a sample, of which half are watched; fewer if they have more than so many bytes.
const COUNT: u32 = 130;
const MOST_BYTES: u32 = 512 << 20;

/// The parts of a send: first those of `tasuki stages` by their names there, then those that only
/// the others have.
const SEND: [&str; 16] = [
    "before request to inet server",
    "request program -> inet",
    "inet server dispatch",
    "TCP layer",
    "IP layer",
    "Ethernet layer",
    "before request to driver",
    "request inet -> driver",
    "driver dispatch",
    "I/O to NIC",
    "before result",
    "result driver -> inet",
    "send returns to program",
    "packet build (FreeBSD: mbuf and copy)",
    "TCP and IP layers (Linux: not divided)",
    "whole system call (Linux: not divided)",
];
/// The same of a receive.
const RECEIVE: [&str; 11] = [
    "I/O from NIC",
    "before request to inet server",
    "request driver -> inet",
    "inet server dispatch",
    "Ethernet layer",
    "IP layer",
    "TCP layer",
    "to the program's memory",
    "program's bell",
    "bell inet -> program",
    "recv returns to program",
];
/// Figures: name, title, parts, and where the report has them.
const FIGURES: [(&str, &str, &[&str], &str); 2] = [
    ("send", "Stages of a send", &SEND, "stages"),
    ("receive", "Stages of a receive", &RECEIVE, "receive_stages"),
];

/// Who takes turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StageSetup {
    Linux,
    /// Tasuki in a mode.
    Mode(&'static str),
}

impl StageSetup {
    fn title(self) -> &'static str {
        match self {
            Self::Linux => "Linux",
            Self::Mode(mode) => mode,
        }
    }
}

/// See the module.
pub(crate) struct SendStages {
    programs: Programs,
    sizes: Vec<u32>,
    setups: Vec<StageSetup>,
    /// Of the command that repeats a figure, besides those of its axis.
    more_words: String,
    /// Made when they are needed first, and kept.
    instances: Vec<Option<Instance>>,
    linux: Option<LinuxSends>,
}

impl SendStages {
    /// As the options say.
    pub(crate) fn new(programs: &Programs, options: &LabOptions) -> Self {
        let usual = if options.quick { &QUICK_SIZES[..] } else { &SIZES };
        let given = options.size.as_ref().map(|places| places.all().to_vec());
        let all = [
            (LabSetup::Linux, StageSetup::Linux),
            (LabSetup::Split, StageSetup::Mode("split")),
            (LabSetup::Fused, StageSetup::Mode("fused")),
            (LabSetup::Library, StageSetup::Mode("library")),
        ];
        let chosen = all.into_iter().filter(|(setup, _)| options.has(*setup));
        let setups: Vec<StageSetup> = chosen.map(|(_, setup)| setup).collect();
        Self {
            programs: programs.clone(),
            sizes: given.unwrap_or_else(|| usual.to_vec()),
            instances: setups.iter().map(|_| None).collect(),
            setups,
            more_words: options.kept_words(ExperimentName::Stages),
            linux: None,
        }
    }

    fn instance(&mut self, setup: usize, mode: &'static str) -> Result<&Instance> {
        let slot = self.instances.get_mut(setup).context("a set-up")?;
        if slot.is_none() {
            let Programs { tasuki, build, .. } = &self.programs;
            let making = Making { tasuki, mode, pinned: true, config: None, build: *build };
            *slot = Some(Instance::made(&making)?);
        }
        slot.as_ref().context("an instance")
    }

    fn linux(&mut self) -> Result<&LinuxSends> {
        if self.linux.is_none() {
            self.linux = Some(LinuxSends::new(&self.programs.tasuki)?);
        }
        self.linux.as_ref().context("a host")
    }
}

/// The parts of one report, microseconds, by the place of their names.
fn parts(report: &Value, key: &str, names: &[&str]) -> Result<Vec<(usize, f64)>> {
    let rows = report[key].as_array().with_context(|| format!("`{key}` of `tasuki stages`"))?;
    let seen = |row: &&Value| row["seen"].as_u64().unwrap_or(0) > 0;
    let of_row = |row: &Value| {
        let stage = row["stage"].as_str().context("the name of a stage")?;
        let at = names.iter().position(|name| *name == stage);
        let at = at.with_context(|| format!("the lab knows no stage `{stage}`"))?;
        Ok((at, row["median_ns"].as_f64().context("the time of a stage")? / 1000.0))
    };
    rows.iter().filter(seen).map(of_row).collect()
}

impl LabExperiment for SendStages {
    fn figures(&self) -> Vec<FigurePlan> {
        let plan = |(name, title, parts, _): &(&str, &str, &[&str], &str)| FigurePlan {
            name: (*name).to_owned(),
            title: (*title).to_owned(),
            axis: bytes_axis("bytes of a send"),
            unit: "µs",
            direction: Direction::Lower,
            base: None,
            words: format!("stages --size {}{}", listed(&self.sizes), self.more_words),
            is_judged: true,
            kind: FigureKind::StackedBars,
            second: Some(SecondAxis {
                title: "stage".to_owned(),
                unit: String::new(),
                names: parts.iter().map(|part| (*part).to_owned()).collect(),
            }),
        };
        FIGURES.iter().map(plan).collect()
    }

    fn points(&self) -> Vec<String> {
        self.sizes.iter().map(|size| lab::report::place(f64::from(*size), "B")).collect()
    }

    fn setups(&self) -> Vec<String> {
        self.setups.iter().map(|setup| setup.title().to_owned()).collect()
    }

    fn has_tasuki(&self, setup: usize) -> bool {
        matches!(self.setups.get(setup), Some(StageSetup::Mode(_)))
    }

    fn begin_round(&mut self, round: u32) {
        if round > 0 {
            self.instances.fill_with(|| None);
        }
    }

    fn measure(&mut self, point: usize, setup: usize) -> Result<MeasuredValues> {
        let size = *self.sizes.get(point).context("a size")?;
        let kind = *self.setups.get(setup).context("a set-up")?;
        let count = COUNT.min(MOST_BYTES / size);
        let mut found = Vec::new();
        match kind {
            StageSetup::Linux => {
                let parts = self.linux()?.parts(count, size)?;
                found.push((0, parts));
            }
            StageSetup::Mode(mode) => {
                let instance = self.instance(setup, mode)?;
                for (at, (name, _, names, key)) in FIGURES.iter().enumerate() {
                    let report = instance.staged(count, size, *name == "receive")?;
                    found.push((at, parts(&report, key, names)?));
                }
            }
        }
        let reading = |(figure, parts): (usize, Vec<(usize, f64)>)| {
            parts.into_iter().map(move |(part, value)| MeasuredValue {
                figure,
                series: kind.title().to_owned(),
                x: f64::from(size),
                y: part as f64,
                value,
            })
        };
        Ok(MeasuredValues { readings: found.into_iter().flat_map(reading).collect(), warm_up: 0 })
    }

    fn conclude(&self, figures: &mut Vec<Figure>) -> Vec<String> {
        let Some(send) = figures.iter_mut().find(|figure| figure.name == "send") else {
            return Vec::new();
        };
        send.series.extend(paper::series());
        together(send).into_iter().collect()
    }
}

/// All stages of a send of the least size together, in a sentence.
fn together(send: &Figure) -> Option<String> {
    let measured = send.series.iter().filter(|series| !series.reference);
    let places = measured.flat_map(|series| &series.points).map(|point| point.x);
    let least = places.reduce(f64::min)?;
    let total = |series: &Series| {
        let parts = series.points.iter().filter(|point| point.x == least);
        let medians = parts.filter_map(|point| Some(point.interval()?.middle));
        let total: f64 = medians.sum();
        (total > 0.0).then(|| format!("{} {total:.1} µs", series.name))
    };
    let totals: Vec<String> = send.series.iter().filter_map(total).collect();
    let size = lab::report::place(least, "B");
    Some(format!("All stages of a send of {size} together: {}.", totals.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::lab::derived::paper_series;

    #[test]
    fn a_sentence_has_the_sums_of_the_least_size() {
        let programs = Programs::new(Path::new("tasuki"), Path::new("")).expect("programs");
        let mut send = SendStages::new(&programs, &LabOptions::default()).figures()[0].figure();
        send.series.extend(paper::series());
        assert_eq!(together(&send), None, "nothing was measured");
        let split = paper_series("split", &[(256.0, 0.0, 1.5), (256.0, 1.0, 2.0)]);
        send.series.insert(0, Series { reference: false, ..split });
        let said = together(&send).expect("a sentence");
        assert_eq!(
            said,
            "All stages of a send of 256 B together: split 3.5 µs, paper 1: AnT 23.6 µs, paper 1: \
             FreeBSD 4.3 5.8 µs."
        );
    }

    #[test]
    fn parts_are_found_by_their_names() {
        let row = |stage, seen| json!({"stage": stage, "seen": seen, "median_ns": 2500});
        let report = json!({"stages": [row("TCP layer", 3), row("IP layer", 0)]});
        assert_eq!(parts(&report, "stages", &SEND).expect("parts"), [(3, 2.5)]);
        let unknown = json!({"stages": [row("UDP layer", 1)]});
        let said = parts(&unknown, "stages", &SEND).expect_err("an unknown stage").to_string();
        assert!(said.contains("UDP layer"), "{said}");
    }
}
