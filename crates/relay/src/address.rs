//! Addresses: all of a family, and the plain form of one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The address that means all addresses of its family.
pub(crate) fn unspecified(v6: bool) -> IpAddr {
    if v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}

/// An IPv4 address as such where it is in the form of an IPv6 one.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    (address.ip().to_canonical(), address.port()).into()
}
