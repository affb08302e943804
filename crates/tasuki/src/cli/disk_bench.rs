//! The command line of `tasuki disk bench`, in the words of fio.

use std::time::Duration;

use clap::{Args, ValueEnum};
use storage::{DiskUrl, MOST_BENCH_DEPTH, MOST_BENCH_REQUEST, parse_size};
use user::{DiskAccessArgs, LuksKeyArgs};

use crate::runtime_dir::InstanceName;

/// Measure a logical unit: requests a second, bytes a second, latencies
///
/// Requests of one size are open at all times, so many as --iodepth says, on one session. With
/// --luks they go to the disk that is encrypted in the unit, and their latency includes the cipher.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tasuki disk bench iscsi+sealed://10.9.0.2/iqn.2026-11.tasuki:disks/0
  tasuki disk bench iscsi://10.9.0.2/iqn.2026-11.tasuki:disks/0 --rw read --bs 1M --iodepth 8
  tasuki disk bench iscsi://10.9.0.2/iqn.2026-11.tasuki:disks/0 --rw write --destroy-data --json
  tasuki disk bench iscsi://10.9.0.2/iqn.2026-11.tasuki:disks/0 --luks --key-file disk.key")]
pub(crate) struct DiskBenchArgs {
    /// iscsi+sealed://ADDRESS/TARGET/LUN, or the same with iscsi+tls or iscsi (plain)
    #[arg(value_name = "URL")]
    pub(crate) url: DiskUrl,
    /// What the requests are: one behind the other, or at random places
    #[arg(long, value_enum, value_name = "HOW", default_value_t = BenchAccess::RandRead)]
    pub(crate) rw: BenchAccess,
    /// Bytes of a request: a number, or one with K or M; whole blocks of the unit
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = request_bytes)]
    pub(crate) bs: u32,
    /// Requests that are open at a time
    #[arg(long, value_name = "NUMBER", default_value_t = 32)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=i64::from(MOST_BENCH_DEPTH)))]
    pub(crate) iodepth: u16,
    /// How long, seconds
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) runtime: Duration,
    /// Overwrite what the unit holds: needed by write and randwrite; with --luks the header stays
    #[arg(long)]
    pub(crate) destroy_data: bool,
    #[command(flatten)]
    pub(crate) luks: LuksKeyArgs,
    /// The instance [default: the one that runs]
    #[arg(long, value_name = "NAME")]
    pub(crate) net: Option<InstanceName>,
    #[command(flatten)]
    pub(crate) access: DiskAccessArgs,
    /// Print JSON: one object
    #[arg(long)]
    pub(crate) json: bool,
}

/// What the requests are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
pub(crate) enum BenchAccess {
    /// Reads, one behind the other
    Read,
    /// Writes, one behind the other
    Write,
    /// Reads at random places
    RandRead,
    /// Writes at random places
    RandWrite,
}

fn request_bytes(word: &str) -> Result<u32, String> {
    let bytes = parse_size(word).map_err(|error| error.to_string())?;
    let bytes = u32::try_from(bytes).ok().filter(|bytes| *bytes <= MOST_BENCH_REQUEST);
    bytes.ok_or_else(|| format!("a request has at most {} MiB", MOST_BENCH_REQUEST >> 20))
}

fn seconds(word: &str) -> Result<Duration, String> {
    let seconds = word.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let seconds = seconds.filter(|seconds| !seconds.is_zero());
    seconds.ok_or_else(|| "say seconds above 0, such as 10 or 0.5".to_owned())
}
