//! Requests of AIO that wait, and the thread that carries them out.
//!
//! The thread tries the first request of each direction of each socket without waiting, and sleeps
//! until one of these sockets changes. It exists only while there is a request. All signals are
//! blocked in it, as in the C library's own threads.

#![allow(unsafe_code)]

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::collections::BTreeSet;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};
use rustix::io::Errno;
use rustix::thread::futex;
use sockets::{asleep, cancellable};

use super::control_block::{ControlBlock, Event};
use crate::calls::io::{receive_bufs, send_bufs};
use crate::descriptors::{Descriptor, TABLE, install, socket};
use crate::errno::Outcome;
use crate::handlers::Within;
use crate::open_socket::{OpenSocket, wait_any};
use crate::process_state::ProcessState;
use crate::retaking::PAUSES;
use crate::sanitizers::Unseen;
use crate::{instance, time};

/// aio_cancel(3)'s answers.
const AIO_CANCELED: c_int = 0;
const AIO_NOTCANCELED: c_int = 1;
const AIO_ALLDONE: c_int = 2;

/// Requests of one lio_listio(3).
pub(super) struct Group {
    left: AtomicUsize,
    event: Option<Event>,
}

impl Group {
    pub(super) fn new(left: usize, event: Option<Event>) -> Self {
        Self { left: AtomicUsize::new(left), event }
    }

    /// One more is to be waited for.
    pub(super) fn add(&self) {
        self.left.fetch_add(1, Ordering::AcqRel);
    }

    /// One is over.
    pub(super) fn finish(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(event) = &self.event
        {
            event.notify();
        }
    }
}

/// A read or a write.
pub(super) struct Request {
    /// The program's control block. It stays until the request is over.
    block: usize,
    fd: c_int,
    open: Arc<OpenSocket>,
    writes: bool,
    place: usize,
    len: usize,
    /// Bytes written so far.
    done: usize,
    event: Event,
    group: Option<Arc<Group>>,
}

#[derive(Default)]
struct Requests {
    all: Vec<Request>,
    /// Wakes the thread; there is a thread as long as there is one.
    kick: Option<Arc<OwnedFd>>,
}

static REQUESTS: ProcessState<Requests> = ProcessState::new();
/// The process that they are of; 0 before the first.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// Requests that are over, in all.
static FINISHED: AtomicU32 = AtomicU32::new(0);

impl Request {
    pub(super) fn new(
        block: *mut ControlBlock,
        given: &ControlBlock,
        writes: bool,
        open: Arc<OpenSocket>,
        group: Option<Arc<Group>>,
    ) -> Self {
        Self {
            block: block.expose_provenance(),
            fd: given.fd,
            open,
            writes,
            place: given.place.expose_provenance(),
            len: given.len,
            done: 0,
            event: given.event,
            group,
        }
    }

    fn block(&self) -> &ControlBlock {
        let block: *const ControlBlock = core::ptr::with_exposed_provenance(self.block);
        // SAFETY: the program keeps it until the request is over.
        unsafe { &*block }
    }

    fn finish(self, outcome: Outcome<usize>) {
        self.block().finish(outcome);
        FINISHED.fetch_add(1, Ordering::AcqRel);
        let _ = futex::wake(&FINISHED, futex::Flags::PRIVATE, u32::MAX >> 1);
        self.event.notify();
        if let Some(group) = self.group {
            group.finish();
        }
    }

    /// Tries it. `None`: it is to wait.
    fn attempt(&mut self) -> Option<Outcome<usize>> {
        let outcome = if self.writes { self.write() } else { self.read() };
        match outcome {
            Err(Errno::AGAIN) if !self.open.is_nonblocking() => None,
            Err(_) | Ok(0) if self.writes && self.done > 0 => Some(Ok(self.done)),
            Ok(now) if self.writes => {
                self.done += now;
                let is_over = self.done >= self.len || self.open.is_nonblocking();
                is_over.then_some(Ok(self.done))
            }
            outcome => Some(outcome),
        }
    }

    /// The number must still be this socket's.
    fn check(&self) -> Outcome<()> {
        let now = socket(self.fd)?;
        if Arc::ptr_eq(&now, &self.open) || now.is_shared() { Ok(()) } else { Err(Errno::BADF) }
    }

    fn read(&self) -> Outcome<usize> {
        self.check()?;
        if self.len == 0 {
            return Ok(0);
        }
        let place: *mut u8 = core::ptr::with_exposed_provenance_mut(self.place);
        // SAFETY: the program says that so many bytes are its request's until that is over.
        let room = unsafe { core::slice::from_raw_parts_mut(place, self.len) };
        let received = receive_bufs(self.fd, &mut [IoSliceMut::new(room)], libc::MSG_DONTWAIT)?;
        Ok(received.len)
    }

    fn write(&self) -> Outcome<usize> {
        self.check()?;
        let place: *const u8 = core::ptr::with_exposed_provenance(self.place);
        let bytes: &[u8] = match self.len {
            0 => &[],
            // SAFETY: as in `read`.
            len => unsafe { core::slice::from_raw_parts(place, len) },
        };
        let rest = [IoSlice::new(bytes.get(self.done..).unwrap_or_default())];
        // The C library's threads have SIGPIPE blocked.
        send_bufs(self.fd, &rest, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL, None)
    }
}

/// Begins a request.
///
/// # Errors
/// EAGAIN without room for a thread.
pub(super) fn begin(request: Request) -> Outcome<()> {
    let mut state = requests();
    match &state.kick {
        Some(kick) => drop(rustix::io::write(kick, &1_u64.to_ne_bytes())),
        None => state.kick = Some(start()?),
    }
    request.block().begin();
    state.all.push(request);
    Ok(())
}

/// Starts the thread. It waits for the lock that the caller has.
fn start() -> Outcome<Arc<OwnedFd>> {
    let low = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
    let kick = rustix::io::fcntl_dupfd_cloexec(&low, instance::own_fd_floor()).unwrap_or(low);
    install(kick.as_raw_fd(), Descriptor::Internal)?;
    let kick = Arc::new(kick);
    let theirs = Arc::clone(&kick);
    spawn(move || run(&theirs)).inspect_err(|_| drop(TABLE.take(kick.as_raw_fd())))?;
    Ok(kick)
}

/// Starts a thread in which all signals are blocked.
pub(super) fn spawn(work: impl FnOnce() + Send + 'static) -> Outcome<()> {
    crate::signals::without(|| {
        let thread = std::thread::Builder::new().name("tasuki-aio".to_owned());
        thread.stack_size(256 << 10).spawn(work).map(drop).map_err(|_| Errno::AGAIN)
    })
}

/// Cancels the requests on `fd` that have not begun to move bytes, or one of them.
pub(super) fn cancel(fd: c_int, block: *mut ControlBlock) -> c_int {
    let is_it =
        |one: &Request| one.fd == fd && (block.is_null() || one.block == block.expose_provenance());
    let mut state = requests();
    let (found, others): (Vec<_>, Vec<_>) = state.all.drain(..).partition(is_it);
    let (begun, cancelled): (Vec<_>, Vec<_>) = found.into_iter().partition(|one| one.done > 0);
    let answer = match (begun.is_empty(), cancelled.is_empty()) {
        (false, _) => AIO_NOTCANCELED,
        (true, false) => AIO_CANCELED,
        (true, true) => AIO_ALLDONE,
    };
    // Those that have begun are the first of their direction.
    state.all = begun.into_iter().chain(others).collect();
    drop(state);
    cancelled.into_iter().for_each(|one| one.finish(Err(Errno::CANCELED)));
    answer
}

/// How many requests are over, for [`wait`].
pub(super) fn finished() -> u32 {
    FINISHED.load(Ordering::Acquire)
}

/// Sleeps until more are over than there were, or until the deadline.
///
/// # Errors
/// EINTR.
pub(super) fn wait(seen: u32, deadline: Option<Instant>) -> Outcome<()> {
    let limit = deadline.and_then(|deadline| Timespec::try_from(time::left(deadline)).ok());
    let sleep = || futex::wait(&FINISHED, futex::Flags::PRIVATE, seen, limit.as_ref());
    match cancellable(|| asleep(false, sleep)) {
        Ok(_) | Err(Errno::AGAIN | Errno::TIMEDOUT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// The requests of this process, without those of a parent that has forked it.
fn requests() -> MutexGuard<'static, Requests> {
    let now = shm::fork::pid();
    let before = OWNER.swap(now, Ordering::AcqRel);
    if before != now && before != 0 {
        REQUESTS.forget();
    }
    REQUESTS.lock()
}

/// The thread.
fn run(kick: &OwnedFd) {
    let _unseen = Unseen::new();
    loop {
        let mut state = requests();
        if state.all.is_empty() {
            state.kick = None;
            drop(TABLE.take(kick.as_raw_fd()));
            return;
        }
        let (watched, over) = {
            let _within = Within::new();
            state.attempt_all()
        };
        drop(state);
        if !over.is_empty() {
            over.into_iter().for_each(|(request, outcome)| request.finish(outcome));
            continue;
        }
        let shared = watched.iter().any(|(open, _)| open.is_shared());
        let deadline = shared.then(|| time::after(PAUSES[1])).flatten();
        let mut kernel = [PollFd::new(kick, PollFlags::IN)];
        let slept = wait_any(&watched, &mut kernel, deadline, None);
        let _ = rustix::io::read(kick, &mut [0; 8]);
        if let Err(errno) = slept
            && errno != Errno::INTR
        {
            // The instance is gone, or the system's memory is.
            let all = core::mem::take(&mut requests().all);
            all.into_iter().for_each(|request| request.finish(Err(errno)));
        }
    }
}

/// Sockets, and the versions that they had before they were tried.
type Watched = Vec<(Arc<OpenSocket>, u32)>;

impl Requests {
    /// Tries the first request of each direction. Returns the sockets to wait for, and the requests
    /// that are over.
    fn attempt_all(&mut self) -> (Watched, Vec<(Request, Outcome<usize>)>) {
        let (mut watched, mut over) = (Watched::new(), Vec::new());
        let mut seen = BTreeSet::new();
        for mut request in core::mem::take(&mut self.all) {
            let first = seen.insert((Arc::as_ptr(&request.open).addr(), request.writes));
            if first {
                let version = request.open.socket.readiness().version;
                if let Some(outcome) = request.attempt() {
                    over.push((request, outcome));
                    continue;
                }
                watched.push((Arc::clone(&request.open), version));
            }
            self.all.push(request);
        }
        (watched, over)
    }
}
