//! The command line of `tasuki check`.

use std::ffi::OsString;

use clap::Args;

/// Show what this system allows, and how programs will therefore run
///
/// Tries what instances and relays need, each in a process of its own, and changes nothing. Exit
/// code 0: all kinds of programs run; 119: a right is missing for some kind, and the table says
/// which.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tasuki check                 what this system allows
  tasuki check ./server        how this program will run
  tasuki check --json | jq '.facts[] | select(.allowed == false)'")]
pub(crate) struct CheckArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Try this in this very process, and end
    #[arg(long, hide = true, value_name = "NAME", conflicts_with = "program")]
    pub(crate) attempt: Option<Attempt>,
    /// Say how this program will run
    #[arg(value_name = "PROGRAM")]
    pub(crate) program: Option<OsString>,
}

/// What is tried in a process of its own, since it cannot be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Attempt {
    /// A filter of system calls with user notification.
    Filter,
    /// A user namespace of the caller's own.
    UserNamespace,
    /// A relay's network namespace with its devices.
    RelayNamespace,
}
