//! How large a unit is.

/// A unit's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Blocks.
    pub blocks: u64,
    /// Bytes of a block.
    pub block_size: u32,
}

impl Capacity {
    /// Out of the data of READ CAPACITY (16).
    pub(crate) fn parse(data: &[u8]) -> Option<Self> {
        let field = data.get(..12)?;
        let last = u64::from_be_bytes(field[..8].try_into().ok()?);
        let block_size = u32::from_be_bytes(field[8..].try_into().ok()?);
        let is_block = block_size.is_power_of_two() && (512..=1 << 16).contains(&block_size);
        is_block.then_some(Self { blocks: last.checked_add(1)?, block_size })
    }

    /// Bytes of the unit.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.blocks.saturating_mul(u64::from(self.block_size))
    }
}
