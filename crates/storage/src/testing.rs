//! For this crate's tests.

use std::io::Write as _;

/// Says that a test is left out, and why. The test runner would capture what the macros print.
pub(crate) fn skip(why: &str) {
    let _ = std::io::stderr().write_all(format!("SKIP: {why}\n").as_bytes());
}
