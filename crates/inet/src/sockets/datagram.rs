//! Datagram sockets in the stack: what they receive. What they send is in `send`.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use super::Body;
use super::events::EventKind;
use super::options::Options;
use crate::bytes::{Egress, Frame, RxBytes, RxPiece, TxBytes};
use crate::icmp::IcmpError;
use crate::interface_id::InterfaceId;
use crate::ip::Arrival;
use crate::ip::groups::GroupListener;
use crate::ip::packet::Packet;
use crate::stack::Stack;
use crate::table::Handle;
use crate::tcp::Endpoints;
use crate::time::Instant;
use crate::udp::message::Arrived;
use crate::udp::queues::{RecvQueue, SendQueue};
use crate::udp::wire;

/// What makes a socket a datagram socket.
#[derive(Debug)]
pub(crate) struct Datagram<T, R> {
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) send: SendQueue<T>,
    pub(crate) recv: RecvQueue<R>,
    /// The groups that it has joined, and where.
    pub(crate) memberships: Vec<(InterfaceId, IpAddr)>,
}

impl<T: TxBytes, R> Datagram<T, R> {
    pub(crate) fn new() -> Self {
        let (send, recv) = (SendQueue::new(), RecvQueue::new());
        Self { peer: None, send, recv, memberships: Vec::new() }
    }
}

impl<T: TxBytes, R: RxBytes> Stack<T, R> {
    /// Takes a UDP packet.
    pub(crate) fn handle_udp(
        &mut self,
        now: Instant,
        packet: &Packet,
        arrival: Arrival,
        frame: Frame<R>,
        out: &mut dyn Egress<T>,
    ) {
        let bytes = frame.bytes().get(packet.payload.clone()).unwrap_or_default();
        let counters = &mut self.udp_counters;
        let verified = frame.offload().verified;
        let parsed = match wire::parse(packet.source, packet.destination, bytes, verified) {
            Ok(parsed) => parsed,
            Err(wire::Bad::Checksum) => return counters.udp_bad_checksum += 1,
            Err(wire::Bad::Malformed) => return counters.udp_malformed += 1,
        };
        let ends =
            Endpoints { local: packet.to(parsed.dst_port), remote: packet.from(parsed.src_port) };
        let start = packet.payload.start;
        let range = start + parsed.payload.start..start + parsed.payload.end;
        let arrived = Arrived {
            from: ends.remote,
            to: packet.destination,
            interface: packet.interface,
            ttl: packet.ttl,
            tos: packet.tos,
        };
        if arrival == Arrival::ToAll {
            return self.queue_for_all(&ends, RxPiece { frame, range }, arrived);
        }
        let found = self.demux.datagram(&ends, |handle| self.hears(handle, &arrived));
        let Some(handle) = found else {
            self.udp_counters.udp_no_port += 1;
            // RFC 1122 4.1.3.1.
            let about = (packet, frame.bytes());
            let error = IcmpError::PortUnreachable;
            return self.icmp.send_error(&mut self.cx, now, about, error, out);
        };
        self.queue_datagram(handle, RxPiece { frame, range }, arrived);
    }

    /// Whether a socket receives what came by that interface and, of a group, from that source.
    fn hears(&self, handle: Handle, arrived: &Arrived) -> bool {
        let Some(socket) = self.sockets.get(handle) else { return false };
        let Options { device, multicast_all, .. } = socket.options;
        if device.is_some_and(|device| device != arrived.interface) {
            return false;
        }
        let Arrived { to, interface, from, .. } = *arrived;
        if !to.is_multicast() {
            return true;
        }
        match self.cx.ip.group_filter(interface, to, GroupListener::Socket(handle)) {
            Some(filter) => filter.admits(from.ip()),
            // As Linux: what another socket has joined is received by all, if they want it.
            None => multicast_all && self.cx.ip.admits(interface, to, from.ip()),
        }
    }

    /// A datagram to everybody: each socket that is bound there gets it (RFC 1122 4.1.3.3 and
    /// Linux), all but one a copy.
    fn queue_for_all(&mut self, ends: &Endpoints, piece: RxPiece<Frame<R>>, arrived: Arrived) {
        let mut found = self.demux.datagram_all(ends);
        found.retain(|handle| self.hears(*handle, &arrived));
        let Some((last, others)) = found.split_last() else {
            self.udp_counters.udp_no_port += 1;
            return;
        };
        for handle in others {
            let bytes: Box<[u8]> = piece.bytes().into();
            self.udp_counters.copied_groups += bytes.len() as u64;
            let copy = RxPiece { range: 0..bytes.len(), frame: Frame::Joined(bytes) };
            self.queue_datagram(*handle, copy, arrived);
        }
        self.queue_datagram(*last, piece, arrived);
    }

    fn queue_datagram(&mut self, handle: Handle, piece: RxPiece<Frame<R>>, arrived: Arrived) {
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        let limit = socket.options.recv_buffer;
        let Some(datagram) = socket.datagram() else { return };
        if !datagram.recv.fits(piece.range.len(), limit, self.config.udp_queue) {
            self.udp_counters.udp_overflow += 1;
            return;
        }
        if !self.cx.held.has_room(&piece.frame, true) {
            self.cx.held.count_refused();
            return;
        }
        let frame = self.cx.held.hold(piece.frame);
        datagram.recv.push(RxPiece { frame, range: piece.range }, arrived);
        self.udp_counters.udp_in += 1;
        self.events.add(handle, socket, EventKind::Readable);
    }

    /// How many received datagrams `recv` may be asked for to give them on as one, and the length
    /// of each but the last, which may be shorter (UDP_GRO): they have the same ends and differ in
    /// nothing that ancillary data shows. Together they are at most `most` bytes, if more than one.
    pub fn recv_run(&self, handle: Handle, most: usize) -> Option<(usize, usize)> {
        match &self.sockets.get(handle)?.body {
            Body::Datagram(datagram) => datagram.recv.run(most),
            _ => None,
        }
    }
}
