//! The base of rings, bells, marks and pools: atomics, fences, slots, locks, futex and eventfd.
//!
//! An ordinary build has the real things in a region (`sync/real.rs`). A build with `--cfg loom`
//! has loom's models of the same (`sync/model.rs`). So `loom_models` checks the very code that
//! ships ([`crate::ring`], [`crate::bell`], [`crate::pool`] and the others), and no copy of it.

#[cfg(loom)]
mod model;
#[cfg(not(loom))]
mod real;

#[cfg(loom)]
pub use self::model::Words64;
#[cfg(loom)]
pub(crate) use self::model::*;
#[cfg(not(loom))]
pub use self::real::Words64;
#[cfg(not(loom))]
pub(crate) use self::real::*;
