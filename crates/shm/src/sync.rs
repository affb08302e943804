//! What rings, bells, marks and pools stand on: atomics, fences, slots, locks, futex and eventfd.
//!
//! Built as usual these are the real things in a region. Built with `--cfg loom` they are loom's
//! models of the same, so that `loom_models` checks the very code that ships ([`crate::ring`],
//! [`crate::bell`], [`crate::pool`] and the others), and no copy of it.

#[cfg(loom)]
mod model;
#[cfg(not(loom))]
mod real;

#[cfg(loom)]
pub(crate) use self::model::*;
#[cfg(not(loom))]
pub(crate) use self::real::*;
