//! Datagram sockets.

use super::*;

fn bound(host: &mut Host, tag: u64, port: u16) -> Handle {
    let socket = host.stack.open(SocketKind::Datagram, tag).unwrap();
    host.stack.bind(socket, at(Ipv4Addr::UNSPECIFIED, port)).unwrap();
    socket
}

#[test]
fn a_round_trip() {
    let mut pair = Pair::new();
    let server = bound(&mut pair.b, 2, 53);
    let client = pair.a.stack.open(SocketKind::Datagram, 1).unwrap();
    pair.a.stack.connect(pair.a.now, client, at(IP_B, 53)).unwrap();
    for payload in [&b"question"[..], b"", &[9; 1472]] {
        pair.a.send(client, payload);
        pair.settle();
        assert_eq!(pair.b.events_of(2).first(), Some(&EventKind::Readable));
        let received = pair.b.stack.recv(server).unwrap();
        assert_eq!(received.piece.bytes(), payload);
        let from = received.from.unwrap();
        assert_eq!(from, pair.a.stack.local_addr(client).unwrap());
        let answer = Chunk(received.piece.bytes().to_vec());
        pair.b.stack.send(pair.b.now, server, answer, Some(from)).unwrap();
        pair.settle();
        let back = pair.a.stack.recv(client).unwrap();
        assert_eq!(back.piece.bytes(), payload);
        assert_eq!(back.from, Some(at(IP_B, 53)));
        assert!(pair.a.stack.recv(client).is_none());
    }
    assert_eq!(pair.a.stack.acked(client), 8 + 1472);
    assert_eq!(pair.a.stack.peer_addr(client), Ok(at(IP_B, 53)));
    assert_eq!(pair.b.stack.peer_addr(server), Err(Error::NotConnected));
}

#[test]
fn a_connected_socket_hears_only_its_peer() {
    let mut b = Host::b_knowing_a();
    let connected = bound(&mut b, 1, 1000);
    b.stack.connect(b.now, connected, at(IP_A, 7)).unwrap();
    b.take(&udp_frame(7, 1000, b"peer"));
    b.take(&udp_frame(8, 1000, b"other"));
    assert_eq!(b.received(connected), b"peer");
    assert_eq!(b.counter("udp.no-port"), 1);
    // Connecting again moves it; the more specific socket wins.
    b.stack.connect(b.now, connected, at(IP_A, 8)).unwrap();
    b.take(&udp_frame(7, 1000, b"peer"));
    b.take(&udp_frame(8, 1000, b"other"));
    assert_eq!(b.received(connected), b"other");
    // Without a peer it hears everybody, where it was bound.
    b.stack.disconnect(b.now, connected).unwrap();
    assert_eq!(b.stack.peer_addr(connected), Err(Error::NotConnected));
    b.take(&udp_frame(7, 1000, b"anybody"));
    assert_eq!(b.received(connected), b"anybody");
}

#[test]
fn the_most_specific_socket_receives() {
    let mut b = Host::b_knowing_a();
    let reuse = |b: &mut Host, tag, ip| {
        let socket = b.stack.open(SocketKind::Datagram, tag).unwrap();
        b.stack.set_option(b.now, socket, SockOption::ReuseAddr(true)).unwrap();
        b.stack.bind(socket, at(ip, 9)).unwrap();
        socket
    };
    let any = reuse(&mut b, 1, Ipv4Addr::UNSPECIFIED);
    b.take(&udp_frame(1, 9, b"1"));
    let ours = reuse(&mut b, 2, IP_B);
    b.take(&udp_frame(1, 9, b"2"));
    let last = reuse(&mut b, 3, IP_B);
    b.take(&udp_frame(1, 9, b"3"));
    b.stack.close(b.now, last).unwrap();
    b.take(&udp_frame(1, 9, b"4"));
    let mut to_all = udp_frame(1, 9, b"5");
    to_all[30..34].fill(255);
    to_all[..6].fill(255);
    fix_ip(&mut to_all);
    fix_transport(&mut to_all);
    b.take(&to_all);
    assert_eq!(b.received(any), b"15");
    assert_eq!(b.received(ours), b"24");
}

#[test]
fn the_receive_queue_is_bounded() {
    let mut b = Host::b_knowing_a();
    let socket = bound(&mut b, 1, 9);
    b.stack.set_option(b.now, socket, SockOption::RecvBuffer(2500)).unwrap();
    for _ in 0..4 {
        b.take(&udp_frame(1, 9, &[0; 1000]));
    }
    assert_eq!(b.counter("udp.overflows"), 2);
    assert_eq!(b.counter("memory.frames-held"), 2);
    let first = b.stack.recv(socket).unwrap();
    assert_eq!(b.counter("memory.frames-held"), 1);
    b.take(&udp_frame(1, 9, &[0; 1000]));
    assert_eq!(b.counter("udp.overflows"), 3, "not consumed yet");
    b.stack.consumed(b.now, socket, first.piece.range.len());
    b.take(&udp_frame(1, 9, &[0; 1000]));
    assert_eq!(b.counter("udp.overflows"), 3);
    assert_eq!(b.events_of(1), [EventKind::Readable], "one event for all");
}

#[test]
fn frames_held_are_bounded_over_all_sockets() {
    let config = Config { held_frames: 8, ..Config::default() };
    let mut b = Host::new(IP_B, MAC_B, config);
    let sockets: Vec<Handle> = (0..4).map(|n| bound(&mut b, 1, 9 + n)).collect();
    for n in 0..16 {
        b.take(&udp_frame(1, 9 + n % 4, b"x"));
    }
    assert_eq!(b.counter("memory.frames-held"), 6);
    assert_eq!(b.counter("memory.frames-refused"), 10);
    for socket in sockets {
        b.stack.close(b.now, socket).unwrap();
    }
    assert_eq!(b.counter("memory.frames-held"), 0);
}

#[test]
fn what_cannot_be_sent_is_given_back() {
    let mut b = Host::b_knowing_a();
    let socket = b.stack.open(SocketKind::Datagram, 1).unwrap();
    let table = [
        (None, 1, Error::DestinationRequired),
        (Some(at(IP_A, 9)), 65_508, Error::MessageSize),
        (Some(at(IP_A, 0)), 1, Error::Invalid),
        (Some(at(Ipv4Addr::new(192, 0, 2, 1), 9)), 1, Error::NetUnreachable),
        (Some(at(Ipv4Addr::BROADCAST, 9)), 1, Error::Denied),
        (Some("[::1]:9".parse().unwrap()), 1, Error::Unsupported),
    ];
    for (to, len, error) in table {
        let chunk = Chunk(std::vec![1; len]);
        let refused = b.stack.send(b.now, socket, chunk.clone(), to);
        assert!(refused == Err(SendError { error, chunk }), "{to:?}");
    }
    assert_eq!(b.sent().len(), 0);
    b.stack.set_option(b.now, socket, SockOption::Broadcast(true)).unwrap();
    let to = Some(at(Ipv4Addr::BROADCAST, 9));
    b.stack.send(b.now, socket, Chunk(std::vec![1]), to).unwrap();
    assert_eq!(b.sent()[0][..6], [0xff; 6]);
    let to = Some(at(Ipv4Addr::new(224, 0, 0, 251), 5353));
    b.stack.send(b.now, socket, Chunk(std::vec![1]), to).unwrap();
    let sent = b.sent();
    assert_eq!((&sent[0][..6], sent[0][22]), (&[1, 0, 0x5e, 0, 0, 251][..], 1));
}

#[test]
fn without_a_checksum_it_is_taken_and_with_a_bad_one_not() {
    let mut b = Host::b_knowing_a();
    let socket = bound(&mut b, 1, 9);
    let mut frame = udp_frame(1, 9, b"none");
    frame[40..42].fill(0);
    b.take(&frame);
    frame[40..42].copy_from_slice(&[1, 2]);
    b.take(&frame);
    assert_eq!(b.received(socket), b"none");
    assert_eq!(b.counter("udp.bad-checksum"), 1);
}

#[test]
fn a_full_egress_delays_and_loses_nothing() {
    let mut b = Host::b_knowing_a();
    b.wire.room = 3;
    let socket = b.stack.open(SocketKind::Datagram, 1).unwrap();
    b.stack.connect(b.now, socket, at(IP_A, 7)).unwrap();
    for n in 0..10 {
        b.send(socket, &[n]);
    }
    let mut last = Vec::new();
    while b.stack.poll_at() == Some(Instant::ZERO) {
        let sent = b.sent();
        assert!(sent.len() <= 3);
        last.extend(sent.iter().map(|frame| *frame.last().unwrap()));
    }
    assert_eq!(last, (0..10).collect::<Vec<u8>>());
}

#[test]
fn closing_sends_what_is_queued() {
    let mut b = Host::b();
    let socket = b.stack.open(SocketKind::Datagram, 1).unwrap();
    b.stack.connect(b.now, socket, at(IP_A, 7)).unwrap();
    b.send(socket, b"last words");
    b.stack.close(b.now, socket).unwrap();
    assert_eq!(b.stack.local_addr(socket), Err(Error::BadHandle));
    b.poll();
    assert_eq!(b.events(), []);
    b.wire.frames.clear();
    b.take(&arp_frame(MAC_A, IP_A, IP_B, false));
    assert!(b.sent()[0].ends_with(b"last words"));
    assert_eq!(b.events_of(1), [EventKind::Closed]);
    assert_eq!(b.states(), [""; 0]);
}

/// Fragments wait for the neighbour in the socket's own queue.
#[test]
fn closing_sends_fragments_that_wait_for_a_neighbour() {
    let mut b = Host::b();
    let socket = b.stack.open(SocketKind::Datagram, 1).unwrap();
    b.stack.connect(b.now, socket, at(IP_A, 7)).unwrap();
    b.send(socket, &[7; 3000]);
    b.poll();
    b.stack.close(b.now, socket).unwrap();
    b.poll();
    b.wire.frames.clear();
    b.take(&arp_frame(MAC_A, IP_A, IP_B, false));
    assert_eq!(b.sent().len(), 3);
    assert_eq!(b.events_of(1), [EventKind::Closed]);
    assert_eq!(b.states(), [""; 0]);
}

#[test]
fn ports() {
    let mut b = Host::b();
    let first = bound(&mut b, 1, 9);
    let second = b.stack.open(SocketKind::Datagram, 2).unwrap();
    assert_eq!(b.stack.bind(second, at(IP_B, 9)), Err(Error::AddrInUse));
    assert_eq!(b.stack.bind(second, at(IP_A, 9)), Err(Error::AddrNotAvailable));
    b.stack.bind(second, at(IP_B, 0)).unwrap();
    assert_eq!(b.stack.bind(second, at(IP_B, 0)), Err(Error::Invalid));
    let port = b.stack.local_addr(second).unwrap().port();
    assert!((32_768..=60_999).contains(&port));
    b.stack.close(b.now, first).unwrap();
    assert_eq!(b.stack.close(b.now, first), Err(Error::BadHandle));
    assert_eq!(b.events_of(1), [EventKind::Closed]);
    bound(&mut b, 3, 9);
    // Ephemeral ports do not come in a row.
    let ports: Vec<u16> = (0..10)
        .map(|_| {
            let socket = bound(&mut b, 4, 0);
            b.stack.local_addr(socket).unwrap().port()
        })
        .collect();
    assert!(ports.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < 100).count() < 3);
}
