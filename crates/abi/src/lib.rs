//! What crosses a process boundary in Tasuki, and nothing else: no policy, no I/O.
//!
//! Three kinds of thing cross. **Slots** ([`shm::Slot`], 64 bytes) travel through rings: calls
//! ([`call`]), socket data descriptors ([`data`]) and frames ([`frame`]). **Words** are single
//! atomics in a region that one side writes and the other reads: socket state and bells
//! ([`client`]). **Messages** are JSON with file descriptors on a Unix stream socket: admission,
//! supervision and operators' questions ([`control`]).
//!
//! A slot read out of shared memory is an *allegation*: `decode` turns it into another type or
//! refuses it with [`BadSlot`], which names the field and the value, and is always the writing
//! peer's fault.

#![forbid(unsafe_code)]

pub mod ancillary;
pub mod call;
pub mod client;
pub mod companion;
pub mod control;
pub mod data;
pub mod fastopen;
pub mod frame;
pub mod network;
pub mod nic;
pub mod offload;
pub mod option;
mod socket;
pub mod stages;
pub mod stats;
pub mod tcp;

pub use rustix::io::Errno;
pub use socket::{Family, How, SocketFlags, SocketId, SocketKind};

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
    pub(crate) fn new(what: &'static str, value: u64) -> Self {
        Self { what, value }
    }
}

pub(crate) mod bits {
    //! Packing of small fields into slot words; low field first.

    #[inline]
    pub(crate) fn pack16(a: u16, b: u16, c: u16, d: u16) -> u64 {
        u64::from(a) | u64::from(b) << 16 | u64::from(c) << 32 | u64::from(d) << 48
    }

    #[inline]
    pub(crate) fn pack32(low: u32, high: u32) -> u64 {
        u64::from(low) | u64::from(high) << 32
    }

    #[expect(clippy::cast_possible_truncation, reason = "the truncation is the field extraction")]
    #[inline]
    pub(crate) fn u16_at(word: u64, index: u32) -> u16 {
        (word >> (16 * index)) as u16
    }

    #[expect(clippy::cast_possible_truncation, reason = "the truncation is the field extraction")]
    #[inline]
    pub(crate) fn u32_at(word: u64, index: u32) -> u32 {
        (word >> (32 * index)) as u32
    }
}
