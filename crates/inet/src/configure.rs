//! Addresses and routes at run time.

use core::net::IpAddr;

use crate::bytes::{RxBytes, TxBytes};
use crate::cidr::Cidr;
use crate::error::Error;
use crate::interface::{Address, AddressOrigin};
use crate::interface_id::InterfaceId;
use crate::ip::route::Route;
use crate::link::neighbour::NeighbourInfo;
use crate::net::Net;
use crate::sockaddr::is_link_scope;
use crate::stack::Stack;
use crate::time::Instant;

impl<T: TxBytes, R: RxBytes> Stack<T, R> {
    /// Gives an interface an address, and routes the address's network to its link. An IPv6
    /// address is usable when nobody was found to have it, after about as many seconds as
    /// [`V6Config::dad_transmits`](crate::V6Config::dad_transmits).
    ///
    /// # Errors
    /// `AddrInUse` if one of our interfaces has it, `Invalid` for an address that no interface can
    /// have, `NoBuffers` if there are too many, `BadHandle` without such an interface.
    pub fn add_address(&mut self, interface: InterfaceId, address: Cidr) -> Result<(), Error> {
        self.net.add_address(interface, address)?;
        self.watch_static(interface, address.address);
        Ok(())
    }

    /// Takes an address away, and the route to its network if it was the last in it. Connections
    /// from it stay until they time out, as on Linux.
    ///
    /// # Errors
    /// `AddrNotAvailable` if it is not the interface's, `BadHandle` without such an interface.
    pub fn remove_address(&mut self, interface: InterfaceId, address: IpAddr) -> Result<(), Error> {
        self.net.remove_address(interface, address)?;
        self.unwatch(interface, address);
        Ok(())
    }

    /// The addresses of an interface, in the order of adding.
    pub fn addresses(&self, interface: InterfaceId) -> impl Iterator<Item = &Address> {
        self.net.interface(interface).into_iter().flat_map(|found| &found.addresses)
    }

    /// How many addresses were found to be somebody else's so far.
    pub fn duplicates(&self) -> u64 {
        self.net.counters.nd_duplicates
    }

    /// All interfaces but the one to the stack itself.
    pub fn interfaces(&self) -> impl Iterator<Item = InterfaceId> + use<T, R> {
        (0..u16::try_from(self.net.interfaces.len()).unwrap_or(u16::MAX)).map(InterfaceId)
    }

    /// The neighbours that are known or being asked for, in no order.
    pub fn neighbours(&self) -> impl Iterator<Item = NeighbourInfo> {
        self.net.neighbours.all()
    }

    /// Says how many probes of an interface (0 to 255, one per second) look for somebody who has
    /// an IPv6 address already, before it is used (RFC 4862 5.1); otherwise
    /// [`V6Config::dad_transmits`](crate::V6Config::dad_transmits). It holds for addresses that
    /// come afterwards.
    ///
    /// # Errors
    /// `BadHandle` without such an interface.
    pub fn set_dad_transmits(
        &mut self,
        interface: InterfaceId,
        transmits: u8,
    ) -> Result<(), Error> {
        let interface = self.net.interface_mut(interface).ok_or(Error::BadHandle)?;
        interface.link.dad_transmits = Some(transmits);
        Ok(())
    }

    /// Starts IPv6 on an interface: it gets its link-local address, asks for routers, and from then
    /// on follows what they advertise, as [`Config::v6`](crate::Config::v6) says. Without this,
    /// an interface has the IPv6 addresses and routes that it is given, and no others.
    pub fn start_ipv6(&mut self, now: Instant, interface: InterfaceId) {
        self.net.start_ipv6(now, interface);
    }

    /// Addresses of resolvers that routers on the interface's link have told of (RFC 8106).
    pub fn dns_servers(
        &self,
        now: Instant,
        interface: InterfaceId,
    ) -> impl Iterator<Item = IpAddr> {
        self.net.dns_servers(now, interface).map(IpAddr::V6)
    }

    /// Adds a route, or changes the one with the same network, gateway, interface and metric.
    ///
    /// # Errors
    /// `BadHandle` without such an interface, `Invalid` if gateway or source are of another family
    /// than the network, `NetUnreachable` if the gateway is not on the interface's link,
    /// `AddrNotAvailable` if the source is not ours, `NoBuffers` if there are too many.
    pub fn add_route(&mut self, route: Route) -> Result<(), Error> {
        self.net.add_route(route)
    }

    /// Takes away the route with the same network, gateway, interface and metric.
    ///
    /// # Errors
    /// `NetUnreachable` if there is none.
    pub fn remove_route(&mut self, route: &Route) -> Result<(), Error> {
        if self.net.routes.remove(route) { Ok(()) } else { Err(Error::NetUnreachable) }
    }

    /// The routing table, in the order of preference.
    pub fn routes(&self) -> impl Iterator<Item = &Route> {
        self.net.routes.iter()
    }
}

impl<T: TxBytes> Net<T> {
    fn add_address(&mut self, id: InterfaceId, address: Cidr) -> Result<(), Error> {
        let address = Cidr::new(address.address.to_canonical(), address.prefix);
        let ip = address.address;
        let everywhere = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
        if ip.is_unspecified() || ip.is_multicast() || everywhere {
            return Err(Error::Invalid);
        }
        let mut address = Address::new(address, AddressOrigin::Static);
        address.begin_dad(Instant::ZERO, self.dad_transmits(id));
        self.assign(id, address, true)
    }

    /// Gives an interface an address; with `on_link`, its network is on the link.
    pub(crate) fn assign(
        &mut self,
        id: InterfaceId,
        mut address: Address,
        on_link: bool,
    ) -> Result<(), Error> {
        let (ip, limit) = (address.cidr.address, self.most_addresses);
        // Also one that is tentative there.
        let mut all = self.interfaces.iter();
        let elsewhere = !is_link_scope(ip)
            && (ip.is_loopback() || all.any(|interface| interface.address(ip).is_some()));
        let interface = self.interfaces.get_mut(usize::from(id.0)).ok_or(Error::BadHandle)?;
        if elsewhere || interface.address(ip).is_some() {
            return Err(Error::AddrInUse);
        }
        if interface.addresses.len() >= limit {
            return Err(Error::NoBuffers);
        }
        if on_link {
            self.routes.add(Route::on_link(address.cidr, id))?;
        }
        if self.v6.ndisc_notify && address.is_usable() {
            // With the next poll.
            address.tell = Some(Instant::ZERO);
        }
        interface.addresses.push(address);
        self.reschedule(id);
        Ok(())
    }

    fn remove_address(&mut self, id: InterfaceId, ip: IpAddr) -> Result<(), Error> {
        self.interface(id).ok_or(Error::BadHandle)?;
        if self.withdraw(id, ip) { Ok(()) } else { Err(Error::AddrNotAvailable) }
    }

    /// Takes an address away; false if the interface has it not.
    pub(crate) fn withdraw(&mut self, id: InterfaceId, ip: IpAddr) -> bool {
        let Some(interface) = self.interface_mut(id) else { return false };
        let mut all = interface.addresses.iter();
        let Some(place) = all.position(|ours| ours.cidr.address == ip) else { return false };
        let gone = interface.addresses.remove(place);
        let network = gone.cidr.network();
        let mut others = interface.addresses.iter();
        let is_last = !others
            .any(|ours| ours.origin != AddressOrigin::Slaac && ours.cidr.network() == network);
        if is_last && gone.origin != AddressOrigin::Slaac {
            self.routes.remove(&Route::on_link(network, id));
        }
        self.reschedule(id);
        true
    }

    fn add_route(&mut self, route: Route) -> Result<(), Error> {
        self.interface(route.interface).ok_or(Error::BadHandle)?;
        let family = route.network.address.is_ipv4();
        if [route.gateway, route.source].iter().flatten().any(|ip| ip.is_ipv4() != family) {
            return Err(Error::Invalid);
        }
        if route.source.is_some_and(|source| !self.is_ours(source)) {
            return Err(Error::AddrNotAvailable);
        }
        if let Some(gateway) = route.gateway {
            // RFC 1122 3.3.1.1: the first hop is on the link. All of fe80::/10 is.
            let next = self.routes.look_up(gateway, Some(route.interface));
            let on_link = next.is_some_and(|next| next.gateway.is_none());
            if !on_link && !is_link_scope(gateway) {
                return Err(Error::NetUnreachable);
            }
        }
        self.routes.add(route)
    }
}
