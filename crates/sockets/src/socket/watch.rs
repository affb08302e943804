//! Waiting for one of many sockets, and for descriptors of the kernel.

use std::time::Instant;

use abi::Errno;
use rustix::event::{PollFd, Timespec, poll};

use super::handle::Socket;
use crate::wait::{Wait, far_away, timespec};

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

impl Socket {
    /// [`Client::attend`](crate::Client::attend) of the socket's client.
    #[must_use]
    pub fn attend(&self) -> bool {
        self.membership().attend()
    }
}

/// [`Client::wait_any`](crate::Client::wait_any) of the `watched` sockets' client.
///
/// # Errors
/// As there.
pub fn wait_any(
    watched: &[Watch<'_>],
    kernel: &mut [PollFd<'_>],
    deadline: Option<Instant>,
) -> Result<(), Errno> {
    let Some(first) = watched.first() else {
        return poll(kernel, timespec(deadline).as_ref()).map(drop);
    };
    let membership = first.socket.membership();
    let server = &membership.server;
    server.check_memory().or_else(|errno| match errno {
        // The sockets say so themselves, by ERR and HUP.
        Errno::NETDOWN => Ok(()),
        other => Err(other),
    })?;
    let changed = || watched.iter().any(Watch::changed);
    if !server.is_alive() || changed() || deadline.is_some_and(|at| Instant::now() >= at) {
        return match kernel {
            [] => Ok(()),
            kernel => poll(kernel, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).map(drop),
        };
    }
    let thread = match membership.thread() {
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
            // Any signal ends it.
            let wait = Wait::Until(deadline.unwrap_or_else(far_away));
            thread.sleep(server, wait, look_again)
        }
        kernel => thread.poll(server, kernel, deadline, look_again),
    };
    match slept {
        Err(Errno::NETDOWN) => Ok(()),
        other => other,
    }
}
