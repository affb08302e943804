//! Arbitrary frames into a stack with a listener, a datagram socket and an established connection.
//!
//! The input is a sequence of records: a byte of flags, a 16-bit length, and that many bytes, given
//! to the stack as a frame. With bit 0 of the flags the frame gets our hardware address and IPv4's
//! type; with bit 1 its IPv4 and transport checksums are made right, so that what lies behind them
//! is reached; with bit 2 its addresses and ports become those of the connection. Bits 4 to 7 let
//! time pass. Whatever the frames are: no panic, and all memory within its bounds.
#![no_main]

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::ops::Range;
use core::time::Duration;

use inet::tcp::{SegmentRepr, Seq};
use inet::{
    Cidr, Config, Egress, Instant, InterfaceConfig, InterfaceId, RxBytes, SocketKind, Stack,
    TxBytes, TxPiece,
};
use libfuzzer_sys::fuzz_target;

const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const PORT: u16 = 80;
const PEER_PORT: u16 = 5000;
const ID: InterfaceId = InterfaceId(0);

struct Chunk(Vec<u8>);

impl TxBytes for Chunk {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn checksum(&self, range: Range<usize>) -> u16 {
        sum(&self.0[range])
    }
    fn append(&mut self, next: Self) -> Result<(), Self> {
        Err(next)
    }
}

struct Frame(Vec<u8>);

impl RxBytes for Frame {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Keeps the last frame.
#[derive(Default)]
struct Wire(Vec<u8>);

impl Egress<Chunk> for Wire {
    fn ready(&mut self) -> bool {
        true
    }
    fn emit(&mut self, _: InterfaceId, head: &[u8], body: &[TxPiece<'_, Chunk>]) {
        self.0 = head.to_vec();
        for piece in body {
            self.0.extend_from_slice(&piece.bytes.0[piece.range.clone()]);
        }
    }
}

fn sum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)])));
    let mut total: u32 = words.sum();
    while total > 0xffff {
        total = (total >> 16) + (total & 0xffff);
    }
    total as u16
}

/// Puts headers before a TCP segment.
fn frame_of(segment: &[u8]) -> Vec<u8> {
    let mut frame = [&MAC[..], &[2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0]].concat();
    frame.extend_from_slice(&((20 + segment.len()) as u16).to_be_bytes());
    frame.extend_from_slice(&[0, 0, 0x40, 0, 64, 6, 0, 0]);
    frame.extend_from_slice(&PEER.octets());
    frame.extend_from_slice(&OURS.octets());
    frame.extend_from_slice(segment);
    repair(&mut frame);
    frame
}

/// Makes the checksums right as far as lengths allow.
fn repair(frame: &mut [u8]) {
    if frame.len() < 34 {
        return;
    }
    let header = usize::from(frame[14] & 15) * 4;
    let start = 14 + header;
    if header < 20 || frame.len() < start {
        return;
    }
    frame[24..26].fill(0);
    let ip = !sum(&frame[14..start]);
    frame[24..26].copy_from_slice(&ip.to_be_bytes());
    let end = (14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]))).min(frame.len());
    let place = start
        + match frame[23] {
            6 => 16,
            17 => 6,
            1 => 2,
            _ => return,
        };
    if place + 2 > end {
        return;
    }
    frame[place..place + 2].fill(0);
    let mut covered = Vec::new();
    if frame[23] != 1 {
        covered.extend_from_slice(&frame[26..34]);
        covered.extend_from_slice(&[0, frame[23]]);
        covered.extend_from_slice(&((end - start) as u16).to_be_bytes());
    }
    covered.extend_from_slice(&frame[start..end]);
    let transport = !sum(&covered);
    frame[place..place + 2].copy_from_slice(&transport.to_be_bytes());
}

fn at(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(OURS), port)
}

/// A stack with a listener, a datagram socket, and a connection with data in flight.
fn target(now: Instant) -> (Stack<Chunk, Frame>, Wire) {
    let mut stack = Stack::new(Config { held_frames: 64, ..Config::default() }, [7; 16]);
    let mut wire = Wire::default();
    let id = stack.add_interface(InterfaceConfig { mac: MAC, mtu: 1500 });
    stack.add_address(id, Cidr::new(OURS, 24)).expect("a free address");
    let mut arp = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
    arp.extend_from_slice(&[2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
    stack.handle_frame(now, ID, Frame(arp), &mut wire);
    let listener = stack.open(SocketKind::Stream, 1).expect("room");
    stack.bind(listener, at(PORT)).expect("free");
    stack.listen(listener, 5).expect("bound");
    let datagram = stack.open(SocketKind::Datagram, 2).expect("room");
    stack.bind(datagram, at(9)).expect("free");
    let syn = SegmentRepr {
        src_port: PEER_PORT,
        dst_port: PORT,
        seq: Seq::new(1000),
        syn: true,
        window: 60_000,
        ..SegmentRepr::default()
    };
    let send = |stack: &mut Stack<Chunk, Frame>, wire: &mut Wire, repr: &SegmentRepr| {
        let mut head = [0; inet::tcp::MAX_HEADER];
        let len = repr.emit::<Chunk>(PEER.into(), OURS.into(), &[], &mut head);
        stack.handle_frame(now, ID, Frame(frame_of(&head[..len])), wire);
        stack.poll(now, wire);
    };
    send(&mut stack, &mut wire, &syn);
    let answer =
        SegmentRepr::parse(OURS.into(), PEER.into(), &wire.0[34..]).expect("a SYN-ACK").repr;
    let ack = SegmentRepr { syn: false, seq: Seq::new(1001), ack: Some(answer.seq + 1), ..syn };
    send(&mut stack, &mut wire, &ack);
    let (connection, _) = stack.accept(listener, 3).expect("listening").expect("a connection");
    let sent = stack.send(now, connection, Chunk(vec![1; 5000]), None);
    assert!(sent.is_ok());
    stack.poll(now, &mut wire);
    (stack, wire)
}

fuzz_target!(|data: &[u8]| {
    let mut now = Instant::from_nanos(1_000_000_000);
    let (mut stack, mut wire) = target(now);
    let mut rest = data;
    while let [flags, high, low, more @ ..] = rest {
        let len = usize::from(u16::from_be_bytes([*high, *low])).min(more.len()).min(9000);
        let (bytes, tail) = more.split_at(len);
        rest = tail;
        let mut frame = bytes.to_vec();
        if flags & 1 != 0 && frame.len() >= 14 {
            frame[..6].copy_from_slice(&MAC);
            frame[12..14].copy_from_slice(&[8, 0]);
        }
        if flags & 4 != 0 && frame.len() >= 38 {
            frame[26..30].copy_from_slice(&PEER.octets());
            frame[30..34].copy_from_slice(&OURS.octets());
            frame[34..36].copy_from_slice(&PEER_PORT.to_be_bytes());
            frame[36..38].copy_from_slice(&PORT.to_be_bytes());
        }
        if flags & 2 != 0 {
            repair(&mut frame);
        }
        now += Duration::from_millis(1 << (flags >> 4)) - Duration::from_millis(1);
        stack.handle_frame(now, ID, Frame(frame), &mut wire);
        stack.poll(now, &mut wire);
        while stack.poll_event().is_some() {}
        let held = stack.counters().find(|(name, _)| *name == "memory.frames-held");
        assert!(held.is_some_and(|(_, held)| held <= 64));
    }
});
