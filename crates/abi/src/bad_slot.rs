//! The error of every decoder in this crate.

/// A slot that no correct peer writes. The peer that wrote it is at fault; drop that peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("peer wrote a bad {what} into a ring slot: {value:#x}")]
pub struct BadSlot {
    /// The field, in the words of this crate's documentation.
    pub what: &'static str,
    /// The value that the peer wrote.
    pub value: u64,
}

impl BadSlot {
    #[inline]
    pub(crate) fn new(what: &'static str, value: u64) -> Self {
        Self { what, value }
    }
}
