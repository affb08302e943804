//! The first paper's experiment: what it costs to hand an area to another process, by its size, and
//! to call through servers that hand the call on. `tasuki-bench handover` and `relays` measure,
//! each in a process of its own, since they tie themselves to a processor.

use anyhow::{Context as _, Result};
use lab::plan::{ExperimentName, LabOptions, chosen_places, listed};
use lab::{Axis, Direction, Figure, FigureKind, Scale};

use super::derived::Reference;
use super::experiment::{FigurePlan, LabExperiment, MeasuredValue, MeasuredValues, bytes_axis};
use super::part::{asked, two_processors};
use crate::handover::HandoverFigure;
use crate::relays::RelayFigure;

const SIZES: [u32; 6] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
const QUICK_SIZES: [u32; 3] = [4 << 10, 64 << 10, 1 << 20];
/// Parties that hand a call on.
const RELAYS: [u32; 4] = [1, 2, 3, 4];
const QUICK_RELAYS: [u32; 2] = [1, 3];
/// Hand-overs of a sample on each of 16 connections.
const ROUNDS: u32 = 10;
const QUICK_ROUNDS: u32 = 5;
/// The series that others are compared with.
const COPY: &str = "send by a copy";
const PIPE: &str = "pipe";
const RELAYED: &str = "one by one, without data, answer relayed";
const DIRECT: &str = "one by one, without data, answered directly";

/// See the module.
pub(crate) struct Handovers {
    sizes: Vec<u32>,
    relays: Vec<u32>,
    rounds: u32,
    /// Of the command that repeats a figure, besides those of its axis.
    more_words: String,
}

impl Handovers {
    /// As the options say.
    pub(crate) fn new(options: &LabOptions) -> Self {
        let (sizes, relays) = if options.quick {
            (&QUICK_SIZES[..], &QUICK_RELAYS[..])
        } else {
            (&SIZES[..], &RELAYS[..])
        };
        let given = (options.size.as_ref(), options.relays.as_ref());
        Self {
            sizes: chosen_places(given.0, given.1, sizes),
            relays: chosen_places(given.1, given.0, relays),
            rounds: if options.quick { QUICK_ROUNDS } else { ROUNDS },
            more_words: options.kept_words(ExperimentName::Handover),
        }
    }
}

impl Handovers {
    /// All ways to call through so many relays.
    fn relayed(&self, at: usize) -> Result<MeasuredValues> {
        let relays = *self.relays.get(at).context("a number of relays")?;
        let words = ["relays".to_owned(), format!("--relays={relays}")];
        let found: Vec<RelayFigure> = asked(&[&words[..], &two_processors()?].concat())?;
        let reading = |figure: RelayFigure| MeasuredValue {
            figure: 2,
            series: figure.way(),
            x: f64::from(figure.relays),
            y: 0.0,
            value: figure.nanos,
        };
        // Each way begins with a group of calls that does not count.
        Ok(MeasuredValues { readings: found.into_iter().map(reading).collect(), warm_up: 1 })
    }
}

impl LabExperiment for Handovers {
    fn figures(&self) -> Vec<FigurePlan> {
        let plan = |name: &str, title: &str, base| FigurePlan {
            name: name.to_owned(),
            title: title.to_owned(),
            axis: bytes_axis("bytes of an area"),
            unit: "ns",
            direction: Direction::Lower,
            base: Some(base),
            words: format!("handover --size {}{}", listed(&self.sizes), self.more_words),
            is_judged: true,
            kind: FigureKind::Lines,
            second: None,
        };
        let transfer = "Bytes to another party, until it has read them";
        vec![
            plan("area", "Handing over an area, time of the giver", COPY),
            plan("transfer", transfer, PIPE),
            FigurePlan {
                axis: Axis {
                    title: "relays".to_owned(),
                    unit: String::new(),
                    scale: Scale::Linear,
                },
                words: format!("handover --relays {}{}", listed(&self.relays), self.more_words),
                ..plan("relays", "Calls that servers hand on, time of a call", RELAYED)
            },
        ]
    }

    fn points(&self) -> Vec<String> {
        let sizes = self.sizes.iter().map(|size| lab::report::place(f64::from(*size), "B"));
        sizes.chain(self.relays.iter().map(|relays| format!("{relays} relays"))).collect()
    }

    /// One command measures all ways, in turn.
    fn setups(&self) -> Vec<String> {
        vec!["all ways".to_owned()]
    }

    fn measure(&mut self, point: usize, _: usize) -> Result<MeasuredValues> {
        let Some(size) = self.sizes.get(point).copied() else {
            return self.relayed(point - self.sizes.len());
        };
        let words =
            ["handover".to_owned(), format!("--size={size}"), format!("--rounds={}", self.rounds)];
        let words = [&words[..], &two_processors()?].concat();
        let found: Vec<HandoverFigure> = asked(&words)?;
        let found = found.first().context("a figure")?;
        let moves = [
            (COPY, Some(found.copying_send)),
            ("to a connection", Some(found.hand_over)),
            ("to a connection with a closed window", found.untouched),
            ("to another party, without sockets", found.moved),
            ("to another party, strict", found.moved_strict),
            ("to another party, huge pages", found.moved_huge),
            ("received area, taken and given back", Some(found.recv_and_drop)),
            ("area taken and dropped", Some(found.alloc_and_drop)),
        ];
        let transfers = found.transfers.context("transfers")?;
        let transfers = [
            (PIPE, Some(transfers.pipe)),
            ("Unix socket", Some(transfers.socket)),
            ("area", Some(transfers.shared)),
            ("area, strict", Some(transfers.strict)),
            ("area, huge pages", transfers.huge),
        ];
        let x = f64::from(size);
        let reading = |figure: usize| {
            move |(series, value): (&str, Option<f64>)| {
                let series = series.to_owned();
                Some(MeasuredValue { figure, series, x, y: 0.0, value: value? })
            }
        };
        let moves = moves.into_iter().filter_map(reading(0));
        let readings = moves.chain(transfers.into_iter().filter_map(reading(1))).collect();
        // Each way begins with a round that does not count.
        Ok(MeasuredValues { readings, warm_up: 1 })
    }

    fn conclude(&self, figures: &mut Vec<Figure>) -> Vec<String> {
        let papers = [
            ("paper 1: AnT, request to the inet server", [5130.0, 5140.0, 5130.0, 5150.0]),
            ("paper 1: FreeBSD, mbuf and copy", [940.0, 990.0, 1030.0, 1100.0]),
        ];
        let found = figures.iter().find(|figure| figure.name == "relays").and_then(by_relays);
        for figure in figures.iter_mut().filter(|figure| figure.name == "area") {
            figure.series.extend(papers.iter().map(|(name, values)| {
                let sizes = [256.0, 512.0, 768.0, 1024.0];
                let points = sizes.into_iter().zip(*values).collect();
                Reference { name: (*name).to_owned(), points }.series()
            }));
        }
        found.into_iter().collect()
    }
}

/// What it costs that an answer goes back through all relays, in a sentence.
fn by_relays(figure: &Figure) -> Option<String> {
    let relays = figure.places().pop()?;
    let series = |name: &str| figure.series.iter().find(|series| series.name == name);
    let direct = series(DIRECT)?.at(relays, 0.0)?;
    let ratios = series(RELAYED)?.at(relays, 0.0)?.ratios_to(direct);
    let ratio = lab::statistics::median_interval(&ratios.into_values().collect::<Vec<_>>())?;
    Some(format!(
        "Through {relays} relays, an answer that goes back through them takes {:.2} times as long \
         as a direct one ({:.2} to {:.2}).",
        ratio.middle, ratio.low, ratio.high
    ))
}
