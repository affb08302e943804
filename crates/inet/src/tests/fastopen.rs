//! Fast Open between two stacks, and by the frame.

use super::*;
use crate::FastOpenKeys;
use crate::tcp::FastOpenOption;

/// A client that may open fast, and a server with a listener that takes it.
fn pair() -> (Pair, Handle) {
    let mut config = Config::default();
    config.tcp.fastopen = 3;
    let mut pair = Pair::with(config.clone(), config);
    let listener = pair.b.stack.open(SocketKind::Stream, 2).unwrap();
    pair.b.stack.bind(listener, at(Ipv4Addr::UNSPECIFIED, 80)).unwrap();
    pair.b.stack.listen(listener, 5).unwrap();
    pair.b.stack.set_option(pair.b.now, listener, SockOption::FastOpen(5)).unwrap();
    (pair, listener)
}

fn stream(host: &mut Host, tag: u64) -> Handle {
    host.stack.open(SocketKind::Stream, tag).unwrap()
}

/// Starts a fast connection with `bytes`; how many of them the SYN takes.
fn open(pair: &mut Pair, tag: u64, bytes: &[u8]) -> (Handle, usize) {
    let client = stream(&mut pair.a, tag);
    let room = pair.a.stack.connect_fast(pair.a.now, client, at(IP_B, 80)).unwrap();
    pair.a.send(client, bytes);
    (client, room)
}

fn with_cookie() -> (Pair, Handle) {
    let (mut pair, listener) = pair();
    let (_, room) = open(&mut pair, 1, b"first");
    assert_eq!(room, 0);
    pair.settle();
    let (child, _) = pair.b.stack.accept(listener, 3).unwrap().unwrap();
    assert_eq!(pair.b.received(child), b"first");
    assert_eq!(pair.b.counter("tcp.fast-opens"), 0);
    pair.a.events();
    pair.b.events();
    (pair, listener)
}

#[test]
fn a_second_connection_brings_its_data_with_the_syn() {
    let (mut pair, listener) = with_cookie();
    let (client, room) = open(&mut pair, 4, &[7; 2000]);
    assert_eq!(room, 1420);
    let syn = pair.a.sent();
    assert_eq!(syn.len(), 1);
    let repr = segment_of(&syn[0]);
    assert!(repr.syn && repr.fast_open.is_some_and(|fast| fast.cookie().len() == 8));
    pair.b.take(&syn[0]);
    // Before the handshake is over: read, and write.
    assert_eq!(pair.b.events_of(2), [EventKind::Acceptable]);
    let (child, _) = pair.b.stack.accept(listener, 5).unwrap().unwrap();
    let info = pair.b.stack.tcp_info(pair.b.now, child).unwrap();
    assert_eq!((info.state, info.options & 32), (3, 32));
    assert_eq!(pair.b.received(child), [7; 1420]);
    pair.b.send(child, b"early");
    let answers = pair.b.sent();
    let syn_ack = segment_of(&answers[0]);
    assert_eq!(syn_ack.ack, Some(repr.seq + 1421));
    assert_eq!(answers.len(), 2);
    answers.iter().for_each(|frame| pair.a.take(frame));
    assert_eq!(pair.a.events_of(4), [EventKind::Connected, EventKind::Readable, EventKind::Acked]);
    pair.settle();
    assert_eq!(pair.a.received(client), b"early");
    assert_eq!(pair.b.received(child), [7; 580]);
    let info = pair.b.stack.tcp_info(pair.b.now, child).unwrap();
    assert_eq!(info.state, 1);
    let info = pair.a.stack.tcp_info(pair.a.now, client).unwrap();
    assert_eq!((info.options & 32, info.bytes_acked), (32, 2000));
    assert_eq!(pair.b.counter("tcp.fast-opens"), 1);
}

#[test]
fn data_that_the_server_does_not_take_comes_again() {
    let (mut pair, listener) = with_cookie();
    // Another key: the cookie is not good any more, and a new one comes.
    pair.b.stack.set_fast_open_keys(FastOpenKeys { current: [9; 16], other: None });
    let (client, room) = open(&mut pair, 4, b"data");
    assert_eq!(room, 1420);
    pair.settle();
    let (child, _) = pair.b.stack.accept(listener, 5).unwrap().unwrap();
    assert_eq!(pair.b.received(child), b"data");
    assert_eq!(pair.b.counter("tcp.fast-open-bad-cookies"), 1);
    let info = pair.a.stack.tcp_info(pair.a.now, client).unwrap();
    assert_eq!((info.options & 32, info.fastopen_client_fail), (0, 2));
    let (_, _) = open(&mut pair, 6, b"more");
    pair.settle();
    assert_eq!(pair.b.counter("tcp.fast-opens"), 1);
}

#[test]
fn a_lost_syn_is_sent_again_without_data() {
    let (mut pair, listener) = with_cookie();
    open(&mut pair, 4, b"data");
    assert_eq!(pair.a.sent().len(), 1);
    pair.a.now += Duration::from_millis(1100);
    pair.b.now = pair.a.now;
    let again = pair.a.sent();
    let repr = segment_of(&again[0]);
    assert!(repr.syn && repr.fast_open.is_none());
    assert_eq!(again[0].len(), 14 + 20 + repr.header_len());
    pair.b.take(&again[0]);
    pair.settle();
    let (child, _) = pair.b.stack.accept(listener, 5).unwrap().unwrap();
    assert_eq!(pair.b.received(child), b"data");
}

#[test]
fn a_lost_syn_ack_is_sent_again_and_its_data_with_it() {
    let (mut pair, listener) = with_cookie();
    let (client, _) = open(&mut pair, 4, b"data");
    let syn = pair.a.sent();
    pair.b.take(&syn[0]);
    let (child, _) = pair.b.stack.accept(listener, 5).unwrap().unwrap();
    pair.b.send(child, b"reply");
    assert_eq!(pair.b.sent().len(), 2);
    pair.pass(Duration::from_secs(4));
    assert_eq!(pair.a.received(client), b"reply");
    assert_eq!(pair.b.received(child), b"data");
    assert_eq!(pair.b.stack.tcp_info(pair.b.now, child).unwrap().state, 1);
}

#[test]
fn an_unproved_connection_ends_with_a_reset_or_silence() {
    let (mut pair, listener) = with_cookie();
    open(&mut pair, 4, b"data");
    let syn = pair.a.sent();
    pair.b.take(&syn[0]);
    let (child, _) = pair.b.stack.accept(listener, 5).unwrap().unwrap();
    pair.b.events();
    let repr = segment_of(&syn[0]);
    let rst = tcp::SegmentRepr { seq: repr.seq + 5, rst: true, syn: false, ..repr };
    pair.b.take(&tcp_frame(&rst, &[]));
    assert_eq!(pair.b.received(child), b"data");
    assert_eq!(pair.b.events_of(5), [EventKind::Failed(Error::Reset)]);

    open(&mut pair, 6, b"data");
    let syn = pair.a.sent();
    pair.b.take(&syn[0]);
    pair.b.stack.accept(listener, 7).unwrap().unwrap();
    pair.b.events();
    for _ in 0..200 {
        pair.b.pass(Duration::from_secs(1));
        pair.b.take(&arp_frame(MAC_A, IP_A, IP_B, true));
        pair.b.wire.frames.clear();
    }
    assert_eq!(pair.b.events_of(7), [EventKind::Failed(Error::TimedOut)]);
}

#[test]
fn a_listener_bounds_those_who_have_not_proved_themselves() {
    let (mut pair, listener) = with_cookie();
    pair.b.stack.set_option(pair.b.now, listener, SockOption::FastOpen(1)).unwrap();
    let syns: Vec<_> = (0..3)
        .map(|n| {
            open(&mut pair, 10 + n, b"data");
            pair.a.sent().remove(0)
        })
        .collect();
    pair.b.take(&syns[0]);
    pair.b.take(&syns[1]);
    assert_eq!(pair.b.counter("tcp.fast-opens"), 1);
    assert_eq!(pair.b.counter("tcp.fast-open-overflows"), 1);
    let answers = pair.b.sent();
    answers.iter().for_each(|frame| pair.a.take(frame));
    pair.settle();
    pair.b.take(&syns[2]);
    assert_eq!(pair.b.counter("tcp.fast-opens"), 2);
}

#[test]
fn connecting_may_wait_for_data() {
    let (mut pair, listener) = with_cookie();
    let client = stream(&mut pair.a, 4);
    let now = pair.a.now;
    pair.a.stack.set_option(now, client, SockOption::FastOpenConnect(true)).unwrap();
    pair.a.stack.connect(now, client, at(IP_B, 80)).unwrap();
    assert_eq!(pair.a.stack.deferred_room(client), Some(1420));
    assert!(pair.a.sent().is_empty());
    pair.a.send(client, b"data");
    assert_eq!(pair.a.stack.deferred_room(client), None);
    pair.settle();
    assert_eq!(pair.b.counter("tcp.fast-opens"), 1);
    let (child, _) = pair.b.stack.accept(listener, 5).unwrap().unwrap();
    assert_eq!(pair.b.received(child), b"data");
}

#[test]
fn a_peer_that_ignores_the_option_is_asked_in_the_older_form_and_then_not_again() {
    let (mut pair, _) = pair();
    pair.b = Host::new(IP_B, MAC_B, Config::default());
    let listener = stream(&mut pair.b, 2);
    pair.b.stack.bind(listener, at(Ipv4Addr::UNSPECIFIED, 80)).unwrap();
    pair.b.stack.listen(listener, 5).unwrap();
    for experimental in [false, true, false, false] {
        open(&mut pair, 1, b"");
        let mut asked = None;
        for _ in 0..3 {
            let sent = pair.a.sent();
            let syn = sent.iter().find(|frame| frame[12..14] == [8, 0]).map(|f| segment_of(f));
            asked = asked.or(syn.and_then(|syn| syn.fast_open));
            sent.iter().for_each(|frame| pair.b.take(frame));
            let back = pair.b.sent();
            back.iter().for_each(|frame| pair.a.take(frame));
        }
        assert_eq!(asked, Some(FastOpenOption::request(experimental)));
        pair.settle();
    }
}

/// The cookie that Linux makes with this key for these addresses.
#[test]
fn cookies_are_those_of_linux() {
    let words = [0xa0bf_63f7_u32, 0xed80_3d81, 0xcd64_1d30, 0xcebc_4a90];
    let mut key = [0; 16];
    for (bytes, word) in key.chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    let (server, client) = (Ipv4Addr::new(192, 168, 0, 2), Ipv4Addr::new(10, 248, 0, 2));
    let mut config = Config::default();
    config.tcp.fastopen = 0x403;
    let mut b = Host::new(server, MAC_B, config);
    b.stack.set_fast_open_keys(FastOpenKeys { current: key, other: None });
    let id = InterfaceId(0);
    b.stack.add_address(id, Cidr::new(Ipv4Addr::new(10, 248, 0, 9), 24)).unwrap();
    b.take(&arp_frame(MAC_A, client, Ipv4Addr::new(10, 248, 0, 9), true));
    b.wire.frames.clear();
    let listener = stream(&mut b, 2);
    b.stack.bind(listener, at(Ipv4Addr::UNSPECIFIED, 80)).unwrap();
    b.stack.listen(listener, 1).unwrap();
    let syn = tcp::SegmentRepr {
        src_port: 1,
        dst_port: 80,
        syn: true,
        window: 1000,
        fast_open: Some(FastOpenOption::request(true)),
        ..tcp::SegmentRepr::default()
    };
    let mut head = [0; tcp::MAX_HEADER];
    let len = syn.emit::<Chunk>(client.into(), server.into(), &[], &mut head);
    b.take(&ip_frame_with(client, server, 6, &[], &head[..len]));
    let sent = b.sent();
    let answer = segment_of(&sent[0]).fast_open.expect("a cookie");
    assert!(answer.experimental);
    assert_eq!(answer.cookie(), [0x00, 0xab, 0xaa, 0xab, 0xe8, 0xe9, 0x54, 0xc2]);
}

/// What a client whose SYN brought data sends after a SYN-ACK that refuses all of it.
#[test]
fn refused_data_goes_again_alone_and_holds_nothing_back() {
    let (mut pair, _) = with_cookie();
    pair.b.stack.set_fast_open_keys(FastOpenKeys { current: [9; 16], other: None });
    let (client, _) = open(&mut pair, 4, &[7; 3000]);
    let syn = pair.a.sent();
    pair.b.take(&syn[0]);
    let answer = pair.b.sent();
    pair.a.take(&answer[0]);
    // Ethernet, IPv4 and TCP headers off.
    let len = |frame: &Vec<u8>| frame.len() - 34 - 4 * usize::from(frame[46] >> 4);
    let lens: Vec<usize> = pair.a.sent().iter().map(len).collect();
    // What the SYN has brought, a full segment, and the rest, for which Nagle does not wait.
    assert_eq!(lens, [1420, 1448, 132]);
    assert_eq!(pair.a.stack.tcp_info(pair.a.now, client).unwrap().delivered, 1);
}

#[test]
fn a_client_that_may_not_open_fast_cannot_ask_for_it() {
    let mut config = Config::default();
    config.tcp.fastopen = 0;
    let mut pair = Pair::with(config, Config::default());
    let client = stream(&mut pair.a, 1);
    let set = pair.a.stack.set_option(pair.a.now, client, SockOption::FastOpenConnect(true));
    assert_eq!(set, Err(Error::Unsupported));
}
