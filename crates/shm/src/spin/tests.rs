use super::*;

const MOST: u64 = 50_000;
/// What one look and giving way take, nanoseconds.
const LOOK: u64 = 1_000;

/// A thread whose waits are made up.
struct Thread {
    spin: Spin,
    now: u64,
}

impl Thread {
    fn new() -> Self {
        Self { spin: Spin::new(Duration::from_nanos(MOST)), now: 7 }
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
    assert_eq!(thread.spin.spins(), Spins { won: 100, lost: 0 });
}

#[test]
fn who_waits_for_long_stops_to_spin_and_begins_again_when_it_is_of_use() {
    let mut thread = Thread::new();
    let spun: Vec<u64> = (0..5).map(|_| thread.wait(1_000_000)).collect();
    assert_eq!(spun, [50_000, 25_000, 12_000 + LOOK, 0, 0]);
    assert_eq!(thread.spin.spins(), Spins { won: 0, lost: 3 });
    // Nothing is counted where nothing was tried.
    assert_eq!(thread.wait(30_000), 0);
    assert_eq!(thread.wait(30_000), 10_000);
    assert_eq!(thread.wait(30_000), 20_000);
    assert_eq!(thread.wait(30_000), 30_000);
    assert_eq!(thread.spin.spins(), Spins { won: 1, lost: 5 });
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
    let mut spin = Spin::new(Duration::ZERO);
    assert!(!spin.again());
    spin.over();
    assert_eq!(spin.spins(), Spins::default());
}

#[test]
fn the_clock_that_it_reads_goes_on() {
    let mut spin = Spin::new(Duration::from_millis(1));
    let mut looks = 0_u32;
    while spin.again() {
        looks += 1;
        give_way();
    }
    // However slow the machine: the first look begins the wait.
    assert!(looks >= 1);
    assert_eq!(spin.spins().lost, 1);
    spin.over();
}
