//! Where lines of the trace go.
//!
//! A program may close all of its descriptors, and a new file may get the number of the trace's.
//! So before each line this looks whether the descriptor is the trace's file still. If not, it is
//! opened once more.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_char};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering};
use std::os::fd::{BorrowedFd, IntoRawFd as _, OwnedFd, RawFd};

use rustix::fs::{Mode, OFlags};

/// The variable's name.
const NAME: &CStr = c"TASUKI_TRACE";
/// Its value for standard error.
const STDERR: &CStr = c"-";

/// The file's path, never freed; null: standard error.
static PATH: AtomicPtr<c_char> = AtomicPtr::new(null_mut());
static FILE: AtomicI32 = AtomicI32::new(-1);
/// The file's number on its device.
static INODE: AtomicU64 = AtomicU64::new(0);

/// Begins, if the variable is set. False: there is no trace.
pub(super) fn open() -> bool {
    // SAFETY: the name is a C string, and no thread of the program runs yet.
    let value = unsafe { libc::getenv(NAME.as_ptr()) };
    // SAFETY: a value of the environment is a C string.
    if value.is_null() || unsafe { *value } == 0 {
        return false;
    }
    // SAFETY: as above.
    let path = unsafe { CStr::from_ptr(value) };
    if path != STDERR {
        PATH.store(path.to_owned().into_raw(), Ordering::Release);
        let _ = reopen();
    }
    true
}

/// Writes a line. A line that cannot be written is lost.
pub(super) fn write(line: &[u8]) {
    let path = PATH.load(Ordering::Acquire);
    let fd = if path.is_null() { Some(libc::STDERR_FILENO) } else { current().or_else(reopen) };
    let Some(fd) = fd else { return };
    // SAFETY: used for this one write only; if the program closed it just now, the write fails.
    let file = unsafe { BorrowedFd::borrow_raw(fd) };
    let _ = rustix::io::write(file, line);
}

/// The descriptor, if it is the trace's file.
fn current() -> Option<RawFd> {
    let fd = FILE.load(Ordering::Acquire);
    if fd < 0 {
        return None;
    }
    // SAFETY: used for this one call only; a closed one makes it fail.
    let file = unsafe { BorrowedFd::borrow_raw(fd) };
    let stat = rustix::fs::fstat(file).ok()?;
    (stat.st_ino == INODE.load(Ordering::Acquire)).then_some(fd)
}

fn reopen() -> Option<RawFd> {
    let path = PATH.load(Ordering::Acquire);
    if path.is_null() {
        return None;
    }
    // SAFETY: it came from `CString::into_raw`, and is never freed.
    let path = unsafe { CStr::from_ptr(path) };
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file: OwnedFd = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    // Away from the small numbers that programs expect to get.
    let floor = shm::descriptors::library_floor();
    let file = rustix::io::fcntl_dupfd_cloexec(&file, floor).unwrap_or(file);
    INODE.store(rustix::fs::fstat(&file).ok()?.st_ino, Ordering::Release);
    let fd = file.into_raw_fd();
    FILE.store(fd, Ordering::Release);
    Some(fd)
}
