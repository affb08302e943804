use super::*;
use crate::tcp::congestion::algorithm::AckSample;

pub(in crate::tcp::congestion) fn window(cwnd: u32) -> CongestionWindow {
    CongestionWindow::new(Instant::ZERO, cwnd, Seq::new(1))
}

pub(in crate::tcp::congestion) fn ack(acked: u32) -> AckSample {
    ack_at(Instant::ZERO, acked)
}

pub(in crate::tcp::congestion) fn ack_at(now: Instant, acked: u32) -> AckSample {
    AckSample { now, acked, in_flight: 0, delivered: acked, interval: Duration::ZERO }
}

const RTO: Duration = Duration::from_millis(200);

/// `packets_out` segments of one byte from `una` on.
fn sent(ms: u64, una: u32, packets_out: u32, limited: bool) -> FlightReport {
    FlightReport {
        now: Instant::from_nanos(ms * 1_000_000),
        una: Seq::new(una),
        nxt: Seq::new(una + packets_out),
        packets_out,
        limited,
        decay_after: Some(RTO),
    }
}

#[test]
fn in_slow_start_using_more_than_half_is_enough() {
    for (out, limited) in [(4, false), (5, false), (6, true), (9, true)] {
        let mut w = window(10);
        w.sent(&sent(0, 1, out, false));
        assert_eq!(w.is_limited(), limited, "{out}");
    }
    let mut w = window(10);
    w.ssthresh = 10;
    w.sent(&sent(0, 1, 9, false));
    assert!(!w.is_limited());
    w.sent(&sent(0, 1, 10, true));
    assert!(w.is_limited());
}

#[test]
fn the_judgement_lasts_for_a_window_of_data() {
    let mut w = window(10);
    w.ssthresh = 10;
    w.sent(&sent(0, 1, 10, true));
    // The rest of the flight is small, but all was in use when 1..11 was sent.
    w.sent(&sent(10, 6, 6, false));
    assert!(w.is_limited());
    w.sent(&sent(20, 11, 2, false));
    assert!(!w.is_limited());
}

#[test]
fn a_window_that_is_not_used_decays_towards_what_is() {
    let mut w = window(10);
    w.cwnd = 40;
    w.ssthresh = 20;
    let mut seen = alloc::vec![];
    for i in 0..40 {
        w.sent(&sent(i * 100, 1 + 8 * i as u32, 8, false));
        if seen.last() != Some(&w.cwnd) {
            seen.push(w.cwnd);
        }
    }
    // Below twice of what is used, slow start may go on: the threshold is 30.
    assert_eq!(seen, [40, 25, 17, 13]);
    assert_eq!(w.ssthresh, 30);
}

#[test]
fn nothing_decays_when_it_may_not() {
    let mut w = window(10);
    w.cwnd = 40;
    w.ssthresh = 20;
    for i in 0..10 {
        w.sent(&FlightReport { decay_after: None, ..sent(i * 500, 1 + i as u32, 1, false) });
    }
    assert_eq!(w.cwnd, 40);
}

#[test]
fn silence_halves_the_window_for_each_timeout() {
    for (ms, cwnd) in [(200, 100), (201, 50), (400, 50), (401, 25), (801, 10), (1 << 50, 10)] {
        let mut w = window(10);
        w.cwnd = 100;
        w.restart(Instant::ZERO, Duration::from_millis(ms), RTO);
        assert_eq!((w.cwnd, w.ssthresh), (cwnd, INFINITE), "{ms}");
    }
    // Not up to the restart window, and the threshold keeps what was known.
    let mut w = window(10);
    (w.cwnd, w.ssthresh) = (4, 2);
    w.restart(Instant::ZERO, RTO * 9, RTO);
    assert_eq!((w.cwnd, w.ssthresh), (4, 3));
}

#[test]
fn avoidance_grows_by_what_was_counted() {
    let mut w = window(10);
    w.avoid(4, 3);
    assert_eq!((w.cwnd, w.cnt), (10, 3));
    // `per` has become smaller than the count.
    w.avoid(2, 1);
    assert_eq!((w.cwnd, w.cnt), (11, 1));
    w.avoid(2, 6);
    assert_eq!((w.cwnd, w.cnt), (14, 1));
    w.clamp = 15;
    w.avoid(1, u32::MAX);
    assert_eq!(w.cwnd, 15);
}
