//! The first paper's table of the send path: AnT and FreeBSD 4.3 on a Celeron D of 2.8 GHz with an
//! RTL8139, microseconds. Sums differ from the paper's totals by its own rounding.

use lab::Series;

use super::super::derived::paper_series;

/// The paper's sizes, bytes.
const SIZES: [f64; 4] = [256.0, 512.0, 768.0, 1024.0];
/// Of AnT: the part by its place in [`super::SEND`], and its time at each size. AnT's last server
/// answers the program directly.
const ANT: [(usize, [f64; 4]); 13] = [
    (0, [0.19, 0.32, 0.35, 0.32]),
    (1, [5.13, 5.14, 5.13, 5.15]),
    (2, [0.08, 0.08, 0.08, 0.08]),
    (3, [2.67, 2.89, 3.15, 3.49]),
    (4, [0.53, 0.57, 0.52, 0.52]),
    (5, [0.14, 0.14, 0.14, 0.14]),
    (6, [0.13, 0.13, 0.13, 0.13]),
    (7, [6.91, 6.88, 6.87, 6.89]),
    (8, [0.04, 0.04, 0.04, 0.04]),
    (9, [4.25, 4.46, 4.66, 4.85]),
    (10, [0.20, 0.20, 0.22, 0.20]),
    (11, [3.11, 3.10, 3.09, 3.12]),
    (12, [0.20, 0.21, 0.21, 0.21]),
];
/// Of FreeBSD.
const FREEBSD: [(usize, [f64; 4]); 6] = [
    (3, [1.48, 1.72, 1.91, 2.18]),
    (4, [0.21, 0.21, 0.22, 0.21]),
    (5, [0.27, 0.26, 0.27, 0.27]),
    (9, [1.71, 1.99, 2.11, 2.27]),
    (12, [1.21, 1.13, 1.19, 1.21]),
    (13, [0.94, 0.99, 1.03, 1.10]),
];

/// Both columns.
pub(super) fn series() -> [Series; 2] {
    [of("paper 1: AnT", &ANT), of("paper 1: FreeBSD 4.3", &FREEBSD)]
}

fn of(name: &str, parts: &[(usize, [f64; 4])]) -> Series {
    let at_size = |(at, size): (usize, &f64)| {
        let of_part = |(part, times): &(usize, [f64; 4])| (*size, *part as f64, times[at]);
        parts.iter().map(of_part).collect::<Vec<_>>()
    };
    let cells: Vec<_> = SIZES.iter().enumerate().flat_map(at_size).collect();
    paper_series(name, &cells)
}

#[cfg(test)]
mod tests {
    use lab::Point;

    use super::*;

    #[test]
    fn sums_are_the_papers_totals() {
        let totals = [[23.58, 24.16, 24.57, 25.13], [5.82, 6.30, 6.73, 7.23]];
        for (series, totals) in series().iter().zip(totals) {
            for (size, total) in SIZES.iter().zip(totals) {
                let parts = series.points.iter().filter(|point| point.x == *size);
                let sum: f64 = parts.flat_map(Point::values).sum();
                assert!((sum - total).abs() < 0.05, "{} at {size}: {sum}", series.name);
            }
        }
    }
}
