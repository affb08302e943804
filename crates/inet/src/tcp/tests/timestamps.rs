use super::*;

const SECOND: u64 = 1_000_000_000;

fn stamped() -> TcpConfig {
    TcpConfig { timestamps: true, timestamp_offset: 77, ..plain() }
}

fn with(segment: SegmentRepr, value: u32, echo: u32) -> SegmentRepr {
    SegmentRepr { timestamps: Some(Timestamps { value, echo }), ..segment }
}

/// What the connection's clock shows.
fn clock(rig: &Rig) -> u32 {
    (rig.now.as_nanos() / (SECOND / 1000)) as u32 + 77
}

#[test]
fn every_segment_has_timestamps() {
    let mut rig = Rig::established(&stamped());
    rig.write(3 * MSS);
    let (segment, body) = rig.sent_data();
    assert_eq!(body.len(), MSS - 12);
    let stamp = segment.timestamps.unwrap();
    assert_eq!((stamp.value, stamp.echo), (clock(&rig), 1));
}

/// RFC 7323 4.3: with delayed ACKs the earliest is echoed; a segment behind a gap is not.
#[test]
fn the_right_timestamp_is_echoed() {
    let mut rig = Rig::established(&stamped());
    rig.take(&with(rig.seg(1, 1), 10, 0), &[1; 100]);
    rig.take(&with(rig.seg(101, 1), 20, 0), &[1; 100]);
    rig.pass(millis(40));
    assert_eq!(rig.sent().timestamps.unwrap().echo, 10);
    rig.take(&with(rig.seg(301, 1), 40, 0), &[1; 100]);
    assert_eq!(rig.sent().timestamps.unwrap().echo, 10);
    rig.take(&with(rig.seg(201, 1), 30, 0), &[1; 100]);
    assert_eq!(rig.sent().timestamps.unwrap().echo, 30);
}

/// RFC 7323 5.3.
#[test]
fn old_segments_are_refused() {
    let mut rig = Rig::established(&stamped());
    rig.take(&with(rig.seg(1, 1), 1000, 0), &[1; 100]);
    rig.pass(millis(40));
    rig.sent();
    rig.take(&with(rig.seg(101, 1), 999, 0), &[2; 100]);
    assert_eq!(rig.read(), [1; 100]);
    let ack = rig.sent();
    assert_eq!(rig.acked(&ack), 101);
    assert_eq!(rig.c.take_stats().old_timestamps, 1);
    // After 24 days the last timestamp says nothing any more.
    rig.now += secs(24 * 24 * 3600);
    rig.take(&with(rig.seg(101, 1), 999, 0), &[2; 100]);
    assert_eq!(rig.read(), [2; 100]);
}

#[test]
fn timestamps_wrap() {
    let mut rig = Rig::established(&stamped());
    let mut seq = 1;
    for value in [0x7000_0000, 0xe000_0000, 0x5000_0000] {
        rig.take(&with(rig.seg(seq, 1), value, 0), &[1; 10]);
        seq += 10;
        rig.pass(millis(40));
        assert_eq!(rig.sent().timestamps.unwrap().echo, value);
    }
}

/// RFC 7323 3.2 would have them dropped; Linux takes them. What PAWS is for it does all the same:
/// an old duplicate has the timestamp it was sent with.
#[test]
fn segments_without_are_taken_and_old_ones_are_not() {
    let mut rig = Rig::established(&stamped());
    rig.take(&with(rig.seg(1, 1), 900, 0), b"ab");
    rig.data(3, b"c");
    assert_eq!(rig.read(), b"abc");
    rig.pass(millis(40));
    assert_eq!(rig.sent().timestamps.unwrap().echo, 900, "nothing newer was said");
    rig.take(&with(rig.seg(4, 1), 899, 0), b"old");
    assert_eq!(rig.c.readable_len(), 0);
    assert_eq!(rig.c.take_stats().old_timestamps, 1);
    rig.sent();
    rig.take(&SegmentRepr { rst: true, ..rig.seg(4, 1) }, b"");
    assert!(rig.c.is_done(), "a RST needs none");
}

/// Karn's rule is not needed: the echo tells which of the transmissions is acknowledged.
#[test]
fn a_retransmission_gives_a_sample() {
    let mut rig = Rig::established(&stamped());
    rig.write(MSS);
    rig.burst();
    rig.quiet_until(millis(210));
    let (again, _) = rig.sent_data();
    let value = again.timestamps.unwrap().value;
    rig.now += millis(10);
    rig.take(&with(rig.seg(1, 989), 2, value), b"");
    rig.write(MSS - 12);
    rig.burst();
    rig.silent();
    assert!(rig.c.poll_at(rig.now).unwrap() - rig.now < millis(230));
}

#[test]
fn the_round_trip_time_is_that_of_the_clock_if_nothing_was_lost() {
    let mut rig = Rig::established(&stamped());
    for i in 1..50 {
        rig.write(100);
        let (segment, _) = rig.sent_data();
        rig.now += Duration::from_micros(300);
        rig.take(&with(rig.seg(1, 1 + 100 * i), 2, segment.timestamps.unwrap().value), b"");
    }
    let rtt = rig.c.rtt().unwrap();
    assert!(rtt > Duration::from_micros(290) && rtt < Duration::from_micros(400), "{rtt:?}");
}

#[test]
fn a_syn_younger_by_its_timestamp_reuses_time_wait() {
    let mut rig = Rig::established(&stamped());
    rig.c.shutdown_write(rig.now);
    rig.sent();
    rig.take(&with(SegmentRepr { fin: true, ..rig.seg(1, 2) }, 500, 0), b"");
    assert_eq!(rig.c.state(), State::TimeWait);
    let syn = SegmentRepr { syn: true, ack: None, ..rig.seg(0, 0) };
    let old = SegmentRepr { seq: Seq::new(IRS) - 100_000, ..syn };
    assert_eq!(rig.take(&with(old, 500, 0), b""), SegmentReply::None);
    assert_eq!(rig.take(&with(old, 501, 0), b""), SegmentReply::Reuse);
}
