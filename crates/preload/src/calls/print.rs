//! dprintf and its relatives: the C library writes for them without a call that is seen.

#![allow(unsafe_code)]

use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;

use crate::descriptors::is_socket;
use crate::errno::{self, Outcome};
use crate::interpose::interpose;
use crate::variadic::variadic;

unsafe extern "C" {
    fn vasprintf(place: *mut *mut c_char, format: *const c_char, list: *mut c_void) -> c_int;
    fn __vasprintf_chk(
        place: *mut *mut c_char,
        flag: c_int,
        format: *const c_char,
        list: *mut c_void,
    ) -> c_int;
}

/// Formats with `print`, and writes all of it. As the C library does, what it could not write is an
/// error.
fn print(fd: c_int, print: impl FnOnce(*mut *mut c_char) -> c_int) -> Outcome<c_int> {
    let mut text = null_mut();
    let len = errno::check(print(&raw mut text))?;
    let whole = usize::try_from(len).unwrap_or(0);
    let (mut done, mut outcome) = (0, Ok(len));
    while done < whole {
        let rest = text.wrapping_add(done);
        // SAFETY: the C library has made so many bytes.
        let now = unsafe { libc::write(fd, rest.cast(), whole - done) };
        match usize::try_from(now) {
            Ok(now @ 1..) => done += now,
            _ => {
                outcome = Err(errno::last());
                break;
            }
        }
    }
    // SAFETY: the C library has made it for this.
    unsafe { libc::free(text.cast()) };
    outcome
}

interpose! {
    fn vdprintf(fd: c_int, format: *const c_char, list: *mut c_void) -> c_int {
        is_socket(fd) => print(fd, |place| vasprintf(place, format, list))
    }
    fn __vdprintf_chk(
        fd: c_int, flag: c_int, format: *const c_char, list: *mut c_void,
    ) -> c_int {
        is_socket(fd) => print(fd, |place| __vasprintf_chk(place, flag, format, list))
    }
}

unsafe extern "C-unwind" fn print_list(
    fd: c_int,
    format: *const c_char,
    list: *mut c_void,
) -> c_int {
    // SAFETY: passed on from the program.
    unsafe { vdprintf(fd, format, list) }
}

unsafe extern "C-unwind" fn print_list_checked(
    fd: c_int,
    flag: c_int,
    format: *const c_char,
    list: *mut c_void,
) -> c_int {
    // SAFETY: passed on from the program.
    unsafe { __vdprintf_chk(fd, flag, format, list) }
}

#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
unsafe extern "C-unwind" fn dprintf(fd: c_int, format: *const c_char) -> c_int {
    variadic!(print_list, "16", "rdx")
}

#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
unsafe extern "C-unwind" fn __dprintf_chk(fd: c_int, flag: c_int, format: *const c_char) -> c_int {
    variadic!(print_list_checked, "24", "rcx")
}

#[cfg(target_arch = "aarch64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
unsafe extern "C-unwind" fn dprintf(fd: c_int, format: *const c_char) -> c_int {
    variadic!(print_list, "16", "x2")
}

#[cfg(target_arch = "aarch64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
unsafe extern "C-unwind" fn __dprintf_chk(fd: c_int, flag: c_int, format: *const c_char) -> c_int {
    variadic!(print_list_checked, "24", "x3")
}
