//! `tasuki-bench fairness`: what a client notices while a neighbour does its worst.
//!
//! Each kind of worst gets a fresh instance in each round. There an honest client measures round
//! trips and throughput twice: alone, and while the kind goes on. The scales are threads that only
//! compute: processors are shared by all programs of a machine, and that is the kernel's to divide.
//!
//! An instance alone has a round trip of one of two lengths, about 22 or 35 µs on two processors:
//! the kernel places its processes by chance, and they stay there. So a kind is not compared with
//! its own instance alone, but with the median of all instances of the run ([`outcome`]).
//!
//! Wanted of each kind:
//!
//! * The median round trip is at most twice that of the baseline, or the one beside a scale with as
//!   many threads if that is longer.
//! * Throughput is at least the fair share: half of what is left to the client beside that scale,
//!   since two clients compete for the same servers.
//!
//! A host in mode `library` has its instance to itself, and a hostile driver can end its instance
//! by ending itself. So neither has a kind.

mod client_kinds;
mod control_kinds;
mod host_kinds;
mod kind;
mod member;
mod neighbour;
mod outcome;
mod program;
mod user_kinds;
mod wire_kinds;
mod worst;

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum as _};

use self::kind::{Kind, Side};
use self::neighbour::Measured;
use self::outcome::{Fairness, FairnessOutcome};
use crate::instruments::{Instance, Making};
use crate::setup::Build;

pub(crate) use self::neighbour::{NeighbourArgs, run as neighbour};
pub(crate) use self::program::WorstArgs;
pub(crate) use self::worst::run as worst;

/// What `fairness` runs.
#[derive(Args)]
pub(crate) struct FairnessArgs {
    /// The `tasuki` command.
    #[arg(long, env = "TASUKI_BIN", default_value = "target/release/tasuki")]
    tasuki: PathBuf,
    /// How the instance is made: split or fused.
    #[arg(long, default_value = "split")]
    mode: String,
    /// Only these kinds. The scales are always measured, and as many instances more, alone, as the
    /// baseline needs.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Kind>,
    /// Rounds, in which all kinds take turns; medians are over them. Ratios are to the baseline:
    /// the median of all instances of the run alone, whatever kind they were made for.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Milliseconds of a measurement, half for round trips and half for throughput.
    #[arg(long, default_value_t = 1200)]
    millis: u32,
    /// Print the result as JSON instead of a table: the baseline, and each kind in each round.
    #[arg(long)]
    json: bool,
}

/// Measures.
pub(crate) fn run(args: &FairnessArgs) -> Result<()> {
    let mut found = Vec::new();
    let all: Vec<Kind> = Kind::value_variants().to_vec();
    let scale = |kind: &Kind| kind.side() == Side::Nowhere;
    let kinds: Vec<Kind> = all
        .into_iter()
        .filter(|kind| args.only.is_empty() || scale(kind) || args.only.contains(kind))
        .collect();
    for round in 1..=args.rounds {
        for kind in &kinds {
            eprintln!("fairness: round {round} of {}, {}", args.rounds, kind.name());
            match one(args, *kind, round) {
                Ok(one) => found.push(one),
                Err(error) => eprintln!("fairness: {}: {error:#}", kind.name()),
            }
        }
    }
    let mut alone: Vec<Measured> = found.iter().map(|one| one.alone).collect();
    for number in found.len()..LEAST_INSTANCES {
        eprintln!("fairness: instance {} of {LEAST_INSTANCES} alone", number + 1);
        match measure_alone(&mut prepare(args, None)?, args.millis) {
            Ok(measured) => alone.push(measured),
            Err(error) => eprintln!("fairness: alone: {error:#}"),
        }
    }
    let outcome = FairnessOutcome::new(&alone, found).context("no instance was measured")?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&outcome)?);
    } else {
        print!("{}", outcome.table());
    }
    Ok(())
}

/// The honest client as a running program.
struct Neighbour {
    child: Child,
    orders: ChildStdin,
    said: BufReader<ChildStdout>,
}

impl Neighbour {
    fn start(instance: &Instance) -> Result<Self> {
        let mut command = instance.client(&["neighbour"])?;
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let orders = child.stdin.take().context("its input")?;
        let said = BufReader::new(child.stdout.take().context("its output")?);
        let mut neighbour = Self { child, orders, said };
        neighbour.line()?;
        Ok(neighbour)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.said.read_line(&mut line)? == 0 {
            bail!("the neighbour ended");
        }
        Ok(line)
    }

    fn measure(&mut self, millis: u32) -> Result<Measured> {
        writeln!(self.orders, "{millis}")?;
        Ok(serde_json::from_str(&self.line()?)?)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program that does the worst.
struct Worst(Child);

impl Worst {
    /// Starts it, and waits until it has begun, but not for long.
    fn start(instance: &Instance, kind: Kind, wire: &WirePath) -> Result<Self> {
        let mut command: Command = instance.worst(&kind.name())?;
        if kind.side() == Side::Wire {
            command.arg("--wire").arg(&wire.path);
        }
        let mut child = command.stdout(Stdio::piped()).process_group(0).spawn()?;
        let said = child.stdout.take().context("its output")?;
        let worst = Self(child);
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = BufReader::new(said).read_line(&mut line);
            // Nobody may be interested any more.
            let _ = tell.send(read.is_ok_and(|len| len > 0));
        });
        if !told.recv_timeout(PREPARATION).unwrap_or(true) {
            bail!("it ended before it began");
        }
        Ok(worst)
    }
}

/// What a kind may take to be prepared; then it is measured all the same.
const PREPARATION: Duration = Duration::from_secs(6);
/// Before the measurement: queues fill, and the kind's own pace is taken.
const SETTLING: Duration = Duration::from_millis(150);

/// Calls and frames of an instance in a second, while only the kind uses it. A flood that has
/// stopped harms nobody, so the table shows whether it goes on. `None`: the instance did not tell.
fn own_pace(instance: &Instance) -> Option<f64> {
    let count = || {
        let counters = instance.counters().ok()?;
        let of = |name| counters.get(name).copied().unwrap_or(0);
        Some(of("calls.executed") + of("link.frames-in") + of("link.frames-out"))
    };
    let (before, begun) = (count(), Instant::now());
    std::thread::sleep(SETTLING);
    let (after, seconds) = (count()?, begun.elapsed().as_secs_f64());
    Some(after.saturating_sub(before?) as f64 / seconds)
}

impl Drop for Worst {
    fn drop(&mut self) {
        // Its processes are a group of their own.
        if let Some(group) = rustix::process::Pid::from_raw(self.0.id().cast_signed()) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// The path of a wire that an instance has as its second interface, and the configuration of such
/// an instance.
struct WirePath {
    path: PathBuf,
    config: PathBuf,
}

impl WirePath {
    fn new() -> Result<Self> {
        let at = |kind| format!("/tmp/tasuki-bench-{}.{kind}", std::process::id());
        let made = Self { path: at("wire").into(), config: at("toml").into() };
        std::fs::write(&made.config, wire_kinds::config(&at("wire")))?;
        Ok(made)
    }
}

impl Drop for WirePath {
    fn drop(&mut self) {
        // The supervisor has removed the socket, if all went well.
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(&self.config);
    }
}

/// Instances that the baseline has at least.
const LEAST_INSTANCES: usize = 15;

/// A fresh instance with its honest client.
struct Prepared {
    neighbour: Neighbour,
    instance: Instance,
}

fn prepare(args: &FairnessArgs, config: Option<&Path>) -> Result<Prepared> {
    let (tasuki, mode, build) = (&args.tasuki, &args.mode, Build::New);
    let how = Making { tasuki, mode, pinned: false, config, build };
    let instance = Instance::made(&how)?;
    let neighbour = Neighbour::start(&instance)?;
    Ok(Prepared { neighbour, instance })
}

fn measure_alone(prepared: &mut Prepared, millis: u32) -> Result<Measured> {
    // The first measurement finds everything cold.
    prepared.neighbour.measure(millis / 8)?;
    prepared.neighbour.measure(millis)
}

fn one(args: &FairnessArgs, kind: Kind, round: u32) -> Result<Fairness> {
    let wire = WirePath::new()?;
    let config = (kind.side() == Side::Wire).then_some(wire.config.as_path());
    let mut prepared = prepare(args, config)?;
    let alone = measure_alone(&mut prepared, args.millis)?;
    let Prepared { neighbour, instance } = &mut prepared;
    let worst = Worst::start(instance, kind, &wire)?;
    let own_pace = own_pace(instance);
    let begun = Instant::now();
    // What another user does to the runtime directory concerns operators above all.
    let operated = if kind.side() == Side::User { instance.make_another() } else { Ok(()) };
    let beside = operated.and_then(|()| neighbour.measure(args.millis));
    if let Err(error) = &beside {
        eprintln!("fairness: {}: {error:#} after {:?}", kind.name(), begun.elapsed());
    }
    drop(worst);
    Ok(Fairness { kind, round, own_pace, alone, beside: beside.ok() })
}
