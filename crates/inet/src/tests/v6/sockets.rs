//! Sockets of IPv6 and of both families.

use super::*;

fn open(host: &mut Host, kind: SocketKind, tag: u64) -> Handle {
    host.stack.open_in(Family::V6, kind, tag).unwrap()
}

const ANY: Ipv6Addr = Ipv6Addr::UNSPECIFIED;

#[test]
fn a_connection() {
    let mut pair = pair6();
    let listener = open(&mut pair.b, SocketKind::Stream, 2);
    pair.b.stack.bind(listener, at6(ANY, 80)).unwrap();
    pair.b.stack.listen(listener, 5).unwrap();
    let client = open(&mut pair.a, SocketKind::Stream, 1);
    pair.a.stack.connect(pair.a.now, client, at6(B6, 80)).unwrap();
    pair.settle();
    let (server, peer) = pair.b.stack.accept(listener, 3).unwrap().expect("a connection");
    assert_eq!(peer, pair.a.stack.local_addr(client).unwrap());
    assert_eq!(peer.ip(), IpAddr::from(A6));
    // 1500 less 40 and 20.
    let info = pair.a.stack.tcp_info(pair.a.now, client).unwrap();
    assert_eq!(info.advmss, 1440);
    let bytes: Vec<u8> = (0..20_000u32).map(|n| n.to_be_bytes()[3]).collect();
    pair.a.send(client, &bytes);
    pair.pass(SECOND);
    assert_eq!(pair.b.received(server), bytes);
    pair.a.stack.close(pair.a.now, client).unwrap();
    pair.b.stack.close(pair.b.now, server).unwrap();
    pair.pass(SECOND);
    assert_eq!(pair.b.states(), ["LISTEN", "TIME-WAIT"]);
}

#[test]
fn segments_carry_a_flow_label_class_and_hops() {
    let mut b = b_knowing_a6();
    let stream = open(&mut b, SocketKind::Stream, 1);
    b.stack.set_option(b.now, stream, SockOption::UnicastHops(Some(7))).unwrap();
    b.stack.set_option(b.now, stream, SockOption::TrafficClass(0xb8)).unwrap();
    b.stack.connect(b.now, stream, at6(A6, 80)).unwrap();
    let first = b.sent().remove(0);
    b.pass(2 * SECOND);
    let again = b.sent().remove(0);
    assert_eq!(first[14..18], again[14..18], "the same label for one connection");
    assert_eq!((first[14], first[15] & 0xf0, first[21]), (0x6b, 0x80, 7));
    assert_ne!((first[15] & 0x0f, first[16], first[17]), (0, 0, 0));
    let other = open(&mut b, SocketKind::Stream, 2);
    b.stack.connect(b.now, other, at6(A6, 80)).unwrap();
    let sent = b.sent();
    assert_ne!(sent[0][15..18], first[15..18]);
    assert_eq!(sent[0][21], 64);
}

#[test]
fn a_dual_listener_takes_both_families() {
    let mut pair = pair6();
    let listener = open(&mut pair.b, SocketKind::Stream, 2);
    pair.b.stack.bind(listener, at6(ANY, 80)).unwrap();
    pair.b.stack.listen(listener, 5).unwrap();
    let client = pair.a.stack.open(SocketKind::Stream, 1).unwrap();
    pair.a.stack.connect(pair.a.now, client, at(IP_B, 80)).unwrap();
    let mapped = open(&mut pair.a, SocketKind::Stream, 4);
    let to = at6(IP_B.to_ipv6_mapped(), 80);
    pair.a.stack.connect(pair.a.now, mapped, to).unwrap();
    pair.settle();
    for _ in 0..2 {
        let (server, peer) = pair.b.stack.accept(listener, 3).unwrap().expect("a connection");
        assert_eq!(peer.ip(), IpAddr::from(IP_A.to_ipv6_mapped()));
        let local = pair.b.stack.local_addr(server).unwrap();
        assert_eq!(local, at6(IP_B.to_ipv6_mapped(), 80));
    }
    assert_eq!(pair.a.stack.peer_addr(mapped), Ok(to));
    assert_eq!(pair.a.stack.peer_addr(client), Ok(at(IP_B, 80)));
    pair.b.stack.close(pair.b.now, listener).unwrap();
    let again = pair.b.stack.open(SocketKind::Stream, 5).unwrap();
    pair.b.stack.set_option(pair.b.now, again, SockOption::ReuseAddr(true)).unwrap();
    assert_eq!(pair.b.stack.bind(again, at(IP_B, 81)), Ok(()));
}

#[test]
fn a_listener_for_ipv6_only_leaves_ipv4_alone() {
    let mut pair = pair6();
    let v6 = open(&mut pair.b, SocketKind::Stream, 2);
    pair.b.stack.set_option(pair.b.now, v6, SockOption::V6Only(true)).unwrap();
    pair.b.stack.bind(v6, at6(ANY, 80)).unwrap();
    let late = pair.b.stack.set_option(pair.b.now, v6, SockOption::V6Only(false));
    assert_eq!(late, Err(Error::Invalid));
    pair.b.stack.listen(v6, 5).unwrap();
    let client = pair.a.stack.open(SocketKind::Stream, 1).unwrap();
    pair.a.stack.connect(pair.a.now, client, at(IP_B, 80)).unwrap();
    pair.settle();
    assert_eq!(pair.a.events_of(1), [EventKind::Failed(Error::Refused)]);
    let v4 = pair.b.stack.open(SocketKind::Stream, 3).unwrap();
    pair.b.stack.bind(v4, at(Ipv4Addr::UNSPECIFIED, 80)).unwrap();
    pair.b.stack.listen(v4, 5).unwrap();
    let dual = open(&mut pair.b, SocketKind::Stream, 4);
    assert_eq!(pair.b.stack.bind(dual, at6(ANY, 80)), Err(Error::AddrInUse));
}

#[test]
fn datagrams_of_both_families_meet_at_a_dual_socket() {
    let mut pair = pair6();
    let dual = open(&mut pair.b, SocketKind::Datagram, 2);
    pair.b.stack.bind(dual, at6(ANY, 53)).unwrap();
    let senders = [
        (pair.a.stack.open(SocketKind::Datagram, 1).unwrap(), at(IP_B, 53)),
        (open(&mut pair.a, SocketKind::Datagram, 3), at6(B6, 53)),
        (open(&mut pair.a, SocketKind::Datagram, 4), at6(IP_B.to_ipv6_mapped(), 53)),
    ];
    for (socket, to) in senders {
        let sent = pair.a.stack.send(pair.a.now, socket, Chunk(b"q".to_vec()), Some(to));
        assert_eq!(sent, Ok(()));
        pair.settle();
        let received = pair.b.stack.recv(dual).expect("a datagram");
        let from = received.from.unwrap();
        let expected = match to.ip().to_canonical() {
            IpAddr::V4(_) => IP_A.to_ipv6_mapped(),
            IpAddr::V6(_) => A6,
        };
        assert_eq!(from.ip(), IpAddr::from(expected));
        let answer = pair.b.stack.send(pair.b.now, dual, Chunk(b"a".to_vec()), Some(from));
        assert_eq!(answer, Ok(()));
        pair.settle();
        assert_eq!(pair.a.received(socket), b"a");
    }
}

#[test]
fn datagrams_without_a_checksum_are_dropped() {
    let mut b = b_knowing_a6();
    let socket = open(&mut b, SocketKind::Datagram, 1);
    b.stack.bind(socket, at6(B6, 9)).unwrap();
    b.take(&frame6(A6, B6, 17, 64, &[0, 1, 0, 9, 0, 9, 0, 0, b'x']));
    assert_eq!(b.counter("udp.bad-checksum"), 1);
    assert!(b.stack.recv(socket).is_none());
}

#[test]
fn addresses_that_do_not_fit() {
    let mut b = b_knowing_a6();
    let v4 = b.stack.open(SocketKind::Datagram, 1).unwrap();
    assert_eq!(b.stack.bind(v4, at6(B6, 9)), Err(Error::Unsupported));
    assert_eq!(b.stack.connect(b.now, v4, at6(A6, 9)), Err(Error::Unsupported));
    let no = b.stack.set_option(b.now, v4, SockOption::V6Only(true));
    assert_eq!(no, Err(Error::Invalid));
    let only = open(&mut b, SocketKind::Datagram, 2);
    b.stack.set_option(b.now, only, SockOption::V6Only(true)).unwrap();
    let mapped = at6(IP_A.to_ipv6_mapped(), 9);
    assert_eq!(b.stack.connect(b.now, only, mapped), Err(Error::NetUnreachable));
    assert_eq!(b.stack.bind(only, mapped), Err(Error::Invalid));
    let v6 = open(&mut b, SocketKind::Stream, 3);
    assert_eq!(b.stack.bind(v6, at6(A6, 9)), Err(Error::AddrNotAvailable));
    assert_eq!(b.stack.connect(b.now, v6, at6(A_LOCAL, 9)), Err(Error::Invalid), "which link?");
    let group = at6("ff02::1".parse().unwrap(), 9);
    assert_eq!(b.stack.connect(b.now, v6, group), Err(Error::NetUnreachable));
    b.stack.bind(v6, at6(B6, 9)).unwrap();
    assert_eq!(b.stack.connect(b.now, v6, mapped), Err(Error::NetUnreachable));
}

#[test]
fn link_local_ends_know_their_link() {
    let mut pair = pair6();
    pair.a.stack.add_address(ID, Cidr::new(A_LOCAL, 64)).unwrap();
    pair.b.stack.add_address(ID, Cidr::new(B_LOCAL, 64)).unwrap();
    let server = open(&mut pair.b, SocketKind::Datagram, 2);
    let local: SocketAddr = "[fe80::ff:fe00:2%2]:53".parse().unwrap();
    pair.b.stack.bind(server, local).unwrap();
    let client = open(&mut pair.a, SocketKind::Datagram, 1);
    pair.a.stack.connect(pair.a.now, client, local).unwrap();
    pair.a.send(client, b"question");
    pair.settle();
    let from = pair.b.stack.recv(server).unwrap().from.unwrap();
    assert_eq!(from, pair.a.stack.local_addr(client).unwrap());
    assert!(std::format!("{from}").starts_with("[fe80::ff:fe00:1%2]:"), "{from}");
    pair.b.stack.send(pair.b.now, server, Chunk(b"answer".to_vec()), Some(from)).unwrap();
    pair.settle();
    assert_eq!(pair.a.received(client), b"answer");
}

#[test]
fn a_connection_to_ourselves() {
    for target in [Ipv6Addr::LOCALHOST, B6] {
        let mut b = b6(at_once());
        let listener = open(&mut b, SocketKind::Stream, 2);
        b.stack.bind(listener, at6(ANY, 80)).unwrap();
        b.stack.listen(listener, 5).unwrap();
        let client = open(&mut b, SocketKind::Stream, 1);
        b.stack.connect(b.now, client, at6(target, 80)).unwrap();
        b.pass(SECOND);
        let (server, peer) = b.stack.accept(listener, 3).unwrap().expect("a connection");
        assert_eq!(peer.ip(), IpAddr::from(target));
        b.send(client, b"hello");
        b.pass(SECOND);
        assert_eq!(b.received(server), b"hello");
        assert_eq!(b.sent().len(), 0, "nothing leaves");
    }
    // From outside, ::1 is nobody's address.
    let mut b = b_knowing_a6();
    b.take(&frame6(A6, Ipv6Addr::LOCALHOST, 17, 64, &[0; 8]));
    b.take(&frame6(Ipv6Addr::LOCALHOST, B6, 17, 64, &[0; 8]));
    assert_eq!(b.counter("ip6.martians"), 2);
}

/// Both ways over a line that loses, doubles and swaps, until all is there.
#[test]
fn a_bad_line() {
    for seed in 1..=12u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut below = move |bound: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % bound
        };
        let mut pair = pair6();
        let listener = open(&mut pair.b, SocketKind::Stream, 2);
        pair.b.stack.bind(listener, at6(ANY, 80)).unwrap();
        pair.b.stack.listen(listener, 5).unwrap();
        let client = open(&mut pair.a, SocketKind::Stream, 1);
        pair.a.stack.connect(pair.a.now, client, at6(B6, 80)).unwrap();
        pair.settle();
        let (server, _) = pair.b.stack.accept(listener, 3).unwrap().expect("a connection");
        let bytes: Vec<u8> = (0..60_000u32).map(|n| n.to_le_bytes()[0] ^ seed as u8).collect();
        pair.a.send(client, &bytes);
        pair.b.send(server, &bytes);
        let (mut at_a, mut at_b) = (Vec::new(), Vec::new());
        for _ in 0..20_000 {
            for to_b in [true, false] {
                let mut frames = if to_b { pair.a.sent() } else { pair.b.sent() };
                if frames.len() > 1 && below(4) == 0 {
                    frames.swap(0, 1);
                }
                for frame in frames {
                    let copies = [0, 2, 1, 1, 1, 1, 1, 1, 1, 1][below(10) as usize];
                    let host = if to_b { &mut pair.b } else { &mut pair.a };
                    (0..copies).for_each(|_| host.take(&frame));
                }
            }
            at_a.extend(pair.a.received(client));
            at_b.extend(pair.b.received(server));
            if at_a.len() == bytes.len() && at_b.len() == bytes.len() {
                break;
            }
            let later = pair.a.now + Duration::from_millis(5);
            (pair.a.now, pair.b.now) = (later, later);
        }
        assert!(at_a == bytes && at_b == bytes, "seed {seed}: {} {}", at_a.len(), at_b.len());
    }
}
