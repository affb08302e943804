//! Which process this is: the loader's own, or a vfork child on its memory.
//!
//! A vfork or `posix_spawn` child runs on the parent's memory, with descriptors of its own, until
//! it executes. Its closes and duplicates concern the kernel only: the table is the parent's. Only
//! calls that would change the table ask, at the price of one `getpid`.

use core::sync::atomic::{AtomicU32, Ordering};

use shm::fork::kernel_pid;

static PID: AtomicU32 = AtomicU32::new(0);

/// Remembers the process: at load, and in each forked child.
pub(crate) fn remember() {
    PID.store(kernel_pid(), Ordering::Relaxed);
}

/// Is this a vfork child, on memory that is another process's?
pub(crate) fn in_vfork_child() -> bool {
    PID.load(Ordering::Relaxed) != kernel_pid()
}
