//! DHCP and address conflict detection in the stack: messages in and out, leases applied.

use core::mem;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use smoltcp::wire::{IpProtocol, checksum};

use super::client::{Action, Client, DhcpState};
use super::wire::{CLIENT_PORT, DhcpLease, SERVER_PORT};
use super::{Entry, Watched};
use crate::bytes::{Egress, Frame, RxBytes, TxBytes};
use crate::cidr::Cidr;
use crate::error::Error;
use crate::interface_id::InterfaceId;
use crate::ip;
use crate::ip::packet::Packet;
use crate::ip::route::{Hop, Path, Route};
use crate::link::acd::{Acd, Step, Verdict};
use crate::link::arp;
use crate::link::ethernet::{self, Mac};
use crate::net::{Timer, headers};
use crate::offload::TxOffload;
use crate::stack::Stack;
use crate::time::Instant;
use crate::udp::wire as udp;

impl<T: TxBytes, R: RxBytes> Stack<T, R> {
    /// Starts to get an address for `interface` by DHCP, with its routes, name servers and MTU. The
    /// outcome is what [`dhcp_lease`](Self::dhcp_lease) says; it goes with
    /// [`disable_dhcp`](Self::disable_dhcp), when its time is over, or when somebody else has it.
    ///
    /// # Errors
    /// `Already` if it is on, `BadHandle` without such an interface.
    pub fn enable_dhcp(&mut self, now: Instant, interface: InterfaceId) -> Result<(), Error> {
        let here = self.net.interface(interface).ok_or(Error::BadHandle)?;
        if self.addressing.entry(interface).is_some() {
            return Err(Error::Already);
        }
        let (mac, mtu, up) = (here.mac(), here.config.mtu, here.up);
        let mut client = Client::new(mac, mtu);
        if up {
            client.link_up(now, &mut self.secret);
        }
        let routes = alloc::vec::Vec::new();
        self.addressing.entries.push(Entry { interface, client, address: None, routes, mtu });
        // What it has to say leaves with the next poll.
        self.arm_addressing_at(Instant::ZERO);
        Ok(())
    }

    /// Ends that; what came with the lease goes.
    ///
    /// # Errors
    /// `BadHandle` if it is not on.
    pub fn disable_dhcp(&mut self, interface: InterfaceId) -> Result<(), Error> {
        self.addressing.entry(interface).ok_or(Error::BadHandle)?;
        self.unbind(interface);
        self.addressing.entries.retain(|entry| entry.interface != interface);
        self.arm_addressing();
        Ok(())
    }

    /// What has been got by DHCP; `None` without a lease.
    pub fn dhcp_lease(&self, interface: InterfaceId) -> Option<&DhcpLease> {
        self.addressing.entries.iter().find(|entry| entry.interface == interface)?.client.lease()
    }

    /// When the address of the lease is given up unless the server gives more time; `None` without
    /// a lease, and for one that lasts for ever.
    pub fn dhcp_lease_end(&self, interface: InterfaceId) -> Option<Instant> {
        let mut entries = self.addressing.entries.iter();
        entries.find(|entry| entry.interface == interface)?.client.lease_end()
    }

    /// How far DHCP is; `None` if it is not on.
    pub fn dhcp_state(&self, interface: InterfaceId) -> Option<DhcpState> {
        let mut entries = self.addressing.entries.iter();
        Some(entries.find(|entry| entry.interface == interface)?.client.state())
    }

    /// The name servers of all leases, the preferred ones first.
    pub fn name_servers(&self) -> impl Iterator<Item = IpAddr> {
        let leases = self.addressing.entries.iter().filter_map(|entry| entry.client.lease());
        leases.flat_map(|lease| lease.dns.iter().copied().map(IpAddr::V4))
    }

    /// Sets the timer of the next thing to do about addresses.
    fn arm_addressing(&mut self) {
        match self.addressing.poll_at() {
            Some(at) => self.arm_addressing_at(at),
            None => {
                if let Some(timer) = self.addressing.timer.take() {
                    self.net.wheel.cancel(timer);
                }
            }
        }
    }

    fn arm_addressing_at(&mut self, at: Instant) {
        if let Some(timer) = self.addressing.timer.take() {
            self.net.wheel.cancel(timer);
        }
        self.addressing.timer = Some(self.net.wheel.arm(at, Timer::Addressing));
    }

    /// The link of an interface has come or gone.
    pub(crate) fn addressing_link(&mut self, now: Instant, interface: InterfaceId, up: bool) {
        let Some(entry) = self.addressing.entry(interface) else { return };
        if up {
            entry.client.link_up(now, &mut self.secret);
        } else {
            entry.client.link_down();
        }
        self.arm_addressing_at(Instant::ZERO);
    }

    /// A static IPv4 address was added: it is announced and defended, if that is wanted.
    pub(crate) fn watch_static(&mut self, interface: InterfaceId, address: IpAddr) {
        let IpAddr::V4(ip) = address else { return };
        let known = self
            .addressing
            .watched
            .iter()
            .any(|one| one.interface == interface && one.acd.address() == ip);
        if self.config.arp_notify && !known {
            let now = self.net.clock;
            let acd = Acd::announce(now, ip);
            self.addressing.watched.push(Watched { interface, leased: false, acd });
            self.arm_addressing();
        }
    }

    /// The link is to hear of the IPv4 addresses of an interface again.
    pub(crate) fn announce_v4(&mut self, now: Instant, interface: InterfaceId) {
        for one in self.addressing.watched.iter_mut().filter(|one| one.interface == interface) {
            one.acd.announce_again(now);
        }
        self.arm_addressing_at(Instant::ZERO);
    }

    /// An address was taken away.
    pub(crate) fn unwatch(&mut self, interface: InterfaceId, address: IpAddr) {
        self.addressing
            .watched
            .retain(|one| one.interface != interface || IpAddr::V4(one.acd.address()) != address);
    }

    /// Acts on what is due about addresses.
    pub(crate) fn addressing_due(&mut self, now: Instant, out: &mut dyn Egress<T>) {
        self.addressing.timer = None;
        for place in 0..self.addressing.entries.len() {
            let Some(entry) = self.addressing.entries.get_mut(place) else { break };
            entry.client.handle_timer(now, &mut self.secret);
        }
        let mut place = 0;
        while let Some(one) = self.addressing.watched.get_mut(place) {
            let (interface, address, leased) = (one.interface, one.acd.address(), one.leased);
            match one.acd.step(now, &self.config.acd, &mut self.secret) {
                None => place += 1,
                Some(Step::Probe) => {
                    self.send_probe(interface, Ipv4Addr::UNSPECIFIED, address, out);
                }
                Some(Step::Announce) => self.send_probe(interface, address, address, out),
                Some(Step::Free) => {
                    if let Some(entry) = self.addressing.entry(interface).filter(|_| leased) {
                        entry.client.checked(now, true, &mut self.secret);
                    }
                    // Bound before it is announced.
                    self.act(now, out);
                }
            }
        }
        self.act(now, out);
        self.arm_addressing();
    }

    /// Does what the clients want done.
    fn act(&mut self, now: Instant, out: &mut dyn Egress<T>) {
        let mut place = 0;
        while let Some(entry) = self.addressing.entries.get_mut(place) {
            let interface = entry.interface;
            match entry.client.poll_action() {
                None => place += 1,
                Some(Action::Send { payload, to }) => {
                    self.send_dhcp(now, interface, &payload, to, out);
                }
                Some(Action::Check(address)) => {
                    let acd = Acd::probe(now, address, &self.config.acd, &mut self.secret);
                    self.addressing.watched.push(Watched { interface, leased: true, acd });
                }
                Some(Action::Unbound) => self.unbind(interface),
                Some(Action::Bound(lease)) => self.apply(interface, &lease),
            }
        }
    }

    /// Makes a lease the interface's configuration.
    fn apply(&mut self, interface: InterfaceId, lease: &DhcpLease) {
        let Some(entry) = self.addressing.entry(interface) else { return };
        let address = Cidr::new(lease.address, lease.prefix);
        let (old, mtu) = (entry.address.replace(address), entry.mtu);
        for route in mem::take(&mut entry.routes) {
            self.net.routes.remove(&route);
        }
        if old != Some(address) {
            if let Some(old) = old {
                // It was there because of us.
                let _ = self.remove_address(interface, old.address);
            }
            // An address that is there already serves as well.
            let _ = self.add_address(interface, address);
        }
        if let Some(here) = self.net.interfaces.get_mut(usize::from(interface.0)) {
            here.config.mtu = lease.mtu.map_or(mtu, |offered| offered.min(mtu));
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
        if let Some(entry) = self.addressing.entry(interface) {
            entry.routes = routes;
        }
    }

    /// Takes back what a lease brought, if there was one, and stops looking at its address.
    fn unbind(&mut self, interface: InterfaceId) {
        self.addressing.watched.retain(|one| one.interface != interface || !one.leased);
        let Some(entry) = self.addressing.entry(interface) else { return };
        let (address, mtu) = (entry.address.take(), entry.mtu);
        for route in mem::take(&mut entry.routes) {
            self.net.routes.remove(&route);
        }
        if let Some(address) = address {
            let _ = self.remove_address(interface, address.address);
            if let Some(here) = self.net.interfaces.get_mut(usize::from(interface.0)) {
                here.config.mtu = mtu;
            }
        }
    }

    /// Looks at an ARP packet for conflicts.
    pub(crate) fn watch_arp(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        bytes: &[u8],
        out: &mut dyn Egress<T>,
    ) {
        let Some(packet) = arp::parse(bytes).filter(|_| !self.addressing.watched.is_empty()) else {
            return;
        };
        let Some(ours) = self.net.interface(interface).map(|here| here.mac()) else { return };
        let mut lost = None;
        for place in 0..self.addressing.watched.len() {
            let Some(one) = self.addressing.watched.get_mut(place) else { break };
            if one.interface != interface {
                continue;
            }
            let (address, usable) = (one.acd.address(), one.acd.is_usable());
            match one.acd.handle(now, &packet, ours) {
                Verdict::Defend { announce: true } => {
                    self.send_probe(interface, address, address, out);
                }
                Verdict::Lost => lost = Some(usable),
                _ => {}
            }
        }
        let Some(was_used) = lost else { return };
        self.net.counters.arp_lost += 1;
        if let Some(entry) = self.addressing.entry(interface) {
            if was_used {
                entry.client.conflict(now, &mut self.secret);
            } else {
                entry.client.checked(now, false, &mut self.secret);
            }
        }
        self.act(now, out);
        self.arm_addressing();
    }

    /// Takes a packet if it is a server's message to the client of its interface.
    pub(crate) fn handle_dhcp(
        &mut self,
        now: Instant,
        packet: &Packet,
        frame: &Frame<R>,
        out: &mut dyn Egress<T>,
    ) -> bool {
        let Some(entry) = self.addressing.entry(packet.interface) else { return false };
        let bytes = frame.bytes().get(packet.payload.clone()).unwrap_or_default();
        let (source, destination) = (packet.source, packet.destination);
        let Ok(parsed) = udp::parse(source, destination, bytes, frame.offload().verified) else {
            return false;
        };
        if (parsed.src_port, parsed.dst_port) != (SERVER_PORT, CLIENT_PORT) {
            return false;
        }
        let payload = bytes.get(parsed.payload).unwrap_or_default();
        if entry.client.handle(now, payload, &mut self.secret) {
            self.net.counters.dhcp_in += 1;
            self.act(now, out);
            self.arm_addressing();
        } else {
            self.net.counters.dhcp_ignored += 1;
        }
        true
    }

    /// Sends a message to a server, or to everybody on the link.
    fn send_dhcp(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        payload: &[u8],
        to: Option<(Ipv4Addr, Ipv4Addr)>,
        out: &mut dyn Egress<T>,
    ) {
        self.net.counters.dhcp_out += 1;
        let (source, to) = to.unwrap_or((Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST));
        let header = ip::Header {
            source: source.into(),
            destination: to.into(),
            protocol: IpProtocol::Udp,
            ttl: self.net.ttl,
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
            return self.net.answer(now, &server, &header, fill, out);
        }
        // Not by the routing table: there may be no address yet, and it is about this very link.
        let Some(mtu) = self.net.interface(interface).map(|here| here.config.mtu) else { return };
        let path = Path { interface, source: source.into(), mtu, hop: Hop::Group(Mac::BROADCAST) };
        let start = headers(header.destination);
        let mut frame = alloc::vec![0; start + header.payload_len];
        self.net.write_headers(&path, Mac::BROADCAST, &header, &mut frame);
        if let Some(place) = frame.get_mut(start..) {
            fill(place);
        }
        self.net.emit(interface, &frame, &[], TxOffload::NONE, out);
    }

    /// Sends an ARP probe for `target`, or from itself an announcement (RFC 5227 2.1.1, 2.3).
    fn send_probe(
        &mut self,
        interface: InterfaceId,
        source: Ipv4Addr,
        target: Ipv4Addr,
        out: &mut dyn Egress<T>,
    ) {
        let Some(mac) = self.net.interface(interface).map(|here| here.mac()) else { return };
        let mut frame = [0; ethernet::HEADER + arp::PACKET];
        let (head, packet) = frame.split_at_mut(ethernet::HEADER);
        ethernet::emit(ethernet::Carries::Arp, mac, Mac::BROADCAST, head);
        arp::emit((source, mac), target, None, packet);
        self.net.emit(interface, &frame, &[], TxOffload::NONE, out);
    }
}
