//! Tables of medians, and their ratios to the first set-up.

use std::fmt::Write;

use crate::compare::Row;
use crate::hosts::Setup;
use crate::protocol::Test;

/// All tables as Markdown.
pub(crate) fn markdown(rows: &[Row], setups: &[Setup]) -> String {
    let mut text = String::new();
    let mut table = |title: &str, test: Test, figure: fn(&Row) -> Option<f64>, digits: usize| {
        one_table(&mut text, title, &pick(rows, test), setups, figure, digits);
    };
    table("Send, MiB/s by bytes per write", Test::Send, |r| sweep(r, r.sample.rate), 0);
    table("Receive, MiB/s by bytes per write", Test::Receive, |r| sweep(r, r.sample.rate), 0);
    table("Round trip, median µs by bytes", Test::Rtt, |r| r.sample.median_us, 1);
    table("Round trip, 99th percentile µs by bytes", Test::Rtt, |r| r.sample.p99_us, 1);
    table("Connect, request, close: per second", Test::Connect, |r| Some(r.sample.rate), 0);
    table("CPU seconds per GiB, send, user", Test::Send, |r| Some(r.cpu?.0 / r.gib), 2);
    table("CPU seconds per GiB, send, system", Test::Send, |r| Some(r.cpu?.1 / r.gib), 2);
    table("CPU seconds per GiB, receive, user", Test::Receive, |r| Some(r.cpu?.0 / r.gib), 2);
    table("CPU seconds per GiB, receive, system", Test::Receive, |r| Some(r.cpu?.1 / r.gib), 2);
    text
}

fn pick(rows: &[Row], test: Test) -> Vec<&Row> {
    rows.iter().filter(|row| row.sample.test == test).collect()
}

/// The figure of rows that belong to the sweep over sizes, not to the CPU measurement.
fn sweep(row: &Row, figure: f64) -> Option<f64> {
    row.cpu.is_none().then_some(figure)
}

fn one_table(
    text: &mut String,
    title: &str,
    rows: &[&Row],
    setups: &[Setup],
    figure: fn(&Row) -> Option<f64>,
    digits: usize,
) {
    let mut sizes: Vec<u32> =
        rows.iter().filter(|r| figure(r).is_some()).map(|r| r.sample.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let heads: Vec<&str> = setups.iter().map(|s| s.title()).collect();
    let _ = writeln!(text, "\n### {title}\n\n| bytes | {} |", heads.join(" | "));
    let _ = writeln!(text, "|---:|{}", "---:|".repeat(setups.len()));
    for size in sizes {
        let cell = |setup: Setup| -> Option<f64> {
            let of_cell = rows.iter().filter(|r| r.setup == setup && r.sample.size == size);
            median(of_cell.filter_map(|r| figure(r)).collect())
        };
        let base = setups.first().and_then(|s| cell(*s));
        let _ = write!(text, "| {size} |");
        for &setup in setups {
            let _ = match (cell(setup), base) {
                (Some(v), Some(b)) if b > 0.0 => write!(text, " {v:.digits$} ({:.2}x) |", v / b),
                (Some(v), _) => write!(text, " {v:.digits$} |"),
                (None, _) => write!(text, " |"),
            };
        }
        text.push('\n');
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
