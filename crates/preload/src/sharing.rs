//! Makes this process's sockets shared before other processes get descriptors of them.
//!
//! The placeholder of a shared socket is one end of a pair, whose other end the inet server has. It
//! takes the place of the former placeholder under all of the socket's numbers. Flags stay as they
//! are. A socket for which that fails keeps its placeholder: other processes cannot use it.

#![allow(unsafe_code)]

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{AddressFamily, sockopt};
use sockets::shared::MOST_SHARED;
use sockets::{Client, Socket};

use crate::descriptors::{Descriptor, TABLE, replace};
use crate::errno::Outcome;
use crate::open_socket::OpenSocket;
use crate::shared_end::{prepare, put_under};
use crate::table::Kind;
use crate::{adopted, instance, process};

/// An open socket and its numbers.
struct Holding {
    open: Arc<OpenSocket>,
    numbers: Vec<c_int>,
}

/// Makes those of this process's sockets shared whose numbers are `wanted`.
pub(crate) fn share(wanted: impl Fn(c_int) -> bool) {
    let Some(client) = instance::known().filter(|_| !process::in_vfork_child()) else { return };
    let mut holdings: Vec<Holding> = Vec::new();
    for (fd, kind) in TABLE.range(0, u32::MAX) {
        if kind != Kind::Socket {
            continue;
        }
        let Some(Descriptor::Socket(open)) = TABLE.get(fd) else { continue };
        if open.is_shared() {
            continue;
        }
        match holdings.iter_mut().find(|one| Arc::ptr_eq(&one.open, &open)) {
            Some(holding) => holding.numbers.push(fd),
            None => holdings.push(Holding { open, numbers: vec![fd] }),
        }
    }
    holdings.retain(|one| one.numbers.iter().any(|fd| wanted(*fd)));
    for part in holdings.chunks(MOST_SHARED) {
        // Without room for more, the rest stays as it is.
        if share_part(client, part).is_err() {
            return;
        }
    }
}

fn share_part(client: &Client, part: &[Holding]) -> Outcome<()> {
    let sockets: Vec<&Socket> = part.iter().map(|one| &one.open.socket).collect();
    let ends = client.share(&sockets)?;
    for (Holding { open, numbers }, end) in part.iter().zip(ends) {
        replace(open, numbers, &end)?;
    }
    Ok(())
}

/// Has a socket been duplicated for a program that another process executes? Then which numbers
/// that program has is not known here.
static PASSED_ON: AtomicBool = AtomicBool::new(false);

/// Has one ever been?
pub(crate) fn has_passed_on() -> bool {
    PASSED_ON.load(Ordering::Relaxed)
}

/// A process to come will duplicate the socket `fd` for its program.
pub(crate) fn share_passed_on(fd: c_int) {
    PASSED_ON.store(true, Ordering::Relaxed);
    share(|wanted| wanted == fd);
}

/// In a child of `vfork`, which is about to duplicate `fd`.
pub(crate) fn share_duplicated_in_child(fd: c_int) {
    if share_in_child(fd) {
        PASSED_ON.store(true, Ordering::Relaxed);
    }
}

/// In a child of `vfork`, which is about to execute a program: makes the sockets shared that the
/// program inherits. True: there may be some.
pub(crate) fn share_survivors_in_child(survives: impl Fn(c_int) -> bool) -> bool {
    let sockets = TABLE
        .range(0, u32::MAX)
        .into_iter()
        .filter(|(fd, kind)| matches!(kind, Kind::Socket | Kind::Inherited) && survives(*fd));
    // All of them, not up to the first.
    let shared = sockets.filter(|(fd, _)| share_in_child(*fd)).count();
    shared > 0 || has_passed_on()
}

/// In a child of `vfork`: makes the socket of `fd` shared, if there is one. The pair is for the
/// child alone: nothing here changes the parent's descriptors. True: a new program can use it.
fn share_in_child(fd: c_int) -> bool {
    if adopted::is_marked(fd) {
        return true;
    }
    let (Some(client), Some(Descriptor::Socket(open))) = (instance::known(), TABLE.get(fd)) else {
        return false;
    };
    // The table is the parent's: the child may have put another file under the number.
    if open.is_shared() || !is_placeholder(fd) || has_memory_of_its_own() {
        return false;
    }
    let Ok(ends) = client.share(&[&open.socket]) else { return false };
    // Where it fails the new program has a placeholder.
    ends.iter().all(|end| prepare(&open, end).and_then(|()| put_under(end, fd)).is_ok())
}

/// Is this a child of `_Fork` or the like instead? Its copy of the parent's locks is of no use.
fn has_memory_of_its_own() -> bool {
    shm::fork::pid() == shm::fork::kernel_pid()
}

/// Is it like a placeholder, a Unix socket that is connected to nothing?
fn is_placeholder(fd: c_int) -> bool {
    // SAFETY: not -1, since the table has it; the child does nothing else meanwhile.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    sockopt::socket_domain(fd) == Ok(AddressFamily::UNIX)
        && rustix::net::getpeername(fd) == Err(Errno::NOTCONN)
}

/// Looks for descriptors of shared sockets that this process image does not know: those that an
/// exec has left open.
pub(crate) fn find_inherited() -> Result<(), Errno> {
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    let mode = rustix::fs::Mode::empty();
    let folder = rustix::fs::open(c"/proc/self/fd", flags, mode)?;
    let mut room = Vec::with_capacity(4096);
    let mut entries = rustix::fs::RawDir::new(&folder, room.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let number = entry.file_name().to_str().ok().and_then(|name| name.parse().ok());
        let Some(fd) = number else { continue };
        if adopted::is_marked(fd) {
            TABLE.put_inherited(fd);
        }
    }
    Ok(())
}
