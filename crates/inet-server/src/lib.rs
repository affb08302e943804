//! The inet server: the shell around the protocol core ([`inet`]), between programs and NIC
//! drivers.
//!
//! [`run`] is the whole life of the process. The supervisor names the frame regions and the
//! clients. The server moves data between them until the supervisor ends it:
//!
//! ```text
//!   program ─── request ring ───▶ calls ──▶ ┌──────┐ ──▶ nic (Egress) ─ tx ring ─▶ driver
//!   program ─── sending queue ──▶ tx ─────▶ │ core │
//!   program ◀── receiving queue ─ rx ◀───── └──────┘ ◀── nic ◀───────── rx ring ── driver
//!   program ◀── words, results ── socket, client
//! ```
//!
//! One thread at a time does all of it (modules `server`, `event_loop`). It runs bounded iterations
//! while there is work, then sleeps on one epoll set (`poller`). In the modes `split` and `fused`
//! this is the process's only thread. In mode `library` it is the program's thread that needs the
//! stack.
//!
//! The server believes nothing that a program or a driver writes. An impossible value becomes a
//! typed fault (`fault`). The server drops the program at fault, and all others go on.
//!
//! ```text layers
//! event_loop stepped: a thread that works and sleeps; a server that its owner drives
//! server: all of the server, and one iteration of its event loop
//! calls events homes: packaged calls of programs; events of the core; sockets that move
//! transfer: data between a client's queues and the core
//! options: socket options
//! client: a client's threads, sockets and memory
//! network xfrm: interfaces, addresses and routes; security associations and policies
//! engine: the state that all clients share
//! shared: sockets of which several processes may hold a descriptor
//! socket: one socket, and the words that its program reads
//! rx: the receiving half of a socket
//! nic: interfaces' rings and frames
//! tx: the sending half of a socket
//! observe poller refusal wakefulness: counters and traces; the epoll set; why a call fails;
//!     processors that do not halt
//! fault clock socket_owner: why a client is dropped; time and secrets; a socket's owner
//! error: why the server ends
//! ```
#![forbid(unsafe_code)]

mod calls;
mod client;
mod clock;
mod engine;
mod error;
mod event_loop;
mod events;
mod fault;
mod homes;
mod network;
mod nic;
mod observe;
mod options;
mod poller;
mod refusal;
mod rx;
mod server;
mod shared;
mod socket;
mod socket_owner;
mod stepped;
#[cfg(test)]
mod tests;
mod transfer;
mod tx;
mod wakefulness;
mod xfrm;

use std::fs::File;

pub use abi::companion::Companion;
use shm::Channel;

pub use crate::error::ServerError;
pub use crate::event_loop::{ControlActivity, EventLoop, SpinOutcome};
pub use crate::stepped::SteppedServer;
pub use crate::xfrm::MakeCipher;

/// Runs the inet server until the supervisor ends it (`Ok`) or it cannot go on. `latency` is
/// `/dev/cpu_dma_latency`, if the process could open it for writing: while the instance is busy,
/// the server may ask the kernel not to halt processors. `ciphers` are those of ESP; without them
/// there are no security associations.
///
/// # Errors
/// See [`ServerError`]. The server resets all connections before it returns the error.
pub fn run(
    channel: Channel,
    companion: Option<Box<dyn Companion>>,
    latency: Option<File>,
    ciphers: Option<MakeCipher>,
) -> Result<(), ServerError> {
    let mut event_loop = EventLoop::new(channel, companion.into_iter().collect())?;
    if let Some(latency) = latency {
        event_loop.keep_awake_by(latency);
    }
    if let Some(ciphers) = ciphers {
        event_loop.use_ciphers(ciphers);
    }
    loop {
        match event_loop.work(&mut || false)? {
            ControlActivity::Shutdown => return Ok(()),
            ControlActivity::None | ControlActivity::Served => event_loop.sleep()?,
        }
    }
}
