//! Idle connections sleep, and nobody can tell.

use super::*;
use crate::sockets::socket::SocketBody;

const SECOND: Duration = Duration::from_secs(1);

/// How many connections sleep.
fn asleep(host: &Host) -> usize {
    let sleeps = |body: &SocketBody<Chunk, Known>| match body {
        SocketBody::Connection(stream) => stream.connection.is_dormant(),
        _ => false,
    };
    host.stack.socket_layer().all().filter(|(_, socket)| sleeps(&socket.body)).count()
}

#[test]
fn an_idle_connection_sleeps_and_goes_on_where_it_was() {
    let mut pair = Pair::new();
    let (client, server, _) = pair.connected();
    pair.a.send(client, &[1; 5000]);
    pair.settle();
    assert_eq!(pair.b.received(server).len(), 5000);
    pair.pass(SECOND);
    assert_eq!((asleep(&pair.a), asleep(&pair.b)), (0, 0), "not yet");
    for round in 1..4_u64 {
        let before = pair.a.stack.tcp_info(pair.a.now, client).unwrap();
        pair.pass(10 * SECOND);
        assert_eq!((asleep(&pair.a), asleep(&pair.b)), (1, 1));
        // Listing wakes nobody.
        assert!(pair.a.states().contains(&"ESTAB"));
        assert_eq!(pair.a.stack.acked(client), 5000 + 7 * (round - 1));
        assert_eq!(asleep(&pair.a), 1);
        let after = pair.a.stack.tcp_info(pair.a.now, client).unwrap();
        assert_eq!((after.snd_wnd, after.rcv_wnd), (before.snd_wnd, before.rcv_wnd));
        assert_eq!((after.bytes_sent, after.segs_in), (before.bytes_sent, before.segs_in));
        assert_eq!((after.snd_mss, after.options), (before.snd_mss, before.options));
        assert_eq!(after.delivered, before.delivered);
        pair.a.events();
        pair.b.events();
        pair.a.send(client, &[2; 7]);
        pair.b.send(server, &[3; 9]);
        pair.settle();
        assert_eq!(pair.b.received(server), [2; 7]);
        assert_eq!(pair.a.received(client), [3; 9]);
    }
    pair.pass(10 * SECOND);
    pair.a.stack.shutdown(pair.a.now, client, ShutdownHow::Write).unwrap();
    pair.settle();
    assert!(pair.b.events_of(3).contains(&EventKind::Eof));
    pair.pass(10 * SECOND);
    assert_eq!(asleep(&pair.b), 1, "half-closed");
    pair.b.stack.shutdown(pair.b.now, server, ShutdownHow::Write).unwrap();
    pair.settle();
    assert!(pair.a.events_of(1).contains(&EventKind::Eof));
    assert!(pair.a.states().contains(&"TIME-WAIT"));
}

#[test]
fn a_sleeping_connection_is_probed_and_found_dead() {
    let mut pair = Pair::new();
    let (client, _, _) = pair.connected();
    let now = pair.a.now;
    for option in [
        SockOption::KeepAlive(true),
        SockOption::KeepIdle(60 * SECOND),
        SockOption::KeepInterval(10 * SECOND),
        SockOption::KeepCount(3),
    ] {
        pair.a.stack.set_option(now, client, option).unwrap();
    }
    pair.pass(50 * SECOND);
    assert_eq!(asleep(&pair.a), 1);
    pair.pass(20 * SECOND);
    assert_eq!(pair.a.counter("tcp.keep-alive-probes"), 1);
    pair.pass(5 * SECOND);
    assert_eq!(asleep(&pair.a), 1, "answered, and asleep again");
    let mut a = pair.a;
    a.events();
    for _ in 0..150 {
        a.pass(SECOND);
        a.take(&arp_frame(MAC_B, IP_B, IP_A, true));
        a.wire.frames.clear();
    }
    assert_eq!(a.events_of(1), [EventKind::Failed(Error::TimedOut)]);
}
