//! The command line of `tasuki key`, and the options of protected transports.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use seal::{Fingerprint, Suite, SuiteChoice};

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

/// A cipher of sealed and TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Cipher {
    /// The one that both processors do best
    #[default]
    Auto,
    /// AES-256-GCM alone
    #[value(name = "aes-256-gcm")]
    Aes256Gcm,
    /// ChaCha20-Poly1305 alone
    #[value(name = "chacha20-poly1305")]
    ChaCha20Poly1305,
}

impl From<Cipher> for SuiteChoice {
    fn from(cipher: Cipher) -> Self {
        match cipher {
            Cipher::Auto => Self::ByProcessor,
            Cipher::Aes256Gcm => Self::Only(Suite::Aes256Gcm),
            Cipher::ChaCha20Poly1305 => Self::Only(Suite::ChaCha20Poly1305),
        }
    }
}

/// What an end shows of itself, and whom it takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sealed and TLS")]
pub(crate) struct CredentialArgs {
    /// Private key in PEM [default: this machine's, see `tasuki key`]
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// Show a certificate (PEM, with its intermediates) instead of the bare key
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// Take certificates of these authorities (PEM) instead of known keys
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Refuse the certificates of these revocation lists (PEM)
    #[arg(long, value_name = "FILE", requires = "ca")]
    pub(crate) crl: Vec<PathBuf>,
    /// Cipher
    #[arg(long, value_name = "CIPHER", value_enum, default_value_t)]
    pub(crate) cipher: Cipher,
    /// Pad sealed records to a multiple of this many bytes, 2 to 16384, which hides lengths
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(2..=16384))]
    pub(crate) pad: Option<u16>,
    /// Change the key of sealed records after this many MiB, at most 65536
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=65536))]
    pub(crate) rekey_after: Option<u64>,
}
