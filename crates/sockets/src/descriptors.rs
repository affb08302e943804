//! High numbers for the library's own descriptors.

use std::os::fd::OwnedFd;

use shm::descriptors::library_floor;

/// The same descriptor under a high number, or as it was when there is none.
pub(crate) fn move_high(fd: OwnedFd) -> OwnedFd {
    rustix::io::fcntl_dupfd_cloexec(&fd, library_floor()).unwrap_or(fd)
}
