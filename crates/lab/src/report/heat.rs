//! Heat maps as SVG: a map for each series, one under the other. `heat.js` draws the same.
//!
//! Colours are those of cividis, which people with any colour vision see as going from dark to
//! light. Equal steps of colour are equal ratios of values. All maps have one scale, and the value
//! is printed in each cell.

use std::fmt::Write as _;

use super::escape::text;
use super::frame::{RIGHT, closing, opening};
use super::number::{place, short};
use super::view::{FigureView, SeriesView};

/// Cividis (Nunez, Anderton, Renslow 2018) at equal distances; `heat.js` has the same.
const STOPS: [[f64; 3]; 6] = [
    [0.0, 34.0, 78.0],
    [62.0, 76.0, 110.0],
    [110.0, 113.0, 120.0],
    [155.0, 148.0, 118.0],
    [205.0, 189.0, 98.0],
    [254.0, 232.0, 56.0],
];
/// From here on the colours are light.
const LIGHT: f64 = 0.5;

const LEFT: f64 = 90.0;
const TOP: f64 = 50.0;
const ROW: f64 = 26.0;
/// Above and below the cells of a map: its name, places and the title of the axis.
const ROOM: f64 = 78.0;

/// The colour of a part of the scale, 0 to 1.
fn colour(part: f64) -> String {
    let at = part.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let below = (at as usize).min(STOPS.len() - 2);
    let [from, to] = [STOPS[below], STOPS[below + 1]];
    let mix = |which: usize| from[which] + (to[which] - from[which]) * (at - below as f64);
    format!("#{:02x}{:02x}{:02x}", mix(0) as u8, mix(1) as u8, mix(2) as u8)
}

/// From the least to the greatest value of all maps.
struct HeatScale {
    least: f64,
    most: f64,
}

impl HeatScale {
    fn of(figure: &FigureView) -> Self {
        let points = figure.series.iter().flat_map(|series| &series.points);
        let values = points.map(|point| point.value.middle);
        let (least, most) =
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), it| (a.min(it), b.max(it)));
        Self { least, most }
    }

    /// Where a value is, 0 to 1.
    fn part(&self, value: f64) -> f64 {
        let own = |value: f64| if self.least > 0.0 { value.ln() } else { value };
        let width = own(self.most) - own(self.least);
        if width > 0.0 { (own(value) - own(self.least)) / width } else { 1.0 }
    }
}

/// The picture.
pub(super) fn svg(figure: &FigureView) -> String {
    let maps = figure.series.iter().filter(|series| !series.points.is_empty());
    let height = ROW.mul_add(figure.second_places.len() as f64, ROOM);
    let whole = TOP + height * maps.clone().count() as f64;
    let mut svg = opening(figure, whole);
    let scale = HeatScale::of(figure);
    for (at, series) in maps.enumerate() {
        map(&mut svg, figure, series, &scale, TOP + height * at as f64);
    }
    svg + &closing(figure, whole)
}

fn map(svg: &mut String, figure: &FigureView, series: &SeriesView, scale: &HeatScale, top: f64) {
    let name = text(&series.name);
    let _ = writeln!(svg, "<g><text x=\"{LEFT}\" y=\"{top}\" font-weight=\"bold\">{name}</text>");
    let (first, bottom) = (top + 10.0, ROW.mul_add(figure.second_places.len() as f64, top + 10.0));
    for (row, y) in figure.second_places.iter().enumerate() {
        let middle = ROW.mul_add(row as f64 + 0.5, first) + 4.0;
        let label = text(&figure.second_place(*y).unwrap_or_default());
        let left = LEFT - 6.0;
        let _ = writeln!(
            svg,
            "<text x=\"{left}\" y=\"{middle:.1}\" text-anchor=\"end\">{label}</text>"
        );
    }
    let width = (RIGHT - LEFT) / figure.places.len().max(1) as f64;
    for (column, x) in figure.places.iter().enumerate() {
        let (middle, label) = (width.mul_add(column as f64 + 0.5, LEFT), place(*x, &figure.x_unit));
        let label = text(&label);
        let under = bottom + 16.0;
        let _ = writeln!(
            svg,
            "<text x=\"{middle:.1}\" y=\"{under}\" text-anchor=\"middle\">{label}</text>"
        );
    }
    for point in &series.points {
        let of = |all: &[f64], value: f64| all.iter().position(|it| *it == value).unwrap_or(0);
        let column = of(&figure.places, point.x) as f64;
        let row = of(&figure.second_places, point.y) as f64;
        let (left, above) = (width.mul_add(column, LEFT), ROW.mul_add(row, first));
        let part = scale.part(point.value.middle);
        let ink = if part < LIGHT { "#ffffff" } else { "#000000" };
        let _ = writeln!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{above:.1}\" width=\"{:.1}\" height=\"{}\" \
             fill=\"{}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" \
             fill=\"{ink}\">{}{}</text>",
            width - 1.0,
            ROW - 1.0,
            colour(part),
            left + width / 2.0,
            above + ROW / 2.0 + 4.0,
            short(point.value.middle),
            if point.noisy { "~" } else { "" },
        );
    }
    let second = figure.second.as_ref().map_or("", |second| &second.title);
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{} (down: {})</text></g>",
        f64::midpoint(LEFT, RIGHT),
        bottom + 34.0,
        text(&figure.x_title),
        text(second),
    );
}
