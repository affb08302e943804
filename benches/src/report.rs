//! Tables of medians, and of ratios to the kernel's set-up of the same kind.

use std::fmt::Write;

use crate::machine::{self, MachineState};
use crate::median::median;
use crate::protocol::Test;
use crate::row::{Row, RowFigure};
use crate::setup::{Role, Setup};

/// All tables as Markdown: a chapter for each kind of set-up.
pub(crate) fn markdown(rows: &[Row]) -> String {
    let mut text = String::new();
    let roles = [(Role::Client, ""), (Role::Server, ", the server's end")];
    for ((base, title), (role, end)) in
        Setup::BASES.into_iter().flat_map(|base| roles.map(|role| (base, role)))
    {
        let of_chapter = rows.iter().filter(|row| (row.setup.base(), row.role) == (base, role));
        let rows: Vec<&Row> = of_chapter.collect();
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n## {title}{end}\n");
        if role == Role::Server {
            text.push_str("Send and receive are the client's words: its peer is measured.\n\n");
        }
        let states: Vec<MachineState> = rows.iter().filter_map(|row| row.machine).collect();
        text.push_str(&machine::markdown(&states));
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
        table("Connect, request, close: 99th percentile µs", Test::Connect, worst, 1);
        let turns_title = "Two processes that use a connection in turn: each round trip, median µs";
        table(turns_title, Test::Turns, median, 1);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Sample;
    use crate::setup::Build;

    fn row(setup: Setup, round: u32, rate: f64, cpu: Option<(f64, f64)>) -> Row {
        let sample = Sample::of_rate(Test::Send, 65536, rate);
        let (build, role, machine) = (Build::New, Role::Client, None);
        Row { setup, build, role, round, sample, cpu, gib: 2.0, machine }
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
    fn each_role_has_a_chapter_and_its_own_ratios() {
        let of = |setup, role, rate| Row { role, ..row(setup, 0, rate, None) };
        let state = MachineState { wake_up_us: 5.0, steal_percent: 0.25, load: 1.5 };
        let rows = [
            of(Setup::LinuxOn, Role::Client, 100.0),
            of(Setup::Split, Role::Client, 50.0),
            of(Setup::LinuxOn, Role::Server, 10.0),
            Row { machine: Some(state), ..of(Setup::Split, Role::Server, 20.0) },
        ];
        let text = markdown(&rows);
        let (client, server) = text.split_once("server's end").unwrap();
        assert!(client.contains("| 65536 | 100 | 50 (0.50x) |"), "{client}");
        assert!(server.contains("| 65536 | 10 | 20 (2.00x) |"), "{server}");
        let machine = "Machine: wake-up 5.0 (at most 5.0) µs, steal 0.2 (at most 0.2) %, load 1.5";
        assert!(!client.contains("Machine") && server.contains(machine), "{server}");
    }

    #[test]
    fn cpu_rows_are_no_part_of_the_sweep() {
        let rows = [row(Setup::LinuxOff, 0, 5.0, Some((1.0, 3.0)))];
        assert_eq!(rows[0].sweep_rate(), None);
        assert_eq!(rows[0].cpu_per_gib(), Some(2.0));
        assert!(!markdown(&rows).contains("Send, MiB/s"));
    }
}
