//! Frames that the kernel puts into pages of the pool, seen from the inet server's end.

use abi::frame::{Chain, MAX_MORE};
use abi::nic::{PRIORITY_RING, UMEM_STOCK};
use abi::offload::SegmentKind;
use abi::stages::TraceReader;

use super::gro::Segment;
use super::*;

const UMEM: NicLayout = NicLayout::for_umem();

fn set_up_in_place() -> (Inet, Frames<Fake>, SharedWire) {
    let (region, _fd) = Region::create("frames", UMEM.len, Backing::Small).unwrap();
    let (mut fake, wire) = Fake::new();
    fake.features = Features::RX_IN_PLACE;
    wire.borrow_mut().pool = Some((Arc::clone(&region), UMEM.pool.pages_at));
    let mut inet = Inet {
        pool: Pool::create(&region, UMEM.pool, INET).unwrap(),
        heads: Pool::create(&region, UMEM.heads, INET).unwrap(),
        fill: Producer::attach(&region, UMEM.fill, RING).unwrap(),
        rx: Consumer::attach(&region, UMEM.rx, RING).unwrap(),
        tx: Producer::attach(&region, UMEM.tx, RING).unwrap(),
        tx_priority: Producer::attach(&region, UMEM.tx_priority, PRIORITY_RING).unwrap(),
    };
    let frames = Frames::attach(&region, &UMEM, fake, MAC, 1500).unwrap();
    let Some(DriverCall::IfAttach(attach)) = inet.call() else { panic!("no ifattach") };
    assert!(attach.features.has(Features::RX_IN_PLACE.with(Features::GRO)));
    (inet, frames, wire)
}

/// Offers the driver as many empty pages as there is room for.
fn restock(inet: &mut Inet) {
    while inet.fill.free().unwrap() > 0 {
        let name = inet.pool.alloc(1).unwrap().hand_over(NIC);
        inet.fill.push(&FillSlot(name).encode()).unwrap();
    }
}

/// A frame: its parts with their offload state. The areas go back to the pool.
fn frame(inet: &mut Inet) -> Option<(Vec<u8>, RxOffload, Vec<Vec<u8>>)> {
    let part = |inet: &mut Inet| {
        let said = inet.handed()?;
        let area = inet.pool.take(said.area).expect("the page was handed over");
        let start = said.offset as usize;
        Some((area.bytes()[start..start + said.len as usize].to_vec(), said))
    };
    let (first, said) = part(inet)?;
    let Chain::First(more) = said.chain else { panic!("{said:?} continues nothing") };
    let behind = (0..more).map(|_| {
        let (bytes, said) = part(inet).expect("all of a chain is published at once");
        assert_eq!((said.chain, said.offload), (Chain::Next, RxOffload::NONE));
        bytes
    });
    Some((first, said.offload, behind.collect()))
}

#[test]
fn a_frame_is_handed_over_where_the_kernel_has_put_it() {
    let (mut inet, mut frames, wire) = set_up_in_place();
    restock(&mut inet);
    assert!(!frames.step().unwrap());
    assert_eq!(wire.borrow().posted.len() as u32, RING);
    restock(&mut inet);
    assert!(frames.has_work().unwrap() && !frames.step().unwrap());
    restock(&mut inet);
    assert!(!frames.step().unwrap() && !frames.has_work().unwrap());
    assert_eq!(wire.borrow().posted.len() as u32, UMEM_STOCK, "the others stay in the ring");
    let mut sent = 0_u32;
    for round in 0..200_u8 {
        wire.borrow_mut().incoming.extend((60..110).map(|len| vec![round; len]));
        while frames.step().unwrap() {}
        for len in 60..110 {
            let (bytes, offload, behind) = frame(&mut inet).unwrap();
            assert_eq!((bytes, offload), (vec![round; len], RxOffload::NONE));
            assert!(behind.is_empty());
            sent += 1;
        }
        restock(&mut inet);
    }
    assert_eq!(counter(&frames, "nic.rx-packets"), u64::from(sent));
    assert!(wire.borrow().posted.len() as u32 > UMEM_STOCK - 128);
    drop(frames);
    inet.pool.reclaim(NIC);
    assert_eq!(inet.pool.free_pages(), UMEM.pool.pages, "no page is lost");
}

#[test]
fn receives_are_marked() {
    let (mut inet, mut frames, wire) = set_up_in_place();
    let mut marks = TraceReader::attach(frames.region(), UMEM.trace).unwrap();
    marks.want(true);
    restock(&mut inet);
    while frames.step().unwrap() {}
    let mut stages = || -> Vec<TraceStage> {
        std::iter::from_fn(|| marks.take())
            .map(|mark| mark.stage)
            .filter(|stage| matches!(stage, TraceStage::Read | TraceStage::HandOver))
            .collect()
    };
    assert_eq!(stages(), [], "there was no frame");
    wire.borrow_mut().incoming.extend([vec![1; 60], vec![2; 60]]);
    while frames.step().unwrap() {}
    assert_eq!(stages(), [TraceStage::Read, TraceStage::HandOver].repeat(2));
}

#[test]
fn segments_are_joined_where_they_lie() {
    for v6 in [false, true] {
        let (mut inet, mut frames, wire) = set_up_in_place();
        restock(&mut inet);
        let mut parts = [(1000, 1400), (2400, 1400), (3800, 600), (9000, 700)]
            .map(|(seq, len)| Segment { v6, ..Segment::of(seq, len) });
        parts[1].flags |= 0x08;
        wire.borrow_mut().incoming.extend(parts.each_ref().map(Segment::build));
        while frames.step().unwrap() {}
        let (first, offload, behind) = frame(&mut inet).unwrap();
        let size = 1400;
        let kind = if v6 { SegmentKind::Tcp6 } else { SegmentKind::Tcp4 };
        let segments = Some(Segments { kind, size });
        assert_eq!(offload, RxOffload { verified: true, segments });
        let mut expected = parts[0].build();
        let flags = expected.len() - 1400 - 32 + 13;
        expected[flags] |= 0x08;
        assert_eq!(first, expected, "its headers are its own, but for PSH");
        assert_eq!(behind, [parts[1].payload.clone(), parts[2].payload.clone()]);
        let (alone, offload, behind) = frame(&mut inet).unwrap();
        assert_eq!((alone, behind.len()), (parts[3].build(), 0));
        assert_eq!(offload, RxOffload { verified: true, segments: None });
        assert!(frame(&mut inet).is_none());
        assert_eq!(counter(&frames, "nic.rx-joined"), 2);
    }
}

#[test]
fn a_chain_ends_where_the_ring_says() {
    let (mut inet, mut frames, wire) = set_up_in_place();
    restock(&mut inet);
    let long = u32::from(MAX_MORE) + 11;
    let segments = (0..long).map(|n| Segment::of(1000 + n * 200, 200).build());
    wire.borrow_mut().incoming.extend(segments);
    while frames.step().unwrap() {}
    let lengths: Vec<_> =
        std::iter::from_fn(|| frame(&mut inet)).map(|(_, _, behind)| behind.len()).collect();
    assert_eq!(lengths, [usize::from(MAX_MORE), 9]);
}

#[test]
fn without_room_to_tell_of_a_frame_it_stays_with_the_kernel() {
    let (mut inet, mut frames, wire) = set_up_in_place();
    restock(&mut inet);
    while frames.step().unwrap() {}
    restock(&mut inet);
    while frames.step().unwrap() {}
    let segments = (0..RING + 50).map(|n| Segment::of(n * 200, 200).build());
    wire.borrow_mut().incoming.extend(segments);
    while frames.step().unwrap() {}
    assert_eq!(inet.rx.len().unwrap(), RING);
    assert_eq!(wire.borrow().incoming.len(), 50);
    let mut payload = 0;
    while let Some((first, _, behind)) = frame(&mut inet) {
        payload += first.len() - 66 + behind.iter().map(Vec::len).sum::<usize>();
    }
    assert_eq!(payload, RING as usize * 200);
    while frames.step().unwrap() {}
    assert_eq!(wire.borrow().incoming.len(), 0);
}

#[test]
fn what_lies_in_no_posted_page_is_counted_and_what_is_no_frame_loses_no_page() {
    let (mut inet, mut frames, wire) = set_up_in_place();
    restock(&mut inet);
    while frames.step().unwrap() {}
    for at in [usize::MAX / 2, UMEM.pool.pages as usize * shm::PAGE, 9 * shm::PAGE + 5000] {
        wire.borrow_mut().posted.push_front(at);
        wire.borrow_mut().incoming.push_back(vec![1; 60]);
        while frames.step().unwrap() {}
    }
    // A page that was not posted, or is said to have a frame twice, and one that ends outside.
    let twice = wire.borrow().posted[0];
    wire.borrow_mut().posted.push_front(twice);
    wire.borrow_mut().incoming.extend([vec![2; 60], vec![3; 60]]);
    while frames.step().unwrap() {}
    assert!(counter(&frames, "nic.rx-bad-place") >= 3);
    let runts = counter(&frames, "nic.rx-runts");
    wire.borrow_mut().incoming.extend([vec![4; 13], vec![5; 4000]]);
    while frames.step().unwrap() {}
    assert_eq!(counter(&frames, "nic.rx-runts"), runts + 2);
    while frame(&mut inet).is_some() {}
    drop(frames);
    inet.pool.reclaim(NIC);
    assert_eq!(inet.pool.free_pages(), UMEM.pool.pages);
}

#[test]
fn pages_of_a_device_that_was_closed_are_posted_to_the_next_one() {
    let (mut inet, mut frames, wire) = set_up_in_place();
    for _ in 0..3 {
        restock(&mut inet);
        while frames.step().unwrap() {}
    }
    let free = inet.pool.free_pages();
    wire.borrow_mut().error = Some(libc::ENODEV);
    assert!(matches!(frames.step(), Err(DriverError::DeviceLost(_))));
    let lost: Vec<_> = wire.borrow_mut().posted.drain(..).collect();
    frames.device_replaced();
    wire.borrow_mut().incoming.push_back(vec![7; 60]);
    while frames.step().unwrap() {}
    let mut again: Vec<_> = wire.borrow().posted.iter().copied().collect();
    let (bytes, ..) = frame(&mut inet).unwrap();
    assert_eq!(bytes, [7; 60]);
    again.sort_unstable();
    assert!(again.iter().all(|page| lost.contains(page)));
    assert_eq!(again.len(), UMEM_STOCK as usize - 1);
    assert_eq!(inet.pool.free_pages(), free + 1);
}
