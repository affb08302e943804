//! Standard input and output on Tasuki sockets: fdopen, freopen, and `stdin`, `stdout`, `stderr`.
//!
//! The C library reads and writes for its streams without a call that a library could stand
//! before. So a stream of a Tasuki socket is one of fopencookie(3), whose functions make the
//! exported calls. Its descriptor is written into the `FILE`, so fileno(3) knows it. A socket that
//! becomes descriptor 0, 1 or 2 gets such a stream in the C library's variable of that descriptor.
//!
//! The C library flushes streams after this library's end. So [`flush`] does it before.

#![allow(unsafe_code)]

use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use libc::{FILE, off64_t, size_t, ssize_t};
use rustix::io::Errno;

use crate::descriptors::{TABLE, is_socket, release};
use crate::errno::{self, Outcome};
use crate::interpose::interpose;
use crate::{process, real};

/// `_fileno` in glibc's `struct _IO_FILE` (bits/types/struct_FILE.h).
const FILENO: usize = 112;
/// The table of functions behind that structure, which has 216 bytes.
const FUNCTIONS: usize = 216;
/// Streams that are flushed at the end of the process.
const FLUSHED: usize = 256;

/// glibc's `cookie_io_functions_t`.
#[repr(C)]
struct CookieFunctions {
    read: extern "C-unwind" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    write: extern "C-unwind" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    seek: extern "C" fn(*mut c_void, *mut off64_t, c_int) -> c_int,
    close: extern "C-unwind" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, with: CookieFunctions) -> *mut FILE;
    fn ftrylockfile(file: *mut FILE) -> c_int;
    fn funlockfile(file: *mut FILE);
    fn fflush_unlocked(file: *mut FILE) -> c_int;
    static mut stdin: *mut FILE;
    static mut stdout: *mut FILE;
    static mut stderr: *mut FILE;
}

/// The table of functions that streams of fopencookie have; 0 before the first.
static COOKIE_FUNCTIONS: AtomicUsize = AtomicUsize::new(0);
/// Streams of sockets.
static STREAMS: [AtomicPtr<FILE>; FLUSHED] = [const { AtomicPtr::new(null_mut()) }; FLUSHED];

/// The descriptor of a stream; it is the cookie.
fn descriptor(cookie: *mut c_void) -> c_int {
    c_int::try_from(cookie.addr()).unwrap_or(-1)
}

extern "C-unwind" fn read(cookie: *mut c_void, place: *mut c_char, len: size_t) -> ssize_t {
    // SAFETY: the C library's buffer has `len` bytes.
    unsafe { libc::read(descriptor(cookie), place.cast(), len) }
}

/// Writes all bytes, as the C library does, or those before an error.
extern "C-unwind" fn write(cookie: *mut c_void, from: *const c_char, len: size_t) -> ssize_t {
    let mut done = 0;
    while done < len {
        let rest = from.wrapping_add(done);
        // SAFETY: the C library's buffer has `len` bytes.
        let now = unsafe { libc::write(descriptor(cookie), rest.cast(), len - done) };
        let Ok(now @ 1..) = usize::try_from(now) else { break };
        done += now;
    }
    done.cast_signed()
}

extern "C" fn seek(_: *mut c_void, _: *mut off64_t, _: c_int) -> c_int {
    errno::set(Errno::SPIPE);
    -1
}

extern "C-unwind" fn close(cookie: *mut c_void) -> c_int {
    let fd = descriptor(cookie);
    // SAFETY: streams are taken out here, before the C library frees them.
    forget(|file| unsafe { fileno_of(file) } == fd);
    // SAFETY: no pointers.
    unsafe { libc::close(fd) }
}

/// Takes streams out of the list.
fn forget(which: impl Fn(*mut FILE) -> bool) {
    for place in &STREAMS {
        let file = place.load(Ordering::Acquire);
        if !file.is_null() && which(file) {
            let _ = place.compare_exchange(file, null_mut(), Ordering::AcqRel, Ordering::Acquire);
        }
    }
}

/// A place in a stream's memory.
fn field<T>(file: *mut FILE, offset: usize) -> *mut T {
    file.wrapping_byte_add(offset).cast()
}

/// # Safety
/// `file` is a stream of the C library.
unsafe fn fileno_of(file: *mut FILE) -> c_int {
    // SAFETY: a FILE has this field there.
    unsafe { field::<c_int>(file, FILENO).read() }
}

/// # Safety
/// `file` is a stream of the C library.
unsafe fn functions_of(file: *mut FILE) -> usize {
    // SAFETY: each stream's table of functions lies behind its FILE.
    unsafe { field::<usize>(file, FUNCTIONS).read() }
}

/// A stream of `fd`.
///
/// # Errors
/// EINVAL for an unknown mode, ENOMEM.
unsafe fn open(fd: c_int, mode: *const c_char) -> Outcome<*mut FILE> {
    // SAFETY: no pointers.
    let flags = errno::check(unsafe { real::fcntl(fd, libc::F_GETFL, 0) })?;
    let with = CookieFunctions { read, write, seek, close };
    let cookie = core::ptr::without_provenance_mut(usize::try_from(fd).unwrap_or(usize::MAX));
    // SAFETY: the mode is a string, and the functions live for ever.
    let file = unsafe { fopencookie(cookie, mode, with) };
    if file.is_null() {
        return Err(errno::last());
    }
    // SAFETY: the mode is a string of at least one byte, which fopencookie has read.
    let appends = unsafe { *mode } == b'a'.cast_signed();
    if appends && flags & libc::O_APPEND == 0 {
        let flags = (flags | libc::O_APPEND).cast_unsigned();
        // SAFETY: the command takes an int.
        unsafe { real::fcntl(fd, libc::F_SETFL, flags.into()) };
    }
    // SAFETY: the stream was just made.
    COOKIE_FUNCTIONS.store(unsafe { functions_of(file) }, Ordering::Relaxed);
    // SAFETY: as above, and nobody else knows it.
    unsafe { field::<c_int>(file, FILENO).write(fd) };
    for place in &STREAMS {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        if place.compare_exchange(null_mut(), file, success, failure).is_ok() {
            break;
        }
    }
    Ok(file)
}

/// Was it made here? Its descriptor may be a socket no more.
unsafe fn is_own(file: *mut FILE) -> bool {
    !file.is_null() && STREAMS.iter().any(|place| place.load(Ordering::Acquire) == file)
}

/// Is it a stream of a socket, but not one that was made here?
unsafe fn is_foreign(file: *mut FILE) -> bool {
    // SAFETY: the program says that it is a stream.
    if !unsafe { is_of_socket(file) } {
        return false;
    }
    // SAFETY: as above, and it is not null.
    let functions = unsafe { functions_of(file) };
    functions != COOKIE_FUNCTIONS.load(Ordering::Relaxed)
}

/// fclose of a stream that the C library made for a descriptor before it became a socket.
unsafe fn close_foreign(file: *mut FILE) -> Outcome<c_int> {
    // SAFETY: passed on from the program.
    let held = TABLE.take(unsafe { fileno_of(file) });
    // SAFETY: passed on from the program.
    let outcome = errno::check(unsafe { real::fclose(file) });
    release(held);
    outcome
}

type Reopen = unsafe fn(*const c_char, *const c_char, *mut FILE) -> *mut FILE;

/// The C library puts the new file under the same number, without a call that is seen.
unsafe fn reopen(
    real: Reopen,
    path: *const c_char,
    mode: *const c_char,
    file: *mut FILE,
) -> Outcome<*mut FILE> {
    // SAFETY: the program says that it is a stream.
    let fd = unsafe { fileno_of(file) };
    // SAFETY: as above. What is in the buffer is for the socket.
    unsafe { libc::fflush(file) };
    forget(|one| one == file);
    let held = TABLE.take(fd);
    // SAFETY: passed on from the program.
    let file = unsafe { real(path, mode, file) };
    release(held);
    if file.is_null() { Err(errno::last()) } else { Ok(file) }
}

/// Is it a stream of a socket?
unsafe fn is_of_socket(file: *mut FILE) -> bool {
    // SAFETY: the program says that it is a stream.
    !file.is_null() && is_socket(unsafe { fileno_of(file) }) && !process::in_vfork_child()
}

/// `fd` has become a socket: if it is a standard stream's, that stream is the socket's from now on.
pub(super) fn stand_in(fd: c_int) {
    let (variable, mode) = match fd {
        libc::STDIN_FILENO => (&raw mut stdin, c"r"),
        libc::STDOUT_FILENO => (&raw mut stdout, c"w"),
        libc::STDERR_FILENO => (&raw mut stderr, c"w"),
        _ => return,
    };
    // SAFETY: the variable is the C library's, and holds a stream or null.
    let now = unsafe { *variable };
    // SAFETY: as above.
    if !unsafe { is_foreign(now) } {
        return;
    }
    // SAFETY: as above, and it is not null.
    if unsafe { fileno_of(now) } != fd {
        return;
    }
    // SAFETY: the mode is a string.
    let Ok(file) = (unsafe { open(fd, mode.as_ptr()) }) else { return };
    if fd == libc::STDERR_FILENO {
        // SAFETY: the stream was just made.
        unsafe { libc::setvbuf(file, null_mut(), libc::_IONBF, 0) };
    }
    // SAFETY: as above; programs set the variable in the same way.
    unsafe { *variable = file };
}

/// Sends what is in the buffers of sockets' streams. One that another thread uses is left out.
pub(super) fn flush() {
    for place in &STREAMS {
        let file = place.load(Ordering::Acquire);
        // SAFETY: a stream is taken out of the list before it is freed.
        if !file.is_null() && unsafe { ftrylockfile(file) } == 0 {
            // SAFETY: as above, and the lock is held.
            unsafe { fflush_unlocked(file) };
            // SAFETY: as above.
            unsafe { funlockfile(file) };
        }
    }
}

/// The names that programs built long ago use.
#[allow(non_snake_case, reason = "the C library's name")]
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn _IO_fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    // SAFETY: passed on from the program.
    unsafe { fdopen(fd, mode) }
}

#[allow(non_snake_case, reason = "the C library's name")]
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn _IO_fclose(file: *mut FILE) -> c_int {
    // SAFETY: passed on from the program.
    unsafe { fclose(file) }
}

interpose! {
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
        is_socket(fd) => open(fd, mode)
    }
    fn fclose(file: *mut FILE) -> c_int {
        is_foreign(file) => close_foreign(file)
    }
    fn freopen(path: *const c_char, mode: *const c_char, file: *mut FILE) -> *mut FILE {
        is_of_socket(file) || is_own(file) => reopen(real::freopen, path, mode, file)
    }
    fn freopen64(path: *const c_char, mode: *const c_char, file: *mut FILE) -> *mut FILE {
        is_of_socket(file) || is_own(file) => reopen(real::freopen64, path, mode, file)
    }
}
