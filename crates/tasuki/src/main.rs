//! `tasuki`: runs programs on a TCP/IP stack made of small processes.
//!
//! The one executable of the project. The servers that the supervisor starts are this same
//! executable (`tasuki server …`). Every failure ends in one sentence and one exit code.
//!
//! ```text layers
//! command: a module for each command
//! supervisor: makes an instance, admits clients, watches all processes
//! settings: what an instance is to be, out of options and configuration file
//! network program: the host's addresses and routes; the program that is run
//! cli: the options of all commands
//! target_config: the configuration file of a target
//! config: the configuration file of an instance
//! device publish cidr xfrm: words of options
//! vectors: vectors of ESP
//! log: messages, at a limited rate
//! limits: descriptors
//! ```

#![forbid(unsafe_code)]

mod cidr;
mod cli;
mod command;
mod config;
mod device;
mod limits;
mod log;
mod network;
mod program;
mod publish;
mod settings;
mod supervisor;
mod target_config;
mod vectors;
mod xfrm;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use user::{exit, keys, operator, output_file, runtime_dir};

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
    log::start(command::background::log_path().is_some());
    if serves_programs(&cli.command)
        && let Err(errno) = sandbox::forbid_inspection()
    {
        exit::say(format_args!("tasuki: cannot forbid its inspection: {errno}"));
        return ExitCode::from(exit::Code::Internal as u8);
    }
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
        Command::Xfrm(xfrm) => command::xfrm::xfrm(&xfrm),
        Command::Capture(capture) => command::capture::capture(&capture),
        Command::Web(web) => command::web::web(&web),
        Command::Target(target) => command::target::target(&target),
        Command::Disk(disk) => command::disk::disk(&disk),
        Command::Key(key) => command::key::key(&key),
        Command::Lab(lab) => command::lab::lab(&lab),
        Command::Check(check) => command::check::check(&check),
        Command::Completion(completion) => command::completion::completion(&completion),
        Command::Manual(manual) => command::manual::manual(&manual),
        Command::Relay(relay) => command::relay::relay(&relay),
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

/// Does this process stay while programs of its user run? They are not to look into it.
fn serves_programs(command: &Command) -> bool {
    matches!(
        command,
        Command::Run(_)
            | Command::Up(_)
            | Command::Relay(_)
            | Command::Web(_)
            | Command::Capture(_)
    )
}
