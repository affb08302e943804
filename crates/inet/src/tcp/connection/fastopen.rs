//! Fast Open (RFC 7413) on a connection: its calls, its SYN, and the data in the SYN.

use alloc::boxed::Box;

use super::Connection;
use crate::tcp::fastopen::{FastOpenOutcome, FastOpenState};
use crate::tcp::fastopen_option::FastOpenOption;
use crate::tcp::segment::SegmentRepr;
use crate::tcp::send_queue::{SegmentOut, WriteMarks};
use crate::tcp::seq::Seq;
use crate::tcp::state::{State, StateEvent};
use crate::tcp::timers::TcpTimer;
use crate::tcp::timestamps;
use crate::{Instant, RxBytes, RxPiece, TxBytes};

impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// Makes a connection attempt a fast one. Its SYN carries `option`, and up to `limit` bytes of
    /// the data queued when it leaves. With `deferred` it does not leave before there is data. To
    /// be called before the first segment is given out.
    pub fn connect_fast(&mut self, option: Option<FastOpenOption>, limit: u16, deferred: bool) {
        self.fast_open = Some(Box::new(FastOpenState::client(option, limit, deferred)));
        if deferred {
            self.pending.withdraw_syn();
        }
    }

    /// Takes the payload and FIN of the SYN that made this connection, before the SYN is answered.
    /// The application may read, write and close from now on. `renewal` is a cookie for the
    /// SYN-ACK.
    pub fn accept_fast(
        &mut self,
        now: Instant,
        payload: Option<RxPiece<R>>,
        fin: bool,
        renewal: Option<FastOpenOption>,
    ) {
        let taken = payload.as_ref().is_some_and(|piece| !piece.range.is_empty());
        self.fast_open = Some(Box::new(FastOpenState::server(taken, renewal)));
        self.change(StateEvent::AckOfSyn);
        self.established(now);
        let seq = self.durable.rcv_nxt;
        // The peer has sent the SYN's data without knowing our window.
        let len = payload.as_ref().map_or(0, |piece| piece.range.len());
        self.durable.rcv_adv = self.durable.rcv_adv.max(seq + len as u32);
        // A SYN acknowledges nothing, so its window counts from this side's first byte of data.
        self.durable.snd_wnd += 1;
        let rest = SegmentRepr { seq, fin, ..SegmentRepr::default() };
        let payload = payload.filter(|piece| !piece.range.is_empty());
        self.text(now, &rest, payload);
        self.pending.request_syn();
    }

    /// A client's outcome of Fast Open, once the SYN-ACK has come; given once.
    pub fn take_fast_open_outcome(&mut self) -> Option<FastOpenOutcome> {
        self.fast_open.as_mut()?.take_outcome()
    }

    /// Whether this is a server's fast connection whose SYN is not acknowledged.
    #[inline]
    pub fn is_half_open(&self) -> bool {
        let server = self.fast_open.as_ref().is_some_and(|fast| fast.is_server());
        server && self.durable.snd_una == self.durable.iss && self.state() != State::Closed
    }

    /// Bytes that a deferred SYN takes with it; `None` if the SYN does not wait for data.
    pub fn deferred_room(&self) -> Option<usize> {
        self.fast_open.as_ref().filter(|fast| fast.is_deferred()).map(|fast| fast.limit())
    }

    /// There is data, or will be none: a SYN that waited for it may leave.
    pub fn stop_deferring(&mut self) {
        if self.fast_open.as_mut().is_some_and(|fast| fast.stop_deferring()) {
            self.pending.request_syn();
        }
    }

    /// Whether Fast Open works is in doubt: this connection is to show.
    pub fn watch_fast_open(&mut self) {
        if let Some(fast) = &mut self.fast_open {
            fast.watch();
        }
    }

    /// The SYN or SYN-ACK, with Fast Open's option and data.
    pub(super) fn syn_segment(&mut self, now: Instant) -> SegmentOut<'_, T> {
        let first = self.durable.snd_max == self.durable.iss;
        let mut repr = self.syn(now);
        if repr.ack.is_some() {
            // The SYN-ACK acknowledges the SYN's data, too.
            self.acks.acked(self.durable.rcv_nxt);
            self.pending.ack_sent();
            self.timers.clear(TcpTimer::DelayedAck);
        }
        let Some(fast) = self.fast_open.as_mut().filter(|_| first) else {
            return SegmentOut::bare(repr);
        };
        repr.fast_open = fast.option();
        if repr.ack.is_some() {
            return SegmentOut::bare(repr);
        }
        let range = self.send.at_next(fast.limit());
        fast.syn_sent(range.len());
        if range.len() > 0 {
            self.counters.sent(range.len(), range.len(), false);
        }
        SegmentOut::new(repr, self.send.pieces(&range), u16::MAX)
    }

    /// Payload that left with our SYN, bytes.
    fn syn_payload(&self) -> u16 {
        self.fast_open.as_ref().map_or(0, |fast| fast.payload())
    }

    /// Whether our SYN took data with it.
    pub(super) fn syn_has_data(&self) -> bool {
        self.syn_payload() > 0
    }

    /// The last number that may be acknowledged before the handshake is over.
    pub(super) fn syn_edge(&self) -> Seq {
        self.durable.snd_max.max(self.durable.iss + 1 + u32::from(self.syn_payload()))
    }

    /// More was queued than the SYN has taken.
    pub(super) fn has_more_than_syn_data(&self) -> bool {
        let fast = self.fast_open.as_ref();
        fast.is_some_and(|fast| self.send.end() > u64::from(fast.payload()))
    }

    /// `ack` acknowledges this side's SYN, and perhaps its payload, which counts as sent only then.
    pub(super) fn take_syn_data(&mut self, ack: Seq) {
        let start = self.durable.iss + 1;
        let retransmitted = self.counters.has_retransmitted();
        let Some(fast) = &mut self.fast_open else { return };
        let Some(taken) = fast.syn_acked(start, ack.since(start), retransmitted) else { return };
        self.durable.snd_max = self.durable.snd_max.max(ack);
        if taken {
            self.stats.fast_connects += 1;
        } else {
            self.stats.fast_connect_fails += 1;
        }
    }

    /// The handshake is over: the unacknowledged part of the SYN's payload is lost, and leaves
    /// again at once (RFC 7413 4.2.1).
    pub(super) fn lose_syn_data(&mut self, now: Instant) {
        let start = self.durable.snd_una;
        let refused = self.fast_open.as_mut().and_then(|fast| fast.take_refused());
        let Some(end) = refused.filter(|end| start.before(*end)) else { return };
        let range = self.send.at_next(end.since(start) as usize);
        let (len, mss) = (range.len() as u32, u32::from(self.durable.snd_mss));
        self.send.advance(&range);
        self.durable.snd_max = self.durable.snd_max.max(start + len);
        // The SYN's data was a write of its own.
        let marks = WriteMarks { push: true, burst: true, ..range.marks() };
        self.loss.on_sent(now, (start, len, false), mss, marks);
        let (loss, mut context) = self.loss_context(now);
        loss.lose_all(&mut context);
    }

    /// Whether `echo`, in a SYN-ACK, can be the timestamp of a SYN of this attempt, as Linux. A
    /// SYN-ACK without an echo is accepted (RFC 7323 3.2).
    pub(super) fn is_syn_echo(&self, now: Instant, echo: u32) -> bool {
        let clock = |at: Instant| Seq::new(timestamps::own_clock(&self.durable, at));
        let (first, last) = (clock(self.progress.made_at()), clock(now));
        let echo = Seq::new(echo);
        echo.get() == 0 || echo.at_or_after(first) && echo.at_or_before(last)
    }

    /// Whether this is a client's connection whose SYN had data or an option of Fast Open.
    fn asked_fast_open(&self) -> bool {
        self.fast_open.as_ref().is_some_and(|fast| fast.has_asked())
    }

    /// A retransmission timer has expired, for the last time if `over`. The third expiry in a row,
    /// or an earlier last one, is blamed on a black hole: a middlebox that drops segments after
    /// data in a SYN (RFC 7413 4.1.3.1). As Linux.
    pub(super) fn suspect_fast_open(&mut self, over: bool) {
        let timeouts = self.attempts.timeouts();
        if self.asked_fast_open() && (timeouts == 2 || timeouts < 2 && over) {
            self.stats.fast_open_black_holes += 1;
            self.stats.fast_connect_fails += 1;
        }
    }

    /// The connection ends. A FIN that came without the data before it also indicates a black hole.
    /// Data received over a watched connection shows that there is none; as Linux not within this
    /// host.
    pub(super) fn detect_black_hole(&mut self) {
        if !self.asked_fast_open() {
            return;
        }
        if self.counters.has_received_data() {
            let ends = self.endpoints();
            let watched = self.fast_open.as_ref().is_some_and(|fast| fast.is_watched());
            let inside = ends.local.ip() == ends.remote.ip() || ends.remote.ip().is_loopback();
            self.stats.fast_open_works += u64::from(watched && !inside);
        } else {
            let lone_fin = self.recv.fin().is_some_and(|fin| fin.after(self.durable.rcv_nxt));
            if lone_fin && !self.recv.has_out_of_order() {
                self.stats.fast_open_black_holes += 1;
            }
        }
    }

    /// Handles the Fast Open part of the SYN-ACK.
    pub(super) fn learn_fast_open(&mut self, syn_ack: &SegmentRepr) {
        let retransmitted = self.counters.has_retransmitted();
        if let Some(fast) = &mut self.fast_open {
            fast.learn(syn_ack, retransmitted);
        }
    }
}
