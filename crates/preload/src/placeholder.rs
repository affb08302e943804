//! Placeholders: the kernel descriptors that stand for Tasuki sockets.
//!
//! A Unix socket that is connected to nothing takes the kernel ten times as long to make and to
//! end as a descriptor of one that is there. So the one of the first stream that is closed is
//! *kept* under a high number of the shim's own, and the next stream's descriptor is a duplicate of
//! it, as long as no other one is: programs that connect again and again make no second one, and a
//! socket costs them one system call at its begin and one at its end, as the kernel's does. Two
//! sockets never share a placeholder, and one that was non-blocking at its end, which others may
//! see, is not kept on.

#![allow(unsafe_code)]

use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, Ordering};
use std::sync::Arc;

use sockets::SocketKind;

use crate::entry::{self, Entry, Held, TABLE};
use crate::errno::{self, Outcome};
use crate::{instance, real};

/// The state in which nothing is kept.
const NONE: c_int = -1;

/// The kept placeholder of a stream: its number while it is free, [`lent`] of that while it stands
/// for a socket.
static KEPT: AtomicI32 = AtomicI32::new(NONE);

/// The state in which the kept placeholder `fd` stands for a socket, and back.
fn lent(fd: c_int) -> c_int {
    NONE - 1 - fd
}

/// A kernel descriptor that is closed again unless it comes to stand for a socket.
pub(crate) struct Placeholder {
    fd: c_int,
    /// It is a duplicate of the kept one.
    kept: bool,
}

impl Placeholder {
    /// A Unix socket of the same type: it can do nothing, and `fstat` calls it a socket. `flags`:
    /// SOCK_NONBLOCK and SOCK_CLOEXEC.
    ///
    /// # Errors
    /// The kernel's: EMFILE, ENFILE, ENOMEM.
    pub(crate) fn new(kind: SocketKind, flags: c_int) -> Outcome<Self> {
        let kind = match kind {
            SocketKind::Stream => libc::SOCK_STREAM,
            SocketKind::Datagram => libc::SOCK_DGRAM,
        };
        if kind == libc::SOCK_STREAM
            && flags & libc::SOCK_NONBLOCK == 0
            && let Some(kept) = borrow()
        {
            let close_on_exec = flags & libc::SOCK_CLOEXEC != 0;
            let command = if close_on_exec { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
            // SAFETY: the command takes an int, the least number that it may give.
            if let Ok(fd) = errno::check(unsafe { real::fcntl(kept, command, 0) }) {
                return Ok(Self { fd, kept: true });
            }
            // The last number below the limit may be the kept one's.
            end(false);
        }
        // SAFETY: no pointers.
        errno::check(unsafe { real::socket(libc::AF_UNIX, kind | flags, 0) })
            .map(|fd| Self { fd, kept: false })
    }

    /// It is the socket's from now on; its number.
    ///
    /// # Errors
    /// EMFILE when the number is beyond the table.
    pub(crate) fn stand_for(mut self, entry: Arc<Entry>) -> Outcome<c_int> {
        // Known to the entry before anybody can close it.
        entry.set_on_kept(core::mem::take(&mut self.kept));
        entry::install(self.fd, Held::Socket(entry))?;
        let fd = self.fd;
        core::mem::forget(self);
        Ok(fd)
    }
}

impl Drop for Placeholder {
    fn drop(&mut self) {
        // SAFETY: the descriptor is this value's own.
        unsafe { real::close(self.fd) };
        if self.kept {
            end(true);
        }
    }
}

/// The kept placeholder, if it is free; it is not any more.
fn borrow() -> Option<c_int> {
    let kept = KEPT.load(Ordering::Relaxed);
    let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
    (kept >= 0 && KEPT.compare_exchange(kept, lent(kept), success, failure).is_ok()).then_some(kept)
}

/// The kept placeholder stands for its socket no more; with `fresh` it is as it was, and free.
pub(crate) fn end(fresh: bool) {
    let kept = lent(KEPT.load(Ordering::Relaxed));
    if fresh {
        // Nobody else changes it while it is lent, but a forked child, which has its own.
        KEPT.store(kept, Ordering::Release);
        return;
    }
    TABLE.take(kept);
    KEPT.store(NONE, Ordering::Release);
    // SAFETY: it is the shim's own, and known to nobody any more.
    unsafe { real::close(kept) };
}

/// `fd` is about to be closed, and stands for nothing any more: keeps what it names for the next
/// socket, if `entry` has no other descriptor and nothing is kept. Without a number for it that is
/// not done.
pub(crate) fn keep(fd: c_int, entry: &Entry) {
    let fresh = entry.socket.kind() == SocketKind::Stream && !entry.is_nonblocking();
    if !fresh || !entry.is_last() || KEPT.load(Ordering::Relaxed) != NONE {
        return;
    }
    let floor = libc::c_ulong::from(instance::own_fd_floor().unsigned_abs());
    // SAFETY: the command takes an int, the least number that it may give.
    let Ok(kept) = errno::check(unsafe { real::fcntl(fd, libc::F_DUPFD_CLOEXEC, floor) }) else {
        return;
    };
    let known = entry::install(kept, Held::Internal).is_ok();
    if !known || KEPT.compare_exchange(NONE, kept, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        // Another thread has kept one meanwhile.
        TABLE.take(kept);
        // SAFETY: made above, and nobody else's.
        unsafe { real::close(kept) };
    }
}

/// In a forked child: what is kept is the parent's too.
pub(crate) fn forget() {
    let kept = match KEPT.swap(NONE, Ordering::AcqRel) {
        NONE => return,
        lent_out if lent_out < 0 => lent(lent_out),
        free => free,
    };
    // SAFETY: no pointers; nothing of this process uses it.
    unsafe { real::close(kept) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of the open file behind a descriptor.
    fn file(fd: c_int) -> u64 {
        // SAFETY: the descriptor stays open for as long as this takes.
        let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
        rustix::fs::fstat(fd).unwrap().st_ino
    }

    #[test]
    fn the_kept_one_stands_for_one_socket_at_a_time() {
        let new = |flags| Placeholder::new(SocketKind::Stream, flags).unwrap();
        let first = new(libc::SOCK_CLOEXEC);
        assert!(!first.kept, "nothing is kept yet");
        // SAFETY: the command takes an int.
        let kept = unsafe { real::fcntl(first.fd, libc::F_DUPFD_CLOEXEC, 100) };
        assert!(TABLE.put(kept, Held::Internal).is_ok());
        KEPT.store(kept, Ordering::Release);
        drop(first);

        let one = new(libc::SOCK_CLOEXEC);
        assert_eq!((one.kept, file(one.fd)), (true, file(kept)));
        let another = new(0);
        assert_eq!((another.kept, file(another.fd) == file(kept)), (false, false));
        drop(one);
        let again = new(0);
        assert_eq!((again.kept, file(again.fd)), (true, file(kept)));
        let nonblocking = new(libc::SOCK_NONBLOCK);
        assert!(!nonblocking.kept, "its flags would be seen");
        core::mem::take(&mut { again }.kept);
        end(false);
        assert_eq!(KEPT.load(Ordering::Acquire), NONE, "what was changed is not kept on");
        assert!(!TABLE.range(100, 2000).iter().any(|(fd, _)| *fd == kept));
    }
}
