//! Slim TIME-WAIT in the stack: what it answers, how it ends, and how it is taken over.

use super::streams::{listener, stream};
use super::*;
use crate::tcp::TcpConfig;

/// A pair whose client on A, with port 5555, has closed first, and its socket's handle.
fn waiting(config: Config) -> (Pair, Handle) {
    let mut pair = Pair::with(config, Config::default());
    let server = listener(&mut pair.b, 2, 80, 5);
    round(&mut pair, server);
    assert_eq!(pair.a.states(), ["TIME-WAIT"]);
    assert_eq!(pair.a.stack.socket_layer().all().count(), 0, "no socket is left");
    (pair, server)
}

/// Opens a connection from A's port 5555 to B, and closes it from A.
fn round(pair: &mut Pair, server: Handle) {
    let client = stream(&mut pair.a, 1);
    pair.a.stack.set_option(pair.a.now, client, SockOption::ReuseAddr(true)).unwrap();
    pair.a.stack.bind(client, at(IP_A, 5555)).unwrap();
    pair.a.stack.connect(pair.a.now, client, at(IP_B, 80)).unwrap();
    pair.settle();
    let (child, _) = pair.b.stack.accept(server, 3).unwrap().unwrap();
    pair.a.stack.close(pair.a.now, client).unwrap();
    pair.settle();
    pair.b.stack.close(pair.b.now, child).unwrap();
    pair.settle();
    pair.a.events();
    pair.b.events();
}

/// The frames of a connection from A, closed by A, the last of which is B's FIN.
fn last_fin(pair: &mut Pair, server: Handle) -> Vec<u8> {
    let client = stream(&mut pair.a, 1);
    pair.a.stack.connect(pair.a.now, client, at(IP_B, 80)).unwrap();
    pair.settle();
    let (child, _) = pair.b.stack.accept(server, 3).unwrap().unwrap();
    pair.a.stack.close(pair.a.now, client).unwrap();
    pair.settle();
    pair.b.stack.close(pair.b.now, child).unwrap();
    let fin = pair.b.sent().pop().unwrap();
    assert!(segment_of(&fin).fin);
    pair.a.take(&fin);
    pair.a.events();
    fin
}

#[test]
fn a_fin_again_is_answered_and_starts_the_time_anew() {
    let mut pair = Pair::new();
    let server = listener(&mut pair.b, 2, 80, 5);
    let fin = last_fin(&mut pair, server);
    let ack = pair.a.sent().pop().unwrap();
    assert_eq!(pair.a.states(), ["TIME-WAIT"]);
    pair.a.pass(Duration::from_secs(50));
    pair.a.take(&fin);
    let again = pair.a.sent().pop().unwrap();
    assert_eq!(segment_of(&again).ack, segment_of(&ack).ack);
    assert_eq!(segment_of(&again).seq, segment_of(&ack).seq);
    pair.a.pass(Duration::from_secs(50));
    assert_eq!(pair.a.states(), ["TIME-WAIT"]);
    pair.a.pass(Duration::from_secs(11));
    assert!(pair.a.states().is_empty());
}

#[test]
fn a_connect_reuses_only_where_it_may() {
    for (tw_reuse, ours) in [(0, false), (1, true), (2, false)] {
        let tcp = TcpConfig { tw_reuse, ..TcpConfig::default() };
        let (mut pair, _) = waiting(Config { tcp, ..Config::default() });
        let used = pair.a.stack.socket_layer().time_wait_count();
        assert_eq!(used, 1);
        let again = |pair: &mut Pair| {
            let client = stream(&mut pair.a, 1);
            pair.a.stack.set_option(pair.a.now, client, SockOption::ReuseAddr(true)).unwrap();
            pair.a.stack.bind(client, at(IP_A, 5555)).unwrap();
            let outcome = pair.a.stack.connect(pair.a.now, client, at(IP_B, 80));
            (client, outcome)
        };
        // Not within a second.
        let (client, outcome) = again(&mut pair);
        assert_eq!(outcome, Err(Error::AddrNotAvailable));
        pair.a.stack.close(pair.a.now, client).unwrap();
        pair.pass(Duration::from_millis(1100));
        let (_, outcome) = again(&mut pair);
        let expected = if ours { Ok(()) } else { Err(Error::AddrNotAvailable) };
        assert_eq!(outcome, expected, "tw_reuse {tw_reuse}");
        pair.settle();
        assert_eq!(pair.a.states().contains(&"ESTAB"), ours);
        assert_eq!(pair.a.counter("tcp.time-wait-reused"), u64::from(ours));
    }
}

#[test]
fn a_reset_with_the_right_number_ends_it() {
    let mut pair = Pair::new();
    let server = listener(&mut pair.b, 2, 80, 5);
    let fin = last_fin(&mut pair, server);
    pair.a.sent();
    let mut reset = fin.clone();
    // RST and ACK without FIN, one number further.
    reset[14 + 20 + 13] = 0x14;
    let seq = segment_of(&fin).seq.get().wrapping_add(1);
    reset[14 + 20 + 4..14 + 20 + 8].copy_from_slice(&seq.to_be_bytes());
    fix_transport(&mut reset);
    pair.a.take(&reset);
    assert!(pair.a.states().is_empty());
    assert!(pair.a.sent().is_empty());
}

/// Parties that have gone leave records at all ports. Another one need not wait for them.
#[test]
fn records_of_the_departed_give_way_when_no_port_is_left() {
    for timestamps in [true, false] {
        let tcp = TcpConfig { timestamps, ..TcpConfig::default() };
        let config = Config { ephemeral_ports: 40_000..=40_063, tcp, ..Config::default() };
        let mut pair = Pair::with(config, Config::default());
        let server = listener(&mut pair.b, 2, 80, 5);
        let connect = |pair: &mut Pair, owner| {
            let host = &mut pair.a;
            let client = host.stack.open_for(owner, Family::V4, SocketKind::Stream, 1).unwrap();
            let begun = host.stack.connect(host.now, client, at(IP_B, 80));
            if begun.is_ok() {
                pair.settle();
                let (child, _) = pair.b.stack.accept(server, 3).unwrap().expect("a connection");
                pair.a.stack.close(pair.a.now, client).unwrap();
                pair.settle();
                pair.b.stack.close(pair.b.now, child).unwrap();
            } else {
                host.stack.close(host.now, client).unwrap();
            }
            pair.settle();
            pair.a.events();
            begun
        };
        let hog = pair.a.stack.add_owner();
        let made = (0..100).take_while(|_| connect(&mut pair, hog).is_ok()).count();
        assert_eq!(made, 64);
        let newcomer = pair.a.stack.add_owner();
        pair.pass(Duration::from_millis(1100));
        // The hog is there, and its records are, too.
        assert_eq!(connect(&mut pair, newcomer), Err(Error::AddrNotAvailable));
        pair.a.stack.remove_owner(hog);
        assert_eq!((0..64).filter(|_| connect(&mut pair, newcomer).is_ok()).count(), 64);
        // Its own do not give way.
        assert_eq!(connect(&mut pair, newcomer), Err(Error::AddrNotAvailable));
        assert_eq!(pair.a.counter("tcp.time-wait-reused"), 64);
    }
}
