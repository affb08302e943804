//! Which process this is, without a system call.
//!
//! A forked child has a copy of its parent's values, so no ordinary value tells the two apart. One
//! page does: the kernel zeroes it in every child (MADV_WIPEONFORK, Linux 4.14). A child that
//! shares its parent's memory (vfork, CLONE_VM) sees the parent's page; such a child must do
//! nothing but exec anyway.

#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use rustix::process::{Pid, getpid};

use crate::layout::PAGE;

static MARK: OnceLock<Option<&'static AtomicU32>> = OnceLock::new();

/// This process's id, by a system call. Tells a vfork child from its parent too.
#[must_use]
pub fn kernel_pid() -> u32 {
    Pid::as_raw(Some(getpid())).unsigned_abs()
}

/// Makes [`pid`] cheap from now on, in this process and its children. Without it, and where the
/// system does not know how, [`pid`] asks the system each time.
pub fn mark() {
    MARK.get_or_init(|| {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let page = unsafe { mmap_anonymous(std::ptr::null_mut(), PAGE, access, MapFlags::PRIVATE) };
        let page = NonNull::new(page.ok()?)?;
        // SAFETY: the whole mapping just made; no other code has its address.
        unsafe { madvise(page.as_ptr(), PAGE, Advice::LinuxWipeOnFork) }.ok()?;
        // SAFETY: mapped, page-aligned, zero, and never unmapped.
        Some(unsafe { page.cast::<AtomicU32>().as_ref() })
    });
}

/// This process's id.
#[must_use]
pub fn pid() -> u32 {
    let Some(Some(mark)) = MARK.get() else { return kernel_pid() };
    match mark.load(Ordering::Relaxed) {
        0 => {
            let pid = kernel_pid();
            mark.store(pid, Ordering::Relaxed);
            pid
        }
        pid => pid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_the_system_says() {
        assert_eq!(pid(), kernel_pid());
        mark();
        mark();
        assert_eq!((pid(), pid()), (kernel_pid(), kernel_pid()));
    }
}
