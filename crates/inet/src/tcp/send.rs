//! What is queued to be sent, and what was sent and may have to be sent again.
//!
//! The stream is a queue of chunks that stay in the application's memory. A new chunk becomes part
//! of the last one if it continues it there. Places in the stream are 64-bit offsets (0 is the byte
//! after the SYN), so nothing here wraps. Two places matter: the first unacknowledged byte, which
//! lies in the first chunk, and the *cursor*, where the next byte to be sent lies. Both are known
//! by chunk and offset within it, so that making a segment, sending one again and going back all
//! cost the same whatever the length of the queue. A chunk is dropped when its last byte is
//! acknowledged.

use alloc::collections::VecDeque;

use super::SegmentRepr;
use crate::{MAX_TX_PIECES, TxBytes, TxPiece};

/// A place in the queue: `inside` bytes into the chunk `index`. `inside` may be the chunk's length,
/// because the chunk may have grown since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Place {
    index: usize,
    inside: usize,
}

/// A stretch of the queue that fits into one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    start: Place,
    end: Place,
    /// Bytes.
    pub(super) len: usize,
    /// It is not longer because a segment takes no more pieces.
    pub(super) pieces_full: bool,
}

#[derive(Debug)]
pub(super) struct SendQueue<T> {
    chunks: VecDeque<T>,
    /// Offset of the first byte of the first chunk.
    front: u64,
    /// First unacknowledged offset.
    acked: u64,
    /// Offset of the next byte to be sent, and its place.
    next: u64,
    cursor: Place,
    /// Offset after the last byte queued.
    end: u64,
}

impl<T: TxBytes> SendQueue<T> {
    pub(super) fn new() -> Self {
        Self {
            chunks: VecDeque::new(),
            front: 0,
            acked: 0,
            next: 0,
            cursor: Place::default(),
            end: 0,
        }
    }

    /// Offset after the last byte queued.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Bytes from the cursor to the end.
    pub(super) fn unsent(&self) -> usize {
        (self.end - self.next) as usize
    }

    /// Bytes not acknowledged.
    pub(super) fn unacked(&self) -> usize {
        (self.end - self.acked) as usize
    }

    pub(super) fn push(&mut self, chunk: T) {
        let len = chunk.len();
        if len == 0 {
            return;
        }
        self.end += len as u64;
        let left = match self.chunks.back_mut() {
            Some(last) => last.append(chunk).err(),
            None => Some(chunk),
        };
        self.chunks.extend(left);
    }

    /// All before `offset` is acknowledged. If that is beyond the cursor, the cursor moves there.
    pub(super) fn acked_to(&mut self, offset: u64) {
        let offset = offset.clamp(self.acked, self.end);
        self.acked = offset;
        while let Some(chunk) = self.chunks.front() {
            let end = self.front + chunk.len() as u64;
            if end > offset {
                break;
            }
            self.front = end;
            self.chunks.pop_front();
            if self.cursor.index == 0 {
                self.cursor.inside = 0;
            } else {
                self.cursor.index -= 1;
            }
        }
        if self.next < offset {
            self.rewind();
        }
    }

    /// Moves the cursor to the first unacknowledged byte.
    pub(super) fn rewind(&mut self) {
        self.next = self.acked;
        self.cursor = self.head();
    }

    fn head(&self) -> Place {
        Place { index: 0, inside: (self.acked - self.front) as usize }
    }

    /// What a segment of at most `max` bytes at the cursor would contain.
    pub(super) fn at_cursor(&self, max: usize) -> Stretch {
        self.measure(self.cursor, max)
    }

    /// What a segment of at most `max` bytes at the first unacknowledged byte would contain.
    pub(super) fn at_head(&self, max: usize) -> Stretch {
        self.measure(self.head(), max)
    }

    fn measure(&self, start: Place, max: usize) -> Stretch {
        let mut stretch = Stretch { start, end: start, len: 0, pieces_full: false };
        let mut pieces = 0;
        while stretch.len < max {
            let Some(chunk) = self.chunks.get(stretch.end.index) else { break };
            let here = chunk.len().saturating_sub(stretch.end.inside);
            if here == 0 {
                stretch.end = Place { index: stretch.end.index + 1, inside: 0 };
                continue;
            }
            if pieces == MAX_TX_PIECES {
                stretch.pieces_full = true;
                break;
            }
            let take = here.min(max - stretch.len);
            stretch.len += take;
            stretch.end.inside += take;
            pieces += 1;
        }
        // The last chunk may still grow: stay in it.
        if stretch.end.index == self.chunks.len() && stretch.end.index > start.index {
            let index = stretch.end.index - 1;
            stretch.end = Place { index, inside: self.chunks.get(index).map_or(0, TxBytes::len) };
        }
        stretch
    }

    /// Moves the cursor behind `stretch`, which [`at_cursor`](Self::at_cursor) gave.
    pub(super) fn advance(&mut self, stretch: &Stretch) {
        self.cursor = stretch.end;
        self.next += stretch.len as u64;
    }

    /// The pieces of `stretch`.
    pub(super) fn pieces(&self, stretch: &Stretch) -> Pieces<'_, T> {
        let mut place = stretch.start;
        let mut left = stretch.len;
        let mut pieces = Pieces::none();
        while left > 0 {
            let Some(bytes) = self.chunks.get(place.index) else { break };
            let take = bytes.len().saturating_sub(place.inside).min(left);
            if take > 0 {
                pieces.push(TxPiece { bytes, range: place.inside..place.inside + take });
            }
            left -= take;
            place = Place { index: place.index + 1, inside: 0 };
        }
        pieces
    }

    /// Drops all chunks.
    pub(super) fn clear(&mut self) {
        self.chunks.clear();
        self.front = self.end;
        self.acked = self.end;
        self.rewind();
    }
}

/// Up to [`MAX_TX_PIECES`] pieces.
#[derive(Debug)]
pub(super) struct Pieces<'a, T> {
    pieces: Option<[TxPiece<'a, T>; MAX_TX_PIECES]>,
    count: usize,
}

impl<'a, T> Pieces<'a, T> {
    pub(super) fn none() -> Self {
        Self { pieces: None, count: 0 }
    }

    /// Adds `piece` if there is room.
    fn push(&mut self, piece: TxPiece<'a, T>) {
        let bytes = piece.bytes;
        let unused = || core::array::from_fn(|_| TxPiece { bytes, range: 0..0 });
        if let Some(place) = self.pieces.get_or_insert_with(unused).get_mut(self.count) {
            *place = piece;
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
    body: Pieces<'a, T>,
}

impl<'a, T> SegmentOut<'a, T> {
    pub(super) fn new(repr: SegmentRepr, body: Pieces<'a, T>) -> Self {
        Self { repr, body }
    }

    /// Its payload: at most [`MAX_TX_PIECES`] pieces.
    pub fn body(&self) -> &[TxPiece<'a, T>] {
        self.body.as_slice()
    }

    /// Length of its payload, bytes.
    pub fn body_len(&self) -> usize {
        self.body().iter().map(|piece| piece.range.len()).sum()
    }
}

#[cfg(test)]
mod tests;
