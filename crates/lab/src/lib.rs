//! The lab: what is done with measurements after they were taken. No I/O, no clock, no thread.
//!
//! Measuring programs (`tasuki-bench`) collect samples into [`Results`], which is the file
//! `results.json` that docs/reference/lab-results.md describes. A file that was read is an
//! allegation: [`Results::parse`] checks it once and names the field that is wrong. All that comes
//! after relies on the check.
//!
//! * [`diff::compare`] says what changed between two files. It takes ratios within rounds where a
//!   figure has a base, and accounts for the number of points that it looks at.
//! * [`report::page`] makes one HTML page that needs nothing else; [`report::plot_svg`] makes one
//!   plot as a file of its own. [`Figure::csv`] is for other programs.
//! * [`plan`] is what can be measured, for how long, and the words of the command line for it.
//! * [`statistics`] has the medians and intervals of both, and the rule by which a measuring
//!   program ends.
//!
//! Random numbers have fixed seeds: the same files give the same output to the last digit.
//!
//! ```text layers
//! report: one page out of a file
//! diff: what changed between two files
//! plan: what can be measured
//! results: the file
//! statistics: medians, intervals, tests, when to stop
//! ```

#![forbid(unsafe_code)]

pub mod diff;
pub mod plan;
pub mod report;
pub mod results;
pub mod statistics;

pub use results::{
    Axis, Calibration, Direction, Experiment, Figure, FigureKind, InvalidResults, Lane,
    MOST_FILE_BYTES, Machine, Mark, Origin, Point, Results, Sample, Scale, SecondAxis, Series,
    Span,
};
