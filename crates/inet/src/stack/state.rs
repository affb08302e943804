//! The layers of a stack, and the queues of its sockets.

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use crate::bytes::{RxBytes, TxBytes};
use crate::config::Config;
use crate::context::Context;
use crate::dhcp::DhcpLayer;
use crate::icmp::IcmpLayer;
use crate::ip::Fragments;
use crate::nd::NdLayer;
use crate::secret::Secret;
use crate::sockets::Socket;
use crate::sockets::counters::{TcpCounters, TcpTotals, UdpCounters};
use crate::sockets::demux::Demux;
use crate::sockets::events::{Event, EventKind, EventQueue};
use crate::sockets::fastopen::FastOpens;
use crate::sockets::fin_acks::FinAcks;
use crate::sockets::ports::Ports;
use crate::sockets::requests::Request;
use crate::sockets::time_wait::Remains;
use crate::table::{Handle, Table};
use crate::tcp::{Endpoints, SegmentRepr, TcpConfig};
use crate::udp::parked::ParkedDatagrams;
use crate::waiters::SocketWaiters;
use crate::wheel::TimerId;

/// A TCP/IP stack: `T` is what payload to be sent is kept in, `R` what frames are received in.
#[derive(Debug)]
pub struct Stack<T, R> {
    pub(crate) config: Config,
    pub(crate) cx: Context,
    pub(super) nd: NdLayer,
    pub(crate) icmp: IcmpLayer,
    pub(super) fragments: Fragments<R>,
    pub(super) dhcp: DhcpLayer,
    /// Of DHCP and address conflict detection.
    pub(super) addressing_timer: Option<TimerId>,
    /// `config.tcp`, to be shared by the connections.
    pub(crate) tcp: Arc<TcpConfig>,
    pub(crate) sockets: Table<Socket<T, R>>,
    /// Handshakes under way.
    pub(crate) requests: Table<Request>,
    pub(crate) fast: FastOpens,
    pub(crate) demux: Demux,
    pub(crate) ports: Ports,
    pub(crate) waiting: SocketWaiters,
    pub(crate) parked: ParkedDatagrams<T>,
    pub(crate) events: EventQueue,
    /// Sockets that may have something to send.
    pub(crate) ready: VecDeque<Handle>,
    /// Connections whose peer's FIN is not acknowledged yet.
    pub(crate) fin_acks: FinAcks,
    /// RSTs owed by calls of the owner.
    pub(crate) resets: VecDeque<(Endpoints, SegmentRepr)>,
    /// Closed connections in TIME-WAIT.
    pub(crate) time_waits: Table<Remains>,
    pub(crate) tcp_stats: TcpTotals,
    pub(crate) tcp_counters: TcpCounters,
    pub(crate) udp_counters: UdpCounters,
}

impl<T: TxBytes, R: RxBytes> Stack<T, R> {
    /// A stack without interfaces. `secret` is random and nobody else's: sequence numbers, ports
    /// and hash tables rest on it.
    pub fn new(config: Config, secret: [u8; 16]) -> Self {
        let secret = Secret::new(&secret);
        let hash = secret.tables();
        Self {
            nd: NdLayer::new(&config, &secret),
            icmp: IcmpLayer::new(&config),
            fragments: Fragments::new(config.reassembly, &secret),
            dhcp: DhcpLayer::default(),
            addressing_timer: None,
            sockets: Table::new(config.sockets),
            requests: Table::new(config.requests),
            fast: FastOpens::new(secret.fast_open_key(), hash.clone(), config.fast_open_peers),
            demux: Demux::new(&hash),
            ports: Ports::new(&secret, config.ephemeral_ports.clone()),
            waiting: SocketWaiters::new(hash.clone()),
            parked: ParkedDatagrams::new(hash, config.neighbour_queue),
            events: EventQueue::default(),
            ready: VecDeque::new(),
            fin_acks: FinAcks::default(),
            resets: VecDeque::new(),
            time_waits: Table::new(config.max_tw_buckets),
            tcp_stats: TcpTotals::default(),
            tcp_counters: TcpCounters::default(),
            udp_counters: UdpCounters::default(),
            tcp: Arc::new(config.tcp),
            cx: Context::new(&config, secret),
            config,
        }
    }

    /// Changes bounds and defaults: what is changed holds for sockets made afterwards. The sizes of
    /// tables are taken when the stack is made.
    pub fn configure(&mut self, change: impl FnOnce(&mut Config)) {
        change(&mut self.config);
        self.tcp = Arc::new(self.config.tcp);
        self.cx.ip.configure(&self.config);
        self.nd.configure(&self.config.v6);
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        let (handle, event) = self.events.next(&mut self.sockets)?;
        if event.kind == EventKind::Closed {
            self.told_closed(handle);
        }
        Some(event)
    }

    /// Whether the egress is told of the parts of making segments
    /// ([`Egress::stage`](crate::Egress::stage)).
    pub fn set_traced(&mut self, traced: bool) {
        self.cx.link.set_traced(traced);
    }

    /// The counters by name, and the number of frames held now.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let held = &self.cx.held;
        let frames = [
            ("memory.frames-refused", held.refused()),
            ("memory.frames-held", held.count() as u64),
            ("memory.joined-bytes", held.bytes() as u64),
        ];
        let below = self.cx.link.counters().chain(self.cx.ip.counters());
        let below = below.chain(self.fragments.counters()).chain(self.nd.counters());
        let above = self.icmp.counters().chain(self.dhcp.counters());
        let above = above.chain(self.udp_counters.iter()).chain(self.tcp_counters.iter());
        below.chain(above).chain(self.tcp_stats.iter()).chain(frames)
    }

    /// Puts a socket into the queue of those that may have something to send.
    pub(crate) fn mark_ready(&mut self, handle: Handle) {
        if let Some(socket) = self.sockets.get_mut(handle)
            && !socket.ready
        {
            socket.ready = true;
            self.ready.push_back(handle);
        }
    }
}
