//! Vocabulary of the calls of a socket's owner.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::bytes::{Frame, RxPiece};
use crate::error::Error;
use crate::udp::message::DatagramInfo;

/// The protocol of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SocketKind {
    /// TCP.
    Stream,
    /// UDP.
    Datagram,
    /// UDP-Lite, with ports of its own. In all else as `Datagram`.
    UdpLite,
    /// ICMP echo requests of one identifier, and what comes back about them. The identifier is the
    /// port of the socket's own address, the sequence number that of the peer's.
    Echo,
}

impl SocketKind {
    /// Whether it sends and receives datagrams.
    pub(crate) fn is_datagram(self) -> bool {
        matches!(self, Self::Datagram | Self::UdpLite | Self::Echo)
    }
}

/// The address family of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// AF_INET.
    V4,
    /// AF_INET6: IPv6, and IPv4 as IPv4-mapped addresses unless
    /// [`V6Only`](crate::SockOption::V6Only) is set.
    V6,
}

impl Family {
    /// The address of a socket that has none.
    pub(crate) fn unbound(self) -> SocketAddr {
        match self {
            Self::V4 => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0),
            Self::V6 => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0),
        }
    }

    /// `address` as the owner of a socket sees it.
    pub(crate) fn show(self, address: SocketAddr) -> SocketAddr {
        match (self, address) {
            (Self::V6, SocketAddr::V4(v4)) => {
                SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port())
            }
            _ => address,
        }
    }
}

/// Which directions `shutdown` ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShutdownHow {
    /// No more receiving.
    Read,
    /// No more sending.
    Write,
    /// Neither.
    Both,
}

/// Received bytes.
#[derive(Debug)]
pub struct ReceivedPayload<R> {
    /// The bytes; of a datagram socket exactly one datagram.
    pub piece: RxPiece<Frame<R>>,
    /// The sender of a datagram.
    pub from: Option<SocketAddr>,
    /// How a datagram came; addresses as the core knows them.
    pub info: Option<DatagramInfo>,
}

/// A refused chunk, with the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendError<T> {
    /// Why.
    pub error: Error,
    /// The chunk.
    pub chunk: T,
}

/// The record of a socket that `ss` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketInfo {
    /// The owner's tag; of a connection not yet accepted, its listener's.
    pub tag: u64,
    /// Its protocol.
    pub kind: SocketKind,
    /// State, as `ss` names it.
    pub state: &'static str,
    /// Bytes received and not consumed; of a listener, connections that wait to be accepted.
    pub recv_q: usize,
    /// Bytes queued and not acknowledged; of a listener, its backlog.
    pub send_q: usize,
    /// Own address.
    pub local: SocketAddr,
    /// The peer's.
    pub peer: SocketAddr,
}
