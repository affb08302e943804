//! Signal handlers of the program: they never run in the middle of this library's work.
//!
//! A handler may make socket calls. If it interrupted the work of another call of its thread, it
//! would wait for ever for a lock of that call. So it waits for the call instead:
//!
//! * The edge of a call marks the thread as [`Within`] the library. A sleep lifts the mark: a
//!   thread that sleeps holds no lock.
//! * sigaction(2) and its relatives install [`deliver`] in place of the program's handler, with the
//!   program's flags and mask. [`HANDLERS`] has the program's own.
//! * [`deliver`] calls the program's handler, unless the thread is within the library. Then it
//!   blocks the signal, and sends it to its thread again, with the same details. The kernel keeps
//!   it.
//! * At the edge's end, and before a sleep, such signals are unblocked, and their handlers run. The
//!   sleep does not begin then: a signal that came after the call began may have to end it.
//!
//! Signals of faults come from the thread's own instructions and cannot wait; nor does SIGABRT.
//! With the stack in this process (mode `library`) handlers run at once: sleeps are not marked
//! there, and that stack has rules of its own for handlers.
//!
//! SA_RESETHAND is carried out here, when the handler runs and not when the signal waits.

#![allow(unsafe_code)]

use core::cell::Cell;
use core::ffi::{c_int, c_long, c_void};
use core::mem::{transmute, zeroed};
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering, compiler_fence};

use libc::{sighandler_t, siginfo_t, sigset_t, ucontext_t};
use sockets::{HandlersRun, LyingDown};

use crate::{errno, real, sanitizers};

/// One more than the greatest number of a signal.
const SIGNALS: usize = 65;
/// In an entry of [`HANDLERS`], above all addresses: the program's SA_SIGINFO and SA_RESETHAND.
const WITH_DETAILS: u64 = 1 << 63;
const ONCE: u64 = 1 << 62;
const ADDRESS: u64 = ONCE - 1;

/// The program's handlers of signals that have [`deliver`] in the kernel.
static HANDLERS: [AtomicU64; SIGNALS] = [const { AtomicU64::new(0) }; SIGNALS];
/// Handlers need not wait.
static AT_ONCE: AtomicBool = AtomicBool::new(false);

/// The calling thread's state. Only the thread itself and its signal handlers use it.
struct Here {
    within: Cell<bool>,
    /// Signals that wait, by bits.
    waiting: Cell<u64>,
}

thread_local! {
    static HERE: Here = const { Here { within: Cell::new(false), waiting: Cell::new(0) } };
}

/// The calling thread's state. It has no destructor, so it stays as long as the thread.
fn here() -> *const Here {
    HERE.with(core::ptr::from_ref)
}

impl Here {
    /// Marks the thread, or lifts the mark. Returns how it was.
    fn mark(&self, within: bool) -> bool {
        // A handler of this thread sees what the code before and behind has done.
        compiler_fence(Ordering::SeqCst);
        let before = self.within.replace(within);
        compiler_fence(Ordering::SeqCst);
        before
    }

    /// Runs the handlers that wait.
    #[cold]
    fn let_run(&self) {
        change_mask(libc::SIG_UNBLOCK, self.waiting.replace(0));
    }
}

/// While it lives, signal handlers of the calling thread wait.
pub(crate) struct Within {
    here: *const Here,
    before: bool,
}

impl Within {
    #[inline]
    pub(crate) fn new() -> Self {
        let here = here();
        // SAFETY: the thread's own, see `here`.
        let before = unsafe { &*here }.mark(true);
        Self { here, before }
    }
}

impl Drop for Within {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: as in `new`; the value does not leave its thread, because of the pointer.
        let here = unsafe { &*self.here };
        here.mark(self.before);
        if !self.before && here.waiting.get() != 0 {
            here.let_run();
        }
    }
}

/// The calling thread is about to sleep in a system call, and holds no lock.
pub(crate) fn lie_down() -> LyingDown {
    // SAFETY: see `here`.
    let here = unsafe { &*here() };
    let within = here.mark(false);
    let waiting = here.waiting.get();
    let ran = match waiting {
        0 => HandlersRun::None,
        _ if !within => HandlersRun::None,
        _ => {
            let restart = numbers(waiting).all(|signal| has_flag(signal, libc::SA_RESTART));
            here.let_run();
            if restart { HandlersRun::Restarting } else { HandlersRun::Interrupting }
        }
    };
    LyingDown { within, ran }
}

/// It sleeps no longer.
pub(crate) fn get_up(from: LyingDown) {
    sanitizers::run_handlers();
    // SAFETY: see `here`.
    unsafe { &*here() }.mark(from.within);
}

/// Makes a call of the C library that begins another program: it inherits the signal mask, so no
/// signal may wait. No lock may be held.
pub(crate) fn outside<T>(call: impl FnOnce() -> T) -> T {
    let from = lie_down();
    let done = call();
    get_up(from);
    done
}

/// From now on handlers need not wait.
pub(crate) fn run_at_once(at_once: bool) {
    AT_ONCE.store(at_once, Ordering::Relaxed);
}

fn bit(signal: c_int) -> u64 {
    u32::try_from(signal - 1).ok().and_then(|shift| 1_u64.checked_shl(shift)).unwrap_or(0)
}

/// The signals of a set of bits.
fn numbers(bits: u64) -> impl Iterator<Item = c_int> {
    (1..=64).filter(move |signal| bits & bit(*signal) != 0)
}

fn change_mask(how: c_int, bits: u64) {
    // SAFETY: a sigset_t is plain integers.
    let mut set: sigset_t = unsafe { zeroed() };
    for signal in numbers(bits) {
        // SAFETY: the pointer is to a live set.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    // SAFETY: the pointer is to a live set, and the other one may be null.
    unsafe { libc::pthread_sigmask(how, &raw const set, null_mut()) };
}

fn entry(signal: c_int) -> Option<&'static AtomicU64> {
    HANDLERS.get(usize::try_from(signal).ok()?)
}

/// What the kernel and the C library have for a signal.
fn present(signal: c_int) -> libc::sigaction {
    // SAFETY: a sigaction is plain integers and optional pointers.
    let mut action: libc::sigaction = unsafe { zeroed() };
    // SAFETY: the second pointer may be null, the third is to a live sigaction.
    unsafe { real::sigaction(signal, null(), &raw mut action) };
    action
}

fn has_flag(signal: c_int, flag: c_int) -> bool {
    present(signal).sa_flags & flag != 0
}

fn deliver_address() -> sighandler_t {
    deliver as unsafe extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void) as sighandler_t
}

/// Can a handler of this signal wait?
fn can_wait(signal: c_int) -> bool {
    use libc::{SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
    (1..=64).contains(&signal)
        && ![SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP].contains(&signal)
}

/// Is this a function, and not SIG_DFL, SIG_IGN, SIG_HOLD or SIG_ERR?
fn is_function(handler: sighandler_t) -> bool {
    (handler as u64) & !ADDRESS == 0 && handler > 2
}

/// The program's action, of what the kernel has and of an entry.
fn program_action(mut action: libc::sigaction, entry: u64) -> libc::sigaction {
    if action.sa_sigaction != deliver_address() {
        return action;
    }
    action.sa_sigaction = program_handler(entry);
    if entry & WITH_DETAILS == 0 {
        action.sa_flags &= !libc::SA_SIGINFO;
    }
    if entry & ONCE != 0 {
        action.sa_flags |= libc::SA_RESETHAND;
    }
    action
}

fn program_handler(entry: u64) -> sighandler_t {
    // All platforms have addresses of 64 bits.
    usize::try_from(entry & ADDRESS).unwrap_or(0)
}

/// sigaction(2). `own_table`: the process is not a vfork child, whose handlers are its own and
/// whose memory is its parent's.
///
/// # Safety
/// As its manual page requires.
pub(crate) unsafe fn install(
    signal: c_int,
    action: *const libc::sigaction,
    old: *mut libc::sigaction,
    own_table: bool,
) -> c_int {
    let before = entry(signal).map_or(0, |entry| entry.load(Ordering::SeqCst));
    // SAFETY: null, or the program's.
    let mut new = unsafe { action.as_ref() }.copied();
    if let (Some(new), Some(entry)) = (&mut new, entry(signal))
        && own_table
        && can_wait(signal)
        && is_function(new.sa_sigaction)
    {
        let flag = |flag, bit| if new.sa_flags & flag != 0 { bit } else { 0 };
        let flags = flag(libc::SA_SIGINFO, WITH_DETAILS) | flag(libc::SA_RESETHAND, ONCE);
        // A signal that comes before the next system call has the new handler already.
        entry.store(new.sa_sigaction as u64 | flags, Ordering::SeqCst);
        new.sa_sigaction = deliver_address();
        new.sa_flags = new.sa_flags & !libc::SA_RESETHAND | libc::SA_SIGINFO;
    }
    let new = new.as_ref().map_or(null(), core::ptr::from_ref);
    // SAFETY: null or a live sigaction; `old` is the program's.
    let done = unsafe { real::sigaction(signal, new, old) };
    if done == 0 && !old.is_null() {
        // SAFETY: the C library has just written there.
        let old = unsafe { &mut *old };
        *old = program_action(*old, before);
    }
    done
}

/// One of the older functions, which have installed `handler` and given `old`: does as [`install`]
/// with it. Returns the program's old handler.
pub(crate) fn installed(
    signal: c_int,
    handler: sighandler_t,
    old: sighandler_t,
    own_table: bool,
) -> sighandler_t {
    let before = entry(signal).map_or(0, |entry| entry.load(Ordering::SeqCst));
    if old != libc::SIG_ERR && is_function(handler) {
        let now = present(signal);
        // SAFETY: the action is the one that the kernel has.
        unsafe { install(signal, &raw const now, null_mut(), own_table) };
    }
    if old == deliver_address() { program_handler(before) } else { old }
}

/// The handler that the kernel knows.
unsafe extern "C-unwind" fn deliver(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: see `here`.
    let here = unsafe { &*here() };
    if here.within.get() && !AT_ONCE.load(Ordering::Relaxed) {
        // SAFETY: the kernel calls with both pointers, because of SA_SIGINFO.
        unsafe { put_off(here, signal, info, context.cast()) };
        return;
    }
    let Some(place) = entry(signal) else { return };
    let entry = place.load(Ordering::SeqCst);
    if entry & ONCE != 0 {
        reset(signal, entry);
    }
    let handler = program_handler(entry);
    if entry & WITH_DETAILS != 0 {
        type Handler = unsafe extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void);
        // SAFETY: the program has installed it with SA_SIGINFO.
        let handler = unsafe { transmute::<usize, Handler>(handler) };
        // SAFETY: as above, with the kernel's arguments.
        unsafe { handler(signal, info, context) };
    } else {
        type Handler = unsafe extern "C-unwind" fn(c_int);
        // SAFETY: the program has installed it without SA_SIGINFO.
        let handler = unsafe { transmute::<usize, Handler>(handler) };
        // SAFETY: as above.
        unsafe { handler(signal) };
    }
}

/// SA_RESETHAND: the signal's next action is the default.
fn reset(signal: c_int, entry: u64) {
    let number = errno::number();
    let mut action = program_action(present(signal), entry);
    action.sa_sigaction = libc::SIG_DFL;
    // SAFETY: the action is a live one; nothing is written.
    unsafe { real::sigaction(signal, &raw const action, null_mut()) };
    errno::set_number(number);
}

/// Blocks the signal, and sends it to this thread again.
#[cold]
unsafe fn put_off(here: &Here, signal: c_int, info: *mut siginfo_t, context: *mut ucontext_t) {
    let number = errno::number();
    // For the rest of this handler (SA_NODEFER), and for the time after it.
    change_mask(libc::SIG_BLOCK, bit(signal));
    // SAFETY: the kernel's context of this handler.
    let mask = unsafe { &raw mut (*context).uc_sigmask };
    // SAFETY: as above.
    unsafe { libc::sigaddset(mask, signal) };
    here.waiting.set(here.waiting.get() | bit(signal));
    // SAFETY: no precondition.
    let process = unsafe { libc::getpid() };
    // SAFETY: no precondition.
    let thread = unsafe { libc::gettid() };
    let (process, thread, signal) = (process.into(), thread.into(), c_long::from(signal));
    let call = libc::SYS_rt_tgsigqueueinfo;
    // SAFETY: the kernel reads the siginfo that it has given. It lets a thread choose all of it for
    // a signal to itself.
    let sent = unsafe { real::syscall(call, process, thread, signal, info as c_long, 0, 0) };
    if sent != 0 {
        // There are too many queued signals (RLIMIT_SIGPENDING).
        // SAFETY: tgkill takes three integers.
        unsafe { real::syscall(libc::SYS_tgkill, process, thread, signal, 0, 0, 0) };
    }
    errno::set_number(number);
}
