//! Where a process keeps the descriptors that these crates make in it.
//!
//! In a server process the kernel chooses the numbers. A program that has the stack inside (mode
//! `library`) expects low numbers for itself, closes descriptors that it does not know, and may
//! fork. There the descriptors are *kept*: moved to a floor and above, and remembered. Nothing is
//! kept until [`keep_from`] was called.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Numbers from here on are not remembered.
const LIMIT: usize = 4096;

/// Where a library's descriptors go in a program when the limit allows: far from the small numbers
/// that programs expect to get, below FD_SETSIZE.
const LIBRARY_FLOOR: RawFd = 600;

/// Descriptors stay where they are when this is 0.
static FLOOR: AtomicI32 = AtomicI32::new(0);
static KEPT: [AtomicU64; LIMIT / 64] = [const { AtomicU64::new(0) }; LIMIT / 64];

/// The lowest number for a library's own descriptors in a program. The process's limit on
/// descriptors leaves room above it.
#[must_use]
pub fn library_floor() -> RawFd {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.and_then(|limit| RawFd::try_from(limit).ok()).unwrap_or(RawFd::MAX);
    LIBRARY_FLOOR.min((limit - limit / 8).saturating_sub(64)).max(3)
}

/// From now on [`keep`] moves descriptors to `floor` and above.
pub fn keep_from(floor: RawFd) {
    FLOOR.store(floor, Ordering::Release);
}

/// A descriptor of ours, under the number that it is to have; closed on exec.
#[must_use]
pub fn keep(fd: OwnedFd) -> OwnedFd {
    let floor = FLOOR.load(Ordering::Acquire);
    if floor == 0 {
        return fd;
    }
    // Without room above the floor it stays where it is.
    let moved = rustix::io::fcntl_dupfd_cloexec(&fd, floor).unwrap_or(fd);
    if let Some((word, bit)) = place(moved.as_raw_fd()) {
        word.fetch_or(bit, Ordering::AcqRel);
    }
    moved
}

/// Is `fd` kept?
#[must_use]
pub fn is_kept(fd: RawFd) -> bool {
    place(fd).is_some_and(|(word, bit)| word.load(Ordering::Acquire) & bit != 0)
}

/// `fd` is about to be closed; was it kept?
pub fn forget(fd: RawFd) -> bool {
    place(fd).is_some_and(|(word, bit)| word.fetch_and(!bit, Ordering::AcqRel) & bit != 0)
}

/// All descriptors that are kept, ascending.
#[must_use]
pub fn kept() -> Vec<RawFd> {
    let below = RawFd::try_from(LIMIT).unwrap_or(0);
    (0..below).filter(|&fd| is_kept(fd)).collect()
}

fn place(fd: RawFd) -> Option<(&'static AtomicU64, u64)> {
    let fd = usize::try_from(fd).ok()?;
    Some((KEPT.get(fd / 64)?, 1 << (fd % 64)))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn kept_descriptors_are_high_and_known() {
        let plain = keep(crate::eventfd().unwrap());
        assert!(!is_kept(plain.as_raw_fd()));
        keep_from(300);
        let kept_fd = keep(plain);
        let number = kept_fd.as_raw_fd();
        assert!(number >= 300);
        assert!(is_kept(number) && kept().contains(&number));
        assert!(forget(number));
        assert!(!forget(number) && !is_kept(number));
        assert!(!is_kept(-1) && !is_kept(RawFd::MAX));
        keep_from(0);
    }
}
