//! Connection requests: handshakes that a peer has begun and not finished (RFC 4987).
//!
//! A SYN makes a record, not a connection: every host can send SYNs, and from any address. The
//! SYN-ACK is made from the record each time, by the same code as a connection's. The connection is
//! made when the last ACK of the handshake comes.
//!
//! The backlog of a listener bounds its requests. Beyond that bound it answers with SYN cookies
//! ([`cookies`]), which need no memory. Records, demultiplexing and timers take constant time. Only
//! the end of a listener visits all requests.

use crate::bytes::{Egress, Frame, RxBytes, RxPiece, TxBytes};
use crate::context::Context;
use crate::held::HeldFrame;
use crate::sockets::cookies;
use crate::sockets::layer::SocketLayer;
use crate::sockets::layer::fast_open::FastOpenDecision;
use crate::sockets::listener::Listener;
use crate::sockets::options::SocketOptions;
use crate::sockets::request::{ConnectionRequest, RequestTimeout, RequestVerdict};
use crate::sockets::socket::SocketBody;
use crate::table::Handle;
use crate::tcp::{Connection, Endpoints, SegmentRepr, Seq};
use crate::time::Instant;

impl<T: TxBytes, R: RxBytes> SocketLayer<T, R> {
    /// Answers a SYN with a new request, with a cookie, or not at all. With `after`, an earlier
    /// connection between the same ends had this sequence number: those of the new connection must
    /// lie after it.
    #[expect(clippy::too_many_arguments, reason = "a segment, its payload, and whose it is")]
    pub(super) fn handle_syn(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
        ends: Endpoints,
        syn: &SegmentRepr,
        after: Option<Seq>,
        payload: &mut Option<RxPiece<Frame<R>>>,
        out: &mut dyn Egress<T>,
    ) {
        let Some(parent) = self.sockets.get_mut(handle) else { return };
        let options = parent.options;
        let SocketBody::Listener(listener) = &mut parent.body else { return };
        let tcp = self.tcp.config();
        let owner = parent.owner;
        let fair = self.owners.may_add_request(owner, self.tcp.request_room());
        let crowded = tcp.syncookies == 2 || listener.has_all_requests(tcp) || !fair;
        let with_cookie = crowded && after.is_none();
        if listener.is_full() || (with_cookie && tcp.syncookies == 0) {
            if listener.is_full() {
                self.tcp.count_listen_overflow();
            }
            return self.tcp.count_syn_dropped();
        }
        if with_cookie {
            listener.cookie_sent(now);
            return self.send_cookie(cx, now, &ends, syn, &options, out);
        }
        if tcp.syncookies == 0 && after.is_none() && listener.has_few_left(tcp) {
            return self.tcp.count_syn_dropped();
        }
        let grant = match self.open_fast(cx, now, handle, &ends, syn, payload) {
            FastOpenDecision::Child => return,
            FastOpenDecision::Grant(option) => Some(option),
            FastOpenDecision::No if syn.fin => return,
            FastOpenDecision::No => None,
        };
        let iss = cx.secret.isn(now, &ends);
        // RFC 9293 3.10.7.4, TIME-WAIT: "as long as the ISN is larger than the largest one used".
        let iss = after.map_or(iss, |after| iss.max(after + 65_537));
        let Some(mut answer) = self.syn_ack(cx, now, &ends, syn, iss, &options) else {
            return self.tcp.count_syn_dropped();
        };
        answer.fast_open = grant;
        let request = ConnectionRequest::new(handle, ends, syn, iss, now);
        let Some(key) = self.tcp.add_request(request) else { return };
        self.demux.add_request(ends, key);
        self.with_listener(handle, Listener::add_request);
        self.owners.add_request(owner);
        self.tcp.arm_request(now, key, &mut cx.timers);
        self.send_bare(cx, now, &ends, &answer, &options, out);
    }

    /// The SYN-ACK to `syn`; `None` without a way to the peer.
    fn syn_ack(
        &mut self,
        cx: &mut Context,
        now: Instant,
        ends: &Endpoints,
        syn: &SegmentRepr,
        iss: Seq,
        options: &SocketOptions,
    ) -> Option<SegmentRepr> {
        let mut connection = self.passive(cx, now, ends, syn, iss, options)?;
        connection.poll_segment(now).map(|segment| segment.repr)
    }

    /// A connection that has got `syn` and not answered it.
    pub(super) fn passive(
        &mut self,
        cx: &mut Context,
        now: Instant,
        ends: &Endpoints,
        syn: &SegmentRepr,
        iss: Seq,
        options: &SocketOptions,
    ) -> Option<Connection<T, HeldFrame<R>>> {
        let known = cx.path_mtu(now, ends.remote.ip());
        let path = cx.find(&ends.remote, options.device).ok()?.narrowed(known);
        let config = options.tcp_config(self.tcp.config(), &path);
        let mut connection = Connection::accept(now, config, *ends, syn, iss);
        connection.set_timestamp_offset(cx.secret.timestamp_offset(ends));
        options.apply(now, &mut connection);
        Some(connection)
    }

    /// Answers a SYN with a cookie and forgets it.
    fn send_cookie(
        &mut self,
        cx: &mut Context,
        now: Instant,
        ends: &Endpoints,
        syn: &SegmentRepr,
        options: &SocketOptions,
        out: &mut dyn Egress<T>,
    ) {
        let syn = cookies::reduced(syn);
        let iss = cookies::make(&cx.secret, now, ends, &syn);
        let Some(mut answer) = self.syn_ack(cx, now, ends, &syn, iss, options) else { return };
        if let Some(timestamps) = &mut answer.timestamps {
            timestamps.value = cookies::stamp(timestamps.value, &syn);
        }
        self.tcp.count_cookie_sent();
        self.send_bare(cx, now, ends, &answer, options, out);
    }

    /// A segment with ACK for a listener: it may bring back a cookie. `None` if it does not; else
    /// the connection, if there is room for one.
    pub(super) fn take_cookie(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
        ends: &Endpoints,
        ack: &SegmentRepr,
    ) -> Option<Option<Handle>> {
        let Some(SocketBody::Listener(listener)) = self.sockets.get(handle).map(|s| &s.body) else {
            return None;
        };
        if !listener.may_get_cookie(now) || ack.syn {
            return None;
        }
        let Some(syn) = cookies::check(&cx.secret, now, ends, ack) else {
            self.tcp.count_bad_cookie();
            return None;
        };
        if listener.is_full() {
            self.tcp.count_listen_overflow();
            return Some(None);
        }
        let iss = ack.ack? - 1;
        self.tcp.count_good_cookie();
        Some(self.add_child(cx, now, handle, ends, &syn, iss, now, false))
    }

    /// A segment for a request.
    pub(crate) fn handle_request_segment(
        &mut self,
        cx: &mut Context,
        now: Instant,
        key: Handle,
        segment: &SegmentRepr,
        payload_len: usize,
        out: &mut dyn Egress<T>,
    ) -> Option<Handle> {
        let sockets = &self.sockets;
        let find = |handle| match &sockets.get(handle)?.body {
            SocketBody::Listener(listener) => Some(listener),
            _ => None,
        };
        let verdict = self.tcp.check_request_segment(now, key, segment, payload_len, find);
        let request = self.tcp.request(key)?;
        let (ends, listener) = (request.ends, request.listener);
        let (syn, iss, sent_at) = (request.syn(), request.iss, request.sent_at);
        let options = self.sockets.get(listener)?.options;
        match verdict {
            RequestVerdict::Drop => {}
            RequestVerdict::Retransmit => self.retransmit(cx, now, key, out),
            RequestVerdict::Challenge => {
                let mut answer = self.syn_ack(cx, now, &ends, &syn, iss, &options)?;
                answer.window >>= answer.window_scale.unwrap_or(0);
                answer.syn = false;
                answer.seq += 1;
                (answer.mss, answer.window_scale, answer.sack_permitted) = (None, None, false);
                self.send_bare(cx, now, &ends, &answer, &options, out);
            }
            RequestVerdict::Reset(reset) | RequestVerdict::End(reset) => {
                if matches!(verdict, RequestVerdict::End(_)) {
                    self.remove_request(cx, key);
                }
                if let Some(reset) = reset {
                    self.send_reset(cx, now, &ends, &reset, out);
                }
            }
            RequestVerdict::Complete => {
                let repeated = request.is_retransmitted();
                self.remove_request(cx, key);
                return self.add_child(cx, now, listener, &ends, &syn, iss, sent_at, repeated);
            }
        }
        None
    }

    /// Sends a request's SYN-ACK again.
    fn retransmit(&mut self, cx: &mut Context, now: Instant, key: Handle, out: &mut dyn Egress<T>) {
        let Some(request) = self.tcp.retransmit_request(key) else { return };
        let (ends, listener) = (request.ends, request.listener);
        let (syn, iss) = (request.syn(), request.iss);
        let Some(options) = self.sockets.get(listener).map(|socket| socket.options) else { return };
        if let Some(answer) = self.syn_ack(cx, now, &ends, &syn, iss, &options) {
            self.tcp.count_syn_ack_retransmit();
            self.send_bare(cx, now, &ends, &answer, &options, out);
        }
    }

    /// A request's timer has fired: the SYN-ACK is sent again, or the request is over.
    pub(crate) fn handle_request_timer(
        &mut self,
        cx: &mut Context,
        now: Instant,
        key: Handle,
        out: &mut dyn Egress<T>,
    ) {
        let sockets = &mut self.sockets;
        let timeout = self.tcp.handle_request_timer(now, key, &mut cx.timers, |handle| {
            let socket = sockets.get_mut(handle)?;
            match &mut socket.body {
                SocketBody::Listener(listener) => Some((socket.options.syn_count, listener)),
                _ => None,
            }
        });
        match timeout {
            RequestTimeout::End => self.remove_request(cx, key),
            RequestTimeout::Retransmit => self.retransmit(cx, now, key, out),
            RequestTimeout::Wait => {}
        }
    }

    /// Removes a request and all that names it.
    pub(crate) fn remove_request(&mut self, cx: &mut Context, key: Handle) {
        let Some(request) = self.tcp.remove_request(key, &mut cx.timers) else { return };
        self.demux.remove_request(&request.ends, key);
        self.with_listener(request.listener, |listener| listener.remove_request(request.timeouts));
        if let Some(listener) = self.sockets.get(request.listener) {
            self.owners.remove_request(listener.owner);
        }
    }

    /// Handles an ICMP error which says that the peer of a request cannot be reached. True if it is
    /// believed, because it quotes the SYN-ACK.
    pub(crate) fn request_unreachable(&mut self, cx: &mut Context, key: Handle, seq: Seq) -> bool {
        let believed = self.tcp.request(key).is_some_and(|request| request.iss == seq);
        if believed {
            self.remove_request(cx, key);
        }
        believed
    }

    /// Makes the connection of a finished handshake whose SYN-ACK was first sent at `sent_at`.
    /// `None` if there is no room, or no route back. The caller has yet to give the ACK to it.
    #[expect(clippy::too_many_arguments, reason = "what a handshake leaves behind")]
    fn add_child(
        &mut self,
        cx: &mut Context,
        now: Instant,
        listener: Handle,
        ends: &Endpoints,
        syn: &SegmentRepr,
        iss: Seq,
        sent_at: Instant,
        repeated: bool,
    ) -> Option<Handle> {
        let options = self.sockets.get(listener)?.options;
        let mut connection = self.passive(cx, now, ends, syn, iss, &options)?;
        connection.resume_handshake(sent_at, repeated);
        self.add_accepted(listener, *ends, connection)
    }
}
