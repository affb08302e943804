//! Tests of data through the queues.

use abi::client::NO_BOUND;
use shm::AreaName;

use super::*;

fn pair() -> (World, Program, Program) {
    let mut world = World::new();
    let a = world.a.admit(5, PARAMS);
    let b = world.b.admit(7, PARAMS);
    (world, a, b)
}

/// Moves `bytes` from one end to the other. The receiver reads whenever `reads` returns true.
fn transfer(
    world: &mut World,
    (from, out): (&mut Program, &mut Sock),
    (to, into): (&mut Program, &mut Sock),
    bytes: &[u8],
    mut reads: impl FnMut(u64) -> bool,
) -> Vec<u8> {
    let (mut sent, mut got, mut step) = (0, Vec::new(), 0);
    world.run_for(Duration::from_secs(120), |_| {
        sent += from.send(out, &bytes[sent..], None);
        step += 1;
        if reads(step) {
            got.extend(to.recv(into));
        }
        got.len() >= bytes.len()
    });
    got
}

#[test]
fn a_mebibyte_arrives_intact_in_both_directions() {
    let (mut world, mut a, mut b) = pair();
    let (mut sock, mut child) = world.connect(&mut a, &mut b, 80);
    let bytes = pattern(1 << 20);
    let up = transfer(&mut world, (&mut a, &mut sock), (&mut b, &mut child), &bytes, |_| true);
    assert!(up == bytes);
    let down = transfer(&mut world, (&mut b, &mut child), (&mut a, &mut sock), &bytes, |_| true);
    assert!(down == bytes);
    assert_eq!(world.a.counter("copy.rx-bytes"), 1 << 20, "one copy per received byte");
    assert_eq!(world.a.counter("payload.tx-bytes"), 1 << 20);
    assert_eq!(world.b.counter("payload.rx-bytes"), 1 << 20);
    // The report has the program's own counters, also after its end.
    a.head.copied_tx.store(77, Ordering::Relaxed);
    assert_eq!(world.a.counter("copy.program-tx-bytes"), 77);
    // Everything that was sent is released, and everything received has been given back.
    world.rest();
    assert_eq!(sock.words.tx_released.load(Ordering::Acquire), 1 << 20);
    assert_eq!(world.b.free("client 7 rx"), Some(PARAMS.rx_pages));
}

#[test]
fn a_cork_among_the_bytes_holds_them_back_until_its_end() {
    let (mut world, mut a, mut b) = pair();
    let (mut sock, mut child) = world.connect(&mut a, &mut b, 80);
    let cork = |a: &Program, sock: &mut Sock, flags| {
        let area = AreaName { page: 0, pages: 0, generation: 0 };
        let descriptor = DataDescriptor { area, offset: 0, len: 0, flags, peer: None };
        sock.tx.push(&descriptor.encode()).unwrap();
        a.mark_dirty(sock);
    };
    // The default is Nagle's rule, which lets a first small segment pass.
    cork(&a, &mut sock, DataFlags::CORK);
    a.send(&mut sock, b"head", None);
    for _ in 0..50 {
        world.step();
    }
    assert_eq!(b.recv(&mut child), b"");
    a.send(&mut sock, b"body", None);
    cork(&a, &mut sock, DataFlags::UNCORK);
    world.run_for(Duration::from_millis(20), |_| {
        let got = b.recv(&mut child);
        assert!(matches!(&got[..], b"" | b"headbody"), "{got:?}");
        !got.is_empty()
    });
    // Without bytes between them, and twice the same: nothing is lost.
    for flags in [DataFlags::CORK, DataFlags::UNCORK, DataFlags::UNCORK] {
        cork(&a, &mut sock, flags);
    }
    a.send(&mut sock, b"tail", None);
    world.run_for(Duration::from_millis(20), |_| b.recv(&mut child) == b"tail");
}

#[test]
fn any_size_of_area_will_do() {
    for (area_pages, rx_pages, strict) in [(1, 136 + 3, false), (7, 280, true), (16, 256, false)] {
        let mut world = World::with(strict);
        let params = ClientParams { area_pages, rx_pages, ..PARAMS };
        let mut a = world.a.admit(5, params);
        let mut b = world.b.admit(7, params);
        let (mut sock, mut child) = world.connect(&mut a, &mut b, 80);
        let bytes = pattern(300_000);
        let ends = ((&mut a, &mut sock), (&mut b, &mut child));
        // Rare reads, so that the areas fill up.
        let got = transfer(&mut world, ends.0, ends.1, &bytes, |step| step % 200 == 0);
        assert!(got == bytes);
        world.rest();
        assert_eq!(world.b.free("client 7 rx"), Some(rx_pages));
    }
}

#[test]
fn a_slow_reader_and_a_lossy_link_lose_nothing() {
    let (mut world, mut a, mut b) = pair();
    let (mut sock, mut child) = world.connect(&mut a, &mut b, 80);
    world.lose = 53;
    let bytes = pattern(600_000);
    let ends = ((&mut a, &mut sock), (&mut b, &mut child));
    let got = transfer(&mut world, ends.0, ends.1, &bytes, |step| step % 97 == 0);
    assert!(got == bytes);
}

#[test]
fn tiny_segments_exhaust_neither_frames_nor_descriptors() {
    let (mut world, mut a, mut b) = pair();
    let (mut sock, mut child) = world.connect(&mut a, &mut b, 80);
    world.set_option(&mut a, sock.word(), 6, 1, &int(1)).unwrap();
    world.rest();
    let frames = world.b.free("frames").unwrap();
    let bytes = pattern(5000);
    // Every byte is a segment of its own, and nobody reads.
    for byte in &bytes {
        world.run(|_| a.send(&mut sock, std::slice::from_ref(byte), None) == 1);
        world.step();
    }
    world.rest();
    // The queue is full; all other bytes wait in the areas as one stretch.
    let published = child.words.rx_bytes.load(Ordering::Acquire);
    assert!((u64::from(QUEUE)..1000).contains(&published), "{published}");
    assert!(world.frames > 5000, "{} frames", world.frames);
    assert_eq!(world.b.free("frames"), Some(frames), "no frame is held");
    let mut got = Vec::new();
    world.run(|_| {
        got.extend(b.recv(&mut child));
        got.len() >= bytes.len()
    });
    assert!(got == bytes);
}

#[test]
fn the_end_of_a_stream_shows_only_after_its_last_byte() {
    let (mut world, mut a, mut b) = pair();
    let (mut sock, mut child) = world.connect(&mut a, &mut b, 80);
    world.set_option(&mut a, sock.word(), 6, 1, &int(1)).unwrap();
    // More segments than descriptors: some stay unpublished while nobody reads.
    for _ in 0..300 {
        world.run(|_| a.send(&mut sock, b"x", None) == 1);
        world.step();
    }
    world.call(&mut a, Op::Close, &[sock.word()], 0).unwrap();
    world.rest();
    let mut got = 0;
    world.run(|_| {
        let ended = child.has(SocketFlags::READ_CLOSED);
        got += b.recv(&mut child).len();
        assert!(!ended || got == 300, "end of file after {got} bytes");
        ended
    });
    assert_eq!(got, 300);
}

#[test]
fn more_follows_makes_no_small_segment() {
    let (mut world, mut a, mut b) = pair();
    let (mut sock, mut child) = world.connect(&mut a, &mut b, 80);
    world.set_option(&mut a, sock.word(), 6, 1, &int(1)).unwrap();
    world.rest();
    let before = world.frames;
    let area = a.tx_pool.alloc(4).unwrap();
    area.write(0, &pattern(300)).unwrap();
    for (offset, flags) in [(0, DataFlags::MORE), (100, DataFlags::MORE), (200, DataFlags::NONE)] {
        let d = DataDescriptor { area: area.lend(), offset, len: 100, flags, peer: None };
        sock.tx.push(&d.encode()).unwrap();
        a.mark_dirty(&sock);
        world.step();
        world.step();
    }
    let mut got = Vec::new();
    world.run(|_| {
        got.extend(b.recv(&mut child));
        got.len() >= 300
    });
    assert_eq!(got, pattern(300));
    world.rest();
    assert!(world.frames - before <= 2, "one segment and its acknowledgement");
}

#[test]
fn datagrams_keep_their_bounds_and_their_senders() {
    let (mut world, mut a, mut b) = pair();
    let (mut from, mut to) =
        (world.socket(&mut a, SocketKind::Datagram), world.socket(&mut b, SocketKind::Datagram));
    world.bind(&mut a, &from, on_any(1000));
    world.bind(&mut b, &to, on_any(53));
    let peer = SocketAddr::from((world.b.address, 53));
    let sizes = [1_usize, 0, 1472, 100];
    for size in sizes {
        let area = a.tx_pool.alloc(1).unwrap();
        area.write(0, &pattern(size)).unwrap();
        let len = u32::try_from(size).unwrap();
        let d = DataDescriptor {
            area: area.lend(),
            offset: 0,
            len,
            flags: DataFlags::NONE,
            peer: Some(peer),
        };
        from.tx.push(&d.encode()).unwrap();
        from.sent += size as u64;
        a.mark_dirty(&from);
        world.rest();
    }
    assert_eq!(from.words.tx_released.load(Ordering::Acquire), from.sent);
    assert_eq!(to.words.rx_bytes.load(Ordering::Acquire), 4, "datagrams are counted");
    for size in sizes {
        let slot = to.rx.pop().unwrap().unwrap();
        let d = DataDescriptor::decode(&slot).unwrap();
        assert_eq!(d.peer, Some(SocketAddr::from((world.a.address, 1000))));
        assert_eq!(b.read(&d), pattern(size));
        to.consumed += 1;
        to.words.rx_consumed.store(to.consumed, Ordering::Release);
        b.mark_dirty(&to);
    }
    world.rest();
    assert_eq!(world.b.free("client 7 rx"), Some(PARAMS.rx_pages));
}

#[test]
fn datagrams_to_a_closed_port_are_refused_by_the_error_word() {
    let (mut world, mut a, _b) = pair();
    let mut sock = world.socket(&mut a, SocketKind::Datagram);
    let to = SocketAddr::from((world.b.address, 54));
    world.call(&mut a, Op::Connect, &with(&sock, to), 0).unwrap();
    assert!(sock.has(SocketFlags::CONNECTED));
    a.send(&mut sock, b"anybody?", None);
    world.run(|_| sock.error() != 0);
    assert_eq!(sock.error(), Errno::CONNREFUSED.raw_os_error());
    assert!(!sock.has(SocketFlags::HANGUP), "the socket stays usable");
    // One byte more than an IPv4 packet carries.
    const LONG: u32 = 65_508;
    let long = a.tx_pool.alloc(16).unwrap();
    let d = DataDescriptor {
        area: long.lend(),
        offset: 0,
        len: LONG,
        flags: DataFlags::NONE,
        peer: None,
    };
    sock.tx.push(&d.encode()).unwrap();
    a.mark_dirty(&sock);
    world.run(|_| sock.error() == Errno::MSGSIZE.raw_os_error());
    assert_eq!(sock.words.tx_released.load(Ordering::Acquire), sock.sent + u64::from(LONG));
}

#[test]
fn a_flood_of_datagrams_is_dropped_at_its_socket() {
    let (mut world, mut a, mut b) = pair();
    let mut from = world.socket(&mut a, SocketKind::Datagram);
    let to = world.socket(&mut b, SocketKind::Datagram);
    world.bind(&mut b, &to, on_any(53));
    let peer = SocketAddr::from((world.b.address, 53));
    world.rest();
    let frames = world.b.free("frames").unwrap();
    for _ in 0..700 {
        world.run(|_| a.send(&mut from, b"flood", Some(peer)) == 5);
        world.step();
    }
    world.rest();
    assert_eq!(to.words.rx_bytes.load(Ordering::Acquire), u64::from(QUEUE));
    assert!(world.b.counter("drop.datagrams") > 0);
    assert_eq!(world.b.free("frames"), Some(frames));
}

#[test]
fn sent_bytes_are_released_only_after_the_driver_has_passed_them() {
    let (mut world, mut a, mut b) = pair();
    let (mut sock, mut child) = world.connect(&mut a, &mut b, 80);
    let bytes = pattern(4000);
    a.send(&mut sock, &bytes, None);
    let mut got = Vec::new();
    world.run(|_| {
        got.extend(b.recv(&mut child));
        got.len() >= bytes.len()
    });
    world.rest();
    assert_eq!(sock.words.tx_released.load(Ordering::Acquire), 4000);
    // The driver of a takes nothing more: a retransmission stays in its ring. Then an
    // acknowledgement comes, as if the first copy had arrived late.
    world.a.driver.stopped = true;
    a.send(&mut sock, &bytes[..100], None);
    for _ in 0..20 {
        world.step();
    }
    let slots = world.a.driver.queued();
    assert!(!slots.is_empty());
    for slot in &slots {
        let frame = TxFrame::decode(slot).unwrap();
        let mut bytes = vec![0; usize::from(frame.len)];
        let at = LAYOUT.heads.pages_at + frame.area.page as usize * shm::PAGE;
        world.a.driver.region.read(at + usize::from(frame.offset), &mut bytes).unwrap();
        for piece in frame.pieces() {
            let mut part = vec![0; usize::from(piece.len)];
            a.region.read(piece.offset as usize, &mut part).unwrap();
            bytes.extend(part);
        }
        world.b.driver.receive(&bytes);
    }
    world.rest();
    assert_eq!(child.words.rx_bytes.load(Ordering::Acquire), 4100);
    assert_eq!(sock.words.tx_released.load(Ordering::Acquire), 4000, "the driver may still read");
    world.a.driver.stopped = false;
    world.run(|_| sock.words.tx_released.load(Ordering::Acquire) == 4100);
}

/// TCP_NOTSENT_LOWAT.
#[test]
fn the_bound_of_bytes_that_wait_to_leave() {
    const LOWAT: u64 = 20_000;
    let (mut world, mut a, mut b) = pair();
    let (mut sock, mut child) = world.connect(&mut a, &mut b, 80);
    let words = sock.words.clone();
    let until = || words.tx_until.load(Ordering::Acquire);
    assert_eq!(until(), NO_BOUND);
    world.set_option(&mut a, sock.word(), 6, 25, &int(20_000)).unwrap();
    world.rest();
    assert_eq!(until(), LOWAT);
    // Nobody reads, so the peer's window closes.
    let bytes = pattern(400_000);
    while until() > sock.sent {
        let at = usize::try_from(sock.sent).unwrap();
        assert_eq!(a.send(&mut sock, &bytes[at..at + 2000], None), 2000);
        world.rest();
    }
    let unsent = sock.sent - (until() - LOWAT);
    assert!((LOWAT..LOWAT + 2000).contains(&unsent), "{unsent}");
    let released = words.tx_released.load(Ordering::Acquire);
    assert!(sock.sent - released < words.tx_limit.load(Ordering::Acquire) / 3, "{released}");
    // A thread that waits for room is woken when half of it is free, and not before.
    words.waiters.bits.store(1, Ordering::SeqCst);
    let mut got = Vec::new();
    world.run(|_| {
        let is_rung = words.waiters.bits.load(Ordering::SeqCst) == 0;
        let free = until() - sock.sent.min(until());
        assert!(is_rung == (free > LOWAT / 2), "{is_rung} with {free}");
        if !is_rung && child.words.rx_bytes.load(Ordering::Acquire) > child.consumed {
            got.extend(b.recv(&mut child));
        }
        is_rung
    });
    let sent = usize::try_from(sock.sent).unwrap();
    world.run(|_| {
        got.extend(b.recv(&mut child));
        got.len() == sent
    });
    assert!(got == bytes[..sent]);
    world.rest();
    assert_eq!(until(), sock.sent + LOWAT);
    world.set_option(&mut a, sock.word(), 6, 25, &int(0)).unwrap();
    world.rest();
    assert_eq!(until(), NO_BOUND);
}

#[test]
fn waiters_are_rung_and_forgotten() {
    let (mut world, mut a, mut b) = pair();
    let (mut sock, child) = world.connect(&mut a, &mut b, 80);
    world.rest();
    let bell = shm::Sleeper::new(b.layout.thread_bell(&b.region, 0).unwrap());
    bell.announce(shm::Sleep::Fd);
    let version = child.words.version.load(Ordering::Acquire);
    child.words.waiters.bits.store(0b11, Ordering::SeqCst);
    world.rest();
    assert_eq!(child.words.waiters.bits.load(Ordering::SeqCst), 0b11, "nothing has changed");
    let rung = |b: &Program| {
        let mut fds = [rustix::event::PollFd::new(&b.bell, rustix::event::PollFlags::IN)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut fds, Some(&now)).unwrap() == 1
    };
    assert!(!rung(&b));
    a.send(&mut sock, b"x", None);
    world.rest();
    assert!(rung(&b));
    assert_eq!(child.words.waiters.bits.load(Ordering::SeqCst), 0);
    assert_ne!(child.words.version.load(Ordering::Acquire), version);
}

#[test]
fn who_lacks_slots_of_a_queue_that_is_not_full_is_rung_if_it_asks() {
    let (mut world, mut a, mut b) = pair();
    let (mut sock, _child) = world.connect(&mut a, &mut b, 80);
    world.rest();
    let bell = shm::Sleeper::new(a.layout.thread_bell(&a.region, 0).unwrap());
    let mut rung = |world: &mut World, a: &mut Program, place: u64| {
        bell.announce(shm::Sleep::Fd);
        sock.words.waiters.await_position(place, 0);
        sock.words.waiters.bits.store(1, Ordering::SeqCst);
        a.send(&mut sock, b"x", None);
        world.rest();
        sock.words.waiters.bits.load(Ordering::SeqCst) == 0
    };
    assert!(!rung(&mut world, &mut a, 0), "it had room all the time");
    assert!(rung(&mut world, &mut a, shm::Waiters::ROOM));
}

#[test]
fn a_frame_that_has_left_is_news_only_if_something_waits_for_it() {
    let (mut world, mut a, mut b) = pair();
    let (mut stream, _child) = world.connect(&mut a, &mut b, 80);
    let mut datagrams = world.socket(&mut a, SocketKind::Datagram);
    world.bind(&mut a, &datagrams, on_any(90));
    world.rest();
    let has_left = |world: &mut World| {
        let (now, host) = (world.now, &mut world.a);
        while host.server.iterate(now) {}
        host.server.announce();
        assert!(!host.server.has_work());
        assert!(!host.driver.transmit().is_empty());
        let has_work = host.server.has_work();
        host.server.awake();
        has_work
    };
    a.send(&mut stream, b"x", None);
    assert!(!has_left(&mut world), "of a stream the acknowledgement is news");
    let to = SocketAddr::from((world.b.address, 90));
    a.send(&mut datagrams, b"x", Some(to));
    assert!(!has_left(&mut world), "the program has room");
    // In the next iteration all the same.
    world.run(|_| datagrams.words.tx_released.load(Ordering::Acquire) == 1);
    datagrams.words.waiters.await_position(2, 1);
    a.send(&mut datagrams, b"x", Some(to));
    assert!(has_left(&mut world), "somebody waits for this one");
    world.run(|_| datagrams.words.tx_released.load(Ordering::Acquire) == 2);
    world.set_option(&mut a, datagrams.id.to_word(), 1, 7, &int(4096)).unwrap(); // SO_SNDBUF
    a.send(&mut datagrams, &[7; 1400], Some(to));
    a.send(&mut datagrams, &[7; 1400], Some(to));
    assert!(has_left(&mut world), "there is little room");
    world.run(|_| datagrams.words.tx_released.load(Ordering::Acquire) == 2802);
    a.send(&mut datagrams, b"x", Some(to));
    let (now, host) = (world.now, &mut world.a);
    while host.server.iterate(now) {}
    host.server.announce();
    assert!(!host.server.has_work());
    datagrams.words.waiters.await_position(2803, 2802);
    assert!(host.server.has_work(), "somebody waits who did not when sleep was announced");
    host.server.awake();
}
