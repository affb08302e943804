//! The processes that Tasuki starts from its own executable. Their commands are hidden.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;

/// Be the relay of a program; only `tasuki run` starts it. Standard input is a socket that brings
/// the end of the program's filter and the path of its instance.
#[derive(Debug, Args)]
pub(crate) struct RelayArgs {
    /// How much of the sandbox is wanted
    #[arg(long, default_value_t)]
    pub(crate) sandbox: sandbox::Demand,
    /// Write a line for each call to this file, or to standard error (-)
    #[arg(long)]
    pub(crate) trace: Option<PathBuf>,
    /// The program has no library: be ready for its sockets at once
    #[arg(long)]
    pub(crate) eager: bool,
    /// The addresses by which programs reach the host's own loopback
    #[arg(long)]
    pub(crate) host_loopback: Vec<IpAddr>,
    /// Be collected by the process that has started it
    #[arg(long)]
    pub(crate) child: bool,
}

/// Be a server of an instance; only the supervisor starts these.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// inet, nic:KIND or fused:KIND, with the kind of the device
    pub(crate) role: sandbox::Role,
    /// How much of the sandbox is wanted
    #[arg(long, default_value_t)]
    pub(crate) sandbox: sandbox::Demand,
    /// The user to become
    #[arg(long)]
    pub(crate) user: Option<u32>,
    /// Try these system calls in the sandbox instead, such as openat(-100,"/etc/passwd",0)
    #[arg(long = "try", value_name = "CALL")]
    pub(crate) tries: Vec<sandbox::probe::Try>,
    /// Try them without the filter of system calls
    #[arg(long, requires = "tries")]
    pub(crate) no_filter: bool,
}
