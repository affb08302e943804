//! A figure as CSV (RFC 4180): one line a sample.

use std::fmt::Write as _;

use super::schema::{Figure, FigureKind, Point};

impl Figure {
    /// All samples, with a header line. Numbers are written so that reading them gives the same.
    #[must_use]
    pub fn csv(&self) -> String {
        if self.kind == FigureKind::Timeline {
            return self.csv_of_spans();
        }
        let mut text = "figure,series,x,x unit,y,round,value,unit\r\n".to_owned();
        let (figure, unit) = (cell(&self.name), cell(&self.unit));
        let x_unit = cell(&self.axis.unit);
        for series in &self.series {
            let name = cell(&series.name);
            for point in &series.points {
                let y = cell(&self.second_place(point));
                for sample in &point.samples {
                    let (x, round, value) = (point.x, sample.round, sample.value);
                    let place = format!("{x},{x_unit},{y}");
                    let _ = write!(text, "{figure},{name},{place},{round},{value},{unit}\r\n");
                }
            }
        }
        text
    }

    /// The place on the second axis: the name of a part, or the number; empty without such an axis.
    fn second_place(&self, point: &Point) -> String {
        let Some(second) = &self.second else { return String::new() };
        second.names.get(point.y as usize).cloned().unwrap_or_else(|| point.y.to_string())
    }

    /// A timeline: one line a span.
    fn csv_of_spans(&self) -> String {
        let mut text = "figure,panel,lane,from,until,unit,bytes\r\n".to_owned();
        let (figure, unit) = (cell(&self.name), cell(&self.axis.unit));
        for lane in &self.lanes {
            let (panel, name) = (cell(&lane.panel), cell(&lane.name));
            for span in &lane.spans {
                let (from, until, bytes) = (span.from, span.until, span.bytes);
                let _ = write!(text, "{figure},{panel},{name},{from},{until},{unit},{bytes}\r\n");
            }
        }
        text
    }
}

/// Quoted where it needs to be. A cell that a spreadsheet would take for a formula gets a space.
fn cell(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@']);
    let text = if is_formula { format!(" {text}") } else { text.to_owned() };
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}
