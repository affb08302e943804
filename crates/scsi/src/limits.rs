//! Limits of commands that are no configuration.

/// Most blocks of COMPARE AND WRITE (MAXIMUM COMPARE AND WRITE LENGTH).
pub(crate) const MOST_COMPARE_BLOCKS: u8 = 255;

/// Most blocks of WRITE SAME (MAXIMUM WRITE SAME LENGTH): what its ten bytes can say.
pub(crate) const MOST_SAME_BLOCKS: u16 = u16::MAX;

/// Bytes of a good transfer (OPTIMAL TRANSFER LENGTH), and of a piece in which a command compares,
/// combines or copies.
pub(crate) const PREFERRED_TRANSFER_BYTES: u32 = 256 << 10;
