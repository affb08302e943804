//! Where packets go: interfaces' networks and routers, the longest prefix first (RFC 1122 3.3.1).

use alloc::vec::Vec;
use core::net::Ipv4Addr;

use smoltcp::wire::Ipv4Cidr;

use crate::error::Error;
use crate::interface::{Interface, InterfaceConfig, InterfaceId};
use crate::link::ethernet::{self, Mac};

/// One entry of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Route {
    network: Ipv4Cidr,
    /// `None`: the destination itself is on the link.
    router: Option<Ipv4Addr>,
    interface: InterfaceId,
}

/// How to reach a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) interface: InterfaceId,
    /// Our address there.
    pub(crate) source: Ipv4Addr,
    /// Longest packet, bytes.
    pub(crate) mtu: u16,
    pub(crate) hop: Hop,
}

/// To whom a packet is sent on the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hop {
    /// The destination or a router, by its address.
    Neighbour(Ipv4Addr),
    /// All, or a multicast group.
    Group(Mac),
}

/// The routing table of one stack.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    /// Longest prefix first; few, so looked through one by one.
    routes: Vec<Route>,
}

impl Routes {
    /// Adds the network of a new interface, and its default router.
    pub(crate) fn add_interface(&mut self, id: InterfaceId, interface: &Interface) {
        self.add(Route { network: interface.network(), router: None, interface: id });
        if let Some(router) = interface.config.gateway {
            let network = Ipv4Cidr::new(Ipv4Addr::UNSPECIFIED, 0);
            self.add(Route { network, router: Some(router), interface: id });
        }
    }

    fn add(&mut self, route: Route) {
        let prefix = route.network.prefix_len();
        let place = self.routes.partition_point(|other| other.network.prefix_len() >= prefix);
        self.routes.insert(place, route);
    }

    /// The path to `destination`.
    ///
    /// # Errors
    /// `NetUnreachable` if there is none, and for loopback addresses, which are not served here;
    /// `AddrNotAvailable` for our own addresses.
    pub(crate) fn find(
        &self,
        destination: Ipv4Addr,
        interfaces: &[Interface],
    ) -> Result<Path, Error> {
        if destination.is_loopback() || destination.is_unspecified() {
            return Err(Error::NetUnreachable);
        }
        if interfaces.iter().any(|interface| interface.config.address == destination) {
            return Err(Error::AddrNotAvailable);
        }
        let everywhere = destination.is_broadcast() || destination.is_multicast();
        let found = self.routes.iter().find(|route| {
            // A packet to everybody goes to the first router's or first interface's link.
            everywhere && route.network.prefix_len() == 0
                || route.network.contains_addr(&destination)
        });
        let id = match found {
            Some(route) => route.interface,
            None if everywhere => InterfaceId(0),
            None => return Err(Error::NetUnreachable),
        };
        let interface = interfaces.get(usize::from(id.0)).ok_or(Error::NetUnreachable)?;
        let hop = if destination.is_broadcast() || interface.is_broadcast(destination) {
            Hop::Group(Mac::BROADCAST)
        } else if destination.is_multicast() {
            Hop::Group(ethernet::multicast(destination))
        } else {
            Hop::Neighbour(found.and_then(|route| route.router).unwrap_or(destination))
        };
        let InterfaceConfig { address: source, mtu, .. } = interface.config;
        Ok(Path { interface: id, source, mtu, hop })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(address: [u8; 4], prefix: u8, gateway: Option<[u8; 4]>) -> Interface {
        Interface::new(InterfaceConfig {
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1500,
            address: address.into(),
            prefix,
            gateway: gateway.map(Into::into),
        })
    }

    #[test]
    fn the_longest_prefix_wins() {
        let interfaces =
            [interface([10, 0, 0, 2], 8, Some([10, 0, 0, 1])), interface([10, 1, 0, 2], 16, None)];
        let mut routes = Routes::default();
        for (id, interface) in (0..).zip(&interfaces) {
            routes.add_interface(InterfaceId(id), interface);
        }
        let neighbour = |a: [u8; 4]| Ok(Hop::Neighbour(a.into()));
        let table = [
            ([10, 9, 9, 9], 0, neighbour([10, 9, 9, 9])),
            ([10, 1, 9, 9], 1, neighbour([10, 1, 9, 9])),
            ([192, 0, 2, 1], 0, neighbour([10, 0, 0, 1])),
            ([10, 1, 255, 255], 1, Ok(Hop::Group(Mac::BROADCAST))),
            ([255, 255, 255, 255], 0, Ok(Hop::Group(Mac::BROADCAST))),
            (
                [224, 129, 0, 251],
                0,
                Ok(Hop::Group(smoltcp::wire::EthernetAddress([1, 0, 0x5e, 1, 0, 251]))),
            ),
            ([127, 0, 0, 1], 0, Err(Error::NetUnreachable)),
            ([0, 0, 0, 0], 0, Err(Error::NetUnreachable)),
            ([10, 1, 0, 2], 1, Err(Error::AddrNotAvailable)),
        ];
        for (destination, id, hop) in table {
            let path = routes.find(destination.into(), &interfaces);
            assert_eq!(path.map(|path| path.hop), hop, "{destination:?}");
            if let Ok(path) = path {
                assert_eq!(path.interface, InterfaceId(id));
                assert_eq!(path.source, interfaces[usize::from(id)].config.address);
            }
        }
    }

    #[test]
    fn without_a_router_other_networks_are_unreachable() {
        let interfaces = [interface([10, 0, 0, 2], 24, None)];
        let mut routes = Routes::default();
        routes.add_interface(InterfaceId(0), &interfaces[0]);
        assert_eq!(routes.find([10, 0, 1, 2].into(), &interfaces), Err(Error::NetUnreachable));
        assert!(routes.find([255, 255, 255, 255].into(), &interfaces).is_ok());
    }
}
