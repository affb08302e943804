//! Figures that are made of others: relations to one place or to the base, with papers' figures
//! beside them.

use std::collections::BTreeMap;

use lab::{Direction, Figure, Point, Sample, Series};

/// A paper's figures on two axes, as a series: places and values, in order.
pub(crate) fn paper_series(name: &str, cells: &[(f64, f64, f64)]) -> Series {
    let point = |(x, y, value): &(f64, f64, f64)| Point {
        x: *x,
        y: *y,
        samples: vec![Sample { round: 0, value: *value }],
        warm_up: 0,
        discarded: 0,
        marks: Vec::new(),
    };
    let points = cells.iter().map(point).collect();
    Series { name: name.to_owned(), reference: true, points }
}

/// A paper's figures: places and values.
pub(crate) struct Reference {
    /// Its series' name.
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

impl Reference {
    /// Beside what was measured.
    pub(crate) fn series(&self) -> Series {
        let cells: Vec<_> = self.points.iter().map(|(x, value)| (*x, 0.0, *value)).collect();
        paper_series(&self.name, &cells)
    }

    /// The same value at all places.
    pub(crate) fn flat(name: &str, places: &[f64], value: f64) -> Self {
        let ends = [places.first(), places.last()].into_iter().flatten();
        let mut points: Vec<(f64, f64)> = ends.map(|x| (*x, value)).collect();
        points.dedup();
        Self { name: name.to_owned(), points }
    }

    /// In relation to its own value at a place; `None` if it has none.
    fn relative(&self, anchor: f64) -> Option<Self> {
        let (_, unit) = self.points.iter().find(|(x, _)| *x == anchor)?;
        let points = self.points.iter().map(|(x, value)| (*x, value / unit)).collect();
        Some(Self { name: self.name.clone(), points })
    }
}

/// The figure in relation to its own values at one place, within rounds. The papers' are treated
/// alike. `None` with a single place.
pub(crate) fn relative(
    figure: &Figure,
    anchor: Option<f64>,
    papers: &[Reference],
) -> Option<Figure> {
    let places = figure.places();
    let first = *places.first()?;
    let anchor = anchor.filter(|anchor| places.contains(anchor)).unwrap_or(first);
    if places.len() < 2 {
        return None;
    }
    let mut series: Vec<Series> = figure
        .series
        .iter()
        .filter_map(|series| {
            let unit = series.at(anchor, 0.0)?;
            let points = series.points.iter().filter_map(|point| ratios(point, unit));
            let points: Vec<Point> = points.collect();
            let name = series.name.clone();
            (!points.is_empty()).then_some(Series { name, reference: false, points })
        })
        .collect();
    series.extend(papers.iter().filter_map(|paper| Some(paper.relative(anchor)?.series())));
    let at = lab::report::place(anchor, &figure.axis.unit);
    Some(Figure {
        name: format!("{}-relative", figure.name),
        title: format!("{}, in relation to that at {at}", figure.title),
        unit: format!("times that at {at}"),
        base: None,
        series,
        ..figure.clone()
    })
}

/// The figure's values in percent of its base, within rounds; `None` without a base.
pub(crate) fn share_of_base(
    figure: &Figure,
    (name, title): (&str, &str),
    direction: Direction,
    papers: &[Reference],
) -> Option<Figure> {
    let base = figure.base_series()?;
    let others =
        figure.series.iter().filter(|series| series.name != base.name && !series.reference);
    let mut series: Vec<Series> = others
        .map(|series| {
            let points = series.points.iter().filter_map(|point| {
                let mut ratios = ratios(point, base.beside(point)?)?;
                ratios.samples.iter_mut().for_each(|sample| sample.value *= 100.0);
                Some(ratios)
            });
            Series { name: series.name.clone(), reference: false, points: points.collect() }
        })
        .filter(|series| !series.points.is_empty())
        .collect();
    if series.is_empty() {
        return None;
    }
    series.extend(papers.iter().map(Reference::series));
    let unit = format!("% of {}", base.name);
    let (name, title) = (name.to_owned(), title.to_owned());
    Some(Figure { name, title, unit, direction, base: None, series, ..figure.clone() })
}

/// Ratios of the rounds that both points have.
pub(crate) fn ratios(point: &Point, unit: &Point) -> Option<Point> {
    let ratios: BTreeMap<u32, f64> = point.ratios_to(unit);
    let samples: Vec<Sample> =
        ratios.into_iter().map(|(round, value)| Sample { round, value }).collect();
    (!samples.is_empty()).then(|| Point { samples, ..point.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::figure_of::figure_of;

    fn figure() -> Figure {
        let by = |by: f64| vec![(0.0, vec![by, 2.0 * by]), (2.0, vec![3.0 * by, 6.0 * by])];
        figure_of("mean", Direction::Lower, "Linux", &[("Linux", by(10.0)), ("split", by(20.0))])
    }

    #[test]
    fn relations_are_within_rounds_and_papers_are_treated_alike() {
        let paper = Reference { name: "paper".to_owned(), points: vec![(0.0, 3.6), (2.0, 7.2)] };
        let relative = relative(&figure(), None, &[paper]).unwrap();
        assert_eq!((&relative.name[..], &relative.unit[..]), ("mean-relative", "times that at 0"));
        for series in &relative.series {
            let last = series.points.last().unwrap();
            let expected = if series.reference { 2.0 } else { 3.0 };
            assert!(last.samples.iter().all(|it| it.value == expected), "{series:?}");
        }
        assert!(relative.series[2].reference);
    }

    #[test]
    fn shares_are_percent_of_the_base() {
        let flat = Reference::flat("paper", &[0.0, 2.0], 10.3);
        let share =
            share_of_base(&figure(), ("share", "Share"), Direction::Higher, &[flat]).unwrap();
        assert_eq!(share.unit, "% of Linux");
        let values: Vec<f64> = share.series[0].points.iter().flat_map(Point::values).collect();
        assert_eq!((&share.series[0].name[..], values), ("split", vec![200.0; 4]));
        assert_eq!(share.series[1].points.len(), 2);
    }
}
