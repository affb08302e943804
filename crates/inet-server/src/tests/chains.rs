//! Chains: super-segments whose payload lies in several areas, where the kernel has put each
//! segment.

use abi::frame::MAX_MORE;
use abi::offload::{SegmentKind, Segments};

use super::*;

/// Cuts the segments of IPv4 that the driver receives into chains of `parts` payloads.
fn chained(world: &mut World, parts: usize) {
    for driver in [&mut world.a.driver, &mut world.b.driver] {
        driver.chain = parts;
    }
}

fn transfer(world: &mut World, a: &mut Program, b: &mut Program, reads: u64) {
    let (mut sock, mut child) = world.connect(a, b, 80);
    let bytes = pattern(700_000);
    let (mut sent, mut got, mut step) = (0, Vec::new(), 0);
    world.run_for(Duration::from_secs(120), |_| {
        sent += a.send(&mut sock, &bytes[sent..], None);
        step += 1;
        if step % reads == 0 {
            got.extend(b.recv(&mut child));
        }
        got.len() >= bytes.len()
    });
    assert!(got == bytes);
}

#[test]
fn a_chain_is_a_piece_of_the_stream() {
    for (parts, lose, reads) in [(2, 0, 1), (3, 53, 97), (7, 31, 5), (45, 0, 200)] {
        let mut world = World::with(parts == 3);
        let (mut a, mut b) = (world.a.admit(5, PARAMS), world.b.admit(7, PARAMS));
        chained(&mut world, parts);
        world.lose = lose;
        transfer(&mut world, &mut a, &mut b, reads);
        assert_eq!(world.b.counter("copy.rx-bytes"), 700_000, "one copy per received byte");
        assert_eq!(world.b.counter("drop.nic-bad-frames"), 0);
        assert!(world.b.driver.chains > 700_000 / 1448, "{} chains", world.b.driver.chains);
    }
}

#[test]
fn a_chain_is_lent_part_by_part() {
    let mut world = World::sharing();
    let (mut a, mut b) = (world.a.admit(5, PARAMS), world.b.admit(7, PARAMS));
    chained(&mut world, 3);
    let frames = world.b.free("frames").unwrap();
    transfer(&mut world, &mut a, &mut b, 1);
    let (lent, copied) =
        (world.b.counter("payload.rx-lent-bytes"), world.b.counter("copy.rx-bytes"));
    assert_eq!(lent + copied, 700_000);
    assert!(copied < 50_000, "{copied}");
    world.rest();
    assert!(world.b.free("frames").unwrap() >= frames, "every page came back");
}

/// Pushes a driver's call with an empty area, and hands the area over.
fn say(world: &mut World, chain: Chain, segments: Option<Segments>) {
    let driver = &mut world.a.driver;
    let slot = driver.fill.pop().unwrap().expect("an empty page");
    let area = driver.pool.take(FillSlot::decode(&slot).0).unwrap().hand_over(INET);
    let offload = RxOffload { verified: segments.is_some(), segments };
    let frame = RxFrame { area, offset: 0, len: 60, offload, chain };
    driver.rx.push(&frame.encode()).unwrap();
}

#[test]
fn broken_chains_are_counted_and_lose_no_page() {
    let mut world = World::new();
    let segments = Some(Segments { kind: SegmentKind::Tcp4, size: 60 });
    let free = world.a.free("frames").unwrap();
    let bad = |world: &mut World| {
        world.a.counter("drop.nic-bad-frames") + world.a.counter("drop.nic-bad-slots")
    };
    // A part without a beginning; a missing chain; a short chain; a chain of whole frames; a chain
    // without a super-segment.
    for (count, chain) in [
        vec![(Chain::Next, None)],
        vec![(Chain::First(MAX_MORE), segments)],
        vec![(Chain::First(3), segments), (Chain::Next, None)],
        vec![(Chain::First(2), segments), (Chain::Next, None), (Chain::ALONE, None)],
        vec![(Chain::First(1), None), (Chain::Next, None)],
    ]
    .into_iter()
    .enumerate()
    {
        for (chain, segments) in chain {
            say(&mut world, chain, segments);
        }
        world.step();
        world.rest();
        assert_eq!(bad(&mut world), count as u64 + 1);
        assert_eq!(world.a.free("frames"), Some(free), "pages go round");
    }
}
