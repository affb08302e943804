//! Goodput over a bad path: bytes that arrive within some seconds of a connection, over a wire with
//! loss, delay and a queue of any length. Linux with CUBIC and with BBR, and Tasuki, which has
//! CUBIC, send over the same wire with the same losses; Tasuki also receives from both of Linux's.
//!
//! The path is in [`bad_path`], the wire in [`relay`], the axes are in [`mod@axes`].

mod axes;
mod bad_path;
mod relay;

use anyhow::{Context as _, Result};
use lab::plan::{ExperimentName, LabOptions, LabSetup};
use lab::statistics::median;
use lab::{Direction, Figure, FigureKind};
use user::exit::say;

pub(crate) use self::relay::{BadWireArgs, bad_wire};

use self::axes::{WireAxis, WireProperty, axes};
use self::bad_path::{BadPath, EndMode, LINK, WireSetting};
use super::derived::share_of_base;
use super::experiment::{FigurePlan, LabExperiment, MeasuredValue, MeasuredValues};
use crate::clients::run_client;
use crate::hosts::Programs;
use crate::row::Sample;

/// Seconds of a connection. With 100 ms each way CUBIC and BBR need two to be at the link's rate.
const SECONDS: f64 = 3.0;
const QUICK_SECONDS: f64 = 1.0;
/// The series that others are compared with.
const BASE: &str = "Linux, CUBIC";
const BBR: &str = "Linux, BBR";
/// Names of the kernel's congestion controls, and as series have them.
const CONTROLS: [(&str, &str); 2] = [("cubic", BASE), ("bbr", BBR)];
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Who sends, and who receives.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PathSetup {
    title: String,
    from: EndMode,
    /// The sender's congestion control, where the kernel sends.
    control: Option<&'static str>,
    to: EndMode,
}

/// See the module.
pub(crate) struct BadPaths {
    programs: Programs,
    axes: Vec<WireAxis>,
    setups: Vec<PathSetup>,
    seconds: f64,
    /// Of the command that repeats a figure, besides those of its axis.
    more_words: String,
    /// The number of the present round, from 1; 0 to warm up.
    round: u32,
    /// Made when it is needed first, and kept.
    path: Option<BadPath>,
}

impl BadPaths {
    /// As the options say.
    pub(crate) fn new(programs: &Programs, options: &LabOptions) -> Self {
        let axes = axes(options);
        let available = std::fs::read_to_string(AVAILABLE).unwrap_or_default();
        let has = |control: &str| available.split_whitespace().any(|it| it == control);
        let setups = setups(options, has);
        if !has("bbr") {
            say("paths: this kernel has no BBR: `modprobe tcp_bbr` may load it");
        }
        Self {
            programs: programs.clone(),
            axes,
            setups,
            seconds: if options.quick { QUICK_SECONDS } else { SECONDS },
            more_words: options.kept_words(ExperimentName::Paths),
            round: 0,
            path: None,
        }
    }

    /// The axis and the setting of a point.
    fn at(&self, point: usize) -> Option<(usize, WireSetting)> {
        let all = self.axes.iter().enumerate();
        all.flat_map(|(at, axis)| axis.points.iter().map(move |it| (at, *it))).nth(point)
    }

    /// The seed of the losses at a point. It depends on the round and not on what this process has
    /// measured, so a run that goes on repeats no losses.
    fn seed(&self, point: usize) -> u64 {
        (point as u64) << 32 | u64::from(self.round)
    }

    fn sample(&mut self, setting: WireSetting, setup: &PathSetup, seed: u64) -> Result<Sample> {
        let path = match &mut self.path {
            Some(path) => path,
            none => none.insert(BadPath::new(&self.programs)?),
        };
        path.receive_on(setup.to)?;
        let _wire = path.wire(setting, seed)?;
        let mut words =
            vec!["--test=goodput".to_owned(), format!("--most-seconds={}", self.seconds)];
        words.extend(setup.control.map(|name| format!("--congestion={name}")));
        let said = run_client(path.sender(setup.from, setup.to, &words)?, None)?;
        serde_json::from_str(&said).with_context(|| format!("what the sender prints: `{said}`"))
    }
}

/// The kernel's senders to the kernel, then for each mode Tasuki as sender and as receiver. Without
/// a choice the only mode is `split`: the modes have the same TCP.
fn setups(options: &LabOptions, has: impl Fn(&str) -> bool) -> Vec<PathSetup> {
    let modes = [
        (LabSetup::Split, "split", !options.only.is_empty()),
        (LabSetup::Fused, "fused", !options.only.is_empty()),
        (LabSetup::Library, "library", !options.only.is_empty()),
    ];
    let chosen = |(setup, name, named): &(LabSetup, &'static str, bool)| {
        let wanted = options.has(*setup) && (*named || *setup == LabSetup::Split);
        wanted.then_some(*name)
    };
    let modes: Vec<&'static str> = modes.iter().filter_map(chosen).collect();
    let controls: Vec<_> = CONTROLS.into_iter().filter(|(name, _)| has(name)).collect();
    let linux = |to: EndMode, suffix: &str| -> Vec<PathSetup> {
        let of = |(control, title): &(&'static str, &str)| PathSetup {
            title: format!("{title}{suffix}"),
            from: None,
            control: Some(control),
            to,
        };
        controls.iter().map(of).collect()
    };
    let mut all = if options.has(LabSetup::Linux) { linux(None, "") } else { Vec::new() };
    for mode in modes {
        let title = format!("{mode}, CUBIC");
        all.push(PathSetup { title, from: Some(mode), control: None, to: None });
        if options.has(LabSetup::Linux) {
            all.extend(linux(Some(mode), &format!(" to {mode}")));
        }
    }
    all
}

impl LabExperiment for BadPaths {
    fn figures(&self) -> Vec<FigurePlan> {
        let has_base = self.setups.iter().any(|setup| setup.title == BASE);
        let plan = |axis: &WireAxis| FigurePlan {
            second: axis.second_axis(),
            name: format!("goodput-by-{}", axis.name()),
            title: format!(
                "Goodput by {}: {} Mbit/s, {}",
                axis.words_of_properties(),
                LINK / 1_000_000,
                axis.title()
            ),
            axis: axis.axis(),
            unit: "Mbit/s",
            direction: Direction::Higher,
            base: has_base.then_some(BASE),
            words: axis.words() + &self.more_words,
            is_judged: true,
            kind: if axis.is_map() { FigureKind::HeatMap } else { FigureKind::Lines },
        };
        self.axes.iter().map(plan).collect()
    }

    fn points(&self) -> Vec<String> {
        let of = |axis: &WireAxis| {
            axis.points.iter().map(|setting| axis.point(*setting)).collect::<Vec<_>>()
        };
        self.axes.iter().flat_map(of).collect()
    }

    fn setups(&self) -> Vec<String> {
        self.setups.iter().map(|setup| setup.title.clone()).collect()
    }

    fn has_tasuki(&self, setup: usize) -> bool {
        self.setups.get(setup).is_some_and(|it| it.from.is_some() || it.to.is_some())
    }

    fn begin_round(&mut self, round: u32) {
        self.round = round + 1;
        if round > 0 {
            self.path.iter_mut().for_each(BadPath::renew);
        }
    }

    fn measure(&mut self, point: usize, setup: usize) -> Result<MeasuredValues> {
        let (figure, setting) = self.at(point).context("a point")?;
        let this = self.setups.get(setup).context("a set-up")?.clone();
        // In a round all set-ups have the same losses at this point.
        let sample = self.sample(setting, &this, self.seed(point))?;
        let [x, y] = self.axes.get(figure).context("an axis")?.places(setting);
        let value = sample.rate * f64::from(1 << 23) / 1e6;
        let readings = vec![MeasuredValue { figure, series: this.title, x, y, value }];
        Ok(MeasuredValues { readings, warm_up: 0 })
    }

    fn conclude(&self, figures: &mut Vec<Figure>) -> Vec<String> {
        let lossy = self.axes.iter().filter(|axis| axis.property == WireProperty::Loss);
        let lossy: Vec<&Figure> = lossy
            .filter_map(|axis| {
                let name = format!("goodput-by-{}", axis.name());
                figures.iter().find(|figure| figure.name == name)
            })
            .collect();
        let mut said: Vec<String> = by_bbr(&lossy).into_iter().collect();
        for setup in self.setups.iter().filter(|setup| setup.from.is_some() || setup.to.is_some()) {
            said.extend(beside_linux(figures, setup));
        }
        let shares = figures.iter().filter(|figure| figure.kind == FigureKind::HeatMap);
        let shares = shares.filter_map(|figure| {
            let (name, title) =
                (format!("{}-share", figure.name), format!("{}, share of {BASE}", figure.title));
            share_of_base(figure, (&name, &title), Direction::Higher, &[])
        });
        let shares: Vec<Figure> = shares.collect();
        figures.extend(shares);
        said
    }
}

/// The medians over rounds of a series' ratios to another one, at each place above `least`.
fn ratios(figure: &Figure, [one, to]: [&str; 2], least: f64) -> Vec<f64> {
    let of = |name: &str| figure.series.iter().find(|series| series.name == name);
    let (Some(one), Some(to)) = (of(one), of(to)) else { return Vec::new() };
    let points = one.points.iter().filter(|point| point.x > least);
    let ratio = points.filter_map(|point| {
        let ratios: Vec<f64> = point.ratios_to(to.at(point.x, point.y)?).into_values().collect();
        median(&ratios)
    });
    ratio.collect()
}

/// `A to B`, of ratios.
fn spread(ratios: &[f64]) -> Option<String> {
    let least = ratios.iter().copied().reduce(f64::min)?;
    let most = ratios.iter().copied().reduce(f64::max)?;
    let [least, most] = [least, most].map(|it| format!("{it:.2}"));
    Some(if least == most { least } else { format!("{least} to {most}") })
}

/// What random loss leaves of CUBIC, beside BBR.
fn by_bbr(lossy: &[&Figure]) -> Option<String> {
    let all: Vec<f64> = lossy.iter().flat_map(|it| ratios(it, [BBR, BASE], 0.0)).collect();
    let spread = spread(&all)?;
    Some(format!(
        "Where frames are lost at random, BBR carries {spread} times what CUBIC does, both of \
         Linux. Tasuki has CUBIC and no BBR."
    ))
}

/// A series of Tasuki, beside Linux at both ends with the same congestion control.
fn beside_linux(figures: &[Figure], setup: &PathSetup) -> Option<String> {
    let base = CONTROLS.iter().find(|(name, _)| Some(*name) == setup.control);
    let base = base.map_or(BASE, |(_, title)| *title);
    let of = |figure: &Figure| ratios(figure, [&setup.title, base], f64::NEG_INFINITY);
    let all: Vec<f64> = figures.iter().flat_map(of).collect();
    let (middle, spread) = (median(&all)?, spread(&all)?);
    let noun = if all.len() == 1 { "place" } else { "places" };
    Some(format!(
        "“{}” carries {middle:.2} times what “{base}” does (median of {} {noun}, {spread}).",
        setup.title,
        all.len()
    ))
}

#[cfg(test)]
mod tests {
    use lab::{Axis, Point, Scale, Series};

    use super::*;

    #[test]
    fn both_roles_and_both_controls_are_measured() {
        let options = LabOptions::default();
        let titles = |options: &LabOptions, bbr: bool| -> Vec<String> {
            let all = setups(options, |name| bbr || name == "cubic");
            all.into_iter().map(|setup| setup.title).collect()
        };
        let all = [BASE, BBR, "split, CUBIC", "Linux, CUBIC to split", "Linux, BBR to split"];
        assert_eq!(titles(&options, true), all);
        assert_eq!(titles(&options, false), [BASE, "split, CUBIC", "Linux, CUBIC to split"]);
        let only = LabOptions { only: vec![LabSetup::Fused, LabSetup::Linux], ..options };
        assert_eq!(titles(&only, false), [BASE, "fused, CUBIC", "Linux, CUBIC to fused"]);
    }

    /// Nothing of it is started.
    fn paths(words: &str) -> BadPaths {
        let nowhere = std::path::Path::new("/nowhere");
        let programs = Programs::new(nowhere, nowhere).expect("the name of this program");
        BadPaths::new(&programs, &crate::lab::options_of(words))
    }

    #[test]
    fn losses_depend_on_the_round_and_not_on_what_was_measured_before() {
        let seeds = |paths: &mut BadPaths, rounds: std::ops::Range<u32>| -> Vec<[u64; 2]> {
            let of_round = |round| {
                paths.begin_round(round);
                [0, 1].map(|point| paths.seed(point))
            };
            rounds.map(of_round).collect()
        };
        let all = seeds(&mut paths("paths"), 0..4);
        let (mut first, mut second) = (paths("paths"), paths("paths"));
        assert_eq!([seeds(&mut first, 0..2), seeds(&mut second, 2..4)].concat(), all);
        let mut each = all.concat();
        each.sort_unstable();
        each.dedup();
        assert_eq!(each.len(), 8, "{all:?}");
        let warm_up = paths("paths").seed(0);
        assert!(!each.contains(&warm_up), "a warm-up has losses of its own");
    }

    #[test]
    fn sentences_compare_the_same_control() {
        let point = |x, value| Point {
            y: 0.0,
            x,
            samples: vec![lab::Sample { round: 0, value }],
            warm_up: 0,
            discarded: 0,
            marks: Vec::new(),
        };
        let series = |name: &str, values: [f64; 2]| Series {
            name: name.to_owned(),
            reference: false,
            points: vec![point(0.0, values[0]), point(1.0, values[1])],
        };
        let figure = Figure {
            second: None,
            name: "goodput-by-loss".to_owned(),
            title: "Goodput".to_owned(),
            axis: Axis { title: "loss".to_owned(), unit: "%".to_owned(), scale: Scale::Linear },
            unit: "Mbit/s".to_owned(),
            direction: Direction::Higher,
            command: "none".to_owned(),
            base: Some(BASE.to_owned()),
            kind: FigureKind::Lines,
            lanes: Vec::new(),
            series: vec![
                series(BASE, [90.0, 5.0]),
                series(BBR, [90.0, 50.0]),
                series("Linux, BBR to split", [45.0, 25.0]),
            ],
        };
        assert!(by_bbr(&[&figure]).unwrap().contains("BBR carries 10.00 times"));
        let setups = setups(&LabOptions::default(), |_| true);
        let said = beside_linux(&[figure], &setups[4]).unwrap();
        assert!(said.contains("0.50 times what “Linux, BBR” does"), "{said}");
    }
}
