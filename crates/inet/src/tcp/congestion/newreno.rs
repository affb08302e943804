//! Reno's window of RFC 5681, counting acknowledged segments (RFC 3465).
//!
//! NewReno (RFC 6582) is the way out of recovery; it is the same for every algorithm and not here.
//! Reno halves the window, not the flight (RFC 5681 (4)). An unused window does not grow and decays
//! ([`CongestionWindow::sent`]), as in Linux, so the two stay near enough.

use super::algorithm::{AckSample, Congestion};
use super::window::CongestionWindow;
use crate::Instant;

#[derive(Debug)]
pub(super) struct NewReno;

impl Congestion for NewReno {
    fn ssthresh(&mut self, _now: Instant, window: &CongestionWindow) -> u32 {
        (window.cwnd / 2).max(2)
    }

    fn on_ack(&mut self, window: &mut CongestionWindow, ack: &AckSample) {
        let rest = if window.in_slow_start() { window.slow_start(ack.acked) } else { ack.acked };
        if rest > 0 {
            window.avoid(window.cwnd, rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::congestion::window::tests::{ack, window};

    #[test]
    fn slow_start_doubles_and_avoidance_adds_one_segment_per_window() {
        let mut w = window(10);
        for _ in 0..5 {
            NewReno.on_ack(&mut w, &ack(2));
        }
        assert_eq!(w.cwnd, 20);
        w.ssthresh = NewReno.ssthresh(Instant::ZERO, &w);
        assert_eq!(w.ssthresh, 10);
        w.cwnd = w.ssthresh;
        for _ in 0..9 {
            NewReno.on_ack(&mut w, &ack(1));
        }
        assert_eq!(w.cwnd, 10);
        NewReno.on_ack(&mut w, &ack(1));
        assert_eq!(w.cwnd, 11);
    }

    /// The rest of an ACK after slow start counts for congestion avoidance.
    #[test]
    fn one_ack_can_end_slow_start_and_go_on() {
        let mut w = window(10);
        w.ssthresh = 12;
        NewReno.on_ack(&mut w, &ack(10));
        assert_eq!((w.cwnd, w.cnt), (12, 8));
        NewReno.on_ack(&mut w, &ack(4));
        assert_eq!((w.cwnd, w.cnt), (13, 0));
    }

    #[test]
    fn the_threshold_is_two_at_least() {
        let mut w = window(1);
        assert_eq!(NewReno.ssthresh(Instant::ZERO, &w), 2);
        w.cwnd = 7;
        assert_eq!(NewReno.ssthresh(Instant::ZERO, &w), 3);
    }
}
