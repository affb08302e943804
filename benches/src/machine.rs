//! The state of the machine: what a wake-up costs, what the hypervisor takes, how many threads wait
//! for a processor, and how to keep processors awake.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use serde::{Deserialize, Serialize};

use crate::median::median;

/// Sleeps of which a wake-up's cost is the median.
const SLEEPS: u32 = 200;
/// Their length.
const SLEEP: Duration = Duration::from_micros(200);
/// Places in the first line of /proc/stat, behind its name.
const STEAL: usize = 7;
const TIMES: usize = 8;

/// The state during a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct MachineState {
    /// Microseconds by which a sleeper runs too late: the median of some short sleeps before.
    pub(crate) wake_up_us: f64,
    /// The part of all processors' time that the hypervisor gave to others, percent.
    pub(crate) steal_percent: f64,
    /// The load average of the last minute, after it.
    pub(crate) load: f64,
}

/// Watches the machine during a measurement.
pub(crate) struct Watch {
    wake_up_us: f64,
    before: Vec<u64>,
}

impl Watch {
    /// Begins, with some short sleeps.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { wake_up_us: wake_up()?, before: times()? })
    }

    /// Ends.
    pub(crate) fn end(self) -> Result<MachineState> {
        let after = times()?;
        let passed: Vec<u64> =
            after.iter().zip(&self.before).map(|(now, then)| now.saturating_sub(*then)).collect();
        let steal = passed.get(STEAL).copied().unwrap_or(0) as f64;
        let steal_percent = 100.0 * steal / passed.iter().sum::<u64>().max(1) as f64;
        let loads = fs::read_to_string("/proc/loadavg")?;
        let load = loads.split(' ').next().context("a load average")?.parse()?;
        Ok(MachineState { wake_up_us: self.wake_up_us, steal_percent, load })
    }
}

/// A line about the machine during all measurements of a table. Empty without one.
pub(crate) fn markdown(states: &[MachineState]) -> String {
    let spread = |figure: fn(&MachineState) -> f64| {
        let figures: Vec<f64> = states.iter().map(figure).collect();
        let most = figures.iter().copied().fold(0.0, f64::max);
        Some(format!("{:.1} (at most {most:.1})", median(figures)?))
    };
    let wake_up = spread(|state| state.wake_up_us);
    let (steal, load) = (spread(|state| state.steal_percent), spread(|state| state.load));
    match (wake_up, steal, load) {
        (Some(wake_up), Some(steal), Some(load)) => {
            format!("Machine: wake-up {wake_up} µs, steal {steal} %, load {load}.\n")
        }
        _ => String::new(),
    }
}

/// Watches what the hypervisor takes, from one look to the next.
pub(crate) struct Steal(Option<Vec<u64>>);

impl Steal {
    /// Begins.
    pub(crate) fn new() -> Self {
        Self(times().ok())
    }

    /// Percent of all processors' time since the last look that others had, and the load of the
    /// last minute: name, unit, value. `None`: the system does not tell.
    pub(crate) fn figures(&mut self) -> Option<[(&'static str, &'static str, f64); 2]> {
        let after = times().ok()?;
        let before = self.0.replace(after.clone())?;
        let passed: Vec<u64> =
            after.iter().zip(&before).map(|(now, then)| now.saturating_sub(*then)).collect();
        let steal = passed.get(STEAL).copied().unwrap_or(0) as f64;
        let percent = 100.0 * steal / passed.iter().sum::<u64>().max(1) as f64;
        let loads = fs::read_to_string("/proc/loadavg").ok()?;
        let load = loads.split(' ').next()?.parse().ok()?;
        Some([("time stolen by the hypervisor", "%", percent), ("load", "processes", load)])
    }
}

/// The processors that this process may have.
pub(crate) fn processors() -> Result<Vec<usize>> {
    let allowed = rustix::thread::sched_getaffinity(None)?;
    Ok((0..rustix::thread::CpuSet::MAX_CPU).filter(|it| allowed.is_set(*it)).collect())
}

/// Times of all processors by kind, in ticks.
fn times() -> Result<Vec<u64>> {
    let stat = fs::read_to_string("/proc/stat")?;
    let line = stat.lines().next().context("a line of /proc/stat")?;
    line.split_whitespace().skip(1).take(TIMES).map(|ticks| Ok(ticks.parse()?)).collect()
}

/// Microseconds that a timer wakes this thread too late.
pub(crate) fn wake_up() -> Result<f64> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK)?;
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    let it_value = Timespec { tv_sec: 0, tv_nsec: SLEEP.subsec_nanos().into() };
    let time = Itimerspec { it_interval: zero, it_value };
    let now = || {
        let now = clock_gettime(ClockId::Monotonic);
        Duration::try_from(now).context("the clock")
    };
    let mut late = Vec::new();
    for _ in 0..SLEEPS {
        let due = now()? + SLEEP;
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &time)?;
        poll(&mut [PollFd::new(&timer, PollFlags::IN)], None)?;
        late.push(now()?.saturating_sub(due).as_secs_f64() * 1e6);
    }
    median(late).context("sleeps")
}

/// Processes that compute until this is dropped.
#[derive(Default)]
pub(crate) struct Spinners(Vec<Child>);

impl Spinners {
    /// Starts one, by a command that runs the program behind it.
    ///
    /// # Errors
    /// If the command does not start.
    pub(crate) fn start(&mut self, mut by: Command) -> Result<()> {
        by.arg(std::env::current_exe()?).arg("keep-awake").stdout(Stdio::null());
        self.0.push(by.spawn().with_context(|| format!("starting {by:?}: see util-linux"))?);
        Ok(())
    }

    /// One of lowest priority on each processor, which keeps it awake.
    ///
    /// # Errors
    /// If they do not start.
    pub(crate) fn on_each_processor() -> Result<Self> {
        let mut spinners = Self::default();
        for processor in processors()? {
            let mut command = Command::new("taskset");
            command.args(["-c", &processor.to_string(), "chrt", "--idle", "0"]);
            spinners.start(command)?;
        }
        Ok(spinners)
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may have failed already.
            let _ = child.kill();
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}

/// Never lets this processor halt. Ends with its parent.
pub(crate) fn keep_awake() -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    loop {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_gives_figures_in_their_ranges() {
        let state = Watch::new().unwrap().end().unwrap();
        assert!(state.wake_up_us > 0.0, "{state:?}");
        assert!((0.0..=100.0).contains(&state.steal_percent) && state.load >= 0.0, "{state:?}");
    }
}
