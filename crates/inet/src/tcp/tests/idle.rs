use super::*;
use crate::Error;

fn keep_alive() -> KeepAlive {
    KeepAlive { idle: secs(100), interval: secs(10), probes: 3 }
}

#[test]
fn an_idle_connection_has_no_timer_and_stays() {
    let mut rig = Rig::established(&plain());
    rig.pass(secs(1_000_000));
    rig.silent();
    assert_eq!(rig.c.poll_at(rig.now), None);
    assert_eq!(rig.c.state(), State::Established);
}

#[test]
fn an_idle_peer_is_probed_and_lives() {
    let mut rig = Rig::established(&TcpConfig { keep_alive: Some(keep_alive()), ..plain() });
    for _ in 0..10 {
        rig.quiet_until(secs(100));
        let probe = rig.sent();
        assert_eq!((rig.rel(&probe), rig.acked(&probe)), (0, 1));
        rig.ack(1, 1);
        rig.silent();
        // The next look is after the interval; it finds that the peer has spoken.
        rig.quiet_until(secs(10));
        rig.silent();
        rig.now += secs(90);
        rig.now = rig.now - secs(100);
        rig.ack(1, 1);
        rig.silent();
        rig.c.set_keep_alive(rig.now, Some(keep_alive()));
    }
}

#[test]
fn a_dead_peer_is_found_out() {
    let mut rig = Rig::established(&plain());
    rig.c.set_keep_alive(rig.now, Some(keep_alive()));
    rig.quiet_until(secs(100));
    rig.sent();
    for _ in 0..2 {
        rig.quiet_until(secs(10));
        rig.sent();
    }
    rig.quiet_until(secs(10));
    // As Linux: should it live after all, it learns.
    assert!(rig.sent().rst);
    rig.silent();
    assert_eq!(rig.c.error(), Some(Error::TimedOut));
    assert!(rig.c.is_done());
}

#[test]
fn traffic_postpones_probes() {
    let mut rig = Rig::established(&TcpConfig { keep_alive: Some(keep_alive()), ..plain() });
    rig.now += secs(60);
    rig.ack(1, 1);
    rig.silent();
    rig.now += secs(40);
    rig.silent();
    rig.quiet_until(secs(60));
    rig.sent();
}

#[test]
fn probes_are_answered() {
    let mut rig = Rig::established(&plain());
    rig.ack(0, 1);
    let ack = rig.sent();
    assert_eq!((rig.rel(&ack), rig.acked(&ack)), (1, 1));
    // With a byte of old data, as some systems do.
    rig.data(0, b"x");
    rig.sent();
    assert_eq!(rig.c.readable_len(), 0);
}

#[test]
fn the_user_timeout_bounds_retransmission() {
    let mut rig = Rig::established(&plain());
    rig.c.set_user_timeout(Some(secs(5)));
    rig.pass(secs(100));
    rig.write(10);
    let start = rig.now;
    while !rig.c.is_done() {
        rig.burst();
        rig.now = rig.c.poll_at(rig.now).unwrap_or(rig.now);
    }
    assert_eq!((rig.now - start, rig.c.error()), (secs(5), Some(Error::TimedOut)));
}

#[test]
fn the_user_timeout_bounds_a_closed_window() {
    let mut rig = Rig::established(&plain());
    rig.c.set_user_timeout(Some(secs(30)));
    rig.write(10);
    rig.burst();
    rig.take(&SegmentRepr { window: 0, ..rig.seg(1, 11) }, b"");
    rig.write(10);
    let start = rig.now;
    while !rig.c.is_done() {
        rig.burst();
        rig.now = rig.c.poll_at(rig.now).unwrap_or(rig.now);
    }
    assert!(rig.now - start >= secs(30) && rig.now - start < secs(60));
}

#[test]
fn the_user_timeout_replaces_the_probe_count() {
    let config = TcpConfig { keep_alive: Some(keep_alive()), ..plain() };
    let mut rig = Rig::established(&TcpConfig { user_timeout: Some(secs(200)), ..config });
    let start = rig.now;
    while !rig.c.is_done() {
        rig.burst();
        rig.now = rig.c.poll_at(rig.now).unwrap_or(rig.now);
    }
    assert_eq!(rig.now - start, secs(200));
}
