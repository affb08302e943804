//! Closing descriptors that an untrusted process has sent, or may have queued in a socket.
//!
//! Such a close takes as long as the sender chose ([`crate::passing`]). So a thread of its own does
//! it, one in each process that needs it. The thread ends with the process. One descriptor may
//! occupy it for good, such as a file of FUSE; then the others wait behind it.
//!
//! In a process whose signals are ours ([`interrupter::allow`]) a timer ends the wait for the peer
//! of a TCP socket. There a close takes a millisecond, whatever the sender chose.
//!
//! The queue takes every descriptor, since neither waiting nor forgetting one is an alternative.
//! Its bound is with the callers. While [`is_behind`], they accept no connection that may bring
//! descriptors, and read from none that is to bring some. A connection that is to bring none keeps
//! them in its own queue until it is closed: [`recv_bytes`] looks before it reads. So such a
//! connection costs one descriptor, and never holds up another one.
//!
//! One read brings at most [`MOST_PASSED`]. So a process with one socket that is to bring some has
//! at most [`MOST_WAITING`] + [`MOST_PASSED`] descriptors in the queue, and the socket itself.

#![allow(unsafe_code)]

pub mod interrupter;

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};

use self::interrupter::Interrupter;
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
    queue: Mutex<Queue>,
    /// The queue got a descriptor, or the thread is ready.
    filled: Condvar,
    /// Descriptors in the queue and in the thread's hands.
    waiting: AtomicUsize,
    started: AtomicBool,
}

#[derive(Default)]
struct Queue {
    fds: VecDeque<OwnedFd>,
    /// The thread has made all that it needs.
    ready: bool,
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

/// Receives bytes from a socket of an untrusted process, which has no reason to send descriptors.
/// Those that come stay in the socket's queue, and are closed with the socket. Never waits.
///
/// # Errors
/// As [`recv`]'s.
pub fn recv_bytes(socket: &ClosedLater, into: &mut [u8]) -> Result<usize, Errno> {
    let (flags, most) = (RecvFlags::DONTWAIT, into.len());
    let most = if socket.later {
        // The kernel says that some were left out, and takes none out of the queue.
        let mut none = RecvAncillaryBuffer::default();
        let found = &mut [IoSliceMut::new(into)];
        let found = recvmsg(socket, found, &mut none, flags | RecvFlags::PEEK)?;
        if found.flags.contains(ReturnFlags::CTRUNC) {
            return Err(Errno::BADMSG);
        }
        // Behind these bytes descriptors may have come meanwhile.
        found.bytes
    } else {
        most
    };
    rustix::net::recv(socket, &mut into[..most], flags).map(|(count, _)| count)
}

/// Has the thread close a descriptor. Never waits.
pub fn close(fd: OwnedFd) {
    let closer = Closer::here();
    closer.waiting.fetch_add(1, Ordering::Relaxed);
    closer.queue().fds.push_back(fd);
    closer.filled.notify_all();
    // Without a thread, the queue grows to its bound, and each time the thread is tried again.
    closer.start();
}

/// Do so many descriptors wait that no more should be received?
#[must_use]
pub fn is_behind() -> bool {
    Closer::existing().is_some_and(|closer| closer.waiting.load(Ordering::Relaxed) >= MOST_WAITING)
}

/// Starts the thread now, and waits until it is ready, for a process that may not start one later.
/// Otherwise the first [`close`] starts it.
pub fn start() {
    let closer = Closer::here();
    closer.start();
    let mut queue = closer.queue();
    while closer.started.load(Ordering::Acquire) && !queue.ready {
        queue = closer.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
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

    fn queue(&self) -> MutexGuard<'_, Queue> {
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
        let interrupter = Interrupter::new();
        self.queue().ready = true;
        self.filled.notify_all();
        loop {
            let mut queue = self.queue();
            let fd = loop {
                match queue.fds.pop_front() {
                    Some(fd) => break fd,
                    None => {
                        queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
                    }
                }
            };
            drop(queue);
            match &interrupter {
                Some(interrupter) => interrupter.interrupted(|| drop(fd)),
                None => drop(fd),
            }
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
