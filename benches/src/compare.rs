//! All measurements over all set-ups, in rounds.
//!
//! Set-ups with the same base and role ([`ComparedKind`]) are measured by the engine of the lab:
//! they take turns measurement by measurement, so a drift of the machine's speed meets compared
//! set-ups alike. A measurement that fails or takes longer than [`PATIENCE`] is reported, listed and
//! left out; all others go on.

mod kind;
mod measures;
mod paired;
mod record;

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::ValueEnum as _;

use self::kind::ComparedKind;
use self::record::Record;
use crate::args::CompareArgs;
use crate::hosts::{Host, Programs};
use crate::machine::Watch;
use crate::processor_time::{self, KernelThreads};
use crate::protocol::Test;
use crate::report;
use crate::row::Row;
use crate::setup::{Build, Role, Setup};

struct Plan {
    test: &'static str,
    sizes: &'static str,
    /// Bytes without offloads. They take a quarter of a second at least, since short transfers
    /// favour a stack that begins fast.
    slow: u64,
    /// Bytes where they come in super-segments.
    fast: u64,
    count: u32,
    with_cpu: bool,
}

const MIB: u64 = 1 << 20;
const SWEEP: &str = "1024,4096,16384,65536,262144,1048576,4194304";
const SEND: Plan = Plan {
    test: "send",
    sizes: SWEEP,
    slow: 256 * MIB,
    fast: 512 * MIB,
    count: 0,
    with_cpu: false,
};
const SEND_CPU: Plan =
    Plan { sizes: "65536", slow: 512 * MIB, fast: 2048 * MIB, with_cpu: true, ..SEND };
static PLANS: [Plan; 7] = [
    SEND,
    Plan { test: "receive", ..SEND },
    Plan { test: "rtt", sizes: "4,64,256,1024,2048,4096,8192", count: 2000, ..SEND },
    Plan { test: "connect", sizes: "64", count: 1000, ..SEND },
    Plan { test: "turns", sizes: "64", count: 500, ..SEND },
    SEND_CPU,
    Plan { test: "receive", ..SEND_CPU },
];

/// The most time for one command of a client: thirty times that of the slowest.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often we look whether it is over.
const LOOK: Duration = Duration::from_millis(5);

impl Plan {
    /// Was it asked for?
    fn is_wanted(&self, args: &CompareArgs) -> bool {
        let is_it =
            |test: &Test| test.to_possible_value().is_some_and(|it| it.matches(self.test, false));
        args.test.is_empty() || args.test.iter().any(is_it)
    }

    /// The sizes for this set-up. `None`: this measurement does not run there. The native API is
    /// for bytes in bulk only. Processor time is that of a client's command.
    fn sizes(&self, setup: Setup, role: Role) -> Option<&'static str> {
        if self.with_cpu && role == Role::Server {
            return None;
        }
        if self.test == "turns" && (role == Role::Server || !setup.has_several_processes()) {
            return None;
        }
        let native = setup.tasuki().is_some_and(|tasuki| tasuki.native);
        match (native, self.test, self.with_cpu) {
            (true, "send" | "receive", false) => Some(SWEEP),
            (true, "send" | "receive", true) | (false, ..) => Some(self.sizes),
            (true, ..) => None,
        }
    }
}

/// Run everything and print it.
pub(crate) fn run(args: &CompareArgs) -> Result<()> {
    let builds = builds(args)?;
    let kinds = kinds(args, &builds);
    let mut record = Record::new(args, kinds.len())?;
    let mut rows = Vec::new();
    for mut kind in kinds {
        record.measure(&mut kind)?;
        rows.extend(kind.into_rows());
    }
    let failures = record.end()?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        let (new, before): (Vec<Row>, Vec<Row>) =
            rows.into_iter().partition(|row| row.build == Build::New);
        print!("{}{}", report::markdown(&new), paired::markdown(&new, &before));
    }
    if !failures.is_empty() {
        bail!("{} measurements failed:\n{}", failures.len(), failures.join("\n"));
    }
    Ok(())
}

/// The kinds of set-ups that were asked for, in each role.
fn kinds<'a>(args: &'a CompareArgs, builds: &'a [Programs]) -> Vec<ComparedKind<'a>> {
    let wanted: &[Setup] = if args.only.is_empty() { &Setup::ALL } else { &args.only };
    let bases =
        Setup::BASES.iter().flat_map(|(base, _)| args.role.iter().map(|role| (*base, *role)));
    let kind = |(base, role): (Setup, Role)| {
        let setups = wanted.iter().filter(move |it| it.base() == base && it.has(role));
        let members = setups
            .flat_map(|&setup| builds_of(builds, setup).iter().map(move |build| (setup, build)));
        let plans = PLANS.iter().filter(|plan| plan.is_wanted(args)).collect();
        ComparedKind::new(args, (base, role), members, plans)
    };
    bases.map(kind).filter(|kind| !kind.is_empty()).collect()
}

/// The builds of Tasuki that are measured, the new one first.
fn builds(args: &CompareArgs) -> Result<Vec<Programs>> {
    let peers = &args.peers;
    let new = Programs {
        tasuki: args.tasuki.clone(),
        native: std::env::current_exe()?,
        peers: peers.clone(),
        build: Build::New,
    };
    let before = args.before.as_ref().map(|tasuki| Programs {
        tasuki: tasuki.clone(),
        native: tasuki.with_file_name("tasuki-bench"),
        peers: peers.clone(),
        build: Build::Before,
    });
    for programs in before.iter().chain([&new]) {
        let tasuki = &programs.tasuki;
        ensure!(tasuki.exists(), "{} is not there: `make build` makes it", tasuki.display());
    }
    Ok([new].into_iter().chain(before).collect())
}

/// The kernel and the peers are measured once, whatever builds of Tasuki there are.
fn builds_of(builds: &[Programs], setup: Setup) -> &[Programs] {
    if setup.tasuki().is_some() { builds } else { &builds[..1] }
}

fn measure(host: &Host, round: u32, plan: &Plan, quick: bool) -> Result<Vec<Row>> {
    let (setup, role, build) = (host.setup(), host.role(), host.build());
    let Some(sizes) = plan.sizes(setup, role) else { return Ok(Vec::new()) };
    let tenth = if quick { 10 } else { 1 };
    let bytes = if setup.is_fast() { plan.fast } else { plan.slow } / tenth;
    let mut arguments = vec![format!("--test={}", plan.test), format!("--size={sizes}")];
    arguments.push(format!("--bytes={bytes}"));
    arguments.push(format!("--count={}", u64::from(plan.count) / tenth));
    let watch = Watch::new()?;
    let children = || processor_time::of_children().context("/proc/self/stat");
    let before = children()?;
    let mut threads = plan.with_cpu.then(KernelThreads::new);
    let output = output_of(host, &arguments, threads.as_mut())?;
    let after = children()?;
    let machine = Some(watch.end()?);
    let cpu = threads.map(|it| (after.0 - before.0, after.1 - before.1 + it.seconds()));
    let gib = bytes as f64 / f64::from(1 << 30);
    output
        .lines()
        .map(|line| {
            let sample = serde_json::from_str(line).with_context(|| format!("sample `{line}`"))?;
            Ok(Row { setup, build, role, round, sample, cpu, gib, machine })
        })
        .collect()
}

/// The output of a client.
pub(crate) fn output_of(
    host: &Host,
    arguments: &[String],
    threads: Option<&mut KernelThreads>,
) -> Result<String> {
    run_client(host.client(arguments)?, threads)
}

/// The same, of any client. One that does not end is ended.
pub(crate) fn run_client(
    mut command: Command,
    mut threads: Option<&mut KernelThreads>,
) -> Result<String> {
    let mut client = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut output = client.stdout.take().context("the client's output")?;
    // It may be more than a pipe holds.
    let reader = thread::spawn(move || {
        let mut said = String::new();
        output.read_to_string(&mut said).map(|_| said)
    });
    let began = Instant::now();
    let status = loop {
        if let Some(status) = client.try_wait()? {
            break status;
        }
        if began.elapsed() > PATIENCE {
            // The child is `tasuki run`, which ends all its processes, or the program itself.
            client.kill()?;
            client.wait()?;
            bail!("no end after {PATIENCE:?}");
        }
        if let Some(threads) = &mut threads {
            threads.look();
        }
        sleep(LOOK);
    };
    if !status.success() {
        bail!("it ended with {status}");
    }
    Ok(reader.join().map_err(|_| anyhow!("reading the client's output panicked"))??)
}

#[cfg(test)]
mod tests;
