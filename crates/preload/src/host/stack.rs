//! The stack of this process, behind one lock, and how its threads sleep.

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use inet_server::{ControlActivity, EventLoop, SpinOutcome};
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use shm::descriptors::keep;
use shm::spin;
use sockets::local_stack::{LocalStack, PollerTurn, refresh};

use super::alarm::Alarm;
use super::poller::Poller;
use crate::errno::Outcome;
use crate::{cancellation, signals};

/// How long an ending program waits for its sent bytes to be acknowledged. The same as the
/// supervisor's.
const PATIENCE: Duration = Duration::from_secs(5);
/// Rounds of work of one call. Events that arrive meanwhile must not hold the call for ever.
const MOST_ROUNDS: u32 = 16;
/// For so long after they were written socket words count as up to date, nanoseconds.
const FRESH: u64 = 50_000;
/// Most events taken from the set at a time.
const EVENTS: usize = 16;
thread_local! {
    /// This thread is doing the stack's work.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Is this thread doing the stack's work?
pub(super) fn is_inside() -> bool {
    INSIDE.get()
}

/// In a forked child: this thread does no work of a stack.
pub(super) fn leave() {
    INSIDE.set(false);
}

/// The stack, and the threads that do its work.
#[derive(Debug)]
pub(super) struct ProgramStack {
    /// `None`: it is over.
    stack: Mutex<Option<EventLoop>>,
    over: AtomicBool,
    /// The stack's epoll set.
    set: OwnedFd,
    /// In the set: ends the poller's sleep.
    kick: OwnedFd,
    pub(super) poller: Poller,
    pub(super) alarm: Alarm,
    /// Counts calls, for the helper to see that there are some.
    pub(super) calls: AtomicU32,
    /// When the stack last worked, nanoseconds since `begun`.
    worked_at: AtomicU64,
    /// Until when the poller sleeps, nanoseconds since `begun`. 0: it does not sleep.
    sleeps_until: AtomicU64,
    begun: Instant,
}

impl ProgramStack {
    pub(super) fn new(stack: EventLoop) -> std::io::Result<Self> {
        let kick = keep(shm::eventfd()?);
        stack.watch(kick.as_fd())?;
        Ok(Self {
            set: keep(stack.set().try_clone_to_owned()?),
            stack: Mutex::new(Some(stack)),
            over: AtomicBool::new(false),
            kick,
            poller: Poller::new(),
            alarm: Alarm::new(),
            calls: AtomicU32::new(0),
            worked_at: AtomicU64::new(0),
            sleeps_until: AtomicU64::new(0),
            begun: Instant::now(),
        })
    }

    /// Does something with the stack, unless it is over or this thread is within it already.
    fn with<T>(&self, act: impl FnOnce(&mut Option<EventLoop>) -> T) -> Option<T> {
        if INSIDE.get() {
            return None;
        }
        let mut stack = self.lock();
        stack.as_ref()?;
        INSIDE.set(true);
        let done = act(&mut stack);
        INSIDE.set(false);
        Some(done)
    }

    fn lock(&self) -> MutexGuard<'_, Option<EventLoop>> {
        let locked = self.stack.lock();
        if locked.is_err() {
            // After a panic within, the state that it left behind must not be used.
            self.over.store(true, Ordering::Release);
        }
        let mut stack = locked.unwrap_or_else(PoisonError::into_inner);
        if self.over.load(Ordering::Acquire) {
            core::mem::forget(stack.take());
        }
        stack
    }

    /// Works. Wakes the poller if it would sleep longer than the stack now allows.
    pub(super) fn iterate(&self, enough: &mut dyn FnMut() -> bool) {
        self.with(|place| {
            let Some(stack) = place else { return };
            self.alarm.clear();
            if !matches!(stack.work(enough), Ok(ControlActivity::None | ControlActivity::Served)) {
                // Dropping it resets the open connections.
                *place = None;
                self.over.store(true, Ordering::Release);
                self.kick();
                return;
            }
            self.worked_at.store(self.nanos(Some(Duration::ZERO)), Ordering::Relaxed);
            let until = self.sleeps_until.load(Ordering::SeqCst);
            if until != 0 && self.nanos(stack.deadline()) < until {
                self.sleeps_until.store(0, Ordering::SeqCst);
                self.kick();
            }
        });
    }

    pub(super) fn kick(&self) {
        // Full: it is as good as written.
        let _ = rustix::io::write(&self.kick, &1_u64.to_ne_bytes());
    }

    pub(super) fn nanos(&self, left: Option<Duration>) -> u64 {
        let nanos = left.map(|left| (self.begun.elapsed() + left).as_nanos());
        nanos.and_then(|nanos| u64::try_from(nanos).ok()).unwrap_or(u64::MAX)
    }

    /// Announces sleep: how long it may last. `None`: there is something to do.
    fn prepare(&self, most: Option<Duration>) -> Outcome<Option<Option<Duration>>> {
        let prepared = self.with(|place| {
            let stack = place.as_mut()?;
            if !stack.prepare_sleep() {
                return None;
            }
            let left = stack.deadline();
            let left = most.map_or(left, |most| Some(left.unwrap_or(most).min(most)));
            // Under the lock: the next thread that works sees it.
            self.sleeps_until.store(self.nanos(left).max(1), Ordering::SeqCst);
            Some(left)
        });
        if prepared.is_none() && INSIDE.get() {
            return Err(Errno::DEADLK);
        }
        Ok(prepared.flatten())
    }

    /// Waits for the set, and passes its reports to the stack.
    fn collect(&self, timeout: Option<Duration>) -> Outcome<()> {
        let nothing = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut events = [nothing; EVENTS];
        let timeout = timeout.and_then(|left| Timespec::try_from(left).ok());
        let waited = epoll::wait(&self.set, &mut events, timeout.as_ref());
        self.sleeps_until.store(0, Ordering::SeqCst);
        let count = waited?;
        if count > 0 {
            self.with(|place| {
                let Some(stack) = place else { return };
                stack.woken(&events[..count]);
            });
        }
        Ok(())
    }

    pub(super) fn is_deserted(&self) -> bool {
        self.with(|stack| stack.as_ref().is_none_or(EventLoop::is_deserted)).unwrap_or(true)
    }
}

impl LocalStack for ProgramStack {
    fn work(&self, enough: &mut dyn FnMut() -> bool) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let mut rounds = 0;
        self.iterate(&mut || {
            rounds += 1;
            rounds >= MOST_ROUNDS || enough()
        });
    }

    fn post(&self) -> bool {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let worked_at = self.worked_at.load(Ordering::Relaxed);
        let fresh = self.nanos(Some(Duration::ZERO)).saturating_sub(worked_at) < FRESH;
        if fresh {
            self.alarm.post(|| self.kick());
        }
        fresh
    }

    fn become_poller(&self, wakeup: &Arc<OwnedFd>) -> bool {
        self.poller.take(wakeup, || self.kick())
    }

    fn leave_poller(&self, wakeup: &Arc<OwnedFd>) {
        if self.poller.leave(wakeup) {
            self.alarm.wake(|| self.kick());
        }
    }

    fn spin(&self, enough: &mut dyn FnMut() -> bool) -> bool {
        loop {
            let look = self.with(|stack| stack.as_mut().map(EventLoop::look)).flatten();
            match look {
                Some(Ok(SpinOutcome::Again)) if !enough() => spin::yield_processor(),
                Some(Ok(SpinOutcome::Sleep)) | None => return false,
                Some(Ok(SpinOutcome::Work | SpinOutcome::Again) | Err(_)) => return true,
            }
        }
    }

    fn wait(&self, most: Option<Duration>) -> Result<(), Errno> {
        match self.prepare(most)? {
            Some(left) => self.collect(left),
            None => Ok(()),
        }
    }

    fn wait_with(&self, fds: &mut [PollFd<'_>], most: Option<Duration>) -> Result<(), Errno> {
        let left = self.prepare(most)?.unwrap_or(Some(Duration::ZERO));
        let mut all = Vec::with_capacity(fds.len() + 1);
        all.push(PollFd::new(&self.set, PollFlags::IN));
        all.extend(fds.iter().cloned());
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let polled = poll(&mut all, left.as_ref());
        self.collect(Some(Duration::ZERO))?;
        polled?;
        refresh(fds, all.get(1..).unwrap_or_default())
    }

    fn watch(&self, bell: BorrowedFd<'_>) {
        // An unwatched bell is noticed at the end of the time slice.
        self.with(|stack| stack.as_ref().map(|stack| stack.watch(bell)));
    }

    fn restarts(&self) -> bool {
        signals::all_restart() && !cancellation::is_requested()
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    fn finish(&self) {
        let end = Instant::now() + PATIENCE;
        let Ok(turn) = PollerTurn::new(self) else { return };
        loop {
            self.work(&mut || false);
            let left = end.saturating_duration_since(Instant::now());
            if self.is_over() || left.is_zero() || self.is_deserted() {
                return;
            }
            // In a signal handler within the stack there is nothing to wait for.
            if turn.wait_with(&mut [], Some(left)) == Err(Errno::DEADLK) {
                return;
            }
        }
    }
}
