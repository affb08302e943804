//! A method to move frames over a device, and the contender that measures it.

use std::io;
use std::process::Command;
use std::time::{Duration, Instant};

use abi::offload::TxOffload;
use anyhow::{Context, Result, bail};
use nic_driver::device::{Device, Part};
use serde::{Deserialize, Serialize};

use super::frames::{Parcel, Places, Source};
use crate::median::median;

/// Where frames go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Direction {
    Send,
    Receive,
}

/// The cost of one way.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DeviceFigure {
    pub(crate) device: String,
    pub(crate) direction: Direction,
    /// Bytes of a frame, without virtio's header.
    pub(crate) frame: usize,
    pub(crate) way: String,
    /// Nanoseconds per frame.
    pub(crate) nanos: f64,
    /// For frames to be received: the time that the far end took to send them.
    pub(super) far_nanos: Option<f64>,
}

/// One way to move frames over one device. Each call returns the time it took, and `Unsupported` if
/// the way does not have that direction.
pub(super) trait Method {
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
pub(super) struct DriverDevice<D> {
    device: D,
    frame: Vec<u8>,
    offload: TxOffload,
    places: Places,
    /// Frames after which it is flushed.
    batch: usize,
}

impl<D: Device> DriverDevice<D> {
    pub(super) fn new(device: D, parcel: &Parcel, batch: usize) -> Self {
        let frame = parcel.bytes(false).to_vec();
        let places = Places::new(frame.len());
        Self { device, frame, offload: parcel.offload(), places, batch }
    }
}

impl<D: Device> Method for DriverDevice<D> {
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

/// A way, and the sender of its frames.
pub(super) struct Contender {
    device: &'static str,
    name: String,
    frame: usize,
    way: Box<dyn Method>,
    source: Source,
    sent: Vec<f64>,
    received: Vec<f64>,
    far: Vec<f64>,
}

impl Contender {
    pub(super) fn new(
        device: &'static str,
        name: impl Into<String>,
        parcel: &Parcel,
        way: impl Method + 'static,
        source: Source,
    ) -> Self {
        let (name, frame, way) = (name.into(), parcel.frame_len(), Box::new(way));
        let [sent, received, far] = [const { Vec::new() }; 3];
        Self { device, name, frame, way, source, sent, received, far }
    }

    /// Whether the device or the method has `text` in its name.
    pub(super) fn is_named(&self, text: &str) -> bool {
        self.device.contains(text) || self.name.contains(text)
    }

    /// Drops all times so far, in which pages were touched for the first time.
    pub(super) fn forget(&mut self) {
        for times in [&mut self.sent, &mut self.received, &mut self.far] {
            times.clear();
        }
    }

    /// One round of both directions.
    pub(super) fn round(&mut self) -> Result<()> {
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

    pub(super) fn figures(self) -> impl Iterator<Item = DeviceFigure> {
        let far = median(self.far);
        let of = move |direction, values, far_nanos| {
            let (device, way) = (self.device.to_owned(), self.name.clone());
            let frame = self.frame;
            median(values).map(|nanos| DeviceFigure {
                device,
                direction,
                frame,
                way,
                nanos,
                far_nanos,
            })
        };
        [of(Direction::Send, self.sent, None), of(Direction::Receive, self.received, far)]
            .into_iter()
            .flatten()
    }
}

/// How long it takes.
pub(super) fn timed(act: impl FnOnce() -> io::Result<()>) -> io::Result<Duration> {
    let begun = Instant::now();
    act().map(|()| begun.elapsed())
}

/// Runs a shell script.
pub(super) fn sh(script: &str) -> Result<()> {
    let output = Command::new("sh").args(["-c", script]).output()?;
    if !output.status.success() {
        bail!("`{script}`: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
