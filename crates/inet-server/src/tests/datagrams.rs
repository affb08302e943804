//! Datagrams: with ancillary data, long ones, joined ones.

use abi::ancillary::{AncillarySet, RecvAncillary, SendAncillary};

use super::*;

const TO: u16 = 53;

/// A socket of a program on host a and one of b's that is bound to [`TO`].
fn sockets(world: &mut World) -> (Program, Program, Sock, Sock) {
    let (mut a, mut b) = (world.a.admit(7, PARAMS), world.b.admit(7, PARAMS));
    let from = world.socket(&mut a, SocketKind::Datagram);
    let to = world.socket(&mut b, SocketKind::Datagram);
    world.bind(&mut a, &from, on_any(1000));
    world.bind(&mut b, &to, on_any(TO));
    (a, b, from, to)
}

/// Queues a datagram; its area stays until the end.
fn queue(
    world: &World,
    a: &Program,
    from: &mut Sock,
    len: usize,
    said: &SendAncillary,
    more: bool,
) {
    let pages = u16::try_from(len.div_ceil(shm::PAGE).max(1)).unwrap();
    let area = a.tx_pool.alloc(pages).unwrap();
    area.write(0, &pattern(len)).unwrap();
    let peer = Some(SocketAddr::from((world.b.address, TO)));
    let flags = DataFlags::ANCILLARY | DataFlags::MORE.when(more);
    let len = u32::try_from(len).unwrap();
    let d = DataDescriptor { area: area.lend(), offset: 0, len, flags, peer };
    from.tx.push(&d.encode()).unwrap();
    from.tx.push(&said.encode()).unwrap();
    from.sent += u64::from(len);
    from.lent.push((area, from.sent));
    a.mark_dirty(from);
}

/// The next received datagram, with its ancillary data.
fn take(b: &Program, to: &mut Sock) -> Option<(Vec<u8>, Option<RecvAncillary>)> {
    let d = DataDescriptor::decode(&to.rx.pop().unwrap()?).unwrap();
    let ancillary = d
        .flags
        .has(DataFlags::ANCILLARY)
        .then(|| RecvAncillary::decode(&to.rx.pop().unwrap().unwrap()).unwrap());
    let bytes = b.read(&d);
    to.consumed += 1;
    to.words.rx_consumed.store(to.consumed, Ordering::Release);
    b.mark_dirty(to);
    Some((bytes, ancillary))
}

#[test]
fn what_is_asked_for_is_told() {
    let mut world = World::new();
    let (a, mut b, mut from, mut to) = sockets(&mut world);
    let said = SendAncillary { ttl: Some(7), tos: Some(0x28), ..SendAncillary::default() };
    queue(&world, &a, &mut from, 10, &said, false);
    world.rest();
    assert_eq!(take(&b, &mut to), Some((pattern(10), None)));
    for (level, name) in [(0, 12), (1, 35), (0, 8)] {
        assert_eq!(world.option(&mut b, to.word(), level, name), Ok(int(0).to_vec()));
        world.set_option(&mut b, to.word(), level, name, &int(1)).unwrap();
        assert_eq!(world.option(&mut b, to.word(), level, name), Ok(int(1).to_vec()));
    }
    queue(&world, &a, &mut from, 0, &said, false);
    world.rest();
    let (bytes, ancillary) = take(&b, &mut to).unwrap();
    let ancillary = ancillary.unwrap();
    assert!(bytes.is_empty());
    assert_eq!(
        ancillary.asked,
        AncillarySet::TTL | AncillarySet::TIMESTAMPNS | AncillarySet::PKTINFO
    );
    assert_eq!((ancillary.ttl, ancillary.tos, ancillary.port), (7, 0x28, TO));
    assert_eq!((ancillary.to, ancillary.interface), (world.b.address.into(), 2));
    assert_eq!(ancillary.ours, world.b.address);
    assert!(ancillary.at > 1_500_000_000_000_000_000, "since 1970");
    // One way of telling the time at a time.
    world.set_option(&mut b, to.word(), 1, 29, &int(1)).unwrap();
    assert_eq!(world.option(&mut b, to.word(), 1, 35), Ok(int(0).to_vec()));
    // As Linux: nothing is 0.
    world.set_option(&mut b, to.word(), 0, 12, &[]).unwrap();
    assert_eq!(world.option(&mut b, to.word(), 0, 12), Ok(int(0).to_vec()));
}

#[test]
fn the_longest_datagram_comes_whole() {
    let mut world = World::new();
    let (a, b, mut from, mut to) = sockets(&mut world);
    for _ in 0..5 {
        for len in [65_507, 1, 20_000] {
            queue(&world, &a, &mut from, len, &SendAncillary::default(), false);
            world.run(|_| to.words.rx_bytes.load(Ordering::Acquire) > to.consumed);
            assert!(take(&b, &mut to) == Some((pattern(len), None)), "{len}");
            world.rest();
            from.lent.clear();
        }
    }
    assert_eq!(world.b.free("client 7 rx"), Some(PARAMS.rx_pages));
    assert_eq!(world.b.counter("drop.datagrams"), 0);
}

#[test]
fn equal_ones_are_cut_and_joined() {
    let mut world = World::new();
    let (mut a, mut b, mut from, mut to) = sockets(&mut world);
    world.set_option(&mut b, to.word(), 17, 104, &int(1)).unwrap();
    let said = SendAncillary { segment: 1000, ..SendAncillary::default() };
    queue(&world, &a, &mut from, 4500, &said, false);
    let (mut got, mut units) = (Vec::new(), 0);
    world.run(|_| {
        while let Some((bytes, ancillary)) = take(&b, &mut to) {
            let segment = ancillary.unwrap().segment;
            assert!(segment == 1000 || segment == 0 && bytes.len() <= 1000, "{segment}");
            got.extend(bytes);
            units += 1;
        }
        got.len() == 4500
    });
    assert_eq!(got, pattern(4500));
    assert!(units < 5, "some were joined");
    // By option. A datagram too long for such segments is refused, and the flush fails.
    assert_eq!(world.set_option(&mut a, from.word(), 17, 103, &int(65_536)), Err(Errno::INVAL));
    world.set_option(&mut a, from.word(), 17, 103, &int(9000)).unwrap();
    queue(&world, &a, &mut from, 10_000, &SendAncillary::default(), false);
    assert_eq!(world.call(&mut a, Op::Flush, &[from.word()], 0), Err(Errno::MSGSIZE));
    assert_eq!(world.call(&mut a, Op::Flush, &[from.word()], 0), Ok([0; 6]));
}

#[test]
fn parts_make_one() {
    let mut world = World::new();
    let (mut a, b, mut from, mut to) = sockets(&mut world);
    let plain = SendAncillary::default();
    for more in [true, true, false] {
        queue(&world, &a, &mut from, 700, &plain, more);
        world.rest();
    }
    let parts = [pattern(700), pattern(700), pattern(700)].concat();
    assert!(take(&b, &mut to) == Some((parts, None)));
    assert_eq!(from.words.tx_released.load(Ordering::Acquire), 2100);
    // UDP_CORK.
    world.set_option(&mut a, from.word(), 17, 1, &int(1)).unwrap();
    queue(&world, &a, &mut from, 10, &plain, false);
    queue(&world, &a, &mut from, 20, &plain, false);
    world.rest();
    assert_eq!(take(&b, &mut to), None);
    world.set_option(&mut a, from.word(), 17, 1, &int(0)).unwrap();
    world.rest();
    assert_eq!(take(&b, &mut to).map(|(bytes, _)| bytes.len()), Some(30));
}

#[test]
fn a_socket_keeps_to_its_interface() {
    let mut world = World::new();
    let (mut a, b, mut from, mut to) = sockets(&mut world);
    let bind = |world: &mut World, a: &mut Program, sock: u64, name: &[u8]| {
        world.set_option(a, sock, 1, 25, name)
    };
    let name = |world: &mut World, a: &mut Program, sock: u64| world.option(a, sock, 1, 25);
    assert_eq!(name(&mut world, &mut a, from.word()), Ok(vec![]));
    assert_eq!(bind(&mut world, &mut a, from.word(), b"eth9"), Err(Errno::NODEV));
    bind(&mut world, &mut a, from.word(), b"lo\0").unwrap();
    assert_eq!(name(&mut world, &mut a, from.word()), Ok(b"lo\0".to_vec()));
    let plain = SendAncillary::default();
    queue(&world, &a, &mut from, 3, &plain, false);
    world.rest();
    assert_eq!(take(&b, &mut to), None, "it did not leave by the link");
    // By index, and for none.
    assert_eq!(world.set_option(&mut a, from.word(), 1, 62, &int(9)), Err(Errno::NODEV));
    world.set_option(&mut a, from.word(), 1, 62, &int(1)).unwrap();
    assert_eq!(world.option(&mut a, from.word(), 1, 62), Ok(int(1)));
    bind(&mut world, &mut a, from.word(), b"").unwrap();
    assert_eq!(world.option(&mut a, from.word(), 1, 62), Ok(int(0)));
    queue(&world, &a, &mut from, 4, &plain, false);
    world.rest();
    assert_eq!(take(&b, &mut to).map(|(bytes, _)| bytes.len()), Some(4));
}

#[test]
fn what_cannot_be_sent_is_told_to_who_asks() {
    let mut world = World::new();
    let (mut a, _b, mut from, _to) = sockets(&mut world);
    let plain = SendAncillary::default();
    let foreign = SendAncillary { source: Some([10, 0, 0, 99].into()), ..plain };
    for (said, errno) in [
        (foreign, Errno::NETUNREACH),
        (SendAncillary { interface: 9, ..plain }, Errno::NODEV),
        (SendAncillary { ttl: Some(0), ..plain }, Errno::INVAL),
    ] {
        queue(&world, &a, &mut from, 10, &said, false);
        assert_eq!(world.call(&mut a, Op::Flush, &[from.word()], 0), Err(errno), "{said:?}");
    }
    assert_eq!(from.error(), 0);
    // The error of a sent datagram is for another call.
    let nobody = SocketAddr::from((world.b.address, 99));
    world.call(&mut a, Op::Connect, &with(&from, nobody), 0).unwrap();
    a.send(&mut from, b"anybody?", None);
    world.run(|_| from.error() == Errno::CONNREFUSED.raw_os_error());
    assert_eq!(world.call(&mut a, Op::Flush, &[from.word()], 0), Ok([0; 6]));
    assert_eq!(from.error(), Errno::CONNREFUSED.raw_os_error());
    world.rest();
    assert_eq!(from.words.tx_released.load(Ordering::Acquire), from.sent);
}

#[test]
fn udp_lite_sockets_have_linux_numbers() {
    const LITE: i32 = 136;
    let mut world = World::new();
    let mut a = world.a.admit(5, PARAMS);
    let sock = world.socket(&mut a, SocketKind::UdpLite);
    let id = sock.word();
    assert_eq!(world.option(&mut a, id, 1, 3), Ok(int(2)), "SO_TYPE");
    assert_eq!(world.option(&mut a, id, 1, 38), Ok(int(LITE)), "SO_PROTOCOL");
    for name in [10, 11] {
        assert_eq!(world.option(&mut a, id, LITE, name), Ok(int(0)));
        // As Linux: an invalid value becomes the nearest valid one.
        for (given, kept) in [(20, 20), (0, 0), (3, 8), (-1, 65_535), (1 << 20, 65_535)] {
            world.set_option(&mut a, id, LITE, name, &int(given)).unwrap();
            assert_eq!(world.option(&mut a, id, LITE, name), Ok(int(kept)), "{name}: {given}");
        }
    }
    world.bind(&mut a, &sock, on_any(7));
    let other = world.socket(&mut a, SocketKind::Datagram);
    world.bind(&mut a, &other, on_any(7));
}

#[test]
fn shutdown_without_a_peer_ends_what_waits() {
    let mut world = World::new();
    let (a, mut b, mut from, mut to) = sockets(&mut world);
    let waits = b.call(Op::Recv, &[to.word()], 0);
    world.rest();
    assert_eq!(world.call(&mut b, Op::Shutdown, &[to.word(), 0], 0), Err(Errno::NOTCONN));
    assert_eq!(b.result(waits), Some(Ok([0; 6])));
    assert!(to.has(SocketFlags::READ_CLOSED) && !to.has(SocketFlags::WRITE_CLOSED));
    // As on Linux it still receives.
    queue(&world, &a, &mut from, 10, &SendAncillary::default(), false);
    world.rest();
    assert_eq!(take(&b, &mut to), Some((pattern(10), None)));
    assert_eq!(world.call(&mut b, Op::Shutdown, &[to.word(), 2], 0), Err(Errno::NOTCONN));
    assert!(to.has(SocketFlags::HANGUP));
}
