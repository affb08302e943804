//! Error numbers: `errno`, and the results of calls before they are C's.

#![allow(unsafe_code)]

use core::ffi::c_int;

use rustix::io::Errno;

/// The result of a call of the shim, before it is translated to C's conventions.
pub(crate) type Outcome<T> = Result<T, Errno>;

/// Sets the calling thread's `errno`.
pub(crate) fn set(errno: Errno) {
    set_number(errno.raw_os_error());
}

/// Sets it to any number, 0 too.
pub(crate) fn set_number(number: c_int) {
    // SAFETY: the C library's function has no precondition and gives a pointer to this thread's
    // errno, valid as long as the thread.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: see above.
    unsafe { *place = number };
}

/// The result of a C library call as an [`Outcome`].
pub(crate) fn check(result: c_int) -> Outcome<c_int> {
    if result >= 0 { Ok(result) } else { Err(last()) }
}

/// The calling thread's `errno` after a call that failed.
pub(crate) fn last() -> Errno {
    Errno::from_raw_os_error(number())
}

/// The calling thread's `errno`, which may be 0.
pub(crate) fn number() -> c_int {
    // SAFETY: as in `set_number`.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as in `set_number`.
    unsafe { *place }
}
