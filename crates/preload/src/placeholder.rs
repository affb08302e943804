//! Placeholders: the kernel descriptors that stand for Tasuki sockets.
//!
//! Making and ending a Unix socket, even one connected to nothing, takes the kernel ten times as
//! long as duplicating a descriptor. So the placeholder of the first closed stream is *kept* under
//! a high number of the shim's own. The next stream's descriptor is a duplicate of it, unless
//! another socket's is. A program that connects again and again makes no second placeholder: each
//! socket costs it one system call at its begin and one at its end, as the kernel's does.
//!
//! Two sockets never share a placeholder. One that was non-blocking at its end is not kept: its
//! next socket would inherit the flag.

#![allow(unsafe_code)]

use core::ffi::c_int;
use std::sync::Arc;

use sockets::SocketKind;

use crate::descriptors::{Descriptor, TABLE, end_kept, install};
use crate::errno::{self, Outcome};
use crate::open_socket::OpenSocket;
use crate::{instance, kept_placeholder, real};

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
            && let Some(kept) = kept_placeholder::take()
        {
            let close_on_exec = flags & libc::SOCK_CLOEXEC != 0;
            let command = if close_on_exec { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
            // SAFETY: the command takes an int, the least number that it may give.
            if let Ok(fd) = errno::check(unsafe { real::fcntl(kept, command, 0) }) {
                return Ok(Self { fd, kept: true });
            }
            // The last number below the limit may be the kept one's.
            end_kept(false);
        }
        // SAFETY: no pointers.
        errno::check(unsafe { real::socket(libc::AF_UNIX, kind | flags, 0) })
            .map(|fd| Self { fd, kept: false })
    }

    /// It is the socket's from now on; its number.
    ///
    /// # Errors
    /// EMFILE when the number is beyond the table.
    pub(crate) fn stand_for(mut self, socket: Arc<OpenSocket>) -> Outcome<c_int> {
        // Known to the socket before anybody can close it.
        socket.set_on_kept(core::mem::take(&mut self.kept));
        install(self.fd, Descriptor::Socket(socket))?;
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
            end_kept(true);
        }
    }
}

/// `fd` is about to be closed, and stands for nothing any more: keeps what it names for the next
/// socket, if `open` has no other descriptor and nothing is kept. Without a number for it that is
/// not done.
pub(crate) fn keep(fd: c_int, open: &OpenSocket) {
    let fresh = open.socket.kind() == SocketKind::Stream && !open.is_nonblocking();
    if !fresh || !open.is_last() || !kept_placeholder::is_none() {
        return;
    }
    let floor = libc::c_ulong::from(instance::own_fd_floor().unsigned_abs());
    // SAFETY: the command takes an int, the least number that it may give.
    let Ok(kept) = errno::check(unsafe { real::fcntl(fd, libc::F_DUPFD_CLOEXEC, floor) }) else {
        return;
    };
    let known = install(kept, Descriptor::Internal).is_ok();
    if !known || !kept_placeholder::keep(kept) {
        // Another thread has kept one meanwhile.
        TABLE.take(kept);
        // SAFETY: made above, and nobody else's.
        unsafe { real::close(kept) };
    }
}

/// In a forked child: the kept placeholder is the parent's too.
pub(crate) fn forget() {
    if let Some(kept) = kept_placeholder::forget() {
        // SAFETY: no pointers; nothing of this process uses it.
        unsafe { real::close(kept) };
    }
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
        assert!(TABLE.put(kept, Descriptor::Internal).is_ok());
        assert!(kept_placeholder::keep(kept));
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
        end_kept(false);
        assert!(kept_placeholder::is_none(), "what was changed is not kept on");
        assert!(!TABLE.range(100, 2000).iter().any(|(fd, _)| *fd == kept));
    }
}
