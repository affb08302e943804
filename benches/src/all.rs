//! `tasuki-bench all` makes everything that docs/performance.md shows, one part after the other.
//!
//! Each part runs as this very program, with the words of the part and `--json`. So no part changes
//! the result of another by the processors that it is tied to, or by the memory that it holds.
//! After each part all results so far are written to a file. `targets` and `tables` read that file.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;

use crate::found::{Found, read};
use crate::instruments::{hops_table, stages_table};
use crate::{calls, described, devices, handover, programs, report, states, targets};

/// What `all` runs.
#[derive(Args)]
pub(crate) struct AllArgs {
    /// The `tasuki` command.
    #[arg(long, env = "TASUKI_BIN", default_value = "target/release/tasuki")]
    tasuki: PathBuf,
    /// Rounds of `compare`, in which its set-ups take turns.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// A tenth of everything: to see that it works.
    #[arg(long)]
    quick: bool,
    /// Only these parts.
    #[arg(long, value_delimiter = ',', default_values_t = PARTS.map(str::to_owned))]
    only: Vec<String>,
    /// The file for all results. Results of other parts, from another run, stay in it.
    #[arg(long, default_value = "target/bench.json")]
    out: PathBuf,
    /// Print the results as JSON instead of tables.
    #[arg(long)]
    json: bool,
}

/// A file that `all` has written.
#[derive(Args)]
pub(crate) struct FileArgs {
    /// The results of `tasuki-bench all`.
    #[arg(default_value = "target/bench.json")]
    file: PathBuf,
    /// As JSON instead of a table.
    #[arg(long)]
    json: bool,
}

const PARTS: [&str; 9] =
    ["idle", "calls", "devices", "handover", "hops", "stages", "programs", "states", "compare"];

/// Measures everything and prints targets and tables.
pub(crate) fn run(args: &AllArgs) -> Result<()> {
    if let Some(unknown) = args.only.iter().find(|part| !PARTS.contains(&part.as_str())) {
        bail!("`{unknown}` is none of {}", PARTS.join(", "));
    }
    let mut found = read(&args.out).unwrap_or_default();
    found.machine = described::machine();
    found.tasuki = described::tasuki(&args.tasuki)?;
    found.failures.clear();
    found.seconds.retain(|(part, _)| !args.only.contains(part));
    for part in PARTS.into_iter().filter(|part| args.only.iter().any(|only| only == part)) {
        let began = Instant::now();
        measure(part, args, &mut found);
        found.seconds.push((part.to_owned(), began.elapsed().as_secs()));
        if let Some(folder) = args.out.parent() {
            fs::create_dir_all(folder)?;
        }
        let text = serde_json::to_string_pretty(&found)?;
        fs::write(&args.out, text).with_context(|| format!("{}", args.out.display()))?;
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&found)?);
    } else {
        print!("{}", tables_of(&found));
    }
    if !found.failures.is_empty() {
        bail!("some parts failed: {}", found.failures.join("; "));
    }
    Ok(())
}

/// One part, all figures of which are new then.
fn measure(part: &str, args: &AllArgs, found: &mut Found) {
    let tasuki = args.tasuki.to_string_lossy().into_owned();
    let with = |words: &[&str]| -> Vec<String> {
        words
            .iter()
            .map(|word| (*word).to_owned())
            .chain(["--tasuki".into(), tasuki.clone()])
            .collect()
    };
    let pick = |full: &'static str, quick: &'static str| if args.quick { quick } else { full };
    let failures = &mut found.failures;
    match part {
        "compare" => {
            let rounds = args.rounds.to_string();
            let mut words = with(&["compare", "--rounds", &rounds]);
            words.extend(args.quick.then(|| "--quick".to_owned()));
            found.compare = ask(&words, failures).unwrap_or_default();
        }
        "programs" => {
            let words = with(&["programs", "--rounds", pick("5", "1")]);
            found.programs = ask(&words, failures).unwrap_or_default();
        }
        "states" => {
            let words =
                with(&["states", "--rounds", pick("5", "1"), "--count", pick("5000", "500")]);
            found.states = ask(&words, failures).unwrap_or_default();
        }
        "calls" => {
            let words = ["calls", "--count", "1,10,100,1000", "--millis", pick("20", "2")];
            found.calls = ask(&words.map(str::to_owned), failures);
        }
        "devices" => {
            let words = ["devices", "--rounds", pick("200", "5")].map(str::to_owned);
            found.devices = ask(&words, failures).unwrap_or_default();
        }
        "handover" => {
            let words = ["handover", "--rounds", pick("50", "5")].map(str::to_owned);
            found.handover = ask(&words, failures).unwrap_or_default();
        }
        _ => {
            let mut each = Vec::new();
            for mode in ["split", "fused"] {
                let mut words = with(&[part, "--mode", mode]);
                if part != "idle" {
                    words.extend(["--count", pick("1000", "300")].map(str::to_owned));
                }
                each.extend(ask::<Value>(&words, failures));
            }
            let each = Value::from(each);
            // This program wrote the value, so it can read it.
            match part {
                "idle" => found.idle = serde_json::from_value(each).unwrap_or_default(),
                "hops" => found.hops = serde_json::from_value(each).unwrap_or_default(),
                _ => found.stages = serde_json::from_value(each).unwrap_or_default(),
            }
        }
    }
}

/// The JSON that this program prints for these words, also if it ends with an error after it.
fn ask<T: serde::de::DeserializeOwned>(words: &[String], failures: &mut Vec<String>) -> Option<T> {
    eprintln!("==> tasuki-bench {}", words.join(" "));
    let said = || -> Result<(T, bool)> {
        let mut command = Command::new(std::env::current_exe()?);
        let output = command.args(words).arg("--json").stderr(Stdio::inherit()).output()?;
        let said = serde_json::from_slice(&output.stdout);
        Ok((
            said.with_context(|| format!("it ended with {}", output.status))?,
            output.status.success(),
        ))
    };
    let (said, fine) = match said() {
        Ok((said, fine)) => (Some(said), fine),
        Err(error) => {
            eprintln!("{error:#}");
            (None, false)
        }
    };
    if !fine {
        failures.push(words.join(" "));
    }
    said
}

/// Prints the table of targets.
pub(crate) fn targets(args: &FileArgs) -> Result<()> {
    let targets = targets::of(&read(&args.file)?);
    let text = match args.json {
        true => serde_json::to_string_pretty(&targets)? + "\n",
        false => targets::table(&targets),
    };
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

/// Prints all tables.
pub(crate) fn tables(args: &FileArgs) -> Result<()> {
    let found = read(&args.file)?;
    let text = match args.json {
        true => serde_json::to_string_pretty(&found)? + "\n",
        false => tables_of(&found),
    };
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

fn tables_of(found: &Found) -> String {
    let mut text = format!("{}; {}\n", found.machine, found.tasuki);
    let times = found.seconds.iter().map(|(part, seconds)| format!("{part} {seconds} s"));
    text += &format!("{}\n", times.collect::<Vec<_>>().join(", "));
    text += &format!("\n## Targets\n\n{}", targets::table(&targets::of(found)));
    text += &report::markdown(&found.compare);
    if let Some(report) = &found.calls {
        text += &format!("\n## Packaged calls\n\n{}", calls::tables(report));
    }
    if !found.handover.is_empty() {
        text += &format!("\n## Hand-over of areas\n\n{}", handover::table(&found.handover));
    }
    if !found.devices.is_empty() {
        text += &format!("\n## Devices by themselves\n{}", devices::tables(&found.devices));
    }
    if !found.programs.is_empty() {
        let table = programs::table(&found.programs);
        text += &format!("\n## Several programs, round trip in µs\n\n{table}");
    }
    if !found.states.is_empty() {
        let table = states::table(&found.states);
        text += &format!("\n## Round trips with and without halts\n\n{table}");
    }
    for hops in &found.hops {
        text += &format!("\n## Bells and sleeps of an operation\n\n{}", hops_table(hops));
    }
    for stages in &found.stages {
        text += &format!("\n## Stages\n\n{}", stages_table(stages));
    }
    text
}
