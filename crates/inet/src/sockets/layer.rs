//! The sockets of one stack, and everything that names them.

mod calls;
mod close;
mod connect;
mod datagram_input;
mod datagram_output;
mod errors;
mod fast_open;
mod handshake;
mod listen;
mod membership;
mod streams;
mod time_wait;
mod turns;

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use super::counters::{TcpCounters, TcpTotals};
use super::demux::Demux;
use super::event_queue::EventQueue;
use super::fast_opens::FastOpens;
use super::fin_acks::FinAcks;
use super::ports::Ports;
use super::request::ConnectionRequest;
use super::socket::Socket;
use super::time_wait::TimeWaitRecord;
use crate::bytes::{RxBytes, TxBytes};
use crate::config::Config;
use crate::secret::Secret;
use crate::table::{Handle, Table};
use crate::tcp::{Endpoints, SegmentRepr, TcpConfig};
use crate::udp::layer::UdpLayer;
use crate::waiters::SocketWaiters;

/// The sockets of one stack.
#[derive(Debug)]
pub(crate) struct SocketLayer<T, R> {
    config: Config,
    /// `config.tcp`, to be shared by the connections.
    tcp: Arc<TcpConfig>,
    sockets: Table<Socket<T, R>>,
    udp: UdpLayer<T>,
    /// Handshakes under way.
    requests: Table<ConnectionRequest>,
    /// Closed connections in TIME-WAIT.
    time_waits: Table<TimeWaitRecord>,
    demux: Demux,
    ports: Ports,
    fast: FastOpens,
    /// Sockets that wait for a neighbour.
    waiting: SocketWaiters,
    events: EventQueue,
    /// Sockets that may have something to send.
    ready: VecDeque<Handle>,
    /// Connections whose peer's FIN is not acknowledged yet.
    fin_acks: FinAcks,
    /// RSTs owed by calls of the owner.
    resets: VecDeque<(Endpoints, SegmentRepr)>,
    tcp_stats: TcpTotals,
    tcp_counters: TcpCounters,
}

impl<T: TxBytes, R: RxBytes> SocketLayer<T, R> {
    pub(crate) fn new(config: &Config, secret: &Secret) -> Self {
        let hash = secret.tables();
        let (key, peers) = (secret.fast_open_key(), config.fast_open_peers);
        Self {
            sockets: Table::new(config.sockets),
            requests: Table::new(config.requests),
            time_waits: Table::new(config.max_tw_buckets),
            demux: Demux::new(&hash),
            ports: Ports::new(secret, config.ephemeral_ports.clone()),
            fast: FastOpens::new(key, hash.clone(), peers),
            waiting: SocketWaiters::new(hash.clone()),
            udp: UdpLayer::new(hash, config.neighbour_queue),
            events: EventQueue::default(),
            ready: VecDeque::new(),
            fin_acks: FinAcks::default(),
            resets: VecDeque::new(),
            tcp_stats: TcpTotals::default(),
            tcp_counters: TcpCounters::default(),
            tcp: Arc::new(config.tcp),
            config: config.clone(),
        }
    }

    /// Takes what has changed in the configuration.
    pub(crate) fn configure(&mut self, config: &Config) {
        self.config = config.clone();
        self.tcp = Arc::new(config.tcp);
    }

    /// Name and value of each counter.
    pub(crate) fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + use<T, R> {
        let (udp, tcp) = (self.udp.counters(), self.tcp_counters.iter());
        udp.chain(tcp).chain(self.tcp_stats.iter())
    }

    /// Puts a socket into the queue of those that may have something to send.
    fn mark_ready(&mut self, handle: Handle) {
        if let Some(socket) = self.sockets.get_mut(handle)
            && !socket.ready
        {
            socket.ready = true;
            self.ready.push_back(handle);
        }
    }

    /// All sockets, for tests.
    #[cfg(test)]
    pub(crate) fn all(&self) -> impl Iterator<Item = (Handle, &Socket<T, R>)> {
        self.sockets.iter()
    }

    /// Connections in TIME-WAIT whose sockets are closed, for tests.
    #[cfg(test)]
    pub(crate) fn time_wait_count(&self) -> usize {
        self.time_waits.iter().count()
    }
}
