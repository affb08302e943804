//! Measured values beside what is expected of them.
//!
//! Times, rates and sizes of memory differ between machines, and on a busy machine from run to run.
//! So no test fails by them. A test that measures prints a row for each value, and `make test-lab`
//! shows all rows as a table to a reader.

use std::fmt::Display;
use std::ops::{Bound, RangeBounds};

/// Prints a row: `what` was measured as `seen`, and `wanted` is expected.
#[expect(clippy::needless_pass_by_value, reason = "ranges are written where they are passed")]
pub fn judge<T: PartialOrd + Display>(what: &str, seen: T, wanted: impl RangeBounds<T>) {
    let verdict = if wanted.contains(&seen) { "as expected" } else { "NOT AS EXPECTED" };
    let least = bound("at least", "more than", wanted.start_bound());
    let most = bound("at most", "less than", wanted.end_bound());
    let wanted = least.into_iter().chain(most).collect::<Vec<_>>().join(", ");
    println!("JUDGED: {what} | {seen:.2} | {wanted} | {verdict}");
}

fn bound<T: Display>(with: &str, without: &str, bound: Bound<&T>) -> Option<String> {
    match bound {
        Bound::Included(value) => Some(format!("{with} {value}")),
        Bound::Excluded(value) => Some(format!("{without} {value}")),
        Bound::Unbounded => None,
    }
}
