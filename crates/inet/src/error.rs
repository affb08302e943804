//! Why a socket operation failed.

/// A failed operation or connection. The names are those of POSIX; the shell maps them to numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Error {
    /// The peer answered that no socket listens there.
    #[error("connection refused")]
    Refused,
    /// The peer reset the connection.
    #[error("connection reset by peer")]
    Reset,
    /// The peer did not answer in time.
    #[error("connection timed out")]
    TimedOut,
    /// The host is silent on its link, or a router says that it cannot be reached.
    #[error("no route to host")]
    HostUnreachable,
    /// There is no route to that network.
    #[error("network is unreachable")]
    NetUnreachable,
    /// The address and port are in use.
    #[error("address already in use")]
    AddrInUse,
    /// The address is not one of this stack's, or there is no port left.
    #[error("cannot assign requested address")]
    AddrNotAvailable,
    /// A socket that is bound to an IPv4-mapped address, and an address of IPv6.
    #[error("address family not supported by protocol")]
    AddressFamily,
    /// There is no interface of that number.
    #[error("no such device")]
    NoDevice,
    /// The socket is not connected.
    #[error("socket is not connected")]
    NotConnected,
    /// The socket is connected already.
    #[error("socket is already connected")]
    AlreadyConnected,
    /// The connection attempt has been started; its outcome is an event.
    #[error("operation now in progress")]
    InProgress,
    /// A connection attempt is under way already.
    #[error("operation already in progress")]
    Already,
    /// The operation or argument does not fit the socket or its state.
    #[error("invalid argument")]
    Invalid,
    /// This kind of socket cannot do that.
    #[error("operation not supported")]
    Unsupported,
    /// A bound on memory has been reached.
    #[error("no buffer space available")]
    NoBuffers,
    /// The datagram is longer than can be sent.
    #[error("message too long")]
    MessageSize,
    /// The sending side has been shut down.
    #[error("broken pipe")]
    BrokenPipe,
    /// A datagram without a destination on an unconnected socket.
    #[error("destination address required")]
    DestinationRequired,
    /// The handle does not name a socket (any more).
    #[error("stale or invalid socket handle")]
    BadHandle,
    /// A broadcast address without permission to broadcast.
    #[error("permission denied")]
    Denied,
    /// The peer's host does not have the protocol.
    #[error("protocol not available")]
    ProtocolUnreachable,
    /// A router says that the peer's host does not exist.
    #[error("host is down")]
    HostDown,
    /// A router says that the sender's host is isolated.
    #[error("machine is not on the network")]
    NotOnNetwork,
    /// A node on the path says that a packet's header is wrong.
    #[error("protocol error")]
    Protocol,
}
