//! Sealed shared regions, page pools with owners, the ring and the bell.
//!
//! ```
//! # use tasuki_shm as shm;
//! use std::os::fd::AsFd;
//! use shm::{Access, Backing, Consumer, Owner, Pool, PoolLayout, PoolMap, Producer, Region};
//!
//! // A server makes a region: a ring at offset 0, then a pool of 8 pages with its owner table.
//! let (region, fd) = Region::create("example", 16 * shm::PAGE, Backing::Small)?;
//! let layout = PoolLayout { table: shm::PAGE, pages_at: 2 * shm::PAGE, pages: 8 };
//! let pool = Pool::create(&region, layout, Owner(1))?;
//! let mut producer = Producer::attach(&region, 0, 16)?;
//!
//! // A program maps the descriptor that it was sent, here in the same process.
//! let mapped = Region::map(fd.as_fd(), 16 * shm::PAGE, Access::ReadWrite)?;
//! let map = PoolMap::attach(&mapped, layout, Owner(2))?;
//! let mut consumer = Consumer::attach(&mapped, 0, 16)?;
//!
//! // The server hands an area over; its name travels through the ring.
//! let area = pool.alloc(1)?;
//! area.write(0, b"hello")?;
//! let name = area.hand_over(Owner(2));
//! producer.push(&[name.page.into(), name.pages.into(), name.generation.into(), 0, 0, 0, 0, 0])?;
//! producer.publish();
//!
//! // The program copies the name out, and owns the area once the owner table agrees.
//! let [page, pages, generation, ..] = consumer.pop()?.expect("a slot was published");
//! let name = shm::AreaName {
//!     page: page.try_into()?,
//!     pages: pages.try_into()?,
//!     generation: generation.try_into()?,
//! };
//! let area = map.take(name)?;
//! assert_eq!(&area.bytes()[..5], b"hello");
//! assert!(map.take(name).is_err(), "an area has one owner");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Two Tasuki processes share nothing but [`Region`]s: sealed memfds that each of them maps. A
//! region holds [`ring`]s of 64-byte slots, [`bell`] words, single atomics ([`Word32`],
//! [`Word64`]) and [`pool`]s of 4 KiB pages. Areas, runs of such pages, are handed from process to
//! process. A [`Channel`] carries descriptors to another process.
//!
//! Two rules hold in all of it:
//!
//! * Words and bytes read out of a region are *allegations* by a peer. This crate copies them out
//!   once and checks the copy. An impossible value is a typed error, never a panic and never an
//!   access outside of the region.
//! * No Rust reference is made to plain bytes that another process may be writing. Such bytes are
//!   copied with raw copies ([`Region::read`], [`Region::write`]). Only [`Area::bytes`] gives
//!   references; it rests on the owner table.
//!
//! ```text layers
//! channel: messages with descriptors over a Unix socket
//! pool: pages with owners, and the areas made of them
//! ring readiness_bitmap waiters bell: queues, sets, counts and wake-ups between two processes
//! closer: a thread for closes that take as long as another process chose
//! sync: the atomics and system calls under these, or loom's models of them
//! region: one mapping of one memfd
//! spin: looking again before a sleep
//! fork passing peer descriptors bitmap: helpers that need no region
//! layout: sizes that all processes agree on
//! ```

pub mod bell;
mod bitmap;
pub mod channel;
pub mod closer;
pub mod descriptors;
pub mod fork;
mod layout;
pub mod passing;
pub mod peer;
pub mod pool;
mod readiness_bitmap;
pub mod region;
pub mod ring;
pub mod spin;
mod sync;
mod waiters;

#[cfg(all(test, loom))]
mod loom_models;

pub use bell::{Ringer, Sleep, Sleeper, doorbell, drain, eventfd};
pub use channel::{Channel, ChannelError, Message, TryRecv};
pub use layout::{PAGE, Slot, ring_bytes};
pub use pool::{
    Area, AreaError, AreaName, BorrowedBytes, FREE, Owner, Pool, PoolExhausted, PoolLayout, PoolMap,
};
pub use readiness_bitmap::ReadinessBitmap;
pub use region::{
    Access, Backing, OutOfRange, Region, RegionError, Word32, Word64, checksum, fold,
};
pub use ring::{Consumer, Producer, PushError, RingFault};
pub use spin::{Spin, SpinLimit};
pub use sync::Words64;
pub use waiters::{PositionWord, Waiters};
