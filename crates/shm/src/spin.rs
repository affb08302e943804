//! Spinning: looking again for a while before a sleep.
//!
//! To be woken on another processor takes 5 to 25 µs where an idle processor halts, as virtual
//! ones do. Whoever waits for what soon comes is better off looking again; whoever waits for long
//! only uses up time. So a wait has two parts: first it spins, at most for a bound, then it
//! announces sleep on its bell and sleeps as always ([`crate::bell`]). While it spins its bell says
//! "awake", and whoever has news for it makes no system call.
//!
//! ```text
//! loop {
//!     if work() { spin.over(); continue }
//!     if spin.again() { spin::give_way(); continue }
//!     announce; look again; sleep
//! }
//! ```
//!
//! The bound adapts to past waits, as the kernel's halt polling does. A wait that was over within
//! the greatest bound lets it grow, so that the next such wait is spun through; one that was longer
//! lets it shrink, to nothing in the end. Who is idle sleeps, and does not spin before.
//!
//! Between two looks others get the processor if they want it ([`give_way`], sched_yield(2)). They
//! are told by how long it took to come back. For others of the same instance, which work for some
//! microseconds and then wait themselves, that is what a spin is for: it goes on without bells. But
//! a program that computes keeps the processor for a time slice, and by yielding we have lost our
//! place before it, which a sleeper keeps. So then the spin ends, and the time that it cost is a
//! debt: every wait pays a little of it, and as long as there is some, waits begin with a sleep. So
//! on a busy processor spinning costs a wait no more than [`PAID`] on average.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A spin that begins to be of use is at least that long, nanoseconds.
const START: u64 = 10_000;
/// Between two looks others had the processor for so long that they compute, nanoseconds.
const TAKEN: u64 = 200_000;
/// What each wait pays of the time for which the processor was taken, nanoseconds.
const PAID: u64 = 5_000;
/// The greatest debt: a time slice. A program that begins keeps the processor for longer, once, and
/// a processor that is free again is to be found within a thousand waits.
const MOST_OWED: u64 = 4_000_000;

/// What a thread's spins came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spins {
    /// Waits that were over while it spun.
    pub won: u64,
    /// Waits that it spun in and then slept in all the same.
    pub lost: u64,
}

/// When one thread that has nothing to do looks again, and when it sleeps.
#[derive(Debug)]
pub struct Spin {
    /// The greatest bound, nanoseconds; 0: never spins.
    most: u64,
    /// How long the next wait spins.
    bound: u64,
    wait: Option<Wait>,
    /// For how long others had the processor, as far as it is not paid.
    owed: u64,
    spins: Spins,
}

/// A wait that is not over.
#[derive(Debug, Clone, Copy)]
struct Wait {
    since: u64,
    looked: u64,
    spins: bool,
}

impl Spin {
    /// Spins at most so long at a time; zero: never.
    #[must_use]
    pub fn new(most: Duration) -> Self {
        let most = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        Self { most, bound: most, wait: None, owed: 0, spins: Spins::default() }
    }

    /// There was nothing to do: look again (after [`give_way`]), rather than sleep?
    #[inline]
    #[must_use]
    pub fn again(&mut self) -> bool {
        self.most > 0 && self.again_at(now())
    }

    /// There is something to do: the wait, if it was one, is over.
    #[inline]
    pub fn over(&mut self) {
        if let Some(wait) = self.wait.take() {
            self.over_at(wait, now());
        }
    }

    /// What became of all spins so far.
    #[must_use]
    pub fn spins(&self) -> Spins {
        self.spins
    }

    fn again_at(&mut self, now: u64) -> bool {
        let wait = self.wait.get_or_insert_with(|| {
            self.owed = self.owed.saturating_sub(PAID);
            Wait { since: now, looked: now, spins: self.bound > 0 && self.owed == 0 }
        });
        if !wait.spins {
            return false;
        }
        let gap = now.saturating_sub(wait.looked);
        if gap > TAKEN {
            self.owed = gap.min(MOST_OWED);
        }
        wait.looked = now;
        wait.spins = gap <= TAKEN && now.saturating_sub(wait.since) < self.bound;
        self.spins.lost += u64::from(!wait.spins);
        wait.spins
    }

    fn over_at(&mut self, wait: Wait, now: u64) {
        // Work may have been found only after others had the processor.
        let gap = if wait.spins { now.saturating_sub(wait.looked) } else { 0 };
        if gap > TAKEN {
            self.owed = gap.min(MOST_OWED);
        }
        self.spins.won += u64::from(wait.spins);
        let waited = now.saturating_sub(wait.since);
        if waited > self.most {
            self.bound = if self.bound / 2 < START { 0 } else { self.bound / 2 };
        } else if waited > self.bound {
            self.bound = (self.bound * 2).max(START).min(self.most);
        }
    }
}

/// Lets others run on this processor, if they want to.
pub fn give_way() {
    rustix::thread::sched_yield();
}

fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let nanos = now.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000);
    nanos.wrapping_add(now.tv_nsec.cast_unsigned())
}

#[cfg(all(test, not(loom)))]
mod tests;
