use super::*;

/// RFC 5961 3.2.
#[test]
fn a_reset_must_have_the_exact_number() {
    let window = 16 * MSS as u32;
    for (seq, answered) in
        [(2, true), (window, true), (window + 1, true), (0, false), (window + 2, false)]
    {
        let mut rig = Rig::established(&plain());
        rig.take(&SegmentRepr { rst: true, ..rig.seg(seq, 1) }, b"");
        assert_eq!(rig.c.state(), State::Established, "{seq}");
        assert_eq!(rig.burst().len(), usize::from(answered), "{seq}");
    }
    let mut rig = Rig::established(&plain());
    rig.take(&SegmentRepr { rst: true, ack: None, ..rig.seg(1, 1) }, b"");
    assert!(rig.c.is_done());
}

/// RFC 5961 4.2.
#[test]
fn a_syn_is_challenged() {
    for seq in [1, 1000, 0x8000_0000] {
        let mut rig = Rig::established(&plain());
        rig.take(&SegmentRepr { syn: true, ack: None, ..rig.seg(seq, 0) }, b"");
        let ack = rig.sent();
        assert_eq!((rig.rel(&ack), rig.acked(&ack)), (1, 1));
        assert_eq!(rig.c.state(), State::Established);
    }
}

/// RFC 5961 5.2.
#[test]
fn acks_out_of_range_are_challenged_and_do_nothing() {
    for ack in [2_u32, 1 << 30, 0_u32.wrapping_sub(60_001)] {
        let mut rig = Rig::established(&plain());
        rig.take(&rig.seg(1, ack), b"data");
        assert_eq!(rig.burst().len(), 1);
        assert_eq!((rig.c.readable_len(), rig.c.acked()), (0, 0));
    }
    // An old one is harmless.
    let mut rig = Rig::established(&plain());
    rig.take(&rig.seg(1, 0), b"data");
    assert_eq!(rig.c.readable_len(), 4);
}

#[test]
fn challenges_are_limited() {
    let mut rig = Rig::established(&plain());
    let mut sent = 0;
    for _ in 0..100 {
        rig.take(&SegmentRepr { syn: true, ..rig.seg(1, 1) }, b"");
        sent += rig.burst().len();
        rig.now += millis(10);
    }
    assert_eq!(sent, 2);
    assert_eq!(rig.c.take_stats().challenges, 2);
}

#[test]
fn unacceptable_segments_are_answered_and_dropped() {
    let far = 1 + 20 * MSS as u32;
    for seq in [far, 0x9000_0000] {
        let mut rig = Rig::established(&plain());
        rig.data(seq, b"data");
        let ack = rig.sent();
        assert_eq!(rig.acked(&ack), 1);
        assert_eq!(rig.c.readable_len(), 0);
        assert_eq!(rig.c.take_stats().unacceptable, 1);
    }
}

#[test]
fn without_ack_nothing_happens() {
    let mut rig = Rig::established(&plain());
    rig.take(&SegmentRepr { ack: None, fin: true, ..rig.seg(1, 1) }, b"data");
    rig.silent();
    assert_eq!((rig.c.state(), rig.c.readable_len()), (State::Established, 0));
}

#[test]
fn two_sides_that_do_not_agree_do_not_answer_each_other_for_ever() {
    let mut a = Rig::established(&plain());
    let mut b = Rig::established_from(&plain(), IRS, ISS + 12345);
    let mut segments = 0;
    a.take(&SegmentRepr { seq: Seq::new(1), ..a.seg(1, 1) }, b"");
    for _ in 0..100 {
        while let Some(out) = a.c.poll_segment(a.now) {
            let repr = out.repr;
            b.take(&repr, b"");
            segments += 1;
        }
        while let Some(out) = b.c.poll_segment(b.now) {
            let repr = out.repr;
            a.take(&repr, b"");
            segments += 1;
        }
        a.now += millis(10);
        b.now += millis(10);
    }
    assert!(segments <= 8, "{segments}");
}

#[test]
fn data_beyond_the_window_is_cut_off() {
    let mut rig = Rig::established(&plain());
    for i in 0..15 {
        rig.data(1 + i * MSS as u32, &[1; MSS]);
    }
    rig.data(1 + 15 * MSS as u32, &[1; MSS + 500]);
    assert_eq!(rig.read().len(), 16 * MSS);
}

#[test]
fn a_second_fin_elsewhere_changes_nothing() {
    let mut rig = Rig::established(&plain());
    rig.take(&SegmentRepr { fin: true, ..rig.seg(11, 1) }, b"");
    rig.take(&SegmentRepr { fin: true, ..rig.seg(5, 1) }, b"");
    rig.data(1, &[1; 20]);
    assert_eq!((rig.read().len(), rig.c.state()), (10, State::CloseWait));
}

/// Anything at all, in any state: no panic, and the invariants hold.
mod anything {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn segments()(
            seq in -20_000_i32..20_000, ack in prop::option::of(-20_000_i32..20_000),
            bits: [bool; 4], rare in 0_u8..10, window: u16, len in 0_usize..1500,
            ts in prop::option::of((0_u32..100, 0_u32..100)),
        ) -> (SegmentRepr, i32, Option<i32>, usize) {
            let repr = SegmentRepr {
                src_port: REMOTE, dst_port: LOCAL, window,
                syn: bits[0] && rare < 2, fin: bits[1] && rare < 5, rst: bits[2] && rare < 1,
                psh: bits[3],
                timestamps: ts.map(|(value, echo)| Timestamps { value, echo }),
                mss: (rare == 7).then_some(window), window_scale: (rare == 8).then_some(14),
                ..SegmentRepr::default()
            };
            // Half of the numbers are the very next ones.
            let seq = if rare % 2 == 0 { 0 } else { seq };
            (repr, seq, ack.map(|ack| if rare % 3 == 0 { 0 } else { ack }), len)
        }
    }

    proptest! {
        #[test]
        fn is_survived(
            open in 0_u8..3, timestamps: bool,
            steps in prop::collection::vec((segments(), 0_u8..12, 0_u64..500), 1..80),
        ) {
            let config = TcpConfig { timestamps, window_scaling: true, ..plain() };
            let syn = SegmentRepr {
                syn: true, window: 5000, mss: Some(500), window_scale: Some(3),
                ..SegmentRepr::default()
            };
            let mut rig = match open {
                0 => Rig::established(&config),
                1 => Rig::connect(&config),
                _ => Rig::accept(&config, &syn),
            };
            let mut edge = None;
            for ((mut segment, seq, ack, len), action, ms) in steps {
                let d = *rig.c.durable();
                segment.seq = Seq::new(d.rcv_nxt.get().wrapping_add_signed(seq));
                segment.ack = ack.map(|ack| Seq::new(d.snd_max.get().wrapping_add_signed(ack)));
                rig.take(&segment, &alloc::vec![1; len]);
                match action {
                    0 => {
                        let chunk = Chunk { bytes: alloc::vec![1; len], joins: false };
                        drop(rig.c.send(rig.now, chunk));
                    }
                    1 => rig.c.shutdown_write(rig.now),
                    2 => drop(rig.c.close(rig.now)),
                    3 => rig.c.shutdown_read(),
                    4 => rig.c.set_recv_buffer(rig.now, len * 10),
                    5 => rig.c.consumed(rig.now, rig.c.unconsumed_len() / 2),
                    6 => drop(rig.read()),
                    _ => {}
                }
                rig.pass(millis(ms));
                rig.burst();
                check(&rig, &mut edge);
            }
        }
    }

    fn check(rig: &Rig, edge: &mut Option<Seq>) {
        let d = rig.c.durable();
        assert!(d.snd_una.at_or_before(d.snd_max));
        assert!(rig.c.state() == State::SynSent || d.rcv_nxt.at_or_before(d.rcv_adv));
        if !rig.c.state().opening() {
            assert!(edge.is_none_or(|edge: Seq| d.rcv_adv.at_or_after(edge)));
            *edge = Some(d.rcv_adv);
        }
        // Something in flight always has a timer.
        if d.snd_una != d.snd_max && rig.c.state() != State::Closed {
            assert!(
                rig.c.timers().is_sending() != rig.c.timers().is_set(timers::TcpTimer::Persist)
            );
        }
        assert!(!rig.c.is_done() || rig.c.poll_at(rig.now).is_none());
    }
}
