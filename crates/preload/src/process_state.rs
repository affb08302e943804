//! State behind a lock that a forked child makes anew.

#![allow(unsafe_code)]

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// State of this process, made at its first use and never freed. A forked child makes its own:
/// another thread of the parent may have held the lock.
pub(crate) struct ProcessState<T: 'static>(AtomicPtr<Mutex<T>>);

impl<T: Default> ProcessState<T> {
    /// Nothing yet.
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    /// The state, locked.
    pub(crate) fn lock(&self) -> MutexGuard<'static, T> {
        let mut state = self.0.load(Ordering::Acquire);
        if state.is_null() {
            let new = Box::into_raw(Box::default());
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            state = match self.0.compare_exchange(null_mut(), new, success, failure) {
                Ok(_) => new,
                Err(other) => {
                    // SAFETY: `new` came from Box::into_raw above and was not published.
                    drop(unsafe { Box::from_raw(new) });
                    other
                }
            };
        }
        // SAFETY: not null, so it came from Box::into_raw and is never freed.
        unsafe { &*state }.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// In a forked child: the state is its parent's.
    pub(crate) fn forget(&self) {
        self.0.store(null_mut(), Ordering::Release);
    }
}
