use super::*;
use crate::Error;

/// A connection in `state`, with everything acknowledged that was sent before. Own numbers 1.. and
/// the peer's 1.. are free; a FIN of ours has number 1, the peer's too.
fn in_state(state: State) -> Rig {
    let mut rig = Rig::established(&plain());
    let peer_fin = SegmentRepr { fin: true, ..rig.seg(1, 1) };
    match state {
        State::Established => {}
        State::FinWait1 => {
            rig.c.shutdown_write(rig.now);
            assert!(rig.sent().fin);
        }
        State::FinWait2 => {
            rig = in_state(State::FinWait1);
            rig.ack(1, 2);
        }
        State::CloseWait => {
            rig.take(&peer_fin, b"");
            rig.sent();
        }
        State::Closing => {
            rig = in_state(State::FinWait1);
            rig.take(&peer_fin, b"");
            rig.sent();
        }
        State::LastAck => {
            rig = in_state(State::CloseWait);
            rig.c.shutdown_write(rig.now);
            assert!(rig.sent().fin);
        }
        State::TimeWait => {
            rig = in_state(State::FinWait2);
            rig.take(&SegmentRepr { fin: true, ..rig.seg(1, 2) }, b"");
            rig.sent();
        }
        State::Closed | State::SynSent | State::SynReceived => unreachable!(),
    }
    assert_eq!(rig.c.state(), state);
    rig
}

const SYNCHRONIZED: [State; 7] = [
    State::Established,
    State::FinWait1,
    State::FinWait2,
    State::CloseWait,
    State::Closing,
    State::LastAck,
    State::TimeWait,
];

#[test]
fn we_close_first() {
    let mut rig = in_state(State::FinWait2);
    rig.silent();
    assert_eq!(rig.c.poll_at(rig.now), None);
    rig.data(1, b"late");
    assert_eq!(rig.read(), b"late");
    rig.take(&SegmentRepr { fin: true, ..rig.seg(5, 2) }, b"");
    let ack = rig.sent();
    assert_eq!((rig.acked(&ack), rig.rel(&ack)), (6, 2));
    assert_eq!(rig.c.state(), State::TimeWait);
    rig.quiet_until(secs(60));
    rig.silent();
    assert!(rig.c.is_done() && rig.c.error().is_none());
}

#[test]
fn the_peer_closes_first() {
    let mut rig = in_state(State::CloseWait);
    assert!(rig.c.eof());
    rig.write(4);
    assert_eq!(rig.sent_data().1.len(), 4);
    rig.c.shutdown_write(rig.now);
    assert!(rig.sent().fin);
    assert_eq!(rig.c.state(), State::LastAck);
    rig.ack(2, 5);
    assert_eq!(rig.c.state(), State::LastAck);
    rig.ack(2, 6);
    assert!(rig.c.is_done() && rig.c.error().is_none());
}

#[test]
fn a_fin_is_acknowledged_at_once_or_by_our_own() {
    let mut rig = Rig::established(&plain());
    rig.take(&SegmentRepr { fin: true, ..rig.seg(1, 1) }, b"bye");
    assert_eq!(rig.read(), b"bye");
    rig.c.consumed(rig.now, 3);
    assert!(rig.c.poll_segment_deferring(rig.now).is_none());
    assert!(rig.c.defers_fin_ack() && !rig.c.is_idle());
    assert_eq!(rig.c.close(rig.now), None);
    let fin = rig.c.poll_segment_deferring(rig.now).expect("our FIN").repr;
    assert!(fin.fin && rig.acked(&fin) == 5);
    assert!(!rig.c.defers_fin_ack());
    rig.silent();
    rig.ack(5, 2);
    assert!(rig.c.is_done() && rig.c.error().is_none());
    // No answer comes.
    let mut rig = Rig::established(&plain());
    rig.take(&SegmentRepr { fin: true, ..rig.seg(1, 1) }, b"bye");
    assert!(rig.c.poll_segment_deferring(rig.now).is_none());
    rig.silent();
    rig.c.end_deferral();
    let ack = rig.sent();
    assert_eq!(rig.acked(&ack), 5);
    assert!(!rig.c.defers_fin_ack());
    // What has another reason is not deferred: the peer sends again a FIN that was acknowledged.
    rig.take(&SegmentRepr { fin: true, ..rig.seg(4, 1) }, b"");
    let ack = rig.c.poll_segment_deferring(rig.now).expect("an ACK").repr;
    assert_eq!(rig.acked(&ack), 5);
}

#[test]
fn both_close_at_once() {
    let mut rig = in_state(State::Closing);
    rig.ack(2, 2);
    assert_eq!(rig.c.state(), State::TimeWait);
    // FIN and the ACK of ours in one segment.
    let mut rig = in_state(State::FinWait1);
    rig.take(&SegmentRepr { fin: true, ..rig.seg(1, 2) }, b"");
    assert_eq!(rig.c.state(), State::TimeWait);
}

#[test]
fn the_fin_goes_with_the_last_data() {
    let mut rig = Rig::established(&plain());
    rig.write(MSS + 5);
    rig.c.shutdown_write(rig.now);
    let (first, _) = rig.sent_data();
    let (last, body) = rig.sent_data();
    assert!(!first.fin && last.fin && last.psh && body.len() == 5);
    rig.silent();
    assert!(matches!(
        rig.c.send(rig.now, Chunk { bytes: alloc::vec![1], joins: false }),
        Err((Error::BrokenPipe, _))
    ));
    // All but the FIN is acknowledged; it is retransmitted alone.
    rig.now += millis(10);
    rig.ack(1, MSS as u32 + 6);
    assert_eq!(rig.c.acked(), MSS as u64 + 5);
    rig.quiet_until(millis(210));
    let fin = rig.sent();
    assert!(fin.fin && rig.rel(&fin) == MSS as u32 + 6);
    rig.ack(1, MSS as u32 + 7);
    assert_eq!((rig.c.state(), rig.c.acked()), (State::FinWait2, MSS as u64 + 5));
}

#[test]
fn a_lost_fin_is_sent_again_in_every_state_that_has_one() {
    for (state, seq) in [(State::FinWait1, 1), (State::Closing, 2), (State::LastAck, 2)] {
        let mut rig = in_state(state);
        rig.quiet_until(millis(210));
        let fin = rig.sent();
        assert!(fin.fin && rig.rel(&fin) == 1, "{state:?}");
        rig.quiet_until(millis(420));
        assert!(rig.sent().fin);
        rig.ack(seq, 2);
        rig.silent();
        assert!(rig.c.poll_at(rig.now).is_none() || rig.c.state() == State::TimeWait);
    }
}

#[test]
fn the_peers_fin_in_every_state() {
    let table = [
        (State::Established, 1, State::CloseWait),
        (State::FinWait1, 1, State::Closing),
        (State::FinWait2, 2, State::TimeWait),
        (State::CloseWait, 1, State::CloseWait),
        (State::Closing, 1, State::Closing),
        (State::LastAck, 1, State::LastAck),
        (State::TimeWait, 2, State::TimeWait),
    ];
    for (before, ack, after) in table {
        let mut rig = in_state(before);
        rig.now += secs(1);
        rig.take(&SegmentRepr { fin: true, ..rig.seg(1, ack) }, b"");
        assert_eq!(rig.c.state(), after);
        // Timers that are due by now aside, the FIN is acknowledged at once.
        let (answer, _) = rig.sent_data();
        assert_eq!(rig.acked(&answer), 2, "{before:?}");
    }
}

#[test]
fn a_fin_again_restarts_time_wait() {
    let mut rig = in_state(State::TimeWait);
    rig.pass(secs(59));
    rig.take(&SegmentRepr { fin: true, ..rig.seg(1, 2) }, b"");
    rig.sent();
    rig.quiet_until(secs(60));
    rig.silent();
    assert!(rig.c.is_done());
}

#[test]
fn a_fin_that_comes_early_waits_for_the_data_before_it() {
    let mut rig = Rig::established(&plain());
    rig.take(&SegmentRepr { fin: true, ..rig.seg(4, 1) }, b"def");
    assert_eq!(rig.c.state(), State::Established);
    let ack = rig.sent();
    assert_eq!(rig.acked(&ack), 1);
    rig.data(1, b"abc");
    assert_eq!(rig.c.state(), State::CloseWait);
    assert_eq!(rig.read(), b"abcdef");
    let ack = rig.sent();
    assert_eq!(rig.acked(&ack), 8);
}

#[test]
fn reset_in_every_state() {
    let table = [
        (State::Established, Some(Error::Reset)),
        (State::FinWait1, Some(Error::Reset)),
        (State::FinWait2, Some(Error::Reset)),
        (State::CloseWait, Some(Error::BrokenPipe)),
        (State::Closing, Some(Error::Reset)),
        (State::LastAck, Some(Error::Reset)),
        (State::TimeWait, None),
    ];
    for (state, error) in table {
        let mut rig = in_state(state);
        let seq = rig.c.durable().rcv_nxt.get() - IRS;
        rig.take(&SegmentRepr { rst: true, ..rig.seg(seq, 1) }, b"");
        assert!(rig.c.is_done(), "{state:?}");
        assert_eq!(rig.c.error(), error, "{state:?}");
        assert_eq!(rig.c.poll_at(rig.now), None);
        rig.silent();
    }
}

#[test]
fn abort_in_every_state() {
    for state in SYNCHRONIZED {
        let mut rig = in_state(state);
        let nxt = rig.c.durable().snd_max;
        let reset = rig.c.abort(rig.now);
        let told = !matches!(state, State::Closing | State::LastAck | State::TimeWait);
        assert_eq!(reset.is_some(), told, "{state:?}");
        if let Some(reset) = reset {
            assert!(reset.rst && reset.seq == nxt);
        }
        assert!(rig.c.is_done());
        rig.silent();
    }
    let mut rig = Rig::connect(&plain());
    rig.sent();
    assert_eq!(rig.c.abort(rig.now), None);
}

#[test]
fn shut_twice_is_shut_once() {
    for state in SYNCHRONIZED {
        let mut rig = in_state(state);
        rig.c.shutdown_write(rig.now);
        let sent = rig.burst();
        rig.c.shutdown_write(rig.now);
        assert_eq!(rig.burst(), []);
        let fresh = matches!(state, State::Established | State::CloseWait);
        assert_eq!(sent.len(), usize::from(fresh), "{state:?}");
    }
}

#[test]
fn close_with_unread_data_resets() {
    let mut rig = Rig::established(&plain());
    rig.data(1, b"unread");
    let reset = rig.c.close(rig.now).expect("a RST");
    assert!(reset.rst);
    assert!(rig.c.is_done());
    // Read but not consumed is not read: the application has not had it.
    let mut rig = Rig::established(&plain());
    rig.data(1, b"unread");
    rig.read();
    assert!(rig.c.close(rig.now).is_some());
    let mut rig = Rig::established(&plain());
    rig.data(1, b"read");
    rig.read();
    rig.c.consumed(rig.now, 4);
    assert!(rig.c.close(rig.now).is_none());
    assert_eq!(rig.c.state(), State::FinWait1);
}

#[test]
fn data_after_close_is_reset() {
    let mut rig = Rig::established(&plain());
    assert_eq!(rig.c.close(rig.now), None);
    assert!(rig.sent().fin);
    let SegmentReply::Reset(reset) = rig.take(&rig.seg(1, 2), b"more") else { panic!("no RST") };
    assert_eq!(reset.seq, Seq::new(ISS + 2));
    assert!(rig.c.is_done());
    // After a mere half-close data is welcome.
    let mut rig = in_state(State::FinWait1);
    rig.data(1, b"more");
    assert_eq!(rig.read(), b"more");
}

#[test]
fn an_orphan_does_not_stay() {
    let mut rig = Rig::established(&plain());
    rig.c.close(rig.now);
    rig.sent();
    rig.ack(1, 2);
    assert_eq!(rig.c.state(), State::FinWait2);
    rig.quiet_until(secs(60));
    rig.silent();
    assert!(rig.c.is_done());
    // Closed only later, the time runs from then.
    let mut rig = in_state(State::FinWait2);
    rig.pass(secs(1000));
    assert_eq!(rig.c.close(rig.now), None);
    rig.quiet_until(secs(60));
    rig.silent();
    assert!(rig.c.is_done());
}

#[test]
fn a_silent_peer_of_an_orphan_is_given_up_sooner() {
    let mut rig = Rig::established(&plain());
    rig.c.close(rig.now);
    let mut sent = 0;
    while !rig.c.is_done() {
        sent += rig.burst().len();
        if let Some(at) = rig.c.poll_at(rig.now) {
            rig.now = at;
        }
    }
    assert_eq!(sent, 1 + 8);
}

#[test]
fn a_younger_syn_reuses_time_wait() {
    let mut rig = in_state(State::TimeWait);
    let syn = |seq: u32| SegmentRepr {
        syn: true,
        ack: None,
        seq: Seq::new(seq),
        ..SegmentRepr::default()
    };
    assert_eq!(rig.take(&syn(IRS - 5), b""), SegmentReply::None);
    assert_eq!(rig.c.state(), State::TimeWait);
    assert_eq!(rig.take(&syn(IRS + 70_000), b""), SegmentReply::Reuse);
}

#[test]
fn a_closed_connection_resets_and_stays_closed() {
    let mut rig = in_state(State::LastAck);
    rig.ack(2, 2);
    assert!(rig.c.is_done());
    assert!(matches!(rig.take(&rig.seg(2, 2), b"x"), SegmentReply::Reset(_)));
    assert!(rig.c.send(rig.now, Chunk { bytes: alloc::vec![1], joins: false }).is_err());
    rig.silent();
}

/// RFC 9293 3.10.7.1.
#[test]
fn segments_of_no_connection() {
    let rig = Rig::connect(&plain());
    let with_ack = reset_for(&rig.seg(3, 9), 4).unwrap();
    assert_eq!((with_ack.seq, with_ack.ack), (Seq::new(ISS + 9), None));
    assert_eq!((with_ack.src_port, with_ack.dst_port), (LOCAL, REMOTE));
    let syn = SegmentRepr { syn: true, ack: None, ..rig.seg(0, 0) };
    let answer = reset_for(&syn, 2).unwrap();
    assert_eq!((answer.seq, answer.ack), (Seq::new(0), Some(Seq::new(IRS + 3))));
    assert_eq!(reset_for(&answer, 0), None);
}
