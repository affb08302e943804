//! ThreadSanitizer in the program.
//!
//! It sees memory through functions that it stands before: memcpy(3), malloc(3). It does not see
//! the locks and atomic words of this library, which is not built for it, so it would take every
//! hand-over between two threads within for a race. Within a call of this library the thread's
//! accesses are therefore no business of it ([`Unseen`]).
//!
//! A program's own hand-overs are: bytes that one thread sends and another receives order what
//! both do before and after, and with the kernel's sockets the tool takes all of them for one such
//! order. So each call begins with a release and ends with an acquire of one word.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_void};
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use crate::duties;

/// One function of the tool.
struct Function(&'static CStr, AtomicPtr<c_void>);

impl Function {
    const fn new(name: &'static CStr) -> Self {
        Self(name, AtomicPtr::new(null_mut()))
    }

    /// Looks for it; false if the program does not have it.
    fn find(&self) -> bool {
        // SAFETY: the name is a C string.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, self.0.as_ptr()) };
        self.1.store(found, Ordering::Relaxed);
        !found.is_null()
    }

    fn call(&self) {
        type Call = unsafe extern "C" fn(*mut c_void);
        let found = self.1.load(Ordering::Relaxed);
        if found.is_null() {
            return;
        }
        // SAFETY: the tool's function of this name takes one pointer, or nothing, which C's calling
        // conventions allow.
        let function = unsafe { transmute::<*mut c_void, Call>(found) };
        // SAFETY: the word lives for ever; the tool notes its address only.
        unsafe { function(ORDER.as_ptr().cast()) };
    }
}

static ACQUIRE: Function = Function::new(c"__tsan_acquire");
static RELEASE: Function = Function::new(c"__tsan_release");
static IGNORE: Function = Function::new(c"__tsan_ignore_thread_begin");
static HEED: Function = Function::new(c"__tsan_ignore_thread_end");
static ORDER: AtomicU8 = AtomicU8::new(0);

/// Once per process image: is the tool there?
pub(crate) fn begin() {
    let all = [&ACQUIRE, &RELEASE, &IGNORE, &HEED];
    if all.into_iter().all(Function::find) {
        duties::add(duties::SANITIZE);
    }
}

/// While it lives, the thread's accesses are the library's.
pub(crate) struct Unseen(bool);

impl Unseen {
    #[inline]
    pub(crate) fn new() -> Self {
        let wanted = duties::has(duties::SANITIZE);
        if wanted {
            Self::enter();
        }
        Self(wanted)
    }

    #[cold]
    fn enter() {
        RELEASE.call();
        IGNORE.call();
    }

    #[cold]
    fn leave() {
        HEED.call();
        ACQUIRE.call();
    }
}

impl Drop for Unseen {
    #[inline]
    fn drop(&mut self) {
        if self.0 {
            Self::leave();
        }
    }
}

/// After a sleep: the tool runs the handlers of signals that have come in it. It does so at the end
/// of functions that it stands before, of which this is one.
#[inline]
pub(crate) fn run_handlers() {
    if duties::has(duties::SANITIZE) {
        // SAFETY: no pointers.
        unsafe { libc::usleep(0) };
    }
}
