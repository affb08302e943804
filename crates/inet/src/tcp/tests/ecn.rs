//! Explicit congestion notification (RFC 3168).

use super::*;

const M: u32 = MSS as u32;

fn ecn(policy: EcnPolicy) -> TcpConfig {
    TcpConfig { ecn: policy, ..plain() }
}

fn asking_syn() -> SegmentRepr {
    SegmentRepr {
        src_port: REMOTE,
        dst_port: LOCAL,
        seq: Seq::new(IRS),
        syn: true,
        ece: true,
        cwr: true,
        window: 60_000,
        mss: Some(MSS as u16),
        ..SegmentRepr::default()
    }
}

/// A connection opened by a peer that asks for ECN, with ten segments in flight.
fn in_flight() -> Rig {
    let mut rig = Rig::accept(&ecn(EcnPolicy::Accept), &asking_syn());
    let syn_ack = rig.sent();
    assert!(syn_ack.ece && !syn_ack.cwr && syn_ack.ecn == EcnField::NotEct);
    rig.ack(1, 1);
    rig.write(10 * MSS);
    for _ in 0..10 {
        let (segment, _) = rig.sent_data();
        assert_eq!((segment.ecn, segment.ece, segment.cwr), (EcnField::Ect0, false, false));
    }
    rig
}

/// 6.1.1.
#[test]
fn the_syns_agree() {
    let marked = SegmentRepr { ecn: EcnField::Ect0, ..asking_syn() };
    let half = SegmentRepr { cwr: false, ..asking_syn() };
    for (policy, syn, agreed) in [
        (EcnPolicy::Off, asking_syn(), false),
        (EcnPolicy::Accept, asking_syn(), true),
        (EcnPolicy::On, asking_syn(), true),
        (EcnPolicy::On, half, false),
        (EcnPolicy::On, marked, false),
    ] {
        let mut rig = Rig::accept(&ecn(policy), &syn);
        assert_eq!(rig.sent().ece, agreed, "{policy:?} {syn:?}");
    }
    for (policy, ece, cwr, agreed) in [
        (EcnPolicy::On, true, false, true),
        (EcnPolicy::On, true, true, false),
        (EcnPolicy::On, false, false, false),
        (EcnPolicy::Accept, true, false, false),
    ] {
        let mut rig = Rig::connect(&ecn(policy));
        let syn = rig.sent();
        let asks = policy == EcnPolicy::On;
        assert_eq!((syn.ece, syn.cwr), (asks, asks));
        let syn_ack = SegmentRepr { syn: true, mss: Some(MSS as u16), ece, cwr, ..rig.seg(0, 1) };
        rig.take(&syn_ack, b"");
        rig.sent();
        rig.write(MSS);
        let marked = rig.sent_data().0.ecn == EcnField::Ect0;
        assert_eq!(marked, agreed);
    }
}

/// 6.1.1.1.
#[test]
fn a_repeated_syn_does_not_ask() {
    let mut rig = Rig::connect(&ecn(EcnPolicy::On));
    assert!(rig.sent().ece);
    rig.pass(secs(1));
    let again = rig.sent();
    assert!(again.syn && !again.ece && !again.cwr);
}

/// 6.1.2.
#[test]
fn an_echo_reduces_the_window_once() {
    let mut rig = in_flight();
    for i in 1..4 {
        rig.take(&SegmentRepr { ece: true, ..rig.seg(1, 1 + i * M) }, b"");
        assert_eq!(rig.c.info(rig.now).ca_state, 2);
        assert_eq!(rig.c.info(rig.now).snd_ssthresh, 5);
    }
    rig.write(MSS);
    rig.ack(1, 1 + 8 * M);
    let (first, _) = rig.sent_data();
    assert!(first.cwr);
    rig.write(MSS);
    rig.ack(1, 1 + 10 * M);
    let (second, _) = rig.sent_data();
    assert!(!second.cwr);
    rig.ack(1, 1 + 12 * M);
    let info = rig.c.info(rig.now);
    assert_eq!((info.ca_state, info.snd_cwnd), (0, 5));
}

/// 6.1.5.
#[test]
fn what_is_sent_again_is_not_marked() {
    let mut rig = in_flight();
    rig.now += secs(2);
    let (again, _) = rig.sent_data();
    assert_eq!(again.ecn, EcnField::NotEct);
}

/// 6.1.3.
#[test]
fn a_mark_is_echoed_until_the_sender_has_reduced() {
    let mut rig = in_flight();
    let marked = |rig: &Rig, seq, ecn| SegmentRepr { ecn, ..rig.seg(seq, 1) };
    rig.take(&marked(&rig, 1, EcnField::Ect0), b"a");
    rig.take(&marked(&rig, 2, EcnField::Ce), b"b");
    let ack = rig.sent();
    assert!(ack.ece && ack.ecn == EcnField::NotEct);
    rig.take(&marked(&rig, 3, EcnField::Ect0), b"c");
    assert!(rig.sent().ece);
    rig.take(&SegmentRepr { cwr: true, ..marked(&rig, 4, EcnField::Ect0) }, b"d");
    assert!(!rig.sent().ece);
    assert_eq!(rig.c.take_stats().ecn_marks_in, 1);
}

#[test]
fn without_an_agreement_marks_mean_nothing() {
    let mut rig = Rig::established(&plain());
    rig.take(&SegmentRepr { ecn: EcnField::Ce, ..rig.seg(1, 1) }, b"abc");
    rig.pass(millis(40));
    assert!(!rig.sent().ece);
    rig.write(MSS);
    assert_eq!(rig.sent_data().0.ecn, EcnField::NotEct);
    rig.take(&SegmentRepr { ece: true, ..rig.seg(4, 1) }, b"");
    assert_eq!(rig.c.info(rig.now).ca_state, 0);
}
