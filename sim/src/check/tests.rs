//! Each checker finds the error that it looks for: a small handshake, then one wrong segment.

use super::states::{Facts, reachable};
use std::time::Duration;

use super::*;
use crate::bytes::stream_bytes;

const RULES: Rules = Rules {
    rto_min: Duration::from_millis(200),
    rto_initial: Duration::from_secs(1),
    rto_max: Duration::from_secs(120),
    delayed_ack: Duration::from_millis(40),
    time_wait: Duration::from_secs(60),
    fin_timeout: Duration::from_secs(60),
    initial_window: 10,
    ip_header: 20,
    round_trip: Duration::from_millis(10),
    late: false,
};

const OPEN: SideStatus = SideStatus {
    state: Some("ESTAB"),
    shut: false,
    left: false,
    aborted: false,
    failed: false,
    written: 10_000,
    consumed: 0,
    crowded: false,
    flight: None,
};

struct Talk {
    check: Check,
    now: Instant,
    flight: Option<FlightInfo>,
}

impl Talk {
    /// Two sides that have opened: initial numbers 100 and 500, windows of 10,000 bytes.
    fn new() -> Self {
        let mut talk = Self {
            check: Check::new([7, 8], [RULES; 2]),
            now: Instant::from_nanos(1_000_000_000),
            flight: None,
        };
        let syn = Segment {
            seq: 100,
            syn: true,
            window: 10_000,
            mss: Some(1000),
            scale: Some(0),
            sack_permitted: true,
            timestamps: Some((50, 0)),
            options: 20,
            ..Segment::default()
        };
        let answer =
            Segment { seq: 500, ack: Some(101), timestamps: Some((90, 50)), ..syn.clone() };
        talk.carry(0, &syn).expect("a SYN");
        talk.carry(1, &answer).expect("a SYN-ACK");
        talk.carry(0, &Segment { ack: Some(501), ..talk.segment(0, 1, 0) }).expect("an ACK");
        talk
    }

    /// A segment of `side` with `len` bytes from position `position` on.
    fn segment(&self, side: usize, position: u32, len: usize) -> Segment {
        let clock = [51, 91];
        let acked = self.check.sides[side].acked.unwrap_or(1) as u32;
        let echo = self.check.sides[side].peer_clock.unwrap_or(0);
        Segment {
            seq: [100, 500][side] + position,
            ack: Some([500, 100][side] + acked),
            window: 10_000,
            timestamps: Some((clock[side], echo)),
            options: 12,
            len,
            ..Segment::default()
        }
    }

    fn send(&mut self, side: usize, segment: &Segment) -> Result<(), String> {
        let start = u64::from(segment.seq - [100, 500][side]).saturating_sub(1);
        let payload = stream_bytes([7, 8][side], start, segment.len);
        let standing = SideStatus { flight: self.flight, ..OPEN };
        self.check.sent(self.now, side, segment, &payload, standing)
    }

    fn give(&mut self, side: usize, segment: &Segment) {
        self.check.delivered(self.now, 1 - side, Some(segment), OPEN);
    }

    fn carry(&mut self, side: usize, segment: &Segment) -> Result<(), String> {
        self.send(side, segment)?;
        self.give(side, segment);
        Ok(())
    }

    fn fails(mut self, side: usize, segment: &Segment, with: &str) {
        let error = self.send(side, segment).expect_err(with);
        assert!(error.contains(with), "{error}, not {with}");
    }
}

#[test]
fn what_was_not_given_is_not_acknowledged() {
    let mut talk = Talk::new();
    let lost = talk.segment(0, 1, 100);
    talk.send(0, &lost).expect("data");
    let next = talk.segment(0, 101, 100);
    talk.carry(0, &next).expect("data");
    let ack = Segment { ack: Some(201), ..talk.segment(1, 1, 0) };
    talk.fails(1, &ack, "ACK of 101");
}

#[test]
fn sack_tells_of_what_was_given() {
    let talk = |blocks: &[(u32, u32)]| {
        let mut talk = Talk::new();
        let lost = talk.segment(0, 1, 100);
        talk.send(0, &lost).expect("data");
        let early = talk.segment(0, 101, 100);
        talk.carry(0, &early).expect("data");
        let ack = Segment { sack: blocks.to_vec(), options: 24, ..talk.segment(1, 1, 0) };
        (talk, ack)
    };
    let (mut good, ack) = talk(&[(201, 301)]);
    good.carry(1, &ack).expect("a SACK");
    // And then it is not sent again.
    good.now += Duration::from_millis(1);
    let again = good.segment(0, 101, 100);
    good.fails(0, &again, "though SACKed");
    for (blocks, why) in [
        (&[(101, 201)][..], "which was not given"),
        (&[(201, 302)], "which was not given"),
        (&[(301, 201)], "which was not given"),
        (&[(201, 301), (201, 301), (201, 301)], "twice"),
        (&[(250, 301), (201, 260)], "overlaps"),
    ] {
        let (talk, ack) = talk(blocks);
        talk.fails(1, &ack, why);
    }
}

#[test]
fn the_window_holds_both_ways() {
    let mut talk = Talk::new();
    for n in 0..10 {
        let data = talk.segment(0, 1 + n * 988, 988);
        talk.send(0, &data).expect("data");
    }
    talk.now += Duration::from_millis(20);
    let beyond = talk.segment(0, 9881, 121);
    talk.fails(0, &beyond, "beyond the window");
    let talk = Talk::new();
    let shrunk = Segment { window: 9_999, ..talk.segment(1, 1, 0) };
    talk.fails(1, &shrunk, "shrank");
}

#[test]
fn numbers_and_bytes_are_the_streams() {
    let talk = Talk::new();
    let hole = talk.segment(0, 2, 10);
    talk.fails(0, &hole, "a hole");
    let talk_with_drops = || {
        let mut talk = Talk::new();
        talk.check.note_unresolved(0);
        talk
    };
    let mut talk = talk_with_drops();
    talk.send(0, &hole).expect("the host has dropped a byte before the link");
    let second_hole = talk.segment(0, 13, 10);
    talk.fails(0, &second_hole, "a hole");
    let mut talk = talk_with_drops();
    let next = talk.segment(0, 1, 10);
    talk.send(0, &next).expect("what was dropped had been sent before");
    let late_hole = talk.segment(0, 12, 10);
    talk.fails(0, &late_hole, "a hole");
    let talk = talk_with_drops();
    let unwritten = talk.segment(0, 10_002, 0);
    talk.fails(0, &unwritten, "a hole");
    let talk = Talk::new();
    let long = talk.segment(0, 1, 989);
    talk.fails(0, &long, "more than the MSS");
    let mut talk = Talk::new();
    let data = talk.segment(0, 1, 10);
    let wrong = stream_bytes(7, 1, 10);
    let error = talk.check.sent(talk.now, 0, &data, &wrong, OPEN).expect_err("wrong bytes");
    assert!(error.contains("wrong byte"), "{error}");
    let mut talk = Talk::new();
    talk.check.rules[0].initial_window = 1;
    let data = talk.segment(0, 1, 988);
    talk.send(0, &data).expect("within the initial window");
    let data = talk.segment(0, 989, 988);
    talk.send(0, &data).expect("within the initial window");
    let third = talk.segment(0, 1977, 988);
    talk.fails(0, &third, "before the first ACK");
}

#[test]
fn timestamps_are_the_clocks_and_the_peers() {
    let talk = Talk::new();
    let none = Segment { timestamps: None, ..talk.segment(0, 1, 1) };
    talk.fails(0, &none, "no timestamps");
    let talk = Talk::new();
    let back = Segment { timestamps: Some((49, 90)), ..talk.segment(0, 1, 1) };
    talk.fails(0, &back, "TSval 49");
    let talk = Talk::new();
    let wrong = Segment { timestamps: Some((60, 91)), ..talk.segment(0, 1, 1) };
    talk.fails(0, &wrong, "TSecr 91");
    // RFC 7323 4.3: the echo of a segment that came early is not given back.
    let mut talk = Talk::new();
    let lost = talk.segment(0, 1, 100);
    talk.send(0, &lost).expect("data");
    let early = Segment { timestamps: Some((77, 90)), ..talk.segment(0, 101, 100) };
    talk.carry(0, &early).expect("data");
    let echo = Segment { timestamps: Some((99, 77)), ..talk.segment(1, 1, 0) };
    talk.fails(1, &echo, "TSecr 77");
}

#[test]
fn timers_wait() {
    let again = |after: u64, count: u32| {
        let mut talk = Talk::new();
        talk.now += Duration::from_millis(1);
        for n in 0..2 {
            let data = talk.segment(0, 1 + n * 100, 100);
            talk.send(0, &data).expect("data");
        }
        let mut result = Ok(());
        for _ in 0..count {
            talk.now += Duration::from_millis(after);
            let head = talk.segment(0, 1, 100);
            result = result.and(talk.send(0, &head));
        }
        result
    };
    assert!(again(198, 1).is_err());
    assert!(again(200, 1).is_ok());
    assert!(again(200, 2).is_ok(), "the first may be a probe's");
    assert!(again(200, 3).is_err(), "the third waits longer");
    assert!(again(400, 3).is_ok());
    assert!(again(400, 4).is_err());
    assert!(again(800, 4).is_ok());
    let mut tail = Talk::new();
    tail.now += Duration::from_millis(1);
    let data = tail.segment(0, 1, 100);
    tail.send(0, &data).expect("data");
    tail.now += Duration::from_millis(8);
    tail.fails(0, &data, "not 10ms or more");
}

#[test]
fn duties_are_done_in_time() {
    let after = |early: bool, wait: u64| {
        let mut talk = Talk::new();
        if early {
            let lost = talk.segment(0, 1, 100);
            talk.send(0, &lost).expect("data");
        }
        let data = talk.segment(0, if early { 101 } else { 1 }, 100);
        talk.carry(0, &data).expect("data");
        talk.now += Duration::from_millis(wait);
        talk.check.observe(talk.now, 1, OPEN)
    };
    assert!(after(false, 240).is_ok());
    assert!(after(false, 260).is_err());
    assert!(after(true, 9).is_ok());
    assert!(after(true, 11).is_err());
    // A window that is closed for no reason.
    let mut talk = Talk::new();
    for n in 0..10 {
        let data = talk.segment(0, 1 + n * 988, 988);
        talk.carry(0, &data).expect("data");
    }
    let full = Segment { ack: Some(100 + 9881), window: 120, ..talk.segment(1, 1, 0) };
    talk.carry(1, &full).expect("an ACK");
    let unread = SideStatus { consumed: 9879, ..OPEN };
    let read = SideStatus { consumed: 9880, ..OPEN };
    for (standing, passes) in [(unread, true), (unread, true), (read, true), (read, false)] {
        let result = talk.check.observe(talk.now, 1, standing);
        assert_eq!(result.is_ok(), passes, "{result:?}");
        talk.now += Duration::from_millis(101);
    }
}

#[test]
fn who_asks_for_the_neighbour_answers_later() {
    let overdue = |talk: &mut Talk, wait: u64| {
        talk.now += Duration::from_millis(wait);
        talk.check.observe(talk.now, 1, OPEN).is_err()
    };
    let early = |talk: &mut Talk| {
        let data = talk.segment(0, 101, 100);
        talk.give(0, &data);
    };
    // A long silence alone is no excuse.
    let mut talk = Talk::new();
    talk.now += Duration::from_secs(100);
    early(&mut talk);
    assert!(overdue(&mut talk, 11));
    // The answer that waits for the neighbour may be lost.
    let mut talk = Talk::new();
    early(&mut talk);
    talk.check.asked(talk.now, 1);
    assert!(!overdue(&mut talk, 11));
    // So may what is to be answered meanwhile, but not what comes after.
    talk.now += Duration::from_millis(900);
    early(&mut talk);
    assert!(!overdue(&mut talk, 200));
    early(&mut talk);
    assert!(overdue(&mut talk, 11));
    // Who sends has been told, and who asked is the other.
    let mut talk = Talk::new();
    talk.check.asked(talk.now, 1);
    let data = talk.segment(1, 1, 100);
    talk.send(1, &data).expect("data");
    early(&mut talk);
    assert!(overdue(&mut talk, 11));
    let mut talk = Talk::new();
    talk.check.asked(talk.now, 0);
    early(&mut talk);
    assert!(overdue(&mut talk, 11));
}

#[test]
fn an_open_connection_is_not_reset() {
    let reset = |standing| {
        let mut talk = Talk::new();
        let reset = Segment { rst: true, timestamps: None, ..talk.segment(0, 1, 0) };
        talk.check.sent(talk.now, 0, &reset, &[], standing)
    };
    assert!(reset(OPEN).is_err());
    assert!(reset(SideStatus { left: true, ..OPEN }).is_ok());
    assert!(reset(SideStatus { failed: true, ..OPEN }).is_ok());
    assert!(reset(SideStatus { state: None, ..OPEN }).is_ok());
}

#[test]
fn states_follow_the_figure() {
    let none = Facts { syn_given: true, syn_acked: true, ..Facts::default() };
    let shut = Facts { shut: true, ..none };
    let all = Facts { fin_given: true, fin_acked: true, ..shut };
    for (from, to, facts, may) in [
        ("UNCONN", "ESTAB", none, true),
        ("UNCONN", "ESTAB", Facts { syn_acked: false, ..none }, false),
        ("ESTAB", "CLOSE-WAIT", none, false),
        ("ESTAB", "CLOSE-WAIT", Facts { fin_given: true, ..none }, true),
        ("ESTAB", "FIN-WAIT-2", shut, false),
        ("ESTAB", "TIME-WAIT", all, true),
        ("ESTAB", "UNCONN", all, true),
        ("FIN-WAIT-1", "UNCONN", all, false),
        ("FIN-WAIT-1", "CLOSE-WAIT", all, false),
        ("FIN-WAIT-1", "CLOSING", Facts { fin_given: true, ..shut }, true),
        ("TIME-WAIT", "UNCONN", all, false),
        ("TIME-WAIT", "UNCONN", Facts { wait_over: true, ..all }, true),
        ("CLOSING", "ESTAB", all, false),
    ] {
        assert_eq!(reachable(from, to, &facts), may, "{from} to {to} with {facts:?}");
    }
    let gone = Facts { gone: true, ..none };
    assert!(reachable("ESTAB", "UNCONN", &gone));
}

/// Side 0 with `sent` segments of 100 bytes on their way and a congestion window of 4, in the
/// recovery state `ca_state`.
fn in_flight(sent: u32, ca_state: u8) -> Talk {
    let mut talk = Talk::new();
    for number in 0..sent {
        let data = talk.segment(0, 1 + number * 100, 100);
        talk.flight = Some(FlightInfo { cwnd: 10, ca_state: 0, backoff: 0 });
        talk.send(0, &data).expect("data");
        talk.now += Duration::from_millis(1);
    }
    talk.flight = Some(FlightInfo { cwnd: 4, ca_state, backoff: 0 });
    talk
}

#[test]
fn the_congestion_window_bounds_the_flight() {
    let mut talk = in_flight(3, 0);
    let last = talk.segment(0, 301, 100);
    talk.send(0, &last).expect("the fourth");
    talk.now += Duration::from_millis(1);
    let next = talk.segment(0, 401, 100);
    talk.fails(0, &next, "5 segments on their way");
    // After a silence it may be a probe.
    let mut talk = in_flight(4, 0);
    talk.now += RULES.round_trip;
    let probe = talk.segment(0, 401, 100);
    talk.send(0, &probe).expect("a probe");
    // What is SACKed is not on its way; what was sent before it may be lost, but not if all is
    // well.
    for (ca_state, error) in [(0, Some("6 segments")), (3, None)] {
        let mut talk = in_flight(6, ca_state);
        let sack = Segment { sack: vec![(601, 701)], ..talk.segment(1, 1, 0) };
        talk.give(1, &sack);
        let next = talk.segment(0, 601, 100);
        match error {
            Some(error) => talk.fails(0, &next, error),
            None => talk.send(0, &next).expect("the rest is lost"),
        }
    }
}

#[test]
fn what_a_router_said_bounds_packets() {
    let mut talk = Talk::new();
    let data = talk.segment(0, 1, 900);
    talk.send(0, &data).expect("data");
    // About something that is not on its way.
    talk.check.note_too_big(talk.now, 0, TooBig { mtu: 600, seq: 1001 });
    let data = talk.segment(0, 901, 900);
    talk.send(0, &data).expect("data");
    talk.check.note_too_big(talk.now, 0, TooBig { mtu: 600, seq: 101 });
    let data = talk.segment(0, 1801, 600 - 52);
    talk.send(0, &data).expect("data");
    let data = talk.segment(0, 2349, 600 - 51);
    talk.fails(0, &data, "a packet of 601");
}

#[test]
fn no_segment_crosses_the_end_of_a_record() {
    let with = |position: u32, len: usize| {
        let mut talk = Talk::new();
        talk.check.marked(0, 100, WriteMark { record: true, urgent: false });
        let before = talk.segment(0, 1, 100);
        talk.send(0, &before).expect("up to the end");
        let data = talk.segment(0, position, len);
        talk.now += RULES.rto_min;
        talk.send(0, &data)
    };
    assert_eq!(with(101, 100), Ok(()));
    for (position, len) in [(1, 101), (100, 2)] {
        let error = with(position, len).expect_err("across");
        assert!(error.contains("end of a record at 101"), "{error}");
    }
}

#[test]
fn the_urgent_pointer_is_the_newest_mark() {
    let urgent = WriteMark { record: false, urgent: true };
    let with = |marks: &[u64], pointer: Option<u16>, acked: bool| {
        let mut talk = Talk::new();
        for end in marks {
            talk.check.marked(0, *end, urgent);
        }
        if acked {
            let ack = Segment { ack: Some(100 + 151), ..talk.segment(1, 1, 0) };
            talk.check.sides[0].una = 151;
            talk.give(1, &ack);
        }
        let data = Segment { urgent: pointer, ..talk.segment(0, 1, 100) };
        talk.send(0, &data)
    };
    assert_eq!(with(&[], None, false), Ok(()));
    assert_eq!(with(&[50, 150], Some(150), false), Ok(()));
    assert_eq!(with(&[70_000], Some(u16::MAX), false), Ok(()));
    assert_eq!(with(&[70_000], None, false), Ok(()));
    assert_eq!(with(&[150], None, true), Ok(()));
    for (marks, pointer) in [
        (&[][..], Some(5)),
        (&[50, 150], Some(50)),
        (&[150], Some(149)),
        (&[150], Some(u16::MAX)),
        (&[150], None),
    ] {
        assert!(with(marks, pointer, false).is_err(), "{marks:?} {pointer:?}");
    }
}

#[test]
fn who_reads_past_an_urgent_byte_has_been_told() {
    let mut talk = Talk::new();
    talk.check.marked(0, 50, WriteMark { record: false, urgent: true });
    assert_eq!(talk.check.told_urgent(1, None, 49), Ok(()));
    assert!(talk.check.told_urgent(1, Some(48), 49).is_err(), "no such byte");
    assert!(talk.check.told_urgent(1, None, 50).is_err());
    assert_eq!(talk.check.told_urgent(1, Some(49), 10), Ok(()));
    assert_eq!(talk.check.told_urgent(1, None, 50), Ok(()), "told before");
    // One that is too far away to be named.
    talk.check.marked(0, 70_000, WriteMark { record: false, urgent: true });
    assert!(talk.check.told_urgent(1, Some(65_534), 50).is_err(), "nobody said so");
    let far = Segment { urgent: Some(u16::MAX), ..talk.segment(0, 1, 100) };
    talk.send(0, &far).expect("data");
    assert_eq!(talk.check.told_urgent(1, Some(65_534), 50), Ok(()));
}
