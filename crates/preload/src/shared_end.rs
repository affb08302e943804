//! A program's end of a shared socket's pair takes the place of a placeholder.

#![allow(unsafe_code)]

use core::ffi::c_int;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::errno::{self, Outcome};
use crate::open_socket::OpenSocket;
use crate::{adopted, real};

/// Makes `end` like the placeholder of `open`.
pub(crate) fn prepare(open: &OpenSocket, end: &OwnedFd) -> Outcome<()> {
    adopted::mark(end.as_raw_fd())?;
    if open.is_nonblocking() {
        rustix::io::ioctl_fionbio(end, true)?;
    }
    Ok(())
}

/// Puts `end` under the number `fd`, whose close-on-exec stays as it is.
pub(crate) fn put_under(end: &OwnedFd, fd: c_int) -> Outcome<c_int> {
    // SAFETY: the command takes no argument.
    let flags = errno::check(unsafe { real::fcntl(fd, libc::F_GETFD, 0) })?;
    let flags = if flags & libc::FD_CLOEXEC != 0 { libc::O_CLOEXEC } else { 0 };
    // SAFETY: no pointers. `fd` is a placeholder, which nothing else uses.
    errno::check(unsafe { real::dup3(end.as_raw_fd(), fd, flags) })
}
