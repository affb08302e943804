//! What exported calls do beside their work, if anything: one byte, so that nearly all calls look
//! only once.

use core::sync::atomic::{AtomicU8, Ordering};

/// Print a line for each call.
pub(crate) const TRACE: u8 = 1;
/// Begin cancellation points with a test.
pub(crate) const CANCEL: u8 = 2;
/// Tell ThreadSanitizer what it does not see.
pub(crate) const SANITIZE: u8 = 4;

static DUTIES: AtomicU8 = AtomicU8::new(0);

/// Is there anything to do?
#[inline]
pub(crate) fn any() -> bool {
    DUTIES.load(Ordering::Relaxed) != 0
}

/// Is this among it?
#[inline]
pub(crate) fn has(duty: u8) -> bool {
    DUTIES.load(Ordering::Relaxed) & duty != 0
}

/// From now on it is.
pub(crate) fn add(duty: u8) {
    DUTIES.fetch_or(duty, Ordering::Relaxed);
}
