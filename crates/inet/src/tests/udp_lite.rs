//! UDP-Lite between two stacks: coverage, ports of its own, errors.

use super::*;

fn lite(host: &mut Host, tag: u64) -> Handle {
    host.stack.open(SocketKind::UdpLite, tag).unwrap()
}

/// A sender on A, and a receiver on B's port 7.
fn pair() -> (Pair, Handle, Handle) {
    let mut pair = Pair::new();
    let (from, to) = (lite(&mut pair.a, 1), lite(&mut pair.b, 2));
    pair.b.stack.bind(to, at(IP_B, 7)).unwrap();
    pair.a.stack.connect(pair.a.now, from, at(IP_B, 7)).unwrap();
    (pair, from, to)
}

fn set(host: &mut Host, handle: Handle, option: SockOption) {
    host.stack.set_option(host.now, handle, option).unwrap();
}

/// The frame of a datagram of ten bytes, the neighbour known.
fn frame(pair: &mut Pair, from: Handle) -> Vec<u8> {
    pair.a.send(from, b"0123456789");
    let is_lite = |frame: &Vec<u8>| frame[12..14] == [8, 0] && frame[23] == 136;
    loop {
        let frames = pair.a.sent();
        assert!(!frames.is_empty());
        if let Some(found) = frames.iter().find(|frame| is_lite(frame)) {
            return found.clone();
        }
        frames.iter().for_each(|frame| pair.b.take(frame));
        pair.b.sent().iter().for_each(|frame| pair.a.take(frame));
    }
}

#[test]
fn datagrams_arrive_with_any_coverage() {
    let (mut pair, from, to) = pair();
    for coverage in [0, 8, 12, 100] {
        set(&mut pair.a, from, SockOption::SendCoverage(coverage));
        pair.a.send(from, b"0123456789");
        pair.settle();
        assert_eq!(pair.b.received(to), b"0123456789", "{coverage}");
    }
    assert_eq!(
        pair.a.stack.option(from, OptionName::SendCoverage),
        Ok(SockOption::SendCoverage(100))
    );
    set(&mut pair.a, from, SockOption::SendCoverage(3));
    assert_eq!(
        pair.a.stack.option(from, OptionName::SendCoverage),
        Ok(SockOption::SendCoverage(8))
    );
}

#[test]
fn damage_that_is_not_covered_arrives() {
    let (mut pair, from, to) = pair();
    set(&mut pair.a, from, SockOption::SendCoverage(12));
    let mut damaged = frame(&mut pair, from);
    assert_eq!(damaged[38..40], [0, 12]);
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    pair.b.take(&damaged);
    assert_eq!(pair.b.received(to), b"0123456788");
    damaged[42] ^= 1;
    pair.b.take(&damaged);
    assert_eq!(pair.b.received(to), b"");
    assert_eq!(pair.b.counter("udp.bad-checksum"), 1);
}

#[test]
fn a_receiver_asks_for_coverage() {
    let (mut pair, from, to) = pair();
    set(&mut pair.a, from, SockOption::SendCoverage(12));
    let partial = frame(&mut pair, from);
    set(&mut pair.a, from, SockOption::SendCoverage(0));
    let whole = frame(&mut pair, from);
    assert_eq!(whole[38..40], [0, 0]);
    for (least, arrives) in [(12, true), (13, false), (0, false)] {
        set(&mut pair.b, to, SockOption::RecvCoverage(least));
        pair.b.take(&partial);
        assert_eq!(!pair.b.received(to).is_empty(), arrives, "{least}");
        pair.b.take(&whole);
        assert_eq!(pair.b.received(to), b"0123456789");
    }
    assert_eq!(pair.b.counter("udp.uncovered"), 2);
}

#[test]
fn its_ports_are_not_those_of_udp() {
    let (mut pair, from, to) = pair();
    let udp = pair.b.stack.open(SocketKind::Datagram, 3).unwrap();
    pair.b.stack.bind(udp, at(IP_B, 7)).unwrap();
    pair.a.send(from, b"lite");
    pair.settle();
    assert_eq!((pair.b.received(to), pair.b.received(udp)), (b"lite".to_vec(), std::vec![]));
    let kinds: Vec<_> = pair.b.stack.sockets().map(|socket| socket.kind).collect();
    assert_eq!(kinds, [SocketKind::UdpLite, SocketKind::Datagram]);
    let again = lite(&mut pair.b, 4);
    assert_eq!(pair.b.stack.bind(again, at(IP_B, 7)), Err(Error::AddrInUse));
}

#[test]
fn a_port_without_socket_refuses() {
    let (mut pair, from, to) = pair();
    pair.b.stack.close(pair.b.now, to).unwrap();
    let udp = pair.b.stack.open(SocketKind::Datagram, 3).unwrap();
    pair.b.stack.bind(udp, at(IP_B, 7)).unwrap();
    pair.a.send(from, b"lite");
    pair.settle();
    let events = pair.a.events_of(1);
    assert!(events.contains(&EventKind::Failed(Error::Refused)), "{events:?}");
}

#[test]
fn long_datagrams_are_fragmented_and_none_is_split() {
    let (mut pair, from, to) = pair();
    set(&mut pair.a, from, SockOption::SendCoverage(20));
    pair.a.send(from, &[7; 4000]);
    pair.settle();
    assert_eq!(pair.b.received(to), [7; 4000]);
    set(&mut pair.a, from, SockOption::UdpSegment(100));
    let refused = pair.a.stack.send(pair.a.now, from, Chunk(std::vec![7; 200]), None);
    assert_eq!(refused.map_err(|refused| refused.error), Err(Error::Invalid));
}
