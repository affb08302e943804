//! Datagrams that are cut, joined, corked, or sent and received with ancillary data.

use core::net::Ipv6Addr;

use super::*;

fn patterned(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n % 239) as u8).collect()
}

/// A pair with a socket on A connected to one on B: port 9, tag 1 each.
fn pair() -> (Pair, Handle, Handle) {
    let mut pair = Pair::new();
    let server = pair.b.stack.open(SocketKind::Datagram, 1).unwrap();
    pair.b.stack.bind(server, at(Ipv4Addr::UNSPECIFIED, 9)).unwrap();
    let client = pair.a.stack.open(SocketKind::Datagram, 1).unwrap();
    pair.a.stack.connect(pair.a.now, client, at(IP_B, 9)).unwrap();
    (pair, client, server)
}

fn option(host: &mut Host, socket: Handle, option: SockOption) {
    host.stack.set_option(host.now, socket, option).unwrap();
}

fn error_of(host: &mut Host, socket: Handle, len: usize, options: &SendOptions) -> Option<Error> {
    let chunk = Chunk(patterned(len));
    host.stack.send_with(host.now, socket, chunk, options).err().map(|refused| refused.error)
}

/// Whether DF is set, whether more fragments follow, and the place of the payload.
fn cut_of(frame: &[u8]) -> (bool, bool, usize) {
    let field = u16::from_be_bytes([frame[20], frame[21]]);
    (field & 0x4000 != 0, field & 0x2000 != 0, usize::from(field & 0x1fff) * 8)
}

#[test]
fn what_is_longer_than_the_mtu_leaves_in_fragments() {
    let (mut pair, client, server) = pair();
    for len in [1472, 1473, 1480, 9000, 65_507] {
        let payload = patterned(len);
        pair.a.send(client, &payload);
        pair.settle();
        let received = pair.b.stack.recv(server).unwrap();
        assert!(received.piece.bytes() == payload, "{len}");
        pair.b.stack.consumed(pair.b.now, server, len);
    }
    let all: u64 = [1472, 1473, 1480, 9000, 65_507].iter().sum();
    assert_eq!(pair.a.stack.acked(client), all);
    assert_eq!(pair.a.counter("udp.datagrams-out"), 5);
    assert_eq!(pair.b.counter("udp.bad-checksum"), 0);
    pair.a.send(client, &patterned(3000));
    let frames = pair.a.sent();
    let cuts: Vec<_> = frames.iter().map(|frame| cut_of(frame)).collect();
    assert_eq!(cuts, [(false, true, 0), (false, true, 1480), (false, false, 2960)]);
    assert!(frames.iter().all(|frame| frame[18..20] == frames[0][18..20]));
    pair.a.send(client, &patterned(3000));
    assert_ne!(pair.a.sent()[0][18..20], frames[0][18..20], "another identification");
}

#[test]
fn fragments_wait_for_room_and_for_the_neighbour() {
    let (mut pair, client, server) = pair();
    // The neighbour is not known: the datagram_out waits and keeps its place.
    pair.a.wire.room = 3;
    pair.a.send(client, &patterned(20_000));
    pair.a.send(client, b"after");
    pair.a.poll();
    assert_eq!(pair.a.wire.frames.len(), 1, "the question only");
    for _ in 0..20 {
        pair.settle();
    }
    assert_eq!(pair.b.stack.recv(server).unwrap().piece.bytes(), patterned(20_000));
    assert_eq!(pair.b.stack.recv(server).unwrap().piece.bytes(), b"after");
    // A neighbour that never answers.
    let mut b = Host::b();
    let socket = b.stack.open(SocketKind::Datagram, 1).unwrap();
    let to = Some(at(IP_A, 9));
    b.stack.send(b.now, socket, Chunk(patterned(4000)), to).unwrap();
    b.pass(Duration::from_secs(5));
    assert_eq!(b.stack.acked(socket), 4000);
    assert!(b.events_of(1).contains(&EventKind::Failed(Error::HostUnreachable)));
    assert_eq!(b.stack.poll_at(), None);
}

#[test]
fn who_forbids_fragments_gets_none() {
    // How, whether 3000 bytes can be sent, whether 100 bytes have DF.
    let table = [
        (MtuDiscover::Dont, true, false),
        (MtuDiscover::Want, true, true),
        (MtuDiscover::Do, false, true),
        (MtuDiscover::Probe, false, true),
        (MtuDiscover::Interface, false, false),
        (MtuDiscover::Omit, true, false),
    ];
    for (how, long, df) in table {
        let (mut pair, client, _) = pair();
        pair.a.send(client, b"hello");
        pair.settle();
        option(&mut pair.a, client, SockOption::MtuDiscover(how));
        let name = OptionName::MtuDiscover;
        assert_eq!(pair.a.stack.option(client, name), Ok(SockOption::MtuDiscover(how)));
        let refused = error_of(&mut pair.a, client, 3000, &SendOptions::default());
        assert_eq!(refused, (!long).then_some(Error::MessageSize), "{how:?}");
        pair.settle();
        pair.a.send(client, b"short");
        let frame = pair.a.sent().pop().unwrap();
        assert_eq!(cut_of(&frame), (df, false, 0), "{how:?}");
        pair.b.take(&frame);
        assert_eq!(pair.b.counter("ip.bad-checksum"), 0);
    }
}

#[test]
fn one_send_in_datagrams_of_one_length() {
    let (mut pair, client, server) = pair();
    let options = SendOptions { segment: 1000, ..SendOptions::default() };
    let payload = patterned(10_500);
    pair.a.wire.room = 4;
    assert_eq!(error_of(&mut pair.a, client, 10_500, &options), None);
    for _ in 0..20 {
        pair.settle();
    }
    assert_eq!(pair.a.stack.acked(client), 10_500);
    assert_eq!(pair.b.stack.recv_run(server, 65_507), Some((11, 1000)));
    assert_eq!(pair.b.stack.recv_run(server, 3500), Some((3, 1000)));
    let mut received = Vec::new();
    for n in 0..11 {
        let datagram = pair.b.stack.recv(server).unwrap();
        assert_eq!(datagram.piece.range.len(), if n < 10 { 1000 } else { 500 });
        received.extend_from_slice(datagram.piece.bytes());
    }
    assert_eq!(received, payload);
    assert_eq!(pair.b.stack.recv_run(server, 65_507), None);
    // By option, and not more than it is.
    option(&mut pair.a, client, SockOption::UdpSegment(700));
    pair.a.send(client, &patterned(1400));
    pair.a.send(client, &patterned(300));
    pair.settle();
    assert_eq!(pair.b.stack.recv_run(server, 65_507), Some((3, 700)));
    for (len, segment, error) in [(3000, 1473, Error::MessageSize), (200, 1, Error::Invalid)] {
        let options = SendOptions { segment, ..SendOptions::default() };
        assert_eq!(error_of(&mut pair.a, client, len, &options), Some(error));
    }
}

#[test]
fn a_corked_datagram_is_split_when_it_is_complete() {
    let (mut pair, client, server) = pair();
    let more = SendOptions { more: true, ..SendOptions::default() };
    let split = |segment| SendOptions { segment, ..more };
    let mut sent = |socket: u16, first: SendOptions, last: Option<SendOptions>| {
        option(&mut pair.a, client, SockOption::UdpSegment(socket));
        option(&mut pair.a, client, SockOption::Cork(last.is_none()));
        assert_eq!(error_of(&mut pair.a, client, 700, &first), None);
        let error = error_of(&mut pair.a, client, 700, &last.unwrap_or_default());
        option(&mut pair.a, client, SockOption::Cork(false));
        for _ in 0..20 {
            pair.settle();
        }
        let received = core::iter::from_fn(|| pair.b.stack.recv(server));
        (error, received.map(|one| one.piece.range.len()).collect::<Vec<_>>())
    };
    let none = SendOptions::default();
    for last in [Some(none), None] {
        assert_eq!(sent(1000, more, last), (None, [1000, 400].into()));
        assert_eq!(sent(0, split(1000), last), (None, [1000, 400].into()));
        assert_eq!(sent(1000, split(500), last), (None, [500, 500, 400].into()));
        assert_eq!(sent(1400, more, last), (None, [1400].into()));
    }
    // As on Linux the first part decides, and too many are lost altogether.
    assert_eq!(sent(0, more, Some(SendOptions { segment: 1000, ..none })), (None, [1400].into()));
    assert_eq!(sent(10, more, Some(none)), (Some(Error::Invalid), [].into()));
    assert_eq!(sent(10, more, None), (None, [].into()));
    assert_eq!(sent(0, none, Some(none)), (None, [700, 700].into()));
}

#[test]
fn a_corked_datagram_is_one() {
    let (mut pair, client, server) = pair();
    option(&mut pair.a, client, SockOption::Cork(true));
    pair.a.send(client, b"one ");
    pair.a.send(client, b"two ");
    pair.settle();
    assert!(pair.b.stack.recv(server).is_none());
    option(&mut pair.a, client, SockOption::Cork(false));
    pair.settle();
    assert_eq!(pair.b.stack.recv(server).unwrap().piece.bytes(), b"one two ");
    let more = SendOptions { more: true, ..SendOptions::default() };
    for part in [b"a", b"b", b"c"] {
        pair.a.stack.send_with(pair.a.now, client, Chunk(part.to_vec()), &more).unwrap();
    }
    pair.settle();
    pair.a.send(client, b"d");
    pair.settle();
    assert_eq!(pair.b.stack.recv(server).unwrap().piece.bytes(), b"abcd");
    assert_eq!(pair.a.stack.acked(client), 12);
    // Long and in odd pieces: the checksum is over all of them.
    for len in [1001, 1003, 1] {
        pair.a.stack.send_with(pair.a.now, client, Chunk(patterned(len)), &more).unwrap();
    }
    pair.a.send(client, &patterned(5));
    pair.settle();
    assert_eq!(pair.b.stack.recv(server).unwrap().piece.bytes().len(), 2010);
    assert_eq!(error_of(&mut pair.a, client, 60_000, &more), None);
    let last = SendOptions::default();
    assert_eq!(error_of(&mut pair.a, client, 6000, &last), Some(Error::MessageSize));
    // As on Linux all of it is lost.
    assert_eq!(error_of(&mut pair.a, client, 5507, &last), None);
    pair.settle();
    assert_eq!(pair.b.stack.recv(server).unwrap().piece.bytes().len(), 5507);
}

/// As Linux, which drops it.
#[test]
fn closing_drops_an_unfinished_datagram() {
    let more = SendOptions { more: true, ..SendOptions::default() };
    for before in [None, Some(b"whole")] {
        let (mut pair, client, server) = pair();
        if let Some(before) = before {
            pair.a.send(client, before);
        }
        pair.a.stack.send_with(pair.a.now, client, Chunk(patterned(5)), &more).unwrap();
        pair.a.stack.close(pair.a.now, client).unwrap();
        pair.settle();
        let received = pair.b.stack.recv(server);
        assert_eq!(
            received.map(|received| received.piece.bytes().to_vec()),
            before.map(|b| b.to_vec())
        );
        assert!(pair.a.events_of(1).contains(&EventKind::Closed), "{before:?}");
        assert_eq!(pair.a.states(), [""; 0]);
    }
}

#[test]
fn ancillary_data_both_ways() {
    let (mut pair, client, server) = pair();
    let second = Ipv4Addr::new(10, 0, 0, 11);
    pair.a.stack.add_address(ID, Cidr::new(second, 24)).unwrap();
    let options = SendOptions {
        to: Some(at(IP_B, 9)),
        source: Some(second.into()),
        interface: Some(ID),
        ttl: Some(7),
        tos: Some(0x28),
        ..SendOptions::default()
    };
    assert_eq!(error_of(&mut pair.a, client, 10, &options), None);
    pair.settle();
    let received = pair.b.stack.recv(server).unwrap();
    let info = received.info.unwrap();
    assert_eq!((info.ttl, info.tos, info.interface), (7, 0x28, ID));
    assert_eq!((info.to, info.from.ip()), (IP_B.into(), second.into()));
    let foreign = SendOptions { source: Some(IP_B.into()), ..options };
    assert_eq!(error_of(&mut pair.a, client, 1, &foreign), Some(Error::AddrNotAvailable));
    let dead = SendOptions { ttl: Some(0), ..options };
    assert_eq!(error_of(&mut pair.a, client, 1, &dead), Some(Error::Invalid));
    // Bound to an interface: nothing else is heard, nothing leaves elsewhere.
    option(&mut pair.b, server, SockOption::BindToDevice(Some(InterfaceId::LOOPBACK)));
    pair.a.send(client, b"x");
    pair.settle();
    assert!(pair.b.stack.recv(server).is_none());
    assert_eq!(pair.b.counter("udp.no-port"), 1);
    option(&mut pair.a, client, SockOption::BindToDevice(Some(InterfaceId(7))));
    assert_eq!(error_of(&mut pair.a, client, 1, &options), Some(Error::NetUnreachable));
}

#[test]
fn a_broadcast_reaches_every_socket_of_the_port() {
    let mut b = Host::b_knowing_a();
    let sockets: Vec<Handle> = (0..3)
        .map(|tag| {
            let socket = b.stack.open(SocketKind::Datagram, tag).unwrap();
            option(&mut b, socket, SockOption::ReuseAddr(true));
            b.stack.bind(socket, at(Ipv4Addr::UNSPECIFIED, 9)).unwrap();
            socket
        })
        .collect();
    let mut frame = udp_frame(7, 9, b"hello");
    frame[..6].fill(0xff);
    frame[30..34].fill(0xff);
    fix_ip(&mut frame);
    fix_transport(&mut frame);
    b.take(&frame);
    for socket in &sockets {
        assert_eq!(b.received(*socket), b"hello");
    }
    assert_eq!(b.counter("copy.group-bytes"), 10);
    // Our own comes back to us, too.
    option(&mut b, sockets[0], SockOption::Broadcast(true));
    let to = Some(at(Ipv4Addr::new(10, 0, 0, 255), 9));
    b.stack.send(b.now, sockets[0], Chunk(b"mine".to_vec()), to).unwrap();
    assert_eq!(b.sent().len(), 1);
    for socket in sockets {
        assert_eq!(b.received(socket), b"mine");
    }
}

#[test]
fn over_ipv6_the_source_cuts() {
    let mut pair = v6::pair6();
    let server = pair.b.stack.open_in(Family::V6, SocketKind::Datagram, 1).unwrap();
    pair.b.stack.bind(server, v6::at6(v6::B6, 9)).unwrap();
    let client = pair.a.stack.open_in(Family::V6, SocketKind::Datagram, 1).unwrap();
    pair.a.stack.connect(pair.a.now, client, v6::at6(v6::B6, 9)).unwrap();
    for len in [1452, 1453, 20_001, 65_000] {
        pair.a.send(client, &patterned(len));
        pair.settle();
        let received = pair.b.stack.recv(server).unwrap();
        assert!(received.piece.bytes() == patterned(len), "{len}");
        pair.b.stack.consumed(pair.b.now, server, len);
    }
    assert_eq!(pair.b.counter("ip.reassembled"), 3);
    pair.a.send(client, &patterned(3000));
    let frames = pair.a.sent();
    let places: Vec<_> = frames
        .iter()
        .map(|frame| (frame[20], u16::from_be_bytes([frame[56], frame[57]])))
        .collect();
    assert_eq!(places, [(44, 1), (44, 1448 | 1), (44, 2896)]);
    // To itself, by ::1 and by its own address, in one piece or more.
    for ip in [Ipv6Addr::LOCALHOST, v6::A6] {
        let to = v6::at6(ip, 7);
        let itself = pair.a.stack.open_in(Family::V6, SocketKind::Datagram, 5).unwrap();
        pair.a.stack.bind(itself, to).unwrap();
        let chunk = Chunk(patterned(65_500));
        pair.a.stack.send(pair.a.now, itself, chunk, Some(to)).unwrap();
        pair.a.poll();
        assert!(pair.a.stack.recv(itself).unwrap().piece.bytes() == patterned(65_500));
    }
    assert_eq!(pair.a.sent().len(), 0);
}
