//! The C library's `struct aiocb`, and what tells a program that a request is over.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_long, c_void};
use core::mem::{transmute, zeroed};
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicI32, AtomicIsize, Ordering};

use rustix::io::Errno;

const SIGEV_SIGNAL: c_int = 0;
const SIGEV_THREAD: c_int = 2;
/// siginfo_t's code of asynchronous I/O.
const SI_ASYNCIO: c_int = -4;

/// `struct aiocb`. The C library's aio_error(3) and aio_return(3) read the last two fields.
#[repr(C)]
pub(super) struct ControlBlock {
    pub(super) fd: c_int,
    pub(super) operation: c_int,
    pub(super) priority: c_int,
    pub(super) place: *mut c_void,
    pub(super) len: usize,
    pub(super) event: Event,
    _private: [usize; 2],
    error: AtomicI32,
    result: AtomicIsize,
}

impl ControlBlock {
    pub(super) fn begin(&self) {
        self.result.store(0, Ordering::Relaxed);
        self.error.store(libc::EINPROGRESS, Ordering::Release);
    }

    pub(super) fn fail(&self, errno: Errno) {
        self.finish(Err(errno));
    }

    pub(super) fn finish(&self, outcome: Result<usize, Errno>) {
        let (result, error) = match outcome {
            Ok(len) => (len.cast_signed(), 0),
            Err(errno) => (-1, errno.raw_os_error()),
        };
        self.result.store(result, Ordering::Relaxed);
        self.error.store(error, Ordering::Release);
    }

    pub(super) fn is_over(&self) -> bool {
        self.error.load(Ordering::Acquire) != libc::EINPROGRESS
    }

    pub(super) fn has_failed(&self) -> bool {
        self.error.load(Ordering::Acquire) != 0
    }
}

/// `struct sigevent`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Event {
    value: usize,
    signal: c_int,
    kind: c_int,
    function: usize,
    attributes: usize,
    _rest: [usize; 4],
}

impl Event {
    /// Tells the program.
    pub(super) fn notify(&self) {
        match self.kind {
            SIGEV_SIGNAL => self.send(),
            SIGEV_THREAD => self.begin_thread(),
            _ => {}
        }
    }

    fn send(&self) {
        /// The begin of a siginfo_t with the fields of `_rt`.
        #[repr(C)]
        struct QueuedInfo {
            numbers: [c_int; 4],
            pid: c_int,
            uid: libc::uid_t,
            value: usize,
        }
        // SAFETY: a siginfo_t is plain integers.
        let mut info: libc::siginfo_t = unsafe { zeroed() };
        // SAFETY: no pointers.
        let pid = unsafe { libc::getpid() };
        // SAFETY: no pointers.
        let uid = unsafe { libc::getuid() };
        let numbers = [self.signal, 0, SI_ASYNCIO, 0];
        let begin = QueuedInfo { numbers, pid, uid, value: self.value };
        // SAFETY: a siginfo_t is longer, and aligned as a pointer is.
        unsafe { (&raw mut info).cast::<QueuedInfo>().write(begin) };
        let call: c_long = libc::SYS_rt_sigqueueinfo;
        // SAFETY: the call reads one siginfo_t.
        unsafe { libc::syscall(call, pid, self.signal, &raw const info) };
    }

    /// Runs the program's function in a thread. Without room for a thread nothing comes, as with
    /// the C library.
    fn begin_thread(&self) {
        let (this, given) = (Box::into_raw(Box::new(*self)), self.attributes);
        // SAFETY: a pthread_attr_t is plain integers, made below.
        let mut detached: libc::pthread_attr_t = unsafe { zeroed() };
        // SAFETY: the pointer is to a live local.
        unsafe { libc::pthread_attr_init(&raw mut detached) };
        // SAFETY: as above.
        unsafe {
            libc::pthread_attr_setdetachstate(&raw mut detached, libc::PTHREAD_CREATE_DETACHED)
        };
        let attributes = match given {
            0 => &raw const detached,
            given => core::ptr::with_exposed_provenance(given),
        };
        let mut thread = 0;
        // SAFETY: the attributes are the program's or made above; `run` takes the box.
        let begun = unsafe { libc::pthread_create(&raw mut thread, attributes, run, this.cast()) };
        if begun != 0 {
            // SAFETY: from Box::into_raw above, and no thread has it.
            drop(unsafe { Box::from_raw(this) });
        }
        // SAFETY: made above.
        unsafe { libc::pthread_attr_destroy(&raw mut detached) };
    }
}

/// A thread that tells the program: without the mask of the one that has begun it.
extern "C" fn run(event: *mut c_void) -> *mut c_void {
    // SAFETY: from Box::into_raw, for this thread.
    let event = *unsafe { Box::from_raw(event.cast::<Event>()) };
    // SAFETY: a sigset_t is plain integers; all zero is the empty set.
    let none: libc::sigset_t = unsafe { zeroed() };
    // SAFETY: the pointer is to a live set.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, null_mut()) };
    if event.function != 0 {
        type Function = unsafe extern "C-unwind" fn(usize);
        // SAFETY: the program has given a function of this prototype: a union of an int and a
        // pointer comes in a register, as a word does.
        let function = unsafe { transmute::<usize, Function>(event.function) };
        // SAFETY: as above.
        unsafe { function(event.value) };
    }
    null::<c_void>().cast_mut()
}

#[cfg(test)]
mod tests {
    use core::mem::offset_of;

    use super::*;

    #[test]
    fn the_fields_are_the_c_library_s() {
        assert_eq!(size_of::<Event>(), size_of::<libc::sigevent>());
        assert_eq!(offset_of!(ControlBlock, place), offset_of!(libc::aiocb, aio_buf));
        assert_eq!(offset_of!(ControlBlock, len), offset_of!(libc::aiocb, aio_nbytes));
        assert_eq!(offset_of!(ControlBlock, event), offset_of!(libc::aiocb, aio_sigevent));
        // Between these two and the next public field are the C library's own.
        assert_eq!(offset_of!(ControlBlock, error), 112);
        assert_eq!(offset_of!(libc::aiocb, aio_offset), size_of::<ControlBlock>());
    }
}
