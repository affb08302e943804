//! Waiting: how long the caller allows, and sleeping until sockets change.
//!
//! A thread that finds nothing to do announces on its bell that it sleeps, sets its bit in the
//! socket's `waiters` word, looks again, and sleeps (see `thread.rs`). The server writes its words,
//! counts `version` up and rings the bells of all waiters. Between looking and sleeping nothing is
//! lost. No spinning: on small machines it takes the time from the very server that is waited for.

use std::time::{Duration, Instant};

use abi::Errno;
use rustix::event::{PollFd, Timespec, poll};

use crate::client::Client;
use crate::socket::Socket;

/// Sleeps in a row that end before they begin, before one is forced.
const HURRIES: u32 = 1000;

/// How long an operation may wait for what it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Not at all: EAGAIN (for connect EINPROGRESS).
    No,
    /// As long as it takes. Signals whose handlers were installed with SA_RESTART do not end it.
    Forever,
    /// Until then, and EAGAIN afterwards; any signal ends it, as with SO_RCVTIMEO on Linux.
    Until(Instant),
}

impl Wait {
    /// Waiting for at most `limit`; `None` and what no clock can count is for ever.
    #[must_use]
    pub fn at_most(limit: Option<Duration>) -> Self {
        limit.and_then(|limit| Instant::now().checked_add(limit)).map_or(Self::Forever, Self::Until)
    }

    pub(crate) fn deadline(self) -> Option<Instant> {
        match self {
            Self::Until(deadline) => Some(deadline),
            Self::No | Self::Forever => None,
        }
    }

    /// Is there no time left?
    pub(crate) fn is_over(self) -> bool {
        match self {
            Self::No => true,
            Self::Forever => false,
            Self::Until(deadline) => Instant::now() >= deadline,
        }
    }
}

/// A socket to watch, and its version when it was last looked at ([`crate::Readiness::version`]).
#[derive(Debug, Clone, Copy)]
pub struct Watch<'a> {
    /// The socket.
    pub socket: &'a Socket,
    /// Its version then.
    pub version: u32,
}

impl Watch<'_> {
    fn changed(&self) -> bool {
        self.socket.version() != self.version
    }
}

/// What is left until `deadline`, for poll; `None` is for ever.
pub(crate) fn timespec(deadline: Option<Instant>) -> Option<Timespec> {
    let left = deadline?.saturating_duration_since(Instant::now());
    Timespec::try_from(left).ok()
}

/// Does `attempt` until it gives something, sleeping on `socket` in between as `wait` allows.
///
/// `ripe` is asked before each sleep, after everything is announced: true ends the sleep before it
/// begins. It may be stricter than `attempt`, to wait for more than the least that is worth taking.
pub(crate) fn until<T>(
    socket: &Socket,
    wait: Wait,
    mut attempt: impl FnMut() -> Result<Option<T>, Errno>,
    ripe: impl Fn() -> bool,
) -> Result<T, Errno> {
    let client = socket.client();
    let mut hurried = 0;
    let mut drive = client.drive();
    loop {
        if let Some(done) = attempt()? {
            return Ok(done);
        }
        if wait.is_over() {
            // Who asks without waiting asks the stack, which is this thread.
            if let Some(drive) = drive.take() {
                drive.work(&mut || ripe());
                continue;
            }
            client.look_sometimes()?;
            return Err(Errno::AGAIN);
        }
        let thread = client.thread()?;
        thread.sleep(client, wait, || {
            socket.wait_for_change(thread.bit());
            hurried = if ripe() { hurried + 1 } else { 0 };
            hurried > 0
        })?;
        if hurried >= HURRIES {
            // Words that promise what the queues do not hold must not take a whole core.
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Client {
    /// Before a look that does not wait says that there is nothing: does the work of a stack in
    /// this process, and says whether it is there. Then look again.
    #[must_use]
    pub fn attend(&self) -> bool {
        let drive = self.drive().filter(|_| self.check_memory().is_ok());
        drive.iter().for_each(|drive| drive.work(&mut || false));
        drive.is_some()
    }

    /// Sleeps until one of the `watched` sockets may have changed since the version given for it,
    /// poll(2) reports something for `kernel` (`revents` are filled in), or `deadline` has passed.
    ///
    /// It may return for no reason: look at everything again. `watched` sockets must be this
    /// client's.
    ///
    /// # Errors
    /// EINTR for any signal, as poll(2); ENOTCONN in a forked child; what poll(2) gives.
    pub fn wait_any(
        &self,
        watched: &[Watch<'_>],
        kernel: &mut [PollFd<'_>],
        deadline: Option<Instant>,
    ) -> Result<(), Errno> {
        if watched.is_empty() {
            return poll(kernel, timespec(deadline).as_ref()).map(drop);
        }
        self.check_memory().or_else(|errno| match errno {
            // The sockets say so themselves, by ERR and HUP.
            Errno::NETDOWN => Ok(()),
            other => Err(other),
        })?;
        let changed = || watched.iter().any(Watch::changed);
        if !self.is_alive() || changed() || deadline.is_some_and(|at| Instant::now() >= at) {
            return match kernel {
                [] => Ok(()),
                kernel => poll(kernel, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).map(drop),
            };
        }
        let thread = match self.thread() {
            Err(Errno::NETDOWN) => return Ok(()),
            other => other?,
        };
        let look_again = || {
            for watch in watched {
                watch.socket.wait_for_change(thread.bit());
            }
            changed()
        };
        let slept = match kernel {
            [] => {
                let wait = Wait::Until(deadline.unwrap_or_else(far_away));
                thread.sleep(self, wait, look_again)
            }
            kernel => thread.poll(self, kernel, deadline, look_again),
        };
        match slept {
            Err(Errno::NETDOWN) => Ok(()),
            other => other,
        }
    }
}

/// A deadline that is none: sleeps end with any signal, and are cut into slices anyway.
fn far_away() -> Instant {
    Instant::now() + Duration::from_secs(3600)
}
