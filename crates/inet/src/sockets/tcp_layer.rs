//! TCP's own state in one stack, apart from the sockets: connection requests, records of
//! TIME-WAIT, Fast Open across connections, deferred ACKs of FINs, RSTs to be sent, and counters.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::ops::Range;

use super::counters::{TcpCounters, TcpTotals};
use super::demux::DemuxTarget;
use super::fast_open_keys::{CookieCheck, FastOpenKeys};
use super::fast_opens::FastOpens;
use super::fin_acks::FinAcks;
use super::listener::Listener;
use super::request::{ConnectionRequest, RequestTimeout, RequestVerdict};
use super::time_wait::TimeWaitRecord;
use crate::bytes::{Frame, RxBytes};
use crate::config::Config;
use crate::ip::packet::Packet;
use crate::secret::Secret;
use crate::table::{Handle, Table};
use crate::tcp::{
    EcnField, Endpoints, FastOpenOption, FastOpenOutcome, SegmentError, SegmentRepr, Seq,
    TcpConfig, TcpStats, TimeWait, reset_for,
};
use crate::time::Instant;
use crate::timers::{Timer, Timers};

/// Most RSTs that wait to be sent: those of the longest accept queue, twice.
const MOST_RESETS: usize = 8192;

/// TCP's own state in one stack.
#[derive(Debug)]
pub(crate) struct TcpLayer {
    /// Shared by the connections.
    config: Arc<TcpConfig>,
    /// Handshakes under way.
    requests: Table<ConnectionRequest>,
    /// Closed connections in TIME-WAIT.
    time_waits: Table<TimeWaitRecord>,
    fast: FastOpens,
    /// Connections that have yet to acknowledge their peer's FIN.
    fin_acks: FinAcks,
    /// RSTs to be sent because of calls of the owner.
    resets: VecDeque<(Endpoints, SegmentRepr)>,
    totals: TcpTotals,
    counters: TcpCounters,
}

/// Configuration, counters, input, RSTs.
impl TcpLayer {
    pub(super) fn new(config: &Config, secret: &Secret) -> Self {
        let (key, hash) = (secret.fast_open_key(), secret.tables());
        Self {
            config: Arc::new(config.tcp),
            requests: Table::new(config.requests),
            time_waits: Table::new(config.max_tw_buckets),
            fast: FastOpens::new(key, hash, config.fast_open_peers),
            fin_acks: FinAcks::default(),
            resets: VecDeque::new(),
            totals: TcpTotals::default(),
            counters: TcpCounters::default(),
        }
    }

    /// The configuration has changed: new connections share the new one.
    #[inline]
    pub(super) fn configure(&mut self, config: TcpConfig) {
        self.config = Arc::new(config);
    }

    /// The configuration that connections share.
    #[inline]
    pub(super) fn config(&self) -> &Arc<TcpConfig> {
        &self.config
    }

    /// Name and value of each counter.
    #[inline]
    pub(super) fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        self.counters.iter().chain(self.totals.iter())
    }

    /// Parses and counts a TCP packet, the headers of which are in `head`. Gives the segment, its
    /// payload's range in the frame, and the rest of the frame. `None` for a malformed packet,
    /// which is to be dropped.
    pub(super) fn handle_packet<R: RxBytes>(
        &mut self,
        packet: &Packet,
        head: &[u8],
        frame: &Frame<R>,
    ) -> Option<(SegmentRepr, Range<usize>)> {
        let bytes = packet.payload_in(head);
        let len = packet.payload.len();
        let counters = &mut self.counters;
        let ends = (packet.source, packet.destination);
        let sum = || frame.checksum(packet.payload.clone());
        let parsed = match SegmentRepr::parse_head(ends, bytes, len, sum, frame.offload()) {
            Ok(parsed) => parsed,
            Err(SegmentError::Checksum) => {
                counters.tcp_bad_checksum += 1;
                return None;
            }
            Err(_) => {
                counters.tcp_malformed += 1;
                return None;
            }
        };
        // Bytes behind the frame belong to the packet only if the packet ends with the frame.
        let behind = match packet.payload.end == frame.frame_len() {
            true => frame.offload().behind as usize,
            false => 0,
        };
        let payload = packet.payload.start + parsed.payload..packet.payload.end + behind;
        counters.tcp_in += match parsed.repr.joined {
            0 => 1,
            size => segment_count(len - parsed.payload + behind, size),
        };
        counters.tcp_resets_in += u64::from(parsed.repr.rst);
        let segment = SegmentRepr { ecn: EcnField::from_tos(packet.tos), ..parsed.repr };
        Some((segment, payload))
    }

    /// Counts the events of a connection, and applies what they show about Fast Open to
    /// other connections.
    pub(super) fn add_stats(&mut self, stats: TcpStats) {
        self.totals.add(stats);
        if stats.fast_open_works > 0 {
            self.fast.handle_success();
        }
        if stats.fast_open_black_holes > 0 && !self.config.fastopen_blackhole_timeout.is_zero() {
            self.fast.handle_black_hole();
            self.counters.tcp_fast_black_holes += 1;
        }
    }

    /// Segments were sent.
    #[inline]
    pub(super) fn count_sent(&mut self, segments: u64) {
        self.counters.tcp_out += segments;
    }

    /// A RST was sent.
    #[inline]
    pub(super) fn count_reset_sent(&mut self) {
        self.counters.tcp_resets_out += 1;
    }

    /// No socket has the port of a segment.
    #[inline]
    pub(super) fn count_no_port(&mut self) {
        self.counters.tcp_no_port += 1;
    }

    /// A connection attempt was begun.
    #[inline]
    pub(super) fn count_connect(&mut self) {
        self.counters.tcp_connects += 1;
    }

    /// A connection was put into an accept queue.
    #[inline]
    pub(super) fn count_accepted(&mut self) {
        self.counters.tcp_accepted += 1;
    }

    /// Has a RST sent when there is room. With too many that wait, this one is lost: a peer that
    /// sends to the connection gets another.
    #[inline]
    pub(super) fn queue_reset(&mut self, ends: Endpoints, reset: SegmentRepr) {
        if self.resets.len() < MOST_RESETS {
            self.resets.push_back((ends, reset));
        }
    }

    /// RSTs that wait.
    #[inline]
    pub(super) fn resets_len(&self) -> usize {
        self.resets.len()
    }

    /// The next RST that is to be sent.
    #[inline]
    pub(super) fn poll_reset(&mut self) -> Option<(Endpoints, SegmentRepr)> {
        self.resets.pop_front()
    }

    /// When there is something to send: RSTs at once, ACKs that were deferred later.
    #[inline]
    pub(super) fn poll_at(&self) -> Option<Instant> {
        if self.resets.is_empty() { self.fin_acks.due() } else { Some(Instant::ZERO) }
    }
}

/// Requests and SYN cookies.
impl TcpLayer {
    /// A SYN was dropped.
    #[inline]
    pub(super) fn count_syn_dropped(&mut self) {
        self.counters.tcp_syn_dropped += 1;
    }

    /// A handshake was held up by a full accept queue.
    #[inline]
    pub(super) fn count_listen_overflow(&mut self) {
        self.counters.tcp_listen_overflows += 1;
    }

    /// A SYN was answered with a cookie.
    #[inline]
    pub(super) fn count_cookie_sent(&mut self) {
        self.counters.tcp_cookies_sent += 1;
    }

    /// A cookie has completed a handshake.
    #[inline]
    pub(super) fn count_good_cookie(&mut self) {
        self.counters.tcp_cookies_good += 1;
    }

    /// An ACK should have brought a cookie and did not.
    #[inline]
    pub(super) fn count_bad_cookie(&mut self) {
        self.counters.tcp_cookies_bad += 1;
    }

    /// A SYN-ACK was sent again.
    #[inline]
    pub(super) fn count_syn_ack_retransmit(&mut self) {
        self.counters.tcp_syn_ack_repeats += 1;
    }

    /// Adds a request; `None`, counted as a dropped SYN, if the table is full.
    #[inline]
    pub(super) fn add_request(&mut self, request: ConnectionRequest) -> Option<Handle> {
        let key = self.requests.insert(request);
        self.counters.tcp_syn_dropped += u64::from(key.is_none());
        key
    }

    /// Number of requests for which there is room.
    #[inline]
    pub(super) fn request_room(&self) -> usize {
        self.requests.room()
    }

    /// A request.
    #[inline]
    pub(super) fn request(&self, key: Handle) -> Option<&ConnectionRequest> {
        self.requests.get(key)
    }

    /// All requests.
    #[inline]
    pub(super) fn requests(&self) -> impl Iterator<Item = &ConnectionRequest> {
        self.requests.iter().map(|(_, request)| request)
    }

    /// The handles of a listener's requests.
    #[inline]
    pub(super) fn requests_of(&self, listener: Handle) -> Vec<Handle> {
        let requests = self.requests.iter().filter(|(_, request)| request.listener == listener);
        requests.map(|(key, _)| key).collect()
    }

    /// The request whose SYN-ACK is about to be retransmitted.
    #[inline]
    pub(super) fn retransmit_request(&mut self, key: Handle) -> Option<&ConnectionRequest> {
        let request = self.requests.get_mut(key)?;
        request.mark_retransmitted();
        Some(request)
    }

    /// What to do about a segment with `len` bytes of payload for a request. `find` finds its
    /// listener.
    pub(super) fn check_request_segment<'a>(
        &mut self,
        now: Instant,
        key: Handle,
        segment: &SegmentRepr,
        len: usize,
        find: impl FnOnce(Handle) -> Option<&'a Listener>,
    ) -> RequestVerdict {
        let Some(request) = self.requests.get_mut(key) else { return RequestVerdict::Drop };
        let Some(listener) = find(request.listener) else {
            return RequestVerdict::End(reset_for(segment, len));
        };
        let verdict = request.check(now, listener.defer, segment, len);
        if !matches!(verdict, RequestVerdict::Complete) || !listener.is_full() {
            return verdict;
        }
        self.counters.tcp_listen_overflows += 1;
        if self.config.abort_on_overflow {
            return RequestVerdict::End(reset_for(segment, len));
        }
        request.mark_acked();
        RequestVerdict::Drop
    }

    /// Sets the timer of a request's next SYN-ACK.
    #[inline]
    pub(super) fn arm_request(&mut self, now: Instant, key: Handle, timers: &mut Timers) {
        let Some(request) = self.requests.get_mut(key) else { return };
        let time = request.timeout(self.config.rto_initial, self.config.rto_max);
        request.timer = Some(timers.arm(now + time, Timer::Request(key)));
    }

    /// A request's timer has fired. `find` finds its listener, with TCP_SYNCNT if that is set.
    pub(super) fn handle_request_timer<'a>(
        &mut self,
        now: Instant,
        key: Handle,
        timers: &mut Timers,
        find: impl FnOnce(Handle) -> Option<(Option<u8>, &'a mut Listener)>,
    ) -> RequestTimeout {
        let Some(request) = self.requests.get_mut(key) else { return RequestTimeout::Wait };
        request.timer = None;
        let Some((most, listener)) = find(request.listener) else { return RequestTimeout::End };
        let most = listener.most_timeouts(most.unwrap_or(self.config.synack_retries));
        let timeout = request.handle_timeout(most, listener.defer);
        if matches!(timeout, RequestTimeout::End) {
            self.counters.tcp_requests_expired += 1;
            return timeout;
        }
        if request.timeouts == 1 {
            listener.request_timed_out();
        }
        self.arm_request(now, key, timers);
        timeout
    }

    /// Removes a request and its timer.
    pub(super) fn remove_request(
        &mut self,
        key: Handle,
        timers: &mut Timers,
    ) -> Option<ConnectionRequest> {
        let request = self.requests.remove(key)?;
        if let Some(timer) = request.timer {
            timers.cancel(timer);
        }
        Some(request)
    }
}

/// TIME-WAIT.
impl TcpLayer {
    /// A connection found no room for TIME-WAIT.
    #[inline]
    pub(super) fn count_time_wait_overflow(&mut self) {
        self.counters.tcp_time_wait_overflow += 1;
    }

    /// A connection in TIME-WAIT was replaced by a new one.
    #[inline]
    pub(super) fn count_time_wait_reused(&mut self) {
        self.counters.tcp_time_wait_reused += 1;
    }

    /// Whether there is no room for another record.
    #[inline]
    pub(super) fn is_time_wait_full(&self) -> bool {
        self.time_waits.is_full()
    }

    /// Adds a record and sets its timer.
    pub(super) fn add_time_wait(
        &mut self,
        record: TimeWaitRecord,
        timers: &mut Timers,
    ) -> Option<Handle> {
        let until = record.wait.until();
        let key = self.time_waits.insert(record)?;
        self.time_waits.get_mut(key)?.timer = Some(timers.arm(until, Timer::TimeWait(key)));
        Some(key)
    }

    /// A record.
    #[inline]
    pub(super) fn time_wait(&self, key: Handle) -> Option<&TimeWaitRecord> {
        self.time_waits.get(key)
    }

    /// All records.
    #[inline]
    pub(super) fn time_waits(&self) -> impl Iterator<Item = &TimeWaitRecord> {
        self.time_waits.iter().map(|(_, record)| record)
    }

    /// Stores a record's state after a segment, and sets its timer.
    #[inline]
    pub(super) fn set_time_wait(&mut self, key: Handle, wait: TimeWait, timers: &mut Timers) {
        let Some(record) = self.time_waits.get_mut(key) else { return };
        if let Some(timer) = record.timer.take() {
            timers.cancel(timer);
        }
        record.timer = Some(timers.arm(wait.until(), Timer::TimeWait(key)));
        record.wait = wait;
    }

    /// A record's timer has fired.
    #[inline]
    pub(super) fn handle_time_wait_timer(&mut self, key: Handle) {
        if let Some(record) = self.time_waits.get_mut(key) {
            record.timer = None;
        }
    }

    /// Removes a record and its timer.
    pub(super) fn remove_time_wait(
        &mut self,
        key: Handle,
        timers: &mut Timers,
    ) -> Option<TimeWaitRecord> {
        let record = self.time_waits.remove(key)?;
        if let Some(timer) = record.timer {
            timers.cancel(timer);
        }
        Some(record)
    }

    /// The first sequence number of a new connection in place of `target`. `None` unless `target`
    /// is in TIME-WAIT and may be replaced (`tw_reuse`).
    #[inline]
    pub(super) fn reusable(&self, now: Instant, target: DemuxTarget) -> Option<Seq> {
        match target {
            DemuxTarget::TimeWait(key) => self.time_waits.get(key)?.wait.reused_by_connect(now),
            DemuxTarget::Socket(_) | DemuxTarget::Request(_) => None,
        }
    }
}

/// Fast Open.
impl TcpLayer {
    /// A connection was accepted with the data in its SYN.
    #[inline]
    pub(super) fn count_fast_accepted(&mut self) {
        self.counters.tcp_fast_accepted += 1;
        self.counters.tcp_accepted += 1;
    }

    /// A SYN asks for a cookie.
    #[inline]
    pub(super) fn count_fast_asked(&mut self) {
        self.counters.tcp_fast_asked += 1;
    }

    /// Fast Open of a SYN was refused.
    #[inline]
    pub(super) fn count_fast_refused(&mut self) {
        self.counters.tcp_fast_refused += 1;
    }

    /// A listener has as many fast connections as it may have.
    #[inline]
    pub(super) fn count_fast_overflow(&mut self) {
        self.counters.tcp_fast_overflows += 1;
    }

    /// Sets the keys of all listeners that have none of their own.
    #[inline]
    pub(super) fn set_fast_open_keys(&mut self, keys: FastOpenKeys) {
        self.fast.set_keys(keys);
    }

    /// Gives a socket keys of its own.
    #[inline]
    pub(super) fn set_own_fast_open_keys(&mut self, handle: Handle, keys: FastOpenKeys) {
        self.fast.set_own_keys(handle, keys);
    }

    /// The keys of a listener's cookies: its own, or those of all.
    #[inline]
    pub(super) fn fast_open_keys(&self, listener: Handle) -> FastOpenKeys {
        self.fast.keys(listener)
    }

    /// Checks the cookie of a SYN to a listener; gives the option, too, with the right one.
    pub(super) fn check_fast_open_cookie(
        &mut self,
        listener: Handle,
        ends: &Endpoints,
        option: &FastOpenOption,
    ) -> (CookieCheck, Option<FastOpenOption>) {
        let keys = self.fast.keys(listener);
        let grant = keys.grant(ends, option.experimental);
        let check = keys.check(ends, option.cookie());
        match check {
            CookieCheck::Current => {}
            CookieCheck::Other => self.counters.tcp_fast_other_keys += 1,
            CookieCheck::Bad => {
                self.counters.tcp_fast_refused += u64::from(!option.cookie().is_empty());
            }
        }
        (check, grant)
    }

    /// Whether no connection is opened fast for now.
    #[inline]
    pub(super) fn is_fast_open_paused(&self, now: Instant) -> bool {
        self.fast.is_paused(now, self.config.fastopen_blackhole_timeout)
    }

    /// Whether the next fast connection is the trial after a pause.
    #[inline]
    pub(super) fn is_fast_open_on_trial(&self) -> bool {
        self.fast.is_on_trial()
    }

    /// The Fast Open option for a SYN to `peer`, and its segment size if that is known.
    #[inline]
    pub(super) fn fast_open_option(&self, peer: IpAddr) -> (FastOpenOption, Option<u16>) {
        self.fast.ask(peer)
    }

    /// Stores what a connection has learnt about its peer's Fast Open.
    #[inline]
    pub(super) fn learn_fast_open(&mut self, peer: IpAddr, outcome: &FastOpenOutcome) {
        self.fast.learn(peer, outcome);
    }

    /// Forgets the cookies of all peers.
    #[inline]
    pub(super) fn forget_fast_open_peers(&mut self) {
        self.fast.forget_peers();
    }

    /// Forgets an ended socket.
    #[inline]
    pub(super) fn forget_socket(&mut self, handle: Handle) {
        self.fast.forget_socket(handle);
    }

    /// Sets the present, at which something happens to a connection.
    #[inline]
    pub(super) fn set_clock(&mut self, now: Instant) {
        self.fast.set_clock(now);
    }
}

/// Deferred ACKs of FINs.
impl TcpLayer {
    /// Whether ACKs of FINs may be deferred from now on.
    #[inline]
    pub(super) fn permit_deferring(&mut self, deferring: bool) {
        self.fin_acks.defer(deferring);
    }

    /// Whether the ACK of a FIN may be deferred now.
    #[inline]
    pub(super) fn may_defer_fin_ack(&self) -> bool {
        self.fin_acks.defers()
    }

    /// A connection has deferred the ACK of a FIN.
    #[inline]
    pub(super) fn add_deferred_fin_ack(&mut self, now: Instant, handle: Handle) {
        self.fin_acks.add(now, handle);
    }

    /// Whether ACKs of FINs are deferred.
    #[inline]
    pub(super) fn has_deferred_fin_acks(&self) -> bool {
        !self.fin_acks.is_empty()
    }

    /// Whether ACKs of FINs have been deferred for long enough.
    #[inline]
    pub(super) fn fin_acks_are_late(&self, now: Instant) -> bool {
        self.fin_acks.are_late(now)
    }

    /// The next connection whose deferred ACK is to be sent.
    #[inline]
    pub(super) fn poll_deferred_fin_ack(&mut self) -> Option<Handle> {
        self.fin_acks.pop()
    }
}

/// Number of segments of `size` bytes that hold a payload of `len` bytes. An empty payload counts
/// as one.
pub(super) fn segment_count(len: usize, size: u16) -> u64 {
    len.div_ceil(usize::from(size).max(1)).max(1) as u64
}
