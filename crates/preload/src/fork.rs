//! Children: which process this is, and what a forked one starts with.
//!
//! * **fork**: the child has copies of everything and may use nothing of it, since rings have one
//!   producer. A fork handler makes its inherited sockets unusable (EBADF) and lets go of the
//!   parent's control connection; the child's first new socket makes it a client of its own.
//! * **vfork** and `posix_spawn`: the child runs on the parent's memory with descriptors of its
//!   own until it executes. What it closes or duplicates concerns the kernel only; the table is
//!   the parent's. Only calls that would change the table ask, at the price of one `getpid`.
//! * **exec**: memory and internal descriptors (all CLOEXEC) go; placeholders without CLOEXEC
//!   stay, as kernel sockets that are connected to nothing.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering};

use shm::fork::kernel_pid;

use crate::entry::TABLE;
use crate::instance;

static PID: AtomicU32 = AtomicU32::new(0);

/// Once per process image, before any other use: remembers the process and registers the handler.
pub(crate) fn watch() {
    PID.store(kernel_pid(), Ordering::Relaxed);
    // SAFETY: the handler is a function of this library, which is never unloaded (LD_PRELOAD).
    let registered = unsafe { libc::pthread_atfork(None, None, Some(child)) } == 0;
    if registered {
        sockets::fork_watched();
        sockets::local_stack::set_host(crate::host::start);
    }
}

/// Is this a vfork child, on memory that is another process's?
pub(crate) fn in_vfork_child() -> bool {
    PID.load(Ordering::Relaxed) != kernel_pid()
}

unsafe extern "C" fn child() {
    PID.store(kernel_pid(), Ordering::Relaxed);
    // The runtime closes its copies of descriptors through `close`, so the table must not know
    // them as internal any more.
    instance::forget();
    crate::placeholder::forget();
    crate::host::forget();
    TABLE.inherit();
    // A panic here could only be reported, and there is nobody to report to.
    let _ = std::panic::catch_unwind(sockets::forked);
}
