//! The fourth paper's experiment: round-trip time between stream sockets at user level.
//!
//! The sender writes a request, the receiver reads until it has all and answers 4 bytes, which tell
//! how many reads it needed. A sample is the mean of 2,000 round trips, as in the paper; median,
//! 99th percentile and the distribution stand beside it. The five parameters are length, power of
//! the hosts, gateways, load of the hosts and load of the network ([`sweep`]). The sender uses the
//! kernel's sockets or Tasuki's, and so does the receiver ([`ends`]), over the same path
//! ([`chain`]). A user without rights has senders over passt, by length and loads.

mod chain;
mod ends;
mod fit;
mod loads;
mod power;
mod sweep;

pub(super) use self::chain::bounded;
pub(crate) use self::loads::{BackgroundArgs, background};

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use lab::plan::{ExperimentName, LabOptions, LabSetup};
use lab::{Axis, Direction, Figure, FigureKind, Scale};
use user::exit::say;

use self::chain::Chain;
use self::ends::{Hosting, TripEnds, TripSetup, TripWay, setups};
use self::loads::loads;
use self::power::PowerGroups;
use self::sweep::{Parameter, Setting, Sweep, sweeps};
use super::derived::{Reference, relative};
use super::experiment::{FigurePlan, LabExperiment, MeasuredValue, MeasuredValues};
use super::peers::peer_words;
use super::rootless::own_congestion;
use crate::clients::{output_of, run_client};
use crate::hosts::Programs;
use crate::late_host::LateHost;
use crate::row::{Sample, TripDetails};
use crate::setup::{Role, Setup};

/// Round trips of a sample, as in the paper.
const COUNT: u32 = 2000;
/// Seconds of a sample at most. Slow hosts do fewer round trips.
const MOST_SECONDS: f64 = 1.0;
const MOST_QUICK_SECONDS: f64 = 0.5;

/// A value of a sample, which is one figure for each sweep.
struct TripFigure {
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    value: fn(&Sample, &TripDetails) -> Option<f64>,
}

const FIGURES: [TripFigure; 4] = [
    TripFigure {
        name: "mean",
        title: "Round trip, mean",
        unit: "µs",
        value: |_, details| Some(details.mean_us),
    },
    TripFigure {
        name: "median",
        title: "Round trip, median",
        unit: "µs",
        value: |sample, _| sample.median_us,
    },
    TripFigure {
        name: "p99",
        title: "Round trip, 99th percentile",
        unit: "µs",
        value: |sample, _| sample.p99_us,
    },
    TripFigure {
        name: "one-read",
        title: "How often one read sufficed",
        unit: "%",
        value: |_, details| Some(100.0 * details.one_read),
    },
];

/// See the module.
pub(crate) struct Rtt {
    programs: Programs,
    sweeps: Vec<Sweep>,
    setups: Vec<TripSetup>,
    count: u32,
    most_seconds: f64,
    /// Set-ups were chosen, so they have all points.
    is_chosen: bool,
    /// Of the command that repeats a figure, besides those of its axis.
    more_words: String,
    /// By number of gateways.
    chains: BTreeMap<u32, Chain>,
    /// Over passt, by the sender's set-up.
    hosts: BTreeMap<Setup, LateHost>,
    power: Option<PowerGroups>,
}

impl Rtt {
    /// Nothing is made before it is measured, but for control groups. A machine without them has no
    /// axis of power, unless it was asked for.
    pub(crate) fn new(programs: &Programs, options: &LabOptions) -> Result<Self> {
        let mut sweeps = sweeps(options);
        if !rustix::process::geteuid().is_root() {
            let left_out = sweeps.extract_if(.., |sweep| !sweep.is_rootless());
            let left_out: Vec<String> = left_out.map(|sweep| sweep.parameter.words()).collect();
            if !left_out.is_empty() {
                let left_out = left_out.join(", ");
                say(format_args!("rtt: as root it has these axes as well: {left_out}"));
            }
        }
        let weak = |sweep: &Sweep| sweep.points.iter().any(|(_, it)| it.power != [100; 2]);
        let groups = || PowerGroups::new(programs.build);
        let power = match sweeps.iter().any(weak).then(groups).transpose() {
            Err(error) if options.power.is_empty() => {
                say(format_args!("rtt: the power of hosts is no axis: {error:#}"));
                sweeps.retain(|sweep| !weak(sweep));
                None
            }
            power => power?,
        };
        Ok(Self::along(sweeps, programs, options, power))
    }

    /// As [`Rtt::new`], without control groups: to look at the axes, not to measure.
    #[cfg(test)]
    pub(crate) fn without_groups(programs: &Programs, options: &LabOptions) -> Self {
        Self::along(sweeps(options), programs, options, None)
    }

    /// Along these axes. Makes nothing.
    fn along(
        sweeps: Vec<Sweep>,
        programs: &Programs,
        options: &LabOptions,
        power: Option<PowerGroups>,
    ) -> Self {
        let mut setups = setups(options);
        if sweeps.iter().flat_map(|sweep| &sweep.points).all(|(_, it)| it.gateways > 0) {
            if options.only.contains(&LabSetup::Wire) {
                say("rtt: a wire passes no gateway: --gateways 0 has its points");
            }
            setups.retain(|setup| !setup.is_by_wire());
        }
        Self {
            programs: programs.clone(),
            sweeps,
            setups,
            count: options.count.unwrap_or(COUNT),
            most_seconds: if options.quick { MOST_QUICK_SECONDS } else { MOST_SECONDS },
            is_chosen: !options.only.is_empty(),
            more_words: more_words(options),
            chains: BTreeMap::new(),
            hosts: BTreeMap::new(),
            power,
        }
    }

    /// The sweep and its place of a point.
    fn at(&self, point: usize) -> Option<(usize, u32, Setting)> {
        let all = self.sweeps.iter().enumerate();
        let mut points = all.flat_map(|(at, sweep)| {
            sweep.points.iter().map(move |(place, setting)| (at, *place, *setting))
        });
        points.nth(point)
    }

    fn sample(&mut self, setting: Setting, way: TripWay) -> Result<Sample> {
        let words = [
            "--test=rtt".to_owned(),
            format!("--size={}", setting.length),
            format!("--count={}", self.count),
            format!("--most-seconds={}", self.most_seconds),
        ];
        let said = match way {
            TripWay::Chain(ends) => self.along_chain(setting, ends, &words)?,
            TripWay::Passt(sender) => self.over_passt(setting, sender, &words)?,
        };
        Sample::of_line(&said).with_context(|| format!("what the sender prints: `{said}`"))
    }

    /// What a sender over passt prints.
    fn over_passt(&mut self, setting: Setting, sender: Setup, words: &[String]) -> Result<String> {
        let host = self.hosts.entry(sender).or_insert_with(|| LateHost::new(sender, Role::Client));
        let host = host.get(&self.programs, &own_congestion()?, true)?;
        let _load = loads(setting.load, host.processors(), None)?;
        output_of(host, words, None)
    }

    /// What a sender along a path prints.
    fn along_chain(
        &mut self,
        setting: Setting,
        ends: TripEnds,
        words: &[String],
    ) -> Result<String> {
        if !self.chains.contains_key(&setting.gateways) {
            self.chains.insert(setting.gateways, Chain::new(setting.gateways, &self.programs)?);
        }
        let chain = self.chains.get_mut(&setting.gateways).context("a path")?;
        chain.prepare(ends, self.power.as_ref())?;
        if let Some(power) = &self.power {
            power.set(setting.power)?;
        }
        let _load = loads(setting.load, chain.processors(), self.power.as_ref())?;
        let load = setting.network_load;
        let _others = load.map(|percent| chain.limited(ends, percent)).transpose()?;
        run_client(chain.client(ends, self.power.as_ref(), words)?, None)
    }

    /// Is this set-up measured at this point? A wire passes no gateway. Unless it was asked for,
    /// Tasuki at both ends is measured by length and gateways alone: these set-ups take as long as
    /// all others together.
    fn measures(&self, setup: &TripSetup, parameter: Parameter, setting: Setting) -> bool {
        let is_usual = matches!(parameter, Parameter::Length | Parameter::Gateways);
        let is_left_out = !self.is_chosen && !is_usual && setup.is_tasuki_at_both_ends();
        !is_left_out && (!setup.is_by_wire() || setting.gateways == 0)
    }

    fn has_base(&self) -> bool {
        self.setups.iter().any(|setup| setup.title == Hosting::Kernel.title())
    }

    /// The place of the histogram's figure, which is behind all others, and its point.
    fn histogram(&self) -> (usize, usize) {
        let point = self.sweeps.first().map_or(0, |sweep| {
            let is_it = |(place, _): &(u32, Setting)| *place == 1024;
            let last = sweep.points.len().saturating_sub(1);
            let usual = sweep.points.iter().position(is_it);
            usual.filter(|_| sweep.parameter == Parameter::Length).unwrap_or(last)
        });
        (self.sweeps.len() * FIGURES.len(), point)
    }
}

/// Quick or not, set-ups, peers and round trips, if they are not the usual ones.
fn more_words(options: &LabOptions) -> String {
    let peers = peer_words(options.peers.as_deref());
    options.kept_words(ExperimentName::Rtt)
        + &peers
        + &options.count.map_or(String::new(), |count| format!(" --count {count}"))
}

impl LabExperiment for Rtt {
    fn figures(&self) -> Vec<FigurePlan> {
        let plan = |sweep: &Sweep, figure: &TripFigure| FigurePlan {
            name: format!("{}-by-{}", figure.name, sweep.parameter.name()),
            title: format!("{}{}", figure.title, sweep.title()),
            axis: sweep.axis(),
            unit: figure.unit,
            direction: if figure.unit == "%" { Direction::Higher } else { Direction::Lower },
            base: (figure.unit != "%" && self.has_base()).then_some("Linux"),
            words: sweep.words() + &self.more_words,
            is_judged: figure.name == "mean",
            kind: FigureKind::Lines,
            second: None,
        };
        let all = self.sweeps.iter().flat_map(|sweep| FIGURES.iter().map(move |it| (sweep, it)));
        let mut plans: Vec<FigurePlan> = all.map(|(sweep, figure)| plan(sweep, figure)).collect();
        let (_, point) = self.histogram();
        if let Some((sweep, (place, _))) =
            self.sweeps.first().and_then(|sweep| Some((sweep, sweep.points.get(point)?)))
        {
            let (axis, parameter) = (sweep.axis(), sweep.parameter.name());
            let place = lab::report::place(f64::from(*place), &axis.unit);
            plans.push(FigurePlan {
                name: "distribution".to_owned(),
                title: format!("Round trips by their time, {parameter} {place}"),
                axis: Axis { title: "time".to_owned(), unit: "µs".to_owned(), scale: Scale::Log },
                unit: "% of round trips",
                direction: Direction::Higher,
                base: None,
                words: sweep.words() + &self.more_words,
                is_judged: false,
                kind: FigureKind::Histogram,
                second: None,
            });
        }
        plans
    }

    fn points(&self) -> Vec<String> {
        let points = self.sweeps.iter().flat_map(|sweep| {
            let (name, axis) = (sweep.parameter.name(), sweep.axis());
            let title = move |place: u32| {
                format!("{name} {}", lab::report::place(f64::from(place), &axis.unit))
            };
            sweep.points.iter().map(move |(place, _)| title(*place))
        });
        points.collect()
    }

    fn setups(&self) -> Vec<String> {
        self.setups.iter().map(|setup| setup.title.clone()).collect()
    }

    fn has_tasuki(&self, setup: usize) -> bool {
        self.setups.get(setup).is_some_and(TripSetup::has_tasuki)
    }

    fn begin_round(&mut self, round: u32) {
        if round > 0 {
            self.chains.values_mut().for_each(Chain::renew);
        }
    }

    fn measure(&mut self, point: usize, setup: usize) -> Result<MeasuredValues> {
        let (sweep, place, setting) = self.at(point).context("a point")?;
        let setup = self.setups.get(setup).context("a set-up")?.clone();
        let parameter = self.sweeps.get(sweep).context("an axis")?.parameter;
        if !self.measures(&setup, parameter, setting) {
            return Ok(MeasuredValues::default());
        }
        let sample = self.sample(setting, setup.way)?;
        let details = sample.trips.as_ref().context("what the sender tells of round trips")?;
        let series = setup.title;
        let reading =
            |figure, x, value| MeasuredValue { figure, series: series.clone(), x, y: 0.0, value };
        let (first, x) = (sweep * FIGURES.len(), f64::from(place));
        let values = FIGURES.iter().enumerate().filter_map(|(at, figure)| {
            Some(reading(first + at, x, (figure.value)(&sample, details)?))
        });
        let mut readings: Vec<MeasuredValue> = values.collect();
        let (histogram, of) = self.histogram();
        if point == of {
            let classes = details.classes.iter();
            readings.extend(classes.map(|(low, part)| reading(histogram, *low, 100.0 * part)));
        }
        Ok(MeasuredValues { readings, warm_up: details.warm_up })
    }

    fn conclude(&self, figures: &mut Vec<Figure>) -> Vec<String> {
        let mut findings = Vec::new();
        for sweep in &self.sweeps {
            let name = format!("mean-by-{}", sweep.parameter.name());
            let Some(figure) = figures.iter().find(|figure| figure.name == name) else { continue };
            findings.extend(fit::sentences(sweep.parameter, figure));
            if let Some(more) = relative(figure, sweep.parameter.anchor(), &papers(sweep.parameter))
            {
                figures.push(more);
            }
        }
        findings
    }
}

/// The paper's figures, milliseconds. Their ratios are drawn.
fn papers(parameter: Parameter) -> Vec<Reference> {
    let of = |name: &str, points: &[(f64, f64)]| Reference {
        name: format!("paper 4: {name}"),
        points: points.to_vec(),
    };
    match parameter {
        Parameter::Length => vec![
            of("no gateway", &[(1024.0, 3.6), (4096.0, 7.2)]),
            of("1 gateway", &[(1024.0, 5.5), (4096.0, 10.0)]),
            of("2 gateways", &[(1024.0, 7.8), (4096.0, 12.9)]),
        ],
        Parameter::Gateways => vec![
            of("1 KiB", &[(0.0, 3.6), (1.0, 5.5), (2.0, 7.8)]),
            of("4 KiB", &[(0.0, 7.2), (1.0, 10.0), (2.0, 12.9)]),
        ],
        Parameter::Load(lab::plan::HostEnd::Sender) => {
            vec![of("no effect up to 5", &[(0.0, 1.0), (5.0, 1.0)])]
        }
        _ => Vec::new(),
    }
}
