//! The process at the other end of a Unix socket (SO_PEERCRED, unix(7)).

#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::process::{Pid, Uid};

/// The process that connected, or that listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its process id; `None` if it is in a PID namespace that this process does not see.
    pub pid: Option<Pid>,
    /// Its effective user.
    pub uid: Uid,
}

/// The process at the other end of a connected Unix socket.
///
/// # Errors
/// The system's, for a descriptor that is none.
pub fn peer(socket: impl AsFd) -> Result<Peer, Errno> {
    let fd: BorrowedFd<'_> = socket.as_fd();
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    let (found_at, len_at) = (&raw mut found, &raw mut len);
    // By its number: a program's own getsockopt may lead back to us.
    // SAFETY: the kernel writes at most `len` bytes to `found`, which has so many; both live until
    // the end of this function.
    let done = unsafe {
        libc::syscall(
            libc::SYS_getsockopt,
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            found_at,
            len_at,
        )
    };
    if done < 0 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    }
    Ok(Peer { pid: Pid::from_raw(found.pid), uid: Uid::from_raw(found.uid) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_this_process() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let found = peer(&one).unwrap();
        assert_eq!(found.pid, Some(rustix::process::getpid()));
        assert_eq!(found.uid, rustix::process::geteuid());
        let (no_socket, _) = rustix::pipe::pipe().unwrap();
        assert_eq!(peer(&no_socket), Err(Errno::NOTSOCK));
    }
}
