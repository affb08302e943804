//! The next segment to be sent.
//!
//! One call makes at most one segment. All state changes come first and the pieces of payload last,
//! so that the durable half is right when the caller gets the segment.
//!
//! The order is: a final RST; SYN; duplicate ACKs, since the peer counts them; a tail loss probe; a
//! lost segment; new data, or data again after a timeout; a probe of the peer; an ACK.

use super::Connection;
use crate::tcp::durable;

use crate::tcp::segment::SegmentRepr;
use crate::tcp::send_queue::SegmentOut;
use crate::tcp::seq::Seq;
use crate::tcp::state::State;
use crate::tcp::timers::TcpTimer;
use crate::tcp::timestamps;
use crate::{Instant, RxBytes, TxBytes};

impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// The next segment to be sent, after due timers are handled; `None` if there is none now. A
    /// segment that is given out counts as sent.
    pub fn poll_segment(&mut self, now: Instant) -> Option<SegmentOut<'_, T>> {
        self.pending.promote_fin_ack();
        self.poll_segment_deferring(now)
    }

    /// Whether the peer's FIN is not acknowledged yet.
    pub fn defers_fin_ack(&self) -> bool {
        self.pending.wants_fin_ack()
    }

    /// The next [`poll_segment`](Self::poll_segment) is to acknowledge the FIN that
    /// [`poll_segment_deferring`](Self::poll_segment_deferring) left alone.
    pub fn end_deferral(&mut self) {
        if self.pending.wants_fin_ack() {
            self.pending.request_poll();
        }
    }

    /// [`poll_segment`](Self::poll_segment) without the lone ACK of a FIN. While
    /// [`defers_fin_ack`](Self::defers_fin_ack) is true, that ACK is still to be sent soon.
    pub fn poll_segment_deferring(&mut self, now: Instant) -> Option<SegmentOut<'_, T>> {
        self.handle_timer(now);
        if !self.pending.wants_poll() {
            return None;
        }
        // Undone below if nothing is sent.
        self.counters.segment_out();
        if let Some(repr) = self.pending.take_final() {
            return Some(SegmentOut::bare(repr));
        }
        if self.pending.wants_syn() && (self.state().opening() || self.is_half_open()) {
            return Some(self.syn_segment(now));
        }
        if self.pending.take_duplicate_ack() {
            let repr = self.acknowledgement(now, self.send_seq(), 0);
            if self.durable.has(durable::SACK) {
                // One duplicate ACK reports all blocks that fit into it.
                self.pending.set_duplicate_ack(self.recv.has_unreported());
            }
            return Some(SegmentOut::bare(repr));
        }
        if let Some(data) = self.next_data(now) {
            let (repr, mss) = self.data_segment(now, &data);
            let body = self.send.pieces(data.range());
            return Some(SegmentOut::new(repr, body, mss as u16));
        }
        if self.pending.take_probe() {
            // As Linux: a byte that the peer has had, and so must answer (RFC 9293 3.8.4).
            let repr = self.acknowledgement(now, self.durable.snd_una - 1, 0);
            return Some(SegmentOut::bare(repr));
        }
        if self.pending.wants_ack() {
            let repr = self.acknowledgement(now, self.send_seq(), 0);
            return Some(SegmentOut::bare(repr));
        }
        self.pending.poll_done();
        self.counters.no_segment_out();
        self.note_limit(now);
        None
    }

    /// A SYN, or SYN-ACK.
    pub(super) fn syn(&mut self, now: Instant) -> SegmentRepr {
        self.pending.syn_sent();
        let first = self.durable.snd_max == self.durable.iss;
        let end = self.durable.iss + 1;
        self.durable.snd_max = self.durable.snd_max.max(end);
        if first {
            self.rtt.sent(end, now);
            self.progress.restart(now);
        } else {
            self.rtt.retransmitted();
            self.stats.retransmits += 1;
            self.counters.syn_retransmitted();
        }
        if !self.timers.is_sending() {
            self.start_retransmit(now);
        }
        let answer = self.state() != State::SynSent;
        let agreed = |flag, offered| if answer { self.durable.has(flag) } else { offered };
        let scaled = agreed(durable::SCALED, self.config.window_scaling);
        let stamped = agreed(durable::TIMESTAMPS, self.config.timestamps);
        let sack_permitted = agreed(durable::SACK, self.config.sack);
        let window = self.window_offer().syn_field();
        if answer {
            let edge = self.durable.rcv_nxt + u32::from(window);
            self.durable.rcv_adv = self.durable.rcv_adv.max(edge);
        }
        let timestamps = stamped.then(|| timestamps::option(&self.durable, now, answer));
        let mut repr = SegmentRepr {
            syn: true,
            sack_permitted,
            ack: answer.then_some(self.durable.rcv_nxt),
            window,
            mss: Some(self.durable.rcv_mss),
            window_scale: scaled.then_some(self.durable.rcv_scale),
            timestamps,
            ..self.bare(self.durable.iss)
        };
        self.ecn.mark_syn(self.config.ecn, &mut repr, first);
        repr
    }

    /// A segment that acknowledges all received bytes. It has `payload` bytes, or is to be
    /// segmented into such segments.
    pub(super) fn acknowledgement(
        &mut self,
        now: Instant,
        seq: Seq,
        payload: usize,
    ) -> SegmentRepr {
        self.pending.ack_sent();
        self.timers.clear(TcpTimer::DelayedAck);
        let window = self.window_offer().field();
        let edge = self.durable.rcv_nxt + (u32::from(window) << self.durable.rcv_scale);
        self.durable.rcv_adv = self.durable.rcv_adv.max(edge);
        self.acks.acked(self.durable.rcv_nxt);
        let timestamps = timestamps::agreed_option(&self.durable, now);
        let urgent = self.urgent.pointer(&self.durable, seq);
        let mut repr = SegmentRepr { urgent, window, timestamps, ..self.bare(seq) };
        if self.durable.has(durable::SACK) {
            // A retransmission may leave no room: the option comes out of the segment.
            let room = self.send_mss().saturating_sub(payload).saturating_sub(4) / 8;
            let most = self.most_blocks().min(room);
            let (sack, duplicate) = self.recv.sack_report(most, self.config.dsack);
            repr.sack = sack;
            self.stats.dsacks_out += u64::from(duplicate);
        }
        self.ecn.mark(&mut repr, false);
        repr
    }

    /// A RST of this side's own, with the timestamps of every other segment (RFC 7323 3.2).
    pub(super) fn reset(&self, now: Instant) -> SegmentRepr {
        let timestamps = timestamps::agreed_option(&self.durable, now);
        SegmentRepr { rst: true, timestamps, ..self.bare(self.durable.snd_max) }
    }

    /// A header with ports, numbers and nothing else.
    pub(super) fn bare(&self, seq: Seq) -> SegmentRepr {
        SegmentRepr {
            src_port: self.durable.local_port,
            dst_port: self.durable.remote_port,
            seq,
            ack: Some(self.durable.rcv_nxt),
            ..SegmentRepr::default()
        }
    }

    /// The number of a segment without data: beyond all data, but within the peer's window.
    fn send_seq(&self) -> Seq {
        self.durable.snd_max.min(self.durable.send_edge().max(self.durable.snd_una))
    }
}
