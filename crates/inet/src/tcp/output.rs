//! Which segment leaves next.
//!
//! One call makes at most one segment: all state changes first, the pieces of payload last, so that
//! the durable half is right when the caller gets the segment. In this order: SYN; duplicate ACKs,
//! which the peer counts; a lost segment; new data, or data again after a timeout; an ACK or probe.

use super::connection::{CORK_TIME, Connection};
use super::durable;
use super::send::{Pieces, SegmentOut, Stretch};
use super::timers::Timer;
use super::{SegmentRepr, Seq, State, Timestamps};
use crate::{Instant, RxBytes, TxBytes};

/// Data to be sent.
struct Load {
    seq: Seq,
    stretch: Stretch,
    fin: bool,
}

impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// The next segment to be sent, with due timers taken into account; `None` when there is none
    /// now. A segment given out counts as sent.
    pub fn poll_segment(&mut self, now: Instant) -> Option<SegmentOut<'_, T>> {
        self.handle_timer(now);
        if !self.wishes.anything {
            return None;
        }
        // Taken back below if there turns out to be nothing.
        self.meter.segs_out = self.meter.segs_out.wrapping_add(1);
        if let Some(repr) = self.wishes.farewell.take() {
            return Some(SegmentOut::new(repr, Pieces::none()));
        }
        if self.wishes.syn && self.state().opening() {
            return Some(SegmentOut::new(self.syn(now), Pieces::none()));
        }
        if self.wishes.duplicates > 0 {
            self.wishes.duplicates -= 1;
            let repr = self.acknowledgement(now, self.send_seq());
            return Some(SegmentOut::new(repr, Pieces::none()));
        }
        if let Some(load) = self.next_load(now) {
            let repr = self.loaded(now, &load);
            return Some(SegmentOut::new(repr, self.send.pieces(&load.stretch)));
        }
        if core::mem::take(&mut self.wishes.probe) {
            // As Linux: a byte that the peer has had, and so must answer (RFC 9293 3.8.4).
            let repr = self.acknowledgement(now, self.durable.snd_una - 1);
            return Some(SegmentOut::new(repr, Pieces::none()));
        }
        if self.wishes.ack {
            let repr = self.acknowledgement(now, self.send_seq());
            return Some(SegmentOut::new(repr, Pieces::none()));
        }
        self.wishes.anything = false;
        self.meter.segs_out = self.meter.segs_out.wrapping_sub(1);
        self.note_limit(now);
        None
    }

    /// A SYN, or SYN-ACK.
    fn syn(&mut self, now: Instant) -> SegmentRepr {
        self.wishes.syn = false;
        let first = self.durable.snd_max == self.durable.iss;
        let end = self.durable.iss + 1;
        self.snd_nxt = end;
        self.durable.snd_max = self.durable.snd_max.max(end);
        if first {
            self.rtt.sent(end, now);
            self.progress_at = now;
        } else {
            self.rtt.retransmitted();
            self.stats.retransmits += 1;
            self.meter.total_retrans = self.meter.total_retrans.wrapping_add(1);
        }
        if !self.timers.is_set(Timer::Retransmit) {
            self.start_retransmit(now);
        }
        let answer = self.state() == State::SynReceived;
        let agreed = |flag, offered| if answer { self.durable.has(flag) } else { offered };
        let scaled = agreed(durable::SCALED, self.config.window_scaling);
        let stamped = agreed(durable::TIMESTAMPS, self.config.timestamps);
        let window = self.syn_window();
        if answer {
            let edge = self.durable.rcv_nxt + u32::from(window);
            self.durable.rcv_adv = self.durable.rcv_adv.max(edge);
        }
        let timestamps = stamped.then(|| self.timestamps(now, answer));
        SegmentRepr {
            syn: true,
            ack: answer.then_some(self.durable.rcv_nxt),
            window,
            mss: Some(self.durable.rcv_mss),
            window_scale: scaled.then_some(self.durable.rcv_scale),
            timestamps,
            ..self.bare(self.durable.iss)
        }
    }

    /// Data, or a FIN, if any may leave now.
    fn next_load(&mut self, now: Instant) -> Option<Load> {
        if !self.state().sends() {
            return None;
        }
        if core::mem::take(&mut self.wishes.head)
            && let Some(load) = self.lost_load()
        {
            return Some(load);
        }
        let unsent = self.send.unsent();
        let fin_unsent = self.fin_seq().is_some_and(|fin| self.snd_nxt.at_or_before(fin));
        if unsent == 0 && !fin_unsent {
            return None;
        }
        let mss = self.send_mss();
        let flight = self.snd_nxt.since(self.durable.snd_una) as usize;
        let usable = self.durable.send_edge().since(self.snd_nxt) as usize;
        let stretch = self.send.at_cursor(mss.min(usable));
        let len = stretch.len;
        let fin = fin_unsent && len == unsent && usable > len;
        if len == 0 && !fin {
            self.hold(now, flight);
            return None;
        }
        // A segment is not made smaller for the congestion window: it waits for an ACK.
        if flight > 0 && flight + len > self.flight_limit() {
            self.use_window(now, true);
            return None;
        }
        let full = len == mss || stretch.pieces_full;
        if !full && !self.may_send_small(len, unsent) {
            self.hold(now, flight);
            return None;
        }
        Some(Load { seq: self.snd_nxt, stretch, fin })
    }

    /// The first unacknowledged segment, again.
    fn lost_load(&mut self) -> Option<Load> {
        let d = &self.durable;
        // While going back after a timeout the cursor comes by here anyway.
        if d.snd_una == d.snd_max || self.snd_nxt != d.snd_max {
            return None;
        }
        let in_flight = d.snd_max.since(d.snd_una) as usize;
        let stretch = self.send.at_head(self.send_mss().min(in_flight));
        let end = d.snd_una + stretch.len as u32;
        let fin = self.fin_seq() == Some(end) && end.before(d.snd_max);
        Some(Load { seq: d.snd_una, stretch, fin })
    }

    /// Whether `len` bytes, which are less than a full segment, may leave: RFC 9293 3.7.4 (Nagle)
    /// and 3.8.6.2.1 (silly window).
    fn may_send_small(&self, len: usize, unsent: usize) -> bool {
        if self.snd_nxt.before(self.durable.snd_max) || self.wishes.little {
            return true;
        }
        if len < unsent {
            // The peer's window is what makes it small.
            return len >= (self.window_max / 2) as usize;
        }
        if self.durable.has(durable::WRITE_SHUT) {
            return true;
        }
        if self.cork {
            return false;
        }
        // Minshall's variant, as Linux: one small segment in flight is enough, full ones do not
        // matter.
        self.nodelay || self.small_end.at_or_before(self.durable.snd_una)
    }

    /// Nothing may leave though there is something. If there is nothing in flight whose ACK would
    /// change that, a timer must.
    fn hold(&mut self, now: Instant, flight: usize) {
        let idle = flight == 0 && !self.timers.is_set(Timer::Retransmit);
        if !idle || self.timers.is_set(Timer::Persist) {
            return;
        }
        let open = self.durable.send_edge().after(self.snd_nxt);
        let time = if open && self.cork { CORK_TIME } else { self.rtt.backed_off(self.probes) };
        if self.probes == 0 {
            self.progress_at = now;
        }
        self.timers.set(Timer::Persist, now + time);
    }

    /// Counts `load` as sent and makes its header.
    fn loaded(&mut self, now: Instant, load: &Load) -> SegmentRepr {
        let Load { seq, stretch, fin } = load;
        let end = *seq + stretch.len as u32 + u32::from(*fin);
        let max = self.durable.snd_max;
        let head = *seq != self.snd_nxt;
        if !head {
            self.send.advance(stretch);
            self.snd_nxt = end;
        }
        self.meter.sent(stretch.len, seq.before(max));
        if seq.before(max) {
            self.stats.retransmits += 1;
            if self.clear_repeats && !head {
                self.rtt.sent(end, now);
            } else {
                self.rtt.retransmitted();
            }
        } else {
            if self.durable.snd_una == max {
                self.start_after_idle(now);
                self.progress_at = now;
            }
            self.rtt.sent(end, now);
            if stretch.len < self.send_mss() {
                self.small_end = end;
            }
        }
        self.sent_at = now;
        self.durable.snd_max = max.max(end);
        let flight = self.snd_nxt.since(self.durable.snd_una) as usize;
        self.use_window(now, flight + self.send_mss() > self.flight_limit());
        self.wishes.little = false;
        self.timers.clear(Timer::Persist);
        if !self.timers.is_set(Timer::Retransmit) {
            self.start_retransmit(now);
        }
        let psh = stretch.len > 0 && self.snd_nxt == end && self.send.unsent() == 0;
        SegmentRepr { fin: *fin, psh, ..self.acknowledgement(now, *seq) }
    }

    /// A segment that acknowledges all received.
    fn acknowledgement(&mut self, now: Instant, seq: Seq) -> SegmentRepr {
        self.wishes.ack = false;
        self.timers.clear(Timer::DelayedAck);
        let window = self.advertise();
        self.acked_to = self.durable.rcv_nxt;
        let stamped = self.durable.has(durable::TIMESTAMPS);
        let timestamps = stamped.then(|| self.timestamps(now, true));
        SegmentRepr { window, timestamps, ..self.bare(seq) }
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

    /// Own clock in the timestamps option: milliseconds.
    pub(super) fn timestamp(&self, now: Instant) -> u32 {
        ((now.as_nanos() / 1_000_000) as u32).wrapping_add(self.durable.ts_offset)
    }

    fn timestamps(&self, now: Instant, echo: bool) -> Timestamps {
        let echo = if echo { self.durable.ts_recent } else { 0 };
        Timestamps { value: self.timestamp(now), echo }
    }
}

/// The window offered to the peer.
impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// The window field of the next segment; moves `rcv_adv` if the window opens.
    ///
    /// Its right edge moves only in large steps (RFC 9293 3.8.6.2.2) and never back. What is left
    /// of the window is rounded up to the scale's unit, because rounding down would take back what
    /// was offered; each ACK may so give away less than one unit too much, out of a reserve
    /// ([`capacity`](Self::capacity)). Should that be used up (bytes that come one by one and are
    /// not read), the window shrinks by less than a unit, which RFC 7323 2.4 permits.
    fn advertise(&mut self) -> u16 {
        let scale = self.durable.rcv_scale;
        let left = self.durable.window_left() as usize;
        let wanted = self.offerable();
        let units = if wanted >= left + self.window_step(1) {
            wanted >> scale
        } else if left.next_multiple_of(1 << scale) <= self.recv.free() {
            left.div_ceil(1 << scale)
        } else {
            left >> scale
        };
        let units = units.min(0xffff);
        let edge = self.durable.rcv_nxt + (units << scale) as u32;
        self.durable.rcv_adv = self.durable.rcv_adv.max(edge);
        units as u16
    }

    /// The window field of a SYN, which is never scaled (RFC 7323 2.2).
    pub(super) fn syn_window(&self) -> u16 {
        self.recv.free().min(self.window_clamp()).min(0xffff) as u16
    }

    /// Wishes for an ACK if the application has made so much room that the peer should know at
    /// once: a step of two segments or half the buffer, that doubles what the peer may send. (Less
    /// than that, and every ACK of a quick reader would be followed by a second one.)
    pub(super) fn offer_window(&mut self) {
        if !self.state().receives() {
            return;
        }
        let left = self.durable.window_left() as usize;
        let wanted = self.offerable();
        if wanted >= left + self.window_step(2) && wanted >= 2 * left {
            self.wish(|wishes| wishes.ack = true);
        }
    }

    /// The largest window that could be offered now, a multiple of the scale's unit.
    fn offerable(&self) -> usize {
        let scale = self.durable.rcv_scale;
        let room = self.capacity().saturating_sub(self.recv.unconsumed());
        let room = room.min(self.window_clamp());
        (room >> scale).min(0xffff) << scale
    }

    /// The application's bound of the window, bytes.
    fn window_clamp(&self) -> usize {
        match self.config.window_clamp as usize {
            0 => usize::MAX,
            clamp => clamp,
        }
    }

    /// The buffer without a reserve for rounding.
    fn capacity(&self) -> usize {
        const UNITS: usize = 64;
        let buffer = self.recv.buffer();
        let scale = self.durable.rcv_scale;
        buffer - if scale == 0 { 0 } else { (UNITS << scale).min(buffer / 8) }
    }

    /// `segments` full segments or half of what can be offered.
    fn window_step(&self, segments: usize) -> usize {
        let mss = usize::from(self.durable.rcv_mss);
        (segments * mss).min(self.capacity() / 2).max(1)
    }
}
