//! The short tables of `storage`, for a page: requests in rows, transports in columns. All cells
//! are medians; spreads and all other figures are in the long tables.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{
    BLOCKS, Case, CaseKey, PEERS, PLAIN, PROTECTED, Ratio, SEALED, cases, middle, number, rate,
    target,
};
use crate::machine::markdown as machine;
use crate::storage::above_tcp;
use crate::storage::plan::{Access, BackEnd, Requests, StoragePath, size};
use crate::storage::row::StorageRow;

/// Bytes from which on sealed has targets.
const LONG: u32 = 64 << 10;

/// The tables of transports: sealed to the others, rates, latencies, processor time.
pub(in crate::storage) fn transports(rows: &[StorageRow], names: &[&str]) -> String {
    let all = cases(rows, |column| names.contains(&column));
    if all.is_empty() {
        return String::new();
    }
    let states: Vec<_> = all.iter().flat_map(|(_, rows)| rows).map(|row| row.machine).collect();
    let mut text = format!("\n{}", machine(&states));
    text += &sealed(&all);
    text += "\n### Rates\n\n\
             Sequential requests at depth 8 in MiB/s, random ones a second; the ratio to plain.\n";
    let places: BTreeSet<(StoragePath, BackEnd)> =
        all.iter().map(|((path, back_end, _), _)| (*path, *back_end)).collect();
    for (path, back_end) in places {
        let here: Vec<&Case<'_>> =
            all.iter().filter(|((at, end, _), _)| (*at, *end) == (path, back_end)).collect();
        let _ = writeln!(text, "\n#### {}, {}", path.short(), back_end.name());
        text += &table(&["requests"], &here, names, |(.., it)| title(*it), rate_cell);
    }
    let of_memory = |wanted: fn(Requests) -> bool| {
        let chosen = move |case: &&Case<'_>| case.0.1 == BackEnd::Memory && wanted(case.0.2);
        all.iter().filter(chosen).collect::<Vec<_>>()
    };
    let label = |(path, _, requests): &CaseKey| format!("{} | {}", path.short(), title(*requests));
    let heads = ["path", "requests"];
    text += "\n### Latency\n\nMicroseconds, p50 / p99; memory.\n";
    text += &table(&heads, &of_memory(|it| is_random(it) && it.depth == 1), names, label, latency);
    text += "\n### Processor time\n\nSeconds for each GiB, target + initiator; memory.\n";
    let sized = |it: Requests| !is_random(it) && [64 << 10, 1 << 20].contains(&it.bytes);
    text + &table(&heads, &of_memory(sized), names, label, processor)
}

/// A line for each case, a column for each transport that one of them has.
fn table(
    heads: &[&str],
    cases: &[&Case<'_>],
    names: &[&str],
    label: impl Fn(&CaseKey) -> String,
    cell: impl Fn(&[&StorageRow], &str) -> String,
) -> String {
    let has = |rows: &[&StorageRow], name: &str| rows.iter().any(|row| row.column == name);
    let mut there = names.to_vec();
    there.retain(|name| cases.iter().any(|(_, rows)| has(rows, name)));
    let mut text = format!("\n| {} | {} |\n", heads.join(" | "), there.join(" | "));
    let _ = writeln!(text, "|{}{}", "---|".repeat(heads.len()), "---:|".repeat(there.len()));
    for (key, rows) in cases {
        let cells: Vec<String> = there
            .iter()
            .map(|name| if has(rows, name) { cell(rows, name) } else { String::new() })
            .collect();
        let _ = writeln!(text, "| {} | {} |", label(key), cells.join(" | "));
    }
    text
}

fn is_random(requests: Requests) -> bool {
    matches!(requests.access, Access::RandRead | Access::RandWrite)
}

/// As `read 64K`; of random requests with their depth.
fn title(requests: Requests) -> String {
    if is_random(requests) { requests.title() } else { requests.brief() }
}

fn rate_cell(rows: &[&StorageRow], column: &str) -> String {
    let is_random = rows.first().is_some_and(|row| is_random(row.requests));
    let value = middle(rows, column, if is_random { rate } else { |row| Some(row.mib()) });
    let ratio = Ratio::of(rows, rate, [column, PLAIN]).filter(|_| column != PLAIN);
    let ratio = ratio.map_or(String::new(), |ratio| format!(" ({:.2})", ratio.middle()));
    number(value) + &ratio
}

fn latency(rows: &[&StorageRow], column: &str) -> String {
    let of = |figure| number(middle(rows, column, figure));
    format!("{} / {}", of(|row| row.p50_us), of(|row| row.p99_us))
}

fn processor(rows: &[&StorageRow], column: &str) -> String {
    let of = |figure| number(middle(rows, column, figure));
    let target = of(|row| Some((row.target_cpu.0 + row.target_cpu.1) / row.gib));
    let initiator = of(|row| Some((row.initiator_cpu.0 + row.initiator_cpu.1) / row.gib));
    format!("{target} + {initiator}")
}

/// Sealed to each of the others, of long sequential requests. Empty without any.
fn sealed(all: &[Case<'_>]) -> String {
    let long = |((_, back_end, requests), _): &&Case<'_>| {
        *back_end == BackEnd::Memory && !is_random(*requests) && requests.bytes >= LONG
    };
    let cases: Vec<&Case<'_>> = all.iter().filter(long).collect();
    let sizes: BTreeSet<u32> = cases.iter().map(|((.., requests), _)| requests.bytes).collect();
    let places: BTreeSet<(StoragePath, Access)> =
        cases.iter().map(|((path, _, requests), _)| (*path, requests.access)).collect();
    let mut lines = String::new();
    for base in [PLAIN].into_iter().chain(PROTECTED) {
        for (path, access) in &places {
            let of_size = |bytes: &u32| {
                let is_it = |((at, _, requests), _): &&&Case<'_>| {
                    (at, &requests.access, &requests.bytes) == (path, access, bytes)
                };
                let (_, rows) = cases.iter().find(is_it)?;
                Some(format!("{:.2}", Ratio::of(rows, rate, [SEALED, base])?.middle()))
            };
            let ratios: Vec<String> = sizes.iter().filter_map(of_size).collect();
            if !ratios.is_empty() {
                let (path, access) = (path.short(), access.word());
                let _ = writeln!(lines, "| {base} | {path} | {access} | {} |", ratios.join(" / "));
            }
        }
    }
    if lines.is_empty() {
        return lines;
    }
    let sizes: Vec<String> = sizes.into_iter().map(size).collect();
    format!(
        "\n### Sealed to the others\n\nMemory, depth 8.\n\n\
         | sealed to | path | | {} |\n|---|---|---|---|\n{lines}",
        sizes.join(" / ")
    )
}

/// Ours and theirs, and the ratio with its spread. Empty without rows.
pub(in crate::storage) fn peers(rows: &[StorageRow]) -> String {
    let mut text = String::new();
    for (title, ours, theirs, targets) in PEERS {
        for ((_, back_end, requests), rows) in cases(rows, |it| it == ours || it == theirs) {
            let Some(ratio) = Ratio::of(&rows, rate, [ours, theirs]) else { continue };
            let of = |column| number(middle(&rows, column, rate));
            let least = target(requests, targets).map_or(String::new(), |it| format!("≥ {it}"));
            let _ = writeln!(
                text,
                "| {title} | {} | {} | {} | {} | {} | {least} |",
                back_end.name(),
                requests.title(),
                of(ours),
                of(theirs),
                ratio.text()
            );
        }
    }
    if text.is_empty() {
        return text;
    }
    format!(
        "\nRequests a second.\n\n| pair | back end | requests | ours | theirs | ratio | target |\n\
         |---|---|---|---:|---:|---|---|\n{text}"
    )
}

/// Rates and processor time of both sides, above TCP and by ESP. Empty without rows.
pub(in crate::storage) fn blocks(rows: &[StorageRow]) -> String {
    let (_, above, below, _) = BLOCKS;
    let mut text = String::new();
    for ((_, _, requests), rows) in cases(rows, |column| column == above || column == below) {
        let ratio = |figure| Ratio::of(&rows, figure, [above, below]).map(|it| it.text());
        let of = |column, figure| number(middle(&rows, column, figure));
        let mib = |row: &StorageRow| Some(row.mib());
        let cpu = above_tcp::all_cpu;
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} |",
            requests.title(),
            of(above, mib),
            of(below, mib),
            ratio(mib).unwrap_or_default(),
            of(above, cpu),
            of(below, cpu),
            ratio(cpu).unwrap_or_default()
        );
    }
    if text.is_empty() {
        return text;
    }
    format!(
        "\n| requests | above TCP, MiB/s | ESP, MiB/s | ratio | above TCP, s/GiB | ESP, s/GiB \
         | ratio |\n|---|---:|---:|---|---:|---:|---|\n{text}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::table::tests::row;

    fn sequential(column: &str, rate: f64) -> StorageRow {
        let requests = Requests { access: Access::Read, bytes: 1 << 20, depth: 8 };
        StorageRow { back_end: BackEnd::Memory, requests, ..row(column, 0, rate, 50.0) }
    }

    #[test]
    fn transports_stand_beside_each_other() {
        let rows = [sequential("plain", 200.0), sequential("sealed", 150.0)];
        let text = transports(&rows, &["plain", "tls", "sealed"]);
        for line in [
            "| sealed to | path | | 1M |",
            "| plain | wire | read | 0.75 |",
            "#### wire, memory\n\n| requests | plain | sealed |\n|---|---:|---:|\n",
            "| read 1M | 200.0 | 150.0 (0.75) |",
            "| wire | read 1M | 1.50 + 3.50 | 1.50 + 3.50 |",
        ] {
            assert!(text.contains(line), "{line}\nis not in\n{text}");
        }
        assert!(!text.contains("tls"), "{text}");
        assert_eq!(transports(&[], &["plain"]), "");
    }

    #[test]
    fn random_requests_have_latencies() {
        let rows = [StorageRow { back_end: BackEnd::Memory, ..row("plain", 0, 900.0, 50.0) }];
        let text = transports(&rows, &["plain"]);
        assert!(text.contains("| wire | randread 4K, depth 1 | 50.0 / - |"), "{text}");
        assert!(text.contains("| randread 4K, depth 1 | 900.0 |"), "{text}");
    }

    #[test]
    fn pairs_have_a_line_each() {
        let (_, ours, theirs, _) = PEERS[2];
        let text = peers(&[row(ours, 0, 2300.0, 50.0), row(theirs, 0, 2000.0, 50.0)]);
        let line = "| null | randread 4K, depth 1 | 2300 | 2000 | 1.15 (1.15 to 1.15) |  |";
        assert!(text.contains(line), "{text}");
        let (_, above, below, _) = BLOCKS;
        let text = blocks(&[sequential(above, 20.0), sequential(below, 10.0)]);
        let line = "| read 1M, depth 8 | 20.0 | 10.0 | 2.00 (2.00 to 2.00) | 5.00 | 5.00 \
                    | 1.00 (1.00 to 1.00) |";
        assert!(text.contains(line), "{text}");
        assert_eq!((peers(&[]), blocks(&[])), (String::new(), String::new()));
    }
}
