//! Disconnecting sockets.

use super::*;

#[test]
fn a_connection_is_reset_and_its_socket_connects_again() {
    let mut pair = Pair::new();
    let (client, ..) = pair.connected();
    pair.a.send(client, b"never read");
    assert_eq!(pair.a.stack.disconnect(pair.a.now, client), Ok(true));
    pair.settle();
    let reset = EventKind::Failed(Error::Reset);
    assert!(pair.b.events_of(3).contains(&reset), "the peer");
    assert_eq!(pair.a.stack.disconnect(pair.a.now, client), Ok(false));
    pair.a.events();
    pair.a.stack.connect(pair.a.now, client, at(IP_B, 80)).unwrap();
    pair.settle();
    assert_eq!(pair.a.events_of(1), [EventKind::Connected]);
}

#[test]
fn a_listener_stops_and_a_bound_port_stays() {
    let mut b = Host::b_knowing_a();
    let listener = b.stack.open(SocketKind::Stream, 1).unwrap();
    b.stack.bind(listener, at(Ipv4Addr::UNSPECIFIED, 80)).unwrap();
    b.stack.listen(listener, 1).unwrap();
    assert_eq!(b.stack.disconnect(b.now, listener), Ok(false));
    assert_eq!(b.states(), ["UNCONN"]);
    assert_eq!(b.stack.local_addr(listener), Ok(at(Ipv4Addr::UNSPECIFIED, 80)));
    let other = b.stack.open(SocketKind::Stream, 2).unwrap();
    assert_eq!(b.stack.bind(other, at(IP_B, 80)), Err(Error::AddrInUse));
    b.stack.listen(listener, 1).unwrap();
    assert_eq!(b.states(), ["LISTEN", "UNCONN"]);
}

#[test]
fn a_datagram_socket_loses_what_bind_did_not_name() {
    let mut b = Host::b_knowing_a();
    let any = Ipv4Addr::UNSPECIFIED;
    for (bound, after) in [
        (None, at(any, 0)),
        (Some(at(any, 0)), at(any, 0)),
        (Some(at(any, 53)), at(any, 53)),
        (Some(at(IP_B, 0)), at(IP_B, 0)),
        (Some(at(IP_B, 53)), at(IP_B, 53)),
    ] {
        let socket = b.stack.open(SocketKind::Datagram, 1).unwrap();
        if let Some(bound) = bound {
            b.stack.bind(socket, bound).unwrap();
        }
        b.stack.connect(b.now, socket, at(IP_A, 7)).unwrap();
        assert_eq!(b.stack.disconnect(b.now, socket), Ok(false));
        assert_eq!(b.stack.local_addr(socket), Ok(after), "{bound:?}");
        // It has a port again with the next datagram.
        b.stack.send(b.now, socket, Chunk([1].into()), Some(at(IP_A, 7))).ok().unwrap();
        let local = b.stack.local_addr(socket).unwrap();
        assert!(local.port() != 0 && local.ip() == after.ip(), "{local}");
        b.sent();
        b.stack.close(b.now, socket).unwrap();
        b.events();
    }
}

#[test]
fn a_stream_gives_back_a_port_that_bind_chose() {
    let any = Ipv4Addr::UNSPECIFIED;
    for (bound, shown, keeps_port) in [
        (None, any, false),
        (Some(at(any, 0)), any, false),
        (Some(at(any, 2000)), any, true),
        (Some(at(IP_A, 0)), IP_A, false),
        (Some(at(IP_A, 2000)), IP_A, true),
    ] {
        for refused in [true, false] {
            let mut pair = Pair::new();
            let (.., listener) = pair.connected();
            let client = pair.a.stack.open(SocketKind::Stream, 5).unwrap();
            if let Some(bound) = bound {
                pair.a.stack.bind(client, bound).unwrap();
            }
            let port = if refused { 81 } else { 80 };
            pair.a.stack.connect(pair.a.now, client, at(IP_B, port)).unwrap();
            let local = pair.a.stack.local_addr(client).unwrap();
            pair.settle();
            pair.a.stack.disconnect(pair.a.now, client).unwrap();
            // As Linux: it shows the port that it had.
            assert_eq!(pair.a.stack.local_addr(client), Ok(at(shown, local.port())), "{bound:?}");
            let other = pair.a.stack.open(SocketKind::Stream, 6).unwrap();
            let outcome = pair.a.stack.bind(other, local);
            let taken = if keeps_port { Err(Error::AddrInUse) } else { Ok(()) };
            assert_eq!(outcome, taken, "{bound:?}, {refused}");
            pair.settle();
            pair.a.events();
            assert!(pair.b.stack.accept(listener, 4).is_ok());
            pair.a.stack.connect(pair.a.now, client, at(IP_B, 80)).unwrap();
            let again = pair.a.stack.local_addr(client).unwrap();
            assert_eq!((again.ip(), again == local), (local.ip(), keeps_port), "{bound:?}");
        }
    }
}
