//! The options by which commands of `tasuki disk` get a session with a target.

use std::path::PathBuf;

use clap::Args;

use super::CredentialArgs;

/// How this initiator and the target prove who they are (CHAP)
///
/// Secrets are in files, which belong to root or this user and which nobody else can read.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "CHAP")]
pub(crate) struct ChapArgs {
    /// Prove to be this user
    #[arg(long, value_name = "NAME", requires = "secret_file")]
    pub(crate) user: Option<String>,
    /// By the secret in this file
    #[arg(long, value_name = "FILE", requires = "user")]
    pub(crate) secret_file: Option<PathBuf>,
    /// The target has to prove that it knows the secret in this file
    #[arg(long, value_name = "FILE", requires = "user")]
    pub(crate) target_secret_file: Option<PathBuf>,
}

/// How a session with a target is made.
#[derive(Debug, Clone, Args)]
pub(crate) struct DiskAccessArgs {
    /// iSCSI name of this initiator [default: one with the machine's id]
    #[arg(long, value_name = "IQN")]
    pub(crate) initiator: Option<String>,
    /// Trust the key of a target that is not known yet, and keep it
    #[arg(long)]
    pub(crate) accept_new: bool,
    #[command(flatten)]
    pub(crate) chap: ChapArgs,
    #[command(flatten)]
    pub(crate) credentials: CredentialArgs,
}
