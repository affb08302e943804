//! The headers of a packet, of both families.

use core::net::{IpAddr, SocketAddr};
use core::ops::Range;

use smoltcp::wire::{IpProtocol, checksum};

use crate::interface_id::InterfaceId;
use crate::sockaddr::scoped;

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
    pub(crate) extent: Range<usize>,
    /// Where its payload is in the frame.
    pub(crate) payload: Range<usize>,
    /// Its fragment header, if it is a fragment.
    pub(crate) fragment: Option<FragmentHeader>,
}

/// Which part of a packet a fragment is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FragmentHeader {
    pub(crate) id: u32,
    /// Position of its payload in the packet's, bytes.
    pub(crate) at: usize,
    /// It is not the last fragment.
    pub(crate) more: bool,
    /// Range in the frame of the headers with which the reassembled packet starts. That is the IPv4
    /// header, or the IPv6 header and the extension headers before the fragment header.
    pub(crate) header: Range<usize>,
    /// Of IPv6, where in the frame the byte is that announces the fragment header.
    pub(crate) next_header_at: usize,
}

impl Packet {
    /// The first bytes of its payload, as far as they are in the frame's first bytes `head`.
    #[inline]
    pub(crate) fn payload_in<'a>(&self, head: &'a [u8]) -> &'a [u8] {
        let Range { start, end } = self.payload;
        head.get(start..end.min(head.len())).unwrap_or_default()
    }

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

/// Length of the fragment header of IPv6, bytes.
pub(crate) const FRAGMENT_HEADER: usize = 8;

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
