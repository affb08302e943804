//! The fifth paper's picture: the packets of a block's transfer on a time axis, with what ciphers
//! and disk did meanwhile; above with ESP, below sealed above TCP. Beside it, measured until it is
//! known well enough: how far apart the packets of a block are, and how long a transfer takes.
//!
//! The picture shows the transfer of the round whose time is in the middle.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use lab::plan::{LabOptions, Places, listed};
use lab::statistics::median;
use lab::{Axis, Direction, Figure, FigureKind, Lane, Scale};

use super::experiment::{FigurePlan, LabExperiment, MeasuredValue, MeasuredValues, bytes_axis};
use crate::storage::{RecordedTransport, Transfer};

/// Bytes of a block: the paper's, and larger.
const SIZES: [u32; 3] = [32 << 10, 128 << 10, 512 << 10];
const QUICK_SIZES: [u32; 1] = [32 << 10];
/// Milliseconds each way.
const DELAY: u32 = 1;
/// As `tasuki-bench storage` names them, and as panels have them, from the top.
const TRANSPORTS: [(&str, &str); 2] =
    [("esp", "ESP: each packet, below TCP"), ("sealed", "sealed: whole blocks, above TCP")];
const BASE: &str = "esp";
/// Worlds of this process have numbers; those of `storage` are lower.
const FIRST_WORLD: usize = 40;

/// See the module.
pub(crate) struct PacketTimes {
    tasuki: PathBuf,
    sizes: Vec<u32>,
    delay: u32,
    quick: bool,
    /// Made when they are needed first, and kept.
    ready: [Option<RecordedTransport>; TRANSPORTS.len()],
    /// All that were recorded, by point and transport.
    transfers: Vec<[Vec<Transfer>; TRANSPORTS.len()]>,
}

impl PacketTimes {
    /// As the options say.
    pub(crate) fn new(tasuki: &Path, options: &LabOptions) -> Self {
        let usual = if options.quick { &QUICK_SIZES[..] } else { &SIZES };
        let given = options.size.as_ref().map(|places| places.all().to_vec());
        let sizes = given.unwrap_or_else(|| usual.to_vec());
        Self {
            tasuki: tasuki.to_path_buf(),
            delay: options.delay.as_ref().map_or(DELAY, Places::first),
            quick: options.quick,
            ready: [const { None }; TRANSPORTS.len()],
            transfers: sizes.iter().map(|_| Default::default()).collect(),
            sizes,
        }
    }

    fn transport(&mut self, at: usize) -> Result<&RecordedTransport> {
        let delay = self.delay * 1000;
        let slot = self.ready.get_mut(at).context("a transport")?;
        let made = match slot.take() {
            Some(made) => made,
            None => {
                RecordedTransport::new(&self.tasuki, FIRST_WORLD + at, TRANSPORTS[at].0, delay)?
            }
        };
        Ok(slot.insert(made))
    }

    fn words(&self, sizes: &[u32]) -> String {
        let quick = if self.quick { " --quick" } else { "" };
        format!("packets --size {} --delay {}{quick}", listed(sizes), self.delay)
    }

    /// The timeline of a size; `None` before all transports were recorded.
    fn timeline(&self, at: usize) -> Option<Figure> {
        let (size, transfers) = (*self.sizes.get(at)?, self.transfers.get(at)?);
        let mut lanes = Vec::new();
        for ((_, panel), transfers) in TRANSPORTS.iter().zip(transfers) {
            let of_panel = |lane: &Lane| Lane { panel: (*panel).to_owned(), ..lane.clone() };
            lanes.extend(middle(transfers)?.lanes.iter().map(of_panel));
        }
        let shown = lab::report::place(f64::from(size), "B");
        Some(Figure {
            second: None,
            name: format!("block-of-{size}"),
            title: format!("Packets of a block of {shown}, {} ms each way", self.delay),
            axis: Axis {
                title: "time since the request left".to_owned(),
                unit: "µs".to_owned(),
                scale: Scale::Linear,
            },
            unit: "B".to_owned(),
            direction: Direction::Lower,
            command: format!("tasuki lab {}", self.words(&[size])),
            base: None,
            kind: FigureKind::Timeline,
            series: Vec::new(),
            lanes,
        })
    }
}

/// The transfer whose time is in the middle.
fn middle(transfers: &[Transfer]) -> Option<&Transfer> {
    let mut all: Vec<&Transfer> = transfers.iter().collect();
    all.sort_by(|a, b| a.whole.total_cmp(&b.whole));
    all.get(all.len() / 2).copied()
}

impl LabExperiment for PacketTimes {
    fn figures(&self) -> Vec<FigurePlan> {
        let plan = |name: &str, title: &str, is_judged| FigurePlan {
            second: None,
            name: name.to_owned(),
            title: format!("{title}, {} ms each way", self.delay),
            axis: bytes_axis("bytes of a block"),
            unit: "µs",
            direction: Direction::Lower,
            base: Some(BASE),
            words: self.words(&self.sizes),
            is_judged,
            kind: FigureKind::Lines,
        };
        vec![
            plan("spread", "From the first to the last packet of a block", true),
            plan("transfer", "From the request to the end of its block", false),
        ]
    }

    fn points(&self) -> Vec<String> {
        self.sizes.iter().map(|size| lab::report::place(f64::from(*size), "B")).collect()
    }

    fn setups(&self) -> Vec<String> {
        TRANSPORTS.map(|(name, _)| name.to_owned()).to_vec()
    }

    fn measure(&mut self, point: usize, setup: usize) -> Result<MeasuredValues> {
        let size = *self.sizes.get(point).context("a size")?;
        let transfer = self.transport(setup)?.record(size)?;
        let reading = |(figure, value)| MeasuredValue {
            y: 0.0,
            figure,
            series: TRANSPORTS[setup].0.to_owned(),
            x: f64::from(size),
            value,
        };
        let readings = [(0, transfer.spread), (1, transfer.whole)].map(reading).to_vec();
        let of = self.transfers.get_mut(point).and_then(|of| of.get_mut(setup));
        of.context("a place for the transfer")?.push(transfer);
        Ok(MeasuredValues { readings, warm_up: 0 })
    }

    fn conclude(&self, figures: &mut Vec<Figure>) -> Vec<String> {
        let said = figures.iter().find(|figure| figure.name == "spread").map(sentences);
        let timelines: Vec<Figure> =
            (0..self.sizes.len()).filter_map(|at| self.timeline(at)).collect();
        figures.splice(0..0, timelines);
        said.unwrap_or_default()
    }
}

/// How far the packets of a block are apart, for each size.
fn sentences(spread: &Figure) -> Vec<String> {
    let of = |name: &str| spread.series.iter().find(|series| series.name == name);
    let (Some(esp), Some(sealed)) = (of(BASE), of("sealed")) else { return Vec::new() };
    let sentence = |point: &lab::Point| {
        let [below, above] =
            [median(&esp.at(point.x, point.y)?.values())?, median(&point.values())?];
        let size = lab::report::place(point.x, &spread.axis.unit);
        Some(format!(
            "The packets of a block of {size} leave within {below:.0} µs by ESP, and within \
             {above:.0} µs sealed above TCP."
        ))
    };
    sealed.points.iter().filter_map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_is_that_of_the_middle_round() {
        let mut packets = PacketTimes::new(Path::new("tasuki"), &LabOptions::default());
        assert!(packets.timeline(0).is_none(), "nothing was recorded");
        let transfer = |whole| Transfer {
            lanes: vec![Lane { panel: String::new(), name: format!("{whole}"), spans: Vec::new() }],
            spread: 1.0,
            whole,
        };
        for of in &mut packets.transfers[0] {
            of.extend([3.0, 1.0, 2.0].map(transfer));
        }
        let figure = packets.timeline(0).unwrap();
        let lanes: Vec<&str> = figure.lanes.iter().map(|lane| &lane.name[..]).collect();
        assert_eq!(lanes, ["2", "2"]);
        assert_ne!(figure.lanes[0].panel, figure.lanes[1].panel);
        assert_eq!(figure.command, "tasuki lab packets --size 32768 --delay 1");
    }
}
