//! Tables of medians, and of ratios to the kernel's set-up of the same kind.

use std::fmt::Write;

use crate::protocol::Test;
use crate::row::{Row, RowFigure};
use crate::setup::Setup;

/// All tables as Markdown: a chapter for each kind of set-up.
pub(crate) fn markdown(rows: &[Row]) -> String {
    let mut text = String::new();
    for (base, title) in Setup::BASES {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.setup.base() == base).collect();
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n## {title}");
        let rate: RowFigure = Row::sweep_rate;
        let median: RowFigure = |row| row.sample.median_us;
        let worst: RowFigure = |row| row.sample.p99_us;
        let cpu: RowFigure = Row::cpu_per_gib;
        let mut table = |title: &str, test: Test, figure: RowFigure, digits: usize| {
            one_table(&mut text, title, base, &pick(&rows, test), figure, digits);
        };
        table("Send, MiB/s by bytes per write", Test::Send, rate, 0);
        table("Receive, MiB/s by bytes per write", Test::Receive, rate, 0);
        table("Round trip, median µs by bytes", Test::Rtt, median, 1);
        table("Round trip, 99th percentile µs by bytes", Test::Rtt, worst, 1);
        table("Connect, request, close: per second", Test::Connect, rate, 0);
        let cpu_title = "CPU seconds (user and system, all processes of that side) per GiB, send";
        table(cpu_title, Test::Send, cpu, 2);
        table("The same, receive", Test::Receive, cpu, 2);
    }
    text
}

fn pick<'a>(rows: &[&'a Row], test: Test) -> Vec<&'a Row> {
    rows.iter().copied().filter(|row| row.sample.test == test).collect()
}

/// The median of a set-up's figures of one size.
fn cell(rows: &[&Row], setup: Setup, size: u32, figure: RowFigure) -> Option<f64> {
    let of_cell = rows.iter().filter(|r| r.setup == setup && r.sample.size == size);
    median(of_cell.filter_map(|row| figure(row)).collect())
}

/// The median of the ratios to the base's figure in the same round; `rows` are of one test.
pub(crate) fn ratio(rows: &[&Row], setup: Setup, size: u32, figure: RowFigure) -> Option<f64> {
    let of = |setup| rows.iter().filter(move |r| r.setup == setup && r.sample.size == size);
    let each = of(setup).filter_map(|row| {
        let base = of(setup.base()).find(|base| base.round == row.round && figure(base).is_some());
        let base = figure(base?).filter(|base| *base > 0.0)?;
        Some(figure(row)? / base)
    });
    median(each.collect())
}

/// The sizes of which there are figures, in order.
pub(crate) fn sizes(rows: &[&Row], figure: RowFigure) -> Vec<u32> {
    let with = rows.iter().filter(|row| figure(row).is_some());
    let mut sizes: Vec<u32> = with.map(|row| row.sample.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn one_table(
    text: &mut String,
    title: &str,
    base: Setup,
    rows: &[&Row],
    figure: RowFigure,
    digits: usize,
) {
    let mut setups: Vec<Setup> =
        rows.iter().filter(|row| figure(row).is_some()).map(|row| row.setup).collect();
    setups.sort_unstable();
    // The kernel's comes first, whatever the order of the others.
    setups.sort_by_key(|setup| *setup != base);
    setups.dedup();
    if setups.is_empty() {
        return;
    }
    let heads: Vec<&str> = setups.iter().map(|s| s.title()).collect();
    let _ = writeln!(text, "\n### {title}\n\n| bytes | {} |", heads.join(" | "));
    let _ = writeln!(text, "|---:|{}", "---:|".repeat(setups.len()));
    for size in sizes(rows, figure) {
        let _ = write!(text, "| {size} |");
        for &setup in &setups {
            let value = cell(rows, setup, size, figure);
            let ratio = ratio(rows, setup, size, figure).filter(|_| setup != base);
            let _ = match (value, ratio) {
                (Some(value), Some(ratio)) => {
                    write!(text, " {value:.digits$} ({ratio:.2}x) |")
                }
                (Some(value), None) => write!(text, " {value:.digits$} |"),
                (None, _) => write!(text, " |"),
            };
        }
        text.push('\n');
    }
}

/// The middle of them, or between the middle two.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = *values.get((values.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Sample;
    use crate::setup::Build;

    fn row(setup: Setup, round: u32, rate: f64, cpu: Option<(f64, f64)>) -> Row {
        let sample = Sample { test: Test::Send, size: 65536, rate, median_us: None, p99_us: None };
        Row { setup, build: Build::New, round, sample, cpu, gib: 2.0 }
    }

    #[test]
    fn ratios_are_of_the_same_round_and_kind() {
        let rows = [
            row(Setup::LinuxOn, 0, 100.0, None),
            row(Setup::Split, 0, 50.0, None),
            row(Setup::LinuxOn, 1, 10.0, None),
            row(Setup::Split, 1, 20.0, None),
            row(Setup::Split, 2, 1.0, None),
            row(Setup::LinuxOff, 2, 1.0, None),
        ];
        let all: Vec<&Row> = rows.iter().collect();
        assert_eq!(ratio(&all, Setup::Split, 65536, Row::sweep_rate), Some(1.25));
        assert_eq!(ratio(&all, Setup::Split, 1024, Row::sweep_rate), None);
        let text = markdown(&rows);
        assert!(text.contains("| bytes | Linux | split |\n|---:|---:|---:|\n"), "{text}");
        assert!(text.contains("| 65536 | 55 | 20 (1.25x) |"), "{text}");
    }

    #[test]
    fn cpu_rows_are_no_part_of_the_sweep() {
        let rows = [row(Setup::LinuxOff, 0, 5.0, Some((1.0, 3.0)))];
        assert_eq!(rows[0].sweep_rate(), None);
        assert_eq!(rows[0].cpu_per_gib(), Some(2.0));
        assert!(!markdown(&rows).contains("Send, MiB/s"));
    }
}
