//! Probing of the path's MTU (RFC 4821), and paths that swallow long packets.

use super::*;

/// Packets of 552 bytes are known to arrive, those of 1040 may.
fn probing() -> TcpConfig {
    TcpConfig { mtu_probing: 2, base_mss: 512, initial_window: 20, ..plain() }
}

#[test]
fn what_arrives_is_the_new_length() {
    let mut rig = Rig::established(&probing());
    assert_eq!(rig.c.send_mss(), 512);
    rig.write(4000);
    // Half way between 552 and 1040, then the usual ones.
    let sent = rig.burst();
    assert_eq!(sent[..3], [(1, 756), (757, 512), (1269, 512)]);
    let window = rig.c.congestion_window();
    rig.ack(1, 757);
    assert_eq!(rig.c.send_mss(), 756);
    // The window's bytes stay as they are, in fewer segments.
    assert!(rig.c.congestion_window() <= window + 2 * 756);
    rig.ack(1, 4001);
    rig.write(6000);
    assert_eq!(rig.burst()[0], (4001, 878));
    let stats = rig.c.take_stats();
    assert_eq!((stats.mtu_probes, stats.mtu_probe_successes), (2, 1));
}

#[test]
fn one_probe_at_a_time_and_none_with_little_to_send() {
    let mut rig = Rig::established(&probing());
    // A probe and four segments, so that its loss would show, or none.
    rig.write(756 + 4 * 512 - 1);
    assert_eq!(rig.burst()[0], (1, 512));
    rig.ack(1, 2804);
    rig.write(9000);
    let long = rig.burst().iter().filter(|(_, len)| *len > 512).count();
    assert_eq!(long, 1);
}

#[test]
fn a_lost_probe_is_no_congestion() {
    let mut rig = Rig::established(&probing());
    rig.write(4000);
    assert_eq!(rig.burst()[0], (1, 756));
    let window = rig.c.congestion_window();
    for _ in 0..3 {
        rig.ack(1, 1);
    }
    assert_eq!(rig.burst(), [(1, 512), (513, 244)]);
    assert!(rig.c.congestion_window() >= window);
    let stats = rig.c.take_stats();
    assert_eq!((stats.mtu_probe_failures, stats.fast_recoveries), (1, 0));
    // Without SACK the repair is over when something behind it is acknowledged.
    rig.ack(1, 4001);
    rig.write(512);
    assert_eq!(rig.burst(), [(4001, 512)]);
    rig.ack(1, 4513);
    // The next one is shorter: half way between 552 and 795.
    rig.write(6000);
    assert_eq!(rig.burst()[0], (4513, 633));
}

#[test]
fn a_timeout_says_nothing_about_a_probe() {
    let mut rig = Rig::established(&probing());
    rig.write(4000);
    assert_eq!(rig.burst()[0], (1, 756));
    rig.pass(secs(2));
    // All is retransmitted, in usual segments.
    assert_eq!(rig.burst(), [(1, 512)]);
    rig.ack(1, 4001);
    assert_eq!(rig.c.send_mss(), 512);
    let stats = rig.c.take_stats();
    assert_eq!((stats.mtu_probe_failures, stats.mtu_probe_successes), (0, 0));
}

#[test]
fn the_search_ends_and_begins_anew() {
    let config = TcpConfig { probe_interval: secs(100), ..probing() };
    let mut rig = Rig::established(&config);
    let mut next = 1;
    let mut round = |rig: &mut Rig| {
        rig.write(8000);
        let longest = rig.burst().iter().map(|(_, len)| *len).max();
        next += 8000;
        rig.ack(1, next);
        longest.unwrap()
    };
    for _ in 0..20 {
        round(&mut rig);
    }
    let probes = rig.c.take_stats().mtu_probes;
    assert!((4..12).contains(&probes), "{probes}");
    let (settled, longest) = (rig.c.send_mss(), MSS);
    assert!(settled < longest && longest - settled < 8, "{settled}");
    assert_eq!(round(&mut rig), settled);
    // A router tells of less, and after a while there may be more.
    rig.c.handle_too_big(rig.now, 900);
    assert_eq!(rig.c.send_mss(), 860);
    rig.now += secs(101);
    round(&mut rig);
    assert_eq!((rig.c.take_stats().mtu_probes, rig.c.send_mss()), (0, 860));
}

/// RFC 2923 2.1: after the fourth timeout for the same data.
#[test]
fn a_black_hole_makes_segments_short() {
    let config = TcpConfig { mtu_probing: 1, base_mss: 512, mtu_probe_floor: 300, ..plain() };
    let mut rig = Rig::established(&config);
    rig.write(3 * MSS);
    rig.burst();
    let mut lengths = Vec::new();
    for _ in 0..6 {
        let at = rig.c.poll_at(rig.now).unwrap();
        rig.now = at;
        lengths.push(rig.burst()[0].1);
    }
    assert_eq!(lengths, [MSS, MSS, MSS, 512, 300, 300]);
    assert_eq!(rig.c.take_stats().black_holes, 2);
    // What gets through is the beginning of a search.
    rig.ack(1, 301);
    assert!(rig.burst().iter().all(|(_, len)| *len <= 300));
}

#[test]
fn without_the_setting_segments_stay_long() {
    let mut rig = Rig::established(&plain());
    rig.write(3 * MSS);
    rig.burst();
    for _ in 0..6 {
        rig.now = rig.c.poll_at(rig.now).unwrap();
        assert_eq!(rig.burst()[0].1, MSS);
    }
}
