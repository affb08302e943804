//! The edge of an exported call: -1 and `errno` on the way to C, no panic across the border, and
//! neither cancellation nor signal handlers within.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_uint};
use std::panic::{AssertUnwindSafe, catch_unwind};

use libc::ssize_t;
use rustix::io::Errno;

use crate::cancellation::PTHREAD_CANCEL_DISABLE;
use crate::errno::{self, Outcome};
use crate::handlers::Within;
use crate::sanitizers::Unseen;
use crate::{cancellation, real};

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
    let within = Within::new();
    let uncancelled = Uncancelled::new();
    let unseen = Unseen::new();
    let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(Errno::IO));
    drop(unseen);
    match outcome {
        Ok(value) => Some(value),
        Err(errno) => {
            fail(errno, uncancelled, within);
            None
        }
    }
}

/// Sets `errno`. A thread that is to be cancelled ends here: no frame of this library has anything
/// to drop.
#[cold]
fn fail(errno: Errno, uncancelled: Uncancelled, within: Within) {
    let within_another = uncancelled.0 == PTHREAD_CANCEL_DISABLE;
    drop(uncancelled);
    // Signal handlers run here.
    drop(within);
    if errno != Errno::CANCELED || within_another {
        errno::set(errno);
        return;
    }
    cancellation::act();
    // The request was an earlier thread's.
    errno::set(Errno::INTR);
}

/// While it lives, `pthread_cancel` waits. The C library cancels by unwinding, which must not go
/// through this library's frames. Many calls inside of a body are cancellation points.
struct Uncancelled(c_int);

impl Uncancelled {
    fn new() -> Self {
        let mut old = 0;
        // SAFETY: the pointer is to a live local.
        unsafe { real::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut old) };
        Self(old)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        let mut old = 0;
        // SAFETY: the state is one that the C library gave.
        unsafe { real::pthread_setcancelstate(self.0, &raw mut old) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errno::{check, last};

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
