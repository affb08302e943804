//! `tasuki-bench calls` compares packaged calls with the same calls one by one, and with the
//! kernel.
//!
//! The inet server runs without a device, in a process and a loop of its own. It is either
//! *sleeping*, as in an instance, or *running*: a companion that is never idle keeps it from sleep.
//! The server and the calling thread are tied to a processor, the same one or two. Each figure is
//! the median over all batches of all rounds. Packaged and single calls take turns round by round,
//! so that a drift of the machine's speed meets both.
//!
//! The kernel's figures come from the same run: getpid(2) one by one, and io_uring's NOP in
//! batches, submitted by a system call or taken by a thread of the kernel. With `--mixed` calls of
//! several kinds are measured as well ([`mixed`]).

mod measure;
mod mixed;
pub(crate) mod server;
mod uring;

use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};

use self::measure::Caller;
pub(crate) use self::measure::{Call, getpid};
pub(crate) use self::mixed::MixedFigure;
pub(crate) use self::server::{ServerArgs, pin, serve};

/// What `calls` runs.
#[derive(Args)]
pub(crate) struct CallsArgs {
    /// Calls that travel together.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 3, 10, 30, 100, 300, 1000])]
    count: Vec<u32>,
    /// Only these calls.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Call::ALL)]
    only: Vec<Call>,
    /// Rounds; medians are over them.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Milliseconds of each figure in each round.
    #[arg(long, default_value_t = 20)]
    millis: u64,
    /// Registered calls that leave together even before all are registered (P3's threshold).
    #[arg(long, default_value_t = 32)]
    threshold: u32,
    /// The processors of the calling thread and of the server on another one.
    #[arg(long, value_delimiter = ',', num_args = 2, default_values_t = [0, 1])]
    processors: Vec<usize>,
    /// Also calls that wait, urgent calls, and computing while calls are on their way.
    #[arg(long)]
    mixed: bool,
    /// Figures as JSON instead of tables.
    #[arg(long)]
    json: bool,
}

/// One figure, nanoseconds per call.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CallFigure {
    pub(crate) call: Call,
    /// The server is kept from sleeping.
    pub(crate) running: bool,
    /// Server and caller have one processor.
    pub(crate) same_processor: bool,
    /// Calls that travelled together.
    pub(crate) count: u32,
    pub(crate) packaged_ns: f64,
    pub(crate) single_ns: f64,
}

/// The kernel's, nanoseconds per call.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Kernel {
    pub(crate) getpid_ns: f64,
    /// The number of NOPs submitted together, and the time of each. Empty where io_uring is not
    /// allowed.
    pub(crate) nop_ns: Vec<(u32, f64)>,
    /// The same where a kernel thread on the other processor takes them.
    #[serde(default)]
    pub(crate) polled_nop_ns: Vec<(u32, f64)>,
}

/// All of them.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CallReport {
    pub(crate) kernel: Kernel,
    pub(crate) figures: Vec<CallFigure>,
    /// With `--mixed`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) mixed: Vec<MixedFigure>,
}

/// Measure and print.
pub(crate) fn run(args: &CallsArgs) -> Result<()> {
    let &[here, there] = args.processors.as_slice() else {
        anyhow::bail!("--processors takes two numbers")
    };
    server::pin(here)?;
    let time = std::time::Duration::from_millis(args.millis);
    let kernel = kernel(&args.count, time, [here, there])?;
    let (mut figures, mut mixed) = (Vec::new(), Vec::new());
    for same_processor in [false, true] {
        for running in [false, true] {
            let processor = if same_processor { here } else { there };
            let server = server::Child::start(processor, running, same_processor)?;
            let caller = Caller::new(&server.socket, args.threshold)?;
            for &count in args.count.iter().filter(|_| args.mixed) {
                mixed.push(caller.mixed((running, same_processor), count, time)?);
            }
            for &call in &args.only {
                for &count in &args.count {
                    let (packaged_ns, single_ns) =
                        caller.compare(call, count, args.rounds, time)?;
                    let figure =
                        CallFigure { call, running, same_processor, count, packaged_ns, single_ns };
                    figures.push(figure);
                }
            }
        }
    }
    let report = CallReport { kernel, figures, mixed };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", tables(&report));
    }
    Ok(())
}

/// The kernel's figures.
fn kernel(counts: &[u32], time: std::time::Duration, [here, there]: [usize; 2]) -> Result<Kernel> {
    let nops = |how| -> Result<Vec<(u32, f64)>> {
        let of = |count: &u32| Ok(uring::nops(*count, time, how)?.map(|nanos| (*count, nanos)));
        counts.iter().filter_map(|count| of(count).transpose()).collect()
    };
    Ok(Kernel {
        getpid_ns: getpid(time),
        nop_ns: nops(uring::Submission::Call)?,
        // On one processor the thread and the caller would wait for each other's time slices.
        polled_nop_ns: match here == there {
            true => Vec::new(),
            false => nops(uring::Submission::Polled(there as u32))?,
        },
    })
}

/// The figures as Markdown.
pub(crate) fn tables(report: &CallReport) -> String {
    use std::fmt::Write as _;
    let mut text = format!("getpid(2): {:.0} ns\n", report.kernel.getpid_ns);
    let _ = writeln!(text, "\n| io_uring NOPs together | ns per NOP | SQPOLL |\n|---:|---:|---:|");
    for (count, nanos) in &report.kernel.nop_ns {
        let polled = report.kernel.polled_nop_ns.iter().find(|(of, _)| of == count);
        let polled = polled.map_or("-".to_owned(), |(_, nanos)| format!("{nanos:.0}"));
        let _ = writeln!(text, "| {count} | {nanos:.0} | {polled} |");
    }
    if !report.mixed.is_empty() {
        text += &mixed::table(&report.mixed);
    }
    for same in [false, true] {
        for running in [false, true] {
            let server = if running { "running" } else { "sleeping" };
            let place = if same { "the same processor" } else { "another processor" };
            let _ = writeln!(text, "\n### {server} server on {place}\n");
            let _ = writeln!(text, "ns per call: packaged, singly (ratio)\n");
            let here =
                report.figures.iter().filter(|f| f.running == running && f.same_processor == same);
            let _ = write!(text, "| calls |");
            let calls = Call::ALL.into_iter().filter(|&c| here.clone().any(|f| f.call == c));
            for call in calls.clone() {
                let _ = write!(text, " {} |", call.title());
            }
            let _ = writeln!(text, "\n|---:|{}", "---:|".repeat(calls.count()));
            let mut rows: Vec<u32> = here.clone().map(|figure| figure.count).collect();
            rows.sort_unstable();
            rows.dedup();
            for row in rows {
                let _ = write!(text, "| {row} |");
                for figure in here.clone().filter(|figure| figure.count == row) {
                    let (packaged, single) = (figure.packaged_ns, figure.single_ns);
                    let ratio = single / packaged;
                    let _ = write!(text, " {packaged:.0}, {single:.0} ({ratio:.1}x) |");
                }
                let _ = writeln!(text);
            }
        }
    }
    text
}
