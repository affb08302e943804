//! Epoll sets over fork.
//!
//! Parent and child share the kernel's set, with the kernel's members. Of Tasuki members the child
//! gets registrations of its own, as they were at the fork. So that it needs no lock of its parent,
//! the forking thread notes them before.

#![allow(unsafe_code)]

use core::cell::RefCell;
use core::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::descriptors::{Descriptor, TABLE, install};
use crate::epoll_set::{EpollSet, InheritedMember};
use crate::table::Kind;

/// A set's numbers, and its members.
struct Note {
    set: *const EpollSet,
    numbers: Vec<c_int>,
    members: Vec<InheritedMember>,
}

thread_local! {
    /// Of the thread's last fork.
    static NOTES: RefCell<Vec<Note>> = const { RefCell::new(Vec::new()) };
}

/// The cookie of a descriptor that is a socket.
pub(crate) fn cookie_of(fd: c_int) -> Option<u64> {
    if fd < 0 {
        return None;
    }
    // SAFETY: not -1. The kernel judges it.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    rustix::net::sockopt::socket_cookie(fd).ok()
}

/// Before a fork, after the sockets became shared: notes the sets.
pub(crate) fn note() {
    let mut notes: Vec<Note> = Vec::new();
    for (fd, kind) in TABLE.range(0, u32::MAX) {
        if kind != Kind::Epoll {
            continue;
        }
        let Some(Descriptor::Epoll(set)) = TABLE.get(fd) else { continue };
        let place = Arc::as_ptr(&set);
        match notes.iter_mut().find(|note| note.set == place) {
            Some(note) => note.numbers.push(fd),
            None => {
                set.end_alarm();
                let members = set.members_to_inherit(cookie_of);
                notes.push(Note { set: place, numbers: vec![fd], members });
            }
        }
    }
    let _ = NOTES.try_with(|kept| kept.replace(notes));
}

/// In a forked child: makes its sets.
pub(crate) fn inherit() {
    let notes = NOTES.try_with(RefCell::take).unwrap_or_default();
    for Note { numbers, members, .. } in notes {
        let set = Arc::new(EpollSet::inheriting(members));
        for fd in numbers {
            // Its number was in the table before.
            let _ = install(fd, Descriptor::Epoll(Arc::clone(&set)));
        }
    }
}
