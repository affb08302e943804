//! The commands through the target, with units whose media are memory.

mod checks;
mod compare;
mod copy;
mod faults;
mod identity;
mod mode;
mod model;
mod provision;
mod removal;
mod reserve;
mod reserve_rules;
mod rights;
mod transfer;
mod units;
mod world;
