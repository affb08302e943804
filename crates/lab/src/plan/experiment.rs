//! The experiments: names, titles, and the share of the time that each has.

use std::time::Duration;

use clap::ValueEnum;

use super::setups::LabSetup;

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum ExperimentName {
    /// Every experiment
    All,
    /// Round trips by length, power, gateways and loads, as in the fourth paper
    Rtt,
    /// Where the time of a send goes, stage by stage, as in the first paper
    Stages,
    /// Cost of handing a page area to another process, as in the first paper
    Handover,
    /// Bytes a second by the size of a write, as in the second paper
    Throughput,
    /// Calls that travel together, as in the third paper
    Calls,
    /// Connections a second
    Connections,
    /// A disk plain, by TLS, sealed, by ESP and encrypted end to end, as in the fifth paper
    Storage,
    /// Packets of a block on a time axis, by ESP and sealed, as in the fifth paper
    Packets,
    /// Many connections, several programs, and the cost of idle
    Scale,
    /// The same loop in user mode and in the kernel, as in the fifth paper
    Loops,
    /// Goodput over a path with loss, delay and a queue
    Paths,
}

/// What an experiment is like.
struct Properties {
    name: &'static str,
    title: &'static str,
    /// Seconds of 30 minutes.
    seconds: u64,
    /// It makes network namespaces.
    needs_root: bool,
    tools: &'static [&'static str],
    /// Those of a user without rights.
    plain_tools: &'static [&'static str],
}

/// What makes hosts, and paths with gateways or limits.
const NETWORK: &[&str] = &["ip", "ethtool", "sysctl", "taskset"];
const PATHS: &[&str] = &["ip", "tc", "sysctl", "taskset"];
/// What connects the stacks of a user without rights.
const PASST: &[&str] = &["passt", "taskset"];
/// The option that names an earlier build.
const BUILDS: &str = "--before";
/// What a quick run has of the time.
const QUICK: u32 = 10;

impl ExperimentName {
    /// All, in the order in which they are measured.
    pub const EACH: [Self; 11] = [
        Self::Rtt,
        Self::Stages,
        Self::Handover,
        Self::Throughput,
        Self::Calls,
        Self::Connections,
        Self::Scale,
        Self::Storage,
        Self::Packets,
        Self::Loops,
        Self::Paths,
    ];

    fn properties(self) -> Properties {
        let of = |name, title, seconds, tools: &'static [&'static str]| Properties {
            name,
            title,
            seconds,
            needs_root: !tools.is_empty(),
            tools,
            plain_tools: &[],
        };
        let over_passt = |name, title, seconds, tools| Properties {
            needs_root: false,
            plain_tools: PASST,
            ..of(name, title, seconds, tools)
        };
        match self {
            Self::All => of("all", "Every experiment", 0, &[]),
            Self::Rtt => over_passt("rtt", "Round-trip time between stream sockets", 320, PATHS),
            Self::Stages => of("stages", "Where the time of a send goes", 95, NETWORK),
            Self::Handover => of("handover", "Handing an area to another process", 60, &[]),
            Self::Throughput => {
                over_passt("throughput", "Bytes a second by the size of a write", 310, NETWORK)
            }
            Self::Calls => of("calls", "Calls that travel together", 65, &[]),
            Self::Connections => over_passt("connections", "Connections a second", 30, NETWORK),
            Self::Scale => of(
                "scale",
                "Many connections, several programs, and the cost of idle",
                150,
                NETWORK,
            ),
            Self::Storage => of("storage", "Encryption above TCP and below it", 320, &["ip"]),
            Self::Packets => of("packets", "Packets of a block on a time axis", 40, &["ip"]),
            Self::Loops => of("loops", "The same loop in user mode and in the kernel", 20, &[]),
            Self::Paths => of("paths", "Goodput over a bad path", 390, PATHS),
        }
    }

    /// As the command line and the results have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.properties().name
    }

    /// What it asks, for people.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.properties().title
    }

    /// The time that it has in a whole run, or in a quick one.
    #[must_use]
    pub fn time(self, quick: bool) -> Duration {
        let whole = Duration::from_secs(self.properties().seconds);
        if quick { whole / QUICK } else { whole }
    }

    /// Does it need root, for namespaces?
    #[must_use]
    pub fn needs_root(self) -> bool {
        self.properties().needs_root
    }

    /// Those of its own options that need root, for namespaces or control groups, where the
    /// experiment does not.
    pub(super) fn options_of_root(self) -> &'static [&'static str] {
        match self {
            Self::Rtt => &["--power", "--gateways", "--network-load", "--peers"],
            Self::Throughput => &["--peers"],
            _ => &[],
        }
    }

    /// Does it take sizes below 1,024 bytes, as the first paper has them?
    pub(super) fn has_small_sizes(self) -> bool {
        self == Self::Stages
    }

    /// The set-ups among which `--only` chooses; none, if there is no choice.
    pub(super) fn setups(self) -> &'static [LabSetup] {
        const ALL: &[LabSetup] = &[
            LabSetup::Linux,
            LabSetup::Split,
            LabSetup::Fused,
            LabSetup::Library,
            LabSetup::BothEnds,
            LabSetup::Wire,
        ];
        match self {
            Self::Rtt => ALL,
            Self::Throughput => &ALL[..5],
            Self::Stages | Self::Connections | Self::Paths => &ALL[..4],
            Self::Scale => &ALL[..3],
            _ => &[],
        }
    }

    /// Programs that it runs for root, or for a user without rights.
    #[must_use]
    pub fn tools(self, is_root: bool) -> &'static [&'static str] {
        if is_root { self.properties().tools } else { self.properties().plain_tools }
    }

    /// Can two builds of Tasuki take turns in it? Where this very program is what is measured, they
    /// cannot.
    #[must_use]
    pub fn has_builds(self) -> bool {
        self.axes().contains(&BUILDS)
    }

    /// Its own options.
    #[must_use]
    pub fn axes(self) -> &'static [&'static str] {
        match self {
            Self::All => &[],
            Self::Connections => &[BUILDS],
            Self::Rtt => &[
                "--length",
                "--power",
                "--gateways",
                "--load",
                "--network-load",
                "--count",
                "--peers",
                BUILDS,
            ],
            Self::Stages => &["--size", BUILDS],
            Self::Handover => &["--size", "--relays"],
            Self::Throughput => &["--size", "--unit", "--areas", "--peers", BUILDS],
            Self::Calls => &["--batch", "--frames"],
            Self::Scale => &["--connections", "--programs", BUILDS],
            Self::Storage => &["--size", "--delay", "--cipher", BUILDS],
            Self::Packets => &["--size", "--delay"],
            Self::Loops => &["--steps"],
            Self::Paths => &["--loss", "--delay", "--queue", "--cross", BUILDS],
        }
    }
}
