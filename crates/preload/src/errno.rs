//! Results on their way to C: -1 and `errno`, and no panic across the border.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_uint};
use std::panic::{AssertUnwindSafe, catch_unwind};

use libc::ssize_t;
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

/// A C return type: -1 (or the like: no index, no pointer) stands for an error.
pub(crate) trait Return: Sized {
    /// The result of a body.
    type Value;

    /// Runs the body of a call.
    ///
    /// A panic in the body is a fault of this library, and must not unwind through the program. The
    /// call gives EIO, and the panic's message is on stderr.
    fn of(body: impl FnOnce() -> Outcome<Self::Value>) -> Self;
}

impl Return for c_int {
    type Value = c_int;

    fn of(body: impl FnOnce() -> Outcome<c_int>) -> Self {
        run(body).unwrap_or(-1)
    }
}

impl Return for c_uint {
    type Value = c_uint;

    fn of(body: impl FnOnce() -> Outcome<c_uint>) -> Self {
        run(body).unwrap_or(0)
    }
}

impl<T> Return for *mut T {
    type Value = *mut T;

    fn of(body: impl FnOnce() -> Outcome<*mut T>) -> Self {
        run(body).unwrap_or(core::ptr::null_mut())
    }
}

impl Return for ssize_t {
    type Value = usize;

    fn of(body: impl FnOnce() -> Outcome<usize>) -> Self {
        // No transfer is longer than isize::MAX: Rust's slices are not.
        run(body).map_or(-1, |count| ssize_t::try_from(count).unwrap_or(ssize_t::MAX))
    }
}

impl Return for () {
    type Value = ();

    fn of(body: impl FnOnce() -> Outcome<()>) -> Self {
        run(body);
    }
}

fn run<T>(body: impl FnOnce() -> Outcome<T>) -> Option<T> {
    let _uncancelled = Uncancelled::new();
    let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(Errno::IO));
    outcome.inspect_err(|&errno| set(errno)).ok()
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

const PTHREAD_CANCEL_DISABLE: c_int = 1;

/// While it lives, `pthread_cancel` waits. The C library cancels by unwinding, which must not go
/// through this library's frames. Many calls inside of a body are cancellation points.
struct Uncancelled(c_int);

impl Uncancelled {
    fn new() -> Self {
        let mut old = 0;
        // SAFETY: the pointer is to a live local.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut old) };
        Self(old)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        let mut old = 0;
        // SAFETY: the state is one that the C library gave.
        unsafe { pthread_setcancelstate(self.0, &raw mut old) };
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_pass_and_errors_set_errno() {
        assert_eq!(c_int::of(|| Ok(7)), 7);
        assert_eq!(ssize_t::of(|| Ok(9)), 9);
        assert_eq!(c_int::of(|| Err(Errno::AGAIN)), -1);
        assert_eq!(last(), Errno::AGAIN);
        assert_eq!(check(-1), Err(Errno::AGAIN));
    }

    #[test]
    fn a_panic_becomes_eio() {
        assert_eq!(c_int::of(|| panic!("expected by the test")), -1);
        assert_eq!(last(), Errno::IO);
    }
}
