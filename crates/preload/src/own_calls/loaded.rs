//! The number of a system call, as the code in front of it loads it.

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loaded {
    Number(u32),
    /// Out of a register or memory.
    Unknown,
}
