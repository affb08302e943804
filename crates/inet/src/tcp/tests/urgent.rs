//! Urgent data: where the pointer points, who is told, and how it leaves.

use super::*;

fn pointed(rig: &Rig, seq: u32, pointer: u16) -> SegmentRepr {
    SegmentRepr { urgent: Some(pointer), ..rig.seg(seq, 1) }
}

#[test]
fn the_pointer_names_the_byte_after() {
    let mut rig = Rig::established(&plain());
    assert_eq!(rig.c.urgent_mark(), None);
    rig.take(&pointed(&rig, 1, 3), b"abcde");
    assert_eq!(rig.c.urgent_mark(), Some(2));
    assert!(rig.c.take_urgent_mark_moved() && !rig.c.take_urgent_mark_moved());
    assert_eq!(rig.read(), b"abcde", "it stays in the stream");
    // The same again is old, an earlier one is not believed, a later one counts.
    rig.take(&pointed(&rig, 1, 3), b"abcde");
    rig.take(&pointed(&rig, 6, 0), b"");
    assert!(rig.c.take_urgent_mark_moved());
    assert_eq!(rig.c.urgent_mark(), Some(5), "RFC 6093: a pointer of 0 is the first byte");
    rig.take(&pointed(&rig, 6, 4), b"");
    assert_eq!(rig.c.urgent_mark(), Some(8), "not yet arrived");
    rig.take(&pointed(&rig, 6, 2), b"fg");
    assert_eq!(rig.c.urgent_mark(), Some(8));
}

#[test]
fn what_came_before_is_no_mark() {
    let mut rig = Rig::established(&plain());
    rig.data(1, b"abcde");
    rig.take(&pointed(&rig, 1, 3), b"abcde");
    assert_eq!(rig.c.urgent_mark(), None);
}

#[test]
fn each_segment_before_the_mark_tells_of_it() {
    let mut rig = Rig::established(&plain());
    rig.write(2 * MSS + 10);
    rig.c.mark_urgent(rig.now);
    rig.write(5);
    let mut pointers = Vec::new();
    while let Some(out) = rig.c.poll_segment(rig.now) {
        pointers.push((out.repr.urgent, out.body_len()));
    }
    let expected = [(Some(2 * MSS as u16 + 10), MSS), (Some(MSS as u16 + 10), MSS), (Some(10), 15)];
    assert_eq!(pointers, expected, "and Nagle's rule does not hold back");
    rig.ack(1, 1 + 2 * MSS as u32 + 15);
    rig.write(1);
    assert_eq!(rig.sent_data().0.urgent, None, "once it is acknowledged");
}

#[test]
fn a_far_mark_is_not_said_before_its_time() {
    let config = TcpConfig { window_scaling: true, initial_window: 100, ..plain() };
    let mut rig = Rig::established(&config);
    let wide = SegmentRepr { window: 60_000, ..rig.seg(1, 1) };
    rig.take(&wide, b"");
    rig.write(80 * MSS);
    rig.c.mark_urgent(rig.now);
    let first = rig.sent_data().0;
    // More than 65,535 ahead, and nothing of that is on its way yet.
    assert_eq!(first.urgent, Some(0xffff));
    let mut last = None;
    while let Some(out) = rig.c.poll_segment(rig.now) {
        last = out.repr.urgent;
    }
    assert_eq!(last, Some(MSS as u16));
}

#[test]
fn a_cork_does_not_hold_it() {
    let mut rig = Rig::established(&plain());
    rig.c.set_cork(rig.now, true);
    rig.write(7);
    rig.silent();
    rig.c.mark_urgent(rig.now);
    let (segment, body) = rig.sent_data();
    assert_eq!((segment.urgent, body.len()), (Some(7), 7));
}
