//! The stack: joins the layers and gives frames, time and room to whom they concern.
//!
//! The owner moves three things: frames in ([`Stack::handle_frame`]), frames out (an [`Egress`]),
//! and time. Input only changes state and sends small answers; all else leaves in [`Stack::poll`],
//! where the sockets that may have something to send take turns. [`Stack::poll_event`] tells the
//! owner what happened. Nothing here looks at all sockets, but for [`Stack::sockets`] and the end
//! of a listener.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::net::{IpAddr, SocketAddr};

use smoltcp::wire::IpProtocol;

use crate::bytes::{Egress, Frame, RxBytes, Stage, TxBytes};
use crate::config::Config;
use crate::counters::TcpTotals;
use crate::dhcp::Addressing;
use crate::error::Error;
use crate::held::{Held, HeldFrames};
use crate::icmp::Complaint;
use crate::interface::{Interface, InterfaceConfig};
use crate::interface_id::InterfaceId;
use crate::ip::packet::Packet;
use crate::ip::pmtu::PathMtus;
use crate::ip::reassembly::Reassembler;
use crate::ip::v4::{self, Refused};
use crate::link::ethernet::{self, Carries, Ignored, Mac};
use crate::link::neighbour::{Key, Waiters};
use crate::loopback;
use crate::net::{Net, Timer};
use crate::offload::Features;
use crate::secret::Secret;
use crate::sockets::demux::Demux;
use crate::sockets::events::{Event, EventKind, EventQueue};
use crate::sockets::fastopen::FastOpens;
use crate::sockets::fin_acks::FinAcks;
use crate::sockets::ports::Ports;
use crate::sockets::requests::Request;
use crate::sockets::time_wait::Remains;
use crate::sockets::{Body, Socket};
use crate::table::{Handle, Table};
use crate::tcp::{Endpoints, SegmentRepr, TcpConfig};
use crate::time::Instant;
use crate::wheel::TimerId;

/// A TCP/IP stack: `T` is what payload to be sent is kept in, `R` what frames are received in.
#[derive(Debug)]
pub struct Stack<T, R> {
    pub(crate) config: Config,
    /// `config.tcp`, to be shared by the connections.
    pub(crate) tcp: Arc<TcpConfig>,
    pub(crate) secret: Secret,
    pub(crate) net: Net<T>,
    pub(crate) sockets: Table<Socket<T, R>>,
    /// Handshakes under way.
    pub(crate) requests: Table<Request>,
    pub(crate) fast: FastOpens,
    pub(crate) path_mtus: PathMtus,
    pub(crate) demux: Demux,
    pub(crate) ports: Ports,
    pub(crate) held: HeldFrames,
    pub(crate) reassembler: Reassembler<Held<R>>,
    pub(crate) reassembly_timer: Option<TimerId>,
    pub(crate) groups_timer: Option<TimerId>,
    pub(crate) addressing: Addressing,
    pub(crate) events: EventQueue,
    /// Sockets that may have something to send.
    ready: VecDeque<Handle>,
    /// Connections whose peer's FIN is not acknowledged yet.
    pub(crate) fin_acks: FinAcks,
    /// RSTs owed by calls of the owner.
    pub(crate) resets: VecDeque<(Endpoints, SegmentRepr)>,
    /// Closed connections in TIME-WAIT.
    pub(crate) time_waits: Table<Remains>,
    pub(crate) tcp_stats: TcpTotals,
}

/// How a packet came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) interface: InterfaceId,
    /// Its frame was sent to a group or broadcast address.
    pub(crate) to_group: bool,
    /// It is ours and has never left.
    pub(crate) looped: bool,
}

/// To whom a packet was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// To one of our addresses, and to us alone.
    ToUs,
    /// To a broadcast address, or to a group that somebody here listens to.
    ToAll,
}

impl<T: TxBytes, R: RxBytes> Stack<T, R> {
    /// A stack without interfaces. `secret` is random and nobody else's: sequence numbers, ports
    /// and hash tables rest on it.
    pub fn new(config: Config, secret: [u8; 16]) -> Self {
        let secret = Secret::new(&secret);
        let hash = secret.tables();
        Self {
            net: Net::new(&config, &secret),
            sockets: Table::new(config.sockets),
            requests: Table::new(config.requests),
            path_mtus: PathMtus::new(hash.clone(), config.path_mtus),
            fast: FastOpens::new(secret.fast_open_key(), hash.clone(), config.fast_open_peers),
            demux: Demux::new(&hash),
            reassembler: Reassembler::new(hash.clone(), config.reassembly),
            reassembly_timer: None,
            groups_timer: None,
            addressing: Addressing::default(),
            ports: Ports::new(&secret, config.ephemeral_ports.clone()),
            held: HeldFrames::new(config.held_frames, config.joined_bytes),
            events: EventQueue::default(),
            ready: VecDeque::new(),
            fin_acks: FinAcks::default(),
            resets: VecDeque::new(),
            time_waits: Table::new(config.max_tw_buckets),
            tcp_stats: TcpTotals::default(),
            tcp: Arc::new(config.tcp),
            secret,
            config,
        }
    }

    /// Adds an interface, which has no addresses yet.
    pub fn add_interface(&mut self, config: InterfaceConfig) -> InterfaceId {
        let id = InterfaceId(u16::try_from(self.net.interfaces.len()).unwrap_or(u16::MAX));
        self.net.interfaces.push(Interface::new(config));
        id
    }

    /// Says what an interface does for the frames that it is given from now on; at first nothing.
    ///
    /// # Errors
    /// `BadHandle` without such an interface.
    pub fn set_features(&mut self, id: InterfaceId, features: Features) -> Result<(), Error> {
        self.net.interface_mut(id).ok_or(Error::BadHandle)?.features = features;
        Ok(())
    }

    /// Says that the link of an interface can be used, or cannot. While it cannot, nothing is
    /// routed there; when it can again, the link is told what we have and listen to.
    ///
    /// # Errors
    /// `BadHandle` without such an interface.
    pub fn set_link(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        up: bool,
    ) -> Result<(), Error> {
        let place = self.net.interfaces.get_mut(usize::from(interface.0));
        let here = place.ok_or(Error::BadHandle)?;
        let was = core::mem::replace(&mut here.up, up);
        if up != was {
            self.addressing_link(now, interface, up);
        }
        if up && !was { self.announce(now, interface) } else { Ok(()) }
    }

    /// Tells the link of an interface what we have and listen to: it may be another link than
    /// before, or one that has forgotten. Addresses as far as
    /// [`Config::arp_notify`](crate::Config::arp_notify) and
    /// [`V6Config::ndisc_notify`](crate::V6Config::ndisc_notify) say, and groups. IPv6 addresses
    /// are probed for duplicates first, where new ones are. Neighbours are asked for anew.
    ///
    /// # Errors
    /// `BadHandle` without such an interface.
    pub fn announce(&mut self, now: Instant, interface: InterfaceId) -> Result<(), Error> {
        self.net.interface(interface).ok_or(Error::BadHandle)?;
        for timer in self.net.neighbours.forget(interface) {
            self.net.wheel.cancel(timer);
        }
        self.net.groups.report_all(now, interface);
        self.arm_groups();
        self.announce_v4(now, interface);
        self.net.announce_v6(now, interface);
        Ok(())
    }

    /// Changes bounds and defaults: what is changed holds for sockets made afterwards. The sizes of
    /// tables are taken when the stack is made.
    pub fn configure(&mut self, change: impl FnOnce(&mut Config)) {
        change(&mut self.config);
        self.tcp = Arc::new(self.config.tcp);
        self.net.v6 = self.config.v6;
    }

    /// Takes a frame received on `interface`. Whatever it contains, it cannot do more than be
    /// dropped and counted. Answers that need no socket leave at once if there is room.
    pub fn handle_frame(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        frame: R,
        out: &mut dyn Egress<T>,
    ) {
        let Some(mac) = self.net.interface(interface).map(Interface::mac) else { return };
        self.net.stage(Stage::EthernetInput, out);
        let counters = &mut self.net.counters;
        counters.frames_in += 1;
        counters.bytes_in += frame.bytes().len() as u64;
        let received = match ethernet::parse(frame.bytes(), mac) {
            Ok(received) => received,
            Err(Ignored::Malformed) => return counters.eth_malformed += 1,
            Err(Ignored::NotOurs) => return counters.eth_not_ours += 1,
            Err(Ignored::UnknownType) => return counters.eth_unknown += 1,
        };
        match received.carries {
            Carries::Arp => {
                let packet = frame.bytes().get(ethernet::HEADER..).unwrap_or_default();
                self.watch_arp(now, interface, packet, out);
                if let Some((key, mac, waiters)) = self.net.handle_arp(now, interface, packet, out)
                {
                    self.neighbour_found(key, mac, waiters, out);
                }
            }
            Carries::Ipv4 => {
                let packet = (Frame::One(frame), ethernet::HEADER);
                let origin = Origin { interface, to_group: received.to_group, looped: false };
                self.handle_ipv4(now, origin, packet, out);
            }
            Carries::Ipv6 => {
                let packet = (Frame::One(frame), ethernet::HEADER);
                let origin = Origin { interface, to_group: received.to_group, looped: false };
                self.handle_ipv6(now, origin, packet, out);
            }
        }
    }

    /// Takes the packet that starts at `at` in `frame`.
    fn handle_ipv4(
        &mut self,
        now: Instant,
        origin: Origin,
        (frame, at): (Frame<R>, usize),
        out: &mut dyn Egress<T>,
    ) {
        self.net.stage(Stage::IpInput, out);
        let counters = &mut self.net.counters;
        let packet = match v4::parse(frame.bytes(), at, origin.interface) {
            Ok(packet) => packet,
            Err(Refused::Malformed) => return counters.ip_malformed += 1,
            Err(Refused::Checksum) => return counters.ip_bad_checksum += 1,
            Err(Refused::Options) => return counters.ip_bad_options += 1,
            Err(Refused::SourceRoute) => return counters.ip_source_routes += 1,
            Err(Refused::Martian) => return counters.ip_martians += 1,
        };
        if packet.protocol == IpProtocol::Udp
            && packet.cut.is_none()
            && self.handle_dhcp(now, &packet, &frame, out)
        {
            return;
        }
        let Some(arrival) = self.arrival(origin, &packet) else { return };
        if let Some(cut) = &packet.cut {
            // What is whole is looked at anew: its header is another one.
            if let Some(whole) = self.handle_fragment(now, &packet, cut, frame) {
                self.handle_ipv4(now, origin, (whole, 0), out);
            }
            return;
        }
        match (packet.protocol, arrival) {
            (IpProtocol::Icmp, _) => self.handle_icmp(now, &packet, arrival, frame.bytes(), out),
            (IpProtocol::Udp, _) => self.handle_udp(now, &packet, arrival, frame, out),
            (IpProtocol::Igmp, _) => self.handle_igmp(now, &packet, frame.bytes()),
            (IpProtocol::Tcp, Arrival::ToUs) => self.handle_tcp(now, &packet, frame, out),
            (_, arrival) => {
                self.net.counters.ip_unknown += 1;
                if arrival == Arrival::ToUs {
                    // RFC 1122 3.2.2.1.
                    self.complain(now, &packet, frame.bytes(), Complaint::Protocol, out);
                }
            }
        }
    }

    /// To whom the packet was sent; `None`, and counted, if that is not us or it cannot be true.
    fn arrival(&mut self, origin: Origin, packet: &Packet) -> Option<Arrival> {
        let (source, destination) = (packet.source, packet.destination);
        let to_us = self.net.is_ours(destination);
        if packet.interface == InterfaceId::LOOPBACK {
            // Nobody else puts anything there.
            return to_us.then_some(Arrival::ToUs);
        }
        let here = self.net.interface(packet.interface)?;
        // RFC 1122 3.2.1.3 (g): loopback addresses never appear outside a host.
        let martian =
            self.net.is_ours(source) || here.is_broadcast(source) || destination.is_loopback();
        let everywhere = matches!(destination, IpAddr::V4(ip) if ip.is_broadcast());
        let groups = &self.net.groups;
        let to_all = everywhere
            || here.is_broadcast(destination)
            || destination.is_multicast() && groups.admits(packet.interface, destination, source);
        let counters = &mut self.net.counters;
        if martian && !origin.looped {
            counters.ip_martians += 1;
            return None;
        }
        if !origin.looped && !self.is_reverse_path(packet) {
            self.net.counters.ip_reverse_path += 1;
            return None;
        }
        let counters = &mut self.net.counters;
        match (to_us, to_all) {
            // RFC 1122 3.3.6: a unicast packet in a broadcast frame is discarded.
            (true, _) if !origin.to_group => Some(Arrival::ToUs),
            (false, true) => Some(Arrival::ToAll),
            _ => {
                counters.ip_not_ours += 1;
                None
            }
        }
    }

    /// Whether the source of a packet is where the packet came from, as far as that is asked for
    /// (RFC 3704 2.2, 2.4).
    fn is_reverse_path(&self, packet: &Packet) -> bool {
        // Who asks for an address has none.
        if self.config.rp_filter == 0 || packet.source.is_unspecified() {
            return true;
        }
        let source = SocketAddr::new(packet.source, 0);
        match self.net.routes.find(&source, None, &self.net.interfaces) {
            Ok(path) => self.config.rp_filter != 1 || path.interface == packet.interface,
            Err(_) => false,
        }
    }

    /// Takes what has been sent to ourselves: at most `most` packets; how many there were.
    fn handle_loopback(&mut self, now: Instant, most: usize, out: &mut dyn Egress<T>) -> usize {
        let waiting = self.net.loopback.len().min(most);
        for _ in 0..waiting {
            let Some((interface, frame)) = self.net.loopback.pop() else { break };
            let frame = Frame::Looped(frame);
            let at = ethernet::HEADER;
            let origin =
                Origin { interface, to_group: interface != InterfaceId::LOOPBACK, looped: true };
            // The source is our own hardware address, the destination nobody's, or a group.
            match ethernet::carries(frame.bytes()) {
                Some(Carries::Ipv4) => self.handle_ipv4(now, origin, (frame, at), out),
                Some(Carries::Ipv6) => self.handle_ipv6(now, origin, (frame, at), out),
                _ => self.net.counters.eth_unknown += 1,
            }
        }
        waiting
    }

    /// A neighbour's hardware address is known: who waited for it may go on.
    pub(crate) fn neighbour_found(
        &mut self,
        key: Key,
        mac: Mac,
        waiters: Waiters<T>,
        out: &mut dyn Egress<T>,
    ) {
        for packet in waiters.pending {
            self.send_pending(key, mac, packet, out);
        }
        for handle in waiters.sockets {
            if let Some(socket) = self.sockets.get_mut(handle) {
                socket.waits_for = None;
                self.mark_ready(handle);
            }
        }
    }

    /// A neighbour is silent: who waited for it cannot reach its host (RFC 1122 2.3.2.2, 3.3.1.4).
    fn neighbour_absent(&mut self, now: Instant, waiters: Waiters<T>) {
        for packet in waiters.pending {
            self.drop_pending(packet, Some(Error::HostUnreachable));
        }
        for handle in waiters.sockets {
            if let Some(socket) = self.sockets.get_mut(handle) {
                socket.waits_for = None;
                if socket.datagram().is_some() {
                    self.drop_load(handle, Error::HostUnreachable);
                } else {
                    self.send_into_void(now, handle, Error::HostUnreachable);
                }
            }
        }
    }

    /// Acts on due timers and sends what there is to send, as far as `out` has room; the sockets
    /// take turns, and go on where they were at the next call.
    pub fn poll(&mut self, now: Instant, out: &mut dyn Egress<T>) {
        while let Some(handle) = self.fin_acks.pop() {
            if let Some(stream) = self.sockets.get_mut(handle).and_then(Socket::connection) {
                stream.connection.end_deferral();
                self.mark_ready(handle);
            }
        }
        self.send_all(now, out);
    }

    /// [`poll`](Self::poll) without the lone ACKs of FINs, which a program's close mostly makes
    /// needless. While [`defers_fin_acks`](Self::defers_fin_acks) says so, the owner looks for its
    /// programs' answers, and calls `poll` before it waits. However busy it is, an ACK is deferred
    /// for 200 µs at most.
    pub fn poll_deferring(&mut self, now: Instant, out: &mut dyn Egress<T>) {
        if self.fin_acks.are_late(now) {
            return self.poll(now, out);
        }
        self.fin_acks.defer(true);
        self.send_all(now, out);
        self.fin_acks.defer(false);
    }

    /// Whether [`poll_deferring`](Self::poll_deferring) has left ACKs to be sent.
    pub fn defers_fin_acks(&self) -> bool {
        !self.fin_acks.is_empty()
    }

    fn send_all(&mut self, now: Instant, out: &mut dyn Egress<T>) {
        self.net.clock = now;
        while let Some(timer) = self.net.wheel.pop(now) {
            match timer {
                Timer::Socket(handle) => self.handle_socket_timer(now, handle),
                Timer::Request(place) => self.handle_request_timer(now, place, out),
                Timer::TimeWait(place) => self.time_wait_due(place),
                Timer::Addressing => self.addressing_due(now, out),
                Timer::Groups => self.groups_due(now, out),
                Timer::Reassembly => self.reassembly_due(now, out),
                Timer::Link(id) => self.net.link_due(now, id, out),
                Timer::Neighbour(key) => {
                    if let Some(waiters) = self.net.neighbour_due(now, key, out) {
                        self.neighbour_absent(now, waiters);
                    }
                }
            }
        }
        while out.ready()
            && let Some((ends, reset)) = self.resets.pop_front()
        {
            self.send_reset(now, &ends, &reset, out);
        }
        // What goes to ourselves may make somebody ready, so they take turns.
        let mut left = loopback::TURN;
        loop {
            self.serve_ready(now, out);
            let handled = self.handle_loopback(now, left, out);
            left -= handled;
            let more = out.ready() && !self.ready.is_empty() || self.net.loopback.len() > 0;
            if left == 0 || !more {
                break;
            }
        }
    }

    /// Lets each of the sockets that are ready now send.
    fn serve_ready(&mut self, now: Instant, out: &mut dyn Egress<T>) {
        for _ in 0..self.ready.len() {
            if !out.ready() {
                return;
            }
            let Some(handle) = self.ready.pop_front() else { return };
            let Some(socket) = self.sockets.get_mut(handle) else { continue };
            socket.ready = false;
            match socket.body {
                Body::Connection(_) => self.serve_stream(now, handle, out),
                Body::Datagram(_) => self.serve_datagram(now, handle, out),
                _ => {}
            }
        }
    }

    /// When to call [`poll`](Self::poll) next if nothing else happens: the past if there is
    /// something to send (at once, or when the egress that was full has room again), `None` for
    /// never.
    pub fn poll_at(&self) -> Option<Instant> {
        if self.ready.is_empty() && self.resets.is_empty() && self.net.loopback.len() == 0 {
            self.net.wheel.poll_at().into_iter().chain(self.fin_acks.due()).min()
        } else {
            Some(Instant::ZERO)
        }
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        let (handle, event) = self.events.next(&mut self.sockets)?;
        if event.kind == EventKind::Closed {
            self.told_closed(handle);
        }
        Some(event)
    }

    /// Whether the egress is told of the parts of making segments ([`Egress::stage`]).
    pub fn set_traced(&mut self, traced: bool) {
        self.net.traced = traced;
    }

    /// The counters by name, and the number of frames held now.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let held = ("memory.frames-held", self.held.count() as u64);
        let joined = ("memory.joined-bytes", self.held.bytes() as u64);
        self.net.counters.iter().chain(self.tcp_stats.iter()).chain([held, joined])
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
