//! The placeholder that is kept for the next socket: its number, and whether it is in use.

use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, Ordering};

/// The state in which nothing is kept.
const NONE: c_int = -1;

/// The kept placeholder of a stream: its number while it is free, [`in_use`] of that while it
/// stands for a socket.
static KEPT: AtomicI32 = AtomicI32::new(NONE);

/// The state in which the kept placeholder `fd` stands for a socket, and back.
fn in_use(fd: c_int) -> c_int {
    NONE - 1 - fd
}

/// Takes the kept placeholder, if it is free.
pub(crate) fn take() -> Option<c_int> {
    let kept = KEPT.load(Ordering::Relaxed);
    let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
    let taken = kept >= 0 && KEPT.compare_exchange(kept, in_use(kept), success, failure).is_ok();
    taken.then_some(kept)
}

/// The kept placeholder, which is in use.
pub(crate) fn number() -> c_int {
    in_use(KEPT.load(Ordering::Relaxed))
}

/// The kept placeholder is free again. While it is in use only its user changes the state; a forked
/// child has a state of its own.
pub(crate) fn give_back() {
    KEPT.store(number(), Ordering::Release);
}

/// Nothing is kept any more.
pub(crate) fn clear() {
    KEPT.store(NONE, Ordering::Release);
}

/// Is nothing kept?
pub(crate) fn is_none() -> bool {
    KEPT.load(Ordering::Relaxed) == NONE
}

/// Keeps `fd`, which is free; false if another one is kept.
pub(crate) fn keep(fd: c_int) -> bool {
    KEPT.compare_exchange(NONE, fd, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// Nothing is kept any more; the number of what was.
pub(crate) fn forget() -> Option<c_int> {
    match KEPT.swap(NONE, Ordering::AcqRel) {
        NONE => None,
        used if used < 0 => Some(in_use(used)),
        free => Some(free),
    }
}
