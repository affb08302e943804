//! Frames that should not be. None may do more than be counted.

use proptest::prelude::*;

use super::*;
use crate::tcp::{SegmentRepr, Seq};

/// A host with all that can receive: a listener, a connection, datagram sockets, a half-open and a
/// waiting connection. And the valid frames that it would act upon.
fn target() -> (Host, Vec<Vec<u8>>) {
    let mut pair = Pair::new();
    let (client, server, _) = pair.connected();
    pair.a.send(client, b"some data on its way");
    let data = pair.a.sent();
    pair.b.send(server, b"some more, not acknowledged");
    pair.b.sent();
    let socket = pair.b.stack.open(SocketKind::Datagram, 9).unwrap();
    pair.b.stack.bind(socket, at(Ipv4Addr::UNSPECIFIED, 9)).unwrap();
    let connecting = pair.b.stack.open(SocketKind::Stream, 10).unwrap();
    pair.b.stack.connect(pair.b.now, connecting, at(IP_A, 99)).unwrap();
    let syn_sent = pair.b.sent();
    let absent = pair.b.stack.open(SocketKind::Stream, 11).unwrap();
    pair.b.stack.connect(pair.b.now, absent, at(Ipv4Addr::new(10, 0, 0, 9), 99)).unwrap();
    pair.b.sent();
    let syn = SegmentRepr {
        src_port: 1234,
        dst_port: 80,
        seq: Seq::new(77),
        syn: true,
        window: 1000,
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        ..SegmentRepr::default()
    };
    let mut unreachable = std::vec![3, 1, 0, 0, 0, 0, 0, 0];
    unreachable.extend_from_slice(&syn_sent[0][14..]);
    let mut unreachable = ip_frame(1, &unreachable);
    fix_transport(&mut unreachable);
    let mut frames = std::vec![
        arp_frame(MAC_A, IP_A, IP_B, true),
        arp_frame(MAC_A, Ipv4Addr::new(10, 0, 0, 9), IP_B, false),
        echo_frame(&[1; 56]),
        udp_frame(7, 9, b"datagram"),
        udp_frame(7, 8, b"nobody there"),
        tcp_frame(&syn, &[]),
        tcp_frame(&SegmentRepr { dst_port: 81, ..syn }, b"data on a SYN"),
        unreachable,
        ip_frame_with(IP_A, IP_B, 17, &[0x94, 4, 0, 0], &udp_frame(7, 9, b"alert")[34..]),
    ];
    frames.extend(data);
    (pair.b, frames)
}

/// Whatever happened, the stack still works.
fn still_works(host: &mut Host) {
    host.pass(Duration::from_secs(5));
    host.events();
    host.wire.frames.clear();
    host.take(&arp_frame(MAC_A, IP_A, IP_B, true));
    host.take(&echo_frame(b"alive?"));
    let alive = host.sent().iter().any(|frame| frame.ends_with(b"alive?"));
    assert!(alive, "{}", host.counted());
}

#[test]
fn every_truncation_of_every_frame() {
    let (_, frames) = target();
    for frame in &frames {
        let (mut host, _) = target();
        for len in 0..frame.len() {
            host.take(&frame[..len]);
            // With lengths and sums made to fit, so that the cut reaches the inner layers.
            let mut cut = Vec::from(&frame[..len]);
            if len >= 34 && cut[12..14] == [8, 0] {
                let total = u16::try_from(len - 14).unwrap();
                cut[16..18].copy_from_slice(&total.to_be_bytes());
                fix_ip(&mut cut);
                fix_transport(&mut cut);
                host.take(&cut);
            }
        }
        still_works(&mut host);
    }
}

#[test]
fn padding_is_not_payload() {
    let mut host = Host::b_knowing_a();
    let socket = host.stack.open(SocketKind::Datagram, 1).unwrap();
    host.stack.bind(socket, at(IP_B, 9)).unwrap();
    let mut frame = udp_frame(7, 9, b"x");
    frame.resize(60, 0xaa);
    host.take(&frame);
    assert_eq!(host.received(socket), b"x");
}

#[test]
fn each_cause_has_its_counter() {
    let change = |at: usize, value: u8| {
        move |frame: &mut Vec<u8>| {
            frame[at] = value;
            fix_ip(frame);
        }
    };
    let source = |ip: [u8; 4]| {
        move |frame: &mut Vec<u8>| {
            frame[26..30].copy_from_slice(&ip);
            fix_ip(frame);
            fix_transport(frame);
        }
    };
    type Change = std::boxed::Box<dyn Fn(&mut Vec<u8>)>;
    let table: [(&str, Change); 21] = [
        ("eth.malformed", std::boxed::Box::new(|frame| frame.truncate(13))),
        ("eth.malformed", std::boxed::Box::new(|frame| frame[6] |= 1)),
        ("eth.not-ours", std::boxed::Box::new(|frame| frame[5] ^= 1)),
        ("eth.unknown-type", std::boxed::Box::new(|frame| frame[12] = 0x86)),
        ("ip.malformed", std::boxed::Box::new(change(14, 0x65))),
        ("ip.malformed", std::boxed::Box::new(change(14, 0x44))),
        ("ip.malformed", std::boxed::Box::new(change(16, 0xff))),
        ("ip.malformed", std::boxed::Box::new(change(17, 10))),
        ("ip.bad-checksum", std::boxed::Box::new(|frame| frame[24] ^= 1)),
        ("ip.fragments", std::boxed::Box::new(change(20, 0x20))),
        ("ip.fragments", std::boxed::Box::new(change(21, 1))),
        ("ip.not-ours", std::boxed::Box::new(change(33, 77))),
        ("ip.martians", std::boxed::Box::new(source([127, 0, 0, 1]))),
        ("ip.martians", std::boxed::Box::new(source([224, 0, 0, 1]))),
        ("ip.martians", std::boxed::Box::new(source([0, 0, 0, 0]))),
        ("ip.martians", std::boxed::Box::new(source([255, 255, 255, 255]))),
        ("ip.martians", std::boxed::Box::new(source([10, 0, 0, 255]))),
        ("ip.martians", std::boxed::Box::new(source([10, 0, 0, 2]))),
        ("udp.malformed", std::boxed::Box::new(change(38, 0xff))),
        ("udp.malformed", std::boxed::Box::new(change(39, 7))),
        ("udp.bad-checksum", std::boxed::Box::new(change(43, 0))),
    ];
    for (counter, change) in table {
        let mut host = Host::b_knowing_a();
        let mut frame = udp_frame(7, 9, b"datagram");
        change(&mut frame);
        host.take(&frame);
        assert_eq!(host.counter(counter), 1, "{}", host.counted());
        assert_eq!(host.sent().len(), 0);
    }
}

#[test]
fn options_of_ip() {
    let table: [(&[u8], Option<&str>); 8] = [
        (&[1, 1, 1, 0], None),
        (&[0x94, 4, 0, 0], None),
        (&[7, 7, 4, 0, 0, 0, 0, 0], None),
        (&[0x83, 7, 4, 1, 2, 3, 4, 0], Some("ip.source-routes")),
        (&[1, 0x89, 3, 4], Some("ip.source-routes")),
        (&[7, 9, 4, 0, 0, 0, 0, 0], Some("ip.bad-options")),
        (&[1, 1, 7, 1], Some("ip.bad-options")),
        (&[1, 1, 1, 7], Some("ip.bad-options")),
    ];
    for (options, counter) in table {
        let mut host = Host::b_knowing_a();
        host.take(&ip_frame_with(IP_A, IP_B, 1, options, &echo_frame(b"x")[34..]));
        assert_eq!(host.sent().len(), usize::from(counter.is_none()), "{options:?}");
        if let Some(counter) = counter {
            assert_eq!(host.counter(counter), 1, "{options:?}");
        }
    }
}

/// Switches and hypervisors tag frames with a priority and no VLAN (IEEE 802.1Q 9.6).
#[test]
fn a_priority_tag_is_as_none() {
    let tagged = |frame: &[u8], tag: [u8; 4]| [&frame[..12], &tag, &frame[12..]].concat();
    for (tag, known) in [
        ([0x81, 0, 0, 0], true),
        ([0x81, 0, 0xe0, 0], true),
        ([0x88, 0xa8, 0x10, 0], true),
        ([0x81, 0, 0, 1], false),
        ([0x81, 0, 0xef, 0xff], false),
    ] {
        let mut b = Host::b();
        b.take(&tagged(&arp_frame(MAC_A, IP_A, IP_B, true), tag));
        assert_eq!(b.sent().len(), usize::from(known), "an answer to {tag:?}");
        let mut b = Host::b_knowing_a();
        let socket = b.stack.open(SocketKind::Datagram, 9).unwrap();
        b.stack.bind(socket, at(IP_B, 9)).unwrap();
        b.take(&tagged(&udp_frame(7, 9, b"urgent"), tag));
        b.take(&tagged(&echo_frame(b"x"), tag));
        assert_eq!(b.received(socket).len(), if known { 6 } else { 0 });
        assert_eq!(b.sent().len(), usize::from(known));
        assert_eq!(b.counter("eth.unknown-type"), if known { 0 } else { 2 });
    }
    // Not two of them, and no half of one.
    let mut b = Host::b();
    let twice = tagged(&tagged(&echo_frame(b"x"), [0x81, 0, 0, 0]), [0x81, 0, 0, 0]);
    for frame in [&twice[..], &twice[..15], &twice[..17]] {
        b.take(frame);
    }
    assert_eq!(b.counter("eth.unknown-type"), 3);
}

/// A frame with these bytes as the options of its TCP header, which has none.
fn with_tcp_options(frame: &[u8], options: &[u8]) -> Vec<u8> {
    let (head, payload) = frame.split_at(14 + 20 + 20);
    let mut frame = [head, options, payload].concat();
    let total = u16::try_from(frame.len() - 14).unwrap();
    frame[16..18].copy_from_slice(&total.to_be_bytes());
    frame[46] = u8::try_from((20 + options.len()) / 4).unwrap() << 4;
    fix_ip(&mut frame);
    fix_transport(&mut frame);
    frame
}

/// RFC 9293 MUST-7: whatever the options are, the segment counts, as on Linux.
#[test]
fn malformed_options_of_tcp_silence_no_segment() {
    let options: [&[u8]; 6] = [
        &[2, 0, 5, 180],
        &[2, 3, 5, 1],
        &[2, 4, 5, 180, 8, 40, 1, 1],
        &[4, 3, 1, 0, 2, 4, 5, 180],
        &[1, 1, 1, 8],
        &[5, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ];
    for options in options {
        let mut b = Host::b_knowing_a();
        let listener = b.stack.open(SocketKind::Stream, 2).unwrap();
        b.stack.bind(listener, at(IP_B, 80)).unwrap();
        b.stack.listen(listener, 5).unwrap();
        let plain = SegmentRepr { src_port: 9, dst_port: 80, window: 9000, ..Default::default() };
        let take = |b: &mut Host, repr: SegmentRepr, payload: &[u8]| {
            b.take(&with_tcp_options(&tcp_frame(&repr, payload), options));
            b.pass(Duration::from_millis(300));
            b.sent().iter().map(|frame| segment_of(frame)).next_back()
        };
        let syn = SegmentRepr { seq: Seq::new(100), syn: true, ..plain };
        let answer = take(&mut b, syn, &[]).expect("a SYN-ACK");
        assert!(answer.syn, "{options:?}");
        let ack = Some(answer.seq + 1);
        let next = |seq: u32| SegmentRepr { seq: Seq::new(seq), ack, ..plain };
        take(&mut b, next(101), &[]);
        let (server, _) = b.stack.accept(listener, 3).unwrap().expect("a connection");
        let answer = take(&mut b, next(101), b"data").expect("an ACK");
        assert_eq!(answer.ack, Some(Seq::new(105)), "{options:?}");
        assert_eq!(b.received(server), b"data");
        let answer = take(&mut b, SegmentRepr { fin: true, ..next(105) }, &[]).expect("an ACK");
        assert_eq!(answer.ack, Some(Seq::new(106)), "{options:?}");
        assert!(b.events_of(3).contains(&EventKind::Eof));
        take(&mut b, SegmentRepr { rst: true, ..next(106) }, &[]);
        assert_eq!(b.events_of(3), [EventKind::Failed(Error::BrokenPipe)]);
        assert_eq!(b.counter("tcp.malformed"), 0);
    }
}

/// The same for the answer to a SYN of our own.
#[test]
fn malformed_options_of_a_syn_ack_are_ignored() {
    let mut b = Host::b_knowing_a();
    let socket = b.stack.open(SocketKind::Stream, 1).unwrap();
    b.stack.connect(b.now, socket, at(IP_A, 80)).unwrap();
    let syn = segment_of(&b.sent()[0]);
    let answer = SegmentRepr {
        src_port: 80,
        dst_port: syn.src_port,
        seq: Seq::new(7),
        ack: Some(syn.seq + 1),
        syn: true,
        window: 9000,
        ..Default::default()
    };
    b.take(&with_tcp_options(&tcp_frame(&answer, &[]), &[3, 3, 7, 2, 3, 5, 4, 0]));
    assert_eq!(b.events_of(1), [EventKind::Connected]);
}

#[derive(Debug, Clone)]
enum Mutation {
    Set(prop::sample::Index, u8),
    Flip(prop::sample::Index, u8),
    Truncate(prop::sample::Index),
    Extend(Vec<u8>),
    Insert(prop::sample::Index, Vec<u8>),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let place = any::<prop::sample::Index>;
    let bytes = || proptest::collection::vec(any::<u8>(), 1..60);
    prop_oneof![
        4 => (place(), any::<u8>()).prop_map(|(at, value)| Mutation::Set(at, value)),
        4 => (place(), 0u8..8).prop_map(|(at, bit)| Mutation::Flip(at, bit)),
        1 => place().prop_map(Mutation::Truncate),
        1 => bytes().prop_map(Mutation::Extend),
        1 => (place(), bytes()).prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
    ]
}

fn mutate(frame: &mut Vec<u8>, mutation: &Mutation) {
    let len = frame.len();
    if len == 0 {
        return;
    }
    match mutation {
        Mutation::Set(at, value) => frame[at.index(len)] = *value,
        Mutation::Flip(at, bit) => frame[at.index(len)] ^= 1 << bit,
        Mutation::Truncate(at) => frame.truncate(at.index(len)),
        Mutation::Extend(bytes) => frame.extend_from_slice(bytes),
        Mutation::Insert(at, bytes) => {
            let at = at.index(len);
            frame.splice(at..at, bytes.iter().copied());
        }
    }
}

type Frames = Vec<(prop::sample::Index, Vec<Mutation>, bool)>;

fn frames() -> impl Strategy<Value = Frames> {
    let mutations = proptest::collection::vec(mutation(), 0..4);
    let frame = (any::<prop::sample::Index>(), mutations, any::<bool>());
    proptest::collection::vec(frame, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Valid frames, broken in any way, with the checksums made right again or not.
    #[test]
    fn broken_frames_do_no_harm(sequence in frames()) {
        let (mut host, valid) = target();
        for (which, mutations, fix) in &sequence {
            let mut frame = valid[which.index(valid.len())].clone();
            for mutation in mutations {
                mutate(&mut frame, mutation);
            }
            if *fix && frame.len() >= 34 {
                fix_ip(&mut frame);
                fix_transport(&mut frame);
            }
            host.take(&frame);
            host.poll();
            host.wire.frames.clear();
        }
        still_works(&mut host);
    }

    #[test]
    fn noise_does_no_harm(frame in proptest::collection::vec(any::<u8>(), 0..200)) {
        let (mut host, _) = target();
        host.take(&frame);
        let mut addressed = Vec::from(MAC_B.0);
        addressed.extend_from_slice(&frame);
        host.take(&addressed);
        still_works(&mut host);
    }
}
