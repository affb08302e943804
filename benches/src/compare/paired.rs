//! An earlier build of Tasuki beside the present one: the ratio of each figure, and its spread.
//!
//! Both builds are measured in every round, one after the other. In every other round the earlier
//! build is first. A ratio is taken within a round, so a drift of the machine's speed meets both
//! alike. A cell is named as slower if all rounds agree that it became slower, and the median by
//! more than [`NOISE`].
//!
//! A build beside a copy of itself has such cells as well: one in ten with four rounds. So a named
//! cell means something if a second run names it again.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::median::median;
use crate::protocol::Test;
use crate::row::{Row, RowFigure};
use crate::setup::{Role, Setup};

/// How far the median may lie on the slower side of 1 before a cell is named.
const NOISE: f64 = 0.03;

/// A compared figure: a title, a test, the figure, and whether more is better.
const FIGURES: [(&str, Test, RowFigure, bool); 6] = [
    ("send", Test::Send, Row::sweep_rate, true),
    ("receive", Test::Receive, Row::sweep_rate, true),
    ("round trip", Test::Rtt, |row| row.sample.median_us, false),
    ("connects", Test::Connect, Row::sweep_rate, true),
    ("CPU per GiB, send", Test::Send, Row::cpu_per_gib, false),
    ("CPU per GiB, receive", Test::Receive, Row::cpu_per_gib, false),
];

/// The ratios of one cell, new to before, of each round in which both were measured.
struct Cell {
    ratios: Vec<f64>,
    more_is_better: bool,
}

impl Cell {
    fn new(new: &[&Row], before: &[&Row], figure: RowFigure, more_is_better: bool) -> Option<Self> {
        let ratios: Vec<f64> = new
            .iter()
            .filter_map(|row| {
                let other = before.iter().find(|it| it.round == row.round && figure(it).is_some());
                Some(figure(row)? / figure(other?).filter(|value| *value > 0.0)?)
            })
            .collect();
        (!ratios.is_empty()).then_some(Self { ratios, more_is_better })
    }

    fn is_slower(&self) -> bool {
        let worse = |ratio: f64| if self.more_is_better { 1.0 - ratio } else { ratio - 1.0 };
        let all = self.ratios.iter().all(|ratio| worse(*ratio) > 0.0);
        all && median(self.ratios.clone()).is_some_and(|ratio| worse(ratio) > NOISE)
    }

    fn text(&self) -> String {
        let least = self.ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.ratios.iter().copied().fold(0.0, f64::max);
        let middle = median(self.ratios.clone()).unwrap_or(f64::NAN);
        let mark = if self.is_slower() { " **slower**" } else { "" };
        format!("{middle:.2} ({least:.2} to {most:.2}){mark}")
    }
}

/// A table for each set-up, empty without rows of an earlier build.
pub(crate) fn markdown(new: &[Row], before: &[Row]) -> String {
    let mut text = String::new();
    let setups: BTreeSet<(Setup, Role)> = before.iter().map(|row| (row.setup, row.role)).collect();
    if setups.is_empty() {
        return text;
    }
    let (mut cells, mut slower) = (0, 0);
    text.push_str("\n## New build to the one before\n\nMedian of the rounds (least to most).\n");
    text.push_str("\n| set-up | measure | bytes | new / before |\n|---|---|---:|---|\n");
    for (setup, role) in setups {
        let end = if role == Role::Server { " as server" } else { "" };
        for (title, test, figure, more_is_better) in FIGURES {
            let of = |rows| pick(rows, (setup, role), test, figure);
            let sizes: BTreeSet<u32> = of(new).iter().map(|row| row.sample.size).collect();
            for size in sizes {
                let sized = |rows| {
                    let mut rows: Vec<&Row> = of(rows);
                    rows.retain(|row| row.sample.size == size);
                    rows
                };
                let Some(cell) = Cell::new(&sized(new), &sized(before), figure, more_is_better)
                else {
                    continue;
                };
                cells += 1;
                slower += usize::from(cell.is_slower());
                let _ = writeln!(text, "| {setup:?}{end} | {title} | {size} | {} |", cell.text());
            }
        }
    }
    let _ = writeln!(text, "\n{slower} of {cells} cells are slower in every round.");
    text
}

fn pick(rows: &[Row], end: (Setup, Role), test: Test, figure: RowFigure) -> Vec<&Row> {
    let of_cell = rows.iter().filter(|row| (row.setup, row.role) == end && row.sample.test == test);
    of_cell.filter(|row| figure(row).is_some()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Sample;
    use crate::setup::Build;

    fn rows(build: Build, rates: &[f64]) -> Vec<Row> {
        let row = |(round, rate): (usize, &f64)| {
            let (test, size, rate) = (Test::Send, 1024, *rate);
            let sample = Sample::of_rate(test, size, rate);
            let round = u32::try_from(round).expect("few");
            Row {
                setup: Setup::Split,
                build,
                role: Role::Client,
                round,
                sample,
                cpu: None,
                gib: 1.0,
                machine: None,
            }
        };
        rates.iter().enumerate().map(row).collect()
    }

    #[test]
    fn a_cell_is_slower_if_all_rounds_say_so() {
        let before = rows(Build::Before, &[100.0, 100.0, 100.0]);
        let text = markdown(&rows(Build::New, &[90.0, 95.0, 80.0]), &before);
        assert!(
            text.contains("| Split | send | 1024 | 0.90 (0.80 to 0.95) **slower** |"),
            "{text}"
        );
        assert!(text.contains("1 of 1 cells"), "{text}");
        let text = markdown(&rows(Build::New, &[90.0, 95.0, 101.0]), &before);
        assert!(text.contains("| 0.95 (0.90 to 1.01) |"), "{text}");
        let text = markdown(&rows(Build::New, &[98.0, 99.0, 98.0]), &before);
        assert!(text.contains("0 of 1 cells"), "{text}");
    }

    #[test]
    fn without_an_earlier_build_there_is_no_table() {
        assert_eq!(markdown(&rows(Build::New, &[1.0]), &[]), "");
    }
}
