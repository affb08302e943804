//! POSIX AIO on Tasuki sockets (aio(7)).
//!
//! The C library's threads read and write by system calls that no library sees, and would find the
//! placeholder. So requests on sockets are carried out here ([`requests`]); those on other files go
//! on to the C library. aio_error(3) and aio_return(3) are the C library's for both: they read the
//! request's own memory.
//!
//! Reads of a socket are in their order, and so are its writes. As with the C library, each
//! direction of a socket does one request at a time; but a read that waits holds no write up.

#![allow(unsafe_code)]

mod control_block;
mod requests;

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use std::sync::Arc;
use std::time::{Duration, Instant};

use libc::timespec;
use rustix::io::Errno;

use self::control_block::{ControlBlock, Event};
use self::requests::{Group, Request};
use crate::descriptors::{is_socket, socket};
use crate::errno::Outcome;
use crate::interpose::{alias, interpose};
use crate::pointers::can_read;
use crate::{poll, real, time};

const LIO_READ: c_int = 0;
const LIO_WRITE: c_int = 1;
const LIO_WAIT: c_int = 0;
const LIO_NOWAIT: c_int = 1;
/// The C library's AIO_PRIO_DELTA_MAX.
const MOST_PRIORITY: c_int = 20;
/// The C library's requests are looked at so often by a call that waits for requests of both kinds.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Is it a request on a Tasuki socket?
unsafe fn is_ours(block: *const ControlBlock) -> bool {
    // SAFETY: the program says that it points to a control block.
    can_read(block, size_of::<ControlBlock>()) && is_socket(unsafe { (*block).fd })
}

/// Begins a request.
unsafe fn submit(
    block: *mut ControlBlock,
    writes: bool,
    group: Option<Arc<Group>>,
) -> Outcome<c_int> {
    // SAFETY: the program says that it points to a control block, and stays there until the
    // request is over.
    let given = unsafe { &*block };
    let begin = || {
        if !(0..=MOST_PRIORITY).contains(&given.priority) {
            return Err(Errno::INVAL);
        }
        requests::begin(Request::new(block, given, writes, socket(given.fd)?, group))
    };
    begin().inspect_err(|errno| given.fail(*errno))?;
    Ok(0)
}

/// aio_fsync(3): a request that fails, as there is nothing to synchronise in a socket.
unsafe fn synchronise(operation: c_int, block: *mut ControlBlock) -> Outcome<c_int> {
    if ![libc::O_SYNC, libc::O_DSYNC].contains(&operation) {
        return Err(Errno::INVAL);
    }
    // SAFETY: as in `submit`.
    let given = unsafe { &*block };
    given.fail(Errno::INVAL);
    given.event.notify();
    Ok(0)
}

unsafe fn cancel(fd: c_int, block: *mut ControlBlock) -> Outcome<c_int> {
    // SAFETY: the program says that it is null or points to a control block.
    if unsafe { block.as_ref() }.is_some_and(|block| block.fd != fd) {
        return Err(Errno::INVAL);
    }
    Ok(requests::cancel(fd, block))
}

/// The requests that a list names.
unsafe fn listed<'a>(
    list: *const *mut ControlBlock,
    count: c_int,
) -> Outcome<Vec<&'a ControlBlock>> {
    let count = usize::try_from(count).map_err(|_| Errno::INVAL)?;
    if count == 0 {
        return Ok(Vec::new());
    }
    if !can_read(list, count * size_of::<usize>()) {
        return Err(Errno::FAULT);
    }
    // SAFETY: the program says that so many pointers are there.
    let all = unsafe { core::slice::from_raw_parts(list, count) };
    // SAFETY: the program says that each is null or points to a control block.
    Ok(all.iter().filter_map(|one| unsafe { one.as_ref() }).collect())
}

/// Does a list name a request on a Tasuki socket?
unsafe fn names_ours(list: *const *mut ControlBlock, count: c_int) -> bool {
    // SAFETY: passed on from the program.
    let all = unsafe { listed(list, count) }.unwrap_or_default();
    all.iter().any(|one| is_socket(one.fd))
}

/// Waits until `is_done` says so. `all`: the requests that it waits for.
fn wait(
    all: &[&ControlBlock],
    deadline: Option<Instant>,
    is_done: impl Fn() -> bool,
) -> Outcome<()> {
    let others = all.iter().any(|one| !is_socket(one.fd));
    loop {
        let seen = requests::finished();
        if is_done() {
            return Ok(());
        }
        if time::passed(deadline) {
            return Err(Errno::AGAIN);
        }
        let again = others.then(|| time::after(LOOK_AGAIN)).flatten();
        requests::wait(seen, [deadline, again].into_iter().flatten().min())?;
    }
}

unsafe fn suspend(
    list: *const *mut ControlBlock,
    count: c_int,
    timeout: *const timespec,
) -> Outcome<c_int> {
    // SAFETY: passed on from the program.
    let deadline = unsafe { poll::deadline(timeout) }?;
    // SAFETY: passed on from the program.
    let all = unsafe { listed(list, count) }?;
    wait(&all, deadline, || all.iter().any(|one| one.is_over()))?;
    Ok(0)
}

unsafe fn submit_list(
    mode: c_int,
    list: *const *mut ControlBlock,
    count: c_int,
    event: *const Event,
) -> Outcome<c_int> {
    if ![LIO_WAIT, LIO_NOWAIT].contains(&mode) {
        return Err(Errno::INVAL);
    }
    // SAFETY: passed on from the program.
    let all = unsafe { listed(list, count) }?;
    let is_transfer = |one: &&&ControlBlock| [LIO_READ, LIO_WRITE].contains(&one.operation);
    let transfers: Vec<&ControlBlock> = all.iter().filter(is_transfer).copied().collect();
    let (ours, others): (Vec<_>, Vec<_>) =
        transfers.iter().copied().partition(|one| is_socket(one.fd));
    let theirs: Vec<*mut c_void> = others
        .iter()
        .map(|one| core::ptr::from_ref::<ControlBlock>(one).cast_mut().cast())
        .collect();
    // SAFETY: the program says that it is null or points to an event.
    let event = unsafe { event.as_ref() }.copied().filter(|_| mode == LIO_NOWAIT);
    // One more, so that the event does not come before all have begun.
    let group = Arc::new(Group::new(ours.len() + 1, event));
    let mut failed = false;
    for one in ours {
        let block = core::ptr::from_ref::<ControlBlock>(one).cast_mut();
        let writes = one.operation == LIO_WRITE;
        // SAFETY: passed on from the program.
        if unsafe { submit(block, writes, Some(Arc::clone(&group))) }.is_err() {
            failed = true;
            group.finish();
        }
    }
    if !theirs.is_empty() {
        failed |= submit_others(&theirs, event.is_some().then(|| Arc::clone(&group)));
    }
    group.finish();
    if mode == LIO_WAIT {
        wait(&transfers, None, || transfers.iter().all(|one| one.is_over()))?;
        failed |= transfers.iter().any(|one| one.has_failed());
    }
    if failed { Err(Errno::IO) } else { Ok(0) }
}

/// Gives the requests on other files to the C library. With a `group` its event waits for them,
/// too. True: some could not begin.
fn submit_others(theirs: &[*mut c_void], group: Option<Arc<Group>>) -> bool {
    let submit = |list: &[*mut c_void], mode: c_int| {
        let count = c_int::try_from(list.len()).unwrap_or(c_int::MAX);
        // SAFETY: the program's control blocks, of which the list has so many.
        unsafe { real::lio_listio(mode, list.as_ptr(), count, null_mut()) }
    };
    let Some(group) = group else { return submit(theirs, LIO_NOWAIT) != 0 };
    group.add();
    let theirs: Vec<usize> = theirs.iter().map(|one| one.expose_provenance()).collect();
    let last = Arc::clone(&group);
    let begun = requests::spawn(move || {
        let list: Vec<*mut c_void> =
            theirs.iter().map(|one| core::ptr::with_exposed_provenance_mut(*one)).collect();
        submit(&list, LIO_WAIT);
        last.finish();
    });
    if begun.is_err() {
        group.finish();
    }
    begun.is_err()
}

interpose! {
    fn aio_read(block: *mut c_void) -> c_int {
        is_ours(block.cast()) => submit(block.cast(), false, None)
    }
    fn aio_write(block: *mut c_void) -> c_int {
        is_ours(block.cast()) => submit(block.cast(), true, None)
    }
    fn aio_fsync(operation: c_int, block: *mut c_void) -> c_int {
        is_ours(block.cast()) => synchronise(operation, block.cast())
    }
    fn aio_cancel(fd: c_int, block: *mut c_void) -> c_int {
        is_socket(fd) => cancel(fd, block.cast())
    }
    fn aio_suspend(list: *const *mut c_void, count: c_int, timeout: *const timespec) -> c_int {
        names_ours(list.cast(), count) => suspend(list.cast(), count, timeout)
    }
    fn lio_listio(
        mode: c_int, list: *const *mut c_void, count: c_int, event: *mut c_void,
    ) -> c_int {
        names_ours(list.cast(), count) => submit_list(mode, list.cast(), count, event.cast())
    }
}

alias! {
    fn aio_read64(block: *mut c_void) -> c_int = aio_read;
    fn aio_write64(block: *mut c_void) -> c_int = aio_write;
    fn aio_fsync64(operation: c_int, block: *mut c_void) -> c_int = aio_fsync;
    fn aio_cancel64(fd: c_int, block: *mut c_void) -> c_int = aio_cancel;
    fn aio_suspend64(list: *const *mut c_void, count: c_int, timeout: *const timespec) -> c_int
        = aio_suspend;
    fn lio_listio64(
        mode: c_int, list: *const *mut c_void, count: c_int, event: *mut c_void,
    ) -> c_int = lio_listio;
}
