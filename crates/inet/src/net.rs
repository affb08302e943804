//! What all protocols share: interfaces, routes, neighbours, timers, counters, and the way out.
//!
//! A packet leaves in three steps: [`Net::find`] gives the path to its destination, [`Net::link`]
//! the hardware address to send it to (or starts asking for it), [`Net::emit`] hands the frame
//! over. What belongs to a socket does the steps itself, so that it keeps its data until the frame
//! really leaves; answers without a socket go through [`Net::answer`] and may be dropped.

use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use crate::bytes::{Egress, TxPiece};
use crate::config::Config;
use crate::counters::Counters;
use crate::error::Error;
use crate::interface::{Interface, InterfaceId};
use crate::ip::route::{Hop, Path, Routes};
use crate::ip::v4;
use crate::limit::RateLimit;
use crate::link::arp::{self, Due, Key, Lookup, Neighbours, Pending, Waiters};
use crate::link::ethernet::{self, Carries, Mac};
use crate::secret::KeyedHash;
use crate::sockets::table::Handle;
use crate::time::Instant;
use crate::wheel::Wheel;

/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    Socket(Handle),
    Neighbour(Key),
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

/// Length of an Ethernet and an IPv4 header, bytes.
pub(crate) const HEADERS: usize = ethernet::HEADER + v4::HEADER;

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
}

impl<T> Net<T> {
    pub(crate) fn new(config: &Config, hash: KeyedHash) -> Self {
        Self {
            interfaces: Vec::new(),
            routes: Routes::default(),
            neighbours: Neighbours::new(hash, config.neighbours, config.neighbour_queue),
            wheel: Wheel::new(),
            counters: Counters::default(),
            icmp_limit: RateLimit::new(config.icmp_per_second, config.icmp_burst),
            ttl: config.ttl.max(1),
        }
    }

    pub(crate) fn interface(&self, id: InterfaceId) -> Option<&Interface> {
        self.interfaces.get(usize::from(id.0))
    }

    /// Whether `address` is one of ours.
    pub(crate) fn is_ours(&self, address: Ipv4Addr) -> bool {
        self.interfaces.iter().any(|interface| interface.config.address == address)
    }

    /// The path to `destination`.
    pub(crate) fn find(&mut self, destination: Ipv4Addr) -> Result<Path, Error> {
        let found = self.routes.find(destination, &self.interfaces);
        self.counters.ip_no_route += u64::from(found.is_err());
        found
    }

    /// The hardware address at the start of `path`; asks for it if it is not known or old.
    pub(crate) fn link(&mut self, now: Instant, path: &Path, out: &mut dyn Egress<T>) -> Link {
        let address = match path.hop {
            Hop::Group(mac) => return Link::Ready(mac),
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
        self.send_arp(key, mac.unwrap_or(Mac::BROADCAST), None, out);
        self.arm_neighbour(now + arp::INTERVAL, key);
    }

    fn arm_neighbour(&mut self, at: Instant, key: Key) {
        let timer = self.wheel.arm(at, Timer::Neighbour(key));
        if let Some(old) = self.neighbours.set_timer(key, timer) {
            self.wheel.cancel(old);
        }
    }

    /// Sends an ARP packet about `key` to the hardware address `to`: the answer to `reply_to`, else
    /// a request.
    fn send_arp(&mut self, key: Key, to: Mac, reply_to: Option<Mac>, out: &mut dyn Egress<T>) {
        let Some(interface) = self.interface(key.interface) else { return };
        let ours = (interface.config.address, interface.mac());
        let mut frame = [0; ethernet::HEADER + arp::PACKET];
        let (head, packet) = frame.split_at_mut(ethernet::HEADER);
        ethernet::emit(Carries::Arp, ours.1, to, head);
        arp::emit(ours, key.address, reply_to, packet);
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
        let ours = interface.config.address;
        if packet.sender == ours {
            self.counters.arp_conflicts += 1;
            return None;
        }
        let key = Key { interface: id, address: packet.sender };
        let for_us = packet.target == ours;
        // An address probe (RFC 5227 2.1.1) has no sender; it is answered and nothing learnt.
        let waiters = if packet.sender.is_unspecified() {
            None
        } else {
            let create = for_us && interface.is_on_link(packet.sender);
            self.learn(now, key, packet.sender_mac, create)
        };
        if packet.is_request && for_us {
            self.send_arp(key, packet.sender_mac, Some(packet.sender_mac), out);
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

    /// Writes the Ethernet and IPv4 headers into the first [`HEADERS`] bytes of `head`.
    pub(crate) fn write_headers(&self, path: &Path, to: Mac, ip: &v4::Header, head: &mut [u8]) {
        let Some(interface) = self.interface(path.interface) else { return };
        let (link, network) = head.split_at_mut(ethernet::HEADER);
        ethernet::emit(Carries::Ipv4, interface.mac(), to, link);
        ip.emit(network);
    }

    /// Hands a frame to the egress, or drops it if there is no room.
    pub(crate) fn emit(
        &mut self,
        interface: InterfaceId,
        head: &[u8],
        body: &[TxPiece<'_, T>],
        out: &mut dyn Egress<T>,
    ) {
        if out.ready() {
            self.counters.frames_out += 1;
            out.emit(interface, head, body);
        } else {
            self.counters.no_room += 1;
        }
    }

    /// Sends a packet of which `ip` is the header and `fill` writes the payload of `ip.payload_len`
    /// bytes. It waits for its neighbour if need be; it is dropped if there is no way or no room.
    pub(crate) fn answer(
        &mut self,
        now: Instant,
        ip: &v4::Header,
        fill: impl FnOnce(&mut [u8]),
        out: &mut dyn Egress<T>,
    ) {
        let Ok(path) = self.find(ip.destination) else { return };
        if v4::HEADER + ip.payload_len > usize::from(path.mtu) {
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
        let mut head = vec![0; HEADERS + ip.payload_len];
        self.write_headers(&path, to, ip, &mut head);
        if let Some(payload) = head.get_mut(HEADERS..) {
            fill(payload);
        }
        match link {
            Link::Asking(key) => {
                let displaced = self.neighbours.park(key, Pending { head, datagram: None });
                self.counters.arp_dropped += u64::from(displaced.is_some());
            }
            _ => self.emit(path.interface, &head, &[], out),
        }
    }
}
