//! The number of this library's descriptor that is always ready: a Unix socket that is connected to
//! nothing, which has hung up.

use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, Ordering};

const NONE: c_int = -1;

static NUMBER: AtomicI32 = AtomicI32::new(NONE);

/// Its number, once there is one.
pub(crate) fn number() -> Option<c_int> {
    let number = NUMBER.load(Ordering::Acquire);
    (number != NONE).then_some(number)
}

/// `fd` is it; false if another thread was first.
pub(crate) fn set(fd: c_int) -> bool {
    NUMBER.compare_exchange(NONE, fd, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// In a forked child: it is the parent's, which may have it in a set that both have. Returns its
/// number.
pub(crate) fn forget() -> Option<c_int> {
    let number = NUMBER.swap(NONE, Ordering::AcqRel);
    (number != NONE).then_some(number)
}
