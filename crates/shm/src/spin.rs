//! Spinning: looking again for a while before a sleep.
//!
//! A wake-up on another processor takes 5 to 60 µs where an idle processor halts, as virtual ones
//! do. For a short wait, looking again is cheaper; for a long wait it only uses up time. So a wait
//! has two parts. First the thread spins, at most for a bound. Then it announces sleep on its bell
//! and sleeps as always ([`crate::bell`]). While the thread spins its bell says "awake", so a
//! producer makes no system call.
//!
//! ```text
//! loop {
//!     if work() { spin.over(); continue }
//!     if spin.again() { spin::yield_processor(); continue }
//!     announce; look again; sleep
//! }
//! ```
//!
//! The greatest bound is fixed, or follows the cost of the thread's own wake-ups
//! ([`SpinLimit::Calibrated`]). The thread measures some of its sleeps for that, by a timer
//! (`calibration.rs`, `wake_cost.rs`).
//!
//! Below the greatest one the bound adapts to past waits, as the kernel's halt polling does. A wait
//! that ended within the greatest bound lets the bound grow, so that the next such wait is spun
//! through. A much longer wait lets the bound shrink, in the end to nothing. So an idle thread
//! sleeps at once.
//!
//! The length of a wait that was slept through tells less, since it contains wake-up latency, ours
//! and the peer's. Sleeping can push the peer into sleeping too, which makes our next wait long
//! again. Two ends that answered each other stayed in that state for thousands of round trips, each
//! three times as long as without sleep. To break this cycle, the thread tries a spin of the
//! greatest bound after a wait of up to [`SOON`] greatest bounds. If the wait then ends in time, it
//! spins again. If not, it sleeps through twice as many such waits as the last time before the next
//! trial, up to [`MOST_FUTILE`].
//!
//! Between two looks the thread yields the processor ([`yield_processor`], sched_yield(2)). The
//! time until it comes back tells two kinds of other threads apart:
//!
//! * Processes of the same instance work for some microseconds and then wait themselves. Yielding
//!   to them is the purpose of a spin: the instance goes on without bells.
//! * A program that computes keeps the processor for a time slice. By yielding, the thread has lost
//!   its place before that program; a sleeper keeps its place. So the spin ends, and the lost time
//!   becomes a debt. Every wait pays a little of the debt, and waits begin with a sleep until it is
//!   paid. On a busy processor spinning so costs a wait no more than [`PAID`] on average.
//!
//! A thread with work to do may yield as well ([`Spin::yield_once`]). A peer that was just handed
//! work for a distant host then begins first, if it shares this processor.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use self::calibration::Calibration;

mod calibration;
mod wake_cost;

/// A spin that begins to be of use is at least that long, nanoseconds.
const START: u64 = 10_000;
/// Between two looks others had the processor for so long that they compute, nanoseconds.
const TAKEN: u64 = 200_000;
/// The part of the debt (time for which the processor was taken) that each wait pays, nanoseconds.
const PAID: u64 = 5_000;
/// The greatest debt, nanoseconds: a time slice. A program that begins keeps the processor for
/// longer, but once. A processor that is free again must be found within a thousand waits.
const MOST_OWED: u64 = 4_000_000;

/// A wait that was slept through and took no more greatest bounds than this might have been shorter
/// if it had not been.
const SOON: u64 = 2;
/// So many of these waits are slept through at most before one is spun in again.
const MOST_FUTILE: u32 = 63;

/// The greatest bound of a thread's spins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpinLimit {
    /// Always the same; zero: the thread never spins.
    Fixed(Duration),
    /// Four wake-ups of the thread, as it measures them: 50 to 400 µs.
    Calibrated,
}

/// Counters of a thread's spins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpinCounts {
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
    /// After a futile spin of the greatest bound: the number of waits to sleep through before the
    /// next such spin, and how many of them are left.
    futile: u32,
    rest: u32,
    /// For how long others had the processor, as far as it is not paid.
    owed: u64,
    spins: SpinCounts,
    calibration: Option<Calibration>,
}

/// A wait that is not over.
#[derive(Debug, Clone, Copy)]
struct Wait {
    since: u64,
    looked: u64,
    /// It began with a spin.
    spun: bool,
    spins: bool,
}

impl Spin {
    /// Spins at most so long at a time. A calibrated limit stays at its least if the process has no
    /// descriptor left for the timer.
    #[must_use]
    pub fn new(limit: SpinLimit) -> Self {
        let (most, calibration) = match limit {
            SpinLimit::Fixed(most) => (u64::try_from(most.as_nanos()).unwrap_or(u64::MAX), None),
            SpinLimit::Calibrated => (wake_cost::LEAST, Calibration::new().ok()),
        };
        let spins = SpinCounts::default();
        Self { most, bound: most, wait: None, futile: 0, rest: 0, owed: 0, spins, calibration }
    }

    /// The timer that ends measured sleeps. It belongs into the thread's epoll set, edge-triggered.
    /// `None`: no sleep is measured.
    #[must_use]
    pub fn timer(&self) -> Option<BorrowedFd<'_>> {
        self.calibration.as_ref().map(Calibration::timer)
    }

    /// The thread begins to sleep: measures the sleep if it is time to.
    pub fn before_sleep(&mut self) {
        if let Some(calibration) = &mut self.calibration {
            calibration.before_sleep(now());
        }
    }

    /// The timer has ended the sleep, and no other event.
    pub fn timer_fired(&mut self) {
        let calibration = self.calibration.as_mut();
        if let Some(most) = calibration.and_then(|it| it.schedule().fired(now())) {
            self.set_most(most);
        }
    }

    /// The measured cost of a wake-up, nanoseconds; 0: unknown.
    #[must_use]
    pub fn wake_cost(&self) -> u64 {
        self.calibration.as_ref().and_then(Calibration::nanos).unwrap_or(0)
    }

    /// The greatest bound of a spin at present, nanoseconds.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Another greatest bound. A thread that spun for the former one spins for the new one.
    fn set_most(&mut self, most: u64) {
        self.bound = if self.bound == self.most { most } else { self.bound.min(most) };
        self.most = most;
    }

    /// There was nothing to do: look again (after [`yield_processor`]), rather than sleep?
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

    /// Gives way once, unless others compute on this processor.
    pub fn yield_once(&mut self) {
        if self.most == 0 || self.owed > 0 {
            return;
        }
        let before = now();
        yield_processor();
        self.lost_processor(now().saturating_sub(before));
    }

    /// Counters of all spins so far.
    #[must_use]
    pub fn spins(&self) -> SpinCounts {
        self.spins
    }

    fn again_at(&mut self, now: u64) -> bool {
        let wait = self.wait.get_or_insert_with(|| {
            self.owed = self.owed.saturating_sub(PAID);
            let spins = self.bound > 0 && self.owed == 0;
            Wait { since: now, looked: now, spun: spins, spins }
        });
        if !wait.spins {
            return false;
        }
        let gap = now.saturating_sub(wait.looked);
        wait.looked = now;
        wait.spins = gap <= TAKEN && now.saturating_sub(wait.since) < self.bound;
        let spins = wait.spins;
        self.spins.lost += u64::from(!spins);
        self.lost_processor(gap);
        spins
    }

    fn over_at(&mut self, wait: Wait, now: u64) {
        if let Some(calibration) = &mut self.calibration {
            calibration.schedule().worked();
        }
        if wait.spins {
            self.spins.won += 1;
            (self.futile, self.rest) = (0, 0);
            // Work may have been found only after others had the processor.
            self.lost_processor(now.saturating_sub(wait.looked));
        }
        let waited = now.saturating_sub(wait.since);
        if waited > self.most.saturating_mul(SOON) {
            self.bound = if self.bound / 2 < START { 0 } else { self.bound / 2 };
        } else if waited > self.most {
            self.try_most(wait.spun);
        } else if waited > self.bound {
            self.bound = (self.bound * 2).max(START).min(self.most);
        }
    }

    /// After a wait that might be short enough if both ends spun: was that tried just now?
    fn try_most(&mut self, spun: bool) {
        if spun && self.bound == self.most {
            self.futile = (2 * self.futile + 1).min(MOST_FUTILE);
            (self.bound, self.rest) = (0, self.futile);
        } else if self.rest > 0 {
            self.rest -= 1;
        } else {
            self.bound = self.most;
        }
    }

    /// Others had the processor for so long since we gave way.
    fn lost_processor(&mut self, gap: u64) {
        if gap > TAKEN {
            self.owed = gap.min(MOST_OWED);
        }
    }
}

/// Lets others run on this processor, if they want to.
pub fn yield_processor() {
    rustix::thread::sched_yield();
}

fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let nanos = now.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000);
    nanos.wrapping_add(now.tv_nsec.cast_unsigned())
}

#[cfg(all(test, not(loom)))]
mod tests;
