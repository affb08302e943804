//! Whose process this is: a forked child must not touch its parent's rings.
//!
//! A child inherits mappings, descriptors and every value of this library, but rings have one
//! producer and areas one owner: the parent. So every operation asks whether its client is of this
//! process. The answer is one load: of a page that the kernel wipes in children ([`shm::fork`]), or
//! of a word if whoever loads this library promises with [`fork_watched`] to call [`forked`] in
//! every child. Calls and waits look at the page in any case. A `vfork` that shares memory does
//! neither, and is not told apart: the thread whose rings such a child would use sleeps meanwhile.
//! Only the goodbye asks the kernel, since the child ends before its parent.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rustix::process::{Pid, getpid};

static WATCHED: AtomicBool = AtomicBool::new(false);
static PID: AtomicU32 = AtomicU32::new(0);

/// This process's id from the kernel.
pub(crate) fn pid() -> u32 {
    Pid::as_raw(Some(getpid())).unsigned_abs()
}

/// This process's id, without a system call if it can be.
pub(crate) fn pid_cached() -> u32 {
    if WATCHED.load(Ordering::Relaxed) { PID.load(Ordering::Relaxed) } else { shm::fork::pid() }
}

/// Promise that [`forked`] is called in every forked child before any other thread can exist there,
/// as a `pthread_atfork` child handler is.
pub fn fork_watched() {
    PID.store(pid(), Ordering::Relaxed);
    WATCHED.store(true, Ordering::Release);
}

/// In a forked child: forget the parent's client.
///
/// Closes this process's copies of the parent's control descriptors and makes [`crate::instance()`]
/// admit the child afresh at its next use. Touches no shared memory and waits for no lock, so it
/// may run in a fork handler. Sockets inherited as values answer ENOTCONN from now on.
pub fn forked() {
    if WATCHED.load(Ordering::Relaxed) {
        PID.store(pid(), Ordering::Relaxed);
    }
    crate::instance::forget();
}
