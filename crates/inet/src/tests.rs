//! Tests of whole stacks: frames by the byte, two stacks back to back, a clock that is a variable.

mod arp;
mod dhcp;
mod disconnect;
mod echo;
mod esp;
mod esp_packets;
mod esp_world;
mod fastopen;
mod fin_acks;
mod fragments;
mod groups;
mod icmp;
mod loopback;
mod malformed;
mod messages;
mod offload;
mod options;
mod pmtu;
mod requests;
mod resets;
mod shared_memory;
mod shares;
mod sleep;
mod streams;
mod time_wait;
mod turns;
mod udp;
mod udp_lite;
mod v6;

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;
use std::string::String;
use std::vec::Vec;

use smoltcp::wire::checksum;

use crate::link::arp as arp_packet;
use crate::link::ethernet::{self, EtherPayload, Mac};
use crate::*;

/// Payload to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk(pub(crate) Vec<u8>);

impl TxBytes for Chunk {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn checksum(&self, range: Range<usize>) -> u16 {
        checksum::data(&self.0[range])
    }
    fn copy_to(&self, range: Range<usize>, out: &mut [u8]) {
        out.copy_from_slice(&self.0[range]);
    }
    fn append(&mut self, next: Self) -> Result<(), Self> {
        Err(next)
    }
}

impl RxBytes for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// Frames that a stack has sent, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    pub(crate) frames: VecDeque<Vec<u8>>,
    /// What was left to the interface of each frame ever sent, until somebody takes it.
    pub(crate) left: Vec<TxOffload>,
    /// Most frames in it.
    pub(crate) room: usize,
    /// An interface whose driver takes nothing.
    pub(crate) stuck: Option<InterfaceId>,
    sender: OwnerId,
    /// The sender of each frame ever sent.
    pub(crate) senders: Vec<OwnerId>,
}

impl Egress<Chunk> for Wire {
    fn set_sender(&mut self, sender: OwnerId) {
        self.sender = sender;
    }
    fn ready(&mut self, interface: InterfaceId) -> bool {
        self.frames.len() < self.room && self.stuck != Some(interface)
    }
    fn emit(
        &mut self,
        interface: InterfaceId,
        head: &[u8],
        body: &[TxPiece<'_, Chunk>],
        offload: TxOffload,
    ) -> bool {
        assert!(body.len() <= MAX_TX_PIECES);
        if !self.ready(interface) {
            return false;
        }
        let frame = gather(head, body);
        self.frames.push_back(frame);
        self.left.push(offload);
        self.senders.push(self.sender);
        true
    }
}

pub(crate) const IP_A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(crate) const IP_B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
pub(crate) const MAC_A: Mac = smoltcp::wire::EthernetAddress([2, 0, 0, 0, 0, 1]);
pub(crate) const MAC_B: Mac = smoltcp::wire::EthernetAddress([2, 0, 0, 0, 0, 2]);
const ID: InterfaceId = InterfaceId(0);

pub(crate) fn at(ip: Ipv4Addr, port: u16) -> SocketAddr {
    SocketAddr::new(ip.into(), port)
}

/// A received frame, and what is known of it.
#[derive(Debug)]
pub(crate) struct Known(pub(crate) Vec<u8>, pub(crate) RxOffload);

impl RxBytes for Known {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn offload(&self) -> RxOffload {
        self.1
    }

    fn frames(&self) -> usize {
        1 + (self.1.behind as usize).div_ceil(1448)
    }
}

/// A stack with one interface, its clock and its end of the wire.
pub(crate) struct Host {
    pub(crate) stack: Stack<Chunk, Known>,
    pub(crate) wire: Wire,
    pub(crate) now: Instant,
}

impl Host {
    pub(crate) fn new(address: Ipv4Addr, mac: Mac, config: Config) -> Self {
        let mut stack = Stack::new(config, [address.octets()[3]; 16]);
        let id = stack.add_interface(InterfaceConfig { mac: mac.0, mtu: 1500 });
        stack.add_address(id, Cidr::new(address, 24)).unwrap();
        let wire = Wire { room: 1000, ..Wire::default() };
        Self { stack, wire, now: Instant::from_nanos(1_000_000_000) }
    }

    /// The host with the address [`IP_B`].
    pub(crate) fn b() -> Self {
        Self::new(IP_B, MAC_B, Config::default())
    }

    /// B, which knows A.
    pub(crate) fn b_knowing_a() -> Self {
        let mut b = Self::b();
        b.take(&arp_frame(MAC_A, IP_A, IP_B, true));
        b.wire.frames.clear();
        b
    }

    pub(crate) fn take(&mut self, frame: &[u8]) {
        let frame = Known(Vec::from(frame), RxOffload::NONE);
        self.stack.handle_frame(self.now, ID, frame, &mut self.wire);
    }

    pub(crate) fn poll(&mut self) {
        self.stack.poll(self.now, &mut self.wire);
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.poll();
            match self.stack.poll_at() {
                Some(next) if next <= end && self.wire.ready(ID) => self.now = self.now.max(next),
                _ => break,
            }
        }
        self.now = end;
        self.poll();
    }

    /// All frames sent since the last call.
    pub(crate) fn sent(&mut self) -> Vec<Vec<u8>> {
        self.poll();
        self.wire.frames.drain(..).collect()
    }

    pub(crate) fn events(&mut self) -> Vec<Event> {
        core::iter::from_fn(|| self.stack.poll_event()).collect()
    }

    /// The kinds of the events of socket `tag`; those of others are lost.
    pub(crate) fn events_of(&mut self, tag: u64) -> Vec<EventKind> {
        let events = self.events().into_iter();
        events.filter(|event| event.tag == tag).map(|event| event.kind).collect()
    }

    pub(crate) fn counter(&self, name: &str) -> u64 {
        self.stack.counters().find(|(other, _)| *other == name).expect("a known counter").1
    }

    /// The counters that are not zero.
    pub(crate) fn counted(&self) -> String {
        let counters = self.stack.counters().filter(|(_, value)| *value != 0);
        counters.map(|(name, value)| std::format!("{name} {value}\n")).collect()
    }

    pub(crate) fn received(&mut self, handle: Handle) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(ReceivedPayload { piece, .. }) = self.stack.recv(handle) {
            all.extend_from_slice(piece.bytes());
            let len = piece.range.len();
            self.stack.consumed(self.now, handle, len);
        }
        all
    }

    pub(crate) fn send(&mut self, handle: Handle, bytes: &[u8]) {
        self.stack.send(self.now, handle, Chunk(Vec::from(bytes)), None).unwrap();
    }

    pub(crate) fn states(&self) -> Vec<&'static str> {
        self.stack.sockets().map(|socket| socket.state).collect()
    }
}

/// Two hosts on one wire.
pub(crate) struct Pair {
    pub(crate) a: Host,
    pub(crate) b: Host,
}

impl Pair {
    pub(crate) fn new() -> Self {
        Self::with(Config::default(), Config::default())
    }

    pub(crate) fn with(a: Config, b: Config) -> Self {
        Self { a: Host::new(IP_A, MAC_A, a), b: Host::new(IP_B, MAC_B, b) }
    }

    /// Moves frames until both are quiet.
    pub(crate) fn settle(&mut self) {
        loop {
            let (to_b, to_a) = (self.a.sent(), self.b.sent());
            if to_b.is_empty() && to_a.is_empty() {
                return;
            }
            to_b.iter().for_each(|frame| self.b.take(frame));
            to_a.iter().for_each(|frame| self.a.take(frame));
        }
    }

    /// Lets time pass, moving frames at once.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.a.now + time;
        self.settle();
        while let Some(next) =
            [self.a.stack.poll_at(), self.b.stack.poll_at()].into_iter().flatten().min()
            && next <= end
        {
            let now = self.a.now.max(next);
            (self.a.now, self.b.now) = (now, now);
            self.settle();
        }
        (self.a.now, self.b.now) = (end, end);
        self.settle();
    }

    /// A connection from A (tag 1) to a listener (tag 2) on B, accepted with tag 3: its two handles
    /// and the listener's.
    pub(crate) fn connected(&mut self) -> (Handle, Handle, Handle) {
        let listener = self.b.stack.open(SocketKind::Stream, 2).unwrap();
        self.b.stack.bind(listener, at(Ipv4Addr::UNSPECIFIED, 80)).unwrap();
        self.b.stack.listen(listener, 5).unwrap();
        let client = self.a.stack.open(SocketKind::Stream, 1).unwrap();
        self.a.stack.connect(self.a.now, client, at(IP_B, 80)).unwrap();
        self.settle();
        assert_eq!(self.a.events_of(1), [EventKind::Connected]);
        assert_eq!(self.b.events_of(2), [EventKind::Acceptable]);
        let (server, _) = self.b.stack.accept(listener, 3).unwrap().expect("a connection");
        (client, server, listener)
    }
}

pub(crate) fn arp_frame(mac: Mac, sender: Ipv4Addr, target: Ipv4Addr, request: bool) -> Vec<u8> {
    let mut frame = std::vec![0; ethernet::HEADER + arp_packet::PACKET];
    let (head, packet) = frame.split_at_mut(ethernet::HEADER);
    ethernet::emit(EtherPayload::Arp, mac, if request { Mac::BROADCAST } else { MAC_B }, head);
    arp_packet::emit((sender, mac), target, (!request).then_some(MAC_B), packet);
    frame
}

/// A frame from A to B with an IPv4 packet of `protocol`.
pub(crate) fn ip_frame(protocol: u8, payload: &[u8]) -> Vec<u8> {
    ip_frame_with(IP_A, IP_B, protocol, &[], payload)
}

pub(crate) fn ip_frame_with(
    source: Ipv4Addr,
    destination: Ipv4Addr,
    protocol: u8,
    options: &[u8],
    payload: &[u8],
) -> Vec<u8> {
    let header = 20 + options.len();
    let mut frame = std::vec![0; ethernet::HEADER];
    ethernet::emit(EtherPayload::Ipv4, MAC_A, MAC_B, &mut frame);
    let total = u16::try_from(header + payload.len()).unwrap().to_be_bytes();
    let version = 0x40 | u8::try_from(header / 4).unwrap();
    frame.extend_from_slice(&[version, 0, total[0], total[1], 0, 0, 0x40, 0, 64, protocol, 0, 0]);
    frame.extend_from_slice(&source.octets());
    frame.extend_from_slice(&destination.octets());
    frame.extend_from_slice(options);
    frame.extend_from_slice(payload);
    fix_ip(&mut frame);
    frame
}

/// Makes the IPv4 header's checksum right, if the header is within the frame.
pub(crate) fn fix_ip(frame: &mut [u8]) {
    let Some(version) = frame.get(14) else { return };
    let header = usize::from(version & 15) * 4;
    if header < 20 || frame.len() < 14 + header {
        return;
    }
    frame[24..26].fill(0);
    let sum = !checksum::data(&frame[14..14 + header]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

/// Makes the checksum of a TCP, UDP or ICMP packet right, if that can be.
pub(crate) fn fix_transport(frame: &mut [u8]) {
    let Some(version) = frame.get(14) else { return };
    let start = 14 + usize::from(version & 15) * 4;
    let place = match frame.get(23) {
        Some(6) => start + 16,
        Some(17) => start + 6,
        Some(1) => start + 2,
        _ => return,
    };
    let total = 14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]));
    let end = total.min(frame.len());
    if place + 2 > end || start < 34 {
        return;
    }
    frame[place..place + 2].fill(0);
    let mut pseudo = Vec::from(&frame[26..34]);
    let len = u16::try_from(end - start).unwrap().to_be_bytes();
    pseudo.extend_from_slice(&[0, frame[23], len[0], len[1]]);
    let pseudo = if frame[23] == 1 { 0 } else { checksum::data(&pseudo) };
    let sum = !checksum::combine(&[pseudo, checksum::data(&frame[start..end])]);
    frame[place..place + 2].copy_from_slice(&sum.to_be_bytes());
}

/// A UDP frame from A to B.
pub(crate) fn udp_frame(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    datagram.extend_from_slice(&from.to_be_bytes());
    datagram.extend_from_slice(&to.to_be_bytes());
    let len = u16::try_from(8 + payload.len()).unwrap();
    datagram.extend_from_slice(&len.to_be_bytes());
    datagram.extend_from_slice(&[0, 0]);
    datagram.extend_from_slice(payload);
    let mut frame = ip_frame(17, &datagram);
    fix_transport(&mut frame);
    frame
}

/// A TCP frame from A to B.
pub(crate) fn tcp_frame(repr: &tcp::SegmentRepr, payload: &[u8]) -> Vec<u8> {
    let mut head = [0; tcp::MAX_HEADER];
    let chunk = Chunk(Vec::from(payload));
    let body = [TxPiece { bytes: &chunk, range: 0..payload.len() }];
    let len = repr.emit(IP_A.into(), IP_B.into(), &body, &mut head);
    let mut segment = Vec::from(&head[..len]);
    segment.extend_from_slice(payload);
    ip_frame(6, &segment)
}

/// The TCP header in a frame.
pub(crate) fn segment_of(frame: &[u8]) -> tcp::SegmentRepr {
    let packet = crate::ip::v4::parse(frame, frame.len(), 14, ID).unwrap();
    let bytes = &frame[packet.payload.clone()];
    tcp::SegmentRepr::parse(packet.source, packet.destination, bytes).unwrap().repr
}

/// An echo request from A to B.
pub(crate) fn echo_frame(payload: &[u8]) -> Vec<u8> {
    let mut message = std::vec![8, 0, 0, 0, 0x12, 0x34, 0, 1];
    message.extend_from_slice(payload);
    let mut frame = ip_frame(1, &message);
    fix_transport(&mut frame);
    frame
}
