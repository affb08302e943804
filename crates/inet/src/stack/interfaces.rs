//! Interfaces, addresses and routes at run time.

use core::net::IpAddr;

use super::state::Stack;
use crate::bytes::{RxBytes, TxBytes};
use crate::cidr::Cidr;
use crate::error::Error;
use crate::interface_id::InterfaceId;
use crate::ip::route::Route;
use crate::link::address::Address;
use crate::link::interfaces::InterfaceConfig;
use crate::link::neighbour::NeighbourInfo;
use crate::offload::Features;
use crate::time::Instant;

impl<T: TxBytes, R: RxBytes> Stack<T, R> {
    /// Adds an interface, which has no addresses yet.
    pub fn add_interface(&mut self, config: InterfaceConfig) -> InterfaceId {
        self.nd.add_interface();
        self.cx.link.interfaces_mut().add(config)
    }

    /// Sets the offloads of an interface for the frames that it is given from now on; at first
    /// there are none.
    ///
    /// # Errors
    /// `BadHandle` without such an interface.
    pub fn set_features(&mut self, id: InterfaceId, features: Features) -> Result<(), Error> {
        self.cx.link.interface_mut(id).ok_or(Error::BadHandle)?.set_features(features);
        Ok(())
    }

    /// Sets whether the link of an interface is up. While it is down, no route uses it. When it
    /// comes up, the stack announces its addresses and groups there.
    ///
    /// # Errors
    /// `BadHandle` without such an interface.
    pub fn set_link(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        up: bool,
    ) -> Result<(), Error> {
        let was = self.cx.link.interface_mut(interface).ok_or(Error::BadHandle)?.set_up(up);
        if up != was {
            self.handle_dhcp_link(now, interface, up);
        }
        if up && !was { self.announce(now, interface) } else { Ok(()) }
    }

    /// Announces addresses and groups on an interface's link, which may be another link than
    /// before, or one whose nodes have forgotten. [`Config::arp_notify`](crate::Config::arp_notify)
    /// and [`V6Config::ndisc_notify`](crate::V6Config::ndisc_notify) choose the addresses. IPv6
    /// addresses are probed for duplicates first, as new ones are. Neighbours are resolved anew.
    ///
    /// # Errors
    /// `BadHandle` without such an interface.
    pub fn announce(&mut self, now: Instant, interface: InterfaceId) -> Result<(), Error> {
        self.cx.link.interface(interface).ok_or(Error::BadHandle)?;
        self.cx.link.forget_neighbours(interface, &mut self.cx.timers);
        self.cx.ip.report_groups(now, interface, &mut self.cx.timers);
        self.cx.link.announce_again(now, interface);
        self.arm_addressing_at(Instant::ZERO);
        self.nd.announce(&mut self.cx, now, interface);
        Ok(())
    }

    /// Gives an interface an address, and routes the address's network to its link. An IPv6 address
    /// is usable once duplicate address detection has found no other node with it. That takes about
    /// as many seconds as [`V6Config::dad_transmits`](crate::V6Config::dad_transmits).
    ///
    /// # Errors
    /// `AddrInUse` if an interface of this stack has it. `Invalid` for an address that no interface
    /// can have. `NoBuffers` if there are too many. `BadHandle` without such an interface.
    pub fn add_address(&mut self, interface: InterfaceId, address: Cidr) -> Result<(), Error> {
        self.nd.add_address(&mut self.cx, interface, address)?;
        self.watch_static(interface, address.address);
        Ok(())
    }

    /// Removes an address. If it was the last of its network, the network's route goes with it.
    /// Connections from the address remain until they time out, as on Linux.
    ///
    /// # Errors
    /// `AddrNotAvailable` if it is not the interface's, `BadHandle` without such an interface.
    pub fn remove_address(&mut self, interface: InterfaceId, address: IpAddr) -> Result<(), Error> {
        self.nd.remove_address(&mut self.cx, interface, address)?;
        self.cx.link.unwatch_address(interface, address);
        Ok(())
    }

    /// The addresses of an interface, in the order of adding.
    pub fn addresses(&self, interface: InterfaceId) -> impl Iterator<Item = &Address> {
        self.cx.link.interface(interface).into_iter().flat_map(|found| found.addresses())
    }

    /// How many addresses were found to be another node's so far.
    pub fn duplicates(&self) -> u64 {
        self.nd.duplicates()
    }

    /// All interfaces but the one to the stack itself.
    pub fn interfaces(&self) -> impl Iterator<Item = InterfaceId> + use<T, R> {
        self.cx.link.interfaces().ids()
    }

    /// The neighbours that are known or being resolved, in no order.
    pub fn neighbours(&self) -> impl Iterator<Item = NeighbourInfo> {
        self.cx.link.neighbours()
    }

    /// Sets the number of probes (0 to 255, one per second) for duplicates of an interface's new
    /// IPv6 addresses (RFC 4862 5.1). The default is
    /// [`V6Config::dad_transmits`](crate::V6Config::dad_transmits). It holds for addresses that are
    /// added afterwards.
    ///
    /// # Errors
    /// `BadHandle` without such an interface.
    pub fn set_dad_transmits(
        &mut self,
        interface: InterfaceId,
        transmits: u8,
    ) -> Result<(), Error> {
        self.nd.set_dad_transmits(interface, transmits)
    }

    /// Starts IPv6 on an interface. The interface gets its link-local address, solicits routers,
    /// and follows their advertisements as [`Config::v6`](crate::Config::v6) says. Without this
    /// call an interface has only the IPv6 addresses and routes that its owner adds.
    pub fn start_ipv6(&mut self, now: Instant, interface: InterfaceId) {
        self.nd.start(&mut self.cx, now, interface);
    }

    /// Addresses of resolvers that routers on the interface's link advertise (RFC 8106).
    pub fn dns_servers(
        &self,
        now: Instant,
        interface: InterfaceId,
    ) -> impl Iterator<Item = IpAddr> {
        self.nd.dns_servers(now, interface).map(IpAddr::V6)
    }

    /// Adds a route, or changes the one with the same network, gateway, interface and metric.
    ///
    /// # Errors
    /// `BadHandle` without such an interface. `Invalid` if gateway or source are of another family
    /// than the network. `NetUnreachable` if the gateway is not on the interface's link.
    /// `AddrNotAvailable` if the source is not of this host. `NoBuffers` if there are too many.
    pub fn add_route(&mut self, route: Route) -> Result<(), Error> {
        self.cx.ip.add_route(route, self.cx.link.interfaces())
    }

    /// Removes the route with the same network, gateway, interface and metric.
    ///
    /// # Errors
    /// `NetUnreachable` if there is none.
    pub fn remove_route(&mut self, route: &Route) -> Result<(), Error> {
        if self.cx.ip.remove_route(route) { Ok(()) } else { Err(Error::NetUnreachable) }
    }

    /// The routing table, in the order of preference.
    pub fn routes(&self) -> impl Iterator<Item = &Route> {
        self.cx.ip.routes()
    }
}
