//! Residual counts (RFC 7143 11.4.5): expected against transferred bytes.

/// How far a transfer differs from what the initiator expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Residual {
    /// As many bytes as expected.
    #[default]
    None,
    /// That many bytes fewer than expected.
    Underflow(u32),
    /// The command had that many bytes more than expected.
    Overflow(u32),
}

impl Residual {
    /// The residual of a command that has `actual` bytes where `expected` were announced.
    pub fn of(expected: u32, actual: u64) -> Self {
        let clamp = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        match u64::from(expected) {
            expected if expected > actual => Self::Underflow(clamp(expected - actual)),
            expected if expected < actual => Self::Overflow(clamp(actual - expected)),
            _ => Self::None,
        }
    }

    /// The O and U bits, given their places, and the count.
    pub(crate) const fn bits(self, overflow: u8, underflow: u8) -> (u8, u32) {
        match self {
            Self::None => (0, 0),
            Self::Underflow(count) => (underflow, count),
            Self::Overflow(count) => (overflow, count),
        }
    }

    /// Reads both bits and the count; `None` if both bits are set.
    pub(crate) const fn from_bits(overflow: bool, underflow: bool, count: u32) -> Option<Self> {
        match (overflow, underflow) {
            (true, true) => None,
            (true, false) => Some(Self::Overflow(count)),
            (false, true) => Some(Self::Underflow(count)),
            (false, false) => Some(Self::None),
        }
    }
}
