//! One direction of a link, which delays, loses, duplicates and damages frames.
//!
//! Frames queue for the rate, then travel for delay and jitter. Jitter alone never reorders frames;
//! a frame picked for reordering travels apart. Losses come singly, in outages, and in the bursts
//! of the Gilbert-Elliott model, which has a good and a bad state.

use core::cmp::Reverse;
use core::time::Duration;
use std::collections::BinaryHeap;

use inet::Instant;

use crate::random::Random;

/// The faults of a link. Probabilities are per frame.
#[derive(Debug, Clone)]
pub struct LinkConfig {
    /// Probability that a frame is lost.
    pub loss: f64,
    /// Probability that with this frame a time begins in which all are lost, and its longest
    /// length.
    pub burst: (f64, Duration),
    /// Bursts, if there are any.
    pub gilbert: Option<Gilbert>,
    /// Probability that a frame arrives twice.
    pub duplicate: f64,
    /// Probability that a frame takes longer than those after it.
    pub reorder: f64,
    /// Probability that a bit is flipped.
    pub corrupt: f64,
    /// Time of travel.
    pub delay: Duration,
    /// Most time that is added to it.
    pub jitter: Duration,
    /// Bits per second; 0 for no limit.
    pub rate: u64,
    /// Longest queue for the rate, bytes; more is lost.
    pub queue: u64,
    /// When nothing comes through.
    pub blackouts: Vec<(Instant, Instant)>,
    /// The longest IP packet that gets through, in bytes, and the times of its changes. The router
    /// in front of the link applies it ([`World`](crate::World)), not the link.
    pub limits: Vec<(Instant, usize)>,
}

/// The model of Gilbert and Elliott; probabilities for each frame.
#[derive(Debug, Clone, Copy)]
pub struct Gilbert {
    /// That the line becomes bad.
    pub enter: f64,
    /// That the bad line becomes good.
    pub leave: f64,
    /// That the bad line loses a frame.
    pub loss: f64,
}

impl Gilbert {
    /// The share of frames that is lost in the long run.
    pub fn mean_loss(&self) -> f64 {
        self.loss * self.enter / (self.enter + self.leave)
    }
}

impl LinkConfig {
    /// A link without faults.
    pub fn perfect(delay: Duration, rate: u64) -> Self {
        Self {
            loss: 0.0,
            burst: (0.0, Duration::ZERO),
            gilbert: None,
            duplicate: 0.0,
            reorder: 0.0,
            corrupt: 0.0,
            delay,
            jitter: Duration::ZERO,
            rate,
            queue: u64::MAX,
            blackouts: Vec::new(),
            limits: Vec::new(),
        }
    }

    /// Probability that a frame does not arrive as it was sent, but for outages, blackouts and full
    /// queues.
    pub fn total_loss(&self) -> f64 {
        let bursts = self.gilbert.map_or(0.0, |gilbert| gilbert.mean_loss());
        1.0 - (1.0 - self.loss) * (1.0 - self.corrupt) * (1.0 - bursts)
    }
}

/// The fate of one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkOutcome {
    /// It will arrive.
    Carried,
    /// It will not.
    Lost,
    /// It will not: its packet is longer than this.
    TooBig(usize),
    /// It will arrive twice.
    Duplicated,
    /// It will arrive with a bit flipped.
    Damaged,
    /// It will arrive late.
    Late,
}

/// One direction of a link.
#[derive(Debug)]
pub struct Link {
    config: LinkConfig,
    random: Random,
    /// From this offset on, a frame's bytes are protected by a checksum, and may be damaged.
    checksummed_from: usize,
    under_way: BinaryHeap<Reverse<(Instant, u64, Vec<u8>)>>,
    count: u64,
    /// When the line is free.
    free_at: Instant,
    /// The latest arrival of a frame in order.
    last_arrival: Instant,
    burst_end: Instant,
    /// The line is in its bad state.
    bad: bool,
}

impl Link {
    /// A link. Bits before `checksummed_from` have no checksum. A frame that would be damaged there
    /// is lost instead, because a real link's own check would drop it.
    pub fn new(config: LinkConfig, checksummed_from: usize, random: Random) -> Self {
        Self {
            config,
            random,
            checksummed_from,
            under_way: BinaryHeap::new(),
            count: 0,
            free_at: Instant::ZERO,
            last_arrival: Instant::ZERO,
            burst_end: Instant::ZERO,
            bad: false,
        }
    }

    /// The longest IP packet that comes through now, bytes.
    pub fn limit(&self, now: Instant) -> Option<usize> {
        self.config.limits.iter().rfind(|(from, _)| *from <= now).map(|(_, limit)| *limit)
    }

    /// Sends a frame.
    pub fn send(&mut self, now: Instant, mut frame: Vec<u8>) -> LinkOutcome {
        let Some(departure) = self.depart(now, frame.len() as u64) else {
            return LinkOutcome::Lost;
        };
        if self.burst_loses() {
            return LinkOutcome::Lost;
        }
        let config = &self.config;
        let dark = |at: Instant| config.blackouts.iter().any(|(from, to)| *from <= at && at < *to);
        if self.random.chance(config.burst.0) {
            self.burst_end = departure + config.burst.1.mul_f64(self.random.fraction());
        }
        if departure < self.burst_end {
            return LinkOutcome::Lost;
        }
        if dark(departure) || self.random.chance(config.loss) {
            return LinkOutcome::Lost;
        }
        let jitter = config.jitter.mul_f64(self.random.fraction());
        let mut arrival = departure + config.delay + jitter;
        let mut outcome = LinkOutcome::Carried;
        if self.random.chance(config.corrupt) {
            let bits = frame.len() * 8;
            let bit = self.random.in_range(0..=bits as u64 - 1) as usize;
            // ARP has no checksum above the link's, so damage is loss.
            let arp = self.checksummed_from > 0 && frame.get(12..14) == Some(&[8, 6]);
            if arp || bit / 8 < self.checksummed_from {
                return LinkOutcome::Lost;
            }
            frame[bit / 8] ^= 1 << (bit % 8);
            outcome = LinkOutcome::Damaged;
        }
        if self.random.chance(self.config.duplicate) {
            let later = self.config.delay.mul_f64(self.random.fraction());
            self.carry(arrival + later, frame.clone());
            outcome = LinkOutcome::Duplicated;
        }
        if self.random.chance(self.config.reorder) {
            let late =
                (self.config.delay + Duration::from_micros(100)).mul_f64(self.random.fraction());
            arrival += late;
            outcome = LinkOutcome::Late;
        } else {
            arrival = arrival.max(self.last_arrival);
            self.last_arrival = arrival;
        }
        self.carry(arrival, frame);
        outcome
    }

    /// Advances the state of the burst-loss model. True if a frame is lost by it.
    fn burst_loses(&mut self) -> bool {
        let Some(Gilbert { enter, leave, loss }) = self.config.gilbert else { return false };
        let changes = self.random.chance(if self.bad { leave } else { enter });
        self.bad ^= changes;
        self.bad && self.random.chance(loss)
    }

    /// When the last bit of a frame has left; `None` if it finds the queue full.
    fn depart(&mut self, now: Instant, len: u64) -> Option<Instant> {
        if self.config.rate == 0 {
            return Some(now);
        }
        let start = self.free_at.max(now);
        let queued = (start - now).as_nanos() as u64 / 8 * self.config.rate / 1_000_000_000;
        if queued > self.config.queue {
            return None;
        }
        self.free_at = start + Duration::from_nanos(len * 8 * 1_000_000_000 / self.config.rate);
        Some(self.free_at)
    }

    fn carry(&mut self, arrival: Instant, frame: Vec<u8>) {
        self.count += 1;
        self.under_way.push(Reverse((arrival, self.count, frame)));
    }

    /// When the next frame arrives.
    pub fn next_arrival(&self) -> Option<Instant> {
        self.under_way.peek().map(|Reverse((at, _, _))| *at)
    }

    /// A frame that has arrived by `now`.
    pub fn receive(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.next_arrival()? > now {
            return None;
        }
        self.under_way.pop().map(|Reverse((_, _, frame))| frame)
    }
}
