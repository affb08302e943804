//! SIGURG and SIGIO: signals to the owner of a socket (`fcntl(2)`: F_SETOWN, F_SETSIG, O_ASYNC).
//!
//! The placeholder keeps owner, signal and O_ASYNC, since it is a file of the kernel. But the
//! kernel sees no event of the Tasuki socket. So a thread of the shim waits for these sockets, as
//! poll(2) does, and sends the signals. It exists only while a socket has an owner or O_ASYNC.
//!
//! * A thread needs no call of the program: a signal comes while the program computes.
//! * The server could send signals only with a right over the user's processes, which it must not
//!   have. A program's own process may send what the kernel lets it send, to its own user's
//!   processes.
//! * All signals are blocked in the thread, so the program's threads get them.
//!
//! | event | signal |
//! |---|---|
//! | a new urgent mark | SIGURG; with O_ASYNC also POLL_PRI |
//! | with O_ASYNC: input, new room, an error, the end | SIGIO, or F_SETSIG's with details |
//!
//! Several changes between two looks give one signal, as pending signals of one number do.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_long};
use core::mem::zeroed;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Weak};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use sockets::poll;

use crate::descriptors::{Descriptor, TABLE, install};
use crate::errno::Outcome;
use crate::open_socket::{OpenSocket, SocketWatcher, wait_any};
use crate::process_state::ProcessState;
use crate::sanitizers::Unseen;
use crate::signal_owner::{Owner, settings};
use crate::{instance, signals};

const F_OWNER_TID: c_int = 0;
const F_OWNER_PGRP: c_int = 2;
/// Codes of a signal (sigaction(2)).
const POLL_IN: c_int = 1;
const POLL_OUT: c_int = 2;
const POLL_ERR: c_int = 4;
const POLL_PRI: c_int = 5;
const POLL_HUP: c_int = 6;

/// A socket whose events give signals.
struct Signalled {
    socket: Weak<OpenSocket>,
    fd: c_int,
    owner: Owner,
    /// F_SETSIG's, 0 for SIGIO.
    signal: c_int,
    is_async: bool,
    /// At the last look.
    version: u32,
    events: u32,
    urgent: u64,
}

/// A signal to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sending {
    owner: Owner,
    signal: c_int,
    /// Its code, descriptor and events; `None` as SIGIO has it.
    details: Option<(c_int, c_int, u32)>,
}

#[derive(Default)]
struct SignalState {
    sockets: Vec<Signalled>,
    /// Wakes the thread; there is a thread as long as there is one.
    kick: Option<Arc<OwnedFd>>,
    watcher: Option<Arc<dyn SocketWatcher>>,
}

/// Wakes the thread when a socket ends.
struct EndWatcher;

impl SocketWatcher for EndWatcher {
    fn forget(&self, _: &Arc<OpenSocket>) {
        // A handler may close sockets, too.
        signals::without(|| STATE.lock().kick());
    }

    fn on_news(&self, _: u16, _: u64) {}
}

static STATE: ProcessState<SignalState> = ProcessState::new();

/// In a forked child: it has no thread.
pub(crate) fn forget() {
    STATE.forget();
}

/// The program has changed the owner, the signal or O_ASYNC of `fd`.
#[cold]
pub(crate) fn changed(fd: c_int, socket: &Arc<OpenSocket>) -> Outcome<()> {
    socket.set_has_owner();
    // A handler that comes here would wait for this thread's lock.
    signals::without(|| update(settings(fd)?, fd, socket))
}

fn update(
    (owner, signal, is_async): (Owner, c_int, bool),
    fd: c_int,
    socket: &Arc<OpenSocket>,
) -> Outcome<()> {
    let mut state = STATE.lock();
    let same = |one: &Signalled| one.socket.as_ptr() == Arc::as_ptr(socket);
    let before = state.sockets.iter().position(same).map(|at| state.sockets.swap_remove(at));
    if owner.pid != 0 {
        let now = socket.socket.readiness();
        let (version, events) = before
            .as_ref()
            .map_or((now.version, now.events), |before| (before.version, before.events));
        let urgent = before.map_or_else(|| socket.socket.urgent_position(), |before| before.urgent);
        let socket = Arc::downgrade(socket);
        let new = Signalled { socket, fd, owner, signal, is_async, version, events, urgent };
        state.sockets.push(new);
    }
    if state.kick.is_some() {
        state.kick();
    } else if !state.sockets.is_empty() {
        state.start()?;
    }
    let watcher = state.watcher.clone();
    drop(state);
    if let Some(watcher) = watcher {
        socket.watched_by(Arc::downgrade(&watcher));
    }
    Ok(())
}

impl SignalState {
    fn kick(&self) {
        if let Some(kick) = &self.kick {
            let _ = rustix::io::write(kick, &1_u64.to_ne_bytes());
        }
    }

    /// Starts the thread.
    fn start(&mut self) -> Outcome<()> {
        let low = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let kick = rustix::io::fcntl_dupfd_cloexec(&low, instance::own_fd_floor()).unwrap_or(low);
        install(kick.as_raw_fd(), Descriptor::Internal)?;
        let kick = Arc::new(kick);
        let theirs = Arc::clone(&kick);
        // It gets this thread's mask, which blocks all signals.
        let thread = std::thread::Builder::new().name("tasuki-signals".to_owned());
        let started = thread.stack_size(256 << 10).spawn(move || run(&theirs));
        if started.is_err() {
            drop(TABLE.take(kick.as_raw_fd()));
            return Err(rustix::io::Errno::AGAIN);
        }
        self.kick = Some(kick);
        self.watcher = Some(Arc::new(EndWatcher));
        Ok(())
    }

    /// Forgets closed sockets. The others, with what was seen of them.
    fn watched(&mut self) -> Vec<(Arc<OpenSocket>, u32)> {
        let is_open = |one: &Signalled| one.socket.upgrade().is_some_and(|it| !it.is_closed());
        self.sockets.retain(is_open);
        let there = self.sockets.iter();
        there.filter_map(|one| Some((one.socket.upgrade()?, one.version))).collect()
    }

    /// Looks at all sockets. Those without an instance are forgotten.
    fn look(&mut self) -> Vec<Sending> {
        let mut due = Vec::new();
        self.sockets.retain_mut(|one| {
            let Some(open) = one.socket.upgrade() else { return false };
            let now = open.socket.readiness();
            one.look(now.version, now.events, open.socket.urgent_position(), &mut due);
            now.events & (poll::ERR | poll::HUP) == 0 || now.version != 0
        });
        due
    }
}

impl Signalled {
    /// Finds the signals for what has changed.
    fn look(&mut self, version: u32, events: u32, urgent: u64, due: &mut Vec<Sending>) {
        let (owner, signal) = (self.owner, self.signal);
        let is_urgent = urgent != self.urgent && urgent != 0;
        if is_urgent {
            due.push(Sending { owner, signal: libc::SIGURG, details: None });
        }
        let is_new = |event: u32| events & event != 0 && self.events & event == 0;
        let code = match () {
            () if version == self.version => None,
            () if is_new(poll::HUP) => Some(POLL_HUP),
            () if is_new(poll::ERR) => Some(POLL_ERR),
            () if is_urgent => Some(POLL_PRI),
            () if events & poll::IN != 0 => Some(POLL_IN),
            () if is_new(poll::OUT) => Some(POLL_OUT),
            () => None,
        };
        (self.version, self.events, self.urgent) = (version, events, urgent);
        if let Some(code) = code.filter(|_| self.is_async) {
            let details = (signal != 0).then_some((code, self.fd, band(code)));
            let signal = if signal == 0 { libc::SIGIO } else { signal };
            due.push(Sending { owner, signal, details });
        }
    }
}

/// The events of a code, as the kernel's `band_table`.
fn band(code: c_int) -> u32 {
    match code {
        POLL_IN => poll::IN | poll::RDNORM,
        POLL_OUT => poll::OUT | poll::WRNORM | poll::WRBAND,
        POLL_ERR => poll::ERR,
        POLL_PRI => poll::PRI | 0x80,
        _ => poll::HUP | poll::ERR,
    }
}

/// The thread.
fn run(kick: &OwnedFd) {
    let _unseen = Unseen::new();
    loop {
        let mut state = STATE.lock();
        let watched = state.watched();
        if watched.is_empty() {
            state.kick = None;
            drop(TABLE.take(kick.as_raw_fd()));
            return;
        }
        drop(state);
        let mut kernel = [PollFd::new(kick, PollFlags::IN)];
        if wait_any(&watched, &mut kernel, None, None).is_err() {
            // Their memory is gone, or the system's is.
            STATE.lock().sockets.clear();
            continue;
        }
        drop(watched);
        let _ = rustix::io::read(kick, &mut [0; 8]);
        let due = STATE.lock().look();
        due.into_iter().for_each(send);
    }
}

/// Sends a signal. A process that is gone, or another user's, gets none.
fn send(sending: Sending) {
    let Sending { owner, signal, details } = sending;
    // SAFETY: no pointers.
    let own = owner.pid == unsafe { libc::getpid() };
    match (owner.kind, details) {
        (F_OWNER_TID, _) => {
            // SAFETY: no pointers.
            unsafe { libc::syscall(libc::SYS_tkill, owner.pid, signal) };
        }
        (F_OWNER_PGRP, _) => {
            // SAFETY: no pointers.
            unsafe { libc::kill(-owner.pid, signal) };
        }
        (_, Some(details)) if own => queue(signal, details),
        _ => {
            // SAFETY: no pointers.
            unsafe { libc::kill(owner.pid, signal) };
        }
    }
}

/// Sends this process a signal with details. The kernel lets a thread choose them only if it names
/// its own number; the signal is the whole process's all the same.
fn queue(signal: c_int, (code, fd, band): (c_int, c_int, u32)) {
    /// The begin of a siginfo_t with the fields of `_sigpoll`.
    #[repr(C)]
    struct PollInfo {
        numbers: [c_int; 4],
        band: c_long,
        fd: c_int,
    }
    // SAFETY: a siginfo_t is plain integers.
    let mut info: libc::siginfo_t = unsafe { zeroed() };
    let place: *mut PollInfo = (&raw mut info).cast();
    let begin = PollInfo { numbers: [signal, 0, code, 0], band: band.into(), fd };
    // SAFETY: a siginfo_t is longer, and aligned as a pointer is.
    unsafe { place.write(begin) };
    // SAFETY: no pointers.
    let thread = unsafe { libc::gettid() };
    // SAFETY: the call reads one siginfo_t.
    unsafe { libc::syscall(libc::SYS_rt_sigqueueinfo, thread, signal, &raw const info) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(one: &mut Signalled, version: u32, events: u32, urgent: u64) -> Vec<Sending> {
        let mut due = Vec::new();
        one.look(version, events, urgent, &mut due);
        due
    }

    #[test]
    fn changes_give_signals() {
        let owner = Owner { kind: 1, pid: 7 };
        let socket = Weak::new();
        let (version, events, urgent) = (1, poll::OUT, 0);
        let mut one =
            Signalled { socket, fd: 9, owner, signal: 0, is_async: false, version, events, urgent };
        let io = Sending { owner, signal: libc::SIGIO, details: None };
        let urg = Sending { owner, signal: libc::SIGURG, details: None };
        assert_eq!(looked(&mut one, 2, poll::IN, 0), [], "no O_ASYNC");
        assert_eq!(looked(&mut one, 3, poll::IN | poll::PRI, 5), [urg]);
        assert_eq!(looked(&mut one, 4, poll::IN | poll::PRI, 5), []);
        one.is_async = true;
        assert_eq!(looked(&mut one, 4, poll::IN, 5), [], "nothing has changed");
        assert_eq!(looked(&mut one, 5, poll::IN, 5), [io]);
        assert_eq!(looked(&mut one, 6, poll::OUT, 5), [io]);
        assert_eq!(looked(&mut one, 7, poll::OUT, 5), []);
        one.signal = 40;
        let with = |code| Sending { owner, signal: 40, details: Some((code, 9, band(code))) };
        assert_eq!(looked(&mut one, 8, poll::OUT | poll::IN, 9), [urg, with(POLL_PRI)]);
        assert_eq!(looked(&mut one, 9, poll::IN | poll::HUP, 9), [with(POLL_HUP)]);
    }
}
