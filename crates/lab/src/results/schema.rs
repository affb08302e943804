//! The types of the file. A test compares their keys with docs/reference/lab-results.md.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::statistics::{Interval, median, median_interval};

/// The value of `format`, by which a results file is told from others.
pub const FORMAT: &str = "tasuki-lab-results";
/// The version of the schema that this library writes and reads.
pub const VERSION: u32 = 1;

/// What ends the name of a series of an earlier build of Tasuki. The series of the present build
/// has the rest as its name, and was measured in turn with it.
pub const BEFORE: &str = ", before";

/// A whole file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// Where the file comes from.
    pub made: Origin,
    /// Where it was measured.
    pub machine: Machine,
    /// Why something is missing that was asked for; `None`: nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// What was measured.
    pub experiments: Vec<Experiment>,
}

/// Where a file comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The measuring program and its version.
    pub by: String,
    /// The command that measured everything again.
    pub command: String,
    /// The measured build of Tasuki, as `tasuki --version` says it, and its commit where known.
    pub tasuki: String,
    /// The earlier build that was measured in turn with it, in the same words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Seconds since 1970 when the measurement began.
    pub began: u64,
    /// Seconds that it took.
    pub seconds: u64,
    /// Experiments whose last round was interrupted: how many points it has. The others lack it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unfinished: BTreeMap<String, u32>,
    /// What failed while it was measured, sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
}

/// The machine, and what simple things cost on it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The system and its kernel.
    pub system: String,
    /// The processor's model.
    pub processor: String,
    /// The number of processors that the measurement could use.
    pub processors: u32,
    /// Further properties that matter, by name, such as `clock source`.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// What was measured of the machine itself, before and between rounds.
    #[serde(default)]
    pub calibration: Vec<Calibration>,
}

/// A figure of the machine itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// What it is, such as `wake-up`.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// All samples.
    pub samples: Vec<Sample>,
}

/// One run of one measuring command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Its name, unique in the file.
    pub name: String,
    /// What it asks, for people.
    pub title: String,
    /// What was found, sentences that the measuring program has made of the samples.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
    /// Its figures.
    pub figures: Vec<Figure>,
}

/// What one plot and its table show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Its name, unique in the experiment. Names of files are made of it: a-z, 0-9, `-`.
    pub name: String,
    /// What it shows, for people.
    pub title: String,
    /// What lies on the horizontal axis.
    pub axis: Axis,
    /// The second axis of a heat map or of stacked bars; the other kinds have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<SecondAxis>,
    /// The unit of the values.
    pub unit: String,
    /// Which values are better.
    pub direction: Direction,
    /// The command that repeats this figure alone.
    pub command: String,
    /// How it is drawn.
    #[serde(default, skip_serializing_if = "FigureKind::is_usual")]
    pub kind: FigureKind,
    /// The name of the series that the others are compared with, round by round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Its series.
    pub series: Vec<Series>,
    /// Of a timeline: its lanes from the top, those of a panel together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<Lane>,
}

/// A lane of a timeline: what one party did, and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lane {
    /// The panel that it is in, such as a transport.
    pub panel: String,
    /// What happens in it, such as `packets of the target`. Unique in the panel.
    pub name: String,
    /// What happened, in order of its begin.
    pub spans: Vec<Span>,
}

/// Something that happened once in a lane.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// When it began, in units of the axis, 0 or above.
    pub from: f64,
    /// When it ended; the same where it took no time, as with a packet.
    pub until: f64,
    /// Bytes that it was about; 0 if that is not known.
    #[serde(default)]
    pub bytes: u64,
}

/// How a figure is drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FigureKind {
    /// A line through the medians of each series.
    #[default]
    Lines,
    /// Parts of all by classes: the place is the lower bound of a class. It has no noise of its
    /// own, and is not compared with a base.
    Histogram,
    /// A coloured cell for each pair of places on the two axes; each series is a map of its own.
    #[serde(rename = "heat map")]
    HeatMap,
    /// A bar for each series at each place, made of the parts that the second axis names. It is not
    /// compared with a base, since parts of two series need not mean the same.
    #[serde(rename = "stacked bars")]
    StackedBars,
    /// What happened when, in lanes: `lanes` has all of it, and there are no series.
    Timeline,
}

impl FigureKind {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_usual(&self) -> bool {
        *self == Self::Lines
    }

    /// Do its points have places on a second axis?
    #[must_use]
    pub fn has_second_axis(self) -> bool {
        matches!(self, Self::HeatMap | Self::StackedBars)
    }

    /// May its series be compared with one of them?
    #[must_use]
    pub fn may_have_base(self) -> bool {
        matches!(self, Self::Lines | Self::HeatMap)
    }
}

/// The second axis of a figure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecondAxis {
    /// What it is, such as `areas of a request` or `stage`.
    pub title: String,
    /// Its unit; empty if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// Of stacked bars: the names of the parts, in the order in which they are drawn. `y` is a
    /// place in this list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// The horizontal axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// What it is, such as `bytes per write`.
    pub title: String,
    /// Its unit; empty if it has none.
    pub unit: String,
    /// How it is drawn at first.
    pub scale: Scale,
}

/// How an axis is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Equal distances are equal differences.
    Linear,
    /// Equal distances are equal ratios.
    Log,
}

/// Which values are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Such as bytes per second.
    Higher,
    /// Such as microseconds.
    Lower,
}

/// The points of one set-up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Its name, unique in the figure.
    pub name: String,
    /// It was not measured in this run: figures of a paper, to stand beside the others.
    #[serde(default, skip_serializing_if = "is_false")]
    pub reference: bool,
    /// Its points, in order of `x`, and of `y` where `x` is the same.
    pub points: Vec<Point>,
}

/// All samples of one place on the axes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// The place, 0 or above.
    pub x: f64,
    /// The place on the second axis, 0 or above; 0 in a figure without one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub y: f64,
    /// All samples that count.
    pub samples: Vec<Sample>,
    /// Samples that were taken to warm up and do not count.
    #[serde(default)]
    pub warm_up: u32,
    /// Samples that failed or were discarded.
    #[serde(default)]
    pub discarded: u32,
    /// What a reader has to know of the point.
    #[serde(default)]
    pub marks: Vec<Mark>,
}

/// What a reader has to know of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// The interval is wider than was asked for.
    Noisy,
    /// Rounds are missing.
    Partial,
}

/// One measured value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// The round, from 0. Samples of one round were taken close together; in a round that was
    /// interrupted and went on later, those of one point.
    pub round: u32,
    /// The value, 0 or above.
    pub value: f64,
}

/// For keys that are left out if they say nothing.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// The same.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl Direction {
    /// By which part of the old value a ratio new to old is worse; below 0: better.
    #[must_use]
    pub fn worse(self, ratio: f64) -> f64 {
        match self {
            Self::Higher => 1.0 - ratio,
            Self::Lower => ratio - 1.0,
        }
    }
}

impl Point {
    /// Is it at the same place as the other?
    #[must_use]
    pub fn is_beside(&self, other: &Self) -> bool {
        (self.x.to_bits(), self.y.to_bits()) == (other.x.to_bits(), other.y.to_bits())
    }

    /// The median of each round, in order of rounds.
    #[must_use]
    pub fn by_round(&self) -> BTreeMap<u32, f64> {
        let mut rounds: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for sample in &self.samples {
            rounds.entry(sample.round).or_default().push(sample.value);
        }
        rounds.iter().filter_map(|(round, all)| Some((*round, median(all)?))).collect()
    }

    /// The medians of all rounds.
    #[must_use]
    pub fn values(&self) -> Vec<f64> {
        self.by_round().into_values().collect()
    }

    /// The median over rounds and its interval; `None` without samples.
    #[must_use]
    pub fn interval(&self) -> Option<Interval> {
        median_interval(&self.values())
    }

    /// Ratios to another point, within each round that both have. Rounds where the other is not
    /// above 0 are left out.
    #[must_use]
    pub fn ratios_to(&self, base: &Self) -> BTreeMap<u32, f64> {
        let base = base.by_round();
        let of_round = |(round, value): (u32, f64)| {
            base.get(&round).filter(|base| **base > 0.0).map(|base| (round, value / base))
        };
        self.by_round().into_iter().filter_map(of_round).collect()
    }
}

impl Series {
    /// The name of the present build's series, if this one is of an earlier build ([`BEFORE`]).
    #[must_use]
    pub fn before_of(&self) -> Option<&str> {
        self.name.strip_suffix(BEFORE)
    }

    /// The point at these places on the two axes.
    #[must_use]
    pub fn at(&self, x: f64, y: f64) -> Option<&Point> {
        let is_it = |it: &&Point| (it.x.to_bits(), it.y.to_bits()) == (x.to_bits(), y.to_bits());
        self.points.iter().find(is_it)
    }

    /// The point at the same place as this one.
    #[must_use]
    pub fn beside(&self, point: &Point) -> Option<&Point> {
        self.at(point.x, point.y)
    }
}

impl Figure {
    /// The series that the others are compared with, if the figure has it.
    #[must_use]
    pub fn base_series(&self) -> Option<&Series> {
        let base = self.base.as_ref()?;
        self.series.iter().find(|series| series.name == *base)
    }

    /// All places on the horizontal axis, in order.
    #[must_use]
    pub fn places(&self) -> Vec<f64> {
        self.places_of(|point| point.x)
    }

    /// All places on the second axis, in order.
    #[must_use]
    pub fn second_places(&self) -> Vec<f64> {
        self.places_of(|point| point.y)
    }

    fn places_of(&self, of: fn(&Point) -> f64) -> Vec<f64> {
        let points = self.series.iter().flat_map(|series| &series.points);
        let mut places: Vec<f64> = points.map(of).collect();
        places.sort_unstable_by(f64::total_cmp);
        places.dedup();
        places
    }
}
