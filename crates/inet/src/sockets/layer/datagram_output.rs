//! Datagrams that are sent.
//!
//! A datagram waits in its socket's queue until there is room. It leaves as one packet, as the
//! fragments of one, or split into several datagrams of one length (UDP_SEGMENT). Where it takes
//! several frames, the queue remembers how much has left, and goes on there when the egress has
//! room again. Payload is never copied: frames name ranges of the sender's chunks.

use crate::bytes::{Egress, RxBytes, TxBytes, TxPiece};
use crate::context::{Context, NextHop};
use crate::error::Error;
use crate::icmp::echo::{self, EchoNumbers};
use crate::interface_id::{InterfaceId, NeighbourKey};
use crate::ip;
use crate::ip::route::{Hop, Path};
use crate::ip::{MAX_HEADERS, frame_headers};
use crate::link::ethernet::{self, Mac};
use crate::offload::{Checksum, TxOffload};
use crate::owner_id::OwnerId;
use crate::sockaddr::scoped;
use crate::sockets::events::EventKind;
use crate::sockets::kinds::SendError;
use crate::sockets::kinds::SocketKind;
use crate::sockets::layer::SocketLayer;
use crate::sockets::options::{MtuDiscover, SocketOptions};
use crate::sockets::socket::{Socket, SocketBody};
use crate::table::Handle;
use crate::tcp::SendFlags;
use crate::time::Instant;
use crate::udp::message::{DatagramParameters, OutgoingDatagram, SendOptions};
use crate::udp::parked::ParkedDatagram;
use crate::udp::{lite, wire};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;
use smoltcp::wire::IpProtocol;

/// Frames that one socket sends before the next socket is served.
const QUANTUM: usize = 8;
/// Room for all headers of a fragment or datagram, bytes.
const ROOM: usize = MAX_HEADERS + ip::FRAGMENT_HEADER + wire::HEADER;

/// One frame of a datagram.
struct DatagramPart {
    /// The payload of the datagram that it belongs to.
    datagram: Range<usize>,
    /// Its own part of it.
    payload: Range<usize>,
    /// For a fragment: its offset in the packet's payload, and whether more follows.
    fragment: Option<(usize, bool)>,
}

impl<T: TxBytes, R: RxBytes> SocketLayer<T, R> {
    /// See [`Stack::send_with`](crate::Stack::send_with).
    pub(crate) fn send_with(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
        chunk: T,
        options: &SendOptions,
    ) -> Result<(), SendError<T>> {
        let flags = SendFlags { more: options.more, eor: options.eor };
        let outcome = match self.open_socket(handle) {
            Err(error) => Err((error, chunk)),
            Ok(socket) => match &mut socket.body {
                SocketBody::Datagram(_) => self.send_datagram(cx, now, handle, chunk, options),
                SocketBody::Connection(stream) => stream.connection.send_with(now, chunk, flags),
                _ => Err((Error::NotConnected, chunk)),
            },
        };
        self.mark_ready(handle);
        outcome.map_err(|(error, chunk)| SendError { error, chunk })
    }

    /// Queues a datagram, if it can be sent at all, or a part of one.
    pub(super) fn send_datagram(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
        chunk: T,
        options: &SendOptions,
    ) -> Result<(), (Error, T)> {
        match self.check_datagram(cx, now, handle, chunk.len(), options) {
            Err(error) => {
                // As Linux: with a part, the whole datagram is lost.
                if error != Error::NoBuffers {
                    self.drop_corked(cx, handle);
                }
                Err((error, chunk))
            }
            Ok(message) => {
                let Some(socket) = self.sockets.get_mut(handle) else {
                    return Err((Error::BadHandle, chunk));
                };
                let corked = options.more || socket.options.cork;
                let Some(datagram) = socket.datagram() else { return Err((Error::Invalid, chunk)) };
                if datagram.send.open().is_some() {
                    datagram.send.append(chunk).map_err(|chunk| (Error::NoBuffers, chunk))?;
                } else {
                    datagram.send.push(OutgoingDatagram::new(chunk, message));
                }
                datagram.send.cork(corked);
                Ok(())
            }
        }
    }

    /// Sends a socket's queued datagrams, as far as the egress has room and the quantum allows.
    pub(crate) fn serve_datagram(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
        out: &mut dyn Egress<T>,
    ) {
        let Some(exit) = self.sockets.get(handle).map(|socket| socket.exit) else { return };
        for _ in 0..QUANTUM {
            let Some(socket) = self.sockets.get_mut(handle) else { return };
            // After a frame by another interface the socket waits for its turn there.
            let has_room = cx.link.has_room(exit, out) && cx.link.has_loopback_room();
            if socket.exit != exit || !has_room {
                break;
            }
            if socket.waits_for.is_some() {
                return;
            }
            let Some((number, outgoing)) = socket.datagram().and_then(|d| d.send.take()) else {
                return;
            };
            self.send_part(cx, now, handle, (number, outgoing), out);
        }
        let socket = self.sockets.get_mut(handle).and_then(Socket::datagram);
        if socket.is_some_and(|datagram| datagram.send.has_queued()) {
            self.mark_ready(handle);
        }
    }

    /// Sends the next frame of a datagram. The datagram is then done, or returns to its queue.
    fn send_part(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
        (number, mut outgoing): (u64, OutgoingDatagram<T>),
        out: &mut dyn Egress<T>,
    ) {
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        let local = socket.source();
        let (options, kind, owner) = (socket.options, socket.kind(), socket.owner);
        let to = outgoing.message.to;
        let path = match datagram_path(cx, now, (&outgoing.message, local), &options) {
            Ok(path) => path,
            Err(error) => return self.datagram_done(cx, handle, number, Some(error)),
        };
        let exit = path.exit();
        // The caller has looked at the interface by which the socket has sent last.
        let has_turn = socket.exit == exit || cx.link.has_room(exit, out);
        socket.exit = exit;
        if !has_turn {
            return self.put_back(handle, number, outgoing);
        }
        socket.exits.insert(exit);
        let part = next_part(&outgoing, &path);
        let is_last = part.payload.end == outgoing.len();
        let is_only = is_last && part.payload.start == 0;
        let link = cx.next_hop(now, (&path, false), owner, out);
        let mac = match link {
            NextHop::Ready(mac) => mac,
            NextHop::Asking(_) if is_only => Mac::BROADCAST,
            NextHop::Asking(key) => {
                return self.wait_with_datagram(handle, key, number, outgoing);
            }
            NextHop::Full => return self.datagram_done(cx, handle, number, Some(Error::NoBuffers)),
        };
        if part.fragment.is_some() && outgoing.sent == 0 || !options.mtu_discover.sets_df() {
            outgoing.id = cx.ip.fragment_id(&mut cx.secret, to.ip(), 1);
        }
        let (head, len, offload) =
            self.write_part(cx, (&path, mac), (kind, local), &options, &outgoing, &part);
        let head = head.get(..len).unwrap_or_default();
        if let NextHop::Asking(key) = link {
            let head = Vec::from(head);
            let datagram = ParkedDatagram { socket: handle, number, outgoing, head, offload };
            if let Some(displaced) = self.udp.park(key, datagram) {
                self.drop_parked(cx, displaced, None);
            }
            return;
        }
        let (pieces, count) = outgoing.pieces(part.payload.clone());
        let body = pieces.get(..count).unwrap_or_default();
        if part.payload.end == part.datagram.end {
            self.udp.count_sent();
        }
        if part.fragment.is_some() {
            cx.ip.count_fragment_out();
        }
        if options.multicast_loop || !to.ip().is_multicast() {
            self.loop_group(cx, &path, to.ip(), head, body);
        }
        cx.emit(exit, head, body, offload, out);
        if is_last {
            drop(outgoing);
            return self.datagram_done(cx, handle, number, None);
        }
        outgoing.sent = part.payload.end;
        self.put_back(handle, number, outgoing);
    }

    /// The rest of a datagram waits at the head of its socket's queue.
    fn put_back(&mut self, handle: Handle, number: u64, outgoing: OutgoingDatagram<T>) {
        if let Some(datagram) = self.sockets.get_mut(handle).and_then(Socket::datagram) {
            datagram.send.put_back(number, outgoing);
        }
    }

    /// Writes all headers of a part. Gives their length, and the offload that is left to the
    /// interface.
    fn write_part(
        &self,
        cx: &Context,
        (path, mac): (&Path, Mac),
        (kind, local): (SocketKind, SocketAddr),
        options: &SocketOptions,
        outgoing: &OutgoingDatagram<T>,
        part: &DatagramPart,
    ) -> ([u8; ROOM], usize, TxOffload) {
        let message = &outgoing.message;
        let to = message.to;
        let source = message.source.unwrap_or(own_address(local, path));
        let group = to.ip().is_multicast();
        let (hops, class) = options.hops_and_class(cx, path);
        let ttl = if group { options.multicast_ttl } else { hops };
        let is_first = part.fragment.is_none_or(|(at, _)| at == 0);
        let udp = if is_first { wire::HEADER } else { 0 };
        let header = ip::Header {
            source,
            destination: to.ip(),
            protocol: protocol_of(kind, to.ip()),
            ttl: message.ttl.unwrap_or(ttl),
            tos: message.tos.unwrap_or(class),
            flow: 0,
            payload_len: udp + part.payload.len(),
        };
        let mut head = [0; ROOM];
        let mut offload = TxOffload::NONE;
        ip::write_headers(&cx.link, path, mac, &header, &mut head);
        let mut start = frame_headers(to.ip());
        if let Some(packet) = head.get_mut(ethernet::HEADER..) {
            match part.fragment {
                Some((at, more)) => {
                    start += ip::write_fragment(packet, to.ip(), outgoing.id, at, more);
                }
                None if !options.mtu_discover.sets_df() => {
                    ip::allow_fragments(packet, to.ip(), outgoing.id);
                }
                None => {}
            }
        }
        if is_first && let Some(place) = head.get_mut(start..) {
            let from = scoped(source, local.port(), path.interface);
            if kind == SocketKind::UdpLite {
                let (datagram, coverage) = (&part.datagram, options.send_coverage);
                let end = datagram.start + lite::covered_payload(coverage, datagram.len());
                let sum = outgoing.sum(datagram.start..end);
                lite::emit(from, to, datagram.len(), coverage, sum, place);
                return (head, start + udp, offload);
            }
            if kind == SocketKind::Echo {
                let numbers = EchoNumbers { ident: local.port(), seq: to.port() };
                let data = (part.datagram.len(), outgoing.sum(part.datagram.clone()));
                echo::emit((source, to.ip()), numbers, data, place);
                return (head, start + udp, offload);
            }
            // No interface can make the sum of a datagram in fragments.
            let unfragmented = part.fragment.is_none();
            let left = unfragmented && cx.features(path.exit(), &to).tx_checksum;
            let sum = (!left).then(|| outgoing.sum(part.datagram.clone()));
            wire::emit(from, to, part.datagram.len(), sum, place);
            if left {
                // Both fit: headers are short.
                let (start, offset) = (start as u8, wire::CHECKSUM_AT as u8);
                offload.checksum = Some(Checksum { start, offset });
            }
        }
        (head, start + udp, offload)
    }

    /// A datagram that leaves in several frames waits in its queue for its neighbour.
    fn wait_with_datagram(
        &mut self,
        handle: Handle,
        key: NeighbourKey,
        number: u64,
        outgoing: OutgoingDatagram<T>,
    ) {
        self.put_back(handle, number, outgoing);
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        socket.waits_for = Some(key);
        self.waiting.wait(key, handle);
    }

    /// The neighbour that a datagram waited for is silent: the datagram is dropped.
    pub(crate) fn drop_datagram(&mut self, cx: &mut Context, handle: Handle, error: Error) {
        let Some(datagram) = self.sockets.get_mut(handle).and_then(Socket::datagram) else {
            return;
        };
        if let Some((number, outgoing)) = datagram.send.take() {
            drop(outgoing);
            cx.link.count_unresolved(1);
            self.datagram_done(cx, handle, number, Some(error));
        }
        self.mark_ready(handle);
    }

    /// A datagram has been sent or dropped.
    pub(super) fn datagram_done(
        &mut self,
        cx: &mut Context,
        handle: Handle,
        number: u64,
        error: Option<Error>,
    ) {
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        let closing = socket.is_closing();
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
            self.end(cx, handle);
        }
    }

    /// Loops a copy of a frame to a group or broadcast address back to this host, if a socket here
    /// listens.
    fn loop_group(
        &mut self,
        cx: &mut Context,
        path: &Path,
        to: IpAddr,
        head: &[u8],
        body: &[TxPiece<'_, T>],
    ) {
        let Hop::Group(_) = path.hop else { return };
        let has_listener = !to.is_multicast() || cx.ip.admits(path.interface, to, path.source);
        if has_listener && cx.link.has_loopback_room() {
            cx.link.loop_frame(path.interface, head, body);
        }
    }

    /// A datagram that waited for a neighbour is dropped.
    pub(crate) fn drop_parked(
        &mut self,
        cx: &mut Context,
        datagram: ParkedDatagram<T>,
        error: Option<Error>,
    ) {
        cx.link.count_unresolved(1);
        let ParkedDatagram { socket, number, outgoing, .. } = datagram;
        drop(outgoing);
        self.datagram_done(cx, socket, number, error);
    }

    /// A datagram that waited for a neighbour is sent to its address `mac`.
    pub(crate) fn send_parked(
        &mut self,
        cx: &mut Context,
        key: NeighbourKey,
        mac: Mac,
        datagram: ParkedDatagram<T>,
        out: &mut dyn Egress<T>,
    ) {
        let ParkedDatagram { socket, number, outgoing, mut head, offload } = datagram;
        ethernet::set_destination(&mut head, mac);
        self.udp.count_sent();
        let (pieces, count) = outgoing.pieces(0..outgoing.len());
        let body = pieces.get(..count).unwrap_or_default();
        if let Some(socket) = self.sockets.get_mut(socket) {
            socket.exits.insert(key.interface);
            // The owner's next frames stay behind this one.
            out.set_sender(socket.owner);
        }
        cx.emit(key.interface, &head, body, offload, out);
        out.set_sender(OwnerId::default());
        drop(outgoing);
        self.datagram_done(cx, socket, number, None);
    }
}

/// The address that a socket sends from: its own, if that is of the path's family.
fn own_address(local: SocketAddr, path: &Path) -> IpAddr {
    match local.ip() {
        ip if ip.is_unspecified() || ip.is_ipv4() != path.source.is_ipv4() => path.source,
        ip => ip,
    }
}

/// The protocol of a kind's packets.
fn protocol_of(kind: SocketKind, to: IpAddr) -> IpProtocol {
    match kind {
        SocketKind::UdpLite => lite::PROTOCOL,
        SocketKind::Echo => echo::protocol(to),
        _ => IpProtocol::Udp,
    }
}

/// The path of a datagram. If the socket accepts path MTUs, it is as narrow as routers have
/// reported.
#[inline]
pub(super) fn datagram_path(
    cx: &mut Context,
    now: Instant,
    (message, local): (&DatagramParameters, SocketAddr),
    options: &SocketOptions,
) -> Result<Path, Error> {
    let mut exit = exit_for(message, options);
    if exit.is_none() && is_for_many(message.to.ip()) {
        let source = message.source.unwrap_or(local.ip());
        exit = cx.link.interfaces().owner_of(source);
    }
    let path = cx.find(&message.to, exit)?;
    if cx.esp.is_active() {
        return Ok(protected_path(cx, now, path, (message.to.ip(), options.mtu_discover)));
    }
    let known = cx.ip.path_mtu(now, message.to.ip());
    Ok(path.narrowed(known.filter(|_| options.mtu_discover.uses_path())))
}

/// As [`datagram_path`], where there are policies: packets of ESP are fragmented, not what is in
/// them.
#[cold]
#[inline(never)]
fn protected_path(
    cx: &Context,
    now: Instant,
    path: Path,
    (host, how): (IpAddr, MtuDiscover),
) -> Path {
    match how.refuses() || !cx.esp.covers(host) {
        true => path.narrowed(cx.path_mtu(now, host).filter(|_| how.uses_path())),
        false => Path { mtu: cx.sealed_whole(host), ..path },
    }
}

/// Whether a datagram leaves by the interface that has its source address, as on Linux: those to
/// groups of IPv4 and to 255.255.255.255.
fn is_for_many(to: IpAddr) -> bool {
    matches!(to, IpAddr::V4(to) if to.is_multicast() || to.is_broadcast())
}

/// The interface that a datagram must leave by, if one is prescribed.
fn exit_for(message: &DatagramParameters, options: &SocketOptions) -> Option<InterfaceId> {
    let group = if message.to.ip().is_multicast() { options.multicast_if } else { None };
    options.device.or(message.interface).or(group)
}

/// The next frame of `outgoing` on `path`.
fn next_part<T: TxBytes>(outgoing: &OutgoingDatagram<T>, path: &Path) -> DatagramPart {
    let datagram = outgoing.current();
    let header = ip::header_len(outgoing.message.to.ip());
    let total = wire::HEADER + datagram.len();
    let is_cut = outgoing.sent > datagram.start;
    if !is_cut && header + total <= usize::from(path.mtu) {
        return DatagramPart { payload: datagram.clone(), datagram, fragment: None };
    }
    let extra = match outgoing.message.to.ip() {
        IpAddr::V4(_) => 0,
        IpAddr::V6(_) => ip::FRAGMENT_HEADER,
    };
    // A multiple of 8, and on however small a link some progress.
    let room = (usize::from(path.mtu).saturating_sub(header + extra) / 8 * 8).max(wire::HEADER * 2);
    let at = if is_cut { outgoing.sent - datagram.start + wire::HEADER } else { 0 };
    let end = total.min(at + room);
    let payload = outgoing.sent..datagram.start + end - wire::HEADER;
    DatagramPart { datagram, payload, fragment: Some((at, end < total)) }
}
