//! The server as this process sees it: region, bell, liveness, counters.
//!
//! Every wait that lasts either looks at the control connection or sleeps on a bell that ends with
//! the server, so no thread waits for a dead instance. After the server's end every operation gives
//! ENETDOWN.
//!
//! A membership belongs to the process that was admitted. A forked child's copy answers ENOTCONN to
//! everything and touches nothing in the region (see [`crate::forked`]).

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;

use abi::client::{ClientLayout, HeadWords};
use abi::control::{ClientReply, ClientRequest};
use abi::network::NetworkStatus;
use abi::stages::{TraceStage, Tracer};
use abi::{Errno, SocketId};
use shm::fork::kernel_pid;
use shm::{Access, PoolMap, Region, Ringer, Word64};

use super::control::{Admission, ControlConnection, ControlWatch};
use super::deferred_bell::{self, ServerKey};
use crate::descriptors::move_high;
use crate::error::ConnectError;
use crate::fork::pid_cached;
use crate::local_stack::LocalStack;
use crate::lock::lock;

/// How long a thread sleeps on its futex. That is the quickest sleep to wake from, but does not end
/// with the instance. A longer wait continues on descriptors, which does, for as long as it takes.
const FUTEX_SLEEP: Duration = Duration::from_secs(1);
/// How many operations that found nothing to do pass between two looks at the control connection.
const LOOK_EVERY: u32 = 64;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct ServerHandle {
    pid: u32,
    number: u16,
    region: Arc<Region>,
    layout: ClientLayout,
    head: HeadWords,
    bell: Ringer,
    /// In mode `library`.
    stack: Option<Arc<dyn LocalStack>>,
    control: Mutex<Option<Arc<ControlConnection>>>,
    /// Descriptors of this library that the program must not close.
    internal: Mutex<Vec<RawFd>>,
    gone: AtomicBool,
    /// Operations that found nothing to do.
    idle: AtomicU32,
    /// [`FUTEX_SLEEP`] in milliseconds, or another time that a test has set.
    futex_sleep: AtomicU32,
    trace: Mutex<Tracer>,
    traced: Word64,
}

impl ServerHandle {
    /// Maps the region; returns the frame pools as well.
    pub(super) fn new(admission: Admission) -> Result<(Self, Vec<PoolMap>), ConnectError> {
        let Admission { number, params, control, region, bell, frames, stack } = admission;
        let layout = params.layout().map_err(|error| ConnectError::region(&error))?;
        let region = Region::map(region.as_fd(), layout.len, Access::ReadWrite)
            .map_err(|error| ConnectError::region(&error))?;
        let head = layout.head(&region).map_err(|error| ConnectError::region(&error))?;
        let (trace, traced) = Tracer::attach(&region, layout.trace)
            .and_then(|trace| Ok((trace, region.word64(layout.trace)?)))
            .map_err(|error| ConnectError::region(&error))?;
        let mut internal = control.raw_fds().to_vec();
        internal.push(bell.as_raw_fd());
        let server = Self {
            pid: kernel_pid(),
            number,
            region,
            layout,
            bell: Ringer::new(head.server_bell.clone(), bell),
            head,
            stack,
            control: Mutex::new(Some(Arc::new(control))),
            internal: Mutex::new(internal),
            gone: AtomicBool::new(false),
            idle: AtomicU32::new(0),
            futex_sleep: AtomicU32::new(FUTEX_SLEEP.as_millis() as u32),
            trace: Mutex::new(trace),
            traced,
        };
        Ok((server, frames))
    }

    /// This client's number in the instance.
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    pub(crate) fn region(&self) -> &Arc<Region> {
        &self.region
    }

    pub(crate) fn layout(&self) -> &ClientLayout {
        &self.layout
    }

    /// The stack, if it is in this process.
    pub(crate) fn stack(&self) -> Option<&Arc<dyn LocalStack>> {
        self.stack.as_ref()
    }

    /// Does this membership belong to this process, not to a parent that forked it?
    pub(crate) fn is_mine(&self) -> bool {
        self.pid == kernel_pid()
    }

    /// Is this a forked child with memory of its own? Needs no system call.
    pub(crate) fn is_forked(&self) -> bool {
        self.pid != shm::fork::pid()
    }

    /// Is the instance still there, as far as is known?
    pub(crate) fn is_alive(&self) -> bool {
        !self.gone.load(Ordering::Acquire)
    }

    /// May this process use the region? The data path's check. It makes no system call where forks
    /// are watched.
    ///
    /// # Errors
    /// ENOTCONN in a forked child, ENETDOWN when the instance is gone.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), Errno> {
        if self.pid != pid_cached() {
            Err(Errno::NOTCONN)
        } else if self.is_alive() {
            Ok(())
        } else {
            Err(Errno::NETDOWN)
        }
    }

    /// [`ServerHandle::check`] for calls and waits. It also recognises a child that no fork handler
    /// has seen, if the child has memory of its own.
    pub(crate) fn check_memory(&self) -> Result<(), Errno> {
        if self.pid == shm::fork::pid() { self.check() } else { Err(Errno::NOTCONN) }
    }

    /// The server wrote something impossible into memory that all sockets share. None of that
    /// memory can be trusted any more, so the instance counts as gone.
    pub(crate) fn fault(&self) -> Errno {
        self.gone.store(true, Ordering::Release);
        Errno::NETDOWN
    }

    /// Looks whether the supervisor still holds its end of the control connection.
    ///
    /// # Errors
    /// ENETDOWN if not.
    pub(crate) fn look(&self) -> Result<(), Errno> {
        match self.control() {
            Some(control) if !control.has_ended() => self.check(),
            Some(_) | None => Err(self.fault()),
        }
    }

    /// Checks the instance now and then. Operations that do not wait call it when they found
    /// nothing to do. So a program that only polls also learns of the instance's end.
    ///
    /// # Errors
    /// As [`ServerHandle::look`].
    pub(crate) fn look_sometimes(&self) -> Result<(), Errno> {
        if self.idle.fetch_add(1, Ordering::Relaxed) % LOOK_EVERY == LOOK_EVERY - 1 {
            return self.look();
        }
        Ok(())
    }

    /// Rings the server's bell, unless this thread defers it.
    #[inline]
    pub(crate) fn ring(&self) {
        if !deferred_bell::defer(self.key()) {
            self.ring_now();
        }
    }

    /// Rings the server's bell; in mode `library`, does the server's work.
    fn ring_now(&self) {
        match &self.stack {
            Some(stack) => stack.work(&mut || false),
            None if self.bell.ring() => {
                self.head.bells.fetch_add(1, Ordering::Relaxed);
            }
            None => {}
        }
    }

    fn key(&self) -> ServerKey {
        std::ptr::from_ref(self).addr()
    }

    /// Defers the bell in this thread until [`ServerHandle::end_deferral`].
    pub(crate) fn defer_bell(&self) {
        deferred_bell::begin(self.key());
    }

    /// Rings the bell if this thread has deferred it; it stays deferred.
    pub(crate) fn ring_deferred(&self) {
        if deferred_bell::take_due(self.key()) {
            self.ring_now();
        }
    }

    /// Rings the bell if this thread has deferred it, and defers it no longer.
    pub(crate) fn end_deferral(&self) {
        self.ring_deferred();
        deferred_bell::end(self.key());
    }

    /// Marks a socket for the server's next look, without waking a server that sleeps.
    pub(crate) fn mark_dirty(&self, socket: u16) {
        self.head.dirty.set(socket);
    }

    /// Notifies the server of a socket's news. With `may_wait`, a stack in this process may look at
    /// it later. True: the server was notified at once.
    #[inline]
    pub(crate) fn announce(&self, socket: u16, may_wait: bool) -> bool {
        self.mark_dirty(socket);
        let waits = may_wait && self.stack.as_ref().is_some_and(|stack| stack.post());
        if !waits {
            self.ring();
        }
        !waits
    }

    /// Marks that a stage of a send or receive begins, if stages are traced.
    #[inline]
    pub(crate) fn mark(&self, stage: TraceStage) {
        if self.traced.load(Ordering::Relaxed) != 0 {
            self.mark_traced(stage);
        }
    }

    #[cold]
    fn mark_traced(&self, stage: TraceStage) {
        lock(&self.trace).mark(stage);
    }

    /// How long a thread sleeps on its futex before it sleeps on descriptors.
    pub(crate) fn futex_sleep(&self) -> Duration {
        Duration::from_millis(self.futex_sleep.load(Ordering::Relaxed).into())
    }

    /// Sets that time.
    pub(crate) fn set_futex_sleep(&self, time: Duration) {
        let millis = u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        self.futex_sleep.store(millis, Ordering::Relaxed);
    }

    /// Counts that a thread sleeps.
    pub(crate) fn count_sleep(&self) {
        self.head.sleeps.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts payload bytes copied out of the rx pool.
    pub(crate) fn count_copied_rx(&self, len: usize) {
        self.head.copied_rx.fetch_add(len as u64, Ordering::Relaxed);
    }

    /// Counts payload bytes copied into the tx pool.
    pub(crate) fn count_copied_tx(&self, len: usize) {
        self.head.copied_tx.fetch_add(len as u64, Ordering::Relaxed);
    }

    /// The descriptors that this library holds.
    pub(crate) fn internal_fds(&self) -> Vec<RawFd> {
        lock(&self.internal).clone()
    }

    pub(crate) fn is_internal_fd(&self, fd: RawFd) -> bool {
        lock(&self.internal).contains(&fd)
    }

    /// Notes a descriptor of this library.
    pub(super) fn own(&self, fd: RawFd) {
        lock(&self.internal).push(fd);
    }

    fn control(&self) -> Option<Arc<ControlConnection>> {
        lock(&self.control).clone()
    }

    /// The control connection for poll, while the instance is there.
    pub(super) fn watch_control(&self) -> Option<ControlWatch> {
        self.control().map(ControlWatch::new)
    }

    fn exchange(
        &self,
        request: &ClientRequest,
    ) -> Result<Result<(ClientReply, Vec<OwnedFd>), ConnectError>, Errno> {
        let control = self.control().ok_or(Errno::NETDOWN)?;
        Ok(control.exchange(request, self.stack.as_deref()))
    }

    /// The stack's interfaces, addresses and routes as they are now.
    pub(crate) fn network(&self) -> Result<NetworkStatus, Errno> {
        self.check_memory()?;
        match self.exchange(&ClientRequest::Network)? {
            Ok((ClientReply::Network(status), _)) => Ok(status),
            Ok((ClientReply::Error { .. }, _)) => Err(Errno::IO),
            Ok(_) | Err(_) => Err(self.fault()),
        }
    }

    /// One more thread slot: its number and its bell. `Ok(None)` when the instance gives none.
    pub(super) fn attach_thread(&self) -> Result<Option<(u16, OwnedFd)>, Errno> {
        match self.exchange(&ClientRequest::AttachThread)? {
            Ok((ClientReply::Thread { thread }, mut fds)) if fds.len() == 1 => {
                let Some(fd) = fds.pop().map(move_high) else {
                    return Err(self.fault());
                };
                if thread >= self.layout.params.threads {
                    return Err(self.fault());
                }
                self.own(fd.as_raw_fd());
                Ok(Some((thread, fd)))
            }
            Ok((ClientReply::Error { .. }, _)) => Ok(None),
            Ok(_) | Err(_) => Err(self.fault()),
        }
    }

    /// Makes sockets shared: a descriptor for each. `Ok(None)` when the instance refuses.
    pub(crate) fn share(&self, sockets: Vec<SocketId>) -> Result<Option<Vec<OwnedFd>>, Errno> {
        let count = sockets.len();
        match self.exchange(&ClientRequest::Share { sockets })? {
            Ok((ClientReply::Shared, fds)) if fds.len() == count => Ok(Some(fds)),
            // This process has no free descriptors for them.
            Ok((ClientReply::Shared | ClientReply::Error { .. }, _)) => Ok(None),
            Ok(_) | Err(_) => Err(self.fault()),
        }
    }

    /// Says goodbye and closes the control connection; later operations give ENETDOWN. The second
    /// time nothing happens.
    pub(super) fn leave(&self) {
        if self.gone.swap(true, Ordering::AcqRel) {
            return;
        }
        lock(&self.internal).clear();
        let control = lock(&self.control).take();
        if let Some(control) = control {
            // The connection's end says the same, if this does not arrive.
            let _ = control.send(&ClientRequest::Bye);
        }
        if let Some(stack) = &self.stack {
            stack.finish();
        }
    }

    /// In a forked child: closes this process's copy of the control connection.
    pub(crate) fn let_go(&self) {
        // The parent's threads are not here: a lock that one of them held is never released.
        let internal = match self.internal.try_lock() {
            Ok(mut fds) => std::mem::take(&mut *fds),
            Err(_) => return,
        };
        drop(internal);
        let control = match self.control.try_lock() {
            Ok(mut control) => control.take(),
            Err(TryLockError::Poisoned(control)) => control.into_inner().take(),
            Err(TryLockError::WouldBlock) => None,
        };
        drop(control);
    }
}
