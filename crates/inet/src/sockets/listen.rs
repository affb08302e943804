//! Listeners, and connections on their way to being accepted.
//!
//! A SYN makes a socket that belongs to the listener (half-open); when its handshake completes it
//! moves to the accept queue; `accept` gives it to the owner. Bounds are Linux's: a SYN is dropped
//! while the accept queue is full or too many are half-open; the last ACK of a handshake is dropped
//! while the accept queue is full, and the SYN-ACK's retransmission fetches it again.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;

use super::events::EventKind;
use super::ports::Claim;
use super::stream::Stream;
use super::table::Handle;
use super::{Body, Socket, SocketKind, faces};
use crate::bytes::{Egress, RxBytes, TxBytes};
use crate::error::Error;
use crate::stack::Stack;
use crate::tcp::{Connection, Endpoints, SegmentRepr, Seq, State, reset_for};
use crate::time::Instant;

/// Half-open connections that even the shortest backlog allows.
const LEAST_HALF_OPEN: u32 = 16;

/// What makes a socket a listener.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) backlog: u16,
    /// Connections whose handshake is under way.
    pub(crate) half_open: u32,
    /// Connections to be accepted.
    pub(crate) accept_queue: VecDeque<Handle>,
}

impl Listener {
    fn is_full(&self) -> bool {
        self.accept_queue.len() > usize::from(self.backlog)
    }

    fn forget_half_open(&mut self) {
        self.half_open = self.half_open.saturating_sub(1);
    }

    fn takes_syn(&self) -> bool {
        !self.is_full() && self.half_open < u32::from(self.backlog).max(LEAST_HALF_OPEN)
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
        let accept_queue = VecDeque::new();
        socket.body = Body::Listener(Listener { backlog, half_open: 0, accept_queue });
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

    /// A segment for a listener (RFC 9293 3.10.7.2). `after`: the new connection's sequence numbers
    /// must lie after this one, of an earlier connection between the same ends.
    pub(crate) fn handle_listener_segment(
        &mut self,
        now: Instant,
        handle: Handle,
        ends: Endpoints,
        segment: &SegmentRepr,
        after: Option<Seq>,
        out: &mut dyn Egress<T>,
    ) {
        if segment.rst {
            return;
        }
        if segment.ack.is_some() {
            if let Some(reset) = reset_for(segment, 0) {
                self.send_reset(now, &ends, &reset, out);
            }
            return;
        }
        if !segment.syn || segment.fin {
            return;
        }
        if self.add_half_open(now, handle, ends, segment, after).is_none() {
            self.net.counters.tcp_syn_dropped += 1;
        }
    }

    /// Makes the half-open connection of a SYN; `None` if there is no room or no way back.
    fn add_half_open(
        &mut self,
        now: Instant,
        handle: Handle,
        ends: Endpoints,
        syn: &SegmentRepr,
        after: Option<Seq>,
    ) -> Option<()> {
        let parent = self.sockets.get(handle)?;
        let Body::Listener(listener) = &parent.body else { return None };
        if !listener.takes_syn() {
            return None;
        }
        let (tag, family, options) = (parent.tag, parent.family, parent.options);
        let path = self.net.find(&ends.remote).ok()?;
        let mut iss = self.secret.isn(now, &ends);
        if let Some(after) = after {
            // RFC 9293 3.10.7.4, TIME-WAIT: "as long as the ISN is larger than the largest one
            // used".
            iss = iss.max(after + 65_537);
        }
        let config = options.tcp_config(&self.tcp, &path);
        let mut connection = Connection::accept(now, config, ends, syn, iss);
        connection.set_timestamp_offset(self.secret.timestamp_offset(&ends));
        options.apply(now, &mut connection);
        let stream = Box::new(Stream::new(connection, Some(handle)));
        let child = self.add_socket(Socket::new(tag, family, options, Body::Connection(stream)))?;
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
        self.with_listener(handle, |listener| listener.half_open += 1);
        self.mark_ready(child);
        Some(())
    }

    fn with_listener(&mut self, handle: Handle, change: impl FnOnce(&mut Listener)) {
        if let Some(Body::Listener(listener)) =
            self.sockets.get_mut(handle).map(|socket| &mut socket.body)
        {
            change(listener);
        }
    }

    /// Whether a segment that would complete a handshake has to wait for room in the accept queue.
    pub(crate) fn holds_up(&self, stream: &Stream<T, R>, segment: &SegmentRepr) -> bool {
        let Some(listener) = stream.listener else { return false };
        let completes = stream.connection.state() == State::SynReceived
            && segment.ack.is_some()
            && !segment.rst
            && !segment.syn;
        let body = self.sockets.get(listener).map(|socket| &socket.body);
        completes && matches!(body, Some(Body::Listener(listener)) if listener.is_full())
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
            self.with_listener(listener, Listener::forget_half_open);
            self.remove_socket(child);
        } else if stream.connection.state() != State::SynReceived {
            stream.told.connected = true;
            self.net.counters.tcp_accepted += 1;
            self.with_listener(listener, |listener| {
                listener.forget_half_open();
                listener.accept_queue.push_back(child);
            });
            if let Some(socket) = self.sockets.get_mut(listener) {
                self.events.add(listener, socket, EventKind::Acceptable);
            }
        }
    }

    /// Makes a listener an idle socket; connections not accepted are reset.
    pub(super) fn stop_listening(&mut self, handle: Handle) {
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        if !matches!(socket.body, Body::Listener(_)) {
            return;
        }
        socket.body = Body::Idle;
        let dual = socket.is_dual();
        if let Some(local) = socket.local {
            faces(local, dual).for_each(|face| self.demux.remove_listener(face, handle));
        }
        self.renew_claim(handle);
        let is_child = |socket: &Socket<T, R>| match &socket.body {
            Body::Connection(stream) => stream.listener == Some(handle),
            _ => false,
        };
        let children: Vec<Handle> = self
            .sockets
            .iter()
            .filter(|(_, socket)| is_child(socket))
            .map(|(child, _)| child)
            .collect();
        for child in children {
            self.reset_and_remove(child);
        }
    }
}
