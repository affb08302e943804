//! The relay before a program needs it, which most programs never do.
//!
//! Programs with the library are introduced, and make their sockets themselves. The relay becomes a
//! client of the instance with the first call that only it can answer. Until then it looks for new
//! name servers now and then, if the instance learns some and programs see them.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::call::{Notification, is_introduction, netlink_protocol};
use crate::introduction::{Introductions, answer};
use crate::notification::NotificationSocket;
use crate::resolver::ShownResolver;
use crate::{at_once, child};

/// How long a program's file may have former name servers.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

/// Programs whose sockets the relay does not make, or not yet.
pub(crate) struct WaitingPrograms<'a> {
    pub(crate) calls: NotificationSocket,
    /// Or one sentence: why the relay introduces nobody.
    pub(crate) introductions: Result<Introductions, String>,
    pub(crate) resolver: Option<ShownResolver>,
    /// The line to the process that collects this one, until that ends.
    pub(crate) caller: Option<&'a OwnedFd>,
}

impl WaitingPrograms<'_> {
    /// Introduces programs until one makes a socket without the library: that call. `None`: the
    /// last program has ended.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn first_socket(&mut self) -> io::Result<Option<Notification>> {
        let mut learns = self.update();
        loop {
            let pause = learns.then_some(&LOOK_AGAIN);
            let mut fds = vec![PollFd::new(&self.calls, PollFlags::IN)];
            fds.extend(self.caller.map(|line| PollFd::new(line, PollFlags::IN)));
            if rustix::io::retry_on_intr(|| poll(&mut fds, pause))? == 0 {
                learns = self.update();
                continue;
            }
            if fds[0].revents().is_empty() {
                if let Some(line) = self.caller.take() {
                    child::outlive(line);
                }
                continue;
            }
            if !fds[0].revents().contains(PollFlags::IN) {
                return Ok(None);
            }
            let Some(call) = self.calls.receive()? else { continue };
            if at_once::answer(&self.calls, &call) {
                continue;
            }
            if call.call != libc::SYS_socket {
                self.calls.let_through(&call);
            } else if is_introduction(&call) {
                match &mut self.introductions {
                    Ok(introductions) => answer(introductions, &self.calls, &call),
                    // As without a relay: the library then looks for the instance's socket.
                    Err(_) => self.calls.answer(&call, Err(Errno::INVAL)),
                }
            } else {
                return Ok(Some(call));
            }
        }
    }

    /// Programs see the instance's name servers as they are now. True: these may change.
    fn update(&mut self) -> bool {
        let (Ok(introductions), Some(shown)) = (&mut self.introductions, &self.resolver) else {
            return false;
        };
        match introductions.network() {
            Ok(network) => {
                shown.update(&network.resolver);
                network.resolver.learns
            }
            Err(error) => {
                tracing::debug!(%error, "the instance does not tell its name servers");
                false
            }
        }
    }

    /// Introduces programs until the last one has ended, and refuses the sockets of others: they
    /// cannot be relayed, and `why`. `first` is a call that waits already. The first refusal is
    /// explained on standard error.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn refuse(&mut self, first: Notification, why: &str) -> io::Result<()> {
        let (mut said, mut next) = (false, Some(first));
        while let Some(call) = next {
            self.calls.answer(&call, Err(Errno::NETDOWN));
            at_once::tell_of_lists(&call);
            // Programs that look at interfaces make no network.
            if netlink_protocol(&call).is_none() && !said {
                tracing::warn!("a program makes sockets without libc, and has no network: {why}");
                said = true;
            }
            next = self.first_socket()?;
        }
        Ok(())
    }
}
