//! Who sleeps on the stack's epoll set: one thread of the program, or the helper, or nobody.
//!
//! The others stand in line. Who leaves the seat nudges the last of them, whose memory is the
//! warmest. A nudge is a promise to nobody: another thread may have been quicker, and then whoever
//! was nudged stands in line again; and one that has got what it waited for when it is nudged
//! passes the nudge on.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Who has it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Holder {
    Nobody,
    Helper,
    /// A thread of the program, by its nudge.
    Thread(usize),
}

#[derive(Debug)]
struct State {
    holder: Holder,
    /// Threads that wait, by their nudges.
    line: Vec<Arc<OwnedFd>>,
    /// The helper wants to know when the seat is free.
    helper_waits: bool,
    /// A thread waits until the helper has left.
    evicting: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Seat {
    state: Mutex<State>,
    changed: Condvar,
}

/// Tells nudges apart.
fn key(nudge: &Arc<OwnedFd>) -> usize {
    Arc::as_ptr(nudge).addr()
}

impl Seat {
    pub(super) fn new() -> Self {
        let (holder, line) = (Holder::Nobody, Vec::new());
        let state = State { holder, line, helper_waits: false, evicting: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the seat, or stands in line for it (false). The helper is sent away with `evict`.
    pub(super) fn take(&self, nudge: &Arc<OwnedFd>, evict: impl Fn()) -> bool {
        let mut state = self.lock();
        while state.holder == Holder::Helper {
            state.evicting = true;
            evict();
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        // Who left its last sleep by siglongjmp has it still.
        let free = state.holder == Holder::Nobody || state.holder == Holder::Thread(key(nudge));
        state.line.retain(|waiting| key(waiting) != key(nudge));
        if free {
            state.holder = Holder::Thread(key(nudge));
        } else {
            state.line.push(Arc::clone(nudge));
        }
        free
    }

    /// Leaves the seat, or the line. True: the helper is to be told that the seat is free.
    pub(super) fn leave(&self, nudge: &Arc<OwnedFd>) -> bool {
        let mut state = self.lock();
        state.line.retain(|waiting| key(waiting) != key(nudge));
        if state.holder == Holder::Thread(key(nudge)) {
            state.holder = Holder::Nobody;
        }
        pass_on(state)
    }

    /// For the helper: is the seat free? Otherwise it is told when it is.
    pub(super) fn is_free_for_helper(&self) -> bool {
        let mut state = self.lock();
        state.helper_waits = state.holder != Holder::Nobody;
        !state.helper_waits
    }

    /// For the helper: takes the seat if nobody has it.
    pub(super) fn take_for_helper(&self) -> bool {
        let mut state = self.lock();
        if state.holder == Holder::Nobody {
            state.holder = Holder::Helper;
        }
        state.holder == Holder::Helper
    }

    /// For the helper: is it to go?
    pub(super) fn is_evicted(&self) -> bool {
        self.lock().evicting
    }

    /// For the helper: leaves.
    pub(super) fn leave_for_helper(&self) {
        let mut state = self.lock();
        state.evicting = false;
        state.holder = Holder::Nobody;
        pass_on(state);
        self.changed.notify_all();
    }
}

/// If the seat is free, somebody is told; true: that is to be the helper.
fn pass_on(mut state: MutexGuard<'_, State>) -> bool {
    if state.holder != Holder::Nobody {
        return false;
    }
    let next = state.line.pop();
    let tell_helper = next.is_none() && std::mem::take(&mut state.helper_waits);
    drop(state);
    if let Some(next) = next {
        // Full: it is as good as written.
        let _ = rustix::io::write(&*next, &1_u64.to_ne_bytes());
    }
    tell_helper
}
