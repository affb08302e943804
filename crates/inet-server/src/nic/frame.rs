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

impl RxBytes for ReceivedFrame {
    fn bytes(&self) -> &[u8] {
        self.area.bytes().get(self.start..self.end).unwrap_or_default()
    }

    fn offload(&self) -> RxOffload {
        self.offload
    }

    fn frames(&self) -> usize {
        1 + self.behind.len()
    }
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
                let len = frame.bytes().len();
                let within = |position: usize| position.clamp(at, at + len) - at;
                let part = within(range.start)..within(range.end);
                put(frame, part);
                at += len;
            }
        }
        frame => parts.push_back(RxPiece { frame, range }),
    }
}
