//! The relay before a program needs it, which most programs never do.
//!
//! Programs with the library are introduced, and make their sockets themselves. The relay becomes a
//! client of the instance with the first call that only it can answer.

use std::io;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::introduction::{Introductions, answer, is_asked_for};
use crate::notification::{Notification, NotificationSocket};

/// Introduces programs until one makes a socket without the library: that call. `None`: the last
/// program has ended.
///
/// # Errors
/// The system's.
pub(crate) fn first_socket(
    calls: &NotificationSocket,
    introductions: &mut Option<Introductions>,
) -> io::Result<Option<Notification>> {
    loop {
        let mut fds = [PollFd::new(calls, PollFlags::IN)];
        rustix::io::retry_on_intr(|| poll(&mut fds, None))?;
        if !fds[0].revents().contains(PollFlags::IN) {
            return Ok(None);
        }
        let Some(call) = calls.receive()? else { continue };
        if call.call != libc::SYS_socket {
            calls.let_through(&call);
        } else if is_asked_for(&call) {
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

/// Introduces programs until the last one has ended, and refuses the sockets of others: they cannot
/// be relayed, and `why`. The first refusal is explained on standard error.
///
/// # Errors
/// The system's.
pub(crate) fn refuse(
    calls: &NotificationSocket,
    introductions: &mut Option<Introductions>,
    why: &str,
) -> io::Result<()> {
    let mut said = false;
    while let Some(call) = first_socket(calls, introductions)? {
        calls.answer(&call, Err(Errno::NETDOWN));
        if !said {
            tracing::warn!("a program makes sockets without libc, and has no network: {why}");
        }
        said = true;
    }
    Ok(())
}
