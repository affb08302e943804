//! System calls whose arguments differ from those of the C function of their name.
//!
//! * A mask of signals has its size with it, and only the kernel's bits.
//! * ppoll and pselect6 write the time that is left.
//! * A position is two arguments.
//!
//! Each function returns `None` for a call that is the kernel's.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_long};
use core::mem::MaybeUninit;
use core::ptr::{from_ref, null};
use std::time::Instant;

use libc::{epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec};
use rustix::io::Errno;

use crate::descriptors::is_socket;
use crate::errno::{self, Outcome};
use crate::pointers::{can_read, can_write};
use crate::{epoll, poll, select, time};

type RawArguments = [c_long; 6];

unsafe extern "C-unwind" {
    // Which libc lacks.
    #[link_name = "epoll_pwait2"]
    fn wait_to_the_nanosecond(
        epfd: c_int,
        events: *mut epoll_event,
        max: c_int,
        limit: *const timespec,
        mask: *const sigset_t,
    ) -> c_int;
}

/// Bytes of the kernel's masks.
const MASK_BYTES: usize = 8;

#[expect(clippy::cast_possible_truncation, reason = "the kernel reads an int")]
fn int(argument: c_long) -> c_int {
    argument as c_int
}

/// The mask of signals at an address, of a size.
///
/// # Errors
/// EINVAL for another size than the kernel's, EFAULT when there is no memory.
unsafe fn mask_at(address: c_long, size: c_long) -> Outcome<Option<sigset_t>> {
    if address == 0 {
        return Ok(None);
    }
    if usize::try_from(size) != Ok(MASK_BYTES) {
        return Err(Errno::INVAL);
    }
    let mut mask = MaybeUninit::<sigset_t>::zeroed();
    let from = address as *const u8;
    if !can_read(from, MASK_BYTES) {
        return Err(Errno::FAULT);
    }
    // SAFETY: the program says that a mask is there. A sigset_t has more bytes.
    unsafe { core::ptr::copy_nonoverlapping(from, mask.as_mut_ptr().cast(), MASK_BYTES) };
    // SAFETY: an all-zero sigset_t is an empty one, and the kernel's bits are its first ones.
    Ok(Some(unsafe { mask.assume_init() }))
}

/// The call's result as syscall(2) returns it.
fn result(call: impl FnOnce() -> Outcome<c_int>) -> Option<c_long> {
    Some(match call() {
        Ok(done) => done.into(),
        Err(error) => {
            errno::set(error);
            -1
        }
    })
}

fn pointer(mask: &Option<sigset_t>) -> *const sigset_t {
    mask.as_ref().map_or(null(), from_ref)
}

/// Writes the time that is left of `limit`, which began at `begin`.
unsafe fn write_left(limit: *mut timespec, begin: Instant) {
    // As Linux: a time that cannot be written is no error.
    if limit.is_null() || !can_write(limit) {
        return;
    }
    // SAFETY: not null, and the caller says that it points to a timespec.
    let limit = unsafe { &mut *limit };
    let Ok(whole) = time::from_timespec(*limit) else { return };
    let left = whole.saturating_sub(begin.elapsed());
    limit.tv_sec = i64::try_from(left.as_secs()).unwrap_or(i64::MAX);
    limit.tv_nsec = left.subsec_nanos().into();
}

pub(super) unsafe fn ppoll([fds, count, limit, mask, size, _]: RawArguments) -> Option<c_long> {
    let (fds, count) = (fds as *mut pollfd, count.cast_unsigned() as nfds_t);
    let limit = limit as *mut timespec;
    // SAFETY: passed on from the program.
    if !unsafe { poll::is_ours(fds, count) } {
        return None;
    }
    result(|| {
        // SAFETY: passed on from the program.
        let mask = unsafe { mask_at(mask, size) }?;
        let begin = Instant::now();
        // SAFETY: passed on from the program.
        let outcome = errno::check(unsafe { libc::ppoll(fds, count, limit, pointer(&mask)) });
        // SAFETY: passed on from the program.
        unsafe { write_left(limit, begin) };
        outcome
    })
}

/// The last argument of pselect6: a mask and its size.
#[repr(C)]
#[derive(Clone, Copy)]
struct MaskAndSize {
    mask: c_long,
    size: c_long,
}

pub(super) unsafe fn pselect6(
    [count, read, write, except, limit, mask]: RawArguments,
) -> Option<c_long> {
    let count = int(count);
    let [read, write, except] = [read, write, except].map(|set| set as *mut fd_set);
    let (limit, mask) = (limit as *mut timespec, mask as *const MaskAndSize);
    // SAFETY: passed on from the program.
    if !unsafe { select::is_ours(count, [read, write, except]) } {
        return None;
    }
    result(|| {
        if !mask.is_null() && !can_read(mask, size_of::<MaskAndSize>()) {
            return Err(Errno::FAULT);
        }
        // SAFETY: the program says that it is null or points to both.
        let both = unsafe { mask.as_ref() }.copied();
        let MaskAndSize { mask, size } = both.unwrap_or(MaskAndSize { mask: 0, size: 0 });
        // SAFETY: passed on from the program.
        let mask = unsafe { mask_at(mask, size) }?;
        let begin = Instant::now();
        // SAFETY: passed on from the program.
        let done = unsafe { libc::pselect(count, read, write, except, limit, pointer(&mask)) };
        let outcome = errno::check(done);
        // SAFETY: passed on from the program.
        unsafe { write_left(limit, begin) };
        outcome
    })
}

pub(super) unsafe fn epoll_pwait(
    [epfd, events, max, limit, mask, size]: RawArguments,
) -> Option<c_long> {
    let (epfd, events) = (int(epfd), events as *mut epoll_event);
    if !epoll::is_known(epfd) {
        return None;
    }
    result(|| {
        // SAFETY: passed on from the program.
        let mask = unsafe { mask_at(mask, size) }?;
        let (max, limit, mask) = (int(max), int(limit), pointer(&mask));
        // SAFETY: passed on from the program.
        errno::check(unsafe { libc::epoll_pwait(epfd, events, max, limit, mask) })
    })
}

pub(super) unsafe fn epoll_pwait2(
    [epfd, events, max, limit, mask, size]: RawArguments,
) -> Option<c_long> {
    let (epfd, events) = (int(epfd), events as *mut epoll_event);
    if !epoll::is_known(epfd) {
        return None;
    }
    result(|| {
        // SAFETY: passed on from the program.
        let mask = unsafe { mask_at(mask, size) }?;
        let limit = limit as *const timespec;
        // SAFETY: passed on from the program.
        let done = unsafe { wait_to_the_nanosecond(epfd, events, int(max), limit, pointer(&mask)) };
        errno::check(done)
    })
}

/// The position that two arguments are: the high half counts only where a long is too short for it.
pub(super) unsafe fn preadv2([fd, iov, count, offset, _, flags]: RawArguments) -> Option<c_long> {
    let fd = int(fd);
    is_socket(fd).then(|| {
        // SAFETY: passed on from the program.
        unsafe { libc::preadv2(fd, iov as *const _, int(count), offset, int(flags)) as c_long }
    })
}

pub(super) unsafe fn pwritev2([fd, iov, count, offset, _, flags]: RawArguments) -> Option<c_long> {
    let fd = int(fd);
    is_socket(fd).then(|| {
        // SAFETY: passed on from the program.
        unsafe { libc::pwritev2(fd, iov as *const _, int(count), offset, int(flags)) as c_long }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_have_the_kernels_size() {
        let bits: u64 = 1 << (libc::SIGUSR1 - 1);
        let address = (&raw const bits) as c_long;
        // SAFETY: the address is that of eight bytes, or null.
        let at = |address, size| unsafe { mask_at(address, size) };
        let (mask, other, none) = (at(address, 8), at(address, 128), at(0, 128));
        let mask = mask.unwrap().unwrap();
        // SAFETY: the mask is a local.
        let has = |signal| unsafe { libc::sigismember(&raw const mask, signal) };
        assert_eq!((has(libc::SIGUSR1), has(libc::SIGUSR2)), (1, 0));
        assert_eq!((other.err(), none.map(|mask| mask.is_none())), (Some(Errno::INVAL), Ok(true)));
    }

    #[test]
    fn the_time_that_is_left() {
        let mut limit = timespec { tv_sec: 5, tv_nsec: 7 };
        let begin = Instant::now().checked_sub(core::time::Duration::from_secs(60));
        // SAFETY: the limit is a local.
        unsafe { write_left(&raw mut limit, begin.unwrap_or_else(Instant::now)) };
        assert!(limit.tv_sec < 5);
        // SAFETY: null is allowed.
        unsafe { write_left(core::ptr::null_mut(), Instant::now()) };
    }

    #[test]
    fn calls_on_kernel_descriptors_are_the_kernels() {
        let mut one = pollfd { fd: -1, events: 0, revents: 0 };
        let at = (&raw mut one) as c_long;
        for (call, arguments) in [
            (ppoll as unsafe fn(RawArguments) -> Option<c_long>, [at, 1, 0, 0, 8, 0]),
            (pselect6, [5, 0, 0, 0, 0, 0]),
            (epoll_pwait, [-1, 0, 1, 0, 0, 8]),
            (epoll_pwait2, [-1, 0, 1, 0, 0, 8]),
            (preadv2, [-1, 0, 1, -1, 0, 0]),
            (pwritev2, [-1, 0, 1, -1, 0, 0]),
        ] {
            // SAFETY: the array is a local; the sets are null.
            assert_eq!(unsafe { call(arguments) }, None);
        }
    }
}
