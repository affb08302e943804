//! Packets of the TUN device: what the relay must know of one, and the few that it makes.

use std::net::{IpAddr, SocketAddr};

use etherparse::icmpv4::DestUnreachableHeader;
use etherparse::icmpv6::DestUnreachableCode;
use etherparse::{Icmpv4Type, Icmpv6Type, NetSlice, SlicedPacket, TransportSlice};
use rustix::io::Errno;
use sockets::QueuedErrorEntry;

use crate::address::canonical;

use crate::header::{Manner, header};
use crate::icmp::EchoRequest;

/// Bytes of a refused packet that an ICMP error quotes.
const QUOTE: usize = 512;

/// A packet that a program's socket has sent.
#[derive(Debug)]
pub(crate) enum Sent<'a> {
    /// The begin of a connection.
    Syn(Syn),
    /// Another segment.
    Segment,
    /// A datagram and its payload.
    Datagram { from: SocketAddr, to: SocketAddr, manner: Manner, payload: &'a [u8] },
    /// An echo request.
    Echo(EchoRequest<'a>),
    /// Something that the relay does not carry.
    Other,
}

/// The begin of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Syn {
    /// The program's end.
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    sequence_number: u32,
}

impl<'a> Sent<'a> {
    /// Reads a packet, which begins with its IP header.
    pub(crate) fn parse(packet: &'a [u8]) -> Self {
        let Ok(packet) = SlicedPacket::from_ip(packet) else { return Self::Other };
        let Some((from, to, manner)) = header_fields(&packet) else { return Self::Other };
        match packet.transport {
            Some(TransportSlice::Tcp(tcp)) if tcp.syn() && !tcp.ack() => Self::Syn(Syn {
                from: (from, tcp.source_port()).into(),
                to: (to, tcp.destination_port()).into(),
                sequence_number: tcp.sequence_number(),
            }),
            Some(TransportSlice::Tcp(_)) => Self::Segment,
            Some(TransportSlice::Udp(udp)) => Self::Datagram {
                from: (from, udp.source_port()).into(),
                to: (to, udp.destination_port()).into(),
                manner,
                payload: udp.payload(),
            },
            _ => EchoRequest::of(&packet, (from, to), manner).map_or(Self::Other, Self::Echo),
        }
    }

    /// The address that the packet says it comes from.
    pub(crate) fn source(&self) -> Option<IpAddr> {
        match self {
            Self::Syn(syn) => Some(syn.from.ip()),
            Self::Datagram { from, .. } => Some(from.ip()),
            Self::Echo(request) => Some(request.from),
            Self::Segment | Self::Other => None,
        }
    }
}

/// Source, destination, and the fields that a socket may choose.
fn header_fields(packet: &SlicedPacket<'_>) -> Option<(IpAddr, IpAddr, Manner)> {
    match packet.net.as_ref()? {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            let class = header.dcp().value() << 2 | header.ecn().value();
            let manner = Manner { hops: header.ttl(), class };
            Some((header.source_addr().into(), header.destination_addr().into(), manner))
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header();
            let manner = Manner { hops: header.hop_limit(), class: header.traffic_class() };
            Some((header.source_addr().into(), header.destination_addr().into(), manner))
        }
        _ => None,
    }
}

/// A reset: nobody listens there (RFC 9293 3.10.7.1).
pub(crate) fn reset(syn: &Syn) -> Option<Vec<u8>> {
    let step = header(syn.to.ip(), syn.from.ip())?;
    let step = step.tcp(syn.to.port(), syn.from.port(), 0, 0).rst();
    let step = step.ack(syn.sequence_number.wrapping_add(1));
    let mut bytes = Vec::with_capacity(step.size(0));
    step.write(&mut bytes, &[]).ok()?;
    Some(bytes)
}

/// The begin of a packet, as much as an ICMP error quotes.
pub(crate) fn quote(packet: &[u8]) -> &[u8] {
    packet.get(..QUOTE).unwrap_or(packet)
}

/// An ICMP error about a packet between these ends, which the kernel turns into this error of the
/// socket. `None` for an error that no message says.
pub(crate) fn unreachable(
    errno: Errno,
    packet: &[u8],
    (from, to): (SocketAddr, SocketAddr),
) -> Option<Vec<u8>> {
    let step = header(to.ip(), from.ip())?;
    let quote = quote(packet);
    let mut bytes = Vec::new();
    if to.is_ipv4() {
        let why = match errno {
            Errno::NETUNREACH => DestUnreachableHeader::Network,
            Errno::HOSTUNREACH => DestUnreachableHeader::Host,
            Errno::CONNREFUSED => DestUnreachableHeader::Port,
            Errno::ACCESS | Errno::PERM => DestUnreachableHeader::HostProhibited,
            _ => return None,
        };
        let why = Icmpv4Type::DestinationUnreachable(why);
        step.icmpv4(why).write(&mut bytes, quote).ok()?;
    } else {
        let why = match errno {
            Errno::NETUNREACH => DestUnreachableCode::NoRoute,
            Errno::HOSTUNREACH => DestUnreachableCode::Address,
            Errno::CONNREFUSED => DestUnreachableCode::Port,
            Errno::ACCESS | Errno::PERM => DestUnreachableCode::Prohibited,
            _ => return None,
        };
        let why = Icmpv6Type::DestinationUnreachable(why);
        step.icmpv6(why).write(&mut bytes, quote).ok()?;
    }
    Some(bytes)
}

/// The ICMP error of an entry of an error queue, about a datagram that a program sent from `from`.
/// `None` for an error that no message reported.
pub(crate) fn icmp_error(entry: &QueuedErrorEntry, from: SocketAddr) -> Option<Vec<u8>> {
    const UNREACHABLE: u8 = 3;
    const FRAGMENTATION_NEEDED: u8 = 4;
    let (node, _) = entry.message.as_ref()?;
    let packet = datagram(from, canonical(entry.destination), &entry.payload)?;
    let step = header(canonical(*node).ip(), from.ip())?;
    let (type_u8, code_u8, [a, b, c, d]) = (entry.kind, entry.code, entry.info.to_be_bytes());
    let mut bytes = Vec::new();
    if from.is_ipv4() {
        // The MTU lies in the lower half of the word, the position of a bad byte in its first byte.
        let too_big = (type_u8, code_u8) == (UNREACHABLE, FRAGMENTATION_NEEDED);
        let bytes5to8 = if too_big { [0, 0, c, d] } else { [d, 0, 0, 0] };
        let kind = Icmpv4Type::Unknown { type_u8, code_u8, bytes5to8 };
        step.icmpv4(kind).write(&mut bytes, quote(&packet)).ok()?;
    } else {
        let kind = Icmpv6Type::Unknown { type_u8, code_u8, bytes5to8: [a, b, c, d] };
        step.icmpv6(kind).write(&mut bytes, quote(&packet)).ok()?;
    }
    Some(bytes)
}

/// A datagram for a program's socket.
pub(crate) fn datagram(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Option<Vec<u8>> {
    let step = header(from.ip(), to.ip())?.udp(from.port(), to.port());
    let mut bytes = Vec::with_capacity(step.size(payload.len()));
    step.write(&mut bytes, payload).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use sockets::QueuedErrorOrigin;

    use super::*;

    #[test]
    fn an_entry_becomes_a_message_about_its_packet() {
        let mut entry = QueuedErrorEntry {
            serial: 0,
            errno: Errno::CONNREFUSED.raw_os_error(),
            origin: QueuedErrorOrigin::Icmp4,
            kind: 3,
            code: 4,
            info: 1400,
            destination: "192.0.2.9:33434".parse().unwrap(),
            message: None,
            payload: b"probe".to_vec(),
        };
        let from = "10.0.0.2:5000".parse().unwrap();
        assert_eq!(icmp_error(&entry, from), None);
        let how = sockets::RecvAncillary {
            asked: sockets::AncillarySet::NONE,
            to: "10.0.0.2".parse().unwrap(),
            port: 5000,
            ours: "10.0.0.2".parse().unwrap(),
            interface: 1,
            ttl: 60,
            tos: 0,
            segment: 0,
            at: 0,
        };
        entry.message = Some(("10.0.0.1:0".parse().unwrap(), how));
        let bytes = icmp_error(&entry, from).unwrap();
        assert_eq!(bytes[12..20], [10, 0, 0, 1, 10, 0, 0, 2], "from the router to the program");
        assert_eq!((&bytes[20..22], &bytes[24..28]), (&[3, 4][..], &[0, 0, 5, 120][..]));
        assert_eq!(bytes[28 + 12..28 + 20], [10, 0, 0, 2, 192, 0, 2, 9], "the quoted packet");
        assert!(bytes.ends_with(b"probe"));
    }
}
