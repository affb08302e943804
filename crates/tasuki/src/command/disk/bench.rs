//! `tasuki disk bench`: what its options mean, and how its figures are shown.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use storage::{BenchError, BenchOutcome, BenchPattern, BenchPlan, BenchUnit, IscsiName, bench};
use user::{DiskAccess, DiskPlace, Encryption, on_instance, unit_of};

use crate::cli::{BenchAccess, DiskBenchArgs};
use crate::command::{print, print_json};
use crate::exit::{Code, Failure};

/// Carries out the command.
///
/// # Errors
/// The plan's, the session's, and those of the requests.
pub(super) fn bench_disk(args: &DiskBenchArgs) -> Result<u8, Failure> {
    let plan = plan(args)?;
    let access = Arc::new(DiskAccess::new(&args.access)?);
    let named = unit_of(&args.url)?;
    let encryption = args.luks.luks.then(|| Encryption::of_key(&args.luks)).transpose()?;
    let measured = async {
        let unit = open(args, &access, (named, encryption.as_ref())).await?;
        let measured = measure(&unit, plan).await;
        unit.close().await;
        measured.map_err(|error| match &error {
            BenchError::Unit(error) => access.failure(error),
            BenchError::Disk(_) => Failure::new(Code::Internal, error.to_string()),
            BenchError::Block { .. } | BenchError::TooSmall { .. } => {
                Failure::new(Code::Usage, error.to_string())
            }
        })
    };
    let outcome = on_instance(args.net.as_ref(), measured)??;
    show(args, &outcome)
}

/// Opens what is measured, within [`on_instance`].
///
/// # Errors
/// The session's; the encryption's.
async fn open(
    args: &DiskBenchArgs,
    access: &Arc<DiskAccess>,
    ((target, lun), encryption): ((IscsiName, u16), Option<&Encryption>),
) -> Result<BenchUnit, Failure> {
    let Some(encryption) = encryption else {
        let session = access.connect(&args.url, Some(&target)).await?;
        return Ok(BenchUnit::Unit { session, lun });
    };
    // A measurement over two sessions would be none: the first one that is lost ends it.
    let place = DiskPlace::new(&args.url, access, Some(0))?;
    let disk = encryption.open(access, place.open().await?).await?;
    Ok(BenchUnit::Encrypted(disk))
}

/// What is to be measured.
///
/// # Errors
/// It would destroy data, and nobody has said that this is wanted.
fn plan(args: &DiskBenchArgs) -> Result<BenchPlan, Failure> {
    let pattern = match args.rw {
        BenchAccess::Read => BenchPattern::Read,
        BenchAccess::Write => BenchPattern::Write,
        BenchAccess::RandRead => BenchPattern::RandomRead,
        BenchAccess::RandWrite => BenchPattern::RandomWrite,
    };
    if pattern.writes() && !args.destroy_data {
        let sentence = format!(
            "--rw {} overwrites what {} holds: add --destroy-data if that is wanted",
            word(args.rw),
            args.url
        );
        return Err(Failure::new(Code::Usage, sentence));
    }
    let (request, depth, runtime) = (args.bs, args.iodepth, args.runtime);
    Ok(BenchPlan { pattern, request, depth, runtime })
}

/// Measures, with a bar on a terminal.
async fn measure(unit: &BenchUnit, plan: BenchPlan) -> Result<BenchOutcome, BenchError> {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let bar = if std::io::stderr().is_terminal() {
        ProgressBar::new(millis(plan.runtime))
    } else {
        ProgressBar::hidden()
    };
    let style = ProgressStyle::with_template("[{bar:30}] {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let shown = bar.clone();
    let measured = bench(unit, plan, move |time| shown.set_position(millis(time))).await;
    bar.finish_and_clear();
    measured
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct BenchReport {
    url: String,
    rw: &'static str,
    luks: bool,
    request_bytes: u32,
    iodepth: u16,
    seconds: f64,
    requests: u64,
    bytes: u64,
    requests_per_second: f64,
    bytes_per_second: f64,
    latency_us: BenchLatencies,
}

/// Microseconds.
#[derive(Debug, Serialize)]
struct BenchLatencies {
    mean: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    p99_9: f64,
    max: f64,
}

fn word(access: BenchAccess) -> &'static str {
    match access {
        BenchAccess::Read => "read",
        BenchAccess::Write => "write",
        BenchAccess::RandRead => "randread",
        BenchAccess::RandWrite => "randwrite",
    }
}

fn report(args: &DiskBenchArgs, outcome: &BenchOutcome) -> BenchReport {
    let seconds = outcome.elapsed.as_secs_f64();
    let micros = |time: Duration| (time.as_secs_f64() * 1e7).round() / 10.0;
    let at = |percent| micros(outcome.latency(percent));
    BenchReport {
        url: args.url.to_string(),
        rw: word(args.rw),
        luks: args.luks.luks,
        request_bytes: args.bs,
        iodepth: args.iodepth,
        seconds,
        requests: outcome.requests,
        bytes: outcome.bytes,
        requests_per_second: outcome.requests as f64 / seconds,
        bytes_per_second: outcome.bytes as f64 / seconds,
        latency_us: BenchLatencies {
            mean: micros(outcome.mean_latency()),
            p50: at(50.0),
            p90: at(90.0),
            p99: at(99.0),
            p99_9: at(99.9),
            max: at(100.0),
        },
    }
}

/// Prints the figures.
///
/// # Errors
/// Standard output's.
fn show(args: &DiskBenchArgs, outcome: &BenchOutcome) -> Result<u8, Failure> {
    let report = report(args, outcome);
    if args.json {
        print_json(&report)?;
        return Ok(0);
    }
    let BenchReport { url, rw, request_bytes, iodepth, seconds, latency_us: latency, .. } = &report;
    let BenchLatencies { mean, p50, p90, p99, p99_9, max } = latency;
    let luks = if report.luks { ", LUKS" } else { "" };
    let (rate, mib) = (report.requests_per_second, report.bytes_per_second / f64::from(1 << 20));
    print(&format!(
        "{url}: {rw}{luks}, {request_bytes} bytes, depth {iodepth}, {seconds:.1} s\n\
         rate     {rate:.0} requests/s, {mib:.1} MiB/s\n\
         latency  mean {mean:.1} µs, p50 {p50:.1}, p90 {p90:.1}, p99 {p99:.1}, p99.9 {p99_9:.1}, \
         max {max:.1}\n"
    ))?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command, DiskCommand};

    fn args(words: &[&str]) -> DiskBenchArgs {
        let url = "iscsi://10.9.0.2/iqn.2026-11.tasuki:a/0";
        let words = ["tasuki", "disk", "bench", url].into_iter().chain(words.iter().copied());
        let Command::Disk(disk) = Cli::try_parse_from(words).unwrap().command else { panic!() };
        let DiskCommand::Bench(bench) = disk.command else { panic!() };
        bench
    }

    #[test]
    fn writing_has_to_be_wanted() {
        for rw in ["write", "randwrite"] {
            let refused = plan(&args(&["--rw", rw])).unwrap_err();
            assert!(refused.to_string().contains("--destroy-data"), "{refused}");
            let plan = plan(&args(&["--rw", rw, "--destroy-data"])).unwrap();
            assert!(plan.pattern.writes());
        }
        let plan = plan(&args(&["--bs", "1M", "--iodepth", "8", "--runtime", "0.5"])).unwrap();
        assert_eq!(plan.pattern, BenchPattern::RandomRead);
        assert_eq!((plan.request, plan.depth), (1 << 20, 8));
        assert_eq!(plan.runtime, Duration::from_millis(500));
    }

    #[test]
    fn every_key_is_documented() {
        let latencies =
            BenchLatencies { mean: 0.0, p50: 0.0, p90: 0.0, p99: 0.0, p99_9: 0.0, max: 0.0 };
        crate::command::tests::every_key_is_documented(&BenchReport {
            url: String::new(),
            rw: word(BenchAccess::Read),
            luks: false,
            request_bytes: 0,
            iodepth: 0,
            seconds: 0.0,
            requests: 0,
            bytes: 0,
            requests_per_second: 0.0,
            bytes_per_second: 0.0,
            latency_us: latencies,
        });
    }
}
