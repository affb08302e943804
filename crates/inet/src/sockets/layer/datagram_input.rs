//! Datagrams that are received.

use crate::bytes::{Frame, RxBytes, RxPiece, TxBytes};
use crate::context::Context;
use crate::held::HoldPurpose;
use crate::ip::Arrival;
use crate::ip::groups::GroupListener;
use crate::ip::packet::Packet;
use crate::sockets::demux::DeviceFit;
use crate::sockets::events::EventKind;
use crate::sockets::kinds::SocketKind;
use crate::sockets::layer::SocketLayer;
use crate::sockets::options::SocketOptions;
use crate::sockets::socket::SocketBody;
use crate::table::Handle;
use crate::tcp::Endpoints;
use crate::udp::message::DatagramInfo;
use alloc::boxed::Box;

impl<T: TxBytes, R: RxBytes> SocketLayer<T, R> {
    /// Handles a packet of UDP or UDP-Lite, as `kind` says. `head` has its headers. Gives the frame
    /// back if no socket has its port and the sender is to get an ICMP error.
    pub(crate) fn handle_datagram(
        &mut self,
        cx: &mut Context,
        kind: SocketKind,
        (packet, arrival): (&Packet, Arrival),
        (head, frame): (&[u8], Frame<R>),
    ) -> Option<Frame<R>> {
        let (parsed, coverage) = match kind {
            SocketKind::UdpLite => self.udp.handle_lite_packet(packet, head, &frame)?,
            _ => (self.udp.handle_packet(packet, head, &frame)?, None),
        };
        let ends =
            Endpoints { local: packet.to(parsed.dst_port), remote: packet.from(parsed.src_port) };
        let start = packet.payload.start;
        let range = start + parsed.payload.start..start + parsed.payload.end;
        let info = DatagramInfo {
            from: ends.remote,
            to: packet.destination,
            interface: packet.interface,
            ttl: packet.ttl,
            tos: packet.tos,
        };
        if arrival == Arrival::ToAll {
            self.queue_for_all(cx, (kind, &ends), RxPiece { frame, range }, (info, coverage));
            return None;
        }
        let demux = self.demux.datagrams_ref(kind);
        let found = demux.datagram(&ends, |handle| self.receives(cx, handle, &info));
        let Some(handle) = found else {
            self.udp.count_no_port();
            return Some(frame);
        };
        self.queue_datagram(cx, handle, RxPiece { frame, range }, (info, coverage));
        None
    }

    /// Whether a socket receives from the datagram's interface, and how that suits its device; for
    /// a group also whether it receives from the source.
    pub(super) fn receives(&self, cx: &Context, handle: Handle, info: &DatagramInfo) -> DeviceFit {
        let Some(socket) = self.sockets.get(handle) else { return DeviceFit::Refused };
        let SocketOptions { device, multicast_all4, multicast_all6, .. } = socket.options;
        let DatagramInfo { to, interface, from, .. } = *info;
        let fit = DeviceFit::of(device, interface);
        if fit == DeviceFit::Refused || !to.is_multicast() {
            return fit;
        }
        let admitted = match cx.ip.group_filter(interface, to, GroupListener::Socket(handle)) {
            Some(filter) => filter.admits(from.ip()),
            // As Linux: sockets with IP_MULTICAST_ALL receive from groups that any socket has
            // joined.
            None => {
                let all = if to.is_ipv4() { multicast_all4 } else { multicast_all6 };
                all && cx.ip.admits(interface, to, from.ip())
            }
        };
        if admitted { fit } else { DeviceFit::Refused }
    }

    /// Queues a broadcast or multicast datagram at each socket that is bound there (RFC 1122
    /// 4.1.3.3 and Linux). All sockets but one get a copy.
    fn queue_for_all(
        &mut self,
        cx: &mut Context,
        (kind, ends): (SocketKind, &Endpoints),
        piece: RxPiece<Frame<R>>,
        (info, coverage): (DatagramInfo, Option<u16>),
    ) {
        let mut found = self.demux.datagrams_ref(kind).datagram_all(ends);
        found.retain(|handle| self.receives(cx, *handle, &info) != DeviceFit::Refused);
        let Some((last, others)) = found.split_last() else {
            self.udp.count_no_port();
            return;
        };
        for handle in others {
            let mut bytes: Box<[u8]> = alloc::vec![0; piece.range.len()].into();
            piece.frame.read(piece.range.start, &mut bytes);
            self.udp.count_copied(bytes.len());
            let copy = RxPiece { range: 0..bytes.len(), frame: Frame::Joined(bytes) };
            self.queue_datagram(cx, *handle, copy, (info, coverage));
        }
        self.queue_datagram(cx, *last, piece, (info, coverage));
    }

    pub(super) fn queue_datagram(
        &mut self,
        cx: &mut Context,
        handle: Handle,
        piece: RxPiece<Frame<R>>,
        (info, coverage): (DatagramInfo, Option<u16>),
    ) {
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        let limit = socket.options.recv_buffer();
        // RFC 3828 3.1: less than the receiver asks for is not enough. 0 asks for everything.
        let least = socket.options.recv_coverage;
        let enough = |covered| least.is_none_or(|least| least != 0 && covered >= least);
        if !coverage.is_none_or(enough) {
            self.udp.count_uncovered();
            return;
        }
        let Some(datagram) = socket.datagram() else { return };
        if !datagram.recv.fits(piece.range.len(), limit, self.config.udp_queue) {
            self.udp.count_overflow();
            return;
        }
        if !cx.held.has_room(&piece.frame, HoldPurpose::Datagram) {
            cx.held.count_refused();
            return;
        }
        let frame = cx.held.hold(piece.frame);
        datagram.recv.push(RxPiece { frame, range: piece.range }, info);
        self.udp.count_received();
        self.events.add(handle, socket, EventKind::Readable);
    }

    /// See [`Stack::recv_run`](crate::Stack::recv_run).
    pub(crate) fn recv_run(&self, handle: Handle, most: usize) -> Option<(usize, usize)> {
        match &self.sockets.get(handle)?.body {
            SocketBody::Datagram(datagram) => datagram.recv.run(most),
            _ => None,
        }
    }
}
