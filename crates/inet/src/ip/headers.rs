//! Headers of packets to be sent, by the family of their destination.

use core::net::IpAddr;

use super::packet::Header;
use super::route::Path;
use super::{v4, v6};
use crate::link::LinkLayer;
use crate::link::ethernet::{self, EtherPayload, Mac};

/// Room for an Ethernet and an IP header of either version, bytes.
pub(crate) const MAX_HEADERS: usize = ethernet::HEADER + v6::HEADER;

/// Length of the Ethernet and the IP header of packets to `destination`, bytes.
pub(crate) fn frame_headers(destination: IpAddr) -> usize {
    ethernet::HEADER + header_len(destination)
}

/// Writes the Ethernet and IP headers to the start of `head`: [`frame_headers`] bytes.
pub(crate) fn write_headers(
    link: &LinkLayer,
    path: &Path,
    to: Mac,
    header: &Header,
    head: &mut [u8],
) {
    write_ip(header, head);
    write_link(link, path, to, header, head);
}

/// Writes the IP header behind the room for the Ethernet header.
pub(crate) fn write_ip(header: &Header, head: &mut [u8]) {
    let network = &mut head[ethernet::HEADER..];
    match (header.source, header.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            v4::emit(header, source, destination, network);
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            v6::emit(header, source, destination, network);
        }
        // No packet has addresses of two families.
        _ => {}
    }
}

/// Writes the Ethernet header.
pub(crate) fn write_link(link: &LinkLayer, path: &Path, to: Mac, header: &Header, head: &mut [u8]) {
    let carries = if header.source.is_ipv4() { EtherPayload::Ipv4 } else { EtherPayload::Ipv6 };
    link.write_header(path.interface, carries, to, head);
}

/// Length of the header that packets to `destination` begin with, bytes.
pub(crate) fn header_len(destination: IpAddr) -> usize {
    match destination {
        IpAddr::V4(_) => v4::HEADER,
        IpAddr::V6(_) => v6::HEADER,
    }
}

/// Sets the length in the header of `packet`, which goes to `destination` and has no other headers.
pub(crate) fn set_payload_len(packet: &mut [u8], destination: IpAddr, len: usize) {
    let counted = if destination.is_ipv4() { v4::HEADER } else { 0 };
    let field = u16::try_from(counted + len).unwrap_or(u16::MAX).to_be_bytes();
    let at = if destination.is_ipv4() { v4::LENGTH_AT } else { v6::PAYLOAD_LENGTH_AT };
    if let Some(place) = packet.get_mut(at..at + 2) {
        place.copy_from_slice(&field);
    }
}

/// Makes `packet` a fragment with its payload at `at`. It begins with the header of an unfragmented
/// packet to `destination`. Gives the length of the header that was added.
pub(crate) fn write_fragment(
    packet: &mut [u8],
    destination: IpAddr,
    id: u32,
    at: usize,
    more: bool,
) -> usize {
    match destination {
        IpAddr::V4(_) => {
            v4::write_fragment(packet, id, at, more);
            0
        }
        IpAddr::V6(_) => v6::write_fragment(packet, id, at, more),
    }
}

/// Lets routers fragment `packet` if it is one of IPv4. IPv6 has no such field.
pub(crate) fn allow_fragments(packet: &mut [u8], destination: IpAddr, id: u32) {
    if destination.is_ipv4() {
        v4::allow_fragments(packet, id);
    }
}
