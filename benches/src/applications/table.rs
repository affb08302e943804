//! A table for each program: medians, ratios to the kernel's in the same round, and targets.

use std::fmt::Write as _;

use super::row::{Application, ApplicationRow, Quantity};
use crate::machine::markdown as machine;
use crate::median::median;
use crate::setup::{Role, Setup};

/// What a line of a table is of.
type Line<'a> = (&'a str, Option<&'a str>, Quantity, &'a str);
/// What a column is of.
type Column = (Setup, Role);

const BASE: Column = (Setup::LinuxOn, Role::Client);

/// All tables as Markdown, and behind them how many figures meet their targets.
pub(crate) fn markdown(rows: &[ApplicationRow]) -> String {
    let mut text = String::new();
    let (mut met, mut missed) = (0, 0);
    for application in Application::ALL {
        let rows: Vec<&ApplicationRow> =
            rows.iter().filter(|row| row.application == application).collect();
        if rows.is_empty() {
            continue;
        }
        let states: Vec<_> = rows.iter().map(|row| row.machine).collect();
        let _ = writeln!(text, "\n## {}\n\n{}", application.title(), machine(&states));
        let mut columns = vec![BASE];
        for row in &rows {
            if !columns.contains(&(row.setup, row.role)) {
                columns.push((row.setup, row.role));
            }
        }
        // In every other round the order was another.
        columns[1..].sort_by_key(|(setup, role)| (*role, *setup));
        let heads: Vec<String> = columns.iter().map(|column| head(*column)).collect();
        let _ = writeln!(text, "| measurement | figure | {} | target |", heads.join(" | "));
        let _ = writeln!(text, "|---|---|{}---|", "---:|".repeat(columns.len()));
        for line in lines(&rows) {
            let (measurement, request, quantity, unit) = line;
            let request = request.map(|it| format!(", {it}")).unwrap_or_default();
            let figure = figure(quantity, unit);
            let _ = write!(text, "| {measurement}{request} | {figure} |");
            for &column in &columns {
                let (cell, meets) = cell(&rows, line, column);
                met += usize::from(meets == Some(true));
                missed += usize::from(meets == Some(false));
                let _ = write!(text, " {cell} |");
            }
            let _ = writeln!(text, " {} |", target(quantity));
        }
    }
    let _ = writeln!(text, "\n{met} of {} figures with a target meet it.", met + missed);
    text
}

fn head((setup, role): Column) -> String {
    match (setup, role) {
        (Setup::LinuxOn, _) => setup.title().to_owned(),
        (_, Role::Client) => format!("{}, client", setup.title()),
        (_, Role::Server) => format!("{}, server", setup.title()),
    }
}

fn figure(quantity: Quantity, unit: &str) -> String {
    match quantity {
        Quantity::Rate | Quantity::Errors => unit.to_owned(),
        Quantity::Median => format!("median {unit}"),
        Quantity::P99 => format!("p99 {unit}"),
        Quantity::P999 => format!("p99.9 {unit}"),
    }
}

/// The target of a ratio to the kernel's.
fn target(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Rate => "≥ 1.0",
        Quantity::P99 => "≤ 1.2",
        Quantity::Median | Quantity::P999 | Quantity::Errors => "",
    }
}

/// Whether a ratio to the kernel's meets the target, if there is one.
fn meets(quantity: Quantity, ratio: f64) -> Option<bool> {
    match quantity {
        Quantity::Rate => Some(ratio >= 1.0),
        Quantity::P99 => Some(ratio <= 1.2),
        Quantity::Median | Quantity::P999 | Quantity::Errors => None,
    }
}

/// The lines of a table, in the order in which they were measured first. Errors have one only if
/// there were any.
fn lines<'a>(rows: &[&'a ApplicationRow]) -> Vec<Line<'a>> {
    let mut lines: Vec<Line<'a>> = Vec::new();
    for row in rows {
        let reading = &row.reading;
        let line = line_of(row);
        let silent = reading.quantity == Quantity::Errors
            && !rows.iter().any(|row| line_of(row) == line && row.reading.value > 0.0);
        if !silent && !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

fn line_of(row: &ApplicationRow) -> Line<'_> {
    let reading = &row.reading;
    (&row.measurement, reading.request.as_deref(), reading.quantity, &reading.unit)
}

/// The text of a cell, and whether it meets the target.
fn cell(rows: &[&ApplicationRow], line: Line<'_>, column: Column) -> (String, Option<bool>) {
    let of = |column| {
        rows.iter().filter(move |row| line_of(row) == line && (row.setup, row.role) == column)
    };
    let Some(value) = median(of(column).map(|row| row.reading.value).collect()) else {
        return ("-".to_owned(), None);
    };
    let digits = usize::from(value < 1000.0);
    let value = format!("{value:.digits$}");
    if line.2 == Quantity::Errors || column == BASE {
        return (value, None);
    }
    let ratios = of(column).filter_map(|row| {
        let base = of(BASE).find(|base| base.round == row.round)?.reading.value;
        (base > 0.0).then(|| row.reading.value / base)
    });
    let Some(ratio) = median(ratios.collect()) else { return (value, None) };
    let meets = meets(line.2, ratio);
    let mark = if meets == Some(false) { ", missed" } else { "" };
    (format!("{value} ({ratio:.2}x{mark})"), meets)
}

#[cfg(test)]
mod tests {
    use super::super::row::Reading;
    use super::*;
    use crate::machine::MachineState;

    fn row(setup: Setup, role: Role, round: u32, reading: Reading) -> ApplicationRow {
        let machine = MachineState { wake_up_us: 5.0, steal_percent: 0.25, load: 1.5 };
        let (application, measurement) = (Application::Redis, "1 client".to_owned());
        ApplicationRow { application, measurement, setup, role, round, reading, machine }
    }

    #[test]
    fn ratios_are_to_the_kernel_in_the_same_round_for_both_roles() {
        let (client, server) = (Role::Client, Role::Server);
        let rate = |value| Reading::rate("requests/s", value).of("GET");
        let p99 = |value| Reading::latency(Quantity::P99, value).of("GET");
        let rows = [
            row(Setup::LinuxOn, client, 0, rate(1000.0)),
            row(Setup::LinuxOn, client, 0, p99(10.0)),
            row(Setup::LinuxOn, client, 0, Reading::errors(0.0)),
            row(Setup::Split, server, 0, rate(500.0)),
            row(Setup::Split, server, 0, p99(12.0)),
            row(Setup::Split, client, 0, rate(2000.0)),
            row(Setup::LinuxOn, client, 1, rate(2000.0)),
            row(Setup::Split, client, 1, rate(2000.0)),
        ];
        let text = markdown(&rows);
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(
            lines,
            [
                "| measurement | figure | Linux | split, client | split, server | target |",
                "|---|---|---:|---:|---:|---|",
                "| 1 client, GET | requests/s | 1500 | 2000 (1.50x) | 500.0 (0.50x, missed) \
                 | ≥ 1.0 |",
                "| 1 client, GET | p99 µs | 10.0 | - | 12.0 (1.20x) | ≤ 1.2 |",
            ]
        );
        assert!(text.contains("2 of 3 figures"), "{text}");
        assert!(text.contains("Machine: wake-up 5.0 (at most 5.0) µs"), "{text}");
    }

    #[test]
    fn errors_have_a_line_if_there_were_any() {
        let (client, errors) = (Role::Client, Reading::errors);
        let rows = [
            row(Setup::LinuxOn, client, 0, errors(0.0)),
            row(Setup::Split, client, 0, errors(3.0)),
        ];
        assert!(markdown(&rows).contains("| 1 client | errors | 0.0 | 3.0 |  |"), "{rows:?}");
    }
}
