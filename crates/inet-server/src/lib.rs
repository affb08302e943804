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
//! One thread does all of it (module `server`): bounded turns while there is work, then sleep on
//! one epoll set (`sleep`). Nothing a program or driver writes is believed: what is impossible
//! becomes a typed fault, the program is dropped alone, and all others go on (`fault`).
#![forbid(unsafe_code)]

mod calls;
mod cancel;
mod client;
mod counters;
mod data;
mod datagrams;
mod engine;
mod events;
mod fault;
mod network;
mod nic;
mod offload;
mod options;
mod rx;
mod server;
mod sleep;
mod socket;
mod ss;
mod stepped;
mod supervisor;
#[cfg(test)]
mod tests;
mod tx;

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use inet::Instant;
use rustix::time::{ClockId, clock_gettime};
use shm::{Channel, ChannelError};

use crate::server::Server;
pub use crate::stepped::Stepped;
use crate::supervisor::{Line, Told};

/// While there is no sleep the supervisor's line is looked at this often.
const LINE_EVERY: Duration = Duration::from_millis(2);
/// Turns without work before sleeping. On a machine with two cores a spinning server takes the time
/// of the program or driver that it waits for.
const SPIN: u32 = 0;

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

/// Somebody else who works in the server's thread: in fused mode the NIC driver.
pub trait Companion {
    /// Does a bounded amount of work; false when there was nothing to do.
    ///
    /// # Errors
    /// One sentence, when it cannot go on; the server ends.
    fn step(&mut self) -> Result<bool, String>;
    /// Announces sleep and looks for work once more; true when the thread may sleep, false when
    /// there is work after all.
    fn prepare_sleep(&mut self) -> bool;
    /// The thread is awake again.
    ///
    /// `called`: one of [`Companion::poll_fds`] was readable.
    fn awake(&mut self, called: bool);
    /// What wakes it when it is readable. Asked for once, at the start.
    fn poll_fds(&self) -> Vec<BorrowedFd<'_>>;
}

/// Runs the inet server until the supervisor ends it (`Ok`) or it cannot go on.
///
/// # Errors
/// See [`ServerError`]. Also then all connections are reset first.
pub fn run(channel: Channel, companion: Option<Box<dyn Companion>>) -> Result<(), ServerError> {
    let mut line = Line::new(channel);
    let config = line.configure()?;
    let mut server = Server::new(config, secret()?).map_err(system("epoll_create"))?;
    tracing::info!(instance = server.config.instance, "inet server");
    let ended = Loop { line, server: &mut server, companion, line_due: Instant::ZERO }.run();
    if ended.is_err() {
        server.shut_down(clock());
    }
    ended
}

/// The event loop.
struct Loop<'a> {
    line: Line,
    server: &'a mut Server,
    companion: Option<Box<dyn Companion>>,
    /// When to look at the line although nothing woke us.
    line_due: Instant,
}

impl Loop<'_> {
    fn run(&mut self) -> Result<(), ServerError> {
        let watch = system("epoll_ctl");
        self.server.poller.add_line(self.line.channel()).map_err(&watch)?;
        for fd in self.companion.iter().flat_map(|companion| companion.poll_fds()) {
            self.server.poller.add_companion(fd).map_err(&watch)?;
        }
        let (mut idle, mut woken) = (0, false);
        loop {
            let now = clock();
            if now >= self.line_due {
                self.line_due = now + LINE_EVERY;
                if self.line.serve(self.server, now)? == Told::Shutdown {
                    return self.finish();
                }
            }
            let mut progress = self.server.turn(now);
            self.line.report(self.server.take_events())?;
            progress |= self.step_companion()?;
            let idle_wake = std::mem::take(&mut woken) && !progress;
            self.server.engine.counters.idle_wakes += u64::from(idle_wake);
            idle = if progress { 0 } else { idle + 1 };
            if idle > SPIN {
                woken = self.sleep()?;
                idle = 0;
            }
        }
    }

    fn step_companion(&mut self) -> Result<bool, ServerError> {
        match &mut self.companion {
            Some(companion) => companion.step().map_err(ServerError::Companion),
            None => Ok(false),
        }
    }

    /// Sleeps until somebody rings or a timer is due. Did somebody ring?
    fn sleep(&mut self) -> Result<bool, ServerError> {
        self.server.announce();
        if self.server.has_work() {
            self.server.awake();
            return Ok(false);
        }
        let mut rung = false;
        let ready = self.companion.as_mut().is_none_or(|companion| companion.prepare_sleep());
        if ready {
            self.server.engine.counters.sleeps += 1;
            let timeout = self.server.deadline(clock());
            let woke = self.server.poller.wait(timeout).map_err(system("epoll_wait"))?;
            if woke.line {
                self.line_due = Instant::ZERO;
            }
            rung = woke.bell || woke.companion;
            if let Some(companion) = &mut self.companion {
                companion.awake(woke.companion);
            }
        }
        self.server.awake();
        Ok(rung)
    }

    /// After the last request: a driver in this thread still has to send what says goodbye.
    fn finish(&mut self) -> Result<(), ServerError> {
        for _ in 0..64 {
            if !self.step_companion()? {
                break;
            }
        }
        Ok(())
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
