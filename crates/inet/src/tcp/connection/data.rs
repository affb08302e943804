//! The choice of data to be sent, and its accounting.

use core::time::Duration;

use super::Connection;
use super::mtu::NextMtuProbe;
use crate::tcp::congestion::FlightReport;
use crate::tcp::durable;
use crate::tcp::loss::{CaState, RetransmitPolicy, SentSegment};
use crate::tcp::sack_blocks::SackBlocks;
use crate::tcp::segment::SegmentRepr;
use crate::tcp::send_queue::{QueueRange, WriteMarks};
use crate::tcp::seq::Seq;
use crate::tcp::super_segments::BurstLimits;
use crate::tcp::timers::TcpTimer;
use crate::tcp::timestamps;
use crate::{Instant, RxBytes, TxBytes};

/// How long `cork` holds back small data, as Linux.
const CORK_TIME: Duration = Duration::from_millis(200);

/// Why data is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transmission {
    /// Never sent before.
    New,
    /// Never sent before; sent as a tail loss probe.
    NewTailProbe,
    /// Marked lost.
    Lost,
    /// The last segment again, as a tail loss probe.
    TailProbe,
}

/// Data to be sent.
pub(super) struct OutgoingData {
    seq: Seq,
    range: QueueRange,
    fin: bool,
    kind: Transmission,
    /// The sent segments that these are, if they are retransmitted.
    index: usize,
    count: usize,
    /// No earlier transmission of them can be acknowledged any more.
    unambiguous: bool,
    /// It probes the path's MTU.
    mtu_probe: bool,
}

impl OutgoingData {
    /// Where it is in the queue.
    pub(super) fn range(&self) -> &QueueRange {
        &self.range
    }

    fn new(seq: Seq, range: QueueRange, fin: bool) -> Self {
        Self {
            seq,
            range,
            fin,
            kind: Transmission::New,
            index: 0,
            count: 0,
            unambiguous: false,
            mtu_probe: false,
        }
    }
}

impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// Data, or a FIN, if any may leave now.
    pub(super) fn next_data(&mut self, now: Instant) -> Option<OutgoingData> {
        if !self.state().sends() {
            return None;
        }
        if self.pending.wants_tail_probe() {
            return self.tail_probe(now);
        }
        let policy = self.loss.retransmit_policy();
        if policy == RetransmitPolicy::Lost
            && let Some(data) = self.lost_data(now)
        {
            return Some(data);
        }
        let data = self.new_data(now);
        if data.is_some() || policy != RetransmitPolicy::NewFirst {
            return data;
        }
        // RFC 5682 2.1 step 2b: there is nothing new, so it is the usual way after a timeout.
        self.loss.give_up_frto();
        self.lost_data(now)
    }

    /// Payload of a full segment now: SACK blocks come out of it, as every option (RFC 9293
    /// 3.7.1).
    fn payload_mss(&self) -> usize {
        let blocks = if self.durable.has(durable::SACK) {
            self.recv.sack_report_len(self.most_blocks(), self.config.dsack)
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

    /// Data that was never sent, as far as both windows permit.
    fn new_data(&mut self, now: Instant) -> Option<OutgoingData> {
        let unsent = self.send.unsent();
        let seq = self.durable.snd_max;
        let fin_unsent = self.fin_seq().is_some_and(|fin| seq.at_or_before(fin));
        if unsent == 0 && !fin_unsent {
            return None;
        }
        match self.next_mtu_probe(now) {
            NextMtuProbe::Now(range) => {
                return Some(OutgoingData {
                    mtu_probe: true,
                    ..OutgoingData::new(seq, range, false)
                });
            }
            NextMtuProbe::Wait => {
                self.report_flight(now, true);
                return None;
            }
            NextMtuProbe::No => {}
        }
        let mss = self.payload_mss();
        let usable = self.durable.send_edge().since(seq) as usize;
        let room = self.congestion.room(self.loss.sent().in_flight());
        let most = self.burst_segments(room) * mss;
        let range = self.send.at_next(most.min(usable));
        let len = range.len();
        let fin = fin_unsent && len == unsent && usable > len;
        if len == 0 && !fin {
            self.start_persist(now);
            return None;
        }
        // A lone FIN has no bytes that the window could count (RFC 5681 2, cwnd).
        if room == 0 && len > 0 {
            self.report_flight(now, true);
            return None;
        }
        // A record's end that is not the queue's is like a full segment: nothing could be added.
        let record = range.marks().record && len < unsent;
        let full = len >= mss || range.is_full_of_pieces() || record;
        if !full && !self.may_send_small(len, unsent) {
            self.start_persist(now);
            return None;
        }
        if self.loss.sent().is_empty() {
            // The window may have decayed.
            self.start_after_idle(now);
            let most = self.burst_segments(self.congestion.cwnd()) * mss;
            if len > most {
                return Some(OutgoingData::new(seq, range.truncated(most), false));
            }
        }
        // The end of a super-segment that is no full one: only if it might leave on its own.
        let odd = len % mss;
        if len > mss
            && odd > 0
            && !record
            && (range.is_full_of_pieces() || !self.may_send_small(odd, unsent - len + odd))
        {
            return Some(OutgoingData::new(seq, range.truncated(len - odd), false));
        }
        Some(OutgoingData::new(seq, range, fin))
    }

    /// Lost segments, as far as the congestion window permits: contiguous ones together.
    fn lost_data(&mut self, now: Instant) -> Option<OutgoingData> {
        let room = self.congestion.room(self.loss.sent().in_flight());
        let index = self.loss.next_to_retransmit()?;
        if room == 0 {
            return None;
        }
        self.retransmission(now, index, self.burst_segments(room), Transmission::Lost)
    }

    /// A tail loss probe (RFC 8985 7.3). It takes new data if there is some and the peer's window
    /// admits it, whatever the congestion window; else the last segment again.
    fn tail_probe(&mut self, now: Instant) -> Option<OutgoingData> {
        self.pending.tail_probe_done();
        let seq = self.durable.snd_max;
        let usable = self.durable.send_edge().since(seq) as usize;
        let range = self.send.at_next(self.payload_mss().min(usable));
        if range.len() > 0 {
            let fin = self.fin_seq() == Some(seq + range.len() as u32) && usable > range.len();
            return Some(OutgoingData {
                kind: Transmission::NewTailProbe,
                ..OutgoingData::new(seq, range, fin)
            });
        }
        let last = self.loss.sent().last_missing();
        let data = last.and_then(|last| self.retransmission(now, last, 1, Transmission::TailProbe));
        if data.is_none() {
            self.resume_retransmit(now);
        }
        data
    }

    /// Up to `most` segments from the one at `index` on, again.
    fn retransmission(
        &mut self,
        now: Instant,
        index: usize,
        most: usize,
        kind: Transmission,
    ) -> Option<OutgoingData> {
        let mss = self.payload_mss();
        let first = *self.loss.sent().get(index)?;
        let edge = self.durable.send_edge();
        if first.end.after(edge) && index > 0 {
            // The peer has shrunk its window: only the head is sent, as a window probe.
            return None;
        }
        let fin = self.fin_seq().filter(|fin| fin.before(self.durable.snd_max));
        let payload_end = |end: Seq| fin.map_or(end, |fin| end.min(fin));
        if payload_end(first.end).since(first.start) as usize > mss {
            // The path takes smaller segments now.
            self.loss.split(index, mss as u32);
        }
        let mut end = self.loss.sent().get(index)?.end;
        let mut count = 1;
        while count < most
            && let Some(next) = self.loss.sent().get(index + count)
            && next.awaits_retransmission()
            && !self.loss.sent().get(index + count - 1).is_some_and(SentSegment::ends_burst)
            && !next.end.after(edge)
            && next.end.since(first.start) as usize <= most * mss
        {
            end = next.end;
            count += 1;
        }
        let offset = self.offset_of(first.start);
        let len = payload_end(end).since(first.start) as usize;
        let mut range = self.send.at(offset, len);
        if range.len() < len {
            // Too many pieces for one frame.
            count = self.loss.sent().covered(index, first.start + range.len() as u32).max(1);
            end = self.loss.sent().get(index + count - 1)?.end;
            let wanted = payload_end(end).since(first.start) as usize;
            if wanted > range.len() {
                self.loss.split(index, range.len() as u32);
                end = first.start + range.len() as u32;
            }
            range = range.truncated(wanted);
        }
        let fin = fin.is_some_and(|fin| fin.before(end));
        let unambiguous = self.rtt.is_unambiguous(now - first.at);
        Some(OutgoingData {
            seq: first.start,
            range,
            fin,
            kind,
            index,
            count,
            unambiguous,
            mtu_probe: false,
        })
    }

    /// The offset of `seq` in the stream.
    fn offset_of(&self, seq: Seq) -> u64 {
        let acked = self.durable.acked;
        let base = self.durable.iss + 1 + acked as u32;
        acked.saturating_add_signed(i64::from(seq.offset_from(base)))
    }

    /// Whether `len` bytes, less than a full segment, may leave: RFC 9293 3.7.4 (Nagle) and
    /// 3.8.6.2.1 (silly window).
    fn may_send_small(&self, len: usize, unsent: usize) -> bool {
        if self.pending.wants_small() || self.urgent.is_sending() {
            return true;
        }
        if len < unsent {
            // The peer's window makes it small.
            return len >= (self.peer_window.max() / 2) as usize;
        }
        if self.durable.has(durable::WRITE_SHUT) {
            return true;
        }
        self.nagle.permits(self.durable.snd_una)
    }

    /// Data waits, and nothing may leave. If no data is in flight whose ACK would change that, a
    /// timer must.
    fn start_persist(&mut self, now: Instant) {
        let idle = self.loss.sent().is_empty() && !self.timers.is_sending();
        if !idle || self.timers.is_set(TcpTimer::Persist) {
            return;
        }
        let open = self.durable.send_edge().after(self.durable.snd_max);
        let time = if open && self.nagle.is_corked() {
            CORK_TIME
        } else {
            self.rtt.backed_off(self.attempts.window_probes())
        };
        if self.attempts.window_probes() == 0 {
            self.progress.restart(now);
        }
        self.timers.set(TcpTimer::Persist, now + time);
    }

    /// Counts `data` as sent and makes its header; and the payload of the segments that it is to
    /// leave in, bytes.
    pub(super) fn data_segment(
        &mut self,
        now: Instant,
        data: &OutgoingData,
    ) -> (SegmentRepr, usize) {
        let fresh = matches!(data.kind, Transmission::New | Transmission::NewTailProbe);
        let psh = data.range.len() > 0 && self.pushes(data, fresh);
        let mss = if data.mtu_probe { data.range.len() } else { self.payload_mss() };
        self.counters.sent(data.range.len(), mss, !fresh);
        if fresh {
            self.count_new(now, data, mss, psh);
        } else {
            self.count_retransmitted(now, data);
        }
        self.progress.sent(now);
        if matches!(data.kind, Transmission::TailProbe | Transmission::NewTailProbe) {
            let (loss, mut context) = self.loss_context(now);
            loss.on_probe(&mut context, !fresh);
            self.start_retransmit(now);
        }
        self.report_flight(now, self.loss.sent().in_flight() >= self.congestion.cwnd());
        // A super-segment always, so that its receiver does not wait (as Linux).
        let long = data.range.len() > mss;
        let mut repr = SegmentRepr {
            fin: data.fin,
            psh: psh || long,
            ..self.acknowledgement(now, data.seq, data.range.len().min(mss))
        };
        self.ecn.mark(&mut repr, fresh && data.range.len() > 0);
        (repr, mss)
    }

    /// Whether the end of `data` is pushed.
    fn pushes(&mut self, data: &OutgoingData, fresh: bool) -> bool {
        let marks = if fresh {
            data.range.marks()
        } else {
            let last = data.index + data.count.saturating_sub(1);
            self.loss.sent().get(last).map(SentSegment::marks).unwrap_or_default()
        };
        let urged = fresh && self.pending.take_push();
        marks.push || urged
    }

    fn count_new(&mut self, now: Instant, data: &OutgoingData, mss: usize, push: bool) {
        let OutgoingData { seq, range, fin, .. } = *data;
        let first = self.loss.sent().is_empty();
        if first {
            self.progress.restart(now);
        }
        let len = range.len() as u32;
        self.send.advance(&range);
        self.durable.snd_max = seq + len + u32::from(fin);
        if range.len() % mss != 0 || range.len() == 0 {
            self.nagle.small_sent(self.durable.snd_max);
        }
        let marks = WriteMarks { push, record: range.marks().record, burst: true };
        self.loss.on_sent(now, (seq, len, fin), mss as u32, marks);
        if data.mtu_probe {
            self.mtu_probe_sent(seq, seq + len);
        }
        self.pending.data_sent();
        self.timers.clear(TcpTimer::Persist);
        self.time_new_data(now, first);
    }

    fn count_retransmitted(&mut self, now: Instant, data: &OutgoingData) {
        self.forget_mtu_probe();
        let count = data.count as u64;
        self.stats.retransmits += count;
        let lost = if data.kind == Transmission::Lost { count } else { 0 };
        match self.loss.state() {
            CaState::Loss => self.stats.timeout_retransmits += lost,
            _ => self.stats.fast_retransmits += lost,
        }
        let stamp = timestamps::own_clock(&self.durable, now);
        for index in data.index..data.index + data.count {
            self.loss.on_retransmitted(now, index, stamp, data.unambiguous);
        }
        // RFC 6298 5.1 as RFC 6675 and Linux read it: the head's retransmission gets its own time.
        if data.index == 0
            && data.kind == Transmission::Lost
            && !self.timers.is_set(TcpTimer::Reordering)
        {
            self.start_retransmit(now);
        }
    }

    /// Segments that may leave in one go, with room for `room` in the congestion window.
    #[inline]
    fn burst_segments(&self, room: u32) -> usize {
        self.super_segments.segments(&BurstLimits {
            room,
            mss: self.send_mss(),
            peer_window: self.peer_window.max(),
            packets_out: self.loss.sent().packets_out(),
            congestion: &self.congestion,
            rtt: &self.rtt,
            config: &self.config,
        })
    }

    /// The first segment leaves after nothing was in flight.
    fn start_after_idle(&mut self, now: Instant) {
        let idle = now - self.progress.sent_at();
        let decays = self.config.slow_start_after_idle;
        self.congestion.start_after_idle(now, idle, self.rtt.timeout(), decays);
    }

    /// Something was sent, or the congestion window did not let it; `limited` if it ended the
    /// burst.
    fn report_flight(&mut self, now: Instant, limited: bool) {
        let open = self.loss.state() == CaState::Open;
        let waits = self.counters.writer_waits();
        let decays = self.config.slow_start_after_idle && open && !waits;
        self.congestion.on_flight(&FlightReport {
            now,
            una: self.durable.snd_una,
            nxt: self.durable.snd_max,
            packets_out: self.loss.sent().packets_out(),
            limited,
            decay_after: decays.then(|| self.rtt.timeout()),
        });
    }
}
