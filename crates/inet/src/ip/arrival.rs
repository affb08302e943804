//! The kind of a received packet's destination, and the check of its addresses.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::layer::IpLayer;
use super::packet::Packet;
use super::v6;
use crate::interface_id::InterfaceId;
use crate::link::interfaces::{Interface, Interfaces};
use crate::sockaddr::is_link_scope;

/// How a packet came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) interface: InterfaceId,
    /// Its frame was sent to a group or broadcast address.
    pub(crate) to_group: bool,
    /// This host has sent it to itself.
    pub(crate) looped: bool,
}

/// The kind of a packet's destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// To an address of this host, and to this host alone.
    ToUs,
    /// To a broadcast address, or to a group that a socket of this host listens to.
    ToAll,
}

impl IpLayer {
    /// The kind of destination of an IPv4 packet. `None` if that is not this host, or if the
    /// addresses are impossible; both are counted.
    #[inline]
    pub(crate) fn arrival4(
        &mut self,
        interfaces: &Interfaces,
        origin: Origin,
        packet: &Packet,
    ) -> Option<Arrival> {
        let (source, destination) = (packet.source, packet.destination);
        let to_us = interfaces.is_ours(destination);
        if packet.interface == InterfaceId::LOOPBACK {
            return self.arrival_from_self(to_us, packet);
        }
        let here = interfaces.get(packet.interface)?;
        // RFC 1122 3.2.1.3 (g): loopback addresses never appear outside a host.
        let martian =
            interfaces.is_ours(source) || here.is_broadcast(source) || destination.is_loopback();
        let everywhere = matches!(destination, IpAddr::V4(ip) if ip.is_broadcast());
        let to_all = everywhere
            || here.is_broadcast(destination)
            || destination.is_multicast() && self.admits(packet.interface, destination, source);
        if martian && !origin.looped {
            self.counters.ip_martians += 1;
            return None;
        }
        if !origin.looped && !self.is_reverse_path(interfaces, packet) {
            self.counters.ip_reverse_path += 1;
            return None;
        }
        match (to_us, to_all) {
            // RFC 1122 3.3.6: a unicast packet in a broadcast frame is discarded.
            (true, _) if !origin.to_group => Some(Arrival::ToUs),
            (false, true) => Some(Arrival::ToAll),
            _ => {
                self.counters.ip_not_ours += 1;
                None
            }
        }
    }

    /// The kind of destination of a packet from the loopback interface, where only this host's own
    /// packets come from.
    fn arrival_from_self(&self, to_us: bool, packet: &Packet) -> Option<Arrival> {
        let (source, destination) = (packet.source, packet.destination);
        match destination {
            IpAddr::V4(ip) if ip.is_broadcast() => Some(Arrival::ToAll),
            ip if ip.is_multicast() && self.admits(packet.interface, ip, source) => {
                Some(Arrival::ToAll)
            }
            _ => to_us.then_some(Arrival::ToUs),
        }
    }

    /// Whether the interface that a packet came by also reaches its source, as far as the
    /// configuration asks for that (RFC 3704 2.2, 2.4).
    fn is_reverse_path(&self, interfaces: &Interfaces, packet: &Packet) -> bool {
        // A host that asks for its address has none.
        if self.rp_filter == 0 || packet.source.is_unspecified() {
            return true;
        }
        let source = SocketAddr::new(packet.source, 0);
        match self.routes.find(&source, None, interfaces.all()) {
            Ok(path) => self.rp_filter != 1 || path.interface == packet.interface,
            Err(_) => false,
        }
    }

    /// The kind of destination of an IPv6 packet. `None` if that is not this host, or if the
    /// addresses are impossible; both are counted.
    #[inline]
    pub(crate) fn arrival6(
        &mut self,
        interfaces: &Interfaces,
        origin: Origin,
        packet: &Packet,
    ) -> Option<Arrival> {
        let (source, destination) = (packet.source, packet.destination);
        if packet.interface == InterfaceId::LOOPBACK {
            return self.arrival_from_self(interfaces.is_ours(destination), packet);
        }
        let here = interfaces.get(packet.interface)?;
        if here.has(source) && !origin.looped {
            self.counters.ip6_martians += 1;
            return None;
        }
        let arrival = match destination {
            IpAddr::V6(group) if group.is_multicast() => {
                let joined = self.admits(packet.interface, destination, source);
                (listens(here, group) || joined).then_some(Arrival::ToAll)
            }
            // An address belongs to the node, one of link scope to its interface.
            _ if is_link_scope(destination) => here.has(destination).then_some(Arrival::ToUs),
            _ => interfaces.is_ours(destination).then_some(Arrival::ToUs),
        };
        self.counters.ip6_not_ours += u64::from(arrival.is_none());
        arrival
    }
}

/// Whether an interface is always in an IPv6 group: all nodes, and the solicited-node groups of its
/// addresses, tentative ones included (RFC 4862 5.4.2).
fn listens(interface: &Interface, group: Ipv6Addr) -> bool {
    let mut asked_for = interface.addresses().iter().filter(|ours| !ours.is_duplicate());
    group == v6::ALL_NODES
        || asked_for.any(|ours| match ours.cidr.address {
            IpAddr::V6(ip) => v6::solicited_node(ip) == group,
            IpAddr::V4(_) => false,
        })
}
