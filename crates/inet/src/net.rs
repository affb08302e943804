//! What all protocols share: interfaces, routes, neighbours, timers, counters, and the way out.
//!
//! A packet leaves in three steps: [`Net::find`] gives the path to its destination, [`Net::link`]
//! the hardware address to send it to (or starts asking for it), [`Net::emit`] hands the frame
//! over. What belongs to a socket does the steps itself, so that it keeps its data until the frame
//! really leaves; answers without a socket go through [`Net::answer`] and may be dropped.

use alloc::vec;
use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use smoltcp::wire::EthernetAddress;

use crate::bytes::{Egress, Stage, TxBytes, TxPiece};
use crate::config::{Config, V6Config};
use crate::counters::Counters;
use crate::error::Error;
use crate::interface::Interface;
use crate::interface_id::InterfaceId;
use crate::ip::groups::table::GroupTable;
use crate::ip::route::{Hop, Path, Routes};
use crate::ip::{self, v4, v6};
use crate::limit::RateLimit;
use crate::link::arp;
use crate::link::ethernet::{self, Carries, Mac};
use crate::link::neighbour::{
    Advert, Due, Key, Learnt, Lookup, Neighbours, Pending, Times, Waiters,
};
use crate::loopback::Loopback;
use crate::nd::Found;
use crate::offload::{Features, TxOffload};
use crate::secret::{KeyedHash, Secret};
use crate::table::Handle;
use crate::time::Instant;
use crate::wheel::Wheel;

/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    Socket(Handle),
    Neighbour(Key),
    /// A connection request's.
    Request(Handle),
    /// TIME-WAIT of a closed connection ends.
    TimeWait(Handle),
    /// The time of the fragments of some packet is over.
    Reassembly,
    /// What is to come on an interface's link (`nd`).
    Link(InterfaceId),
    /// Reports about multicast groups are due.
    Groups,
    /// Something is to be done about addresses (`dhcp`).
    Addressing,
}

/// Whether a packet can leave over its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    /// To this hardware address.
    Ready(Mac),
    /// This neighbour is being asked for it.
    Asking(Key),
    /// There is no room to ask.
    Full,
}

/// The hardware address of the interface to ourselves.
const NOBODY: Mac = EthernetAddress([0; 6]);

/// Room for an Ethernet and an IP header of either version, bytes.
pub(crate) const MAX_HEADERS: usize = ethernet::HEADER + v6::HEADER;

/// Length of the Ethernet and the IP header of packets to `destination`, bytes.
pub(crate) fn headers(destination: IpAddr) -> usize {
    ethernet::HEADER + ip::header_len(destination)
}

/// The shared layers of one stack.
#[derive(Debug)]
pub(crate) struct Net<T> {
    pub(crate) interfaces: Vec<Interface>,
    pub(crate) routes: Routes,
    pub(crate) neighbours: Neighbours<T>,
    pub(crate) wheel: Wheel<Timer>,
    pub(crate) counters: Counters,
    /// The egress is told of the stages of segments.
    pub(crate) traced: bool,
    pub(crate) icmp_limit: RateLimit,
    pub(crate) ttl: u8,
    pub(crate) loopback: Loopback,
    /// Most addresses of an interface.
    pub(crate) most_addresses: usize,
    pub(crate) v6: V6Config,
    /// Of unpredictable numbers, and how many were drawn.
    pub(crate) random: KeyedHash,
    pub(crate) drawn: u64,
    pub(crate) groups: GroupTable,
    /// Of fragments: counters by destination.
    ids: [u32; 64],
    /// The time of the last call that had one.
    pub(crate) clock: Instant,
}

impl<T: TxBytes> Net<T> {
    pub(crate) fn new(config: &Config, secret: &Secret) -> Self {
        Self {
            interfaces: Vec::new(),
            routes: Routes::new(config.routes),
            neighbours: Neighbours::new(secret.tables(), config.neighbours, config.neighbour_queue),
            wheel: Wheel::new(),
            counters: Counters::default(),
            traced: false,
            icmp_limit: RateLimit::new(config.icmp_per_second, config.icmp_burst),
            ttl: config.ttl.max(1),
            loopback: Loopback::new(config.loopback_frames, config.loopback_bytes),
            most_addresses: config.addresses,
            v6: config.v6,
            random: secret.links(),
            drawn: 0,
            groups: GroupTable::new(config.groups),
            ids: [0; 64],
            clock: Instant::ZERO,
        }
    }

    pub(crate) fn interface(&self, id: InterfaceId) -> Option<&Interface> {
        self.interfaces.get(usize::from(id.0))
    }

    pub(crate) fn interface_mut(&mut self, id: InterfaceId) -> Option<&mut Interface> {
        self.interfaces.get_mut(usize::from(id.0))
    }

    /// What an interface does for frames. Nobody checks what is sent to ourselves.
    pub(crate) fn features(&self, id: InterfaceId) -> Features {
        match self.interface(id) {
            Some(interface) => interface.features,
            None => Features { tx_checksum: id == InterfaceId::LOOPBACK, ..Features::default() },
        }
    }

    /// Whether `address` is one of ours.
    pub(crate) fn is_ours(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.interfaces.iter().any(|interface| interface.has(address))
    }

    /// Whether `address` is one of ours, on the link that it names if it names one.
    pub(crate) fn is_ours_at(&self, address: &SocketAddr) -> bool {
        match ip::link_of(address) {
            Some(id) => self.interface(id).is_some_and(|interface| interface.has(address.ip())),
            None => self.is_ours(address.ip()),
        }
    }

    /// Hops of IPv6 packets that leave by an interface.
    pub(crate) fn hop_limit(&self, id: InterfaceId) -> u8 {
        let said = self.interface(id).and_then(|interface| interface.link.hop_limit);
        said.unwrap_or(self.v6.hop_limit.max(1))
    }

    /// The path to `destination`; the port does not matter.
    pub(crate) fn find(&mut self, destination: &SocketAddr) -> Result<Path, Error> {
        self.find_by(destination, None)
    }

    /// The same, over the interface `via` if it is given.
    pub(crate) fn find_by(
        &mut self,
        destination: &SocketAddr,
        via: Option<InterfaceId>,
    ) -> Result<Path, Error> {
        let found = self.routes.find(destination, via, &self.interfaces);
        self.counters.ip_no_route += u64::from(found.is_err());
        found
    }

    /// The hardware address at the start of `path`; asks for it if it is not known. `progress`:
    /// what was sent there before has arrived.
    pub(crate) fn link(
        &mut self,
        now: Instant,
        path: &Path,
        progress: bool,
        out: &mut dyn Egress<T>,
    ) -> Link {
        let address = match path.hop {
            Hop::Group(mac) => return Link::Ready(mac),
            Hop::Local => return Link::Ready(NOBODY),
            Hop::Neighbour(address) => address,
        };
        let key = Key { interface: path.interface, address };
        let times = self.times(key);
        match self.neighbours.look_up(now, key, progress, &times) {
            Lookup::Known { mac, timer } => {
                if let Some(timer) = timer {
                    self.arm_neighbour(now + timer, key);
                }
                Link::Ready(mac)
            }
            Lookup::Asking => Link::Asking(key),
            Lookup::Absent => {
                let Some(freed) = self.neighbours.ask(key) else { return Link::Full };
                if let Some(timer) = freed {
                    self.wheel.cancel(timer);
                }
                self.ask(now, key, None, out);
                Link::Asking(key)
            }
        }
    }

    /// Asks all, or the address last known, and arms the neighbour's timer.
    fn ask(&mut self, now: Instant, key: Key, mac: Option<Mac>, out: &mut dyn Egress<T>) {
        match key.address {
            IpAddr::V4(target) => {
                self.send_arp(key.interface, target, mac.unwrap_or(Mac::BROADCAST), out);
            }
            IpAddr::V6(target) => self.send_solicitation(key.interface, target, mac, out),
        }
        let retrans = self.times(key).retrans;
        self.arm_neighbour(now + retrans, key);
    }

    /// The times of a neighbour's link.
    fn times(&self, key: Key) -> Times {
        match (key.address, self.interface(key.interface)) {
            (IpAddr::V6(_), Some(interface)) => interface.link.times,
            _ => Times::default(),
        }
    }

    fn arm_neighbour(&mut self, at: Instant, key: Key) {
        let timer = self.wheel.arm(at, Timer::Neighbour(key));
        if let Some(old) = self.neighbours.set_timer(key, timer) {
            self.wheel.cancel(old);
        }
    }

    /// Sends an ARP request for `target` to the hardware address `to`.
    fn send_arp(&mut self, id: InterfaceId, target: Ipv4Addr, to: Mac, out: &mut dyn Egress<T>) {
        let Some(interface) = self.interface(id) else { return };
        let Some(IpAddr::V4(source)) = interface.v4_source_for(target.into()) else { return };
        let frame = arp_frame((source, interface.mac()), target, to, None);
        self.emit(id, &frame, &[], TxOffload::NONE, out);
    }

    /// A neighbour's timer has fired; gives who waited in vain.
    pub(crate) fn neighbour_due(
        &mut self,
        now: Instant,
        key: Key,
        out: &mut dyn Egress<T>,
    ) -> Option<Waiters<T>> {
        match self.neighbours.due(now, key) {
            Due::Ask(mac) => self.ask(now, key, mac, out),
            Due::Wait(time) => self.arm_neighbour(now + time, key),
            Due::Forgotten => {}
            Due::Failed(waiters) => {
                self.counters.arp_failed += 1;
                if let IpAddr::V6(address) = key.address {
                    self.router_answers(key.interface, address, false);
                }
                return Some(waiters);
            }
        }
        None
    }

    /// Takes an ARP packet; gives who waited for its sender.
    pub(crate) fn handle_arp(
        &mut self,
        now: Instant,
        id: InterfaceId,
        bytes: &[u8],
        out: &mut dyn Egress<T>,
    ) -> Option<Found<T>> {
        let Some(packet) = arp::parse(bytes) else {
            self.counters.arp_malformed += 1;
            return None;
        };
        let interface = self.interface(id)?;
        if interface.has(packet.sender.into()) {
            self.counters.arp_conflicts += 1;
            return None;
        }
        let mac = interface.mac();
        let key = Key { interface: id, address: packet.sender.into() };
        let for_us = interface.has(packet.target.into());
        let create = for_us && interface.is_on_link(key.address);
        // An address probe (RFC 5227 2.1.1) has no sender; it is answered and nothing learnt.
        let learnt = if packet.sender.is_unspecified() {
            None
        } else if !packet.is_request && for_us && self.neighbours.is_asked(key) {
            let mac = Some(packet.sender_mac);
            let answer = Advert { mac, solicited: true, overrides: true };
            self.neighbours.advertised(now, key, &answer, &Times::default())
        } else {
            self.neighbours.observe(now, key, packet.sender_mac, create)
        };
        if packet.is_request && for_us {
            let ours = (packet.target, mac);
            let to = packet.sender_mac;
            self.emit(id, &arp_frame(ours, packet.sender, to, Some(to)), &[], TxOffload::NONE, out);
        }
        Some(self.apply(now, key, learnt?))
    }

    /// Sets the timers that something learnt asks for.
    pub(crate) fn apply(&mut self, now: Instant, key: Key, learnt: Learnt<T>) -> Found<T> {
        if let Some(timer) = learnt.freed {
            self.wheel.cancel(timer);
        }
        self.arm_neighbour(now + learnt.timer, key);
        (key, learnt.mac, learnt.waiters)
    }

    /// Writes the Ethernet and IP headers to the start of `head`: [`headers`] bytes.
    pub(crate) fn write_headers(&self, path: &Path, to: Mac, ip: &ip::Header, head: &mut [u8]) {
        self.write_ip(ip, head);
        self.write_link(path, to, ip, head);
    }

    /// Writes the IP header behind the place of the Ethernet header.
    pub(crate) fn write_ip(&self, ip: &ip::Header, head: &mut [u8]) {
        let network = &mut head[ethernet::HEADER..];
        match (ip.source, ip.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                v4::emit(ip, source, destination, network);
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                v6::emit(ip, source, destination, network);
            }
            // Nothing has ends of two families.
            _ => {}
        }
    }

    /// Writes the Ethernet header.
    pub(crate) fn write_link(&self, path: &Path, to: Mac, ip: &ip::Header, head: &mut [u8]) {
        let mac = self.interface(path.interface).map_or(NOBODY, Interface::mac);
        let carries = if ip.source.is_ipv4() { Carries::Ipv4 } else { Carries::Ipv6 };
        ethernet::emit(carries, mac, to, head);
    }

    /// Tells the egress what begins, if somebody measures.
    #[inline]
    pub(crate) fn stage(&self, stage: Stage, out: &mut dyn Egress<T>) {
        if self.traced {
            out.stage(stage);
        }
    }

    /// Whether a frame can be sent on `interface` now.
    pub(crate) fn has_room(&self, interface: InterfaceId, out: &mut dyn Egress<T>) -> bool {
        if interface == InterfaceId::LOOPBACK { self.loopback.has_room() } else { out.ready() }
    }

    /// Gives a copy of a frame to a group or broadcast address to ourselves, if somebody here
    /// listens.
    pub(crate) fn loop_group(
        &mut self,
        path: &Path,
        to: IpAddr,
        head: &[u8],
        body: &[TxPiece<'_, T>],
    ) {
        let Hop::Group(_) = path.hop else { return };
        let heard = !to.is_multicast() || self.groups.admits(path.interface, to, path.source);
        if heard && self.loopback.has_room() {
            self.counters.loopback_packets += 1;
            self.counters.copied_loopback += self.loopback.push(path.interface, head, body) as u64;
        }
    }

    /// The identification of the next packet to `destination` that is cut or may be: from a counter
    /// that starts anywhere and is shared by few destinations (RFC 7739 5.3, RFC 6864). Of a
    /// super-segment those of all `packets` that it becomes follow each other.
    pub(crate) fn fragment_id(
        &mut self,
        secret: &mut Secret,
        destination: IpAddr,
        packets: u32,
    ) -> u32 {
        let place = usize::try_from(secret.tables().hash_one(destination) % 64).unwrap_or(0);
        let step = 1 + secret.below(8);
        let start = secret.below(u32::MAX);
        let Some(counter) = self.ids.get_mut(place) else { return start };
        let first = if *counter == 0 { start } else { counter.wrapping_add(step) };
        *counter = first.wrapping_add(packets.saturating_sub(1));
        first
    }

    /// The source of a report about groups that goes to `to`: of IPv6 a link-local address.
    pub(crate) fn report_source(&self, id: InterfaceId, to: IpAddr) -> IpAddr {
        let fits = |ip: &IpAddr| match ip {
            IpAddr::V4(_) => to.is_ipv4(),
            IpAddr::V6(ip) => to.is_ipv6() && ip.is_unicast_link_local(),
        };
        let addresses = self.interface(id).into_iter().flat_map(Interface::usable);
        addresses.into_iter().find(fits).unwrap_or(ip::wildcard(to))
    }

    /// Hands a frame to the egress, or to ourselves, or drops it if there is no room.
    pub(crate) fn emit(
        &mut self,
        interface: InterfaceId,
        head: &[u8],
        body: &[TxPiece<'_, T>],
        offload: TxOffload,
        out: &mut dyn Egress<T>,
    ) {
        if interface == InterfaceId::LOOPBACK {
            if self.loopback.has_room() {
                self.counters.loopback_packets += 1;
                self.counters.copied_loopback += self.loopback.push(interface, head, body) as u64;
            } else {
                self.counters.loopback_no_room += 1;
            }
        } else if out.ready() {
            self.counters.frames_out += 1;
            out.emit(interface, head, body, offload);
        } else {
            self.counters.no_room += 1;
        }
    }

    /// Sends a packet to `to` of which `ip` is the header and `fill` writes the payload of
    /// `ip.payload_len` bytes. It waits for its neighbour if need be; it is dropped if there
    /// is no way or no room.
    pub(crate) fn answer(
        &mut self,
        now: Instant,
        to: &SocketAddr,
        ip: &ip::Header,
        fill: impl FnOnce(&mut [u8]),
        out: &mut dyn Egress<T>,
    ) {
        let Ok(path) = self.find(to) else { return };
        let headers = headers(ip.destination);
        if headers - ethernet::HEADER + ip.payload_len > usize::from(path.mtu) {
            self.counters.no_room += 1;
            return;
        }
        let link = self.link(now, &path, false, out);
        let to = match link {
            Link::Ready(mac) => mac,
            Link::Asking(_) => Mac::BROADCAST,
            Link::Full => {
                self.counters.arp_dropped += 1;
                return;
            }
        };
        let mut head = vec![0; headers + ip.payload_len];
        self.write_headers(&path, to, ip, &mut head);
        if let Some(payload) = head.get_mut(headers..) {
            fill(payload);
        }
        match link {
            Link::Asking(key) => {
                let displaced = self.neighbours.park(key, Pending { head, datagram: None });
                self.counters.arp_dropped += u64::from(displaced.is_some());
            }
            _ => self.emit(path.exit(), &head, &[], TxOffload::NONE, out),
        }
    }
}

/// A frame with an ARP packet from `ours` to the hardware address `to`: the answer to `reply_to`,
/// else a request for `target`.
fn arp_frame(
    ours: (Ipv4Addr, Mac),
    target: Ipv4Addr,
    to: Mac,
    reply_to: Option<Mac>,
) -> [u8; ethernet::HEADER + arp::PACKET] {
    let mut frame = [0; ethernet::HEADER + arp::PACKET];
    let (head, packet) = frame.split_at_mut(ethernet::HEADER);
    ethernet::emit(Carries::Arp, ours.1, to, head);
    arp::emit(ours, target, reply_to, packet);
    frame
}
