//! `tasuki-bench programs` measures round trips of several programs at once on one instance. In one
//! set-up waits spin before they sleep (`instance.busy_poll`), in the other they do not.
//!
//! The server is a kernel program on the same machine. So on two processors one program leaves none
//! free, and four need twice the processors there are. Spinning must not cost them more than it
//! saves.
//!
//! Streams of several programs at once are in [`mod@at_once`].

mod at_once;

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::instruments::{Instance, Making};
use crate::median::median;
use crate::setup::Build;

pub(crate) use self::at_once::{AtOnceArgs, run as at_once};

/// What `programs` runs.
#[derive(Args)]
pub(crate) struct ProgramsArgs {
    /// The `tasuki` command.
    #[arg(long, env = "TASUKI_BIN", default_value = "target/release/tasuki")]
    tasuki: PathBuf,
    /// How many programs at a time.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4")]
    programs: Vec<u32>,
    /// How long waits look again: microseconds, or auto.
    #[arg(long, value_delimiter = ',', default_value = "0,50,auto")]
    busy_poll: Vec<BusyPollChoice>,
    /// Round trips of 64 bytes of each program.
    #[arg(long, default_value_t = 2000)]
    count: u32,
    /// Rounds, in which everything takes turns; medians are over them.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Print the result as JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// A value of `instance.busy_poll`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
enum BusyPollChoice {
    Micros(u32),
    Word(String),
}

impl std::str::FromStr for BusyPollChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Word(text.to_owned())),
            _ => text.parse().map(Self::Micros).map_err(|_| "microseconds, or auto".to_owned()),
        }
    }
}

impl BusyPollChoice {
    /// As the configuration has it.
    fn toml(&self) -> String {
        match self {
            Self::Micros(micros) => micros.to_string(),
            Self::Word(word) => format!("{word:?}"),
        }
    }
}

/// A median of one round: that of the programs' medians.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Trip {
    /// split or fused.
    mode: String,
    /// Instance and programs on one processor, the server on the other.
    pinned: bool,
    programs: u32,
    busy_poll: BusyPollChoice,
    median_us: f64,
}

/// Measures.
pub(crate) fn run(args: &ProgramsArgs) -> Result<()> {
    let config = std::env::temp_dir().join(format!("bench-{}.toml", std::process::id()));
    let measured = measure(args, &config);
    // Without it nothing was measured.
    let _ = fs::remove_file(&config);
    let trips = measured?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&trips)?);
    } else {
        print!("{}", table(&trips));
    }
    Ok(())
}

fn measure(args: &ProgramsArgs, config: &Path) -> Result<Vec<Trip>> {
    let mut trips = Vec::new();
    for round in 1..=args.rounds {
        eprintln!("programs: round {round} of {}", args.rounds);
        for (pinned, mode) in [(true, "split"), (true, "fused"), (false, "split"), (false, "fused")]
        {
            for busy_poll in &args.busy_poll {
                fs::write(config, format!("[instance]\nbusy_poll = {}\n", busy_poll.toml()))?;
                let config = Some(config);
                let (tasuki, build) = (&args.tasuki, Build::New);
                let instance = Instance::made(&Making { tasuki, mode, pinned, config, build })?;
                for &programs in &args.programs {
                    let median_us = together(&instance, programs, args.count)?;
                    let mode = mode.to_owned();
                    let busy_poll = busy_poll.clone();
                    trips.push(Trip { mode, pinned, programs, busy_poll, median_us });
                }
            }
        }
    }
    Ok(trips)
}

/// The median of the medians of programs that run at once.
fn together(instance: &Instance, programs: u32, count: u32) -> Result<f64> {
    let count = count.to_string();
    let words = ["client", "--test", "rtt", "--size", "64", "--count", &count];
    let start = |_| instance.client(&words)?.stdout(Stdio::piped()).spawn().context("a program");
    let started: Vec<_> = (0..programs).map(start).collect::<Result<_>>()?;
    let mut medians = Vec::new();
    for mut program in started {
        let mut said = String::new();
        program.stdout.take().context("its output")?.read_to_string(&mut said)?;
        if !program.wait()?.success() {
            bail!("a program failed: {said}");
        }
        let said: Value = serde_json::from_str(&said)?;
        medians.push(said["median_us"].as_f64().context("the client's median")?);
    }
    median(medians).context("no programs")
}

/// A table, a row for each mode and number of programs.
pub(crate) fn table(trips: &[Trip]) -> String {
    let mut polls: Vec<&BusyPollChoice> = trips.iter().map(|trip| &trip.busy_poll).collect();
    polls.sort_unstable();
    polls.dedup();
    let mut rows: Vec<_> =
        trips.iter().map(|trip| (!trip.pinned, trip.programs, trip.mode.as_str())).collect();
    rows.sort_unstable();
    rows.dedup();
    let heads: String = polls.iter().map(|poll| format!(" busy_poll {} |", poll.toml())).collect();
    let lines = "---:|".repeat(polls.len());
    let mut text = format!("| processors | programs | mode |{heads}\n|---|---:|---|{lines}\n");
    for (spread, programs, mode) in rows {
        let place = if spread { "as scheduled" } else { "one for Tasuki and programs" };
        text += &format!("| {place} | {programs} | {mode} |");
        for poll in &polls {
            let same = |trip: &&Trip| {
                (!trip.pinned, trip.programs, trip.mode.as_str(), &trip.busy_poll)
                    == (spread, programs, mode, *poll)
            };
            let all = trips.iter().filter(same).map(|trip| trip.median_us).collect();
            text += &median(all).map_or_else(|| " |".to_owned(), |us| format!(" {us:.1} |"));
        }
        text.push('\n');
    }
    text
}
