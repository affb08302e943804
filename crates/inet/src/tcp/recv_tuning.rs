//! Growth of the receive window and buffer: Dynamic Right-Sizing, as Linux does it.
//!
//! Two bounds grow.
//!
//! * The *threshold* (Linux: `rcv_ssthresh`) bounds the window within the buffer. It starts with
//!   the window of the SYN and grows by two segments for each full one that arrives. So the window
//!   opens no faster than the peer's slow start can use it.
//! * The *buffer* grows to twice the bytes that the application has read in one round trip, since a
//!   sender in slow start may double that in the next; over long paths to more ([`growth_after`]).
//!   The span of pieces out of order comes on top: they take room and cannot be read. The buffer
//!   never gets smaller. `recv_buffer_max` and the owner's grant bound it.
//!
//! The round-trip time is the receiver's own estimate, as a side that only receives has no other.
//! Echoed timestamps give smoothed samples. The time in which a whole window arrives gives others,
//! of which the shortest counts: a window may take longer than a round trip, never less.

use core::time::Duration;

use super::config::TcpConfig;
use super::durable::{self, Durable};
use super::recv_queue::ReceiveQueue;
use super::segment::SegmentRepr;
use super::seq::Seq;
use super::timestamps;
use crate::Instant;

/// Segments of one round trip from which counting starts (Linux: TCP_INIT_CWND).
const FIRST_SEGMENTS: u32 = 10;

/// Payload below which a segment says nothing about the peer's capability, bytes.
const LEAST_PAYLOAD: usize = 128;

/// The estimate counts eighths of a microsecond.
const EIGHTHS: u32 = 8;

/// Round-trip time from which a path is long: a window that is late costs the sender a part of it.
const LONG_PATH: Duration = Duration::from_millis(5);

/// Longest sample, microseconds: more than a minute says nothing about a path.
const LONGEST: u32 = 60_000_000;

/// Learnt values: the part of tuning that a dormant connection retains.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LearntTuning {
    /// Bound of the window within the buffer, bytes.
    threshold: u32,
    /// Round-trip time, eighths of a microsecond; 0 while unknown.
    rtt: u32,
    /// Most that was read in one round trip, bytes.
    space: u32,
}

/// Bytes of window beyond twice `read`, the bytes that the application has read in one round trip
/// of `rtt`. The best one before it had `before`.
///
/// A sender in slow start doubles its rate in each round trip, and this count is one round trip
/// late: twice `read` is under way already when the new window reaches the peer. So over a long
/// path the growth comes on top, twice, as Linux has it: a peer that has doubled gets six times
/// `read`, a steady one twice.
///
/// A short path has no such growth. There a late window costs some milliseconds once, and a larger
/// one fills with bytes that wait: more than a few hundred frames exceed what a server may lend to
/// a program, and it copies the rest.
fn growth_after(read: u32, before: u32, rtt: Duration) -> usize {
    if rtt < LONG_PATH {
        return 0;
    }
    let growth = u64::from(read.saturating_sub(before));
    let bytes = (4 * u64::from(read)).saturating_mul(growth) / u64::from(before.max(1));
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

impl LearntTuning {
    /// The round-trip time, if known.
    #[inline]
    fn rtt(&self) -> Option<Duration> {
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

/// Receive buffer tuning of one connection.
#[derive(Debug, Default)]
pub(super) struct BufferTuner {
    learnt: LearntTuning,
    /// Size that the buffer should have, bytes.
    wanted: usize,
    /// How far it may grow, bytes.
    granted: usize,
    /// The echo that gave the last sample.
    echo: u32,
    /// A window that is being timed: where it ends, and since when.
    window: Option<(Seq, Instant)>,
    /// The round trip in which reads are counted: bytes read before it, and its start.
    round: Option<(u64, Instant)>,
}

impl BufferTuner {
    pub(super) fn new(granted: usize) -> Self {
        Self { granted, ..Self::default() }
    }

    /// Resumes a dormant connection with a buffer of `granted` bytes or more. The application has
    /// read `read` bytes until then.
    pub(super) fn resume(&mut self, now: Instant, learnt: LearntTuning, read: u64, granted: usize) {
        self.learnt = learnt;
        self.granted = self.granted.max(granted);
        self.round = Some((read, now));
    }

    /// The learnt values.
    pub(super) fn learnt(&self) -> LearntTuning {
        self.learnt
    }

    /// Bound of the window within the buffer, bytes.
    #[inline]
    pub(super) fn threshold(&self) -> u32 {
        self.learnt.threshold
    }

    /// The bound is `bytes` at least.
    pub(super) fn raise_threshold(&mut self, bytes: u32) {
        self.learnt.threshold = self.learnt.threshold.max(bytes);
    }

    /// The round-trip time, if known.
    #[inline]
    pub(super) fn rtt(&self) -> Option<Duration> {
        self.learnt.rtt()
    }

    /// Most that was read in one round trip, bytes.
    pub(super) fn space(&self) -> u32 {
        self.learnt.space
    }

    /// The handshake is over, and a window has been offered; `read` bytes were read until now.
    pub(super) fn established(&mut self, now: Instant, durable: &Durable, read: u64) {
        let offered = durable.window_left();
        let first = FIRST_SEGMENTS * u32::from(durable.rcv_mss);
        self.raise_threshold(offered);
        self.learnt.space = first.min(offered);
        self.round = Some((read, now));
    }

    /// A segment with `len` bytes of payload has arrived: it may give a round-trip time, and
    /// the window may grow.
    #[inline]
    pub(super) fn on_arrival<R>(
        &mut self,
        now: Instant,
        durable: &Durable,
        config: &TcpConfig,
        queue: &mut ReceiveQueue<R>,
        (segment, len): (&SegmentRepr, usize),
    ) {
        self.time_window(now, durable);
        if len >= queue.segment() {
            self.time_echo(now, durable, segment);
        }
        if len < LEAST_PAYLOAD {
            return;
        }
        let room = queue.free().min(config.most_window());
        let threshold = self.learnt.threshold as usize;
        let step = 2 * len.max(usize::from(durable.rcv_mss));
        if threshold < room {
            let grown = u32::try_from(room.min(threshold + step)).unwrap_or(u32::MAX);
            self.learnt.threshold = grown;
        }
        if queue.has_out_of_order() {
            self.grow_buffer(0, durable, config, queue);
        }
    }

    /// Measures the time that the peer takes to fill a window.
    fn time_window(&mut self, now: Instant, durable: &Durable) {
        let next = durable.rcv_nxt;
        if let Some((end, since)) = self.window {
            if next.before(end) {
                return;
            }
            self.learnt.lower(micros(now - since).max(1));
        }
        self.window = Some((next + durable.window_left(), now));
    }

    /// Measures by the echo of a full segment. Each echo counts once, because all segments of a
    /// burst have the same.
    fn time_echo(&mut self, now: Instant, durable: &Durable, segment: &SegmentRepr) {
        let Some(timestamps) = segment.timestamps else { return };
        let echo = timestamps.echo;
        if !durable.has(durable::TIMESTAMPS) || echo == 0 || echo == self.echo {
            return;
        }
        self.echo = echo;
        // A time below the clock's unit measures nothing. An echo from the future is not of this
        // side.
        let millis = timestamps::millis_since(durable, now, echo).filter(|millis| *millis > 0);
        if let Some(millis) = millis {
            self.learnt.smooth(millis.saturating_mul(1000));
        }
    }

    /// The application has read `read` bytes in all: once in each round trip the buffer may grow.
    #[inline]
    pub(super) fn on_read<R>(
        &mut self,
        now: Instant,
        durable: &Durable,
        config: &TcpConfig,
        queue: &mut ReceiveQueue<R>,
    ) {
        let (Some((before, since)), Some(rtt)) = (self.round, self.learnt.rtt()) else { return };
        if now - since < rtt {
            return;
        }
        let read = queue.read_of(durable.received);
        let here = u32::try_from(read.saturating_sub(before)).unwrap_or(u32::MAX);
        if here > self.learnt.space {
            let before = core::mem::replace(&mut self.learnt.space, here);
            self.grow_buffer(growth_after(here, before, rtt), durable, config, queue);
        }
        self.round = Some((read, now));
    }

    /// The buffer grows to hold twice what was read, `growth` bytes, and what has arrived out of
    /// order.
    fn grow_buffer<R>(
        &mut self,
        growth: usize,
        durable: &Durable,
        config: &TcpConfig,
        queue: &mut ReceiveQueue<R>,
    ) {
        if !config.moderate_rcvbuf {
            return;
        }
        let span = queue.out_of_order_span(durable.rcv_nxt) as usize;
        let twice = (self.learnt.space as usize).saturating_mul(2);
        let wanted = twice.saturating_add(growth).saturating_add(span);
        self.wanted = self.wanted.max(wanted.min(config.recv_buffer_max / 2));
        self.use_grant(queue);
    }

    fn use_grant<R>(&self, queue: &mut ReceiveQueue<R>) {
        let size = self.wanted.min(self.granted);
        if size > queue.buffer() {
            queue.set_buffer(size);
        }
    }

    /// The buffer may grow up to `bytes`.
    pub(super) fn grant<R>(&mut self, bytes: usize, queue: &mut ReceiveQueue<R>) {
        self.granted = self.granted.max(bytes);
        self.use_grant(queue);
    }

    /// Size that the buffer should have, bytes, if that is more than its `size` of now.
    pub(super) fn wanted_beyond(&self, size: usize) -> Option<usize> {
        Some(self.wanted).filter(|wanted| *wanted > size)
    }
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_has_no_overflow() {
        assert_eq!(growth_after(2000, 1000, LONG_PATH), 8000);
        assert_eq!(growth_after(1000, 1000, LONG_PATH), 0);
        assert_eq!(growth_after(2000, 1000, LONG_PATH / 2), 0);
        assert!(growth_after(u32::MAX, 0, LONG_PATH) > 1 << 60);
    }
}
