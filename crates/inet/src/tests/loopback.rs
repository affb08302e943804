//! The interface to ourselves.

use super::*;

/// A stream from a listener at `bound` to itself, connected to `to`: the client's and the server's
/// handle. Their tags are 1 and 3.
fn stream(b: &mut Host, bound: SocketAddr, to: SocketAddr) -> (Handle, Handle) {
    let family = if to.is_ipv6() { Family::V6 } else { Family::V4 };
    let listener = b.stack.open_in(family, SocketKind::Stream, 2).unwrap();
    b.stack.bind(listener, bound).unwrap();
    b.stack.listen(listener, 5).unwrap();
    let client = b.stack.open_in(family, SocketKind::Stream, 1).unwrap();
    b.stack.connect(b.now, client, to).unwrap();
    b.poll();
    assert_eq!(b.events_of(1), [EventKind::Connected]);
    let (server, from) = b.stack.accept(listener, 3).unwrap().expect("a connection");
    assert_eq!(from, b.stack.local_addr(client).unwrap());
    (client, server)
}

/// Sends `bytes` from one socket to another of the same stack, as fast as they are read.
fn transfer(b: &mut Host, from: Handle, to: Handle, bytes: &[u8]) {
    let mut received = Vec::new();
    for chunk in bytes.chunks(100_000) {
        b.send(from, chunk);
    }
    for _ in 0..10_000 {
        b.poll();
        let more = b.received(to);
        received.extend_from_slice(&more);
        if received.len() >= bytes.len() {
            break;
        }
        if more.is_empty() {
            b.pass(Duration::from_millis(50));
        }
    }
    assert!(received == bytes, "{} of {} bytes", received.len(), bytes.len());
}

#[test]
fn streams_between_sockets_of_one_stack() {
    let any = at(Ipv4Addr::UNSPECIFIED, 80);
    let table = [
        (any, at(Ipv4Addr::LOCALHOST, 80), Ipv4Addr::LOCALHOST),
        (any, at(IP_B, 80), IP_B),
        (any, at(Ipv4Addr::new(127, 1, 2, 3), 80), Ipv4Addr::LOCALHOST),
        (at(Ipv4Addr::LOCALHOST, 80), at(Ipv4Addr::UNSPECIFIED, 80), Ipv4Addr::LOCALHOST),
        (at(IP_B, 80), at(IP_B, 80), IP_B),
    ];
    for (bound, to, source) in table {
        let mut b = Host::b();
        let (client, server) = stream(&mut b, bound, to);
        assert_eq!(b.stack.local_addr(client).unwrap().ip(), IpAddr::V4(source), "{to}");
        let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
        transfer(&mut b, client, server, &bytes);
        transfer(&mut b, server, client, &bytes);
        assert_eq!(b.wire.frames.len(), 0, "nothing touches an interface");
        assert!(b.counter("copy.loopback-bytes") >= 6_000_000);
        assert!(b.counter("copy.loopback-bytes") < 6_100_000, "once each");
        let packets = b.counter("loopback.packets");
        assert!(packets < 1000, "long packets: {packets}");
        b.stack.close(b.now, client).unwrap();
        b.stack.close(b.now, server).unwrap();
        b.pass(Duration::from_secs(200));
        assert_eq!(b.states(), ["LISTEN"]);
        assert_eq!((b.counter("memory.joined-bytes"), b.counter("memory.frames-held")), (0, 0));
    }
}

#[test]
fn nobody_listens() {
    let mut b = Host::b();
    let client = b.stack.open(SocketKind::Stream, 1).unwrap();
    b.stack.connect(b.now, client, at(Ipv4Addr::LOCALHOST, 80)).unwrap();
    b.poll();
    assert_eq!(b.events_of(1), [EventKind::Failed(Error::Refused)]);
    let socket = b.stack.open(SocketKind::Datagram, 2).unwrap();
    b.stack.connect(b.now, socket, at(Ipv4Addr::LOCALHOST, 9)).unwrap();
    b.send(socket, b"x");
    b.poll();
    assert!(b.events_of(2).contains(&EventKind::Failed(Error::Refused)), "by ICMP");
}

#[test]
fn datagrams_with_payload_of_any_length() {
    let mut b = Host::b();
    let server = b.stack.open(SocketKind::Datagram, 1).unwrap();
    b.stack.bind(server, at(Ipv4Addr::LOCALHOST, 53)).unwrap();
    let client = b.stack.open(SocketKind::Datagram, 2).unwrap();
    for len in [0, 1, 1500, 20_000, 65_507] {
        let payload: Vec<u8> = (0..len).map(|n| (n % 256) as u8).collect();
        let to = Some(at(Ipv4Addr::LOCALHOST, 53));
        b.stack.send(b.now, client, Chunk(payload.clone()), to).unwrap();
        b.poll();
        let received = b.stack.recv(server).unwrap();
        assert!(received.piece.bytes() == payload, "{len}");
        assert_eq!(received.from.unwrap().ip(), IpAddr::V4(Ipv4Addr::LOCALHOST));
        b.stack.consumed(b.now, server, len);
    }
    let to = Some(at(Ipv4Addr::LOCALHOST, 53));
    let refused = b.stack.send(b.now, client, Chunk(std::vec![0; 65_508]), to);
    assert_eq!(refused.unwrap_err().error, Error::MessageSize);
    assert_eq!(b.wire.frames.len(), 0);
}

#[test]
fn what_is_not_read_is_bounded() {
    let config = Config { joined_bytes: 100_000, ..Config::default() };
    let mut b = Host::new(IP_B, MAC_B, config);
    let server = b.stack.open(SocketKind::Datagram, 1).unwrap();
    b.stack.bind(server, at(Ipv4Addr::LOCALHOST, 53)).unwrap();
    b.stack.set_option(b.now, server, SockOption::RecvBuffer(1 << 20)).unwrap();
    let client = b.stack.open(SocketKind::Datagram, 2).unwrap();
    b.stack.connect(b.now, client, at(Ipv4Addr::LOCALHOST, 53)).unwrap();
    for _ in 0..50 {
        b.send(client, &[0; 10_000]);
        b.poll();
    }
    assert!(b.counter("memory.joined-bytes") <= 75_000 + 10_100);
    assert_eq!(b.counter("udp.datagrams-in") + b.counter("memory.frames-refused"), 50);
    b.stack.close(b.now, server).unwrap();
    assert_eq!(b.counter("memory.joined-bytes"), 0);
}

#[test]
fn a_full_interface_loses_nothing_and_a_short_queue_neither() {
    let config = Config { loopback_frames: 2, loopback_bytes: 1000, ..Config::default() };
    let mut b = Host::new(IP_B, MAC_B, config);
    let any = at(Ipv4Addr::UNSPECIFIED, 80);
    let (client, server) = stream(&mut b, any, at(IP_B, 80));
    let bytes: Vec<u8> = (0..500_000u32).map(|n| (n % 253) as u8).collect();
    transfer(&mut b, client, server, &bytes);
    assert_eq!(b.counter("tcp.retransmits"), 0);
    let to = b.stack.open(SocketKind::Datagram, 8).unwrap();
    b.stack.bind(to, at(IP_B, 9)).unwrap();
    let from = b.stack.open(SocketKind::Datagram, 9).unwrap();
    b.stack.connect(b.now, from, at(IP_B, 9)).unwrap();
    (0..100).for_each(|n| b.send(from, &[n; 300]));
    b.poll();
    assert_eq!(b.received(to).len(), 100 * 300);
    assert_eq!(b.counter("loopback.dropped"), 0);
}

#[test]
fn from_outside_nobody_is_us() {
    let mut b = Host::b_knowing_a();
    let (bad, good) = (Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 9));
    for (source, destination) in [(bad, IP_B), (IP_A, bad), (good, bad), (IP_B, bad)] {
        b.take(&ip_frame_with(source, destination, 17, &[], &[0; 8]));
    }
    assert_eq!(b.counter("ip.martians"), 4);
    assert_eq!(b.sent().len(), 0);
    // Nor does the interface carry what is for us alone.
    let own = b.stack.add_address(ID, Cidr::new(Ipv4Addr::new(127, 0, 0, 5), 8));
    assert!(own.is_err());
}

#[test]
fn a_stack_without_interfaces_has_itself() {
    let mut b = Host::b();
    b.stack = Stack::new(Config::default(), [1; 16]);
    let any = at(Ipv4Addr::UNSPECIFIED, 80);
    let (client, server) = stream(&mut b, any, at(Ipv4Addr::LOCALHOST, 80));
    transfer(&mut b, client, server, b"hello");
    assert_eq!(b.stack.connect(b.now, client, at(IP_A, 80)), Err(Error::AlreadyConnected));
}
