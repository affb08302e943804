//! The Internet layer: packets of both versions, networks, and the choice of routes.

pub(crate) mod cidr;
mod fragments;
pub(crate) mod groups;
pub(crate) mod pmtu;
pub(crate) mod reassembly;
pub(crate) mod route;
pub(crate) mod source;
pub(crate) mod v4;
pub(crate) mod v6;

use core::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use core::ops::Range;

use smoltcp::wire::{IpProtocol, checksum};

use crate::interface::InterfaceId;

/// A packet that has been let through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) interface: InterfaceId,
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: IpProtocol,
    /// Where the packet says so, bytes from its start.
    pub(crate) protocol_at: usize,
    /// Time to live, or hop limit.
    pub(crate) ttl: u8,
    /// Type of service byte, or traffic class.
    pub(crate) tos: u8,
    /// Where the packet is in the frame.
    pub(crate) whole: Range<usize>,
    /// Where its payload is in the frame.
    pub(crate) payload: Range<usize>,
    /// Which part of a packet it is, if it is not a whole one.
    pub(crate) cut: Option<Cut>,
}

/// Which part of a packet a fragment is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) id: u32,
    /// Place of its payload in the packet's, bytes.
    pub(crate) at: usize,
    /// It is not the last one.
    pub(crate) more: bool,
    /// What the whole packet starts with, in the frame: the IPv4 header, or the IPv6 header and the
    /// extension headers before the fragment header.
    pub(crate) header: Range<usize>,
    /// Of IPv6, where in the frame the byte is that announces the fragment header.
    pub(crate) next_header_at: usize,
}

impl Packet {
    /// The packet's source with `port`.
    pub(crate) fn from(&self, port: u16) -> SocketAddr {
        scoped(self.source, port, self.interface)
    }

    /// The packet's destination with `port`.
    pub(crate) fn to(&self, port: u16) -> SocketAddr {
        scoped(self.destination, port, self.interface)
    }
}

/// The header of a packet to be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    /// Of the same family as `destination`.
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: IpProtocol,
    /// Time to live, or hop limit.
    pub(crate) ttl: u8,
    /// Type of service byte, or traffic class.
    pub(crate) tos: u8,
    /// IPv6's flow label (RFC 6437), 20 bits; 0 for none.
    pub(crate) flow: u32,
    /// Bytes after the header.
    pub(crate) payload_len: usize,
}

/// Length of the header that packets to `destination` begin with, bytes.
pub(crate) fn header_len(destination: IpAddr) -> usize {
    match destination {
        IpAddr::V4(_) => v4::HEADER,
        IpAddr::V6(_) => v6::HEADER,
    }
}

/// The sum of the pseudo header of TCP (RFC 9293 3.1, figure 2), UDP and ICMPv6 (RFC 8200 8.1).
/// Addresses of two families have no sum.
pub(crate) fn pseudo_sum(src: IpAddr, dst: IpAddr, protocol: IpProtocol, len: usize) -> u16 {
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => checksum::pseudo_header_v4(&src, &dst, protocol, len),
        (IpAddr::V6(src), IpAddr::V6(dst)) => checksum::pseudo_header_v6(&src, &dst, protocol, len),
        _ => 0,
    }
}

/// Whether an address means something only together with a link: fe80::/10, and the groups of
/// interface and link scope (RFC 4007 4).
pub(crate) fn is_link_scope(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(_) => false,
        IpAddr::V6(ip) => {
            ip.is_unicast_link_local()
                || ip.is_multicast() && matches!(ip.octets()[1] & 0x0f, 1 | 2)
        }
    }
}

/// `ip` as it is met on `interface`, with `port`: one of link scope is named with its link.
pub(crate) fn scoped(ip: IpAddr, port: u16, interface: InterfaceId) -> SocketAddr {
    match ip {
        IpAddr::V6(v6) if is_link_scope(ip) => {
            SocketAddrV6::new(v6, port, 0, interface.scope_id()).into()
        }
        ip => SocketAddr::new(ip, port),
    }
}

/// The interface that an address of link scope names.
pub(crate) fn link_of(address: &SocketAddr) -> Option<InterfaceId> {
    match address {
        SocketAddr::V6(v6) => InterfaceId::from_scope_id(v6.scope_id()),
        SocketAddr::V4(_) => None,
    }
}

/// `address` as the core knows it: IPv4 behind an IPv4-mapped address, no flow label, and a scope
/// only where it means something.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    let ip = address.ip().to_canonical();
    match (address, ip) {
        (SocketAddr::V6(v6), IpAddr::V6(plain)) => {
            let scope = if is_link_scope(ip) { v6.scope_id() } else { 0 };
            SocketAddrV6::new(plain, v6.port(), 0, scope).into()
        }
        _ => SocketAddr::new(ip, address.port()),
    }
}

/// The address of the same family that stands for all.
pub(crate) fn wildcard(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => core::net::Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// `address`, or the loopback address if it is the wildcard: as Linux, whoever sends to nobody in
/// particular sends to itself.
pub(crate) fn to_self(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => core::net::Ipv6Addr::LOCALHOST.into(),
        _ => return address,
    };
    SocketAddr::new(ip, address.port())
}

/// Length of the fragment header of IPv6, bytes.
pub(crate) const FRAGMENT_HEADER: usize = 8;

/// Makes `packet`, which begins with a whole packet's header to `destination`, a fragment with its
/// payload at `at`; gives the length of the header that was added.
pub(crate) fn write_cut(
    packet: &mut [u8],
    destination: IpAddr,
    id: u32,
    at: usize,
    more: bool,
) -> usize {
    match destination {
        IpAddr::V4(_) => {
            v4::write_cut(packet, id, at, more);
            0
        }
        IpAddr::V6(_) => v6::write_cut(packet, id, at, more),
    }
}

/// Lets routers cut `packet`, if it is one of IPv4: there is nothing to say in IPv6.
pub(crate) fn allow_fragments(packet: &mut [u8], destination: IpAddr, id: u32) {
    if destination.is_ipv4() {
        v4::allow_fragments(packet, id);
    }
}
