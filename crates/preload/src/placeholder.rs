//! Placeholders: the kernel descriptors that stand for Tasuki sockets.
//!
//! Making and ending a Unix socket, even one connected to nothing, takes the kernel ten times as
//! long as duplicating a descriptor. So the placeholder of the first closed stream is *cached*
//! under a high number of the shim's own. The next stream's descriptor is a duplicate of it, unless
//! another socket's is. A program that connects again and again makes no second placeholder: each
//! socket costs it one system call at its begin and one at its end, as the kernel's does.
//!
//! Two sockets never share a placeholder. One that was non-blocking at its end is not cached: its
//! next socket would inherit the flag.

#![allow(unsafe_code)]

use core::ffi::c_int;
use std::sync::Arc;

use sockets::SocketKind;

use crate::descriptors::{Descriptor, TABLE, end_cached, hung_up, install, prepare_ready_one};
use crate::errno::{self, Outcome};
use crate::open_socket::OpenSocket;
use crate::{always_ready, cached_placeholder, instance, real};

/// A kernel descriptor that is closed again unless it comes to stand for a socket.
pub(crate) struct Placeholder {
    fd: c_int,
    /// It is a duplicate of the cached one.
    cached: bool,
}

impl Placeholder {
    /// A Unix socket. It can do nothing, and `fstat` calls it a socket. For datagrams, too, it is a
    /// stream: one that is not connected has hung up, and its reads fail. So a system call that
    /// passes by this library waits for nothing. `flags`: SOCK_NONBLOCK and SOCK_CLOEXEC.
    ///
    /// # Errors
    /// The kernel's: EMFILE, ENFILE, ENOMEM.
    pub(crate) fn new(kind: SocketKind, flags: c_int) -> Outcome<Self> {
        if kind == SocketKind::Stream
            && flags & libc::SOCK_NONBLOCK == 0
            && let Some(cached) = cached_placeholder::take()
        {
            let close_on_exec = flags & libc::SOCK_CLOEXEC != 0;
            let command = if close_on_exec { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
            // SAFETY: the command takes an int, the least number that it may give.
            if let Ok(fd) = errno::check(unsafe { real::fcntl(cached, command, 0) }) {
                return Ok(Self { fd, cached: true });
            }
            // The last number below the limit may be the cached one's.
            end_cached(false);
        }
        hung_up(flags).map(|fd| Self { fd, cached: false })
    }

    /// It stands for `socket` from now on. Returns its number.
    ///
    /// # Errors
    /// EMFILE when the number is beyond the table.
    pub(crate) fn stand_for(mut self, socket: Arc<OpenSocket>) -> Outcome<c_int> {
        prepare_ready_one()?;
        // Known to the socket before another thread can close it.
        socket.set_on_cached(core::mem::take(&mut self.cached));
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
        if self.cached {
            end_cached(true);
        }
    }
}

/// `fd` is about to be closed, and stands for nothing any more. Caches its placeholder for the next
/// socket, if `open` has no other descriptor, nothing is cached yet, and a number is free for it.
pub(crate) fn cache(fd: c_int, open: &OpenSocket) {
    let fresh = open.socket.kind() == SocketKind::Stream && !open.is_nonblocking();
    // A duplicate of a shared socket's descriptor would keep the socket open.
    if !fresh || open.is_shared() || !open.is_last() || !cached_placeholder::is_none() {
        return;
    }
    let floor = libc::c_ulong::from(instance::own_fd_floor().unsigned_abs());
    // SAFETY: the command takes an int, the least number that it may give.
    let Ok(cached) = errno::check(unsafe { real::fcntl(fd, libc::F_DUPFD_CLOEXEC, floor) }) else {
        return;
    };
    let known = install(cached, Descriptor::Internal).is_ok();
    if !known || !cached_placeholder::put(cached) {
        // Another thread has cached one meanwhile.
        TABLE.take(cached);
        // SAFETY: made above, and known to no other code.
        unsafe { real::close(cached) };
    }
}

/// In a forked child: the cached placeholder is the parent's too, and so is the ready one.
pub(crate) fn forget() {
    if let Some(ready) = always_ready::forget() {
        // SAFETY: no pointers; nothing of this process uses it.
        unsafe { real::close(ready) };
    }
    if let Some(cached) = cached_placeholder::forget() {
        // SAFETY: no pointers; nothing of this process uses it.
        unsafe { real::close(cached) };
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
        assert!(!first.cached, "nothing is cached yet");
        // SAFETY: the command takes an int.
        let cached = unsafe { real::fcntl(first.fd, libc::F_DUPFD_CLOEXEC, 100) };
        assert!(TABLE.put(cached, Descriptor::Internal).is_ok());
        assert!(cached_placeholder::put(cached));
        drop(first);

        let one = new(libc::SOCK_CLOEXEC);
        assert_eq!((one.cached, file(one.fd)), (true, file(cached)));
        let another = new(0);
        assert_eq!((another.cached, file(another.fd) == file(cached)), (false, false));
        drop(one);
        let again = new(0);
        assert_eq!((again.cached, file(again.fd)), (true, file(cached)));
        let nonblocking = new(libc::SOCK_NONBLOCK);
        assert!(!nonblocking.cached, "its flags would be seen");
        core::mem::take(&mut { again }.cached);
        end_cached(false);
        assert!(cached_placeholder::is_none(), "what was changed is not cached on");
        assert!(!TABLE.range(100, 2000).iter().any(|(fd, _)| *fd == cached));
    }
}
