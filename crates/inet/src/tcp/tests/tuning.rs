//! The receive buffer and the window grow with what is read and what arrives.

use super::*;

/// Segments of 1,000 bytes, a buffer of 64 KiB that may grow to 1 MiB.
fn tuned() -> TcpConfig {
    TcpConfig { window_scaling: true, recv_buffer: 65_536, recv_buffer_max: 2 << 20, ..plain() }
}

/// The edge of the window, from what is acknowledged on.
fn window(rig: &Rig) -> usize {
    rig.c.durable().window_left() as usize
}

/// So many full segments arrive.
fn arrive(rig: &mut Rig, segments: usize, timestamps: Option<Timestamps>) {
    for _ in 0..segments {
        let next = rig.c.durable().rcv_nxt.get().wrapping_sub(rig.irs);
        let una = rig.c.durable().snd_una.get().wrapping_sub(rig.iss);
        let segment = SegmentRepr { timestamps, ..rig.seg(next, una) };
        assert_eq!(rig.take(&segment, &[7; MSS]), SegmentReply::None);
    }
}

/// A peer that fills each window in a round trip of 10 ms, and an application that reads all of it
/// or nothing, `rounds` times.
fn rounds(rig: &mut Rig, rounds: usize, reads: bool) {
    for _ in 0..rounds {
        let segments = window(rig) / MSS;
        arrive(rig, segments, None);
        rig.now += millis(10);
        if reads {
            let got = rig.read().len();
            rig.c.consumed(rig.now, got);
        }
        rig.burst();
    }
}

#[test]
fn the_first_window_is_whole_segments() {
    let mut rig = Rig::connect(&tuned());
    assert_eq!(rig.sent().window, 65_000);
    let mut rig = Rig::connect(&TcpConfig { window_clamp: 4000, ..tuned() });
    assert_eq!(rig.sent().window, 4000);
}

#[test]
fn a_quick_reader_gets_a_larger_buffer() {
    let mut rig = Rig::established(&tuned());
    let first = window(&rig);
    rounds(&mut rig, 3, true);
    assert!(rig.c.recv_buffer() > 65_536 && window(&rig) > first);
    rounds(&mut rig, 20, true);
    assert_eq!(rig.c.recv_buffer(), 1 << 20, "half of recv_buffer_max");
    let info = rig.c.info(rig.now);
    assert!(info.rcv_space as usize > 8 * 65_536 && info.rcv_rtt > 9_000, "{info:?}");
}

#[test]
fn slow_start_is_never_limited_by_the_window() {
    let mut rig = Rig::established(&TcpConfig { timestamps: true, ..tuned() });
    rig.write(1);
    let mut echo = rig.sent_data().0.timestamps.unwrap().value;
    let most = (1 << 20) / MSS;
    // A sender that starts with ten segments, and doubles their number in each round trip.
    for (round, segments) in [10, 20, 40, 80, 160, 320, 640].into_iter().enumerate() {
        assert!(segments < most && window(&rig) >= segments * MSS, "{segments} segments");
        rig.now += millis(25);
        let value = 100 + round as u32;
        arrive(&mut rig, segments, Some(Timestamps { value, echo }));
        let got = rig.read().len();
        rig.c.consumed(rig.now, got);
        echo = rig.sent().timestamps.unwrap().value;
        rig.burst();
    }
}

#[test]
fn a_short_path_gets_twice_what_was_read() {
    let large = TcpConfig { timestamps: true, recv_buffer: 1 << 20, ..tuned() };
    let mut rig = Rig::established(&TcpConfig { recv_buffer_max: 64 << 20, ..large });
    let mut most = 0;
    for _ in 0..12 {
        let arrived = window(&rig) / MSS;
        arrive(&mut rig, arrived, None);
        rig.now += millis(1);
        let got = rig.read().len();
        rig.c.consumed(rig.now, got);
        rig.burst();
        most = most.max(got);
        assert!(rig.c.recv_buffer() <= (1 << 20).max(2 * most + MSS), "{}", rig.c.recv_buffer());
    }
    assert!(rig.c.recv_buffer() > 1 << 20);
}

#[test]
fn a_slow_reader_does_not() {
    let mut rig = Rig::established(&tuned());
    rounds(&mut rig, 20, false);
    assert_eq!(rig.c.recv_buffer(), 65_536);
}

#[test]
fn a_size_that_was_set_stays() {
    let mut rig = Rig::established(&tuned());
    rig.c.set_recv_buffer(rig.now, 100_000);
    rounds(&mut rig, 20, true);
    assert_eq!(rig.c.recv_buffer(), 100_000);
    let off = TcpConfig { moderate_rcvbuf: false, ..tuned() };
    let mut rig = Rig::established(&off);
    rounds(&mut rig, 20, true);
    assert_eq!(rig.c.recv_buffer(), 65_536);
}

#[test]
fn the_owner_grants_what_is_wanted() {
    let mut rig = Rig::established(&TcpConfig { recv_buffer_granted: 80_000, ..tuned() });
    assert_eq!(rig.c.recv_buffer_wanted(), None);
    rounds(&mut rig, 20, true);
    assert_eq!(rig.c.recv_buffer(), 80_000);
    let wanted = rig.c.recv_buffer_wanted().unwrap();
    assert!(wanted > 80_000);
    rig.c.grant_recv_buffer(wanted);
    assert_eq!((rig.c.recv_buffer(), rig.c.recv_buffer_wanted()), (wanted, None));
    rig.c.grant_recv_buffer(10);
    assert_eq!(rig.c.recv_buffer(), wanted);
}

#[test]
fn the_window_opens_with_what_arrives() {
    // A large buffer, and the SYN's 16 bits.
    let large = TcpConfig { recv_buffer: 1 << 20, ..tuned() };
    let mut rig = Rig::established(&large);
    let first = window(&rig);
    assert!(first <= 65_536);
    for i in 0..10 {
        rig.data(1 + i * MSS as u32, &[1; MSS]);
        rig.read();
        rig.c.consumed(rig.now, MSS);
        rig.burst();
    }
    let grown = window(&rig) - first;
    assert!((19 * MSS..=20 * MSS + 512).contains(&grown), "{grown}");
    // Little segments are no reason.
    let before = rig.c.info(rig.now).rcv_ssthresh;
    let seq = rig.c.durable().rcv_nxt.get() - IRS;
    rig.data(seq, &[1; 100]);
    assert_eq!(rig.c.info(rig.now).rcv_ssthresh, before);
}

#[test]
fn a_window_of_less_than_a_segment_opens_again() {
    // The scale's unit leaves less than a segment of it.
    for clamp in [0, 1100] {
        let small = TcpConfig { mss: 1000, recv_buffer: 2048, window_clamp: clamp, ..tuned() };
        let mut rig = Rig::established(&TcpConfig { recv_buffer_max: 64 << 20, ..small });
        assert!(rig.c.durable().rcv_scale >= 10);
        for _ in 0..5 {
            let len = window(&rig).min(MSS);
            assert!(len > 0);
            let seq = rig.c.durable().rcv_nxt.get() - IRS;
            rig.data(seq, &[1; MSS][..len]);
            rig.burst();
            rig.read();
            rig.c.consumed(rig.now, len);
            rig.now += millis(50);
            rig.burst();
        }
    }
}

#[test]
fn an_echo_gives_the_round_trip_time() {
    let mut rig = Rig::established(&TcpConfig { timestamps: true, ..tuned() });
    let mut seq = 1;
    for round in 0..30 {
        rig.write(1);
        let mine = rig.sent_data().0.timestamps.unwrap().value;
        rig.now += millis(25);
        let timestamps = Some(Timestamps { value: 100 + round, echo: mine });
        let segment = SegmentRepr { timestamps, ..rig.seg(seq, 2 + round) };
        rig.take(&segment, &[1; MSS]);
        seq += MSS as u32;
        rig.read();
        rig.c.consumed(rig.now, MSS);
        rig.burst();
    }
    let rtt = rig.c.info(rig.now).rcv_rtt;
    assert!((20_000..=26_000).contains(&rtt), "{rtt}");
}

#[test]
fn sleep_keeps_what_was_learnt() {
    let mut rig = Rig::established(&TcpConfig { recv_buffer_max: 64 << 20, ..tuned() });
    rounds(&mut rig, 3, true);
    let (buffer, before) = (rig.c.recv_buffer(), rig.c.info(rig.now));
    rig.now += secs(3);
    assert!(rig.c.is_idle());
    rig.c = rig.c.to_dormant().to_connection();
    let after = rig.c.info(rig.now);
    assert_eq!(rig.c.recv_buffer(), buffer);
    assert_eq!(
        (after.rcv_ssthresh, after.rcv_space, after.rcv_rtt),
        (before.rcv_ssthresh, before.rcv_space, before.rcv_rtt)
    );
    rounds(&mut rig, 20, true);
    assert!(rig.c.recv_buffer() > buffer);
}
