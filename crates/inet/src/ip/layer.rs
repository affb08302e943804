//! The IP layer of one stack: its tables, and headers in and out.

use core::hash::BuildHasher;
use core::net::{IpAddr, SocketAddr};

use super::groups::report::send_report;
use super::groups::table::GroupTable;
use super::groups::wire::{GroupMessage, parse_igmp, parse_mld};
use super::groups::{Filter, GroupListener, GroupMember};
use super::packet::Packet;
use super::pmtu::PathMtus;
use super::route::{Path, Route, Routes};
use super::v4::{self, Ipv4Refusal};
use super::v6::{self, Content, Ipv6Refusal};
use crate::bytes::{Egress, TxBytes};
use crate::config::{Config, V6Config};
use crate::error::Error;
use crate::interface_id::InterfaceId;
use crate::link::LinkLayer;
use crate::link::interfaces::Interfaces;
use crate::secret::Secret;
use crate::sockaddr::is_link_scope;
use crate::time::Instant;
use crate::timers::{Timer, Timers};
use crate::wheel::TimerId;

counters! { IpCounters:
    ip_malformed "ip.malformed" "IPv4 packets with a bad version or length."
    ip_bad_checksum "ip.bad-checksum" "IPv4 packets with a bad header checksum."
    ip_bad_options "ip.bad-options" "IPv4 packets with malformed options."
    ip_source_routes "ip.source-routes" "IPv4 packets with a source route."
    ip_martians "ip.martians" "IPv4 packets from an impossible source."
    ip_reverse_path "ip.reverse-path" "IPv4 packets by another interface than their source's."
    ip_not_ours "ip.not-ours" "IPv4 packets to somebody else."
    ip_unknown "ip.unknown-protocol" "IPv4 packets of other protocols."
    ip_no_route "ip.no-route" "Packets not sent for want of a route."
    ip6_malformed "ip6.malformed" "IPv6 packets with a bad version, length or option."
    ip6_excessive "ip6.excessive-headers" "IPv6 packets with too many extension headers or options."
    ip6_martians "ip6.martians" "IPv6 packets from or to an impossible address."
    ip6_not_ours "ip6.not-ours" "IPv6 packets to somebody else."
    ip6_nothing "ip6.empty" "IPv6 packets without payload, or with an option that forbids to look."
    ip6_problems "ip6.parameter-problems" "IPv6 packets with a header that cannot be."
    ip6_unknown "ip6.unknown-protocol" "IPv6 packets of other protocols."
    igmp_malformed "igmp.malformed" "IGMP and MLD messages that are malformed or came from afar."
    group_messages "groups.messages-in" "Queries and reports about multicast groups."
    group_reports "groups.reports-out" "Reports about multicast groups sent."
    ip_fragments_out "ip.fragments-out" "Fragments sent."
}

/// Hop limit of IGMP's and MLD's messages (RFC 3376 4). Received ones with another are ignored.
const GROUP_HOPS: u8 = 1;

/// The IP layer of one stack.
#[derive(Debug)]
pub(crate) struct IpLayer {
    pub(super) routes: Routes,
    path_mtus: PathMtus,
    groups: GroupTable,
    groups_timer: Option<TimerId>,
    /// Of fragments: counters by destination.
    ids: [u32; 64],
    ttl: u8,
    /// See [`Config::rp_filter`].
    pub(super) rp_filter: u8,
    v6: V6Config,
    pub(super) counters: IpCounters,
}

impl IpLayer {
    pub(crate) fn new(config: &Config, secret: &Secret) -> Self {
        Self {
            routes: Routes::new(config.routes),
            path_mtus: PathMtus::new(secret.tables(), config.path_mtus),
            groups: GroupTable::new(config.groups),
            groups_timer: None,
            ids: [0; 64],
            ttl: config.ttl.max(1),
            rp_filter: config.rp_filter,
            v6: config.v6,
            counters: IpCounters::default(),
        }
    }

    /// Applies a change of the configuration.
    pub(crate) fn configure(&mut self, config: &Config) {
        self.v6 = config.v6;
        self.rp_filter = config.rp_filter;
    }

    /// Name and value of each counter.
    pub(crate) fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        self.counters.iter()
    }

    /// Reads the IPv4 packet that starts at `at` in `frame`; `None`, and counted, if it is refused.
    pub(crate) fn parse4(
        &mut self,
        head: &[u8],
        len: usize,
        at: usize,
        id: InterfaceId,
    ) -> Option<Packet> {
        let counters = &mut self.counters;
        match v4::parse(head, len, at, id) {
            Ok(packet) => return Some(packet),
            Err(Ipv4Refusal::Malformed) => counters.ip_malformed += 1,
            Err(Ipv4Refusal::Checksum) => counters.ip_bad_checksum += 1,
            Err(Ipv4Refusal::Options) => counters.ip_bad_options += 1,
            Err(Ipv4Refusal::SourceRoute) => counters.ip_source_routes += 1,
            Err(Ipv4Refusal::Martian) => counters.ip_martians += 1,
        }
        None
    }

    /// Reads the IPv6 packet that starts at `at` in `frame`; `None`, and counted, if it is refused.
    pub(crate) fn parse6(
        &mut self,
        head: &[u8],
        len: usize,
        at: usize,
        id: InterfaceId,
    ) -> Option<(Packet, Content)> {
        let counters = &mut self.counters;
        match v6::parse(head, len, at, id) {
            Ok(found) => return Some(found),
            Err(Ipv6Refusal::Malformed) => counters.ip6_malformed += 1,
            Err(Ipv6Refusal::Martian) => counters.ip6_martians += 1,
            Err(Ipv6Refusal::Excessive) => counters.ip6_excessive += 1,
        }
        None
    }

    /// A packet of a protocol that is not spoken here has come.
    pub(crate) fn count_unknown(&mut self, is_v6: bool) {
        self.counters.ip_unknown += u64::from(!is_v6);
        self.counters.ip6_unknown += u64::from(is_v6);
    }

    /// An IPv6 packet has come that carries nothing.
    pub(crate) fn count_nothing(&mut self) {
        self.counters.ip6_nothing += 1;
    }

    /// An IPv6 packet has come with a header that cannot be.
    pub(crate) fn count_problem(&mut self) {
        self.counters.ip6_problems += 1;
    }

    /// An IPv6 packet has come that needs a source and has none.
    pub(crate) fn count_martian6(&mut self) {
        self.counters.ip6_martians += 1;
    }

    /// A fragment has been sent.
    pub(crate) fn count_fragment_out(&mut self) {
        self.counters.ip_fragments_out += 1;
    }

    /// Hops of IPv4 packets that belong to no socket.
    pub(crate) fn ttl(&self) -> u8 {
        self.ttl
    }

    /// Hops of IPv6 packets where neither socket nor router says otherwise.
    pub(crate) fn default_hop_limit(&self) -> u8 {
        self.v6.hop_limit
    }

    /// Hops of IPv6 packets that leave by an interface.
    pub(crate) fn hop_limit(&self, interfaces: &Interfaces, id: InterfaceId) -> u8 {
        let said = interfaces.get(id).and_then(|interface| interface.parameters().hop_limit);
        said.unwrap_or(self.v6.hop_limit.max(1))
    }

    /// Whether packets of connections carry flow labels.
    pub(crate) fn labels_flows(&self) -> bool {
        self.v6.auto_flow_labels
    }

    /// The path to `destination`, over the interface `via` if one is given. The port does not
    /// matter.
    pub(crate) fn find(
        &mut self,
        destination: &SocketAddr,
        via: Option<InterfaceId>,
        interfaces: &Interfaces,
    ) -> Result<Path, Error> {
        let found = self.routes.find(destination, via, interfaces.all());
        self.counters.ip_no_route += u64::from(found.is_err());
        found
    }

    /// The MTU of the path to `host`, bytes, if it is stored and less than the link's.
    pub(crate) fn path_mtu(&self, now: Instant, host: IpAddr) -> Option<u16> {
        self.path_mtus.get(now, host)
    }

    /// A router says that the path to `host` takes packets of at most `mtu` bytes. Gives the MTU
    /// that is used from then on.
    pub(crate) fn learn_path_mtu(&mut self, now: Instant, host: IpAddr, mtu: u16) -> u16 {
        self.path_mtus.learn(now, host, mtu)
    }

    /// The identification of the next packet to `destination` that is a fragment or may become
    /// several. It comes from a counter with a random start that few destinations share (RFC 7739
    /// 5.3, RFC 6864). All `packets` of a super-segment have consecutive identifications.
    pub(crate) fn fragment_id(
        &mut self,
        secret: &mut Secret,
        destination: IpAddr,
        packets: u32,
    ) -> u32 {
        let index = usize::try_from(secret.tables().hash_one(destination) % 64).unwrap_or(0);
        let step = 1 + secret.below(8);
        let start = secret.below(u32::MAX);
        let Some(counter) = self.ids.get_mut(index) else { return start };
        let first = if *counter == 0 { start } else { counter.wrapping_add(step) };
        *counter = first.wrapping_add(packets.saturating_sub(1));
        first
    }

    /// The routing table, in the order of preference.
    pub(crate) fn routes(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter()
    }

    /// Adds a route that the stack itself has made.
    ///
    /// # Errors
    /// `NoBuffers` if the table is full.
    pub(crate) fn insert_route(&mut self, route: Route) -> Result<(), Error> {
        self.routes.add(route)
    }

    /// Adds a route that the owner of the stack, or a DHCP server, names.
    ///
    /// # Errors
    /// Those of [`Stack::add_route`](crate::Stack::add_route).
    pub(crate) fn add_route(&mut self, route: Route, interfaces: &Interfaces) -> Result<(), Error> {
        interfaces.get(route.interface).ok_or(Error::BadHandle)?;
        let family = route.network.address.is_ipv4();
        if [route.gateway, route.source].iter().flatten().any(|ip| ip.is_ipv4() != family) {
            return Err(Error::Invalid);
        }
        if route.source.is_some_and(|source| !interfaces.is_ours(source)) {
            return Err(Error::AddrNotAvailable);
        }
        // The unspecified one is no router.
        if let Some(gateway) = route.gateway.filter(|gateway| !gateway.is_unspecified()) {
            // RFC 1122 3.3.1.1: the first hop is on the link. All of fe80::/10 is.
            let next = self.routes.look_up(gateway, Some(route.interface));
            let on_link = next.is_some_and(|next| next.gateway.is_none());
            if !on_link && !is_link_scope(gateway) {
                return Err(Error::NetUnreachable);
            }
        }
        self.routes.add(route)
    }

    /// Removes a route; false if it is not there.
    pub(crate) fn remove_route(&mut self, route: &Route) -> bool {
        self.routes.remove(route)
    }

    /// Whether packets from `source` to `group` on `interface` are wanted by any listener.
    pub(crate) fn admits(&self, interface: InterfaceId, group: IpAddr, source: IpAddr) -> bool {
        self.groups.admits(interface, group, source)
    }

    /// The filter of a listener of a group.
    pub(crate) fn group_filter(
        &self,
        interface: InterfaceId,
        group: IpAddr,
        listener: GroupListener,
    ) -> Option<&Filter> {
        self.groups.filter(interface, group, listener)
    }

    /// A listener wants something else of a group: see [`Groups::listen`](super::groups::Groups).
    ///
    /// # Errors
    /// `Invalid` if `group` is none, `NoBuffers` if there are too many, or if the owner's share
    /// has no room for another.
    pub(crate) fn listen_to_group(
        &mut self,
        now: Instant,
        (interface, group): (InterfaceId, IpAddr),
        listener: (GroupListener, GroupMember),
        secret: &mut Secret,
        timers: &mut Timers,
    ) -> Result<(), Error> {
        self.groups.listen(now, interface, group, listener, secret)?;
        self.arm_groups(timers);
        Ok(())
    }

    /// Removes an ended listener.
    pub(crate) fn leave_groups(
        &mut self,
        now: Instant,
        memberships: &[(InterfaceId, IpAddr)],
        listener: GroupListener,
        secret: &mut Secret,
        timers: &mut Timers,
    ) {
        for (interface, group) in memberships {
            self.groups.leave(now, *interface, *group, listener, secret);
        }
        if !memberships.is_empty() {
            self.arm_groups(timers);
        }
    }

    /// Reports all groups again on the link of an interface.
    pub(crate) fn report_groups(&mut self, now: Instant, id: InterfaceId, timers: &mut Timers) {
        self.groups.report_all(now, id);
        self.arm_groups(timers);
    }

    /// Sets the timer of the next report.
    fn arm_groups(&mut self, timers: &mut Timers) {
        let at = self.groups.poll_at();
        match (self.groups_timer, at) {
            (Some(timer), Some(at)) if timers.is_at(timer, at) => return,
            (Some(timer), _) => timers.cancel(timer),
            _ => {}
        }
        self.groups_timer = at.map(|at| timers.arm(at, Timer::Groups));
    }

    /// Whether a report about groups is scheduled.
    #[cfg(test)]
    pub(crate) fn waits_for_groups(&self) -> bool {
        self.groups_timer.is_some()
    }

    /// Sends due reports about groups.
    pub(crate) fn handle_groups_timer<T: TxBytes>(
        &mut self,
        now: Instant,
        link: &mut LinkLayer,
        (secret, timers): (&mut Secret, &mut Timers),
        out: &mut dyn Egress<T>,
    ) {
        self.groups_timer = None;
        while let Some((interface, report)) = self.groups.poll(now, secret) {
            self.counters.group_reports += send_report(link, interface, &report, out);
        }
        self.arm_groups(timers);
    }

    /// Handles an IGMP packet (RFC 3376 7).
    pub(crate) fn handle_igmp(
        &mut self,
        now: Instant,
        packet: &Packet,
        frame: &[u8],
        (secret, timers): (&mut Secret, &mut Timers),
    ) {
        let bytes = frame.get(packet.payload.clone()).unwrap_or_default();
        let message = parse_igmp(bytes).filter(|_| packet.ttl == GROUP_HOPS);
        self.handle_group_message(now, (packet.interface, false), message, (secret, timers));
    }

    /// Handles an MLD message whose checksum is right (RFC 3810 6.2: from the link only).
    pub(crate) fn handle_mld(
        &mut self,
        now: Instant,
        packet: &Packet,
        bytes: &[u8],
        (secret, timers): (&mut Secret, &mut Timers),
    ) {
        let near = packet.ttl == GROUP_HOPS
            && matches!(packet.source, IpAddr::V6(ip) if ip.is_unicast_link_local());
        let message = parse_mld(bytes).filter(|_| near);
        self.handle_group_message(now, (packet.interface, true), message, (secret, timers));
    }

    fn handle_group_message(
        &mut self,
        now: Instant,
        (interface, v6): (InterfaceId, bool),
        message: Option<GroupMessage>,
        (secret, timers): (&mut Secret, &mut Timers),
    ) {
        let Some(message) = message else { return self.counters.igmp_malformed += 1 };
        self.counters.group_messages += 1;
        self.groups.handle(now, interface, v6, &message, secret);
        self.arm_groups(timers);
    }
}
