//! Sealed shared regions, page pools with owners, the ring and the bell.
//!
//! Everything that two Tasuki processes have in common lies in a [`Region`], a sealed memfd that
//! each maps. In it lie [`ring`]s of 64-byte slots, [`bell`] words, single atomics ([`Word32`],
//! [`Word64`]) and [`pool`]s of 4 KiB pages whose areas are handed from process to process.
//! Descriptors reach another process through a [`Channel`].
//!
//! Two rules hold in all of it. Whatever is read out of a region is an *allegation* by a peer: it
//! is copied out once and checked, and what is impossible is a typed error, never a panic and never
//! an access outside of the region. And no Rust reference is made to plain bytes that another
//! process may be writing: such bytes are copied with raw copies ([`Region::read`],
//! [`Region::write`]); only [`Area::bytes`] gives references, resting on the owner table.

pub mod bell;
mod bitmap;
pub mod channel;
pub mod descriptors;
pub mod fork;
mod marks;
pub mod pool;
pub mod region;
pub mod ring;
pub mod spin;
mod sync;
mod waiters;

#[cfg(all(test, loom))]
mod loom_models;

pub use bell::{Ringer, Sleep, Sleeper, doorbell, drain, eventfd};
pub use channel::{Channel, ChannelError, Message, TryRecv};
pub use marks::Marks;
pub use pool::{
    Area, AreaError, AreaName, Borrowed, Exhausted, FREE, Owner, Pool, PoolMap, PoolPlace,
};
pub use region::{
    Access, Backing, OutOfRange, Region, RegionError, Word32, Word64, checksum, fold,
};
pub use ring::{Consumer, Producer, PushError, RingFault, ring_bytes};
pub use spin::Spin;
pub use waiters::{Count, Waiters};

/// Bytes of a page, the unit of pools.
pub const PAGE: usize = 4096;

/// What a ring carries: 64 bytes, one cache line.
pub type Slot = [u64; 8];
