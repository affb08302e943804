//! Listeners, and connections on their way to being accepted.
//!
//! A SYN makes a request (`handshake`), the last ACK of the handshake a
//! connection in the accept queue; `accept` gives it to the owner. Bounds are Linux's: a SYN is
//! dropped while the accept queue is full; with all the requests that the backlog allows it is
//! answered with a cookie; the last ACK of a handshake is dropped while the accept queue is full,
//! and the SYN-ACK's retransmission fetches it again.

use crate::bytes::{Egress, Frame, RxBytes, RxPiece, TxBytes};
use crate::context::Context;
use crate::error::Error;
use crate::held::HeldFrame;
use crate::sockets::demux::Sharing;
use crate::sockets::events::EventKind;
use crate::sockets::kinds::SocketKind;
use crate::sockets::layer::SocketLayer;
use crate::sockets::listener::Listener;
use crate::sockets::ports::PortClaim;
use crate::sockets::ports::receive_addresses;
use crate::sockets::socket::{Socket, SocketBody};
use crate::sockets::stream::Stream;
use crate::table::Handle;
use crate::tcp::{Connection, Endpoints, SegmentRepr, Seq, State, reset_for};
use crate::time::Instant;
use core::net::SocketAddr;

impl<T: TxBytes, R: RxBytes> SocketLayer<T, R> {
    /// See [`Stack::listen`](crate::Stack::listen).
    pub(crate) fn listen(
        &mut self,
        cx: &mut Context,
        handle: Handle,
        backlog: u16,
    ) -> Result<(), Error> {
        let backlog = backlog.min(self.config.backlog);
        match &mut self.open_socket(handle)?.body {
            SocketBody::Listener(listener) => {
                listener.backlog = backlog;
                return Ok(());
            }
            SocketBody::Idle => {}
            SocketBody::Datagram(_) => return Err(Error::Unsupported),
            _ => return Err(Error::Invalid),
        }
        let local = self.bind_to_any(cx, handle)?;
        if !self.may_listen(handle, local) {
            return Err(Error::AddrInUse);
        }
        let socket = self.open_socket(handle)?;
        socket.body = SocketBody::Listener(Listener::new(backlog, socket.options.defer_accept));
        let (dual, sharing) = (socket.is_dual(), Sharing::of(&socket.options));
        receive_addresses(local, dual)
            .for_each(|face| self.demux.add_listener(face, handle, sharing));
        self.renew_claim(handle);
        Ok(())
    }

    /// Whether the socket's claim would be allowed beside the others' once it listens.
    fn may_listen(&mut self, handle: Handle, local: SocketAddr) -> bool {
        let Some(socket) = self.sockets.get(handle) else { return false };
        let (Some(claim), owner) = (socket.claim, socket.owner) else { return false };
        self.ports.release(&claim, owner);
        let (PortClaim { dual, device, reuse, .. }, kind) = (claim, SocketKind::Stream);
        let allowed = self.ports.may_bind(kind, (local, dual), device, reuse);
        self.ports.claim(&claim, owner);
        allowed
    }

    /// See [`Stack::accept`](crate::Stack::accept).
    pub(crate) fn accept(
        &mut self,
        cx: &mut Context,
        handle: Handle,
        tag: u64,
    ) -> Result<Option<(Handle, SocketAddr)>, Error> {
        loop {
            let socket = self.open_socket(handle)?;
            let SocketBody::Listener(listener) = &mut socket.body else {
                return Err(Error::Invalid);
            };
            let Some(child) = listener.next_child() else { return Ok(None) };
            if listener.queued() > 0
                && let Some(socket) = self.sockets.get_mut(handle)
            {
                self.events.add(handle, socket, EventKind::Acceptable);
            }
            let Some(socket) = self.sockets.get_mut(child) else { continue };
            socket.tag = tag;
            let Some(stream) = socket.connection() else { continue };
            stream.accept();
            let remote = stream.connection.endpoints().remote;
            let peer = socket.family.show(remote);
            self.notify(cx, child);
            return Ok(Some((child, peer)));
        }
    }

    /// Handles a segment for a listener (RFC 9293 3.10.7.2). A SYN that opens fast takes the
    /// payload. With `after`, an earlier connection between the same ends had this sequence number:
    /// those of the new connection must lie after it. If the segment brings back a cookie, the
    /// result is the connection that it makes and is for.
    #[expect(clippy::too_many_arguments, reason = "a segment, its payload, and whose it is")]
    pub(crate) fn handle_listener_segment(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
        ends: Endpoints,
        segment: &SegmentRepr,
        after: Option<Seq>,
        payload: &mut Option<RxPiece<Frame<R>>>,
        out: &mut dyn Egress<T>,
    ) -> Option<Handle> {
        if segment.rst {
            return None;
        }
        if segment.ack.is_some() {
            if let Some(child) = self.take_cookie(cx, now, handle, &ends, segment) {
                return child;
            }
            if let Some(reset) = reset_for(segment, 0) {
                self.send_reset(cx, now, &ends, &reset, out);
            }
            return None;
        }
        let fast = segment.fast_open.is_some();
        if segment.syn && (!segment.fin || fast) {
            self.handle_syn(cx, now, handle, ends, segment, after, payload, out);
        }
        None
    }

    /// Adds a connection whose handshake is about to end to the table.
    pub(super) fn add_accepted(
        &mut self,
        listener: Handle,
        ends: Endpoints,
        connection: Connection<T, HeldFrame<R>>,
    ) -> Option<Handle> {
        let parent = self.sockets.get(listener)?;
        let (tag, family, options) = (parent.tag, parent.family, parent.options);
        let owner = parent.owner;
        let stream = Stream::new(connection, Some(listener));
        let child = self.add_socket(Socket::new(
            tag,
            family,
            owner,
            options,
            SocketBody::Connection(stream),
        ))?;
        let claim = PortClaim {
            kind: SocketKind::Stream,
            local: ends.local,
            dual: false,
            device: options.device,
            reuse: options.reuse(),
            listening: false,
            by_connect: None,
        };
        self.ports.claim(&claim, owner);
        if let Some(socket) = self.sockets.get_mut(child) {
            socket.local = Some(ends.local);
            socket.claim = Some(claim);
        }
        self.demux.add_connection(ends, child);
        self.mark_ready(child);
        Some(child)
    }

    pub(super) fn with_listener(&mut self, handle: Handle, change: impl FnOnce(&mut Listener)) {
        if let Some(SocketBody::Listener(listener)) =
            self.sockets.get_mut(handle).map(|socket| &mut socket.body)
        {
            change(listener);
        }
    }

    /// Follows up a change of a connection that its listener still owns.
    pub(super) fn update_child(&mut self, cx: &mut Context, child: Handle, listener: Handle) {
        let Some(stream) = self.sockets.get_mut(child).and_then(|socket| socket.connection())
        else {
            return;
        };
        let is_done = stream.connection.is_done();
        if stream.notified.connected {
            // It is in the accept queue, and remains there even after its end, as on Linux.
            if is_done {
                self.leave_network(cx, child);
            }
        } else if is_done {
            self.remove_socket(cx, child);
        } else if stream.connection.state() != State::SynReceived {
            stream.notified.connected = true;
            self.tcp.count_accepted();
            self.queue_accepted(listener, child);
        }
    }

    /// Queues a connection at its listener, to be accepted, and notifies the owner.
    pub(super) fn queue_accepted(&mut self, listener: Handle, child: Handle) {
        self.with_listener(listener, |listener| listener.queue(child));
        if let Some(socket) = self.sockets.get_mut(listener) {
            self.events.add(listener, socket, EventKind::Acceptable);
        }
    }

    /// Makes a listener an idle socket; connections not accepted are reset, requests forgotten.
    pub(super) fn stop_listening(&mut self, cx: &mut Context, now: Instant, handle: Handle) {
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        let local = socket.local;
        let SocketBody::Listener(listener) = &mut socket.body else { return };
        let children = listener.take_queue();
        let has_requests = listener.has_requests();
        socket.body = SocketBody::Idle;
        let dual = socket.is_dual();
        if let Some(local) = local {
            receive_addresses(local, dual)
                .for_each(|face| self.demux.remove_listener(face, handle));
        }
        self.renew_claim(handle);
        for child in children {
            self.reset_and_remove(cx, now, child);
        }
        if has_requests {
            for key in self.tcp.requests_of(handle) {
                self.remove_request(cx, key);
            }
        }
    }
}
