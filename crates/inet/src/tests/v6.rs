//! IPv6: whole stacks, and frames by the byte.

mod icmp;
mod neighbours;
mod routers;
mod sockets;

use core::net::{IpAddr, Ipv6Addr};

use smoltcp::wire::IpProtocol;

use super::*;
use crate::ip::{self, v6};

pub(super) const A6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0xa);
pub(super) const B6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0xb);
/// B's link-local address with an identifier from [`MAC_B`], and A's.
pub(super) const B_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 2);
pub(super) const A_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 1);
/// A second and some ticks of the timer wheel.
pub(super) const SECOND: Duration = Duration::from_millis(1001);

pub(super) fn at6(ip: Ipv6Addr, port: u16) -> SocketAddr {
    SocketAddr::new(ip.into(), port)
}

/// The default, without waiting for somebody who has our addresses.
pub(super) fn at_once() -> Config {
    Config { v6: V6Config { dad_transmits: 0, ..V6Config::default() }, ..Config::default() }
}

/// B without IPv4, with [`B6`].
pub(super) fn b6(config: Config) -> Host {
    let mut b = Host::new(IP_B, MAC_B, config);
    b.stack.remove_address(ID, IP_B.into()).unwrap();
    b.stack.add_address(ID, Cidr::new(B6, 64)).unwrap();
    b
}

/// Two hosts with both families.
pub(super) fn pair6() -> Pair {
    let mut pair = Pair::with(at_once(), at_once());
    pair.a.stack.add_address(ID, Cidr::new(A6, 64)).unwrap();
    pair.b.stack.add_address(ID, Cidr::new(B6, 64)).unwrap();
    pair
}

/// A frame with an IPv6 packet; what is behind its header must have its checksum.
pub(super) fn frame6(
    source: Ipv6Addr,
    destination: Ipv6Addr,
    next: u8,
    hops: u8,
    payload: &[u8],
) -> Vec<u8> {
    let mut frame = std::vec![0; ethernet::HEADER];
    let to =
        if destination.is_multicast() { ethernet::multicast(destination.into()) } else { MAC_B };
    ethernet::emit(EtherPayload::Ipv6, MAC_A, to, &mut frame);
    let len = u16::try_from(payload.len()).unwrap().to_be_bytes();
    frame.extend_from_slice(&[0x60, 0, 0, 0, len[0], len[1], next, hops]);
    frame.extend_from_slice(&source.octets());
    frame.extend_from_slice(&destination.octets());
    frame.extend_from_slice(payload);
    frame
}

/// The same with an ICMPv6 message whose checksum is made right.
pub(super) fn icmp_frame(
    source: Ipv6Addr,
    destination: Ipv6Addr,
    hops: u8,
    message: &[u8],
) -> Vec<u8> {
    let mut message = message.to_vec();
    message[2..4].fill(0);
    let (from, to) = (source.into(), destination.into());
    let pseudo = ip::pseudo_sum(from, to, IpProtocol::Icmpv6, message.len());
    let sum = !checksum::combine(&[pseudo, checksum::data(&message)]);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    frame6(source, destination, 58, hops, &message)
}

/// A neighbour solicitation, without option if `mac` is none.
pub(super) fn solicitation(
    source: Ipv6Addr,
    destination: Ipv6Addr,
    target: Ipv6Addr,
    mac: Option<Mac>,
) -> Vec<u8> {
    let mut message = std::vec![135, 0, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(&target.octets());
    if let Some(mac) = mac {
        message.extend_from_slice(&[1, 1]);
        message.extend_from_slice(&mac.0);
    }
    icmp_frame(source, destination, 255, &message)
}

pub(super) const SOLICITED: u8 = 0x40;
pub(super) const OVERRIDE: u8 = 0x20;
pub(super) const ROUTER: u8 = 0x80;

/// A neighbour advertisement to B.
pub(super) fn advertisement(target: Ipv6Addr, flags: u8, mac: Option<Mac>) -> Vec<u8> {
    let mut message = std::vec![136, 0, 0, 0, flags, 0, 0, 0];
    message.extend_from_slice(&target.octets());
    if let Some(mac) = mac {
        message.extend_from_slice(&[2, 1]);
        message.extend_from_slice(&mac.0);
    }
    let destination = if flags & SOLICITED != 0 { B6 } else { v6::ALL_NODES };
    icmp_frame(target, destination, 255, &message)
}

/// What is in a frame that was sent: source, destination, ICMPv6 message.
pub(super) fn icmp_in(frame: &[u8]) -> Option<(Ipv6Addr, Ipv6Addr, Vec<u8>)> {
    let (packet, content) = v6::parse(frame, frame.len(), 14, ID).ok()?;
    let (IpAddr::V6(from), IpAddr::V6(to)) = (packet.source, packet.destination) else {
        return None;
    };
    let is_icmp = content == v6::Content::Upper && packet.protocol == IpProtocol::Icmpv6;
    let bytes = frame[packet.payload].to_vec();
    let pseudo = ip::pseudo_sum(from.into(), to.into(), IpProtocol::Icmpv6, bytes.len());
    if is_icmp {
        assert_eq!(checksum::combine(&[pseudo, checksum::data(&bytes)]), 0xffff, "the sum fits");
    }
    is_icmp.then_some((from, to, bytes))
}

/// The ICMPv6 types sent since the last call.
pub(super) fn sent_types(host: &mut Host) -> Vec<u8> {
    host.sent().iter().filter_map(|frame| icmp_in(frame)).map(|(.., bytes)| bytes[0]).collect()
}

/// B, which has proof of A.
pub(super) fn b_knowing_a6() -> Host {
    let mut b = b6(at_once());
    b.take(&solicitation(A6, v6::solicited_node(B6), B6, Some(MAC_A)));
    b.wire.frames.clear();
    b
}
