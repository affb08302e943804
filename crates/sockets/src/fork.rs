//! Process identity: a forked child must not touch its parent's rings.
//!
//! A child inherits mappings, descriptors and every value of this library. But a ring has one
//! producer and an area has one owner: the parent. So every operation checks that its client
//! belongs to this process.
//!
//! * The check is one load. Without a promise it reads a page that the kernel wipes in children
//!   ([`shm::fork`]). A library loader that promises to call [`crate::forked`] in every child
//!   ([`fork_watched`]) lets the check read an ordinary word.
//! * Calls and waits read the wiped page in any case.
//! * A `vfork` child shares its parent's memory and is not recognised. The thread whose rings such
//!   a child would use sleeps meanwhile.
//! * Only the goodbye asks the kernel, because such a child ends before its parent.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use shm::fork::kernel_pid;

static WATCHED: AtomicBool = AtomicBool::new(false);
static PID: AtomicU32 = AtomicU32::new(0);

/// This process's id for the data path: one load, without a system call where possible.
pub(crate) fn pid_cached() -> u32 {
    if WATCHED.load(Ordering::Relaxed) { PID.load(Ordering::Relaxed) } else { shm::fork::pid() }
}

/// Promises that [`crate::forked`] is called in every forked child before any other thread can
/// exist there, as a `pthread_atfork` child handler is.
pub fn fork_watched() {
    PID.store(kernel_pid(), Ordering::Relaxed);
    WATCHED.store(true, Ordering::Release);
}

/// In a forked child: [`pid_cached`] gives the child's id from now on.
pub(crate) fn renew_pid() {
    if WATCHED.load(Ordering::Relaxed) {
        PID.store(kernel_pid(), Ordering::Relaxed);
    }
}
