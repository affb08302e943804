//! A timer that interrupts a close(2) of the calling thread.
//!
//! The kernel waits in close for the peer of a TCP socket with SO_LINGER. A signal ends that wait,
//! and those of all sockets that are closed by the same call. The connection goes on to send its
//! data by itself, as without SO_LINGER.

use std::mem::{self, MaybeUninit};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

/// A close takes at most about so long, nanoseconds.
const PERIOD: libc::c_long = 1_000_000;

/// This process's signals are ours: see [`allow`].
static ALLOWED: AtomicBool = AtomicBool::new(false);

/// From now on this process leaves SIGRTMAX to this module. Not for programs, whose signals are
/// theirs.
pub fn allow() {
    ALLOWED.store(true, Ordering::Release);
}

/// The timer of one thread.
pub(super) struct Interrupter(libc::timer_t);

// SAFETY: the value is the kernel's number for a timer of the process, valid in every thread.
unsafe impl Send for Interrupter {}

impl Interrupter {
    /// For the calling thread, which blocks all signals. `None`: it may have none.
    pub(super) fn new() -> Option<Self> {
        if !ALLOWED.load(Ordering::Acquire) {
            return None;
        }
        let signal = libc::SIGRTMAX();
        // SAFETY: all bytes zero are a valid sigaction.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        action.sa_sigaction = nothing as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: `action` is initialised, and `nothing` has the type of a handler.
        if unsafe { libc::sigaction(signal, &raw const action, null_mut()) } < 0 {
            return None;
        }
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the pointer is to a set's memory, which the call fills.
        unsafe { libc::sigemptyset(set.as_mut_ptr()) };
        // SAFETY: `set` was filled above.
        unsafe { libc::sigaddset(set.as_mut_ptr(), signal) };
        // SAFETY: `set` was filled above; the old mask is not wanted.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), null_mut()) };
        // SAFETY: all bytes zero are a valid sigevent.
        let mut event: libc::sigevent = unsafe { mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        // SAFETY: gettid has no arguments.
        event.sigev_notify_thread_id = unsafe { libc::gettid() };
        let mut timer: libc::timer_t = null_mut();
        let clock = libc::CLOCK_MONOTONIC;
        // SAFETY: both pointers are to values that live until the end of this function.
        let done = unsafe { libc::timer_create(clock, &raw mut event, &raw mut timer) };
        (done == 0).then_some(Self(timer))
    }

    /// Runs `close` of the calling thread, and interrupts what it waits for.
    pub(super) fn interrupted<T>(&self, close: impl FnOnce() -> T) -> T {
        self.set(PERIOD);
        let done = close();
        self.set(0);
        done
    }

    /// Every so many nanoseconds from now on; 0: no more.
    fn set(&self, period: libc::c_long) {
        let period = libc::timespec { tv_sec: 0, tv_nsec: period };
        let times = libc::itimerspec { it_interval: period, it_value: period };
        // SAFETY: the timer was made by `new` and is never deleted; `times` outlives the call.
        unsafe { libc::timer_settime(self.0, 0, &raw const times, null::<()>() as *mut _) };
    }
}

extern "C" fn nothing(_: libc::c_int) {}
