//! Windows that a connection goes through. The numbers are those that Linux shows for the same
//! segments.

use super::*;
use crate::tcp::congestion::INFINITE;

/// Segments of 1000 bytes, a handshake of 10 ms, and the default algorithm.
fn cubic() -> TcpConfig {
    TcpConfig { congestion_control: CongestionKind::Cubic, ..plain() }
}

fn established(config: &TcpConfig) -> Rig {
    let mut rig = Rig::established(config);
    // A peer that never limits.
    rig.take(&SegmentRepr { window: u16::MAX, ..rig.seg(1, 1) }, b"");
    rig.silent();
    rig
}

impl Rig {
    fn cwnd(&self) -> u32 {
        self.c.congestion().cwnd()
    }

    fn ssthresh(&self) -> u32 {
        self.c.congestion().ssthresh()
    }

    /// After `ms`, the first `segments` are acknowledged; how many leave then.
    fn ack_after(&mut self, ms: u64, segments: u32) -> usize {
        self.now += millis(ms);
        let ack = 1 + segments * MSS as u32;
        self.take(&SegmentRepr { window: u16::MAX, ..self.seg(1, ack) }, b"");
        self.burst().len()
    }
}

/// Every ACK lets out what it covers and as much again, however many segments that is.
#[test]
fn slow_start_doubles_whatever_the_acks_cover() {
    for config in [cubic(), plain()] {
        for per_ack in [1, 2, 5, 10] {
            let mut rig = established(&config);
            rig.write(30 * MSS);
            assert_eq!(rig.burst().len(), 10);
            for i in 1..=10 / per_ack {
                let ms = if i == 1 { 100 } else { 5 };
                assert_eq!(rig.ack_after(ms, i * per_ack), 2 * per_ack as usize);
            }
            assert_eq!(rig.cwnd(), 20);
        }
    }
}

/// Splitting ACKs gains nothing (RFC 5681 3.1 and 5, RFC 3465 2).
#[test]
fn a_segment_counts_once() {
    let mut rig = established(&cubic());
    rig.write(50 * MSS);
    assert_eq!(rig.burst().len(), 10);
    rig.now += millis(100);
    for ack in (101..=1001).step_by(100) {
        rig.ack(1, ack);
        assert_eq!(rig.cwnd(), if ack == 1001 { 11 } else { 10 });
    }
}

#[test]
fn less_than_half_of_the_window_makes_it_no_larger() {
    let cases: [(usize, &[u32]); 4] = [
        (5, &[10, 10, 10]),
        (6, &[12, 12, 12]),
        (9, &[12, 14, 16, 18, 18]),
        (10, &[12, 14, 16, 18, 20]),
    ];
    for (sent, windows) in cases {
        let mut rig = established(&cubic());
        rig.write(sent * MSS);
        assert_eq!(rig.burst().len(), sent);
        for (i, cwnd) in windows.iter().enumerate() {
            let acked = (2 * (i + 1)).min(sent);
            rig.ack_after(if i == 0 { 100 } else { 5 }, acked as u32);
            assert_eq!(rig.cwnd(), *cwnd, "{sent} {i}");
        }
    }
}

#[test]
fn a_silent_connection_starts_from_the_initial_window() {
    for decays in [true, false] {
        let mut rig = established(&TcpConfig { slow_start_after_idle: decays, ..cubic() });
        rig.write(26 * MSS);
        rig.burst();
        assert_eq!((rig.ack_after(100, 10), rig.cwnd()), (16, 20));
        rig.ack_after(100, 26);
        assert_eq!(rig.cwnd(), 36);
        rig.now += secs(2);
        rig.write(20 * MSS);
        let (sent, cwnd) = if decays { (10, 10) } else { (20, 36) };
        assert_eq!((rig.burst().len(), rig.cwnd()), (sent, cwnd));
        assert_eq!(rig.ssthresh(), INFINITE);
    }
}

/// The same when it was the peer's window that was closed.
#[test]
fn a_window_that_opens_late_does_not_let_out_a_burst() {
    let mut rig = established(&cubic());
    rig.write(26 * MSS);
    rig.burst();
    rig.ack_after(100, 10);
    rig.now += millis(100);
    let ack = 1 + 26 * MSS as u32;
    rig.take(&SegmentRepr { window: 0, ..rig.seg(1, ack) }, b"");
    rig.write(20 * MSS);
    rig.silent();
    for _ in 0..3 {
        rig.now = rig.c.poll_at(rig.now).expect("a probe");
        assert_eq!(rig.sent().seq, Seq::new(ISS) + ack - 1);
        rig.silent();
        assert_eq!(rig.cwnd(), 36);
    }
    assert_eq!(rig.ack_after(900, 26), 10);
}

/// A reduction for a timeout, slow start up to seven tenths of the window, then a segment for each
/// 16: that is where Reno's estimate has caught up.
#[test]
fn cubic_after_a_timeout() {
    let mut rig = established(&cubic());
    rig.write(MSS);
    rig.burst();
    rig.ack_after(100, 1);
    assert_eq!(rig.cwnd(), 10);
    rig.write(MSS);
    rig.burst();
    // Without SACK there is no tail loss probe; the second timeout takes nothing more.
    for _ in 0..2 {
        rig.now = rig.c.poll_at(rig.now).expect("a timer");
        assert_eq!(rig.burst(), [(1 + MSS as u32, MSS)]);
    }
    rig.ack_after(100, 2);
    assert_eq!((rig.cwnd(), rig.ssthresh()), (2, 7));
    rig.write(200 * MSS);
    assert_eq!(rig.burst().len(), 2);
    for (i, ms) in [100, 2, 98, 2, 2].into_iter().enumerate() {
        assert_eq!(rig.ack_after(ms, 3 + i as u32), 2);
        assert_eq!(rig.cwnd(), 3 + i as u32);
    }
    let pauses = [2, 98, 2, 2, 2, 2, 2, 2, 98, 2, 2, 2, 2, 2, 2];
    for (i, ms) in pauses.into_iter().enumerate() {
        assert_eq!(rig.ack_after(ms, 8 + i as u32), 1);
        assert_eq!(rig.cwnd(), 7, "{i}");
    }
    assert_eq!((rig.ack_after(98, 23), rig.cwnd()), (2, 8));
}

#[test]
fn a_loss_costs_cubic_three_tenths_and_reno_half() {
    for (config, threshold) in [(cubic(), 7), (plain(), 5)] {
        let mut rig = established(&config);
        rig.write(10 * MSS);
        rig.burst();
        rig.now += millis(100);
        for _ in 0..3 {
            rig.take(&SegmentRepr { window: u16::MAX, ..rig.seg(1, 1) }, b"");
        }
        assert_eq!(rig.burst()[0], (1, MSS));
        assert_eq!((rig.ssthresh(), rig.c.congestion().prior_cwnd()), (threshold, 10));
    }
}

/// TCP_CONGESTION on a live connection changes neither window nor threshold.
#[test]
fn the_algorithm_can_be_changed() {
    let mut rig = established(&cubic());
    rig.write(20 * MSS);
    rig.burst();
    rig.ack_after(100, 10);
    rig.c.set_congestion_control(rig.now, CongestionKind::Reno);
    assert_eq!((rig.cwnd(), rig.ssthresh()), (20, INFINITE));
    rig.now = rig.c.poll_at(rig.now).expect("a timer");
    rig.burst();
    assert_eq!(rig.ssthresh(), 10);
    // Before the handshake is over it waits for that.
    let mut rig = Rig::connect(&cubic());
    rig.sent();
    rig.c.set_congestion_control(rig.now, CongestionKind::Reno);
    rig.take(&SegmentRepr { syn: true, mss: Some(MSS as u16), ..rig.seg(0, 1) }, b"");
    rig.write(10 * MSS);
    rig.burst();
    rig.now = rig.c.poll_at(rig.now).expect("a timer");
    rig.burst();
    assert_eq!(rig.ssthresh(), 5);
}

/// An application that sends a little all the time keeps its window, as on Linux.
#[test]
fn a_window_that_is_not_used_stays_while_acks_come() {
    let mut rig = established(&cubic());
    rig.write(60 * MSS);
    rig.burst();
    rig.ack_after(10, 10);
    rig.ack_after(10, 30);
    assert_eq!((rig.ack_after(10, 60), rig.cwnd()), (0, 70));
    for i in 0..20 {
        rig.write(MSS);
        rig.burst();
        rig.ack_after(100, 61 + i);
    }
    assert_eq!((rig.cwnd(), rig.ssthresh()), (70, INFINITE));
}
