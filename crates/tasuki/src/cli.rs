//! The command line: one item per option, with its help and its parser.

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::cidr::Cidr;
use crate::config::{Device, Fault, Mode};
use crate::exit;
use crate::place::InstanceName;

/// Run unmodified programs on a TCP/IP stack made of small processes
///
/// Tasuki runs TCP/IP as ordinary processes that hand memory pages to each other: a program, an
/// inet server, a NIC driver and a supervisor. `tasuki run` puts one program on a stack of its own;
/// `tasuki up` starts a stack that programs share.
#[derive(Debug, Parser)]
#[command(name = "tasuki", version, after_long_help = exit::HELP, max_term_width = 100)]
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
    Capture(CaptureArgs),
    Completion(CompletionArgs),
    #[command(hide = true)]
    Server(ServerArgs),
}

/// Run a program on the stack
///
/// Without --net, the program gets an instance of its own, which lives as long as the program: a
/// new TAP device whose host side has the gateway's address, and a stack with the other one. The
/// program reaches the host's services at the gateway's address. tasuki passes signals on, ends
/// with the program's exit code and leaves nothing behind.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES, after_long_help = run_help())]
pub(crate) struct RunArgs {
    /// Use the running instance NAME instead of making one
    #[arg(long, value_name = "NAME", conflicts_with_all = INSTANCE_OPTIONS)]
    pub(crate) net: Option<InstanceName>,
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
  tasuki run --fault loss=0.01,seed=7 -- curl http://10.219.0.1:8000/";

fn run_help() -> String {
    format!("{RUN_EXAMPLES}\n\n{}", exit::HELP)
}

/// How an instance is set up; each wins over the configuration file.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct InstanceOptions {
    /// Processes: inet server and NIC driver apart (split) or in one (fused)
    #[arg(long, value_enum)]
    pub(crate) mode: Option<Mode>,
    /// Network device, made by Tasuki [default: tap:tasuki0, tap:tasuki1, ...]
    #[arg(long, value_name = "tap:NAME")]
    pub(crate) nic: Option<Device>,
    /// The stack's address and prefix length [default: 10.219.N.2/24, first N not in use]
    #[arg(long, value_name = "CIDR")]
    pub(crate) address: Option<Cidr>,
    /// The host's address on the device, the stack's router [default: the network's first host]
    #[arg(long, value_name = "IP")]
    pub(crate) gateway: Option<Ipv4Addr>,
    /// Read the configuration from FILE (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Make faults on the wire: loss=P,duplicate=P,reorder=P,corrupt=P,seed=N
    #[arg(long, value_name = "KEY=VALUE,...")]
    pub(crate) fault: Option<Fault>,
}

/// The names of all of [`InstanceOptions`]: they mean nothing for an instance that runs already.
const INSTANCE_OPTIONS: [&str; 6] = ["mode", "nic", "address", "gateway", "config", "fault"];

/// Start an instance that programs can share
///
/// Returns when the instance answers; it then runs in the background until `tasuki down`. Its
/// messages go to NAME.log beside its socket in /run/tasuki (or $XDG_RUNTIME_DIR/tasuki).
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
  tasuki ps --json | jq '.[].counters'")]
pub(crate) struct PsArgs {
    /// Also show the counters
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Print JSON: an array with one object per instance
    #[arg(long)]
    pub(crate) json: bool,
    /// Only this instance
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<InstanceName>,
}

/// Show the sockets of an instance, as `ss -tuna` does
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tasuki ss
  tasuki ss --net web --json | jq '.[] | select(.state == \"LISTEN\")'")]
pub(crate) struct SsArgs {
    /// The instance [default: the one that runs]
    #[arg(long, value_name = "NAME")]
    pub(crate) net: Option<InstanceName>,
    /// Print JSON: an array with one object per socket
    #[arg(long)]
    pub(crate) json: bool,
}

/// Write the frames of an instance to a pcapng file
///
/// Ends with Ctrl-C, after -c frames, or with the instance.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tasuki capture -w web.pcapng --net web
  tasuki capture -c 100 -w - | tshark -r -")]
pub(crate) struct CaptureArgs {
    /// The file; `-` is standard output
    #[arg(short, long = "write", value_name = "FILE.pcapng")]
    pub(crate) write: PathBuf,
    /// The instance [default: the one that runs]
    #[arg(long, value_name = "NAME")]
    pub(crate) net: Option<InstanceName>,
    /// Keep at most this many bytes of each frame
    #[arg(short, long, value_name = "BYTES", default_value_t = 262_144)]
    #[arg(value_parser = clap::value_parser!(u32).range(14..))]
    pub(crate) snaplen: u32,
    /// End after this many frames
    #[arg(short, long, value_name = "FRAMES", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
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

/// Be a server of an instance; only the supervisor starts these.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    #[arg(value_enum)]
    pub(crate) role: ServerRole,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ServerRole {
    Inet,
    Nic,
    Fused,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

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
            .filter(|name| *name != "net" && *name != "help")
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
            "tasuki completion csh",
        ];
        for line in table {
            assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
        }
    }
}
