//! The instance that this process is a client of, if any.
//!
//! Without `TASUKI_SOCKET` in the environment the shim hands every call to the kernel. With it, the
//! process becomes a client at its first AF_INET socket. So a program without one costs the
//! instance nothing.

#![allow(unsafe_code)]

use core::ffi::CStr;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, Ordering};
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Arc;

use rustix::io::Errno;
use sockets::{Client, ConnectError};

use crate::errno::Outcome;
use crate::{departure, process, self_filtering};

const UNKNOWN: u8 = 0;
const KERNEL: u8 = 1;
const TASUKI: u8 = 2;

/// [`sockets::ENV`].
const NAME: &CStr = c"TASUKI_SOCKET";

static MODE: AtomicU8 = AtomicU8::new(UNKNOWN);
static REPORTED: AtomicBool = AtomicBool::new(false);
/// This process's client: null, or from `Arc::into_raw` and never given back.
static CLIENT: AtomicPtr<Client> = AtomicPtr::new(null_mut());
/// No descriptor of the runtime is below this number.
static INTERNAL_FLOOR: AtomicI32 = AtomicI32::new(i32::MAX);

/// Is this program to run on Tasuki?
pub(crate) fn is_wanted() -> bool {
    match MODE.load(Ordering::Relaxed) {
        UNKNOWN => {
            let wanted = is_named() && !self_filtering::stands_aside();
            MODE.store(if wanted { TASUKI } else { KERNEL }, Ordering::Relaxed);
            wanted
        }
        mode => mode == TASUKI,
    }
}

/// Does the environment name an instance? An allocator may ask, by a call of its own that passes
/// through here while it begins. So this allocates nothing.
fn is_named() -> bool {
    // SAFETY: the name is a C string; the program's own changes of its environment race with this
    // as with any getenv(3).
    let value = unsafe { libc::getenv(NAME.as_ptr()) };
    // SAFETY: a value of the environment is a C string.
    !value.is_null() && unsafe { *value } != 0
}

/// This process's client, admitted now if it is not yet.
///
/// # Errors
/// ENETDOWN when the instance cannot be reached; the first time, the reason goes to stderr. ENONET
/// in a network namespace of the process's own.
pub(crate) fn client() -> Outcome<Arc<Client>> {
    let client = sockets::instance().map_err(|error| {
        if matches!(error, ConnectError::OwnNetwork) {
            departure::note();
            return Errno::NONET;
        }
        if !REPORTED.swap(true, Ordering::Relaxed) {
            report(&format!("tasuki: this program has no network: {error}\n"));
        }
        Errno::NETDOWN
    })?;
    if CLIENT.load(Ordering::Acquire).cast_const() != Arc::as_ptr(&client) {
        let kept = shm::descriptors::kept();
        let floor = client.internal_fds().into_iter().chain(kept).min().unwrap_or(i32::MAX);
        INTERNAL_FLOOR.store(floor, Ordering::Relaxed);
        CLIENT.store(Arc::into_raw(Arc::clone(&client)).cast_mut(), Ordering::Release);
    }
    Ok(client)
}

/// Writes to stderr as it is now, with one system call. Errors are ignored.
pub(crate) fn report(line: &str) {
    // SAFETY: stderr is used for this one write only; if the program closed it, the write fails.
    let stderr = unsafe { BorrowedFd::borrow_raw(libc::STDERR_FILENO) };
    let _ = rustix::io::write(stderr, line.as_bytes());
}

/// Is `fd` the runtime's own? Nearly always answered without looking.
#[inline]
pub(crate) fn is_internal(fd: RawFd) -> bool {
    fd >= INTERNAL_FLOOR.load(Ordering::Relaxed)
        && (shm::descriptors::is_kept(fd)
            || known().is_some_and(|client| client.is_internal_fd(fd)))
}

/// The lowest number for descriptors of the shim itself: where the runtime has its own.
pub(crate) fn own_fd_floor() -> RawFd {
    match INTERNAL_FLOOR.load(Ordering::Relaxed) {
        i32::MAX => 3,
        floor => floor,
    }
}

/// The runtime's own descriptors.
pub(crate) fn internal_fds() -> Vec<RawFd> {
    let mut all = known().map(Client::internal_fds).unwrap_or_default();
    all.extend(shm::descriptors::kept());
    all.sort_unstable();
    all.dedup();
    all
}

/// In a forked child: it is no client yet.
pub(crate) fn forget() {
    CLIENT.store(null_mut(), Ordering::Release);
    INTERNAL_FLOOR.store(i32::MAX, Ordering::Relaxed);
    REPORTED.store(false, Ordering::Relaxed);
}

/// The process ends. Its sockets are closed in order, and their queued bytes are still sent.
pub(crate) fn goodbye() {
    if let Some(client) = known().filter(|_| !process::in_vfork_child()) {
        client.goodbye();
    }
}

/// This process's client, if it is one.
pub(crate) fn known() -> Option<&'static Client> {
    // SAFETY: the pointer is null or came from Arc::into_raw, and that reference is never given
    // back.
    unsafe { CLIENT.load(Ordering::Acquire).as_ref() }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_variable_is_that_of_the_runtime() {
        assert_eq!(super::NAME.to_str(), Ok(sockets::ENV));
    }
}
