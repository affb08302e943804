//! Finding neighbours.

use super::*;

/// A second and some ticks of the timer wheel.
const SECOND: Duration = Duration::from_millis(1001);

fn is_request_for(frame: &[u8], target: Ipv4Addr, to: Mac) -> bool {
    let packet = arp_packet::parse(&frame[14..]);
    frame[..6] == to.0 && packet.is_some_and(|p| p.is_request && p.target == target)
}

#[test]
fn neighbours_are_told() {
    let mut b = Host::b_knowing_a();
    let known: Vec<_> = b.stack.neighbours().collect();
    assert_eq!((known.len(), known[0].address, known[0].interface), (1, IP_A.into(), ID));
    assert!(known[0].mac.is_some() && known[0].state == "STALE", "{known:?}");
    let socket = b.stack.open(SocketKind::Datagram, 1).unwrap();
    let nobody = Ipv4Addr::new(10, 0, 0, 77);
    b.stack.send(b.now, socket, Chunk(b"x".to_vec()), Some(at(nobody, 9))).unwrap();
    b.poll();
    let asked = b.stack.neighbours().find(|one| one.address == nobody).unwrap();
    assert_eq!((asked.mac, asked.state), (None, "INCOMPLETE"));
}

#[test]
fn on_another_link_neighbours_are_asked_for_anew() {
    let mut b = Host::b_knowing_a();
    let socket = b.stack.open(SocketKind::Datagram, 1).unwrap();
    let nobody = Ipv4Addr::new(10, 0, 0, 77);
    b.stack.send(b.now, socket, Chunk(b"x".to_vec()), Some(at(nobody, 9))).unwrap();
    b.poll();
    b.stack.announce(b.now, ID).unwrap();
    let known: Vec<_> = b.stack.neighbours().collect();
    assert_eq!((known.len(), known[0].address, known[0].mac), (1, nobody.into(), None));
    b.sent();
    b.take(&echo_frame(b"x"));
    assert!(is_request_for(&b.sent()[0], IP_A, Mac::BROADCAST));
    b.take(&arp_frame(MAC_A, IP_A, IP_B, false));
    assert_eq!(b.sent()[0][..6], MAC_A.0);
    // No timer of what was forgotten is left.
    b.pass(50 * SECOND);
    b.pass(61 * SECOND);
    assert_eq!(b.stack.neighbours().count(), 0);
}

#[test]
fn a_request_for_us_is_answered_and_its_sender_learnt() {
    let mut b = Host::b();
    b.take(&arp_frame(MAC_A, IP_A, IP_B, true));
    let sent = b.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0][..12], [MAC_A.0, MAC_B.0].concat());
    let reply = arp_packet::parse(&sent[0][14..]).unwrap();
    assert_eq!((reply.is_request, reply.sender, reply.target), (false, IP_B, IP_A));
    b.take(&echo_frame(b"x"));
    assert_eq!(b.sent()[0][..6], MAC_A.0, "no question asked");
}

#[test]
fn others_packets_teach_nothing_and_change_what_is_known() {
    let third = Ipv4Addr::new(10, 0, 0, 3);
    let mut b = Host::b();
    b.take(&arp_frame(MAC_A, IP_A, third, true));
    b.take(&arp_frame(MAC_A, IP_A, IP_A, true));
    assert_eq!((b.sent().len(), b.stack.context().link.neighbours().count()), (0, 0));
    let mut b = Host::b_knowing_a();
    let moved = smoltcp::wire::EthernetAddress([2, 9, 9, 9, 9, 9]);
    b.take(&arp_frame(moved, IP_A, IP_A, true));
    b.take(&echo_frame(b"x"));
    assert_eq!(b.sent()[0][..6], moved.0, "a gratuitous announcement");
}

#[test]
fn probes_are_answered_and_not_learnt() {
    let mut b = Host::b();
    b.take(&arp_frame(MAC_A, Ipv4Addr::UNSPECIFIED, IP_B, true));
    assert_eq!((b.sent().len(), b.stack.context().link.neighbours().count()), (1, 0));
}

#[test]
fn impossible_senders_are_ignored() {
    let mut b = Host::b();
    let table = [
        (smoltcp::wire::EthernetAddress([0; 6]), IP_A, "arp.malformed"),
        (Mac::BROADCAST, IP_A, "eth.malformed"),
        (MAC_A, Ipv4Addr::new(224, 0, 0, 1), "arp.malformed"),
        (MAC_A, Ipv4Addr::new(127, 0, 0, 1), "arp.malformed"),
        (MAC_A, IP_B, "arp.conflicts"),
    ];
    for (mac, sender, counter) in table {
        let before = b.counter(counter);
        b.take(&arp_frame(mac, sender, IP_B, true));
        assert_eq!(b.counter(counter), before + 1, "{mac} {sender}");
    }
    assert_eq!((b.sent().len(), b.stack.context().link.neighbours().count()), (0, 0));
    b.take(&arp_frame(MAC_A, Ipv4Addr::new(192, 0, 2, 1), IP_B, true));
    assert_eq!(b.stack.context().link.neighbours().count(), 0, "not on the link");
}

#[test]
fn a_silent_neighbour_fails_after_three_requests() {
    let mut b = Host::b();
    let start = b.now;
    let stream = b.stack.open(SocketKind::Stream, 1).unwrap();
    b.stack.connect(b.now, stream, at(IP_A, 80)).unwrap();
    let datagram = b.stack.open(SocketKind::Datagram, 2).unwrap();
    b.stack.connect(b.now, datagram, at(IP_A, 53)).unwrap();
    b.send(datagram, b"question");
    for _ in 0..3 {
        let sent = b.sent();
        assert_eq!(sent.len(), 1);
        assert!(is_request_for(&sent[0], IP_A, Mac::BROADCAST));
        assert_eq!(b.events(), []);
        b.pass(SECOND);
    }
    let unreachable = EventKind::Failed(Error::HostUnreachable);
    let events = b.events();
    assert!(events.contains(&Event { tag: 1, kind: unreachable }));
    assert!(events.contains(&Event { tag: 2, kind: unreachable }));
    assert!(events.contains(&Event { tag: 2, kind: EventKind::Acked }));
    assert_eq!(b.stack.acked(datagram), 8);
    assert_eq!(b.now - start, 3 * SECOND);
    assert_eq!(b.sent().len(), 0);
    assert_eq!(b.counter("arp.failed"), 1);
    assert_eq!(b.stack.poll_at(), None);
    // The next attempt asks anew, from another port.
    b.stack.connect(b.now, stream, at(IP_A, 80)).unwrap();
    assert!(is_request_for(&b.sent()[0], IP_A, Mac::BROADCAST));
    b.take(&arp_frame(MAC_A, IP_A, IP_B, false));
    assert!(segment_of(&b.sent()[0]).syn);
}

#[test]
fn what_waits_is_bounded_and_leaves_in_order() {
    let mut b = Host::b();
    let socket = b.stack.open(SocketKind::Datagram, 1).unwrap();
    b.stack.connect(b.now, socket, at(IP_A, 53)).unwrap();
    for n in 0..20 {
        b.send(socket, &[n]);
    }
    b.pass(Duration::from_millis(10));
    assert_eq!(b.sent().len(), 1);
    assert_eq!(b.counter("arp.dropped-waiting"), 4);
    assert_eq!(b.stack.acked(socket), 4);
    b.take(&arp_frame(MAC_A, IP_A, IP_B, false));
    let last: Vec<u8> = b.sent().iter().map(|frame| *frame.last().unwrap()).collect();
    assert_eq!(last, (4..20).collect::<Vec<u8>>());
    assert_eq!(b.stack.acked(socket), 20);
}

#[test]
fn one_silent_neighbour_does_not_hold_up_datagrams_to_another() {
    let mut b = Host::b_knowing_a();
    let socket = b.stack.open(SocketKind::Datagram, 1).unwrap();
    let absent = Ipv4Addr::new(10, 0, 0, 77);
    for (ip, payload) in [(absent, b"lost"), (IP_A, b"sent")] {
        b.stack.send(b.now, socket, Chunk(payload.to_vec()), Some(at(ip, 9))).unwrap();
    }
    let sent = b.sent();
    assert!(sent.iter().any(|frame| frame.ends_with(b"sent")));
    assert_eq!(b.stack.acked(socket), 0, "in the order of sending");
    b.pass(3 * SECOND);
    assert_eq!(b.stack.acked(socket), 8);
}

#[test]
fn a_stale_neighbour_is_probed_and_forgotten_when_silent() {
    let mut b = Host::b_knowing_a();
    b.pass(31 * SECOND);
    b.take(&echo_frame(b"x"));
    assert_eq!(b.sent()[0][..6], MAC_A.0, "it is used");
    b.pass(5 * SECOND);
    assert!(is_request_for(&b.sent()[0], IP_A, MAC_A), "and then asked, itself");
    b.take(&arp_frame(MAC_A, IP_A, IP_B, false));
    b.pass(29 * SECOND);
    b.take(&echo_frame(b"x"));
    b.pass(6 * SECOND);
    assert_eq!(b.sent().len(), 1, "the proof held");
    b.take(&echo_frame(b"x"));
    b.pass(10 * SECOND);
    assert_eq!(b.sent().len(), 1 + 3, "three questions");
    assert_eq!((b.stack.context().link.neighbours().count(), b.counter("arp.failed")), (0, 1));
    assert_eq!(b.stack.poll_at(), None);
}

#[test]
fn a_connection_that_gets_on_proves_its_neighbour() {
    let mut pair = Pair::new();
    let (client, server, _) = pair.connected();
    let mut requests = 0;
    for _ in 0..60 {
        pair.a.send(client, b"x");
        for frame in pair.a.sent() {
            requests += usize::from(frame[12..14] == [8, 6]);
            pair.b.take(&frame);
        }
        pair.pass(SECOND);
        assert_eq!(pair.b.received(server), b"x");
    }
    assert_eq!(requests, 0);
}

#[test]
fn an_unused_neighbour_is_forgotten() {
    let mut b = Host::b_knowing_a();
    b.pass(59 * SECOND);
    assert_eq!(b.stack.context().link.neighbours().count(), 1);
    b.pass(2 * SECOND);
    assert_eq!(b.stack.context().link.neighbours().count(), 0);
}

#[test]
fn the_cache_is_bounded() {
    let config = Config { neighbours: 8, ..Config::default() };
    let mut b = Host::new(IP_B, MAC_B, config);
    for n in 10..200 {
        b.take(&arp_frame(MAC_A, Ipv4Addr::new(10, 0, 0, n), IP_B, true));
        assert!(b.stack.context().link.neighbours().count() <= 8);
        b.wire.frames.clear();
    }
    // Neighbours that somebody waits for do not give way.
    let socket = b.stack.open(SocketKind::Datagram, 1).unwrap();
    for n in 10..30 {
        let to = at(Ipv4Addr::new(10, 0, 0, 200 + n), 9);
        b.stack.send(b.now, socket, Chunk(std::vec![n]), Some(to)).unwrap();
        b.poll();
    }
    assert!(b.stack.context().link.neighbours().count() <= 8);
    b.pass(4 * SECOND);
    assert_eq!(b.stack.acked(socket), 20);
    assert_eq!(b.stack.context().link.neighbours().count(), 4, "half is for known ones");
    b.pass(60 * SECOND);
    assert_eq!(b.stack.context().link.neighbours().count(), 0);
}
