//! The command line: one item per option, with its help and its parser.

mod instruments;
#[cfg(test)]
mod pages;
mod processes;

use std::ffi::OsString;
use std::path::PathBuf;

use abi::network::Ipv6Mode;
use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::cidr::Cidr;
use crate::config::{Fault, Mode, Router};
use crate::device::Device;
use crate::exit;
use crate::publish::Publish;
use crate::runtime_dir::InstanceName;

pub(crate) use self::instruments::{StagesArgs, StatsArgs};
pub(crate) use self::processes::{RelayArgs, ServerArgs};

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
    Capture(CaptureArgs),
    Completion(CompletionArgs),
    #[command(hide = true)]
    Manual(ManualArgs),
    #[command(hide = true)]
    Server(ServerArgs),
    #[command(hide = true)]
    Relay(RelayArgs),
}

/// Environment variables that matter to Tasuki, and what each does.
pub(crate) const ENVIRONMENT: [(&str, &str); 5] = [
    ("TASUKI_LOG", "messages to tell: off, error, warn, info, debug or trace [default: warn]"),
    ("TASUKI_PRELOAD", "path of libtasuki_preload.so, where it is not installed as usual"),
    ("TASUKI_SANDBOX", "how much of the servers' sandbox: off, on or require [default: on]"),
    ("TASUKI_SOCKET", "socket of the instance; `tasuki run` sets it for its program"),
    ("XDG_RUNTIME_DIR", "users other than root have their instances in its directory tasuki"),
];

fn top_help() -> String {
    let variables: Vec<String> =
        ENVIRONMENT.iter().map(|(name, what)| format!("  {name:15}  {what}")).collect();
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
    let text = error.render().to_string();
    // No user means an option as a value.
    let left_out = ["Usage: ", "For more information", "tip: to pass "];
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !left_out.iter().any(|head| line.starts_with(head)))
        .collect();
    let what = lines.join(" ").replace(" tip: ", "; ");
    let what = what.strip_prefix("error: ").unwrap_or(&what);
    let command = words.next().filter(|word| visible().find_subcommand(word).is_some());
    let command = command.map_or(String::new(), |word| format!(" {}", word.display()));
    format!("{what}; see `tasuki{command} --help`")
}

/// Run a program on the stack
///
/// Without --net, the program gets an instance of its own, which lives as long as the program: a
/// new TAP device whose host side has the gateway's address, and a stack with the other one. Users
/// who may not make a TAP device get passt instead, if it is installed. Either way the program
/// reaches the host's services at the gateway's address. tasuki passes signals on, ends with the
/// program's exit code and leaves nothing behind.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES, after_long_help = run_help())]
pub(crate) struct RunArgs {
    /// Use the running instance NAME instead of making one
    #[arg(long, value_name = "NAME", conflicts_with_all = INSTANCE_OPTIONS)]
    pub(crate) net: Option<InstanceName>,
    /// How the program's sockets become Tasuki's: by the preloaded library (preload), by a filter
    /// of system calls and a relay (seccomp: also static programs and direct system calls), or both
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub(crate) intercept: Intercept,
    #[command(flatten)]
    pub(crate) options: InstanceOptions,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true)]
    #[arg(value_name = "PROGRAM [ARG]")]
    pub(crate) program: Vec<OsString>,
}

const RUN_EXAMPLES: &str = "\
Examples:
  tasuki run -- curl http://10.219.0.1:8000/     a private instance for one download
  tasuki run --net web -- python3 -m http.server on the instance of `tasuki up web`
  tasuki run --mode fused --address 192.168.77.2/24 -- wget http://192.168.77.1/
  tasuki run --ip 10.9.0.2/24,fd00:9::2/64 -- curl http://[fd00:9::1]:8000/
  tasuki run --fault loss=0.01,seed=7 -- curl http://10.219.0.1:8000/";

fn run_help() -> String {
    format!("{RUN_EXAMPLES}\n\n{}", exit::HELP)
}

// In strings, since rustdoc takes brackets for links.
const NIC_HELP: &str = "Network device: tap:NAME (made by Tasuki), packet:INTERFACE (the host's, \
    as one more station there), xdp:INTERFACE (taken over), passt: (needs no right), wire:SOCKET \
    (a link to another instance), pcap:FILE[,OUTPUT][,fast][,delay=SECONDS] (a capture file) \
    [default: tap:tasuki0, tap:tasuki1, ..., or passt: for users who may not make a TAP device]";
const PUBLISH_HELP: &str = "Ports of the host that lead to the stack, with passt: \
    [ADDRESS:]PORT[:STACK-PORT][/udp]";

/// How an instance is set up; each wins over the configuration file.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct InstanceOptions {
    /// Processes: inet server and NIC driver apart (split), in one (fused), or inside the program,
    /// of which there is one at a time (library)
    #[arg(long, value_enum)]
    pub(crate) mode: Option<Mode>,
    #[arg(long, value_name = "KIND:NAME", help = NIC_HELP)]
    pub(crate) nic: Option<Device>,
    #[arg(short, long, value_name = "PORT,...", value_delimiter = ',', help = PUBLISH_HELP)]
    pub(crate) publish: Vec<Publish>,
    /// The stack's addresses with prefix lengths, IPv4 and IPv6 [default: 10.219.N.2/24, first N
    /// not in use]
    #[arg(long, visible_alias = "ip", value_name = "CIDR,...", value_delimiter = ',')]
    pub(crate) address: Vec<Cidr>,
    /// The host's addresses on the device, the stack's routers, at most one of each family
    /// [default: the first host of the family's first network]
    #[arg(long, value_name = "IP,...", value_delimiter = ',')]
    pub(crate) gateway: Vec<Router>,
    /// IPv6: from routers' advertisements too (auto), as given and link-local only (static), or not
    /// at all (off) [default: auto]
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) ipv6: Option<Ipv6Choice>,
    /// Ask a DHCP server on the device's link for the IPv4 address, routes and name servers; the
    /// host's end of the device then gets no IPv4 address
    #[arg(long)]
    pub(crate) dhcp: bool,
    /// Read the configuration from FILE (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Leave checksums and the splitting of long segments to the device, as far as it can; off with
    /// --fault, except with super_segments=on [default: on]
    #[arg(long, value_enum, value_name = "on|off", hide_possible_values = true)]
    pub(crate) offload: Option<Switch>,
    /// Make faults on the wire: loss=P,duplicate=P,reorder=P,corrupt=P,seed=N; with
    /// super_segments=on, to whole super-segments, so that many segments are lost (doubled, late)
    /// at once
    #[arg(long, value_name = "KEY=VALUE,...")]
    pub(crate) fault: Option<Fault>,
}

/// The names of all of [`InstanceOptions`]: they mean nothing for an instance that runs already.
const INSTANCE_OPTIONS: [&str; 10] =
    ["mode", "nic", "publish", "address", "gateway", "ipv6", "dhcp", "config", "offload", "fault"];

/// A switch: on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

/// How the stack comes by IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Ipv6Choice {
    Auto,
    Static,
    Off,
}

impl Ipv6Choice {
    pub(crate) fn mode(self) -> Ipv6Mode {
        match self {
            Self::Auto => Ipv6Mode::Auto,
            Self::Static => Ipv6Mode::Static,
            Self::Off => Ipv6Mode::Off,
        }
    }
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

/// How the sockets of a program become Tasuki's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Intercept {
    /// The library where it can be loaded, and the filter beneath it
    #[default]
    Auto,
    /// The library only: programs that make system calls themselves use the host's network
    Preload,
    /// The filter only
    Seccomp,
}

#[cfg(test)]
mod tests {
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
        let run = Cli::command();
        let run = run.find_subcommand("run").unwrap();
        let options: Vec<&str> = run
            .get_arguments()
            .filter_map(clap::Arg::get_long)
            .filter(|name| !["net", "help", "intercept"].contains(name))
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
                "capture",
                "completion"
            ]
        );
    }
}
