//! `tasuki-bench storage`: targets and initiators, in one paired run.
//!
//! All transports of a path take turns, measurement by measurement. In every other round the last
//! is first. A ratio is taken within a round. Beside the transports are rows against peers
//! ([`peers`]), whole blocks against ESP as in the fifth paper ([`above_tcp`]), and the speed of
//! sealing by the size of a record ([`aead`]).
//!
//! The load is `tasuki disk bench` on an instance of its own. The processor time of a side is that
//! of its instance and of its target or initiator, from proc(5), in ticks of 10 ms.

mod above_tcp;
mod aead;
mod args;
mod bench_server;
mod blocks;
mod chart;
mod in_memory;
mod measure;
mod peers;
mod plan;
mod ready;
mod record;
mod row;
mod table;
mod transfer;
mod world;

use std::fs;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

pub(crate) use self::above_tcp::ReadyBlocks;
pub(crate) use self::aead::seal_speed;
pub(crate) use self::args::StorageArgs;
use self::args::StoragePart;
pub(crate) use self::blocks::{
    ReadBlocksArgs, ServeBlocksArgs, read as read_blocks, serve as serve_blocks,
};
pub(crate) use self::in_memory::ReadyMemory;
pub(crate) use self::plan::Access;
use self::plan::{StoragePath, TRANSPORTS};
pub(crate) use self::ready::ReadyTransport;
use self::record::StorageRecord;
pub(crate) use self::row::StorageRow;
pub(crate) use self::transfer::{RecordedTransport, Transfer};
use crate::described;

/// All figures.
#[derive(Debug, Serialize, Deserialize)]
struct StorageFound {
    machine: String,
    tasuki: String,
    rows: Vec<StorageRow>,
    aead: Vec<aead::AeadRow>,
    /// Transports that the build does not know.
    skipped: Vec<String>,
}

/// Measures, and prints the figures.
pub(crate) fn run(args: &StorageArgs) -> Result<()> {
    let file = &args.out;
    let found = if args.show {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        serde_json::from_str(&text).with_context(|| file.display().to_string())?
    } else {
        let found = measured(args)?;
        let text = serde_json::to_string_pretty(&found)?;
        fs::write(file, text).with_context(|| file.display().to_string())?;
        found
    };
    if let Some(file) = args.plot.as_ref().filter(|_| !found.aead.is_empty()) {
        aead::plot(&found.aead, file).with_context(|| file.display().to_string())?;
    }
    if let Some(file) = &args.plot_blocks {
        above_tcp::plot(&found.rows, file).with_context(|| file.display().to_string())?;
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&found)?);
    } else {
        print!("{}", tables(&found, args.brief));
    }
    Ok(())
}

fn measured(args: &StorageArgs) -> Result<StorageFound> {
    let tasuki = &args.tasuki;
    ensure!(tasuki.exists(), "{} is not there: `make build` makes it", tasuki.display());
    ensure!(rustix::process::geteuid().is_root(), "it makes network namespaces: run it as root");
    ensure!(!args.requests().is_empty(), "no requests have such a title: see docs/performance.md");
    let (machine, tasuki) = (described::machine(), described::tasuki(tasuki)?);
    let (mut number, mut aead) = (0, Vec::new());
    let mut record = StorageRecord::new(measurements(args)?);
    if args.only.contains(&StoragePart::Aead) {
        record.progress.say("sealing by the size of a record");
        aead = aead::measure(args.rounds())?;
    }
    if args.only.contains(&StoragePart::Transports) {
        for path in args.paths() {
            transports(args, path, &mut number, &mut record)?;
        }
    }
    if args.only.contains(&StoragePart::Peers) {
        peers::run(args, number + 1, &mut record)?;
    }
    if args.only.contains(&StoragePart::Blocks) {
        above_tcp::run(args, number + 3, &mut record)?;
    }
    let StorageRecord { rows, skipped, .. } = record;
    Ok(StorageFound { machine, tasuki, rows, aead, skipped })
}

/// How many measurements the arguments ask for. A peer that is missing makes them fewer.
///
/// # Errors
/// A transport that there is not.
fn measurements(args: &StorageArgs) -> Result<usize> {
    let mut set_ups = 0;
    for path in args.paths() {
        set_ups += args.transports(path)?.len() * args.back_ends(path).len();
    }
    let parts = [
        (StoragePart::Transports, set_ups * args.requests().len()),
        (StoragePart::Peers, peers::measurements()),
        (StoragePart::Blocks, above_tcp::measurements(args)),
    ];
    let wanted = parts.iter().filter(|(part, _)| args.only.contains(part));
    let of_a_round: usize = wanted.map(|(_, count)| count).sum();
    let aead = usize::from(args.only.contains(&StoragePart::Aead));
    Ok(aead + args.rounds() as usize * of_a_round)
}

/// All transports of one path, in turn.
fn transports(
    args: &StorageArgs,
    path: StoragePath,
    number: &mut usize,
    record: &mut StorageRecord,
) -> Result<()> {
    let back_ends = args.back_ends(path);
    let mut ready = Vec::new();
    for transport in args.transports(path)? {
        *number += 1;
        if record.skipped.iter().any(|skipped| skipped.starts_with(transport.name)) {
            continue;
        }
        let made = ReadyTransport::new(&args.tasuki, *number, path, transport, &back_ends);
        match made {
            Ok(made) => ready.push(made),
            // Without the first nothing can be measured.
            Err(error) if transport.name == TRANSPORTS[0].name => return Err(error),
            Err(error) => {
                record
                    .skip(&format!("{}: this build does not serve it: {error:#}", transport.name));
                record.skipped.push(format!("{}: {error:#}", transport.name));
            }
        }
    }
    for &back_end in &back_ends {
        for requests in args.requests() {
            for round in 0..args.rounds() {
                let last = ready.len();
                let turn = |at: usize| if round % 2 == 0 { at } else { last - 1 - at };
                for one in (0..last).map(turn).map(|at| &ready[at]) {
                    let (title, back, column) = (requests.title(), back_end.name(), one.name());
                    let round_of = format!("round {} of {}", round + 1, args.rounds());
                    let what = format!("{}, {back}, {title}, {column}: {round_of}", path.title());
                    record.progress.say(&what);
                    record.rows.push(one.measure(back_end, requests, round, args.seconds())?);
                }
            }
        }
    }
    Ok(())
}

fn tables(found: &StorageFound, is_brief: bool) -> String {
    let mut text = format!("{}; {}\n", found.machine, found.tasuki);
    for skipped in &found.skipped {
        text += &format!("\nSKIP {skipped}\n");
    }
    let names: Vec<&str> = TRANSPORTS.iter().map(|transport| transport.name).collect();
    let rows = &found.rows;
    let (transports, peers, blocks) = if is_brief {
        let [peers, blocks] = [table::brief::peers(rows), table::brief::blocks(rows)];
        (table::brief::transports(rows, &names), peers, blocks)
    } else {
        (table::transports(rows, &names), table::peers(rows), table::blocks(rows))
    };
    let parts = [
        ("Transports", transports),
        ("Peers", peers + &table::depth_one(rows)),
        ("Whole blocks above TCP", blocks),
        (
            "Sealing by the size of a record",
            if found.aead.is_empty() {
                String::new()
            } else {
                format!("\n{}", aead::markdown(&found.aead))
            },
        ),
    ];
    for (title, part) in parts.iter().filter(|(_, part)| !part.is_empty()) {
        text += &format!("\n## {title}\n{part}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::args::tests::of;
    use super::*;

    #[test]
    fn measurements_are_counted_before_any_is_made() {
        let count = |words: &str| measurements(&of(words));
        assert_eq!(count("--only aead").unwrap(), 1);
        let two = "--only transports --path wire,tap --back-end null --transport tls --rounds 5";
        assert_eq!(count(two).unwrap(), 2 * 5 * of("").requests().len());
        assert_eq!(count("--only aead,blocks --quick --rounds 2").unwrap(), 1 + 2 * 4 * 3);
        // Also where no transport is measured.
        assert!(count("--only aead --transport ipsec").is_err());
    }
}
