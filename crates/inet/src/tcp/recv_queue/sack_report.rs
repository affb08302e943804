//! The SACK option of the next ACK: the blocks received out of order (RFC 2018 4), the one that
//! changed last first, and the last duplicate (RFC 2883).
//!
//! A block that changed must be reported in the next ACK. When several change before one is sent,
//! more ACKs are due ([`SackReport::has_unreported`]). Otherwise the sender would take the
//! unreported segments for lost.

use alloc::vec::Vec;

use crate::tcp::sack_blocks::{SackBlock, SackBlocks};
use crate::tcp::seq::Seq;

/// Most blocks remembered. A forgotten block is reported again as soon as it changes.
const REMEMBERED: usize = 32;

#[derive(Debug, Clone, Copy)]
struct ChangedBlock {
    block: SackBlock,
    /// It has been reported as it is.
    reported: bool,
}

#[derive(Debug, Default)]
pub(super) struct SackReport {
    /// Disjoint and not adjacent, last changed first.
    blocks: Vec<ChangedBlock>,
    duplicate: Option<SackBlock>,
}

impl SackReport {
    /// `block` was received out of order.
    pub(super) fn add(&mut self, mut block: SackBlock) {
        self.blocks.retain(|ChangedBlock { block: old, .. }| {
            let apart = old.start.after(block.end) || old.end.before(block.start);
            if !apart {
                block.start = block.start.min(old.start);
                block.end = block.end.max(old.end);
            }
            apart
        });
        self.blocks.truncate(REMEMBERED - 1);
        self.blocks.insert(0, ChangedBlock { block, reported: false });
    }

    /// `block` was received again. It extends an unreported duplicate that it continues, and
    /// otherwise replaces it: the report is only a hint.
    pub(super) fn add_duplicate(&mut self, block: SackBlock) {
        if !block.start.before(block.end) {
            return;
        }
        let joined = self
            .duplicate
            .filter(|old| old.start.at_or_before(block.end) && old.end.at_or_after(block.start));
        self.duplicate = Some(joined.map_or(block, |old| SackBlock {
            start: old.start.min(block.start),
            end: old.end.max(block.end),
        }));
        // RFC 2883 4.2: the block that contains it comes second.
        let around = self.blocks.iter().position(|ChangedBlock { block: around, .. }| {
            around.start.at_or_before(block.start) && around.end.at_or_after(block.end)
        });
        if let Some(index) = around {
            self.blocks[..=index].rotate_right(1);
        }
    }

    /// All before `next` is in order now.
    pub(super) fn forget_before(&mut self, next: Seq) {
        self.blocks.retain(|ChangedBlock { block, .. }| block.start.after(next));
    }

    /// Whether there is a change that no ACK has reported.
    pub(super) fn has_unreported(&self) -> bool {
        self.blocks.iter().any(|changed| !changed.reported)
    }

    /// The next option, with at most `most` blocks. With `duplicates`, the first block may report a
    /// duplicate; the second value says whether it does.
    pub(super) fn take(&mut self, most: usize, duplicates: bool) -> (SackBlocks, bool) {
        let mut option = SackBlocks::default();
        if most == 0 {
            return (option, false);
        }
        let duplicate = self.duplicate.take().filter(|_| duplicates);
        if let Some(duplicate) = duplicate {
            option.push(duplicate);
        }
        let mut left = most.saturating_sub(option.as_slice().len());
        for reported in [false, true] {
            for changed in self.blocks.iter_mut().filter(|changed| changed.reported == reported) {
                if left == 0 {
                    break;
                }
                option.push(changed.block);
                left -= 1;
            }
        }
        // Marked afterwards: a block must not come twice in one option.
        for changed in &mut self.blocks {
            changed.reported |= option.as_slice().contains(&changed.block);
        }
        (option, duplicate.is_some())
    }

    /// How many blocks [`take`](Self::take) would give.
    pub(super) fn len(&self, most: usize, duplicates: bool) -> usize {
        let duplicate = usize::from(duplicates && self.duplicate.is_some());
        (self.blocks.len() + duplicate).min(most)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests;
