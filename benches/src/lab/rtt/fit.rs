//! Straight lines through medians, as sentences beside the paper's.

use lab::Figure;

use super::sweep::Parameter;

/// A line: `y = at_zero + slope * x`, and how much of the spread it explains (r²).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FittedLine {
    at_zero: f64,
    slope: f64,
    explained: f64,
}

/// The line of least squares; `None` with fewer than three points.
fn line(points: &[(f64, f64)]) -> Option<FittedLine> {
    let count = points.len() as f64;
    if points.len() < 3 {
        return None;
    }
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        points.iter().map(|point| of(point.0 - x, point.1 - y)).sum()
    };
    let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
    if xx == 0.0 {
        return None;
    }
    let slope = xy / xx;
    let explained = if yy == 0.0 { 1.0 } else { xy * xy / (xx * yy) };
    Some(FittedLine { at_zero: y - slope * x, slope, explained })
}

/// Sentences about the lines of all series, and one of the paper's.
pub(super) fn sentences(parameter: Parameter, figure: &Figure) -> Vec<String> {
    let (unit, each, paper) = match parameter {
        Parameter::Length => (
            1024.0,
            "KiB",
            "Paper 4 found 4.0, 2.4 and 1.5 ms for each KiB between slow, mixed and fast hosts.",
        ),
        Parameter::Gateways => {
            (1.0, "gateway", "Paper 4 found 2 ms for each gateway at 1 KiB and 3 ms at 4 KiB.")
        }
        _ => return Vec::new(),
    };
    let of_series = |series: &lab::Series| {
        let points = series.points.iter();
        let points: Vec<(f64, f64)> =
            points.filter_map(|point| Some((point.x / unit, point.interval()?.middle))).collect();
        let FittedLine { at_zero, slope, explained } = line(&points)?;
        let name = &series.name;
        Some(format!("{name} {at_zero:.1} µs and {slope:.2} µs (r² {explained:.2})"))
    };
    let measured = figure.series.iter().filter(|series| !series.reference);
    let lines: Vec<String> = measured.filter_map(of_series).collect();
    if lines.is_empty() {
        return Vec::new();
    }
    // A finding of a results file has at most 300 characters.
    let said = lines.chunks(3).map(|lines| {
        format!("Mean round trip, without any and for each {each}: {}.", lines.join("; "))
    });
    said.chain([paper.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_straight_line_is_found() {
        let found = line(&[(0.0, 2.0), (1.0, 4.0), (2.0, 6.0)]).unwrap();
        assert_eq!(found, FittedLine { at_zero: 2.0, slope: 2.0, explained: 1.0 });
        let bent = line(&[(0.0, 0.0), (1.0, 1.0), (2.0, 0.0)]).unwrap();
        assert_eq!((bent.slope, bent.explained), (0.0, 0.0));
        assert_eq!(line(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(line(&[(1.0, 1.0), (2.0, 2.0)]), None);
    }
}
