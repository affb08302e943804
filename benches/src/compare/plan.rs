//! What is measured of each set-up, and how it is measured once.

use anyhow::{Context as _, Result};
use clap::ValueEnum as _;

use crate::args::CompareArgs;
use crate::clients::output_of;
use crate::hosts::Host;
use crate::machine::Watch;
use crate::processor_time::{self, KernelThreads};
use crate::protocol::Test;
use crate::row::Row;
use crate::setup::{Role, Setup};

/// A measurement: a test of the client, with its sizes.
pub(super) struct Plan {
    pub(super) test: &'static str,
    sizes: &'static str,
    /// Bytes without offloads. They take a quarter of a second at least, since short transfers
    /// favour a stack that begins fast.
    slow: u64,
    /// Bytes where they come in super-segments.
    fast: u64,
    count: u32,
    /// Of processor time alone.
    pub(super) with_cpu: bool,
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
/// All measurements.
pub(super) static PLANS: [Plan; 7] = [
    SEND,
    Plan { test: "receive", ..SEND },
    Plan { test: "rtt", sizes: "4,64,256,1024,2048,4096,8192", count: 2000, ..SEND },
    Plan { test: "connect", sizes: "64", count: 1000, ..SEND },
    Plan { test: "turns", sizes: "64", count: 500, ..SEND },
    SEND_CPU,
    Plan { test: "receive", ..SEND_CPU },
];

impl Plan {
    /// Was it asked for?
    pub(super) fn is_wanted(&self, args: &CompareArgs) -> bool {
        let is_it =
            |test: &Test| test.to_possible_value().is_some_and(|it| it.matches(self.test, false));
        args.test.is_empty() || args.test.iter().any(is_it)
    }

    /// The sizes for this set-up. `None`: this measurement does not run there. The native API is
    /// for bytes in bulk only. Processor time is that of a client's command.
    pub(super) fn sizes(&self, setup: Setup, role: Role) -> Option<&'static str> {
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

/// Measures all sizes of a plan once.
///
/// # Errors
/// Those of the client.
pub(super) fn measure(host: &Host, round: u32, plan: &Plan, quick: bool) -> Result<Vec<Row>> {
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
