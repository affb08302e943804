//! Echo sockets: requests sent, replies and ICMP errors received.

use super::*;

fn echo(host: &mut Host, tag: u64, ident: u16) -> Handle {
    let handle = host.stack.open(SocketKind::Echo, tag).unwrap();
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, ident));
    host.stack.bind(handle, any).unwrap();
    handle
}

fn send(host: &mut Host, handle: Handle, seq: u16, data: &[u8]) {
    let options = SendOptions { to: Some(at(IP_B, seq)), ..SendOptions::default() };
    host.stack.send_with(host.now, handle, Chunk(data.to_vec()), &options).unwrap();
}

#[test]
fn replies_come_to_the_socket_with_their_identifier() {
    let mut pair = Pair::new();
    let (one, other) = (echo(&mut pair.a, 1, 77), echo(&mut pair.a, 2, 78));
    for (seq, data) in [(0, &b""[..]), (1, b"x"), (0xffff, b"0123456789")] {
        send(&mut pair.a, one, seq, data);
        pair.settle();
        let [a, b] = seq.to_be_bytes();
        let reply = pair.a.received(one);
        assert_eq!(
            (&reply[..2], &reply[4..]),
            (&[0, 0][..], &[&[0, 77, a, b][..], data].concat()[..])
        );
        assert!(pair.a.stack.recv(other).is_none());
    }
    // Nobody has this one.
    let stray = pair.a.counter("icmp.errors-stray");
    pair.a.stack.close(pair.a.now, one).unwrap();
    send(&mut pair.a, other, 9, b"late");
    let frames = pair.a.sent();
    pair.a.stack.close(pair.a.now, other).unwrap();
    frames.iter().for_each(|frame| pair.b.take(frame));
    pair.b.sent().iter().for_each(|frame| pair.a.take(frame));
    pair.settle();
    assert_eq!(pair.a.counter("icmp.errors-stray"), stray + 1);
}

#[test]
fn an_error_comes_to_the_socket_that_it_quotes() {
    let mut pair = Pair::new();
    let (one, other) = (echo(&mut pair.a, 1, 77), echo(&mut pair.a, 2, 78));
    send(&mut pair.a, one, 5, b"data");
    pair.settle();
    let _ = pair.a.received(one);
    send(&mut pair.a, one, 6, b"data");
    let request = pair.a.sent().pop().unwrap();
    let mut error = std::vec![11, 0, 0, 0, 0, 0, 0, 0];
    error.extend(&request[14..]);
    let sum = !checksum::data(&error);
    error[2..4].copy_from_slice(&sum.to_be_bytes());
    let router = Ipv4Addr::new(10, 0, 0, 9);
    let mut frame = ip_frame_with(router, IP_A, 1, &[], &error);
    frame[..6].copy_from_slice(&request[6..12]);
    pair.a.take(&frame);
    assert_eq!(pair.a.received(one), error);
    assert!(pair.a.stack.recv(other).is_none());
    // Another message than a request is no echo socket's.
    error[8 + 20] = 0;
    error[2..4].fill(0);
    let sum = !checksum::data(&error);
    error[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut frame = ip_frame_with(router, IP_A, 1, &[], &error);
    frame[..6].copy_from_slice(&request[6..12]);
    pair.a.take(&frame);
    assert!(pair.a.stack.recv(one).is_none());
}

#[test]
fn identifiers_are_taken_once_and_no_peer_is_set() {
    let mut host = Host::b_knowing_a();
    let one = echo(&mut host, 1, 77);
    let second = host.stack.open(SocketKind::Echo, 2).unwrap();
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 77));
    assert_eq!(host.stack.bind(second, any), Err(Error::AddrInUse));
    assert_eq!(host.stack.connect(host.now, one, at(IP_A, 1)), Err(Error::Unsupported));
}
