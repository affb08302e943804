//! The hosts around the real core, at two depths.
//!
//! [`BareHost`] is one TCP connection whose frames are segments. [`StackHost`] is a stack with
//! Ethernet, ARP or NDP, IPv4 or IPv6, a listener and sockets. The world treats both alike.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::ops::Range;
use core::time::Duration;

use inet::tcp::{
    Connection, Endpoints, MAX_HEADER, SegmentReply, SegmentRepr, SendFlags, Seq, TcpConfig,
    TcpInfo, reset_for,
};
use inet::{
    AddressState, Cidr, Config, Egress, Error, EventKind, Family, Handle, Instant, InterfaceConfig,
    InterfaceId, RxPiece, SendOptions, ShutdownHow, SockOption, SocketKind, SpDirection, Stack,
    TxOffload, TxPiece, V6Config, gather,
};

use crate::bytes::{Chunk, Frame, LiveCount};
use crate::check::WriteMark;
use crate::esp::EspPlan;
use crate::router;
use crate::scenario::{Kind, Scenario};
use crate::wire;

/// An application's view of its connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConnectionView {
    /// The handshake is over.
    pub connected: bool,
    /// The peer has ended its stream and all of it was received.
    pub eof: bool,
    /// Why it failed.
    pub error: Option<Error>,
    /// Bytes acknowledged in total.
    pub acked: u64,
    /// Nothing of the connection is left.
    pub ended: bool,
    /// The connection's state, as `ss` names it, if there is one.
    pub state: Option<&'static str>,
}

/// One end of the world.
pub trait Host {
    /// Takes a frame.
    fn deliver(&mut self, now: Instant, frame: Frame);
    /// Sends at most `room` frames.
    fn poll(&mut self, now: Instant, room: usize, out: &mut Vec<Vec<u8>>);
    /// When to poll next.
    fn poll_at(&self, now: Instant) -> Option<Instant>;
    /// Queues a chunk, with the mark of its end.
    ///
    /// # Errors
    /// Why it was not taken.
    fn send(&mut self, now: Instant, chunk: Chunk, mark: WriteMark) -> Result<(), Error>;
    /// Gives received bytes.
    fn recv(&mut self) -> Option<RxPiece<inet::Frame<Frame>>>;
    /// Gives room back.
    fn consumed(&mut self, now: Instant, bytes: usize);
    /// Position of the newest byte that the peer has marked as urgent, if the host reports it.
    fn urgent_mark(&self) -> Option<u64> {
        None
    }
    /// Ends the own stream.
    fn shutdown(&mut self, now: Instant);
    /// Leaves.
    fn close(&mut self, now: Instant);
    /// Leaves at once.
    fn abort(&mut self, now: Instant);
    /// Changes options in the middle of things.
    fn change(&mut self, now: Instant, nodelay: bool, cork: bool, recv_buffer: usize);
    /// To a host without IP: a router says that the path takes packets of at most `mtu` bytes.
    fn too_big(&mut self, _now: Instant, _mtu: u16) {}
    /// The application's view of the connection.
    fn view(&mut self) -> ConnectionView;
    /// TCP_INFO, while there is a connection and an application that has it.
    fn info(&self, _now: Instant) -> Option<TcpInfo> {
        None
    }
    /// Packets that the host made and dropped, because their neighbour did not answer.
    fn unresolved(&self) -> u64 {
        0
    }
    /// Addresses and range of the TCP segment in a frame that this host sends, if it is one.
    fn segment(&self, frame: &[u8]) -> Option<(IpAddr, IpAddr, Range<usize>)>;
    /// Waits for an event of this host, at most for `time`. `false`, at once, if the host does not
    /// run in real time.
    fn wait(&mut self, _time: Duration) -> bool {
        false
    }
}

/// The port that the passive side listens on.
pub const PORT: u16 = 80;
/// The active side's port, where it can be chosen.
const OWN_PORT: u16 = 40_000;

/// Addresses: of the active and of the passive side.
pub const ADDRESSES: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2))];

/// The hosts' IPv6 network.
const NETWORK: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 0);

/// A side's IPv6 address. The identifier is made of its hardware address (RFC 4291 appendix A). So
/// an address autoconfigured from a prefix equals the one that is configured.
fn address6(side: usize) -> Ipv6Addr {
    Ipv6Addr::from_bits(NETWORK.to_bits() | 0xff_fe00_0000 | side as u128)
}

/// A connection without a stack.
#[derive(Debug)]
pub struct BareHost {
    config: TcpConfig,
    ends: Endpoints,
    iss: Seq,
    connection: Option<Connection<Chunk, Frame>>,
    /// Whether a SYN may still open it.
    listening: bool,
    left: bool,
    resets: Vec<SegmentRepr>,
}

impl BareHost {
    /// A side that connects at `now`, or waits to be connected to.
    pub fn new(now: Instant, side: usize, active: bool, config: TcpConfig, iss: u32) -> Self {
        let ports = [OWN_PORT, PORT];
        let end = |side: usize| SocketAddr::new(ADDRESSES[side], ports[side]);
        let ends = Endpoints { local: end(side), remote: end(1 - side) };
        let iss = Seq::new(iss);
        let connection = active.then(|| Connection::connect(now, config, ends, iss));
        Self { config, ends, iss, connection, listening: !active, left: false, resets: Vec::new() }
    }

    fn encode(&self, repr: &SegmentRepr, body: &[TxPiece<'_, Chunk>]) -> Vec<u8> {
        let mut head = [0; MAX_HEADER];
        let (from, to) = (self.ends.local.ip(), self.ends.remote.ip());
        let len = repr.emit(from, to, body, &mut head);
        let mut frame = head[..len].to_vec();
        for piece in body {
            frame.extend_from_slice(piece.bytes.part(piece.range.clone()));
        }
        frame
    }
}

impl Host for BareHost {
    fn deliver(&mut self, now: Instant, frame: Frame) {
        let (from, to) = (self.ends.remote.ip(), self.ends.local.ip());
        let bytes = inet::RxBytes::bytes(&frame);
        let Ok(parsed) = SegmentRepr::parse(from, to, bytes) else { return };
        let (repr, range) = (parsed.repr, parsed.payload..bytes.len());
        let len = range.len();
        let opening = repr.syn && repr.ack.is_none() && !repr.rst && !repr.fin;
        match &mut self.connection {
            Some(connection) => {
                let piece = (len > 0).then_some(RxPiece { frame, range });
                match connection.handle_segment(now, &repr, piece) {
                    SegmentReply::Reset(reset) => self.resets.push(reset),
                    SegmentReply::None | SegmentReply::Reuse => {}
                }
            }
            None if self.listening && opening => {
                self.listening = false;
                let made = Connection::accept(now, self.config, self.ends, &repr, self.iss);
                self.connection = Some(made);
            }
            None => self.resets.extend(reset_for(&repr, len)),
        }
    }

    fn poll(&mut self, now: Instant, room: usize, out: &mut Vec<Vec<u8>>) {
        for reset in core::mem::take(&mut self.resets) {
            out.push(self.encode(&reset, &[]));
        }
        let Some(mut connection) = self.connection.take() else { return };
        for _ in 0..room {
            let Some(segment) = connection.poll_segment(now) else { break };
            out.push(self.encode(&segment.repr, segment.body()));
        }
        // A closed connection that its application has left is dropped.
        if !(connection.is_done() && self.left) {
            self.connection = Some(connection);
        }
    }

    fn poll_at(&self, now: Instant) -> Option<Instant> {
        if !self.resets.is_empty() {
            return Some(now);
        }
        let connection = self.connection.as_ref()?;
        if connection.is_done() && self.left { Some(now) } else { connection.poll_at(now) }
    }

    fn send(&mut self, now: Instant, chunk: Chunk, mark: WriteMark) -> Result<(), Error> {
        let connection = self.connection.as_mut().ok_or(Error::NotConnected)?;
        let flags = SendFlags { eor: mark.record, more: false };
        connection.send_with(now, chunk, flags).map_err(|(error, _)| error)?;
        if mark.urgent {
            connection.mark_urgent(now);
        }
        Ok(())
    }

    fn recv(&mut self) -> Option<RxPiece<inet::Frame<Frame>>> {
        let RxPiece { frame, range } = self.connection.as_mut()?.recv()?;
        Some(RxPiece { frame: inet::Frame::One(frame), range })
    }

    fn consumed(&mut self, now: Instant, bytes: usize) {
        if let Some(connection) = &mut self.connection {
            connection.consumed(now, bytes);
        }
    }

    fn shutdown(&mut self, now: Instant) {
        if let Some(connection) = &mut self.connection {
            connection.shutdown_write(now);
        }
    }

    fn close(&mut self, now: Instant) {
        self.left = true;
        if let Some(connection) = &mut self.connection {
            self.resets.extend(connection.close(now));
        }
    }

    fn abort(&mut self, now: Instant) {
        self.left = true;
        if let Some(connection) = &mut self.connection {
            self.resets.extend(connection.abort(now));
        }
    }

    fn change(&mut self, now: Instant, nodelay: bool, cork: bool, recv_buffer: usize) {
        if let Some(connection) = &mut self.connection {
            connection.set_nodelay(now, nodelay);
            connection.set_cork(now, cork);
            connection.set_recv_buffer(now, recv_buffer);
        }
    }

    fn urgent_mark(&self) -> Option<u64> {
        self.connection.as_ref()?.urgent_mark()
    }

    fn too_big(&mut self, now: Instant, mtu: u16) {
        if let Some(connection) = &mut self.connection {
            connection.handle_too_big(now, mtu);
        }
    }

    fn info(&self, now: Instant) -> Option<TcpInfo> {
        self.connection.as_ref().map(|connection| connection.info(now))
    }

    fn view(&mut self) -> ConnectionView {
        let Some(connection) = &self.connection else {
            return ConnectionView { ended: self.left, ..ConnectionView::default() };
        };
        ConnectionView {
            connected: !matches!(connection.state().name(), "SYN-SENT" | "SYN-RECV" | "UNCONN"),
            eof: connection.eof(),
            error: connection.error(),
            acked: connection.acked(),
            ended: false,
            state: Some(connection.state().name()),
        }
    }

    fn segment(&self, frame: &[u8]) -> Option<(IpAddr, IpAddr, Range<usize>)> {
        Some((self.ends.local.ip(), self.ends.remote.ip(), 0..frame.len()))
    }
}

/// A whole stack with one connection.
pub struct StackHost {
    stack: Stack<Chunk, Frame>,
    interface: InterfaceId,
    listener: Option<Handle>,
    stream: Option<Handle>,
    /// Its own address and the peer's, until it connects.
    dials: Option<(IpAddr, IpAddr)>,
    latest: ConnectionView,
    left: bool,
    /// Frames that input caused at once.
    early: Vec<Vec<u8>>,
    esp: Option<EspPlan>,
}

const LISTENER: u64 = 1;
const STREAM: u64 = 2;

/// Where a whole host's frames leave.
struct FrameSink<'a> {
    out: &'a mut Vec<Vec<u8>>,
    room: usize,
}

impl Egress<Chunk> for FrameSink<'_> {
    fn ready(&mut self, _: InterfaceId) -> bool {
        self.room > 0
    }

    fn emit(
        &mut self,
        _: InterfaceId,
        head: &[u8],
        body: &[TxPiece<'_, Chunk>],
        _: TxOffload,
    ) -> bool {
        let Some(room) = self.room.checked_sub(1) else { return false };
        self.room = room;
        self.out.push(gather(head, body));
        true
    }
}

impl StackHost {
    /// The active side (`side` 0, which connects as soon as it has an address) or the passive one,
    /// which listens if the scenario says so.
    ///
    /// # Panics
    /// If the stack refuses a socket: a bug.
    pub fn new(
        now: Instant,
        side: usize,
        scenario: &Scenario,
        tcp: TcpConfig,
        secret: u64,
    ) -> Self {
        let mut key = [7; 16];
        key[..8].copy_from_slice(&secret.to_le_bytes());
        let v6 = V6Config { dad_transmits: scenario.dad_transmits, ..V6Config::default() };
        let mut stack = Stack::new(Config { tcp, v6, ..Config::default() }, key);
        let mac = [2, 0, 0, 0, 0, side as u8];
        let interface = stack.add_interface(InterfaceConfig { mac, mtu: scenario.mtu });
        let is_v6 = scenario.kind == Kind::Ipv6;
        let (family, address, any) = if is_v6 {
            (Family::V6, Cidr::new(address6(side), 64), Ipv6Addr::UNSPECIFIED.into())
        } else {
            (Family::V4, Cidr::new(ADDRESSES[side], 24), ADDRESSES[side])
        };
        if is_v6 {
            stack.start_ipv6(now, interface);
        }
        if is_v6 && scenario.slaac {
            let frame = Frame::new(router::advertisement(NETWORK), &LiveCount::default());
            let mut port = FrameSink { out: &mut Vec::new(), room: usize::MAX };
            stack.handle_frame(now, interface, frame, &mut port);
        } else {
            stack.add_address(interface, address).expect("a free address");
        }
        let tag = if side == 0 { STREAM } else { LISTENER };
        let handle = stack.open_in(family, SocketKind::Stream, tag).expect("a socket");
        let (mut listener, mut stream, mut dials) = (None, None, None);
        if side == 0 {
            let peer = if is_v6 { address6(1).into() } else { ADDRESSES[1] };
            (stream, dials) = (Some(handle), Some((address.address, peer)));
        } else {
            stack.bind(handle, SocketAddr::new(any, PORT)).expect("bind");
            if scenario.listens {
                stack.listen(handle, 4).expect("listen");
            }
            listener = Some(handle);
        }
        let mut host = Self {
            stack,
            interface,
            listener,
            stream,
            dials,
            latest: ConnectionView::default(),
            left: false,
            early: Vec::new(),
            esp: scenario.esp,
        };
        host.protect(now, [ADDRESSES[side], ADDRESSES[1 - side]]);
        host.dial(now);
        host
    }

    /// Protects all packets between its address and the peer's, if that is planned.
    fn protect(&mut self, now: Instant, [own, peer]: [IpAddr; 2]) {
        let Some(plan) = self.esp else { return };
        for (direction, from, to) in [(SpDirection::Out, own, peer), (SpDirection::In, peer, own)] {
            self.stack.add_association(now, plan.association(from, to)).expect("an association");
            self.stack.add_policy(plan.policy(direction, from, to)).expect("a policy");
        }
    }

    /// Connects, once the address is usable.
    fn dial(&mut self, now: Instant) {
        let Some((own, peer)) = self.dials else { return };
        let is_usable = |address: &inet::Address| {
            address.cidr.address == own && address.state == AddressState::Preferred
        };
        if self.left || !self.stack.addresses(self.interface).any(is_usable) {
            return;
        }
        self.dials = None;
        let stream = self.stream.expect("the active side has a socket");
        match self.stack.connect(now, stream, SocketAddr::new(peer, PORT)) {
            Ok(()) | Err(Error::InProgress) => {}
            Err(error) => panic!("connect: {error}"),
        }
    }

    fn take_events(&mut self) {
        while let Some(event) = self.stack.poll_event() {
            match event.kind {
                EventKind::Connected => self.latest.connected = true,
                EventKind::Acceptable => self.accept(),
                EventKind::Eof => self.latest.eof = true,
                EventKind::Failed(error) => self.latest.error = Some(error),
                EventKind::Readable
                | EventKind::Urgent
                | EventKind::ErrorQueued
                | EventKind::Acked
                | EventKind::Closed => {}
            }
        }
        if let Some(stream) = self.stream.filter(|_| !self.left) {
            self.latest.acked = self.stack.acked(stream);
        }
    }

    /// Takes the first connection and stops listening.
    fn accept(&mut self) {
        let Some(listener) = self.listener else { return };
        if let Ok(Some((stream, _))) = self.stack.accept(listener, STREAM) {
            self.stream = Some(stream);
            self.latest.connected = true;
        }
    }
}

impl Host for StackHost {
    fn deliver(&mut self, now: Instant, frame: Frame) {
        let mut port = FrameSink { out: &mut self.early, room: usize::MAX };
        self.stack.handle_frame(now, self.interface, frame, &mut port);
        self.take_events();
    }

    fn poll(&mut self, now: Instant, room: usize, out: &mut Vec<Vec<u8>>) {
        out.append(&mut self.early);
        self.stack.poll(now, &mut FrameSink { out, room });
        if self.dials.is_some() {
            self.dial(now);
        }
        self.take_events();
    }

    fn poll_at(&self, now: Instant) -> Option<Instant> {
        if self.early.is_empty() { self.stack.poll_at() } else { Some(now) }
    }

    fn send(&mut self, now: Instant, chunk: Chunk, mark: WriteMark) -> Result<(), Error> {
        let stream = self.stream.ok_or(Error::NotConnected)?;
        let options = SendOptions { eor: mark.record, ..SendOptions::default() };
        self.stack.send_with(now, stream, chunk, &options).map_err(|refused| refused.error)?;
        if mark.urgent {
            self.stack.mark_urgent(now, stream);
        }
        Ok(())
    }

    fn recv(&mut self) -> Option<RxPiece<inet::Frame<Frame>>> {
        let received = self.stack.recv(self.stream?).map(|received| received.piece);
        self.take_events();
        received
    }

    fn consumed(&mut self, now: Instant, bytes: usize) {
        if let Some(stream) = self.stream {
            self.stack.consumed(now, stream, bytes);
        }
    }

    fn shutdown(&mut self, now: Instant) {
        if let Some(stream) = self.stream {
            // An error means that the connection has failed already.
            let _ = self.stack.shutdown(now, stream, ShutdownHow::Write);
        }
    }

    fn close(&mut self, now: Instant) {
        for handle in [self.stream, self.listener].into_iter().flatten() {
            self.stack.close(now, handle).expect("close");
        }
        self.left = true;
    }

    fn abort(&mut self, now: Instant) {
        if let Some(stream) = self.stream {
            self.stack.abort(now, stream).expect("abort");
        }
        if let Some(listener) = self.listener {
            self.stack.close(now, listener).expect("close");
        }
        self.left = true;
    }

    fn change(&mut self, now: Instant, nodelay: bool, cork: bool, recv_buffer: usize) {
        if let Some(stream) = self.stream {
            for option in [
                SockOption::NoDelay(nodelay),
                SockOption::Cork(cork),
                SockOption::RecvBuffer(recv_buffer),
            ] {
                self.stack.set_option(now, stream, option).expect("set an option");
            }
        }
    }

    fn urgent_mark(&self) -> Option<u64> {
        self.stack.urgent_mark(self.stream?)
    }

    fn info(&self, now: Instant) -> Option<TcpInfo> {
        self.stack.tcp_info(now, self.stream.filter(|_| !self.left)?).ok()
    }

    fn view(&mut self) -> ConnectionView {
        self.take_events();
        let ended = self.left && self.stack.sockets().next().is_none();
        let state =
            self.stack.sockets().map(|socket| socket.state).find(|state| *state != "LISTEN");
        ConnectionView { ended, state, ..self.latest }
    }

    fn unresolved(&self) -> u64 {
        let mut counters = self.stack.counters();
        counters.find(|(name, _)| *name == "arp.dropped-waiting").map_or(0, |(_, count)| count)
    }

    fn segment(&self, frame: &[u8]) -> Option<(IpAddr, IpAddr, Range<usize>)> {
        self.esp.map_or_else(|| wire::find(frame), |plan| plan.find(frame))
    }
}

/// Counts the objects that a host holds.
#[derive(Debug, Clone, Default)]
pub struct LiveCounts {
    /// Chunks of its application.
    pub chunks: LiveCount,
    /// Frames that it received.
    pub frames: LiveCount,
}
