use super::*;
use crate::Error;

fn syn() -> SegmentRepr {
    SegmentRepr {
        src_port: REMOTE,
        dst_port: LOCAL,
        seq: Seq::new(IRS),
        syn: true,
        window: 60_000,
        mss: Some(MSS as u16),
        ..SegmentRepr::default()
    }
}

#[test]
fn active_open() {
    let mut rig = Rig::connect(&plain());
    let syn = rig.sent();
    assert!(syn.syn && syn.ack.is_none() && syn.mss == Some(MSS as u16));
    assert_eq!((syn.seq, syn.src_port, syn.dst_port), (Seq::new(ISS), LOCAL, REMOTE));
    assert_eq!(rig.c.state(), State::SynSent);
    rig.silent();
    rig.take(&SegmentRepr { syn: true, ..rig.seg(0, 1) }, b"");
    assert_eq!(rig.c.state(), State::Established);
    let ack = rig.sent();
    assert_eq!((rig.rel(&ack), rig.acked(&ack)), (1, 1));
    rig.silent();
    assert_eq!(rig.c.poll_at(rig.now), None);
}

#[test]
fn passive_open() {
    let mut rig = Rig::accept(&plain(), &syn());
    assert_eq!(rig.c.state(), State::SynReceived);
    let answer = rig.sent();
    assert!(answer.syn && answer.ack == Some(Seq::new(IRS + 1)));
    rig.ack(1, 1);
    assert_eq!(rig.c.state(), State::Established);
    rig.silent();
    assert_eq!(rig.c.poll_at(rig.now), None);
}

#[test]
fn the_ack_of_the_handshake_may_bring_data_and_fin() {
    let mut rig = Rig::accept(&plain(), &syn());
    rig.sent();
    rig.take(&SegmentRepr { fin: true, ..rig.seg(1, 1) }, b"hello");
    assert_eq!(rig.c.state(), State::CloseWait);
    assert_eq!(rig.read(), b"hello");
    assert!(rig.c.eof());
    let ack = rig.sent();
    assert_eq!(rig.acked(&ack), 7);
}

#[test]
fn a_syn_ack_may_bring_data() {
    let mut rig = Rig::connect(&plain());
    rig.sent();
    rig.take(&SegmentRepr { syn: true, ..rig.seg(0, 1) }, b"hi");
    assert_eq!(rig.read(), b"hi");
    let ack = rig.sent();
    assert_eq!(rig.acked(&ack), 3);
}

/// RFC 9293 figure 8.
#[test]
fn simultaneous_open() {
    let mut rig = Rig::connect(&plain());
    rig.sent();
    rig.take(&syn(), b"");
    assert_eq!(rig.c.state(), State::SynReceived);
    let answer = rig.sent();
    assert!(answer.syn && rig.rel(&answer) == 0 && rig.acked(&answer) == 1);
    // The peer's SYN-ACK: its SYN is old, its ACK is new.
    rig.take(&SegmentRepr { syn: true, ..rig.seg(0, 1) }, b"");
    assert_eq!(rig.c.state(), State::Established);
    // As Linux: the SYN has come twice.
    let ack = rig.sent();
    assert_eq!((ack.syn, rig.rel(&ack), rig.acked(&ack)), (false, 1, 1));
    // If our SYN-ACK was lost, the peer repeats its own and is told where we are.
    rig.take(&SegmentRepr { syn: true, ..rig.seg(0, 1) }, b"");
    let ack = rig.sent();
    assert_eq!((ack.syn, rig.rel(&ack), rig.acked(&ack)), (false, 1, 1));
}

#[test]
fn syn_retries_double_and_end_as_on_linux() {
    let mut rig = Rig::connect(&plain());
    let start = rig.now;
    assert!(rig.sent().syn);
    for seconds in [1, 2, 4, 8, 16, 32] {
        rig.quiet_until(secs(seconds));
        assert!(rig.sent().syn);
    }
    rig.quiet_until(secs(64));
    rig.silent();
    assert_eq!(rig.now - start, secs(127));
    assert_eq!(rig.c.error(), Some(Error::TimedOut));
    assert!(rig.c.is_done());
}

#[test]
fn syn_ack_retries_end() {
    let mut rig = Rig::accept(&plain(), &syn());
    rig.sent();
    for seconds in [1, 2, 4, 8, 16] {
        rig.quiet_until(secs(seconds));
        assert!(rig.sent().syn);
    }
    rig.pass(secs(32));
    assert!(rig.c.is_done());
}

#[test]
fn a_repeated_syn_gets_the_syn_ack_again() {
    let mut rig = Rig::accept(&plain(), &syn());
    let first = rig.sent();
    rig.take(&syn(), b"");
    assert_eq!(rig.sent(), first);
    rig.silent();
}

#[test]
fn a_repeated_syn_ack_gets_an_ack() {
    let mut rig = Rig::established(&plain());
    rig.take(&SegmentRepr { syn: true, ..rig.seg(0, 1) }, b"");
    let ack = rig.sent();
    assert_eq!((ack.syn, rig.rel(&ack), rig.acked(&ack)), (false, 1, 1));
    assert_eq!(rig.c.state(), State::Established);
}

#[test]
fn a_refused_connection() {
    let mut rig = Rig::connect(&plain());
    rig.sent();
    rig.take(&SegmentRepr { rst: true, ..rig.seg(0, 1) }, b"");
    assert_eq!(rig.c.error(), Some(Error::Refused));
    assert!(rig.c.is_done());
}

#[test]
fn resets_that_do_not_know_our_syn_are_ignored() {
    let mut rig = Rig::connect(&plain());
    rig.sent();
    for reset in [
        SegmentRepr { rst: true, ack: None, ..rig.seg(0, 0) },
        SegmentRepr { rst: true, ..rig.seg(0, 0) },
        SegmentRepr { rst: true, ..rig.seg(0, 2) },
    ] {
        assert_eq!(rig.take(&reset, b""), SegmentReply::None);
        assert_eq!(rig.c.state(), State::SynSent);
    }
}

/// RFC 9293 3.10.7.3: an old connection's ACK (figure 10).
#[test]
fn an_ack_of_something_else_is_reset() {
    let mut rig = Rig::connect(&plain());
    rig.sent();
    for ack in [0, 2, 100_000] {
        let segment = rig.seg(7, ack);
        let SegmentReply::Reset(reset) = rig.take(&segment, b"") else { panic!("no RST") };
        assert!(reset.rst && Some(reset.seq) == segment.ack);
        assert_eq!(rig.c.state(), State::SynSent);
    }
    // The reset has ended it; the SYN need not wait for its timeout, but no ACK makes a third.
    rig.pass(millis(2));
    assert!(rig.sent().syn);
    rig.take(&rig.seg(7, 100_000), b"");
    rig.pass(millis(500));
    rig.silent();

    let mut rig = Rig::accept(&plain(), &syn());
    rig.sent();
    assert!(matches!(rig.take(&rig.seg(1, 2), b""), SegmentReply::Reset(_)));
    assert_eq!(rig.c.state(), State::SynReceived);
}

#[test]
fn data_queued_while_opening_leaves_with_the_ack() {
    let mut rig = Rig::connect(&plain());
    rig.write(5);
    rig.sent();
    rig.silent();
    rig.take(&SegmentRepr { syn: true, ..rig.seg(0, 1) }, b"");
    let (segment, body) = rig.sent_data();
    assert_eq!((rig.rel(&segment), rig.acked(&segment), body.len()), (1, 1, 5));
    rig.silent();
}

#[test]
fn shut_while_opening_sends_the_fin_afterwards() {
    let mut rig = Rig::connect(&plain());
    rig.sent();
    rig.write(3);
    rig.c.shutdown_write(rig.now);
    rig.silent();
    rig.take(&SegmentRepr { syn: true, ..rig.seg(0, 1) }, b"");
    let (segment, body) = rig.sent_data();
    assert!(segment.fin && body.len() == 3);
    assert_eq!(rig.c.state(), State::FinWait1);
}

#[test]
fn unreachable_ends_an_attempt_but_not_a_connection() {
    let mut rig = Rig::connect(&plain());
    rig.sent();
    assert!(rig.c.is_outstanding(Seq::new(ISS)));
    assert!(!rig.c.is_outstanding(Seq::new(ISS + 1)));
    rig.c.handle_unreachable(Error::HostUnreachable);
    assert_eq!(rig.c.error(), Some(Error::HostUnreachable));
    assert!(rig.c.is_done());
    let mut rig = Rig::established(&plain());
    rig.c.handle_unreachable(Error::HostUnreachable);
    assert_eq!(rig.c.error(), None);
}

/// Every combination of what the two sides offer.
#[test]
fn options_are_used_if_both_offer_them() {
    for bits in 0..16 {
        let [own_scale, own_stamps, scale, stamps] = [1, 2, 4, 8].map(|bit| bits & bit != 0);
        let config =
            TcpConfig { window_scaling: own_scale, timestamps: own_stamps, ..TcpConfig::default() };
        let offer = SegmentRepr {
            window_scale: scale.then_some(7),
            timestamps: stamps.then_some(Timestamps { value: 99, echo: 0 }),
            ..syn()
        };
        let mut rig = Rig::accept(&config, &offer);
        let answer = rig.sent();
        assert_eq!(answer.window_scale.is_some(), own_scale && scale);
        assert_eq!(answer.timestamps.map(|t| t.echo), (own_stamps && stamps).then_some(99));
        let mut rig = Rig::connect(&config);
        let own = rig.sent();
        assert_eq!((own.window_scale.is_some(), own.timestamps.is_some()), (own_scale, own_stamps));
        let answer = SegmentRepr {
            ack: Some(Seq::new(ISS + 1)),
            window_scale: offer.window_scale.filter(|_| own_scale),
            timestamps: offer.timestamps.filter(|_| own_stamps),
            ..offer
        };
        rig.take(&answer, b"");
        let ack = rig.sent();
        assert_eq!(ack.timestamps.is_some(), own_stamps && stamps);
        assert_eq!(rig.c.send_mss(), if own_stamps && stamps { MSS - 12 } else { MSS });
        // 64 KiB fill the field unscaled.
        assert_eq!(ack.window > 60_000, !(own_scale && scale));
    }
}

#[test]
fn the_peers_mss_bounds_segments() {
    for (offered, used) in
        [(None, 536), (Some(0), 536), (Some(1), 48), (Some(600), 600), (Some(9000), MSS)]
    {
        let mut rig = Rig::accept(&plain(), &SegmentRepr { mss: offered, ..syn() });
        rig.sent();
        assert_eq!(rig.c.send_mss(), used);
    }
}

#[test]
fn after_a_lost_syn_the_start_is_slow() {
    let mut rig = Rig::connect(&plain());
    rig.sent();
    rig.pass(secs(1));
    rig.sent();
    rig.pass(secs(2));
    rig.sent();
    rig.take(&SegmentRepr { syn: true, mss: Some(MSS as u16), ..rig.seg(0, 1) }, b"");
    rig.write(10 * MSS);
    // RFC 6928 2: more than one loss.
    assert_eq!(rig.burst(), [(1, MSS)]);
    // RFC 6298 5.7.
    rig.quiet_until(secs(3));
}
