//! Shared sockets that this process has taken up, by the cookie of their descriptor.
//!
//! A descriptor that this process image does not know may stand for a shared socket
//! ([`sockets::shared`]): after a fork, after an exec, or after another process has passed it. Its
//! first use takes the socket up. Two descriptors with one cookie are the same open socket.

#![allow(unsafe_code)]

use core::ffi::c_int;
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Weak};

use rustix::io::Errno;
use sockets::shared::MARK;

use crate::errno::{self, Outcome};
use crate::open_socket::OpenSocket;
use crate::process_state::ProcessState;
use crate::{instance, real};

static KNOWN: ProcessState<BTreeMap<u64, Weak<OpenSocket>>> = ProcessState::new();

/// In a forked child: it has taken up nothing yet.
pub(crate) fn forget() {
    KNOWN.forget();
}

/// Does a descriptor stand for a shared socket?
pub(crate) fn is_marked(fd: c_int) -> bool {
    let (mut value, mut len) = (0 as c_int, size_of::<c_int>() as libc::socklen_t);
    let place = (&raw mut value).cast();
    // SAFETY: the kernel writes at most `len` bytes to `value`; both live until then.
    let done =
        unsafe { real::getsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, place, &raw mut len) };
    done == 0 && value == MARK
}

/// Marks a descriptor as one that stands for a shared socket.
pub(crate) fn mark(fd: c_int) -> Outcome<()> {
    let (value, len) = (MARK, size_of::<c_int>() as libc::socklen_t);
    let place = (&raw const value).cast();
    // SAFETY: the kernel reads the `len` bytes of `value`, which lives until then.
    let done = unsafe { real::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, place, len) };
    errno::check(done).map(drop)
}

/// `open` is the shared socket that `fd` stands for.
pub(crate) fn know(fd: BorrowedFd<'_>, open: &Arc<OpenSocket>) -> Outcome<()> {
    let cookie = rustix::net::sockopt::socket_cookie(fd)?;
    let mut known = KNOWN.lock();
    known.retain(|_, open| open.strong_count() > 0);
    known.insert(cookie, Arc::downgrade(open));
    Ok(())
}

/// The open socket that an unknown descriptor stands for. One more descriptor counts for it.
///
/// # Errors
/// EBADF when it stands for none; ENETDOWN without an instance; EMFILE without a free socket place.
pub(crate) fn open(fd: c_int) -> Outcome<Arc<OpenSocket>> {
    if !is_marked(fd) {
        return Err(Errno::BADF);
    }
    // SAFETY: the program uses it in a call, and closes it only after that.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let cookie = rustix::net::sockopt::socket_cookie(borrowed)?;
    let mut known = KNOWN.lock();
    if let Some(open) = known.get(&cookie).and_then(Weak::upgrade)
        && !open.socket.is_moved()
        && open.share()
    {
        return Ok(open);
    }
    let socket = instance::client()?.adopt(borrowed)?;
    // SAFETY: the command takes no argument.
    let flags = errno::check(unsafe { real::fcntl(fd, libc::F_GETFL, 0) })?;
    let open = OpenSocket::new(socket, flags & libc::O_NONBLOCK != 0);
    open.set_shared();
    known.retain(|_, open| open.strong_count() > 0);
    known.insert(cookie, Arc::downgrade(&open));
    Ok(open)
}
