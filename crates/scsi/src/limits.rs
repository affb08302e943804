//! Limits of commands that are no configuration.

/// Most blocks of COMPARE AND WRITE (MAXIMUM COMPARE AND WRITE LENGTH).
pub(crate) const MOST_COMPARE_BLOCKS: u8 = 255;

/// Bytes of a good transfer (OPTIMAL TRANSFER LENGTH), and of a piece in which a command compares,
/// combines or copies.
pub(crate) const PREFERRED_TRANSFER_BYTES: u32 = 256 << 10;
