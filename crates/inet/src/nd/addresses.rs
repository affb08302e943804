//! Addresses of interfaces, of both families: given and taken away, with the routes to their
//! networks.

use core::net::IpAddr;

use super::state::NdLayer;
use crate::cidr::Cidr;
use crate::context::Context;
use crate::error::Error;
use crate::interface_id::InterfaceId;
use crate::ip::route::Route;
use crate::link::address::{Address, AddressOrigin};
use crate::sockaddr::is_link_scope;
use crate::time::Instant;

impl NdLayer {
    /// See [`Stack::add_address`](crate::Stack::add_address).
    pub(crate) fn add_address(
        &mut self,
        cx: &mut Context,
        id: InterfaceId,
        address: Cidr,
    ) -> Result<(), Error> {
        let address = Cidr::new(address.address.to_canonical(), address.prefix);
        let ip = address.address;
        let everywhere = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
        if ip.is_unspecified() || ip.is_multicast() || everywhere {
            return Err(Error::Invalid);
        }
        let mut address = Address::new(address, AddressOrigin::Static);
        address.begin_dad(Instant::ZERO, self.dad_transmits(id));
        self.assign(cx, id, address, true)
    }

    /// Gives an interface an address; with `on_link`, its network is on the link.
    pub(super) fn assign(
        &mut self,
        cx: &mut Context,
        id: InterfaceId,
        mut address: Address,
        on_link: bool,
    ) -> Result<(), Error> {
        let ip = address.cidr.address;
        // Also one that is tentative there.
        let mut all = cx.link.interfaces().all().iter();
        let elsewhere = !is_link_scope(ip)
            && (ip.is_loopback() || all.any(|interface| interface.address(ip).is_some()));
        let interface = cx.link.interface_mut(id).ok_or(Error::BadHandle)?;
        if elsewhere || interface.address(ip).is_some() {
            return Err(Error::AddrInUse);
        }
        if interface.addresses().len() >= self.most_addresses {
            return Err(Error::NoBuffers);
        }
        if on_link {
            cx.ip.insert_route(Route::on_link(address.cidr, id))?;
        }
        if self.config.ndisc_notify && address.is_usable() {
            // With the next poll.
            address.advertise_at = Some(Instant::ZERO);
        }
        interface.add_address(address);
        self.reschedule(cx, id);
        Ok(())
    }

    /// See [`Stack::remove_address`](crate::Stack::remove_address).
    pub(crate) fn remove_address(
        &mut self,
        cx: &mut Context,
        id: InterfaceId,
        ip: IpAddr,
    ) -> Result<(), Error> {
        cx.link.interface(id).ok_or(Error::BadHandle)?;
        if self.withdraw(cx, id, ip) { Ok(()) } else { Err(Error::AddrNotAvailable) }
    }

    /// Removes an address; false if the interface does not have it.
    pub(super) fn withdraw(&mut self, cx: &mut Context, id: InterfaceId, ip: IpAddr) -> bool {
        let Some(interface) = cx.link.interface_mut(id) else { return false };
        let Some(removed) = interface.remove_address(ip) else { return false };
        let network = removed.cidr.network();
        let mut others = interface.addresses().iter();
        let is_last = !others
            .any(|ours| ours.origin != AddressOrigin::Slaac && ours.cidr.network() == network);
        if is_last && removed.origin != AddressOrigin::Slaac {
            cx.ip.remove_route(&Route::on_link(network, id));
        }
        self.reschedule(cx, id);
        true
    }
}
