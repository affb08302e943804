//! The calls, one by one.

use super::*;

fn pair() -> (World, Program, Program) {
    let mut world = World::new();
    let a = world.a.admit(5, PARAMS);
    let b = world.b.admit(7, PARAMS);
    (world, a, b)
}

#[test]
fn null_is_answered_in_one_turn() {
    let (mut world, mut a, _b) = pair();
    let tag = a.call(Op::Null, &[], 0);
    world.a.turn(world.now);
    assert_eq!(a.result(tag), Some(Ok([0; 6])));
}

#[test]
fn higher_priority_goes_first_within_a_scan() {
    let (mut world, mut a, _b) = pair();
    for (tag, priority) in [(1, 0), (2, 3), (3, 9), (4, 3)] {
        let path = ReturnPath { client: 5, ring: 0, tag };
        let call = Call { op: Op::Null, priority, flags: 0, path, args: [0; 6] };
        a.requests.push(&call.encode()).unwrap();
    }
    world.a.turn(world.now);
    let order: Vec<u32> = std::iter::from_fn(|| a.results.pop().unwrap())
        .map(|slot| CallResult::decode(&slot).unwrap().path.tag)
        .collect();
    assert_eq!(order, [3, 2, 4, 1]);
}

#[test]
fn names_of_closed_sockets_are_refused() {
    let (mut world, mut a, _b) = pair();
    let sock = world.socket(&mut a, SocketKind::Stream);
    assert!(sock.has(SocketFlags::OPEN));
    world.call(&mut a, Op::Close, &[sock.word()], 0).unwrap();
    assert_eq!(sock.flags(), SocketFlags(0));
    let again = world.call(&mut a, Op::Close, &[sock.word()], 0);
    assert_eq!(again, Err(Errno::BADF));
    let next = world.socket(&mut a, SocketKind::Stream);
    assert_eq!(next.id.index, sock.id.index, "the last freed place is used first");
    assert_ne!(next.id.generation, sock.id.generation);
    assert_eq!(world.call(&mut a, Op::GetSockName, &[sock.word()], 0), Err(Errno::BADF));
}

#[test]
fn sockets_end_with_the_places() {
    let (mut world, mut a, _b) = pair();
    for _ in 0..PARAMS.sockets {
        world.socket(&mut a, SocketKind::Datagram);
    }
    let one_more = world.call(&mut a, Op::Socket, &[1], 0);
    assert_eq!(one_more, Err(Errno::MFILE));
    assert_eq!(world.call(&mut a, Op::Socket, &[3], 0), Err(Errno::PROTONOSUPPORT));
}

#[test]
fn addresses_are_bound_and_told() {
    let (mut world, mut a, _b) = pair();
    let sock = world.socket(&mut a, SocketKind::Stream);
    world.bind(&mut a, &sock, on_any(8080));
    let name = world.call(&mut a, Op::GetSockName, &[sock.word()], 0).unwrap();
    assert_eq!(addr_from_words([name[0], name[1], name[2]]).unwrap(), on_any(8080));
    let other = world.socket(&mut a, SocketKind::Stream);
    let taken = world.call(&mut a, Op::Bind, &with(&other, on_any(8080)), 0);
    assert_eq!(taken, Err(Errno::ADDRINUSE));
    let foreign = SocketAddr::from(([192, 0, 2, 1], 80));
    let foreign = world.call(&mut a, Op::Bind, &with(&other, foreign), 0);
    assert_eq!(foreign, Err(Errno::ADDRNOTAVAIL));
    let v6: SocketAddr = "[::1]:80".parse().unwrap();
    let v6 = world.call(&mut a, Op::Bind, &with(&other, v6), 0);
    assert_eq!(v6, Err(Errno::AFNOSUPPORT));
    let peer = world.call(&mut a, Op::GetPeerName, &[sock.word()], 0);
    assert_eq!(peer, Err(Errno::NOTCONN));
}

#[test]
fn a_blocking_accept_completes_later_and_holds_up_nothing() {
    let (mut world, mut a, mut b) = pair();
    let listener = world.listener(&mut b, 80);
    assert!(listener.has(SocketFlags::LISTENING));
    let now = world.call(&mut b, Op::Accept, &[listener.word()], Call::NONBLOCK);
    assert_eq!(now, Err(Errno::AGAIN));
    let waiting = b.call(Op::Accept, &[listener.word()], 0);
    world.call(&mut b, Op::Null, &[], 0).unwrap();
    assert_eq!(b.result(waiting), None);
    let sock = world.socket(&mut a, SocketKind::Stream);
    let to = SocketAddr::from((world.b.address, 80));
    world.call(&mut a, Op::Connect, &with(&sock, to), 0).unwrap();
    let mut accepted = None;
    world.run(|_| {
        accepted = b.result(waiting);
        accepted.is_some()
    });
    let child = b.attach(accepted.unwrap().unwrap()[0]);
    assert!(child.has(SocketFlags::CONNECTED));
    let name = world.call(&mut b, Op::GetPeerName, &[child.word()], 0).unwrap();
    let own = world.call(&mut a, Op::GetSockName, &[sock.word()], 0).unwrap();
    assert_eq!(name, own);
}

#[test]
fn acceptable_connections_show_in_the_words() {
    let (mut world, mut a, mut b) = pair();
    let listener = world.listener(&mut b, 80);
    let to = SocketAddr::from((world.b.address, 80));
    for _ in 0..2 {
        let sock = world.socket(&mut a, SocketKind::Stream);
        world.call(&mut a, Op::Connect, &with(&sock, to), 0).unwrap();
    }
    let ready = || listener.words.accept_ready.load(Ordering::Acquire);
    world.rest();
    assert!(ready() > 0);
    world.call(&mut b, Op::Accept, &[listener.word()], Call::NONBLOCK).unwrap();
    assert!(ready() > 0, "one is left");
    world.call(&mut b, Op::Accept, &[listener.word()], Call::NONBLOCK).unwrap();
    assert_eq!(ready(), 0);
    let none = world.call(&mut b, Op::Accept, &[listener.word()], Call::NONBLOCK);
    assert_eq!(none, Err(Errno::AGAIN));
}

#[test]
fn connect_without_waiting_is_told_by_the_words() {
    let (mut world, mut a, mut b) = pair();
    let _listener = world.listener(&mut b, 80);
    let sock = world.socket(&mut a, SocketKind::Stream);
    let to = SocketAddr::from((world.b.address, 80));
    let connect = world.call(&mut a, Op::Connect, &with(&sock, to), Call::NONBLOCK);
    assert_eq!(connect, Err(Errno::INPROGRESS));
    let again = world.call(&mut a, Op::Connect, &with(&sock, to), Call::NONBLOCK);
    assert!(matches!(again, Err(Errno::ALREADY | Errno::ISCONN)), "{again:?}");
    let version = sock.words.version.load(Ordering::Acquire);
    world.run(|_| sock.has(SocketFlags::CONNECTED));
    assert_ne!(sock.words.version.load(Ordering::Acquire), version);
    assert!(!sock.has(SocketFlags::CONNECTING));
    let again = world.call(&mut a, Op::Connect, &with(&sock, to), Call::NONBLOCK);
    assert_eq!(again, Err(Errno::ISCONN));
}

#[test]
fn a_closed_port_refuses() {
    let (mut world, mut a, _b) = pair();
    let to = SocketAddr::from((world.b.address, 81));
    let sock = world.socket(&mut a, SocketKind::Stream);
    let refused = world.call(&mut a, Op::Connect, &with(&sock, to), 0);
    assert_eq!(refused, Err(Errno::CONNREFUSED));
    assert_eq!(sock.error(), 0, "the call has told it");

    let sock = world.socket(&mut a, SocketKind::Stream);
    let connect = world.call(&mut a, Op::Connect, &with(&sock, to), Call::NONBLOCK);
    assert_eq!(connect, Err(Errno::INPROGRESS));
    world.run(|_| sock.has(SocketFlags::HANGUP));
    assert!(sock.has(SocketFlags::READ_CLOSED | SocketFlags::WRITE_CLOSED));
    assert_eq!(sock.error(), Errno::CONNREFUSED.raw_os_error());
    let error = world.call(&mut a, Op::GetSockOpt, &[sock.word(), 1, 4], 0).unwrap();
    assert_eq!(error[0], 111);
    assert_eq!(sock.error(), 0, "SO_ERROR takes it");
}

#[test]
fn a_silent_host_is_unreachable_after_three_seconds() {
    let (mut world, mut a, _b) = pair();
    let sock = world.socket(&mut a, SocketKind::Stream);
    let to = SocketAddr::from(([10, 0, 0, 99], 80));
    let start = world.now;
    let connect = world.call(&mut a, Op::Connect, &with(&sock, to), 0);
    assert_eq!(connect, Err(Errno::HOSTUNREACH));
    let took = world.now.since(start);
    assert!((2..5).contains(&took.as_secs()), "{took:?}");
}

#[test]
fn recv_as_a_call_waits_for_bytes_and_for_the_end() {
    let (mut world, mut a, mut b) = pair();
    let (mut sock, mut child) = world.connect(&mut a, &mut b, 80);
    let now = world.call(&mut b, Op::Recv, &[child.word()], Call::NONBLOCK);
    assert_eq!(now, Err(Errno::AGAIN));
    let waiting = b.call(Op::Recv, &[child.word()], 0);
    a.send(&mut sock, b"hello", None);
    let mut result = None;
    world.run(|_| {
        result = b.result(waiting);
        result.is_some()
    });
    assert_eq!(result.unwrap().unwrap()[0], 5);
    assert_eq!(b.recv(&mut child), b"hello");
    let waiting = b.call(Op::Recv, &[child.word()], 0);
    world.call(&mut a, Op::Shutdown, &[sock.word(), 1], 0).unwrap();
    assert!(sock.has(SocketFlags::WRITE_CLOSED));
    let mut result = None;
    world.run(|_| {
        result = b.result(waiting);
        result.is_some()
    });
    assert_eq!(result.unwrap(), Ok([0; 6]));
    assert!(child.has(SocketFlags::READ_CLOSED));
    assert!(!child.has(SocketFlags::HANGUP));
    world.call(&mut b, Op::Shutdown, &[child.word(), 1], 0).unwrap();
    world.run(|_| child.has(SocketFlags::HANGUP) && sock.has(SocketFlags::HANGUP));
    assert_eq!((child.error(), sock.error()), (0, 0));
}

#[test]
fn send_as_a_call_joins_the_stream() {
    let (mut world, mut a, mut b) = pair();
    let (mut sock, mut child) = world.connect(&mut a, &mut b, 80);
    a.send(&mut sock, b"one ", None);
    let area = a.tx_pool.alloc(4).unwrap();
    area.write(100, b"two").unwrap();
    let slot =
        DataDescriptor { area: area.lend(), offset: 100, len: 3, flags: 0, peer: None }.encode();
    world.call(&mut a, Op::Send, &[sock.word(), slot[0], slot[1], slot[2]], 0).unwrap();
    let mut got = Vec::new();
    world.run(|_| {
        got.extend(b.recv(&mut child));
        got.len() >= 7
    });
    assert_eq!(got, b"one two");
    let datagram = world.socket(&mut a, SocketKind::Datagram);
    let args = [datagram.word(), slot[0], slot[1], slot[2]];
    assert_eq!(world.call(&mut a, Op::Send, &args, 0), Err(Errno::OPNOTSUPP));
}

#[test]
fn calls_that_wait_end_with_their_socket() {
    let (mut world, mut a, mut b) = pair();
    let listener = world.listener(&mut b, 80);
    let accept = b.call(Op::Accept, &[listener.word()], 0);
    world.rest();
    world.call(&mut b, Op::Close, &[listener.word()], 0).unwrap();
    assert_eq!(b.result(accept), Some(Err(Errno::BADF)));
    let sock = world.socket(&mut a, SocketKind::Datagram);
    let recv = a.call(Op::Recv, &[sock.word()], 0);
    world.rest();
    world.call(&mut a, Op::Close, &[sock.word()], 0).unwrap();
    assert_eq!(a.result(recv), Some(Err(Errno::BADF)));
}

#[test]
fn options_have_linux_numbers() {
    const SOL: u64 = 1;
    const TCP: u64 = 6;
    let (mut world, mut a, _b) = pair();
    let sock = world.socket(&mut a, SocketKind::Stream);
    let udp = world.socket(&mut a, SocketKind::Datagram);
    let mut get = |world: &mut World, sock: &Sock, level: u64, name: u64| {
        world.call(&mut a, Op::GetSockOpt, &[sock.word(), level, name], 0).map(|v| v[0])
    };
    assert_eq!(get(&mut world, &sock, SOL, 3), Ok(1), "SO_TYPE");
    assert_eq!(get(&mut world, &udp, SOL, 3), Ok(2), "SO_TYPE");
    assert_eq!(get(&mut world, &sock, SOL, 39), Ok(2), "SO_DOMAIN");
    assert_eq!(get(&mut world, &udp, SOL, 38), Ok(17), "SO_PROTOCOL");
    assert_eq!(get(&mut world, &sock, SOL, 30), Ok(0), "SO_ACCEPTCONN");
    assert_eq!(get(&mut world, &sock, SOL, 999), Err(Errno::NOPROTOOPT));
    assert_eq!(get(&mut world, &udp, TCP, 1), Err(Errno::OPNOTSUPP));
    let mut set = |world: &mut World, level: u64, name: u64, value: u64| {
        world.call(&mut a, Op::SetSockOpt, &[sock.word(), level, name, value], 0).map(drop)
    };
    let settable = [
        (SOL, 2, 1),
        (SOL, 6, 1),
        (SOL, 9, 1),
        (SOL, 13, 1 | 5 << 32),
        (TCP, 1, 1),
        (TCP, 2, 1000),
        (TCP, 3, 1),
        (TCP, 4, 60),
        (TCP, 5, 10),
        (TCP, 6, 4),
        (TCP, 18, 30_000),
        (0, 1, 16),
        (0, 2, 33),
    ];
    for (level, name, value) in settable {
        assert_eq!(set(&mut world, level, name, value), Ok(()), "{level} {name}");
    }
    assert_eq!(set(&mut world, 0, 2, 256), Err(Errno::INVAL), "IP_TTL");
    assert_eq!(set(&mut world, TCP, 4, u64::from(u32::MAX)), Err(Errno::INVAL), "negative");
    assert_eq!(set(&mut world, SOL, 3, 1), Err(Errno::NOPROTOOPT), "SO_TYPE is read-only");
    assert_eq!(set(&mut world, SOL, 7, 100_000), Ok(()), "SO_SNDBUF");
    assert_eq!(sock.words.tx_limit.load(Ordering::Acquire), 100_000);
    assert_eq!(set(&mut world, SOL, 8, 30_000), Ok(()), "SO_RCVBUF");
    for (level, name, value) in settable.into_iter().chain([(SOL, 7, 200_000), (SOL, 8, 60_000)]) {
        let got = world.call(&mut a, Op::GetSockOpt, &[sock.word(), level, name], 0).unwrap();
        assert_eq!(got[0], value, "{level} {name}");
    }
}

#[test]
fn a_driver_s_calls_are_not_a_program_s() {
    let (mut world, mut a, _b) = pair();
    assert_eq!(world.call(&mut a, Op::IfAttach, &[1, 1500], 0), Err(Errno::PERM));
    assert_eq!(world.call(&mut a, Op::EthInput, &[0, 0], 0), Err(Errno::PERM));
}

#[test]
fn results_wait_for_room_in_their_ring() {
    let (mut world, mut a, _b) = pair();
    let calls = RESULTS + 100;
    let mut tags = Vec::new();
    while tags.len() < calls as usize {
        while a.requests.free().unwrap() > 0 && tags.len() < calls as usize {
            tags.push(a.call(Op::Null, &[], 0));
        }
        world.a.turn(world.now);
    }
    assert_eq!(world.a.counter("calls.results-backlogged"), 100);
    // Reading makes room, and the rest follows with the next turn.
    let first = a.result(tags[0]);
    assert_eq!(first, Some(Ok([0; 6])));
    world.a.turn(world.now);
    for &tag in &tags[1..] {
        assert_eq!(a.result(tag), Some(Ok([0; 6])));
    }
    assert!(world.a.events.is_empty());
}

#[test]
fn a_listener_that_is_shut_down_listens_no_more() {
    let (mut world, mut a, mut b) = pair();
    let listener = world.listener(&mut b, 80);
    let accept = b.call(Op::Accept, &[listener.word()], 0);
    world.rest();
    world.call(&mut b, Op::Shutdown, &[listener.word(), 0], 0).unwrap();
    assert_eq!(b.result(accept), Some(Err(Errno::INVAL)));
    assert!(!listener.has(SocketFlags::LISTENING));
    let sock = world.socket(&mut a, SocketKind::Stream);
    let to = SocketAddr::from((world.b.address, 80));
    let refused = world.call(&mut a, Op::Connect, &with(&sock, to), 0);
    assert_eq!(refused, Err(Errno::CONNREFUSED));
    let bad = world.call(&mut b, Op::Shutdown, &[listener.word(), 3], 0);
    assert_eq!(bad, Err(Errno::INVAL));
}

#[test]
fn a_connection_inherits_its_listener_s_buffers() {
    let (mut world, mut a, mut b) = pair();
    let listener = world.listener(&mut b, 80);
    for (name, value) in [(7, 50_000), (8, 20_000)] {
        let args = [listener.word(), 1, name, value];
        world.call(&mut b, Op::SetSockOpt, &args, 0).unwrap();
    }
    let sock = world.socket(&mut a, SocketKind::Stream);
    let to = SocketAddr::from((world.b.address, 80));
    world.call(&mut a, Op::Connect, &with(&sock, to), 0).unwrap();
    let child = world.call(&mut b, Op::Accept, &[listener.word()], 0).unwrap()[0];
    for (name, value) in [(7, 100_000), (8, 40_000)] {
        let got = world.call(&mut b, Op::GetSockOpt, &[child, 1, name], 0).unwrap();
        assert_eq!(got[0], value);
    }
}
