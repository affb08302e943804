//! The command line: one item per option, with its help and its parser.

mod check;
mod disk_bench;
mod instance;
mod instruments;
mod keys;
mod lab;
mod luks;
#[cfg(test)]
mod pages;
mod processes;
mod run;
mod storage;
mod web;
mod xfrm;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand};
use user::clap_sentence;

use crate::exit;
use crate::runtime_dir::InstanceName;

pub(crate) use self::check::{Attempt, CheckArgs};
pub(crate) use self::disk_bench::{BenchAccess, DiskBenchArgs};
pub(crate) use self::instance::{InstanceOptions, Ipv6Choice, Switch};
pub(crate) use self::instruments::{StagesArgs, StatsArgs};
pub(crate) use self::keys::{KeyArgs, KeyCommand};
pub(crate) use self::lab::{
    LabArgs, LabCommand, LabDiffArgs, LabOpenArgs, LabReportArgs, REPORT as LAB_REPORT,
};
pub(crate) use self::luks::{LuksFormatArgs, LuksType, Pbkdf};
pub(crate) use self::processes::{RelayArgs, ServerArgs};
pub(crate) use self::run::{Intercept, RunArgs};
pub(crate) use self::storage::{
    DiskArgs, DiskCommand, DiskCopyArgs, DiskFormatArgs, DiskLsArgs, DiskMountArgs, TargetArgs,
    TargetCommand, TargetLunArgs, TargetNameArgs, TargetPsArgs, TargetUpArgs,
};
pub(crate) use self::web::WebArgs;
pub(crate) use self::xfrm::{XfrmArgs, XfrmCommand, XfrmObject, XfrmOptions};

/// Run unmodified programs on a TCP/IP stack made of small processes
///
/// Tasuki runs TCP/IP as ordinary processes that hand memory pages to each other: a program, an
/// inet server, a NIC driver and a supervisor. `tasuki run` puts one program on a stack of its own;
/// `tasuki up` starts a stack that programs share.
#[derive(Debug, Parser)]
#[command(name = "tasuki", version, after_long_help = top_help(), max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(RunArgs),
    Up(UpArgs),
    Down(DownArgs),
    Ps(PsArgs),
    Ss(SsArgs),
    Stats(StatsArgs),
    Stages(StagesArgs),
    /// Show interfaces and addresses of an instance, as `ip addr` does
    ///
    /// An IPv6 address is `tentative` while it is probed for duplicates, and `dadfailed` if another
    /// host has it: then it is not used.
    #[command(after_help = ADDR_EXAMPLES)]
    Addr(NetworkArgs),
    /// Show the routing table of an instance, as `ip route` does
    #[command(after_help = ROUTE_EXAMPLES)]
    Route(NetworkArgs),
    /// Show the neighbours of an instance, as `ip neigh` does
    #[command(after_help = NEIGH_EXAMPLES)]
    Neigh(NetworkArgs),
    Xfrm(XfrmArgs),
    Capture(CaptureArgs),
    Web(WebArgs),
    Target(TargetArgs),
    Disk(DiskArgs),
    Key(KeyArgs),
    Lab(Box<LabArgs>),
    Check(CheckArgs),
    Completion(CompletionArgs),
    #[command(hide = true)]
    Manual(ManualArgs),
    #[command(hide = true)]
    Server(ServerArgs),
    #[command(hide = true)]
    Relay(RelayArgs),
}

/// Environment variables that matter to Tasuki, and what each does.
pub(crate) const ENVIRONMENT: [(&str, &str); 10] = [
    ("TASUKI_BENCH", "path of tasuki-bench, instead of the one that is installed"),
    (
        "TASUKI_HOST_LOOPBACK",
        "addresses of the host's loopback; `tasuki run --host-loopback` sets it",
    ),
    ("TASUKI_KEYS", "directory of the keys for sealed and TLS, see `tasuki key`"),
    ("TASUKI_LOG", "messages to tell: off, error, warn, info, debug or trace [default: warn]"),
    ("TASUKI_PRELOAD", "path of libtasuki_preload.so, where it is not installed as usual"),
    ("TASUKI_SANDBOX", "how much of the servers' sandbox: off, on or require [default: on]"),
    ("TASUKI_SOCKET", "socket of the instance; `tasuki run` sets it for its program"),
    (
        "TASUKI_STATE",
        "directory of the vectors that keys of ESP have used [default: /var/lib/tasuki]",
    ),
    ("TASUKI_TRACE", "file for the calls of programs, or -; `tasuki run --trace` sets it"),
    ("XDG_RUNTIME_DIR", "users other than root have their instances in its directory tasuki"),
];

fn top_help() -> String {
    let variables: Vec<String> =
        ENVIRONMENT.iter().map(|(name, what)| format!("  {name:20}  {what}")).collect();
    format!("{}\n\nEnvironment:\n{}", exit::HELP, variables.join("\n"))
}

/// The command without its hidden parts, for manual pages and completion scripts.
pub(crate) fn visible() -> clap::Command {
    let all = Cli::command();
    let shown = all.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    clap::Command::new("tasuki")
        .version(env!("CARGO_PKG_VERSION"))
        .about(all.get_about().cloned().unwrap_or_default())
        .long_about(all.get_long_about().cloned().unwrap_or_default())
        .subcommand_required(true)
        .subcommands(shown)
}

/// A wrong command line as one sentence: the fault, clap's tip, and where help is. `words` is the
/// command line from the first word after `tasuki`.
pub(crate) fn refusal(error: &clap::Error, mut words: impl Iterator<Item = OsString>) -> String {
    let what = clap_sentence(error);
    let command = words.next().filter(|word| visible().find_subcommand(word).is_some());
    let command = command.map_or(String::new(), |word| format!(" {}", word.display()));
    format!("{what}; see `tasuki{command} --help`")
}

/// Start an instance that programs can share
///
/// Returns when the instance answers and its addresses are usable; it then runs in the background
/// until `tasuki down`. With packet: and xdp:, IPv6 addresses are probed for duplicates first, for
/// one to two seconds. Messages go to NAME.log beside its socket in /run/tasuki (or
/// $XDG_RUNTIME_DIR/tasuki).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tasuki up                                 instance `default`
  tasuki up --config /etc/tasuki.toml web
  tasuki up --foreground                    for systemd (Type=notify): stays, logs to stderr")]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) options: InstanceOptions,
    /// Stay in the foreground; tell systemd when ready (NOTIFY_SOCKET)
    #[arg(long)]
    pub(crate) foreground: bool,
    /// Name of the instance: a-z, 0-9 and -, at most 32
    #[arg(value_name = "NAME", default_value = "default")]
    pub(crate) name: InstanceName,
}

/// End an instance
///
/// Open connections are reset. Returns when no process, device or file of it is left.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tasuki down default
  tasuki down web")]
pub(crate) struct DownArgs {
    /// Name of the instance
    #[arg(value_name = "NAME")]
    pub(crate) name: InstanceName,
}

/// Show processes and memory of instances
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tasuki ps                  all instances of this user
  tasuki ps -v default       with memory pools and counters
  tasuki ps --security web   what each process may do
  tasuki ps --json | jq '.[].counters[\"tcp.retransmits\"]'")]
pub(crate) struct PsArgs {
    /// Also show the counters
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Show the rights of each process instead: user, capabilities in force and others permitted,
    /// filter of system calls, no_new_privs, namespaces apart from the supervisor's, all measured
    /// in /proc (as root; `?` is hidden from others); Landlock as the server has reported it
    #[arg(long, conflicts_with = "verbose")]
    pub(crate) security: bool,
    /// Print JSON: an array with one object per instance
    #[arg(long)]
    pub(crate) json: bool,
    /// Only this instance
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<InstanceName>,
}

/// Show the sockets of an instance, as `ss -tuna` does
///
/// Without -l, listening sockets and all others are shown (as with ss -a); without -t and -u, both
/// TCP and UDP. Addresses and ports are always numbers. Recv-Q is what was received and not yet
/// read, Send-Q what is not yet acknowledged, in bytes; of a listening socket, connections that
/// wait and the most that may.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tasuki ss
  tasuki ss -tlnp                listening TCP sockets with their programs
  tasuki ss -ti                  TCP sockets with round-trip times, windows and counts
  tasuki ss --net web --json | jq '.[] | select(.state == \"LISTEN\")'")]
pub(crate) struct SsArgs {
    /// TCP sockets
    #[arg(short, long)]
    pub(crate) tcp: bool,
    /// UDP sockets
    #[arg(short, long)]
    pub(crate) udp: bool,
    /// Only listening sockets (UDP: unconnected ones)
    #[arg(short, long)]
    pub(crate) listening: bool,
    /// Listening and other sockets: the default, for the habit of -tuna
    #[arg(short, long, conflicts_with = "listening")]
    pub(crate) all: bool,
    /// Numbers instead of names: always so, for the habit of -tuna
    #[arg(short, long)]
    pub(crate) numeric: bool,
    /// Also show the programs
    #[arg(short, long)]
    pub(crate) processes: bool,
    /// Also show the inside of TCP connections: options, timers, windows, counts
    #[arg(short, long)]
    pub(crate) info: bool,
    /// Only IPv4
    #[arg(short = '4', long)]
    pub(crate) ipv4: bool,
    /// Only IPv6
    #[arg(short = '6', long)]
    pub(crate) ipv6: bool,
    /// No header line
    #[arg(short = 'H', long)]
    pub(crate) no_header: bool,
    /// The instance [default: the one that runs]
    #[arg(long, value_name = "NAME")]
    pub(crate) net: Option<InstanceName>,
    /// Print JSON: an array with one object per socket
    #[arg(long)]
    pub(crate) json: bool,
}

const ADDR_EXAMPLES: &str = "\
Examples:
  tasuki addr
  tasuki addr -6 --net web --json | jq -r '.[].addresses[].address'";

const ROUTE_EXAMPLES: &str = "\
Examples:
  tasuki route
  tasuki route -6 --net web";

const NEIGH_EXAMPLES: &str = "\
Examples:
  tasuki neigh
  tasuki neigh -4 --net web --json | jq -r '.[] | select(.state == \"REACHABLE\").address'";

#[derive(Debug, Args)]
pub(crate) struct NetworkArgs {
    /// Only IPv4
    #[arg(short = '4', long)]
    pub(crate) ipv4: bool,
    /// Only IPv6
    #[arg(short = '6', long)]
    pub(crate) ipv6: bool,
    /// The instance [default: the one that runs]
    #[arg(long, value_name = "NAME")]
    pub(crate) net: Option<InstanceName>,
    /// Print JSON: an array with one object per interface, route or neighbour
    #[arg(long)]
    pub(crate) json: bool,
}

/// Write the frames of an instance to a pcapng file
///
/// Says on standard error when it begins, and at its end what it took and missed, as tcpdump does.
/// Ends with Ctrl-C or SIGTERM, after -c frames, or with the instance; a file whose capture was
/// killed can be read, too.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tasuki capture -i web -w web.pcapng
  tasuki capture -i web --interface eth1 -w web.pcapng
  tasuki capture -c 100 -w - | tshark -r -")]
pub(crate) struct CaptureArgs {
    /// The file; `-` is standard output
    #[arg(short, long = "write", value_name = "FILE.pcapng")]
    pub(crate) write: PathBuf,
    /// The instance [default: the one that runs]
    #[arg(short = 'i', long, value_name = "NAME")]
    pub(crate) net: Option<InstanceName>,
    /// Only frames of this interface, such as eth1 [default: eth0]
    #[arg(long, value_name = "INTERFACE")]
    pub(crate) interface: Option<String>,
    /// Keep at most this many bytes of each frame; 0 means all
    #[arg(short, long, value_name = "BYTES", default_value_t = WHOLE_FRAMES)]
    #[arg(value_parser = snaplen)]
    pub(crate) snaplen: u32,
    /// End after this many frames
    #[arg(short, long, value_name = "FRAMES", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
}

/// tcpdump's default snapshot length: longer than any frame.
const WHOLE_FRAMES: u32 = 262_144;

fn snaplen(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) => Ok(WHOLE_FRAMES),
        Ok(bytes) if bytes >= 14 => Ok(bytes),
        _ => Err("it is 0 for all bytes, or at least 14, an Ethernet header".to_owned()),
    }
}

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tasuki completion bash > /etc/bash_completion.d/tasuki
  tasuki completion zsh > ~/.zfunc/_tasuki
  tasuki completion fish > ~/.config/fish/completions/tasuki.fish")]
pub(crate) struct CompletionArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Write manual pages and completion scripts below a directory like /usr/share
#[derive(Debug, Args)]
pub(crate) struct ManualArgs {
    /// The directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::instance::INSTANCE_OPTIONS;
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split(' '))
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples() {
        for command in Cli::command().get_subcommands().filter(|c| !c.is_hide_set()) {
            let help = command.clone().render_help().to_string();
            assert!(help.contains("Examples:"), "{} has no examples", command.get_name());
            let long = command.clone().render_long_help().to_string();
            assert!(long.contains("Examples:"), "{} has no examples", command.get_name());
        }
    }

    #[test]
    fn the_options_of_instances_are_all_listed() {
        const OF_THE_PROGRAM: [&str; 7] =
            ["net", "help", "intercept", "trace", "host-loopback", "keep-fd", "no-host-sockets"];
        let run = Cli::command();
        let run = run.find_subcommand("run").unwrap();
        let options: Vec<&str> = run
            .get_arguments()
            .filter_map(clap::Arg::get_long)
            .filter(|name| !OF_THE_PROGRAM.contains(name))
            .collect();
        assert_eq!(options, INSTANCE_OPTIONS);
    }

    #[test]
    fn programs_keep_their_own_options() {
        for line in ["tasuki run -- curl -v --net x", "tasuki run curl -v --net x"] {
            let Command::Run(run) = parse(line).unwrap().command else { panic!("{line}") };
            assert_eq!(run.program, ["curl", "-v", "--net", "x"], "{line}");
            assert!(run.net.is_none());
        }
    }

    fn refused(line: &str, error: &clap::Error) -> String {
        refusal(error, line.split(' ').skip(1).map(OsString::from))
    }

    #[test]
    fn wrong_usage_is_refused() {
        let table = [
            "tasuki",
            "tasuki run",
            "tasuki run --",
            "tasuki run --net Default -- true",
            "tasuki run --adress 10.0.0.2/24 -- true",
            "tasuki run --adress 10.0.0.2/24 true",
            "tasuki run --net a --mode fused -- true",
            "tasuki run --net a --fault loss=1 -- true",
            "tasuki run --mode mixed -- true",
            "tasuki run --nic eth0 -- true",
            "tasuki run --address 10.0.0.0/24 -- true",
            "tasuki run --gateway x -- true",
            "tasuki down",
            "tasuki up a_b",
            "tasuki capture",
            "tasuki capture -w x -s 1",
            "tasuki capture -w x -c 0",
            "tasuki ss -la",
            "tasuki stats -i 0",
            "tasuki stats -c 3",
            "tasuki stats --json --prometheus",
            "tasuki completion csh",
        ];
        for line in table {
            let error = parse(line).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
            assert_eq!(refused(line, &error).lines().count(), 1, "{line}");
        }
        let said = |line: &str| refused(line, &parse(line).unwrap_err());
        assert_eq!(
            said("tasuki run --adress 10.0.0.2/24 true"),
            "unexpected argument '--adress' found; a similar argument exists: '--address'; see \
             `tasuki run --help`"
        );
        assert_eq!(
            said("tasuki down"),
            "the following required arguments were not provided: <NAME>; see `tasuki down --help`"
        );
        assert!(
            said("tasuki run --nic eth0 -- true")
                .ends_with("as in tap:eth0; see `tasuki run --help`")
        );
    }

    #[test]
    fn habits_of_other_tools_are_taken() {
        for line in ["tasuki ss -tuna", "tasuki ss -tulpn", "tasuki ss -H -t"] {
            assert!(parse(line).is_ok(), "{line}");
        }
        let Command::Capture(capture) = parse("tasuki capture -i web -s 0 -w x").unwrap().command
        else {
            panic!("no capture");
        };
        assert_eq!((capture.snaplen, capture.net.unwrap().as_str()), (WHOLE_FRAMES, "web"));
    }

    #[test]
    fn what_is_hidden_is_not_shown() {
        let names: Vec<String> =
            visible().get_subcommands().map(|command| command.get_name().to_owned()).collect();
        assert_eq!(
            names,
            [
                "run",
                "up",
                "down",
                "ps",
                "ss",
                "stats",
                "stages",
                "addr",
                "route",
                "neigh",
                "xfrm",
                "capture",
                "web",
                "target",
                "disk",
                "key",
                "lab",
                "check",
                "completion"
            ]
        );
    }
}
