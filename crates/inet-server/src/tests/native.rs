//! Native programs: they send areas longer than the runtime's, and wait for their release.

use super::*;

const LARGE: ClientParams = ClientParams { tx_pages: 4096, ..PARAMS };
const AREA: usize = 4 << 20;

/// Hands all of an area over to a stream.
fn hand_over(program: &Program, sock: &mut Sock, area: &Area) {
    let len = u32::try_from(area.len()).unwrap();
    let descriptor =
        DataDescriptor { area: area.lend(), offset: 0, len, flags: DataFlags::NONE, peer: None };
    sock.tx.push(&descriptor.encode()).unwrap();
    sock.sent += u64::from(len);
    sock.words.tx_bytes.store(sock.sent, Ordering::Release);
    program.mark_dirty(sock);
}

#[test]
fn one_descriptor_of_four_mebibytes_arrives_over_a_lossy_link() {
    let mut world = World::new();
    let mut a = world.a.admit(5, LARGE);
    let mut b = world.b.admit(7, PARAMS);
    let (mut sock, mut child) = world.connect(&mut a, &mut b, 80);
    world.lose = 997;
    let bytes = pattern(AREA);
    let area = a.tx_pool.alloc(1024).unwrap();
    area.write(0, &bytes).unwrap();
    hand_over(&a, &mut sock, &area);
    let mut got = Vec::new();
    world.run_for(Duration::from_secs(120), |_| {
        got.extend(b.recv(&mut child));
        got.len() >= AREA
    });
    assert!(got == bytes, "what was lost was sent again out of the same area");
    world.rest();
    assert_eq!(sock.words.tx_released.load(Ordering::Acquire), AREA as u64);
    assert_eq!(world.a.counter("payload.tx-bytes"), AREA as u64);
}

#[test]
fn whoever_waits_for_a_position_is_rung_when_it_is_released() {
    const HALF: u64 = AREA as u64 / 2;
    let mut world = World::new();
    let mut a = world.a.admit(5, LARGE);
    let mut b = world.b.admit(7, PARAMS);
    let (mut sock, mut child) = world.connect(&mut a, &mut b, 80);
    let first = a.tx_pool.alloc(1024).unwrap();
    hand_over(&a, &mut sock, &first);
    world.run(|_| {
        let _ = b.recv(&mut child);
        sock.words.tx_released.load(Ordering::Acquire) >= HALF
    });
    // Most of the limit is unreleased, so the server would not wake a thread for the free room.
    let place = sock.words.tx_released.load(Ordering::Acquire) + 1;
    sock.words.waiters.position.store(place, Ordering::SeqCst);
    sock.words.waiters.bits.store(1, Ordering::SeqCst);
    world.run(|_| {
        let _ = b.recv(&mut child);
        sock.words.waiters.bits.load(Ordering::SeqCst) == 0
    });
    let released = sock.words.tx_released.load(Ordering::Acquire);
    assert!(released >= place, "{released} of {place}");
    let limit = sock.words.tx_limit.load(Ordering::Acquire);
    assert!(AREA as u64 - released > limit / 3 * 2, "{released} leaves room, by {limit}");
}

/// A thread that had room before the release waits for something else, such as an answer.
#[test]
fn an_ack_of_what_left_room_wakes_nobody() {
    let mut world = World::new();
    let mut a = world.a.admit(5, LARGE);
    let mut b = world.b.admit(7, PARAMS);
    let (mut sock, mut child) = world.connect(&mut a, &mut b, 80);
    let limit = sock.words.tx_limit.load(Ordering::Acquire);
    for (bytes, woken) in [(1000, 0), (limit / 3 * 2 + 1, 1), (20_000, 0)] {
        let from = sock.sent;
        let mut left = usize::try_from(bytes).unwrap();
        while left > 0 {
            left -= a.send(&mut sock, &vec![7; left], None);
        }
        sock.words.waiters.add(1);
        world.run(|_| {
            let _ = b.recv(&mut child);
            sock.words.tx_released.load(Ordering::Acquire) == from + bytes
        });
        let asleep = sock.words.waiters.take();
        assert_eq!(asleep, 1 - woken, "{bytes} bytes of {limit}");
    }
    // Data do wake it.
    sock.words.waiters.add(1);
    b.send(&mut child, b"answer", None);
    world.run(|_| sock.words.rx_bytes.load(Ordering::Acquire) > 0);
    assert_eq!(sock.words.waiters.take(), 0);
}

/// Sends `bytes` from a to b, which reads whenever `reads` returns true.
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
fn where_frames_are_shared_nothing_is_copied() {
    let mut world = World::sharing();
    let mut a = world.a.admit(5, PARAMS);
    let mut b = world.b.admit(7, PARAMS);
    let (mut sock, mut child) = world.connect(&mut a, &mut b, 80);
    world.rest();
    let free = world.b.free("frames");
    world.lose = 211;
    let bytes = pattern(1 << 20);
    let ends = ((&mut a, &mut sock), (&mut b, &mut child));
    let got = transfer(&mut world, ends.0, ends.1, &bytes, |step| step % 7 == 0);
    assert!(got == bytes);
    world.rest();
    let lent = world.b.counter("payload.rx-lent-bytes");
    let copied = world.b.counter("copy.rx-bytes");
    assert_eq!(lent + copied, 1 << 20);
    // The ends of areas make segments too small to lend a page for.
    assert!(copied < 1 << 14, "{copied} bytes were copied");
    assert_eq!(world.b.free("frames"), free, "every page is back");
    assert_eq!(world.b.free("client 7 rx"), Some(PARAMS.rx_pages));
}

#[test]
fn small_and_large_pieces_keep_their_order() {
    let mut world = World::sharing();
    let mut a = world.a.admit(5, PARAMS);
    let mut b = world.b.admit(7, PARAMS);
    let (mut sock, mut child) = world.connect(&mut a, &mut b, 80);
    let bytes = pattern(40_000);
    let mut at = 0;
    for length in [1, 300, 20, 1400, 7, 7, 256, 257, 5000].into_iter().cycle() {
        let end = bytes.len().min(at + length);
        world.run(|_| {
            at += a.send(&mut sock, &bytes[at..end], None);
            at == end
        });
        // A segment to each.
        world.rest();
        if end == bytes.len() {
            break;
        }
    }
    // More pieces than the queue has slots.
    let mut got = Vec::new();
    world.run(|_| {
        got.extend(b.recv(&mut child));
        got.len() >= bytes.len()
    });
    assert!(got == bytes);
    assert!(world.b.counter("copy.rx-bytes") > 0 && world.b.counter("payload.rx-lent-bytes") > 0);
}

#[test]
fn who_sits_on_pages_is_served_by_copies_and_harms_nobody() {
    let mut world = World::sharing();
    let mut a = world.a.admit(5, LARGE);
    let mut b = world.b.admit(7, ClientParams { rx_pages: 4096, ..PARAMS });
    let mut pairs: Vec<_> = (80..84).map(|port| world.connect(&mut a, &mut b, port)).collect();
    let area = a.tx_pool.alloc(1024).unwrap();
    for (sock, _) in &mut pairs {
        hand_over(&a, sock, &area);
    }
    // Nobody reads: the windows fill up.
    world.run_for(Duration::from_secs(20), |world| world.now > Instant::from_nanos(15_000_000_000));
    let free = world.b.free("frames").unwrap();
    assert!(free >= LAYOUT.pool.pages - abi::nic::PROGRAM_AREAS, "{free} pages are left");
    let mut got = 0;
    world.run_for(Duration::from_secs(120), |_| {
        got += pairs.iter_mut().map(|(_, child)| b.recv(child).len()).sum::<usize>();
        got >= 4 * AREA
    });
    // The program goes away with pages in hand.
    let (sock, _) = pairs.first_mut().unwrap();
    hand_over(&a, sock, &area);
    world.rest();
    let now = world.now;
    world.b.remove(7, now);
    world.rest();
    let drivers = LAYOUT.stock * u32::from(LAYOUT.area_pages);
    let free = world.b.free("frames").unwrap();
    assert!(free >= LAYOUT.pool.pages - drivers, "its pages are back");
}

#[test]
fn a_program_cannot_send_frames() {
    let mut world = World::sharing();
    let mut a = world.a.admit(5, PARAMS);
    let mut b = world.b.admit(7, PARAMS);
    let (mut sock, _child) = world.connect(&mut a, &mut b, 80);
    let area = a.tx_pool.alloc(4).unwrap();
    let flags = DataFlags::of_frame(0).unwrap();
    let descriptor = DataDescriptor { area: area.lend(), offset: 0, len: 9, flags, peer: None };
    sock.tx.push(&descriptor.encode()).unwrap();
    a.mark_dirty(&sock);
    world.rest();
    let fault = |event: &ServerEvent| match event {
        ServerEvent::ClientFault { client: 5, reason } => reason.contains("sends from a frame"),
        _ => false,
    };
    assert!(world.a.events.iter().any(fault), "{:?}", world.a.events);
}
