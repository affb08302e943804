//! Closes that reset: what was sent before leaves first, as far as the windows permit.

use super::*;

fn linger(host: &mut Host, socket: Handle) {
    let linger = SockOption::Linger(Some(Duration::ZERO));
    host.stack.set_option(host.now, socket, linger).unwrap();
}

/// The server's bytes, and whether a reset came.
fn end_of(pair: &mut Pair, server: Handle) -> (usize, bool) {
    let got = pair.b.received(server).len();
    (got, pair.b.events_of(3).contains(&EventKind::Failed(Error::Reset)))
}

#[test]
fn linger_of_zero_sends_first() {
    let mut pair = Pair::new();
    let (client, server, _) = pair.connected();
    linger(&mut pair.a, client);
    pair.a.send(client, &[7; 1000]);
    pair.a.stack.close(pair.a.now, client).unwrap();
    let frames = pair.a.sent();
    let segments: Vec<_> = frames.iter().map(|frame| segment_of(frame)).collect();
    assert_eq!(segments.len(), 2, "{segments:?}");
    assert_eq!((segments[0].rst, segments[1].rst), (false, true));
    assert_eq!(segments[1].seq, segments[0].seq + 1000);
    assert_eq!(pair.a.events_of(1), [EventKind::Closed]);
    assert_eq!(pair.a.states(), [""; 0]);
    frames.iter().for_each(|frame| pair.b.take(frame));
    assert_eq!(end_of(&mut pair, server), (1000, true));
}

#[test]
fn what_no_window_permits_is_lost() {
    let mut pair = Pair::new();
    let (client, server, _) = pair.connected();
    linger(&mut pair.a, client);
    for _ in 0..100 {
        pair.a.send(client, &[7; 10_000]);
    }
    pair.a.stack.close(pair.a.now, client).unwrap();
    pair.settle();
    // The initial congestion window.
    assert_eq!(end_of(&mut pair, server), (10 * 1448, true));
    assert_eq!(pair.a.states(), [""; 0]);
    assert_eq!(pair.a.events_of(1), [EventKind::Closed]);
    pair.pass(Duration::from_secs(120));
    assert_eq!(pair.b.counter("memory.frames-held"), 0);
}

#[test]
fn unread_bytes_reset_after_what_was_sent() {
    let mut pair = Pair::new();
    let (client, server, _) = pair.connected();
    pair.b.send(server, b"never read");
    pair.settle();
    pair.a.send(client, b"the answer");
    pair.a.stack.close(pair.a.now, client).unwrap();
    pair.settle();
    assert_eq!(end_of(&mut pair, server), (10, true));
    assert_eq!(pair.a.counter("memory.frames-held"), 0);
}

#[test]
fn a_fin_that_has_not_left_goes_before_the_reset() {
    let mut pair = Pair::new();
    let (client, server, _) = pair.connected();
    linger(&mut pair.a, client);
    pair.a.send(client, b"all");
    pair.a.stack.shutdown(pair.a.now, client, ShutdownHow::Write).unwrap();
    pair.a.stack.close(pair.a.now, client).unwrap();
    pair.settle();
    assert_eq!(pair.b.received(server), b"all");
    let events = pair.b.events_of(3);
    // The reset after the FIN, as Linux tells it.
    assert_eq!(events, [EventKind::Readable, EventKind::Eof, EventKind::Failed(Error::BrokenPipe)]);
}

#[test]
fn an_end_of_which_the_peer_has_only_a_part_is_a_reset() {
    let mut pair = Pair::new();
    let (client, server, _) = pair.connected();
    pair.b.stack.shutdown(pair.b.now, server, ShutdownHow::Write).unwrap();
    pair.settle();
    linger(&mut pair.a, client);
    for _ in 0..100 {
        pair.a.send(client, &[7; 10_000]);
    }
    pair.a.stack.shutdown(pair.a.now, client, ShutdownHow::Write).unwrap();
    assert_eq!(pair.a.states(), ["LAST-ACK"]);
    pair.a.stack.close(pair.a.now, client).unwrap();
    pair.settle();
    assert_eq!(end_of(&mut pair, server), (10 * 1448, true));
}

/// The ends are free at once, whatever still waits for room at the device.
#[test]
fn a_full_device_delays_the_bytes_and_the_reset() {
    let mut pair = Pair::new();
    let (client, server, _) = pair.connected();
    linger(&mut pair.a, client);
    pair.a.send(client, &[7; 1000]);
    let local = pair.a.stack.local_addr(client).unwrap();
    pair.a.wire.room = 0;
    pair.a.stack.close(pair.a.now, client).unwrap();
    pair.a.poll();
    let next = pair.a.stack.open(SocketKind::Stream, 4).unwrap();
    pair.a.stack.bind(next, local).unwrap();
    assert!(pair.a.wire.frames.is_empty());
    pair.a.wire.room = 1000;
    pair.settle();
    assert_eq!(end_of(&mut pair, server), (1000, true));
}

#[test]
fn over_loopback_the_bytes_come_before_the_reset() {
    let mut host = Host::b();
    let listener = host.stack.open(SocketKind::Stream, 2).unwrap();
    host.stack.bind(listener, at(Ipv4Addr::LOCALHOST, 80)).unwrap();
    host.stack.listen(listener, 5).unwrap();
    let client = host.stack.open(SocketKind::Stream, 1).unwrap();
    host.stack.connect(host.now, client, at(Ipv4Addr::LOCALHOST, 80)).unwrap();
    host.poll();
    let (server, _) = host.stack.accept(listener, 3).unwrap().expect("a connection");
    host.events();
    linger(&mut host, client);
    host.send(client, &[7; 1000]);
    host.stack.close(host.now, client).unwrap();
    host.poll();
    assert_eq!(host.events_of(3), [EventKind::Readable, EventKind::Failed(Error::Reset)]);
    assert_eq!(host.received(server).len(), 1000);
}
