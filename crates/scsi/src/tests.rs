//! The commands through the target, with units whose media are memory.

mod checks;
mod compare;
mod identity;
mod mode;
mod provision;
mod removal;
mod transfer;
mod units;
mod world;
