//! Why an initiator has no session, or no result.

use std::io;
use std::net::SocketAddr;

use iscsi::UsageError;
use iscsi::pdu::LoginStatus;

use super::sense::CommandFailure;
use crate::transport::TransportError;

/// What to do about a login that was refused.
fn login_hint(status: LoginStatus) -> &'static str {
    match status {
        LoginStatus::AuthenticationFailure => {
            "; say --user and --secret-file, which listing its disks needs as well"
        }
        LoginStatus::NotFound => "; `tasuki disk ls` lists those behind an address",
        _ => "",
    }
}

/// Why a request has no result.
#[derive(Debug, thiserror::Error)]
pub enum InitiatorError {
    /// The portal cannot be reached.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The portal.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The portal cannot be spoken with.
    #[error("no session with {address}: {source}")]
    Transport {
        /// The portal.
        address: SocketAddr,
        /// What failed.
        source: TransportError,
    },
    /// The target does not let us in.
    #[error("the target refuses the login: {0}{hint}", hint = login_hint(*.0))]
    Refused(LoginStatus),
    /// The target has not proved who it is.
    #[error("the target does not prove who it is: {0}")]
    Unproved(&'static str),
    /// The connection has ended.
    #[error("the connection to the target is lost: {0}")]
    Lost(String),
    /// The target has failed.
    #[error("the target failed")]
    Target,
    /// A command has failed.
    #[error("{}", CommandFailure {
        operation: *operation, status: *status, key: *key, code: *code
    })]
    Command {
        /// Operation code.
        operation: u8,
        /// SCSI status.
        status: u8,
        /// Sense key; 0 if there is no sense data.
        key: u8,
        /// Additional sense code and its qualifier.
        code: u16,
    },
    /// The answer is too short, or says something impossible.
    #[error("the target's answer to command {0:02x}h makes no sense")]
    Answer(u8),
    /// A call that the protocol does not allow.
    #[error(transparent)]
    Usage(#[from] UsageError),
}
