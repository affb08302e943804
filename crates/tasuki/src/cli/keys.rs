//! The command line of `tasuki key`.

use std::net::SocketAddr;

use clap::{Args, Subcommand};
use seal::Fingerprint;

/// The keys of this machine and those that it knows
///
/// Sealed sessions prove both ends by keys, as ssh does. This machine's key is made when it is
/// first needed. A target lets in the keys of known initiators, an initiator talks to targets whose
/// key it knows; both also take their own machine's key.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  tasuki key show                                  this machine's key, to be told to others
  tasuki key allow alice SHA256:47DEQp...          on the target: let this initiator in
  tasuki key trust 10.9.0.2 SHA256:HVY0lp...       on the initiator: talk to this target
  tasuki key forget alice")]
pub(crate) struct KeyArgs {
    #[command(subcommand)]
    pub(crate) command: KeyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Print the fingerprint of this machine's key, which is made if there is none
    Show,
    /// Make a new key
    ///
    /// Who knows the old one has to be told the new one.
    New {
        /// Replace the key that is there
        #[arg(long)]
        force: bool,
    },
    /// Let an initiator's key in at the targets of this machine
    Allow {
        /// What the initiator is called here: one word
        #[arg(value_name = "NAME")]
        name: String,
        /// Its key, as `tasuki key show` prints it there
        #[arg(value_name = "KEY")]
        key: Fingerprint,
    },
    /// Trust a target's key
    Trust {
        /// The target's address, with its port if it is not 3260
        #[arg(value_name = "ADDRESS", value_parser = portal)]
        address: SocketAddr,
        /// Its key, as `tasuki key show` prints it there
        #[arg(value_name = "KEY")]
        key: Fingerprint,
    },
    /// Forget the keys of an initiator or of a target
    Forget {
        /// The name of an initiator, or the address of a target
        #[arg(value_name = "NAME|ADDRESS")]
        name: String,
    },
    /// Show the keys that are known
    Ls {
        /// Print JSON: an array with one object per key
        #[arg(long)]
        json: bool,
    },
}

/// An address with or without a port.
fn portal(word: &str) -> Result<SocketAddr, storage::UrlError> {
    storage::portal_address(word)
}
