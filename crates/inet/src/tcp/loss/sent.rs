//! The segments that were sent and are not acknowledged.
//!
//! One entry is a segment of at most one MSS; a super-segment is several entries. Entries are
//! sorted by sequence number, so binary search finds a place. The counts are Linux's:
//!
//! * *packets out* is the length of the queue.
//! * *sacked out* are the segments that the peer has selectively acknowledged.
//! * *lost out* are the segments held to be lost.
//! * *retrans out* are the segments that were retransmitted and are held to be on their way.
//!
//! RACK asks for segments in the order of their last transmission. So a list is threaded through
//! the entries that may be on their way, oldest transmission first. A transmitted segment goes to
//! its end; a sacked or lost segment leaves it. Links are numbers that count from the first entry
//! ever, because places in the queue move.
//!
//! The peer's window divided by the segments' size bounds the memory. The queue gives it back when
//! everything is acknowledged: an idle connection has room for four entries at most.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::Instant;
use crate::tcp::send_queue::WriteMarks;
use crate::tcp::seq::Seq;

/// Number of entries whose memory an empty queue retains, so that a dialogue does not allocate each
/// time.
const RETAINED: usize = 4;

/// No link.
const NONE: u32 = u32::MAX;

/// The peer has it (RFC 2018).
const SACKED: u8 = 1;
/// Held to be lost.
const LOST: u8 = 1 << 1;
/// Retransmitted, and that transmission is not held to be lost.
const RETRANSMITTED: u8 = 1 << 2;
/// Was retransmitted at some time.
const EVER_RETRANSMITTED: u8 = 1 << 3;
/// An ACK may answer more than one transmission.
const AMBIGUOUS: u8 = 1 << 4;
/// Its last byte is pushed (RFC 9293 3.9.1.2), whenever it is sent.
const PUSH: u8 = 1 << 5;
/// A record ends with it: a retransmission ends there too.
const RECORD: u8 = 1 << 6;
/// A super-segment ended with it. As in Linux, a retransmission does not cross that position.
const BURST: u8 = 1 << 7;

/// The history of a segment since it left for the first time.
const HISTORY: u8 = SACKED | LOST | RETRANSMITTED | EVER_RETRANSMITTED | AMBIGUOUS;

/// The counts at the time when a segment left, for the sample of the delivery rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::tcp) struct DeliverySnapshot {
    /// Segments delivered until then, and when the last of them was.
    pub(in crate::tcp) delivered: u64,
    pub(in crate::tcp) delivered_at: Instant,
    /// When the segment of that delivery was sent.
    pub(in crate::tcp) first_sent: Instant,
}

/// A segment sent.
#[derive(Debug, Clone, Copy)]
pub(in crate::tcp) struct SentSegment {
    pub(in crate::tcp) start: Seq,
    /// One past its last number. A FIN takes one number.
    pub(in crate::tcp) end: Seq,
    /// Last transmission.
    pub(in crate::tcp) at: Instant,
    pub(in crate::tcp) snapshot: DeliverySnapshot,
    earlier: u32,
    later: u32,
    flags: u8,
}

impl SentSegment {
    #[inline]
    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    #[inline]
    pub(in crate::tcp) fn sacked(&self) -> bool {
        self.has(SACKED)
    }

    #[inline]
    pub(in crate::tcp) fn lost(&self) -> bool {
        self.has(LOST)
    }

    /// A retransmission of it is on its way.
    #[inline]
    pub(in crate::tcp) fn retransmitted(&self) -> bool {
        self.has(RETRANSMITTED)
    }

    #[inline]
    pub(in crate::tcp) fn ever_retransmitted(&self) -> bool {
        self.has(EVER_RETRANSMITTED)
    }

    /// Karn's rule: its acknowledgement gives no round-trip time.
    #[inline]
    pub(in crate::tcp) fn ambiguous(&self) -> bool {
        self.has(AMBIGUOUS)
    }

    /// The marks at its end.
    #[inline]
    pub(in crate::tcp) fn marks(&self) -> WriteMarks {
        WriteMarks { push: self.has(PUSH), record: self.has(RECORD), burst: self.has(BURST) }
    }

    /// A retransmission does not go on behind it.
    #[inline]
    pub(in crate::tcp) fn ends_burst(&self) -> bool {
        self.has(RECORD | BURST)
    }

    /// Lost, and not yet retransmitted.
    #[inline]
    pub(in crate::tcp) fn awaits_retransmission(&self) -> bool {
        self.flags & (LOST | RETRANSMITTED | SACKED) == LOST
    }

    /// May be on its way: in the list.
    #[inline]
    fn listed(&self) -> bool {
        !self.sacked() && !self.awaits_retransmission()
    }

    /// Whether a segment that ends at `end` and was sent at `at` was sent after this one (RFC 8985
    /// 6.2).
    #[inline]
    pub(in crate::tcp) fn sent_before(&self, at: Instant, end: Seq) -> bool {
        self.at < at || (self.at == at && self.end.before(end))
    }
}

/// Segments that left the queue together. They were sent in one go, for the first time, and nothing
/// was reported about them since. Or a single segment, whatever its history.
#[derive(Debug, Clone, Copy)]
pub(in crate::tcp) struct AckedSegments {
    pub(in crate::tcp) first: SentSegment,
    /// The last one's end.
    pub(in crate::tcp) last: Seq,
    pub(in crate::tcp) count: u32,
}

/// The queue.
#[derive(Debug, Default)]
pub(in crate::tcp) struct SentQueue {
    segments: VecDeque<SentSegment>,
    /// Number of the first entry.
    first: u32,
    oldest: u32,
    newest: u32,
    /// No entry before this number is
    /// [`awaits_retransmission`](SentSegment::awaits_retransmission).
    hint: u32,
    sacked_out: u32,
    lost_out: u32,
    retrans_out: u32,
    /// How many are [`awaits_retransmission`](SentSegment::awaits_retransmission).
    awaiting_out: u32,
}

impl SentQueue {
    pub(in crate::tcp) fn new() -> Self {
        Self { oldest: NONE, newest: NONE, ..Self::default() }
    }

    #[inline]
    pub(in crate::tcp) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Segments sent and not cumulatively acknowledged.
    #[inline]
    pub(in crate::tcp) fn packets_out(&self) -> u32 {
        self.segments.len() as u32
    }

    /// Segments that the peer has, though it has not acknowledged them.
    #[inline]
    pub(in crate::tcp) fn sacked_out(&self) -> u32 {
        self.sacked_out
    }

    /// Without SACK: so many are guessed to have left the network.
    pub(super) fn guess_sacked(&mut self, segments: u32) {
        self.sacked_out = segments;
    }

    #[inline]
    pub(in crate::tcp) fn lost_out(&self) -> u32 {
        self.lost_out
    }

    #[inline]
    pub(in crate::tcp) fn retrans_out(&self) -> u32 {
        self.retrans_out
    }

    /// Segments that are known or believed to have left the network.
    #[inline]
    pub(in crate::tcp) fn left_out(&self) -> u32 {
        self.sacked_out + self.lost_out
    }

    /// RFC 6675's pipe, in segments.
    #[inline]
    pub(in crate::tcp) fn in_flight(&self) -> u32 {
        (self.packets_out() + self.retrans_out).saturating_sub(self.left_out())
    }

    #[inline]
    pub(in crate::tcp) fn get(&self, index: usize) -> Option<&SentSegment> {
        self.segments.get(index)
    }

    #[inline]
    pub(in crate::tcp) fn head(&self) -> Option<&SentSegment> {
        self.segments.front()
    }

    #[cfg(test)]
    pub(in crate::tcp) fn iter(&self) -> impl Iterator<Item = &SentSegment> {
        self.segments.iter()
    }

    /// Index of the last segment that the peer has not reported.
    pub(in crate::tcp) fn last_missing(&self) -> Option<usize> {
        self.segments.iter().rposition(|segment| !segment.sacked())
    }

    /// Index of the first segment that ends after `seq`.
    pub(in crate::tcp) fn find(&self, seq: Seq) -> usize {
        self.segments.partition_point(|segment| segment.end.at_or_before(seq))
    }

    /// Adds `len` bytes from `start` on, and a FIN if `fin`, sent for the first time in segments of
    /// `mss` bytes. The last segment has `marks`. Gives the number of segments.
    pub(in crate::tcp) fn push(
        &mut self,
        (start, len, fin): (Seq, u32, bool),
        mss: u32,
        (at, snapshot): (Instant, DeliverySnapshot),
        marks: WriteMarks,
    ) -> u32 {
        let mark = |is: bool, flag: u8| if is { flag } else { 0 };
        let flags = mark(marks.push, PUSH) | mark(marks.record, RECORD) | mark(marks.burst, BURST);
        // A lone FIN is one, too; behind payload it comes with the last of it.
        let count = len.div_ceil(mss).max(u32::from(fin));
        if count == 0 {
            return 0;
        }
        let end = start + len + u32::from(fin);
        let (number, before) = (self.number(self.segments.len()), self.newest);
        let newest = number.wrapping_add(count - 1);
        let mut last =
            SentSegment { start, end, at, snapshot, earlier: before, later: NONE, flags };
        if count > 1 {
            let room = self.segments.capacity() - self.segments.len();
            if room < count as usize {
                // A window seldom is a single super-segment.
                self.segments.reserve(2 * count as usize);
            }
            // The first one is linked to those before, the last one ends the list. In between,
            // each differs from its neighbour by one segment.
            let inner = |n: u32| SentSegment {
                start: start + n * mss,
                end: start + (n + 1) * mss,
                at,
                snapshot,
                earlier: number.wrapping_add(n).wrapping_sub(1),
                later: number.wrapping_add(n + 1),
                flags: 0,
            };
            self.segments.push_back(SentSegment { earlier: before, ..inner(0) });
            self.segments.extend((1..count - 1).map(inner));
            last = SentSegment { end, later: NONE, flags, ..inner(count - 1) };
        }
        self.segments.push_back(last);
        match before {
            NONE => self.oldest = number,
            _ => {
                if let Some(before) = self.by_number(before) {
                    before.later = number;
                }
            }
        }
        self.newest = newest;
        count
    }

    /// Removes the first segment if `una` has passed it, together with the segments behind it that
    /// differ only in position. Otherwise trims the part that `una` has passed.
    pub(in crate::tcp) fn pop_acked(&mut self, una: Seq) -> Option<AckedSegments> {
        let head = self.segments.front_mut()?;
        if head.end.after(una) {
            head.start = head.start.max(una);
            return None;
        }
        let first = *head;
        let (mut last, mut count) = (head.end, 1);
        let mut later = head.later;
        if first.flags & HISTORY == 0 {
            for next in self.segments.iter().skip(1) {
                let same = next.flags & HISTORY == 0
                    && later == self.first.wrapping_add(count)
                    && next.at == first.at
                    && next.snapshot == first.snapshot;
                if !same || next.end.after(una) {
                    break;
                }
                (last, later) = (next.end, next.later);
                count += 1;
            }
        }
        if first.listed() {
            self.join(first.earlier, later);
        }
        match count {
            1 => drop(self.segments.pop_front()),
            _ => drop(self.segments.drain(..count as usize)),
        }
        // Only one that is alone has a history.
        self.recount(first.flags, 0);
        self.first = self.first.wrapping_add(count);
        if (self.hint.wrapping_sub(self.first)).cast_signed() < 0 {
            self.hint = self.first;
        }
        if self.segments.is_empty() {
            self.restart();
        } else if self.first > NONE / 2 {
            // Long before a number could pass for no link.
            self.relink();
        }
        Some(AckedSegments { first, last, count })
    }

    /// The queue is empty: its links are reset, and memory is released.
    fn restart(&mut self) {
        self.first = 0;
        self.hint = 0;
        (self.oldest, self.newest) = (NONE, NONE);
        if self.segments.capacity() > RETAINED {
            self.segments = VecDeque::new();
        }
    }

    /// Updates the counts: a segment with the flags `old` now has `new`.
    fn recount(&mut self, old: u8, new: u8) {
        let change = |count: &mut u32, is: fn(u8) -> bool| {
            *count = (*count + u32::from(is(new))).saturating_sub(u32::from(is(old)));
        };
        change(&mut self.sacked_out, |flags| flags & SACKED != 0);
        change(&mut self.lost_out, |flags| flags & LOST != 0);
        change(&mut self.retrans_out, |flags| flags & RETRANSMITTED != 0);
        change(&mut self.awaiting_out, |flags| flags & (LOST | RETRANSMITTED | SACKED) == LOST);
    }

    /// Drops all.
    pub(in crate::tcp) fn clear(&mut self) {
        self.segments = VecDeque::new();
        self.restart();
        (self.sacked_out, self.lost_out, self.retrans_out, self.awaiting_out) = (0, 0, 0, 0);
    }

    /// The peer has the segment. A retransmission of a segment that is marked lost does not count
    /// as in flight any more. One of a segment that is not is believed to be in flight (RFC 6675
    /// 4's pipe counts it).
    pub(in crate::tcp) fn sack(&mut self, index: usize) {
        let Some(segment) = self.segments.get(index).copied().filter(|s| !s.sacked()) else {
            return;
        };
        if segment.listed() {
            self.unlink(self.number(index));
        }
        let mut flags = segment.flags | SACKED;
        if segment.lost() {
            flags &= !(LOST | RETRANSMITTED);
        }
        self.set_flags(index, flags);
    }

    /// A duplicate of the segment arrived: no retransmission of it is on its way (RFC 2883 4).
    pub(in crate::tcp) fn retransmission_arrived(&mut self, index: usize) {
        let Some(segment) = self.segments.get(index).copied().filter(SentSegment::retransmitted)
        else {
            return;
        };
        // Lost and retransmitted: it would be retransmitted once more, though it has arrived.
        if segment.lost() {
            return;
        }
        self.set_flags(index, segment.flags & !RETRANSMITTED);
    }

    /// Holds the segment to be lost, or its retransmission to be. Whether that is new.
    pub(in crate::tcp) fn mark_lost(&mut self, index: usize) -> bool {
        let Some(segment) = self.segments.get(index).copied() else { return false };
        if segment.sacked() || segment.awaits_retransmission() {
            return false;
        }
        self.unlink(self.number(index));
        self.set_flags(index, (segment.flags | LOST) & !RETRANSMITTED);
        let number = self.number(index);
        if number.wrapping_sub(self.first) < self.hint.wrapping_sub(self.first) {
            self.hint = number;
        }
        true
    }

    /// Index of the first segment to be retransmitted.
    pub(in crate::tcp) fn next_to_retransmit(&mut self) -> Option<usize> {
        if self.awaiting_out == 0 {
            return None;
        }
        let from = self.hint.wrapping_sub(self.first) as usize;
        let ahead = self.segments.range(from.min(self.segments.len())..);
        let found = ahead.take_while(|segment| !segment.awaits_retransmission()).count() + from;
        self.hint = self.number(found);
        (found < self.segments.len()).then_some(found)
    }

    /// The segment is retransmitted now: if it is lost, that counts as a retransmission, else it is
    /// a probe. `unambiguous` if an ACK cannot answer an earlier transmission.
    pub(in crate::tcp) fn retransmit(
        &mut self,
        index: usize,
        at: Instant,
        with: DeliverySnapshot,
        unambiguous: bool,
    ) {
        let number = self.number(index);
        let Some(segment) = self.segments.get(index).copied().filter(|s| !s.sacked()) else {
            return;
        };
        if segment.listed() {
            self.unlink(number);
        }
        let flag = if segment.lost() { RETRANSMITTED } else { 0 };
        let flags = segment.flags | flag | EVER_RETRANSMITTED;
        self.set_flags(index, if unambiguous { flags & !AMBIGUOUS } else { flags | AMBIGUOUS });
        if let Some(segment) = self.segments.get_mut(index) {
            segment.at = at;
            segment.snapshot = with;
        }
        self.link(number);
    }

    /// Splits the segment, the first part with `len` bytes: the path takes smaller segments now.
    pub(in crate::tcp) fn split(&mut self, index: usize, len: u32) {
        let Some(segment) = self.segments.get_mut(index) else { return };
        let boundary = segment.start + len;
        if len == 0 || boundary.at_or_after(segment.end) {
            return;
        }
        let mut rest = *segment;
        segment.end = boundary;
        segment.flags &= !(PUSH | RECORD | BURST);
        rest.start = boundary;
        self.segments.insert(index + 1, rest);
        self.recount(0, rest.flags);
        self.relink();
    }

    /// How many segments from `index` on end at or before `end`.
    pub(in crate::tcp) fn covered(&self, index: usize, end: Seq) -> usize {
        let ahead = self.segments.range(index.min(self.segments.len())..);
        ahead.take_while(|segment| segment.end.at_or_before(end)).count()
    }

    /// Nothing is held to be lost any more.
    pub(in crate::tcp) fn unmark_lost(&mut self) {
        if self.lost_out == 0 {
            return;
        }
        for segment in &mut self.segments {
            segment.flags &= !LOST;
        }
        (self.lost_out, self.awaiting_out) = (0, 0);
        self.relink();
    }

    /// The peer has reneged (RFC 2018 8): it may have dropped sacked data.
    pub(in crate::tcp) fn unmark_sacked(&mut self) {
        for index in 0..self.segments.len() {
            let flags = self.segments.get(index).map_or(0, |segment| segment.flags & !SACKED);
            self.set_flags(index, flags);
        }
        self.relink();
    }

    /// Index of the oldest transmission that may be in flight, and of the one after `index`.
    pub(in crate::tcp) fn oldest(&self) -> Option<usize> {
        self.index_of(self.oldest)
    }

    pub(in crate::tcp) fn after(&self, index: usize) -> Option<usize> {
        self.index_of(self.segments.get(index)?.later)
    }

    fn index_of(&self, number: u32) -> Option<usize> {
        (number != NONE).then(|| self.index(number))
    }

    fn number(&self, index: usize) -> u32 {
        self.first.wrapping_add(index as u32)
    }

    fn index(&self, number: u32) -> usize {
        number.wrapping_sub(self.first) as usize
    }

    fn set_flags(&mut self, index: usize, flags: u8) {
        if let Some(segment) = self.segments.get_mut(index) {
            let old = core::mem::replace(&mut segment.flags, flags);
            self.recount(old, flags);
        }
    }

    fn by_number(&mut self, number: u32) -> Option<&mut SentSegment> {
        let index = self.index(number);
        self.segments.get_mut(index)
    }

    /// Puts an entry at the list's end.
    fn link(&mut self, number: u32) {
        let newest = self.newest;
        if let Some(segment) = self.by_number(number) {
            (segment.earlier, segment.later) = (newest, NONE);
        }
        match newest {
            NONE => self.oldest = number,
            _ => {
                if let Some(before) = self.by_number(newest) {
                    before.later = number;
                }
            }
        }
        self.newest = number;
    }

    /// Removes an entry from the list, which must hold it.
    fn unlink(&mut self, number: u32) {
        let Some(segment) = self.by_number(number) else { return };
        let (earlier, later) = (segment.earlier, segment.later);
        (segment.earlier, segment.later) = (NONE, NONE);
        self.join(earlier, later);
    }

    /// Links two entries of the list, between which others were removed.
    fn join(&mut self, earlier: u32, later: u32) {
        match earlier {
            NONE => self.oldest = later,
            _ => {
                if let Some(before) = self.by_number(earlier) {
                    before.later = later;
                }
            }
        }
        match later {
            NONE => self.newest = earlier,
            _ => {
                if let Some(behind) = self.by_number(later) {
                    behind.earlier = earlier;
                }
            }
        }
    }

    /// Makes the list anew; for rare events.
    fn relink(&mut self) {
        self.first = 0;
        self.hint = 0;
        (self.oldest, self.newest) = (NONE, NONE);
        let mut listed: Vec<usize> = Vec::new();
        for (index, segment) in self.segments.iter_mut().enumerate() {
            (segment.earlier, segment.later) = (NONE, NONE);
            if segment.listed() {
                listed.push(index);
            }
        }
        // Stable: of one moment, the order is the sequence's.
        listed.sort_by_key(|index| self.segments.get(*index).map(|segment| segment.at));
        for index in listed {
            self.link(index as u32);
        }
    }
}

#[cfg(test)]
mod tests;
