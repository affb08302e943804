//! ICMPv6 and extension headers.

use super::*;

fn echo(source: Ipv6Addr, destination: Ipv6Addr, hops: u8) -> Vec<u8> {
    icmp_frame(source, destination, hops, &[128, 0, 0, 0, 0x12, 0x34, 0, 1, b'h', b'i'])
}

#[test]
fn echoes_are_answered() {
    let mut b = b_knowing_a6();
    b.take(&echo(A6, B6, 64));
    let sent = b.sent();
    assert_eq!(sent[0][..12], [MAC_A.0, MAC_B.0].concat());
    let (from, to, message) = icmp_in(&sent[0]).unwrap();
    assert_eq!((from, to), (B6, A6));
    assert_eq!(message[..2], [129, 0]);
    assert_eq!(message[4..], [0x12, 0x34, 0, 1, b'h', b'i']);
    // To all nodes: from the address that we have for the sender.
    b.take(&echo(A6, v6::ALL_NODES, 64));
    let (from, to, _) = icmp_in(&b.sent()[0]).unwrap();
    assert_eq!((from, to), (B6, A6));
    assert_eq!(b.counter("icmp.echo-replies"), 2);
}

#[test]
fn what_is_not_for_us_or_cannot_be() {
    let mut b = b_knowing_a6();
    let third = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0xc);
    let mut bad_sum = echo(A6, B6, 64);
    *bad_sum.last_mut().unwrap() ^= 1;
    let mut cut = echo(A6, B6, 64);
    cut.truncate(50);
    let table = [
        (echo(A6, third, 64), "ip6.not-ours"),
        (echo(A6, "ff02::1:2".parse().unwrap(), 64), "ip6.not-ours"),
        (echo(B6, B6, 64), "ip6.martians"),
        (echo("::1".parse().unwrap(), B6, 64), "ip6.martians"),
        (frame6("::".parse().unwrap(), B6, 17, 64, &[0; 8]), "ip6.martians"),
        (bad_sum, "icmp.bad-checksum"),
        (cut, "ip6.malformed"),
        (icmp_frame(A6, B6, 64, &[128, 0, 0, 0]), "icmp.malformed"),
        (frame6(A6, B6, 59, 64, b"nothing"), "ip6.empty"),
        (
            frame6(A6, B6, 44, 64, &[17, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
            "ip.fragments",
        ),
    ];
    for (frame, counter) in table {
        let before = b.counter(counter);
        b.take(&frame);
        assert_eq!(b.counter(counter), before + 1, "{counter}");
        assert_eq!(b.sent().len(), 0, "{counter}");
    }
}

/// Next header, payload, and the error's type, code and word.
#[test]
fn errors_say_what_and_where() {
    let udp = {
        let mut bytes = std::vec![0, 9, 0, 99, 0, 8, 0, 0];
        let pseudo = ip::pseudo_sum(A6.into(), B6.into(), IpProtocol::Udp, 8);
        let sum = !checksum::combine(&[pseudo, checksum::data(&bytes)]);
        bytes[6..].copy_from_slice(&sum.to_be_bytes());
        bytes
    };
    let padded = |next: u8, rest: &[u8]| [&[next, 0, 1, 4, 0, 0, 0, 0], rest].concat();
    let table = [
        (17, udp.clone(), (1, 4, 0)),
        (60, padded(17, &udp), (1, 4, 0)),
        (200, std::vec![0; 8], (4, 1, 6)),
        (60, padded(200, &[0; 8]), (4, 1, 40)),
        (60, padded(0, &padded(17, &udp)), (4, 1, 40)),
        (60, std::vec![17, 0, 0xc9, 0, 1, 2, 0, 0], (4, 2, 42)),
        (43, std::vec![17, 0, 0, 1, 0, 0, 0, 0], (4, 0, 42)),
    ];
    let mut b = b_knowing_a6();
    for (next, payload, (kind, code, word)) in table {
        let frame = frame6(A6, B6, next, 64, &payload);
        b.take(&frame);
        let sent = b.sent();
        let (from, to, message) = icmp_in(&sent[0]).unwrap();
        assert_eq!((from, to), (B6, A6));
        assert_eq!(message[..2], [kind, code], "{next} {payload:?}");
        assert_eq!(message[4..8], u32::to_be_bytes(word), "{next} {payload:?}");
        assert_eq!(message[8..], frame[14..], "the whole packet");
    }
    assert_eq!(b.counter("icmp.errors-out"), 7);
}

#[test]
fn errors_are_short_and_not_sent_about_everything() {
    let mut b = b_knowing_a6();
    b.take(&frame6(A6, B6, 200, 64, &[7; 1400]));
    assert_eq!(b.sent()[0].len(), 14 + 1280);
    let group = v6::ALL_NODES;
    let option = |kind: u8| [17, 0, kind, 0, 1, 2, 0, 0];
    let wrong_next =
        |kind: u8, rest: &[u8]| [&[58, 0, 1, 4, 0, 0, 0, 0, kind, 0, 0, 0], rest].concat();
    // An error and a redirect behind a header that is itself a problem.
    let after_routing = |kind: u8| {
        let mut bytes = std::vec![58, 0, 0, 1, 0, 0, 0, 0];
        bytes.extend_from_slice(&wrong_next(kind, &[0; 8])[8..]);
        bytes
    };
    let silent = [
        frame6("::".parse().unwrap(), B6, 200, 64, &[0; 8]),
        frame6(A6, group, 200, 64, &[0; 8]),
        frame6(A6, group, 60, 64, &option(0xc9)),
        frame6(A6, group, 43, 64, &[17, 0, 0, 1, 0, 0, 0, 0]),
        frame6(A6, B6, 60, 64, &option(0x49)),
        icmp_frame(A6, B6, 64, &[1, 0, 0, 0, 0, 0, 0, 0]),
        icmp_frame(A6, B6, 64, &[199, 0, 0, 0, 0, 0, 0, 0]),
    ];
    for frame in silent {
        b.take(&frame);
        assert_eq!(b.sent().len(), 0, "{:?}", &frame[14..]);
    }
    // An unknown option may ask to be told of in a group, too (RFC 4443 2.4 (e.3)).
    b.take(&frame6(A6, group, 60, 64, &option(0x89)));
    let (from, _, message) = icmp_in(&b.sent()[0]).unwrap();
    assert_eq!((from, message[..2].to_vec()), (B6, std::vec![4, 2]));
    // Behind a routing header nothing is looked at, so the problem is told.
    b.take(&frame6(A6, B6, 43, 64, &after_routing(128)));
    assert_eq!(b.sent().len(), 1);
    let before = b.counter("icmp.errors-limited");
    for _ in 0..200 {
        b.take(&frame6(A6, B6, 200, 64, &[0; 8]));
    }
    assert!(b.counter("icmp.errors-limited") > before + 100);
    assert!(b.sent().len() < 60);
}

#[test]
fn errors_are_believed_if_they_quote_what_was_sent() {
    let mut pair = pair6();
    let listener = pair.b.stack.open_in(Family::V6, SocketKind::Stream, 2).unwrap();
    pair.b.stack.bind(listener, at6(Ipv6Addr::UNSPECIFIED, 80)).unwrap();
    let udp = pair.a.stack.open_in(Family::V6, SocketKind::Datagram, 1).unwrap();
    pair.a.stack.connect(pair.a.now, udp, at6(B6, 9)).unwrap();
    pair.a.send(udp, b"anybody?");
    pair.settle();
    let refused = EventKind::Failed(Error::Refused);
    assert!(pair.a.events_of(1).contains(&refused), "{}", pair.b.counted());
    assert_eq!(pair.a.counter("icmp.errors-in"), 1);
    // What was never sent.
    let mut b = b_knowing_a6();
    let mut quote = frame6(B6, A6, 17, 64, &[0, 1, 0, 2, 0, 8, 0, 0])[14..].to_vec();
    let error = |quote: &[u8]| icmp_frame(A6, B6, 64, &[&[1, 4, 0, 0, 0, 0, 0, 0], quote].concat());
    b.take(&error(&quote));
    assert_eq!(b.counter("icmp.errors-stray"), 1);
    quote.truncate(44);
    b.take(&error(&quote));
    assert_eq!(b.counter("icmp.malformed"), 1);
}

#[test]
fn a_connection_attempt_fails_by_an_error_about_it() {
    let mut b = b_knowing_a6();
    let stream = b.stack.open_in(Family::V6, SocketKind::Stream, 1).unwrap();
    b.stack.connect(b.now, stream, at6(A6, 80)).unwrap();
    let syn = b.sent().remove(0);
    let error = |quote: &[u8]| icmp_frame(A6, B6, 64, &[&[1, 4, 0, 0, 0, 0, 0, 0], quote].concat());
    let mut other = syn[14..].to_vec();
    other[44] ^= 1;
    b.take(&error(&other));
    assert_eq!(b.events_of(1), [], "another sequence number");
    b.take(&error(&syn[14..]));
    assert_eq!(b.events_of(1), [EventKind::Failed(Error::Refused)]);
}

#[test]
fn fragments_are_joined_and_what_is_never_whole_is_told() {
    let mut b = b_knowing_a6();
    let request = echo(A6, B6, 64)[54..].to_vec();
    let whole = [&request[..], &[7; 1990]].concat();
    let whole = icmp_frame(A6, B6, 64, &whole)[54..].to_vec();
    let part = |id: u8, at: usize, end: usize| {
        let more = u16::from(end < whole.len());
        let [high, low] = (u16::try_from(at).unwrap() | more).to_be_bytes();
        let header = [58, 0, high, low, 0, 0, 0, id];
        frame6(A6, B6, 44, 64, &[&header[..], &whole[at..end]].concat())
    };
    // The answer is as long as the request: it does not fit the link in one piece.
    b.take(&part(1, 1000, 2000));
    b.take(&part(1, 0, 1000));
    assert_eq!(b.counter("ip.reassembled"), 1, "{}", b.counted());
    assert_eq!(b.counter("icmp.echo-replies"), 1);
    b.wire.frames.clear();
    b.take(&part(2, 0, 1000));
    b.pass(61 * SECOND);
    // A has been forgotten meanwhile, and answers.
    b.take(&advertisement(A6, SOLICITED | OVERRIDE, Some(MAC_A)));
    let notified: Vec<_> = b.sent().iter().filter_map(|frame| icmp_in(frame)).collect();
    let (from, to, message) = notified.iter().find(|(.., m)| m[0] == 3).expect("time exceeded");
    assert_eq!((*from, *to, message[1]), (B6, A6, 1));
    // A part that does not end at a multiple of 8 (RFC 8200 4.5).
    b.take(&part(3, 0, 999));
    let (.., message) = icmp_in(&b.sent()[0]).unwrap();
    assert_eq!((&message[..2], &message[4..8]), (&[4, 0][..], &[0, 0, 0, 4][..]));
}
