//! Tests of packaged calls.

use super::*;

fn pair() -> (World, Program, Program) {
    let mut world = World::new();
    let a = world.a.admit(5, PARAMS);
    let b = world.b.admit(7, PARAMS);
    (world, a, b)
}

#[test]
fn null_is_answered_in_one_iteration() {
    let (mut world, mut a, _b) = pair();
    let tag = a.call(Op::Null, &[], 0);
    world.a.iterate(world.now);
    assert_eq!(a.result(tag), Some(Ok([0; 6])));
}

#[test]
fn quiet_results_are_there_and_ring_nobody() {
    let (mut world, mut a, _b) = pair();
    let sock = world.socket(&mut a, SocketKind::Stream);
    let to = with(&sock, SocketAddr::from((world.b.address, 80)));
    let before = world.a.counter("server.bells-rung");
    let asleep = shm::Sleeper::new(a.layout.thread_bell(&a.region, 0).unwrap());
    asleep.announce(shm::Sleep::Fd);
    let quiet = RawCall::QUIET;
    let made = a.call(Op::Socket, &[1, 4], quiet);
    let begun = a.call(Op::Connect, &to, RawCall::NONBLOCK | quiet);
    // As a thread that waits for the outcome.
    sock.words.waiters.bits.store(1, Ordering::SeqCst);
    world.a.iterate(world.now);
    assert!(matches!(a.result(made), Some(Ok(_))));
    assert_eq!(a.result(begun), Some(Err(Errno::INPROGRESS)));
    assert!(sock.has(SocketFlags::CONNECTING));
    assert_eq!(world.a.counter("server.bells-rung"), before);
    // Another error is worth a bell. Here nobody listens at the peer's port.
    world.run(|_| !sock.has(SocketFlags::CONNECTING));
    assert_eq!(sock.error(), Errno::CONNREFUSED.raw_os_error());
    assert_eq!(world.a.counter("server.bells-rung"), before + 1);
    asleep.awake();
    asleep.announce(shm::Sleep::Fd);
    let refused = a.call(Op::Close, &[made.into()], quiet);
    world.a.iterate(world.now);
    assert_eq!(a.result(refused), Some(Err(Errno::BADF)));
    assert_eq!(world.a.counter("server.bells-rung"), before + 2);
}

#[test]
fn what_a_program_called_before_it_ended_is_done() {
    let (mut world, mut a, mut b) = pair();
    let listener = world.listener(&mut b, 80);
    let sock = world.socket(&mut a, SocketKind::Stream);
    let to = SocketAddr::from((world.b.address, 80));
    world.call(&mut a, Op::Connect, &with(&sock, to), 0).unwrap();
    world.run(|_| listener.words.accept_ready.load(Ordering::SeqCst) > 0);
    let child = world.call(&mut b, Op::Accept, &[listener.word()], 0).unwrap();
    let child = b.attach(child[0]);
    a.call(Op::Close, &[sock.word()], RawCall::QUIET);
    let now = world.now;
    world.a.remove(5, now);
    world.run(|_| child.has(SocketFlags::READ_CLOSED));
    assert_eq!(child.error(), 0, "it was closed, not reset");
}

#[test]
fn higher_priority_goes_first_within_a_scan() {
    let (mut world, mut a, _b) = pair();
    for (tag, priority) in [(1, 0), (2, 3), (3, 9), (4, 3)] {
        let path = ReturnPath { client: 5, ring: 0, tag };
        let call = RawCall { op: Op::Null, priority, flags: 0, path, args: [0; 6] };
        a.requests.push(&call.encode()).unwrap();
    }
    world.a.iterate(world.now);
    let order: Vec<u32> = std::iter::from_fn(|| a.results.pop().unwrap())
        .map(|slot| RawResult::decode(&slot).path.tag)
        .collect();
    assert_eq!(order, [3, 2, 4, 1]);
}

#[test]
fn names_of_closed_sockets_are_refused() {
    let (mut world, mut a, _b) = pair();
    let sock = world.socket(&mut a, SocketKind::Stream);
    assert!(sock.has(SocketFlags::OPEN));
    world.call(&mut a, Op::Close, &[sock.word()], 0).unwrap();
    assert_eq!(sock.flags(), SocketFlags::NONE);
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
    let one_more = world.call(&mut a, Op::Socket, &[1, 4], 0);
    assert_eq!(one_more, Err(Errno::MFILE));
    assert_eq!(world.call(&mut a, Op::Socket, &[3, 4], 0), Err(Errno::PROTONOSUPPORT));
    assert_eq!(world.call(&mut a, Op::Socket, &[1, 5], 0), Err(Errno::AFNOSUPPORT));
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
    let now = world.call(&mut b, Op::Accept, &[listener.word()], RawCall::NONBLOCK);
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
fn a_connection_that_is_over_has_no_peer() {
    let (mut world, mut a, mut b) = pair();
    let listener = world.listener(&mut b, 80);
    let to = SocketAddr::from((world.b.address, 80));
    let mut connected = || {
        let sock = world.socket(&mut a, SocketKind::Stream);
        world.call(&mut a, Op::Connect, &with(&sock, to), 0).unwrap();
        let accepted = world.call(&mut b, Op::Accept, &[listener.word()], 0).unwrap();
        (sock, b.attach(accepted[0]))
    };
    let (reset, its_peer) = connected();
    let (shut, its_end) = connected();
    let peer = |world: &mut World, program: &mut Program, sock: &Sock| {
        world.call(program, Op::GetPeerName, &[sock.word()], 0).map(|_| ())
    };
    assert_eq!(peer(&mut world, &mut a, &reset), Ok(()));
    // SO_LINGER with a time of 0.
    world.set_option(&mut b, its_peer.word(), 1, 13, &[int(1), int(0)].concat()).unwrap();
    world.call(&mut b, Op::Close, &[its_peer.word()], 0).unwrap();
    world.rest();
    assert_eq!(peer(&mut world, &mut a, &reset), Err(Errno::NOTCONN));
    world.call(&mut a, Op::GetSockName, &[reset.word()], 0).unwrap();
    // SHUT_WR of one end, then of the other.
    world.call(&mut a, Op::Shutdown, &[shut.word(), 1], 0).unwrap();
    world.rest();
    assert_eq!(peer(&mut world, &mut a, &shut), Ok(()));
    assert_eq!(peer(&mut world, &mut b, &its_end), Ok(()));
    world.call(&mut b, Op::Shutdown, &[its_end.word(), 1], 0).unwrap();
    world.rest();
    assert_eq!(peer(&mut world, &mut a, &shut), Err(Errno::NOTCONN));
    assert_eq!(peer(&mut world, &mut b, &its_end), Err(Errno::NOTCONN));
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
    world.call(&mut b, Op::Accept, &[listener.word()], RawCall::NONBLOCK).unwrap();
    assert!(ready() > 0, "one is left");
    world.call(&mut b, Op::Accept, &[listener.word()], RawCall::NONBLOCK).unwrap();
    assert_eq!(ready(), 0);
    let none = world.call(&mut b, Op::Accept, &[listener.word()], RawCall::NONBLOCK);
    assert_eq!(none, Err(Errno::AGAIN));
}

#[test]
fn connect_without_waiting_is_told_by_the_words() {
    let (mut world, mut a, mut b) = pair();
    let _listener = world.listener(&mut b, 80);
    let sock = world.socket(&mut a, SocketKind::Stream);
    let to = SocketAddr::from((world.b.address, 80));
    let connect = world.call(&mut a, Op::Connect, &with(&sock, to), RawCall::NONBLOCK);
    assert_eq!(connect, Err(Errno::INPROGRESS));
    let again = world.call(&mut a, Op::Connect, &with(&sock, to), RawCall::NONBLOCK);
    assert!(matches!(again, Err(Errno::ALREADY | Errno::ISCONN)), "{again:?}");
    let version = sock.words.version.load(Ordering::Acquire);
    world.run(|_| sock.has(SocketFlags::CONNECTED));
    assert_ne!(sock.words.version.load(Ordering::Acquire), version);
    assert!(!sock.has(SocketFlags::CONNECTING));
    // Reported once, and only by the end whose ACK the other end's accept waits for.
    assert!(world.a.server.take_connect_succeeded() && !world.a.server.take_connect_succeeded());
    assert!(!world.b.server.take_connect_succeeded());
    let again = world.call(&mut a, Op::Connect, &with(&sock, to), RawCall::NONBLOCK);
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
    let connect = world.call(&mut a, Op::Connect, &with(&sock, to), RawCall::NONBLOCK);
    assert_eq!(connect, Err(Errno::INPROGRESS));
    world.run(|_| sock.has(SocketFlags::HANGUP));
    assert!(sock.has(SocketFlags::READ_CLOSED | SocketFlags::WRITE_CLOSED));
    assert_eq!(sock.error(), Errno::CONNREFUSED.raw_os_error());
    assert_eq!(world.option(&mut a, sock.word(), 1, 4), Ok(int(111)));
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
    let now = world.call(&mut b, Op::Recv, &[child.word()], RawCall::NONBLOCK);
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
    let slot = DataDescriptor {
        area: area.lend(),
        offset: 100,
        len: 3,
        flags: DataFlags::NONE,
        peer: None,
    }
    .encode();
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
    const SOL: i32 = 1;
    const TCP: i32 = 6;
    let (mut world, mut a, _b) = pair();
    let sock = world.socket(&mut a, SocketKind::Stream);
    let udp = world.socket(&mut a, SocketKind::Datagram);
    let mut get = |world: &mut World, sock: &Sock, level: i32, name: i32| {
        world.option(&mut a, sock.word(), level, name)
    };
    assert_eq!(get(&mut world, &sock, SOL, 3), Ok(int(1)), "SO_TYPE");
    assert_eq!(get(&mut world, &udp, SOL, 3), Ok(int(2)), "SO_TYPE");
    assert_eq!(get(&mut world, &sock, SOL, 39), Ok(int(2)), "SO_DOMAIN");
    assert_eq!(get(&mut world, &udp, SOL, 38), Ok(int(17)), "SO_PROTOCOL");
    assert_eq!(get(&mut world, &udp, 136, 10), Err(Errno::OPNOTSUPP), "UDPLITE_SEND_CSCOV");
    assert_eq!(get(&mut world, &sock, SOL, 30), Ok(int(0)), "SO_ACCEPTCONN");
    assert_eq!(get(&mut world, &sock, SOL, 999), Err(Errno::NOPROTOOPT));
    assert_eq!(get(&mut world, &udp, TCP, 1), Err(Errno::OPNOTSUPP));
    let mut set = |world: &mut World, level: i32, name: i32, value: &[u8]| {
        world.set_option(&mut a, sock.word(), level, name, value)
    };
    let settable = [
        (SOL, 2, int(1)),
        (SOL, 6, int(1)),
        (SOL, 9, int(1)),
        (SOL, 13, [int(1), int(5)].concat()),
        (TCP, 1, int(1)),
        (TCP, 2, int(1000)),
        (TCP, 3, int(1)),
        (TCP, 4, int(60)),
        (TCP, 5, int(10)),
        (TCP, 6, int(4)),
        (TCP, 7, int(3)),
        (TCP, 8, int(20)),
        (TCP, 10, int(40_000)),
        (TCP, 18, int(30_000)),
        (TCP, 25, int(131_072)),
        (SOL, 12, int(5)),
        (SOL, 15, int(1)),
        (SOL, 18, int(2)),
        (0, 1, int(16)),
        (0, 2, int(33)),
    ];
    for (level, name, value) in &settable {
        assert_eq!(set(&mut world, *level, *name, value), Ok(()), "{level} {name}");
        let short = set(&mut world, *level, *name, &value[..value.len() - 1]);
        let byte = *level == 0;
        assert_eq!(short, if byte { Ok(()) } else { Err(Errno::INVAL) }, "{level} {name}: short");
        // As Linux: to IPPROTO_IP nothing is 0, which IP_TTL alone refuses.
        let none = if (*level, *name) == (0, 1) { Ok(()) } else { Err(Errno::INVAL) };
        assert_eq!(set(&mut world, *level, *name, &[]), none, "{level} {name}");
        assert_eq!(set(&mut world, *level, *name, value), Ok(()), "{level} {name}: again");
    }
    assert_eq!(set(&mut world, 0, 2, &int(256)), Err(Errno::INVAL), "IP_TTL");
    assert_eq!(set(&mut world, TCP, 7, &int(128)), Err(Errno::INVAL), "TCP_SYNCNT");
    assert_eq!(set(&mut world, 17, 1, &int(1)), Err(Errno::NOPROTOOPT), "UDP's level");
    assert_eq!(set(&mut world, 41, 26, &int(1)), Err(Errno::NOPROTOOPT), "IPv6's level");
    assert_eq!(set(&mut world, TCP, 4, &int(-1)), Err(Errno::INVAL), "negative");
    assert_eq!(set(&mut world, SOL, 3, &int(1)), Err(Errno::NOPROTOOPT), "SO_TYPE is read-only");
    assert_eq!(set(&mut world, SOL, 7, &int(100_000)), Ok(()), "SO_SNDBUF");
    assert_eq!(sock.words.tx_limit.load(Ordering::Acquire), 100_000);
    assert_eq!(set(&mut world, SOL, 8, &int(30_000)), Ok(()), "SO_RCVBUF");
    let doubled = [(SOL, 7, int(200_000)), (SOL, 8, int(60_000))];
    for (level, name, value) in settable.into_iter().chain(doubled) {
        let got = world.option(&mut a, sock.word(), level, name);
        assert_eq!(got, Ok(value), "{level} {name}");
    }
    let info = world.option(&mut a, sock.word(), TCP, 11).unwrap();
    assert_eq!((info[0], info.len()), (7, 40), "TCP_INFO: closed, and the first of several parts");
}

#[test]
fn congestion_control_goes_by_name() {
    const TCP: i32 = 6;
    const TCP_CONGESTION: i32 = 13;
    let (mut world, mut a, _b) = pair();
    let sock = world.socket(&mut a, SocketKind::Stream).word();
    let mut set = |world: &mut World, name: &[u8]| {
        let set = world.set_option(&mut a, sock, TCP, TCP_CONGESTION, name);
        (set, world.option(&mut a, sock, TCP, TCP_CONGESTION).unwrap())
    };
    let (cubic, reno) = (*b"cubic\0\0\0\0\0\0\0\0\0\0\0", *b"reno\0\0\0\0\0\0\0\0\0\0\0\0");
    for (given, said, name) in [
        (&b"cubic"[..], Ok(()), cubic),
        (b"reno", Ok(()), reno),
        (b"cubic\0junk", Ok(()), cubic),
        (&reno, Ok(()), reno),
        (b"cub", Err(Errno::NOENT), reno),
        (b"cubicc", Err(Errno::NOENT), reno),
        (b"Cubic", Err(Errno::NOENT), reno),
        (b"\0", Err(Errno::NOENT), reno),
        (b"\xff\xff\xff", Err(Errno::NOENT), reno),
        (b"a name that is longer than any that is", Err(Errno::NOENT), reno),
        (b"", Err(Errno::INVAL), reno),
    ] {
        assert_eq!(set(&mut world, given), (said, name.to_vec()), "{given:?}");
    }
}

#[test]
fn mapped_addresses_reach_ipv4() {
    let (mut world, mut a, mut b) = pair();
    let six = |world: &mut World, program: &mut Program, kind: SocketKind| {
        let args = [kind.to_word(), Family::V6.to_word()];
        let id = world.call(program, Op::Socket, &args, 0).unwrap()[0];
        program.attach(id)
    };
    let listener = six(&mut world, &mut b, SocketKind::Stream);
    let any: SocketAddr = "[::]:80".parse().unwrap();
    world.bind(&mut b, &listener, any);
    world.call(&mut b, Op::Listen, &[listener.word(), 16], 0).unwrap();
    let name = |world: &mut World, program: &mut Program, op: Op, id: u64| {
        let [a, b, c, ..] = world.call(program, op, &[id], 0).unwrap();
        addr_from_words([a, b, c]).unwrap()
    };
    assert_eq!(name(&mut world, &mut b, Op::GetSockName, listener.word()), any);
    let to = SocketAddr::from((world.b.address.to_ipv6_mapped(), 80));
    let sock = six(&mut world, &mut a, SocketKind::Stream);
    world.call(&mut a, Op::Connect, &with(&sock, to), 0).unwrap();
    assert_eq!(name(&mut world, &mut a, Op::GetPeerName, sock.word()), to);
    let accepted = world.call(&mut b, Op::Accept, &[listener.word()], 0).unwrap();
    let from = addr_from_words([accepted[1], accepted[2], accepted[3]]).unwrap();
    assert_eq!(from, name(&mut world, &mut a, Op::GetSockName, sock.word()));
    assert_eq!(from.ip(), world.a.address.to_ipv6_mapped());
    assert_eq!(world.option(&mut b, accepted[0], 1, 39), Ok(int(10)), "SO_DOMAIN");
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
        world.a.iterate(world.now);
    }
    assert_eq!(world.a.counter("calls.results-backlogged"), 100);
    // Reading makes room, and the rest follows with the next iteration.
    let first = a.result(tags[0]);
    assert_eq!(first, Some(Ok([0; 6])));
    world.a.iterate(world.now);
    for &tag in &tags[1..] {
        assert_eq!(a.result(tag), Some(Ok([0; 6])));
    }
    assert!(world.a.events.is_empty());
}

/// The arguments that cancel the call `tag` of the first thread.
fn named(sock: u64, tag: u32) -> [u64; 2] {
    [sock, tag.into()]
}

#[test]
fn calls_that_wait_are_cancelled() {
    let (mut world, mut a, mut b) = pair();
    let listener = world.listener(&mut b, 80);
    let [first, second] = [0; 2].map(|_| b.call(Op::Accept, &[listener.word()], 0));
    world.rest();
    world.call(&mut b, Op::Cancel, &named(listener.word(), first), 0).unwrap();
    assert_eq!(b.result(first), Some(Err(Errno::CANCELED)));
    let again = world.call(&mut b, Op::Cancel, &named(listener.word(), first), 0);
    assert_eq!(again, Err(Errno::NOENT));
    // The other still waits, and gets the connection.
    let sock = world.socket(&mut a, SocketKind::Stream);
    let to = SocketAddr::from((world.b.address, 80));
    let connect = a.call(Op::Connect, &with(&sock, to), 0);
    let mut accepted = None;
    world.run(|_| {
        accepted = b.result(second);
        accepted.is_some()
    });
    assert!(accepted.unwrap().is_ok());
    world.run(|_| sock.has(SocketFlags::CONNECTED));
    assert_eq!(a.result(connect), Some(Ok([0; 6])));
    let late = world.call(&mut a, Op::Cancel, &named(sock.word(), connect), 0);
    assert_eq!(late, Err(Errno::NOENT), "it had completed");
    // Receiving.
    let recv = a.call(Op::Recv, &[sock.word()], 0);
    world.rest();
    world.call(&mut a, Op::Cancel, &named(sock.word(), recv), 0).unwrap();
    assert_eq!(a.result(recv), Some(Err(Errno::CANCELED)));
}

#[test]
fn a_cancelled_attempt_goes_on_in_the_background() {
    let (mut world, mut a, mut b) = pair();
    let _listener = world.listener(&mut b, 80);
    let sock = world.socket(&mut a, SocketKind::Stream);
    let to = SocketAddr::from((world.b.address, 80));
    let connect = a.call(Op::Connect, &with(&sock, to), 0);
    // Both in one scan: the cancellation comes after its call.
    let cancel = a.call(Op::Cancel, &named(sock.word(), connect), 0);
    world.step();
    assert_eq!(a.result(cancel), Some(Ok([0; 6])));
    assert_eq!(a.result(connect), Some(Err(Errno::CANCELED)));
    world.run(|_| sock.has(SocketFlags::CONNECTED));
}

#[test]
fn cancellations_name_a_call_of_ones_own() {
    let (mut world, mut a, mut b) = pair();
    let listener = world.listener(&mut b, 80);
    let waits = b.call(Op::Accept, &[listener.word()], 0);
    world.rest();
    for (what, errno) in [
        (named(listener.word(), waits + 1), Errno::NOENT),
        ([listener.word(), u64::from(waits) | 1 << 32], Errno::NOENT),
        ([listener.word(), u64::MAX], Errno::NOENT),
        (named(listener.word() + 1, waits), Errno::BADF),
        (named(u64::MAX, waits), Errno::BADF),
    ] {
        assert_eq!(world.call(&mut b, Op::Cancel, &what, 0), Err(errno), "{what:?}");
    }
    let others = world.call(&mut a, Op::Cancel, &named(listener.word(), waits), 0);
    assert_eq!(others, Err(Errno::BADF));
    assert_eq!(b.result(waits), None);
    world.call(&mut b, Op::Close, &[listener.word()], 0).unwrap();
    assert_eq!(b.result(waits), Some(Err(Errno::BADF)));
    let closed = world.call(&mut b, Op::Cancel, &named(listener.word(), waits), 0);
    assert_eq!(closed, Err(Errno::BADF));
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
        world.set_option(&mut b, listener.word(), 1, name, &int(value)).unwrap();
    }
    // TCP_NOTSENT_LOWAT.
    world.set_option(&mut b, listener.word(), 6, 25, &int(3000)).unwrap();
    let sock = world.socket(&mut a, SocketKind::Stream);
    let to = SocketAddr::from((world.b.address, 80));
    world.call(&mut a, Op::Connect, &with(&sock, to), 0).unwrap();
    let child = world.call(&mut b, Op::Accept, &[listener.word()], 0).unwrap()[0];
    for (name, value) in [(7, 100_000), (8, 40_000)] {
        assert_eq!(world.option(&mut b, child, 1, name), Ok(int(value)));
    }
    world.rest();
    assert_eq!(b.attach(child).words.tx_until.load(Ordering::Acquire), 3000);
}
