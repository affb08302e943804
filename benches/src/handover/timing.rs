//! Timing of a group of hand-overs.

use std::time::Instant;

/// Connections.
pub(super) const WAYS: usize = 16;

/// The time of a call, in nanoseconds, and its result.
pub(super) fn timed<T>(what: impl FnOnce() -> T) -> (f64, T) {
    let began = Instant::now();
    let gave = what();
    (began.elapsed().as_secs_f64() * 1e9, gave)
}
