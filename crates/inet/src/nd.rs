//! IPv6 on a link: Neighbour Discovery (RFC 4861) and autoconfiguration (RFC 4862) of a host.
//!
//! ```text
//!   wire    the messages, read and written
//!   dad     whether somebody else has an address of ours; identifiers of interfaces
//!   router  asking routers, what they say, default routes
//!   slaac   prefixes and addresses from them
//! ```
//!
//! What neighbours' addresses are is kept in the cache that ARP fills, too (`link::neighbour`).
//! Everything here has one timer per interface, which is set to the earliest of what is to come.
//! All lists are bounded by [`V6Config`](crate::V6Config): whoever is on the link may say what
//! they like (RFC 3756), and can make us use it, but not run out of memory or time. Redirects are
//! not believed (RFC 4861 8.3 makes that the host's choice): what they spare is one hop on a link.

pub(crate) mod dad;
mod router;
mod slaac;
pub(crate) mod wire;

use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::net::{IpAddr, Ipv6Addr};
use core::time::Duration;

use smoltcp::wire::{IpProtocol, checksum};

use crate::bytes::{Egress, TxBytes};
use crate::cidr::Cidr;
use crate::interface_id::InterfaceId;
use crate::ip::packet::Packet;
use crate::ip::{self, v6};
use crate::link::ethernet::{self, Mac};
use crate::link::neighbour::{Advert, Key, Times, Waiters};
use crate::net::{MAX_HEADERS, Net, Timer};
use crate::offload::TxOffload;
use crate::time::Instant;
use crate::wheel::TimerId;
use router::{Router, Solicit};
use wire::{Message, Nonce, Outgoing};

/// What an interface knows of its link.
#[derive(Debug, Default)]
pub(crate) struct Link {
    /// [`Stack::start_ipv6`](crate::Stack::start_ipv6) was called, and no duplicate of the
    /// link-local address has ended it.
    pub(crate) is_started: bool,
    /// Probes for an address of this interface; `None` for as many as the configuration says.
    pub(crate) dad_transmits: Option<u8>,
    /// What a router said.
    pub(crate) hop_limit: Option<u8>,
    pub(crate) mtu: Option<u16>,
    pub(crate) times: Times,
    /// The router's own value, of which `times.reachable` is made.
    base_reachable: Option<Duration>,
    routers: Vec<Router>,
    /// Networks on the link by a router's word, and until when.
    prefixes: Vec<(Cidr, Option<Instant>)>,
    /// Resolvers, and until when.
    dns: Vec<(Ipv6Addr, Option<Instant>)>,
    solicit: Option<Solicit>,
    timer: Option<(TimerId, Instant)>,
}

/// A neighbour's hardware address, and who waited for it.
pub(crate) type Found<T> = (Key, Mac, Waiters<T>);

impl<T: TxBytes> Net<T> {
    /// See [`Stack::start_ipv6`](crate::Stack::start_ipv6).
    pub(crate) fn start_ipv6(&mut self, now: Instant, id: InterfaceId) {
        let Some(interface) = self.interface_mut(id) else { return };
        if core::mem::replace(&mut interface.link.is_started, true) {
            return;
        }
        // RFC 4862 5.4.2: not all at once after a power failure.
        let delay = self.random_below(router::MAX_RTR_SOLICITATION_DELAY);
        self.add_link_local(now + delay, id, 0);
        self.reschedule(id);
    }

    /// An unpredictable number.
    pub(crate) fn random(&mut self) -> u64 {
        self.drawn = self.drawn.wrapping_add(1);
        self.random.hash_one(self.drawn)
    }

    /// An unpredictable time below `bound`.
    pub(crate) fn random_below(&mut self, bound: Duration) -> Duration {
        let nanos = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.random() % nanos.max(1))
    }

    /// Sets the interface's timer to what is to come first.
    pub(crate) fn reschedule(&mut self, id: InterfaceId) {
        let Some(interface) = self.interfaces.get_mut(usize::from(id.0)) else { return };
        let link = &mut interface.link;
        let probes = interface.addresses.iter().filter_map(|ours| Some(ours.dad?.at));
        let told = interface.addresses.iter().filter_map(|ours| ours.tell);
        let ends = interface.addresses.iter().flat_map(|ours| {
            let preferred = ours.preferred_until.filter(|_| ours.is_fresh());
            [preferred, ours.valid_until].into_iter().flatten()
        });
        let prefixes = link.prefixes.iter().filter_map(|(_, until)| *until);
        let routers = link.routers.iter().map(|router| router.until);
        let solicit = link.solicit.map(|solicit| solicit.at);
        let first =
            probes.chain(told).chain(ends).chain(prefixes).chain(routers).chain(solicit).min();
        if link.timer.map(|(_, at)| at) == first {
            return;
        }
        if let Some((timer, _)) = link.timer.take() {
            self.wheel.cancel(timer);
        }
        link.timer = first.map(|at| (self.wheel.arm(at, Timer::Link(id)), at));
    }

    /// The interface's timer has fired.
    pub(crate) fn link_due(&mut self, now: Instant, id: InterfaceId, out: &mut dyn Egress<T>) {
        if let Some(interface) = self.interface_mut(id) {
            interface.link.timer = None;
        }
        self.probe_due(now, id, out);
        self.tell_due(now, id, out);
        self.end_lifetimes(now, id);
        self.solicit_due(now, id, out);
        self.reschedule(id);
    }

    /// The link is to hear of the usable IPv6 addresses of an interface again. Where addresses are
    /// probed, all are anew, former duplicates too: who else is on the link now is not known
    /// (RFC 4862 5.3).
    pub(crate) fn announce_v6(&mut self, now: Instant, id: InterfaceId) {
        let (wanted, transmits) = (self.v6.ndisc_notify, self.dad_transmits(id));
        let Some(interface) = self.interface_mut(id) else { return };
        for ours in interface.addresses.iter_mut().filter(|ours| ours.cidr.address.is_ipv6()) {
            if transmits > 0 {
                ours.begin_dad(now, transmits);
            } else if wanted && ours.is_usable() {
                // With the next poll.
                ours.tell = Some(Instant::ZERO);
            }
        }
        self.reschedule(id);
    }

    /// Tells the link of addresses that are usable from now on (RFC 4861 7.2.6): who has another
    /// hardware address for them has the right one then.
    fn tell_due(&mut self, now: Instant, id: InterfaceId, out: &mut dyn Egress<T>) {
        let Some(interface) = self.interface_mut(id) else { return };
        let mac = interface.mac();
        let mut due = Vec::new();
        for ours in &mut interface.addresses {
            if ours.tell.take_if(|at| *at <= now).is_some()
                && let IpAddr::V6(target) = ours.cidr.address
            {
                due.push(target);
            }
        }
        for target in due {
            let message = Outgoing::Advert { target, solicited: false, overrides: true, mac };
            let to = ethernet::multicast(v6::ALL_NODES.into());
            self.send_nd(id, target, v6::ALL_NODES, to, &message, out);
        }
    }

    /// Takes a message that passed its checks; gives who waited for what it says.
    pub(crate) fn handle_nd(
        &mut self,
        now: Instant,
        packet: &Packet,
        message: &Message<'_>,
        out: &mut dyn Egress<T>,
    ) -> Option<Found<T>> {
        let IpAddr::V6(source) = packet.source else { return None };
        match *message {
            Message::Solicit { target, nonce, .. } if source.is_unspecified() => {
                self.handle_probe(now, packet.interface, target, nonce, out);
                None
            }
            Message::Solicit { target, source_mac, .. } => {
                self.handle_solicit(now, packet, target, source_mac, out)
            }
            Message::Advert { target, router, solicited, overrides, mac } => {
                let advert = Advert { mac, solicited, overrides };
                self.handle_advert(now, packet.interface, target, router, &advert)
            }
            Message::Router(advert) => self.handle_router(now, packet.interface, source, &advert),
            Message::Ignored => {
                self.counters.nd_ignored += 1;
                None
            }
        }
    }

    /// Somebody asks for one of our addresses (RFC 4861 7.2.3, 7.2.4).
    fn handle_solicit(
        &mut self,
        now: Instant,
        packet: &Packet,
        target: Ipv6Addr,
        source_mac: Option<Mac>,
        out: &mut dyn Egress<T>,
    ) -> Option<Found<T>> {
        let id = packet.interface;
        let interface = self.interface(id)?;
        // RFC 4862 5.4.3: a tentative address does not answer.
        if !interface.has(target.into()) {
            return None;
        }
        let mac = interface.mac();
        let answer = Outgoing::Advert { target, solicited: true, overrides: true, mac };
        let IpAddr::V6(source) = packet.source else { return None };
        let Some(source_mac) = source_mac else {
            self.answer_nd(now, id, target, source, &answer, out);
            return None;
        };
        let key = Key { interface: id, address: packet.source };
        let learnt = self.neighbours.observe(now, key, source_mac, true);
        self.send_nd(id, target, source, source_mac, &answer, out);
        Some(self.apply(now, key, learnt?))
    }

    /// Somebody tells of itself (RFC 4861 7.2.5).
    fn handle_advert(
        &mut self,
        now: Instant,
        id: InterfaceId,
        target: Ipv6Addr,
        router: bool,
        advert: &Advert,
    ) -> Option<Found<T>> {
        let interface = self.interface(id)?;
        // One that we have lost is its owner's, whom we may want to speak to.
        if let Some(ours) = interface.address(target.into()).filter(|ours| !ours.is_duplicate()) {
            if ours.dad.is_some() {
                self.address_is_duplicate(now, id, target, advert.mac);
            } else {
                self.counters.nd_conflicts += 1;
            }
            return None;
        }
        let times = interface.link.times;
        if !router {
            self.remove_router(id, target);
        } else if advert.solicited {
            self.router_answers(id, target, true);
        }
        let key = Key { interface: id, address: target.into() };
        let learnt = self.neighbours.advertised(now, key, advert, &times)?;
        Some(self.apply(now, key, learnt))
    }

    /// Asks for a neighbour, all or at the hardware address last known (RFC 4861 7.2.2).
    pub(crate) fn send_solicitation(
        &mut self,
        id: InterfaceId,
        target: Ipv6Addr,
        mac: Option<Mac>,
        out: &mut dyn Egress<T>,
    ) {
        let Some(source) = ip::source::select(target, id, &self.interfaces) else { return };
        let Some(ours) = self.interface(id).map(crate::interface::Interface::mac) else { return };
        let message = Outgoing::Solicit { target, mac: Some(ours), nonce: None };
        let group = v6::solicited_node(target);
        let (destination, to) = match mac {
            Some(mac) => (target, mac),
            None => (group, ethernet::multicast(group.into())),
        };
        self.send_nd(id, source, destination, to, &message, out);
    }

    /// Sends a message to a hardware address.
    fn send_nd(
        &mut self,
        id: InterfaceId,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        to: Mac,
        message: &Outgoing,
        out: &mut dyn Egress<T>,
    ) {
        let mut bytes = [0; wire::LONGEST];
        let len = seal(source, destination, message, &mut bytes);
        let Some(interface) = self.interface(id) else { return };
        let mut frame = [0; MAX_HEADERS + wire::LONGEST];
        let (link, rest) = frame.split_at_mut(ethernet::HEADER);
        ethernet::emit(ethernet::Carries::Ipv6, interface.mac(), to, link);
        v6::emit(&nd_header(source, destination, len), source, destination, rest);
        let end = MAX_HEADERS + len;
        frame[MAX_HEADERS..end].copy_from_slice(&bytes[..len]);
        self.emit(id, &frame[..end], &[], TxOffload::NONE, out);
    }

    /// Sends a message to a neighbour whose hardware address may have to be asked for first.
    fn answer_nd(
        &mut self,
        now: Instant,
        id: InterfaceId,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        message: &Outgoing,
        out: &mut dyn Egress<T>,
    ) {
        let mut bytes = [0; wire::LONGEST];
        let len = seal(source, destination, message, &mut bytes);
        let header = nd_header(source, destination, len);
        let to = ip::scoped(destination.into(), 0, id);
        let fill = |payload: &mut [u8]| payload.copy_from_slice(&bytes[..len]);
        self.answer(now, &to, &header, fill, out);
    }
}

fn nd_header(source: Ipv6Addr, destination: Ipv6Addr, len: usize) -> ip::Header {
    ip::Header {
        source: source.into(),
        destination: destination.into(),
        protocol: IpProtocol::Icmpv6,
        ttl: wire::HOP_LIMIT,
        tos: 0,
        flow: 0,
        payload_len: len,
    }
}

/// Writes a message with its checksum, and gives its length.
fn seal(
    source: Ipv6Addr,
    destination: Ipv6Addr,
    message: &Outgoing,
    out: &mut [u8; wire::LONGEST],
) -> usize {
    let len = message.emit(out);
    let pseudo = ip::pseudo_sum(source.into(), destination.into(), IpProtocol::Icmpv6, len);
    let sum = !checksum::combine(&[pseudo, checksum::data(&out[..len])]);
    out[2..4].copy_from_slice(&sum.to_be_bytes());
    len
}
