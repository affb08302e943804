//! HyStart: leaving slow start before it overflows the path's queue.
//!
//! A round is the time in which one window of data is acknowledged. Slow start ends when a round
//! shows that the path is full, in one of two ways (RFC 9438 4.10):
//!
//! * *delay*: the least of the round's first eight round-trip times and all after them exceeds the
//!   path's least by an eighth of that, 4 to 16 ms. RFC 9406 compares with the round before instead
//!   and goes on growing slowly for five rounds; this is the older rule, as in Linux.
//! * *ACK train*: the ACKs of a round, no more than 2 ms apart from each other, span half of the
//!   path's least time: the window fills the path.

use core::time::Duration;

use super::algorithm::RttSample;
use super::window::CongestionWindow;
use crate::Instant;
use crate::tcp::seq::Seq;

/// Windows below this are never enough (RFC 9406 4.3: no need to pick an exit).
const LOW_WINDOW: u32 = 16;

/// Samples of a round before its least counts.
const MIN_SAMPLES: u8 = 8;

const MIN_THRESHOLD: Duration = Duration::from_millis(4);
const MAX_THRESHOLD: Duration = Duration::from_millis(16);

/// ACKs further apart than this are no train.
const TRAIN_GAP: Duration = Duration::from_millis(2);

/// The time of a burst of this length on the path delays an ACK without meaning anything.
const BURST: u64 = 4 * 65536;
const MAX_BURST_TIME: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct HyStart {
    /// Slow start was ended once: never again before a timeout.
    found: bool,
    /// When the round began, and its last ACK of a train.
    began: Instant,
    last: Instant,
    /// End of the data of this round.
    end: Seq,
    least: Duration,
    samples: u8,
}

impl HyStart {
    pub(super) fn new(now: Instant, nxt: Seq) -> Self {
        Self { found: false, began: now, last: now, end: nxt, least: Duration::MAX, samples: 0 }
    }

    /// Handles an ACK in slow start on a path whose least round-trip time is `floor`. True if slow
    /// start should end.
    pub(super) fn on_rtt(
        &mut self,
        w: &CongestionWindow,
        sample: &RttSample,
        floor: Duration,
    ) -> bool {
        if self.found {
            return false;
        }
        if sample.una.after(self.end) {
            *self = Self::new(sample.now, sample.nxt);
        }
        if w.cwnd >= LOW_WINDOW {
            self.found = self.train(w, sample, floor) | self.delay(sample.rtt, floor);
        }
        self.found
    }

    fn train(&mut self, window: &CongestionWindow, sample: &RttSample, floor: Duration) -> bool {
        if sample.now - self.last > TRAIN_GAP {
            return false;
        }
        self.last = sample.now;
        // The rate of two windows each round trip.
        let flight = 2 * u64::from(window.cwnd) * u64::from(sample.mss.max(1));
        let micros = u64::try_from(floor.as_micros()).unwrap_or(u64::MAX);
        let burst = Duration::from_micros(BURST.saturating_mul(micros) / flight.max(1));
        sample.now - self.began > (floor + burst.min(MAX_BURST_TIME)) / 2
    }

    fn delay(&mut self, rtt: Duration, floor: Duration) -> bool {
        self.least = self.least.min(rtt);
        if self.samples < MIN_SAMPLES {
            self.samples += 1;
            return false;
        }
        self.least > floor + (floor / 8).clamp(MIN_THRESHOLD, MAX_THRESHOLD)
    }
}

#[cfg(test)]
mod tests {
    use super::super::window::tests::window;
    use super::*;

    const FLOOR: Duration = Duration::from_millis(100);

    /// One round of ACKs of a segment each, `gap` apart, with the times `rtts` (ms): after how many
    /// slow start ends.
    fn round(cwnd: u32, gap: Duration, rtts: &[u64]) -> Option<usize> {
        let w = window(cwnd);
        let mut now = Instant::ZERO;
        let mut hystart = HyStart::new(now, Seq::new(1000));
        for (i, rtt) in rtts.iter().enumerate() {
            now += gap;
            let rtt = Duration::from_millis(*rtt);
            let una = Seq::new(2 + i as u32);
            let sample = RttSample { now, rtt, una, nxt: Seq::new(1000), mss: 1000 };
            if hystart.on_rtt(&w, &sample, FLOOR) {
                return Some(i + 1);
            }
        }
        None
    }

    #[test]
    fn delay_counts_from_the_ninth_sample_of_a_round() {
        let gap = Duration::from_millis(3);
        assert_eq!(round(16, gap, &[113; 20]), Some(9));
        assert_eq!(round(16, gap, &[112; 20]), None);
        assert_eq!(round(15, gap, &[500; 20]), None);
        // One that is not late is enough to stay.
        let mut rtts = [150; 20];
        rtts[3] = 101;
        assert_eq!(round(16, gap, &rtts), None);
        // Even if it is the ninth.
        let mut rtts = [150; 20];
        rtts[8] = 101;
        assert_eq!(round(16, gap, &rtts), None);
    }

    #[test]
    fn a_train_of_half_the_floor_fills_the_path() {
        // (100 ms + 1 ms) / 2.
        assert_eq!(round(16, Duration::from_millis(2), &[100; 40]), Some(26));
        assert_eq!(round(16, Duration::from_millis(3), &[100; 40]), None);
    }

    #[test]
    fn a_new_round_begins_with_what_was_sent_in_the_last() {
        let w = window(20);
        let mut hystart = HyStart::new(Instant::ZERO, Seq::new(10));
        let sample = |ms: u64, una: u32| RttSample {
            now: Instant::from_nanos(ms * 1_000_000),
            rtt: Duration::from_millis(150),
            una: Seq::new(una),
            nxt: Seq::new(una + 20),
            mss: 1000,
        };
        for i in 0..8 {
            assert!(!hystart.on_rtt(&w, &sample(u64::from(i) * 10, 3 + i), FLOOR));
        }
        // The ninth sample is the first of the next round.
        assert!(!hystart.on_rtt(&w, &sample(100, 11), FLOOR));
        assert_eq!((hystart.samples, hystart.end), (1, Seq::new(31)));
    }
}
