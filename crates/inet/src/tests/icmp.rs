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
        assert_eq!(b.events_of(1), [EventKind::Failed(error)]);
        assert_eq!(b.states(), ["UNCONN"]);
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
