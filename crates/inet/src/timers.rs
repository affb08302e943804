//! The purposes of timers. All layers share one wheel; [`Stack::poll`](crate::Stack::poll) pops the
//! timers that are due.

use crate::interface_id::{InterfaceId, NeighbourKey};
use crate::table::Handle;
use crate::wheel::Wheel;

/// The timers of one stack.
pub(crate) type Timers = Wheel<Timer>;

/// The purpose of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    /// A connection's next deadline, by its socket.
    Socket(Handle),
    Neighbour(NeighbourKey),
    /// A connection request's next SYN-ACK.
    Request(Handle),
    /// TIME-WAIT of a closed connection ends.
    TimeWait(Handle),
    /// The fragments of some packet have waited long enough.
    Reassembly,
    /// The next deadline of Neighbour Discovery on an interface.
    Discovery(InterfaceId),
    /// Reports about multicast groups are due.
    Groups,
    /// Lifetimes of security associations end.
    Lifetimes,
    /// DHCP, or the detection of address conflicts, has something to do.
    Addressing,
}
