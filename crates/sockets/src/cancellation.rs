//! Cancellation of a thread that waits, and signal handlers that make calls, for a library loader
//! that offers these to its program.
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
    /// The calling thread is about to sleep in one system call, and holds no lock: signal handlers
    /// may make socket calls. Runs those that have had to wait until now.
    fn lie_down(&self) -> LyingDown;
    /// It sleeps no longer: signal handlers have to wait again if they had to before.
    fn get_up(&self, from: LyingDown);
}

/// What happened when a thread was about to sleep.
#[derive(Debug, Clone, Copy)]
pub struct LyingDown {
    /// Signal handlers had to wait.
    pub within: bool,
    /// Those that ran then.
    pub ran: HandlersRun,
}

/// Which signal handlers ran before a sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandlersRun {
    /// None has had to wait.
    None,
    /// All were installed with SA_RESTART.
    Restarting,
    /// One was installed without it.
    Interrupting,
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

/// Runs `sleep`, one system call. No lock may be held, because signal handlers may make socket
/// calls meanwhile. `None`: a signal handler has run instead; look again. `restarts`: handlers
/// installed with SA_RESTART do not end the sleep.
///
/// # Errors
/// EINTR; those of `sleep`.
pub fn asleep<T>(
    restarts: bool,
    sleep: impl FnOnce() -> Result<T, Errno>,
) -> Result<Option<T>, Errno> {
    let Some(cancellation) = CANCELLATION.get() else { return sleep().map(Some) };
    let before = cancellation.lie_down();
    let slept = match before.ran {
        HandlersRun::None => sleep().map(Some),
        HandlersRun::Restarting if restarts => Ok(None),
        _ => Err(Errno::INTR),
    };
    cancellation.get_up(before);
    slept
}
