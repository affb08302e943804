//! The purposes of the replies that the supervisor awaits from its servers.

use std::os::fd::OwnedFd;

use super::connections::ConnectionId;
use super::servers::ServerId;

/// The purpose of a server's reply.
pub(super) enum ReplyContext {
    /// A server is configured.
    Configured,
    /// The inet server has a security policy or association of the configuration.
    PolicyAdded,
    /// Security policies or associations were changed or listed.
    Xfrm(ConnectionId),
    /// The driver knows a client.
    Mapped(u16),
    /// The inet server knows a client.
    Added(u16),
    /// The inet server is removing a client.
    Removed(u16),
    /// The inet server has reset what a client left behind, or has forgotten the client already.
    Aborted,
    /// The driver has forgotten a client.
    Unmapped(u16),
    /// A client gets one more thread slot, with this bell.
    Thread { connection: ConnectionId, thread: u16, bell: OwnedFd },
    /// Sockets of a client are shared; the programs' ends.
    Shared { connection: ConnectionId, cookies: Vec<u64>, ends: Vec<OwnedFd> },
    /// Part of `tasuki ps`, of this server.
    Counters { connection: ConnectionId, server: ServerId },
    /// `tasuki ss`.
    Sockets(ConnectionId),
    /// `tasuki addr` and `tasuki route`, or a program that asks for its interfaces.
    Network(ConnectionId),
    /// `tasuki capture`, with the operator's end.
    Capture { connection: ConnectionId, socket: OwnedFd },
    /// A driver gets the device of the link of that number again.
    Attached(usize),
    /// A driver does without its device.
    Detached,
    /// The stack was announced on the link of an interface.
    Announced,
    /// A server is ending.
    Ending,
}
