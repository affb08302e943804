//! What all protocols share: interfaces, routes, neighbours, timers, counters, and the way out.
//!
//! A packet leaves in three steps: [`Net::find`] gives the path to its destination, [`Net::link`]
//! the hardware address to send it to (or starts asking for it), [`Net::emit`] hands the frame
//! over. What belongs to a socket does the steps itself, so that it keeps its data until the frame
//! really leaves; answers without a socket go through [`Net::answer`] and may be dropped.

use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use smoltcp::wire::EthernetAddress;

use crate::bytes::{Egress, TxBytes, TxPiece};
use crate::config::Config;
use crate::counters::Counters;
use crate::error::Error;
use crate::interface::{Interface, InterfaceId};
use crate::ip::cidr::Cidr;
use crate::ip::route::{Hop, Path, Route, Routes};
use crate::ip::{self, v4, v6};
use crate::limit::RateLimit;
use crate::link::arp::{self, Due, Key, Lookup, Neighbours, Pending, Waiters};
use crate::link::ethernet::{self, Carries, Mac};
use crate::loopback::Loopback;
use crate::secret::KeyedHash;
use crate::sockets::table::Handle;
use crate::time::Instant;
use crate::wheel::Wheel;

/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    Socket(Handle),
    Neighbour(Key),
    /// A connection request's.
    Request(Handle),
    /// The time of the fragments of some packet is over.
    Reassembly,
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
pub(crate) const NOBODY: Mac = EthernetAddress([0; 6]);

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
    pub(crate) icmp_limit: RateLimit,
    pub(crate) ttl: u8,
    pub(crate) loopback: Loopback,
}

impl<T: TxBytes> Net<T> {
    pub(crate) fn new(config: &Config, hash: KeyedHash) -> Self {
        Self {
            interfaces: Vec::new(),
            routes: Routes::new(config.routes),
            neighbours: Neighbours::new(hash, config.neighbours, config.neighbour_queue),
            wheel: Wheel::new(),
            counters: Counters::default(),
            icmp_limit: RateLimit::new(config.icmp_per_second, config.icmp_burst),
            ttl: config.ttl.max(1),
            loopback: Loopback::new(config.loopback_frames, config.loopback_bytes),
        }
    }

    pub(crate) fn interface(&self, id: InterfaceId) -> Option<&Interface> {
        self.interfaces.get(usize::from(id.0))
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

    /// See [`Stack::add_address`](crate::Stack::add_address).
    pub(crate) fn add_address(
        &mut self,
        id: InterfaceId,
        address: Cidr,
        limit: usize,
    ) -> Result<(), Error> {
        let address = Cidr::new(address.address.to_canonical(), address.prefix);
        let ip = address.address;
        let everywhere = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
        if ip.is_unspecified() || ip.is_multicast() || everywhere {
            return Err(Error::Invalid);
        }
        let elsewhere = !ip::is_link_scope(ip) && self.is_ours(ip);
        let interface = self.interfaces.get_mut(usize::from(id.0)).ok_or(Error::BadHandle)?;
        if elsewhere || interface.has(ip) {
            return Err(Error::AddrInUse);
        }
        if interface.addresses.len() >= limit {
            return Err(Error::NoBuffers);
        }
        self.routes.add(Route::on_link(address, id))?;
        interface.addresses.push(address);
        Ok(())
    }

    /// See [`Stack::remove_address`](crate::Stack::remove_address).
    pub(crate) fn remove_address(&mut self, id: InterfaceId, ip: IpAddr) -> Result<(), Error> {
        let interface = self.interfaces.get_mut(usize::from(id.0)).ok_or(Error::BadHandle)?;
        let mut all = interface.addresses.iter();
        let place = all.position(|ours| ours.address == ip).ok_or(Error::AddrNotAvailable)?;
        let network = interface.addresses.remove(place).network();
        if !interface.addresses.iter().any(|ours| ours.network() == network) {
            self.routes.remove(&Route::on_link(network, id));
        }
        Ok(())
    }

    /// See [`Stack::add_route`](crate::Stack::add_route).
    pub(crate) fn add_route(&mut self, route: Route) -> Result<(), Error> {
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
            if !on_link && !ip::is_link_scope(gateway) {
                return Err(Error::NetUnreachable);
            }
        }
        self.routes.add(route)
    }

    /// The path to `destination`; the port does not matter.
    pub(crate) fn find(&mut self, destination: &SocketAddr) -> Result<Path, Error> {
        let found = self.routes.find(destination, &self.interfaces);
        self.counters.ip_no_route += u64::from(found.is_err());
        found
    }

    /// The hardware address at the start of `path`; asks for it if it is not known or old.
    pub(crate) fn link(&mut self, now: Instant, path: &Path, out: &mut dyn Egress<T>) -> Link {
        let address = match path.hop {
            Hop::Group(mac) => return Link::Ready(mac),
            Hop::Local => return Link::Ready(NOBODY),
            Hop::Neighbour(address) => address,
        };
        let key = Key { interface: path.interface, address };
        match self.neighbours.look_up(now, key) {
            Lookup::Known { mac, probe: false } => Link::Ready(mac),
            Lookup::Known { mac, probe: true } => {
                self.ask(now, key, Some(mac), out);
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

    /// Sends an ARP request, to all or to the address last known, and arms the neighbour's timer.
    fn ask(&mut self, now: Instant, key: Key, mac: Option<Mac>, out: &mut dyn Egress<T>) {
        self.send_arp(key, mac.unwrap_or(Mac::BROADCAST), out);
        self.arm_neighbour(now + arp::INTERVAL, key);
    }

    fn arm_neighbour(&mut self, at: Instant, key: Key) {
        let timer = self.wheel.arm(at, Timer::Neighbour(key));
        if let Some(old) = self.neighbours.set_timer(key, timer) {
            self.wheel.cancel(old);
        }
    }

    /// Sends an ARP request for `key` to the hardware address `to`.
    fn send_arp(&mut self, key: Key, to: Mac, out: &mut dyn Egress<T>) {
        let Some(interface) = self.interface(key.interface) else { return };
        let IpAddr::V4(target) = key.address else { return };
        let source = match interface.source_for(key.address) {
            Some(IpAddr::V4(source)) => source,
            _ => return,
        };
        let frame = arp_frame((source, interface.mac()), target, to, None);
        self.emit(key.interface, &frame, &[], out);
    }

    /// A neighbour's timer has fired; gives who waited in vain.
    pub(crate) fn neighbour_due(
        &mut self,
        now: Instant,
        key: Key,
        out: &mut dyn Egress<T>,
    ) -> Option<Waiters<T>> {
        match self.neighbours.due(key) {
            Due::Ask(mac) => self.ask(now, key, mac, out),
            Due::Wait => self.arm_neighbour(now + arp::AGE, key),
            Due::Forgotten => {}
            Due::Failed(waiters) => {
                self.counters.arp_failed += 1;
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
    ) -> Option<(Key, Mac, Waiters<T>)> {
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
        // An address probe (RFC 5227 2.1.1) has no sender; it is answered and nothing learnt.
        let waiters = if packet.sender.is_unspecified() {
            None
        } else {
            let create = for_us && interface.is_on_link(key.address);
            self.learn(now, key, packet.sender_mac, create)
        };
        if packet.is_request && for_us {
            let ours = (packet.target, mac);
            let to = packet.sender_mac;
            self.emit(id, &arp_frame(ours, packet.sender, to, Some(to)), &[], out);
        }
        Some((key, packet.sender_mac, waiters?))
    }

    fn learn(&mut self, now: Instant, key: Key, mac: Mac, create: bool) -> Option<Waiters<T>> {
        let (waiters, timer) = self.neighbours.learn(now, key, mac, create)?;
        if let Some(timer) = timer {
            self.wheel.cancel(timer);
        }
        self.arm_neighbour(now + arp::AGE, key);
        Some(waiters)
    }

    /// Writes the Ethernet and IP headers to the start of `head`: [`headers`] bytes.
    pub(crate) fn write_headers(&self, path: &Path, to: Mac, ip: &ip::Header, head: &mut [u8]) {
        let mac = self.interface(path.interface).map_or(NOBODY, Interface::mac);
        let (link, network) = head.split_at_mut(ethernet::HEADER);
        match (ip.source, ip.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                ethernet::emit(Carries::Ipv4, mac, to, link);
                v4::emit(ip, source, destination, network);
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                ethernet::emit(Carries::Ipv6, mac, to, link);
                v6::emit(ip, source, destination, network);
            }
            // Nothing has ends of two families.
            _ => {}
        }
    }

    /// Whether a frame can be sent on `interface` now.
    pub(crate) fn has_room(&self, interface: InterfaceId, out: &mut dyn Egress<T>) -> bool {
        if interface == InterfaceId::LOOPBACK { self.loopback.has_room() } else { out.ready() }
    }

    /// Hands a frame to the egress, or to ourselves, or drops it if there is no room.
    pub(crate) fn emit(
        &mut self,
        interface: InterfaceId,
        head: &[u8],
        body: &[TxPiece<'_, T>],
        out: &mut dyn Egress<T>,
    ) {
        if interface == InterfaceId::LOOPBACK {
            if self.loopback.has_room() {
                self.counters.loopback_packets += 1;
                self.counters.copied_loopback += self.loopback.push(head, body) as u64;
            } else {
                self.counters.loopback_no_room += 1;
            }
        } else if out.ready() {
            self.counters.frames_out += 1;
            out.emit(interface, head, body);
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
        let link = self.link(now, &path, out);
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
            _ => self.emit(path.exit(), &head, &[], out),
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
