use super::*;

const MOST: u64 = 50_000;
/// The time of one check with a yield, nanoseconds.
const LOOK: u64 = 1_000;

/// A thread whose waits are made up.
struct Thread {
    spin: Spin,
    now: u64,
}

impl Thread {
    fn new() -> Self {
        Self { spin: Spin::new(SpinLimit::Fixed(Duration::from_nanos(MOST))), now: 7 }
    }

    /// Waits for so long; how long it spun.
    fn wait(&mut self, wait: u64) -> u64 {
        let (begin, end) = (self.now, self.now + wait);
        while self.now < end && self.spin.again_at(self.now) {
            self.now += LOOK;
        }
        let spun = self.now - begin;
        self.now = self.now.max(end);
        self.over();
        spun
    }

    fn over(&mut self) {
        if let Some(wait) = self.spin.wait.take() {
            self.spin.over_at(wait, self.now);
        }
    }
}

#[test]
fn what_comes_soon_is_never_slept_for() {
    let mut thread = Thread::new();
    for _ in 0..100 {
        assert_eq!(thread.wait(20_000), 20_000);
    }
    assert_eq!(thread.spin.spins(), SpinCounts { won: 100, lost: 0 });
}

#[test]
fn who_waits_for_long_stops_to_spin_and_begins_again_when_it_is_of_use() {
    let mut thread = Thread::new();
    let spun: Vec<u64> = (0..5).map(|_| thread.wait(1_000_000)).collect();
    assert_eq!(spun, [50_000, 25_000, 12_000 + LOOK, 0, 0]);
    assert_eq!(thread.spin.spins(), SpinCounts { won: 0, lost: 3 });
    // Nothing is counted where nothing was tried.
    assert_eq!(thread.wait(30_000), 0);
    assert_eq!(thread.wait(30_000), 10_000);
    assert_eq!(thread.wait(30_000), 20_000);
    assert_eq!(thread.wait(30_000), 30_000);
    assert_eq!(thread.spin.spins(), SpinCounts { won: 1, lost: 5 });
}

#[test]
fn the_bound_is_never_greater_than_was_allowed() {
    let mut thread = Thread::new();
    for wait in [1_000, MOST, MOST + 1, 10 * MOST, 49_999, 0, 30_000, MOST] {
        thread.wait(wait);
        assert!(thread.spin.bound <= MOST);
        assert!(thread.wait(u64::MAX / 1000) <= MOST + LOOK);
    }
}

/// Waits until one spins again.
fn waits_that_sleep(thread: &mut Thread) -> u64 {
    let mut slept = 0;
    while thread.wait(2 * LOOK) == 0 {
        slept += 1;
    }
    slept
}

#[test]
fn a_processor_that_others_compute_on_is_left_to_them() {
    const SLICE: u64 = 3_000_000;
    let mut thread = Thread::new();
    // Giving way takes a time slice, and then there is still nothing.
    assert!(thread.spin.again_at(thread.now));
    thread.now += SLICE;
    assert!(!thread.spin.again_at(thread.now));
    assert_eq!(thread.spin.spins().lost, 1);
    thread.spin.wait = None;
    assert_eq!(waits_that_sleep(&mut thread), SLICE / PAID - 1);
    // The same if there is work at once.
    assert!(thread.spin.again_at(thread.now));
    thread.now += SLICE;
    thread.over();
    thread.spin.bound = MOST;
    assert_eq!(waits_that_sleep(&mut thread), SLICE / PAID - 1);
    // Stopped for a minute, as a debugger does: not for ever.
    assert!(thread.spin.again_at(thread.now));
    thread.now += 60_000_000_000;
    assert!(!thread.spin.again_at(thread.now));
    thread.spin.wait = None;
    assert_eq!(waits_that_sleep(&mut thread), MOST_OWED / PAID - 1);
}

#[test]
fn a_spin_of_no_time_is_none() {
    let mut spin = Spin::new(SpinLimit::Fixed(Duration::ZERO));
    assert!(!spin.again());
    spin.over();
    assert_eq!(spin.spins(), SpinCounts::default());
}

#[test]
fn the_clock_that_it_reads_goes_on() {
    let mut spin = Spin::new(SpinLimit::Fixed(Duration::from_millis(1)));
    let mut looks = 0_u32;
    while spin.again() {
        looks += 1;
        yield_processor();
    }
    // However slow the machine: the first look begins the wait.
    assert!(looks >= 1);
    assert_eq!(spin.spins().lost, 1);
    spin.over();
}

/// Two threads on two processors that answer each other. Each works for `WORK` and then waits for
/// its peer, which needs `WAKE` more if it slept. Returns the last round trip's length.
fn converse(ends: &mut [Spin; 2], rounds: u32, slow: u64) -> u64 {
    const WORK: u64 = 10_000;
    const WAKE: u64 = 25_000;
    let mut now = 7;
    let mut since = [now, now];
    let mut trip = 0;
    for round in 0..rounds {
        let began = now;
        for end in 0..2 {
            // What `end` waits for is here `now`: how did it wait?
            let spin = &mut ends[end];
            let mut looked = since[end];
            while looked < now && spin.again_at(looked) {
                looked += LOOK;
            }
            let spun = spin.wait.is_none_or(|wait| wait.spins);
            now += if spun { 0 } else { WAKE } + if round == 0 { slow } else { 0 };
            if let Some(wait) = spin.wait.take() {
                spin.over_at(Wait { looked: now, ..wait }, now);
            }
            now += WORK;
            since[end] = now;
        }
        trip = now - began;
    }
    trip
}

#[test]
fn two_ends_do_not_sleep_because_the_other_one_does() {
    let mut ends = [(); 2].map(|()| Spin::new(SpinLimit::Fixed(Duration::from_nanos(MOST))));
    assert_eq!(converse(&mut ends, 50, 0), 20_000);
    // Both have lost the habit; nothing but that keeps them slow.
    for spin in &mut ends {
        (spin.bound, spin.wait) = (0, None);
    }
    assert_eq!(converse(&mut ends, 50, 1_000_000), 20_000);
    assert!(ends.iter().all(|spin| spin.bound == MOST));
}

#[test]
fn what_takes_a_little_too_long_is_seldom_spun_for() {
    let mut thread = Thread::new();
    let spun: Vec<(usize, u64)> = (0..200)
        .map(|number| (number, thread.wait(80_000)))
        .filter(|(_, spun)| *spun > 0)
        .collect();
    // After 1, 3, 7, 15, 31 and 63 sleeps, and one more that finds out.
    assert_eq!(spun, [0, 3, 8, 17, 34, 67, 132, 197].map(|number| (number, MOST)));
    assert_eq!(thread.spin.spins(), SpinCounts { won: 0, lost: 8 });
    // The first success is followed by others.
    for _ in 0..5 {
        thread.wait(30_000);
    }
    assert_eq!(thread.wait(30_000), 30_000);
    assert_eq!((thread.spin.futile, thread.spin.rest), (0, 0));
}

#[test]
fn who_steps_aside_does_so_only_where_nobody_computes() {
    let mut spin = Spin::new(SpinLimit::Fixed(Duration::from_nanos(MOST)));
    spin.lost_processor(TAKEN);
    assert_eq!(spin.owed, 0);
    spin.lost_processor(TAKEN + 1);
    spin.yield_once();
    // It did not even look, or the time of that would count.
    assert_eq!((spin.owed, spin.spins()), (TAKEN + 1, SpinCounts::default()));
}

#[test]
fn a_calibrated_limit_begins_with_the_least() {
    let mut spin = Spin::new(SpinLimit::Calibrated);
    assert_eq!((spin.most(), spin.wake_cost()), (wake_cost::LEAST, 0));
    assert!(spin.timer().is_some());
    // A timer that was not set cannot have fired.
    spin.timer_fired();
    assert_eq!((spin.most(), spin.wake_cost()), (wake_cost::LEAST, 0));
    assert!(Spin::new(SpinLimit::Fixed(Duration::from_nanos(MOST))).timer().is_none());
}

#[test]
fn another_limit_keeps_what_the_waits_have_taught() {
    let mut thread = Thread::new();
    // It spins for the whole bound: also for a longer and for a shorter one.
    thread.spin.set_most(200_000);
    assert_eq!(thread.wait(150_000), 150_000);
    thread.spin.set_most(20_000);
    assert_eq!(thread.spin.bound, 20_000);
    // It has learnt not to spin: a longer bound alone changes nothing.
    for _ in 0..5 {
        thread.wait(1_000_000);
    }
    thread.spin.set_most(400_000);
    assert_eq!(thread.spin.bound, 0);
    assert_eq!(thread.wait(300_000), 0);
    thread.spin.bound = 100_000;
    thread.spin.set_most(60_000);
    assert_eq!(thread.spin.bound, 60_000);
}
