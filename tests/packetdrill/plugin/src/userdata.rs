//! The instance behind the pointer that packetdrill passes, and getsockopt(2) of its sockets.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::ptr;

use libc::socklen_t;

use crate::instance::Instance;
use crate::memory::{copy_out, nothing};

/// The instance that `userdata` is.
///
/// # Safety
/// `userdata` comes from `packetdrill_interface_init`, and `free` was not called.
pub(crate) unsafe fn of_userdata<'a>(userdata: *mut c_void) -> &'a Instance {
    // SAFETY: it was made of an `Arc` that lives until then.
    unsafe { &*userdata.cast::<Instance>() }
}

/// getsockopt(2) of one of our sockets.
///
/// # Safety
/// getsockopt(2)'s contract for `value` and `len`.
pub(crate) unsafe fn get_option(
    instance: &Instance,
    (fd, level, name): (c_int, c_int, c_int),
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    let outcome = instance.call(|host| host.getsockopt(fd, level, name));
    if let Ok(bytes) = &outcome {
        // SAFETY: the caller's promise.
        let room = unsafe { ptr::read(len) } as usize;
        let count = bytes.len().min(room);
        // SAFETY: the caller's promise.
        unsafe { copy_out(bytes, value, count) };
        // SAFETY: the caller's promise.
        unsafe { ptr::write(len, count.try_into().unwrap_or(socklen_t::MAX)) };
    }
    nothing(outcome.map(|_| ()))
}
