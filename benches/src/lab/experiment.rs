//! What an experiment is to the engine: figures to fill, points to measure, and set-ups that take
//! turns at each point.

use anyhow::Result;
use lab::{Axis, Direction, Figure, FigureKind, Scale, SecondAxis};

/// A figure before anything was measured.
#[derive(Debug, Clone)]
pub(crate) struct FigurePlan {
    /// As in the results.
    pub(crate) name: String,
    /// For people.
    pub(crate) title: String,
    /// What the points are places of.
    pub(crate) axis: Axis,
    /// The unit of the values.
    pub(crate) unit: &'static str,
    /// Which values are better.
    pub(crate) direction: Direction,
    /// The series that the others are compared with.
    pub(crate) base: Option<&'static str>,
    /// Words behind `tasuki lab` that repeat it alone.
    pub(crate) words: String,
    /// Its intervals decide whether a point was measured often enough.
    pub(crate) is_judged: bool,
    /// How it is drawn.
    pub(crate) kind: FigureKind,
    /// The second axis, if that kind has one.
    pub(crate) second: Option<SecondAxis>,
}

impl FigurePlan {
    /// The figure, empty.
    pub(crate) fn figure(&self) -> Figure {
        Figure {
            name: self.name.clone(),
            title: self.title.clone(),
            axis: self.axis.clone(),
            unit: self.unit.to_owned(),
            direction: self.direction,
            command: format!("tasuki lab {}", self.words),
            base: self.base.map(str::to_owned),
            kind: self.kind,
            second: self.second.clone(),
            series: Vec::new(),
            lanes: Vec::new(),
        }
    }
}

/// An axis of bytes.
pub(crate) fn bytes_axis(title: &str) -> Axis {
    Axis { title: title.to_owned(), unit: "B".to_owned(), scale: Scale::Log }
}

/// Any other axis.
pub(crate) fn linear_axis(title: &str, unit: &str) -> Axis {
    Axis { title: title.to_owned(), unit: unit.to_owned(), scale: Scale::Linear }
}

/// One value that was measured.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MeasuredValue {
    /// The figure, by its place among those of the experiment.
    pub(crate) figure: usize,
    /// The series.
    pub(crate) series: String,
    /// The place on the figure's axis.
    pub(crate) x: f64,
    /// That on the second axis; 0 without one.
    pub(crate) y: f64,
    /// The value.
    pub(crate) value: f64,
}

/// What one measurement found.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct MeasuredValues {
    /// All values.
    pub(crate) readings: Vec<MeasuredValue>,
    /// Operations that were done to warm up and do not count, in this measurement.
    pub(crate) warm_up: u32,
}

/// An experiment.
pub(crate) trait LabExperiment {
    /// Its figures. Always the same ones.
    fn figures(&self) -> Vec<FigurePlan>;
    /// Titles of the points, in the order in which a round measures them.
    fn points(&self) -> Vec<String>;
    /// Names of the set-ups that take turns at each point.
    fn setups(&self) -> Vec<String>;
    /// Is Tasuki measured in this set-up? Then an earlier build can be, in turn with it.
    fn has_tasuki(&self, _setup: usize) -> bool {
        false
    }
    /// A round begins, the first one with 0. To warm up, set-ups are measured before it.
    ///
    /// Instances of Tasuki that outlive a measurement end here but in round 0. One instance is
    /// faster than the next by up to 5 %, for as long as it lives. If one served all rounds, that
    /// would count as a difference of set-ups or builds.
    fn begin_round(&mut self, _round: u32) {}
    /// Measures one point of one set-up once.
    ///
    /// # Errors
    /// Whatever went wrong. The engine goes on with the next measurement.
    fn measure(&mut self, point: usize, setup: usize) -> Result<MeasuredValues>;
    /// Figures that are made of the others, papers' series beside them, and sentences about both.
    fn conclude(&self, figures: &mut Vec<Figure>) -> Vec<String>;
}

#[cfg(test)]
mod tests;
