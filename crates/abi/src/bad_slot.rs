//! The one error of every decoder in this crate.

/// A slot whose content no correct peer writes. The fault is the writing peer's; drop that peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("peer wrote a bad {what} into a ring slot: {value:#x}")]
pub struct BadSlot {
    /// The field, in the words of this crate's documentation.
    pub what: &'static str,
    /// What the peer wrote.
    pub value: u64,
}

impl BadSlot {
    #[inline]
    pub(crate) fn new(what: &'static str, value: u64) -> Self {
        Self { what, value }
    }
}
