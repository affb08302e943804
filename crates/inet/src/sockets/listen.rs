//! Listeners, and connections on their way to being accepted.
//!
//! A SYN makes a request ([`requests`](super::requests)), the last ACK of the handshake a
//! connection in the accept queue; `accept` gives it to the owner. Bounds are Linux's: a SYN is
//! dropped while the accept queue is full; with all the requests that the backlog allows it is
//! answered with a cookie; the last ACK of a handshake is dropped while the accept queue is full,
//! and the SYN-ACK's retransmission fetches it again.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;

use super::events::EventKind;
use super::ports::Claim;
use super::stream::Stream;
use super::{Body, Socket, SocketKind, faces};
use crate::bytes::{Egress, Frame, RxBytes, RxPiece, TxBytes};
use crate::error::Error;
use crate::held::HeldFrame;
use crate::stack::Stack;
use crate::table::Handle;
use crate::tcp::{Connection, Endpoints, SegmentRepr, Seq, State, TcpConfig, reset_for};
use crate::time::Instant;

/// What makes a socket a listener.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) backlog: u16,
    /// Handshakes under way, and those of them whose timer has not yet expired.
    pub(crate) requests: u32,
    pub(crate) young: u32,
    /// SYN-ACK timeouts for which a finished handshake waits for data.
    pub(crate) defer: u8,
    /// When a cookie was last sent.
    pub(crate) cookies_at: Option<Instant>,
    /// Connections to be accepted.
    pub(crate) accept_queue: VecDeque<Handle>,
    /// Fast connections whose peer may not have acknowledged anything yet.
    pub(crate) fast: Vec<Handle>,
}

impl Listener {
    pub(super) fn is_full(&self) -> bool {
        self.accept_queue.len() > usize::from(self.backlog)
    }

    /// Whether there are as many requests as there may be.
    pub(super) fn has_all_requests(&self, tcp: &TcpConfig) -> bool {
        self.requests >= u32::from(self.backlog).min(tcp.max_syn_backlog)
    }

    /// Whether only the last quarter of the requests that there may ever be is left. As Linux that
    /// is kept free where there are no cookies to fall back on.
    pub(super) fn has_few_left(&self, tcp: &TcpConfig) -> bool {
        tcp.max_syn_backlog.saturating_sub(self.requests) < tcp.max_syn_backlog / 4
    }

    /// How many SYN-ACK timeouts a request may live of the `most` that it may have with few others:
    /// while more than half the backlog is used, fewer the more of the requests are old.
    pub(super) fn patience(&self, most: u8) -> u8 {
        if self.requests.saturating_mul(2) <= u32::from(self.backlog).max(8) {
            return most;
        }
        let mut young = self.young.saturating_mul(2);
        let mut patience = most;
        while patience > 2 && self.requests >= young {
            patience -= 1;
            young = young.saturating_mul(2);
        }
        patience
    }
}

impl<T: TxBytes, R: RxBytes> Stack<T, R> {
    /// Makes a stream socket a listener, or changes a listener's backlog: up to `backlog` + 1
    /// connections wait to be accepted.
    ///
    /// # Errors
    /// `Unsupported` for datagrams, `Invalid` if it is connected, `AddrInUse` if another one
    /// listens there, `BadHandle`.
    pub fn listen(&mut self, handle: Handle, backlog: u16) -> Result<(), Error> {
        let backlog = backlog.min(self.config.backlog);
        match &mut self.open_socket(handle)?.body {
            Body::Listener(listener) => {
                listener.backlog = backlog;
                return Ok(());
            }
            Body::Idle => {}
            Body::Datagram(_) => return Err(Error::Unsupported),
            _ => return Err(Error::Invalid),
        }
        let local = self.bind_to_any(handle)?;
        if !self.may_listen(handle, local) {
            return Err(Error::AddrInUse);
        }
        let socket = self.open_socket(handle)?;
        socket.body = Body::Listener(Listener {
            backlog,
            requests: 0,
            young: 0,
            defer: socket.options.defer_accept,
            cookies_at: None,
            accept_queue: VecDeque::new(),
            fast: Vec::new(),
        });
        let (dual, spread) = (socket.is_dual(), socket.options.reuse_port);
        faces(local, dual).for_each(|face| self.demux.add_listener(face, handle, spread));
        self.renew_claim(handle);
        Ok(())
    }

    /// Whether the socket's claim would be allowed beside the others' once it listens.
    fn may_listen(&mut self, handle: Handle, local: SocketAddr) -> bool {
        let Some(claim) = self.sockets.get(handle).and_then(|socket| socket.claim) else {
            return false;
        };
        self.ports.release(&claim);
        let allowed = self.ports.may_bind(SocketKind::Stream, local, claim.dual, claim.reuse);
        self.ports.claim(&claim);
        allowed
    }

    /// The next connection, whose events from now on carry `tag`, and its peer; `None` if none
    /// waits.
    ///
    /// # Errors
    /// `Invalid` if the socket does not listen, `BadHandle`.
    pub fn accept(
        &mut self,
        handle: Handle,
        tag: u64,
    ) -> Result<Option<(Handle, SocketAddr)>, Error> {
        loop {
            let socket = self.open_socket(handle)?;
            let Body::Listener(listener) = &mut socket.body else { return Err(Error::Invalid) };
            let Some(child) = listener.accept_queue.pop_front() else { return Ok(None) };
            if !listener.accept_queue.is_empty()
                && let Some(socket) = self.sockets.get_mut(handle)
            {
                self.events.add(handle, socket, EventKind::Acceptable);
            }
            let Some(socket) = self.sockets.get_mut(child) else { continue };
            socket.tag = tag;
            let Some(stream) = socket.connection() else { continue };
            stream.listener = None;
            stream.told.connected = true;
            let remote = stream.connection.endpoints().remote;
            let peer = socket.family.show(remote);
            self.tell(child);
            return Ok(Some((child, peer)));
        }
    }

    /// A segment for a listener (RFC 9293 3.10.7.2), whose payload is taken if it opens fast.
    /// `after`: the new connection's sequence numbers must lie after this one, of an earlier
    /// connection between the same ends. Gives the connection that the segment makes, and is for,
    /// if it brings back a cookie.
    #[expect(clippy::too_many_arguments, reason = "a segment, its payload, and whose it is")]
    pub(crate) fn handle_listener_segment(
        &mut self,
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
            if let Some(child) = self.take_cookie(now, handle, &ends, segment) {
                return child;
            }
            if let Some(reset) = reset_for(segment, 0) {
                self.send_reset(now, &ends, &reset, out);
            }
            return None;
        }
        let fast = segment.fast_open.is_some();
        if segment.syn && (!segment.fin || fast) {
            self.handle_syn(now, handle, ends, segment, after, payload, out);
        }
        None
    }

    /// Puts a connection whose handshake is about to end into the table.
    pub(super) fn adopt(
        &mut self,
        listener: Handle,
        ends: Endpoints,
        connection: Connection<T, HeldFrame<R>>,
    ) -> Option<Handle> {
        let parent = self.sockets.get(listener)?;
        let (tag, family, options) = (parent.tag, parent.family, parent.options);
        let stream = Stream::new(connection, Some(listener));
        let child =
            self.sockets.insert(Socket::new(tag, family, options, Body::Connection(stream)))?;
        let claim = Claim {
            kind: SocketKind::Stream,
            local: ends.local,
            dual: false,
            reuse: options.reuse(),
            listening: false,
            by_connect: false,
        };
        self.ports.claim(&claim);
        if let Some(socket) = self.sockets.get_mut(child) {
            socket.local = Some(ends.local);
            socket.claim = Some(claim);
        }
        self.demux.add_connection(ends, child);
        self.mark_ready(child);
        Some(child)
    }

    pub(super) fn with_listener(&mut self, handle: Handle, change: impl FnOnce(&mut Listener)) {
        if let Some(Body::Listener(listener)) =
            self.sockets.get_mut(handle).map(|socket| &mut socket.body)
        {
            change(listener);
        }
    }

    /// Looks at a connection that its listener owns, after something happened to it.
    pub(super) fn settle_child(&mut self, child: Handle, listener: Handle) {
        let Some(stream) = self.sockets.get_mut(child).and_then(|socket| socket.connection())
        else {
            return;
        };
        let is_done = stream.connection.is_done();
        if stream.told.connected {
            // In the accept queue; it stays there even if it is over, as on Linux.
            if is_done {
                self.leave_network(child);
            }
        } else if is_done {
            self.remove_socket(child);
        } else if stream.connection.state() != State::SynReceived {
            stream.told.connected = true;
            self.tcp_counters.tcp_accepted += 1;
            self.with_listener(listener, |listener| listener.accept_queue.push_back(child));
            if let Some(socket) = self.sockets.get_mut(listener) {
                self.events.add(listener, socket, EventKind::Acceptable);
            }
        }
    }

    /// Makes a listener an idle socket; connections not accepted are reset, requests forgotten.
    pub(super) fn stop_listening(&mut self, now: Instant, handle: Handle) {
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        let local = socket.local;
        let Body::Listener(listener) = &mut socket.body else { return };
        let children = core::mem::take(&mut listener.accept_queue);
        let has_requests = listener.requests > 0;
        socket.body = Body::Idle;
        let dual = socket.is_dual();
        if let Some(local) = local {
            faces(local, dual).for_each(|face| self.demux.remove_listener(face, handle));
        }
        self.renew_claim(handle);
        for child in children {
            self.reset_and_remove(now, child);
        }
        if has_requests {
            let requests = self.requests.iter().filter(|(_, request)| request.listener == handle);
            let places: Vec<Handle> = requests.map(|(place, _)| place).collect();
            for place in places {
                self.remove_request(place);
            }
        }
    }
}
