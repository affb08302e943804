//! Why a process could not become a client. Socket operations fail with [`abi::Errno`] instead, as
//! POSIX has it.

use std::num::TryFromIntError;
use std::path::PathBuf;

use abi::{BadSlot, Errno};
use shm::{AreaError, OutOfRange, RingFault};

/// The environment variable that holds the path of the instance's control socket.
pub const ENV: &str = "TASUKI_SOCKET";

/// Admission failed. The text names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The environment does not name an instance.
    #[error(
        "no Tasuki instance is named: start the program with `tasuki run -- PROGRAM`, or set {env} \
         to an instance's socket",
        env = ENV
    )]
    NotNamed,
    /// No process listens at the instance's socket.
    #[error(
        "no Tasuki instance answers at {path}: {errno}; start one with `tasuki up`, or the program \
         with `tasuki run`",
        path = path.display()
    )]
    Unreachable {
        /// The instance's socket.
        path: PathBuf,
        /// The error of connecting.
        errno: Errno,
    },
    /// The instance refused.
    #[error("the Tasuki instance did not admit this program: {message}")]
    Refused {
        /// Its reason, one sentence.
        message: String,
    },
    /// The process has left for a network namespace of its own.
    #[error(
        "this process is in a network namespace of its own, where it has no network but what it \
         makes there"
    )]
    OwnNetwork,
    /// The connection broke, or carried a message that no instance of this version sends.
    #[error(
        "talking to the Tasuki instance failed: {what}; is it still running, and of the same \
         version as this library? (`tasuki ps`)"
    )]
    Protocol {
        /// The fault, with the value.
        what: String,
    },
    /// The region could not be mapped.
    #[error("the region shared with the Tasuki instance cannot be used: {what}; check `ulimit -v`")]
    Region {
        /// The fault, with the value.
        what: String,
    },
}

impl ConnectError {
    pub(crate) fn protocol(what: &impl ToString) -> Self {
        Self::Protocol { what: what.to_string() }
    }

    pub(crate) fn region(what: &impl ToString) -> Self {
        Self::Region { what: what.to_string() }
    }
}

/// The server wrote something impossible into a ring, a queue or a word of this client's region.
/// The exact fault does not matter to the program: it can only give the socket up (EIO).
#[derive(Debug)]
pub(crate) struct RegionFault;

/// Converts the detailed faults of `shm` and `abi`.
macro_rules! region_fault_from {
    ($($detail:ty),*) => {
        $(impl From<$detail> for RegionFault {
            fn from(_: $detail) -> Self {
                Self
            }
        })*
    };
}

region_fault_from!(RingFault, BadSlot, AreaError, OutOfRange, TryFromIntError);
