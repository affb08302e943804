//! Sizes that all processes agree on: pages, slots and rings.

/// Bytes of a page, the unit of pools.
pub const PAGE: usize = 4096;

/// An entry of a ring: 64 bytes, one cache line.
pub type Slot = [u64; 8];

/// Where the slots of a ring begin, from its first byte.
pub(crate) const SLOTS_AT: usize = 128;

/// Bytes that a ring of `capacity` slots takes.
#[must_use]
pub const fn ring_bytes(capacity: u32) -> usize {
    SLOTS_AT + capacity as usize * size_of::<Slot>()
}
