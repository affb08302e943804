use super::*;
use crate::Error;

const M: u32 = MSS as u32;

/// A connection with `n` full segments in flight, none acknowledged.
fn in_flight(n: u32) -> Rig {
    let mut rig = Rig::established(&TcpConfig { initial_window: n as u8, ..plain() });
    rig.write(n as usize * MSS);
    assert_eq!(rig.burst().len(), n as usize);
    rig
}

fn duplicates(rig: &mut Rig, ack: u32, n: usize) {
    for _ in 0..n {
        rig.ack(1, ack);
    }
}

#[test]
fn timeouts_double_and_give_up_after_the_limit() {
    let mut rig = in_flight(1);
    // The handshake took 10 ms; see `rtt` for the least margin.
    let mut wait = millis(210);
    for _ in 0..15 {
        rig.quiet_until(wait);
        assert_eq!(rig.burst(), [(1, MSS)]);
        wait = (wait * 2).min(secs(120));
    }
    rig.quiet_until(wait);
    rig.silent();
    assert_eq!(rig.c.error(), Some(Error::TimedOut));
    assert_eq!((rig.c.take_stats().timeouts, rig.c.take_stats().timeouts), (15, 0));
}

#[test]
fn the_networks_complaint_is_why_it_timed_out() {
    let mut rig = in_flight(1);
    rig.c.handle_unreachable(Error::NetUnreachable);
    while !rig.c.is_done() {
        rig.burst();
        rig.now = rig.c.poll_at(rig.now).unwrap_or(rig.now);
    }
    assert_eq!(rig.c.error(), Some(Error::NetUnreachable));
}

#[test]
fn after_a_timeout_sending_goes_back_and_starts_slowly() {
    let mut rig = in_flight(8);
    rig.quiet_until(millis(210));
    assert_eq!(rig.burst(), [(1, MSS)]);
    rig.ack(1, 1 + M);
    assert_eq!(rig.burst(), [(1 + M, MSS), (1 + 2 * M, MSS)]);
    // Only the first was lost: the ACK jumps over what is not retransmitted yet. Slow start goes on
    // to the threshold of 4; the rest of the ACK is worth one more.
    rig.ack(1, 1 + 8 * M);
    assert_eq!(rig.c.acked(), 8 * MSS as u64);
    rig.write(10 * MSS);
    assert_eq!(rig.burst().len(), 5);
}

#[test]
fn backed_off_timeouts_stay_until_a_sample() {
    let mut rig = in_flight(1);
    rig.quiet_until(millis(210));
    rig.burst();
    rig.quiet_until(millis(420));
    rig.burst();
    // Karn: this ACK is of one of three.
    rig.ack(1, 1 + M);
    rig.write(MSS);
    rig.burst();
    rig.quiet_until(millis(840));
    rig.burst();
    rig.ack(1, 1 + 2 * M);
    rig.write(MSS);
    rig.burst();
    rig.now += millis(10);
    rig.ack(1, 1 + 3 * M);
    rig.write(MSS);
    rig.burst();
    rig.silent();
    assert!(rig.c.poll_at(rig.now).unwrap() - rig.now < millis(220));
}

/// Without timestamps: after three doublings nobody takes the ACK for one of the first segment's.
#[test]
fn a_timeout_backed_off_far_is_not_kept() {
    let mut rig = in_flight(2);
    for wait in [210, 420, 840, 1680] {
        rig.quiet_until(millis(wait));
        assert_eq!(rig.burst(), [(1, MSS)]);
    }
    rig.now += millis(10);
    rig.ack(1, 1 + M);
    assert_eq!(rig.burst(), [(1 + M, MSS)]);
    assert!(rig.c.poll_at(rig.now).unwrap() - rig.now <= millis(210));
}

#[test]
fn every_ack_of_something_new_restarts_the_timer() {
    let mut rig = in_flight(3);
    rig.pass(millis(200));
    rig.ack(1, 1 + M);
    rig.pass(millis(200));
    rig.silent();
    assert_eq!(rig.c.take_stats().timeouts, 0);
}

#[test]
fn three_duplicates_cause_a_fast_retransmit() {
    let mut rig = in_flight(8);
    duplicates(&mut rig, 1, 2);
    rig.silent();
    duplicates(&mut rig, 1, 1);
    assert_eq!(rig.burst(), [(1, MSS)]);
    // More than the threshold of 4 is in flight: one for each second duplicate.
    rig.write(10 * MSS);
    rig.silent();
    duplicates(&mut rig, 1, 1);
    rig.silent();
    duplicates(&mut rig, 1, 1);
    assert_eq!(rig.burst(), [(1 + 8 * M, MSS)]);
    duplicates(&mut rig, 1, 1);
    assert_eq!(rig.burst(), [(1 + 9 * M, MSS)]);
    // The full ACK leaves the threshold's window.
    rig.ack(1, 1 + 8 * M);
    assert_eq!(rig.burst().len(), 2);
    assert_eq!(rig.c.take_stats().fast_recoveries, 1);
}

#[test]
fn limited_transmit_sends_new_data_for_the_first_two() {
    let mut rig = in_flight(4);
    rig.write(5 * MSS);
    rig.silent();
    duplicates(&mut rig, 1, 1);
    assert_eq!(rig.burst(), [(1 + 4 * M, MSS)]);
    duplicates(&mut rig, 1, 1);
    assert_eq!(rig.burst(), [(1 + 5 * M, MSS)]);
    duplicates(&mut rig, 1, 1);
    assert_eq!(rig.burst(), [(1, MSS)]);
}

#[test]
fn partial_acks_repair_one_loss_each() {
    let mut rig = in_flight(8);
    duplicates(&mut rig, 1, 5);
    assert_eq!(rig.burst(), [(1, MSS)]);
    rig.pass(millis(10));
    rig.ack(1, 1 + 3 * M);
    assert_eq!(rig.burst(), [(1 + 3 * M, MSS)]);
    rig.pass(millis(10));
    rig.ack(1, 1 + 6 * M);
    assert_eq!(rig.burst(), [(1 + 6 * M, MSS)]);
    rig.ack(1, 1 + 8 * M);
    rig.silent();
    assert_eq!(rig.c.poll_at(rig.now), None);
    let stats = rig.c.take_stats();
    assert_eq!((stats.timeouts, stats.retransmits, stats.fast_recoveries), (0, 3, 1));
}

#[test]
fn every_partial_ack_restarts_the_timer() {
    let mut rig = in_flight(8);
    duplicates(&mut rig, 1, 3);
    rig.burst();
    rig.pass(millis(150));
    rig.ack(1, 1 + M);
    rig.burst();
    rig.pass(millis(150));
    rig.ack(1, 1 + 2 * M);
    rig.burst();
    rig.quiet_until(millis(210));
    assert_eq!(rig.burst(), [(1 + 2 * M, MSS)]);
    assert_eq!(rig.c.take_stats().timeouts, 1);
}

#[test]
fn duplicates_of_a_timeouts_retransmissions_are_no_loss() {
    let mut rig = in_flight(8);
    rig.quiet_until(millis(210));
    rig.burst();
    rig.ack(1, 1 + 2 * M);
    rig.burst();
    duplicates(&mut rig, 1 + 2 * M, 5);
    assert_eq!(rig.c.take_stats().fast_recoveries, 0);
    rig.ack(1, 1 + 8 * M);
    rig.burst();
    duplicates(&mut rig, 1 + 8 * M, 5);
    assert_eq!(rig.c.take_stats().fast_recoveries, 0);
}

/// RFC 6582 3.2 step 1 and 6: duplicates of what ended a recovery may be of its own
/// retransmissions.
#[test]
fn a_recovery_begins_only_when_more_than_the_last_one_is_acknowledged() {
    let mut rig = in_flight(8);
    duplicates(&mut rig, 1, 3);
    rig.burst();
    rig.ack(1, 1 + 8 * M);
    rig.write(20 * MSS);
    assert_eq!(rig.burst().len(), 4);
    duplicates(&mut rig, 1 + 8 * M, 3);
    rig.burst();
    assert_eq!(rig.c.take_stats().fast_recoveries, 1);
    rig.ack(1, 1 + 9 * M);
    rig.burst();
    duplicates(&mut rig, 1 + 9 * M, 3);
    assert!(rig.burst().contains(&(1 + 9 * M, MSS)));
    assert_eq!(rig.c.take_stats().fast_recoveries, 1);
}

/// RFC 5681 2: what is no duplicate ACK.
#[test]
fn only_bare_acks_of_the_same_window_are_duplicates() {
    let mut rig = in_flight(8);
    for i in 0..5 {
        rig.take(&SegmentRepr { window: 50_000 - i, ..rig.seg(1 + u32::from(i), 1) }, b"");
    }
    for i in 0..5 {
        rig.data(1 + i, b"x");
    }
    rig.c.poll_segment(rig.now);
    assert_eq!(rig.c.take_stats().fast_recoveries, 0);
    let mut rig = Rig::established(&plain());
    duplicates(&mut rig, 1, 5);
    assert_eq!(rig.c.take_stats().duplicate_acks, 0);
}

#[test]
fn a_peer_that_invents_duplicates_gains_no_more_than_the_flight() {
    let mut rig = in_flight(8);
    rig.write(200 * MSS);
    duplicates(&mut rig, 1, 500);
    assert!(rig.burst().len() <= 16);
}

#[test]
fn a_lost_segment_is_sent_with_the_fin_that_it_had() {
    let mut rig = Rig::established(&plain());
    rig.write(5 * MSS);
    rig.c.shutdown_write(rig.now);
    rig.burst();
    rig.ack(1, 1 + 4 * M);
    rig.silent();
    rig.now = rig.c.poll_at(rig.now).unwrap();
    let (again, body) = rig.sent_data();
    assert!(again.fin && body.len() == MSS);
}

#[test]
fn progress_resets_the_retry_count() {
    let mut rig = in_flight(2);
    for _ in 0..14 {
        rig.now = rig.c.poll_at(rig.now).unwrap();
        rig.burst();
    }
    rig.ack(1, 1 + M);
    rig.burst();
    for _ in 0..14 {
        rig.now = rig.c.poll_at(rig.now).unwrap();
        rig.burst();
    }
    assert_eq!(rig.c.error(), None);
}

#[test]
fn an_idle_connection_starts_slowly_again() {
    let mut rig = Rig::established(&plain());
    for i in 0..6_u32 {
        rig.write(10 * MSS);
        rig.burst();
        rig.now += millis(10);
        rig.ack(1, 1 + (i + 1) * 10 * M);
        rig.burst();
    }
    assert!(rig.c.congestion_window() > 15 * MSS);
    rig.now += secs(5);
    rig.write(30 * MSS);
    assert_eq!(rig.burst().len(), 10);
}
