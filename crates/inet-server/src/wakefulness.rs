//! Keeps idle processors from halting while that pays.
//!
//! Where a halted processor wakes up slowly, as on virtual machines, a chain of processes that wake
//! each other is slow: a request of a web server wakes driver, server, program, server and driver.
//! The kernel takes a request for that, the power management's quality of service
//! (`/dev/cpu_dma_latency`): while it says 0, an idle processor looks for work instead of halting.
//! The file is root's. The process opens it before it enters its sandbox; the kernel forgets the
//! request with the process.
//!
//! An awake processor costs power, and on a virtual machine time of its host. So the request holds
//! only while the instance is busy and wake-ups are slow:
//!
//! * It begins when wake-ups cost [`SLOW`] or more, and the server's own sleeps of the last
//!   [`WINDOW`] took a part of [`BEGIN`] of the time to end.
//! * It ends when the server's waits, slept or spun, would not have cost half as much. An idle
//!   server wakes up once or twice for that.
//! * Every [`TRIAL`] it ends in any case, and begins again if the rule still says so.
//!
//! While it holds, the server measures no wake-ups: the cost that counts is that without it.

use std::fs::File;
use std::io::Write;
use std::time::Duration;

use inet::Instant;

/// The least cost of wake-ups that the request is made for.
const SLOW: Duration = Duration::from_micros(15);
/// How often the rule is applied.
const WINDOW: Duration = Duration::from_millis(20);
/// The request begins if sleeps take a part of one in so many of the time to end.
const BEGIN: u32 = 50;
/// No more waits in a window are idleness, whatever a wake-up costs: the server's timer ends one.
const IDLE: u32 = 2;
/// The longest time without a look at whether it still pays.
const TRIAL: Duration = Duration::from_secs(10);

/// "No latency" and "no request", as the file takes them.
const AWAKE: i32 = 0;
const MAY_HALT: i32 = -1;

/// The request, and what decides about it.
#[derive(Debug, Default)]
pub(crate) struct Wakefulness {
    file: Option<File>,
    /// Since when the request holds.
    held_since: Option<Instant>,
    window: Window,
    /// How often it began.
    begun: u64,
}

/// Counts of the present window.
#[derive(Debug, Default, Clone, Copy)]
struct Window {
    since: Instant,
    sleeps: u32,
    /// Waits that a spin ended, of the server's life, when the window began.
    won_before: u64,
}

impl Wakefulness {
    /// From now on requests go to `file`.
    pub(crate) fn allow(&mut self, file: File) {
        self.file = Some(file);
    }

    /// Does the request hold?
    pub(crate) fn is_held(&self) -> bool {
        self.held_since.is_some()
    }

    /// How often it began.
    pub(crate) fn begun(&self) -> u64 {
        self.begun
    }

    /// The server is about to sleep. `cost` tells that of a wake-up; `won` counts all waits that a
    /// spin ended.
    pub(crate) fn before_sleep(&mut self, now: Instant, cost: impl FnOnce() -> Duration, won: u64) {
        if self.file.is_none() {
            return;
        }
        self.window.sleeps = self.window.sleeps.saturating_add(1);
        let length = now.since(self.window.since);
        if length < WINDOW {
            return;
        }
        let Window { sleeps, won_before, .. } = self.window;
        self.window = Window { since: now, sleeps: 0, won_before: won };
        let spun = u32::try_from(won.saturating_sub(won_before)).unwrap_or(u32::MAX);
        let cost = cost();
        let pays =
            |waits: u32, part: u32| waits > IDLE && cost.saturating_mul(waits) >= length / part;
        match self.held_since {
            None if cost >= SLOW && pays(sleeps, BEGIN) => self.begin(now),
            None => {}
            Some(since) => {
                let trial = now.since(since) >= TRIAL;
                if trial || !pays(sleeps.saturating_add(spun), 2 * BEGIN) {
                    self.end();
                }
            }
        }
    }

    /// How long the server may sleep until it has to apply the rule; `None` is for ever.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Duration> {
        self.held_since.map(|_| WINDOW.saturating_sub(now.since(self.window.since)))
    }

    fn begin(&mut self, now: Instant) {
        if self.request(AWAKE) {
            self.held_since = Some(now);
            self.begun += 1;
        }
    }

    fn end(&mut self) {
        self.held_since = None;
        self.request(MAY_HALT);
    }

    /// Makes a request. A file that takes none is not tried again.
    fn request(&mut self, latency: i32) -> bool {
        let Some(file) = &mut self.file else { return false };
        let made = file.write_all(&latency.to_ne_bytes());
        if let Err(error) = &made {
            tracing::debug!(%error, "the kernel takes no request about halted processors");
            self.file = None;
        }
        made.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    const COST: Duration = Duration::from_micros(40);
    const NONE: [i32; 0] = [];

    struct Rig {
        it: Wakefulness,
        requests: UnixStream,
        now: Instant,
        won: u64,
    }

    impl Rig {
        fn new() -> Self {
            let (file, requests) = UnixStream::pair().unwrap();
            requests.set_nonblocking(true).unwrap();
            let mut it = Wakefulness::default();
            it.allow(File::from(std::os::fd::OwnedFd::from(file)));
            Self { it, requests, now: Instant::ZERO, won: 0 }
        }

        /// Sleeps of equal distance for so long; the requests made meanwhile.
        fn run(&mut self, time: Duration, every: Duration, cost: Duration) -> Vec<i32> {
            let end = self.now + time;
            while self.now < end {
                self.now += every;
                self.it.before_sleep(self.now, || cost, self.won);
            }
            let mut bytes = Vec::new();
            let _ = self.requests.read_to_end(&mut bytes);
            bytes.chunks(4).map(|one| i32::from_ne_bytes(one.try_into().unwrap())).collect()
        }
    }

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn it_holds_while_many_sleeps_end_slowly() {
        let mut rig = Rig::new();
        assert_eq!(rig.run(millis(500), millis(5), COST), NONE, "few sleeps");
        assert_eq!(rig.run(millis(500), millis(1), Duration::from_micros(8)), NONE, "quick ones");
        assert_eq!(rig.it.deadline(rig.now), None);
        assert_eq!(rig.run(millis(100), millis(1), COST), [AWAKE]);
        assert!(rig.it.deadline(rig.now).unwrap() <= WINDOW);
        assert_eq!(rig.run(millis(500), millis(1), COST), NONE);
        // Spins that succeed are waits all the same.
        rig.won += 1_000_000;
        assert_eq!(rig.run(millis(25), millis(25), COST), NONE);
        assert_eq!(rig.run(millis(100), millis(50), COST), [MAY_HALT], "idle");
        assert_eq!((rig.it.deadline(rig.now), rig.it.begun()), (None, 1));
    }

    /// A server that holds the request wakes up for its own timer only.
    #[test]
    fn an_idle_server_lets_go_whatever_a_wake_up_costs() {
        let mut rig = Rig::new();
        let cost = Duration::from_millis(1);
        assert_eq!(rig.run(millis(100), millis(1), cost), [AWAKE]);
        assert_eq!(rig.run(WINDOW * 3, WINDOW, cost), [MAY_HALT]);
    }

    #[test]
    fn every_trial_finds_out_whether_it_pays() {
        let mut rig = Rig::new();
        let requests = rig.run(TRIAL * 2 + millis(500), millis(1), COST);
        assert_eq!(requests, [AWAKE, MAY_HALT, AWAKE, MAY_HALT, AWAKE]);
    }

    #[test]
    fn without_the_file_nothing_happens() {
        let mut it = Wakefulness::default();
        for n in 1..1000 {
            it.before_sleep(Instant::ZERO + millis(n), || COST, 0);
        }
        assert_eq!((it.is_held(), it.begun()), (false, 0));
        // A file that takes no requests.
        it.allow(File::open("/dev/null").unwrap());
        for n in 1000..2000 {
            it.before_sleep(Instant::ZERO + millis(n), || COST, 0);
        }
        assert!(!it.is_held() && it.file.is_none());
    }
}
