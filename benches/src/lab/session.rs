//! A run of several experiments: its clock, its signals, its progress, its files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result};
use lab::plan::{ExperimentName, LabOptions};
use lab::results::{FORMAT, VERSION};
use lab::{Machine, Origin, Results};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use user::exit::Code;
use user::pictures::png_beside;

use super::calibration::Calibrator;
use super::engine::{EngineEnd, EngineLimits, Surroundings, run};
use super::experiment::LabExperiment;
use super::folder::{RunFolder, RunState};
use super::notebook::Notebook;
use crate::described;
use crate::progress::LabProgress;

/// See the module.
pub(crate) struct Session {
    pub(crate) folder: RunFolder,
    state: RunState,
    results: Results,
    began: Instant,
    /// Seconds of earlier runs.
    earlier: u64,
    interrupted: Arc<AtomicBool>,
    progress: LabProgress,
    calibrator: Calibrator,
    /// What is left out, sentences. A run that goes on finds it out again.
    missing: Vec<String>,
    /// What failed before the present experiment, sentences, also in earlier runs.
    failed: Vec<String>,
    /// The part of the whole run that is over, and that of the experiment that is measured.
    done: (f64, f64),
}

/// One that stops at the next measurement after SIGINT, SIGTERM or SIGHUP, and at once after two.
fn watch_signals() -> Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // The order matters: the first signal finds the flag unset.
        let code = i32::from(Code::Interrupted as u8);
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&interrupted))?;
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted)
}

/// The results of a run of this command that begins, with an earlier build or without.
///
/// # Errors
/// Those of the clock and of asking `tasuki` for its version.
pub(crate) fn new_results(
    tasuki: &Path,
    before: Option<&Path>,
    command: String,
) -> Result<Results> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).context("the clock")?;
    Ok(Results {
        format: FORMAT.to_owned(),
        version: VERSION,
        made: Origin {
            by: concat!("tasuki-bench ", env!("CARGO_PKG_VERSION")).to_owned(),
            command,
            tasuki: described::tasuki(tasuki)?,
            before: before.map(described::tasuki).transpose()?,
            began: since.as_secs(),
            ..Origin::default()
        },
        machine: Machine {
            system: described::system(),
            processor: described::processor(),
            processors: described::processors() as u32,
            properties: described::properties(),
            calibration: Vec::new(),
        },
        partial: None,
        experiments: Vec::new(),
    })
}

impl Session {
    /// Begins, or goes on.
    pub(crate) fn new(folder: RunFolder, state: RunState, results: Results) -> Result<Self> {
        Ok(Self {
            folder,
            state,
            earlier: results.made.seconds,
            failed: results.made.failed.clone(),
            results,
            began: Instant::now(),
            interrupted: watch_signals()?,
            progress: LabProgress::new(),
            calibrator: Calibrator::new(),
            missing: Vec::new(),
            done: (0.0, 0.0),
        })
    }

    /// Something that was asked for is not measured.
    pub(crate) fn misses(&mut self, sentence: String) {
        self.progress.line(&sentence);
        self.missing.push(sentence);
    }

    /// Has an earlier run finished it?
    pub(crate) fn is_over(&self, name: ExperimentName) -> bool {
        self.state.over.iter().any(|over| over == name.name())
    }

    /// Measures one experiment; `later` ones share what it leaves of the time.
    ///
    /// # Errors
    /// Those of the files.
    pub(crate) fn measure(
        &mut self,
        (name, experiment): (ExperimentName, &mut dyn LabExperiment),
        options: &LabOptions,
        later: &[ExperimentName],
    ) -> Result<EngineEnd> {
        let mut notebook = Notebook::new(name.name(), name.title(), experiment);
        if let Some(earlier) = self.results.experiments.iter().find(|it| it.name == name.name()) {
            let points = self.results.made.unfinished.get(name.name()).copied().unwrap_or(0);
            notebook.restore(earlier, points as usize);
        }
        let spent = self.state.spent.get(name.name()).copied().unwrap_or(0.0);
        notebook.spent = Duration::from_secs_f64(spent.max(0.0));
        let whole = options.whole_time();
        // Looking at the machine between rounds takes time too.
        let all = self.earlier as f64 + self.began.elapsed().as_secs_f64();
        let left = (whole.as_secs_f64() - all).max(0.0) * LabOptions::share(name, later);
        let time = notebook.spent + Duration::from_secs_f64(left);
        self.done = (all / whole.as_secs_f64(), time.as_secs_f64() / whole.as_secs_f64());
        let precision = lab::statistics::Precision { time, ..Default::default() };
        let limits = EngineLimits { time, rounds: options.rounds, precision };
        let end = run(experiment, &mut notebook, limits, self)?;
        self.failed.clone_from(&self.results.made.failed);
        Ok(end)
    }

    /// The results, to the last: what is missing is told. The page is written.
    ///
    /// # Errors
    /// Those of the files.
    pub(crate) fn end(&mut self, end: Option<&str>) -> Result<(Results, PathBuf)> {
        let missing: Vec<String> =
            end.into_iter().map(str::to_owned).chain(self.missing()).collect();
        self.results.partial = (!missing.is_empty()).then(|| missing.join(" "));
        self.write()?;
        self.progress.end();
        let (page, plots) = self.folder.report(&self.results)?;
        self.progress.line(&format!("drawing {} plots", plots.len()));
        if let Err(error) = png_beside(&plots) {
            self.progress.line(&error.to_string());
        }
        Ok((self.results.clone(), page))
    }

    /// What was left out or went wrong, in all parts of the run.
    pub(crate) fn missing(&self) -> Vec<String> {
        self.missing.iter().chain(&self.failed).cloned().collect()
    }

    fn write(&mut self) -> Result<()> {
        self.results.made.seconds = self.earlier + self.began.elapsed().as_secs();
        self.results.check().context("results that `tasuki lab` would refuse")?;
        self.folder.write(&self.results, &self.state)
    }

    fn calibrate(&mut self) {
        if let Err(error) = self.calibrator.look(&mut self.results.machine.calibration) {
            self.progress.line(&format!("the machine is not calibrated: {error:#}"));
        }
    }
}

/// What failed in an experiment, in a sentence.
fn failures_of(name: &str, notebook: &Notebook) -> Option<String> {
    let all = notebook.failures();
    let sentence = format!("{name}: {} failed, such as {}", all.len(), all.first()?);
    Some(format!("{}.", described::one_line(&sentence)))
}

impl Surroundings for Session {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    fn begins(&mut self, what: &str, part: f64) {
        if self.calibrator.is_new() {
            self.calibrate();
        }
        let (before, own) = self.done;
        self.progress.show(before + own * part, what);
    }

    fn fails(&mut self, what: &str) {
        self.progress.line(&format!("FAILED {what}"));
    }

    fn keep(&mut self, experiment: &dyn LabExperiment, notebook: &Notebook) -> Result<()> {
        self.calibrate();
        let found = notebook.experiment(experiment);
        let (name, spent) = (found.name.clone(), notebook.spent.as_secs_f64());
        self.progress.round(&format!("{name}: round {}, {spent:.0} s", notebook.round));
        if !found.figures.is_empty() {
            let all = &mut self.results.experiments;
            match all.iter_mut().find(|it| it.name == name) {
                Some(earlier) => *earlier = found,
                None => all.push(found),
            }
        }
        if notebook.is_over && !self.state.over.contains(&name) {
            self.state.over.push(name.clone());
        }
        let made = &mut self.results.made;
        made.failed = self.failed.iter().cloned().chain(failures_of(&name, notebook)).collect();
        if notebook.next_point > 0 {
            made.unfinished.insert(name.clone(), notebook.next_point as u32);
        } else {
            made.unfinished.remove(&name);
        }
        self.state.spent.insert(name, spent);
        let unfinished = "It is being measured, or it ended without a word.".to_owned();
        self.results.partial = Some(unfinished);
        self.write()
    }
}
