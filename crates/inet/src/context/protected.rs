//! Packets that security policies act upon, on their way out.
//!
//! A packet that no policy touches leaves as it is: without policies that costs one look at a
//! boolean. A protected packet is copied once, sealed, and fragmented if it is longer than the path
//! takes. What leaves through a tunnel is sent to the tunnel's end.

use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use smoltcp::wire::checksum;

use super::{Context, NextHop};
use crate::bytes::{Egress, ProcessingStage, TxBytes, TxPiece, gather};
use crate::error::Error;
use crate::esp::{EspFlow, SealedPacket, SecuredBy, Treatment};
use crate::interface_id::{InterfaceId, NeighbourKey};
use crate::ip::route::{Hop, Path};
use crate::ip::{self, FRAGMENT_HEADER, header_len};
use crate::link::ethernet::{self, EtherPayload, Mac};
use crate::offload::{Features, TxOffload};
use crate::owner_id::OwnerId;
use crate::time::Instant;

/// Longest packet, bytes.
const LONGEST: u16 = u16::MAX;

/// Where a sealed packet goes.
#[derive(Debug, Clone, Copy)]
enum Departure {
    /// By this interface to this hardware address.
    Ready(InterfaceId, Mac),
    /// To a neighbour that is being asked for its hardware address.
    Asking(NeighbourKey),
}

impl Departure {
    fn interface(self) -> InterfaceId {
        match self {
            Self::Ready(interface, _) => interface,
            Self::Asking(key) => key.interface,
        }
    }
}

impl Context {
    /// Sends a frame, or drops it if there is no room. Security policies decide whether its packet
    /// leaves as it is.
    #[inline]
    pub(crate) fn emit<T: TxBytes>(
        &mut self,
        exit: InterfaceId,
        head: &[u8],
        body: &[TxPiece<'_, T>],
        offload: TxOffload,
        out: &mut dyn Egress<T>,
    ) {
        if self.esp.is_active() {
            return self.emit_by_policy(exit, head, body, offload, out);
        }
        self.link.emit(exit, head, body, offload, out);
    }

    #[cold]
    #[inline(never)]
    fn emit_by_policy<T: TxBytes>(
        &mut self,
        exit: InterfaceId,
        head: &[u8],
        body: &[TxPiece<'_, T>],
        offload: TxOffload,
        out: &mut dyn Egress<T>,
    ) {
        let packet = head.get(ethernet::HEADER..).unwrap_or_default();
        let flow = EspFlow::of_own(packet).filter(|_| exit != InterfaceId::LOOPBACK);
        let Some(flow) = flow else {
            return self.link.emit(exit, head, body, offload, out);
        };
        let now = self.clock;
        match self.esp.treatment(now, &flow) {
            Treatment::Bypass => self.link.emit(exit, head, body, offload, out),
            Treatment::Discard => {}
            Treatment::Protect(by) => {
                let Some(frame) = self.finished(head, body, offload) else { return };
                let departure = Departure::Ready(exit, ethernet::destination(head));
                self.protect(now, by, &frame, departure, out);
            }
        }
    }

    /// Has an answer wait for its neighbour.
    #[cold]
    pub(super) fn park<T: TxBytes>(
        &mut self,
        now: Instant,
        key: NeighbourKey,
        frame: Vec<u8>,
        out: &mut dyn Egress<T>,
    ) {
        let packet = frame.get(ethernet::HEADER..).unwrap_or_default();
        let flow = EspFlow::of_own(packet).filter(|_| self.esp.is_active());
        match flow.map_or(Treatment::Bypass, |flow| self.esp.treatment(now, &flow)) {
            Treatment::Bypass => self.link.park(key, frame),
            Treatment::Discard => {}
            Treatment::Protect(by) => self.protect(now, by, &frame, Departure::Asking(key), out),
        }
    }

    /// The whole frame, with the work that was left to the interface done. `None`, and counted, for
    /// a super-segment, which was made before its policy was.
    fn finished<T: TxBytes>(
        &mut self,
        head: &[u8],
        body: &[TxPiece<'_, T>],
        offload: TxOffload,
    ) -> Option<Vec<u8>> {
        if offload.segments.is_some() {
            self.esp.count_unfit();
            return None;
        }
        let mut frame = gather(head, body);
        if let Some(left) = offload.checksum {
            let start = usize::from(left.start);
            let summed = frame.get_mut(start..)?;
            let sum = !checksum::data(summed);
            let at = usize::from(left.offset);
            summed.get_mut(at..at + 2)?.copy_from_slice(&sum.to_be_bytes());
        }
        Some(frame)
    }

    /// Seals the packet of a frame and sends it, in fragments if it is too long for its path.
    fn protect<T: TxBytes>(
        &mut self,
        now: Instant,
        by: SecuredBy,
        frame: &[u8],
        mut departure: Departure,
        out: &mut dyn Egress<T>,
    ) {
        let packet = frame.get(ethernet::HEADER..).unwrap_or_default();
        let Some(flow) = EspFlow::of_own(packet) else { return };
        let id = self.ip.fragment_id(&mut self.secret, flow.destination, 1);
        let mtu = self.link_mtu(departure.interface(), flow.destination);
        let carrier = (self.ip.ttl(), id, usize::from(mtu));
        self.link.stage(ProcessingStage::EspSeal, out);
        let sealed = self.esp.seal(now, by, packet, carrier, &mut self.timers);
        let Some(SealedPacket { frame, destination, tunnelled }) = sealed else { return };
        if tunnelled {
            let Some(to_end) = self.depart(now, destination, out) else { return };
            departure = to_end;
        }
        let link = self.link_mtu(departure.interface(), destination);
        let mtu = self.ip.path_mtu(now, destination).map_or(link, |known| known.min(link));
        if frame.len() - ethernet::HEADER <= usize::from(mtu) {
            self.send_sealed(departure, destination, frame, out);
            return;
        }
        for fragment in fragments(&frame, destination, id, mtu.into()) {
            self.ip.count_fragment_out();
            self.send_sealed(departure, destination, fragment, out);
        }
    }

    /// The way to a tunnel's end. `None`, and counted, if there is none.
    fn depart<T: TxBytes>(
        &mut self,
        now: Instant,
        end: IpAddr,
        out: &mut dyn Egress<T>,
    ) -> Option<Departure> {
        let to = SocketAddr::new(end, 0);
        let path = self.find_plain(&to, None).ok()?;
        if path.hop == Hop::Local {
            self.esp.count_unfit();
            return None;
        }
        match self.next_hop(now, (&path, false), OwnerId::default(), out) {
            NextHop::Ready(mac) => Some(Departure::Ready(path.interface, mac)),
            NextHop::Asking(key) => Some(Departure::Asking(key)),
            NextHop::Full => {
                self.link.count_unresolved(1);
                None
            }
        }
    }

    fn send_sealed<T: TxBytes>(
        &mut self,
        departure: Departure,
        destination: IpAddr,
        mut frame: Vec<u8>,
        out: &mut dyn Egress<T>,
    ) {
        let v4 = destination.is_ipv4();
        let carries = if v4 { EtherPayload::Ipv4 } else { EtherPayload::Ipv6 };
        match departure {
            Departure::Ready(interface, mac) => {
                self.link.write_header(interface, carries, mac, &mut frame);
                self.link.emit(interface, &frame, &[], TxOffload::NONE, out);
            }
            Departure::Asking(key) => {
                self.link.write_header(key.interface, carries, Mac::BROADCAST, &mut frame);
                self.link.park(key, frame);
            }
        }
    }

    /// Longest packet on the link of an interface, bytes.
    fn link_mtu(&self, id: InterfaceId, to: IpAddr) -> u16 {
        self.link.interface(id).map_or(LONGEST, |interface| interface.mtu(to))
    }

    /// The path of packets that no policy concerns.
    #[cold]
    #[inline(never)]
    fn find_plain(&mut self, to: &SocketAddr, via: Option<InterfaceId>) -> Result<Path, Error> {
        self.ip.find(to, via, self.link.interfaces())
    }

    /// A path as policies change it: it takes shorter packets, and perhaps leads to a tunnel's end.
    #[cold]
    #[inline(never)]
    pub(super) fn find_protected(
        &mut self,
        to: &SocketAddr,
        via: Option<InterfaceId>,
    ) -> Result<Path, Error> {
        let host = to.ip();
        let path = self.find_plain(to, via)?;
        if path.hop == Hop::Local || !self.esp.covers(host) {
            return Ok(path);
        }
        let way = match self.esp.tunnel_end(path.source, host) {
            Some(end) => self.find_plain(&SocketAddr::new(end, 0), None)?,
            None => path,
        };
        let mtu = self.esp.inner_mtu(host, way.mtu);
        Ok(Path { interface: way.interface, hop: way.hop, mtu, source: path.source })
    }

    /// The MTU of the path to `host` for packets before they are protected, bytes, if it is stored
    /// and less than the link's.
    #[inline]
    pub(crate) fn path_mtu(&self, now: Instant, host: IpAddr) -> Option<u16> {
        let known = self.ip.path_mtu(now, host);
        if self.esp.is_active() { self.protected_path_mtu(now, host, known) } else { known }
    }

    /// As [`path_mtu`](Self::path_mtu). In transport mode routers have reported the length of
    /// packets of ESP; in tunnel mode they report it for the tunnel's end.
    #[cold]
    #[inline(never)]
    fn protected_path_mtu(&self, now: Instant, host: IpAddr, known: Option<u16>) -> Option<u16> {
        if !self.esp.covers(host) {
            return known;
        }
        let to_ends = self.esp.tunnel_ends(host).filter_map(|end| self.ip.path_mtu(now, end)).min();
        let outer = known.into_iter().chain(to_ends).min()?;
        Some(self.esp.inner_mtu(host, outer))
    }

    /// The work that may be left to an interface for packets to the host of `to`.
    #[inline(always)]
    pub(crate) fn features(&self, exit: InterfaceId, to: &SocketAddr) -> Features {
        match self.protects(to) {
            true => Features::default(),
            false => self.link.interfaces().features(exit),
        }
    }

    /// Whether policies protect packets to the host of `to`.
    #[inline(always)]
    pub(crate) fn protects(&self, to: &SocketAddr) -> bool {
        self.esp.is_active() && self.esp.covers(to.ip())
    }

    /// Longest datagram packet to a host that policies protect, of a socket that leaves fragmenting
    /// to us: its packets are sealed before they are fragmented.
    #[cold]
    pub(crate) fn sealed_whole(&self, host: IpAddr) -> u16 {
        self.esp.inner_mtu(host, LONGEST)
    }
}

/// The fragments of the packet of a frame with room for the Ethernet header.
fn fragments(frame: &[u8], to: IpAddr, id: u32, mtu: usize) -> Vec<Vec<u8>> {
    let header = header_len(to);
    let extra = if to.is_ipv4() { 0 } else { FRAGMENT_HEADER };
    let start = ethernet::HEADER + header;
    let Some((head, payload)) = frame.split_at_checked(start) else { return Vec::new() };
    // A multiple of 8, and on however small a link some progress.
    let room = (mtu.saturating_sub(header + extra) / 8 * 8).max(8);
    let parts = payload.chunks(room).enumerate();
    parts
        .map(|(index, part)| {
            let at = index * room;
            let more = at + part.len() < payload.len();
            let mut fragment = vec![0; start + extra];
            fragment[..start].copy_from_slice(head);
            fragment.extend_from_slice(part);
            if let Some(packet) = fragment.get_mut(ethernet::HEADER..) {
                ip::set_payload_len(packet, to, part.len());
                ip::write_fragment(packet, to, id, at, more);
            }
            fragment
        })
        .collect()
}
