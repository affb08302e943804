//! May the other end of a Unix socket pass descriptors (SCM_RIGHTS)?
//!
//! A descriptor that another process passes is closed by the receiver at the latest, even if the
//! receiver never took it. The kernel closes it within recv(2) or close(2), and that takes as long
//! as the sender chose: SO_LINGER on a TCP socket, the daemon behind a file of FUSE.
//!
//! Linux 6.16 has an option for that, SO_PASSRIGHTS. A socket without it gets no descriptors: the
//! other end's sendmsg(2) fails with EPERM. Connections inherit the option of the listening socket.
//! Older kernels, and sockets whose other end has had the time to send, need [`crate::closer`].

#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::io::Errno;

/// asm-generic/socket.h
const SO_PASSRIGHTS: libc::c_int = 83;

/// From now on the other end of this Unix socket, or of a connection to this listening socket, can
/// pass no descriptors. Those that it has sent before stay in the socket's queue.
///
/// # Errors
/// [`Errno::NOPROTOOPT`] from kernels before Linux 6.16.
pub fn refuse_descriptors(socket: impl AsFd) -> Result<(), Errno> {
    let (fd, value): (BorrowedFd<'_>, libc::c_int) = (socket.as_fd(), 0);
    let (value, len) = (&raw const value, size_of::<libc::c_int>());
    // By its number: a program's own setsockopt may lead back to us.
    // SAFETY: the kernel reads the `len` bytes of `value`, which live until the end of this
    // function.
    let done = unsafe {
        libc::syscall(
            libc::SYS_setsockopt,
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            value,
            len,
        )
    };
    if done < 0 { Err(last_errno()) } else { Ok(()) }
}

/// Can the other end of this socket pass descriptors?
#[must_use]
pub fn takes_descriptors(socket: impl AsFd) -> bool {
    let fd: BorrowedFd<'_> = socket.as_fd();
    let (mut value, mut len) = (1 as libc::c_int, size_of::<libc::c_int>() as libc::socklen_t);
    let (value_at, len_at) = (&raw mut value, &raw mut len);
    // SAFETY: the kernel writes at most `len` bytes to `value`, which has so many; both live until
    // the end of this function.
    let done = unsafe {
        libc::syscall(
            libc::SYS_getsockopt,
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            value_at,
            len_at,
        )
    };
    // A kernel that does not know the option always passes them.
    done < 0 || value != 0
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
