//! The command line of `tasuki run`.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;

use super::instance::{INSTANCE_OPTIONS, InstanceOptions};
use crate::exit;
use crate::runtime_dir::InstanceName;

/// Run a program on the stack
///
/// Without --net, the program gets an instance of its own, which lives as long as the program: a
/// new TAP device whose host side has the gateway's address, and a stack with the other one. Users
/// who may not make a TAP device get passt instead, if it is installed. Over a TAP device the
/// program reaches the host's services at the gateway's address. tasuki passes signals on, ends
/// with the program's exit code and leaves nothing behind.
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
    /// Print the program's calls that go to Tasuki, as strace does: process, time, call, result and
    /// duration; on standard error, or to FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "-")]
    pub(crate) trace: Option<PathBuf>,
    /// The same as --trace=FILE
    #[arg(short = 'o', value_name = "FILE", conflicts_with = "trace")]
    pub(crate) output: Option<PathBuf>,
    /// Let the program reach the host's 127.0.0.1 and ::1 as ADDRESS, one of each family, over TCP
    /// and UDP; without this option it reaches nothing of the host that its own network does not
    /// lead to [without a value: 10.0.2.2,fec0::2]
    #[arg(long, value_name = "ADDRESS,...", num_args = 0..=1, require_equals = true)]
    #[arg(value_delimiter = ',', default_missing_value = "10.0.2.2,fec0::2")]
    #[arg(value_parser = host_address)]
    pub(crate) host_loopback: Vec<IpAddr>,
    /// Leave these open descriptors to the program although they are sockets of the host's network,
    /// or io_urings; others of that kind are closed, but those of systemd's socket activation
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(i32).range(0..))]
    pub(crate) keep_fd: Vec<i32>,
    /// Keep the program from Unix sockets of the host: it makes no Unix socket but connected pairs,
    /// and can neither trace nor signal processes outside (Linux 6.12)
    #[arg(long)]
    pub(crate) no_host_sockets: bool,
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
  tasuki run --host-loopback -- curl http://10.0.2.2:8000/  a server of the host itself
  tasuki run --trace=calls.txt -- wget http://10.219.0.1:8000/
  tasuki run --fault loss=0.01,seed=7 -- curl http://10.219.0.1:8000/";

/// An address that may stand for the host.
fn host_address(text: &str) -> Result<IpAddr, String> {
    let address: IpAddr = text.parse().map_err(|_| "no IP address".to_owned())?;
    let address = address.to_canonical();
    if address.is_loopback() || address.is_unspecified() || address.is_multicast() {
        return Err("no host can have it for others: choose one like 10.0.2.2".to_owned());
    }
    Ok(address)
}

fn run_help() -> String {
    format!("{RUN_EXAMPLES}\n\n{}", exit::HELP)
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
