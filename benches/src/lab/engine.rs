//! The measuring core: rounds over the points of an experiment until they are known well enough.
//!
//! In a round each point is measured, and at each point all set-ups take turns; in every other
//! round the last one is first. So a drift of the machine's speed meets all alike, and a ratio of
//! one round means something. A point that is known well enough ([`Precision`]) is left out of
//! later rounds, for all set-ups together. The experiment ends when no point is left, when the
//! next one would end after its time, or after so many rounds. The first round is measured whole,
//! however long it takes: a point without any sample is worse than a run that is late.
//!
//! An interrupted round is no round yet. It goes on with the point whose turn was cut off, for all
//! set-ups; what that turn has measured is forgotten. So all samples of a point in a round are of
//! one turn, and in the end no point lacks a round. Ratios of set-ups are as good as in any round;
//! between points of such a round time has passed.
//!
//! Before the first round each set-up is measured once for nothing: it finds caches cold and
//! programs on the disk. A measurement that fails is counted and told, and the next one goes on. A
//! set-up that fails [`PATIENCE`] times in a row is left out of the rest.

use std::time::Duration;

use anyhow::Result;
use lab::statistics::Precision;

use super::experiment::LabExperiment;
use super::notebook::Notebook;

/// The most rounds without a wish for more: intervals hardly become narrower then.
const MOST_ROUNDS: u32 = 60;
/// Failures in a row after which a set-up is given up.
const PATIENCE: u32 = 3;

/// How long an experiment may go on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EngineLimits {
    /// The time, in all runs together.
    pub(crate) time: Duration,
    /// So many rounds, whatever the time.
    pub(crate) rounds: Option<u32>,
    /// When a point is known well enough.
    pub(crate) precision: Precision,
}

/// Why an experiment ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EngineEnd {
    /// All points are known well enough, or there were as many rounds as were asked for.
    Done,
    /// The time is up.
    OutOfTime,
    /// Somebody stopped it.
    Interrupted,
}

/// What is around the engine.
pub(crate) trait Surroundings {
    /// Time since this run began.
    fn now(&self) -> Duration;
    /// Did somebody stop the run?
    fn is_interrupted(&self) -> bool;
    /// A measurement begins; `part` of the experiment is done, 0 to 1.
    fn begins(&mut self, what: &str, part: f64);
    /// A measurement failed.
    fn fails(&mut self, what: &str);
    /// A round is over: keep what was found.
    ///
    /// # Errors
    /// Those of the file.
    fn keep(&mut self, experiment: &dyn LabExperiment, notebook: &Notebook) -> Result<()>;
}

/// An experiment that is measured.
struct Engine<'a> {
    experiment: &'a mut dyn LabExperiment,
    notebook: &'a mut Notebook,
    limits: EngineLimits,
    around: &'a mut dyn Surroundings,
    points: Vec<String>,
    setups: Vec<String>,
    /// Failures in a row, of each set-up.
    failures: Vec<u32>,
    /// How long each point took the last time, all set-ups together.
    turns: Vec<Duration>,
}

/// Measures until the end.
///
/// # Errors
/// Those of keeping the results. Measurements that fail are in the notebook.
pub(crate) fn run(
    experiment: &mut dyn LabExperiment,
    notebook: &mut Notebook,
    limits: EngineLimits,
    around: &mut dyn Surroundings,
) -> Result<EngineEnd> {
    let (points, setups) = (experiment.points(), experiment.setups());
    let (failures, turns) = (vec![0; setups.len()], vec![Duration::ZERO; points.len()]);
    let mut engine =
        Engine { experiment, notebook, limits, around, points, setups, failures, turns };
    let end = engine.rounds()?;
    engine.notebook.is_over = end != EngineEnd::Interrupted;
    engine.around.keep(engine.experiment, engine.notebook)?;
    Ok(end)
}

impl Engine<'_> {
    fn rounds(&mut self) -> Result<EngineEnd> {
        if self.notebook.round == 0 && self.warm_up() {
            return Ok(EngineEnd::Interrupted);
        }
        let mut open: Vec<usize> = (0..self.points.len()).collect();
        loop {
            let round = self.notebook.round;
            if round >= self.limits.rounds.unwrap_or(MOST_ROUNDS) || open.is_empty() {
                return Ok(EngineEnd::Done);
            }
            self.experiment.begin_round(round);
            let first = self.notebook.next_point;
            let end = self.round(round, &open);
            if end == Some(EngineEnd::Interrupted) {
                return Ok(EngineEnd::Interrupted);
            }
            self.notebook.round += 1;
            self.notebook.next_point = 0;
            if let Some(end) = end {
                return Ok(end);
            }
            if self.limits.rounds.is_none() {
                // Points before the first one were not measured in this run: nothing is known of
                // their intervals.
                let (notebook, precision) = (&*self.notebook, &self.limits.precision);
                open.retain(|point| *point < first || !notebook.is_narrow(*point, precision));
            }
            self.around.keep(self.experiment, self.notebook)?;
            if self.is_late(Duration::ZERO) {
                let end = if open.is_empty() { EngineEnd::Done } else { EngineEnd::OutOfTime };
                return Ok(end);
            }
            if self.failures.iter().all(|failures| *failures >= PATIENCE) {
                return Ok(EngineEnd::Done);
            }
        }
    }

    /// One round over these points, or the rest of an interrupted one. `Some`: it is not whole.
    fn round(&mut self, round: u32, open: &[usize]) -> Option<EngineEnd> {
        let first = self.notebook.next_point;
        for (at, &point) in open.iter().enumerate().filter(|(_, point)| **point >= first) {
            let done = at as f64 / open.len() as f64;
            if round > 0 && self.is_late(self.turns[point]) {
                return Some(EngineEnd::OutOfTime);
            }
            let (began, before) = (self.notebook.spent, self.notebook.samples());
            if self.turn(point, round, done) {
                self.notebook.cut_off(point, before);
                return Some(EngineEnd::Interrupted);
            }
            self.turns[point] = self.notebook.spent.saturating_sub(began);
        }
        None
    }

    /// Is the time up, or not long enough for what comes `next`?
    fn is_late(&self, next: Duration) -> bool {
        let end = self.notebook.spent + next;
        self.limits.rounds.is_none()
            && (end > self.limits.time || self.notebook.spent >= self.limits.time)
    }

    /// Each set-up once for nothing. `true`: interrupted.
    fn warm_up(&mut self) -> bool {
        for setup in 0..self.setups.len() {
            self.around.begins(&format!("warm-up, {}", self.setups[setup]), 0.0);
            let began = self.around.now();
            let measured = self.experiment.measure(0, setup);
            self.notebook.spent += self.around.now().saturating_sub(began);
            if self.around.is_interrupted() {
                return true;
            }
            // The first round will tell what is wrong.
            if let Ok(measured) = measured {
                self.notebook.warm((0, setup), &measured);
            }
        }
        false
    }

    /// All set-ups at one point. `true`: interrupted.
    fn turn(&mut self, point: usize, round: u32, done: f64) -> bool {
        let count = self.setups.len();
        for turn in 0..count {
            let setup = if round.is_multiple_of(2) { turn } else { count - 1 - turn };
            if self.failures[setup] >= PATIENCE {
                continue;
            }
            if self.around.is_interrupted() {
                return true;
            }
            let what =
                format!("round {}: {}, {}", round + 1, self.points[point], self.setups[setup]);
            self.around.begins(&what, self.part(round, done));
            let began = self.around.now();
            let measured = self.experiment.measure(point, setup);
            self.notebook.spent += self.around.now().saturating_sub(began);
            match measured {
                Ok(measured) => {
                    self.failures[setup] = 0;
                    self.notebook.insert((point, setup), round, &measured);
                }
                // The same signal ends the programs that it is measured with.
                Err(_) if self.around.is_interrupted() => return true,
                Err(error) => {
                    self.failures[setup] += 1;
                    let what = format!("{what}: {error:#}");
                    self.around.fails(&what);
                    self.notebook.fail((point, setup), what);
                }
            }
        }
        false
    }

    /// How much of the experiment is done, 0 to 1.
    fn part(&self, round: u32, done: f64) -> f64 {
        let part = match self.limits.rounds {
            Some(rounds) => (f64::from(round) + done) / f64::from(rounds),
            None => self.notebook.spent.as_secs_f64() / self.limits.time.as_secs_f64().max(0.001),
        };
        // The first round may take longer than the time.
        part.min(1.0)
    }
}

#[cfg(test)]
mod tests;
