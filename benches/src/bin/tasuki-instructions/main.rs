//! `tasuki-instructions` counts the instructions of an operation in user space, by valgrind's
//! callgrind.
//!
//! A count is no time. But it is the same on every machine and under any load, within a few in a
//! thousand (hash tables have seeds). So a change of some per cent can be seen. `count` runs this
//! very program under callgrind, and gives it three functions by name:
//!
//! * callgrind counts within [`counting::counted_here`],
//! * it does not count within [`counting::left_out_here`],
//! * it writes its counts whenever [`counting::row_ends_here`] returns.
//!
//! The client of the program, the inet server, the driver and the far end of its device are in one
//! process. They are moved one after the other, so each is counted by itself ([`world`]).
//!
//! Gungraun (formerly iai-callgrind, 0.19) could do the part of this file, but not these rows. It
//! runs one function in a process of valgrind's and gives one sum for it. So each part of each
//! operation would be a process that first makes an instance, connects and warms up. Gungraun could
//! count the rows of the core alone, but that would be a second way to do one thing. It also needs
//! a second program of exactly the library's version, which no lock file of ours can name (`cargo
//! install gungraun-runner --version …`). This program needs valgrind alone.
//!
//! ```text layers
//! flows: bytes both ways over an instance
//! connects datagrams cores: short connections, datagrams, the core alone
//! world: an instance in this process
//! peer: the far end
//! counting: the marks that callgrind counts by
//! ```
#![forbid(unsafe_code)]

mod connects;
mod cores;
mod counting;
mod datagrams;
mod flows;
mod peer;
mod world;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use clap::{Parser, Subcommand};
use serde::{Deserialize, Serialize};

use crate::counting::{Party, Row};

/// Count the instructions of Tasuki's paths.
#[derive(Parser)]
#[command(name = "tasuki-instructions", version)]
struct Cli {
    #[command(subcommand)]
    command: What,
}

#[derive(Subcommand)]
enum What {
    /// Count them (needs valgrind).
    Count {
        /// Counts as JSON instead of tables.
        #[arg(long)]
        json: bool,
        /// Fail if a count is more than 2 % above the count in this file, which --save has written
        /// with the same compiler.
        #[arg(long, value_name = "FILE")]
        check: Option<PathBuf>,
        /// Write them to this file, for --check.
        #[arg(long, value_name = "FILE")]
        save: Option<PathBuf>,
        /// Count only rows with this in their name.
        #[arg(long, value_name = "TEXT", default_value = "")]
        only: String,
    },
    /// Runs the counted operations, and names the row of each.
    #[command(hide = true)]
    Run {
        /// As of `count`.
        #[arg(long, default_value = "")]
        only: String,
    },
}

/// How often a row that seems to cost more is counted again. Hash tables have seeds, and one row
/// (sends by POSIX calls, on) has two counts, 3 % apart.
const RECOUNTS: usize = 3;

/// How much a small count may grow, of which 2 % are less than an instruction.
const SMALL: u64 = 2;

/// Instructions of operations, in the order in which they were counted.
type Counts = Vec<Counted>;

/// The counts that a later run is compared with.
#[derive(Serialize, Deserialize)]
struct Saved {
    /// The output of `rustc --version`: another compiler makes other instructions.
    compiler: String,
    counts: Counts,
}

/// Instructions of an operation, by part.
#[derive(Serialize, Deserialize)]
struct Counted {
    title: String,
    parts: BTreeMap<Party, u64>,
}

fn main() -> Result<()> {
    match Cli::parse().command {
        What::Run { only } => {
            cores::all(false, &only)?;
            cores::all(true, &only)?;
            flows::all(&only)
        }
        What::Count { json, check, save, only } => {
            let counts = counted(&only)?;
            match json {
                true => println!("{}", serde_json::to_string_pretty(&counts)?),
                false => print!("{}", tables(&counts)),
            }
            if let Some(file) = &check {
                check_counts(&counts, &read_saved(&compiler()?, file)?)?;
            }
            if let Some(file) = save {
                let saved = Saved { compiler: compiler()?, counts };
                fs::write(file, serde_json::to_string_pretty(&saved)? + "\n")?;
            }
            Ok(())
        }
    }
}

/// Runs this program under callgrind.
fn counted(only: &str) -> Result<Counts> {
    if !cfg!(feature = "valgrind") {
        bail!("built without the feature `valgrind`: use `make bench-instructions`");
    }
    let folder = std::env::temp_dir().join(format!("tasuki-instructions-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let counts = counted_in(&folder, only);
    fs::remove_dir_all(&folder)?;
    counts
}

fn counted_in(folder: &Path, only: &str) -> Result<Counts> {
    let out = folder.join("out");
    let output = Command::new("valgrind")
        // `rep movsb` would count as an instruction for each byte; this leaves vectors of 32.
        .env("GLIBC_TUNABLES", "glibc.cpu.x86_rep_movsb_threshold=1073741824")
        // Threads take turns. Otherwise the threads that move things would hardly ever run.
        .args(["--quiet", "--fair-sched=yes", "--tool=callgrind"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .args(["--toggle-collect=*counted_here*", "--toggle-collect=*left_out_here*"])
        .arg("--dump-after=*row_ends_here*")
        .arg(std::env::current_exe()?)
        .args(["run", "--only", only])
        // It warns of each futex_waitv(2), for which there is another way.
        .stderr(Stdio::piped())
        .output()
        .context("starting valgrind (on Debian: apt-get install valgrind)")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("under valgrind this program ended with {}:\n{said}", output.status);
    }
    let mut counts = Counts::new();
    let rows = String::from_utf8(output.stdout)?;
    for (number, line) in rows.lines().enumerate() {
        let Row { title, part, operations } = serde_json::from_str(line)?;
        let file = folder.join(format!("out.{}", number + 1));
        let text = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
        let totals = text.lines().find_map(|line| line.strip_prefix("totals: "));
        let total: u64 = totals.context("a file of callgrind without totals")?.trim().parse()?;
        if total == 0 || operations == 0 {
            bail!("nothing was counted of {title}");
        }
        if counts.last().is_none_or(|last| last.title != title) {
            counts.push(Counted { title, parts: BTreeMap::new() });
        }
        let parts = counts.last_mut().map(|last| &mut last.parts);
        parts.map(|parts| parts.insert(part, total / u64::from(operations)));
    }
    Ok(counts)
}

/// As Markdown.
fn tables(counts: &[Counted]) -> String {
    let mut text = "| the core alone | instructions |\n|---|---:|\n".to_owned();
    for Counted { title, parts } in counts {
        if let Some(count) = parts.get(&Party::Core) {
            let _ = writeln!(text, "| {title} | {count} |");
        }
    }
    text += "\n| | program | inet server | driver | all |\n|---|---:|---:|---:|---:|\n";
    for Counted { title, parts } in counts {
        if parts.contains_key(&Party::Core) {
            continue;
        }
        let cell = |part| parts.get(&part).map(u64::to_string).unwrap_or_default();
        let [program, server, driver] = [Party::Program, Party::Server, Party::Driver].map(cell);
        let all: u64 = parts.values().sum();
        let _ = writeln!(text, "| {title} | {program} | {server} | {driver} | {all} |");
    }
    text
}

/// The compiler of this machine, which has built this program.
fn compiler() -> Result<String> {
    let output = Command::new("rustc").arg("--version").output().context("rustc --version")?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// The counts in a file that `--save` has written.
fn read_saved(compiler: &str, file: &Path) -> Result<Counts> {
    let text = fs::read(file).with_context(|| format!("{}", file.display()))?;
    let Saved { compiler: then, counts } = serde_json::from_slice(&text)
        .with_context(|| format!("{} is none that --save has written", file.display()))?;
    if then != compiler {
        bail!(
            "{} is of {then}, this is {compiler}: count with both sources and the same compiler",
            file.display()
        );
    }
    Ok(counts)
}

/// Fails if rows cost more than before, each time that they are counted.
fn check_counts(counts: &[Counted], before: &[Counted]) -> Result<()> {
    let mut sentences = Vec::new();
    for Counted { title, parts } in counts {
        let Some(before) = before.iter().find(|before| before.title == *title) else { continue };
        let mut increases = increases(parts, before);
        for _ in 0..RECOUNTS {
            if increases.is_empty() {
                break;
            }
            let again = counted(title)?;
            let again = again.iter().find(|again| again.title == *title);
            let again = again.map(|again| self::increases(&again.parts, before));
            increases.retain(|part, _| again.as_ref().is_some_and(|it| it.contains_key(part)));
        }
        sentences.extend(increases.into_values());
    }
    if !sentences.is_empty() {
        bail!("{}", sentences.join("\n"));
    }
    Ok(())
}

/// The parts of a row that cost more than before, each with a sentence.
fn increases(parts: &BTreeMap<Party, u64>, before: &Counted) -> BTreeMap<Party, String> {
    let grown = parts.iter().filter_map(|(part, &count)| {
        let was = *before.parts.get(part)?;
        let title = &before.title;
        (count > was + (was / 50).max(SMALL))
            .then(|| (*part, format!("{title}, {part:?}: {count} instructions instead of {was}")))
    });
    grown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_runs_without_valgrind() {
        cores::all(false, "").expect("the core");
        cores::all(true, "").expect("the core with super-segments");
        flows::all("").expect("all flows");
    }

    #[test]
    fn a_row_that_costs_more_is_named() {
        let row = |count| Counted {
            title: "a".into(),
            parts: BTreeMap::from([(Party::Core, count), (Party::Server, 50)]),
        };
        assert_eq!(increases(&row(102).parts, &row(100)), BTreeMap::new());
        let sentence = "a, Core: 103 instructions instead of 100".to_owned();
        let expected = BTreeMap::from([(Party::Core, sentence)]);
        assert_eq!(increases(&row(103).parts, &row(100)), expected);
    }

    #[test]
    fn counts_of_another_compiler_are_refused() {
        let file = std::env::temp_dir().join(format!("tasuki-saved-{}", std::process::id()));
        let saved = Saved { compiler: "rustc 1".into(), counts: Counts::new() };
        fs::write(&file, serde_json::to_string(&saved).unwrap()).unwrap();
        assert!(read_saved("rustc 1", &file).unwrap().is_empty());
        let error = read_saved("rustc 2", &file).err().expect("another compiler").to_string();
        assert!(error.contains("is of rustc 1, this is rustc 2"), "{error}");
        fs::remove_file(&file).unwrap();
    }
}
