//! The receive queue: bytes in order, which wait for the application, and pieces out of order.
//!
//! A piece in order goes straight to the ready queue. A piece out of order waits in a bounded
//! queue, sorted by sequence number. Its pieces do not overlap. A piece that is there already
//! stays; a new one is trimmed to the first gap that it touches, because a piece is one frame's and
//! cannot be split. The peer retransmits the bytes that this loses. A full queue refuses new
//! pieces, because a SACK block is a promise.
//!
//! Received bytes count against the buffer until the application has consumed them.

use alloc::collections::VecDeque;

mod sack_report;

use sack_report::SackReport;

use super::sack_blocks::{SackBlock, SackBlocks};
use super::seq::Seq;
use crate::bytes::{RxBytes, RxPiece};
use crate::held::{OutOfOrderToken, OutOfOrderUse};

/// Least receive buffer, bytes.
const MIN_BUFFER: usize = 2048;

/// The segment size supposed before one has been seen (RFC 9293 MUST-15).
const MIN_SEGMENT: usize = 536;

/// The position of a segment's payload in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PayloadArrival {
    /// It came next, and no gap follows it.
    InOrder,
    /// It filled a gap, completely or in part.
    Filled,
    /// It came out of order and is queued.
    OutOfOrder,
    /// Nothing of it was new, or there was no room for it.
    Useless,
}

#[derive(Debug)]
struct OutOfOrderPiece<R> {
    seq: Seq,
    piece: RxPiece<R>,
    _token: Option<OutOfOrderToken>,
}

impl<R> OutOfOrderPiece<R> {
    fn end(&self) -> Seq {
        self.seq + self.piece.range.len() as u32
    }
}

#[derive(Debug)]
pub(super) struct ReceiveQueue<R> {
    ready: VecDeque<RxPiece<R>>,
    ready_len: usize,
    /// Bytes in order that the application has not consumed.
    unconsumed: usize,
    out_of_order: VecDeque<OutOfOrderPiece<R>>,
    out_of_order_limit: usize,
    /// Where the pieces out of order count, apart from here.
    of_owner: Option<OutOfOrderUse>,
    report: SackReport,
    /// The FIN's sequence number, if known.
    fin: Option<Seq>,
    buffer: usize,
    /// Largest segment seen.
    segment: usize,
}

impl<R> ReceiveQueue<R> {
    pub(super) fn new(buffer: usize, out_of_order_limit: usize) -> Self {
        Self {
            ready: VecDeque::new(),
            ready_len: 0,
            unconsumed: 0,
            out_of_order: VecDeque::new(),
            out_of_order_limit,
            of_owner: None,
            report: SackReport::default(),
            fin: None,
            buffer: buffer.max(MIN_BUFFER),
            segment: MIN_SEGMENT,
        }
    }

    /// Whether nothing waits, for the application or for missing data.
    pub(super) fn is_idle(&self) -> bool {
        self.unconsumed == 0 && self.ready.is_empty() && self.out_of_order.is_empty()
    }

    /// The sequence number of the peer's FIN, if known.
    #[inline]
    pub(super) fn fin(&self) -> Option<Seq> {
        self.fin
    }

    /// Whether there are pieces out of order.
    pub(super) fn has_out_of_order(&self) -> bool {
        !self.out_of_order.is_empty()
    }

    /// Pieces out of order.
    pub(super) fn out_of_order_count(&self) -> usize {
        self.out_of_order.len()
    }

    /// Pieces that come out of order from now on count for an owner, too.
    pub(super) fn count_out_of_order(&mut self, of_owner: &OutOfOrderUse) {
        self.of_owner.get_or_insert_with(|| of_owner.clone());
    }

    /// From `next` to the end of the last piece out of order, bytes.
    pub(super) fn out_of_order_span(&self, next: Seq) -> u32 {
        self.out_of_order.back().map_or(0, |last| last.end().since(next))
    }

    /// Resumes with stored knowledge: the size of the peer's segments, and the number of its FIN.
    pub(super) fn resume(&mut self, segment: usize, fin: Option<Seq>) {
        (self.segment, self.fin) = (segment, fin);
    }

    pub(super) fn set_buffer(&mut self, bytes: usize) {
        self.buffer = bytes.max(MIN_BUFFER);
    }

    pub(super) fn buffer(&self) -> usize {
        self.buffer
    }

    /// Bytes for which there is room.
    pub(super) fn free(&self) -> usize {
        self.buffer.saturating_sub(self.unconsumed)
    }

    pub(super) fn ready_len(&self) -> usize {
        self.ready_len
    }

    /// Bytes that the application has consumed, of `received` in order in total.
    pub(super) fn read_of(&self, received: u64) -> u64 {
        received.saturating_sub(self.unconsumed as u64)
    }

    pub(super) fn unconsumed(&self) -> usize {
        self.unconsumed
    }

    /// Size of the peer's full segments, as far as seen.
    pub(super) fn segment(&self) -> usize {
        self.segment
    }

    pub(super) fn pop(&mut self) -> Option<RxPiece<R>> {
        let piece = self.ready.pop_front()?;
        self.ready_len -= piece.range.len();
        Some(piece)
    }

    pub(super) fn consumed(&mut self, bytes: usize) {
        self.unconsumed = self.unconsumed.saturating_sub(bytes);
    }

    /// `block` was received again, and the next ACK says so (RFC 2883).
    pub(super) fn add_duplicate(&mut self, block: SackBlock) {
        self.report.add_duplicate(block);
    }

    /// Learns the size of the peer's segments from a payload of `len` bytes. A device may have
    /// joined it from segments of `joined` bytes; 0 for a single segment.
    pub(super) fn measure(&mut self, joined: u16, len: usize) {
        let size = if joined == 0 { len } else { len.min(joined.into()) };
        self.segment = self.segment.max(size);
    }
}

impl<R: RxBytes> ReceiveQueue<R> {
    /// Queues a segment's payload that starts at `seq`. Bytes before `next`, from `edge` on, and
    /// after a known FIN are trimmed. `next` advances over the bytes that are now in order.
    pub(super) fn insert(
        &mut self,
        next: &mut Seq,
        edge: Seq,
        seq: Seq,
        mut piece: RxPiece<R>,
    ) -> PayloadArrival {
        let edge = self.fin.map_or(edge, |fin| fin.min(edge));
        if seq.before(*next) {
            let end = (seq + piece.range.len() as u32).min(*next);
            self.report.add_duplicate(SackBlock { start: seq, end });
        }
        let seq = trim(seq, &mut piece, *next, edge);
        if piece.range.is_empty() {
            return PayloadArrival::Useless;
        }
        if seq != *next {
            return self.queue_out_of_order(seq, piece);
        }
        *next += piece.range.len() as u32;
        self.ready_push(piece);
        if self.out_of_order.is_empty() {
            return PayloadArrival::InOrder;
        }
        self.join_out_of_order(next);
        PayloadArrival::Filled
    }

    fn ready_push(&mut self, piece: RxPiece<R>) {
        self.ready_len += piece.range.len();
        self.unconsumed += piece.range.len();
        self.ready.push_back(piece);
    }

    /// Moves pieces that are in order now to the ready queue.
    fn join_out_of_order(&mut self, next: &mut Seq) {
        while self.out_of_order.front().is_some_and(|piece| piece.seq.at_or_before(*next)) {
            let Some(OutOfOrderPiece { seq, mut piece, .. }) = self.out_of_order.pop_front() else {
                return;
            };
            if seq.before(*next) {
                let end = (seq + piece.range.len() as u32).min(*next);
                self.report.add_duplicate(SackBlock { start: seq, end });
            }
            trim(seq, &mut piece, *next, *next + u32::MAX / 4);
            if !piece.range.is_empty() {
                *next += piece.range.len() as u32;
                self.ready_push(piece);
            }
        }
        self.report.forget_before(*next);
    }

    /// Queues a piece that came out of order.
    fn queue_out_of_order(&mut self, seq: Seq, mut piece: RxPiece<R>) -> PayloadArrival {
        // Pieces before `at` start at or before `seq`. Most newcomers belong to the end.
        let at = match self.out_of_order.back() {
            Some(last) if last.seq.at_or_before(seq) => self.out_of_order.len(),
            _ => self.out_of_order.partition_point(|piece| piece.seq.at_or_before(seq)),
        };
        let start = match at.checked_sub(1).and_then(|before| self.out_of_order.get(before)) {
            Some(before) => before.end().max(seq),
            None => seq,
        };
        let mut end = seq + piece.range.len() as u32;
        self.report.add_duplicate(SackBlock { start: seq, end: start.min(end) });
        // A piece that the new one covers wholly is removed. A piece covered in part trims the new
        // one.
        while let Some(after) = self.out_of_order.get(at) {
            let twice = SackBlock { start: after.seq.max(start), end: after.end().min(end) };
            self.report.add_duplicate(twice);
            if after.end().after(end) {
                end = end.min(after.seq);
                break;
            }
            self.out_of_order.remove(at);
        }
        let seq = trim(seq, &mut piece, start, end);
        if piece.range.is_empty() {
            return PayloadArrival::Useless;
        }
        // A piece that was reported by SACK is never dropped for a new one (RFC 2018 8).
        if self.out_of_order.len() >= self.out_of_order_limit {
            return PayloadArrival::Useless;
        }
        self.report.add(SackBlock { start: seq, end: seq + piece.range.len() as u32 });
        let token = self.of_owner.as_ref().map(|of_owner| of_owner.count(&piece.frame));
        self.out_of_order.insert(at, OutOfOrderPiece { seq, piece, _token: token });
        PayloadArrival::OutOfOrder
    }
}

impl<R> ReceiveQueue<R> {
    /// The FIN is at `fin`; `next` is the number expected next. A FIN out of order is reported as
    /// data is: it has a sequence number (RFC 9293 3.4). Without that, the segment that ends with
    /// it would be retransmitted.
    pub(super) fn take_fin(&mut self, next: Seq, fin: Seq) {
        self.fin = Some(fin);
        if fin.after(next) {
            self.report.add(SackBlock { start: fin, end: fin + 1 });
        }
    }

    /// The SACK option of the next ACK, with at most `most` blocks. With `duplicates`, the first
    /// block may report a duplicate; the second value says whether it does.
    pub(super) fn sack_report(&mut self, most: usize, duplicates: bool) -> (SackBlocks, bool) {
        self.report.take(most, duplicates)
    }

    /// How many blocks [`sack_report`](Self::sack_report) would give.
    pub(super) fn sack_report_len(&self, most: usize, duplicates: bool) -> usize {
        self.report.len(most, duplicates)
    }

    /// Whether one more ACK is needed to report all pieces out of order.
    pub(super) fn has_unreported(&self) -> bool {
        self.report.has_unreported()
    }

    /// Drops all that the application has not been given.
    pub(super) fn clear(&mut self) {
        self.ready.clear();
        self.ready_len = 0;
        self.clear_out_of_order();
    }

    /// Drops the pieces out of order: they cannot come in order any more.
    pub(super) fn clear_out_of_order(&mut self) {
        self.out_of_order.clear();
        self.report.clear();
    }
}

/// Cuts `piece`, which starts at `seq`, down to `start..end` and gives its new start.
fn trim<R>(seq: Seq, piece: &mut RxPiece<R>, start: Seq, end: Seq) -> Seq {
    let len = piece.range.len();
    let cut_head = (start.since(seq) as usize).min(len);
    let cut_tail = ((seq + len as u32).since(end) as usize).min(len - cut_head);
    piece.range.start += cut_head;
    piece.range.end -= cut_tail;
    seq + cut_head as u32
}

#[cfg(test)]
mod tests;
