//! nbdkit's functions. The dynamic linker finds them in the program that has loaded this library.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_uint, c_void};

use libc::c_int;

unsafe extern "C" {
    fn nbdkit_error(format: *const c_char, ...);
    fn nbdkit_debug(format: *const c_char, ...);
    fn nbdkit_set_error(errno: c_int);
    fn nbdkit_shutdown();
    fn nbdkit_stdio_safe() -> c_int;
    fn nbdkit_nanosleep(seconds: c_uint, nanoseconds: c_uint) -> c_int;
    fn nbdkit_add_extent(extents: *mut c_void, offset: u64, len: u64, kind: u32) -> c_int;
}

/// Sentences are arguments, never formats.
const FORMAT: *const c_char = c"%s".as_ptr();

fn text(sentence: &str) -> CString {
    CString::new(sentence.replace('\0', "\u{fffd}")).unwrap_or_default()
}

/// Writes to nbdkit's log: standard error, or syslog in the background.
pub(crate) fn error(sentence: &str) {
    let text = text(sentence);
    // SAFETY: the format takes one string, and both live until the call returns.
    unsafe { nbdkit_error(FORMAT, text.as_ptr()) };
}

/// Writes to nbdkit's log if it runs with -v.
pub(crate) fn debug(sentence: &str) {
    let text = text(sentence);
    // SAFETY: as in `error`.
    unsafe { nbdkit_debug(FORMAT, text.as_ptr()) };
}

/// The error number of the callback that runs in this thread.
pub(crate) fn set_error(errno: c_int) {
    // SAFETY: any number may be given, in any thread.
    unsafe { nbdkit_set_error(errno) };
}

/// Before the fork: is standard input the user's? Otherwise a client speaks NBD there.
pub(crate) fn is_input_free() -> bool {
    // SAFETY: it may be called at any time.
    unsafe { nbdkit_stdio_safe() != 0 }
}

/// Makes nbdkit end, soon.
pub(crate) fn shut_down() {
    // SAFETY: it may be called at any time, in any thread.
    unsafe { nbdkit_shutdown() };
}

/// In a thread of nbdkit's: is nothing waited for any more? The client has gone, or nbdkit is to
/// end. nbdkit writes a line to its log then.
pub(crate) fn is_over() -> bool {
    // SAFETY: any time may be given.
    unsafe { nbdkit_nanosleep(0, 0) != 0 }
}

/// Adds to the answer of the callback `extents`, whose argument is given. False: nbdkit takes no
/// more, and has said why.
pub(crate) fn add_extent(extents: *mut c_void, offset: u64, len: u64, kind: u32) -> bool {
    // SAFETY: the pointer is the one that nbdkit gave to the callback that runs.
    unsafe { nbdkit_add_extent(extents, offset, len, kind) == 0 }
}
