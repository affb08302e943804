//! The relay of a user who may not have a network namespace with a TUN device.
//!
//! Programs with the library do not need one. So this relay introduces them, and refuses other
//! programs' sockets. The first refusal is explained on standard error.

use std::io;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::introduction::{Introductions, answer, is_asked_for};
use crate::notification::NotificationSocket;

/// Serves programs until the last one has ended. `why` there is no namespace.
///
/// # Errors
/// The system's.
pub(crate) fn serve(
    calls: &NotificationSocket,
    introductions: &mut Introductions,
    why: &io::Error,
) -> io::Result<()> {
    let mut said = false;
    loop {
        let mut fds = [PollFd::new(calls, PollFlags::IN)];
        rustix::io::retry_on_intr(|| poll(&mut fds, None))?;
        if !fds[0].revents().contains(PollFlags::IN) {
            return Ok(());
        }
        let Some(call) = calls.receive()? else { continue };
        if call.call != libc::SYS_socket {
            calls.let_through(&call);
        } else if is_asked_for(&call) {
            answer(introductions, calls, &call);
        } else {
            calls.answer(&call, Err(Errno::NETDOWN));
            if !said {
                tracing::warn!(
                    "a program makes sockets without libc, and has no network: there is no \
                     relay for it, since this user cannot make a TUN device ({why})"
                );
            }
            said = true;
        }
    }
}
