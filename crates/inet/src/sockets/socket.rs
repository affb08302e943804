//! An entry of the table of sockets.

use alloc::boxed::Box;
use core::net::SocketAddr;

use super::datagram::Datagram;
use super::error_queue::ErrorQueue;
use super::events::PendingEvents;
use super::kinds::{Family, SocketKind};
use super::listener::Listener;
use super::options::SocketOptions;
use super::ports::PortClaim;
use super::stream::Stream;
use crate::error::Error;
use crate::interface_id::{InterfaceId, InterfaceSet, NeighbourKey};
use crate::ip;
use crate::owner_id::OwnerId;
use crate::sockaddr::wildcard;
use crate::wheel::TimerId;

/// The present kind of a socket.
#[derive(Debug)]
pub(crate) enum SocketBody<T, R> {
    /// A stream socket that is neither listening nor connected.
    Idle,
    Listener(Listener),
    Connection(Stream<T, R>),
    Datagram(Box<Datagram<T, R>>),
    /// Closed and over; the event that says so has not been fetched.
    Gone,
}

/// What a socket is to its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ownership {
    Open,
    /// `close` or `abort` was called; the handle is not the owner's any more.
    Closing,
    /// The owner has also taken [`EventKind::Closed`](super::events::EventKind::Closed).
    Orphan,
}

/// The parts of its address that a socket's owner named by `bind`. They outlive a disconnect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binding {
    /// `bind` was not called.
    None,
    /// Any address and any port.
    Any,
    /// An address, with any port.
    Address,
    /// A port of any address.
    Port,
    /// An address and a port.
    Both,
    /// The address of a group or a broadcast, with any port: the socket receives there, and sends
    /// from another address.
    Group,
    /// The same, and a port.
    GroupAndPort,
}

impl Binding {
    /// By `bind` to this address. `receives_only`: it is that of a group or a broadcast.
    pub(crate) fn to(asked: &SocketAddr, receives_only: bool) -> Self {
        match (asked.ip().is_unspecified(), asked.port() == 0) {
            (_, true) if receives_only => Self::Group,
            (_, false) if receives_only => Self::GroupAndPort,
            (true, true) => Self::Any,
            (false, true) => Self::Address,
            (true, false) => Self::Port,
            (false, false) => Self::Both,
        }
    }

    pub(crate) fn names_address(self) -> bool {
        matches!(self, Self::Address | Self::Both) || self.receives_only()
    }

    pub(crate) fn names_port(self) -> bool {
        matches!(self, Self::Port | Self::Both | Self::GroupAndPort)
    }

    /// Whether the socket only receives at its address.
    pub(crate) fn receives_only(self) -> bool {
        matches!(self, Self::Group | Self::GroupAndPort)
    }
}

/// The state that few sockets have, in memory of its own.
#[derive(Debug, Default)]
pub(crate) struct RareState {
    pub(crate) errors: ErrorQueue,
    /// The port that a stream had before it was disconnected, which getsockname still shows.
    pub(crate) former_port: u16,
}

/// A table entry.
#[derive(Debug)]
pub(crate) struct Socket<T, R> {
    pub(crate) tag: u64,
    pub(crate) family: Family,
    /// The party whose share it counts against.
    pub(crate) owner: OwnerId,
    pub(crate) options: SocketOptions,
    pub(crate) local: Option<SocketAddr>,
    /// Its claim in [`Ports`](super::ports::Ports).
    pub(crate) claim: Option<PortClaim>,
    /// The parts of the address that `bind` named.
    pub(crate) binding: Binding,
    pub(crate) events: PendingEvents,
    /// In the queue of those that may have something to send.
    pub(crate) ready: bool,
    /// The interface by which it sent last, and at which it waits for its turn.
    pub(crate) exit: InterfaceId,
    /// The interfaces by which it has sent since its owner last asked.
    pub(crate) exits: InterfaceSet,
    /// Waits for this neighbour.
    pub(crate) waits_for: Option<NeighbourKey>,
    pub(crate) timer: Option<TimerId>,
    pub(crate) ownership: Ownership,
    /// What few sockets have.
    pub(crate) rare: Option<Box<RareState>>,
    pub(crate) body: SocketBody<T, R>,
}

impl<T, R> Socket<T, R> {
    pub(crate) fn new(
        tag: u64,
        family: Family,
        owner: OwnerId,
        options: SocketOptions,
        body: SocketBody<T, R>,
    ) -> Self {
        Self {
            tag,
            family,
            owner,
            options,
            local: None,
            claim: None,
            binding: Binding::None,
            events: PendingEvents::default(),
            ready: false,
            exit: InterfaceId::LOOPBACK,
            exits: InterfaceSet::default(),
            waits_for: None,
            timer: None,
            ownership: Ownership::Open,
            rare: None,
            body,
        }
    }

    /// Whether `close` or `abort` was called.
    pub(crate) fn is_closing(&self) -> bool {
        self.ownership != Ownership::Open
    }

    pub(crate) fn kind(&self) -> SocketKind {
        match &self.body {
            SocketBody::Datagram(datagram) => datagram.kind,
            _ => SocketKind::Stream,
        }
    }

    /// Its own address in what it sends; an unspecified one for that of the path.
    pub(crate) fn source(&self) -> SocketAddr {
        let local = self.local.unwrap_or(self.family.unbound());
        match self.binding.receives_only() {
            true => SocketAddr::new(wildcard(local.ip()), local.port()),
            false => local,
        }
    }

    /// Whether it receives IPv4, too, if it is bound to all addresses of IPv6.
    pub(crate) fn is_dual(&self) -> bool {
        self.family == Family::V6 && !self.options.v6_only
    }

    /// Whether the owner may use it: neither closed nor still its listener's.
    pub(crate) fn is_open(&self) -> bool {
        let with_listener =
            matches!(&self.body, SocketBody::Connection(stream) if stream.listener().is_some());
        !self.is_closing() && !with_listener
    }

    pub(crate) fn connection(&mut self) -> Option<&mut Stream<T, R>> {
        match &mut self.body {
            SocketBody::Connection(stream) => Some(stream),
            _ => None,
        }
    }

    pub(crate) fn datagram(&mut self) -> Option<&mut Datagram<T, R>> {
        match &mut self.body {
            SocketBody::Datagram(datagram) => Some(datagram),
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
    options: &SocketOptions,
    address: SocketAddr,
) -> Result<SocketAddr, Error> {
    let address = ip::canonical(address);
    match (family, address) {
        (Family::V4, SocketAddr::V6(_)) => Err(Error::Unsupported),
        (Family::V6, SocketAddr::V4(_)) if options.v6_only => Err(Error::NetUnreachable),
        _ => Ok(address),
    }
}
