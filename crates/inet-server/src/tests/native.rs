//! What native programs do: areas longer than any that the runtime fills, and waiting for them.

use super::*;

const LARGE: ClientParams = ClientParams { tx_pages: 4096, ..PARAMS };
const AREA: usize = 4 << 20;

/// Hands all of an area over to a stream.
fn hand_over(program: &Program, sock: &mut Sock, area: &Area) {
    let len = u32::try_from(area.len()).unwrap();
    let descriptor = DataDescriptor { area: area.lend(), offset: 0, len, flags: 0, peer: None };
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
    // Most of the limit is on its way, so nobody would be woken for the room there is.
    let place = sock.words.tx_released.load(Ordering::Acquire) + 1;
    sock.words.tx_awaited.store(place, Ordering::SeqCst);
    sock.words.waiters.store(1, Ordering::SeqCst);
    world.run(|_| {
        let _ = b.recv(&mut child);
        sock.words.waiters.load(Ordering::SeqCst) == 0
    });
    let released = sock.words.tx_released.load(Ordering::Acquire);
    assert!(released >= place, "{released} of {place}");
    let limit = sock.words.tx_limit.load(Ordering::Acquire);
    assert!(AREA as u64 - released > limit / 3 * 2, "{released} leaves room, by {limit}");
}
