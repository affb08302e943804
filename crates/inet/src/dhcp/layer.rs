//! The DHCP clients of one stack, and the configuration that each has made.

use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use super::client::{Client, DhcpAction, DhcpState};
use super::wire::DhcpLease;
use crate::cidr::Cidr;
use crate::error::Error;
use crate::interface_id::InterfaceId;
use crate::ip::route::Route;
use crate::link::AddressConflict;
use crate::link::ethernet::Mac;
use crate::secret::Secret;
use crate::time::Instant;

counters! { DhcpCounters:
    dhcp_in "dhcp.messages-in" "Answers of DHCP servers acted upon."
    dhcp_ignored "dhcp.ignored" "Messages of DHCP servers that are malformed or were not asked for."
    dhcp_out "dhcp.messages-out" "Messages sent to DHCP servers."
}

/// A client, and the configuration that its lease has made.
#[derive(Debug)]
struct DhcpInterface {
    interface: InterfaceId,
    client: Client,
    /// The address that was added.
    address: Option<Cidr>,
    routes: Vec<Route>,
    /// The interface's MTU without a lease.
    mtu: u16,
}

/// The configuration of an ended lease, to be removed.
#[derive(Debug)]
pub(crate) struct EndedLease {
    pub(crate) address: Option<Cidr>,
    pub(crate) routes: Vec<Route>,
    /// The interface's MTU without a lease.
    pub(crate) mtu: u16,
}

/// The DHCP clients of one stack.
#[derive(Debug, Default)]
pub(crate) struct DhcpLayer {
    interfaces: Vec<DhcpInterface>,
    counters: DhcpCounters,
}

impl DhcpLayer {
    /// Name and value of each counter.
    pub(crate) fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        self.counters.iter()
    }

    fn find(&self, interface: InterfaceId) -> Option<&DhcpInterface> {
        self.interfaces.iter().find(|one| one.interface == interface)
    }

    fn find_mut(&mut self, interface: InterfaceId) -> Option<&mut DhcpInterface> {
        self.interfaces.iter_mut().find(|one| one.interface == interface)
    }

    /// Starts a client. `up`: its link can be used.
    ///
    /// # Errors
    /// `Already` if there is one.
    pub(crate) fn enable(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        (mac, mtu, up): (Mac, u16, bool),
        random: &mut Secret,
    ) -> Result<(), Error> {
        if self.find(interface).is_some() {
            return Err(Error::Already);
        }
        let mut client = Client::new(mac, mtu);
        if up {
            client.link_up(now, random);
        }
        let routes = Vec::new();
        self.interfaces.push(DhcpInterface { interface, client, address: None, routes, mtu });
        Ok(())
    }

    /// Ends a client.
    pub(crate) fn disable(&mut self, interface: InterfaceId) {
        self.interfaces.retain(|one| one.interface != interface);
    }

    /// Whether there is a client on an interface.
    pub(crate) fn is_enabled(&self, interface: InterfaceId) -> bool {
        self.find(interface).is_some()
    }

    pub(crate) fn lease(&self, interface: InterfaceId) -> Option<&DhcpLease> {
        self.find(interface)?.client.lease()
    }

    pub(crate) fn too_short(&self, interface: InterfaceId) -> Option<Duration> {
        self.find(interface)?.client.too_short()
    }

    /// Messages that were ignored.
    pub(crate) fn ignored(&self) -> u64 {
        self.counters.dhcp_ignored
    }

    pub(crate) fn lease_end(&self, interface: InterfaceId) -> Option<Instant> {
        self.find(interface)?.client.lease_end()
    }

    pub(crate) fn state(&self, interface: InterfaceId) -> Option<DhcpState> {
        Some(self.find(interface)?.client.state())
    }

    /// The name servers of all leases, the preferred ones first.
    pub(crate) fn name_servers(&self) -> impl Iterator<Item = IpAddr> {
        let leases = self.interfaces.iter().filter_map(|one| one.client.lease());
        leases.flat_map(|lease| lease.dns.iter().copied().map(IpAddr::V4))
    }

    /// When to call [`handle_timer`](Self::handle_timer) next.
    pub(crate) fn poll_at(&self) -> Option<Instant> {
        self.interfaces.iter().filter_map(|one| one.client.poll_at()).min()
    }

    /// The link of an interface came up or went down. False without a client there.
    pub(crate) fn handle_link(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        up: bool,
        random: &mut Secret,
    ) -> bool {
        let Some(one) = self.find_mut(interface) else { return false };
        if up {
            one.client.link_up(now, random);
        } else {
            one.client.link_down();
        }
        true
    }

    /// Runs the clients' due timers.
    pub(crate) fn handle_timer(&mut self, now: Instant, random: &mut Secret) {
        for one in &mut self.interfaces {
            one.client.handle_timer(now, random);
        }
    }

    /// No other host has the address that was offered on an interface.
    pub(crate) fn handle_free(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        random: &mut Secret,
    ) {
        if let Some(one) = self.find_mut(interface) {
            one.client.checked(now, true, random);
        }
    }

    /// Another host has the address of an interface.
    pub(crate) fn handle_lost(&mut self, now: Instant, lost: AddressConflict, random: &mut Secret) {
        let Some(one) = self.find_mut(lost.interface) else { return };
        if lost.was_used {
            one.client.conflict(now, random);
        } else {
            one.client.checked(now, false, random);
        }
    }

    /// Handles a server's message to the client of an interface. True if the client acted upon it.
    pub(crate) fn handle_message(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        payload: &[u8],
        random: &mut Secret,
    ) -> bool {
        let Some(one) = self.find_mut(interface) else { return false };
        let accepted = one.client.handle(now, payload, random);
        self.counters.dhcp_in += u64::from(accepted);
        self.counters.dhcp_ignored += u64::from(!accepted);
        accepted
    }

    /// A message is sent.
    pub(crate) fn count_sent(&mut self) {
        self.counters.dhcp_out += 1;
    }

    /// The next action that a client requests, and its interface.
    pub(crate) fn poll_action(&mut self) -> Option<(InterfaceId, DhcpAction)> {
        let mut all = self.interfaces.iter_mut();
        all.find_map(|one| Some((one.interface, one.client.poll_action()?)))
    }

    /// Records that a lease with `address` is about to be applied. Gives the configuration of the
    /// earlier lease.
    pub(crate) fn bind(&mut self, interface: InterfaceId, address: Cidr) -> Option<EndedLease> {
        let one = self.find_mut(interface)?;
        let (address, routes) = (one.address.replace(address), core::mem::take(&mut one.routes));
        Some(EndedLease { address, routes, mtu: one.mtu })
    }

    /// The routes that a lease has brought.
    pub(crate) fn set_routes(&mut self, interface: InterfaceId, routes: Vec<Route>) {
        if let Some(one) = self.find_mut(interface) {
            one.routes = routes;
        }
    }

    /// Ends a lease, and gives its configuration.
    pub(crate) fn unbind(&mut self, interface: InterfaceId) -> Option<EndedLease> {
        let one = self.find_mut(interface)?;
        let (address, routes) = (one.address.take(), core::mem::take(&mut one.routes));
        Some(EndedLease { address, routes, mtu: one.mtu })
    }
}
