//! The commands that measure a running instance.

use std::time::Duration;

use clap::Args;

use crate::runtime_dir::InstanceName;

/// Show what an instance counts, layer by layer
///
/// Programs, calls, inet server, IP, UDP, TCP, driver and device: packets, bytes, copies, bells,
/// wake-ups, drops and retransmissions by cause, and how large batches were. Counters that are 0
/// are left out. They count from the start of the instance and are never reset: with -i, the
/// differences are shown.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tasuki stats                   everything since the start
  tasuki stats web 'tcp.*'       what TCP counts in instance web
  tasuki stats -v '*drop*'       with the meaning of each counter
  tasuki stats -i 1 'nic.*'      what the driver does in each second
  tasuki stats --prometheus > /var/lib/node_exporter/tasuki.prom")]
pub(crate) struct StatsArgs {
    /// The instance [default: the one that runs], and patterns of counters with * and ?
    #[arg(value_name = "NAME] [PATTERN")]
    pub(crate) words: Vec<String>,
    /// Show what happened in each interval of so many seconds
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) interval: Option<Duration>,
    /// End after so many intervals
    #[arg(short, long, value_name = "INTERVALS", requires = "interval")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Also what is 0
    #[arg(short, long)]
    pub(crate) zeros: bool,
    /// Say what each counter counts
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Print JSON: an object in a line, for each interval
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the text format that Prometheus reads
    #[arg(long, conflicts_with_all = ["json", "interval"])]
    pub(crate) prometheus: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.01..=1e6).contains(seconds));
    let wrong = || "it is a number of seconds, at least 0.01".to_owned();
    Ok(Duration::from_secs_f64(seconds.ok_or_else(wrong)?))
}

/// Show where the time of sends goes, from the program to the device, or of receives
///
/// Watches for some seconds, or until Ctrl-C, and shows the time that a send spends in each stage:
/// copying, the way to the inet server, TCP, IP, Ethernet, the way to the driver, the device; with
/// --receive, that of a receive on the way back, until the program has it. The table is right for
/// one program that sends on TCP and pauses in between, or waits for what a peer so sends.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tasuki stages                 for 5 seconds
  tasuki stages --receive       the way of what comes
  tasuki stages -s 1 web --json both ways")]
pub(crate) struct StagesArgs {
    /// Show receives instead of sends
    #[arg(long)]
    pub(crate) receive: bool,
    /// How long to watch
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds, default_value = "5")]
    pub(crate) seconds: Duration,
    /// Print JSON: an object
    #[arg(long)]
    pub(crate) json: bool,
    /// Also the newest N single marks, at most 16384: when each stage began
    #[arg(long, value_name = "N", default_value_t = 0, requires = "json",
        value_parser = clap::value_parser!(u32).range(..=16384))]
    pub(crate) marks: u32,
    /// The instance [default: the one that runs]
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<InstanceName>,
}
