//! Connections: segments in and out, and the events of their owners.

use crate::bytes::{Egress, Frame, ProcessingStage, RxBytes, RxPiece, TxBytes};
use crate::context::{Context, NextHop};
use crate::error::Error;
use crate::held::{HeldFrame, HoldPurpose};
use crate::interface_id::InterfaceId;
use crate::ip;
use crate::ip::packet::Packet;
use crate::sockets::demux::{DemuxTarget, DeviceFit};
use crate::sockets::events::EventKind;
use crate::sockets::layer::SocketLayer;
use crate::sockets::layer::segments::{SegmentRoute, send_segments};
use crate::sockets::options::SocketOptions;
use crate::sockets::socket::SocketBody;
use crate::table::Handle;
use crate::tcp::{
    Connection, Endpoints, FastOpenOutcome, SegmentReply, SegmentRepr, State, reset_for,
};
use crate::time::Instant;
use crate::timers::Timer;
use core::net::SocketAddr;
use core::time::Duration;
use smoltcp::wire::IpProtocol;

/// Segments that one connection sends before the next socket is served.
const QUANTUM: usize = 8;
/// Payload after which the next socket is served, if there is another one.
const QUANTUM_BYTES: usize = 32 * 1024;
/// Most segments that a connection sends into the void at a time, when its neighbour is absent.
const MOST_DISCARDED: usize = 1024;

/// Idle time after which a connection is put to sleep.
const DORMANT_AFTER: Duration = Duration::from_secs(2);

impl<T: TxBytes, R: RxBytes> SocketLayer<T, R> {
    /// Handles a TCP packet to one of this host's addresses. `head` has its headers.
    pub(crate) fn handle_tcp(
        &mut self,
        cx: &mut Context,
        now: Instant,
        packet: &Packet,
        (head, frame): (&[u8], Frame<R>),
        out: &mut dyn Egress<T>,
    ) {
        cx.link.stage(ProcessingStage::TcpInput, out);
        let parsed = self.tcp.handle_packet(packet, head, &frame);
        let Some((segment, payload)) = parsed else { return };
        let segment = &segment;
        let ends =
            Endpoints { local: packet.to(segment.dst_port), remote: packet.from(segment.src_port) };
        let target = self.demux.target(&ends).filter(|target| match target {
            DemuxTarget::Socket(handle) => self.uses(*handle, packet.interface),
            DemuxTarget::Request(_) | DemuxTarget::TimeWait(_) => true,
        });
        let is_new = !matches!(target, Some(DemuxTarget::Socket(_)));
        if is_new && !payload.is_empty() && !cx.held.has_room(&frame, HoldPurpose::Unaccepted) {
            cx.held.count_refused();
            return;
        }
        let handle = if let Some(DemuxTarget::Socket(handle)) = target {
            Some(handle)
        } else if let Some(DemuxTarget::Request(key)) = target {
            self.handle_request_segment(cx, now, key, segment, payload.len(), out)
        } else if let Some(DemuxTarget::TimeWait(key)) = target {
            let piece = RxPiece { frame, range: payload };
            return self.handle_late_segment(cx, now, key, segment, piece, out);
        } else if let Some(listener) = self.listener_for(&ends, packet.interface) {
            let mut piece = Some(RxPiece { frame, range: payload });
            let child = self
                .handle_listener_segment(cx, now, listener, ends, segment, None, &mut piece, out);
            if let (Some(child), Some(piece)) = (child, piece) {
                self.handle_connection_segment(cx, now, child, &ends, segment, piece, out);
            }
            return;
        } else {
            self.tcp.count_no_port();
            if let Some(reset) = reset_for(segment, payload.len()) {
                self.send_reset(cx, now, &ends, &reset, out);
            }
            None
        };
        if let Some(handle) = handle {
            let piece = RxPiece { frame, range: payload };
            self.handle_connection_segment(cx, now, handle, &ends, segment, piece, out);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a segment, its payload, and whose it is")]
    fn handle_connection_segment(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
        ends: &Endpoints,
        segment: &SegmentRepr,
        piece: RxPiece<Frame<R>>,
        out: &mut dyn Egress<T>,
    ) {
        let Some(SocketBody::Connection(stream)) =
            self.sockets.get(handle).map(|socket| &socket.body)
        else {
            return;
        };
        let rcv_nxt = stream.connection.durable().rcv_nxt;
        let ahead = segment.seq.after(rcv_nxt) && !segment.syn;
        let unaccepted = stream.listener().is_some();
        let room = match (stream.listener(), ahead) {
            (Some(_), true) => {
                self.has_out_of_order_room(cx, handle, &piece.frame)
                    && self.has_unaccepted_room(cx, handle, &piece.frame)
            }
            (Some(_), false) => self.has_unaccepted_room(cx, handle, &piece.frame),
            (None, true) => self.has_out_of_order_room(cx, handle, &piece.frame),
            (None, false) => cx.held.has_room(&piece.frame, HoldPurpose::InOrder),
        };
        if !piece.range.is_empty() && !room {
            cx.held.count_refused();
            return;
        }
        let payload = match (piece.range.is_empty(), unaccepted) {
            (true, _) => None,
            (false, false) => {
                Some(RxPiece { frame: cx.held.hold(piece.frame), range: piece.range })
            }
            (false, true) => Some(self.hold_unaccepted(cx, handle, piece)),
        };
        let Some(stream) = self.sockets.get_mut(handle).and_then(|socket| socket.connection())
        else {
            return;
        };
        match stream.connection.handle_segment(now, segment, payload) {
            SegmentReply::None => {}
            SegmentReply::Reset(reset) => self.send_reset(cx, now, ends, &reset, out),
            SegmentReply::Reuse => return self.reuse(cx, now, handle, ends, segment, out),
        }
        self.notify_urgent(handle);
        if let Some(news) = self.fast_open_news(handle) {
            self.tcp.learn_fast_open(ends.remote.ip(), &news);
        }
        self.update(cx, now, handle);
        self.mark_ready(handle);
    }

    /// Whether there is room for data of a connection that is not accepted.
    fn has_unaccepted_room(&mut self, cx: &Context, handle: Handle, frame: &Frame<R>) -> bool {
        let Some(owner) = self.sockets.get(handle).map(|socket| socket.owner) else { return false };
        cx.held.has_unaccepted_room(frame, self.owners.unaccepted(owner, &cx.held))
    }

    /// Holds data of a connection that is not accepted, for the owner of a socket: the connection
    /// or its listener.
    pub(super) fn hold_unaccepted(
        &mut self,
        cx: &Context,
        handle: Handle,
        piece: RxPiece<Frame<R>>,
    ) -> RxPiece<HeldFrame<R>> {
        let owner = self.sockets.get(handle).map(|socket| socket.owner).unwrap_or_default();
        let of_owner = self.owners.unaccepted(owner, &cx.held);
        RxPiece { frame: cx.held.hold_unaccepted(piece.frame, of_owner), range: piece.range }
    }

    /// Whether the shares of a connection and of its owner have room for a frame out of order.
    #[cold]
    fn has_out_of_order_room(&mut self, cx: &Context, handle: Handle, frame: &Frame<R>) -> bool {
        let Some(socket) = self.sockets.get_mut(handle) else { return false };
        let of_owner = self.owners.out_of_order(socket.owner);
        let Some(stream) = socket.connection() else { return false };
        if let Some(of_owner) = of_owner {
            stream.connection.count_out_of_order(of_owner);
        }
        cx.held.has_fair_room(frame, stream.connection.out_of_order_count(), of_owner)
    }

    /// Whether a socket accepts packets from `interface` (SO_BINDTODEVICE).
    pub(super) fn uses(&self, handle: Handle, interface: InterfaceId) -> bool {
        self.device_fit(handle, interface) != DeviceFit::Refused
    }

    /// How a socket's device suits packets from `interface`.
    fn device_fit(&self, handle: Handle, interface: InterfaceId) -> DeviceFit {
        let device = self.sockets.get(handle).and_then(|socket| socket.options.device);
        DeviceFit::of(device, interface)
    }

    /// The listener for a segment that came by `interface`.
    fn listener_for(&self, ends: &Endpoints, interface: InterfaceId) -> Option<Handle> {
        self.demux.listener(ends, |handle| self.device_fit(handle, interface))
    }

    /// Notifies the owner of an urgent mark. This event precedes the byte itself, so that the owner
    /// does not take it for an ordinary one.
    fn notify_urgent(&mut self, handle: Handle) {
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        let SocketBody::Connection(stream) = &mut socket.body else { return };
        // The owner of one that waits to be accepted asks when it is.
        if stream.connection.take_urgent_mark_moved() && stream.listener().is_none() {
            self.events.add(handle, socket, EventKind::Urgent);
        }
    }

    fn fast_open_news(&mut self, handle: Handle) -> Option<FastOpenOutcome> {
        self.sockets.get_mut(handle)?.connection()?.connection.take_fast_open_outcome()
    }

    /// A SYN for a connection in TIME-WAIT goes to the listener, if there is one.
    fn reuse(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
        ends: &Endpoints,
        segment: &SegmentRepr,
        out: &mut dyn Egress<T>,
    ) {
        let Some(listener) = self.demux.listener(ends, |_| DeviceFit::Every) else { return };
        let Some(stream) = self.sockets.get_mut(handle).and_then(|socket| socket.connection())
        else {
            return;
        };
        let used = stream.connection.durable().snd_max;
        stream.connection.discard();
        self.update(cx, now, handle);
        self.tcp.count_time_wait_reused();
        // A SYN makes a request, never a connection.
        self.handle_listener_segment(cx, now, listener, *ends, segment, Some(used), &mut None, out);
    }

    /// Sends a RST, which belongs to no connection.
    pub(crate) fn send_reset(
        &mut self,
        cx: &mut Context,
        now: Instant,
        ends: &Endpoints,
        reset: &SegmentRepr,
        out: &mut dyn Egress<T>,
    ) {
        self.tcp.count_reset_sent();
        self.send_apart(cx, now, ends, reset, cx.ip.ttl(), 0, out);
    }

    /// Sends a segment without payload that is not a connection's, with a listener's options.
    pub(super) fn send_bare(
        &mut self,
        cx: &mut Context,
        now: Instant,
        ends: &Endpoints,
        segment: &SegmentRepr,
        options: &SocketOptions,
        out: &mut dyn Egress<T>,
    ) {
        self.tcp.count_sent(1);
        let (ttl, tos) = match ends.remote {
            SocketAddr::V4(_) => (options.ttl, options.tos),
            SocketAddr::V6(_) => {
                let hops = options.unicast_hops.unwrap_or(cx.ip.default_hop_limit());
                (hops, options.traffic_class)
            }
        };
        self.send_apart(cx, now, ends, segment, ttl, tos, out);
    }

    #[expect(clippy::too_many_arguments, reason = "a segment and what its IP header says")]
    pub(super) fn send_apart(
        &mut self,
        cx: &mut Context,
        now: Instant,
        ends: &Endpoints,
        segment: &SegmentRepr,
        ttl: u8,
        tos: u8,
        out: &mut dyn Egress<T>,
    ) {
        let (source, destination) = (ends.local.ip(), ends.remote.ip());
        let protocol = IpProtocol::Tcp;
        let payload_len = segment.header_len();
        let ip = ip::Header { source, destination, protocol, ttl, tos, flow: 0, payload_len };
        let fill = |bytes: &mut [u8]| {
            segment.emit::<T>(source, destination, &[], bytes);
        };
        cx.answer(now, &ends.remote, &ip, fill, out);
    }

    /// Sends a connection's data, as far as the egress has room, the neighbour is known and the
    /// quantum allows.
    pub(crate) fn serve_stream(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
        out: &mut dyn Egress<T>,
    ) {
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        let (options, waits_for, owner) = (&socket.options, socket.waits_for, socket.owner);
        let SocketBody::Connection(stream) = &mut socket.body else { return };
        let ends = stream.connection.endpoints();
        if stream.connection.poll_at(now).is_none_or(|at| at > now) {
            return self.set_deadline(cx, now, handle);
        }
        let path = match cx.find(&ends.remote, options.device) {
            Ok(path) => path,
            Err(error) => return self.discard_output(cx, now, handle, error),
        };
        let exit = path.exit();
        // At a new interface it waits for its turn after one segment.
        let most = if socket.exit == exit { QUANTUM } else { 1 };
        let most_bytes = if self.turns.is_empty() { usize::MAX } else { QUANTUM_BYTES };
        socket.exit = exit;
        socket.exits.insert(exit);
        // RFC 4861 7.3.1: new data from the peer, or a new ACK of sent data, proves that the first
        // hop works.
        let durable = stream.connection.durable();
        let proven = durable.acked.wrapping_add(durable.received);
        let progress = core::mem::replace(&mut stream.proven, proven) != proven;
        let to = match cx.next_hop(now, (&path, progress), owner, out) {
            NextHop::Ready(mac) => mac,
            NextHop::Full => return self.discard_output(cx, now, handle, Error::HostUnreachable),
            NextHop::Asking(key) => {
                if let Some(old) = waits_for.filter(|old| *old != key) {
                    self.waiting.stop_waiting(old, handle);
                }
                socket.waits_for = Some(key);
                return self.waiting.wait(key, handle);
            }
        };
        let route = SegmentRoute::new(cx, options, path, to, ends);
        stream.connection.enable_super_segments(route.features.cuts(route.kind()));
        if cx.esp.is_active() {
            learn_protected_mtu(cx, now, &mut stream.connection, &route);
        }
        let defer = self.tcp.may_defer_fin_ack();
        let df = options.mtu_discover.sets_df();
        let more =
            send_segments(&mut self.tcp, cx, now, stream, (&route, df), (most, most_bytes), out);
        if defer && stream.connection.defers_fin_ack() {
            self.tcp.add_deferred_fin_ack(now, handle);
        }
        if more {
            self.mark_ready(handle);
            self.update(cx, now, handle);
        } else {
            self.set_deadline(cx, now, handle);
        }
    }

    /// A connection has nothing to send for now: its timer is set.
    fn set_deadline(&mut self, cx: &mut Context, now: Instant, handle: Handle) {
        self.update(cx, now, handle);
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        let timer = socket.timer;
        let Some(stream) = socket.connection() else { return };
        let stats = stream.connection.take_stats();
        let over = stream.connection.state() == State::TimeWait;
        self.tcp.add_stats(stats);
        if over {
            self.enter_time_wait(cx, handle);
        }
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        let Some(stream) = socket.connection() else { return };
        let at = stream.connection.poll_at(now);
        let idle = stream.connection.is_idle();
        let dormant_at = idle.then(|| now + DORMANT_AFTER);
        let at = at.into_iter().chain(dormant_at).min();
        let wheel = &mut cx.timers;
        socket.timer = match (at, timer) {
            (Some(at), Some(timer)) if wheel.is_at(timer, at) => Some(timer),
            // The timer of an idle connection is not moved at each segment. The connection checks
            // the time when the timer fires.
            (Some(at), Some(timer)) if idle && wheel.is_before(timer, at) => Some(timer),
            (at, timer) => {
                if let Some(timer) = timer {
                    wheel.cancel(timer);
                }
                at.map(|at| wheel.arm(at, Timer::Socket(handle)))
            }
        };
    }

    /// Drops a connection's output because no route leads to the peer. A connection attempt fails.
    /// An established connection counts its segments as sent, so that its timers decide how long it
    /// lives.
    pub(crate) fn discard_output(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
        error: Error,
    ) {
        let Some(stream) = self.sockets.get_mut(handle).and_then(|socket| socket.connection())
        else {
            return;
        };
        stream.connection.handle_unreachable(error);
        for _ in 0..MOST_DISCARDED {
            if stream.connection.poll_segment(now).is_none() {
                break;
            }
            cx.link.count_unresolved(1);
        }
        self.set_deadline(cx, now, handle);
    }

    /// A connection's timer has fired.
    pub(crate) fn handle_socket_timer(&mut self, cx: &mut Context, now: Instant, handle: Handle) {
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        socket.timer = None;
        if let Some(stream) = socket.connection() {
            stream.connection.handle_timer(now);
            let quiet = now - stream.connection.idle_since() >= DORMANT_AFTER;
            if quiet && stream.listener().is_none() && stream.connection.is_idle() {
                let stats = stream.connection.take_stats();
                let at = stream.connection.poll_at(now);
                stream.connection.make_dormant();
                socket.timer = at.map(|at| cx.timers.arm(at, Timer::Socket(handle)));
                return self.tcp.add_stats(stats);
            }
            self.update(cx, now, handle);
            self.mark_ready(handle);
        }
    }

    /// Follows up a change of a connection: notifies its owner, and acts on states that concern the
    /// stack.
    pub(crate) fn update(&mut self, cx: &mut Context, now: Instant, handle: Handle) {
        self.tcp.set_clock(now);
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        let closing = socket.is_closing();
        let Some(stream) = socket.connection() else { return };
        if stream.read_shut {
            let mut discarded = 0;
            while let Some(piece) = stream.connection.recv() {
                discarded += piece.range.len();
            }
            if discarded > 0 {
                stream.connection.consumed(now, discarded);
            }
        }
        match stream.listener() {
            _ if closing => self.update_closing(cx, now, handle),
            Some(listener) => self.update_child(cx, handle, listener),
            None => self.notify(cx, handle),
        }
    }

    /// Notifies a connection's owner of what is new.
    pub(super) fn notify(&mut self, cx: &mut Context, handle: Handle) {
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        let lowat = socket.options.recv_lowat as usize;
        let tells_sent = socket.options.not_sent_lowat != 0;
        let SocketBody::Connection(stream) = &mut socket.body else { return };
        let (connection, notified) = (&stream.connection, &mut stream.notified);
        let state = connection.state();
        let is_done = connection.is_done();
        let synchronized = !matches!(state, State::Closed | State::SynSent | State::SynReceived);
        let readable = connection.readable_len();
        // Fewer are of interest once there will be no more.
        let enough = readable >= lowat || connection.is_at_end();
        let error = connection.error().filter(|_| is_done && !notified.failed);
        let news = [
            (!notified.connected && synchronized).then_some(EventKind::Connected),
            (readable > notified.readable && enough).then_some(EventKind::Readable),
            (!notified.eof && connection.eof()).then_some(EventKind::Eof),
            (notified.acked != connection.acked()).then_some(EventKind::Acked),
            error.map(EventKind::Failed),
        ];
        let attempt_failed = error.is_some() && !notified.connected;
        notified.connected |= synchronized;
        if enough || readable < notified.readable {
            notified.readable = readable;
        }
        notified.eof |= connection.eof();
        notified.acked = connection.acked();
        notified.failed |= error.is_some();
        let sent = tells_sent.then(|| connection.sent() as u32);
        if let Some(sent) = sent
            && core::mem::replace(&mut notified.sent, sent) != sent
        {
            self.events.add(handle, socket, EventKind::Acked);
        }
        for kind in news.into_iter().flatten() {
            self.events.add(handle, socket, kind);
        }
        if attempt_failed {
            self.give_up_attempt(cx, handle);
        } else if is_done {
            self.leave_network(cx, handle);
        }
    }

    /// A connection attempt has failed: the socket may try again, from the address it was bound to.
    fn give_up_attempt(&mut self, cx: &mut Context, handle: Handle) {
        self.leave_network(cx, handle);
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        socket.body = SocketBody::Idle;
        self.restore_address(handle);
    }

    /// Removes an ended connection from the demultiplexer while its socket is still open. Its port
    /// is free, unless the owner bound it by its number.
    pub(super) fn leave_network(&mut self, cx: &mut Context, handle: Handle) {
        let Some(socket) = self.sockets.get(handle) else { return };
        let (named, claim) = (socket.binding.names_port(), socket.claim);
        self.unregister(cx, handle);
        if let (true, Some(claim), Some(socket)) = (named, claim, self.sockets.get_mut(handle)) {
            self.ports.claim(&claim, socket.owner);
            socket.claim = Some(claim);
        }
    }
}

/// RFC 4301 8.2.1: an association's path tells of its MTU when something is sent.
#[cold]
#[inline(never)]
fn learn_protected_mtu<T: TxBytes, R: RxBytes>(
    cx: &mut Context,
    now: Instant,
    connection: &mut Connection<T, HeldFrame<R>>,
    route: &SegmentRoute,
) {
    let host = route.ends.remote.ip();
    if cx.esp.covers(host) {
        let known = cx.path_mtu(now, host);
        connection.handle_too_big(now, route.path.narrowed(known).mtu);
    }
}
