//! The return path of a call.

use crate::bits::{u16_at, u32_at};

/// Where a call's result goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReturnPath {
    /// The client whose region holds the result ring.
    pub client: u16,
    /// The thread slot in that client.
    pub ring: u16,
    /// The caller's own name for the call.
    pub tag: u32,
}

impl ReturnPath {
    #[inline]
    pub(super) fn to_word(self) -> u64 {
        u64::from(self.client) | u64::from(self.ring) << 16 | u64::from(self.tag) << 32
    }

    #[inline]
    pub(super) fn from_word(word: u64) -> Self {
        Self { client: u16_at(word, 0), ring: u16_at(word, 1), tag: u32_at(word, 1) }
    }
}
