//! A comparison while it is measured: its progress, its failures, and its results file, which
//! `tasuki lab` compares and shows (docs/reference/lab-results.md).
//!
//! The file is written after every round, marked as partial until the end. So a run that is ended
//! early leaves what it found.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use lab::statistics::Precision;
use lab::{Experiment, Figure, Results};
use user::whole_file::replace;

use super::kind::ComparedKind;
use crate::args::CompareArgs;
use crate::described;
use crate::lab::calibration::Calibrator;
use crate::lab::engine::{EngineLimits, Surroundings, run};
use crate::lab::experiment::LabExperiment;
use crate::lab::new_results;
use crate::lab::notebook::Notebook;
use crate::progress::LabProgress;

/// The experiment's name and title in the file.
const NAME: &str = "compare";
const TITLE: &str = "Tasuki beside the kernel";

/// See the module.
pub(super) struct Record {
    file: Option<PathBuf>,
    results: Results,
    /// Of the kinds that are over.
    figures: Vec<Figure>,
    /// How many there are, and how many are over.
    kinds: (usize, usize),
    rounds: u32,
    began: Instant,
    calibrator: Calibrator,
    progress: LabProgress,
    failures: Vec<String>,
}

impl Record {
    /// Begins; so many kinds will be measured.
    pub(super) fn new(args: &CompareArgs, kinds: usize) -> Result<Self> {
        Ok(Self {
            file: args.results.clone(),
            results: empty(args)?,
            figures: Vec::new(),
            kinds: (kinds, 0),
            rounds: args.rounds,
            began: Instant::now(),
            calibrator: Calibrator::new(),
            progress: LabProgress::new(),
            failures: Vec::new(),
        })
    }

    /// Measures one kind in all rounds.
    ///
    /// # Errors
    /// Those of the file. What fails while it is measured is told and kept.
    pub(super) fn measure(&mut self, kind: &mut ComparedKind) -> Result<()> {
        let mut notebook = Notebook::new(NAME, TITLE, kind);
        let limits = EngineLimits {
            time: Duration::ZERO,
            rounds: Some(self.rounds),
            precision: Precision::default(),
        };
        run(kind, &mut notebook, limits, self)?;
        self.figures.extend(notebook.experiment(kind).figures);
        self.failures.extend_from_slice(notebook.failures());
        self.kinds.1 += 1;
        Ok(())
    }

    /// What was found, and what failed.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn end(mut self) -> Result<(Results, Vec<String>)> {
        self.progress.end();
        let sentence = |first: &String| {
            let count = self.failures.len();
            described::one_line(&format!("{count} measurements failed, such as {first}"))
        };
        self.results.partial = self.failures.first().map(sentence);
        let figures = std::mem::take(&mut self.figures);
        self.take(figures)?;
        Ok((self.results, self.failures))
    }

    /// Has these figures, in the file as well.
    fn take(&mut self, figures: Vec<Figure>) -> Result<()> {
        let (name, title) = (NAME.to_owned(), TITLE.to_owned());
        let found = Experiment { name, title, findings: Vec::new(), figures };
        self.results.experiments = vec![found];
        self.results.made.seconds = self.began.elapsed().as_secs();
        let Some(file) = &self.file else { return Ok(()) };
        self.results.check().context("results that `tasuki lab` would refuse")?;
        Ok(replace(file, &serde_json::to_vec(&self.results)?)?)
    }
}

/// The results before anything was measured.
fn empty(args: &CompareArgs) -> Result<Results> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let command = format!("tasuki-bench {}", words.join(" "));
    let mut results = new_results(&args.tasuki, args.before.as_deref(), command)?;
    let congestion = args.congestion.congestion.clone();
    let properties = &mut results.machine.properties;
    properties.insert("congestion control of the kernel's ends".into(), congestion);
    Ok(results)
}

impl Surroundings for Record {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// A signal ends the program; another process removes its namespaces.
    fn is_interrupted(&self) -> bool {
        false
    }

    fn begins(&mut self, what: &str, part: f64) {
        let (all, over) = self.kinds;
        self.progress.show((over as f64 + part) / all as f64, what);
    }

    fn fails(&mut self, what: &str) {
        self.progress.line(&format!("FAILED {what}"));
    }

    fn keep(&mut self, experiment: &dyn LabExperiment, notebook: &Notebook) -> Result<()> {
        if let Err(error) = self.calibrator.look(&mut self.results.machine.calibration) {
            self.progress.line(&format!("the machine is not calibrated: {error:#}"));
        }
        self.progress.round(&format!("round {} of {}", notebook.round, self.rounds));
        let found = notebook.experiment(experiment).figures;
        let figures = self.figures.iter().cloned().chain(found).collect();
        self.results.partial = Some("It is being measured, or it was ended.".to_owned());
        self.take(figures)
    }
}
