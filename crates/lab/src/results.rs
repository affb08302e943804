//! The file `results.json`: its schema, the check of what was read, and CSV for other programs.
//!
//! docs/reference/lab-results.md is the schema in words. `schema` has the types; they are plain
//! data, so measuring programs fill them in. `reading` turns text into checked [`Results`].

mod csv;
mod invalid;
mod reading;
mod schema;
#[cfg(test)]
mod tests;

pub use invalid::InvalidResults;
pub use reading::{
    MOST_FIGURE_POINTS, MOST_FIGURES, MOST_FILE_BYTES, MOST_NAME, MOST_SAMPLES, MOST_SERIES,
};
pub use schema::{
    Axis, BEFORE, Calibration, Direction, Experiment, FORMAT, Figure, FigureKind, Lane, Machine,
    Mark, Origin, Point, Results, Sample, Scale, SecondAxis, Series, Span, VERSION,
};
