//! The relay before a program needs it, which most programs never do.
//!
//! Programs with the library are introduced, and make their sockets themselves. The relay becomes a
//! client of the instance with the first call that only it can answer. Until then it looks for new
//! name servers now and then, if the instance learns some and programs see them.

use std::io;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::at_once;
use crate::call::{Notification, is_introduction, netlink_protocol};
use crate::introduction::{Introductions, answer};
use crate::notification::NotificationSocket;
use crate::resolver::ShownResolver;

/// How long a program's file may have former name servers.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

/// Introduces programs until one makes a socket without the library: that call. `None`: the last
/// program has ended.
///
/// # Errors
/// The system's.
pub(crate) fn first_socket(
    calls: &NotificationSocket,
    introductions: &mut Option<Introductions>,
    resolver: Option<&ShownResolver>,
) -> io::Result<Option<Notification>> {
    let mut learns = update(introductions, resolver);
    loop {
        let mut fds = [PollFd::new(calls, PollFlags::IN)];
        let pause = learns.then_some(&LOOK_AGAIN);
        if rustix::io::retry_on_intr(|| poll(&mut fds, pause))? == 0 {
            learns = update(introductions, resolver);
            continue;
        }
        if !fds[0].revents().contains(PollFlags::IN) {
            return Ok(None);
        }
        let Some(call) = calls.receive()? else { continue };
        if at_once::answer(calls, &call) {
            continue;
        }
        if call.call != libc::SYS_socket {
            calls.let_through(&call);
        } else if is_introduction(&call) {
            match introductions {
                Some(introductions) => answer(introductions, calls, &call),
                // As without a relay: the library then looks for the instance's socket.
                None => calls.answer(&call, Err(Errno::INVAL)),
            }
        } else {
            return Ok(Some(call));
        }
    }
}

/// Programs see the instance's name servers as they are now. True: these may change.
fn update(introductions: &mut Option<Introductions>, resolver: Option<&ShownResolver>) -> bool {
    let (Some(introductions), Some(shown)) = (introductions, resolver) else { return false };
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

/// Introduces programs until the last one has ended, and refuses the sockets of others: they cannot
/// be relayed, and `why`. `first` is a call that waits already. The first refusal is explained on
/// standard error.
///
/// # Errors
/// The system's.
pub(crate) fn refuse(
    calls: &NotificationSocket,
    introductions: &mut Option<Introductions>,
    first: Option<Notification>,
    why: &str,
) -> io::Result<()> {
    let (mut said, mut next) = (false, first);
    loop {
        let call = match next.take() {
            Some(call) => call,
            None => match first_socket(calls, introductions, None)? {
                Some(call) => call,
                None => return Ok(()),
            },
        };
        calls.answer(&call, Err(Errno::NETDOWN));
        if netlink_protocol(&call).is_some() {
            continue;
        }
        if !said {
            tracing::warn!("a program makes sockets without libc, and has no network: {why}");
        }
        said = true;
    }
}
