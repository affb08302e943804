//! How far ahead of the application the peer may send: Dynamic Right-Sizing, as Linux does it.
//!
//! Two bounds grow. The *threshold* (Linux: `rcv_ssthresh`) bounds the window within the buffer: it
//! starts with the window of the SYN and grows by two segments for each full one that arrives, so
//! the window opens no faster than the peer's slow start can use it. The *buffer* grows to twice
//! what the application has read in one round trip, since a sender in slow start may double that in
//! the next, and to what has come early on top, which is not readable and yet takes room; it never
//! gets smaller. Its bounds are `recv_buffer_max` and what the owner has granted.
//!
//! The round-trip time is the receiver's own estimate, as a side that only receives has no other:
//! from echoed timestamps, smoothed, and from how long a whole window takes to arrive, of which the
//! shortest counts (a window may always take longer than a round trip, never less).

use core::time::Duration;

use super::connection::Connection;
use super::{SegmentRepr, Seq, durable};
use crate::{Instant, RxBytes, TxBytes};

/// Segments of one round trip from which counting starts (Linux: TCP_INIT_CWND).
const FIRST_SEGMENTS: u32 = 10;

/// Payload below which a segment says nothing about what the peer could send, bytes.
const LEAST_PAYLOAD: usize = 128;

/// The estimate counts eighths of a microsecond.
const EIGHTHS: u32 = 8;

/// Longest sample, microseconds: more than a minute says nothing about a path.
const LONGEST: u32 = 60_000_000;

/// What is kept of a connection asleep.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tuned {
    /// Bound of the window within the buffer, bytes.
    pub(super) threshold: u32,
    /// Round-trip time, eighths of a microsecond; 0 while unknown.
    rtt: u32,
    /// Most that was read in one round trip, bytes.
    pub(super) space: u32,
}

impl Tuned {
    /// The round-trip time, if it is known.
    pub(super) fn rtt(&self) -> Option<Duration> {
        (self.rtt > 0).then(|| Duration::from_micros(u64::from(self.rtt / EIGHTHS).max(1)))
    }

    /// A sample out of an echoed timestamp: smoothed as RFC 6298 2.3 does.
    fn smooth(&mut self, sample: u32) {
        let sample = sample.min(LONGEST);
        self.rtt = match self.rtt {
            0 => sample * EIGHTHS,
            rtt => rtt - rtt / EIGHTHS + sample,
        };
    }

    /// A sample that may be too long: the least counts.
    fn lower(&mut self, sample: u32) {
        let sample = sample.min(LONGEST) * EIGHTHS;
        self.rtt = if self.rtt == 0 { sample } else { self.rtt.min(sample) };
    }
}

#[derive(Debug, Default)]
pub(super) struct Tuner {
    pub(super) kept: Tuned,
    /// Size that the buffer should have, bytes.
    wanted: usize,
    /// How far it may grow, bytes.
    granted: usize,
    /// The echo that gave the last sample.
    echo: u32,
    /// A window that is being timed: where it ends, and since when.
    window: Option<(Seq, Instant)>,
    /// A round trip whose reading is being counted: bytes read before it, and since when.
    round: Option<(u64, Instant)>,
}

impl Tuner {
    pub(super) fn new(granted: usize) -> Self {
        Self { granted, ..Self::default() }
    }

    /// Goes on after sleep, with a buffer of `granted` bytes or more.
    pub(super) fn resume(&mut self, now: Instant, kept: Tuned, read: u64, buffer: usize) {
        self.kept = kept;
        self.granted = self.granted.max(buffer);
        self.round = Some((read, now));
    }
}

impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// The handshake is over, and a window has been offered.
    pub(super) fn start_tuning(&mut self, now: Instant) {
        let offered = self.durable.window_left();
        let first = FIRST_SEGMENTS * u32::from(self.durable.rcv_mss);
        let kept = &mut self.tuner.kept;
        kept.threshold = kept.threshold.max(offered);
        kept.space = first.min(offered);
        self.tuner.round = Some((self.read(), now));
    }

    /// Payload bytes that the application has consumed.
    fn read(&self) -> u64 {
        self.durable.received.saturating_sub(self.recv.unconsumed() as u64)
    }

    /// A segment with `len` bytes of payload has arrived: it may tell the round-trip time, and the
    /// window may grow.
    pub(super) fn tune_arrival(&mut self, now: Instant, segment: &SegmentRepr, len: usize) {
        self.time_window(now);
        if len >= self.recv.segment() {
            self.time_echo(now, segment);
        }
        if len < LEAST_PAYLOAD {
            return;
        }
        let room = self.recv.free().min(self.window_clamp());
        let threshold = self.tuner.kept.threshold as usize;
        let step = 2 * len.max(usize::from(self.durable.rcv_mss));
        if threshold < room {
            let grown = u32::try_from(room.min(threshold + step)).unwrap_or(u32::MAX);
            self.tuner.kept.threshold = grown;
        }
        if self.recv.has_early() {
            self.grow_buffer();
        }
    }

    /// Times how long the peer takes to fill a window.
    fn time_window(&mut self, now: Instant) {
        let next = self.durable.rcv_nxt;
        if let Some((end, since)) = self.tuner.window {
            if next.before(end) {
                return;
            }
            self.tuner.kept.lower(micros(now - since).max(1));
        }
        self.tuner.window = Some((next + self.durable.window_left(), now));
    }

    /// Takes the echo of a full segment; each only once, since a burst echoes the same.
    fn time_echo(&mut self, now: Instant, segment: &SegmentRepr) {
        let Some(timestamps) = segment.timestamps else { return };
        let echo = timestamps.echo;
        if !self.durable.has(durable::TIMESTAMPS) || echo == 0 || echo == self.tuner.echo {
            return;
        }
        self.tuner.echo = echo;
        // Less than the clock's unit says nothing, and what is from the future is not ours.
        let age = self.timestamp(now).wrapping_sub(echo).cast_signed();
        if let Some(millis) = u32::try_from(age).ok().filter(|millis| *millis > 0) {
            self.tuner.kept.smooth(millis.saturating_mul(1000));
        }
    }

    /// The application has consumed something: once in each round trip the buffer may grow.
    pub(super) fn tune_reading(&mut self, now: Instant) {
        let (Some((before, since)), Some(rtt)) = (self.tuner.round, self.tuner.kept.rtt()) else {
            return;
        };
        if now - since < rtt {
            return;
        }
        let read = self.read();
        let here = u32::try_from(read.saturating_sub(before)).unwrap_or(u32::MAX);
        if here > self.tuner.kept.space {
            self.tuner.kept.space = here;
            self.grow_buffer();
        }
        self.tuner.round = Some((read, now));
    }

    fn grow_buffer(&mut self) {
        if !self.config.moderate_rcvbuf {
            return;
        }
        let early = self.recv.early_span(self.durable.rcv_nxt) as usize;
        let wanted = (self.tuner.kept.space as usize).saturating_mul(2).saturating_add(early);
        self.tuner.wanted = self.tuner.wanted.max(wanted.min(self.config.recv_buffer_max / 2));
        self.use_grant();
    }

    fn use_grant(&mut self) {
        let size = self.tuner.wanted.min(self.tuner.granted);
        if size > self.recv.buffer() {
            self.recv.set_buffer(size);
        }
    }

    /// The size that the receive buffer should have by what the application reads, if it has less
    /// because its owner has not [granted](Self::grant_recv_buffer) more; bytes.
    pub fn recv_buffer_wanted(&self) -> Option<usize> {
        Some(self.tuner.wanted).filter(|wanted| *wanted > self.recv.buffer())
    }

    /// Lets the receive buffer grow by itself up to `bytes`. A buffer never gets smaller by this.
    pub fn grant_recv_buffer(&mut self, bytes: usize) {
        self.tuner.granted = self.tuner.granted.max(bytes);
        self.use_grant();
        self.offer_window();
    }

    /// Size of the receive buffer, bytes of payload.
    pub fn recv_buffer(&self) -> usize {
        self.recv.buffer()
    }
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}
