//! Tests of shared sockets.

use abi::shared::permit;
use rustix::net::{AddressFamily, SendFlags, SocketFlags as Flags, SocketType, send, socketpair};

use super::*;

/// Host `b` has two programs, of which the first has a connection from host `a`'s.
fn three() -> (World, Program, Program, Program) {
    let mut world = World::new();
    let a = world.a.admit(5, PARAMS);
    let (first, second) = (world.b.admit(7, PARAMS), world.b.admit(8, PARAMS));
    (world, a, first, second)
}

/// Makes a socket of host `b` shared. Returns the descriptor of its holders.
fn share(world: &mut World, client: u16, sock: &Sock, cookie: u64) -> OwnedFd {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let (ours, holders) = socketpair(family, kind, Flags::CLOEXEC, None).unwrap();
    let request = ServerRequest::ShareSockets { client, sockets: vec![(sock.id, cookie)] };
    assert_eq!(world.b.server.request(world.now, request, vec![ours]), ServerReply::Done);
    holders
}

fn adopt(
    world: &mut World,
    program: &mut Program,
    holders: &OwnedFd,
    cookie: u64,
) -> Result<Sock, Errno> {
    send(holders, &permit(program.number), SendFlags::empty()).unwrap();
    let adopted = world.call(program, Op::Adopt, &[cookie], 0)?;
    Ok(program.attach(adopted[0]))
}

/// Sends from host `a` and receives at host `b` until all has come.
fn transfer(
    world: &mut World,
    (from, source): (&mut Program, &mut Sock),
    (to, sink): (&mut Program, &mut Sock),
    bytes: &[u8],
) -> Vec<u8> {
    let (mut sent, mut got) = (0, Vec::new());
    world.run(|_| {
        sent += from.send(source, &bytes[sent..], None);
        got.extend(to.recv(sink));
        got.len() >= bytes.len()
    });
    got
}

#[test]
fn a_connection_moves_with_its_unread_bytes_and_back() {
    let (mut world, mut a, mut first, mut second) = three();
    let (mut sock, mut child) = world.connect(&mut a, &mut first, 80);
    let bytes = pattern(30_000);
    a.send(&mut sock, &bytes[..20_000], None);
    // The first home sends, and its bytes are not acknowledged when the socket moves.
    first.send(&mut child, &bytes[..5000], None);
    world.run(|_| child.words.rx_bytes.load(Ordering::Acquire) == 20_000);
    let holders = share(&mut world, 7, &child, 77);
    assert!(child.has(SocketFlags::SHARED) && child.has(SocketFlags::CONNECTED));
    let mut moved = adopt(&mut world, &mut second, &holders, 77).unwrap();
    assert!(child.has(SocketFlags::MOVED), "{:?}", child.flags());
    // The first program learns how much of its work counts. What it does now is too late.
    let counts = [&child.words.moved_sent, &child.words.moved_received];
    assert_eq!(counts.map(|word| word.load(Ordering::Relaxed)), [5000, 0]);
    first.send(&mut child, b"too late", None);
    a.send(&mut sock, &bytes[20_000..], None);
    second.send(&mut moved, &bytes[5000..], None);
    let (mut got, mut answer) = (Vec::new(), Vec::new());
    world.run(|_| {
        got.extend(second.recv(&mut moved));
        answer.extend(a.recv(&mut sock));
        got.len() + answer.len() >= 2 * bytes.len()
    });
    assert!(got == bytes && answer == bytes);
    // Both homes get their sent bytes back.
    let released = |sock: &Sock| sock.words.tx_released.load(Ordering::Acquire);
    world.run(|_| released(&child) == 5000 && released(&moved) == 25_000);
    assert_eq!(world.call(&mut first, Op::Flush, &[child.word()], 0), Err(Errno::STALE));

    let mut back = adopt(&mut world, &mut first, &holders, 77).unwrap();
    assert!(moved.has(SocketFlags::MOVED) && back.has(SocketFlags::CONNECTED));
    let got = transfer(&mut world, (&mut a, &mut sock), (&mut first, &mut back), &bytes);
    assert!(got == bytes);
    // The places of moved sockets are in use until the program closes them.
    world.call(&mut first, Op::Close, &[child.word()], 0).unwrap();
    assert_eq!(world.call(&mut first, Op::Close, &[child.word()], 0), Err(Errno::BADF));
    world.call(&mut second, Op::Close, &[moved.word()], 0).unwrap();
    world.rest();
    assert!(!child.has(SocketFlags::OPEN) && !moved.has(SocketFlags::OPEN));
    assert!(!sock.has(SocketFlags::READ_CLOSED), "the first program still has it");
}

#[test]
fn the_last_holder_closes() {
    let (mut world, mut a, mut first, mut second) = three();
    let (mut sock, child) = world.connect(&mut a, &mut first, 80);
    let holders = share(&mut world, 7, &child, 1);
    world.call(&mut first, Op::Close, &[child.word()], 0).unwrap();
    a.send(&mut sock, b"while it is parked", None);
    world.rest();
    assert!(!sock.has(SocketFlags::READ_CLOSED), "another process may still take it up");
    let mut taken = adopt(&mut world, &mut second, &holders, 1).unwrap();
    assert_eq!(second.recv(&mut taken), b"while it is parked");
    // A program that is killed lets go of it, too.
    let now = world.now;
    world.b.remove(8, now);
    world.rest();
    assert!(!sock.has(SocketFlags::READ_CLOSED));
    drop(holders);
    world.b.server.end_unheld(now);
    world.run(|_| sock.has(SocketFlags::READ_CLOSED));
    assert_eq!(sock.error(), 0, "an end, and no reset");
    let ended = ServerEvent::SharedSocketEnded { cookie: 1 };
    world.run(|world| world.b.events.contains(&ended));
    assert_eq!(world.call(&mut first, Op::Adopt, &[1], 0), Err(Errno::NOENT));
}

#[test]
fn only_a_holder_takes_it_up() {
    let (mut world, mut a, mut first, mut second) = three();
    let (_sock, child) = world.connect(&mut a, &mut first, 80);
    let holders = share(&mut world, 7, &child, 3);
    assert_eq!(world.call(&mut second, Op::Adopt, &[4], 0), Err(Errno::NOENT));
    assert_eq!(world.call(&mut second, Op::Adopt, &[3], 0), Err(Errno::PERM));
    for nonsense in [&b"x"[..], &[0; 64], &permit(9)] {
        send(&holders, nonsense, SendFlags::empty()).unwrap();
    }
    assert_eq!(world.call(&mut second, Op::Adopt, &[3], 0), Err(Errno::PERM));
    let taken = adopt(&mut world, &mut second, &holders, 3).unwrap();
    assert!(taken.has(SocketFlags::CONNECTED));
    // A permit is good for one time.
    assert_eq!(world.call(&mut second, Op::Adopt, &[3], 0), Err(Errno::PERM));
    // A holder that writes more permits than are kept harms only the holders.
    while send(&holders, &permit(9), SendFlags::DONTWAIT).is_ok() {}
    for _ in 0..1000 {
        if world.call(&mut second, Op::Adopt, &[3], 0) == Err(Errno::PERM)
            && send(&holders, &permit(8), SendFlags::DONTWAIT).is_ok()
        {
            break;
        }
    }
}

/// A child of `vfork` has a pair of its own. The socket is held until both have hung up.
#[test]
fn a_socket_may_have_several_pairs() {
    let (mut world, mut a, mut first, mut second) = three();
    let (sock, child) = world.connect(&mut a, &mut first, 80);
    let holders = share(&mut world, 7, &child, 1);
    let others = share(&mut world, 7, &child, 2);
    world.call(&mut first, Op::Close, &[child.word()], 0).unwrap();
    drop(holders);
    let now = world.now;
    world.b.server.end_unheld(now);
    let ended = ServerEvent::SharedSocketEnded { cookie: 1 };
    world.run(|world| world.b.events.contains(&ended));
    assert_eq!(world.call(&mut second, Op::Adopt, &[1], 0), Err(Errno::NOENT));
    let taken = adopt(&mut world, &mut second, &others, 2).unwrap();
    assert!(taken.has(SocketFlags::CONNECTED) && !sock.has(SocketFlags::READ_CLOSED));
    drop(others);
    // Without a pair the socket is the home's alone, and can be shared anew.
    world.b.server.end_unheld(now);
    let anew = share(&mut world, 8, &taken, 3);
    let back = adopt(&mut world, &mut first, &anew, 3).unwrap();
    assert!(back.has(SocketFlags::CONNECTED));
    // More than a socket may have.
    let many: Vec<OwnedFd> = (10..40).map(|cookie| share(&mut world, 7, &back, cookie)).collect();
    world.rest();
    let refused =
        |event: &&ServerEvent| matches!(event, ServerEvent::SharedSocketEnded { cookie: 10.. });
    assert_eq!(world.b.events.iter().filter(refused).count(), many.len() - 15);
}

/// A parent of `vfork` has no end of its child's pair. It holds the socket all the same.
#[test]
fn a_former_home_holds_it_until_it_closes() {
    let (mut world, mut a, mut first, mut second) = three();
    let (sock, child) = world.connect(&mut a, &mut first, 80);
    let now = world.now;
    let mut former = child;
    for cookie in [1, 3] {
        let holders = share(&mut world, 7, &former, cookie);
        let taken = adopt(&mut world, &mut second, &holders, cookie).unwrap();
        drop(holders);
        world.b.server.end_unheld(now);
        world.call(&mut second, Op::Close, &[taken.word()], 0).unwrap();
        world.rest();
        assert!(!sock.has(SocketFlags::READ_CLOSED) && former.has(SocketFlags::MOVED));
        let own = share(&mut world, 7, &former, cookie + 1);
        let back = adopt(&mut world, &mut first, &own, cookie + 1).unwrap();
        assert!(back.has(SocketFlags::CONNECTED));
        world.call(&mut first, Op::Close, &[former.word()], 0).unwrap();
        former = back;
    }
    let holders = share(&mut world, 7, &former, 5);
    let taken = adopt(&mut world, &mut second, &holders, 5).unwrap();
    drop(holders);
    world.call(&mut second, Op::Close, &[taken.word()], 0).unwrap();
    assert!(!sock.has(SocketFlags::READ_CLOSED));
    // A client that ends closes it as well.
    world.b.remove(7, now);
    world.call(&mut second, Op::Null, &[], 0).unwrap();
    world.run(|_| sock.has(SocketFlags::READ_CLOSED));
    assert_eq!(sock.error(), 0, "an end, and no reset");
}

#[test]
fn without_a_place_it_stays_where_it_is() {
    let (mut world, mut a, mut first, mut second) = three();
    let (mut sock, child) = world.connect(&mut a, &mut first, 80);
    let holders = share(&mut world, 7, &child, 2);
    let full: Vec<Sock> =
        (0..PARAMS.sockets).map(|_| world.socket(&mut second, SocketKind::Stream)).collect();
    let refused = adopt(&mut world, &mut second, &holders, 2).map(drop);
    assert_eq!(refused, Err(Errno::MFILE));
    let bytes = pattern(9000);
    a.send(&mut sock, &bytes, None);
    world.call(&mut second, Op::Close, &[full[0].word()], 0).unwrap();
    let mut taken = adopt(&mut world, &mut second, &holders, 2).unwrap();
    let mut got = Vec::new();
    world.run(|_| {
        got.extend(second.recv(&mut taken));
        got.len() == bytes.len()
    });
    assert!(got == bytes);
}

#[test]
fn a_listener_has_several_homes() {
    let (mut world, mut a, mut first, mut second) = three();
    let listener = world.listener(&mut first, 80);
    let holders = share(&mut world, 7, &listener, 6);
    let joint = adopt(&mut world, &mut second, &holders, 6).unwrap();
    assert!(joint.has(SocketFlags::LISTENING) && listener.has(SocketFlags::LISTENING));
    let to = SocketAddr::from((world.b.address, 80));
    for program in [&mut first, &mut second] {
        let sock = world.socket(&mut a, SocketKind::Stream);
        world.call(&mut a, Op::Connect, &with(&sock, to), 0).unwrap();
        let ready = |sock: &Sock| sock.words.accept_ready.load(Ordering::SeqCst) > 0;
        world.run(|_| ready(&listener) && ready(&joint));
        let name = if program.number == 7 { listener.word() } else { joint.word() };
        let child = world.call(program, Op::Accept, &[name], 0).unwrap();
        let child = program.attach(child[0]);
        assert!(child.has(SocketFlags::CONNECTED));
        world.call(program, Op::Close, &[child.word()], 0).unwrap();
    }
    // One home less, then none, then no holder.
    world.call(&mut first, Op::Close, &[listener.word()], 0).unwrap();
    let sock = world.socket(&mut a, SocketKind::Stream);
    world.call(&mut a, Op::Connect, &with(&sock, to), 0).unwrap();
    world.call(&mut second, Op::Accept, &[joint.word()], 0).unwrap();
    world.call(&mut second, Op::Close, &[joint.word()], 0).unwrap();
    assert!(world.b.states().contains(&"LISTEN".to_owned()));
    let again = adopt(&mut world, &mut first, &holders, 6).unwrap();
    drop(holders);
    world.call(&mut first, Op::Close, &[again.word()], 0).unwrap();
    assert!(!world.b.states().contains(&"LISTEN".to_owned()));
}

#[test]
fn datagrams_that_wait_move_too() {
    let (mut world, mut a, mut first, mut second) = three();
    let bound = world.socket(&mut first, SocketKind::Datagram);
    world.bind(&mut first, &bound, on_any(53));
    let mut sock = world.socket(&mut a, SocketKind::Datagram);
    let to = SocketAddr::from((world.b.address, 53));
    for text in [&b"one"[..], b"two"] {
        a.send(&mut sock, text, Some(to));
    }
    world.run(|_| bound.words.rx_bytes.load(Ordering::Acquire) == 2);
    let holders = share(&mut world, 7, &bound, 5);
    let mut taken = adopt(&mut world, &mut second, &holders, 5).unwrap();
    world.run(|_| taken.words.rx_bytes.load(Ordering::Acquire) == 2);
    let mut next = || {
        let slot = taken.rx.pop().unwrap().unwrap();
        let descriptor = DataDescriptor::decode(&slot).unwrap();
        (second.read(&descriptor), descriptor.peer.map(|peer| peer.ip()))
    };
    let from = Some(world.a.address.into());
    assert_eq!((next(), next()), ((b"one".to_vec(), from), (b"two".to_vec(), from)));
}

/// A program that says that it has read what it never got harms the holders of this socket only.
#[test]
fn a_lying_home_loses_the_socket_all_the_same() {
    let (mut world, mut a, mut first, mut second) = three();
    let (mut sock, child) = world.connect(&mut a, &mut first, 80);
    a.send(&mut sock, &pattern(1000), None);
    world.run(|_| child.words.rx_bytes.load(Ordering::Acquire) == 1000);
    let holders = share(&mut world, 7, &child, 9);
    child.words.rx_consumed.store(5_000_000, Ordering::Release);
    let mut taken = adopt(&mut world, &mut second, &holders, 9).unwrap();
    assert!(second.recv(&mut taken) == pattern(1000));
    world.call(&mut second, Op::Null, &[], 0).unwrap();
}
