//! Arbitrary frames into a stack with a listener, a datagram socket and an established connection.
//!
//! The input is a sequence of records: a byte of flags, a 16-bit length, and that many bytes, given
//! to the stack as a frame. With bit 0 of the flags the frame gets our hardware address and IPv4's
//! type. With bit 1 its IPv4 and transport checksums are made right, so that the code behind the
//! checks is reached. With bit 2 its addresses and ports become those of the connection. Bits 4 to
//! 7 let time pass.
//!
//! For any input there is no panic, and all memory stays within its bounds.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use inet::tcp::{MAX_HEADER, SegmentRepr, Seq};
use inet::{Cidr, Config, Instant, InterfaceConfig, InterfaceId, SocketKind, Stack};

use crate::memory::{Chunk, Frame, Wire};
use crate::packet::{HEADS, MAC, OURS, PEER, PEER_PORT, PORT, arp, frame_of, repair};

/// Most frames that the stack may hold.
const HELD: u64 = 64;

fn at(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(OURS), port)
}

/// A stack with a listener, a datagram socket, and a connection with data in flight.
fn target(now: Instant) -> (Stack<Chunk, Frame>, InterfaceId) {
    let config = Config { held_frames: HELD as usize, ..Config::default() };
    let mut stack = Stack::new(config, [7; 16]);
    let mut wire = Wire::default();
    let id = stack.add_interface(InterfaceConfig { mac: MAC, mtu: 1500 });
    stack.add_address(id, Cidr::new(OURS, 24)).expect("a free address");
    stack.handle_frame(now, id, Frame(arp()), &mut wire);
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
        let mut head = [0; MAX_HEADER];
        let len = repr.emit::<Chunk>(PEER.into(), OURS.into(), &[], &mut head);
        stack.handle_frame(now, id, Frame(frame_of(&head[..len])), wire);
        stack.poll(now, wire);
    };
    send(&mut stack, &mut wire, &syn);
    let answer = wire.0.last().expect("an answer");
    let answer =
        SegmentRepr::parse(OURS.into(), PEER.into(), &answer[HEADS..]).expect("a SYN-ACK").repr;
    let ack = SegmentRepr { syn: false, seq: Seq::new(1001), ack: Some(answer.seq + 1), ..syn };
    send(&mut stack, &mut wire, &ack);
    let (connection, _) = stack.accept(listener, 3).expect("listening").expect("a connection");
    let sent = stack.send(now, connection, Chunk(vec![1; 5000]), None);
    assert!(sent.is_ok(), "an open connection takes data");
    stack.poll(now, &mut wire);
    (stack, id)
}

/// See the module.
pub fn run(data: &[u8]) {
    let mut now = Instant::from_nanos(1_000_000_000);
    let (mut stack, id) = target(now);
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
        let mut wire = Wire::default();
        stack.handle_frame(now, id, Frame(frame), &mut wire);
        stack.poll(now, &mut wire);
        while stack.poll_event().is_some() {}
        let held = stack.counters().find(|(name, _)| *name == "memory.frames-held");
        assert!(held.is_some_and(|(_, held)| held <= HELD), "more frames held than allowed");
    }
}
