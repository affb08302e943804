//! Headers of packets to be sent, by the family of their destination.

use core::net::IpAddr;

use super::{v4, v6};

/// Length of the header that packets to `destination` begin with, bytes.
pub(crate) fn header_len(destination: IpAddr) -> usize {
    match destination {
        IpAddr::V4(_) => v4::HEADER,
        IpAddr::V6(_) => v6::HEADER,
    }
}

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
