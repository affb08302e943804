//! The progress of measurements, on standard error.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// A run of steps that take about the same time.
pub(crate) struct Progress {
    shown: LabProgress,
    done: usize,
    steps: usize,
}

impl Progress {
    /// Begins.
    pub(crate) fn new(steps: usize) -> Self {
        Self { shown: LabProgress::new(), done: 0, steps: steps.max(1) }
    }

    /// Names the step that begins.
    pub(crate) fn say(&mut self, what: &str) {
        self.shown.show(self.done as f64 / self.steps as f64, what);
        self.shown.round(what);
        self.done += 1;
    }

    /// A line of its own.
    pub(crate) fn line(&self, text: &str) {
        self.shown.line(text);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.shown.end();
    }
}

/// A run whose length is known before: a bar with the time that is left, on a terminal, else a line
/// now and then.
pub(crate) struct LabProgress {
    bar: ProgressBar,
    began: Instant,
    part: f64,
    last: Option<Instant>,
}

/// Steps of the bar.
const STEPS: u64 = 10_000;
/// Lines come this often at most, where there is no terminal.
const LINES: Duration = Duration::from_secs(5);

impl LabProgress {
    /// Begins.
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::new(STEPS);
        // The template has no key that is unknown.
        if let Ok(style) =
            ProgressStyle::with_template("{percent:>3} % {wide_bar} {prefix}\n{wide_msg}")
        {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        Self { bar, began: Instant::now(), part: 0.0, last: None }
    }

    /// Names what begins; `part` of all is done, 0 to 1.
    pub(crate) fn show(&mut self, part: f64, what: &str) {
        self.part = part.clamp(self.part, 1.0);
        self.bar.set_position((self.part * STEPS as f64) as u64);
        self.bar.set_prefix(self.left());
        self.bar.set_message(what.to_owned());
    }

    /// A round is over.
    pub(crate) fn round(&mut self, what: &str) {
        let is_due = self.last.is_none_or(|last| last.elapsed() >= LINES);
        if self.bar.is_hidden() && is_due {
            self.last = Some(Instant::now());
            eprintln!("{:3.0} %, {}: {what}", self.part * 100.0, self.left());
        }
    }

    /// A line of its own.
    pub(crate) fn line(&self, text: &str) {
        self.bar.suspend(|| eprintln!("{text}"));
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn left(&self) -> String {
        if self.part < 0.02 {
            return "begins".to_owned();
        }
        let passed = self.began.elapsed().as_secs_f64();
        let left = (passed / self.part - passed).ceil() as u64;
        format!("{} min {:02} s to go", left / 60, left % 60)
    }
}
