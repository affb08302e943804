//! Faults on purpose: a device around a device that loses, doubles, delays and spoils frames.
//!
//! Each direction has its own stream of random numbers out of one seed (ChaCha8). Each frame draws
//! the same number of them, whatever happens to it. So the fate of the n-th frame of a direction
//! depends on the seed and n alone, and the seed repeats a failing run.
//!
//! Faults are those of a wire. So the device leaves nothing undone for frames: each has its
//! checksums and fits the MTU. With `super_segments` faults are those of a queue before the device.
//! Frames are then as stack and device exchange them, so tens of segments are lost, doubled or late
//! at once. Such frames have no checksum to detect corruption by, so they are never spoilt.
//!
//! A **reordered** frame is held back until 1 to 3 later frames of its direction have passed it. If
//! none follows it stays, and to the ends it is lost until one of them retransmits something.
//!
//! With a **delay** each frame of either direction stays here for that time, as on a long wire. A
//! timer wakes the driver for the oldest. It is set once before a sleep: setting it for each frame
//! cost 20 µs a frame in a virtual machine. A direction whose line is full takes no more frames.

mod delay;

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use abi::control::FaultConfig;
use abi::offload::{Features, RxOffload, TxOffload};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use self::delay::DelayLine;
use crate::device::{Device, Part, Pending, Placed, Received};
use crate::timer::DeviceTimer;

/// Most frames that one direction holds back at a time; one more is let through in order.
const HELD_MOST: usize = 16;
/// Frames to be sent that may wait here for room in the device.
const OUTBOX_MOST: usize = 64;
/// Frames of one direction that may be on their way where there is a delay.
const LINE_MOST: usize = 4096;

/// A device that makes the faults of a [`FaultConfig`].
#[derive(Debug)]
pub struct FaultDevice<D> {
    inner: D,
    none: bool,
    /// Frames are as the device exchanges them.
    whole: bool,
    rx: Direction<RxOffload>,
    tx: Direction<TxOffload>,
    scratch: Vec<u8>,
    /// Of frames on their way, if there is a delay.
    timer: Option<DeviceTimer>,
    /// What the timer is set to.
    alarm: Option<Instant>,
    /// When the oldest frames of both directions were due that [`Device::prepare_sleep`] reported.
    reported: [Option<Instant>; 2],
}

/// A frame with its offload.
type Frame<O> = (Vec<u8>, O);

impl<D: Device> FaultDevice<D> {
    /// The device inside.
    pub(crate) fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    /// Wraps `inner`.
    ///
    /// # Errors
    /// The system's: there is no timer for the delay.
    pub fn new(inner: D, config: FaultConfig) -> io::Result<Self> {
        let (none, whole) = (config.is_none(), config.super_segments);
        let (rx, tx) = (Direction::new(config, 0), Direction::new(config, 1));
        let timer = if config.delay_us > 0 { Some(DeviceTimer::new()?) } else { None };
        Ok(Self {
            inner,
            none,
            whole,
            rx,
            tx,
            scratch: Vec::new(),
            timer,
            alarm: None,
            reported: [None; 2],
        })
    }

    /// Sets the timer for a sleep. `false`: a frame is due that was not when the driver looked.
    ///
    /// A due frame that cannot go on is reported once: it waits for room, which wakes the driver.
    fn set_alarm(&mut self, timer: &DeviceTimer) -> io::Result<bool> {
        let now = Instant::now();
        let oldest = [self.rx.ready.next_due(), self.tx.ready.next_due()];
        let due = oldest.map(|time| time.filter(|time| *time <= now));
        let is_new = (0..2).any(|at| due[at].is_some() && due[at] != self.reported[at]);
        self.reported = due;
        if is_new {
            return Ok(false);
        }
        let next = oldest.into_iter().flatten().filter(|time| *time > now).min();
        if let Some(next) = next.filter(|next| self.alarm != Some(*next)) {
            timer.set(next - now)?;
            self.alarm = Some(next);
        }
        Ok(true)
    }

    /// Passes frames of one of the device's queues on, until one arrives.
    #[cold]
    fn receive_by(
        &mut self,
        receive: impl Fn(&mut D, &mut [u8]) -> io::Result<Option<Received>>,
        into: &mut [u8],
    ) -> io::Result<Option<Received>> {
        self.drain()?;
        loop {
            if let Some((frame, offload)) = self.rx.ready.pop() {
                let len = frame.len().min(into.len());
                into[..len].copy_from_slice(&frame[..len]);
                return Ok(Some(Received { len, offload }));
            }
            let full = self.rx.ready.len() >= LINE_MOST;
            let received = if full { None } else { receive(&mut self.inner, into)? };
            let Some(received) = received else { return Ok(None) };
            let frame = into.get(..received.len).unwrap_or(into).to_vec();
            let offload = if self.whole { received.offload } else { RxOffload::NONE };
            self.rx.pass((frame, offload), offload.segments.is_some());
        }
    }

    /// Sends the waiting frames; `true` when none waits any more.
    fn drain(&mut self) -> io::Result<bool> {
        while let Some(frame) = self.tx.ready.pop() {
            // A frame that the device refuses is gone, like one it took.
            let (bytes, offload) = &frame;
            if !self.inner.transmit(&[Part::local(bytes)], *offload)? {
                self.tx.ready.push_back_to_front(frame);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What is pending, with the frames whose time has come here.
    #[cold]
    fn with_due(&self, inner: Pending) -> Pending {
        Pending {
            receive: inner.receive || self.rx.ready.has_due(),
            transmit: inner.transmit || self.tx.ready.has_due(),
            later: inner.later,
        }
    }

    /// Frames to be sent that may wait here.
    fn outbox_most(&self) -> usize {
        if self.timer.is_some() { LINE_MOST } else { OUTBOX_MOST }
    }
}

impl<D: Device> Device for FaultDevice<D> {
    fn features(&self) -> Features {
        match (self.none, self.whole) {
            (true, _) => self.inner.features(),
            // A frame that is held back has to be copied.
            (false, true) => self.inner.features().without(Features::RX_IN_PLACE),
            (false, false) => Features::NONE,
        }
    }

    fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<Received>> {
        if self.none {
            return self.inner.receive(into);
        }
        self.receive_by(D::receive, into)
    }

    fn receive_unsolicited(&mut self, into: &mut [u8]) -> io::Result<Option<Received>> {
        if self.none {
            return self.inner.receive_unsolicited(into);
        }
        self.receive_by(D::receive_unsolicited, into)
    }

    fn unsolicited_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.unsolicited_fd()
    }

    fn datagrams_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.datagrams_fd()
    }

    fn datagrams_reported(&mut self) {
        self.inner.datagrams_reported();
    }

    fn timer_fd(&self) -> Option<BorrowedFd<'_>> {
        self.timer.as_ref().map(|timer| timer.as_fd())
    }

    fn set_crowded(&mut self, crowded: bool) {
        self.inner.set_crowded(crowded);
    }

    // Where faults are made nothing is received in place: `features` say so.
    fn post(&mut self, at: usize) -> bool {
        self.inner.post(at)
    }

    fn receive_posted(&mut self) -> io::Result<Option<Placed>> {
        self.inner.receive_posted()
    }

    fn look_at(&mut self, frame: &[u8]) -> RxOffload {
        self.inner.look_at(frame)
    }

    fn transmit(&mut self, frame: &[Part<'_>], offload: TxOffload) -> io::Result<bool> {
        if self.none {
            return self.inner.transmit(frame, offload);
        }
        let room = self.drain()? && self.timer.is_none();
        if !room && self.tx.ready.len() >= self.outbox_most() {
            return Ok(false);
        }
        self.scratch.clear();
        for part in frame {
            part.append_to(&mut self.scratch, usize::MAX);
        }
        self.tx.pass((self.scratch.clone(), offload), offload.segments.is_some());
        self.drain()?;
        Ok(true)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }

    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.inner.poll_fd()
    }

    fn room_is_readable(&self) -> bool {
        self.inner.room_is_readable()
    }

    fn prepare_sleep(&mut self, receive: bool) -> bool {
        let Some(timer) = self.timer.take() else { return self.inner.prepare_sleep(receive) };
        let set = self.set_alarm(&timer);
        self.timer = Some(timer);
        // A timer that cannot be set must not end in a sleep without end.
        set.unwrap_or(false) && self.inner.prepare_sleep(receive)
    }

    fn awake(&mut self, ready: bool) {
        self.inner.awake(ready);
    }

    #[inline]
    fn pending(&self) -> Pending {
        let inner = self.inner.pending();
        if self.none { inner } else { self.with_due(inner) }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        if !self.none {
            each("fault.lost", self.rx.lost + self.tx.lost);
            each("fault.lost-super-segments", self.rx.lost_super + self.tx.lost_super);
            each("fault.duplicated", self.rx.duplicated + self.tx.duplicated);
            each("fault.reordered", self.rx.reordered + self.tx.reordered);
            each("fault.corrupted", self.rx.corrupted + self.tx.corrupted);
            each("fault.delayed", self.rx.ready.delayed() + self.tx.ready.delayed());
        }
        self.inner.counters(each);
    }
}

/// The faults of one direction.
#[derive(Debug)]
struct Direction<O> {
    config: FaultConfig,
    rng: ChaCha8Rng,
    /// Frames that go on now.
    ready: DelayLine<Frame<O>>,
    /// Frames held back, with the number of frames that still pass each.
    held: Vec<(u32, Frame<O>)>,
    lost: u64,
    /// Super-segments among them.
    lost_super: u64,
    duplicated: u64,
    reordered: u64,
    corrupted: u64,
}

impl<O: Copy + Default> Direction<O> {
    fn new(config: FaultConfig, stream: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(config.seed);
        rng.set_stream(stream);
        Self {
            config,
            rng,
            ready: DelayLine::new(Duration::from_micros(config.delay_us.into())),
            held: Vec::new(),
            lost: 0,
            lost_super: 0,
            duplicated: 0,
            reordered: 0,
            corrupted: 0,
        }
    }

    /// True with probability `p`; draws exactly one number.
    fn chance(&mut self, p: f64) -> bool {
        // 53 bits, as many as a double holds exactly.
        let unit = (self.rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        unit < p
    }

    /// Decides the fate of a frame and moves it to `ready` or `held`.
    fn pass(&mut self, mut frame: Frame<O>, is_super: bool) {
        let lose = self.chance(self.config.loss);
        let double = self.chance(self.config.duplicate);
        let delay = self.chance(self.config.reorder);
        let spoil = self.chance(self.config.corrupt);
        let (bit, behind) = (self.rng.next_u64(), 1 + self.rng.next_u32() % 3);
        if lose {
            self.lost += 1;
            self.lost_super += u64::from(is_super);
        } else {
            let bytes = &mut frame.0;
            if spoil && !bytes.is_empty() && !self.config.super_segments {
                self.corrupted += 1;
                let bit = bit % (bytes.len() as u64 * 8);
                bytes[usize::try_from(bit / 8).unwrap_or(0)] ^= 1 << (bit % 8);
            }
            if double {
                self.duplicated += 1;
                self.ready.push(frame.clone());
            }
            if delay && self.held.len() < HELD_MOST {
                self.reordered += 1;
                // One more than `behind`: this very frame counts as passing it just below.
                self.held.push((behind + 1, frame));
            } else {
                self.ready.push(frame);
            }
        }
        self.release();
    }

    /// A frame was passed on: held frames that enough frames have overtaken follow it.
    fn release(&mut self) {
        for (left, frame) in &mut self.held {
            *left -= 1;
            if *left == 0 {
                self.ready.push(std::mem::take(frame));
            }
        }
        self.held.retain(|(left, _)| *left > 0);
    }
}

#[cfg(test)]
mod tests;
