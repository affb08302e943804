//! Sockets: the table, what a packet is demultiplexed to, ports, and the calls of the owner.
//!
//! A socket is a place in the table with a body: nothing yet, a listener, a connection or a
//! datagram endpoint. Connections that wait to be accepted are sockets too, owned by their
//! listener; before that, while the handshake is under way, there is only a record of what the peer
//! asked for. A socket that was closed stays in its place, without its owner, until the connection
//! is over.

mod api;
mod close;
mod connect;
mod cookies;
pub(crate) mod counters;
pub(crate) mod datagram;
pub(crate) mod demux;
mod errors;
pub(crate) mod events;
pub(crate) mod fastopen;
pub(crate) mod fin_acks;
pub(crate) mod listen;
mod membership;
pub(crate) mod options;
pub(crate) mod ports;
pub(crate) mod requests;
mod send;
mod sleeper;
pub(crate) mod stream;

pub(crate) mod time_wait;

use alloc::boxed::Box;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::bytes::{Frame, RxPiece};
use crate::error::Error;
use crate::interface_id::NeighbourKey;
use crate::ip;
use crate::udp::message::Arrived;
use crate::wheel::TimerId;
use datagram::Datagram;
use events::Waiting;
use listen::Listener;
use options::Options;
use ports::Claim;
use stream::Stream;

/// What a socket speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SocketKind {
    /// TCP.
    Stream,
    /// UDP.
    Datagram,
}

/// Whose addresses a socket has.
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
pub enum How {
    /// No more receiving.
    Read,
    /// No more sending.
    Write,
    /// Neither.
    Both,
}

/// Received bytes.
#[derive(Debug)]
pub struct Received<R> {
    /// The bytes; of a datagram socket exactly one datagram.
    pub piece: RxPiece<Frame<R>>,
    /// The sender of a datagram.
    pub from: Option<SocketAddr>,
    /// How a datagram came; addresses as the core knows them.
    pub arrived: Option<Arrived>,
}

/// A chunk that was not taken, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendError<T> {
    /// Why.
    pub error: Error,
    /// The chunk.
    pub chunk: T,
}

/// What `ss` shows of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketInfo {
    /// The owner's tag; of a connection not yet accepted, its listener's.
    pub tag: u64,
    /// What it speaks.
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

/// What a socket is at the moment.
#[derive(Debug)]
pub(crate) enum Body<T, R> {
    /// A stream socket that is neither listening nor connected.
    Idle,
    Listener(Listener),
    Connection(Stream<T, R>),
    Datagram(Box<Datagram<T, R>>),
    /// Closed and over; the event that says so has not been fetched.
    Gone,
}

/// A place in the table.
#[derive(Debug)]
pub(crate) struct Socket<T, R> {
    pub(crate) tag: u64,
    pub(crate) family: Family,
    pub(crate) options: Options,
    pub(crate) local: Option<SocketAddr>,
    /// What is held in [`ports::Ports`].
    pub(crate) claim: Option<Claim>,
    /// `bind` was called: the address outlives a failed connection.
    pub(crate) bound: bool,
    pub(crate) events: Waiting,
    /// In the queue of those that may have something to send.
    pub(crate) ready: bool,
    /// Waits for this neighbour.
    pub(crate) waits_for: Option<NeighbourKey>,
    pub(crate) timer: Option<TimerId>,
    /// `close` or `abort` was called; the handle is not the owner's any more.
    pub(crate) closing: bool,
    /// The owner has been told [`events::EventKind::Closed`].
    pub(crate) orphan: bool,
    pub(crate) body: Body<T, R>,
}

impl<T, R> Socket<T, R> {
    pub(crate) fn new(tag: u64, family: Family, options: Options, body: Body<T, R>) -> Self {
        Self {
            tag,
            family,
            options,
            local: None,
            claim: None,
            bound: false,
            events: Waiting::default(),
            ready: false,
            waits_for: None,
            timer: None,
            closing: false,
            orphan: false,
            body,
        }
    }

    pub(crate) fn kind(&self) -> SocketKind {
        match self.body {
            Body::Datagram(_) => SocketKind::Datagram,
            _ => SocketKind::Stream,
        }
    }

    /// Whether it receives IPv4, too, if it is bound to all addresses of IPv6.
    pub(crate) fn is_dual(&self) -> bool {
        self.family == Family::V6 && !self.options.v6_only
    }

    /// Whether the owner may use it: neither closed nor still its listener's.
    pub(crate) fn is_open(&self) -> bool {
        let with_listener =
            matches!(&self.body, Body::Connection(stream) if stream.listener.is_some());
        !self.closing && !with_listener
    }

    pub(crate) fn connection(&mut self) -> Option<&mut Stream<T, R>> {
        match &mut self.body {
            Body::Connection(stream) => Some(stream),
            _ => None,
        }
    }

    pub(crate) fn datagram(&mut self) -> Option<&mut Datagram<T, R>> {
        match &mut self.body {
            Body::Datagram(datagram) => Some(datagram),
            _ => None,
        }
    }
}

/// `address`, named by the owner of a socket of `family`, as the core knows it.
///
/// # Errors
/// `Unsupported` for IPv6 on an IPv4 socket, `NetUnreachable` for IPv4 on a socket that is for IPv6
/// only.
pub(crate) fn admit(
    family: Family,
    options: &Options,
    address: SocketAddr,
) -> Result<SocketAddr, Error> {
    let address = ip::canonical(address);
    match (family, address) {
        (Family::V4, SocketAddr::V6(_)) => Err(Error::Unsupported),
        (Family::V6, SocketAddr::V4(_)) if options.v6_only => Err(Error::NetUnreachable),
        _ => Ok(address),
    }
}

/// Where a socket with the address `local` receives: a `dual` one on all addresses of IPv6 does so
/// on all of IPv4, too.
pub(crate) fn faces(local: SocketAddr, dual: bool) -> impl Iterator<Item = SocketAddr> {
    let both = dual && local.is_ipv6() && local.ip().is_unspecified();
    let other = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), local.port());
    [Some(local), both.then_some(other)].into_iter().flatten()
}
