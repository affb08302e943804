//! The owner of a socket of the core.

/// The owner of a socket of the core: the content of the core's tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SocketOwner {
    pub(crate) client: u16,
    pub(crate) index: u16,
    pub(crate) serial: u32,
}

impl SocketOwner {
    /// As the core's tag.
    #[inline]
    pub(crate) fn to_tag(self) -> u64 {
        u64::from(self.client) | u64::from(self.index) << 16 | u64::from(self.serial) << 32
    }

    /// Out of a tag of the core.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the truncation is the field extraction")]
    pub(crate) fn from_tag(tag: u64) -> Self {
        Self { client: tag as u16, index: (tag >> 16) as u16, serial: (tag >> 32) as u32 }
    }
}
