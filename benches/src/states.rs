//! `tasuki-bench states`: round trips where idle processors halt, and where they do not.
//!
//! A virtual processor without work halts, and waking it takes 5 to 60 µs. Round trips then consist
//! of wake-ups. The same machine is in another state while something keeps its processors awake. So
//! each round measures every set-up in both states: as the machine is, and beside a process of the
//! lowest priority (SCHED_IDLE) on each processor. Nothing is tied to a processor.
//!
//! The cost of a wake-up, steal time and load stand beside each state. They tell a reader whether
//! the run is worth anything: steal or load of others makes all figures longer.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::args::Congestion;
use crate::clients::output_of;
use crate::hosts::{Host, Programs};
use crate::machine::{MachineState, Spinners, Watch};
use crate::median::median;
use crate::row::Sample;
use crate::setup::{Role, Setup};

/// What `states` runs.
#[derive(Args)]
pub(crate) struct StatesArgs {
    /// The `tasuki` command.
    #[arg(long, env = "TASUKI_BIN", default_value = "target/release/tasuki")]
    tasuki: PathBuf,
    /// The set-ups, the kernel's first: ratios are to it.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "linux-off,split-off,fused-off"
    )]
    only: Vec<Setup>,
    /// Bytes of a request.
    #[arg(long, default_value_t = 64)]
    size: u32,
    /// Round trips of each set-up in a state and round.
    #[arg(long, default_value_t = 5000)]
    count: u32,
    /// Rounds, in which everything takes turns; medians are over them.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Print the result as JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// Whether idle processors halt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Halting {
    /// As the machine is.
    Halt,
    /// A process keeps each awake.
    Awake,
}

/// A figure of one set-up in one round.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct StateTrip {
    halting: Halting,
    setup: Setup,
    round: u32,
    median_us: f64,
    p99_us: f64,
    #[serde(flatten)]
    machine: MachineState,
}

/// Measures.
pub(crate) fn run(args: &StatesArgs) -> Result<()> {
    let trips = measure(args)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&trips)?);
    } else {
        print!("{}", table(&trips));
    }
    Ok(())
}

fn measure(args: &StatesArgs) -> Result<Vec<StateTrip>> {
    let tasuki = &args.tasuki;
    ensure!(tasuki.exists(), "{} is not there: `make build` makes it", tasuki.display());
    let programs = Programs::new(tasuki, Path::new("target/peers"))?;
    let congestion = Congestion::cubic();
    let host = |&setup: &Setup| Host::new(setup, Role::Client, &programs, &congestion, false);
    let hosts = args.only.iter().map(host).collect::<Result<Vec<_>>>()?;
    let mut trips = Vec::new();
    for round in 0..args.rounds {
        eprintln!("states: round {} of {}", round + 1, args.rounds);
        let mut states = [Halting::Halt, Halting::Awake];
        states.rotate_left(round as usize % 2);
        for halting in states {
            let kept = (halting == Halting::Awake).then(Spinners::on_each_processor).transpose()?;
            // In every other round another one is first.
            let turn = |at: usize| if round % 4 < 2 { at } else { hosts.len() - 1 - at };
            for host in (0..hosts.len()).map(|at| &hosts[turn(at)]) {
                let (median_us, p99_us, machine) = trip(host, args).context(host.title())?;
                let setup = host.setup();
                trips.push(StateTrip { halting, setup, round, median_us, p99_us, machine });
            }
            drop(kept);
        }
    }
    Ok(trips)
}

/// Median and 99th percentile of one client.
fn trip(host: &Host, args: &StatesArgs) -> Result<(f64, f64, MachineState)> {
    let arguments = [
        "--test=rtt".to_owned(),
        format!("--size={}", args.size),
        format!("--count={}", args.count),
    ];
    let watch = Watch::new()?;
    let said = output_of(host, &arguments, None)?;
    let machine = watch.end()?;
    let sample: Sample = serde_json::from_str(&said).context("the client's sample")?;
    let median_us = sample.median_us.context("a median")?;
    Ok((median_us, sample.p99_us.context("a 99th percentile")?, machine))
}

/// The median of the ratios of a set-up's median round trip to that of the first set-up, in the
/// same round and state.
pub(crate) fn ratio(trips: &[StateTrip], halting: Halting, setup: Setup) -> Option<f64> {
    figure_ratio(trips, halting, setup, |trip| trip.median_us)
}

fn figure_ratio(
    trips: &[StateTrip],
    halting: Halting,
    setup: Setup,
    figure: fn(&StateTrip) -> f64,
) -> Option<f64> {
    let base = trips.first()?.setup;
    let of =
        |setup| trips.iter().filter(move |trip| (trip.halting, trip.setup) == (halting, setup));
    let ratios = of(setup).filter_map(|trip| {
        let same = of(base).find(|base| base.round == trip.round)?;
        Some(figure(trip) / figure(same))
    });
    median(ratios.collect())
}

/// As Markdown: a row for each state and set-up.
pub(crate) fn table(trips: &[StateTrip]) -> String {
    let mut text =
        "| idle processors | wake-up µs | steal % | load | set-up | median µs | p99 µs |\n\
                    |---|---:|---:|---:|---|---:|---:|\n"
            .to_owned();
    let Some(base) = trips.first().map(|trip| trip.setup) else { return text };
    let mut setups: Vec<Setup> = Vec::new();
    for trip in trips {
        if !setups.contains(&trip.setup) {
            setups.push(trip.setup);
        }
    }
    for halting in [Halting::Halt, Halting::Awake] {
        let state = if halting == Halting::Halt { "halt" } else { "are kept awake" };
        for &setup in &setups {
            let of = |setup| {
                trips.iter().filter(move |trip| (trip.halting, trip.setup) == (halting, setup))
            };
            let middle = |figure: fn(&StateTrip) -> f64| median(of(setup).map(figure).collect());
            let cell = |figure: fn(&StateTrip) -> f64| {
                let ratio = figure_ratio(trips, halting, setup, figure);
                let value = middle(figure).unwrap_or(f64::NAN);
                match ratio.filter(|_| setup != base) {
                    Some(ratio) => format!("{value:.1} ({ratio:.2}x)"),
                    None => format!("{value:.1}"),
                }
            };
            let figure = |figure| format!("{:.1}", middle(figure).unwrap_or(f64::NAN));
            let cells = [
                state.to_owned(),
                figure(|trip| trip.machine.wake_up_us),
                figure(|trip| trip.machine.steal_percent),
                figure(|trip| trip.machine.load),
                setup.title().to_owned(),
                cell(|trip| trip.median_us),
                cell(|trip| trip.p99_us),
            ];
            text += &format!("| {} |\n", cells.join(" | "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_its_rows_and_ratios() {
        let machine = MachineState { wake_up_us: 25.04, steal_percent: 0.5, load: 1.0 };
        let trip = |halting, setup, round, median_us| StateTrip {
            halting,
            setup,
            round,
            median_us,
            p99_us: 2.0 * median_us,
            machine,
        };
        let trips = [
            trip(Halting::Halt, Setup::LinuxOff, 0, 100.0),
            trip(Halting::Halt, Setup::SplitOff, 0, 50.0),
            trip(Halting::Halt, Setup::LinuxOff, 1, 10.0),
            trip(Halting::Halt, Setup::SplitOff, 1, 20.0),
            trip(Halting::Awake, Setup::LinuxOff, 0, 30.0),
            trip(Halting::Awake, Setup::SplitOff, 0, 15.0),
        ];
        assert_eq!(ratio(&trips, Halting::Halt, Setup::SplitOff), Some(1.25));
        assert_eq!(ratio(&trips, Halting::Awake, Setup::FusedOff), None);
        let text = table(&trips);
        let rows: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| halt | 25.0 | 0.5 | 1.0 | Linux | 55.0 | 110.0 |",
                "| halt | 25.0 | 0.5 | 1.0 | split | 35.0 (1.25x) | 70.0 (1.25x) |",
                "| are kept awake | 25.0 | 0.5 | 1.0 | Linux | 30.0 | 60.0 |",
                "| are kept awake | 25.0 | 0.5 | 1.0 | split | 15.0 (0.50x) | 30.0 (0.50x) |",
            ]
        );
    }
}
