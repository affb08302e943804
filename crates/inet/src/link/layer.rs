//! The link layer of one stack: its tables, and frames in and out.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use smoltcp::wire::EthernetAddress;

use super::acd::Acd;
use super::arp;
use super::conflicts::{AddressConflict, ArpProbe, ConflictDetector, ConflictStep};
use super::ethernet::{self, EtherPayload, IgnoreReason, Mac, ReceivedFrame};
use super::interfaces::{Interface, Interfaces};
use super::loopback::Loopback;
use super::neighbour::{
    Advert, Lookup, NeighbourDue, NeighbourInfo, NeighbourTimes, NeighbourUpdate, Neighbours,
};
use crate::bytes::{Egress, ProcessingStage, TxBytes, TxPiece};
use crate::config::{AcdConfig, Config};
use crate::interface_id::{InterfaceId, NeighbourKey};
use crate::offload::TxOffload;
use crate::owner_id::OwnerId;
use crate::secret::Secret;
use crate::time::Instant;
use crate::timers::{Timer, Timers};

counters! { LinkCounters:
    frames_in "link.frames-in" "Frames given to the core."
    bytes_in "link.bytes-in" "Their bytes."
    frames_out "link.frames-out" "Frames given to the egress."
    no_room "link.answers-without-room" "Answers dropped because the egress was full."
    eth_malformed "eth.malformed" "Frames too short or from a group address."
    eth_not_ours "eth.not-ours" "Frames to other hosts' hardware addresses."
    eth_unknown "eth.unknown-type" "Frames of other protocols."
    arp_malformed "arp.malformed" "ARP packets of other kinds, or with impossible addresses."
    arp_conflicts "arp.conflicts" "ARP packets whose sender claims one of our addresses."
    arp_lost "arp.addresses-lost" "Addresses given up because another host has them."
    arp_failed "arp.failed" "Neighbours that did not answer."
    arp_dropped "arp.dropped-waiting" "Packets dropped because their neighbour was unknown."
    loopback_packets "loopback.packets" "Packets sent to ourselves."
    copied_loopback "copy.loopback-bytes" "Payload bytes copied to be sent to ourselves."
    loopback_no_room "loopback.dropped" "Answers to ourselves dropped because too many waited."
}

/// The hardware address of the loopback interface.
pub(crate) const LOOPBACK_MAC: Mac = EthernetAddress([0; 6]);

/// How an unknown neighbour is resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resolution {
    /// It is being asked.
    Asking,
    /// It is to be asked with a Neighbour Solicitation.
    Solicit,
    /// There is no room to ask.
    Full,
}

/// A neighbour is resolved, and frames that waited for it have left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResolvedNeighbour {
    pub(crate) neighbour: NeighbourKey,
    pub(crate) mac: Mac,
}

/// The action for a neighbour that has not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnansweredNeighbour {
    /// Send a Neighbour Solicitation to this hardware address, or to its group.
    Solicit(Ipv6Target),
    /// The neighbour cannot be reached.
    Failed(NeighbourKey),
}

/// The target of a Neighbour Solicitation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ipv6Target {
    pub(crate) neighbour: NeighbourKey,
    pub(crate) mac: Option<Mac>,
}

/// The link layer of one stack.
#[derive(Debug)]
pub(crate) struct LinkLayer {
    interfaces: Interfaces,
    neighbours: Neighbours,
    loopback: Loopback,
    conflicts: ConflictDetector,
    /// The egress is notified of processing steps.
    traced: bool,
    counters: LinkCounters,
}

impl LinkLayer {
    pub(crate) fn new(config: &Config, secret: &Secret) -> Self {
        Self {
            interfaces: Interfaces::default(),
            neighbours: Neighbours::new(secret.tables(), config.neighbours, config.neighbour_queue),
            loopback: Loopback::new(config.loopback_frames, config.loopback_bytes),
            conflicts: ConflictDetector::default(),
            traced: false,
            counters: LinkCounters::default(),
        }
    }

    pub(crate) fn interfaces(&self) -> &Interfaces {
        &self.interfaces
    }

    pub(crate) fn interfaces_mut(&mut self) -> &mut Interfaces {
        &mut self.interfaces
    }

    pub(crate) fn interface(&self, id: InterfaceId) -> Option<&Interface> {
        self.interfaces.get(id)
    }

    pub(crate) fn interface_mut(&mut self, id: InterfaceId) -> Option<&mut Interface> {
        self.interfaces.get_mut(id)
    }

    /// Name and value of each counter.
    pub(crate) fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        self.counters.iter()
    }

    /// Sets whether the egress is notified of processing steps.
    pub(crate) fn set_traced(&mut self, traced: bool) {
        self.traced = traced;
    }

    /// Notifies the egress of the step that begins, while steps are measured.
    #[inline]
    pub(crate) fn stage<T>(&self, stage: ProcessingStage, out: &mut dyn Egress<T>) {
        if self.traced {
            out.stage(stage);
        }
    }

    /// Reads the header of a received frame of `len` bytes. `None`, and counted, if the frame is
    /// not for this host.
    pub(crate) fn handle_frame(
        &mut self,
        id: InterfaceId,
        head: &[u8],
        len: usize,
    ) -> Option<ReceivedFrame> {
        let mac = self.interfaces.get(id)?.mac();
        let counters = &mut self.counters;
        counters.frames_in += 1;
        counters.bytes_in += len as u64;
        match ethernet::parse(head, mac) {
            Ok(received) => return Some(received),
            Err(IgnoreReason::Malformed) => counters.eth_malformed += 1,
            Err(IgnoreReason::NotOurs) => counters.eth_not_ours += 1,
            Err(IgnoreReason::UnknownType) => counters.eth_unknown += 1,
        }
        None
    }

    /// Whether a frame can be sent on `interface` now.
    pub(crate) fn has_room<T>(&self, interface: InterfaceId, out: &mut dyn Egress<T>) -> bool {
        if interface == InterfaceId::LOOPBACK {
            self.loopback.has_room()
        } else {
            out.ready(interface)
        }
    }

    /// Whether the loopback queue has room for a frame.
    pub(crate) fn has_loopback_room(&self) -> bool {
        self.loopback.has_room()
    }

    /// Frames in the loopback queue.
    pub(crate) fn loopback_len(&self) -> usize {
        self.loopback.len()
    }

    /// The next frame of the loopback queue, its payload type, and the interface that it seems to
    /// come from.
    pub(crate) fn poll_loopback(&mut self) -> Option<(InterfaceId, Box<[u8]>, EtherPayload)> {
        loop {
            let (interface, frame) = self.loopback.pop()?;
            match ethernet::carries(&frame) {
                Some(carries) => return Some((interface, frame, carries)),
                None => self.counters.eth_unknown += 1,
            }
        }
    }

    /// Hands a frame to the egress or to the loopback queue, or drops it if there is no room.
    #[inline(always)]
    pub(crate) fn emit<T: TxBytes>(
        &mut self,
        interface: InterfaceId,
        head: &[u8],
        body: &[TxPiece<'_, T>],
        offload: TxOffload,
        out: &mut dyn Egress<T>,
    ) {
        if interface == InterfaceId::LOOPBACK {
            if self.loopback.has_room() {
                self.loop_frame(interface, head, body);
            } else {
                self.counters.loopback_no_room += 1;
            }
        } else if out.emit(interface, head, body, offload) {
            self.counters.frames_out += 1;
        } else {
            self.counters.no_room += 1;
        }
    }

    /// Puts a copy of a frame into the loopback queue; it is to seem to come from `interface`.
    pub(crate) fn loop_frame<T: TxBytes>(
        &mut self,
        interface: InterfaceId,
        head: &[u8],
        body: &[TxPiece<'_, T>],
    ) {
        self.counters.loopback_packets += 1;
        self.counters.copied_loopback += self.loopback.push(interface, head, body) as u64;
    }

    /// Writes the Ethernet header of a packet of a family that leaves by an interface.
    pub(crate) fn write_header(
        &self,
        id: InterfaceId,
        carries: EtherPayload,
        to: Mac,
        head: &mut [u8],
    ) {
        let mac = self.interfaces.get(id).map_or(LOOPBACK_MAC, Interface::mac);
        ethernet::emit(carries, mac, to, head);
    }

    /// Counts packets that were dropped because their neighbour has no known address, or for lack
    /// of room to wait.
    pub(crate) fn count_unresolved(&mut self, packets: u64) {
        self.counters.arp_dropped += packets;
    }

    /// Counts an answer that is longer than its path's MTU.
    pub(crate) fn count_no_room(&mut self) {
        self.counters.no_room += 1;
    }

    /// All neighbours, in no order.
    pub(crate) fn neighbours(&self) -> impl Iterator<Item = NeighbourInfo> {
        self.neighbours.all()
    }

    /// Forgets the neighbours of an interface, whose link may be another one now.
    pub(crate) fn forget_neighbours(&mut self, interface: InterfaceId, timers: &mut Timers) {
        for timer in self.neighbours.forget(interface) {
            timers.cancel(timer);
        }
    }

    /// The hardware address of a neighbour, if it is known. `progress`: an earlier packet to it has
    /// arrived.
    #[inline(always)]
    pub(crate) fn resolve(
        &mut self,
        now: Instant,
        key: NeighbourKey,
        progress: bool,
        timers: &mut Timers,
    ) -> Option<Mac> {
        let times = self.times(key);
        let Lookup::Known { mac, timer } = self.neighbours.look_up(now, key, progress, &times)
        else {
            return None;
        };
        if let Some(timer) = timer {
            self.arm(now + timer, key, timers);
        }
        Some(mac)
    }

    /// Starts to resolve a neighbour that is not known, unless that has begun. It counts for an
    /// owner.
    pub(crate) fn resolve_unknown<T: TxBytes>(
        &mut self,
        now: Instant,
        key: NeighbourKey,
        owner: OwnerId,
        timers: &mut Timers,
        out: &mut dyn Egress<T>,
    ) -> Resolution {
        if self.neighbours.contains(key) {
            return Resolution::Asking;
        }
        let Some(freed) = self.neighbours.ask(key, owner) else { return Resolution::Full };
        if let Some(timer) = freed {
            timers.cancel(timer);
        }
        match self.ask(now, key, None, timers, out) {
            None => Resolution::Asking,
            Some(_) => Resolution::Solicit,
        }
    }

    /// Asks all nodes, or the last known address, and arms the neighbour's timer. Gives the
    /// solicitation that the caller has to send.
    fn ask<T: TxBytes>(
        &mut self,
        now: Instant,
        key: NeighbourKey,
        mac: Option<Mac>,
        timers: &mut Timers,
        out: &mut dyn Egress<T>,
    ) -> Option<Ipv6Target> {
        let retrans = self.times(key).retrans;
        self.arm(now + retrans, key, timers);
        let IpAddr::V4(target) = key.address else {
            return Some(Ipv6Target { neighbour: key, mac });
        };
        self.send_request(key.interface, target, mac.unwrap_or(Mac::BROADCAST), out);
        None
    }

    /// The times of a neighbour's link.
    fn times(&self, key: NeighbourKey) -> NeighbourTimes {
        match (key.address, self.interfaces.get(key.interface)) {
            (IpAddr::V6(_), Some(interface)) => interface.parameters().times,
            _ => NeighbourTimes::default(),
        }
    }

    fn arm(&mut self, at: Instant, key: NeighbourKey, timers: &mut Timers) {
        let timer = timers.arm(at, Timer::Neighbour(key));
        if let Some(old) = self.neighbours.set_timer(key, timer) {
            timers.cancel(old);
        }
    }

    /// A neighbour's timer has fired.
    pub(crate) fn handle_neighbour_timer<T: TxBytes>(
        &mut self,
        now: Instant,
        key: NeighbourKey,
        timers: &mut Timers,
        out: &mut dyn Egress<T>,
    ) -> Option<UnansweredNeighbour> {
        match self.neighbours.due(now, key) {
            NeighbourDue::Ask(mac) => {
                return self.ask(now, key, mac, timers, out).map(UnansweredNeighbour::Solicit);
            }
            NeighbourDue::Wait(time) => self.arm(now + time, key, timers),
            NeighbourDue::Forgotten => {}
            NeighbourDue::Failed(waiting) => {
                self.counters.arp_failed += 1;
                self.counters.arp_dropped += waiting as u64;
                return Some(UnansweredNeighbour::Failed(key));
            }
        }
        None
    }

    /// Parks a frame, complete but for its destination, until the neighbour is resolved.
    pub(crate) fn park(&mut self, key: NeighbourKey, frame: Vec<u8>) {
        self.counters.arp_dropped += u64::from(!self.neighbours.park(key, frame));
    }

    /// A neighbour was seen with this hardware address: see [`Neighbours::observe`].
    pub(crate) fn observe<T: TxBytes>(
        &mut self,
        now: Instant,
        key: NeighbourKey,
        (mac, create): (Mac, bool),
        timers: &mut Timers,
        out: &mut dyn Egress<T>,
    ) -> Option<ResolvedNeighbour> {
        let learnt = self.neighbours.observe(now, key, mac, create)?;
        Some(self.learn(now, key, learnt, timers, out))
    }

    /// A neighbour has advertised itself: see [`Neighbours::advertised`].
    pub(crate) fn handle_advert<T: TxBytes>(
        &mut self,
        now: Instant,
        key: NeighbourKey,
        advert: &Advert,
        timers: &mut Timers,
        out: &mut dyn Egress<T>,
    ) -> Option<ResolvedNeighbour> {
        let times = self.times(key);
        let learnt = self.neighbours.advertised(now, key, advert, &times)?;
        Some(self.learn(now, key, learnt, timers, out))
    }

    /// Sets the timers that something learnt asks for, and sends the frames that waited for it.
    fn learn<T: TxBytes>(
        &mut self,
        now: Instant,
        key: NeighbourKey,
        learnt: NeighbourUpdate,
        timers: &mut Timers,
        out: &mut dyn Egress<T>,
    ) -> ResolvedNeighbour {
        if let Some(timer) = learnt.freed {
            timers.cancel(timer);
        }
        self.arm(now + learnt.timer, key, timers);
        for mut frame in learnt.waiting {
            ethernet::set_destination(&mut frame, learnt.mac);
            self.emit(key.interface, &frame, &[], TxOffload::NONE, out);
        }
        ResolvedNeighbour { neighbour: key, mac: learnt.mac }
    }

    /// Handles an ARP packet. Gives its sender if its hardware address is new.
    pub(crate) fn handle_arp<T: TxBytes>(
        &mut self,
        now: Instant,
        id: InterfaceId,
        bytes: &[u8],
        timers: &mut Timers,
        out: &mut dyn Egress<T>,
    ) -> Option<ResolvedNeighbour> {
        let Some(packet) = arp::parse(bytes) else {
            self.counters.arp_malformed += 1;
            return None;
        };
        let interface = self.interfaces.get(id)?;
        if interface.has(packet.sender.into()) {
            self.counters.arp_conflicts += 1;
            return None;
        }
        let mac = interface.mac();
        let key = NeighbourKey { interface: id, address: packet.sender.into() };
        let for_us = interface.has(packet.target.into());
        let create = for_us && interface.is_on_link(key.address);
        // An address probe (RFC 5227 2.1.1) has no sender; it is answered and nothing learnt.
        let learnt = if packet.sender.is_unspecified() {
            None
        } else if !packet.is_request && for_us && self.neighbours.is_asked(key) {
            let mac = Some(packet.sender_mac);
            let answer = Advert { mac, solicited: true, overrides: true };
            self.neighbours.advertised(now, key, &answer, &NeighbourTimes::default())
        } else {
            self.neighbours.observe(now, key, packet.sender_mac, create)
        };
        if packet.is_request && for_us {
            let ours = (packet.target, mac);
            let to = packet.sender_mac;
            self.emit(id, &arp_frame(ours, packet.sender, to, Some(to)), &[], TxOffload::NONE, out);
        }
        Some(self.learn(now, key, learnt?, timers, out))
    }

    /// Sends an ARP request for `target` to the hardware address `to`.
    fn send_request<T: TxBytes>(
        &mut self,
        id: InterfaceId,
        target: Ipv4Addr,
        to: Mac,
        out: &mut dyn Egress<T>,
    ) {
        let Some(interface) = self.interfaces.get(id) else { return };
        let Some(IpAddr::V4(source)) = interface.v4_source_for(target.into()) else { return };
        let frame = arp_frame((source, interface.mac()), target, to, None);
        self.emit(id, &frame, &[], TxOffload::NONE, out);
    }

    fn send_probe<T: TxBytes>(&mut self, probe: ArpProbe, out: &mut dyn Egress<T>) {
        let Some(mac) = self.interfaces.get(probe.interface).map(Interface::mac) else { return };
        let frame = arp_frame((probe.source, mac), probe.target, Mac::BROADCAST, None);
        self.emit(probe.interface, &frame, &[], TxOffload::NONE, out);
    }

    /// Checks an ARP packet for conflicts with watched addresses. Gives the address that is lost.
    pub(crate) fn check_conflicts<T: TxBytes>(
        &mut self,
        now: Instant,
        id: InterfaceId,
        bytes: &[u8],
        out: &mut dyn Egress<T>,
    ) -> Option<AddressConflict> {
        if self.conflicts.is_empty() {
            return None;
        }
        let packet = arp::parse(bytes)?;
        let ours = self.interfaces.get(id)?.mac();
        let mut probes = Vec::new();
        let lost = self.conflicts.handle(now, id, &packet, ours, |probe| probes.push(probe));
        for probe in probes {
            self.send_probe(probe, out);
        }
        self.counters.arp_lost += u64::from(lost.is_some());
        lost
    }

    /// When to call [`poll_conflicts`](Self::poll_conflicts) next.
    pub(crate) fn conflicts_at(&self) -> Option<Instant> {
        self.conflicts.poll_at()
    }

    /// Sends due probes and announcements, up to the first address that proves free. Gives that
    /// address's interface, and whether DHCP asked.
    pub(crate) fn poll_conflicts<T: TxBytes>(
        &mut self,
        now: Instant,
        config: &AcdConfig,
        random: &mut Secret,
        out: &mut dyn Egress<T>,
    ) -> Option<(InterfaceId, bool)> {
        loop {
            match self.conflicts.step(now, config, random)? {
                ConflictStep::Send(probe) => self.send_probe(probe, out),
                ConflictStep::Free { interface, leased } => return Some((interface, leased)),
            }
        }
    }

    /// Announces and defends a static address; false if that is done already.
    pub(crate) fn announce_address(&mut self, now: Instant, id: InterfaceId, ip: Ipv4Addr) -> bool {
        self.conflicts.announce(now, id, ip)
    }

    /// Announces the IPv4 addresses of an interface once more.
    pub(crate) fn announce_again(&mut self, now: Instant, id: InterfaceId) {
        self.conflicts.announce_again(now, id);
    }

    /// Probes for an address that DHCP offers.
    pub(crate) fn probe_address(&mut self, id: InterfaceId, acd: Acd) {
        self.conflicts.probe(id, acd);
    }

    /// Stops watching an address.
    pub(crate) fn unwatch_address(&mut self, id: InterfaceId, address: IpAddr) {
        self.conflicts.forget(id, address);
    }

    /// Stops watching the address that DHCP gave an interface.
    pub(crate) fn unwatch_lease(&mut self, id: InterfaceId) {
        self.conflicts.forget_leased(id);
    }
}

/// A frame with an ARP packet from `ours` to the hardware address `to`. It answers `reply_to`, or
/// else requests `target`.
fn arp_frame(
    ours: (Ipv4Addr, Mac),
    target: Ipv4Addr,
    to: Mac,
    reply_to: Option<Mac>,
) -> [u8; ethernet::HEADER + arp::PACKET] {
    let mut frame = [0; ethernet::HEADER + arp::PACKET];
    let (head, packet) = frame.split_at_mut(ethernet::HEADER);
    ethernet::emit(EtherPayload::Arp, ours.1, to, head);
    arp::emit(ours, target, reply_to, packet);
    frame
}
