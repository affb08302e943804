//! Thread cancellation: calls that may wait are cancellation points, as POSIX has it.
//!
//! The C library ends a thread by unwinding its stack, which must not go through the locks and
//! values of this library. So every exported call disables cancellation within, and a thread ends
//! at the edge of a call only: before it begins ([`enter`]), or after its wait was interrupted
//! ([`act`]).
//!
//! * `pthread_cancel` passes through here. Once a program has called it, cancellation points begin
//!   with pthread_testcancel(3).
//! * A thread that waits is marked as asleep ([`Waiter`]). `pthread_cancel` requests its end, and
//!   sends it the signal that the C library has for this, until the mark is gone: a signal that
//!   comes just before a system call interrupts nothing.
//! * `pthread_setcancelstate` passes through here as well: a thread that has disabled cancellation
//!   is not marked.

#![allow(unsafe_code)]

use core::cell::{Cell, RefCell};
use core::ffi::{c_int, c_long, c_ulong};
use core::mem::zeroed;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use libc::{clockid_t, pthread_t};
use rustix::event::{Timespec, poll};
use sockets::{Cancellation, LyingDown};

use crate::process_state::ProcessState;
use crate::{duties, handlers, real};

/// The C library's.
pub(crate) const PTHREAD_CANCEL_DISABLE: c_int = 1;
/// The C library's own signal for cancellation (SIGCANCEL).
const SIGNAL: c_long = 32;
/// Between two signals to a thread that is still marked as asleep.
const PAUSE: Duration = Duration::from_micros(100);
/// Signals to one thread. A thread that has left its wait by siglongjmp keeps its mark for longer.
const MOST_SIGNALS: u32 = 1000;

/// The exported calls that POSIX or Linux's C library has as cancellation points.
const POINTS: [&str; 30] = [
    "accept",
    "accept4",
    "close",
    "connect",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "poll",
    "ppoll",
    "__poll_chk",
    "__ppoll_chk",
    "preadv2",
    "pselect",
    "pwritev2",
    "read",
    "readv",
    "recv",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "__read_chk",
    "__recv_chk",
    "__recvfrom_chk",
    "select",
    "send",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "write",
    "writev",
];

unsafe extern "C" {
    fn pthread_getcpuclockid(thread: pthread_t, clock: *mut clockid_t) -> c_int;
}

/// A thread that waits, has waited, or is to end.
struct Waiter {
    thread: pthread_t,
    /// The kernel's number of the thread.
    number: AtomicI32,
    asleep: AtomicBool,
    requested: AtomicBool,
}

static WAITERS: ProcessState<Vec<Arc<Waiter>>> = ProcessState::new();

/// The calling thread's own, as long as the thread lives.
#[derive(Default)]
struct Own(RefCell<Option<Arc<Waiter>>>);

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(own) = self.0.get_mut().take() {
            WAITERS.lock().retain(|waiter| !Arc::ptr_eq(waiter, &own));
        }
    }
}

thread_local! {
    static OWN: Own = Own::default();
    /// The program has disabled cancellation of this thread.
    static DISABLED: Cell<bool> = const { Cell::new(false) };
}

/// Calls `act` with the calling thread's waiter. `None`: it can have none, because it ends or this
/// is a signal handler.
fn with_own<T>(act: impl FnOnce(&Waiter) -> T) -> Option<T> {
    let with = |own: &Own| {
        let mut own = own.0.try_borrow_mut().ok()?;
        let waiter = Arc::clone(own.get_or_insert_with(register));
        drop(own);
        Some(act(&waiter))
    };
    OWN.try_with(with).ok().flatten()
}

/// The calling thread's waiter. It may have been requested to end before.
fn register() -> Arc<Waiter> {
    // SAFETY: no precondition.
    let thread = unsafe { libc::pthread_self() };
    // SAFETY: no precondition.
    let number = unsafe { libc::gettid() };
    let mut all = WAITERS.lock();
    // An earlier thread may have had the same handle.
    all.retain(|waiter| waiter.thread != thread || waiter.number.load(Ordering::Relaxed) == number);
    if let Some(known) = all.iter().find(|waiter| waiter.thread == thread) {
        return Arc::clone(known);
    }
    let waiter = Waiter::new(thread, number);
    all.push(Arc::clone(&waiter));
    waiter
}

impl Waiter {
    fn new(thread: pthread_t, number: i32) -> Arc<Self> {
        Arc::new(Self {
            thread,
            number: AtomicI32::new(number),
            asleep: AtomicBool::new(false),
            requested: AtomicBool::new(false),
        })
    }
}

struct Marks;

impl Cancellation for Marks {
    fn begin(&self) -> bool {
        let begin = |own: &Waiter| {
            own.asleep.store(true, Ordering::SeqCst);
            own.requested.load(Ordering::SeqCst)
        };
        !DISABLED.get() && with_own(begin).unwrap_or(false)
    }

    fn end(&self) -> bool {
        let end = |own: &Waiter| {
            own.asleep.store(false, Ordering::SeqCst);
            own.requested.load(Ordering::SeqCst)
        };
        !DISABLED.get() && with_own(end).unwrap_or(false)
    }

    fn lie_down(&self) -> LyingDown {
        handlers::lie_down()
    }

    fn get_up(&self, from: LyingDown) {
        handlers::get_up(from);
    }
}

/// Once per process image: the runtime's waits become cancellable.
pub(crate) fn serve() {
    sockets::set_cancellation(&Marks);
}

/// In a forked child: other threads are the parent's.
pub(crate) fn forget() {
    WAITERS.forget();
    // A request to the thread that has forked holds in the child, but C's own flag has it.
    let _ = OWN.try_with(|own| own.0.try_borrow_mut().map(|mut own| own.take()));
}

/// Is the calling thread's end requested, and may it end?
pub(crate) fn is_requested() -> bool {
    duties::has(duties::CANCEL)
        && !DISABLED.get()
        && with_own(|own| own.requested.load(Ordering::SeqCst)).unwrap_or(false)
}

/// The begin of the exported call `name`: the thread ends here if it is to.
#[cold]
pub(crate) fn enter(name: &str) {
    if duties::has(duties::CANCEL) && POINTS.contains(&name) {
        // SAFETY: the caller has nothing to drop, nor has this function.
        unsafe { real::pthread_testcancel() };
    }
}

/// The edge of a call whose wait was interrupted: the thread ends here. Returns if it is not to.
pub(crate) fn act() {
    with_own(|own| own.requested.store(false, Ordering::SeqCst));
    // SAFETY: as in `enter`.
    unsafe { real::pthread_testcancel() };
}

/// The kernel's number of a thread that has not been joined. 0: it has ended.
fn number_of(thread: pthread_t) -> i32 {
    let mut clock = 0;
    // SAFETY: the program says that the thread has not been joined; the pointer is to a live local.
    let found = unsafe { pthread_getcpuclockid(thread, &raw mut clock) };
    // Linux's names for clocks of threads.
    if found == 0 { !(clock >> 3) } else { 0 }
}

/// Ends the wait of a thread that is cancelled, or keeps it from beginning one.
fn interrupt(thread: pthread_t, number: i32) {
    let mut all = WAITERS.lock();
    let is_it =
        |one: &&Arc<Waiter>| one.thread == thread && one.number.load(Ordering::Relaxed) == number;
    let waiter = all.iter().find(is_it).cloned();
    let waiter = waiter.unwrap_or_else(|| {
        // Those of threads that have ended without a wait.
        all.retain(|one| Arc::strong_count(one) > 1 || exists(one.number.load(Ordering::Relaxed)));
        let new = Waiter::new(thread, number);
        all.push(Arc::clone(&new));
        new
    });
    drop(all);
    waiter.requested.store(true, Ordering::SeqCst);
    for _ in 0..MOST_SIGNALS {
        if !waiter.asleep.load(Ordering::SeqCst) || !signal(number) {
            return;
        }
        let pause = Timespec::try_from(PAUSE).ok();
        let _ = poll(&mut [], pause.as_ref());
    }
}

fn exists(number: i32) -> bool {
    send(number, 0)
}

fn send(number: i32, signal: c_long) -> bool {
    // SAFETY: no precondition.
    let process = unsafe { libc::getpid() };
    let (process, number) = (process.into(), number.into());
    // SAFETY: tgkill takes three integers.
    unsafe { real::syscall(libc::SYS_tgkill, process, number, signal, 0, 0, 0) == 0 }
}

/// The kernel's form of a sigaction, for a signal that the C library keeps to itself.
#[repr(C)]
struct KernelAction {
    handler: usize,
    flags: c_ulong,
    restorer: usize,
    mask: u64,
}

/// Interrupts a thread; false if that is impossible. The C library's handler finds that the thread
/// is cancelled, and that it has disabled cancellation: it does nothing.
fn signal(number: i32) -> bool {
    // SAFETY: all its fields are integers.
    let mut action: KernelAction = unsafe { zeroed() };
    let place = (&raw mut action) as c_long;
    let size = 8;
    // SAFETY: the kernel writes a sigaction of this form.
    let got = unsafe { real::syscall(libc::SYS_rt_sigaction, SIGNAL, 0, place, size, 0, 0) };
    if got != 0 || [libc::SIG_DFL, libc::SIG_IGN].contains(&action.handler) {
        return false;
    }
    let restart = c_ulong::from(libc::SA_RESTART.cast_unsigned());
    if action.flags & restart != 0 {
        // With it the signal would not interrupt the wait.
        let changed = KernelAction { flags: action.flags & !restart, ..action };
        let place = (&raw const changed) as c_long;
        // SAFETY: the action is the C library's own, but for the flag.
        unsafe { real::syscall(libc::SYS_rt_sigaction, SIGNAL, place, 0, size, 0, 0) };
    }
    send(number, SIGNAL)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn pthread_cancel(thread: pthread_t) -> c_int {
    duties::add(duties::CANCEL);
    let number = number_of(thread);
    // SAFETY: passed on from the program. Afterwards the handle may be another thread's.
    let done = unsafe { real::pthread_cancel(thread) };
    if done == 0 && number != 0 {
        // A panic must not unwind through the program.
        let _ = catch_unwind(AssertUnwindSafe(|| interrupt(thread, number)));
    }
    done
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int {
    // SAFETY: passed on from the program.
    let done = unsafe { real::pthread_setcancelstate(state, old) };
    if done == 0 {
        DISABLED.set(state == PTHREAD_CANCEL_DISABLE);
    }
    done
}
