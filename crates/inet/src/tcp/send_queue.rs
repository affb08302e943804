//! The send queue: bytes to be sent, and sent bytes that may have to be retransmitted.
//!
//! The stream is a queue of chunks that stay in the application's memory. A new chunk becomes part
//! of the last one if it continues it there. Places in the stream are 64-bit offsets (0 is the byte
//! after the SYN), so nothing here wraps. Each chunk has its offset, so binary search finds any
//! place. Making a segment, new or retransmitted, costs about the same whatever the length of the
//! queue. A chunk is dropped when its last byte is acknowledged.
//!
//! The flags of a write ([`SendFlags`]) are marks at its end, stored with the chunk that ends
//! there. One mark says where the application pushes (RFC 9293 3.9.1.2). Another says where a
//! record ends; no segment contains a record's end in its midst. As in Linux, a push is forgotten
//! when the next write continues the chunk before it has left. Then the end of the later write
//! counts.

use alloc::collections::VecDeque;

use super::segment::SegmentRepr;
use crate::{MAX_TX_PIECES, TxBytes, TxPiece};

/// The application's flags of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SendFlags {
    /// More follows at once (MSG_MORE): the end is not pushed, and less than a full segment waits,
    /// at most 200 ms, for the rest.
    pub more: bool,
    /// A record ends here (MSG_EOR): no segment, retransmitted or not, has bytes of before and
    /// after its end.
    pub eor: bool,
}

/// The marks at a position of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct WriteMarks {
    /// The segment gets PSH.
    pub(super) push: bool,
    /// A record ends.
    pub(super) record: bool,
    /// A burst, sent in one go, ends here.
    pub(super) burst: bool,
}

/// A range of the queue that fits into one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QueueRange {
    /// Where it starts.
    offset: u64,
    /// In which chunk that is.
    index: usize,
    /// Bytes.
    len: usize,
    /// It is not longer because a segment has no room for more pieces.
    pieces_full: bool,
    /// The marks at its end.
    marks: WriteMarks,
}

impl QueueRange {
    /// Bytes.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether it is not longer because a segment has no room for more pieces.
    #[inline]
    pub(super) fn is_full_of_pieces(&self) -> bool {
        self.pieces_full
    }

    /// The marks at its end.
    #[inline]
    pub(super) fn marks(&self) -> WriteMarks {
        self.marks
    }

    /// Its first `len` bytes.
    pub(super) fn truncated(self, len: usize) -> Self {
        if len >= self.len { self } else { Self { len, marks: WriteMarks::default(), ..self } }
    }
}

#[derive(Debug)]
struct QueuedChunk<T> {
    /// Offset of its first byte.
    start: u64,
    bytes: T,
    /// At its end.
    marks: WriteMarks,
}

#[derive(Debug)]
pub(super) struct TcpSendQueue<T> {
    chunks: VecDeque<QueuedChunk<T>>,
    /// First unacknowledged offset.
    acked: u64,
    /// Offset of the next byte to be sent for the first time.
    next: u64,
    /// Offset after the last byte queued.
    end: u64,
    /// Offset of the last mark that pushes.
    pushed: u64,
}

impl<T: TxBytes> TcpSendQueue<T> {
    pub(super) fn new() -> Self {
        Self { chunks: VecDeque::new(), acked: 0, next: 0, end: 0, pushed: 0 }
    }

    /// A queue of which all before `acked` has been acknowledged.
    pub(super) fn resumed(acked: u64) -> Self {
        Self { chunks: VecDeque::new(), acked, next: acked, end: acked, pushed: acked }
    }

    /// Offset after the last byte queued.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Bytes never sent.
    pub(super) fn unsent(&self) -> usize {
        (self.end - self.next) as usize
    }

    /// Bytes not acknowledged.
    pub(super) fn unacked(&self) -> usize {
        (self.end - self.acked) as usize
    }

    /// Queues `chunk`. With more to follow, its end still gets PSH if it lies more than `unpushed`
    /// bytes after the last one. As Linux, that is half of the peer's window, so that its reader
    /// does not wait.
    pub(super) fn push(&mut self, chunk: T, flags: SendFlags, unpushed: u64) {
        let len = chunk.len();
        if len == 0 {
            return;
        }
        let start = self.end;
        self.end += len as u64;
        let push = !flags.more || self.end - self.pushed > unpushed;
        let marks = WriteMarks { push, record: flags.eor, burst: false };
        if push {
            self.pushed = self.end;
        }
        let left = match self.chunks.back_mut().filter(|last| !last.marks.record) {
            Some(last) => match last.bytes.append(chunk) {
                Ok(()) => {
                    last.marks = marks;
                    None
                }
                Err(chunk) => Some(chunk),
            },
            None => Some(chunk),
        };
        self.chunks.extend(left.map(|bytes| QueuedChunk { start, bytes, marks }));
    }

    /// All before `offset` is acknowledged.
    pub(super) fn acked_to(&mut self, offset: u64) {
        self.acked = offset.clamp(self.acked, self.end);
        self.next = self.next.max(self.acked);
        while let Some(chunk) = self.chunks.front()
            && chunk.start + chunk.bytes.len() as u64 <= self.acked
        {
            self.chunks.pop_front();
        }
    }

    /// The content of a segment of at most `max` bytes that were never sent.
    pub(super) fn at_next(&self, max: usize) -> QueueRange {
        self.at(self.next, max)
    }

    /// The content of a segment of at most `max` bytes from `offset` on.
    pub(super) fn at(&self, offset: u64, max: usize) -> QueueRange {
        let offset = offset.max(self.acked);
        let after = self.chunks.partition_point(|chunk| chunk.start <= offset);
        let index = after.saturating_sub(1);
        let marks = WriteMarks::default();
        let mut range = QueueRange { offset, index, len: 0, pieces_full: false, marks };
        let mut pieces = 0;
        let mut at = offset;
        for chunk in self.chunks.range(index.min(self.chunks.len())..) {
            let here = (chunk.start + chunk.bytes.len() as u64).saturating_sub(at) as usize;
            if here == 0 {
                continue;
            }
            if range.len >= max || range.marks.record {
                break;
            }
            if pieces == MAX_TX_PIECES {
                range.pieces_full = true;
                break;
            }
            let take = here.min(max - range.len);
            range.len += take;
            at += take as u64;
            pieces += 1;
            range.marks = if take == here { chunk.marks } else { WriteMarks::default() };
        }
        range
    }

    /// `range`, which [`at_next`](Self::at_next) gave, is sent.
    pub(super) fn advance(&mut self, range: &QueueRange) {
        self.next += range.len as u64;
    }

    /// The pieces of `range`.
    pub(super) fn pieces(&self, range: &QueueRange) -> PayloadPieces<'_, T> {
        let mut pieces = PayloadPieces::none();
        let (mut at, mut left) = (range.offset, range.len);
        for QueuedChunk { start, bytes, .. } in
            self.chunks.range(range.index.min(self.chunks.len())..)
        {
            if left == 0 {
                break;
            }
            let inside = at.saturating_sub(*start) as usize;
            let take = bytes.len().saturating_sub(inside).min(left);
            if take > 0 {
                pieces.push(TxPiece { bytes, range: inside..inside + take });
            }
            left -= take;
            at += take as u64;
        }
        pieces
    }

    /// Drops all chunks.
    pub(super) fn clear(&mut self) {
        self.chunks.clear();
        self.acked = self.end;
        self.next = self.end;
    }
}

/// Up to [`MAX_TX_PIECES`] pieces.
#[derive(Debug)]
pub(super) struct PayloadPieces<'a, T> {
    pieces: Option<[TxPiece<'a, T>; MAX_TX_PIECES]>,
    count: usize,
    /// Bytes of all pieces.
    len: usize,
}

impl<'a, T> PayloadPieces<'a, T> {
    pub(super) fn none() -> Self {
        Self { pieces: None, count: 0, len: 0 }
    }

    /// Adds `piece` if there is room.
    fn push(&mut self, piece: TxPiece<'a, T>) {
        let bytes = piece.bytes;
        let unused = || core::array::from_fn(|_| TxPiece { bytes, range: 0..0 });
        if let Some(slot) = self.pieces.get_or_insert_with(unused).get_mut(self.count) {
            self.len += piece.range.len();
            *slot = piece;
            self.count += 1;
        }
    }

    fn as_slice(&self) -> &[TxPiece<'a, T>] {
        self.pieces.as_ref().and_then(|all| all.get(..self.count)).unwrap_or_default()
    }
}

/// A segment to be sent.
#[derive(Debug)]
pub struct SegmentOut<'a, T> {
    /// Its header.
    pub repr: SegmentRepr,
    /// Payload bytes of each segment but the last, if a longer segment is to be segmented
    /// ([`TcpConfig::gso_max_segs`](super::TcpConfig)).
    pub mss: u16,
    body: PayloadPieces<'a, T>,
}

impl<'a, T> SegmentOut<'a, T> {
    /// A segment without payload.
    pub(super) fn bare(repr: SegmentRepr) -> Self {
        Self::new(repr, PayloadPieces::none(), u16::MAX)
    }

    /// A segment that is to be segmented if its payload is longer than `mss` bytes.
    pub(super) fn new(repr: SegmentRepr, body: PayloadPieces<'a, T>, mss: u16) -> Self {
        Self { repr, mss, body }
    }

    /// Its payload: at most [`MAX_TX_PIECES`] pieces.
    pub fn body(&self) -> &[TxPiece<'a, T>] {
        self.body.as_slice()
    }

    /// Length of its payload, bytes.
    pub fn body_len(&self) -> usize {
        self.body.len
    }
}

#[cfg(test)]
mod tests;
