//! packetdrill's memory: buffers, vectors and results of the C interface.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::{ptr, slice};

/// The `count` bytes at `buffer`, none if that is null.
///
/// # Safety
/// `buffer` is null or `count` bytes can be read there while the result lives.
pub(crate) unsafe fn bytes<'a>(buffer: *const c_void, count: usize) -> &'a [u8] {
    if buffer.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(buffer.cast(), count) }
}

/// The same of a buffer that must be there.
///
/// # Errors
/// EFAULT if `count` is not 0 and `buffer` is null.
///
/// # Safety
/// That of [`bytes`].
pub(crate) unsafe fn given<'a>(buffer: *const c_void, count: usize) -> Result<&'a [u8], i32> {
    if buffer.is_null() && count > 0 {
        return Err(libc::EFAULT);
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { bytes(buffer, count) })
}

/// Copies `from` to `buffer`, at most `room` bytes.
///
/// # Safety
/// `buffer` is null or `room` bytes can be written there.
pub(crate) unsafe fn copy_out(from: &[u8], buffer: *mut c_void, room: usize) {
    if !buffer.is_null() {
        // SAFETY: the caller's promise; no more than `room` bytes.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), buffer.cast(), from.len().min(room)) };
    }
}

/// The pieces of a vector.
///
/// # Safety
/// `iov` is null or `count` of them can be read there while the result lives.
pub(crate) unsafe fn pieces<'a>(iov: *const libc::iovec, count: usize) -> &'a [libc::iovec] {
    if iov.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(iov, count) }
}

/// All bytes of a vector.
///
/// # Safety
/// Each piece can be read.
pub(crate) unsafe fn gather(pieces: &[libc::iovec]) -> Vec<u8> {
    let mut all = Vec::new();
    for piece in pieces {
        // SAFETY: the caller's promise.
        all.extend_from_slice(unsafe { bytes(piece.iov_base, piece.iov_len) });
    }
    all
}

/// Distributes `from` over a vector.
///
/// # Safety
/// Each piece can be written.
pub(crate) unsafe fn scatter(mut from: &[u8], pieces: &[libc::iovec]) {
    for piece in pieces {
        let (now, later) = from.split_at(from.len().min(piece.iov_len));
        // SAFETY: the caller's promise.
        unsafe { copy_out(now, piece.iov_base, piece.iov_len) };
        from = later;
    }
}

/// How many bytes a vector has room for.
pub(crate) fn room(pieces: &[libc::iovec]) -> usize {
    pieces.iter().map(|piece| piece.iov_len).sum()
}

/// Sets `errno` and gives -1, or gives the value.
pub(crate) fn result<T: TryInto<isize>>(outcome: Result<T, i32>) -> isize {
    match outcome {
        Ok(value) => value.try_into().unwrap_or(isize::MAX),
        Err(errno) => {
            set_errno(errno);
            -1
        }
    }
}

/// The same as `int`.
pub(crate) fn int<T: TryInto<isize>>(outcome: Result<T, i32>) -> c_int {
    c_int::try_from(result(outcome)).unwrap_or(c_int::MAX)
}

/// The same of a call that gives nothing.
pub(crate) fn nothing(outcome: Result<(), i32>) -> c_int {
    int(outcome.map(|()| 0_i8))
}

fn set_errno(errno: i32) {
    // SAFETY: the C library has an errno for each thread.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: it stays valid while the thread lives.
    unsafe { *place = errno };
}
