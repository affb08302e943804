//! The fifth paper's appendix: what the same loop costs in user mode and in the kernel, by its
//! steps. `tasuki-bench loops` measures, in a process of its own, since it ties itself to a
//! processor.

use anyhow::{Context as _, Result};
use lab::plan::{ExperimentName, LabOptions, listed};
use lab::{Axis, Direction, Figure, FigureKind, Scale};

use super::derived::{Reference, share_of_base};
use super::experiment::{FigurePlan, LabExperiment, MeasuredValue, MeasuredValues};
use super::part::asked;
use crate::loops::{LoopFigure, LoopKind, LoopReport};
use crate::machine::processors;

const STEPS: [u32; 4] = [64, 256, 1024, 4096];
const QUICK_STEPS: [u32; 2] = [64, 1024];
/// Milliseconds of a sample.
const MILLIS: u32 = 40;
const QUICK_MILLIS: u32 = 10;
/// The series that the kernel is compared with.
const USER: &str = "user mode";
const KERNEL: &str = "kernel, BPF";

/// A loop: its title, and the paper's time in the kernel in percent of that in user mode.
fn described(kind: LoopKind) -> (&'static str, f64) {
    match kind {
        LoopKind::Fibonacci => ("Fibonacci", 120.0),
        LoopKind::Modulo => ("Modulo", 177.0),
    }
}

/// See the module.
pub(crate) struct Loops {
    steps: Vec<u32>,
    millis: u32,
    /// Of the command that repeats a figure, besides those of its axis.
    more_words: String,
    /// Why the kernel cannot be measured, as the last measurement has found.
    missing: Option<String>,
    /// The kernel translates BPF programs (`true`) or interprets them.
    translates: Option<bool>,
}

impl Loops {
    /// As the options say.
    pub(crate) fn new(options: &LabOptions) -> Self {
        let usual = if options.quick { &QUICK_STEPS[..] } else { &STEPS };
        let given = options.steps.as_ref().map(|places| places.all().to_vec());
        Self {
            steps: given.unwrap_or_else(|| usual.to_vec()),
            millis: if options.quick { QUICK_MILLIS } else { MILLIS },
            more_words: options.kept_words(ExperimentName::Loops),
            missing: None,
            translates: None,
        }
    }

    /// How the longest loop compares, in a sentence.
    fn finding(&self, kind: LoopKind, figure: &Figure) -> Option<String> {
        let steps = figure.places().pop()?;
        let series = |name: &str| figure.series.iter().find(|series| series.name == name);
        let ratios = series(KERNEL)?.at(steps, 0.0)?.ratios_to(series(USER)?.at(steps, 0.0)?);
        let ratios: Vec<f64> = ratios.into_values().collect();
        let ratio = lab::statistics::median_interval(&ratios)?;
        let (title, paper) = described(kind);
        let how = match self.translates {
            Some(true) => ", where BPF is translated (JIT),",
            Some(false) => ", where BPF is interpreted,",
            None => "",
        };
        Some(format!(
            "{title}, {steps} steps: in the kernel{how} {:.2} times the time of user mode ({:.2} \
             to {:.2}); in the fifth paper {:.2}.",
            ratio.middle,
            ratio.low,
            ratio.high,
            paper / 100.0
        ))
    }
}

impl LabExperiment for Loops {
    fn figures(&self) -> Vec<FigurePlan> {
        let plan = |kind: LoopKind| FigurePlan {
            name: kind.name().to_owned(),
            title: format!("{}: time of a loop", described(kind).0),
            axis: Axis { title: "steps".to_owned(), unit: String::new(), scale: Scale::Log },
            unit: "ns",
            direction: Direction::Lower,
            base: Some(USER),
            words: format!("loops --steps {}{}", listed(&self.steps), self.more_words),
            is_judged: true,
            kind: FigureKind::Lines,
            second: None,
        };
        LoopKind::ALL.map(plan).to_vec()
    }

    fn points(&self) -> Vec<String> {
        self.steps.iter().map(|steps| format!("{steps} steps")).collect()
    }

    /// One command measures both, in turn.
    fn setups(&self) -> Vec<String> {
        vec!["user mode and kernel".to_owned()]
    }

    fn measure(&mut self, point: usize, _: usize) -> Result<MeasuredValues> {
        let steps = *self.steps.get(point).context("a number of steps")?;
        let processor = *processors()?.first().context("a processor")?;
        let words = [
            "loops".to_owned(),
            format!("--steps={steps}"),
            format!("--millis={}", self.millis),
            format!("--processor={processor}"),
        ];
        let found: LoopReport = asked(&words)?;
        (self.missing, self.translates) = (found.missing, found.translates);
        let reading = |it: &LoopFigure| {
            let figure = LoopKind::ALL.iter().position(|kind| *kind == it.kind);
            let values = [(USER, Some(it.user_ns)), (KERNEL, it.kernel_ns)];
            let x = f64::from(it.steps);
            let reading = move |(series, value): (&str, Option<f64>)| {
                let series = series.to_owned();
                Some(MeasuredValue { figure: figure?, series, x, y: 0.0, value: value? })
            };
            values.into_iter().filter_map(reading).collect::<Vec<_>>()
        };
        // Each loop begins with one that does not count.
        Ok(MeasuredValues {
            readings: found.figures.iter().flat_map(reading).collect(),
            warm_up: 1,
        })
    }

    fn conclude(&self, figures: &mut Vec<Figure>) -> Vec<String> {
        let mut findings = Vec::new();
        for kind in LoopKind::ALL {
            let Some(figure) = figures.iter().find(|figure| figure.name == kind.name()) else {
                continue;
            };
            findings.extend(self.finding(kind, figure));
            let (title, paper) = described(kind);
            let paper = Reference::flat("paper 5: appendix", &figure.places(), paper);
            let name = format!("{}-share", kind.name());
            let title = format!("{title}: time in the kernel, share of user mode");
            let more = share_of_base(figure, (&name, &title), Direction::Lower, &[paper]);
            figures.extend(more);
        }
        findings.into_iter().chain(self.missing.clone()).collect()
    }
}
