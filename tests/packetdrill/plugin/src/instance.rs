//! The host that a script runs against, and the rule which thread moves its clock.
//!
//! packetdrill has two threads. The main one makes calls that return at once, injects and expects
//! packets, and sleeps. It alone moves the clock. The second thread makes the calls that may wait.
//!
//! While a call waits, the main thread stops after every step of the host. It lets the second
//! thread look whether the call can return now. If the call can, the main thread waits until
//! packetdrill has read the clock. packetdrill reads it right after such a call, so the time of the
//! return is exact.
//!
//! packetdrill learns the call's result, such as a descriptor, only when its main thread leaves its
//! lock to the second thread. That happens while the main thread sleeps. So the first sleep after
//! such a return takes real time too.
//!
//! packetdrill takes sleeping to be inexact. It sleeps 20 microseconds less and spins on the clock
//! up to the moment of an event. So a sleep takes 20 microseconds more here. A clock that is read
//! again and again, while nothing else happens, moves on by itself.

use std::ffi::c_int;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use packetdrill::Host;
use packetdrill::host::{Outcome, SentPacket, Stop};

/// The time that packetdrill spins rather than sleeps.
const SPUN: Duration = Duration::from_micros(20);
/// Readings of the clock in a row after which it moves on by itself.
const PATIENCE: u32 = 8;
/// Real time in which packetdrill looks at the outcome of a call that has waited.
const LOOK: Duration = Duration::from_millis(10);

/// Descriptors of ours are above all that the kernel gives packetdrill.
pub(crate) const FIRST_FD: c_int = 100_000;

/// One script's host.
#[derive(Debug)]
pub(crate) struct Instance {
    state: Mutex<State>,
    changed: Condvar,
    main: ThreadId,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) host: Host,
    waiter: Waiter,
    /// Readings of the clock since anything else happened.
    readings: u32,
    /// A call that waited has returned, and packetdrill may not have looked at its outcome.
    returned: bool,
}

/// The thread whose call waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiter {
    None,
    /// It waits, at the latest until this moment.
    Waits(Option<inet::Instant>),
    /// It is to look whether it can go on.
    Looks,
    /// Its call has returned; it is about to read the clock.
    Returns(ThreadId),
}

static CURRENT: Mutex<Option<Arc<Instance>>> = Mutex::new(None);

/// The host of the script that runs now.
pub(crate) fn current() -> Option<Arc<Instance>> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Begins or ends a script.
pub(crate) fn replace(instance: Option<Arc<Instance>>) {
    *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = instance;
}

impl Instance {
    /// An instance whose main thread is the caller.
    pub(crate) fn new(host: Host) -> Self {
        let state = State { host, waiter: Waiter::None, readings: 0, returned: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), main: thread::current().id() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the host. No other thread waits for anything that `what` changes.
    pub(crate) fn look<R>(&self, what: impl FnOnce(&mut Host) -> R) -> R {
        let mut state = self.lock();
        state.readings = 0;
        what(&mut state.host)
    }

    /// Makes a call, again and again if it waits. The outcome, or its `errno`.
    pub(crate) fn call<R>(&self, mut call: impl FnMut(&mut Host) -> Outcome<R>) -> Result<R, i32> {
        let is_main = thread::current().id() == self.main;
        let mut state = self.lock();
        state.readings = 0;
        let mut waited = false;
        let outcome = loop {
            match call(&mut state.host) {
                Ok(value) => break Ok(value),
                Err(Stop::Errno(errno)) => break Err(errno),
                // The script says that this call does not wait. It goes on for as long as anything
                // happens, so that packetdrill can complain about the time.
                Err(Stop::Wait(until)) if is_main => {
                    if !state.host.step(until) && until.is_none() {
                        break Err(libc::EDEADLK);
                    }
                }
                Err(Stop::Wait(until)) => {
                    waited = true;
                    state.waiter = Waiter::Waits(until);
                    self.changed.notify_all();
                    while state.waiter != Waiter::Looks {
                        state = self.wait(state);
                    }
                }
            }
        };
        if is_main {
            drop(self.let_waiter_look(state));
        } else if waited {
            state.waiter = Waiter::Returns(thread::current().id());
            self.changed.notify_all();
        }
        outcome
    }

    /// Lets the waiting thread look at its call, and return from it if it can.
    fn let_waiter_look<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        if let Waiter::Waits(_) = state.waiter {
            state.waiter = Waiter::Looks;
            self.changed.notify_all();
        }
        while matches!(state.waiter, Waiter::Looks | Waiter::Returns(_)) {
            state = self.wait(state);
        }
        state
    }

    /// One step of the host, not beyond `limit`; false if nothing more is going on until then.
    fn step<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        limit: Option<inet::Instant>,
    ) -> (MutexGuard<'a, State>, bool) {
        let patience = match state.waiter {
            Waiter::Waits(Some(until)) if limit.is_none_or(|limit| until <= limit) => Some(until),
            _ => None,
        };
        let more = state.host.step(patience.or(limit)) || patience.is_some();
        (self.let_waiter_look(state), more)
    }

    /// Moves the clock.
    pub(crate) fn sleep(&self, time: Duration) {
        let mut state = self.lock();
        if std::mem::take(&mut state.returned) {
            drop(state);
            thread::sleep(LOOK);
            state = self.lock();
        }
        state.readings = 0;
        let until = state.host.now() + time + SPUN;
        loop {
            let (next, more) = self.step(state, Some(until));
            state = next;
            if !more {
                return;
            }
        }
    }

    /// Microseconds since the clock's start.
    pub(crate) fn clock(&self) -> u64 {
        let mut state = self.lock();
        if state.waiter == Waiter::Returns(thread::current().id()) {
            state.waiter = Waiter::None;
            state.returned = true;
            self.changed.notify_all();
        } else {
            state.readings += 1;
            if state.readings > PATIENCE {
                state.host.sleep(Duration::from_micros(1));
            }
        }
        micros(state.host.now())
    }

    /// Takes a packet.
    pub(crate) fn deliver(&self, packet: &[u8]) {
        let mut state = self.lock();
        state.readings = 0;
        state.host.deliver(packet);
        drop(self.let_waiter_look(state));
    }

    /// The next packet that leaves, however long it takes; `None` if none ever will.
    pub(crate) fn next_packet(&self) -> Option<SentPacket> {
        let mut state = self.lock();
        state.readings = 0;
        loop {
            if let Some(packet) = state.host.take_packet() {
                return Some(packet);
            }
            let (next, more) = self.step(state, None);
            state = next;
            if !more {
                return state.host.take_packet();
            }
        }
    }
}

/// Microseconds since the clock's start.
pub(crate) fn micros(time: inet::Instant) -> u64 {
    time.as_nanos() / 1000
}
