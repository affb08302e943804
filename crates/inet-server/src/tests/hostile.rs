//! Hostile programs and drivers: nothing panics, and the server drops only them.

use abi::control::SOCKET_PAGE;
use proptest::prelude::*;

use super::*;

fn faulted(host: &Host, number: u16) -> Option<&str> {
    host.events.iter().find_map(|event| match event {
        ServerEvent::ClientFault { client, reason } if *client == number => Some(reason.as_str()),
        _ => None,
    })
}

/// A server with a bad program (number 1) and a good one (number 2) on one host.
fn host() -> (World, Program, Program) {
    let mut world = World::new();
    let bad = world.a.admit(1, PARAMS);
    let good = world.a.admit(2, PARAMS);
    (world, bad, good)
}

/// The bad program is gone, the good one is not.
fn dropped_alone(world: &mut World, good: &mut Program, because: &str) {
    world.run(|world| faulted(&world.a, 1).is_some());
    let reason = faulted(&world.a, 1).unwrap();
    assert!(reason.contains(because), "{reason}");
    world.call(good, Op::Null, &[], 0).unwrap();
    assert_eq!(faulted(&world.a, 2), None);
    assert!(!world.a.events.contains(&ServerEvent::ClientReleased { client: 1 }));
    let now = world.now;
    world.a.remove(1, now);
    world.run(|world| world.a.events.contains(&ServerEvent::ClientReleased { client: 1 }));
}

#[test]
fn a_bad_operation() {
    let (mut world, mut bad, mut good) = host();
    bad.requests.push(&[999, 1, 0, 0, 0, 0, 0, 0]).unwrap();
    dropped_alone(&mut world, &mut good, "operation");
}

#[test]
fn an_impossible_ring_index() {
    let (mut world, bad, mut good) = host();
    // The tail, which the producer writes, is the ring's first word.
    let tail = bad.region.word32(bad.layout.request_ring(0)).unwrap();
    tail.store(REQUESTS + 1, Ordering::Release);
    dropped_alone(&mut world, &mut good, "request ring");
}

#[test]
fn a_return_path_to_somebody_else() {
    let (mut world, mut bad, mut good) = host();
    let path = ReturnPath { client: 2, ring: 0, tag: 7 };
    let call = RawCall { op: Op::Null, priority: 0, flags: 0, path, args: [0; 6] };
    bad.requests.push(&call.encode()).unwrap();
    dropped_alone(&mut world, &mut good, "return path");
    assert_eq!(good.result(7), None);
}

#[test]
fn a_return_path_to_a_thread_that_is_not_there() {
    let (mut world, mut bad, mut good) = host();
    let path = ReturnPath { client: 1, ring: 1, tag: 7 };
    let call = RawCall { op: Op::Null, priority: 0, flags: 0, path, args: [0; 6] };
    bad.requests.push(&call.encode()).unwrap();
    dropped_alone(&mut world, &mut good, "return path");
}

#[test]
fn bytes_outside_of_every_area() {
    let (mut world, mut bad, mut good) = host();
    let mut sock = world.socket(&mut bad, SocketKind::Stream);
    let area = bad.tx_pool.alloc(4).unwrap();
    let name = area.lend();
    let d =
        DataDescriptor { area: name, offset: 16_000, len: 385, flags: DataFlags::NONE, peer: None };
    sock.tx.push(&d.encode()).unwrap();
    bad.mark_dirty(&sock);
    dropped_alone(&mut world, &mut good, "bad area");
}

#[test]
fn a_stale_area() {
    let (mut world, mut bad, mut good) = host();
    let mut sock = world.socket(&mut bad, SocketKind::Datagram);
    let name = bad.tx_pool.alloc(1).unwrap().lend();
    let d = DataDescriptor { area: name, offset: 0, len: 1, flags: DataFlags::NONE, peer: None };
    sock.tx.push(&d.encode()).unwrap();
    bad.mark_dirty(&sock);
    dropped_alone(&mut world, &mut good, "bad area");
}

/// A datagram that announces a second slot, and its area, which has to live.
fn with_ancillary(bad: &mut Program) -> (shm::Area, DataDescriptor) {
    let area = bad.tx_pool.alloc(4).unwrap();
    let flags = DataFlags::ANCILLARY;
    let d = DataDescriptor { area: area.lend(), offset: 0, len: 3, flags, peer: None };
    (area, d)
}

#[test]
fn a_descriptor_without_the_slot_that_comes_with_it() {
    let (mut world, mut bad, mut good) = host();
    let mut sock = world.socket(&mut bad, SocketKind::Datagram);
    let (_area, d) = with_ancillary(&mut bad);
    sock.tx.push(&d.encode()).unwrap();
    bad.mark_dirty(&sock);
    dropped_alone(&mut world, &mut good, "without the slot");
    // A call has no second slot either.
    let (mut world, mut bad, mut good) = host();
    let sock = world.socket(&mut bad, SocketKind::Stream);
    let [a, b, c, ..] = d.encode();
    bad.call(Op::Send, &[sock.word(), a, b, c], 0);
    dropped_alone(&mut world, &mut good, "without the slot");
}

#[test]
fn ancillary_data_that_nobody_means() {
    for more in [[4, 0, 0, 0, 0, 0, 0, 0], [0, 5, 0, 0, 0, 0, 0, 0], [0, 4, 0, 1 << 40, 0, 0, 0, 0]]
    {
        let (mut world, mut bad, mut good) = host();
        let mut sock = world.socket(&mut bad, SocketKind::Datagram);
        let (_area, d) = with_ancillary(&mut bad);
        sock.tx.push(&d.encode()).unwrap();
        sock.tx.push(&more).unwrap();
        bad.mark_dirty(&sock);
        dropped_alone(&mut world, &mut good, "a");
    }
}

#[test]
fn more_consumed_than_there_was() {
    let (mut world, mut bad, mut good) = host();
    let sock = world.socket(&mut bad, SocketKind::Stream);
    sock.words.rx_consumed.store(1, Ordering::Release);
    bad.mark_dirty(&sock);
    dropped_alone(&mut world, &mut good, "consumed");
}

#[test]
fn consumption_that_goes_back() {
    let mut world = World::new();
    let mut bad = world.a.admit(1, PARAMS);
    let mut good = world.a.admit(2, PARAMS);
    let mut peer = world.b.admit(9, PARAMS);
    let (mut sock, mut child) = world.connect(&mut bad, &mut peer, 80);
    peer.send(&mut child, b"hello", None);
    world.run(|_| sock.words.rx_bytes.load(Ordering::Acquire) == 5);
    bad.recv(&mut sock);
    world.rest();
    sock.words.rx_consumed.store(4, Ordering::Release);
    bad.mark_dirty(&sock);
    dropped_alone(&mut world, &mut good, "consumed");
    // Its connection was reset.
    world.run(|_| child.has(SocketFlags::HANGUP));
    assert_eq!(child.error(), Errno::CONNRESET.raw_os_error());
}

#[test]
fn results_that_nobody_takes() {
    let (mut world, mut bad, mut good) = host();
    for _ in 0..10_000 {
        if faulted(&world.a, 1).is_some() {
            break;
        }
        if bad.requests.free().unwrap() > 0 {
            bad.call(Op::Null, &[], 0);
        } else {
            world.step();
        }
    }
    dropped_alone(&mut world, &mut good, "results wait");
}

#[test]
fn dirty_bits_of_nothing_are_ignored() {
    let (mut world, mut bad, mut good) = host();
    for word in bad.head.dirty.words.iter() {
        word.store(u64::MAX, Ordering::SeqCst);
    }
    bad.head.dirty.summary.store(u64::MAX, Ordering::SeqCst);
    world.rest();
    world.call(&mut bad, Op::Null, &[], 0).unwrap();
    world.call(&mut good, Op::Null, &[], 0).unwrap();
    assert!(world.a.events.is_empty());
}

#[test]
fn waiting_calls_are_bounded() {
    let (mut world, mut bad, _good) = host();
    let listener = world.listener(&mut bad, 80);
    let mut refused = 0;
    for _ in 0..40 {
        let tags: Vec<_> =
            (0..REQUESTS).map(|_| bad.call(Op::Accept, &[listener.word()], 0)).collect();
        world.step();
        world.step();
        for tag in tags {
            if let Some(result) = bad.result(tag) {
                assert_eq!(result, Err(Errno::NOBUFS));
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 40 * REQUESTS as usize - crate::client::MAX_WAITING);
}

#[test]
fn floods_of_cancellations_hurt_nobody() {
    let (mut world, mut bad, mut good) = host();
    let listener = world.listener(&mut bad, 80);
    let mut waiting = 0;
    for round in 0..40_u32 {
        for n in 0..REQUESTS / 2 {
            let wait = bad.call(Op::Accept, &[listener.word()], 0);
            waiting += 1;
            // Half of the cancellations come twice. Others name calls never made, or a ring that
            // does not exist.
            let odd = u64::from(wait) | u64::from(n) << 32;
            let named = if round % 2 == 0 { u64::from(wait) } else { odd };
            let path = ReturnPath { client: 1, ring: 0, tag: u32::MAX - n };
            let args = [listener.word(), named, u64::MAX, 0, 0, 0];
            let (op, flags) = (Op::Cancel, RawCall::NONBLOCK);
            let call = RawCall { op, priority: n.to_le_bytes()[0], flags, path, args };
            bad.requests.push(&call.encode()).unwrap();
        }
        world.step();
        world.step();
        while let Some(slot) = bad.results.pop().unwrap() {
            let over = RawResult::decode(&slot);
            waiting -= u32::from(over.outcome == Err(Errno::CANCELED));
            waiting -= u32::from(over.outcome == Err(Errno::NOBUFS));
        }
        world.call(&mut good, Op::Null, &[], 0).unwrap();
    }
    assert!(waiting as usize <= crate::client::MAX_WAITING);
    assert!(world.a.events.is_empty());
    // The close ends the waiting calls that are left, and counts them down.
    world.call(&mut bad, Op::Close, &[listener.word()], 0).unwrap();
    let listener = world.listener(&mut bad, 81);
    let wait = bad.call(Op::Accept, &[listener.word()], 0);
    world.rest();
    assert_eq!(bad.result(wait), None);
}

#[test]
fn a_busy_client_does_not_hold_up_another() {
    let mut world = World::new();
    let mut busy = world.a.admit(1, PARAMS);
    let mut quiet = world.a.admit(2, PARAMS);
    let mut socks: Vec<_> =
        (0..PARAMS.sockets).map(|_| world.socket(&mut busy, SocketKind::Datagram)).collect();
    let to = SocketAddr::from((world.b.address, 53));
    let now = world.now;
    for _ in 0..200 {
        // As much as it can do, each iteration.
        while busy.requests.free().unwrap() > 0 {
            busy.call(Op::Null, &[], 0);
        }
        for sock in &mut socks {
            busy.send(sock, b"x", Some(to));
        }
        let tag = quiet.call(Op::Null, &[], 0);
        world.a.iterate(now);
        assert_eq!(quiet.result(tag), Some(Ok([0; 6])), "not answered in one iteration");
        while busy.results.pop().unwrap().is_some() {}
    }
}

#[test]
fn a_driver_that_talks_nonsense_is_counted() {
    let (mut world, _bad, mut good) = host();
    let path = ReturnPath { client: 0, ring: 0, tag: 0 };
    let call = |op, args| RawCall { op, priority: 0, flags: 0, path, args }.encode();
    let before = world.a.free("frames");
    for slot in [
        [u64::MAX; 8],
        call(Op::Null, [0; 6]),
        call(Op::IfAttach, [u64::MAX, 1500, 0, 0, 0, 0]),
        call(Op::IfAttach, [2, 60, 0, 0, 0, 0]),
        call(Op::EthInput, [u64::MAX; 6]),
        call(Op::EthInput, [0, 60 << 32, 1, 0, 0, 0]),
    ] {
        world.a.driver.rx.push(&slot).unwrap();
    }
    world.rest();
    assert_eq!(world.a.counter("drop.nic-bad-slots"), 5);
    assert_eq!(world.a.counter("drop.nic-bad-frames"), 1);
    assert_eq!(world.a.free("frames"), before);
    world.call(&mut good, Op::Null, &[], 0).unwrap();
    // Impossible indices end the interface, not the server.
    let tail = world.a.driver.region.word32(LAYOUT.rx).unwrap();
    tail.fetch_add(RING + 1, Ordering::AcqRel);
    world.run(|world| {
        world.a.events.iter().any(|event| matches!(event, ServerEvent::DeviceLost { .. }))
    });
    world.call(&mut good, Op::Null, &[], 0).unwrap();
}

/// One piece of nonsense that a program writes.
#[derive(Debug, Clone)]
enum Nonsense {
    /// A slot into a ring, the index moved on by one.
    Slot { ring: u8, slot: [u64; 8] },
    /// A call of a known operation with wild arguments.
    Wild { op: u16, args: [u64; 6], nonblock: bool },
    /// A descriptor of a real area with a wild extent.
    Descriptor { socket: u8, offset: u32, len: u32, flags: u16 },
    /// Any word of the control part of the region.
    Word { at: u32, value: u64 },
    /// A wild count of consumed bytes.
    Consumed { socket: u8, value: u64 },
    /// Everything is dirty.
    DirtySet,
    /// Nothing for a while.
    Pause,
}

fn nonsense() -> impl Strategy<Value = Nonsense> {
    let small = prop_oneof![0_u64..12, any::<u64>()];
    prop_oneof![
        2 => (any::<u8>(), any::<[u64; 8]>())
            .prop_map(|(ring, slot)| Nonsense::Slot { ring, slot }),
        8 => (1_u16..17, proptest::array::uniform6(small.clone()), any::<bool>())
            .prop_map(|(op, args, nonblock)| Nonsense::Wild { op, args, nonblock }),
        4 => (any::<u8>(), 0_u32..20_000, 0_u32..20_000, 0_u16..16)
            .prop_map(|(socket, offset, len, flags)| {
                Nonsense::Descriptor { socket, offset, len, flags }
            }),
        3 => (any::<u32>(), small.clone()).prop_map(|(at, value)| Nonsense::Word { at, value }),
        1 => (any::<u8>(), small).prop_map(|(socket, value)| Nonsense::Consumed { socket, value }),
        3 => Just(Nonsense::DirtySet),
        3 => Just(Nonsense::Pause),
    ]
}

/// Writes a slot at the tail of a ring, whatever its consumer thinks.
fn push_blindly(region: &Arc<Region>, ring: usize, capacity: u32, slot: &[u64; 8]) {
    let tail = region.word32(ring).unwrap();
    let index = tail.load(Ordering::Relaxed) % capacity;
    let bytes: Vec<u8> = slot.iter().flat_map(|word| word.to_le_bytes()).collect();
    region.write(ring + 128 + 64 * index as usize, &bytes).unwrap();
    tail.fetch_add(1, Ordering::Release);
}

fn write(bad: &Program, nonsense: &Nonsense) {
    let layout = &bad.layout;
    let socket = |n: u8| u16::from(n) % PARAMS.sockets;
    match *nonsense {
        Nonsense::Slot { ring, slot } => {
            let (ring, capacity) = match ring % 4 {
                0 => (layout.request_ring(0), REQUESTS),
                1 => (layout.result_ring(0), RESULTS),
                2 => (layout.tx_queue(socket(ring / 4)), QUEUE),
                _ => (layout.rx_queue(socket(ring / 4)), QUEUE),
            };
            push_blindly(&bad.region, ring, capacity, &slot);
        }
        Nonsense::Wild { op, args, nonblock } => {
            let path = u64::from(bad.number);
            let [a, b, c, d, e, f] = args;
            let word = u64::from(op) | u64::from(nonblock) << 24;
            let slot = [word, path, a, b, c, d, e, f];
            push_blindly(&bad.region, layout.request_ring(0), REQUESTS, &slot);
        }
        Nonsense::Descriptor { socket: n, offset, len, flags } => {
            let Ok(area) = bad.tx_pool.alloc(4) else { return };
            let peer = Some(SocketAddr::from(([10, 0, 0, 2], 53)));
            let d = DataDescriptor {
                area: area.lend(),
                offset,
                len,
                flags: DataFlags::from_bits_retain(flags),
                peer,
            };
            let ring = layout.tx_queue(socket(n));
            push_blindly(&bad.region, ring, QUEUE, &d.encode());
            // Freed at once: what the server has taken may change under it.
        }
        Nonsense::Word { at, value } => {
            let control = layout.tx_pool.pages_at / 8;
            let word = bad.region.word64(at as usize % control * 8).unwrap();
            word.store(value, Ordering::Release);
        }
        Nonsense::Consumed { socket: n, value } => {
            let words = layout.socket_words(&bad.region, socket(n)).unwrap();
            words.rx_consumed.store(value, Ordering::Release);
        }
        Nonsense::DirtySet => {
            bad.head.dirty.words.iter().for_each(|word| word.store(u64::MAX, Ordering::SeqCst));
            bad.head.dirty.summary.store(u64::MAX, Ordering::SeqCst);
        }
        Nonsense::Pause => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// A hostile program does not stop another program's transfer, and its end frees everything.
    #[test]
    fn nonsense_hurts_nobody_else(script in proptest::collection::vec(nonsense(), 1..60)) {
        let mut world = World::new();
        let mut good = world.a.admit(2, PARAMS);
        let mut peer = world.b.admit(9, PARAMS);
        world.rest();
        let frames = world.a.free("frames");
        let mut bad = world.a.admit(1, PARAMS);
        let (mut sock, mut child) = world.connect(&mut good, &mut peer, 80);
        // State to attack: a connection, a listener and a datagram socket.
        let (_mine, mut theirs) = world.connect(&mut bad, &mut peer, 81);
        let _listener = world.listener(&mut bad, 82);
        let _datagram = world.socket(&mut bad, SocketKind::Datagram);
        peer.send(&mut theirs, &pattern(5000), None);
        let bytes = pattern(30_000);
        let (mut sent, mut got) = (0, Vec::new());
        for nonsense in &script {
            write(&bad, nonsense);
            sent += good.send(&mut sock, &bytes[sent..], None);
            for _ in 0..4 {
                world.step();
            }
            got.extend(peer.recv(&mut child));
        }
        world.run(|_| {
            sent += good.send(&mut sock, &bytes[sent..], None);
            got.extend(peer.recv(&mut child));
            got.len() >= bytes.len()
        });
        prop_assert!(got == bytes);
        prop_assert_eq!(faulted(&world.a, 2), None);
        let now = world.now;
        world.a.remove(1, now);
        world.run(|world| {
            world.a.events.contains(&ServerEvent::ClientReleased { client: 1 })
        });
        world.rest();
        prop_assert_eq!(world.a.free("client 1 rx"), None);
        prop_assert_eq!(world.a.free("frames"), frames);
    }
}

/// A thread of the program goes on publishing in a queue of a place without a socket. The server
/// does not empty that queue for ever when the place gets a socket.
#[test]
fn a_queue_that_never_gets_empty() {
    use std::sync::atomic::AtomicBool;
    let (mut world, mut bad, mut good) = host();
    let tail = bad.region.word32(bad.layout.tx_queue(0)).unwrap();
    let head = bad.region.word32(bad.layout.tx_queue(0) + 64).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let pump = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || {
            while !stop.load(Ordering::Relaxed) {
                let taken = head.load(Ordering::Relaxed);
                tail.store(taken.wrapping_add(abi::client::QUEUE), Ordering::Release);
            }
        }
    });
    while tail_is_still(&bad) {
        std::thread::yield_now();
    }
    // The server may or may not drop the program, but it has to go on.
    let socket = [SocketKind::Stream.to_word(), 0, 0, 0, 0, 0];
    let path = ReturnPath { client: 1, ring: 0, tag: 7 };
    let call = RawCall { op: Op::Socket, priority: 0, flags: 0, path, args: socket };
    bad.requests.push(&call.encode()).unwrap();
    world.run(|world| faulted(&world.a, 1).is_some() || bad.result(7).is_some());
    world.call(&mut good, Op::Null, &[], 0).unwrap();
    stop.store(true, Ordering::Relaxed);
    pump.join().unwrap();
}

fn tail_is_still(program: &Program) -> bool {
    let tail = program.region.word32(program.layout.tx_queue(0)).unwrap();
    tail.load(Ordering::Relaxed) == 0
}

/// Bytes apart from each other, each a descriptor of its own: how many of them the server takes
/// from `sock` if the program calls shutdown(2) again and again.
fn taken_by_shutdowns(world: &mut World, bad: &mut Program, sock: &mut Sock, how: u64) -> usize {
    let area = bad.tx_pool.alloc(4).unwrap();
    let name = area.lend();
    let mut pushed = 0_usize;
    for _ in 0..100 {
        while sock.tx.free().unwrap() > 0 {
            let offset = u32::try_from(pushed % 2 * 100).unwrap();
            let d =
                DataDescriptor { area: name, offset, len: 1, flags: DataFlags::NONE, peer: None };
            sock.tx.push(&d.encode()).unwrap();
            pushed += 1;
        }
        bad.mark_dirty(sock);
        // It may fail: the second one of a stream that is shut.
        let _ = world.call(bad, Op::Shutdown, &[sock.word(), how], 0);
    }
    pushed
}

#[test]
fn shutdown_takes_what_is_queued_only_once() {
    // Runs in flight, what one shutdown takes beyond, and what stays in the queue.
    let most = crate::tx::MAX_RUNS + 2 * abi::client::QUEUE as usize;
    for how in [0, 1, 2] {
        let (mut world, mut bad, _good) = host();
        let mut peer = world.b.admit(1, PARAMS);
        let (mut sock, _child) = world.connect(&mut bad, &mut peer, 80);
        // Nothing is acknowledged from here on.
        world.lose = 1;
        let taken = taken_by_shutdowns(&mut world, &mut bad, &mut sock, how);
        assert!(taken <= most, "shutdown {how}: {taken} pieces");
    }
}

#[test]
fn a_list_of_many_sockets_comes_in_pages() {
    let mut world = World::new();
    // Areas of one page, and as many as each socket must have.
    let params = ClientParams { sockets: 300, area_pages: 1, tx_pages: 300, ..PARAMS };
    let params = ClientParams { rx_pages: 300 * params.rx_usual_areas(), ..params };
    let mut program = world.a.admit(1, params);
    for port in 1..=300 {
        let id = [SocketKind::Datagram.to_word(), Family::V4.to_word()];
        let id = world.call(&mut program, Op::Socket, &id, 0).unwrap()[0];
        // Bound, so that it has a row.
        let sock = program.attach(id);
        world.bind(&mut program, &sock, on_any(port));
    }
    let mut page = |from| {
        let request = ServerRequest::Ss { info: true, from };
        match world.a.server.request(world.now, request, Vec::new()) {
            ServerReply::Sockets { sockets, more } => (sockets.len(), more),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(page(0), (SOCKET_PAGE, true));
    assert_eq!(page(SOCKET_PAGE), (300 - SOCKET_PAGE, false));
    assert_eq!(page(300), (0, false));
    assert_eq!(page(usize::MAX), (0, false));
}
