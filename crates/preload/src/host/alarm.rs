//! The helper's alarm, on which it sleeps.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::thread::futex;

/// The helper is at work, or will look whether there is some.
pub(super) const AWAKE: u32 = 0;
/// It sleeps on the word.
pub(super) const ASLEEP: u32 = 1;
/// It sleeps as the poller.
pub(super) const POLLING: u32 = 2;

/// Wakes the helper.
#[derive(Debug)]
pub(super) struct Alarm {
    word: AtomicU32,
    /// There is something for it to do.
    posted: AtomicBool,
}

impl Alarm {
    pub(super) fn new() -> Self {
        Self { word: AtomicU32::new(AWAKE), posted: AtomicBool::new(false) }
    }

    /// Posts work. The helper does it unless [`Alarm::clear`] is called before. `kick` ends the
    /// poller's sleep. A system call is made only if the helper sleeps.
    pub(super) fn post(&self, kick: impl FnOnce()) {
        if !self.posted.load(Ordering::SeqCst) {
            self.posted.store(true, Ordering::SeqCst);
            self.wake(kick);
        }
    }

    /// The caller is going to do the posted work.
    pub(super) fn clear(&self) {
        if self.posted.load(Ordering::Relaxed) {
            self.posted.store(false, Ordering::SeqCst);
        }
    }

    /// Ends the helper's sleep.
    pub(super) fn wake(&self, kick: impl FnOnce()) {
        if self.word.load(Ordering::SeqCst) == AWAKE {
            return;
        }
        match self.word.swap(AWAKE, Ordering::SeqCst) {
            ASLEEP => {
                // Cannot fail for a mapped word.
                let _ = futex::wake(&self.word, futex::Flags::PRIVATE, 1);
            }
            POLLING => kick(),
            _ => {}
        }
    }

    /// The helper announces how it is going to sleep. Then it looks once more.
    pub(super) fn announce(&self, how: u32) {
        self.word.swap(how, Ordering::SeqCst);
    }

    pub(super) fn is_posted(&self) -> bool {
        self.posted.load(Ordering::SeqCst)
    }

    /// Sleeps as announced, on the word; not if there is something to do.
    pub(super) fn sleep(&self, most: Option<Duration>) {
        if !self.is_posted() {
            let most = most.and_then(|most| Timespec::try_from(most).ok());
            // After any end of the sleep the helper checks.
            let _ = futex::wait(&self.word, futex::Flags::PRIVATE, ASLEEP, most.as_ref());
        }
        self.announce(AWAKE);
    }
}
