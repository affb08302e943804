//! The state of a run: the connection that packets belong to, and the call that waits.

use std::collections::BTreeMap;

use inet::Instant;

use super::syntax::Call;
use crate::host::Progress;

/// The port that a script's host binds to, and the one it connects to.
pub(super) const PORT: u16 = 8080;
/// A connection as the script sees it.
#[derive(Debug, Clone, Default)]
pub(super) struct Flow {
    pub(super) local_port: u16,
    pub(super) remote_port: u16,
    /// The number to add to the script's sequence numbers of the host's side.
    pub(super) local_offset: u32,
    /// Timestamps of the script and of the host, for all that have left.
    pub(super) stamps: BTreeMap<u32, u32>,
    /// The next segment that leaves is its first.
    pub(super) opening: bool,
}

/// The owner of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PacketOwner {
    /// No socket yet.
    Nothing,
    Listener,
    /// A flow that is there, or begins with the next packet.
    Flow,
}

/// A call that waits.
pub(super) struct PendingCall {
    pub(super) call: Call,
    pub(super) line: usize,
    /// When it began and when it is to return, microseconds of the script.
    pub(super) begun: i64,
    pub(super) end: i64,
    pub(super) progress: Progress,
    /// When it gives up.
    pub(super) until: Option<Instant>,
}
