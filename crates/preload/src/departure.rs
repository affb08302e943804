//! Processes that have left for a network namespace of their own.
//!
//! Such a process has no network but what it makes there. Its sockets from then on are the
//! kernel's, beside those of Tasuki that it has already. Each thread can be in another namespace,
//! and may come back: so the filter and the relay look at each new socket once a thread has left.
//!
//! A process sees here that it leaves. A program that is executed there learns it from the relay,
//! when it wants to become a client.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A thread of this process has left, or this process began elsewhere.
static LEFT: AtomicBool = AtomicBool::new(false);
/// The namespace in which it began, 0 while nobody has asked.
static HOME: AtomicU64 = AtomicU64::new(0);

/// Are new sockets the kernel's?
#[inline]
pub(crate) fn has_left() -> bool {
    LEFT.load(Ordering::Relaxed)
}

/// This process is elsewhere.
pub(crate) fn note() {
    LEFT.store(true, Ordering::Relaxed);
}

/// The calling thread's namespace; `None`: /proc does not tell.
fn current() -> Option<u64> {
    rustix::fs::stat(c"/proc/thread-self/ns/net").ok().map(|found| found.st_ino)
}

/// Before a call that may lead elsewhere.
pub(crate) fn prepare() {
    if !has_left()
        && let Some(here) = current()
    {
        HOME.store(here, Ordering::Relaxed);
    }
}

/// After it. `surely`: it asked for another network namespace.
pub(crate) fn look(surely: bool) {
    let home = HOME.load(Ordering::Relaxed);
    let left = current().map_or(surely, |now| now != home);
    LEFT.store(left, Ordering::Relaxed);
}
