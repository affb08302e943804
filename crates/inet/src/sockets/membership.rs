//! Multicast groups in the stack: sockets' memberships, and IGMP in and out.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use super::Socket;
use crate::bytes::{Egress, RxBytes, TxBytes};
use crate::error::Error;
use crate::interface_id::InterfaceId;
use crate::ip::groups::wire::{Message, Report, parse_igmp, parse_mld};
use crate::ip::groups::{Filter, FilterMode, Listener};
use crate::ip::packet::Packet;
use crate::ip::{v4, v6};
use crate::link::ethernet::{self, Carries};
use crate::net::Timer;
use crate::offload::TxOffload;
use crate::stack::Stack;
use crate::table::Handle;
use crate::time::Instant;

/// IGMP messages and MLD's are sent with one hop to live (RFC 3376 4), and believed only so.
const HOPS: u8 = 1;

impl<T: TxBytes, R: RxBytes> Stack<T, R> {
    /// Lets a datagram socket receive what is sent to `group` on `interface`, or on the one that
    /// the socket's or the routing table's choice is (IP_ADD_MEMBERSHIP, MCAST_JOIN_GROUP).
    ///
    /// # Errors
    /// `AddrInUse` if it does already; those of [`set_group_filter`](Self::set_group_filter).
    pub fn join_group(
        &mut self,
        now: Instant,
        handle: Handle,
        group: IpAddr,
        interface: Option<InterfaceId>,
    ) -> Result<(), Error> {
        let interface = self.group_interface(handle, group, interface)?;
        if self.net.groups.filter(interface, group, Listener::Socket(handle)).is_some() {
            return Err(Error::AddrInUse);
        }
        self.set_filter(now, handle, group, interface, Filter::all())
    }

    /// Ends that (IP_DROP_MEMBERSHIP, MCAST_LEAVE_GROUP).
    ///
    /// # Errors
    /// `AddrNotAvailable` if the socket is no member; `Invalid`, `BadHandle`.
    pub fn leave_group(
        &mut self,
        now: Instant,
        handle: Handle,
        group: IpAddr,
        interface: Option<InterfaceId>,
    ) -> Result<(), Error> {
        let interface = self.group_interface(handle, group, interface)?;
        if self.net.groups.filter(interface, group, Listener::Socket(handle)).is_none() {
            return Err(Error::AddrNotAvailable);
        }
        let none = Filter { mode: FilterMode::Include, sources: BTreeSet::new() };
        self.set_filter(now, handle, group, interface, none)
    }

    /// From whom a member of `group` receives: only from `sources`, or from all but these
    /// (MCAST_MSFILTER, and what the calls for single sources come to). To include nobody is to
    /// leave.
    ///
    /// # Errors
    /// `Invalid` if `group` is no group of the socket's family, `Unsupported` on a stream,
    /// `AddrNotAvailable` without such an interface, `NoBuffers` for too many groups or sources,
    /// `BadHandle`.
    pub fn set_group_filter(
        &mut self,
        now: Instant,
        handle: Handle,
        group: IpAddr,
        interface: Option<InterfaceId>,
        mode: FilterMode,
        sources: &[IpAddr],
    ) -> Result<(), Error> {
        let interface = self.group_interface(handle, group, interface)?;
        if sources.len() > self.config.group_sources {
            return Err(Error::NoBuffers);
        }
        if sources.iter().any(|source| source.is_ipv4() != group.is_ipv4()) {
            return Err(Error::Invalid);
        }
        let filter = Filter { mode, sources: sources.iter().copied().collect() };
        self.set_filter(now, handle, group, interface, filter)
    }

    /// The filter of a member; `None` if the socket is none.
    pub fn group_filter(
        &mut self,
        handle: Handle,
        group: IpAddr,
        interface: Option<InterfaceId>,
    ) -> Option<(FilterMode, Vec<IpAddr>)> {
        let interface = self.group_interface(handle, group, interface).ok()?;
        let filter = self.net.groups.filter(interface, group, Listener::Socket(handle))?;
        Some((filter.mode, filter.sources.iter().copied().collect()))
    }

    /// The interface that is meant.
    fn group_interface(
        &mut self,
        handle: Handle,
        group: IpAddr,
        interface: Option<InterfaceId>,
    ) -> Result<InterfaceId, Error> {
        let socket = self.open_socket(handle)?;
        let asked = interface.or(socket.options.multicast_if).or(socket.options.device);
        if socket.datagram().is_none() {
            return Err(Error::Unsupported);
        }
        if !group.is_multicast() || group.is_ipv6() && socket.family == super::Family::V4 {
            return Err(Error::Invalid);
        }
        let id = match asked {
            Some(id) => id,
            None => {
                let found = self.net.find(&SocketAddr::new(group, 0));
                found.map_or(InterfaceId(0), |path| path.interface)
            }
        };
        self.net.interface(id).map(|_| id).ok_or(Error::AddrNotAvailable)
    }

    fn set_filter(
        &mut self,
        now: Instant,
        handle: Handle,
        group: IpAddr,
        interface: InterfaceId,
        filter: Filter,
    ) -> Result<(), Error> {
        let most = self.config.memberships;
        let socket = self.open_socket(handle)?;
        let Some(datagram) = socket.datagram() else { return Err(Error::Unsupported) };
        let name = (interface, group);
        let is_new = !datagram.memberships.contains(&name);
        let leaves = filter.mode == FilterMode::Include && filter.sources.is_empty();
        if is_new && !leaves && datagram.memberships.len() >= most {
            return Err(Error::NoBuffers);
        }
        let heard = (Listener::Socket(handle), filter);
        self.net.groups.listen(now, interface, group, heard, &mut self.secret)?;
        if let Some(datagram) = self.sockets.get_mut(handle).and_then(Socket::datagram) {
            datagram.memberships.retain(|other| *other != name);
            if !leaves {
                datagram.memberships.push(name);
            }
        }
        self.arm_groups();
        Ok(())
    }

    /// A socket is gone: it is no member of anything.
    pub(super) fn leave_all_groups(&mut self, handle: Handle) {
        let now = self.net.clock;
        let datagram = self.sockets.get_mut(handle).and_then(Socket::datagram);
        let Some(memberships) = datagram.map(|found| core::mem::take(&mut found.memberships))
        else {
            return;
        };
        for (interface, group) in &memberships {
            let listener = Listener::Socket(handle);
            self.net.groups.leave(now, *interface, *group, listener, &mut self.secret);
        }
        if !memberships.is_empty() {
            self.arm_groups();
        }
    }

    /// Sets the timer of the next report.
    pub(crate) fn arm_groups(&mut self) {
        let at = self.net.groups.poll_at();
        match (self.groups_timer, at) {
            (Some(timer), Some(at)) if self.net.wheel.is_at(timer, at) => return,
            (Some(timer), _) => self.net.wheel.cancel(timer),
            _ => {}
        }
        self.groups_timer = at.map(|at| self.net.wheel.arm(at, Timer::Groups));
    }

    /// Sends the reports that are due.
    pub(crate) fn groups_due(&mut self, now: Instant, out: &mut dyn Egress<T>) {
        self.groups_timer = None;
        while let Some((interface, report)) = self.net.groups.poll(now, &mut self.secret) {
            self.send_report(interface, &report, out);
        }
        self.arm_groups();
    }

    /// Takes an IGMP packet (RFC 3376 7).
    pub(crate) fn handle_igmp(&mut self, now: Instant, packet: &Packet, frame: &[u8]) {
        let bytes = frame.get(packet.payload.clone()).unwrap_or_default();
        match parse_igmp(bytes).filter(|_| packet.ttl == HOPS) {
            None => self.net.counters.igmp_malformed += 1,
            Some(message) => self.group_message(now, packet.interface, false, &message),
        }
    }

    /// Takes an MLD packet whose checksum is right (RFC 3810 6.2: from the link only).
    pub(crate) fn handle_mld(&mut self, now: Instant, packet: &Packet, bytes: &[u8]) {
        let near = packet.ttl == HOPS
            && matches!(packet.source, IpAddr::V6(ip) if ip.is_unicast_link_local());
        match parse_mld(bytes).filter(|_| near) {
            None => self.net.counters.igmp_malformed += 1,
            Some(message) => self.group_message(now, packet.interface, true, &message),
        }
    }

    /// Takes what somebody on the link says about groups.
    pub(crate) fn group_message(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        v6: bool,
        message: &Message,
    ) {
        self.net.counters.group_messages += 1;
        self.net.groups.handle(now, interface, v6, message, &mut self.secret);
        self.arm_groups();
    }

    /// Sends a report of either family.
    fn send_report(&mut self, id: InterfaceId, report: &Report, out: &mut dyn Egress<T>) {
        let Some(interface) = self.net.interface(id) else { return };
        let (mac, mtu) = (interface.mac(), usize::from(interface.config.mtu));
        let to = report.destination();
        // RFC 3376 4.2.13, RFC 3590: without an address the report has none, either.
        let source = self.net.report_source(id, to);
        for message in report.emit(mtu.saturating_sub(HEADERS)) {
            let (carries, packet) = match (source, to) {
                (IpAddr::V4(source), IpAddr::V4(to)) => {
                    (Carries::Ipv4, v4::with_router_alert(source, to, &message))
                }
                (IpAddr::V6(source), IpAddr::V6(to)) => {
                    (Carries::Ipv6, v6::with_router_alert(source, to, &message))
                }
                _ => return,
            };
            let mut frame = alloc::vec![0; ethernet::HEADER];
            ethernet::emit(carries, mac, ethernet::multicast(to), &mut frame);
            frame.extend_from_slice(&packet);
            self.net.counters.group_reports += 1;
            self.net.emit(id, &frame, &[], TxOffload::NONE, out);
        }
    }
}

/// Room for the IP header with its router alert, bytes: IPv6's is the longer one.
const HEADERS: usize = 48;
