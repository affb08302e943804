//! Rounds of all measurements over all set-ups, in turn.
//!
//! Set-ups with the same base take turns measurement by measurement. So a drift of the machine's
//! speed meets compared set-ups alike. A measurement that fails or takes longer than [`PATIENCE`]
//! is reported, listed and left out; all others go on.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::ValueEnum as _;

use crate::args::CompareArgs;
use crate::hosts::{Host, Programs};
use crate::machine::Watch;
use crate::processor_time::{self, KernelThreads};
use crate::progress::Progress;
use crate::protocol::Test;
use crate::results::ResultsRun;
use crate::row::Row;
use crate::setup::{Build, Role, Setup};
use crate::{paired, report};

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
const PLANS: [Plan; 7] = [
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
    let setups: &[Setup] = if args.only.is_empty() { &Setup::ALL } else { &args.only };
    let builds = builds(args)?;
    let kinds: Vec<(Role, Vec<Setup>)> = Setup::BASES
        .iter()
        .flat_map(|(base, _)| args.role.iter().map(move |role| (*role, *base)))
        .map(|(role, base)| {
            let of_kind = |setup: &Setup| setup.base() == base && setup.has(role);
            (role, setups.iter().copied().filter(of_kind).collect())
        })
        .collect();
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    let all = kinds.iter().flat_map(|(_, setups)| setups);
    let measured = all.map(|setup| builds_of(&builds, *setup).len()).sum::<usize>();
    let plans: Vec<&Plan> = PLANS.iter().filter(|plan| plan.is_wanted(args)).collect();
    let steps = args.rounds as usize * plans.len() * measured;
    let kept = args.results.as_ref().map(|file| Ok::<_, anyhow::Error>((file, run_of(args)?)));
    let kept = kept.transpose()?;
    let mut progress = Progress::new(steps);
    for round in 0..args.rounds {
        for (role, setups) in &kinds {
            let hosts = setups
                .iter()
                .flat_map(|&setup| builds_of(&builds, setup).iter().map(move |it| (setup, it)))
                .map(|(setup, it)| Host::new(setup, *role, it, &args.congestion, !args.unpinned))
                .collect::<Result<Vec<_>>>()?;
            for plan in &plans {
                // The first one finds the machine cold. In every other round another one is first.
                let turn = |at: usize| if round % 2 == 0 { at } else { hosts.len() - 1 - at };
                for host in (0..hosts.len()).map(|at| &hosts[turn(at)]) {
                    let what = format!("{} {}", host.title(), plan.test);
                    progress.say(&format!("round {} of {}: {what}", round + 1, args.rounds));
                    match measure(host, round, plan, args.quick) {
                        Ok(more) => rows.extend(more),
                        Err(error) => {
                            let failure = format!("round {}: {what}: {error:#}", round + 1);
                            eprintln!("FAILED {failure}");
                            failures.push(failure);
                        }
                    }
                }
            }
        }
        if let Some((file, run)) = &kept {
            run.write(file, &rows, round + 1, &failures)?;
        }
    }
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

/// The run, for its results file. Its figures are measured again with the same rounds and sizes.
fn run_of(args: &CompareArgs) -> Result<ResultsRun> {
    let mut words = format!(" --rounds {}", args.rounds);
    for (is_set, word) in [(args.quick, " --quick"), (args.unpinned, " --unpinned")] {
        words.push_str(if is_set { word } else { "" });
    }
    let congestion = &args.congestion.congestion;
    if congestion != "cubic" {
        words.push_str(&format!(" --congestion {congestion}"));
    }
    if let Some(before) = &args.before {
        words.push_str(&format!(" --before {}", before.display()));
    }
    ResultsRun::new(&args.tasuki, args.rounds, congestion, &words)
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
