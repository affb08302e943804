//! Stacked bars as SVG: for each place a group of bars, one for each series. `stacks.js` draws the
//! same.
//!
//! A part is known by its number, which is printed in it where there is room, so nobody depends on
//! its colour. Colours repeat, paler each time.

use std::fmt::Write as _;

use super::escape::text;
use super::frame::{COLOURS, RIGHT, WIDTH, closing, opening};
use super::number::{place, short};
use super::scale::AxisScale;
use super::view::{FigureView, SeriesView};
use crate::results::Scale;

const LEFT: f64 = 190.0;
const TOP: f64 = 44.0;
const ROW: f64 = 18.0;
/// Above the bars of a place: its name.
const HEAD: f64 = 22.0;
/// Room for a line of the legend.
const LINE: f64 = 18.0;
const COLUMNS: usize = 2;
/// A number has room from here on.
const ROOM: f64 = 12.0;
/// And with the mark of a noisy point from here on.
const MARK_ROOM: f64 = 24.0;
/// How much of their colour the parts have, from the first six on.
const STRENGTH: [f64; 4] = [1.0, 0.6, 0.35, 0.2];

/// The sum of a bar's parts.
fn total(series: &SeriesView, x: f64) -> f64 {
    series.points.iter().filter(|point| point.x == x).map(|point| point.value.middle).sum()
}

/// The picture.
pub(super) fn svg(figure: &FigureView) -> String {
    let names: &[String] = figure.second.as_ref().map_or(&[], |second| &second.names);
    let has_bar = |series: &&SeriesView, x: f64| series.points.iter().any(|it| it.x == x);
    let bars = |x: f64| figure.series.iter().filter(move |series| has_bar(series, x));
    let height: f64 =
        figure.places.iter().map(|x| ROW.mul_add(bars(*x).count() as f64, HEAD)).sum();
    let lines = names.len().div_ceil(COLUMNS) as f64;
    let whole = LINE.mul_add(lines, TOP + height + 50.0);
    let mut svg = opening(figure, whole);
    let totals = figure.places.iter().flat_map(|x| bars(*x).map(|series| total(series, *x)));
    let scale = AxisScale::around(totals.chain([0.0]), Scale::Linear, LEFT, RIGHT);
    axis(&mut svg, &scale, TOP + height);
    let mut top = TOP;
    for x in &figure.places {
        let head = text(&place(*x, &figure.x_unit));
        let _ =
            writeln!(svg, "<text x=\"10\" y=\"{}\" font-weight=\"bold\">{head}</text>", top + 14.0);
        top += HEAD;
        for series in bars(*x) {
            bar(&mut svg, series, *x, &scale, top);
            top += ROW;
        }
    }
    legend(&mut svg, names, top + 44.0);
    svg + &closing(figure, whole)
}

fn axis(svg: &mut String, scale: &AxisScale, bottom: f64) {
    for value in scale.ticks(6).into_iter().filter(|value| *value >= 0.0) {
        let at = scale.at(value);
        let _ = writeln!(
            svg,
            "<path d=\"M{at:.1} {TOP}V{bottom}\" stroke=\"#dddddd\"/><text x=\"{at:.1}\" \
             y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 16.0,
            short(value)
        );
    }
}

fn bar(svg: &mut String, series: &SeriesView, x: f64, scale: &AxisScale, top: f64) {
    let (left, middle) = (LEFT - 6.0, top + 12.5);
    let points = || series.points.iter().filter(|point| point.x == x);
    let noisy = if points().any(|point| point.noisy) { " ~" } else { "" };
    let name = text(&series.name) + noisy;
    let _ = write!(svg, "<g><text x=\"{left}\" y=\"{middle}\" text-anchor=\"end\">{name}</text>");
    let mut sum = 0.0;
    for point in points() {
        let (from, to) = (scale.at(sum), scale.at(sum + point.value.middle));
        sum += point.value.middle;
        let part = point.y as usize;
        let high = ROW - 3.0;
        let width = (to - from).max(0.0);
        let _ = write!(
            svg,
            "<rect x=\"{from:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{high}\" {}/>",
            paint(part)
        );
        if width > ROOM {
            let at = f64::midpoint(from, to);
            let ink = if is_strong(part) { "#ffffff" } else { "#000000" };
            let _ = write!(
                svg,
                "<text x=\"{at:.1}\" y=\"{middle}\" text-anchor=\"middle\" font-size=\"10\" \
                 fill=\"{ink}\">{}{}</text>",
                part + 1,
                if point.noisy && width > MARK_ROOM { "~" } else { "" }
            );
        }
    }
    let _ = writeln!(svg, "</g>");
}

/// Is its colour dark?
fn is_strong(part: usize) -> bool {
    part < COLOURS.len()
}

fn paint(part: usize) -> String {
    let strength = STRENGTH[(part / COLOURS.len()).min(STRENGTH.len() - 1)];
    let colour = COLOURS[part % COLOURS.len()];
    format!("fill=\"{colour}\" fill-opacity=\"{strength}\" stroke=\"#ffffff\" stroke-width=\"0.5\"")
}

fn legend(svg: &mut String, names: &[String], top: f64) {
    for (part, name) in names.iter().enumerate() {
        let left = 10.0 + (part % COLUMNS) as f64 * (WIDTH - 20.0) / COLUMNS as f64;
        let line = LINE.mul_add((part / COLUMNS) as f64, top);
        let _ = writeln!(
            svg,
            "<g><rect x=\"{left}\" y=\"{}\" width=\"20\" height=\"12\" {}/><text x=\"{}\" \
             y=\"{line}\">{} {}</text></g>",
            line - 10.0,
            paint(part),
            left + 26.0,
            part + 1,
            text(name)
        );
    }
}
