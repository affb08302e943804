//! What simple things cost on this machine, at the beginning of a run and between rounds.
//!
//! A figure of another machine, or of this one a year ago, can only be judged beside these. Each is
//! measured by itself in a process of its own (`tasuki-bench calibrate`), so that its processors
//! and memory disturb nothing. Where the machine allows it the process has a network namespace of
//! its own, for a TAP device.

use std::fs::File;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use lab::{Calibration, Sample};
use rustix::thread::futex;
use serde::{Deserialize, Serialize};

use crate::calls::{getpid, pin};
use crate::machine::{Steal, processors, wake_up};
use crate::median::median;
use crate::storage::seal_speed;

/// The machine is calibrated between rounds, this often at most.
const INTERVAL: Duration = Duration::from_secs(15);
/// Samples of each figure of the machine, at most.
const MOST_CALIBRATIONS: usize = 200;
/// How long one figure is measured.
const TURN: Duration = Duration::from_millis(15);
/// Steps of the loop of independent additions: some µs.
const STEPS: u64 = 1000;
/// Bytes that are copied at a time: they stay in a processor's cache.
const COPY: usize = 64 << 10;
/// Bytes of a frame, of a type that nobody takes (IEEE 802, local experimental).
const FRAME: usize = 64;
const ETHER_TYPE: [u8; 2] = [0x88, 0xb5];
const TAP: &str = "calibrate";
/// Bytes that are sealed at a time.
const SEALED: usize = 16 << 10;

/// A figure of the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct MachineFigure {
    name: String,
    unit: String,
    value: f64,
}

/// Takes the machine's figures now and then, during a run.
pub(crate) struct Calibrator {
    last: Option<Instant>,
    steal: Steal,
}

impl Calibrator {
    /// Nothing was taken yet.
    pub(crate) fn new() -> Self {
        Self { last: None, steal: Steal::new() }
    }

    /// Were no figures taken as yet?
    pub(crate) fn is_new(&self) -> bool {
        self.last.is_none()
    }

    /// Adds a round of figures to those of the results, if the last one is old enough.
    ///
    /// # Errors
    /// The first time, if the machine cannot be measured; steal and load are added anyway.
    pub(crate) fn look(&mut self, all: &mut Vec<Calibration>) -> Result<()> {
        let is_full = all.iter().any(|it| it.samples.len() >= MOST_CALIBRATIONS);
        if is_full || self.last.is_some_and(|when| when.elapsed() < INTERVAL) {
            return Ok(());
        }
        let measured = measure();
        for figures in [measured.as_deref().unwrap_or_default(), &of_steal(&mut self.steal)] {
            add(all, figures);
        }
        let is_first = self.last.replace(Instant::now()).is_none();
        measured.map(drop).or_else(|error| if is_first { Err(error) } else { Ok(()) })
    }
}

/// Measures all, as a process of its own.
fn measure() -> Result<Vec<MachineFigure>> {
    let is_root = rustix::process::geteuid().is_root();
    let mut command = Command::new(if is_root { "unshare" } else { "env" });
    command.args(is_root.then_some("--net")).arg(std::env::current_exe()?).arg("calibrate");
    let output =
        command.stderr(Stdio::null()).output().context("starting `unshare` (util-linux)")?;
    let figures: Vec<MachineFigure> = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("the calibration ended with {}", output.status))?;
    Ok(figures)
}

/// What the hypervisor took since the last look, and the load.
fn of_steal(steal: &mut Steal) -> Vec<MachineFigure> {
    let all = steal.figures().into_iter().flatten();
    let figure = |(name, unit, value): (&str, &str, f64)| MachineFigure {
        name: name.to_owned(),
        unit: unit.to_owned(),
        value,
    };
    all.map(figure).collect()
}

/// Adds a round of figures to those of the results.
fn add(to: &mut Vec<Calibration>, figures: &[MachineFigure]) {
    for MachineFigure { name, unit, value } in figures.iter().filter(|it| it.value.is_finite()) {
        let at = to.iter().position(|it| it.name == *name).unwrap_or_else(|| {
            let (name, unit) = (name.clone(), unit.clone());
            to.push(Calibration { name, unit, samples: Vec::new() });
            to.len() - 1
        });
        let samples = &mut to[at].samples;
        let round = samples.last().map_or(0, |last| last.round + 1);
        samples.push(Sample { round, value: *value });
    }
}

/// `tasuki-bench calibrate`: measures and prints. A figure that the machine does not allow is left
/// out.
pub(crate) fn run() -> Result<()> {
    let all = processors()?;
    let here = *all.first().context("a processor")?;
    let mut figures = Vec::new();
    let mut add = |name: &str, unit: &str, measured: Result<f64>| {
        if let Ok(value) = measured {
            figures.push(MachineFigure { name: name.to_owned(), unit: unit.to_owned(), value });
        }
    };
    pin(here)?;
    add("getpid(2)", "ns", Ok(getpid(TURN)));
    add("wake-up of a halted processor by a timer", "µs", wake_up());
    add("futex wake on the same processor", "µs", futex_wake(here, here));
    if let Some(there) = all.get(1) {
        add("futex wake on another processor", "µs", futex_wake(here, *there));
    }
    add("loop of independent additions", "ns", independent_additions());
    add("copy of 64 KiB", "ns", copy());
    add("AES-256-GCM of 16 KiB", "ns", seal());
    add("write of a frame to a TAP device", "ns", tap_write());
    println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}

/// Microseconds from a wake to the sleeper's return: half of a round trip of two threads.
fn futex_wake(here: usize, there: usize) -> Result<f64> {
    let (turn, over) = (AtomicU32::new(0), 2);
    let wait = |mine: u32| loop {
        let now = turn.load(Ordering::Acquire);
        if now == mine || now == over {
            return now;
        }
        // A word that has changed meanwhile is the goal.
        let _ = futex::wait(&turn, futex::Flags::PRIVATE, now, None);
    };
    let give = |next: u32| {
        turn.store(next, Ordering::Release);
        futex::wake(&turn, futex::Flags::PRIVATE, 1)
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            pin(there)?;
            while wait(1) == 1 {
                give(0)?;
            }
            Ok::<_, anyhow::Error>(())
        });
        let measured = (|| {
            pin(here)?;
            let (mut times, began) = (Vec::new(), Instant::now());
            while began.elapsed() < 2 * TURN {
                let one = Instant::now();
                give(1)?;
                wait(0);
                times.push(one.elapsed().as_secs_f64() * 1e6 / 2.0);
            }
            median(times).context("no wake-ups")
        })();
        give(over)?;
        match other.join() {
            Ok(ended) => ended.and(measured),
            Err(_) => bail!("a thread of the calibration panicked"),
        }
    })
}

/// Nanoseconds of an operation, the median of as many as fit into the time.
fn nanos(mut operation: impl FnMut() -> Result<()>) -> Result<f64> {
    let (mut times, began) = (Vec::new(), Instant::now());
    while began.elapsed() < TURN {
        let one = Instant::now();
        operation()?;
        times.push(one.elapsed().as_secs_f64() * 1e9);
    }
    median(times).context("no operations")
}

/// A loop that occupies all of a core's units for whole numbers. It takes twice as long while
/// another hardware thread of the core computes, which a virtual machine may not know of.
fn independent_additions() -> Result<f64> {
    nanos(|| {
        let mut sums = [1_u64, 3, 5, 7, 11, 13];
        for step in 0..std::hint::black_box(STEPS) {
            for (sum, turn) in sums.iter_mut().zip([5, 11, 17, 23, 31, 41]) {
                *sum = sum.rotate_left(turn).wrapping_add(step);
            }
        }
        std::hint::black_box(sums);
        Ok(())
    })
}

fn copy() -> Result<f64> {
    let (from, mut to) = (vec![0xa5_u8; COPY], vec![0_u8; COPY]);
    nanos(|| {
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&mut to);
        Ok(())
    })
}

fn seal() -> Result<f64> {
    let gib_per_second = seal_speed(SEALED, TURN)?;
    Ok(SEALED as f64 / (gib_per_second * f64::from(1 << 30)) * 1e9)
}

/// In a network namespace of its own only.
fn tap_write() -> Result<f64> {
    let queues = nic_driver::tap::open_queues(TAP, false)?;
    let up = Command::new("ip").args(["link", "set", TAP, "up"]).status()?;
    anyhow::ensure!(up.success(), "the TAP device does not come up");
    let mut queue = File::from(queues.into_iter().next().context("a queue")?);
    let mut frame = vec![0xff; FRAME];
    frame[12..14].copy_from_slice(&ETHER_TYPE);
    nanos(|| Ok(queue.write_all(&frame)?))
}
