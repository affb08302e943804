//! The progress of measurements, on standard error.

use std::time::Instant;

/// How many steps are done, and how long the rest may take.
pub(crate) struct Progress {
    began: Instant,
    done: usize,
    steps: usize,
}

impl Progress {
    /// Begins.
    pub(crate) fn new(steps: usize) -> Self {
        Self { began: Instant::now(), done: 0, steps }
    }

    /// Names the step that begins.
    pub(crate) fn say(&mut self, what: &str) {
        let part = self.done as f64 / self.steps as f64;
        let seconds = self.began.elapsed().as_secs_f64();
        let left = if self.done > 10 { seconds / part - seconds } else { f64::NAN };
        let (percent, left) = (part * 100.0, left.max(0.0));
        eprintln!("{percent:3.0} %, {seconds:.0} s, about {left:.0} s to go: {what}");
        self.done += 1;
    }
}
