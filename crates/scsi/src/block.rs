//! The commands of block devices (SBC-3).

pub(crate) mod capacity;
pub(crate) mod compare;
pub(crate) mod provision;
pub(crate) mod range;
pub(crate) mod transfer;
