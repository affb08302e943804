//! Arbitrary IPv6 packets, Neighbour Discovery above all, into a stack that configures itself.
//!
//! The input is a sequence of records: a byte of flags, a byte for the kind, a byte of length, and
//! that many bytes. The record becomes an IPv6 packet. For the kinds 0 to 7 its payload starts with
//! an ICMPv6 type. For other kinds the upper bits of the kind name the next header. With bit 0 of
//! the flags its checksum is made right. Bits 1 and 2 choose source and destination, bit 3 the hop
//! limit. The upper four bits let up to nine hours pass.
//!
//! For any input there is no panic, and all state that packets can make the stack keep stays within
//! its bounds.

use core::net::{IpAddr, Ipv6Addr};
use core::time::Duration;

use inet::{
    AddressOrigin, Cidr, Config, Family, Instant, InterfaceConfig, InterfaceId, SocketKind, Stack,
    V6Config,
};

use crate::memory::{Chunk, Frame, Wire};
use crate::packet::{MAC, sum};

const OURS: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
const PEER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 2);
const ICMPV6: u8 = 58;
/// Types of messages, by kind.
const TYPES: [u8; 8] = [133, 134, 135, 136, 137, 1, 2, 128];
/// Most neighbours of the stack.
const NEIGHBOURS: usize = 16;

fn config() -> Config {
    let v6 = V6Config { stable_secret: None, ..V6Config::default() };
    Config { v6, neighbours: NEIGHBOURS, held_frames: 64, ..Config::default() }
}

/// An IPv6 packet in a frame.
fn frame(source: Ipv6Addr, destination: Ipv6Addr, next: u8, hops: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = [&MAC[..], &[2, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x60, 0, 0, 0]].concat();
    let len = u16::try_from(payload.len()).unwrap_or(u16::MAX);
    frame.extend_from_slice(&len.to_be_bytes());
    frame.extend_from_slice(&[next, hops]);
    frame.extend_from_slice(&source.octets());
    frame.extend_from_slice(&destination.octets());
    frame.extend_from_slice(payload);
    frame
}

/// Makes the checksum of an ICMPv6 message right.
fn repair(source: Ipv6Addr, destination: Ipv6Addr, message: &mut [u8]) {
    let Some(place) = message.get_mut(2..4) else { return };
    place.fill(0);
    let mut covered = [source.octets(), destination.octets()].concat();
    covered.extend_from_slice(&(message.len() as u32).to_be_bytes());
    covered.extend_from_slice(&[0, 0, 0, ICMPV6]);
    covered.extend_from_slice(message);
    message[2..4].copy_from_slice(&(!sum(&covered)).to_be_bytes());
}

/// One record as a frame.
fn read(flags: u8, kind: u8, bytes: &[u8]) -> Vec<u8> {
    let source = match flags >> 1 & 1 {
        0 => ROUTER,
        _ if kind & 7 == 2 && kind & 8 != 0 => Ipv6Addr::UNSPECIFIED,
        _ => PEER,
    };
    let destination = match (flags >> 2 & 1, kind & 16) {
        (0, 0) => OURS,
        (0, _) => LOCAL,
        (_, 0) => ALL_NODES,
        (_, _) => Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 2),
    };
    let hops = if flags & 8 == 0 { 255 } else { 64 };
    if kind & 0xe0 != 0 {
        const NEXT: [u8; 8] = [0, 0, 43, 44, 60, 17, 6, ICMPV6];
        return frame(source, destination, NEXT[usize::from(kind >> 5)], hops, bytes);
    }
    let mut message = vec![TYPES[usize::from(kind & 7)], 0, 0, 0];
    message.extend_from_slice(bytes);
    if flags & 1 != 0 {
        repair(source, destination, &mut message);
    }
    frame(source, destination, ICMPV6, hops, &message)
}

fn check(stack: &Stack<Chunk, Frame>, now: Instant, id: InterfaceId) {
    let bounds = config().v6;
    let made = stack.addresses(id).filter(|ours| ours.origin == AddressOrigin::Slaac).count();
    assert!(made <= bounds.max_addresses, "{made} addresses");
    let routes = stack.routes().count();
    let own = stack.addresses(id).count() - made;
    assert!(routes <= own + bounds.routers + bounds.prefixes, "{routes} routes");
    assert!(stack.dns_servers(now, id).count() <= bounds.dns_servers, "too many resolvers");
    let held = stack.counters().find(|(name, _)| *name == "memory.frames-held");
    assert!(held.is_some_and(|(_, held)| held <= 64), "more frames held than allowed");
}

/// See the module.
pub fn run(data: &[u8]) {
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut stack: Stack<Chunk, Frame> = Stack::new(config(), [7; 16]);
    let id = stack.add_interface(InterfaceConfig { mac: MAC, mtu: 1500 });
    stack.add_address(id, Cidr::new(OURS, 64)).expect("a free address");
    stack.start_ipv6(now, id);
    let mut wire = Wire::default();
    for _ in 0..4 {
        stack.poll(now, &mut wire);
        now += Duration::from_millis(1001);
    }
    let socket = stack.open_in(Family::V6, SocketKind::Datagram, 1).expect("room");
    stack.bind(socket, (OURS, 9).into()).expect("our own address");
    let mut rest = data;
    while let [flags, kind, len, more @ ..] = rest {
        let (bytes, tail) = more.split_at(usize::from(*len).min(more.len()));
        rest = tail;
        let mut wire = Wire::default();
        stack.handle_frame(now, id, Frame(read(*flags, *kind, bytes)), &mut wire);
        let to = [PEER, Ipv6Addr::new(0x2a00, 0, 0, 0, 0, 0, 0, 1)][usize::from(kind & 1)];
        // Refused without a route, or when the queue is full.
        let _ = stack.send(now, socket, Chunk(vec![1; 9]), Some((IpAddr::V6(to), 53).into()));
        now += Duration::from_millis(1 << (flags >> 3 & 0x1e)) - Duration::from_millis(1);
        stack.poll(now, &mut wire);
        while stack.poll_event().is_some() {}
        check(&stack, now, id);
    }
}
