//! The object that each descriptor of this process stands for.

#![allow(unsafe_code)]

use core::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;

use crate::epoll_set::EpollSet;
use crate::errno::Outcome;
use crate::open_socket::OpenSocket;
use crate::shared_end::{prepare, put_under};
use crate::table::{DescriptorTable, Kind, TableValue};
use crate::{
    adopted, always_ready, cached_placeholder, errno, instance, process, real, signal_owner,
};

/// All descriptors of this process.
pub(crate) static TABLE: DescriptorTable<Descriptor> = DescriptorTable::new();

/// Is `fd` a Tasuki socket, usable or inherited? Otherwise its calls are the kernel's.
#[inline]
pub(crate) fn is_socket(fd: c_int) -> bool {
    matches!(TABLE.kind(fd), Kind::Socket | Kind::Inherited)
}

/// The socket of `fd`. One that another process uses, or used last, is taken up.
///
/// # Errors
/// EBADF for an inherited one that is not shared, or one that was closed just now. ENETDOWN without
/// an instance, EMFILE without a free socket place.
pub(crate) fn socket(fd: c_int) -> Outcome<Arc<OpenSocket>> {
    match TABLE.get(fd) {
        Some(Descriptor::Socket(socket)) if !socket.socket.is_moved() => Ok(socket),
        other => take_up(fd, other.as_ref()),
    }
}

#[cold]
fn take_up(fd: c_int, before: Option<&Descriptor>) -> Outcome<Arc<OpenSocket>> {
    if before.is_none() && TABLE.kind(fd) != Kind::Inherited {
        return Err(Errno::BADF);
    }
    if let Some(Descriptor::Socket(before)) = before
        && !adopted::is_marked(fd)
    {
        share_moved(before)?;
    }
    let open = adopted::open(fd)?;
    prepare_ready_one()?;
    if let Some(Descriptor::Socket(before)) = before {
        open.receive_timeout.set(before.receive_timeout.get());
        open.send_timeout.set(before.send_timeout.get());
    }
    install(fd, Descriptor::Socket(Arc::clone(&open)))?;
    Ok(open)
}

/// A socket whose descriptors stand for no pair has moved: a child of `vfork` has given the program
/// that it executed a pair for itself. The socket gets one for this process, too.
fn share_moved(open: &Arc<OpenSocket>) -> Outcome<()> {
    // The child cannot change its parent's descriptors.
    let client = instance::known().filter(|_| !process::in_vfork_child()).ok_or(Errno::BADF)?;
    let all = TABLE.range(0, u32::MAX).into_iter().map(|(fd, _)| fd);
    let numbers: Vec<c_int> = all.filter(|fd| stands_for(*fd, open)).collect();
    let ends = client.share(&[&open.socket])?;
    ends.iter().try_for_each(|end| replace(open, &numbers, end))
}

fn stands_for(fd: c_int, open: &Arc<OpenSocket>) -> bool {
    matches!(TABLE.get(fd), Some(Descriptor::Socket(now)) if Arc::ptr_eq(&now, open))
}

/// Puts `end`, an end of a shared socket's pair, under all numbers of `open`.
///
/// # Errors
/// The kernel's.
pub(crate) fn replace(open: &Arc<OpenSocket>, numbers: &[c_int], end: &OwnedFd) -> Outcome<()> {
    prepare(open, end)?;
    if open.has_owner()
        && let Some(&before) = numbers.first()
    {
        signal_owner::carry_over(before, end.as_raw_fd())?;
    }
    adopted::know(end.as_fd(), open)?;
    open.set_shared();
    for &fd in numbers {
        let is_still = |now: &Descriptor| match now {
            Descriptor::Socket(now) => Arc::ptr_eq(now, open),
            _ => false,
        };
        // No close of the number comes between: it takes the entry out first.
        let done = TABLE.with(fd, |now| now.is_some_and(is_still).then(|| put_under(end, fd)));
        done.transpose()?;
    }
    if open.is_on_cached() {
        open.set_on_cached(false);
        end_cached(open.is_placeholder_fresh());
    }
    Ok(())
}

/// Makes `fd`, which the kernel gave out just now, stand for `descriptor`.
///
/// # Errors
/// EMFILE when the number is beyond the table. `descriptor` is released then.
pub(crate) fn install(fd: c_int, descriptor: Descriptor) -> Outcome<()> {
    let (released, outcome) = match TABLE.put(fd, descriptor) {
        // Something was there only if the program closed the number behind the shim's back.
        Ok(stale) => (stale, Ok(())),
        Err(refused) => (Some(refused), Err(Errno::MFILE)),
    };
    release(released);
    outcome
}

/// The object that a descriptor stands for.
#[derive(Clone)]
pub(crate) enum Descriptor {
    /// A Tasuki socket.
    Socket(Arc<OpenSocket>),
    /// A kernel epoll instance.
    Epoll(Arc<EpollSet>),
    /// The shim's own.
    Internal,
}

impl TableValue for Descriptor {
    fn kind(&self) -> Kind {
        match self {
            Self::Socket(_) => Kind::Socket,
            Self::Epoll(_) => Kind::Epoll,
            Self::Internal => Kind::Internal,
        }
    }
}

impl Descriptor {
    /// One more descriptor is about to stand for this; false if the last one was just closed.
    pub(crate) fn share(&self) -> bool {
        match self {
            Self::Socket(socket) => socket.share(),
            Self::Epoll(_) | Self::Internal => true,
        }
    }
}

/// One descriptor less stands for this, if there is anything.
pub(crate) fn release(descriptor: Option<Descriptor>) {
    let Some(Descriptor::Socket(socket)) = descriptor else { return };
    if socket.unshare() {
        if socket.is_on_cached() {
            end_cached(socket.is_placeholder_fresh());
        }
        socket.end();
    }
}

/// The cached placeholder stands for its socket no more. With `fresh` it is unchanged, and free
/// again; otherwise it is closed.
pub(crate) fn end_cached(fresh: bool) {
    if fresh {
        cached_placeholder::give_back();
        return;
    }
    let cached = cached_placeholder::number();
    TABLE.take(cached);
    cached_placeholder::clear();
    // SAFETY: it is the shim's own, and no table has its number any more.
    unsafe { real::close(cached) };
}

/// A Unix stream without another end. `flags`: SOCK_NONBLOCK and SOCK_CLOEXEC.
///
/// # Errors
/// The kernel's: EMFILE, ENFILE, ENOMEM.
pub(crate) fn hung_up(flags: c_int) -> Outcome<c_int> {
    let kind = libc::SOCK_STREAM | flags;
    // SAFETY: no pointers.
    match errno::check(unsafe { real::socket(libc::AF_UNIX, kind, 0) }) {
        // The program is kept from Unix sockets that could have names (`--no-host-sockets`).
        Err(Errno::PERM) => {}
        made => return made,
    }
    let mut ends = [-1; 2];
    // SAFETY: room for two descriptors.
    errno::check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) })?;
    // SAFETY: made above, and nobody else's.
    unsafe { real::close(ends[1]) };
    Ok(ends[0])
}

/// Makes the descriptor that is always ready, before the first socket: later there may be no number
/// for it.
#[inline]
pub(crate) fn prepare_ready_one() -> Outcome<()> {
    if always_ready::number().is_none() { make_ready() } else { Ok(()) }
}

#[cold]
fn make_ready() -> Outcome<()> {
    let low = hung_up(libc::SOCK_CLOEXEC)?;
    let floor = libc::c_ulong::from(instance::own_fd_floor().unsigned_abs());
    // SAFETY: the command takes an int, the least number that it may give.
    let high = errno::check(unsafe { real::fcntl(low, libc::F_DUPFD_CLOEXEC, floor) });
    let fd = high.unwrap_or(low);
    if fd != low {
        // SAFETY: made above, and known to no other code.
        unsafe { real::close(low) };
    }
    install(fd, Descriptor::Internal)?;
    if !always_ready::set(fd) {
        TABLE.take(fd);
        // SAFETY: as above.
        unsafe { real::close(fd) };
    }
    Ok(())
}
