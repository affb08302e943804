//! Datagram sockets in the stack.

use alloc::vec::Vec;
use core::net::SocketAddr;

use smoltcp::wire::IpProtocol;

use super::admit;
use super::events::EventKind;
use super::table::Handle;
use crate::bytes::{Egress, Frame, RxBytes, RxPiece, TxBytes, TxPiece};
use crate::error::Error;
use crate::icmp::Complaint;
use crate::ip::route::Hop;
use crate::ip::{self, Packet, scoped};
use crate::link::ethernet::{self, Mac};
use crate::link::neighbour::{Key, Parked, Pending};
use crate::net::{Link, MAX_HEADERS, headers};
use crate::stack::{Arrival, Stack};
use crate::tcp::Endpoints;
use crate::time::Instant;
use crate::udp::queues::{RecvQueue, SendQueue};
use crate::udp::wire;

/// Datagrams that one socket sends before it is the next one's turn.
const QUANTUM: usize = 8;

/// What makes a socket a datagram socket.
#[derive(Debug)]
pub(crate) struct Datagram<T, R> {
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) send: SendQueue<T>,
    pub(crate) recv: RecvQueue<R>,
}

impl<T, R> Datagram<T, R> {
    pub(crate) fn new() -> Self {
        Self { peer: None, send: SendQueue::new(), recv: RecvQueue::new() }
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
        let counters = &mut self.net.counters;
        let parsed = match wire::parse(packet.source, packet.destination, bytes) {
            Ok(parsed) => parsed,
            Err(wire::Bad::Checksum) => return counters.udp_bad_checksum += 1,
            Err(wire::Bad::Malformed) => return counters.udp_malformed += 1,
        };
        let ends =
            Endpoints { local: packet.to(parsed.dst_port), remote: packet.from(parsed.src_port) };
        let Some(handle) = self.demux.datagram(&ends) else {
            counters.udp_no_port += 1;
            if arrival == Arrival::ToUs {
                // RFC 1122 4.1.3.1.
                self.complain(now, packet, frame.bytes(), Complaint::Port, out);
            }
            return;
        };
        let start = packet.payload.start;
        let range = start + parsed.payload.start..start + parsed.payload.end;
        self.queue_datagram(handle, RxPiece { frame, range }, ends.remote);
    }

    fn queue_datagram(&mut self, handle: Handle, piece: RxPiece<Frame<R>>, from: SocketAddr) {
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        let limit = socket.options.recv_buffer;
        let Some(datagram) = socket.datagram() else { return };
        if !datagram.recv.fits(piece.range.len(), limit, self.config.udp_queue) {
            self.net.counters.udp_overflow += 1;
            return;
        }
        if !self.held.has_room(&piece.frame, true) {
            self.net.counters.held_dropped += 1;
            return;
        }
        let frame = self.held.hold(piece.frame);
        datagram.recv.push(RxPiece { frame, range: piece.range }, from);
        self.net.counters.udp_in += 1;
        self.events.add(handle, socket, EventKind::Readable);
    }

    /// Queues a datagram, if it can be sent at all.
    pub(super) fn send_datagram(
        &mut self,
        handle: Handle,
        chunk: T,
        to: Option<SocketAddr>,
    ) -> Result<(), (Error, T)> {
        match self.check_datagram(handle, chunk.len(), to) {
            Err(error) => Err((error, chunk)),
            Ok(to) => {
                let socket = self.sockets.get_mut(handle).and_then(|socket| socket.datagram());
                let Some(datagram) = socket else { return Err((Error::BadHandle, chunk)) };
                datagram.send.push(chunk.len(), chunk, to);
                Ok(())
            }
        }
    }

    fn check_datagram(
        &mut self,
        handle: Handle,
        len: usize,
        to: Option<SocketAddr>,
    ) -> Result<SocketAddr, Error> {
        let most = self.config.udp_queue;
        let socket = self.open_socket(handle)?;
        let (family, options) = (socket.family, socket.options);
        let (local, broadcast) = (socket.local, options.broadcast);
        let Some(datagram) = socket.datagram() else { return Err(Error::Invalid) };
        let to = match to {
            Some(to) => ip::to_self(admit(family, &options, to)?),
            None => datagram.peer.ok_or(Error::DestinationRequired)?,
        };
        if datagram.send.len() >= most {
            return Err(Error::NoBuffers);
        }
        if to.port() == 0 {
            return Err(Error::Invalid);
        }
        let one_family = |local: SocketAddr| {
            local.is_ipv4() == to.is_ipv4() || local.is_ipv6() && local.ip().is_unspecified()
        };
        if !local.is_none_or(one_family) {
            return Err(Error::NetUnreachable);
        }
        let path = self.net.find(&to)?;
        if matches!(path.hop, Hop::Group(_)) && !to.ip().is_multicast() && !broadcast {
            return Err(Error::Denied);
        }
        if ip::header_len(to.ip()) + wire::HEADER + len > usize::from(path.mtu) {
            return Err(Error::MessageSize);
        }
        self.bind_to_any(handle)?;
        Ok(to)
    }

    /// Lets a socket send what it has, as far as there is room and its turn.
    pub(crate) fn serve_datagram(&mut self, now: Instant, handle: Handle, out: &mut dyn Egress<T>) {
        for _ in 0..QUANTUM {
            if !out.ready() || !self.net.loopback.has_room() {
                break;
            }
            let Some(socket) = self.sockets.get_mut(handle) else { return };
            let Some((number, len, chunk, to)) = socket.datagram().and_then(|d| d.send.take())
            else {
                return;
            };
            self.send_one(now, handle, (number, len, chunk), to, out);
        }
        let socket = self.sockets.get_mut(handle).and_then(|socket| socket.datagram());
        if socket.is_some_and(|datagram| datagram.send.has_queued()) {
            self.mark_ready(handle);
        }
    }

    fn send_one(
        &mut self,
        now: Instant,
        handle: Handle,
        (number, len, chunk): (u64, usize, T),
        to: SocketAddr,
        out: &mut dyn Egress<T>,
    ) {
        let Some(socket) = self.sockets.get(handle) else { return };
        let local = socket.local.unwrap_or(socket.family.unbound());
        let options = socket.options;
        let path = match self.net.find(&to) {
            Ok(path) => path,
            Err(error) => return self.datagram_done(handle, number, Some(error)),
        };
        let link = self.net.link(now, &path, false, out);
        let mac = match link {
            Link::Ready(mac) => mac,
            Link::Asking(_) => Mac::BROADCAST,
            Link::Full => return self.datagram_done(handle, number, Some(Error::NoBuffers)),
        };
        let (ttl, tos) = options.hops_and_class(&self.net, &path);
        let source = if local.ip().is_unspecified() { path.source } else { local.ip() };
        let ip = ip::Header {
            source,
            destination: to.ip(),
            protocol: IpProtocol::Udp,
            // RFC 1112 6.1: a group's datagrams stay on the link unless asked otherwise.
            ttl: if to.ip().is_multicast() { 1 } else { ttl },
            tos,
            flow: 0,
            payload_len: wire::HEADER + len,
        };
        let headers = headers(to.ip());
        let mut head = [0; MAX_HEADERS + wire::HEADER];
        let head = &mut head[..headers + wire::HEADER];
        self.net.write_headers(&path, mac, &ip, head);
        let from = scoped(source, local.port(), path.interface);
        wire::emit(from, to, len, chunk.checksum(0..len), &mut head[headers..]);
        if let Link::Asking(key) = link {
            let datagram = Some(Parked { socket: handle, number, chunk });
            let pending = Pending { head: Vec::from(&*head), datagram };
            if let Some(displaced) = self.net.neighbours.park(key, pending) {
                self.drop_pending(displaced, None);
            }
            return;
        }
        self.net.counters.udp_out += 1;
        self.net.emit(path.exit(), head, &[TxPiece { bytes: &chunk, range: 0..len }], out);
        drop(chunk);
        self.datagram_done(handle, number, None);
    }

    /// A datagram has been sent or dropped.
    fn datagram_done(&mut self, handle: Handle, number: u64, error: Option<Error>) {
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        let closing = socket.closing;
        let Some(datagram) = socket.datagram() else { return };
        let released = datagram.send.done(number);
        let all_done = datagram.send.len() == 0;
        if released {
            self.events.add(handle, socket, EventKind::Acked);
        }
        if let Some(error) = error {
            self.events.add(handle, socket, EventKind::Failed(error));
        }
        if closing && all_done {
            self.end(handle);
        }
    }

    /// A packet that waited for a neighbour is dropped.
    pub(crate) fn drop_pending(&mut self, packet: Pending<T>, error: Option<Error>) {
        self.net.counters.arp_dropped += 1;
        if let Some(Parked { socket, number, chunk }) = packet.datagram {
            drop(chunk);
            self.datagram_done(socket, number, error);
        }
    }

    /// A packet that waited for a neighbour is sent to its address `mac`.
    pub(crate) fn send_pending(
        &mut self,
        key: Key,
        mac: Mac,
        mut packet: Pending<T>,
        out: &mut dyn Egress<T>,
    ) {
        ethernet::set_destination(&mut packet.head, mac);
        let Some(Parked { socket, number, chunk }) = packet.datagram else {
            return self.net.emit(key.interface, &packet.head, &[], out);
        };
        self.net.counters.udp_out += 1;
        let body = [TxPiece { bytes: &chunk, range: 0..chunk.len() }];
        self.net.emit(key.interface, &packet.head, &body, out);
        drop(chunk);
        self.datagram_done(socket, number, None);
    }
}
