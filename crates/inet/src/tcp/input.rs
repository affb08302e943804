//! What a segment does to a connection (RFC 9293 3.10.7).
//!
//! The order of the checks is the RFC's. Where it says "send an ACK" a wish is set; only resets are
//! given back, because they are made of the segment and may have no connection.

use core::time::Duration;

use super::ack::WindowNews;
use super::congestion::Window;
use super::connection::{Connection, Reply};
use super::durable;
use super::ecn::{Ecn, Urge};
use super::recv::Arrival;
use super::state::Event;
use super::timers::Timer;
use super::{Block, EcnField, EcnPolicy, SegmentRepr, Seq, State, Timestamps};
use crate::{Error, Instant, RxBytes, RxPiece, TxBytes};

/// Payload of segments to a peer that does not say its MSS (RFC 9293 MUST-15).
const DEFAULT_MSS: u16 = 536;

/// Least payload of full segments, whatever the peer says, as Linux: less is an attack.
const MIN_MSS: u16 = 48;

/// What the timestamps option takes of a segment's payload.
pub(super) const TIMESTAMPS_LEN: u16 = 12;

/// When a SYN goes again whose answer belonged to an older connection; Linux's least timeout.
const SYN_AGAIN: Duration = Duration::from_millis(2);

/// Most duplicate ACKs that are owed at a time.
const MAX_DUPLICATES: u16 = 64;

/// Age after which the last timestamp says nothing any more (RFC 7323 5.5).
const TIMESTAMP_LIFE: Duration = Duration::from_secs(24 * 24 * 3600);

/// The RST that answers a segment which belongs to no connection (RFC 9293 3.10.7.1); `None` for a
/// RST.
pub fn reset_for(segment: &SegmentRepr, payload_len: usize) -> Option<SegmentRepr> {
    if segment.rst {
        return None;
    }
    let end = segment.seq + segment_len(segment, payload_len);
    Some(SegmentRepr {
        src_port: segment.dst_port,
        dst_port: segment.src_port,
        seq: segment.ack.unwrap_or_default(),
        ack: if segment.ack.is_some() { None } else { Some(end) },
        rst: true,
        ..SegmentRepr::default()
    })
}

/// SEG.LEN: what a segment takes of the sequence space.
fn segment_len(segment: &SegmentRepr, payload_len: usize) -> u32 {
    payload_len as u32 + u32::from(segment.syn) + u32::from(segment.fin)
}

pub(super) fn reset(segment: &SegmentRepr, payload_len: usize) -> Reply {
    reset_for(segment, payload_len).map_or(Reply::None, Reply::Reset)
}

/// What is left to do after a check.
pub(super) enum Check {
    Pass,
    Done(Reply),
}

impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// Takes a segment of this connection. `payload` is `None` if it has none.
    pub fn handle_segment(
        &mut self,
        now: Instant,
        segment: &SegmentRepr,
        payload: Option<RxPiece<R>>,
    ) -> Reply {
        let len = payload.as_ref().map_or(0, |piece| piece.range.len());
        self.meter.received(now, len, segment.joined);
        let reply = match self.state() {
            State::Closed => reset(segment, len),
            State::SynSent => self.syn_sent(now, segment, payload),
            _ => self.synchronized(now, segment, payload),
        };
        if self.send.unsent() > 0 {
            self.wish(|_| {});
        }
        reply
    }

    /// RFC 9293 3.10.7.3.
    fn syn_sent(
        &mut self,
        now: Instant,
        segment: &SegmentRepr,
        payload: Option<RxPiece<R>>,
    ) -> Reply {
        if let Some(ack) = segment.ack
            && (ack.at_or_before(self.durable.iss) || ack.after(self.syn_edge()))
        {
            // As Linux: most likely the peer still has an older connection of these ends, which
            // the reset takes away. The SYN goes again soon, once, rather than after a timeout.
            if self.retries == 0 && !segment.rst {
                self.timers.set(Timer::Retransmit, now + SYN_AGAIN);
            }
            return reset(segment, 0);
        }
        if segment.ack.is_some()
            && self.config.timestamps
            && segment.timestamps.is_some_and(|stamps| !self.is_syn_echo(now, stamps.echo))
        {
            self.stats.old_timestamps += 1;
            return reset(segment, 0);
        }
        if segment.rst {
            // Only one that acknowledges our SYN is true (RFC 5961 3.2).
            if segment.ack.is_some() {
                self.stats.resets += 1;
                self.end(Some(Error::Refused));
            }
            return Reply::None;
        }
        if !segment.syn {
            return Reply::None;
        }
        self.take_syn(now, segment);
        let Some(ack) = segment.ack else {
            // Both sides opened at once (RFC 9293 3.5, figure 8).
            self.change(Event::Syn);
            self.wish(|wishes| wishes.syn = true);
            return Reply::None;
        };
        self.learn_fast_open(segment);
        self.take_syn_data(ack);
        self.change(Event::SynAck);
        self.take_ack(now, segment, ack, 0, WindowNews::Updated);
        self.established(now);
        self.lose_syn_data(now);
        self.wish(|wishes| wishes.ack = true);
        if self.has_more_than_syn_data() {
            // Data answers the SYN-ACK at once: as on Linux it is a dialogue now, in which ACKs
            // wait for data.
            self.quick_acks = 0;
        }
        let rest = SegmentRepr { seq: segment.seq + 1, syn: false, ..*segment };
        self.text(now, &rest, payload)
    }

    /// Takes the peer's SYN: its sequence number, window and options.
    pub(super) fn take_syn(&mut self, now: Instant, syn: &SegmentRepr) {
        // Our own SYN, if it was sent, has offered a window already.
        let syn_sent = self.durable.snd_max != self.durable.iss;
        let offered = if syn_sent { u32::from(self.syn_window()) } else { 0 };
        let d = &mut self.durable;
        d.irs = syn.seq;
        d.rcv_nxt = syn.seq + 1;
        d.rcv_adv = d.rcv_nxt + offered;
        self.acked_to = d.rcv_nxt;
        // RFC 7323 2.2: the window in a SYN is never scaled.
        d.snd_wnd = u32::from(syn.window);
        self.window_max = d.snd_wnd;
        self.window_seq = syn.seq;
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
            d.ts_recent = timestamps.value;
            self.recent_at = now;
            // RFC 6691: the option comes out of the segment, not on top of it.
            mss -= TIMESTAMPS_LEN;
        }
        d.snd_mss = mss;
        self.agree_on_ecn(syn);
    }

    /// RFC 3168 6.1.1, the side that is asked and the one that asked.
    fn agree_on_ecn(&mut self, syn: &SegmentRepr) {
        let agreed = match (self.config.ecn, syn.ack) {
            (EcnPolicy::Off, _) => false,
            (EcnPolicy::On | EcnPolicy::Accept, None) => Ecn::asks(syn),
            (EcnPolicy::On, Some(_)) => self.ecn_asked && Ecn::answers(syn),
            (EcnPolicy::Accept, Some(_)) => false,
        };
        self.ecn.agree(agreed);
        if agreed {
            self.durable.set(durable::ECN);
        }
    }

    /// The handshake is over.
    pub(super) fn established(&mut self, now: Instant) {
        self.rtt.established(self.retries);
        // RFC 6928 2: one segment if the SYN was lost more than once. The bound of 14600 bytes does
        // not hold, as in Linux.
        let initial = if self.retries > 1 { 1 } else { u32::from(self.config.initial_window) };
        self.window = Window::new(now, initial, self.durable.snd_max);
        self.congestion = self.config.congestion_control.start(now, self.durable.snd_max);
        self.retries = 0;
        self.progress_at = now;
        self.heard_at = now;
        self.meter.established(now);
        self.start_tuning(now);
        self.start_keep_alive(now);
        self.start_mtu_probing(now);
        if self.durable.has(durable::WRITE_SHUT) {
            self.change(Event::Shut);
        }
        self.wish(|_| {});
    }

    /// RFC 9293 3.10.7.4: every state with a synchronized sequence space.
    fn synchronized(
        &mut self,
        now: Instant,
        segment: &SegmentRepr,
        payload: Option<RxPiece<R>>,
    ) -> Reply {
        let payload = payload.filter(|piece| !piece.range.is_empty());
        let len = payload.as_ref().map_or(0, |piece| piece.range.len());
        if self.may_reuse(segment) {
            return Reply::Reuse;
        }
        let mut segment = *segment;
        if let Check::Done(reply) = self.check_repeated_syn(&mut segment) {
            return reply;
        }
        if let Check::Done(reply) = self.check_acceptable(now, &segment, len) {
            return reply;
        }
        if let Check::Done(reply) = self.check_control(now, &segment) {
            return reply;
        }
        self.heard_at = now;
        self.keep_alive_probes = 0;
        if let Check::Done(reply) = self.check_ack(now, &segment, len) {
            return reply;
        }
        // Not of a segment whose ACK is not believed: who guesses one cannot move the clock.
        self.take_timestamp(now, &segment);
        if len > 0 && self.is_unwanted(&segment, len) {
            // As Linux: nobody will ever read this. RFC 9293 3.6.1.
            let reply = reset(&segment, len);
            self.end(Some(Error::Reset));
            return reply;
        }
        self.text(now, &segment, payload)
    }

    /// Whether a SYN may take the place of this connection in TIME-WAIT: it is younger by its
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

    /// The peer's SYN again, in SYN-RECEIVED: our SYN-ACK was lost, or both sides opened at once
    /// and this is the peer's SYN-ACK, whose SYN is old and whose ACK is new.
    fn check_repeated_syn(&mut self, segment: &mut SegmentRepr) -> Check {
        let repeated = segment.syn && !segment.rst && segment.seq == self.durable.irs;
        let answering = self.state() == State::SynReceived || self.is_half_open();
        if !answering || !repeated {
            return Check::Pass;
        }
        let Some(ack) = segment.ack else {
            self.wish(|wishes| wishes.syn = true);
            return Check::Done(Reply::None);
        };
        if ack.after(self.durable.snd_una) && ack.at_or_before(self.syn_edge()) {
            // As Linux: the SYN has come twice, which is answered as any duplicate.
            let (start, end) = (segment.seq, segment.seq + 1);
            self.recv.add_duplicate(Block { start, end });
            self.wish(|wishes| wishes.ack = true);
        }
        segment.syn = false;
        segment.seq += 1;
        // RFC 7323 2.2: this window is not scaled, the later ones are.
        segment.window = (u32::from(segment.window) >> self.durable.snd_scale) as u16;
        Check::Pass
    }

    /// First check: sequence number, and timestamp before it (RFC 7323 5.3).
    fn check_acceptable(&mut self, now: Instant, segment: &SegmentRepr, len: usize) -> Check {
        if self.durable.has(durable::TIMESTAMPS) && !segment.rst && !segment.syn {
            let recent = Seq::new(self.durable.ts_recent);
            let alive = now - self.recent_at < TIMESTAMP_LIFE;
            // As Linux, one that has lost them on its way is taken (RFC 7323 3.2 would drop it):
            // what that lacks is the protection against old numbers alone.
            let old = |stamps: Timestamps| Seq::new(stamps.value).before(recent);
            if segment.timestamps.is_some_and(old) && alive {
                self.stats.old_timestamps += 1;
                self.challenge(now, len > 0);
                return Check::Done(Reply::None);
            }
        }
        // The RFC's table would reject an ACK that is sent from the very edge of the window, and
        // with a closed window any ACK that comes with data. This is Linux's test: the segment
        // touches the window. Bytes outside are cut off later.
        let end = segment.seq + segment_len(segment, len);
        let touches =
            segment.seq.at_or_before(self.durable.rcv_adv) && end.at_or_after(self.durable.rcv_nxt);
        if !touches {
            self.stats.unacceptable += 1;
            if !segment.rst {
                self.challenge(now, len > 0);
                self.repeat_time_wait(now, segment);
            }
            return Check::Done(Reply::None);
        }
        Check::Pass
    }

    /// Second and fourth check: RST and SYN (RFC 5961 3, 4).
    fn check_control(&mut self, now: Instant, segment: &SegmentRepr) -> Check {
        if segment.rst {
            if segment.seq == self.durable.rcv_nxt {
                self.stats.resets += 1;
                self.be_reset();
            } else {
                self.challenge(now, false);
            }
            return Check::Done(Reply::None);
        }
        if segment.syn {
            self.challenge(now, false);
            return Check::Done(Reply::None);
        }
        Check::Pass
    }

    fn be_reset(&mut self) {
        let error = match self.state() {
            State::SynReceived => Some(Error::Refused),
            State::Closing | State::LastAck | State::TimeWait => None,
            // As Linux: the peer had already closed.
            State::CloseWait => Some(Error::BrokenPipe),
            _ => Some(Error::Reset),
        };
        self.end(error);
    }

    /// RFC 7323 4.3. The first check has seen to it that it is not older than the last one, unless
    /// that is too old to compare with.
    fn take_timestamp(&mut self, now: Instant, segment: &SegmentRepr) {
        let Some(timestamps) = segment.timestamps else { return };
        if self.durable.has(durable::TIMESTAMPS) && segment.seq.at_or_before(self.acked_to) {
            self.durable.ts_recent = timestamps.value;
            self.recent_at = now;
        }
    }

    /// Whether payload is new and nobody will read it.
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
    ) -> Reply {
        let len = payload.as_ref().map_or(0, |piece| piece.range.len());
        self.take_urgent(segment);
        if segment_len(segment, len) == 0 {
            return Reply::None;
        }
        if !self.state().receives() {
            // RFC 9293: nothing new can come after the FIN. Its sender has not got our ACK.
            self.stats.unacceptable += 1;
            self.challenge(now, true);
            self.repeat_time_wait(now, segment);
            return Reply::None;
        }
        if let Some(piece) = payload {
            self.take_marks(segment);
            self.recv.measure(segment.joined, len);
            self.take_payload(now, segment.seq, piece);
            self.tune_arrival(now, segment, len);
        }
        if segment.fin {
            let fin = segment.seq + len as u32;
            let d = &self.durable;
            // A FIN without a place in the window is taken nevertheless: it needs no room.
            if fin.at_or_after(d.rcv_nxt) && fin.at_or_before(d.rcv_adv) && self.recv.fin.is_none()
            {
                self.recv.take_fin(self.durable.rcv_nxt, fin);
            }
        }
        if self.recv.fin == Some(self.durable.rcv_nxt) {
            self.take_fin(now);
        } else if segment.fin {
            self.wish(|wishes| wishes.ack = true);
        }
        Reply::None
    }

    /// RFC 3168 6.1.3. A sender that has reduced its window may wait for this ACK to go on.
    fn take_marks(&mut self, segment: &SegmentRepr) {
        self.stats.ecn_marks_in += u64::from(segment.ecn == EcnField::Ce);
        if self.ecn.take(segment) == Urge::Quick {
            self.quick_acks = self.quick_acks.max(2);
        }
        if segment.cwr && self.ecn.is_on() {
            self.wish(|wishes| wishes.ack = true);
        }
    }

    fn take_payload(&mut self, now: Instant, seq: Seq, piece: RxPiece<R>) {
        let before = self.durable.rcv_nxt;
        let edge = self.durable.rcv_adv;
        let arrival = self.recv.insert(&mut self.durable.rcv_nxt, edge, seq, piece);
        let new = self.durable.rcv_nxt.since(before);
        self.durable.received += u64::from(new);
        if new > 0 {
            // Duplicate ACKs owed until now would be ones of the new number, which nobody misses.
            self.wishes.duplicates = 0;
        }
        match arrival {
            Arrival::InOrder => self.acknowledge_later(now),
            // RFC 5681 4.2: at once while there is a gap, and when one is filled.
            Arrival::Filled => self.wish(|wishes| wishes.ack = true),
            Arrival::Early => {
                self.stats.out_of_order += 1;
                self.meter.out_of_order += 1;
                // With SACK one ACK tells of all.
                let most = if self.durable.has(durable::SACK) { 1 } else { MAX_DUPLICATES };
                self.wish(|w| w.duplicates = (w.duplicates + 1).min(most));
            }
            Arrival::Useless => {
                self.stats.unacceptable += 1;
                self.wish(|wishes| wishes.ack = true);
            }
        }
    }

    /// The size of the peer's segments, as far as seen. Longer than what it was told to send is
    /// what the device has joined.
    pub(super) fn peer_segment(&self) -> usize {
        self.recv.segment().min(usize::from(self.durable.rcv_mss))
    }

    /// RFC 9293 3.8.6.3, RFC 5681 4.2: at least every second full segment is acknowledged at once.
    fn acknowledge_later(&mut self, now: Instant) {
        let owed = self.durable.rcv_nxt.since(self.acked_to) as usize;
        if owed >= 2 * self.peer_segment() || self.quick_acks > 0 {
            self.quick_acks = self.quick_acks.saturating_sub(1);
            self.wish(|wishes| wishes.ack = true);
        } else if !self.timers.is_set(Timer::DelayedAck) {
            self.timers.set(Timer::DelayedAck, now + self.config.delayed_ack);
        }
    }

    fn take_fin(&mut self, now: Instant) {
        self.durable.rcv_nxt += 1;
        self.durable.rcv_adv = self.durable.rcv_adv.max(self.durable.rcv_nxt);
        self.durable.set(durable::FIN_RECEIVED);
        self.recv.clear_early();
        self.change(Event::Fin);
        if self.state() == State::TimeWait {
            self.start_time_wait(now);
        }
        // While this side may still send, its answer may bring the ACK.
        let answers = self.state() == State::CloseWait;
        self.wish(|wishes| match answers {
            true => wishes.fin_ack = true,
            false => wishes.ack = true,
        });
    }

    pub(super) fn start_time_wait(&mut self, now: Instant) {
        self.judge_fast_open();
        self.timers.clear_all();
        self.timers.set(Timer::Wait, now + self.config.time_wait);
    }

    /// RFC 9293 3.10.7.4: the peer's FIN again restarts TIME-WAIT.
    fn repeat_time_wait(&mut self, now: Instant, segment: &SegmentRepr) {
        if self.state() == State::TimeWait && segment.fin {
            self.start_time_wait(now);
        }
    }
}
