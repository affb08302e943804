//! Violations of the rules of a client's region. Each is that client's fault alone. The server
//! drops the client and tells the supervisor; nothing else stops.

use abi::BadSlot;
use shm::{AreaError, OutOfRange, RingFault};

/// A client's violation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClientFault {
    /// An index of a ring is impossible.
    #[error("its {ring} ring is broken: {fault}")]
    Ring { ring: &'static str, fault: RingFault },
    /// A slot has no meaning.
    #[error("{0}")]
    Slot(#[from] BadSlot),
    /// A descriptor names memory that is not an area of its sending pool.
    #[error("socket {socket} sends from a bad area: {error}")]
    Area { socket: u16, error: AreaError },
    /// A descriptor names memory that is not the client's at all.
    #[error("socket {socket} sends from a frame, which is not in its region")]
    Frame { socket: u16 },
    /// A descriptor announces a slot with ancillary data, and none follows.
    #[error("socket {socket} sends a descriptor without the slot that it says comes with it")]
    MissingAncillary { socket: u16 },
    /// `rx_consumed` went back, or beyond what was published.
    #[error(
        "socket {socket} says that it consumed {alleged} of its receiving queue, which is not in \
         {least}..={most}"
    )]
    Consumed { socket: u16, alleged: u64, least: u64, most: u64 },
    /// It publishes in a queue while the server empties the queue for a new socket.
    #[error("it fills the queues of place {socket}, where it has no socket")]
    Refilled { socket: u16 },
    /// A result would go to another client's ring, or to none.
    #[error("a call's return path names ring {ring} of client {client}, which is not its own")]
    ReturnPath { client: u16, ring: u16 },
    /// It calls and never takes the results.
    #[error("{0} results wait for room in its result rings")]
    Backlog(usize),
    /// Its region is smaller than its layout, which is impossible after admission.
    #[error("its region is too small: {0}")]
    Region(#[from] OutOfRange),
}

impl ClientFault {
    /// For `map_err` on a ring's operations.
    pub(crate) fn ring(ring: &'static str) -> impl Fn(RingFault) -> Self {
        move |fault| Self::Ring { ring, fault }
    }
}
