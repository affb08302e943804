//! Why a request to a disk fails.

use std::time::Duration;

use rustix::io::Errno;

use crate::initiator::InitiatorError;

/// Sense keys (SPC-4 4.5.6).
const ILLEGAL_REQUEST: u8 = 5;
const DATA_PROTECT: u8 = 7;
/// Additional sense codes (SPC-4 D.2).
const INVALID_OPERATION: u16 = 0x2000;
const INVALID_FIELD: u16 = 0x2400;
const OUT_OF_SPACE: u16 = 0x2707;
/// Status RESERVATION CONFLICT (SAM-5 5.3.1).
const RESERVATION_CONFLICT: u8 = 0x18;

/// Why a request has no result.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The target's answer.
    #[error(transparent)]
    Unit(#[from] InitiatorError),
    /// The target has been away for longer than the caller wants to wait.
    #[error("the target has been away for {} s: {why}", .patience.as_secs())]
    Away {
        /// How long the caller waits.
        patience: Duration,
        /// The last attempt's failure.
        why: String,
    },
    /// After the session came back the unit is another one.
    #[error("the unit is not the one it was ({0}): nothing is written to it")]
    OtherUnit(String),
    /// Behind the end of the unit.
    #[error("{len} bytes at {offset} are not within the {size} of the unit")]
    Range {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
        /// Bytes of the unit.
        size: u64,
    },
    /// The unit has no command for it.
    #[error("the unit cannot do that: {0}")]
    Unsupported(InitiatorError),
    /// The disk has been closed.
    #[error("the disk has been closed")]
    Closed,
}

impl DiskError {
    /// The error number that a program gets.
    #[must_use]
    pub fn errno(&self) -> Errno {
        match self {
            Self::Unit(InitiatorError::Command { status, key, code, .. }) => {
                match (*status, *key, *code) {
                    (_, _, OUT_OF_SPACE) => Errno::NOSPC,
                    (_, DATA_PROTECT, _) => Errno::ROFS,
                    (RESERVATION_CONFLICT, ..) => Errno::BUSY,
                    _ => Errno::IO,
                }
            }
            Self::Range { .. } => Errno::NOSPC,
            Self::Unsupported(_) => Errno::OPNOTSUPP,
            _ => Errno::IO,
        }
    }
}

/// Does the unit lack the command, or the form of it?
pub(super) fn is_unsupported(error: &InitiatorError) -> bool {
    matches!(
        error,
        InitiatorError::Command {
            key: ILLEGAL_REQUEST,
            code: INVALID_OPERATION | INVALID_FIELD,
            ..
        }
    )
}
