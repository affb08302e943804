//! Options of all that has sessions with disks: words of a command line, or parameters of the
//! nbdkit plug-in, which have the same names.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use seal::{Suite, SuiteChoice};
use serde::Deserialize;
use storage::DigestPreference;

use crate::runtime_dir::InstanceName;

/// A cipher of sealed and TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Cipher {
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

/// Digests (CRC32C) of iSCSI's headers and data, in the words of open-iscsi.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
pub enum Digest {
    /// Without digests, and with no peer that wants one
    #[value(name = "none")]
    #[serde(rename = "none")]
    Never,
    /// Without digests, if the peer takes that
    #[value(name = "none,crc32c")]
    #[serde(rename = "none,crc32c")]
    Avoid,
    /// With digests, if the peer takes that
    #[value(name = "crc32c,none")]
    #[serde(rename = "crc32c,none")]
    Prefer,
    /// With digests, and with no peer that has none
    #[value(name = "crc32c")]
    #[serde(rename = "crc32c")]
    Require,
}

impl From<Digest> for DigestPreference {
    fn from(digest: Digest) -> Self {
        match digest {
            Digest::Never => Self::Never,
            Digest::Avoid => Self::Avoid,
            Digest::Prefer => Self::Prefer,
            Digest::Require => Self::Require,
        }
    }
}

/// What an end shows of itself, and whom it takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sealed and TLS")]
pub struct CredentialArgs {
    /// Private key in PEM [default: this machine's, see `tasuki key`]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Show a certificate (PEM, with its intermediates) instead of the bare key
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Take certificates of these authorities (PEM) instead of known keys
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Refuse the certificates of these revocation lists (PEM)
    #[arg(long, value_name = "FILE", requires = "ca")]
    pub crl: Vec<PathBuf>,
    /// Cipher
    #[arg(long, value_name = "CIPHER", value_enum, default_value_t)]
    pub cipher: Cipher,
    /// Pad sealed records to a multiple of this many bytes, 2 to 16384, which hides lengths
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(2..=16384))]
    pub pad: Option<u16>,
    /// Change the key of sealed records after this many MiB, at most 65536
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=65536))]
    pub rekey_after: Option<u64>,
}

/// How this initiator and the target prove who they are (CHAP)
///
/// Secrets are in files, which belong to root or this user and which nobody else can read.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "CHAP")]
pub struct ChapArgs {
    /// Prove to be this user
    #[arg(long, value_name = "NAME", requires = "secret_file")]
    pub user: Option<String>,
    /// By the secret in this file
    #[arg(long, value_name = "FILE", requires = "user")]
    pub secret_file: Option<PathBuf>,
    /// The target has to prove that it knows the secret in this file
    #[arg(long, value_name = "FILE", requires = "user")]
    pub target_secret_file: Option<PathBuf>,
}

/// How a session with a target is made.
#[derive(Debug, Clone, Args)]
pub struct DiskAccessArgs {
    /// iSCSI name of this initiator [default: one with the machine's id]
    #[arg(long, value_name = "IQN")]
    pub initiator: Option<String>,
    /// Trust the key of a target that is not known yet, and keep it
    #[arg(long)]
    pub accept_new: bool,
    /// CRC32C of iSCSI's headers and data [default: crc32c,none where the session is plain;
    /// none,crc32c where its transport finds damage]
    #[arg(long, value_name = "DIGEST", value_enum)]
    pub digest: Option<Digest>,
    /// Who it is.
    #[command(flatten)]
    pub chap: ChapArgs,
    /// What it shows of itself.
    #[command(flatten)]
    pub credentials: CredentialArgs,
}

/// Options of commands that keep a session
#[derive(Debug, Clone, Args)]
pub struct DiskSessionArgs {
    /// The instance [default: the one that runs]
    #[arg(long, value_name = "NAME")]
    pub net: Option<InstanceName>,
    /// Fail when the target has been away for so long [default: wait for it]
    #[arg(long, value_name = "SECONDS")]
    pub give_up: Option<u32>,
    /// How it is made. It comes last, as its headings are for all that follows.
    #[command(flatten)]
    pub access: DiskAccessArgs,
}

/// Options by which an encrypted disk is opened
#[derive(Debug, Clone, Args)]
pub struct LuksKeyArgs {
    /// The unit has a LUKS header: encrypt and decrypt here, the target has no key
    #[arg(long)]
    pub luks: bool,
    /// The passphrase is this file as it is, or standard input if `-` [default: ask]
    #[arg(long, value_name = "FILE", requires = "luks")]
    pub key_file: Option<PathBuf>,
}

/// Options of an encrypted disk
#[derive(Debug, Clone, Args)]
pub struct LuksArgs {
    /// How it is opened.
    #[command(flatten)]
    pub key: LuksKeyArgs,
    /// Give sectors back to the target, which then sees that they are free
    ///
    /// They read as zeroes with this option, and as random bytes without it or by cryptsetup.
    #[arg(long, requires = "luks")]
    pub discard: bool,
}

/// What is wrong with options, as one sentence with clap's tip.
#[must_use]
pub fn clap_sentence(error: &clap::Error) -> String {
    let text = error.render().to_string();
    // No user means an option as a value.
    let left_out = ["Usage: ", "For more information", "tip: to pass "];
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !left_out.iter().any(|head| line.starts_with(head)))
        .collect();
    let what = lines.join(" ").replace(" tip: ", "; ");
    what.strip_prefix("error: ").unwrap_or(&what).to_owned()
}
