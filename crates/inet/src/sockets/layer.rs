//! The sockets of one stack, and everything that names them. The state of TCP and UDP alone is in
//! [`TcpLayer`] and [`UdpLayer`].

mod calls;
mod close;
mod connect;
mod datagram_checks;
mod datagram_input;
mod datagram_output;
mod disconnect;
mod echo;
mod errors;
mod fast_open;
mod handshake;
mod listen;
mod membership;
mod scheduling;
mod segments;
mod streams;
mod time_wait;

use super::demux::Demux;
use super::event_queue::EventQueue;
use super::owners::Owners;
use super::ports::Ports;
use super::socket::Socket;
use super::tcp_layer::TcpLayer;
use super::turns::OutputTurns;
use crate::bytes::{RxBytes, TxBytes};
use crate::config::Config;
use crate::owner_id::OwnerId;
use crate::secret::Secret;
use crate::table::{Handle, Table};
use crate::udp::layer::UdpLayer;
use crate::waiters::SocketWaiters;

/// The sockets of one stack.
#[derive(Debug)]
pub(crate) struct SocketLayer<T, R> {
    config: Config,
    sockets: Table<Socket<T, R>>,
    tcp: TcpLayer,
    udp: UdpLayer<T>,
    demux: Demux,
    ports: Ports,
    owners: Owners,
    /// Sockets that wait for a neighbour.
    waiting: SocketWaiters,
    events: EventQueue,
    /// Sockets that may have something to send.
    turns: OutputTurns,
}

impl<T: TxBytes, R: RxBytes> SocketLayer<T, R> {
    pub(crate) fn new(config: &Config, secret: &Secret) -> Self {
        let hash = secret.tables();
        Self {
            sockets: Table::new(config.sockets),
            demux: Demux::new(&hash),
            ports: Ports::new(secret, config.ephemeral_ports.clone()),
            owners: Owners::new(),
            waiting: SocketWaiters::new(hash.clone()),
            tcp: TcpLayer::new(config, secret),
            udp: UdpLayer::new(hash, config.neighbour_queue),
            events: EventQueue::default(),
            turns: OutputTurns::default(),
            config: config.clone(),
        }
    }

    /// Applies a change of the configuration.
    pub(crate) fn configure(&mut self, config: &Config) {
        self.config = config.clone();
        self.tcp.configure(config.tcp);
    }

    /// Name and value of each counter.
    pub(crate) fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + use<T, R> {
        self.udp.counters().chain(self.tcp.counters())
    }

    /// A number for a new party that will have sockets.
    pub(crate) fn add_owner(&mut self) -> OwnerId {
        // Those that have nothing any more may be named again.
        while let Some(owner) = self.owners.poll_unused() {
            self.ports.forget_owner(owner);
        }
        self.owners.add()
    }

    /// A party has gone. What is left of its sockets still counts for it.
    pub(crate) fn remove_owner(&mut self, owner: OwnerId) {
        self.owners.remove(owner);
    }

    /// Adds a socket to the table, if its owner's share has room for it.
    fn add_socket(&mut self, socket: Socket<T, R>) -> Option<Handle> {
        let owner = socket.owner;
        if !self.owners.may_add_socket(owner, self.sockets.room()) {
            return None;
        }
        let handle = self.sockets.insert(socket)?;
        self.owners.add_socket(owner);
        Some(handle)
    }

    /// Puts a socket into the queue of those that may have something to send.
    #[inline]
    fn mark_ready(&mut self, handle: Handle) {
        if let Some(socket) = self.sockets.get_mut(handle)
            && !socket.ready
        {
            socket.ready = true;
            self.turns.push(socket.exit, socket.owner, handle);
        }
    }

    /// All sockets, for tests.
    #[cfg(test)]
    pub(crate) fn all(&self) -> impl Iterator<Item = (Handle, &Socket<T, R>)> {
        self.sockets.iter()
    }

    /// Has a RST wait, for tests.
    #[cfg(test)]
    pub(crate) fn queue_reset(
        &mut self,
        ends: crate::tcp::Endpoints,
        reset: crate::tcp::SegmentRepr,
    ) {
        self.tcp.queue_reset(ends, reset);
    }

    /// Connections in TIME-WAIT whose sockets are closed, for tests.
    #[cfg(test)]
    pub(crate) fn time_wait_count(&self) -> usize {
        self.tcp.time_waits().count()
    }
}
