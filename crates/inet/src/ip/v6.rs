//! IPv6 packets (RFC 8200).

use core::net::Ipv6Addr;

use smoltcp::wire::{Ipv6Packet, Ipv6Repr};

use super::Header;

/// Length of the fixed header, bytes.
pub(crate) const HEADER: usize = smoltcp::wire::IPV6_HEADER_LEN;

/// Writes `header`, which goes from `source` to `destination`, into the first [`HEADER`] bytes of
/// `out`.
pub(crate) fn emit(header: &Header, source: Ipv6Addr, destination: Ipv6Addr, out: &mut [u8]) {
    let repr = Ipv6Repr {
        src_addr: source,
        dst_addr: destination,
        next_header: header.protocol,
        payload_len: header.payload_len,
        hop_limit: header.ttl,
    };
    let mut view = Ipv6Packet::new_unchecked(out);
    repr.emit(&mut view);
    view.set_traffic_class(header.tos);
}

/// Makes the header of `packet`, joined of fragments, that of a whole packet with this ECN field.
pub(crate) fn mend(packet: &mut [u8], ecn: u8) {
    let Some(payload) = packet.len().checked_sub(HEADER) else { return };
    let mut view = Ipv6Packet::new_unchecked(packet);
    view.set_payload_len(u16::try_from(payload).unwrap_or(u16::MAX));
    let class = view.traffic_class() & !3 | ecn & 3;
    view.set_traffic_class(class);
}
