//! A bad wire: a process that moves frames between two TAP devices, through the project's own fault
//! wrapper ([`FaultDevice`]).
//!
//! The wrapper is around the left device, so each frame of either direction passes it once. The
//! devices have no offloads, so a frame is what a wire carries. The fate of the n-th frame of a
//! direction depends on the seed and n alone. All set-ups of a round have the same seed.

use std::io;
use std::os::fd::AsFd as _;

use abi::control::FaultConfig;
use abi::offload::TxOffload;
use anyhow::{Context as _, Result};
use clap::Args;
use nic_driver::FaultDevice;
use nic_driver::device::{Device, Part};
use nic_driver::tap::{self, Tap};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, set_parent_process_death_signal};

/// More than any frame without offloads.
const FRAME: usize = 2048;
/// Frames of one direction before the other has its turn.
const BATCH: usize = 64;

/// The words of `bad-wire`.
#[derive(Args)]
pub(crate) struct BadWireArgs {
    /// The two devices, which are made.
    #[arg(long, num_args = 2)]
    taps: Vec<String>,
    /// The part of the frames that is lost, 0 to 1, each way.
    #[arg(long)]
    loss: f64,
    /// Microseconds that a frame takes, each way.
    #[arg(long)]
    delay_us: u32,
    /// The seed of the losses.
    #[arg(long)]
    seed: u64,
}

/// Moves frames until killed. It says a line when both devices are there.
pub(crate) fn bad_wire(args: &BadWireArgs) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let [left, right] = &args.taps[..] else { anyhow::bail!("a wire has two ends") };
    let open = |name: &str| -> Result<Tap> {
        Ok(Tap::new(tap::open(name, false).with_context(|| format!("making {name}"))?, false)?)
    };
    let faults = FaultConfig {
        loss: args.loss,
        delay_us: args.delay_us,
        seed: args.seed,
        ..FaultConfig::default()
    };
    let mut left = FaultDevice::new(open(left)?, faults)?;
    let mut right = open(right)?;
    println!("ready");
    let mut frame = [0; FRAME];
    loop {
        let moved =
            pass(&mut left, &mut right, &mut frame)? + pass(&mut right, &mut left, &mut frame)?;
        if moved == 0 {
            wait(&mut left, &mut right)?;
        }
    }
}

/// Moves some frames. The result is how many.
fn pass(from: &mut impl Device, to: &mut impl Device, frame: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while count < BATCH {
        let received = match from.receive(frame) {
            Ok(Some(received)) => received,
            Ok(None) => break,
            // It is not up yet.
            Err(error) if !nic_driver::device::is_lost(&error) => break,
            Err(error) => return Err(error),
        };
        let bytes = frame.get(..received.len).unwrap_or(frame);
        // A frame that a device does not take is lost: the line is full, or the far end not up.
        match to.transmit(&[Part::local(bytes)], TxOffload::NONE) {
            Err(error) if nic_driver::device::is_lost(&error) => return Err(error),
            _ => count += 1,
        }
    }
    to.flush()?;
    Ok(count)
}

/// Sleeps until a frame comes, or one that is on its way is due.
fn wait(left: &mut impl Device, right: &mut impl Device) -> io::Result<()> {
    if left.prepare_sleep(true) && right.prepare_sleep(true) {
        let timer = left.timer_fd();
        let fds = [Some(left.poll_fd()), Some(right.poll_fd()), timer];
        let mut fds: Vec<PollFd<'_>> =
            fds.iter().flatten().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        match poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) | Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        if let Some(timer) = timer {
            // Nothing to read: it was not the timer.
            let _ = rustix::io::read(timer.as_fd(), &mut [0_u8; 8]);
        }
    }
    left.awake(true);
    right.awake(true);
    Ok(())
}
