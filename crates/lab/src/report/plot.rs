//! Lines and columns as SVG, for the file beside the page and for browsers that run no script. The
//! page's script draws the same.

use std::fmt::Write as _;

use super::escape::text;
use super::frame::{COLOURS, RIGHT, closing, opening};
use super::number::{place, short};
use super::scale::AxisScale;
use super::view::{FigureView, SeriesView};
use crate::results::Scale;

/// A series beyond [`COLOURS`] has another dash and another mark as well.
const BASE_COLOUR: &str = "#333333";
const DASHES: [&str; 4] = ["", "7 4", "2 3", "9 3 2 3"];

/// Of what was not measured here.
const REFERENCE_DASH: &str = "2 5";

/// Of a histogram with few classes.
const WIDEST_CLASS: f64 = 1.2;

const LEFT: f64 = 70.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 360.0;
/// Room for a line of the legend.
const LINE: f64 = 20.0;
/// Lines of the legend beside each other, at most.
const MOST_COLUMNS: usize = 3;
/// Before a name of the legend: its line and its mark.
const SAMPLE: f64 = 30.0;
/// Room for a letter; most are narrower.
const LETTER: f64 = 7.0;
/// Room for names of series under the axis, where they are the axis.
const NAMES: f64 = 90.0;

/// The plot.
pub(super) fn svg(figure: &FigureView) -> String {
    let by_series = figure.places.len() == 1 && !figure.is_histogram();
    let class = figure.is_histogram().then(|| class_ratio(&figure.places));
    let x = if by_series {
        let last = figure.series.len().saturating_sub(1) as f64;
        AxisScale::around([-0.3, last + 0.3].into_iter(), Scale::Linear, LEFT, RIGHT)
    } else {
        // The last column ends where a further class would begin.
        let end = figure.places.last().and_then(|last| Some(last * class?));
        AxisScale::around(figure.places.iter().copied().chain(end), figure.x_scale, LEFT, RIGHT)
    };
    let points = figure.series.iter().flat_map(|series| &series.points);
    let values = points.flat_map(|point| [point.value.low, point.value.high]);
    let y = AxisScale::around(values.chain([0.0]), Scale::Linear, BOTTOM, TOP);
    let columns = legend_columns(&figure.series);
    let lines = figure.series.len().div_ceil(columns);
    let legend = BOTTOM + 60.0 + if by_series { NAMES } else { 0.0 };
    let height = legend + LINE * lines as f64;
    let mut svg = opening(figure, height);
    axes(&mut svg, figure, by_series, &x, &y);
    for (at, series) in figure.series.iter().enumerate() {
        let marks = Marks::of(series, at);
        let shift = by_series.then_some(at as f64);
        let _ = writeln!(svg, "<g>{}</g>", curve(series, &marks, (&x, &y), shift, class));
        let left = LEFT + (at % columns) as f64 * (RIGHT - LEFT) / columns as f64;
        let line = legend + LINE * (at / columns) as f64;
        let name = text(&series.name);
        let _ = writeln!(
            svg,
            "<g>{}{}<text x=\"{}\" y=\"{}\">{name}</text></g>",
            marks.line(&format!("M{left} {line}h24")),
            marks.mark(left + 12.0, line, false),
            left + SAMPLE,
            line + 4.0,
        );
    }
    svg + &closing(figure, height)
}

/// As many as have room for the longest name.
fn legend_columns(series: &[SeriesView]) -> usize {
    let letters = series.iter().map(|it| it.name.chars().count()).max().unwrap_or(0);
    let room = LETTER.mul_add(letters as f64, SAMPLE);
    (((RIGHT - LEFT) / room) as usize).clamp(1, MOST_COLUMNS)
}

fn axes(svg: &mut String, figure: &FigureView, by_series: bool, x: &AxisScale, y: &AxisScale) {
    for value in y.ticks(6) {
        let (at, value) = (y.at(value), short(value));
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {at:.1}H{RIGHT}\" stroke=\"#dddddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>",
            LEFT - 6.0,
            at + 4.0,
        );
    }
    let _ = writeln!(
        svg,
        "<path d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\" fill=\"none\" stroke=\"#333333\"/>"
    );
    if by_series {
        for (at, series) in figure.series.iter().enumerate() {
            let (left, top) = (x.at(at as f64), BOTTOM + 14.0);
            let _ = writeln!(
                svg,
                "<text transform=\"translate({left:.1} {top}) rotate(-35)\" \
                 text-anchor=\"end\">{}</text>",
                text(&series.name)
            );
        }
        return;
    }
    let few = figure.places.len() <= 12;
    let ticks = if few { figure.places.clone() } else { x.ticks(8) };
    for value in ticks {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            x.at(value),
            BOTTOM + 16.0,
            text(&place(value, &figure.x_unit)),
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
        f64::midpoint(LEFT, RIGHT),
        BOTTOM + 36.0,
        text(&figure.x_title),
    );
}

/// The width of a histogram's classes: the least ratio of a place to the one before.
fn class_ratio(places: &[f64]) -> f64 {
    places.windows(2).map(|pair| pair[1] / pair[0]).fold(WIDEST_CLASS, f64::min)
}

/// The line through the medians, their intervals, and a mark on each. With a `class` each point is
/// a column as wide as that.
fn curve(
    series: &SeriesView,
    marks: &Marks,
    (x, y): (&AxisScale, &AxisScale),
    shift: Option<f64>,
    class: Option<f64>,
) -> String {
    let (mut line, mut rest) = (String::new(), String::new());
    for point in &series.points {
        let (across, middle) = (x.at(shift.unwrap_or(point.x)), y.at(point.value.middle));
        if let Some(ratio) = class {
            let (end, ground) = (x.at(point.x * ratio), y.at(0.0));
            let _ = write!(line, "M{across:.1} {ground:.1}V{middle:.1}H{end:.1}V{ground:.1}");
            continue;
        }
        let _ = write!(line, "{}{across:.1} {middle:.1}", if line.is_empty() { 'M' } else { 'L' });
        let (low, high) = (y.at(point.value.low), y.at(point.value.high));
        let bar = format!("M{across:.1} {low:.1}V{high:.1}");
        let colour = marks.colour;
        let _ = write!(rest, "<path d=\"{bar}\" stroke=\"{colour}\" stroke-opacity=\"0.5\"/>");
        rest.push_str(&marks.mark(across, middle, point.noisy));
    }
    marks.line(&line) + &rest
}

/// How a series looks.
struct Marks {
    colour: &'static str,
    dash: &'static str,
    shape: usize,
}

impl Marks {
    fn of(series: &SeriesView, at: usize) -> Self {
        if series.is_base {
            return Self { colour: BASE_COLOUR, dash: "", shape: 0 };
        }
        let dash = match series.is_reference {
            true => REFERENCE_DASH,
            false => DASHES[at / COLOURS.len() % DASHES.len()],
        };
        Self { colour: COLOURS[at % COLOURS.len()], dash, shape: at % 4 }
    }

    fn line(&self, path: &str) -> String {
        let (colour, dash) = (self.colour, self.dash);
        let dash =
            if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dash}\"") };
        format!("<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dash}/>")
    }

    /// A noisy point's mark is hollow: it has the colour of the paper inside.
    fn mark(&self, x: f64, y: f64, noisy: bool) -> String {
        let shape = match self.shape {
            0 => "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0",
            1 => "m-3.5 -3.5h7v7h-7z",
            2 => "m0 -5l4.6 8h-9.2z",
            _ => "m0 -5l5 5l-5 5l-5 -5z",
        };
        let colour = self.colour;
        let paint = match noisy {
            true => format!("fill=\"#ffffff\" stroke=\"{colour}\" stroke-width=\"1.5\""),
            false => format!("fill=\"{colour}\""),
        };
        format!("<path d=\"M{x:.1} {y:.1}{shape}\" {paint}/>")
    }
}
