//! A figure as CSV (RFC 4180): one line a sample. Behind it stands how many samples its point has,
//! and how many of them are outliers or were left out.

use std::fmt::Write as _;

use super::schema::{Figure, FigureKind, Point};
use crate::statistics::outliers;

impl Figure {
    /// All samples, with a header line. Numbers are written so that reading them gives the same.
    #[must_use]
    pub fn csv(&self) -> String {
        if self.kind == FigureKind::Timeline {
            return self.csv_of_spans();
        }
        let mut text = "figure,series,x,x unit,y,round,value,unit,samples,warm-up,discarded,\
                        outliers\r\n"
            .to_owned();
        let (figure, unit) = (cell(&self.name), cell(&self.unit));
        let x_unit = cell(&self.axis.unit);
        for series in &self.series {
            let name = cell(&series.name);
            for point in &series.points {
                let y = cell(&self.second_place(point));
                let (count, outliers) = (point.samples.len(), self.outliers(point));
                let counts = format!("{count},{},{},{outliers}", point.warm_up, point.discarded);
                for sample in &point.samples {
                    let (x, round, value) = (point.x, sample.round, sample.value);
                    let place = format!("{x},{x_unit},{y}");
                    let sample = format!("{figure},{name},{place},{round},{value},{unit}");
                    let _ = write!(text, "{sample},{counts}\r\n");
                }
            }
        }
        text
    }

    /// How many of a point's samples are outliers. They stay in its median. A class of a histogram
    /// has none: its samples are parts of all, and the rounds without it have no sample.
    pub(crate) fn outliers(&self, point: &Point) -> usize {
        if self.kind == FigureKind::Histogram {
            return 0;
        }
        let values: Vec<f64> = point.samples.iter().map(|sample| sample.value).collect();
        outliers(&values)
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
