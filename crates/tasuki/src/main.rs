//! `tasuki`: runs programs on a TCP/IP stack made of small processes.
//!
//! The one executable of the project. The servers that the supervisor starts are this same
//! executable (`tasuki server …`). Every failure ends in one sentence and one exit code.
//!
//! ```text layers
//! command: a module for each command
//! supervisor: makes an instance, admits clients, watches all processes
//! operator: the commands' connection to a running instance
//! settings: what an instance is to be, out of options and configuration file
//! network program: the host's addresses and routes; the program that is run
//! cli: the options of all commands
//! config: the configuration file
//! device publish cidr: words of options
//! runtime_dir: where instances are found
//! limits exit: descriptors, failures and exit codes
//! ```

#![forbid(unsafe_code)]

mod cidr;
mod cli;
mod command;
mod config;
mod device;
mod exit;
mod limits;
mod network;
mod operator;
mod program;
mod publish;
mod runtime_dir;
mod settings;
mod supervisor;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::cli::{Cli, Command};

/// `tasuki` alone shows the help.
const NO_ARGUMENTS: ErrorKind = ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() && error.kind() != NO_ARGUMENTS => {
            let refusal = cli::refusal(&error, std::env::args_os().skip(1));
            exit::say(format_args!("tasuki: {refusal}"));
            return ExitCode::from(exit::Code::Usage as u8);
        }
        Err(help) => help.exit(),
    };
    start_log(command::up::background_log().is_some());
    let done = match cli.command {
        Command::Run(run) => command::run::run(run),
        Command::Up(up) => command::up::up(&up),
        Command::Down(down) => command::down::down(&down),
        Command::Ps(ps) => command::ps::ps(&ps),
        Command::Ss(ss) => command::ss::ss(&ss),
        Command::Stats(stats) => command::stats::stats(&stats),
        Command::Stages(stages) => command::stages::stages(&stages),
        Command::Addr(network) => command::network::addr(&network),
        Command::Route(network) => command::network::route(&network),
        Command::Neigh(network) => command::network::neigh(&network),
        Command::Capture(capture) => command::capture::capture(&capture),
        Command::Completion(completion) => command::completion::completion(&completion),
        Command::Manual(manual) => command::manual::manual(&manual),
        Command::Server(server) => command::server::server(&server),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            exit::say(format_args!("tasuki: {failure}"));
            ExitCode::from(failure.code as u8)
        }
    }
}

/// Messages go to standard error, from the level that TASUKI_LOG names (`warn` if it names none).
fn start_log(background: bool) {
    let asked = std::env::var("TASUKI_LOG").unwrap_or_default();
    let parsed =
        EnvFilter::builder().with_default_directive(LevelFilter::WARN.into()).parse(&asked);
    let filter = parsed.unwrap_or_else(|error| {
        let see = "see `tasuki --help`";
        exit::say(format_args!("tasuki: TASUKI_LOG is ignored: {error}; {see}"));
        EnvFilter::new("warn")
    });
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A message that cannot be written is lost: saying so there as well would be a panic.
    let log = log.with_ansi(std::io::stderr().is_terminal()).log_internal_errors(false);
    if background {
        log.init();
    } else {
        log.without_time().compact().init();
    }
}
