//! DHCP and address conflict detection in the stack: messages in and out, leases applied.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;

use smoltcp::wire::{IpProtocol, checksum};

use super::state::Stack;
use crate::bytes::{Egress, Frame, RxBytes, TxBytes};
use crate::cidr::Cidr;
use crate::dhcp::client::{DhcpAction, DhcpState};
use crate::dhcp::wire::{CLIENT_PORT, DhcpLease, SERVER_PORT};
use crate::error::Error;
use crate::interface_id::InterfaceId;
use crate::ip::route::{Hop, Path, Route};
use crate::ip::{self, Packet, frame_headers};
use crate::link::AddressConflict;
use crate::link::acd::Acd;
use crate::link::ethernet::Mac;
use crate::offload::TxOffload;
use crate::time::Instant;
use crate::timers::Timer;
use crate::udp::layer;
use crate::udp::wire as udp;

impl<T: TxBytes, R: RxBytes> Stack<T, R> {
    /// Starts DHCP on `interface`, for an address with its routes, name servers and MTU.
    /// [`dhcp_lease`](Self::dhcp_lease) gives the outcome. The lease ends with
    /// [`disable_dhcp`](Self::disable_dhcp), when its time is over, or when another host has the
    /// address.
    ///
    /// # Errors
    /// `Already` if it is on, `BadHandle` without such an interface.
    pub fn enable_dhcp(&mut self, now: Instant, interface: InterfaceId) -> Result<(), Error> {
        let here = self.cx.link.interface(interface).ok_or(Error::BadHandle)?;
        let properties = (here.mac(), here.link_mtu(), here.is_up());
        self.dhcp.enable(now, interface, properties, &mut self.cx.secret)?;
        // The first message leaves with the next poll.
        self.arm_addressing_at(Instant::ZERO);
        Ok(())
    }

    /// Ends DHCP on `interface`. Whatever the lease brought is removed.
    ///
    /// # Errors
    /// `BadHandle` if it is not on.
    pub fn disable_dhcp(&mut self, interface: InterfaceId) -> Result<(), Error> {
        if !self.dhcp.is_enabled(interface) {
            return Err(Error::BadHandle);
        }
        self.unbind_lease(interface);
        self.dhcp.disable(interface);
        self.arm_addressing();
        Ok(())
    }

    /// The lease of `interface`; `None` without one.
    pub fn dhcp_lease(&self, interface: InterfaceId) -> Option<&DhcpLease> {
        self.dhcp.lease(interface)
    }

    /// When the lease's address is given up unless the server extends the lease. `None` without a
    /// lease, and for a lease without an end.
    pub fn dhcp_lease_end(&self, interface: InterfaceId) -> Option<Instant> {
        self.dhcp.lease_end(interface)
    }

    /// The length of the last lease that the client of `interface` refused because it is too short.
    pub fn dhcp_too_short(&self, interface: InterfaceId) -> Option<Duration> {
        self.dhcp.too_short(interface)
    }

    /// Messages of DHCP servers that were ignored, on all interfaces.
    pub fn dhcp_ignored(&self) -> u64 {
        self.dhcp.ignored()
    }

    /// How far DHCP is; `None` if it is not on.
    pub fn dhcp_state(&self, interface: InterfaceId) -> Option<DhcpState> {
        self.dhcp.state(interface)
    }

    /// The name servers of all leases, the preferred ones first.
    pub fn name_servers(&self) -> impl Iterator<Item = IpAddr> {
        self.dhcp.name_servers()
    }

    /// Sets the timer of the next thing to do about addresses.
    fn arm_addressing(&mut self) {
        let at = self.dhcp.poll_at().into_iter().chain(self.cx.link.conflicts_at()).min();
        match at {
            Some(at) => self.arm_addressing_at(at),
            None => {
                if let Some(timer) = self.addressing_timer.take() {
                    self.cx.timers.cancel(timer);
                }
            }
        }
    }

    pub(super) fn arm_addressing_at(&mut self, at: Instant) {
        if let Some(timer) = self.addressing_timer.take() {
            self.cx.timers.cancel(timer);
        }
        self.addressing_timer = Some(self.cx.timers.arm(at, Timer::Addressing));
    }

    /// The link of an interface came up or went down.
    pub(super) fn handle_dhcp_link(&mut self, now: Instant, interface: InterfaceId, up: bool) {
        if self.dhcp.handle_link(now, interface, up, &mut self.cx.secret) {
            self.arm_addressing_at(Instant::ZERO);
        }
    }

    /// A static IPv4 address was added: it is announced and defended, if that is wanted.
    pub(super) fn watch_static(&mut self, interface: InterfaceId, address: IpAddr) {
        let IpAddr::V4(ip) = address else { return };
        if self.config.arp_notify && self.cx.link.announce_address(self.cx.clock, interface, ip) {
            self.arm_addressing();
        }
    }

    /// Runs the due timers of DHCP and of address conflict detection.
    pub(super) fn handle_addressing_timer(&mut self, now: Instant, out: &mut dyn Egress<T>) {
        self.addressing_timer = None;
        self.dhcp.handle_timer(now, &mut self.cx.secret);
        let acd = self.config.acd;
        while let Some((interface, leased)) =
            self.cx.link.poll_conflicts(now, &acd, &mut self.cx.secret, out)
        {
            if leased {
                self.dhcp.handle_free(now, interface, &mut self.cx.secret);
            }
            // Bound before it is announced.
            self.act_on_dhcp(now, out);
        }
        self.act_on_dhcp(now, out);
        self.arm_addressing();
    }

    /// Another host has an address of an interface.
    pub(super) fn handle_lost_address(
        &mut self,
        now: Instant,
        lost: AddressConflict,
        out: &mut dyn Egress<T>,
    ) {
        self.dhcp.handle_lost(now, lost, &mut self.cx.secret);
        self.act_on_dhcp(now, out);
        self.arm_addressing();
    }

    /// Does the pending actions of the clients.
    fn act_on_dhcp(&mut self, now: Instant, out: &mut dyn Egress<T>) {
        while let Some((interface, action)) = self.dhcp.poll_action() {
            match action {
                DhcpAction::Send { payload, to } => {
                    self.send_dhcp(now, interface, &payload, to, out);
                }
                DhcpAction::Check(address) => {
                    let acd = Acd::probe(now, address, &self.config.acd, &mut self.cx.secret);
                    self.cx.link.probe_address(interface, acd);
                }
                DhcpAction::Unbound => self.unbind_lease(interface),
                DhcpAction::Bound(lease) => self.apply_lease(interface, &lease),
            }
        }
    }

    /// Makes a lease the interface's configuration.
    fn apply_lease(&mut self, interface: InterfaceId, lease: &DhcpLease) {
        let address = Cidr::new(lease.address, lease.prefix);
        let Some(old) = self.dhcp.bind(interface, address) else { return };
        for route in &old.routes {
            self.cx.ip.remove_route(route);
        }
        if old.address != Some(address) {
            if let Some(old) = old.address {
                // DHCP itself had added it.
                let _ = self.remove_address(interface, old.address);
            }
            // An address that is there already serves as well.
            let _ = self.add_address(interface, address);
        }
        let mtu = old.mtu;
        if let Some(here) = self.cx.link.interface_mut(interface) {
            here.set_link_mtu(lease.mtu.map_or(mtu, |offered| offered.min(mtu)));
        }
        let mut routes = alloc::vec::Vec::new();
        for (metric, router) in (0..).zip(&lease.routers) {
            routes.push(Route { metric, ..Route::default((*router).into(), interface) });
        }
        for route in &lease.routes {
            let network = Cidr::new(route.network, route.prefix);
            let gateway = route.router.map(IpAddr::V4);
            routes.push(Route { gateway, ..Route::on_link(network, interface) });
        }
        routes.retain(|route| self.add_route(*route).is_ok());
        self.dhcp.set_routes(interface, routes);
    }

    /// Removes what a lease brought, if there was one, and stops probing for its address.
    fn unbind_lease(&mut self, interface: InterfaceId) {
        self.cx.link.unwatch_lease(interface);
        let Some(old) = self.dhcp.unbind(interface) else { return };
        for route in &old.routes {
            self.cx.ip.remove_route(route);
        }
        if let Some(address) = old.address {
            let _ = self.remove_address(interface, address.address);
            if let Some(here) = self.cx.link.interface_mut(interface) {
                here.set_link_mtu(old.mtu);
            }
        }
    }

    /// Handles a packet if it is a server's message to the client of its interface. True if so.
    pub(super) fn handle_dhcp(
        &mut self,
        now: Instant,
        packet: &Packet,
        (head, frame): (&[u8], &Frame<R>),
        out: &mut dyn Egress<T>,
    ) -> bool {
        if !self.dhcp.is_enabled(packet.interface) {
            return false;
        }
        let Ok(parsed) = layer::parse(packet, head, frame) else { return false };
        if (parsed.src_port, parsed.dst_port) != (SERVER_PORT, CLIENT_PORT) {
            return false;
        }
        let mut payload = alloc::vec![0; parsed.payload.len()];
        frame.read(packet.payload.start + parsed.payload.start, &mut payload);
        if self.dhcp.handle_message(now, packet.interface, &payload, &mut self.cx.secret) {
            self.act_on_dhcp(now, out);
            self.arm_addressing();
        }
        true
    }

    /// Sends a message to a server, or to all hosts on the link.
    fn send_dhcp(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        payload: &[u8],
        to: Option<(Ipv4Addr, Ipv4Addr)>,
        out: &mut dyn Egress<T>,
    ) {
        self.dhcp.count_sent();
        let (source, to) = to.unwrap_or((Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST));
        let header = ip::Header {
            source: source.into(),
            destination: to.into(),
            protocol: IpProtocol::Udp,
            ttl: self.cx.ip.ttl(),
            tos: 0,
            flow: 0,
            payload_len: udp::HEADER + payload.len(),
        };
        let from = SocketAddr::new(source.into(), CLIENT_PORT);
        let server = SocketAddr::new(to.into(), SERVER_PORT);
        let fill = |bytes: &mut [u8]| {
            udp::emit(from, server, payload.len(), Some(checksum::data(payload)), bytes);
            if let Some(place) = bytes.get_mut(udp::HEADER..) {
                place.copy_from_slice(payload);
            }
        };
        if !to.is_broadcast() {
            return self.cx.answer(now, &server, &header, fill, out);
        }
        // Not by the routing table: there may be no address yet, and it is about this very link.
        let Some(here) = self.cx.link.interface(interface) else { return };
        let mtu = here.link_mtu();
        let path = Path { interface, source: source.into(), mtu, hop: Hop::Group(Mac::BROADCAST) };
        let start = frame_headers(header.destination);
        let mut frame = alloc::vec![0; start + header.payload_len];
        ip::write_headers(&self.cx.link, &path, Mac::BROADCAST, &header, &mut frame);
        if let Some(place) = frame.get_mut(start..) {
            fill(place);
        }
        self.cx.link.emit(interface, &frame, &[], TxOffload::NONE, out);
    }
}
