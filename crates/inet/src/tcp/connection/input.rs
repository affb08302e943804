//! An arriving segment (RFC 9293 3.10.7).
//!
//! The order of the checks is the RFC's. Where it says "send an ACK", the engine leaves a request.
//! Only resets are given back: they are made of the segment and may have no connection.

use core::time::Duration;

use super::check::{SegmentCheck, WindowChange};
use super::{Connection, SegmentReply};
use crate::tcp::congestion::CongestionControl;
use crate::tcp::durable;
use crate::tcp::ecn_field::EcnField;
use crate::tcp::recv_queue::PayloadArrival;
use crate::tcp::reset::segment_len;
use crate::tcp::sack_blocks::SackBlock;
use crate::tcp::segment::SegmentRepr;
use crate::tcp::seq::Seq;
use crate::tcp::state::{State, StateEvent};
use crate::tcp::timers::TcpTimer;
use crate::tcp::timestamps::TIMESTAMPS_LEN;
use crate::{Error, Instant, RxBytes, RxPiece, TxBytes};

/// Payload of segments to a peer whose SYN has no MSS option (RFC 9293 MUST-15).
const DEFAULT_MSS: u16 = 536;

/// Least payload of full segments, whatever the peer says, as Linux: less is an attack.
const MIN_MSS: u16 = 48;

/// Time until a SYN is sent again whose answer belonged to an older connection. This is Linux's
/// least timeout.
const SYN_RETRY: Duration = Duration::from_millis(2);

/// Most duplicate ACKs that are pending at a time.
const MAX_DUPLICATES: u16 = 64;

impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// Handles a segment of this connection. `payload` is `None` if it has none.
    pub fn handle_segment(
        &mut self,
        now: Instant,
        segment: &SegmentRepr,
        payload: Option<RxPiece<R>>,
    ) -> SegmentReply {
        let len = payload.as_ref().map_or(0, |piece| piece.range.len());
        self.counters.received(now, len, segment.joined);
        let reply = match self.state() {
            State::Closed => SegmentReply::reset(segment, len),
            State::SynSent => self.syn_sent(now, segment, payload),
            _ => self.synchronized(now, segment, payload),
        };
        if self.send.unsent() > 0 {
            self.pending.request_poll();
        }
        reply
    }

    /// RFC 9293 3.10.7.3.
    fn syn_sent(
        &mut self,
        now: Instant,
        segment: &SegmentRepr,
        payload: Option<RxPiece<R>>,
    ) -> SegmentReply {
        if let Some(ack) = segment.ack
            && (ack.at_or_before(self.durable.iss) || ack.after(self.syn_edge()))
        {
            // As Linux: most likely the peer still has an older connection of these ends, which the
            // reset ends. The SYN is sent again soon, once, rather than after a timeout.
            if self.attempts.timeouts() == 0 && !segment.rst {
                self.timers.set(TcpTimer::Retransmit, now + SYN_RETRY);
            }
            return SegmentReply::reset(segment, 0);
        }
        if segment.ack.is_some()
            && self.config.timestamps
            && segment.timestamps.is_some_and(|stamps| !self.is_syn_echo(now, stamps.echo))
        {
            self.stats.old_timestamps += 1;
            return SegmentReply::reset(segment, 0);
        }
        if segment.rst {
            // A RST counts only if it acknowledges this side's SYN (RFC 5961 3.2).
            if segment.ack.is_some() {
                self.stats.resets += 1;
                self.end(Some(Error::Refused));
            }
            return SegmentReply::None;
        }
        if !segment.syn {
            return SegmentReply::None;
        }
        self.take_syn(now, segment);
        let Some(ack) = segment.ack else {
            // Both sides opened at once (RFC 9293 3.5, figure 8).
            self.change(StateEvent::Syn);
            self.pending.request_syn();
            return SegmentReply::None;
        };
        self.learn_fast_open(segment);
        self.take_syn_data(ack);
        self.change(StateEvent::SynAck);
        self.take_ack(now, segment, ack, 0, WindowChange::Updated);
        self.established(now);
        self.lose_syn_data(now);
        self.pending.request_ack();
        if self.has_more_than_syn_data() {
            // Data answers the SYN-ACK at once: as on Linux it is a dialogue now, in which ACKs
            // wait for data.
            self.acks.set_quick(0);
        }
        let rest = SegmentRepr { seq: segment.seq + 1, syn: false, ..*segment };
        self.text(now, &rest, payload)
    }

    /// Handles the peer's SYN: its sequence number, window and options.
    pub(super) fn take_syn(&mut self, now: Instant, syn: &SegmentRepr) {
        // Our own SYN, if it was sent, has offered a window already.
        let syn_sent = self.durable.snd_max != self.durable.iss;
        let offered = if syn_sent { u32::from(self.window_offer().syn_field()) } else { 0 };
        let d = &mut self.durable;
        d.irs = syn.seq;
        d.rcv_nxt = syn.seq + 1;
        d.rcv_adv = d.rcv_nxt + offered;
        self.acks.acked(d.rcv_nxt);
        self.peer_window.take_syn(d, syn);
        if let Some(scale) = syn.window_scale.filter(|_| self.config.window_scaling) {
            d.set(durable::SCALED);
            d.snd_scale = scale;
        } else {
            d.rcv_scale = 0;
        }
        if syn.sack_permitted && self.config.sack {
            d.set(durable::SACK);
        }
        let mut mss = syn.mss.filter(|mss| *mss > 0).unwrap_or(DEFAULT_MSS).max(MIN_MSS);
        mss = mss.min(self.config.mss);
        if let Some(timestamps) = syn.timestamps.filter(|_| self.config.timestamps) {
            d.set(durable::TIMESTAMPS);
            self.peer_timestamp.take(d, now, timestamps.value);
            // RFC 6691: the option comes out of the segment, not on top of it.
            mss -= TIMESTAMPS_LEN;
        }
        d.snd_mss = mss;
        if self.ecn.take_syn(self.config.ecn, syn) {
            self.durable.set(durable::ECN);
        }
    }

    /// The handshake is over.
    pub(super) fn established(&mut self, now: Instant) {
        let retries = self.attempts.timeouts();
        self.rtt.established(retries);
        // RFC 6928 2: one segment if the SYN was lost more than once. The bound of 14600 bytes does
        // not hold, as in Linux.
        let initial = if retries > 1 { 1 } else { u32::from(self.config.initial_window) };
        let (kind, nxt) = (self.config.congestion_control, self.durable.snd_max);
        self.congestion = CongestionControl::established(now, kind, initial, nxt);
        self.progress.established(now);
        self.attempts.clear_timeouts();
        self.counters.established(now);
        self.tuner.established(now, &self.durable, self.recv.read_of(self.durable.received));
        self.start_keep_alive(now);
        self.start_mtu_probing(now);
        if self.durable.has(durable::WRITE_SHUT) {
            self.change(StateEvent::Shut);
        }
        self.pending.request_poll();
    }

    /// RFC 9293 3.10.7.4: every state with a synchronized sequence space.
    fn synchronized(
        &mut self,
        now: Instant,
        segment: &SegmentRepr,
        payload: Option<RxPiece<R>>,
    ) -> SegmentReply {
        let payload = payload.filter(|piece| !piece.range.is_empty());
        let len = payload.as_ref().map_or(0, |piece| piece.range.len());
        if self.may_reuse(segment) {
            return SegmentReply::Reuse;
        }
        let mut segment = *segment;
        if let SegmentCheck::Done(reply) = self.check_duplicate_syn(&mut segment) {
            return reply;
        }
        if let SegmentCheck::Done(reply) = self.check_acceptable(now, &segment, len) {
            return reply;
        }
        if let SegmentCheck::Done(reply) = self.check_control(now, &segment) {
            return reply;
        }
        self.progress.segment_received(now);
        self.attempts.segment_received();
        if let SegmentCheck::Done(reply) = self.check_ack(now, &segment, len) {
            return reply;
        }
        // Only after the check of the ACK, so that a blind attacker cannot move the clock.
        self.take_timestamp(now, &segment);
        if len > 0 && self.is_unwanted(&segment, len) {
            // As Linux: the application will never read this. RFC 9293 3.6.1.
            let reply = SegmentReply::reset(&segment, len);
            self.end(Some(Error::Reset));
            return reply;
        }
        self.text(now, &segment, payload)
    }

    /// Whether a SYN may take the place of this connection in TIME-WAIT. It must be younger by its
    /// timestamp or its sequence number (RFC 6191 2, RFC 9293 MAY-2).
    fn may_reuse(&self, segment: &SegmentRepr) -> bool {
        let plain = segment.syn && segment.ack.is_none() && !segment.rst;
        if self.state() != State::TimeWait || !plain {
            return false;
        }
        let younger = match segment.timestamps {
            Some(timestamps) if self.durable.has(durable::TIMESTAMPS) => {
                Seq::new(timestamps.value).after(Seq::new(self.durable.ts_recent))
            }
            _ => false,
        };
        younger || segment.seq.after(self.durable.rcv_nxt)
    }

    /// The peer's SYN again, in SYN-RECEIVED. Either this side's SYN-ACK was lost. Or both sides
    /// opened at once, and this is the peer's SYN-ACK: its SYN is old, its ACK new.
    fn check_duplicate_syn(&mut self, segment: &mut SegmentRepr) -> SegmentCheck {
        let duplicate = segment.syn && !segment.rst && segment.seq == self.durable.irs;
        let answering = self.state() == State::SynReceived || self.is_half_open();
        if !answering || !duplicate {
            return SegmentCheck::Pass;
        }
        let Some(ack) = segment.ack else {
            self.pending.request_syn();
            return SegmentCheck::Done(SegmentReply::None);
        };
        if ack.after(self.durable.snd_una) && ack.at_or_before(self.syn_edge()) {
            // As Linux: the SYN has come twice, which is answered as any duplicate.
            let (start, end) = (segment.seq, segment.seq + 1);
            self.recv.add_duplicate(SackBlock { start, end });
            self.pending.request_ack();
        }
        segment.syn = false;
        segment.seq += 1;
        // RFC 7323 2.2: this window is not scaled, the later ones are.
        segment.window = (u32::from(segment.window) >> self.durable.snd_scale) as u16;
        SegmentCheck::Pass
    }

    /// First check: sequence number, and timestamp before it (RFC 7323 5.3).
    fn check_acceptable(
        &mut self,
        now: Instant,
        segment: &SegmentRepr,
        len: usize,
    ) -> SegmentCheck {
        let checked = !segment.rst && !segment.syn;
        if checked && self.peer_timestamp.is_old(&self.durable, now, segment) {
            self.stats.old_timestamps += 1;
            self.challenge(now, len > 0);
            return SegmentCheck::Done(SegmentReply::None);
        }
        // The RFC's table would reject an ACK from the very edge of the window and, with a closed
        // window, any ACK with data. This is Linux's test instead: the segment touches the window.
        // Bytes outside the window are trimmed later.
        let end = segment.seq + segment_len(segment, len);
        let touches =
            segment.seq.at_or_before(self.durable.rcv_adv) && end.at_or_after(self.durable.rcv_nxt);
        if !touches {
            self.stats.unacceptable += 1;
            if !segment.rst {
                self.challenge(now, len > 0);
                self.restart_time_wait(now, segment);
            }
            return SegmentCheck::Done(SegmentReply::None);
        }
        SegmentCheck::Pass
    }

    /// Second and fourth check: RST and SYN (RFC 5961 3, 4).
    fn check_control(&mut self, now: Instant, segment: &SegmentRepr) -> SegmentCheck {
        if segment.rst {
            if segment.seq == self.durable.rcv_nxt {
                self.stats.resets += 1;
                self.take_reset();
            } else {
                self.challenge(now, false);
            }
            return SegmentCheck::Done(SegmentReply::None);
        }
        if segment.syn {
            self.challenge(now, false);
            return SegmentCheck::Done(SegmentReply::None);
        }
        SegmentCheck::Pass
    }

    fn take_reset(&mut self) {
        let error = match self.state() {
            State::SynReceived => Some(Error::Refused),
            State::TimeWait => None,
            // As Linux: the peer had already closed.
            State::CloseWait => Some(Error::BrokenPipe),
            _ => Some(Error::Reset),
        };
        self.end(error);
    }

    /// RFC 7323 4.3. The first check has ensured that the timestamp is not older than the last one,
    /// unless the last one is too old for a comparison.
    fn take_timestamp(&mut self, now: Instant, segment: &SegmentRepr) {
        let Some(timestamps) = segment.timestamps else { return };
        if self.durable.has(durable::TIMESTAMPS) && segment.seq.at_or_before(self.acks.acked_to()) {
            self.peer_timestamp.take(&mut self.durable, now, timestamps.value);
        }
    }

    /// Whether payload is new and the application will not read it.
    fn is_unwanted(&self, segment: &SegmentRepr, len: usize) -> bool {
        let new = (segment.seq + len as u32).after(self.durable.rcv_nxt);
        let shut = matches!(self.state(), State::FinWait1 | State::FinWait2);
        new && shut && self.durable.has(durable::READ_SHUT)
    }

    /// Seventh and eighth check: text and FIN.
    pub(super) fn text(
        &mut self,
        now: Instant,
        segment: &SegmentRepr,
        payload: Option<RxPiece<R>>,
    ) -> SegmentReply {
        let len = payload.as_ref().map_or(0, |piece| piece.range.len());
        self.urgent.take(&self.durable, segment);
        if segment_len(segment, len) == 0 {
            return SegmentReply::None;
        }
        if !self.state().receives() {
            // RFC 9293: nothing new can come after the FIN. Its sender has not got our ACK.
            self.stats.unacceptable += 1;
            self.challenge(now, true);
            self.restart_time_wait(now, segment);
            return SegmentReply::None;
        }
        if let Some(piece) = payload {
            self.take_marks(segment);
            self.recv.measure(segment.joined, len);
            self.take_payload(now, segment.seq, piece);
            let (durable, config) = (&self.durable, &*self.config);
            self.tuner.on_arrival(now, durable, config, &mut self.recv, (segment, len));
        }
        if segment.fin {
            let fin = segment.seq + len as u32;
            let d = &self.durable;
            // A FIN outside the window is accepted nevertheless, because it needs no room.
            if fin.at_or_after(d.rcv_nxt)
                && fin.at_or_before(d.rcv_adv)
                && self.recv.fin().is_none()
            {
                self.recv.take_fin(self.durable.rcv_nxt, fin);
            }
        }
        if self.recv.fin() == Some(self.durable.rcv_nxt) {
            self.take_fin(now);
        } else if segment.fin {
            self.pending.request_ack();
        }
        SegmentReply::None
    }

    /// RFC 3168 6.1.3. A sender that has reduced its window may wait for this ACK to go on.
    fn take_marks(&mut self, segment: &SegmentRepr) {
        self.stats.ecn_marks_in += u64::from(segment.ecn == EcnField::Ce);
        if self.ecn.take(segment) {
            self.acks.raise_quick(2);
        }
        if segment.cwr && self.ecn.is_on() {
            self.pending.request_ack();
        }
    }

    fn take_payload(&mut self, now: Instant, seq: Seq, piece: RxPiece<R>) {
        let before = self.durable.rcv_nxt;
        let edge = self.durable.rcv_adv;
        let arrival = self.recv.insert(&mut self.durable.rcv_nxt, edge, seq, piece);
        let new = self.durable.rcv_nxt.since(before);
        self.durable.received += u64::from(new);
        if new > 0 {
            // Duplicate ACKs pending until now would be ones of the new number, and useless.
            self.pending.withdraw_duplicate_acks();
        }
        match arrival {
            PayloadArrival::InOrder => self.acknowledge_later(now),
            // RFC 5681 4.2: at once while there is a gap, and when one is filled.
            PayloadArrival::Filled => self.pending.request_ack(),
            PayloadArrival::OutOfOrder => {
                self.stats.out_of_order += 1;
                self.counters.out_of_order();
                // With SACK one ACK reports all.
                let most = if self.durable.has(durable::SACK) { 1 } else { MAX_DUPLICATES };
                self.pending.request_duplicate_ack(most);
            }
            PayloadArrival::Useless => {
                self.stats.unacceptable += 1;
                self.pending.request_ack();
            }
        }
    }

    /// The size of the peer's segments, as far as seen. A longer one than announced was joined by
    /// the device.
    pub(super) fn peer_segment(&self) -> usize {
        self.recv.segment().min(usize::from(self.durable.rcv_mss))
    }

    /// RFC 9293 3.8.6.3, RFC 5681 4.2: at least every second full segment is acknowledged at once.
    fn acknowledge_later(&mut self, now: Instant) {
        if self.acks.is_due(self.durable.rcv_nxt, self.peer_segment()) {
            self.pending.request_ack();
        } else if !self.timers.is_set(TcpTimer::DelayedAck) {
            self.timers.set(TcpTimer::DelayedAck, now + self.config.delayed_ack);
        }
    }

    fn take_fin(&mut self, now: Instant) {
        self.durable.rcv_nxt += 1;
        self.durable.rcv_adv = self.durable.rcv_adv.max(self.durable.rcv_nxt);
        self.durable.set(durable::FIN_RECEIVED);
        self.recv.clear_out_of_order();
        self.change(StateEvent::Fin);
        if self.state() == State::TimeWait {
            self.start_time_wait(now);
        }
        match self.state() {
            // While this side may still send, its answer may bring the ACK.
            State::CloseWait => self.pending.request_fin_ack(),
            _ => self.pending.request_ack(),
        }
    }

    pub(super) fn start_time_wait(&mut self, now: Instant) {
        self.detect_black_hole();
        self.timers.clear_all();
        self.timers.set(TcpTimer::Wait, now + self.config.time_wait);
    }

    /// RFC 9293 3.10.7.4: the peer's FIN again restarts TIME-WAIT.
    fn restart_time_wait(&mut self, now: Instant, segment: &SegmentRepr) {
        if self.state() == State::TimeWait && segment.fin {
            self.start_time_wait(now);
        }
    }
}
