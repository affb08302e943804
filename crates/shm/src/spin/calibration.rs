//! Measures wake-ups in the sleeps of the thread itself.
//!
//! Now and then a timer is set before a sleep, for [`AHEAD`] later. If nothing else ends the sleep,
//! the thread runs too late by the cost of a wake-up. On a halted virtual processor an eventfd's
//! wake-up takes the same time (docs/design/waiting.md). If another event comes first, there is no
//! sample.
//!
//! No other process takes part, so none can lie. A client that keeps the processors busy makes
//! samples longer, within [`super::wake_cost::MOST`].
//!
//! The timer costs one system call. A thread sets it at most every [`EVERY`], and only if it has
//! worked since the last time. So an idle thread is not woken. Only the first sleeps follow each
//! other at once, until there is an estimate.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::wake_cost::WakeCost;
use crate::descriptors::keep;

/// The timer is set for so long after a sleep begins, nanoseconds. Shorter sleeps cost less, since
/// the hypervisor has not yet given the processor to another.
const AHEAD: u64 = 50_000;
/// The least time between two samples, nanoseconds.
const EVERY: u64 = 20_000_000;

/// A thread's samples, and its timer.
#[derive(Debug)]
pub(super) struct Calibration {
    timer: OwnedFd,
    schedule: Schedule,
}

/// When a sleep is measured. It reads no clock.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    cost: WakeCost,
    /// When the timer was set last.
    set_at: u64,
    /// The present sleep is measured: when the timer is due.
    due: Option<u64>,
    /// The thread has worked since then.
    worked: bool,
}

impl Calibration {
    /// Without samples.
    ///
    /// # Errors
    /// The system's, such as too many open files.
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = keep(timerfd_create(TimerfdClockId::Monotonic, flags)?);
        Ok(Self { timer, schedule: Schedule::default() })
    }

    /// The timer's descriptor, for the thread's epoll set: edge-triggered, as it is never read.
    pub(super) fn timer(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }

    /// The samples and when they are taken.
    pub(super) fn schedule(&mut self) -> &mut Schedule {
        &mut self.schedule
    }

    /// The estimate, nanoseconds.
    pub(super) fn nanos(&self) -> Option<u64> {
        self.schedule.cost.nanos()
    }

    /// A sleep begins: sets the timer if the sleep is to be measured.
    pub(super) fn before_sleep(&mut self, now: u64) {
        let Some(due) = self.schedule.begin(now) else { return };
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let nanos = |nanos: u64| i64::try_from(nanos).unwrap_or(i64::MAX);
        let it_value =
            Timespec { tv_sec: nanos(due / 1_000_000_000), tv_nsec: nanos(due % 1_000_000_000) };
        let time = Itimerspec { it_interval: zero, it_value };
        // A timer that cannot be set gives no sample.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &time);
    }
}

impl Schedule {
    /// The thread had work.
    pub(super) fn worked(&mut self) {
        self.worked = true;
    }

    /// A sleep begins. `Some`: it is measured, by a timer for this time.
    fn begin(&mut self, now: u64) -> Option<u64> {
        let measured = if self.worked {
            now.saturating_sub(self.set_at) >= EVERY
        } else {
            !self.cost.is_known()
        };
        self.due = None;
        if measured {
            (self.set_at, self.worked) = (now, false);
            self.due = Some(now.saturating_add(AHEAD));
        }
        self.due
    }

    /// The timer has ended a sleep. `Some`: that was a sample, and this is the new bound of spins.
    pub(super) fn fired(&mut self, now: u64) -> Option<u64> {
        let late = now.checked_sub(self.due.take()?)?;
        self.cost.note(late);
        Some(self.cost.bound())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::wake_cost::{LEAST, MOST};
    use super::*;

    /// Sleeps that nothing but the timer ends, until none is measured; their number.
    fn idle(schedule: &mut Schedule, now: &mut u64, cost: u64) -> u32 {
        let mut sleeps = 0;
        while let Some(due) = schedule.begin(*now) {
            *now = due + cost;
            assert!(schedule.fired(*now).is_some());
            sleeps += 1;
        }
        sleeps
    }

    #[test]
    fn an_idle_thread_is_woken_for_the_first_estimate_only() {
        let (mut schedule, mut now) = (Schedule::default(), 7);
        assert_eq!(idle(&mut schedule, &mut now, 30_000), 4);
        assert_eq!(schedule.cost.nanos(), Some(30_000));
        for _ in 0..100 {
            now += 60_000_000_000;
            assert_eq!(idle(&mut schedule, &mut now, 30_000), 0);
        }
        // Work is followed by one measured sleep.
        schedule.worked();
        assert_eq!(idle(&mut schedule, &mut now, 30_000), 1);
    }

    #[test]
    fn a_busy_thread_seldom_sets_its_timer() {
        let (mut schedule, mut now, mut set) = (Schedule::default(), EVERY, 0);
        for _ in 0..100_000 {
            schedule.worked();
            set += u32::from(schedule.begin(now).is_some());
            // Another event ends each sleep, before the timer.
            now += 10_000;
        }
        assert_eq!(set, 50, "once in 20 ms of a second");
        assert_eq!(schedule.cost.nanos(), None);
    }

    /// The timer of a sleep that another event ended comes due later.
    #[test]
    fn a_timer_that_is_late_for_another_reason_is_no_sample() {
        let mut schedule = Schedule::default();
        let due = schedule.begin(7).unwrap();
        schedule.worked();
        // It is reported at once in the next sleep, which is not measured.
        assert_eq!(schedule.begin(due + 1_000_000), None);
        assert_eq!(schedule.fired(due + 1_000_100), None);
        // One that is not due cannot have fired.
        let due = schedule.begin(EVERY + 7).unwrap();
        assert_eq!(schedule.fired(due - 1), None);
        assert_eq!(schedule.fired(due + 1), None);
    }

    /// A client can keep all processors busy, and so delay each wake-up by as much as it likes.
    #[test]
    fn a_hostile_client_cannot_make_the_bound_longer_than_the_greatest() {
        let (mut schedule, mut now) = (Schedule::default(), 7_u64);
        for delay in [20_000, 4_000_000, 1 << 40, 1 << 62, u64::MAX / 2, 1 << 50, 0] {
            for _ in 0..20 {
                schedule.worked();
                now = now.saturating_add(EVERY);
                let Some(due) = schedule.begin(now) else { continue };
                now = due.saturating_add(delay);
                let bound = schedule.fired(now).unwrap();
                assert!((LEAST..=MOST).contains(&bound), "{bound}");
            }
        }
    }

    #[test]
    fn a_real_sleep_gives_a_sample() {
        use rustix::event::{PollFd, PollFlags, poll};
        let mut calibration = Calibration::new().unwrap();
        let now = || {
            let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
            now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
        };
        while calibration.nanos().is_none() {
            calibration.before_sleep(now());
            poll(&mut [PollFd::new(&calibration.timer, PollFlags::IN)], None).unwrap();
            assert!(calibration.schedule().fired(now()).is_some());
        }
    }
}
