//! Placeholders: the kernel descriptors that stand for Tasuki sockets.
//!
//! A Unix socket that is connected to nothing takes the kernel ten times as long to make and to
//! end as a descriptor of one that is there. So the one of a socket that is closed is *kept*, under
//! a high number of the shim's own, for the next socket of the process: programs that connect again
//! and again never make a second one. Two sockets never share one, and one that somebody else may
//! have, by `dup` or as a child, or that is non-blocking, is not kept.

#![allow(unsafe_code)]

use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, Ordering};
use std::sync::Arc;

use sockets::SocketKind;

use crate::entry::{self, Entry, Held, TABLE};
use crate::errno::{self, Outcome};
use crate::{instance, real};

/// The number that stands for no descriptor.
const NONE: c_int = -1;

/// The kept placeholder of a stream, if there is one.
static KEPT: AtomicI32 = AtomicI32::new(NONE);

/// A kernel descriptor that is closed again unless it comes to stand for a socket.
pub(crate) struct Placeholder(c_int);

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
            && let Some(kept) = take_kept()
        {
            let close_on_exec = flags & libc::SOCK_CLOEXEC != 0;
            let command = if close_on_exec { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
            // SAFETY: the command takes an int, the least number that it may give.
            let taken = errno::check(unsafe { real::fcntl(kept, command, 0) });
            // SAFETY: it was taken, so it is nobody else's.
            unsafe { real::close(kept) };
            return taken.map(Self);
        }
        // SAFETY: no pointers.
        errno::check(unsafe { real::socket(libc::AF_UNIX, kind | flags, 0) }).map(Self)
    }

    /// It is the socket's from now on; its number.
    ///
    /// # Errors
    /// EMFILE when the number is beyond the table.
    pub(crate) fn stand_for(self, entry: Arc<Entry>) -> Outcome<c_int> {
        entry::install(self.0, Held::Socket(entry))?;
        let fd = self.0;
        core::mem::forget(self);
        Ok(fd)
    }
}

impl Drop for Placeholder {
    fn drop(&mut self) {
        // SAFETY: the descriptor is this value's own.
        unsafe { real::close(self.0) };
    }
}

fn take_kept() -> Option<c_int> {
    let kept = Some(KEPT.swap(NONE, Ordering::AcqRel)).filter(|kept| *kept != NONE)?;
    TABLE.take(kept);
    Some(kept)
}

/// `fd` is about to be closed, and stands for nothing any more: keeps what it names for the next
/// socket, if `entry` has no other descriptor. Without a number for it that is not done.
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
    let kept = KEPT.swap(NONE, Ordering::AcqRel);
    if kept != NONE {
        // SAFETY: no pointers; nothing of this process uses it.
        unsafe { real::close(kept) };
    }
}
