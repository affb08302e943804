//! Parties that take all they can get, and others that get their share all the same.

use super::*;
use crate::tcp::SegmentRepr;

const REMOTE: u16 = 80;

fn stream_of(host: &mut Host, owner: OwnerId, tag: u64) -> Result<Handle, Error> {
    host.stack.open_for(owner, Family::V4, SocketKind::Stream, tag)
}

/// Connects new sockets to A until that fails; how many.
fn connect_all(b: &mut Host, owner: OwnerId, to: SocketAddr, most: usize) -> (usize, Error) {
    for made in 0..most {
        let Ok(socket) = stream_of(b, owner, 1) else { return (made, Error::NoBuffers) };
        if let Err(error) = b.stack.connect(b.now, socket, to) {
            b.stack.close(b.now, socket).unwrap();
            return (made, error);
        }
    }
    (most, Error::InProgress)
}

/// Binds new sockets to the ports that `port` names until that fails; how many.
fn bind_all(b: &mut Host, owner: OwnerId, ports: impl Iterator<Item = u16>) -> usize {
    let mut bound = 0;
    for port in ports {
        let socket = stream_of(b, owner, 1).unwrap();
        match b.stack.bind(socket, at(Ipv4Addr::UNSPECIFIED, port)) {
            Ok(()) => bound += 1,
            Err(Error::AddrInUse) => b.stack.close(b.now, socket).unwrap(),
            Err(error) => panic!("{error:?}"),
        }
    }
    bound
}

#[test]
fn connections_of_some_leave_ports_to_others() {
    let mut b = Host::new(IP_B, MAC_B, Config { sockets: 200_000, ..Config::default() });
    let to = at(IP_A, REMOTE);
    let greedy = [(); 4].map(|()| b.stack.add_owner());
    let first = connect_all(&mut b, greedy[0], to, 40_000);
    assert_eq!(first.1, Error::AddrNotAvailable);
    assert!(first.0 > 25_000, "one alone gets nearly all: {}", first.0);
    for owner in &greedy[1..] {
        let more = connect_all(&mut b, *owner, to, 40_000);
        assert_eq!(more.1, Error::AddrNotAvailable);
    }
    let late = b.stack.add_owner();
    assert_eq!(connect_all(&mut b, late, to, 20), (20, Error::InProgress));
    // A bind finds a port that no connection may have.
    assert_eq!(bind_all(&mut b, late, std::iter::repeat_n(0, 500)), 500);
}

#[test]
fn bound_ports_of_some_leave_ports_to_others() {
    let mut b = Host::new(IP_B, MAC_B, Config { sockets: 200_000, ..Config::default() });
    let greedy = [(); 4].map(|()| b.stack.add_owner());
    let mut bound = 0;
    for owner in greedy {
        bound += bind_all(&mut b, owner, std::iter::repeat_n(0, 20_000));
        bound += bind_all(&mut b, owner, 32_768..=60_999);
    }
    assert!(bound > 27_000, "{bound}");
    let late = b.stack.add_owner();
    assert_eq!(connect_all(&mut b, late, at(IP_A, REMOTE), 400), (400, Error::InProgress));
    assert_eq!(bind_all(&mut b, late, std::iter::repeat_n(0, 50)), 50);
    // With the parties, their ports are free again.
    let sockets: Vec<_> = b.stack.socket_layer().all().map(|(handle, _)| handle).collect();
    for socket in sockets {
        // Some were closed when they got no port.
        let _ = b.stack.abort(b.now, socket);
    }
    let _ = b.events();
    assert_eq!(bind_all(&mut b, late, std::iter::repeat_n(0, 20_000)), 20_000);
}

/// Without shares, as for a stack with one party: no port that is free is missed.
#[test]
fn the_last_port_is_found() {
    let mut b = Host::new(IP_B, MAC_B, Config { sockets: 200_000, ..Config::default() });
    let owner = OwnerId::default();
    // No port is without a connection to the first peer when the second gets its own.
    for peer in [REMOTE, REMOTE + 1] {
        let (made, error) = connect_all(&mut b, owner, at(IP_A, peer), 40_000);
        // One in 16 is for `bind` alone.
        assert_eq!((made, error), (28_232 - 28_232 / 16, Error::AddrNotAvailable), "{peer}");
    }
    for _ in 0..100 {
        let last = b.stack.socket_layer().all().map(|(handle, _)| handle).nth(30_000).unwrap();
        b.stack.abort(b.now, last).unwrap();
        let _ = b.events();
        let made = connect_all(&mut b, owner, at(IP_A, REMOTE + 1), 1).0;
        assert_eq!(made, 1, "the port that has just become free");
    }
}

#[test]
fn sockets_are_shared() {
    let mut b = Host::new(IP_B, MAC_B, Config { sockets: 1700, ..Config::default() });
    let fill = |b: &mut Host, owner| {
        core::iter::from_fn(|| stream_of(b, owner, 1).ok()).collect::<Vec<_>>()
    };
    let (first, second) = (b.stack.add_owner(), b.stack.add_owner());
    let of_first = fill(&mut b, first);
    assert_eq!(of_first.len(), 1600, "16 of 17");
    let of_second = fill(&mut b, second);
    assert!(of_second.len() > 90, "{}", of_second.len());
    // A party that is gone counts for nobody else, and another gets its number only afterwards.
    b.stack.remove_owner(first);
    let third = b.stack.add_owner();
    assert_ne!(third, first);
    of_first.into_iter().for_each(|socket| b.stack.close(b.now, socket).unwrap());
    let _ = b.events();
    assert_eq!(b.stack.add_owner(), first);
    assert!(fill(&mut b, third).len() > 1400);
}

#[test]
fn a_flood_at_one_listener_leaves_requests_to_others() {
    let mut b = Host::new(IP_B, MAC_B, Config { requests: 170, ..Config::default() });
    b.take(&arp_frame(MAC_A, IP_A, IP_B, true));
    let owners = [(); 2].map(|()| b.stack.add_owner());
    for (owner, port) in owners.into_iter().zip([80, 81]) {
        let listener = stream_of(&mut b, owner, 2).unwrap();
        b.stack.bind(listener, at(IP_B, port)).unwrap();
        b.stack.listen(listener, 1000).unwrap();
    }
    let syn = |from, to| SegmentRepr {
        src_port: from,
        dst_port: to,
        seq: crate::tcp::Seq::new(1000),
        syn: true,
        window: 8000,
        ..SegmentRepr::default()
    };
    for from in 1000..1500 {
        b.take(&tcp_frame(&syn(from, 80), &[]));
        assert_eq!(b.sent().iter().filter(|frame| frame[23] == 6).count(), 1, "answered");
    }
    assert_eq!(b.states().iter().filter(|state| **state == "SYN-RECV").count(), 160);
    assert_eq!(b.counter("tcp.cookies-sent"), 340);
    for from in 1000..1005 {
        b.take(&tcp_frame(&syn(from, 81), &[]));
    }
    assert_eq!(b.counter("tcp.cookies-sent"), 340, "the other has records of its own");
}

#[test]
fn a_full_table_of_time_wait_takes_from_the_largest() {
    let config = Config { max_tw_buckets: 8, ..Config::default() };
    let mut pair = Pair::with(config, Config::default());
    let server = super::streams::listener(&mut pair.b, 2, 80, 5);
    let (greedy, late) = (pair.a.stack.add_owner(), pair.a.stack.add_owner());
    let mut round = |owner, port| {
        let client = stream_of(&mut pair.a, owner, 1).unwrap();
        pair.a.stack.bind(client, at(IP_A, port)).unwrap();
        pair.a.stack.connect(pair.a.now, client, at(IP_B, 80)).unwrap();
        pair.settle();
        let (child, _) = pair.b.stack.accept(server, 3).unwrap().unwrap();
        pair.a.stack.close(pair.a.now, client).unwrap();
        pair.settle();
        pair.b.stack.close(pair.b.now, child).unwrap();
        pair.settle();
        let _ = (pair.a.events(), pair.b.events());
        pair.a.stack.sockets().map(|socket| socket.local.port()).collect::<Vec<_>>()
    };
    for port in 5000..5010 {
        round(greedy, port);
    }
    // Its own flood ends without a record; another party's connection displaces its oldest.
    let ports = round(late, 6000);
    assert_eq!(ports.len(), 8);
    assert!(ports.contains(&6000) && !ports.contains(&5000), "{ports:?}");
    let ports = round(late, 6001);
    assert!(ports.contains(&6001) && !ports.contains(&5001), "{ports:?}");
    assert!(round(greedy, 5010).iter().all(|port| *port != 5010));
}

/// Connections that nobody accepts hold what their peers send. Others receive all the same.
#[test]
fn connections_that_nobody_accepts_leave_frames_to_others() {
    let config = Config { held_frames: 64, ..Config::default() };
    let mut pair = Pair::with(Config::default(), config);
    let (client, server, listener) = pair.connected();
    for _ in 0..4 {
        let more = pair.a.stack.open(SocketKind::Stream, 9).unwrap();
        pair.a.stack.connect(pair.a.now, more, at(IP_B, 80)).unwrap();
        pair.settle();
        for _ in 0..40 {
            pair.a.send(more, b"unread");
            pair.settle();
        }
    }
    assert_eq!(pair.b.counter("memory.frames-held"), 32, "half of all");
    let udp = pair.b.stack.open(SocketKind::Datagram, 4).unwrap();
    pair.b.stack.bind(udp, at(IP_B, 2000)).unwrap();
    for _ in 0..16 {
        pair.b.take(&udp_frame(1000, 2000, b"datagram"));
    }
    assert_eq!(pair.b.received(udp).len(), 16 * 8);
    pair.a.send(client, b"accepted");
    pair.settle();
    assert_eq!(pair.b.received(server), b"accepted");
    assert!(pair.b.stack.accept(listener, 5).unwrap().is_some());
}

/// A program makes and aborts connections while its driver takes no frame.
#[test]
fn resets_that_wait_are_bounded() {
    let mut pair = Pair::new();
    let _ = super::streams::listener(&mut pair.b, 2, 80, 5);
    let first = stream_of(&mut pair.a, OwnerId::default(), 1).unwrap();
    pair.a.stack.connect(pair.a.now, first, at(IP_B, 80)).unwrap();
    pair.settle();
    let ends = tcp::Endpoints { local: at(IP_A, 1000), remote: at(IP_B, 80) };
    let reset = SegmentRepr { rst: true, ..SegmentRepr::default() };
    pair.a.stack.fill_resets(20_000, ends, reset);
    pair.a.wire.room = 100_000;
    assert_eq!(pair.a.sent().len(), 8192);
}

/// The ends of many connections at one time do not hold up what comes between them.
#[test]
fn timers_that_fire_together_are_handled_in_parts() {
    let mut b = Host::b_knowing_a();
    let syn = |from| SegmentRepr {
        src_port: from,
        dst_port: 80,
        seq: crate::tcp::Seq::new(1000),
        syn: true,
        window: 8000,
        ..SegmentRepr::default()
    };
    let _ = super::streams::listener(&mut b, 2, 80, 4000);
    b.wire.room = 100_000;
    for from in 1000..3000 {
        b.take(&tcp_frame(&syn(from), &[]));
    }
    assert_eq!(b.sent().len(), 2000);
    b.now += Duration::from_millis(1500);
    let parts: Vec<_> = (0..4).map(|_| b.sent().len()).collect();
    assert_eq!(parts, [512, 512, 512, 464], "SYN-ACKs again");
}

/// A connection from A that a listener of B has accepted, and the segment with which it began.
fn accepted(b: &mut Host, owner: OwnerId, from: u16, to: u16) -> SegmentRepr {
    let listener = stream_of(b, owner, 2).unwrap();
    b.stack.set_option(b.now, listener, SockOption::ReuseAddr(true)).unwrap();
    b.stack.bind(listener, at(IP_B, to)).unwrap();
    b.stack.listen(listener, 5).unwrap();
    let first = SegmentRepr {
        src_port: from,
        dst_port: to,
        seq: crate::tcp::Seq::new(1000),
        window: 8000,
        ..SegmentRepr::default()
    };
    b.take(&tcp_frame(&SegmentRepr { syn: true, ..first }, &[]));
    let reply = segment_of(b.sent().last().unwrap());
    let ack = SegmentRepr { seq: first.seq + 1, ack: Some(reply.seq + 1), ..first };
    b.take(&tcp_frame(&ack, &[]));
    let _ = b.stack.accept(listener, 5).unwrap().unwrap();
    b.stack.close(b.now, listener).unwrap();
    let _ = b.events();
    ack
}

/// Sends B as many segments of a connection as it holds, each behind a gap, but at most `most`.
fn fill_out_of_order(b: &mut Host, ack: &SegmentRepr, most: u32) -> u64 {
    let before = b.counter("memory.frames-held");
    for n in 0..most {
        let segment = SegmentRepr { seq: ack.seq + 10 + 20 * n, ..*ack };
        b.take(&tcp_frame(&segment, &[7; 10]));
    }
    let _ = b.sent();
    b.counter("memory.frames-held") - before
}

/// A client with many connections, to each of which its peers send what lies behind a gap.
#[test]
fn frames_out_of_order_are_shared_by_owners_not_connections() {
    let config = Config { held_frames: 440, ..Config::default() };
    let mut b = Host::new(IP_B, MAC_B, config);
    b.take(&arp_frame(MAC_A, IP_A, IP_B, true));
    let (greedy, late) = (b.stack.add_owner(), b.stack.add_owner());
    let of_greedy: Vec<_> = (0..60).map(|n| accepted(&mut b, greedy, 1000 + n, 80 + n)).collect();
    let held: u64 = of_greedy.iter().map(|ack| fill_out_of_order(&mut b, ack, 300)).sum();
    assert!((310..325).contains(&held), "nearly all of 330: {held}");
    let first = accepted(&mut b, late, 5000, 500);
    assert!(fill_out_of_order(&mut b, &first, 300) >= 8);
    // What comes in order, or ends, counts no more.
    for ack in &of_greedy {
        let reset = SegmentRepr { rst: true, ack: None, ..*ack };
        b.take(&tcp_frame(&reset, &[]));
    }
    assert!(fill_out_of_order(&mut b, &first, 400) > 290);
    b.take(&tcp_frame(&first, &[7; 10]));
    let _ = b.sent();
    let again = accepted(&mut b, greedy, 6000, 600);
    assert!(fill_out_of_order(&mut b, &again, 400) >= 8);
}

#[test]
fn groups_are_shared() {
    let mut b = Host::b_knowing_a();
    let (greedy, late) = (b.stack.add_owner(), b.stack.add_owner());
    let mut join_all = |owner, subnet: u8| {
        let mut joined = 0;
        for n in 0..=255 {
            let socket = b.stack.open_for(owner, Family::V4, SocketKind::Datagram, 1).unwrap();
            let group = IpAddr::V4(Ipv4Addr::new(239, 1, subnet, n));
            match b.stack.join_group(b.now, socket, group, None) {
                Ok(()) => joined += 1,
                Err(error) => assert_eq!(error, Error::NoBuffers),
            }
        }
        let _ = b.sent();
        joined
    };
    assert_eq!(join_all(greedy, 1), 241, "16 of 17");
    assert_eq!(join_all(late, 2), 15, "all that are left");
    assert_eq!(join_all(late, 1), 241, "groups that are there cost nothing");
}

/// Joining and leaving at once: the reports about groups that were left are still to be sent.
#[test]
fn groups_that_were_left_count_until_they_are_reported() {
    let mut b = Host::b_knowing_a();
    let (greedy, late) = (b.stack.add_owner(), b.stack.add_owner());
    let join = |b: &mut Host, owner, group| {
        let socket = b.stack.open_for(owner, Family::V4, SocketKind::Datagram, 1).unwrap();
        let joined = b.stack.join_group(b.now, socket, group, None);
        (socket, joined)
    };
    for n in 0..1000_u16 {
        let [high, low] = n.to_be_bytes();
        let (socket, _) = join(&mut b, greedy, Ipv4Addr::new(239, 1, high, low).into());
        b.stack.close(b.now, socket).unwrap();
        let _ = b.events();
    }
    let group = Ipv4Addr::new(239, 2, 0, 1).into();
    assert_eq!(join(&mut b, late, group).1, Ok(()));
    b.pass(Duration::from_secs(5));
    assert_eq!(join(&mut b, greedy, Ipv4Addr::new(239, 3, 0, 1).into()).1, Ok(()));
}

/// A node that provokes errors without a pause does not use up those of others.
#[test]
fn icmp_errors_are_limited_for_each_destination() {
    let mut b = Host::b_knowing_a();
    let other = Ipv4Addr::new(10, 0, 0, 3);
    let mac = smoltcp::wire::EthernetAddress([2, 0, 0, 0, 0, 3]);
    b.take(&arp_frame(mac, other, IP_B, true));
    let mut errors = [0; 2];
    for _ in 0..5000 {
        b.now += Duration::from_micros(200);
        b.take(&udp_frame(5000, 7, b"flood"));
        errors[0] += b.sent().len();
    }
    let datagram = udp_frame(5000, 7, b"honest");
    let mut honest = ip_frame_with(other, IP_B, 17, &[], &datagram[34..]);
    fix_transport(&mut honest);
    for _ in 0..20 {
        b.take(&honest);
        errors[1] += b.sent().iter().filter(|frame| frame[30..34] == other.octets()).count();
        b.take(&udp_frame(5000, 7, b"flood"));
        errors[0] += b.sent().len();
    }
    assert_eq!(errors[1], 20);
    assert!((140..160).contains(&errors[0]), "50, and 100 in a second: {}", errors[0]);
}

/// A client that connects to hosts which are not there, as fast as it can.
#[test]
fn neighbours_that_do_not_answer_leave_room_to_others() {
    let config = Config { neighbours: 256, ..Config::default() };
    let mut pair = Pair::with(Config::default(), config);
    let _ = super::streams::listener(&mut pair.a, 2, REMOTE, 5);
    let b = &mut pair.b;
    b.stack.remove_address(ID, IP_B.into()).unwrap();
    b.stack.add_address(ID, Cidr::new(IP_B, 16)).unwrap();
    let _ = b.sent();
    let (greedy, late) = (b.stack.add_owner(), b.stack.add_owner());
    for n in 0..2000_u16 {
        let [high, low] = (0x0100 + n).to_be_bytes();
        let socket = stream_of(b, greedy, 1).unwrap();
        b.stack.connect(b.now, socket, at(Ipv4Addr::new(10, 0, high, low), 80)).unwrap();
        let _ = b.sent();
    }
    let failed = b.events_of(1).len();
    assert!((1850..1900).contains(&failed), "of 128 it resolves 16 of 17: {failed}");
    let socket = stream_of(b, late, 3).unwrap();
    b.stack.connect(b.now, socket, at(IP_A, REMOTE)).unwrap();
    pair.settle();
    assert_eq!(pair.b.events_of(3), [EventKind::Connected]);
}

/// A client that accepts nothing holds what its peers send. What the peers of another client send
/// before it has accepted them finds room.
#[test]
fn data_of_connections_that_nobody_accepts_is_shared() {
    let config = Config { held_frames: 340, ..Config::default() };
    let mut pair = Pair::with(Config::default(), config);
    let owners = [(); 2].map(|()| pair.b.stack.add_owner());
    let listeners = [(owners[0], 80), (owners[1], 81)].map(|(owner, port)| {
        let listener = stream_of(&mut pair.b, owner, 2).unwrap();
        pair.b.stack.bind(listener, at(IP_B, port)).unwrap();
        pair.b.stack.listen(listener, 100).unwrap();
        listener
    });
    let fill = |pair: &mut Pair, port| {
        let before = pair.b.counter("memory.frames-held");
        let client = pair.a.stack.open(SocketKind::Stream, 9).unwrap();
        pair.a.stack.connect(pair.a.now, client, at(IP_B, port)).unwrap();
        pair.settle();
        for _ in 0..20 {
            pair.a.send(client, b"unread");
            pair.settle();
        }
        pair.b.counter("memory.frames-held") - before
    };
    let held: u64 = (0..40).map(|_| fill(&mut pair, 80)).sum();
    assert_eq!(held, 160, "16 of 17 of half of all");
    assert!(fill(&mut pair, 81) >= 8);
    // What is taken counts no more.
    while let Some((server, _)) = pair.b.stack.accept(listeners[0], 5).unwrap() {
        let _ = pair.b.received(server);
    }
    assert!(pair.b.counter("memory.frames-held") < 20);
    assert!(fill(&mut pair, 80) >= 8);
}
