//! Socket addresses: link scope, IPv4-mapped addresses, wildcards.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::interface_id::InterfaceId;

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
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// `address`, or the loopback address if it is the wildcard: as on Linux, a packet
/// to the wildcard address goes to its own host.
pub(crate) fn to_self(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        _ => return address,
    };
    SocketAddr::new(ip, address.port())
}
