//! The poller: the one thread that sleeps on the stack's epoll set.
//!
//! It is a thread of the program, the helper, or none. Other threads of the program wait for their
//! turn. A poller that leaves wakes the last of them, whose memory is the warmest. The wakeup is no
//! promise: another thread may be quicker, and then the woken thread waits again. A woken thread
//! that has got its own news meanwhile wakes the next.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The thread that polls.
#[derive(Debug, Clone, PartialEq, Eq)]
enum CurrentPoller {
    Nobody,
    Helper,
    /// A thread of the program, by its wakeup.
    Thread(usize),
}

#[derive(Debug)]
struct PollerState {
    current: CurrentPoller,
    /// Threads that wait, by their wakeups.
    waiting: Vec<Arc<OwnedFd>>,
    /// The helper wants to know when no thread polls.
    helper_waits: bool,
    /// A thread waits until the helper has left.
    dismissing: bool,
}

/// See the module's head.
#[derive(Debug)]
pub(super) struct Poller {
    state: Mutex<PollerState>,
    changed: Condvar,
}

/// Tells threads apart, by their wakeups.
fn key(wakeup: &Arc<OwnedFd>) -> usize {
    Arc::as_ptr(wakeup).addr()
}

impl Poller {
    pub(super) fn new() -> Self {
        let (current, waiting) = (CurrentPoller::Nobody, Vec::new());
        let state = PollerState { current, waiting, helper_waits: false, dismissing: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, PollerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Becomes the poller, or waits for its turn (false). `dismiss` ends the helper's sleep.
    pub(super) fn take(&self, wakeup: &Arc<OwnedFd>, dismiss: impl Fn()) -> bool {
        let mut state = self.lock();
        while state.current == CurrentPoller::Helper {
            state.dismissing = true;
            dismiss();
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        // A thread that left its last sleep by siglongjmp is the poller still.
        let free = state.current == CurrentPoller::Nobody
            || state.current == CurrentPoller::Thread(key(wakeup));
        state.waiting.retain(|other| key(other) != key(wakeup));
        if free {
            state.current = CurrentPoller::Thread(key(wakeup));
        } else {
            state.waiting.push(Arc::clone(wakeup));
        }
        free
    }

    /// Stops polling, or waiting for it. True: the caller wakes the helper, as no thread polls.
    pub(super) fn leave(&self, wakeup: &Arc<OwnedFd>) -> bool {
        let mut state = self.lock();
        state.waiting.retain(|other| key(other) != key(wakeup));
        if state.current == CurrentPoller::Thread(key(wakeup)) {
            state.current = CurrentPoller::Nobody;
        }
        pass_on(state)
    }

    /// For the helper: does no thread poll? Otherwise the helper is woken when that is so.
    pub(super) fn is_free_for_helper(&self) -> bool {
        let mut state = self.lock();
        state.helper_waits = state.current != CurrentPoller::Nobody;
        !state.helper_waits
    }

    /// For the helper: becomes the poller if no thread is.
    pub(super) fn take_for_helper(&self) -> bool {
        let mut state = self.lock();
        if state.current == CurrentPoller::Nobody {
            state.current = CurrentPoller::Helper;
        }
        state.current == CurrentPoller::Helper
    }

    /// For the helper: does a thread of the program want to poll?
    pub(super) fn is_dismissed(&self) -> bool {
        self.lock().dismissing
    }

    /// For the helper: stops polling.
    pub(super) fn leave_for_helper(&self) {
        let mut state = self.lock();
        state.dismissing = false;
        state.current = CurrentPoller::Nobody;
        pass_on(state);
        self.changed.notify_all();
    }
}

/// If no thread polls, wakes the next; true: that is the helper.
fn pass_on(mut state: MutexGuard<'_, PollerState>) -> bool {
    if state.current != CurrentPoller::Nobody {
        return false;
    }
    let next = state.waiting.pop();
    let tell_helper = next.is_none() && std::mem::take(&mut state.helper_waits);
    drop(state);
    if let Some(next) = next {
        // Full: it is as good as written.
        let _ = rustix::io::write(&*next, &1_u64.to_ne_bytes());
    }
    tell_helper
}
