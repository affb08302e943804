//! The first paper's experiment: what it costs to hand an area to another process, by its size.
//! `tasuki-bench handover` measures, in a process of its own, since it ties itself to a processor.

use anyhow::{Context as _, Result};
use lab::plan::{ExperimentName, LabOptions};
use lab::{Direction, Figure, FigureKind};

use super::derived::Reference;
use super::experiment::{FigurePlan, LabExperiment, MeasuredValue, MeasuredValues, bytes_axis};
use super::part::{asked, two_processors};
use crate::handover::HandoverFigure;

const SIZES: [u32; 6] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
const QUICK_SIZES: [u32; 3] = [4 << 10, 64 << 10, 1 << 20];
/// Hand-overs of a sample on each of 16 connections.
const ROUNDS: u32 = 10;
const QUICK_ROUNDS: u32 = 5;
/// The series that others are compared with.
const COPY: &str = "send by a copy";

/// See the module.
pub(crate) struct Handovers {
    sizes: Vec<u32>,
    rounds: u32,
}

impl Handovers {
    /// As the options say.
    pub(crate) fn new(options: &LabOptions) -> Self {
        let usual = if options.quick { &QUICK_SIZES[..] } else { &SIZES };
        let given = options.size.as_ref().map(|places| places.all().to_vec());
        let rounds = if options.quick { QUICK_ROUNDS } else { ROUNDS };
        Self { sizes: given.unwrap_or_else(|| usual.to_vec()), rounds }
    }
}

impl LabExperiment for Handovers {
    fn name(&self) -> ExperimentName {
        ExperimentName::Handover
    }

    fn figures(&self) -> Vec<FigurePlan> {
        let sizes: Vec<String> = self.sizes.iter().map(ToString::to_string).collect();
        vec![FigurePlan {
            name: "area".to_owned(),
            title: "Handing over an area, time of the giver".to_owned(),
            axis: bytes_axis("bytes of an area"),
            unit: "ns",
            direction: Direction::Lower,
            base: Some(COPY),
            words: format!("handover --size {}", sizes.join(",")),
            is_judged: true,
            kind: FigureKind::Lines,
            second: None,
        }]
    }

    fn points(&self) -> Vec<String> {
        self.sizes.iter().map(|size| lab::report::place(f64::from(*size), "B")).collect()
    }

    /// One command measures all ways, in turn.
    fn setups(&self) -> Vec<String> {
        vec!["all ways".to_owned()]
    }

    fn measure(&mut self, point: usize, _: usize) -> Result<MeasuredValues> {
        let size = *self.sizes.get(point).context("a size")?;
        let words =
            ["handover".to_owned(), format!("--size={size}"), format!("--rounds={}", self.rounds)];
        let words = [&words[..], &two_processors()?].concat();
        let found: Vec<HandoverFigure> = asked(&words)?;
        let found = found.first().context("a figure")?;
        let values = [
            (COPY, Some(found.copying_send)),
            ("to a connection", Some(found.hand_over)),
            ("to a connection with a closed window", found.untouched),
            ("to another party, without sockets", found.moved),
            ("received area, taken and given back", Some(found.recv_and_drop)),
            ("area taken and dropped", Some(found.alloc_and_drop)),
        ];
        let x = f64::from(size);
        let reading = |(series, value): (&str, Option<f64>)| {
            let series = series.to_owned();
            Some(MeasuredValue { figure: 0, series, x, y: 0.0, value: value? })
        };
        // Each way begins with a round that does not count.
        Ok(MeasuredValues {
            readings: values.into_iter().filter_map(reading).collect(),
            warm_up: 1,
        })
    }

    fn conclude(&self, figures: &mut Vec<Figure>) -> Vec<String> {
        let papers = [
            ("paper 1: AnT, request to the inet server", [5130.0, 5140.0, 5130.0, 5150.0]),
            ("paper 1: FreeBSD, mbuf and copy", [940.0, 990.0, 1030.0, 1100.0]),
        ];
        for figure in figures {
            figure.series.extend(papers.iter().map(|(name, values)| {
                let sizes = [256.0, 512.0, 768.0, 1024.0];
                let points = sizes.into_iter().zip(*values).collect();
                Reference { name: (*name).to_owned(), points }.series()
            }));
        }
        Vec::new()
    }
}
