//! Cancellation of a thread that waits, for a library loader that offers it to its program.
//!
//! A wait is marked as such, so that a request can interrupt it. It ends with ECANCELED, which is
//! passed up as EINTR is: nothing stays locked. The loader's own code then ends the thread. Waits
//! that no signal ends are not ended by cancellation either.

use std::sync::OnceLock;

use abi::Errno;

/// How a loader marks threads that wait.
pub trait Cancellation: Sync {
    /// The calling thread is about to wait. True: it must not, because its end is requested.
    fn begin(&self) -> bool;
    /// It waits no longer. True: its end is requested.
    fn end(&self) -> bool;
}

static CANCELLATION: OnceLock<&'static dyn Cancellation> = OnceLock::new();

/// Makes waits cancellable. The first call counts.
pub fn set_cancellation(cancellation: &'static dyn Cancellation) {
    // A second one is not wanted.
    let _ = CANCELLATION.set(cancellation);
}

/// Runs `sleep` as a wait that cancellation ends.
///
/// # Errors
/// ECANCELED when the thread's end is requested before the wait, or has interrupted it; those of
/// `sleep`.
pub fn cancellable<T>(sleep: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    let Some(cancellation) = CANCELLATION.get() else { return sleep() };
    let slept = if cancellation.begin() { Err(Errno::INTR) } else { sleep() };
    match slept {
        Err(Errno::INTR) if cancellation.end() => Err(Errno::CANCELED),
        Err(Errno::INTR) => Err(Errno::INTR),
        other => {
            cancellation.end();
            other
        }
    }
}
