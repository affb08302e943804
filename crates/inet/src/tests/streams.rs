//! Connections between two stacks, and what a listener does.

use super::*;
use crate::tcp::{SegmentRepr, Seq};

/// A second and some ticks of the timer wheel.
const SECOND: Duration = Duration::from_millis(1001);

pub(super) fn stream(host: &mut Host, tag: u64) -> Handle {
    host.stack.open(SocketKind::Stream, tag).unwrap()
}

pub(super) fn listener(host: &mut Host, tag: u64, port: u16, backlog: u16) -> Handle {
    let socket = stream(host, tag);
    host.stack.bind(socket, at(Ipv4Addr::UNSPECIFIED, port)).unwrap();
    host.stack.listen(socket, backlog).unwrap();
    socket
}

fn syn(from: u16, to: u16) -> SegmentRepr {
    SegmentRepr {
        src_port: from,
        dst_port: to,
        seq: Seq::new(1000),
        syn: true,
        window: 10_000,
        ..SegmentRepr::default()
    }
}

#[test]
fn data_both_ways_and_an_orderly_end() {
    let mut pair = Pair::new();
    let (client, server, _) = pair.connected();
    let up: Vec<u8> = (0..100_000u32).map(|n| (n % 251) as u8).collect();
    let down: Vec<u8> = (0..70_000u32).map(|n| (n % 239) as u8).collect();
    for part in up.chunks(9999) {
        pair.a.send(client, part);
    }
    for part in down.chunks(777) {
        pair.b.send(server, part);
    }
    let (mut got_up, mut got_down) = (Vec::new(), Vec::new());
    for _ in 0..1000 {
        pair.pass(Duration::from_millis(50));
        got_up.extend(pair.b.received(server));
        got_down.extend(pair.a.received(client));
    }
    assert_eq!((got_up == up, got_down == down), (true, true));
    assert_eq!(pair.a.stack.acked(client), 100_000);
    pair.a.events();
    pair.b.events();
    pair.a.stack.shutdown(pair.a.now, client, ShutdownHow::Write).unwrap();
    pair.settle();
    assert_eq!(pair.b.events_of(3), [EventKind::Eof]);
    pair.b.send(server, b"after");
    pair.settle();
    assert_eq!(pair.a.received(client), b"after");
    pair.b.stack.close(pair.b.now, server).unwrap();
    pair.pass(SECOND);
    assert_eq!(pair.b.events_of(3), [EventKind::Closed]);
    assert_eq!(pair.a.events_of(1), [EventKind::Readable, EventKind::Eof]);
    pair.a.stack.close(pair.a.now, client).unwrap();
    assert_eq!(pair.a.events_of(1), [EventKind::Closed]);
    assert_eq!(pair.a.states(), ["TIME-WAIT"]);
    pair.pass(61 * SECOND);
    assert_eq!(pair.a.states(), [""; 0]);
    assert_eq!(pair.b.states(), ["LISTEN"]);
    assert_eq!(pair.a.counter("tcp.retransmits"), 0);
    assert_eq!(pair.a.counter("memory.frames-held"), 0);
    pair.pass(120 * SECOND);
    assert_eq!(pair.a.stack.poll_at(), None, "neighbours are forgotten too");
}

#[test]
fn a_closed_port_refuses() {
    let mut pair = Pair::new();
    let socket = stream(&mut pair.a, 1);
    pair.a.stack.connect(pair.a.now, socket, at(IP_B, 80)).unwrap();
    assert_eq!(pair.a.stack.connect(pair.a.now, socket, at(IP_B, 80)), Err(Error::Already));
    assert_eq!(pair.a.stack.peer_addr(socket), Err(Error::NotConnected));
    pair.settle();
    assert_eq!(pair.a.events_of(1), [EventKind::Failed(Error::Refused)]);
    assert_eq!(pair.b.counter("tcp.resets-out"), 1);
    // As on Linux it shows the port that it had, and may be tried again.
    assert!(pair.a.stack.local_addr(socket).unwrap().ip().is_unspecified());
    listener(&mut pair.b, 2, 80, 1);
    pair.a.stack.connect(pair.a.now, socket, at(IP_B, 80)).unwrap();
    pair.settle();
    assert_eq!(pair.a.events_of(1), [EventKind::Connected]);
    let again = pair.a.stack.connect(pair.a.now, socket, at(IP_B, 80));
    assert_eq!(again, Err(Error::AlreadyConnected));
}

#[test]
fn where_one_cannot_connect_to() {
    let mut b = Host::b();
    let socket = stream(&mut b, 1);
    let table = [
        (at(Ipv4Addr::BROADCAST, 80), Error::NetUnreachable),
        (at(Ipv4Addr::new(224, 0, 0, 1), 80), Error::NetUnreachable),
        (at(Ipv4Addr::new(192, 0, 2, 1), 80), Error::NetUnreachable),
        ("[2001:db8::1]:80".parse().unwrap(), Error::Unsupported),
    ];
    for (to, error) in table {
        assert_eq!(b.stack.connect(b.now, socket, to), Err(error), "{to}");
    }
    let refused = b.stack.send(b.now, socket, Chunk(Vec::new()), None);
    assert_eq!(refused.unwrap_err().error, Error::NotConnected);
    assert_eq!(b.stack.shutdown(b.now, socket, ShutdownHow::Both), Err(Error::NotConnected));
}

#[test]
fn a_silent_host_times_out_as_on_linux() {
    let mut b = Host::b_knowing_a();
    let socket = stream(&mut b, 1);
    b.stack.connect(b.now, socket, at(IP_A, 80)).unwrap();
    let mut syns = 0;
    for second in 0..200 {
        syns += b.sent().iter().filter(|frame| frame[12..14] == [8, 0]).count();
        if let Some(event) = b.events().first() {
            assert_eq!(event.kind, EventKind::Failed(Error::TimedOut));
            assert_eq!((second, syns), (127, 7));
            return;
        }
        b.pass(SECOND);
        b.take(&arp_frame(MAC_A, IP_A, IP_B, false));
    }
    panic!("still trying");
}

#[test]
fn the_accept_queue_is_bounded_and_holds_up_handshakes() {
    let mut pair = Pair::new();
    let server = listener(&mut pair.b, 2, 80, 5);
    let clients: Vec<Handle> = (0..4).map(|n| stream(&mut pair.a, 10 + n)).collect();
    for client in &clients {
        pair.a.stack.connect(pair.a.now, *client, at(IP_B, 80)).unwrap();
    }
    // All four are asked for before the first handshake completes.
    let requests = pair.a.sent();
    requests.iter().for_each(|frame| pair.b.take(frame));
    let answers = pair.b.sent();
    answers.iter().for_each(|frame| pair.a.take(frame));
    let requests = pair.a.sent();
    requests.iter().for_each(|frame| pair.b.take(frame));
    assert_eq!(pair.b.states().iter().filter(|state| **state == "SYN-RECV").count(), 4);
    pair.b.stack.listen(server, 1).unwrap();
    pair.settle();
    let accepted = |pair: &mut Pair| {
        let mut count = 0;
        while let Some((_, peer)) = pair.b.stack.accept(server, 3).unwrap() {
            assert_eq!(peer.ip(), IP_A);
            count += 1;
        }
        count
    };
    assert_eq!(pair.b.counter("tcp.listen-overflows"), 2);
    assert_eq!(pair.b.events_of(2), [EventKind::Acceptable]);
    let late = stream(&mut pair.a, 20);
    pair.a.stack.connect(pair.a.now, late, at(IP_B, 80)).unwrap();
    // Its request is answered with a cookie, which its data will bring back.
    pair.a.send(late, b"late");
    pair.settle();
    assert_eq!(pair.b.counter("tcp.syn-drops"), 1, "full");
    assert_eq!(accepted(&mut pair), 2);
    pair.pass(8 * SECOND);
    assert!(accepted(&mut pair) >= 2, "SYN-ACK and SYN are sent again");
    pair.pass(8 * SECOND);
    accepted(&mut pair);
    assert_eq!(pair.b.counter("tcp.passive-opens"), 5);
}

#[test]
fn half_open_connections_are_bounded() {
    let mut config = Config::default();
    config.tcp.syncookies = 0;
    let mut b = Host::new(IP_B, MAC_B, config);
    b.take(&arp_frame(MAC_A, IP_A, IP_B, true));
    b.wire.frames.clear();
    listener(&mut b, 2, 80, 32);
    for port in 1..=100 {
        b.take(&tcp_frame(&syn(port, 80), &[]));
    }
    assert_eq!(b.sent().len(), 32);
    assert_eq!(b.counter("tcp.syn-drops"), 68);
    b.pass(100 * SECOND);
    b.sent();
    assert_eq!(b.states(), ["LISTEN"], "given up");
    b.take(&arp_frame(MAC_A, IP_A, IP_B, true));
    b.sent();
    b.take(&tcp_frame(&syn(1, 80), &[]));
    let sent = b.sent();
    let syn_ack = segment_of(&sent[0]);
    assert!(syn_ack.syn && syn_ack.ack == Some(Seq::new(1001)));
    let reset = SegmentRepr {
        rst: true,
        syn: false,
        seq: Seq::new(1001),
        ack: Some(syn_ack.seq + 1),
        ..syn(1, 80)
    };
    b.take(&tcp_frame(&reset, &[]));
    assert_eq!(b.states(), ["LISTEN"]);
}

#[test]
fn what_a_listener_answers() {
    let mut b = Host::b_knowing_a();
    listener(&mut b, 2, 80, 32);
    let ack = SegmentRepr { syn: false, ack: Some(Seq::new(5)), ..syn(1, 80) };
    b.take(&tcp_frame(&ack, &[]));
    let sent = b.sent();
    let reset = segment_of(&sent[0]);
    assert!(reset.rst && reset.seq == Seq::new(5));
    for silent in [
        SegmentRepr { rst: true, ..ack },
        SegmentRepr { syn: false, ..syn(1, 80) },
        SegmentRepr { fin: true, ..syn(1, 80) },
    ] {
        b.take(&tcp_frame(&silent, &[]));
        assert_eq!(b.sent().len(), 0, "{silent:?}");
    }
}

#[test]
fn data_before_accept_is_kept_and_told_with_it() {
    let mut pair = Pair::new();
    let server = listener(&mut pair.b, 2, 80, 5);
    let client = stream(&mut pair.a, 1);
    pair.a.stack.connect(pair.a.now, client, at(IP_B, 80)).unwrap();
    pair.a.send(client, b"early");
    pair.a.stack.shutdown(pair.a.now, client, ShutdownHow::Write).unwrap();
    pair.settle();
    assert_eq!(pair.b.events(), [Event { tag: 2, kind: EventKind::Acceptable }]);
    let (child, peer) = pair.b.stack.accept(server, 3).unwrap().unwrap();
    assert_eq!(Ok(peer), pair.a.stack.local_addr(client));
    assert_eq!(pair.b.stack.local_addr(child), Ok(at(IP_B, 80)));
    assert_eq!(pair.b.events_of(3), [EventKind::Readable]);
    assert_eq!(pair.b.received(child), b"early");
    assert_eq!(pair.b.events_of(3), [EventKind::Eof]);
    assert_eq!(pair.b.stack.accept(server, 3).unwrap(), None);
}

#[test]
fn a_connection_reset_before_accept_is_accepted_and_fails() {
    let mut pair = Pair::new();
    let server = listener(&mut pair.b, 2, 80, 5);
    let client = stream(&mut pair.a, 1);
    pair.a.stack.connect(pair.a.now, client, at(IP_B, 80)).unwrap();
    pair.settle();
    pair.a.stack.abort(pair.a.now, client).unwrap();
    pair.settle();
    assert_eq!(pair.a.events_of(1).last(), Some(&EventKind::Closed));
    let (child, _) = pair.b.stack.accept(server, 3).unwrap().unwrap();
    assert_eq!(pair.b.events_of(3), [EventKind::Failed(Error::Reset)]);
    pair.b.stack.close(pair.b.now, child).unwrap();
    assert_eq!(pair.b.events_of(3), [EventKind::Closed]);
    assert_eq!(pair.b.states(), ["LISTEN"]);
}

#[test]
fn closing_a_listener_resets_whom_nobody_accepted() {
    let mut pair = Pair::new();
    let server = listener(&mut pair.b, 2, 80, 5);
    let client = stream(&mut pair.a, 1);
    pair.a.stack.connect(pair.a.now, client, at(IP_B, 80)).unwrap();
    pair.settle();
    assert_eq!(pair.a.events_of(1), [EventKind::Connected]);
    pair.b.stack.close(pair.b.now, server).unwrap();
    assert_eq!(pair.b.events_of(2), [EventKind::Closed]);
    pair.settle();
    assert_eq!(pair.a.events_of(1), [EventKind::Failed(Error::Reset)]);
    assert_eq!(pair.b.states(), [""; 0]);
    listener(&mut pair.b, 2, 80, 5);
}

#[test]
fn closing_with_unread_data_resets() {
    let mut pair = Pair::new();
    let (client, server, _) = pair.connected();
    pair.a.send(client, b"never read");
    pair.settle();
    pair.a.events();
    pair.b.stack.close(pair.b.now, server).unwrap();
    pair.settle();
    assert_eq!(pair.a.events_of(1), [EventKind::Failed(Error::Reset)]);
    assert_eq!(pair.b.counter("memory.frames-held"), 0);
    let refused = pair.a.stack.send(pair.a.now, client, Chunk(std::vec![1]), None);
    assert_eq!(refused.unwrap_err().error, Error::Reset);
}

#[test]
fn linger_of_zero_resets() {
    let mut pair = Pair::new();
    let (client, _, _) = pair.connected();
    let linger = SockOption::Linger(Some(Duration::ZERO));
    pair.a.stack.set_option(pair.a.now, client, linger).unwrap();
    pair.a.stack.close(pair.a.now, client).unwrap();
    assert_eq!(pair.a.events_of(1), [EventKind::Closed]);
    pair.settle();
    assert_eq!(pair.b.events_of(3), [EventKind::Failed(Error::Reset)]);
}

#[test]
fn binding_beside_time_wait_needs_reuse() {
    let mut pair = Pair::new();
    let (client, server, old) = pair.connected();
    pair.b.stack.close(pair.b.now, server).unwrap();
    pair.settle();
    pair.a.stack.close(pair.a.now, client).unwrap();
    pair.settle();
    pair.b.stack.close(pair.b.now, old).unwrap();
    pair.b.events();
    assert_eq!(pair.b.states(), ["TIME-WAIT"]);
    // The connection inherited the listener's option, which was off: as on Linux that is a
    // conflict.
    let new = stream(&mut pair.b, 4);
    pair.b.stack.set_option(pair.b.now, new, SockOption::ReuseAddr(true)).unwrap();
    let any = at(Ipv4Addr::UNSPECIFIED, 80);
    assert_eq!(pair.b.stack.bind(new, any), Err(Error::AddrInUse));
    pair.pass(61 * SECOND);
    pair.b.stack.bind(new, any).unwrap();
    pair.b.stack.listen(new, 5).unwrap();
    // This time it was on.
    let client = stream(&mut pair.a, 1);
    pair.a.stack.connect(pair.a.now, client, at(IP_B, 80)).unwrap();
    pair.settle();
    let (server, _) = pair.b.stack.accept(new, 3).unwrap().unwrap();
    pair.b.stack.close(pair.b.now, server).unwrap();
    pair.settle();
    pair.a.stack.close(pair.a.now, client).unwrap();
    pair.settle();
    pair.b.stack.close(pair.b.now, new).unwrap();
    let without = stream(&mut pair.b, 5);
    assert_eq!(pair.b.stack.bind(without, any), Err(Error::AddrInUse));
    pair.b.stack.set_option(pair.b.now, without, SockOption::ReuseAddr(true)).unwrap();
    pair.b.stack.bind(without, any).unwrap();
}

#[test]
fn a_new_connection_may_replace_one_in_time_wait() {
    let mut pair = Pair::new();
    listener(&mut pair.b, 2, 80, 5);
    let mut last = None;
    for round in 0..3 {
        let client = stream(&mut pair.a, 1);
        pair.a.stack.set_option(pair.a.now, client, SockOption::ReuseAddr(true)).unwrap();
        pair.a.stack.bind(client, at(IP_A, 5555)).unwrap();
        pair.a.stack.connect(pair.a.now, client, at(IP_B, 80)).unwrap();
        pair.settle();
        assert_eq!(pair.a.events_of(1), [EventKind::Connected], "round {round}");
        let listening = pair.b.stack.sockets().any(|socket| socket.state == "LISTEN");
        assert!(listening);
        let handle = *last.get_or_insert_with(|| listening_handle(&pair.b));
        let (server, _) = pair.b.stack.accept(handle, 3).unwrap().unwrap();
        pair.b.stack.close(pair.b.now, server).unwrap();
        pair.settle();
        pair.a.stack.close(pair.a.now, client).unwrap();
        pair.pass(SECOND);
        pair.a.events();
        pair.b.events();
    }
    assert_eq!(pair.b.counter("tcp.time-wait-reused"), 2);
    assert_eq!(pair.b.states(), ["LISTEN", "TIME-WAIT"]);
}

fn listening_handle(host: &Host) -> Handle {
    let mut sockets = host.stack.socket_layer().all();
    let listener = sockets
        .find(|(_, socket)| matches!(socket.body, crate::sockets::socket::SocketBody::Listener(_)));
    listener.expect("a listener").0
}

#[test]
fn time_wait_takes_no_sockets_place() {
    let config = Config { sockets: 3, ..Config::default() };
    let mut pair = Pair::with(Config::default(), config);
    let (client, server, old) = pair.connected();
    pair.b.stack.close(pair.b.now, server).unwrap();
    pair.settle();
    pair.a.stack.close(pair.a.now, client).unwrap();
    pair.settle();
    pair.b.events();
    assert_eq!(pair.b.states(), ["LISTEN", "TIME-WAIT"]);
    let third = stream(&mut pair.b, 7);
    let fourth = stream(&mut pair.b, 8);
    assert_eq!(pair.b.states(), ["LISTEN", "UNCONN", "UNCONN", "TIME-WAIT"]);
    assert_eq!(pair.b.stack.open(SocketKind::Stream, 9), Err(Error::NoBuffers));
    for handle in [old, third, fourth] {
        pair.b.stack.close(pair.b.now, handle).unwrap();
    }
    assert_eq!(pair.b.events().len(), 3);
    assert_eq!(pair.b.states(), ["TIME-WAIT"]);
    pair.pass(61 * SECOND);
    assert!(pair.b.states().is_empty());
}

#[test]
fn time_wait_connections_are_bounded() {
    let config = Config { max_tw_buckets: 4, ..Config::default() };
    let mut pair = Pair::with(Config::default(), config);
    let server = listener(&mut pair.b, 2, 80, 50);
    for _ in 0..10 {
        let client = stream(&mut pair.a, 1);
        pair.a.stack.connect(pair.a.now, client, at(IP_B, 80)).unwrap();
        pair.settle();
        let (child, _) = pair.b.stack.accept(server, 3).unwrap().unwrap();
        pair.b.stack.close(pair.b.now, child).unwrap();
        pair.settle();
        pair.a.stack.close(pair.a.now, client).unwrap();
        pair.settle();
    }
    pair.b.events();
    let waiting = pair.b.states().iter().filter(|state| **state == "TIME-WAIT").count();
    assert_eq!((waiting, pair.b.counter("tcp.time-wait-overflow")), (4, 6));
}

#[test]
fn connections_take_turns() {
    let mut pair = Pair::new();
    let server = listener(&mut pair.b, 2, 80, 50);
    let clients: Vec<Handle> = (0..5).map(|_| stream(&mut pair.a, 1)).collect();
    for client in &clients {
        pair.a.stack.connect(pair.a.now, *client, at(IP_B, 80)).unwrap();
    }
    pair.settle();
    while pair.b.stack.accept(server, 3).unwrap().is_some() {}
    for client in &clients {
        pair.a.send(*client, &[7; 14_600]);
    }
    pair.a.wire.room = 40;
    let mut counts = std::collections::BTreeMap::new();
    for frame in pair.a.sent() {
        *counts.entry(segment_of(&frame).src_port).or_insert(0) += 1;
    }
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [8; 5]);
}

#[test]
fn listeners_and_ports() {
    let mut b = Host::b();
    let first = listener(&mut b, 1, 80, 5);
    let second = stream(&mut b, 2);
    b.stack.set_option(b.now, second, SockOption::ReuseAddr(true)).unwrap();
    assert_eq!(b.stack.bind(second, at(IP_B, 80)), Err(Error::AddrInUse));
    assert_eq!(b.stack.connect(b.now, first, at(IP_A, 80)), Err(Error::AlreadyConnected));
    assert_eq!(b.stack.accept(second, 9), Err(Error::Invalid));
    b.stack.listen(second, 5).unwrap();
    assert!(b.stack.local_addr(second).unwrap().port() >= 32_768);
    // Two may be bound to one port with SO_REUSEADDR, one of them may listen.
    let [third, fourth] = [3, 4].map(|tag| {
        let socket = stream(&mut b, tag);
        b.stack.set_option(b.now, socket, SockOption::ReuseAddr(true)).unwrap();
        b.stack.bind(socket, at(IP_B, 81)).unwrap();
        socket
    });
    b.stack.listen(third, 5).unwrap();
    assert_eq!(b.stack.listen(fourth, 5), Err(Error::AddrInUse));
    b.stack.shutdown(b.now, third, ShutdownHow::Read).unwrap();
    b.stack.listen(fourth, 5).unwrap();
    let datagram = b.stack.open(SocketKind::Datagram, 5).unwrap();
    assert_eq!(b.stack.listen(datagram, 5), Err(Error::Unsupported));
}

#[test]
fn options_are_inherited_and_checked() {
    let mut pair = Pair::new();
    let server = stream(&mut pair.b, 2);
    pair.b.stack.bind(server, at(IP_B, 80)).unwrap();
    for option in [SockOption::Ttl(9), SockOption::NoDelay(true), SockOption::MaxSeg(1000)] {
        pair.b.stack.set_option(pair.b.now, server, option).unwrap();
    }
    for bad in [SockOption::Ttl(0), SockOption::MaxSeg(3), SockOption::KeepCount(0)] {
        assert_eq!(pair.b.stack.set_option(pair.b.now, server, bad), Err(Error::Invalid));
    }
    pair.b.stack.listen(server, 5).unwrap();
    let client = stream(&mut pair.a, 1);
    pair.a.stack.connect(pair.a.now, client, at(IP_B, 80)).unwrap();
    pair.settle();
    let (child, _) = pair.b.stack.accept(server, 3).unwrap().unwrap();
    assert_eq!(pair.b.stack.option(child, OptionName::Ttl), Ok(SockOption::Ttl(9)));
    assert_eq!(pair.b.stack.option(child, OptionName::NoDelay), Ok(SockOption::NoDelay(true)));
    let Ok(SockOption::MaxSeg(mss)) = pair.a.stack.option(client, OptionName::MaxSeg) else {
        panic!("MaxSeg");
    };
    assert!(mss <= 1000);
    pair.b.send(child, b"x");
    assert_eq!(pair.b.sent()[0][22], 9, "time to live");
}

#[test]
fn an_absent_neighbour_does_not_end_an_established_connection() {
    let mut pair = Pair::new();
    let (client, _, _) = pair.connected();
    pair.settle();
    let mut a = pair.a;
    // A forgets B, which is silent from now on.
    a.pass(125 * SECOND);
    a.wire.frames.clear();
    a.send(client, b"into the void");
    a.pass(4 * SECOND);
    assert_eq!(a.counter("arp.failed"), 1);
    assert_eq!(a.events_of(1), []);
    assert_eq!(a.states(), ["ESTAB"]);
    // Its own timers ask again, and in the end give up with what the network said.
    a.pass(Duration::from_secs(1200));
    assert!(a.counter("arp.failed") > 3);
    assert_eq!(a.events_of(1), [EventKind::Failed(Error::HostUnreachable)]);
}

#[test]
fn stray_segments_at_the_memory_limit_are_dropped_and_sent_again() {
    let config = Config { held_frames: 16, ..Config::default() };
    let mut pair = Pair::with(Config::default(), config);
    let (client, server, _) = pair.connected();
    let data: Vec<u8> = (0..60_000u32).map(|n| (n % 253) as u8).collect();
    pair.a.send(client, &data);
    let mut got = Vec::new();
    for round in 0..3000 {
        // The first of each batch is lost at first, and the application is slow.
        let mut frames = pair.a.sent();
        if round < 3 && !frames.is_empty() {
            frames.remove(0);
        }
        frames.iter().for_each(|frame| pair.b.take(frame));
        assert!(pair.b.counter("memory.frames-held") <= 16);
        if round % 7 == 0 {
            got.extend(pair.b.received(server));
        }
        pair.b.sent().iter().for_each(|frame| pair.a.take(frame));
        pair.a.now += Duration::from_millis(20);
        pair.b.now = pair.a.now;
    }
    assert!(got == data, "{} bytes", got.len());
    assert!(pair.b.counter("memory.frames-refused") > 0);
}

#[test]
fn reading_is_over_after_shutdown_of_it() {
    let mut pair = Pair::new();
    let (client, server, _) = pair.connected();
    pair.b.stack.shutdown(pair.b.now, server, ShutdownHow::Read).unwrap();
    for _ in 0..50 {
        pair.a.send(client, &[1; 10_000]);
        pair.pass(Duration::from_millis(100));
    }
    assert_eq!(pair.a.stack.acked(client), 500_000, "taken and thrown away");
    assert!(pair.b.stack.recv(server).is_none());
    assert_eq!(pair.b.counter("memory.frames-held"), 0);
}

#[test]
fn a_connection_that_is_over_has_no_peer() {
    let not_connected = Err(Error::NotConnected);
    let mut pair = Pair::new();
    let (client, server, listener) = pair.connected();
    assert_eq!(pair.b.stack.peer_addr(listener), not_connected);
    assert_eq!(pair.a.stack.peer_addr(client), Ok(at(IP_B, 80)));
    pair.b.stack.abort(pair.b.now, server).unwrap();
    pair.settle();
    assert_eq!(pair.a.stack.peer_addr(client), not_connected);
    assert_eq!(pair.a.stack.local_addr(client).unwrap().ip(), IP_A);
    // FINs of both ends: TIME-WAIT, and the last ACK.
    let mut pair = Pair::new();
    let (client, server, _) = pair.connected();
    pair.a.stack.shutdown(pair.a.now, client, ShutdownHow::Write).unwrap();
    pair.settle();
    assert_eq!(pair.a.stack.peer_addr(client), Ok(at(IP_B, 80)));
    assert!(pair.b.stack.peer_addr(server).is_ok());
    pair.b.stack.shutdown(pair.b.now, server, ShutdownHow::Write).unwrap();
    pair.settle();
    assert_eq!(pair.a.stack.peer_addr(client), not_connected);
    assert_eq!(pair.b.stack.peer_addr(server), not_connected);
}
