//! ICMP echoes and errors.

use super::*;
use crate::tcp::SegmentRepr;

const PROTOCOL_ICMP: u8 = 1;

#[test]
fn echoes_of_every_size_are_answered() {
    let mut b = Host::b_knowing_a();
    for len in (0..=1472).step_by(23).chain([1, 56, 1471, 1472]) {
        let payload: Vec<u8> = (0..len).map(|n| n as u8).collect();
        let request = echo_frame(&payload);
        b.take(&request);
        let sent = b.sent();
        let reply = &sent[0];
        assert_eq!(reply.len(), request.len());
        let packet = crate::ip::v4::parse(reply, reply.len(), 14, ID).unwrap();
        assert_eq!((packet.source, packet.destination), (IP_B.into(), IP_A.into()));
        let message = &reply[packet.payload];
        assert_eq!(checksum::data(message), 0xffff);
        assert_eq!(message[..2], [0, 0]);
        assert_eq!(message[4..], request[38..], "identifier, number and payload");
    }
}

#[test]
fn echoes_are_not_answered_to_groups_or_when_broken() {
    let mut b = Host::b_knowing_a();
    let to_all = ip_frame_with(IP_A, Ipv4Addr::new(10, 0, 0, 255), 1, &[], &echo_frame(b"x")[34..]);
    b.take(&to_all);
    let mut broken = echo_frame(b"x");
    *broken.last_mut().unwrap() ^= 1;
    b.take(&broken);
    assert_eq!(b.sent().len(), 0);
    assert_eq!(b.counter("icmp.bad-checksum"), 1);
    let mut jumbo = Host::b_knowing_a();
    jumbo.take(&echo_frame(&[0; 2000]));
    assert_eq!(jumbo.sent().len(), 0, "the reply would be longer than a packet may be");
}

#[test]
fn closed_udp_ports_are_reported_at_a_bounded_rate() {
    let mut b = Host::b_knowing_a();
    let datagram = udp_frame(5000, 7, &[7; 1000]);
    b.take(&datagram);
    let sent = b.sent();
    let packet = crate::ip::v4::parse(&sent[0], sent[0].len(), 14, ID).unwrap();
    assert_eq!(packet.extent.len(), 576);
    let message = &sent[0][packet.payload];
    assert_eq!(message[..2], [3, 3]);
    assert_eq!(checksum::data(message), 0xffff);
    assert_eq!(message[8..], datagram[14..14 + 548]);
    for _ in 0..200 {
        b.take(&datagram);
    }
    assert_eq!(b.sent().len(), 49);
    assert_eq!(b.counter("icmp.errors-limited"), 151);
    assert_eq!(b.counter("udp.no-port"), 201);
}

#[test]
fn unknown_protocols_are_reported() {
    let mut b = Host::b_knowing_a();
    b.take(&ip_frame(99, &[1; 40]));
    let sent = b.sent();
    assert_eq!(sent[0][34..36], [3, 2]);
    assert_eq!(b.counter("ip.unknown-protocol"), 1);
}

/// An ICMP error from A about a packet of ours.
fn error_about(code: u8, quoted: &[u8]) -> Vec<u8> {
    let mut message = std::vec![3, code, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(quoted);
    let mut frame = ip_frame(PROTOCOL_ICMP, &message);
    fix_transport(&mut frame);
    frame
}

#[test]
fn a_connected_datagram_socket_is_told_what_is_final() {
    let mut b = Host::b_knowing_a();
    let socket = b.stack.open(SocketKind::Datagram, 1).unwrap();
    b.stack.connect(b.now, socket, at(IP_A, 7)).unwrap();
    b.send(socket, b"hello");
    let sent = b.sent();
    assert_eq!(b.events_of(1), [EventKind::Acked]);
    let quoted = &sent[0][14..42];
    b.take(&error_about(1, quoted));
    assert_eq!(b.events(), [], "host unreachable may pass");
    b.take(&error_about(3, quoted));
    assert_eq!(b.events_of(1), [EventKind::Failed(Error::Refused)]);
    let mut other = Vec::from(quoted);
    other[21] ^= 1;
    b.take(&error_about(3, &other));
    b.take(&error_about(3, &quoted[..27]));
    assert_eq!(b.events(), [], "not ours, and cut short");
    assert_eq!(b.counter("icmp.malformed"), 1);
}

#[test]
fn a_connection_attempt_fails_only_by_a_true_quotation() {
    for (code, error) in
        [(0, Error::NetUnreachable), (1, Error::HostUnreachable), (3, Error::Refused)]
    {
        let mut b = Host::b_knowing_a();
        let socket = b.stack.open(SocketKind::Stream, 1).unwrap();
        b.stack.connect(b.now, socket, at(IP_A, 80)).unwrap();
        let sent = b.sent();
        let mut forged = Vec::from(&sent[0][14..42]);
        forged[24] ^= 1;
        b.take(&error_about(code, &forged));
        assert_eq!(b.events(), [], "another sequence number");
        b.take(&error_about(code, &sent[0][14..42]));
        // As Linux: an IPv4 attempt queues its error without having been asked.
        assert_eq!(b.events_of(1), [EventKind::ErrorQueued, EventKind::Failed(error)]);
        assert_eq!(b.states(), ["UNCONN"]);
        let entry = b.stack.queued_error(socket).unwrap();
        assert_eq!((entry.error, entry.destination), (error, at(IP_A, 80)));
        assert_eq!(entry.payload[..], sent[0][34..42], "the TCP header, as far as it is quoted");
    }
}

#[test]
fn an_established_connection_survives_errors() {
    let mut pair = Pair::new();
    let (_, server, _) = pair.connected();
    pair.b.send(server, b"data");
    let frame = pair.b.sent().remove(0);
    pair.b.take(&error_about(1, &frame[14..42]));
    assert_eq!(pair.b.counter("icmp.errors-in"), 1);
    assert_eq!(pair.b.events_of(3), []);
    pair.a.take(&frame);
    pair.settle();
    assert_eq!(pair.b.events_of(3), [EventKind::Acked]);
}

#[test]
fn nothing_is_answered_to_whom_nothing_may_be() {
    let mut b = Host::b_knowing_a();
    let syn = SegmentRepr { src_port: 1, dst_port: 2, syn: true, ..SegmentRepr::default() };
    let segment = &tcp_frame(&syn, &[])[34..];
    let all = Ipv4Addr::new(10, 0, 0, 255);
    for (source, destination) in
        [(IP_A, all), (IP_A, Ipv4Addr::BROADCAST), (all, IP_B), (Ipv4Addr::BROADCAST, IP_B)]
    {
        for protocol in [6, 17, 99] {
            let mut frame = ip_frame_with(source, destination, protocol, &[], segment);
            fix_transport(&mut frame);
            b.take(&frame);
        }
    }
    let mut in_broadcast = tcp_frame(&syn, &[]);
    in_broadcast[..6].fill(0xff);
    b.take(&in_broadcast);
    assert_eq!(b.sent().len(), 0, "{}", b.counted());
}

/// A datagram socket that asks for errors, and the packet of a datagram that it has sent.
fn asking(b: &mut Host) -> (Handle, Vec<u8>) {
    let socket = b.stack.open(SocketKind::Datagram, 1).unwrap();
    b.stack.set_option(b.now, socket, SockOption::RecvErrors4(true)).unwrap();
    b.stack.send(b.now, socket, Chunk((*b"hello").into()), Some(at(IP_A, 7))).unwrap();
    let sent = b.sent();
    assert_eq!(b.events_of(1), [EventKind::Acked]);
    (socket, sent[0][14..47].into())
}

#[test]
fn a_socket_that_asks_for_errors_gets_all_with_their_packets() {
    let mut b = Host::b_knowing_a();
    let (socket, packet) = asking(&mut b);
    b.take(&error_about(1, &packet));
    b.take(&error_about(3, &packet));
    let events = [EventKind::ErrorQueued, EventKind::Failed(Error::HostUnreachable)];
    assert_eq!(b.events_of(1), events, "without a connection, and of the first the error");
    let entry = b.stack.queued_error(socket).cloned().unwrap();
    assert_eq!((entry.error, entry.destination), (Error::HostUnreachable, at(IP_A, 7)));
    assert_eq!(entry.payload[..], *b"hello");
    let ErrorOrigin::Icmp(icmp) = entry.origin else { panic!("{:?}", entry.origin) };
    assert_eq!((icmp.from, icmp.to), (at(IP_A, 0), IP_B.into()));
    assert_eq!((icmp.kind, icmp.code, icmp.ttl), (3, 1, 64));
    let next = PendingErrorChange::Set(Error::Refused);
    assert_eq!(b.stack.take_queued_error(socket, 0), Some(next));
    assert_eq!(b.stack.take_queued_error(socket, 0), None);
    assert_eq!(b.stack.take_queued_error(socket, 1), Some(PendingErrorChange::Clear));
    assert_eq!(b.stack.queued_error(socket), None);
}

#[test]
fn error_queues_are_bounded_and_emptied() {
    let mut b = Host::b_knowing_a();
    let (socket, packet) = asking(&mut b);
    b.stack.set_option(b.now, socket, SockOption::RecvBuffer(4000)).unwrap();
    (0..9).for_each(|_| b.take(&error_about(3, &packet)));
    let mut serial = 0;
    while b.stack.take_queued_error(socket, serial).is_some() {
        serial += 1;
    }
    assert_eq!(serial, 5, "773 bytes each");
    b.take(&error_about(3, &packet));
    assert!(b.stack.queued_error(socket).is_some());
    b.stack.set_option(b.now, socket, SockOption::RecvErrors4(false)).unwrap();
    assert_eq!(b.stack.queued_error(socket), None);
    b.events();
    b.take(&error_about(3, &packet));
    assert_eq!(b.events(), [], "an unconnected socket that does not ask");
}

#[test]
fn a_datagram_that_is_refused_here_is_queued_too() {
    let mut b = Host::b_knowing_a();
    let (socket, _) = asking(&mut b);
    b.stack.set_option(b.now, socket, SockOption::MtuDiscover(MtuDiscover::Do)).unwrap();
    let long = Chunk(std::vec![0; 1473]);
    let refused = b.stack.send(b.now, socket, long, Some(at(IP_A, 7)));
    assert_eq!(refused.map_err(|refused| refused.error), Err(Error::MessageSize));
    let entry = b.stack.queued_error(socket).unwrap();
    assert_eq!((entry.error, entry.info), (Error::MessageSize, 1500));
    assert_eq!((entry.origin, entry.destination), (ErrorOrigin::Local, at(IP_A, 0)));
    assert_eq!(b.events_of(1), [EventKind::ErrorQueued]);
}

#[test]
fn an_established_connection_that_asks_hears_of_errors() {
    let mut pair = Pair::new();
    let (_, server, _) = pair.connected();
    pair.b.stack.set_option(pair.b.now, server, SockOption::RecvErrors4(true)).unwrap();
    pair.b.send(server, b"data");
    let frame = pair.b.sent().remove(0);
    pair.b.take(&error_about(1, &frame[14..42]));
    assert_eq!(pair.b.events_of(3), [EventKind::ErrorQueued]);
    assert_eq!(pair.b.stack.take_soft_error(server), Some(Error::HostUnreachable));
    assert_eq!(pair.b.stack.queued_error(server), None, "only attempts queue");
}
