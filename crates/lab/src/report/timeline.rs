//! A timeline as SVG, and its table. The page's script (timeline.js) draws the same.
//!
//! Panels are below each other and have one axis of time. A lane is a row of its panel. A span that
//! takes no time is a line as high as the lane, such as a packet.

use std::fmt::Write as _;

use super::escape::text;
use super::number::short;
use super::scale::AxisScale;
use super::view::FigureView;
use crate::results::{Lane, Scale};

/// As in plot.rs and page.css.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#00795a", "#a8487f", "#7a6200", "#2b8fcb"];
const WIDTH: f64 = 760.0;
const LEFT: f64 = 20.0;
const RIGHT: f64 = 740.0;
/// Heights: above the first panel, of a panel's name, of a lane with its name, of its spans.
const TOP: f64 = 34.0;
const HEAD: f64 = 24.0;
const ROW: f64 = 34.0;
const BAND: f64 = 16.0;
/// The thinnest line.
const THIN: f64 = 1.2;

/// Panels in order, each with its lanes.
fn panels(figure: &FigureView) -> Vec<(&str, Vec<&Lane>)> {
    let mut panels: Vec<(&str, Vec<&Lane>)> = Vec::new();
    for lane in &figure.lanes {
        match panels.iter_mut().find(|(name, _)| *name == lane.panel) {
            Some((_, lanes)) => lanes.push(lane),
            None => panels.push((&lane.panel, vec![lane])),
        }
    }
    panels
}

/// The picture.
pub(super) fn svg(figure: &FigureView) -> String {
    let panels = panels(figure);
    let rows: usize = panels.iter().map(|(_, lanes)| lanes.len()).sum();
    let bottom = TOP + HEAD * panels.len() as f64 + ROW * rows as f64;
    let ends = figure.lanes.iter().flat_map(|lane| &lane.spans).map(|span| span.until);
    let x = AxisScale::around(ends.chain([0.0]), Scale::Linear, LEFT, RIGHT);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\" \
         font-family=\"sans-serif\" font-size=\"12\" role=\"img\" aria-label=\"{title}\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"15\">{title}</text>\n",
        bottom + 46.0,
        title = text(&figure.title),
    );
    for value in x.ticks(8) {
        let at = x.at(value);
        let _ = writeln!(
            svg,
            "<path d=\"M{at:.1} {TOP}V{bottom}\" stroke=\"#dddddd\"/>\
             <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 16.0,
            short(value),
        );
    }
    let mut top = TOP;
    for (panel, lanes) in panels {
        let name = text(panel);
        let _ = writeln!(
            svg,
            "<text x=\"{LEFT}\" y=\"{}\" font-weight=\"bold\">{name}</text>",
            top + 17.0
        );
        top += HEAD;
        for (at, lane) in lanes.into_iter().enumerate() {
            let _ = writeln!(svg, "<g>{}</g>", row(lane, COLOURS[at % COLOURS.len()], top, &x));
            top += ROW;
        }
    }
    let _ = writeln!(
        svg,
        "<path d=\"M{LEFT} {bottom}H{RIGHT}\" stroke=\"#333333\"/>\
         <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}, {}</text>\n</svg>",
        f64::midpoint(LEFT, RIGHT),
        bottom + 36.0,
        text(&figure.x_title),
        text(&figure.x_unit),
    );
    svg
}

/// A lane: its name, and all of its spans as one path.
fn row(lane: &Lane, colour: &str, top: f64, x: &AxisScale) -> String {
    let mut path = String::new();
    for span in &lane.spans {
        let (from, until) = (x.at(span.from), x.at(span.until));
        let wide = (until - from).max(THIN);
        let _ = write!(path, "M{from:.1} {:.1}h{wide:.1}v{BAND}h-{wide:.1}z", top + 14.0);
    }
    let ground = top + 14.0 + BAND;
    format!(
        "<text x=\"{LEFT}\" y=\"{:.1}\" font-size=\"11\">{}</text>\
         <path d=\"M{LEFT} {ground:.1}H{RIGHT}\" stroke=\"#bbbbbb\"/>\
         <path d=\"{path}\" fill=\"{colour}\"/>",
        top + 10.0,
        text(&lane.name),
    )
}

/// Lanes in numbers, and all spans behind them.
pub(super) fn table(figure: &FigureView) -> String {
    let unit = text(&figure.x_unit);
    let mut html = format!(
        "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">panel</th>\
         <th scope=\"col\">lane</th><th scope=\"col\">times</th><th scope=\"col\">bytes</th>\
         <th scope=\"col\">first, {unit}</th><th scope=\"col\">last end, {unit}</th>\
         <th scope=\"col\">work, {unit}</th></tr></thead><tbody>\n"
    );
    for lane in &figure.lanes {
        let bytes: u64 = lane.spans.iter().map(|span| span.bytes).sum();
        let work: f64 = lane.spans.iter().map(|span| span.until - span.from).sum();
        let end = lane.spans.iter().map(|span| span.until).reduce(f64::max);
        let first = lane.spans.first().map(|span| span.from);
        let number = |value: Option<f64>| value.map_or(String::new(), short);
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{bytes}</td><td>{}</td>\
             <td>{}</td><td>{}</td></tr>",
            text(&lane.panel),
            text(&lane.name),
            lane.spans.len(),
            number(first),
            number(end),
            short(work),
        );
    }
    html.push_str("</tbody></table></div>");
    html + &all_spans(figure, &unit)
}

/// Every span, for those who cannot see the picture.
fn all_spans(figure: &FigureView, unit: &str) -> String {
    let mut html = format!(
        "<details><summary>Everything that happened</summary><div class=\"scroll\" tabindex=\"0\">\
         <table><thead><tr><th scope=\"col\">panel</th><th scope=\"col\">lane</th>\
         <th scope=\"col\">from, {unit}</th><th scope=\"col\">until, {unit}</th>\
         <th scope=\"col\">bytes</th></tr></thead><tbody>\n"
    );
    for lane in &figure.lanes {
        for span in &lane.spans {
            let _ = writeln!(
                html,
                "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                text(&lane.panel),
                text(&lane.name),
                short(span.from),
                short(span.until),
                span.bytes,
            );
        }
    }
    html + "</tbody></table></div></details>"
}
