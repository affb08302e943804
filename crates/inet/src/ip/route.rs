//! The routing table, for both families, the longest prefix first (RFC 1122
//! 3.3.1, RFC 8504 5.5).
//!
//! A host has few routes, so the table is a list in the order of preference, longest prefix and
//! then least metric first, and the first that fits is taken. Its length is bounded, so is the
//! time of a look.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::source;
use crate::cidr::Cidr;
use crate::error::Error;
use crate::interface_id::InterfaceId;
use crate::link::ethernet::{self, Mac};
use crate::link::interfaces::Interface;
use crate::sockaddr::{is_link_scope, link_of};

/// MTU of the loopback interface, bytes: the most that IPv4's length field holds. Linux says
/// 65,536, which has the same effect.
const LOOPBACK_MTU: u16 = u16::MAX;

/// One entry of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The destinations; of prefix 0 for the default route, of full length for a host.
    pub network: Cidr,
    /// The router, on the interface's link; `None` if destinations are themselves on the link. The
    /// unspecified address is no router: destinations are unreachable, whatever other routes say.
    pub gateway: Option<IpAddr>,
    /// Where packets leave.
    pub interface: InterfaceId,
    /// Our address in packets that name none; `None` to choose by destination.
    pub source: Option<IpAddr>,
    /// Of routes with the same network, the one with the least metric is used.
    pub metric: u32,
}

impl Route {
    /// The route to a network on the link of `interface`.
    pub fn on_link(network: Cidr, interface: InterfaceId) -> Self {
        Self { network: network.network(), gateway: None, interface, source: None, metric: 0 }
    }

    /// The route to everything of the family of `gateway`.
    pub fn default(gateway: IpAddr, interface: InterfaceId) -> Self {
        let network = if gateway.is_ipv4() { Cidr::ANY_V4 } else { Cidr::ANY_V6 };
        Self { gateway: Some(gateway), ..Self::on_link(network, interface) }
    }

    /// The order in the table.
    fn rank(&self) -> (core::cmp::Reverse<u8>, u32) {
        (core::cmp::Reverse(self.network.prefix), self.metric)
    }

    /// Whether two entries differ in no key: only one of them can be in the table.
    fn is_same(&self, other: &Self) -> bool {
        (self.network, self.gateway, self.interface, self.metric)
            == (other.network, other.gateway, other.interface, other.metric)
    }
}

/// How to reach a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) interface: InterfaceId,
    /// Our address there.
    pub(crate) source: IpAddr,
    /// Longest packet, bytes.
    pub(crate) mtu: u16,
    pub(crate) hop: Hop,
}

impl Path {
    /// The same path, for packets of at most `mtu` bytes.
    #[must_use]
    pub(crate) fn narrowed(self, mtu: Option<u16>) -> Self {
        Self { mtu: mtu.map_or(self.mtu, |mtu| mtu.min(self.mtu)), ..self }
    }
}

impl Path {
    /// Whether a packet to `ip` is for all hosts of a link, or for a group.
    pub(crate) fn is_for_many(&self, ip: IpAddr) -> bool {
        matches!(self.hop, Hop::Group(_)) || ip.is_multicast() || is_limited_broadcast(ip)
    }

    /// Where the packet really leaves.
    pub(crate) fn exit(&self) -> InterfaceId {
        if self.hop == Hop::Local { InterfaceId::LOOPBACK } else { self.interface }
    }
}

/// The first hop of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hop {
    /// The destination or a router, by its address.
    Neighbour(IpAddr),
    /// All, or a multicast group.
    Group(Mac),
    /// Ourselves.
    Local,
}

/// The routing table of one stack.
#[derive(Debug)]
pub(crate) struct Routes {
    /// In the order of preference.
    routes: Vec<Route>,
    limit: usize,
}

impl Routes {
    pub(crate) fn new(limit: usize) -> Self {
        Self { routes: Vec::new(), limit }
    }

    /// Adds a route, behind others of the same rank; a route that is there already is replaced.
    ///
    /// # Errors
    /// `NoBuffers` if the table is full.
    pub(crate) fn add(&mut self, route: Route) -> Result<(), Error> {
        let route = Route { network: route.network.network(), ..route };
        if let Some(same) = self.routes.iter_mut().find(|other| other.is_same(&route)) {
            *same = route;
            return Ok(());
        }
        if self.routes.len() >= self.limit {
            return Err(Error::NoBuffers);
        }
        let index = self.routes.partition_point(|other| other.rank() <= route.rank());
        self.routes.insert(index, route);
        Ok(())
    }

    /// Removes a route; false if it is not there.
    pub(crate) fn remove(&mut self, route: &Route) -> bool {
        let route = Route { network: route.network.network(), ..*route };
        let before = self.routes.len();
        self.routes.retain(|other| !other.is_same(&route));
        self.routes.len() != before
    }

    /// All entries, in the order of preference.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter()
    }

    /// The route to `destination`, over the interface `via` if it is given.
    pub(crate) fn look_up(&self, destination: IpAddr, via: Option<InterfaceId>) -> Option<&Route> {
        self.routes.iter().find(|route| {
            route.network.contains(destination) && via.is_none_or(|via| via == route.interface)
        })
    }

    /// The path to `destination`, over the interface `via` if it is given.
    ///
    /// # Errors
    /// `NetUnreachable` if there is none, `Invalid` for a link-local address without its link.
    pub(crate) fn find(
        &self,
        destination: &SocketAddr,
        via: Option<InterfaceId>,
        interfaces: &[Interface],
    ) -> Result<Path, Error> {
        let (ip, via) = (destination.ip(), link_of(destination).or(via));
        if ip.is_unspecified() {
            return Err(Error::NetUnreachable);
        }
        // RFC 4007 6: a link-local destination needs an interface.
        let is_link_local = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        if is_link_local && via.is_none() {
            return Err(Error::Invalid);
        }
        if let Some((source, interface)) = local_source(ip, via, interfaces) {
            return Ok(Path { interface, source, mtu: LOOPBACK_MTU, hop: Hop::Local });
        }
        // A broadcast packet goes to the link of the default route, or else to the first link.
        let is_up =
            |id: InterfaceId| interfaces.get(usize::from(id.0)).is_some_and(|one| one.is_up());
        let route = self.routes.iter().find(|route| {
            let right = via.is_none_or(|via| via == route.interface);
            right && route.network.contains(ip) && is_up(route.interface)
        });
        let id = match route {
            Some(route) => route.interface,
            None if is_limited_broadcast(ip) || ip.is_multicast() => via.unwrap_or(InterfaceId(0)),
            None => return Err(Error::NetUnreachable),
        };
        let interface = interfaces.get(usize::from(id.0)).filter(|interface| interface.is_up());
        let interface = interface.ok_or(Error::NetUnreachable)?;
        let next = route.and_then(|route| route.gateway).unwrap_or(ip);
        if next.is_unspecified() {
            return Err(Error::NetUnreachable);
        }
        let hop = if is_limited_broadcast(ip) || interface.is_broadcast(ip) {
            Hop::Group(Mac::BROADCAST)
        } else if ip.is_multicast() {
            Hop::Group(ethernet::multicast(ip))
        } else {
            Hop::Neighbour(next)
        };
        let preferred = route.and_then(|route| route.source);
        // Without an address there is no way to be answered.
        let choose = || match ip {
            IpAddr::V4(_) => interface.v4_source_for(next),
            IpAddr::V6(ip) => source::select(ip, id, interfaces).map(Into::into),
        };
        let source = preferred.or_else(choose).ok_or(Error::NetUnreachable)?;
        Ok(Path { interface: id, source, mtu: interface.mtu(ip), hop })
    }
}

/// The source address of packets to this host itself at `ip`, and the interface that they seem to
/// come from. `None` if `ip` is another host's.
fn local_source(
    ip: IpAddr,
    via: Option<InterfaceId>,
    interfaces: &[Interface],
) -> Option<(IpAddr, InterfaceId)> {
    let loopback = |source| Some((source, InterfaceId::LOOPBACK));
    match (ip, via) {
        // As Linux: one address for all of 127/8.
        (IpAddr::V4(v4), _) if v4.is_loopback() => loopback(Ipv4Addr::LOCALHOST.into()),
        (IpAddr::V6(v6), _) if v6.is_loopback() => loopback(ip),
        // An address of link scope belongs to this host only on its own link.
        (IpAddr::V6(v6), Some(via)) if is_link_scope(v6.into()) => {
            interfaces.get(usize::from(via.0))?.has(ip).then_some((ip, via))
        }
        // As Linux: a group of IPv4 on the loopback interface, and none of IPv6.
        (IpAddr::V4(v4), Some(InterfaceId::LOOPBACK)) if v4.is_multicast() || v4.is_broadcast() => {
            loopback(Ipv4Addr::LOCALHOST.into())
        }
        _ => interfaces.iter().any(|one| one.has(ip)).then(|| loopback(ip))?,
    }
}

/// 255.255.255.255.
fn is_limited_broadcast(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V4(ip) if ip.is_broadcast())
}

#[cfg(test)]
mod tests;
