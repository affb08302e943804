//! Signals that POSIX ties to socket calls: SIGPIPE, and the masks of ppoll, pselect and
//! epoll_pwait.
//!
//! The kernel sets such a mask and sleeps in one step. So a sleep under a mask is ppoll(2) on the
//! thread's bell and the program's descriptors. A signal that was pending, or comes at any moment,
//! ends it.
//!
//! With the stack in this process (mode `library`) the sleep is not one system call. There the shim
//! takes three steps:
//!
//! 1. Look for pending signals that the mask lets in (EINTR, after their handlers ran).
//! 2. Set the mask.
//! 3. Sleep.
//!
//! A gap of some nanoseconds remains between the second and the third step: a signal that comes
//! there runs its handler but does not end the sleep.

#![allow(unsafe_code)]

use core::ffi::c_int;
use core::mem::zeroed;

use libc::{nfds_t, pollfd, sigset_t, timespec};
use rustix::event::{PollFd, Timespec};
use rustix::io::Errno;
use sockets::{PollCall, asleep};

use crate::errno::{self, Outcome};
use crate::real;

/// Sends SIGPIPE to the calling thread.
pub(crate) fn raise_sigpipe() {
    // SAFETY: raise has no precondition.
    unsafe { libc::raise(libc::SIGPIPE) };
}

/// Runs `sleep` under `mask`, or under the present mask when there is none. It gets the call to
/// sleep in. `has_stack`: the stack is in this process.
///
/// # Errors
/// EINTR when a signal was let in, else the outcome of `sleep`.
pub(crate) fn under_mask<T>(
    mask: Option<&sigset_t>,
    has_stack: bool,
    sleep: impl FnOnce(Option<PollCall<'_>>) -> Outcome<T>,
) -> Outcome<T> {
    match mask {
        None => sleep(None),
        Some(mask) if has_stack => in_steps(mask, || sleep(None)),
        Some(mask) => sleep(Some(&|fds, limit| poll_under(mask, fds, limit))),
    }
}

/// ppoll(2). The C library's may not be cancelled within a call of this library.
///
/// # Errors
/// ppoll(2)'s. EINTR, too, when nothing is ready and `mask` lets a pending signal in, whatever the
/// limit.
pub(crate) fn poll_under(
    mask: &sigset_t,
    fds: &mut [PollFd<'_>],
    limit: Option<&Timespec>,
) -> Outcome<usize> {
    let limit = limit.map(|limit| timespec { tv_sec: limit.tv_sec, tv_nsec: limit.tv_nsec });
    let limit = limit.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    let count = nfds_t::try_from(fds.len()).map_err(|_| Errno::INVAL)?;
    let fds: *mut pollfd = fds.as_mut_ptr().cast();
    // The program's handlers run in it, also when it does not sleep: one that waited would run
    // under another mask.
    let ready = asleep(false, || {
        // SAFETY: a PollFd has pollfd's layout (descriptor, events, revents), and there are `count`
        // of them; limit and mask are null or point to live values.
        errno::check(unsafe { real::ppoll(fds, count, limit, mask) })
    })?;
    Ok(ready.and_then(|ready| usize::try_from(ready).ok()).unwrap_or(0))
}

fn in_steps<T>(mask: &sigset_t, sleep: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    let interrupted = pending_under(mask);
    let old = set_mask(mask);
    let outcome = if interrupted { Err(Errno::INTR) } else { sleep() };
    set_mask(&old);
    outcome
}

fn set_mask(mask: &sigset_t) -> sigset_t {
    // SAFETY: a sigset_t is plain integers.
    let mut old = unsafe { zeroed() };
    // SAFETY: both pointers are to live sets; the only error is an unknown first argument.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, &raw mut old) };
    old
}

/// Is a signal pending that `mask` lets in and that has a handler or ends the process?
fn pending_under(mask: &sigset_t) -> bool {
    // SAFETY: a sigset_t is plain integers.
    let mut pending = unsafe { zeroed() };
    // SAFETY: the pointer is to a live set.
    unsafe { libc::sigpending(&raw mut pending) };
    (1..=libc::SIGRTMAX()).any(|signal| {
        // SAFETY: both pointers are to live sets.
        let is_pending = unsafe { libc::sigismember(&raw const pending, signal) } == 1;
        // SAFETY: as above.
        is_pending && unsafe { libc::sigismember(mask, signal) } == 0 && !is_ignored(signal)
    })
}

fn is_ignored(signal: c_int) -> bool {
    // SAFETY: a sigaction is plain integers and optional pointers.
    let mut action: libc::sigaction = unsafe { zeroed() };
    // SAFETY: the second pointer may be null, the third is to a live sigaction.
    let outcome = unsafe { libc::sigaction(signal, core::ptr::null(), &raw mut action) };
    let by_default =
        matches!(signal, libc::SIGCHLD | libc::SIGURG | libc::SIGWINCH | libc::SIGCONT);
    outcome == 0
        && (action.sa_sigaction == libc::SIG_IGN
            || (action.sa_sigaction == libc::SIG_DFL && by_default))
}

/// Are all handlers installed with SA_RESTART?
///
/// After EINTR the signal is not known. (Signals of faults do not interrupt calls.) Programs that
/// install only some handlers with SA_RESTART are rare; they get EINTR from all signals.
pub(crate) fn all_restart() -> bool {
    use libc::{SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
    let faults = [SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS];
    (1..=libc::SIGRTMAX()).filter(|signal| !faults.contains(signal)).all(|signal| {
        // SAFETY: a sigaction is plain integers and optional pointers.
        let mut action: libc::sigaction = unsafe { zeroed() };
        // SAFETY: the second pointer may be null, the third is to a live sigaction.
        let outcome = unsafe { libc::sigaction(signal, core::ptr::null(), &raw mut action) };
        outcome != 0
            || matches!(action.sa_sigaction, libc::SIG_IGN | libc::SIG_DFL)
            || action.sa_flags & libc::SA_RESTART != 0
    })
}

/// Runs `act` with all signals blocked, as whatever thread it starts then has them.
pub(crate) fn without<T>(act: impl FnOnce() -> T) -> T {
    // SAFETY: a sigset_t is plain integers.
    let mut all = unsafe { zeroed() };
    // SAFETY: the pointer is to a live set.
    unsafe { libc::sigfillset(&raw mut all) };
    let old = set_mask(&all);
    let done = act();
    set_mask(&old);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(signals: &[c_int]) -> sigset_t {
        // SAFETY: a sigset_t is plain integers.
        let mut set = unsafe { zeroed() };
        // SAFETY: the pointer is to a live set.
        unsafe { libc::sigemptyset(&raw mut set) };
        for &signal in signals {
            // SAFETY: as above.
            unsafe { libc::sigaddset(&raw mut set, signal) };
        }
        set
    }

    extern "C" fn nothing(_signal: c_int) {}

    #[test]
    fn a_pending_signal_that_the_mask_lets_in_interrupts() {
        let handler = nothing as extern "C" fn(c_int);
        // SAFETY: the handler does nothing, so it is async-signal-safe.
        unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) };
        let old = set_mask(&set(&[libc::SIGUSR1, libc::SIGCHLD]));
        // SAFETY: raise has no precondition.
        unsafe { libc::raise(libc::SIGCHLD) };
        // SIGCHLD is pending, but its default is to be ignored.
        assert_eq!(in_steps(&set(&[libc::SIGUSR1]), || Ok(1)), Ok(1));
        for has_stack in [true, false] {
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            let wait = |mask: Option<&sigset_t>| {
                under_mask(mask, has_stack, |call| call.map_or(Ok(0), |c| c(&mut [], Some(&now))))
            };
            // SAFETY: raise has no precondition.
            unsafe { libc::raise(libc::SIGUSR1) };
            // Not let in: the sleep goes on.
            assert_eq!(wait(Some(&set(&[libc::SIGUSR1]))), Ok(0));
            assert_eq!(wait(None), Ok(0));
            assert_eq!(wait(Some(&set(&[]))), Err(Errno::INTR));
            // Its handler ran.
            assert_eq!(wait(Some(&set(&[]))), Ok(0));
        }
        set_mask(&old);
        // signal(2) of the C library installs with SA_RESTART.
        assert!(all_restart());
        // SAFETY: a sigaction is plain integers and optional pointers.
        let mut action: libc::sigaction = unsafe { zeroed() };
        action.sa_sigaction = handler as libc::sighandler_t;
        // SAFETY: the second pointer is to a live sigaction, the third may be null.
        unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, core::ptr::null_mut()) };
        assert!(!all_restart());
        without(|| {
            // SAFETY: raise has no precondition.
            unsafe { libc::raise(libc::SIGUSR1) };
        });
    }
}
