//! Closing descriptors that an untrusted process has sent, or may have queued in a socket.
//!
//! Such a close takes as long as the sender chose ([`crate::passing`]). So a thread of its own does
//! it, one in each process that needs it. The thread ends with the process. One descriptor may
//! occupy it for good; then the others wait behind it.
//!
//! The queue takes every descriptor, since neither waiting nor forgetting one is an alternative.
//! Its bound is with the callers. While [`is_behind`], they read nothing from a socket that may
//! bring descriptors. One read brings at most [`MOST_PASSED`]. So a process with one such socket
//! has at most [`MOST_WAITING`] + [`MOST_PASSED`] descriptors in the queue, and the socket itself.

#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};

use crate::fork;

/// Descriptors that wait, from which on no more should be received.
pub const MOST_WAITING: usize = 256;
/// Most descriptors of one sendmsg(2): the kernel's SCM_MAX_FD.
pub const MOST_PASSED: usize = 253;

/// The thread needs little more than its frame in close(2).
const STACK: usize = 64 << 10;

/// The queue of this process. A forked child makes its own: the thread stays with the parent.
static CLOSER: AtomicPtr<Closer> = AtomicPtr::new(null_mut());

struct Closer {
    pid: u32,
    queue: Mutex<VecDeque<OwnedFd>>,
    filled: Condvar,
    /// Descriptors in the queue and in the thread's hands.
    waiting: AtomicUsize,
    started: AtomicBool,
}

/// Receives bytes from a socket of an untrusted process, which has no reason to send descriptors.
/// The thread closes those that come. Never waits.
///
/// # Errors
/// [`Errno::BADMSG`] when descriptors came: drop the socket. The system's, such as
/// [`Errno::AGAIN`] when there is nothing.
pub fn recv(socket: &ClosedLater, into: &mut [u8]) -> Result<usize, Errno> {
    if !socket.later {
        return rustix::net::recv(socket, into, RecvFlags::DONTWAIT).map(|(count, _)| count);
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_PASSED))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket, &mut [IoSliceMut::new(into)], &mut control, flags);
    let mut any = false;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            any = true;
            fds.for_each(close);
        }
    }
    let received = received?;
    if any || received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(Errno::BADMSG);
    }
    Ok(received.bytes)
}

/// Has the thread close a descriptor. Never waits.
pub fn close(fd: OwnedFd) {
    let closer = Closer::here();
    closer.waiting.fetch_add(1, Ordering::Relaxed);
    closer.queue().push_back(fd);
    closer.filled.notify_one();
    // Without a thread, the queue grows to its bound, and each time the thread is tried again.
    closer.start();
}

/// Do so many descriptors wait that no more should be received?
#[must_use]
pub fn is_behind() -> bool {
    Closer::existing().is_some_and(|closer| closer.waiting.load(Ordering::Relaxed) >= MOST_WAITING)
}

/// Starts the thread now, for a process that may not start one later. Otherwise the first
/// [`close`] does.
pub fn start() {
    Closer::here().start();
}

impl Closer {
    fn existing() -> Option<&'static Self> {
        // SAFETY: null, or a box that is leaked and never written to as a whole.
        let found = unsafe { CLOSER.load(Ordering::Acquire).as_ref() };
        found.filter(|closer| closer.pid == fork::pid())
    }

    fn here() -> &'static Self {
        if let Some(closer) = Self::existing() {
            return closer;
        }
        let found = CLOSER.load(Ordering::Acquire);
        let new = Box::into_raw(Box::new(Self {
            pid: fork::pid(),
            queue: Mutex::default(),
            filled: Condvar::new(),
            waiting: AtomicUsize::new(0),
            started: AtomicBool::new(false),
        }));
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        match CLOSER.compare_exchange(found, new, success, failure) {
            // SAFETY: from the box above, which is never freed from here on.
            Ok(_) => unsafe { &*new },
            Err(other) => {
                // SAFETY: from the box above, and nobody else has seen it.
                drop(unsafe { Box::from_raw(new) });
                // SAFETY: of another thread of this process, leaked as above.
                unsafe { &*other }
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<OwnedFd>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&'static self) {
        if self.started.swap(true, Ordering::AcqRel) {
            return;
        }
        let thread = std::thread::Builder::new().name("tasuki-closer".to_owned());
        let started = without_signals(|| thread.stack_size(STACK).spawn(|| self.run()));
        self.started.store(started.is_ok(), Ordering::Release);
    }

    fn run(&self) {
        loop {
            let mut queue = self.queue();
            let fd = loop {
                match queue.pop_front() {
                    Some(fd) => break fd,
                    None => {
                        queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
                    }
                }
            };
            drop(queue);
            drop(fd);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Runs `start` with all signals blocked: a new thread inherits that, and signals are for the
/// program's own threads.
fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the pointer is to a set's memory, which the call fills.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: `all` is a set, and `before` the memory of one, which the call fills.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
    let started = start();
    // SAFETY: `before` was filled above: the call fails only for an unknown first argument.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut()) };
    started
}

/// A descriptor whose close may take as long as another process chose: the thread closes it.
#[derive(Debug)]
pub struct ClosedLater {
    fd: ManuallyDrop<OwnedFd>,
    /// False: it is known that no other process has a say in it.
    later: bool,
}

impl ClosedLater {
    /// Closed by the thread, or if not `later`, at once.
    #[must_use]
    pub fn new(fd: OwnedFd, later: bool) -> Self {
        Self { fd: ManuallyDrop::new(fd), later }
    }

    /// Will the thread close it?
    #[must_use]
    pub fn is_later(&self) -> bool {
        self.later
    }

    /// The descriptor, for a caller that knows what its close takes.
    #[must_use]
    pub fn into_inner(self) -> OwnedFd {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used again, and not dropped.
        unsafe { ManuallyDrop::take(&mut this.fd) }
    }
}

impl AsFd for ClosedLater {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for ClosedLater {
    fn drop(&mut self) {
        // SAFETY: `self` is not used after this.
        let fd = unsafe { ManuallyDrop::take(&mut self.fd) };
        if self.later { close(fd) } else { drop(fd) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
