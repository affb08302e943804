//! A word of the owner table: an area's holder, the party to which it is offered, its pages and
//! generation.

use super::name::{AreaError, AreaName};

/// A word of the owner table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OwnerEntry {
    pub(super) holder: u8,
    /// 0: not offered.
    pub(super) offered: u8,
    pub(super) pages: u16,
    pub(super) generation: u32,
}

impl OwnerEntry {
    pub(super) fn free(generation: u32) -> Self {
        Self { holder: 0, offered: 0, pages: 0, generation }
    }

    pub(super) fn held(holder: u8, pages: u16, generation: u32) -> Self {
        Self { holder, offered: 0, pages, generation }
    }

    pub(super) fn to_word(self) -> u64 {
        u64::from(self.holder)
            | u64::from(self.offered) << 8
            | u64::from(self.pages) << 16
            | u64::from(self.generation) << 32
    }

    #[expect(clippy::cast_possible_truncation, reason = "the truncation is the field extraction")]
    pub(super) fn from_word(word: u64) -> Self {
        Self {
            holder: word as u8,
            offered: (word >> 8) as u8,
            pages: (word >> 16) as u16,
            generation: (word >> 32) as u32,
        }
    }

    pub(super) fn names(self, name: AreaName) -> bool {
        self.pages == name.pages && self.generation == name.generation && self.holder != 0
    }

    /// The error for a name that this entry does not bear.
    pub(super) fn stale(self, name: AreaName) -> AreaError {
        AreaError::Stale { name, generation: self.generation, pages: self.pages }
    }
}
