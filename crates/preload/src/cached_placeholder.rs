//! The placeholder cached for the next socket: its number, and whether it is in use.

use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, Ordering};

/// The state in which nothing is cached.
const NONE: c_int = -1;

/// The cached placeholder of a stream: its number while it is free, [`in_use`] of the number while
/// it stands for a socket.
static CACHED: AtomicI32 = AtomicI32::new(NONE);

/// The state in which the cached placeholder `fd` stands for a socket, and back.
fn in_use(fd: c_int) -> c_int {
    NONE - 1 - fd
}

/// Takes the cached placeholder, if it is free.
pub(crate) fn take() -> Option<c_int> {
    let cached = CACHED.load(Ordering::Relaxed);
    let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
    let taken =
        cached >= 0 && CACHED.compare_exchange(cached, in_use(cached), success, failure).is_ok();
    taken.then_some(cached)
}

/// The cached placeholder, which is in use.
pub(crate) fn number() -> c_int {
    in_use(CACHED.load(Ordering::Relaxed))
}

/// The cached placeholder is free again. While it is in use, only its user changes the state. A
/// forked child has a state of its own.
pub(crate) fn give_back() {
    CACHED.store(number(), Ordering::Release);
}

/// Nothing is cached any more.
pub(crate) fn clear() {
    CACHED.store(NONE, Ordering::Release);
}

/// Is nothing cached?
pub(crate) fn is_none() -> bool {
    CACHED.load(Ordering::Relaxed) == NONE
}

/// Caches `fd`, which is free; false if another one is cached.
pub(crate) fn put(fd: c_int) -> bool {
    CACHED.compare_exchange(NONE, fd, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// Empties the cache. Returns the number that was cached.
pub(crate) fn forget() -> Option<c_int> {
    match CACHED.swap(NONE, Ordering::AcqRel) {
        NONE => None,
        used if used < 0 => Some(in_use(used)),
        free => Some(free),
    }
}
