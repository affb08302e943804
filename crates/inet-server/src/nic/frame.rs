//! Received frames, in areas that are the server's until their last use is over.

use std::collections::VecDeque;
use std::ops::Range;

use inet::{RxBytes, RxOffload, RxPiece};
use shm::{Area, AreaName};

/// A received frame in an area of the server's. Dropping the frame gives the area back to the pool.
#[derive(Debug)]
pub(crate) struct ReceivedFrame {
    pub(super) area: Area,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) offload: RxOffload,
    /// Number of the interface.
    pub(super) nic: u16,
    /// Frames of the same chain, whose payloads continue this one's.
    pub(super) behind: Vec<ReceivedFrame>,
}

impl ReceivedFrame {
    /// Number of the interface whose region the frame lies in.
    pub(crate) fn nic(&self) -> u16 {
        self.nic
    }

    /// The frame's area, and the position of the frame's first byte in it.
    pub(crate) fn place(&self) -> (AreaName, usize) {
        (self.area.lend(), self.start)
    }
}

/// The driver may write to the frame at any time, so there is no slice of its bytes.
impl RxBytes for ReceivedFrame {
    fn bytes(&self) -> &[u8] {
        debug_assert!(false, "a slice of memory that a driver writes");
        &[]
    }

    fn frame_len(&self) -> usize {
        self.end.saturating_sub(self.start)
    }

    fn head(&self) -> [u8; inet::HEAD] {
        self.area.head(self.start)
    }

    fn read(&self, at: usize, out: &mut [u8]) {
        let len = self.frame_len().saturating_sub(at).min(out.len());
        if let Some(out) = out.get_mut(..len) {
            // In range: `Port::take` has checked the frame's extent.
            let _ = self.area.read(self.start + at, out);
        }
    }

    fn checksum(&self, range: Range<usize>) -> u16 {
        let end = range.end.min(self.frame_len());
        let len = end.saturating_sub(range.start);
        self.area.checksum(self.start.saturating_add(range.start), len).unwrap_or(0)
    }

    fn offload(&self) -> RxOffload {
        self.offload
    }

    fn frames(&self) -> usize {
        1 + self.behind.len()
    }
}

/// Copies `len` bytes of a piece of payload, from the piece's byte `at` on, into an area of a
/// program's. Returns whether there were as many.
#[inline]
pub(crate) fn copy_piece(
    piece: &FramePiece,
    at: usize,
    len: usize,
    (area, offset): (&Area, usize),
) -> bool {
    let from = piece.range.start + at;
    let copied = match &piece.frame {
        inet::Frame::One(frame) if from + len <= frame.frame_len() => {
            frame.area.copy_to(frame.start + from, len, area, offset)
        }
        inet::Frame::One(_) => return false,
        inet::Frame::Joined(bytes) | inet::Frame::Looped(bytes) => {
            match bytes.get(from..from + len) {
                Some(bytes) => area.write(offset, bytes),
                None => return false,
            }
        }
    };
    copied.is_ok()
}

/// A piece of payload that the core has received.
pub(crate) type FramePiece = RxPiece<inet::Frame<ReceivedFrame>>;

/// Splits a piece at the borders of areas, and appends the parts to `parts`.
pub(crate) fn take_apart(piece: FramePiece, parts: &mut VecDeque<FramePiece>) {
    let mut put = |frame, range: Range<usize>| {
        if !range.is_empty() {
            parts.push_back(RxPiece { frame: inet::Frame::One(frame), range });
        }
    };
    let RxPiece { frame, range } = piece;
    match frame {
        inet::Frame::One(mut first) if !first.behind.is_empty() => {
            let behind = std::mem::take(&mut first.behind);
            let mut at = 0;
            for frame in std::iter::once(first).chain(behind) {
                let len = frame.frame_len();
                let within = |position: usize| position.clamp(at, at + len) - at;
                let part = within(range.start)..within(range.end);
                put(frame, part);
                at += len;
            }
        }
        frame => parts.push_back(RxPiece { frame, range }),
    }
}
