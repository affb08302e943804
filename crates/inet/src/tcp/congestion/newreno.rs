//! Reno's window as of RFC 5681 with the initial window of RFC 6928 and byte counting (RFC 3465).
//!
//! Slow start counts all bytes that an ACK covers, not at most two segments: receivers that merge
//! segments before they acknowledge (GRO, and our own batches) would slow it down otherwise. Linux
//! does the same. After a timeout the limit is one segment (RFC 3465 2.3), because such an ACK may
//! cover bytes that left the network long ago.

use super::{Ack, Congestion};
use crate::Instant;

/// Largest window: what window scaling can offer.
const MAX_WINDOW: usize = 1 << 30;

#[derive(Debug)]
pub(crate) struct NewReno {
    mss: usize,
    initial: usize,
    window: usize,
    threshold: usize,
    /// Bytes acknowledged in congestion avoidance since the window last grew.
    counted: usize,
}

impl NewReno {
    /// For segments of `mss` bytes, starting with `initial` bytes.
    pub(crate) fn new(mss: usize, initial: usize) -> Self {
        let initial = initial.max(mss);
        Self { mss, initial, window: initial, threshold: MAX_WINDOW, counted: 0 }
    }

    /// RFC 5681 (4).
    fn halve(&mut self, flight: usize) {
        self.threshold = (flight / 2).max(2 * self.mss);
        self.counted = 0;
    }
}

impl Congestion for NewReno {
    fn window(&self) -> usize {
        self.window
    }

    fn on_ack(&mut self, _now: Instant, ack: Ack) {
        let slow_start = self.window < self.threshold;
        // A window that is not used says nothing about the network and must not grow (RFC 7661 3).
        let used = if slow_start { ack.flight * 2 } else { ack.flight + self.mss };
        if used < self.window {
            return;
        }
        if slow_start {
            let bytes = if ack.after_timeout { ack.bytes.min(self.mss) } else { ack.bytes };
            self.window = (self.window + bytes).min(self.threshold.max(self.window + self.mss));
        } else {
            self.counted += ack.bytes;
            if self.counted >= self.window {
                self.counted -= self.window;
                self.window += self.mss;
            }
        }
        self.window = self.window.min(MAX_WINDOW);
    }

    fn on_loss(&mut self, _now: Instant, flight: usize) {
        self.halve(flight);
        self.window = self.threshold;
    }

    fn on_recovered(&mut self, flight: usize) {
        // RFC 6582 3.2 step 3 full ACK, option 1: no burst.
        self.window = self.threshold.min(flight.max(self.mss) + self.mss);
    }

    fn on_timeout(&mut self, _now: Instant, flight: usize, first: bool) {
        if first {
            self.halve(flight);
        }
        self.window = self.mss;
    }

    fn on_idle(&mut self) {
        self.window = self.window.min(self.initial);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: usize = 1000;

    fn ack(bytes: usize, flight: usize) -> Ack {
        Ack { bytes, flight, after_timeout: false }
    }

    #[test]
    fn slow_start_doubles_and_avoidance_adds_one_segment_per_window() {
        let mut c = NewReno::new(MSS, 10 * MSS);
        for _ in 0..5 {
            c.on_ack(Instant::ZERO, ack(2 * MSS, c.window()));
        }
        assert_eq!(c.window(), 20 * MSS);
        c.on_loss(Instant::ZERO, 20 * MSS);
        c.on_recovered(20 * MSS);
        assert_eq!(c.window(), 10 * MSS);
        for _ in 0..10 {
            c.on_ack(Instant::ZERO, ack(MSS, c.window()));
        }
        assert_eq!(c.window(), 11 * MSS);
    }

    #[test]
    fn an_unused_window_does_not_grow() {
        let mut c = NewReno::new(MSS, 10 * MSS);
        c.on_ack(Instant::ZERO, ack(MSS, 2 * MSS));
        assert_eq!(c.window(), 10 * MSS);
    }

    #[test]
    fn a_timeout_leaves_one_segment_and_halves_only_once() {
        let mut c = NewReno::new(MSS, 10 * MSS);
        c.on_timeout(Instant::ZERO, 20 * MSS, true);
        assert_eq!((c.window(), c.threshold), (MSS, 10 * MSS));
        c.on_timeout(Instant::ZERO, MSS, false);
        assert_eq!((c.window(), c.threshold), (MSS, 10 * MSS));
        c.on_ack(Instant::ZERO, Ack { after_timeout: true, ..ack(5 * MSS, MSS) });
        assert_eq!(c.window(), 2 * MSS);
    }

    #[test]
    fn idleness_and_recovery_never_go_below_a_segment() {
        let mut c = NewReno::new(MSS, 1);
        c.on_idle();
        assert_eq!(c.window(), MSS);
        c.on_loss(Instant::ZERO, 0);
        c.on_recovered(0);
        assert_eq!(c.window(), 2 * MSS);
    }
}
