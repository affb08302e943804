//! Connection requests: floods, cookies, deferred and refused accepts.

use super::*;
use crate::tcp::{SegmentRepr, Seq, Timestamps};

const SECOND: Duration = Duration::from_secs(1);

/// B, which knows A and has the MAC addresses of nobody else, with a listener.
fn server(config: Config, backlog: u16) -> (Host, Handle) {
    let mut b = Host::new(IP_B, MAC_B, config);
    b.take(&arp_frame(MAC_A, IP_A, IP_B, true));
    b.wire.frames.clear();
    let handle = b.stack.open(SocketKind::Stream, 2).unwrap();
    b.stack.bind(handle, at(Ipv4Addr::UNSPECIFIED, 80)).unwrap();
    b.stack.listen(handle, backlog).unwrap();
    (b, handle)
}

fn syn(port: u16) -> SegmentRepr {
    SegmentRepr {
        src_port: port,
        dst_port: 80,
        seq: Seq::new(1000),
        syn: true,
        window: 8000,
        mss: Some(1400),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some(Timestamps { value: 5, echo: 0 }),
        ..SegmentRepr::default()
    }
}

/// The last ACK of the handshake that `answer` answers.
fn last_ack(answer: &SegmentRepr) -> SegmentRepr {
    SegmentRepr {
        src_port: answer.dst_port,
        dst_port: 80,
        seq: answer.ack.unwrap(),
        ack: Some(answer.seq + 1),
        window: 500,
        timestamps: answer.timestamps.map(|t| Timestamps { value: 6, echo: t.value }),
        ..SegmentRepr::default()
    }
}

/// The only segment among `sent`.
fn only(sent: &[Vec<u8>]) -> SegmentRepr {
    let mut segments = sent.iter().filter(|frame| frame[12..14] == [8, 0] && frame[23] == 6);
    let segment = segments.next().map(|frame| segment_of(frame));
    assert!(segments.next().is_none());
    segment.expect("a segment")
}

/// The frame of a SYN from the 24 bits of `n`, over A as a router would forward it.
fn stray_syn(n: u32) -> Vec<u8> {
    let [_, a, b, c] = n.to_be_bytes();
    let source = Ipv4Addr::new(10, 0, 0, 3);
    let repr = SegmentRepr {
        src_port: u16::from_be_bytes([b, c]).max(1),
        dst_port: 80,
        seq: Seq::new(n),
        syn: true,
        window: 1000,
        mss: Some(1460),
        ..SegmentRepr::default()
    };
    let source = Ipv4Addr::from(u32::from(source) + u32::from(a) % 250);
    let mut head = [0; tcp::MAX_HEADER];
    let len = repr.emit::<Chunk>(source.into(), IP_B.into(), &[], &mut head);
    ip_frame_with(source, IP_B, 6, &[], &head[..len])
}

#[test]
fn a_million_requests_take_bounded_memory_and_others_still_connect() {
    let (mut b, listener) = server(Config::default(), 512);
    for host in 0..250 {
        let ip = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 3)) + host);
        b.take(&arp_frame(MAC_A, ip, IP_B, true));
    }
    b.wire.frames.clear();
    for n in 0..1_000_000_u32 {
        b.take(&stray_syn(n));
        if n % 64 == 0 {
            b.wire.frames.clear();
        }
        if n % 50_000 == 0 {
            // An honest peer in the midst of it.
            b.wire.frames.clear();
            let port = 1000 + (n / 50_000) as u16;
            b.take(&tcp_frame(&syn(port), &[]));
            let answer = only(&b.sent());
            b.take(&tcp_frame(&last_ack(&answer), b"hello"));
            let (child, _) = b.stack.accept(listener, 3).unwrap().expect("a connection");
            assert_eq!(b.received(child), b"hello");
            let info = b.stack.tcp_info(b.now, child).unwrap();
            assert_eq!((info.snd_wscale, info.snd_wnd), (7, 500 << 7));
            b.sent();
        }
    }
    let requests = b.states().iter().filter(|state| **state == "SYN-RECV").count();
    assert!(requests <= 512, "{requests}");
    assert!(b.counter("tcp.cookies-sent") > 990_000);
    assert_eq!(b.counter("tcp.cookies-bad"), 0);
    assert!(size_of::<crate::sockets::request::ConnectionRequest>() <= 160);
    b.wire.frames.clear();
    b.pass(120 * SECOND);
    b.wire.frames.clear();
    b.pass(120 * SECOND);
    assert!(!b.states().contains(&"SYN-RECV"), "given up");
}

#[test]
fn cookies_always_or_never() {
    let mut config = Config::default();
    config.tcp.syncookies = 2;
    let (mut b, listener) = server(config, 5);
    b.take(&tcp_frame(&syn(1), &[]));
    let answer = only(&b.sent());
    assert_eq!(b.states(), ["LISTEN"], "nothing is remembered");
    // The cookie of somebody else, one that is wrong, one that is too late.
    for bad in [
        SegmentRepr { src_port: 2, ..last_ack(&answer) },
        SegmentRepr { ack: Some(answer.seq), ..last_ack(&answer) },
    ] {
        b.take(&tcp_frame(&bad, &[]));
        assert!(only(&b.sent()).rst);
    }
    assert_eq!(b.counter("tcp.cookies-bad"), 2);
    b.take(&tcp_frame(&last_ack(&answer), &[]));
    assert!(b.stack.accept(listener, 3).unwrap().is_some());
    b.take(&tcp_frame(&syn(3), &[]));
    let answer = only(&b.sent());
    b.pass(121 * SECOND);
    b.take(&arp_frame(MAC_A, IP_A, IP_B, true));
    b.sent();
    b.take(&tcp_frame(&last_ack(&answer), &[]));
    assert!(only(&b.sent()).rst);
    // Without timestamps there is no room for the other options.
    b.take(&tcp_frame(&SegmentRepr { timestamps: None, ..syn(4) }, &[]));
    let answer = only(&b.sent());
    assert_eq!((answer.window_scale, answer.sack_permitted), (None, false));
    assert_eq!(answer.mss, Some(1460));

    let mut config = Config::default();
    config.tcp.syncookies = 0;
    config.tcp.max_syn_backlog = 8;
    let (mut b, _) = server(config, 100);
    for port in 1..20 {
        b.take(&tcp_frame(&syn(port), &[]));
    }
    // As Linux: the last quarter is for those who are known.
    assert_eq!(b.sent().len(), 7);
    assert_eq!((b.counter("tcp.syn-drops"), b.counter("tcp.cookies-sent")), (12, 0));
}

#[test]
fn a_syn_ack_is_repeated_by_time_and_by_request() {
    let (mut b, _) = server(Config::default(), 5);
    b.take(&tcp_frame(&syn(1), &[]));
    let first = only(&b.sent());
    b.take(&tcp_frame(&syn(1), &[]));
    assert!(b.sent().is_empty(), "not so soon");
    b.pass(SECOND / 2);
    b.take(&tcp_frame(&syn(1), &[]));
    let again = only(&b.sent());
    assert_eq!((again.seq, again.ack, again.mss), (first.seq, first.ack, first.mss));
    let mut at = Vec::new();
    for tenth in 0..700 {
        b.pass(SECOND / 10);
        b.take(&arp_frame(MAC_A, IP_A, IP_B, false));
        let sent = b.sent();
        if sent.iter().any(|frame| frame[12..14] == [8, 0]) {
            at.push((tenth + 6) / 10);
            only(&sent);
        }
    }
    assert_eq!(at, [1, 3, 7, 15, 31], "seconds");
    assert_eq!(b.states(), ["LISTEN"]);
    assert_eq!(b.counter("tcp.requests-expired"), 1);
}

#[test]
fn a_full_accept_queue_may_refuse() {
    let mut config = Config::default();
    config.tcp.abort_on_overflow = true;
    let (mut b, listener) = server(config, 5);
    let answers = [1, 2].map(|port| {
        b.take(&tcp_frame(&syn(port), &[]));
        only(&b.sent())
    });
    b.stack.listen(listener, 0).unwrap();
    b.take(&tcp_frame(&last_ack(&answers[0]), &[]));
    assert!(b.sent().is_empty());
    b.take(&tcp_frame(&last_ack(&answers[1]), &[]));
    assert!(only(&b.sent()).rst);
    assert_eq!(b.states().iter().filter(|state| **state == "SYN-RECV").count(), 0);
}

#[test]
fn accepting_can_wait_for_data() {
    let (mut b, listener) = server(Config::default(), 5);
    let time = SockOption::DeferAccept(Duration::from_secs(5));
    b.stack.set_option(b.now, listener, time).unwrap();
    let rounded = b.stack.option(listener, OptionName::DeferAccept);
    assert_eq!(rounded, Ok(SockOption::DeferAccept(Duration::from_secs(7))));
    let connect = |b: &mut Host, port| {
        b.events();
        b.take(&tcp_frame(&syn(port), &[]));
        let answer = only(&b.sent());
        b.take(&tcp_frame(&last_ack(&answer), &[]));
        assert_eq!(b.events(), []);
        last_ack(&answer)
    };
    let ack = connect(&mut b, 1);
    b.take(&tcp_frame(&ack, b"data"));
    assert_eq!(b.events_of(2), [EventKind::Acceptable]);
    let (child, _) = b.stack.accept(listener, 3).unwrap().unwrap();
    assert_eq!(b.received(child), b"data");
    b.sent();
    // Nothing comes: at the end of the time the SYN-ACK fetches the ACK once more.
    let ack = connect(&mut b, 2);
    b.sent();
    b.pass(SECOND * 6);
    assert!(b.sent().is_empty());
    b.pass(SECOND * 2);
    b.take(&arp_frame(MAC_A, IP_A, IP_B, true));
    assert!(b.sent().iter().any(|frame| frame[23] == 6 && segment_of(frame).syn));
    b.take(&tcp_frame(&ack, &[]));
    assert_eq!(b.events_of(2), [EventKind::Acceptable]);
}

#[test]
fn what_a_request_answers() {
    let (mut b, listener) = server(Config::default(), 5);
    b.take(&tcp_frame(&syn(1), &[]));
    let answer = only(&b.sent());
    let ack = last_ack(&answer);
    let request = |b: &Host| b.states().contains(&"SYN-RECV");
    // A wrong ACK: RST, and the request lives.
    b.take(&tcp_frame(&SegmentRepr { ack: ack.ack.map(|ack| ack + 9), ..ack }, &[]));
    assert!(only(&b.sent()).rst && request(&b));
    // Outside of the window: an ACK, not too often.
    b.pass(SECOND / 2);
    for expected in [1, 0] {
        b.take(&tcp_frame(&SegmentRepr { seq: ack.seq + 1_000_000, ..ack }, &[]));
        let sent = b.sent();
        assert_eq!(sent.len(), expected);
        let challenge = sent.first().map(|frame| segment_of(frame));
        assert!(challenge.is_none_or(|c| !c.syn && c.ack == Some(ack.seq) && c.mss.is_none()));
    }
    // A RST that is not exact is not believed, one that is ends it.
    let rst = SegmentRepr { rst: true, ack: None, seq: ack.seq + 1, ..ack };
    b.take(&tcp_frame(&rst, &[]));
    assert!(request(&b));
    b.take(&tcp_frame(&SegmentRepr { seq: ack.seq, ..rst }, &[]));
    assert!(!request(&b) && b.sent().is_empty());
    // The end of the listener is the end of its requests.
    b.take(&tcp_frame(&syn(2), &[]));
    let ack = last_ack(&only(&b.sent()));
    assert!(request(&b));
    b.stack.close(b.now, listener).unwrap();
    assert!(b.states().is_empty());
    b.take(&tcp_frame(&ack, &[]));
    assert!(only(&b.sent()).rst);
}
