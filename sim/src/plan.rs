//! The plan of an application, as a scenario draws it.

use core::time::Duration;

/// How an application reads.
#[derive(Debug, Clone, Copy)]
pub enum ReadPlan {
    /// All at once.
    Greedy,
    /// At most so many bytes each time.
    Slow(usize, Duration),
    /// All, with random pauses up to this.
    Pauses(Duration),
}

/// How an application ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Termination {
    /// Shuts its side after the last byte, reads to the end, closes.
    Orderly,
    /// Closes after the last byte, whatever the other side does.
    Hasty,
    /// Aborts after this many bytes sent and received.
    Abort(u64),
}

/// What an application does.
#[derive(Debug, Clone)]
pub struct AppPlan {
    /// Length of its stream, bytes.
    pub bytes: u64,
    /// Longest write.
    pub write_max: u64,
    /// Most bytes queued and not acknowledged.
    pub send_limit: u64,
    /// Probability that a write continues the one before it in memory.
    pub joins: f64,
    /// Longest pause between writes.
    pub think: Duration,
    /// How it reads.
    pub reading: ReadPlan,
    /// How it ends.
    pub termination: Termination,
    /// Probability that it changes NODELAY, CORK and the receive buffer before a write.
    pub option_changes: f64,
    /// Probability that a record ends with a write, and that its last byte is urgent.
    pub marks: (f64, f64),
}
