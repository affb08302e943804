//! The fifth paper's picture: the packets of a block's transfer on a time axis, with what ciphers
//! and disk did meanwhile; above with ESP, below sealed above TCP. Beside it, measured until it is
//! known well enough: how far apart the packets of a block are, and how long a transfer takes.
//!
//! The picture shows the transfer of the round whose time is in the middle. Of the rounds before an
//! interruption only the drawn transfer is still known, so it stays if its time is nearest to that.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use lab::plan::{ExperimentName, LabOptions, Places, listed};
use lab::statistics::median;
use lab::{Axis, Direction, Figure, FigureKind, Lane, Sample, Scale};

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
/// The figure of the times of transfers.
const TIMES: &str = "transfer";
/// Worlds of this process have numbers; those of `storage` are lower.
const FIRST_WORLD: usize = 40;

/// See the module.
pub(crate) struct PacketTimes {
    tasuki: PathBuf,
    sizes: Vec<u32>,
    delay: u32,
    /// Of the command that repeats a figure, besides those of its axis.
    more_words: String,
    /// Made when they are needed first, and kept.
    ready: [Option<RecordedTransport>; TRANSPORTS.len()],
    /// The present round.
    round: u32,
    /// All that this process has recorded, by point, transport and round.
    transfers: Vec<[RecordedRounds; TRANSPORTS.len()]>,
}

/// Transfers by their rounds.
type RecordedRounds = BTreeMap<u32, Transfer>;

impl PacketTimes {
    /// As the options say.
    pub(crate) fn new(tasuki: &Path, options: &LabOptions) -> Self {
        let usual = if options.quick { &QUICK_SIZES[..] } else { &SIZES };
        let given = options.size.as_ref().map(|places| places.all().to_vec());
        let sizes = given.unwrap_or_else(|| usual.to_vec());
        Self {
            tasuki: tasuki.to_path_buf(),
            delay: options.delay.as_ref().map_or(DELAY, Places::first),
            more_words: options.kept_words(ExperimentName::Packets),
            ready: [const { None }; TRANSPORTS.len()],
            round: 0,
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
        format!("packets --size {} --delay {}{}", listed(sizes), self.delay, self.more_words)
    }

    /// The timeline of a size; `None` before all transports were recorded. `figures` have the times
    /// of all rounds, and `drawn` are the timelines of an earlier run.
    fn timeline(&self, at: usize, figures: &[Figure], drawn: &[Figure]) -> Option<Figure> {
        let (size, transfers) = (*self.sizes.get(at)?, self.transfers.get(at)?);
        let name = format!("block-of-{size}");
        let times = figures.iter().find(|figure| figure.name == TIMES)?;
        let drawn = drawn.iter().find(|figure| figure.name == name);
        let mut lanes = Vec::new();
        for ((transport, panel), recorded) in TRANSPORTS.iter().zip(transfers) {
            let times = times.series.iter().find(|series| series.name == *transport)?;
            let samples = &times.at(f64::from(size), 0.0)?.samples;
            let drawn = drawn.into_iter().flat_map(|figure| &figure.lanes);
            let drawn: Vec<Lane> = drawn.filter(|lane| lane.panel == *panel).cloned().collect();
            let of_panel = |lane: &Lane| Lane { panel: (*panel).to_owned(), ..lane.clone() };
            lanes.extend(shown_lanes(samples, recorded, &drawn)?.iter().map(of_panel));
        }
        let shown = lab::report::place(f64::from(size), "B");
        Some(Figure {
            second: None,
            name,
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

/// The time in the middle, one of them.
fn middle<'a>(samples: impl Iterator<Item = &'a Sample>) -> Option<f64> {
    let mut all: Vec<f64> = samples.map(|sample| sample.value).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}

/// The lanes of the transfer that is nearest to the middle of all rounds. Rounds that were not
/// recorded here are an earlier run's, which has `drawn` the one in their middle.
fn shown_lanes<'a>(
    samples: &[Sample],
    recorded: &'a RecordedRounds,
    drawn: &'a [Lane],
) -> Option<&'a [Lane]> {
    let middle_of_all = middle(samples.iter())?;
    let earlier = middle(samples.iter().filter(|it| !recorded.contains_key(&it.round)));
    let drawn = earlier.filter(|_| !drawn.is_empty()).map(|whole| (whole, drawn));
    let all = recorded.values().map(|transfer| (transfer.whole, &transfer.lanes[..])).chain(drawn);
    let distance = |whole: f64| (whole - middle_of_all).abs();
    let nearest = all.min_by(|(a, _), (b, _)| distance(*a).total_cmp(&distance(*b)))?;
    Some(nearest.1)
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
            plan(TIMES, "From the request to the end of its block", false),
        ]
    }

    fn points(&self) -> Vec<String> {
        self.sizes.iter().map(|size| lab::report::place(f64::from(*size), "B")).collect()
    }

    fn setups(&self) -> Vec<String> {
        TRANSPORTS.map(|(name, _)| name.to_owned()).to_vec()
    }

    fn begin_round(&mut self, round: u32) {
        self.round = round;
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
        // That of the first round takes the place of the one to warm up.
        of.context("a place for the transfer")?.insert(self.round, transfer);
        Ok(MeasuredValues { readings, warm_up: 0 })
    }

    fn conclude(&self, figures: &mut Vec<Figure>) -> Vec<String> {
        let said = figures.iter().find(|figure| figure.name == "spread").map(sentences);
        let is_timeline = |figure: &mut Figure| figure.kind == FigureKind::Timeline;
        let drawn: Vec<Figure> = figures.extract_if(.., is_timeline).collect();
        let places = 0..self.sizes.len();
        let timelines: Vec<Figure> =
            places.filter_map(|at| self.timeline(at, figures, &drawn)).collect();
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
    use lab::{Experiment, Span};

    use super::*;
    use crate::lab::notebook::Notebook;

    fn transfer(whole: f64) -> Transfer {
        let spans = vec![Span { from: 0.0, until: 1.0, bytes: 0 }];
        let lanes = vec![Lane { panel: String::new(), name: format!("{whole}"), spans }];
        Transfer { lanes, spread: 1.0, whole }
    }

    /// Takes these times of the first size, in rounds from `round` on.
    fn record(notebook: &mut Notebook, packets: &mut PacketTimes, round: u32, times: &[f64]) {
        for (round, whole) in (round..).zip(times) {
            for (setup, (series, _)) in TRANSPORTS.iter().enumerate() {
                let (series, x) = ((*series).to_owned(), f64::from(SIZES[0]));
                let value = MeasuredValue { figure: 1, series, x, y: 0.0, value: *whole };
                let measured = MeasuredValues { readings: vec![value], warm_up: 0 };
                notebook.insert((0, setup), round, &measured);
                packets.transfers[0][setup].insert(round, transfer(*whole));
            }
        }
    }

    fn new() -> (PacketTimes, Notebook) {
        let packets = PacketTimes::new(Path::new("tasuki"), &LabOptions::default());
        let notebook = Notebook::new("packets", "Packets", &packets);
        (packets, notebook)
    }

    /// The timeline and the names of its lanes.
    fn timeline(found: &Experiment) -> (&Figure, Vec<&str>) {
        let mut all = found.figures.iter().filter(|it| it.kind == FigureKind::Timeline);
        let figure = all.next().expect("a timeline");
        assert!(all.next().is_none(), "only one size was recorded");
        (figure, figure.lanes.iter().map(|lane| &lane.name[..]).collect())
    }

    #[test]
    fn the_picture_is_that_of_the_middle_round() {
        let (mut packets, mut notebook) = new();
        assert!(packets.timeline(0, &[], &[]).is_none(), "nothing was recorded");
        record(&mut notebook, &mut packets, 0, &[3.0, 1.0, 2.0]);
        let found = notebook.experiment(&packets);
        let (figure, lanes) = timeline(&found);
        assert_eq!(lanes, ["2", "2"]);
        assert_ne!(figure.lanes[0].panel, figure.lanes[1].panel);
        assert_eq!(figure.command, "tasuki lab packets --size 32768 --delay 1");
    }

    #[test]
    fn the_picture_of_an_interrupted_run_stays_unless_a_new_one_is_nearer_to_the_middle() {
        let (mut packets, mut notebook) = new();
        record(&mut notebook, &mut packets, 0, &[3.0, 1.0, 2.0]);
        let earlier = notebook.experiment(&packets);
        for (more, middle) in
            [(&[][..], "2"), (&[9.0], "2"), (&[4.0, 5.0, 6.0, 7.0], "4"), (&[0.0, 9.0], "2")]
        {
            let (mut packets, mut notebook) = new();
            notebook.restore(&earlier, 0);
            let round = notebook.round;
            record(&mut notebook, &mut packets, round, more);
            let found = notebook.experiment(&packets);
            let (figure, lanes) = timeline(&found);
            assert_eq!(lanes, [middle; 2], "{more:?}");
            assert_ne!(figure.lanes[0].panel, figure.lanes[1].panel);
        }
    }
}
