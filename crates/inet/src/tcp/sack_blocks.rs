//! The SACK option (RFC 2018 3).

use super::seq::Seq;

/// A contiguous block of received bytes: its first number, and one past its last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SackBlock {
    /// Left edge.
    pub start: Seq,
    /// Right edge.
    pub end: Seq,
}

/// The blocks of a SACK option (RFC 2018 3): up to four, as they are on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SackBlocks {
    blocks: [SackBlock; Self::MOST],
    count: u8,
}

impl SackBlocks {
    /// Most blocks that fit into a header.
    pub const MOST: usize = 4;

    /// Adds a block if there is room.
    pub fn push(&mut self, block: SackBlock) {
        if let Some(slot) = self.blocks.get_mut(usize::from(self.count)) {
            *slot = block;
            self.count += 1;
        }
    }

    /// The blocks.
    pub fn as_slice(&self) -> &[SackBlock] {
        self.blocks.get(..usize::from(self.count)).unwrap_or_default()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}
