//! What a segment does to a connection (RFC 9293 3.10.7).
//!
//! The order of the checks is the RFC's. Where it says "send an ACK" a wish is set; only resets are
//! given back, because they are made of the segment and may have no connection.

use core::time::Duration;

use super::congestion::{AckSample, Event as Congested, Window};
use super::connection::{Connection, Reply};
use super::durable;
use super::loss::Advance;
use super::recv::Arrival;
use super::state::Event;
use super::timers::Timer;
use super::{SegmentRepr, Seq, State};
use crate::{Error, Instant, RxBytes, RxPiece, TxBytes};

/// Payload of segments to a peer that does not say its MSS (RFC 9293 MUST-15).
const DEFAULT_MSS: u16 = 536;

/// Least payload of full segments, whatever the peer says, as Linux: less is an attack.
const MIN_MSS: u16 = 48;

/// What the timestamps option takes of a segment's payload.
pub(super) const TIMESTAMPS_LEN: u16 = 12;

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

fn reset(segment: &SegmentRepr, payload_len: usize) -> Reply {
    reset_for(segment, payload_len).map_or(Reply::None, Reply::Reset)
}

/// What is left to do after a check.
enum Check {
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
        self.meter.received(now, len);
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
            && (ack.at_or_before(self.durable.iss) || ack.after(self.durable.snd_max))
        {
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
        self.change(Event::SynAck);
        self.advance(now, ack, segment);
        self.established(now);
        self.wish(|wishes| wishes.ack = true);
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
    }

    /// The handshake is over.
    fn established(&mut self, now: Instant) {
        self.rtt.established(self.retries);
        // RFC 6928 2: one segment if the SYN was lost more than once. The bound of 14600 bytes does
        // not hold, as in Linux.
        let initial = if self.retries > 1 { 1 } else { u32::from(self.config.initial_window) };
        self.window = Window::new(now, initial, self.snd_nxt);
        self.congestion = self.config.congestion_control.start(now, self.snd_nxt);
        self.retries = 0;
        self.progress_at = now;
        self.heard_at = now;
        self.start_keep_alive(now);
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
        self.take_timestamp(now, &segment);
        if let Check::Done(reply) = self.check_ack(now, &segment, len) {
            return reply;
        }
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
        if self.state() != State::SynReceived || !repeated {
            return Check::Pass;
        }
        if segment.ack.is_none() {
            self.wish(|wishes| wishes.syn = true);
            return Check::Done(Reply::None);
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
            let Some(timestamps) = segment.timestamps else {
                // RFC 7323 3.2.
                self.stats.old_timestamps += 1;
                return Check::Done(Reply::None);
            };
            let recent = Seq::new(self.durable.ts_recent);
            let alive = now - self.recent_at < TIMESTAMP_LIFE;
            if Seq::new(timestamps.value).before(recent) && alive {
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

    /// RFC 7323 4.3.
    fn take_timestamp(&mut self, now: Instant, segment: &SegmentRepr) {
        let Some(timestamps) = segment.timestamps else { return };
        if !self.durable.has(durable::TIMESTAMPS) || segment.seq.after(self.acked_to) {
            return;
        }
        let newer = Seq::new(timestamps.value).at_or_after(Seq::new(self.durable.ts_recent));
        // Not newer and yet here: the last one is too old to compare with.
        if newer || now - self.recent_at >= TIMESTAMP_LIFE {
            self.durable.ts_recent = timestamps.value;
            self.recent_at = now;
        }
    }

    /// Fifth check: ACK.
    fn check_ack(&mut self, now: Instant, segment: &SegmentRepr, len: usize) -> Check {
        let Some(ack) = segment.ack else { return Check::Done(Reply::None) };
        let (una, max) = (self.durable.snd_una, self.durable.snd_max);
        if self.state() == State::SynReceived {
            if ack.at_or_before(una) || ack.after(max) {
                return Check::Done(reset(segment, len));
            }
            self.change(Event::AckOfSyn);
            self.set_window(segment);
            self.advance(now, ack, segment);
            self.established(now);
            return Check::Pass;
        }
        // RFC 5961 5.2.
        if ack.after(max) || ack.before(una - self.window_max) {
            self.stats.unacceptable += 1;
            self.challenge(now, len > 0);
            return Check::Done(Reply::None);
        }
        self.unanswered = 0;
        let duplicate = self.is_duplicate(segment, ack, len);
        let advances = ack.after(una);
        // RFC 9293 3.10.7.4 with Linux's last clause: of two ACKs with the same numbers that
        // changed places, the larger window is the younger.
        let window = u32::from(segment.window) << self.durable.snd_scale;
        if advances
            || (ack == una
                && (segment.seq.after(self.window_seq)
                    || (segment.seq == self.window_seq && window > self.durable.snd_wnd)))
        {
            self.set_window(segment);
        }
        if advances {
            self.advance(now, ack, segment);
        } else if duplicate {
            self.duplicate_ack(now);
        }
        if self.state() == State::Closed {
            return Check::Done(Reply::None);
        }
        Check::Pass
    }

    /// RFC 5681 2.
    fn is_duplicate(&self, segment: &SegmentRepr, ack: Seq, len: usize) -> bool {
        let d = &self.durable;
        len == 0
            && !segment.fin
            && ack == d.snd_una
            && d.snd_una != d.snd_max
            && u32::from(segment.window) << d.snd_scale == d.snd_wnd
    }

    fn set_window(&mut self, segment: &SegmentRepr) {
        let was_open = self.durable.send_edge().after(self.snd_nxt);
        self.durable.snd_wnd = u32::from(segment.window) << self.durable.snd_scale;
        self.window_seq = segment.seq;
        self.window_max = self.window_max.max(self.durable.snd_wnd);
        if !was_open && self.durable.send_edge().after(self.snd_nxt) {
            self.timers.clear(Timer::Persist);
            self.probes = 0;
        }
        self.wish(|_| {});
    }

    /// `ack` acknowledges something new.
    fn advance(&mut self, now: Instant, ack: Seq, segment: &SegmentRepr) {
        let fin_acked = self.fin_seq().is_some_and(|fin| ack.after(fin));
        let syn_acked = self.durable.snd_una == self.durable.iss && self.durable.acked == 0;
        let flight = self.segments(self.durable.snd_max.since(self.durable.snd_una) as usize);
        let after_timeout = self.loss.after_timeout(self.durable.snd_una);
        let bytes = ack.since(self.durable.snd_una) - u32::from(syn_acked) - u32::from(fin_acked);
        self.durable.snd_una = ack;
        // A segment counts when its last byte is acknowledged, whatever the ACKs (RFC 3465).
        let mss = u64::from(self.durable.snd_mss).max(1);
        let before = self.durable.acked / mss;
        self.durable.acked += u64::from(bytes);
        let acked = u32::try_from(self.durable.acked / mss - before).unwrap_or(u32::MAX);
        self.send.acked_to(self.durable.acked);
        self.snd_nxt = self.snd_nxt.max(ack);
        let rtt = self.rtt.acked(ack, now, self.echoed(now, segment));
        if !syn_acked {
            self.retries = 0;
        }
        self.progress_at = now;
        self.soft_error = None;
        self.take_rtt(now, rtt);
        // Such an ACK may cover segments that left the network long ago (RFC 3465 2.3).
        let counted = if after_timeout { acked.min(1) } else { acked };
        let sample = AckSample {
            now,
            acked: counted,
            in_flight: flight,
            delivered: acked,
            interval: rtt.unwrap_or_default(),
        };
        self.recover(now, bytes as usize, &sample);
        if fin_acked {
            self.change(Event::AckOfFin);
            match self.state() {
                State::TimeWait => self.start_time_wait(now),
                State::FinWait2 if self.durable.has(durable::ORPHAN) => {
                    self.timers.set(Timer::Wait, now + self.config.fin_timeout);
                }
                _ => {}
            }
        }
    }

    /// The time since the timestamp that `segment` echoes was sent (RFC 7323 4.1).
    fn echoed(&self, now: Instant, segment: &SegmentRepr) -> Option<Duration> {
        let timestamps = segment.timestamps.filter(|t| t.echo != 0)?;
        let age = self.timestamp(now).wrapping_sub(timestamps.echo).cast_signed();
        let millis = u64::try_from(age).ok()?;
        self.durable.has(durable::TIMESTAMPS).then(|| Duration::from_millis(millis))
    }

    /// Loss recovery, congestion window and retransmission timer after an ACK of something new.
    fn recover(&mut self, now: Instant, bytes: usize, sample: &AckSample) {
        let una = self.durable.snd_una;
        let left = self.durable.snd_max.since(una) as usize;
        let mut restart = true;
        match self.loss.on_advance(una, bytes, self.send_mss()) {
            Advance::Open => {
                if self.window.is_limited() {
                    self.congestion.on_ack(&mut self.window, sample);
                }
            }
            Advance::Partial { first } => {
                restart = first;
                self.wish(|wishes| wishes.head = true);
            }
            Advance::Full => {
                self.wishes.head = false;
                // RFC 6582 3.2 step 3 full ACK, option 1: no burst.
                let left = self.segments(left).max(1);
                self.window.cwnd = self.window.ssthresh.min(left + 1);
                self.congestion.on_event(&mut self.window, now, Congested::Recovered);
            }
        }
        if left == 0 {
            // RFC 6298 5.2.
            self.timers.clear(Timer::Retransmit);
        } else if restart {
            // RFC 6298 5.3.
            self.start_retransmit(now);
        }
        self.timers.clear(Timer::Persist);
        self.probes = 0;
        self.wish(|_| {});
    }

    fn duplicate_ack(&mut self, now: Instant) {
        self.stats.duplicate_acks += 1;
        let (una, max) = (self.durable.snd_una, self.durable.snd_max);
        if self.loss.on_duplicate(una, max, self.send_mss()) {
            self.stats.fast_recoveries += 1;
            self.reduce_threshold(now);
            self.window.cwnd = self.window.ssthresh;
            self.wishes.head = true;
        }
        self.wish(|_| {});
    }

    /// Whether payload is new and nobody will read it.
    fn is_unwanted(&self, segment: &SegmentRepr, len: usize) -> bool {
        let new = (segment.seq + len as u32).after(self.durable.rcv_nxt);
        let shut = matches!(self.state(), State::FinWait1 | State::FinWait2);
        new && shut && self.durable.has(durable::READ_SHUT)
    }

    /// Seventh and eighth check: text and FIN.
    fn text(&mut self, now: Instant, segment: &SegmentRepr, payload: Option<RxPiece<R>>) -> Reply {
        let len = payload.as_ref().map_or(0, |piece| piece.range.len());
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
            self.take_payload(now, segment.seq, piece);
        }
        if segment.fin {
            let fin = segment.seq + len as u32;
            let d = &self.durable;
            // A FIN without a place in the window is taken nevertheless: it needs no room.
            if fin.at_or_after(d.rcv_nxt) && fin.at_or_before(d.rcv_adv) && self.recv.fin.is_none()
            {
                self.recv.fin = Some(fin);
            }
            self.wish(|wishes| wishes.ack = true);
        }
        if self.recv.fin == Some(self.durable.rcv_nxt) {
            self.take_fin(now);
        }
        Reply::None
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
                self.wish(|w| w.duplicates = (w.duplicates + 1).min(MAX_DUPLICATES));
            }
            Arrival::Useless => {
                self.stats.unacceptable += 1;
                self.wish(|wishes| wishes.ack = true);
            }
        }
    }

    /// RFC 9293 3.8.6.3, RFC 5681 4.2: at least every second full segment is acknowledged at once.
    fn acknowledge_later(&mut self, now: Instant) {
        let owed = self.durable.rcv_nxt.since(self.acked_to) as usize;
        if owed >= 2 * self.recv.segment() || self.quick_acks > 0 {
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
        self.wish(|wishes| wishes.ack = true);
    }

    fn start_time_wait(&mut self, now: Instant) {
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
