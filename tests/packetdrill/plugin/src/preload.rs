//! Calls that packetdrill makes to the C library though they are about our sockets and settings.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use libc::{off_t, size_t, socklen_t, ssize_t};
use packetdrill::host::Progress;

use crate::instance::{self, FIRST_FD, Instance};
use crate::memory::{self, result};
use crate::settings::Settings;
use crate::userdata::get_option;

static SETTINGS: Mutex<Option<Settings>> = Mutex::new(None);

/// Complains if the library is not preloaded: commands would change the machine's settings.
pub(crate) fn warn_if_absent() {
    let preloaded = std::env::var("LD_PRELOAD").unwrap_or_default();
    if !preloaded.contains("tasuki_packetdrill") {
        eprintln!("tasuki: put this library into LD_PRELOAD too: commands go to the kernel");
    }
}

/// A script has ended.
pub(crate) fn end() {
    *SETTINGS.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// The instance, if `fd` is one of its descriptors. Others are passed on without a look at the
/// instance, since this library closes files of its own too.
fn ours(fd: c_int) -> Option<Arc<Instance>> {
    let instance = if fd < FIRST_FD { None } else { instance::current() };
    instance.filter(|instance| instance.look(|host| host.has(fd)))
}

/// system(3).
///
/// # Safety
/// `command` is null or a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn system(command: *const c_char) -> c_int {
    let (Some(instance), false) = (instance::current(), command.is_null()) else {
        return 1;
    };
    // SAFETY: the caller's promise.
    let command = unsafe { CStr::from_ptr(command) }.to_string_lossy();
    let mut settings = SETTINGS.lock().unwrap_or_else(PoisonError::into_inner);
    if settings.is_none() {
        match Settings::new() {
            Ok(new) => *settings = Some(new),
            Err(error) => eprintln!("tasuki: no place for settings: {error}"),
        }
    }
    let Some(settings) = &mut *settings else { return -1 };
    instance.look(|host| settings.run(&command, host))
}

/// getsockopt(2).
///
/// # Safety
/// getsockopt(2)'s contract.
#[unsafe(no_mangle)]
unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    match ours(fd) {
        // SAFETY: the caller's promise.
        Some(instance) => unsafe { get_option(&instance, (fd, level, name), value, len) },
        None => {
            // SAFETY: the call as it was made.
            let answer =
                unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, value, len) };
            c_int::try_from(answer).unwrap_or(-1)
        }
    }
}

/// close(2), with which packetdrill ends a script.
///
/// # Safety
/// close(2)'s contract.
#[unsafe(no_mangle)]
unsafe extern "C" fn close(fd: c_int) -> c_int {
    match ours(fd) {
        Some(instance) => memory::nothing(instance.call(|host| host.close(fd))),
        None => {
            // SAFETY: the call as it was made.
            let answer = unsafe { libc::syscall(libc::SYS_close, fd) };
            c_int::try_from(answer).unwrap_or(-1)
        }
    }
}

/// sendfile(2), from a file of the kernel's to one of our sockets.
///
/// # Safety
/// sendfile(2)'s contract.
#[unsafe(no_mangle)]
unsafe extern "C" fn sendfile(
    to: c_int,
    from: c_int,
    offset: *mut off_t,
    count: size_t,
) -> ssize_t {
    let Some(instance) = ours(to) else {
        // SAFETY: the call as it was made.
        let answer = unsafe { libc::syscall(libc::SYS_sendfile, to, from, offset, count) };
        return isize::try_from(answer).unwrap_or(-1);
    };
    let mut bytes = vec![0_u8; count];
    let read = match offset.is_null() {
        // SAFETY: the buffer has `count` bytes.
        true => unsafe { libc::read(from, bytes.as_mut_ptr().cast(), count) },
        false => {
            // SAFETY: the caller's promise.
            let at = unsafe { offset.read() };
            // SAFETY: the buffer has `count` bytes.
            unsafe { libc::pread(from, bytes.as_mut_ptr().cast(), count, at) }
        }
    };
    let Ok(read) = usize::try_from(read) else { return -1 };
    bytes.truncate(read);
    let mut progress = Progress::default();
    let sent = instance.call(|host| host.write(to, &bytes, &mut progress));
    if let (Ok(sent), false) = (sent, offset.is_null()) {
        // SAFETY: the caller's promise.
        let at = unsafe { offset.read() };
        // SAFETY: the caller's promise.
        unsafe { offset.write(at + off_t::try_from(sent).unwrap_or(0)) };
    }
    result(sent)
}
