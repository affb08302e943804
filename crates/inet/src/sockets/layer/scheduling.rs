//! The scheduling of the sockets: the queue of those with output, and the events that wake them.

use crate::bytes::{Egress, RxBytes, TxBytes};
use crate::context::Context;
use crate::error::Error;
use crate::interface_id::NeighbourKey;
use crate::link::ResolvedNeighbour;
use crate::owner_id::OwnerId;
use crate::sockets::events::{Event, EventKind};
use crate::sockets::layer::SocketLayer;
use crate::sockets::socket::{Socket, SocketBody};
use crate::table::Handle;
use crate::time::Instant;

/// RSTs without room that are looked at before the others wait for the next poll.
const MOST_BLOCKED: usize = 16;

impl<T: TxBytes, R: RxBytes> SocketLayer<T, R> {
    /// The next thing that happened.
    #[inline]
    pub(crate) fn poll_event(&mut self, cx: &mut Context) -> Option<Event> {
        let (handle, event) = self.events.next(&mut self.sockets)?;
        if event.kind == EventKind::Closed {
            self.handle_closed_taken(cx, handle);
        }
        Some(event)
    }

    /// Whether a socket may have something to send, and has room for it.
    #[inline]
    pub(crate) fn can_go_on(&mut self, cx: &Context, out: &mut dyn Egress<T>) -> bool {
        self.turns.can_go_on(&cx.link, out)
    }

    /// When to poll next: the past if there is something to send.
    pub(crate) fn poll_at(&self) -> Option<Instant> {
        if self.turns.is_empty() { self.tcp.poll_at() } else { Some(Instant::ZERO) }
    }

    /// Sends the RSTs that calls of the owner have caused, as far as there is room.
    #[inline]
    pub(crate) fn send_resets(&mut self, cx: &mut Context, now: Instant, out: &mut dyn Egress<T>) {
        if self.tcp.resets_len() > 0 {
            self.send_queued_resets(cx, now, out);
        }
    }

    fn send_queued_resets(&mut self, cx: &mut Context, now: Instant, out: &mut dyn Egress<T>) {
        let mut blocked = 0;
        for _ in 0..self.tcp.resets_len() {
            let Some((ends, reset)) = self.tcp.poll_reset() else { return };
            let exit = cx.find(&ends.remote, None).map(|path| path.exit());
            if exit.is_ok_and(|exit| !cx.link.has_room(exit, out)) {
                self.tcp.queue_reset(ends, reset);
                blocked += 1;
                if blocked == MOST_BLOCKED {
                    return;
                }
            } else {
                self.send_reset(cx, now, &ends, &reset, out);
            }
        }
    }

    /// Serves as many sockets as are ready now, as far as the interfaces have room.
    pub(crate) fn serve_ready(&mut self, cx: &mut Context, now: Instant, out: &mut dyn Egress<T>) {
        if self.turns.is_empty() {
            return;
        }
        for at in 0..self.turns.interfaces() {
            let mut left = self.turns.waiting(at);
            while left > 0
                && let Some(handle) = self.turns.pop(at, &cx.link, out)
            {
                self.serve(cx, now, handle, out);
                left -= 1;
            }
        }
        out.set_sender(OwnerId::default());
    }

    fn serve(&mut self, cx: &mut Context, now: Instant, handle: Handle, out: &mut dyn Egress<T>) {
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        socket.ready = false;
        match socket.body {
            SocketBody::Connection(_) => self.serve_stream(cx, now, handle, out),
            SocketBody::Datagram(_) => self.serve_datagram(cx, now, handle, out),
            _ => {}
        }
    }

    /// Whether ACKs of FINs may be deferred from now on.
    pub(crate) fn defer_fin_acks(&mut self, deferring: bool) {
        self.tcp.permit_deferring(deferring);
    }

    /// Whether ACKs of FINs are deferred.
    pub(crate) fn defers_fin_acks(&self) -> bool {
        self.tcp.has_deferred_fin_acks()
    }

    /// Whether ACKs of FINs have been deferred for long enough.
    pub(crate) fn fin_acks_are_late(&self, now: Instant) -> bool {
        self.tcp.fin_acks_are_late(now)
    }

    /// Deferred ACKs of FINs leave when their connections are served next.
    pub(crate) fn end_deferrals(&mut self) {
        while let Some(handle) = self.tcp.poll_deferred_fin_ack() {
            if let Some(stream) = self.sockets.get_mut(handle).and_then(Socket::connection) {
                stream.connection.end_deferral();
                self.mark_ready(handle);
            }
        }
    }

    /// A neighbour is resolved: sockets that waited for it go on.
    pub(crate) fn handle_resolved(
        &mut self,
        cx: &mut Context,
        resolved: ResolvedNeighbour,
        out: &mut dyn Egress<T>,
    ) {
        let ResolvedNeighbour { neighbour, mac } = resolved;
        for datagram in self.udp.take_parked(neighbour) {
            self.send_parked(cx, neighbour, mac, datagram, out);
        }
        for handle in self.waiting.take(neighbour) {
            if self.stop_waiting(handle).is_some() {
                self.mark_ready(handle);
            }
        }
    }

    /// A neighbour is silent: sockets that waited for it cannot reach their hosts (RFC 1122
    /// 2.3.2.2, 3.3.1.4).
    pub(crate) fn handle_unreachable(
        &mut self,
        cx: &mut Context,
        now: Instant,
        neighbour: NeighbourKey,
    ) {
        for datagram in self.udp.take_parked(neighbour) {
            self.drop_parked(cx, datagram, Some(Error::HostUnreachable));
        }
        for handle in self.waiting.take(neighbour) {
            match self.stop_waiting(handle) {
                Some(true) => self.drop_datagram(cx, handle, Error::HostUnreachable),
                Some(false) => self.discard_output(cx, now, handle, Error::HostUnreachable),
                None => {}
            }
        }
    }

    /// A socket does not wait for its neighbour any more: whether it is a datagram socket.
    fn stop_waiting(&mut self, handle: Handle) -> Option<bool> {
        let socket = self.sockets.get_mut(handle)?;
        socket.waits_for = None;
        Some(socket.datagram().is_some())
    }
}
