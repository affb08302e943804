//! `tasuki-bench devices`: what a frame costs by each way that the kernel offers to a device.
//!
//! In a network namespace of its own, which is gone at the end, there are devices, one for each
//! way, and no address. Frames are those of a TCP connection of other stations: of 1,514 bytes, or
//! super-segments of 64 KiB with virtio's header. What is *sent* the kernel at the far end drops as
//! soon as IP sees that it is not for this host, within the call that sends it unless a row says
//! otherwise; so the figure has the whole way there and nothing of TCP. What is to be *received* a
//! packet socket at the far end has sent before, so there is always a frame and nobody waits; what
//! that took is shown beside it, since some ways have work done there. At the end each frame is in
//! the reader's own memory.
//!
//! Ways take turns, round by round; figures are medians of all rounds.
#![allow(unsafe_code)]

mod frames;
mod packet;
mod shared;
mod tap;
mod uring;

use std::io;
use std::process::Command;
use std::time::{Duration, Instant};

use abi::offload::TxOffload;
use anyhow::{Context, Result, bail};
use clap::Args;
use nic_driver::device::{Device, Part};
use rustix::thread::UnshareFlags;
use serde::{Deserialize, Serialize};

use self::frames::{Parcel, Places, Source};
use crate::calls::server::pin;
use crate::report::median;

/// What `devices` runs.
#[derive(Args)]
pub(crate) struct DevicesArgs {
    /// Rounds; medians are over them.
    #[arg(long, default_value_t = 200)]
    rounds: u32,
    /// Only ways with this in the name of their device or their own.
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// The processor that all is done on, and the other one of ways that use two.
    #[arg(long, value_delimiter = ',', num_args = 2, default_values_t = [0, 1])]
    processors: Vec<usize>,
    /// Figures as JSON instead of tables.
    #[arg(long)]
    json: bool,
}

/// Where frames go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Direction {
    Send,
    Receive,
}

/// What one way costs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Figure {
    device: String,
    direction: Direction,
    /// Bytes of a frame, without virtio's header.
    frame: usize,
    way: String,
    /// Nanoseconds per frame.
    nanos: f64,
    /// Of that to be received: what sending it took the far end.
    far_nanos: Option<f64>,
}

/// One way to move frames over one device. It says how long it took, and `Unsupported` where it is
/// none of that direction.
trait Way {
    /// Sends so many frames.
    fn send(&mut self, _count: usize) -> io::Result<Duration> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Receives so many frames, which are there.
    fn receive(&mut self, _count: usize) -> io::Result<Duration> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A device as Tasuki's driver has it.
struct OfDriver<D> {
    device: D,
    frame: Vec<u8>,
    offload: TxOffload,
    places: Places,
    /// Frames after which it is flushed.
    batch: usize,
}

impl<D: Device> OfDriver<D> {
    fn new(device: D, parcel: &Parcel, batch: usize) -> Self {
        let frame = parcel.bytes(false).to_vec();
        let places = Places::new(frame.len());
        Self { device, frame, offload: parcel.offload(), places, batch }
    }
}

impl<D: Device> Way for OfDriver<D> {
    fn send(&mut self, count: usize) -> io::Result<Duration> {
        let (head, payload) = self.frame.split_at(54);
        let parts = [head, payload].map(Part::local);
        let mut left = count;
        timed(|| {
            while left > 0 {
                let batch = left.min(self.batch);
                for _ in 0..batch {
                    left -= usize::from(self.device.transmit(&parts, self.offload)?);
                }
                self.device.flush()?;
            }
            Ok(())
        })
    }

    fn receive(&mut self, count: usize) -> io::Result<Duration> {
        let mut left = count;
        timed(|| {
            while left > 0 {
                left -= usize::from(self.device.receive(self.places.next())?.is_some());
            }
            Ok(())
        })
    }
}

/// A way, and what sends to it.
struct Contender {
    device: &'static str,
    name: String,
    frame: usize,
    way: Box<dyn Way>,
    source: Source,
    sent: Vec<f64>,
    received: Vec<f64>,
    far: Vec<f64>,
}

impl Contender {
    fn new(
        device: &'static str,
        name: impl Into<String>,
        parcel: &Parcel,
        way: impl Way + 'static,
        source: Source,
    ) -> Self {
        let (name, frame, way) = (name.into(), parcel.frame_len(), Box::new(way));
        let [sent, received, far] = [const { Vec::new() }; 3];
        Self { device, name, frame, way, source, sent, received, far }
    }

    /// One round of both directions.
    fn round(&mut self) -> Result<()> {
        // As many as any of the queues on the way holds.
        let count = if self.frame > 1514 { 32 } else { 512 };
        let each = |took: Duration| took.as_secs_f64() * 1e9 / count as f64;
        let failed = |what| format!("{}, {}: {what}", self.device, self.name);
        match self.way.send(count) {
            Ok(took) => self.sent.push(each(took)),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(error) => return Err(error).with_context(|| failed("sending")),
        }
        let filled = timed(|| self.source.send(count)).with_context(|| failed("filling"))?;
        match self.way.receive(count) {
            Ok(took) => {
                self.received.push(each(took));
                self.far.push(each(filled));
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
            Err(error) => Err(error).with_context(|| failed("receiving")),
        }
    }

    fn figures(self) -> impl Iterator<Item = Figure> {
        let far = median(self.far);
        let of = move |direction, values, far_nanos| {
            let (device, way) = (self.device.to_owned(), self.name.clone());
            let frame = self.frame;
            median(values).map(|nanos| Figure { device, direction, frame, way, nanos, far_nanos })
        };
        [of(Direction::Send, self.sent, None), of(Direction::Receive, self.received, far)]
            .into_iter()
            .flatten()
    }
}

/// How long it takes.
fn timed(act: impl FnOnce() -> io::Result<()>) -> io::Result<Duration> {
    let begun = Instant::now();
    act().map(|()| begun.elapsed())
}

/// Measure and print.
pub(crate) fn run(args: &DevicesArgs) -> Result<()> {
    let &[here, there] = args.processors.as_slice() else {
        bail!("--processors takes two numbers")
    };
    pin(here)?;
    enter_namespace()?;
    let mut contenders = tap::all([here, there])?;
    contenders.extend(packet::all()?);
    contenders.retain(|it| it.device.contains(&args.only) || it.name.contains(&args.only));
    for round in 0..=args.rounds {
        for contender in &mut contenders {
            contender.round()?;
            if round == 0 {
                // Pages that are touched for the first time.
                contender.sent.clear();
                contender.received.clear();
                contender.far.clear();
            }
        }
    }
    let figures: Vec<Figure> = contenders.into_iter().flat_map(Contender::figures).collect();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&figures)?);
    } else {
        print!("{}", tables(&figures));
    }
    Ok(())
}

/// A network namespace of our own, in which nothing is said unasked, and the sysfs of it.
fn enter_namespace() -> Result<()> {
    // SAFETY: descriptors stay shared with all threads; only they would be unsafe to part with.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET | UnshareFlags::NEWNS) }
        .context("making a network namespace (needs root)")?;
    sh("mount --make-rprivate / && mount -t sysfs sysfs /sys && \
        for key in all default; do echo 1 > /proc/sys/net/ipv6/conf/$key/disable_ipv6; done; true")
}

fn sh(script: &str) -> Result<()> {
    let output = Command::new("sh").args(["-c", script]).output()?;
    if !output.status.success() {
        bail!("`{script}`: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// As Markdown: a table for each device, direction and kind of frame.
pub(crate) fn tables(figures: &[Figure]) -> String {
    let same = |a: &Figure, b: &Figure| {
        (&a.device, a.direction, a.frame) == (&b.device, b.direction, b.frame)
    };
    let mut heads: Vec<&Figure> = Vec::new();
    for figure in figures {
        if !heads.iter().any(|head| same(head, figure)) {
            heads.push(figure);
        }
    }
    let mut text = String::new();
    for head in heads {
        let (word, far) = match head.direction {
            Direction::Send => ("send", ""),
            Direction::Receive => ("receive", " far end, ns |"),
        };
        text += &format!("\n| {}, {word} {} B | ns | ratio |{far}\n", head.device, head.frame);
        text += &format!("|---|---:|---:|{}\n", if far.is_empty() { "" } else { "---:|" });
        for Figure { way, nanos, far_nanos, .. } in figures.iter().filter(|it| same(it, head)) {
            let far = far_nanos.map(|far| format!(" {far:.0} |")).unwrap_or_default();
            text += &format!("| {way} | {nanos:.0} | {:.2} |{far}\n", nanos / head.nanos);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_to_the_first_way_of_the_same_kind() {
        let figure = |direction, way: &str, nanos, far_nanos| Figure {
            device: "tap".to_owned(),
            direction,
            frame: 1514,
            way: way.to_owned(),
            nanos,
            far_nanos,
        };
        let text = tables(&[
            figure(Direction::Send, "writev", 1000.0, None),
            figure(Direction::Receive, "read", 500.0, Some(700.0)),
            figure(Direction::Send, "two threads", 600.0, None),
        ]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "| tap, send 1514 B | ns | ratio |");
        assert_eq!(lines[3..5], ["| writev | 1000 | 1.00 |", "| two threads | 600 | 0.60 |"]);
        assert_eq!(lines[6], "| tap, receive 1514 B | ns | ratio | far end, ns |");
        assert_eq!(lines[8], "| read | 500 | 1.00 | 700 |");
    }
}
