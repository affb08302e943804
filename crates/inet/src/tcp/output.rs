//! Which segment leaves next.
//!
//! One call makes at most one segment: all state changes first, the pieces of payload last, so that
//! the durable half is right when the caller gets the segment. In this order: SYN; duplicate ACKs,
//! which the peer counts; a lost segment; new data, or data again after a timeout; an ACK or probe.

use super::burst::CORK_TIME;
use super::connection::Connection;
use super::durable;
use super::input::TIMESTAMPS_LEN;
use super::loss::{CaState, Repeat, SackBlocks, SentSegment};
use super::mtu_probe::NextProbe;
use super::send::{Marks, Pieces, SegmentOut, Stretch};
use super::timers::Timer;
use super::{EcnPolicy, SegmentRepr, Seq, State, Timestamps};
use crate::{Instant, RxBytes, TxBytes};

/// Why data is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It was not sent yet.
    New,
    /// The same, as a tail loss probe.
    NewProbe,
    /// It is held to be lost.
    Lost,
    /// The last segment again, as a tail loss probe.
    Probe,
}

/// Data to be sent.
struct Load {
    seq: Seq,
    stretch: Stretch,
    fin: bool,
    kind: Kind,
    /// Which sent segments these are, if they are sent again.
    index: usize,
    count: usize,
    /// No earlier transmission of them can be acknowledged any more.
    clear: bool,
    /// It asks how long packets the path takes.
    mtu_probe: bool,
}

impl Load {
    fn new(seq: Seq, stretch: Stretch, fin: bool) -> Self {
        Self {
            seq,
            stretch,
            fin,
            kind: Kind::New,
            index: 0,
            count: 0,
            clear: false,
            mtu_probe: false,
        }
    }
}

impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// [`poll_segment`](Self::poll_segment) without the lone ACK of a FIN, which is due soon while
    /// [`defers_fin_ack`](Self::defers_fin_ack) says so.
    pub fn poll_segment_deferring(&mut self, now: Instant) -> Option<SegmentOut<'_, T>> {
        self.handle_timer(now);
        if !self.wishes.anything {
            return None;
        }
        // Taken back below if there turns out to be nothing.
        self.meter.segs_out = self.meter.segs_out.wrapping_add(1);
        if let Some(repr) = self.wishes.farewell.take() {
            return Some(SegmentOut::new(*repr, Pieces::none()));
        }
        if self.wishes.syn && (self.state().opening() || self.is_half_open()) {
            return Some(self.syn_segment(now));
        }
        if self.wishes.duplicates > 0 {
            self.wishes.duplicates -= 1;
            let repr = self.acknowledgement(now, self.send_seq(), 0);
            if self.durable.has(durable::SACK) {
                // One tells all that fits into it.
                self.wishes.duplicates = u16::from(self.recv.owes_report());
            }
            return Some(SegmentOut::new(repr, Pieces::none()));
        }
        if let Some(load) = self.next_load(now) {
            let mss = if load.mtu_probe { load.stretch.len } else { self.load_mss() };
            let repr = self.loaded(now, &load);
            let out = SegmentOut::new(repr, self.send.pieces(&load.stretch));
            return Some(out.cut_to(mss as u16));
        }
        if core::mem::take(&mut self.wishes.probe) {
            // As Linux: a byte that the peer has had, and so must answer (RFC 9293 3.8.4).
            let repr = self.acknowledgement(now, self.durable.snd_una - 1, 0);
            return Some(SegmentOut::new(repr, Pieces::none()));
        }
        if self.wishes.ack {
            let repr = self.acknowledgement(now, self.send_seq(), 0);
            return Some(SegmentOut::new(repr, Pieces::none()));
        }
        self.wishes.anything = false;
        self.meter.segs_out = self.meter.segs_out.wrapping_sub(1);
        self.note_limit(now);
        None
    }

    /// A SYN, or SYN-ACK.
    pub(super) fn syn(&mut self, now: Instant) -> SegmentRepr {
        self.wishes.syn = false;
        let first = self.durable.snd_max == self.durable.iss;
        let end = self.durable.iss + 1;
        self.durable.snd_max = self.durable.snd_max.max(end);
        if first {
            self.rtt.sent(end, now);
            self.progress_at = now;
        } else {
            self.rtt.retransmitted();
            self.stats.retransmits += 1;
            self.meter.total_retrans = self.meter.total_retrans.wrapping_add(1);
        }
        if !self.timers.is_sending() {
            self.start_retransmit(now);
        }
        let answer = self.state() != State::SynSent;
        let agreed = |flag, offered| if answer { self.durable.has(flag) } else { offered };
        let scaled = agreed(durable::SCALED, self.config.window_scaling);
        let stamped = agreed(durable::TIMESTAMPS, self.config.timestamps);
        let sack_permitted = agreed(durable::SACK, self.config.sack);
        let window = self.syn_window();
        if answer {
            let edge = self.durable.rcv_nxt + u32::from(window);
            self.durable.rcv_adv = self.durable.rcv_adv.max(edge);
        }
        let timestamps = stamped.then(|| self.timestamps(now, answer));
        // RFC 3168 6.1.1; a SYN that is sent again does not ask, should somebody drop those that do
        // (6.1.1.1).
        self.ecn_asked = !answer && first && self.config.ecn == EcnPolicy::On;
        SegmentRepr {
            syn: true,
            ece: if answer { self.ecn.is_on() } else { self.ecn_asked },
            cwr: self.ecn_asked,
            sack_permitted,
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
        if self.wishes.tail {
            return self.tail_load(now);
        }
        let repeat = self.loss.repeat;
        if repeat == Repeat::Lost
            && let Some(load) = self.lost_load(now)
        {
            return Some(load);
        }
        let load = self.new_load(now);
        if load.is_some() || repeat != Repeat::NewFirst {
            return load;
        }
        // RFC 5682 2.1 step 2b: there is nothing new, so it is the usual way after a timeout.
        self.loss.give_up_frto();
        self.lost_load(now)
    }

    /// Payload of a full segment now: SACK blocks come out of it, as every option (RFC 9293
    /// 3.7.1).
    fn load_mss(&self) -> usize {
        let blocks = if self.durable.has(durable::SACK) {
            self.recv.report_len(self.most_blocks(), self.config.dsack)
        } else {
            0
        };
        // Two bytes of padding, kind and length, and two numbers for each.
        let option = if blocks == 0 { 0 } else { 4 + 8 * blocks };
        self.send_mss().saturating_sub(option).max(1)
    }

    /// SACK blocks that fit into a header beside timestamps.
    pub(super) fn most_blocks(&self) -> usize {
        if self.durable.has(durable::TIMESTAMPS) { 3 } else { SackBlocks::MOST }
    }

    /// What was never sent, as far as both windows permit.
    fn new_load(&mut self, now: Instant) -> Option<Load> {
        let unsent = self.send.unsent();
        let seq = self.durable.snd_max;
        let fin_unsent = self.fin_seq().is_some_and(|fin| seq.at_or_before(fin));
        if unsent == 0 && !fin_unsent {
            return None;
        }
        match self.mtu_probe(now) {
            NextProbe::Now(stretch) => {
                return Some(Load { mtu_probe: true, ..Load::new(seq, stretch, false) });
            }
            NextProbe::Wait => {
                self.use_window(now, true);
                return None;
            }
            NextProbe::No => {}
        }
        let mss = self.load_mss();
        let usable = self.durable.send_edge().since(seq) as usize;
        let room = self.window.cwnd.saturating_sub(self.loss.sent.in_flight());
        let most = self.burst_segments(room) * mss;
        let stretch = self.send.at_next(most.min(usable));
        let len = stretch.len;
        let fin = fin_unsent && len == unsent && usable > len;
        if len == 0 && !fin {
            self.hold(now);
            return None;
        }
        // A lone FIN has no bytes that the window could count (RFC 5681 2, cwnd).
        if room == 0 && len > 0 {
            self.use_window(now, true);
            return None;
        }
        // A record's end that is not the queue's is like a full segment: nothing could be added.
        let record = stretch.marks.record && len < unsent;
        let full = len >= mss || stretch.pieces_full || record;
        if !full && !self.may_send_small(len, unsent) {
            self.hold(now);
            return None;
        }
        if self.loss.sent.is_empty() {
            // The window may have decayed.
            self.start_after_idle(now);
            let most = self.burst_segments(self.window.cwnd) * mss;
            if len > most {
                return Some(Load::new(seq, stretch.cut(most), false));
            }
        }
        // The end of a super-segment that is no full one: only if it might leave on its own.
        let odd = len % mss;
        if len > mss
            && odd > 0
            && !record
            && (stretch.pieces_full || !self.may_send_small(odd, unsent - len + odd))
        {
            return Some(Load::new(seq, stretch.cut(len - odd), false));
        }
        Some(Load::new(seq, stretch, fin))
    }

    /// What is lost, as far as the congestion window permits: contiguous segments together.
    fn lost_load(&mut self, now: Instant) -> Option<Load> {
        let room = self.window.cwnd.saturating_sub(self.loss.sent.in_flight());
        let index = self.loss.sent.next_wanted()?;
        if room == 0 {
            return None;
        }
        self.again(now, index, self.burst_segments(room), Kind::Lost)
    }

    /// A tail loss probe (RFC 8985 7.3): something new if there is and the peer's window admits it,
    /// whatever the congestion window; else the last segment again.
    fn tail_load(&mut self, now: Instant) -> Option<Load> {
        self.wishes.tail = false;
        let seq = self.durable.snd_max;
        let usable = self.durable.send_edge().since(seq) as usize;
        let stretch = self.send.at_next(self.load_mss().min(usable));
        if stretch.len > 0 {
            let fin = self.fin_seq() == Some(seq + stretch.len as u32) && usable > stretch.len;
            return Some(Load { kind: Kind::NewProbe, ..Load::new(seq, stretch, fin) });
        }
        let last = self.loss.sent.last_missing();
        let load = last.and_then(|last| self.again(now, last, 1, Kind::Probe));
        if load.is_none() {
            self.resume_retransmit(now);
        }
        load
    }

    /// Up to `most` segments from the one at `index` on, again.
    fn again(&mut self, now: Instant, index: usize, most: usize, kind: Kind) -> Option<Load> {
        let mss = self.load_mss();
        let first = *self.loss.sent.get(index)?;
        let edge = self.durable.send_edge();
        if first.end.after(edge) && index > 0 {
            // The peer has taken its window back: only the head is sent, as a window probe.
            return None;
        }
        let fin = self.fin_seq().filter(|fin| fin.before(self.durable.snd_max));
        let payload_end = |end: Seq| fin.map_or(end, |fin| end.min(fin));
        if payload_end(first.end).since(first.start) as usize > mss {
            // The path takes smaller segments now.
            self.loss.sent.split(index, mss as u32);
        }
        let mut end = self.loss.sent.get(index)?.end;
        let mut count = 1;
        while count < most
            && let Some(next) = self.loss.sent.get(index + count)
            && next.wanted()
            && !self.loss.sent.get(index + count - 1).is_some_and(SentSegment::ends_load)
            && !next.end.after(edge)
            && next.end.since(first.start) as usize <= most * mss
        {
            end = next.end;
            count += 1;
        }
        let offset = self.offset_of(first.start);
        let len = payload_end(end).since(first.start) as usize;
        let mut stretch = self.send.at(offset, len);
        if stretch.len < len {
            // Too many pieces for one frame.
            count = self.loss.sent.covered(index, first.start + stretch.len as u32).max(1);
            end = self.loss.sent.get(index + count - 1)?.end;
            let wanted = payload_end(end).since(first.start) as usize;
            if wanted > stretch.len {
                self.loss.sent.split(index, stretch.len as u32);
                end = first.start + stretch.len as u32;
            }
            stretch = stretch.cut(wanted);
        }
        let fin = fin.is_some_and(|fin| fin.before(end));
        let clear = self.rtt.is_clear(now - first.at);
        Some(Load { seq: first.start, stretch, fin, kind, index, count, clear, mtu_probe: false })
    }

    /// The place of `seq` in the stream.
    fn offset_of(&self, seq: Seq) -> u64 {
        let acked = self.durable.acked;
        let base = self.durable.iss + 1 + acked as u32;
        acked.saturating_add_signed(i64::from(seq.offset_from(base)))
    }

    /// Whether `len` bytes, which are less than a full segment, may leave: RFC 9293 3.7.4 (Nagle)
    /// and 3.8.6.2.1 (silly window).
    fn may_send_small(&self, len: usize, unsent: usize) -> bool {
        if self.wishes.little || self.is_urgent() {
            return true;
        }
        if len < unsent {
            // The peer's window is what makes it small.
            return len >= (self.window_max / 2) as usize;
        }
        if self.durable.has(durable::WRITE_SHUT) {
            return true;
        }
        if self.cork || self.more {
            return false;
        }
        // Minshall's variant, as Linux: one small segment in flight is enough, full ones do not
        // matter.
        self.nodelay || self.small_end.at_or_before(self.durable.snd_una)
    }

    /// Nothing may leave though there is something. If there is nothing in flight whose ACK would
    /// change that, a timer must.
    fn hold(&mut self, now: Instant) {
        let idle = self.loss.sent.is_empty() && !self.timers.is_sending();
        if !idle || self.timers.is_set(Timer::Persist) {
            return;
        }
        let open = self.durable.send_edge().after(self.durable.snd_max);
        let time = if open && (self.cork || self.more) {
            CORK_TIME
        } else {
            self.rtt.backed_off(self.probes)
        };
        if self.probes == 0 {
            self.progress_at = now;
        }
        self.timers.set(Timer::Persist, now + time);
    }

    /// Counts `load` as sent and makes its header.
    fn loaded(&mut self, now: Instant, load: &Load) -> SegmentRepr {
        let fresh = matches!(load.kind, Kind::New | Kind::NewProbe);
        let psh = load.stretch.len > 0 && self.pushes(load, fresh);
        let mss = if load.mtu_probe { load.stretch.len } else { self.load_mss() };
        self.meter.sent(load.stretch.len, mss, !fresh);
        if fresh {
            self.count_new(now, load, psh);
        } else {
            self.count_again(now, load);
        }
        self.sent_at = now;
        if matches!(load.kind, Kind::Probe | Kind::NewProbe) {
            let (loss, mut env) = self.loss_env(now);
            loss.on_probe(&mut env, !fresh);
            self.start_retransmit(now);
        }
        self.use_window(now, self.loss.sent.in_flight() >= self.window.cwnd);
        // A super-segment always, so that its receiver is not kept waiting (as Linux).
        let long = load.stretch.len > mss;
        let mut repr = SegmentRepr {
            fin: load.fin,
            psh: psh || long,
            ..self.acknowledgement(now, load.seq, load.stretch.len.min(mss))
        };
        self.ecn.mark(&mut repr, fresh && load.stretch.len > 0);
        repr
    }

    /// Whether the end of `load` is pushed.
    fn pushes(&mut self, load: &Load, fresh: bool) -> bool {
        let marks = if fresh {
            load.stretch.marks
        } else {
            let last = load.index + load.count.saturating_sub(1);
            self.loss.sent.get(last).map(SentSegment::marks).unwrap_or_default()
        };
        let urged = fresh && core::mem::take(&mut self.wishes.push);
        marks.push || urged
    }

    fn count_new(&mut self, now: Instant, load: &Load, push: bool) {
        let Load { seq, stretch, fin, .. } = *load;
        let first = self.loss.sent.is_empty();
        if first {
            self.progress_at = now;
        }
        let mss = if load.mtu_probe { stretch.len } else { self.load_mss() };
        let len = stretch.len as u32;
        self.send.advance(&stretch);
        self.durable.snd_max = seq + len + u32::from(fin);
        if stretch.len % mss != 0 || stretch.len == 0 {
            self.small_end = self.durable.snd_max;
        }
        let marks = Marks { push, record: stretch.marks.record, burst: true };
        self.loss.on_sent(now, (seq, len, fin), mss as u32, marks);
        if load.mtu_probe {
            self.mtu_probe_sent(seq, seq + len);
        }
        (self.wishes.little, self.wishes.push) = (false, false);
        self.timers.clear(Timer::Persist);
        self.time_new_data(now, first);
    }

    fn count_again(&mut self, now: Instant, load: &Load) {
        self.forget_mtu_probe();
        let count = load.count as u64;
        self.stats.retransmits += count;
        let lost = if load.kind == Kind::Lost { count } else { 0 };
        match self.loss.state() {
            CaState::Loss => self.stats.timeout_retransmits += lost,
            _ => self.stats.fast_retransmits += lost,
        }
        let stamp = self.timestamp(now);
        for index in load.index..load.index + load.count {
            self.loss.on_repeated(now, index, stamp, load.clear);
        }
        // RFC 6298 5.1 as RFC 6675 and Linux read it: the head's repetition gets its own time.
        if load.index == 0 && load.kind == Kind::Lost && !self.timers.is_set(Timer::Reordering) {
            self.start_retransmit(now);
        }
    }

    /// A segment that acknowledges all received, with `payload` bytes, or to be cut into such ones.
    fn acknowledgement(&mut self, now: Instant, seq: Seq, payload: usize) -> SegmentRepr {
        (self.wishes.ack, self.wishes.fin_ack) = (false, false);
        self.timers.clear(Timer::DelayedAck);
        let window = self.advertise();
        self.acked_to = self.durable.rcv_nxt;
        let stamped = self.durable.has(durable::TIMESTAMPS);
        let timestamps = stamped.then(|| self.timestamps(now, true));
        let urgent = self.urgent_pointer(seq);
        let mut repr = SegmentRepr { urgent, window, timestamps, ..self.bare(seq) };
        if self.durable.has(durable::SACK) {
            // What is sent again may leave no room: the option comes out of the segment.
            let room = self.send_mss().saturating_sub(payload).saturating_sub(4) / 8;
            let most = self.most_blocks().min(room);
            let (sack, duplicate) = self.recv.report(most, self.config.dsack);
            repr.sack = sack;
            self.stats.dsacks_out += u64::from(duplicate);
        }
        self.ecn.mark(&mut repr, false);
        repr
    }

    /// A RST of this side's own, with the timestamps of every other segment (RFC 7323 3.2).
    pub(super) fn reset(&self, now: Instant) -> SegmentRepr {
        let stamped = self.durable.has(durable::TIMESTAMPS);
        let timestamps = stamped.then(|| self.timestamps(now, true));
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

    /// The window field of a SYN, which is never scaled (RFC 7323 2.2): whole segments, as Linux.
    pub(super) fn syn_window(&self) -> u16 {
        let room = self.recv.free().min(0xffff);
        let options = if self.durable.has(durable::TIMESTAMPS) { TIMESTAMPS_LEN } else { 0 };
        let mss = usize::from(self.durable.rcv_mss.saturating_sub(options)).max(1);
        let whole = if room > mss { room - room % mss } else { room };
        whole.min(self.window_clamp()) as u16
    }

    /// Wishes for an ACK if the application has made so much room that the peer should know at
    /// once: a step of two segments or half the buffer, that doubles what the peer may send. (Less
    /// than that, and every ACK of a quick reader would be followed by a second one.)
    pub(super) fn offer_window(&mut self) {
        if !self.state().receives() {
            return;
        }
        // As Linux: the window of a SYN cannot say more than 64 KiB, and who has sent nothing else
        // will say so with what it sends next.
        let only_syn = self.meter.segs_out <= 1;
        let left = self.durable.window_left() as usize;
        let wanted = self.offerable();
        if !only_syn && wanted >= left + self.window_step(2) && wanted >= 2 * left {
            self.wish(|wishes| wishes.ack = true);
        }
    }

    /// The largest window that could be offered now, a multiple of the scale's unit.
    fn offerable(&self) -> usize {
        let scale = self.durable.rcv_scale;
        let room = self.capacity().saturating_sub(self.recv.unconsumed()).min(self.widest());
        (room >> scale).min(0xffff) << scale
    }

    /// Bound of the window that does not depend on what is in the buffer, bytes.
    fn widest(&self) -> usize {
        self.window_clamp().min(self.tuner.kept.threshold as usize)
    }

    /// The application's bound of the window, bytes.
    pub(super) fn window_clamp(&self) -> usize {
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
        (segments * mss).min(self.capacity().min(self.widest()) / 2).max(1)
    }
}
