//! An open Tasuki socket: the shim's state beside the socket itself.
//!
//! It is to descriptors what the kernel's open file description is: `dup` shares it, and with it
//! the mode (O_NONBLOCK), the timeouts and the membership in epoll sets. It counts its descriptors
//! itself, not by references, because a waiting thread holds a reference too: with the last
//! descriptor the socket is closed at once.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Instant, SystemTime};

use rustix::event::PollFd;
use rustix::io::Errno;
use sockets::{
    NewsListener, PollCall, Readiness, Received, RecvFlags, SendFlags, ShutdownHow, Socket,
    SocketKind, Wait, Watch,
};

use crate::cmsg::StampForm;
use crate::errno::Outcome;
use crate::registrations::Source;
use crate::time;
use crate::transfer::{Endpoint, error_packet};

/// Sleeps until a socket's version is no longer the one given, poll(2) reports something for
/// `kernel`, the deadline passes, or for no reason. Sleeps in `call` if there is one.
///
/// # Errors
/// EINTR, and what poll(2) gives.
pub(crate) fn wait_any(
    watched: &[(Arc<OpenSocket>, u32)],
    kernel: &mut [PollFd<'_>],
    deadline: Option<Instant>,
    call: Option<PollCall<'_>>,
) -> Outcome<()> {
    let watches: Vec<_> = watched
        .iter()
        .map(|(open, version)| Watch { socket: &open.socket, version: *version })
        .collect();
    sockets::wait_any(&watches, kernel, deadline, call)
}

/// Called before a wait ends without a result. True: the stack worked, which may have changed one
/// of the `watched` sockets.
pub(crate) fn attend(watched: &[(Arc<OpenSocket>, u32)]) -> bool {
    watched.first().is_some_and(|(first, _)| first.socket.attend())
}

/// A direction's timeout in nanoseconds; 0 is none.
#[derive(Default)]
pub(crate) struct Timeout(AtomicU64);

impl Timeout {
    /// The timeout, `None` for none.
    pub(crate) fn get(&self) -> Option<Duration> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }

    /// Sets it. A time that is too long to count (500 years) is none.
    pub(crate) fn set(&self, timeout: Option<Duration>) {
        let nanos = timeout.map_or(0, |t| u64::try_from(t.as_nanos()).unwrap_or(0));
        self.0.store(nanos, Ordering::Relaxed);
    }
}

/// Learns of a socket's end: an epoll set.
pub(crate) trait SocketWatcher: Send + Sync {
    /// The last descriptor of `socket` was closed.
    fn forget(&self, socket: &Arc<OpenSocket>);
    /// The socket at `place` has news, which the threads with these bits have taken.
    fn on_news(&self, place: u16, threads: u64);
}

/// What connect(2) has said of a stream: Linux's state of the socket, beside its connection's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectPhase {
    /// Nothing, or that an attempt failed.
    Unconnected = 0,
    /// That an attempt goes on. The next call tells how it came out.
    Attempting = 1,
    /// That it is connected. It says so for ever.
    Connected = 2,
}

/// See the module's head.
pub(crate) struct OpenSocket {
    /// The socket.
    pub(crate) socket: Socket,
    /// SO_RCVTIMEO.
    pub(crate) receive_timeout: Timeout,
    /// SO_SNDTIMEO.
    pub(crate) send_timeout: Timeout,
    /// SO_LINGER: how long the close waits.
    pub(crate) linger: Timeout,
    nonblocking: AtomicBool,
    /// Its descriptors are duplicates of the cached placeholder.
    on_cached: AtomicBool,
    /// Other processes may hold descriptors of it.
    shared: AtomicBool,
    /// Its placeholder has had an owner, a signal or O_ASYNC.
    has_owner: AtomicBool,
    /// TCP_INQ.
    tells_unread: AtomicBool,
    /// What SIOCGSTAMP has told: how many datagrams there had been, and the last one's time.
    last_received: Mutex<Option<(u64, SystemTime)>>,
    /// What connect(2) has said of a stream: a [`ConnectPhase`].
    connect_phase: AtomicU8,
    /// A [`StampForm`].
    stamps: AtomicU8,
    descriptors: AtomicUsize,
    watchers: Mutex<Vec<Weak<dyn SocketWatcher>>>,
}

impl OpenSocket {
    /// An open socket with one descriptor.
    pub(crate) fn new(socket: Socket, nonblocking: bool) -> Arc<Self> {
        Arc::new(Self {
            socket,
            receive_timeout: Timeout::default(),
            send_timeout: Timeout::default(),
            linger: Timeout::default(),
            nonblocking: AtomicBool::new(nonblocking),
            on_cached: AtomicBool::new(false),
            shared: AtomicBool::new(false),
            has_owner: AtomicBool::new(false),
            tells_unread: AtomicBool::new(false),
            last_received: Mutex::default(),
            connect_phase: AtomicU8::new(ConnectPhase::Unconnected as u8),
            stamps: AtomicU8::new(StampForm::None as u8),
            descriptors: AtomicUsize::new(1),
            watchers: Mutex::default(),
        })
    }

    /// The open socket of a connection accepted on this one. It takes over the timeouts, TCP_INQ
    /// and SO_TIMESTAMP, as on Linux.
    pub(crate) fn accepted(&self, socket: Socket, nonblocking: bool) -> Arc<Self> {
        let accepted = Self::new(socket, nonblocking);
        accepted.receive_timeout.set(self.receive_timeout.get());
        accepted.send_timeout.set(self.send_timeout.get());
        accepted.linger.set(self.linger.get());
        accepted.set_tells_unread(self.tells_unread());
        accepted.set_stamps(self.stamps());
        accepted.set_connect_phase(ConnectPhase::Connected);
        accepted
    }

    /// What connect(2) has said.
    pub(crate) fn connect_phase(&self) -> ConnectPhase {
        match self.connect_phase.load(Ordering::Relaxed) {
            1 => ConnectPhase::Attempting,
            2 => ConnectPhase::Connected,
            _ => ConnectPhase::Unconnected,
        }
    }

    /// Notes what connect(2) says.
    pub(crate) fn set_connect_phase(&self, phase: ConnectPhase) {
        self.connect_phase.store(phase as u8, Ordering::Relaxed);
    }

    /// O_NONBLOCK.
    pub(crate) fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed)
    }

    /// Sets O_NONBLOCK.
    pub(crate) fn set_nonblocking(&self, on: bool) {
        self.nonblocking.store(on, Ordering::Relaxed);
    }

    /// Whether its descriptor is a duplicate of the cached placeholder.
    pub(crate) fn set_on_cached(&self, on: bool) {
        self.on_cached.store(on, Ordering::Release);
    }

    /// Has its placeholder had an owner, a signal or O_ASYNC?
    pub(crate) fn has_owner(&self) -> bool {
        self.has_owner.load(Ordering::Relaxed)
    }

    /// Its placeholder has one now.
    pub(crate) fn set_has_owner(&self) {
        self.has_owner.store(true, Ordering::Relaxed);
    }

    /// Is its placeholder as a new one?
    pub(crate) fn is_placeholder_fresh(&self) -> bool {
        !self.is_nonblocking() && !self.has_owner()
    }

    /// TCP_INQ: does recvmsg tell how much is left to be read?
    pub(crate) fn tells_unread(&self) -> bool {
        self.tells_unread.load(Ordering::Relaxed)
    }

    /// Sets TCP_INQ.
    pub(crate) fn set_tells_unread(&self, on: bool) {
        self.tells_unread.store(on, Ordering::Relaxed);
    }

    /// The times that messages are to have.
    pub(crate) fn stamps(&self) -> StampForm {
        match self.stamps.load(Ordering::Relaxed) {
            1 => StampForm::Micros,
            2 => StampForm::Nanos,
            _ => StampForm::None,
        }
    }

    /// Sets SO_TIMESTAMP or SO_TIMESTAMPNS.
    pub(crate) fn set_stamps(&self, form: StampForm) {
        self.stamps.store(form as u8, Ordering::Relaxed);
    }

    /// What SIOCGSTAMP has told: how many datagrams there had been, and the last one's time.
    pub(crate) fn last_received(&self) -> MutexGuard<'_, Option<(u64, SystemTime)>> {
        self.last_received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// May other processes hold descriptors of it?
    pub(crate) fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Acquire)
    }

    /// From now on other processes may.
    pub(crate) fn set_shared(&self) {
        self.shared.store(true, Ordering::Release);
    }

    /// How long a receiving call may wait.
    pub(crate) fn receive_wait(&self, dont_wait: bool) -> Wait {
        self.wait(dont_wait, &self.receive_timeout)
    }

    /// How long a sending call may wait.
    pub(crate) fn send_wait(&self, dont_wait: bool) -> Wait {
        self.wait(dont_wait, &self.send_timeout)
    }

    fn wait(&self, dont_wait: bool, timeout: &Timeout) -> Wait {
        if dont_wait || self.is_nonblocking() { Wait::No } else { Wait::at_most(timeout.get()) }
    }

    /// `set` watches this socket from now on, and learns of its end.
    pub(crate) fn watched_by(self: &Arc<Self>, set: Weak<dyn SocketWatcher>) {
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.retain(|other| other.strong_count() > 0 && !other.ptr_eq(&set));
        watchers.push(set);
        drop(watchers);
        let this: Weak<Self> = Arc::downgrade(self);
        self.socket.set_news_listener(this);
    }

    /// This process did something that may make it ready: its sets look again.
    pub(crate) fn touch(&self) {
        self.on_news(0);
    }

    /// Has the last descriptor been closed?
    pub(crate) fn is_closed(&self) -> bool {
        self.descriptors.load(Ordering::Acquire) == 0
    }

    /// Is there but one descriptor?
    pub(crate) fn is_last(&self) -> bool {
        self.descriptors.load(Ordering::Acquire) == 1
    }

    /// One more descriptor is about to stand for it; false if the last one was just closed.
    pub(crate) fn share(&self) -> bool {
        let more = |count: usize| count.checked_add(1).filter(|_| count > 0);
        self.descriptors.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    /// One descriptor less stands for it. True: that was the last.
    pub(crate) fn unshare(&self) -> bool {
        self.descriptors.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Are its descriptors duplicates of the cached placeholder?
    pub(crate) fn is_on_cached(&self) -> bool {
        self.on_cached.load(Ordering::Acquire)
    }

    /// The last descriptor was closed: leaves the epoll sets and closes the socket.
    pub(crate) fn end(self: Arc<Self>) {
        if let Some(limit) = self.linger.get() {
            self.wait_for_acknowledgement(limit);
        }
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        let watchers = core::mem::take(&mut *watchers);
        for set in watchers.iter().filter_map(Weak::upgrade) {
            set.forget(&self);
        }
        self.socket.close_soon();
    }
}

impl OpenSocket {
    /// As Linux: a close with SO_LINGER waits until the peer has acknowledged all bytes, of a
    /// non-blocking socket, too. Unread bytes make it a reset. A signal and cancellation end the
    /// wait.
    fn wait_for_acknowledgement(self: &Arc<Self>, limit: Duration) {
        /// No change of the socket tells of the last acknowledgement.
        const LOOK_AGAIN: Duration = Duration::from_millis(5);
        if self.is_shared() || self.socket.readable_len() > 0 {
            return;
        }
        let deadline = time::after(limit);
        // Not connected: there is nothing to wait for.
        let mut goes_on = self.socket.shutdown(ShutdownHow::Write).is_ok();
        while goes_on && self.socket.unsent_len() > 0 && !time::passed(deadline) {
            let version = self.socket.readiness().version;
            let look = time::after(LOOK_AGAIN);
            let watched = [(Arc::clone(self), version)];
            let waited = wait_any(&watched, &mut [], look, None);
            goes_on = !matches!(waited, Err(Errno::INTR | Errno::CANCELED));
        }
    }
}

impl Source for Arc<OpenSocket> {
    fn readiness(&self) -> Readiness {
        self.socket.readiness()
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(self, other)
    }

    fn place(&self) -> u16 {
        self.socket.place()
    }

    fn notify(&self, threads: u64) {
        self.socket.notify_threads(threads);
    }

    fn lacks_memory(&self) -> bool {
        self.socket.lacks_memory()
    }
}

impl NewsListener for OpenSocket {
    fn on_news(&self, threads: u64) {
        let watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        for set in watchers.iter().filter_map(Weak::upgrade) {
            set.on_news(self.socket.place(), threads);
        }
    }
}

impl Endpoint for OpenSocket {
    fn kind(&self) -> SocketKind {
        self.socket.kind()
    }

    fn send(
        &self,
        bufs: &[IoSlice<'_>],
        flags: SendFlags,
        to: Option<SocketAddr>,
        wait: Wait,
    ) -> Outcome<usize> {
        self.socket.send(bufs, flags, to, wait)
    }

    fn wait_for_more(&self, than: usize, wait: Wait) -> Outcome<bool> {
        self.socket.wait_for_more(than, wait)
    }

    fn recv_urgent(&self, peek: bool) -> Outcome<Option<u8>> {
        if self.socket.is_listening() {
            return Err(Errno::NOTCONN);
        }
        self.socket.recv_urgent(peek)
    }

    fn recv_error(&self, bufs: &mut [IoSliceMut<'_>]) -> Outcome<Received> {
        Ok(error_packet(&self.socket.take_queued_error()?, bufs))
    }

    fn connect_fast(&self, to: SocketAddr, wait: Wait) -> Outcome<()> {
        self.socket.connect_fast(to, wait)
    }

    fn recv(&self, bufs: &mut [IoSliceMut<'_>], peek: bool, wait: Wait) -> Outcome<Received> {
        self.socket.recv(bufs, RecvFlags { peek }, wait)
    }
}
