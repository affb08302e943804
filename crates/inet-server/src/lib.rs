//! The inet server: the shell around the protocol core ([`inet`]) that programs and NIC drivers
//! talk to.
//!
//! [`run`] is the whole life of the process. It is told by the supervisor which frame regions and
//! which clients there are, and then moves data between them until it is told to end:
//!
//! ```text
//!   program ─── request ring ───▶ calls ──▶ ┌──────┐ ──▶ nic (Egress) ─ tx ring ─▶ driver
//!   program ─── sending queue ──▶ tx ─────▶ │ core │
//!   program ◀── receiving queue ─ rx ◀───── └──────┘ ◀── nic ◀───────── rx ring ── driver
//!   program ◀── words, results ── socket, client
//! ```
//!
//! One thread at a time does all of it (modules `server`, `turning`): bounded turns while there is
//! work, then sleep on one epoll set (`sleep`). In the modes `split` and `fused` that is this
//! process's only thread; in mode `library` whichever thread of the program needs it. Nothing a
//! program or driver writes is believed: what is impossible becomes a typed fault, the program is
//! dropped alone, and all others go on (`fault`).
#![forbid(unsafe_code)]

mod calls;
mod cancel;
mod client;
mod counters;
mod data;
mod datagrams;
mod dirty;
mod engine;
mod events;
mod fault;
mod lend;
mod network;
mod nic;
mod offload;
mod options;
mod rx;
mod server;
mod sleep;
mod socket;
mod ss;
mod stages;
mod stepped;
mod supervisor;
#[cfg(test)]
mod tests;
mod turning;
mod tx;

use std::io;
use std::time::Duration;

pub use abi::companion::Companion;
use inet::Instant;
use rustix::time::{ClockId, clock_gettime};
use shm::{Channel, ChannelError};

pub use crate::stepped::Stepped;
pub use crate::supervisor::Told;
pub use crate::turning::{Look, Turning};

/// Why the server ended otherwise than asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The supervisor's end of the line is closed.
    #[error("the supervisor is gone")]
    SupervisorGone,
    /// The supervisor said something that has no meaning here.
    #[error("the supervisor sent a bad message: {0}")]
    BadMessage(String),
    /// The line broke.
    #[error("the line to the supervisor failed: {0}")]
    Line(#[from] ChannelError),
    /// A reply could not be written as JSON; a fault of this program.
    #[error("a reply could not be encoded: {0}")]
    Encode(#[source] serde_json::Error),
    /// A system call failed that the server cannot do without.
    #[error("{what} failed: {source}")]
    System {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The driver in this process (fused mode) cannot go on.
    #[error("the driver in this process failed: {0}")]
    Companion(String),
}

/// Runs the inet server until the supervisor ends it (`Ok`) or it cannot go on.
///
/// # Errors
/// See [`ServerError`]. Also then all connections are reset first.
pub fn run(channel: Channel, companion: Option<Box<dyn Companion>>) -> Result<(), ServerError> {
    let mut turning = Turning::new(channel, companion.into_iter().collect())?;
    loop {
        match turning.work(&mut || false)? {
            Told::Shutdown => return Ok(()),
            Told::Nothing | Told::Something => turning.sleep()?,
        }
    }
}

/// Nanoseconds of the monotonic clock.
fn clock() -> Instant {
    let now = clock_gettime(ClockId::Monotonic);
    let nanos = Duration::try_from(now).map_or(0, |since| since.as_nanos());
    Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Bytes that nobody can guess.
fn secret() -> Result<[u8; 16], ServerError> {
    let mut secret = [0; 16];
    let flags = rustix::rand::GetRandomFlags::empty();
    rustix::rand::getrandom(&mut secret, flags)
        .map_err(|errno| system("getrandom")(errno.into()))?;
    Ok(secret)
}

fn system(what: &'static str) -> impl Fn(io::Error) -> ServerError {
    move |source| ServerError::System { what, source }
}
