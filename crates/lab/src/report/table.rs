//! The table under a plot: a row for each place, a column for each series.

use std::fmt::Write as _;

use super::escape::text;
use super::number::{place, short};
use super::timeline;
use super::view::{FigureView, PointView, SampleCounts};
use crate::results::FigureKind;

/// What is counted as an outlier, and that it counts.
const OUTLIERS: &str = "An outlier is a sample beyond 1.5 interquartile ranges from the quartiles. \
                        It stays in the median and the interval.";

/// The table as HTML.
pub(super) fn html(figure: &FigureView) -> String {
    if figure.kind == FigureKind::Timeline {
        return timeline::table(figure);
    }
    let mut html = "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>".to_owned();
    let _ = write!(html, "<th scope=\"col\">{}</th>", text(&figure.x_title));
    if let Some(second) = &figure.second {
        let _ = write!(html, "<th scope=\"col\">{}</th>", text(&second.title));
    }
    for series in &figure.series {
        let _ = write!(html, "<th scope=\"col\">{}</th>", text(&series.name));
    }
    html.push_str("</tr></thead><tbody>\n");
    for (x, y) in rows(figure) {
        let head = text(&place(x, &figure.x_unit));
        let _ = write!(html, "<tr><th scope=\"row\">{head}</th>");
        if let Some(second) = figure.second_place(y) {
            let _ = write!(html, "<th scope=\"row\">{}</th>", text(&second));
        }
        for series in &figure.series {
            let point = series.points.iter().find(|point| (point.x, point.y) == (x, y));
            let cell = |point| cell(point, series.is_reference);
            html.push_str(&point.map_or("<td></td>".to_owned(), cell));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
    if figure.has_outliers() {
        let _ = writeln!(html, "<p class=\"about\">{OUTLIERS}</p>");
    }
    html
}

/// The places that have a point, in order.
fn rows(figure: &FigureView) -> Vec<(f64, f64)> {
    let points = figure.series.iter().flat_map(|series| &series.points);
    let mut rows: Vec<(f64, f64)> = points.map(|point| (point.x, point.y)).collect();
    rows.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    rows.dedup();
    rows
}

fn cell(point: &PointView, is_reference: bool) -> String {
    let it = point.value;
    let interval = format!("{} to {}", short(it.low), short(it.high));
    let ratio = point.ratio.map_or(String::new(), |ratio| {
        format!("<span class=\"ratio\">{}×</span>", short(ratio.middle))
    });
    let marks = match (point.noisy, point.partial) {
        (true, _) => "<abbr title=\"noisy: wide interval\">~</abbr>",
        (false, true) => "<abbr title=\"rounds are missing\">!</abbr>",
        (false, false) => "",
    };
    let middle = short(it.middle);
    // Nothing is known of the samples of a paper.
    let counts = if is_reference { String::new() } else { counts(&point.counts) };
    format!("<td>{middle}{marks} {ratio}<span class=\"interval\">{interval}</span>{counts}</td>")
}

/// How many samples count, how many of them are outliers, and how many were left out. A line may
/// break between two numbers, not within one.
fn counts(counts: &SampleCounts) -> String {
    let samples = if counts.samples == 1 { "sample" } else { "samples" };
    let outliers = if counts.outliers == 1 { "outlier" } else { "outliers" };
    let mut said = format!("{}\u{a0}{samples}", counts.samples);
    if counts.outliers > 0 {
        let _ = write!(said, ", {}\u{a0}{outliers}", counts.outliers);
    }
    let mut begin = "; left\u{a0}out:\u{a0}";
    let left_out = [(counts.discarded, "discarded"), (counts.warm_up, "to\u{a0}warm\u{a0}up")];
    for (number, what) in left_out.into_iter().filter(|(number, _)| *number > 0) {
        let _ = write!(said, "{begin}{number}\u{a0}{what}");
        begin = ", ";
    }
    format!("<span class=\"interval counts\">{said}</span>")
}
