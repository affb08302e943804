//! Figures of lines, for tests.

use lab::{Axis, Direction, Figure, FigureKind, Point, Sample, Scale, Series};

/// Series by name: a place, and the values of its rounds.
pub(crate) type TestSeries<'a> = (&'a str, Vec<(f64, Vec<f64>)>);

/// A figure with these series, the first of which may be the base.
pub(crate) fn figure_of(
    name: &str,
    direction: Direction,
    base: &str,
    series: &[TestSeries],
) -> Figure {
    let of_point = |(x, values): &(f64, Vec<f64>)| Point {
        x: *x,
        y: 0.0,
        samples: (0..).zip(values).map(|(round, value)| Sample { round, value: *value }).collect(),
        warm_up: 0,
        discarded: 0,
        marks: Vec::new(),
    };
    let of_series = |(name, points): &TestSeries| Series {
        name: (*name).to_owned(),
        reference: false,
        points: points.iter().map(of_point).collect(),
    };
    Figure {
        name: name.to_owned(),
        title: name.to_owned(),
        axis: Axis { title: "places".to_owned(), unit: String::new(), scale: Scale::Linear },
        unit: "x".to_owned(),
        direction,
        command: "none".to_owned(),
        base: Some(base.to_owned()),
        kind: FigureKind::Lines,
        second: None,
        lanes: Vec::new(),
        series: series.iter().map(of_series).collect(),
    }
}
