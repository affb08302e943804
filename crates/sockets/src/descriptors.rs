//! High numbers for the library's own descriptors.

use std::os::fd::{OwnedFd, RawFd};

/// Where the library's own descriptors go when the limit allows: far from the small numbers that
/// programs expect to get, below FD_SETSIZE.
const FD_FLOOR: RawFd = 600;

/// The lowest number for our own descriptors that the process's limit leaves room above.
pub(crate) fn fd_floor() -> RawFd {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.and_then(|limit| RawFd::try_from(limit).ok()).unwrap_or(RawFd::MAX);
    FD_FLOOR.min((limit - limit / 8).saturating_sub(64)).max(3)
}

/// The same descriptor under a high number, or as it was when there is none.
pub(crate) fn move_high(fd: OwnedFd) -> OwnedFd {
    rustix::io::fcntl_dupfd_cloexec(&fd, fd_floor()).unwrap_or(fd)
}
