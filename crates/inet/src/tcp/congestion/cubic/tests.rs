use super::super::window::tests::{ack_at, window};
use super::*;

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

/// In congestion avoidance at `cwnd` after a loss at `w_max`.
fn avoiding(cwnd: u32, w_max: u32) -> (Cubic, CongestionWindow) {
    let mut w = window(cwnd);
    w.ssthresh = cwnd;
    let mut c = Cubic::new(at(0), Seq::new(1));
    c.w_max = w_max;
    c.prior = w_max;
    (c, w)
}

/// Acknowledges a whole window every `rtt` ms for `time` ms: the window after each round trip.
fn run(
    c: &mut Cubic,
    w: &mut CongestionWindow,
    from: u64,
    rtt: u64,
    time: u64,
) -> alloc::vec::Vec<u32> {
    let mut seen = alloc::vec![];
    let mut now = from;
    while now < from + time {
        let cwnd = w.cwnd;
        for i in 0..cwnd {
            c.on_ack(w, &ack_at(at(now + u64::from(i) * rtt / u64::from(cwnd)), 1));
        }
        now += rtt;
        seen.push(w.cwnd);
    }
    seen
}

#[test]
fn the_cube_root_is_exact() {
    for n in [0, 1, 7, 8, 26, 27, 999, 1000, 1 << 30, (1 << 30) - 1] {
        let root = cube_root(n);
        assert!(root.pow(3) <= n && (root + 1).pow(3) > n, "{n}");
    }
    assert_eq!(cube_root(u64::MAX), 2_642_245);
    assert_eq!(cube_root(2_642_245_u64.pow(3) - 1), 2_642_244);
}

/// RFC 9438 (2): with a loss at 1000 segments, K = cbrt(300 / 0.4) = 9.09 s.
#[test]
fn the_window_is_back_where_it_was_after_k() {
    let (mut c, mut w) = avoiding(700, 1000);
    let seen = run(&mut c, &mut w, 0, 100, 8_000);
    assert!((990..=1000).contains(&w.cwnd), "{}", w.cwnd);
    // Concave: the first half of the time does most of it.
    assert!(seen[39] > 920, "{}", seen[39]);
    run(&mut c, &mut w, 8_000, 100, 2_000);
    assert!((999..1002).contains(&w.cwnd), "{}", w.cwnd);
    // Convex: 0.4 * 5^3 = 50 more, 5 s after K.
    run(&mut c, &mut w, 10_000, 100, 4_100);
    assert!((1045..1056).contains(&w.cwnd), "{}", w.cwnd);
}

/// RFC 9438 4.2: at most half a window per round trip, however long it has been.
#[test]
fn growth_is_bounded() {
    let (mut c, mut w) = avoiding(20, 1000);
    c.on_ack(&mut w, &ack_at(at(0), 1));
    assert_eq!(c.per(at(3_600_000), 20, 1), 2);
    assert_eq!(c.per(at(u64::MAX / 4_000_000), 1, 1), 2);
}

/// RFC 9438 4.3: on a short path the function would be far too slow.
#[test]
fn it_is_never_slower_than_reno_would_be() {
    let (mut c, mut w) = avoiding(70, 100);
    let seen = run(&mut c, &mut w, 0, 2, 200);
    // alpha = 0.53 segments per round trip up to the window of the loss, in 57 round trips; then
    // one.
    assert!((80..=86).contains(&seen[24]), "{}", seen[24]);
    let quick = seen[99] - seen[74];
    assert!((20..=25).contains(&quick), "{quick}");
    assert!(w.cwnd > 125, "{}", w.cwnd);
}

#[test]
fn before_any_loss_a_twentieth_of_a_window_is_the_least() {
    let (mut c, mut w) = avoiding(100, 0);
    let seen = run(&mut c, &mut w, 0, 100, 300);
    assert!((104..=106).contains(&seen[0]), "{}", seen[0]);
}

/// RFC 9438 4.6, 4.7.
#[test]
fn a_loss_takes_three_tenths_and_a_second_one_gives_way() {
    let (mut c, mut w) = avoiding(100, 0);
    assert_eq!((c.ssthresh(at(0), &w), c.w_max), (70, 100));
    w.cwnd = 90;
    assert_eq!((c.ssthresh(at(0), &w), c.w_max), (63, 76));
    w.cwnd = 76;
    assert_eq!((c.ssthresh(at(0), &w), c.w_max), (53, 76));
    w.cwnd = 1;
    assert_eq!(c.ssthresh(at(0), &w), 2);
    w.cwnd = u32::MAX;
    assert_eq!(c.ssthresh(at(0), &w), 3_007_315_967);
}

/// RFC 9438 5.8.
#[test]
fn silence_earns_no_growth() {
    let (mut c, mut w) = avoiding(70, 100);
    c.on_ack(&mut w, &ack_at(at(0), 1));
    let before = c.per(at(100), 70, 1);
    c.on_event(&mut w, at(60_100), CongestionEvent::TxStart { idle: Duration::from_secs(60) });
    let after = c.per(at(60_133), 70, 1);
    assert!(before.abs_diff(after) <= 1, "{before} {after}");
}

/// RFC 9438 4.8.
#[test]
fn a_timeout_forgets_the_function() {
    let (mut c, mut w) = avoiding(100, 200);
    w.ssthresh = c.ssthresh(at(0), &w);
    c.on_event(&mut w, at(0), CongestionEvent::Loss { nxt: Seq::new(1) });
    w.cwnd = 1;
    assert_eq!((w.ssthresh, c.w_max, c.prior), (70, 0, 100));
    let seen = run(&mut c, &mut w, 1000, 100, 700);
    assert_eq!(seen[..6], [2, 4, 8, 16, 32, 64]);
    assert_eq!(c.epoch.as_ref().map(|epoch| (epoch.k, epoch.origin)), Some((0, 70)));
}

#[test]
fn hystart_ends_slow_start_and_is_quiet_after_a_loss() {
    let (mut c, mut w) = avoiding(20, 0);
    w.ssthresh = super::super::window::INFINITE;
    let sample = |now: u64, rtt: u64| RttSample {
        now: at(now),
        rtt: Duration::from_millis(rtt),
        una: Seq::new(1),
        nxt: Seq::new(100),
        mss: 1000,
    };
    c.on_rtt(&mut w, &sample(0, 100));
    for i in 1..9 {
        assert!(w.in_slow_start());
        c.on_rtt(&mut w, &sample(i * 10, 130));
    }
    assert!(w.in_slow_start());
    let mut c = Cubic::new(at(0), Seq::new(1));
    c.on_rtt(&mut w, &sample(0, 100));
    c.hystart = HyStart::new(at(0), Seq::new(1000));
    for i in 1..=9 {
        c.on_rtt(&mut w, &sample(i * 10, 130));
    }
    assert_eq!((w.ssthresh, c.prior), (20, 20));
    // The queue that caused the loss does not tell of the path.
    c.ssthresh(at(100), &w);
    c.on_ack(&mut w, &ack_at(at(100), 1));
    c.on_rtt(&mut w, &sample(600, 10));
    assert_eq!(c.floor, Some(Duration::from_millis(100)));
    c.on_rtt(&mut w, &sample(1100, 10));
    assert_eq!(c.floor, Some(Duration::from_millis(10)));
}
