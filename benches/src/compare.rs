//! Rounds of all measurements over all set-ups, in turn.

use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::CompareArgs;
use crate::client::Sample;
use crate::hosts::{Host, Programs, Setup};
use crate::report;

/// A sample and where it was taken.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Row {
    /// The set-up.
    pub(crate) setup: Setup,
    /// The round, from 0.
    pub(crate) round: u32,
    /// The figures.
    #[serde(flatten)]
    pub(crate) sample: Sample,
    /// CPU seconds of the client and all of Tasuki's processes: user, system; for the whole client
    /// command, so only meaningful for commands of one size.
    pub(crate) cpu: Option<(f64, f64)>,
    /// GiB that this CPU time moved.
    pub(crate) gib: f64,
}

struct Plan {
    test: &'static str,
    sizes: &'static str,
    bytes: u64,
    count: u32,
    with_cpu: bool,
}

const SWEEP: &str = "1024,4096,16384,65536,262144,1048576,4194304";
const PLANS: [Plan; 6] = [
    Plan { test: "send", sizes: SWEEP, bytes: 128 << 20, count: 0, with_cpu: false },
    Plan { test: "receive", sizes: SWEEP, bytes: 128 << 20, count: 0, with_cpu: false },
    Plan {
        test: "rtt",
        sizes: "4,64,256,1024,2048,4096,8192",
        bytes: 0,
        count: 2000,
        with_cpu: false,
    },
    Plan { test: "connect", sizes: "64", bytes: 0, count: 1000, with_cpu: false },
    Plan { test: "send", sizes: "65536", bytes: 1 << 30, count: 0, with_cpu: true },
    Plan { test: "receive", sizes: "65536", bytes: 1 << 30, count: 0, with_cpu: true },
];

/// Run everything and print it.
pub(crate) fn run(args: &CompareArgs) -> Result<()> {
    let setups: &[Setup] = if args.only.is_empty() { &Setup::ALL } else { &args.only };
    let programs = Programs { tasuki: args.tasuki.clone(), peers: args.peers.clone() };
    let mut rows = Vec::new();
    for round in 0..args.rounds {
        for &setup in setups {
            let host = Host::new(setup, &programs, !args.unpinned)?;
            for plan in &PLANS {
                eprintln!(
                    "round {} of {}: {} {}",
                    round + 1,
                    args.rounds,
                    setup.title(),
                    plan.test
                );
                rows.extend(measure(&host, setup, round, plan, args.quick)?);
            }
        }
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        print!("{}", report::markdown(&rows, setups));
    }
    Ok(())
}

fn measure(host: &Host, setup: Setup, round: u32, plan: &Plan, quick: bool) -> Result<Vec<Row>> {
    let tenth = if quick { 10 } else { 1 };
    let bytes = plan.bytes / tenth;
    let mut arguments = vec![format!("--test={}", plan.test), format!("--size={}", plan.sizes)];
    arguments.push(format!("--bytes={bytes}"));
    arguments.push(format!("--count={}", u64::from(plan.count) / tenth));
    let before = children_cpu()?;
    let output = host.client(&arguments)?.stderr(Stdio::inherit()).output()?;
    let after = children_cpu()?;
    if !output.status.success() {
        bail!("{} {} ended with {}", setup.title(), plan.test, output.status);
    }
    let cpu = plan.with_cpu.then_some((after.0 - before.0, after.1 - before.1));
    let gib = bytes as f64 / f64::from(1 << 30);
    String::from_utf8(output.stdout)?
        .lines()
        .map(|line| {
            let sample = serde_json::from_str(line).with_context(|| format!("sample `{line}`"))?;
            Ok(Row { setup, round, sample, cpu, gib })
        })
        .collect()
}

/// User and system seconds of all children waited for so far, and of theirs (proc(5): cutime,
/// cstime).
fn children_cpu() -> Result<(f64, f64)> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> =
        stat.rsplit_once(')').context("/proc/self/stat")?.1.split_whitespace().collect();
    // Linux reports in USER_HZ, which is 100 on every architecture we build for.
    let seconds = |index: usize| -> Result<f64> { Ok(fields[index].parse::<f64>()? / 100.0) };
    Ok((seconds(13)?, seconds(14)?))
}
