//! A Linux-like host around the protocol core, in virtual time, for scripts of packetdrill.
//!
//! packetdrill (<https://github.com/google/packetdrill>) tests a TCP/IP stack with scripts. Scripts
//! make socket calls, inject packets and say which packets are to leave when. Two drivers use the
//! [`Host`] of this crate. The plug-in in `plugin/` is loaded by packetdrill itself. The runner of
//! this crate reads the same language and needs no packetdrill.
//!
//! ```text
//!   packetdrill ── plugin (C interface, threads) ──┐
//!                                                  ├──▶ Host: descriptors, socket calls,
//!   make test ──── script (parser, executor) ──────┘          waiting, sysctls ──▶ inet::Stack
//! ```
//!
//! Time is a number that only the driver moves ([`Host::sleep`], [`Host::step`]). So a script runs
//! in no time and gives the same result each time.
//!
//! ```text layers
//! script: scripts, and the runner that plays them
//! host: descriptors, socket calls and waiting around the core
//! sysctl bytes errno: settings, memory, error numbers
//! ```
#![forbid(unsafe_code)]

mod bytes;
mod errno;
pub mod host;
pub mod script;
pub mod sysctl;

pub use bytes::{Chunk, Frame};
pub use host::Host;
pub use script::Script;
