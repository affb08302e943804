use abi::frame::{DriverCall, HEAD_PAGES, MAX_PIECES, Piece};
use abi::nic::{LAYOUT, PRIORITY_RING};
use abi::offload::{Checksum, MAX_SUPER_FRAME, RxOffload, SegmentKind, Segments, TxOffload};
use proptest::prelude::*;
use shm::{AreaName, Backing, Pool, Slot};

use super::*;
use crate::testing::{Fake, SharedWire};

mod gro;
mod gso;
mod in_place;
mod unsolicited;

const MAC: [u8; 6] = [2, 0, 0, 0xaa, 0xbb, 0xcc];

/// The inet server's end of a frame region, moved by hand.
struct Inet {
    pool: Pool,
    heads: Pool,
    fill: Producer,
    rx: Consumer,
    tx: Producer,
    tx_priority: Producer,
}

impl Inet {
    fn empty_page(&mut self) -> AreaName {
        let name = self.pool.alloc(LAYOUT.area_pages).unwrap().hand_over(NIC);
        self.fill.push(&FillSlot(name).encode()).unwrap();
        name
    }

    fn head(&mut self, bytes: &[u8]) -> AreaName {
        let area = self.heads.alloc(HEAD_PAGES).unwrap();
        area.write(0, bytes).unwrap();
        area.hand_over(NIC)
    }

    fn send(&mut self, area: AreaName, len: u16, pieces: &[Piece]) {
        self.tx.push(&descriptor(area, len, pieces)).unwrap();
    }

    fn send_first(&mut self, area: AreaName, len: u16, pieces: &[Piece]) {
        self.tx_priority.push(&descriptor(area, len, pieces)).unwrap();
    }

    fn call(&mut self) -> Option<DriverCall> {
        self.rx.pop().unwrap().map(|slot| DriverCall::decode(&slot).unwrap())
    }

    /// The next frame handed over.
    fn handed(&mut self) -> Option<RxFrame> {
        match self.call()? {
            DriverCall::EthInput(frame) => Some(frame),
            DriverCall::IfAttach(attach) => panic!("{attach:?} where a frame was expected"),
        }
    }

    /// The bytes of the next received frame; its page goes back to the pool.
    fn received(&mut self) -> Option<Vec<u8>> {
        let frame = self.handed()?;
        let area = self.pool.take(frame.area).expect("the page was handed over");
        let start = frame.offset as usize;
        Some(area.bytes()[start..start + frame.len as usize].to_vec())
    }
}

/// The descriptor of a frame.
fn descriptor(area: AreaName, len: u16, pieces: &[Piece]) -> Slot {
    let mut frame = TxFrame {
        area,
        offset: 0,
        len,
        count: u8::try_from(pieces.len()).unwrap(),
        pieces: [Piece::default(); MAX_PIECES],
        offload: TxOffload::NONE,
        shared: false,
    };
    frame.pieces[..pieces.len()].copy_from_slice(pieces);
    frame.encode()
}

fn set_up() -> (Inet, Frames<Fake>, SharedWire) {
    set_up_with(Features::NONE)
}

fn set_up_with(features: Features) -> (Inet, Frames<Fake>, SharedWire) {
    let (region, _fd) = Region::create("frames", LAYOUT.len, Backing::Small).unwrap();
    let (mut fake, wire) = Fake::new();
    fake.features = features;
    let mut inet = Inet {
        pool: Pool::create(&region, LAYOUT.pool, INET).unwrap(),
        heads: Pool::create(&region, LAYOUT.heads, INET).unwrap(),
        fill: Producer::attach(&region, LAYOUT.fill, RING).unwrap(),
        rx: Consumer::attach(&region, LAYOUT.rx, RING).unwrap(),
        tx: Producer::attach(&region, LAYOUT.tx, RING).unwrap(),
        tx_priority: Producer::attach(&region, LAYOUT.tx_priority, PRIORITY_RING).unwrap(),
    };
    let frames = Frames::attach(&region, &LAYOUT, fake, MAC, 1500).unwrap();
    let Some(DriverCall::IfAttach(attach)) = inet.call() else { panic!("no ifattach") };
    assert_eq!((attach.mac, attach.mtu), ([2, 0, 0, 0xaa, 0xbb, 0xcc], 1500));
    (inet, frames, wire)
}

fn counter(frames: &Frames<Fake>, name: &str) -> u64 {
    let mut found = None;
    frames.counters(&mut |n, value| {
        if n == name {
            found = Some(value);
        }
    });
    found.unwrap_or_else(|| panic!("no counter {name}"))
}

fn client_region() -> Arc<Region> {
    let (region, _fd) = Region::create("client", 64 * shm::PAGE, Backing::Small).unwrap();
    region
}

#[test]
fn received_frames_are_handed_over_in_order() {
    let (mut inet, mut frames, wire) = set_up();
    for _ in 0..200 {
        inet.empty_page();
    }
    wire.borrow_mut().incoming.extend((0..150_u8).map(|n| vec![n; 60 + usize::from(n)]));
    while frames.step().unwrap() {}
    for n in 0..150_u8 {
        assert_eq!(inet.received().unwrap(), vec![n; 60 + usize::from(n)]);
    }
    assert!(inet.received().is_none());
    assert_eq!(counter(&frames, "nic.rx-packets"), 150);
    assert_eq!(counter(&frames, "nic.rx-bytes"), (0..150).map(|n| 60 + n).sum::<u64>());
    drop(frames);
    let kept = inet.pool.reclaim(NIC) / u32::from(LAYOUT.area_pages);
    assert_eq!(kept, 50, "49 in the fill ring and one in the driver's hand");
    assert_eq!(inet.pool.free_pages(), LAYOUT.pool.pages);
}

#[test]
fn a_step_is_bounded() {
    let (mut inet, mut frames, wire) = set_up();
    assert!(!frames.step().unwrap());
    for _ in 0..200 {
        inet.empty_page();
        let head = inet.head(&[1; 60]);
        inet.send(head, 60, &[]);
    }
    wire.borrow_mut().incoming.extend((0..200).map(|_| vec![0; 60]));
    assert!(frames.step().unwrap());
    assert_eq!(inet.rx.len().unwrap() as usize, BATCH);
    assert_eq!(inet.tx.consumed().unwrap() as usize, output::BATCH);
}

/// A client that waits for an answer does not wait for all that another one sends.
#[test]
fn while_clients_share_the_device_a_step_sends_less() {
    let (mut inet, mut frames, _wire) = set_up();
    for _ in 0..200 {
        let head = inet.head(&[1; 60]);
        let mut slot = TxFrame::decode(&descriptor(head, 60, &[])).unwrap();
        slot.shared = true;
        inet.tx.push(&slot.encode()).unwrap();
    }
    assert!(frames.step().unwrap() && frames.answers_are_awaited());
    assert_eq!(inet.tx.consumed().unwrap() as usize, output::SHARED_BATCH);
    while frames.step().unwrap() {}
    assert!(!frames.answers_are_awaited());
}

#[test]
fn priority_frames_leave_first_and_the_others_get_their_turn() {
    let (mut inet, mut frames, wire) = set_up();
    for number in 0..40 {
        let head = inet.head(&[number; 60]);
        inet.send(head, 60, &[]);
    }
    for number in 100..140 {
        let head = inet.head(&[number; 60]);
        inet.send_first(head, 60, &[]);
    }
    while frames.step().unwrap() {}
    let sent: Vec<_> = wire.borrow().sent.iter().map(|frame| frame[0]).collect();
    let mut expected: Vec<_> = (100..116).collect();
    expected.push(0);
    expected.extend(116..132);
    expected.push(1);
    expected.extend(132..140);
    expected.extend(2..40);
    assert_eq!(sent, expected);
    assert_eq!((inet.tx.consumed().unwrap(), inet.tx_priority.consumed().unwrap()), (40, 40));
}

#[test]
fn without_an_empty_page_nothing_is_read() {
    let (mut inet, mut frames, wire) = set_up();
    wire.borrow_mut().incoming.extend([vec![1; 60], vec![2; 60]]);
    assert!(!frames.step().unwrap());
    assert!(!frames.can_receive().unwrap() && !frames.has_work().unwrap());
    inet.empty_page();
    assert!(frames.has_work().unwrap(), "the device may have been readable all along");
    assert!(frames.step().unwrap());
    assert_eq!(inet.received().unwrap(), [1; 60]);
    assert_eq!(wire.borrow().incoming.len(), 1);
}

#[test]
fn a_full_rx_ring_holds_the_device_back() {
    let (mut inet, mut frames, wire) = set_up();
    wire.borrow_mut().incoming.extend((0..RING + 10).map(|_| vec![0; 60]));
    for _ in 0..RING {
        inet.empty_page();
    }
    while frames.step().unwrap() {}
    for _ in 0..10 {
        inet.empty_page();
    }
    while frames.step().unwrap() {}
    assert_eq!(inet.rx.len().unwrap(), RING);
    assert!(!frames.can_receive().unwrap());
    assert_eq!(wire.borrow().incoming.len(), 10);
    assert!(inet.received().is_some());
    while frames.step().unwrap() {}
    assert_eq!(wire.borrow().incoming.len(), 9);
}

#[test]
fn runts_are_counted_and_cost_no_page() {
    let (mut inet, mut frames, wire) = set_up();
    inet.empty_page();
    wire.borrow_mut().incoming.extend([vec![1; 13], vec![2; 14]]);
    while frames.step().unwrap() {}
    assert_eq!(inet.received().unwrap(), [2; 14]);
    assert_eq!(counter(&frames, "nic.rx-runts"), 1);
}

#[test]
fn a_sent_frame_is_its_head_and_its_pieces() {
    let (mut inet, mut frames, wire) = set_up();
    let (one, two) = (client_region(), client_region());
    one.write(4096, &[1; 700]).unwrap();
    two.write(9000, &[2; 100]).unwrap();
    frames.add_client(5, one);
    frames.add_client(6, two);
    let head = inet.head(&[9; 54]);
    let pieces =
        [Piece { client: 5, len: 700, offset: 4096 }, Piece { client: 6, len: 100, offset: 9000 }];
    inet.send(head, 54, &pieces);
    assert!(frames.step().unwrap());
    let expected = [vec![9; 54], vec![1; 700], vec![2; 100]].concat();
    assert_eq!(wire.borrow().sent, [expected]);
    assert_eq!(counter(&frames, "nic.tx-bytes"), 854);
    assert_eq!(inet.tx.consumed().unwrap(), 1);
    drop(inet.heads.take(head).expect("the head page came back"));
    assert_eq!(inet.heads.free_pages(), LAYOUT.heads.pages);
}

#[test]
fn without_room_the_ring_does_not_move_and_nothing_is_lost() {
    let (mut inet, mut frames, wire) = set_up();
    wire.borrow_mut().room = 2;
    for n in 0..5 {
        let head = inet.head(&[n; 60]);
        inet.send(head, 60, &[]);
    }
    while frames.step().unwrap() {}
    assert_eq!(inet.tx.consumed().unwrap(), 2);
    assert!(frames.wants_room() && !frames.has_work().unwrap());
    wire.borrow_mut().room = 10;
    while frames.step().unwrap() {}
    assert_eq!(inet.tx.consumed().unwrap(), 5);
    assert!(!frames.wants_room());
    let sent: Vec<u8> = wire.borrow().sent.iter().map(|frame| frame[0]).collect();
    assert_eq!(sent, [0, 1, 2, 3, 4]);
}

#[test]
fn a_client_that_goes_while_its_frame_waits_takes_the_frame_along() {
    let (mut inet, mut frames, wire) = set_up();
    frames.add_client(5, client_region());
    wire.borrow_mut().room = 0;
    let head = inet.head(&[9; 54]);
    inet.send(head, 54, &[Piece { client: 5, len: 10, offset: 0 }]);
    frames.step().unwrap();
    frames.remove_client(5);
    wire.borrow_mut().room = 1;
    frames.step().unwrap();
    assert_eq!(counter(&frames, "nic.tx-bad-piece"), 1);
    assert_eq!((inet.tx.consumed().unwrap(), wire.borrow().sent.len()), (1, 0));
    assert!(inet.heads.take(head).is_ok());
}

#[test]
fn bad_frames_are_counted_by_cause_and_their_pages_come_back() {
    let (mut inet, mut frames, wire) = set_up();
    frames.add_client(5, client_region());
    let piece = Piece { client: 5, len: 100, offset: 0 };
    let bad = [
        (60, vec![Piece { client: 6, ..piece }], "nic.tx-bad-piece"),
        (60, vec![Piece { offset: 64 * 4096 - 99, ..piece }], "nic.tx-bad-piece"),
        (60, vec![Piece { offset: u32::MAX, ..piece }], "nic.tx-bad-piece"),
        (4097, vec![], "nic.tx-bad-area"),
        (13, vec![], "nic.tx-bad-length"),
        (13, vec![piece], "nic.tx-bad-length"),
        (14, vec![Piece { len: 1505, ..piece }], "nic.tx-bad-length"),
    ];
    for (number, (len, pieces, cause)) in bad.iter().enumerate() {
        let before = counter(&frames, cause);
        let head = inet.head(&[0; 60]);
        inet.send(head, *len, pieces);
        frames.step().unwrap();
        assert_eq!(counter(&frames, cause), before + 1, "case {number}: {cause}");
        drop(inet.heads.take(head).unwrap_or_else(|e| panic!("case {number}: {e}")));
    }
    let not_handed_over = inet.heads.alloc(1).unwrap();
    inet.send(not_handed_over.name(), 60, &[]);
    inet.tx.push(&[0, 7 << 48, 0, 0, 0, 0, 0, 0]).unwrap();
    frames.step().unwrap();
    assert_eq!(counter(&frames, "nic.tx-bad-area"), 2);
    assert_eq!(counter(&frames, "nic.tx-bad-slot"), 1);
    drop(not_handed_over);
    assert_eq!(inet.tx.consumed().unwrap(), bad.len() as u64 + 2);
    assert_eq!(wire.borrow().sent.len(), 0);
    assert_eq!(inet.heads.free_pages(), LAYOUT.heads.pages);
}

#[test]
fn only_what_the_device_does_is_left_to_it() {
    let checksum = Some(Checksum { start: 34, offset: 16 });
    let of = |kind| Some(Segments { kind, size: 1448 });
    let summed = TxOffload { checksum, segments: None };
    let four = TxOffload { checksum, segments: of(SegmentKind::Tcp4) };
    let six = TxOffload { checksum, segments: of(SegmentKind::Tcp6) };
    let (sums, cuts) = (Features::TX_CHECKSUM, Features::TX_CHECKSUM.with(Features::TSO4));
    let (bad, long) = (Some("nic.tx-bad-offload"), Some("nic.tx-bad-length"));
    for (features, offload, payload, cause) in [
        (Features::NONE, summed, 100, None),
        (Features::NONE, four, 1505, bad),
        (sums, summed, 100, None),
        (sums, summed, 1505, long),
        (sums, four, 1505, bad),
        (cuts, six, 1505, bad),
        (cuts, four, 65_495, None),
        (cuts, four, 65_535, long),
        (cuts, TxOffload::NONE, 1505, long),
    ] {
        let (mut inet, mut frames, wire) = set_up_with(features);
        frames.add_client(5, client_region());
        let area = inet.head(&[9; 54]);
        let mut pieces = [Piece::default(); MAX_PIECES];
        pieces[0] = Piece { client: 5, len: payload, offset: 0 };
        let frame = TxFrame { area, offset: 0, len: 54, count: 1, pieces, offload, shared: false };
        inet.tx.push(&frame.encode()).unwrap();
        frames.step().unwrap();
        let told = cause.map_or(1, |cause| counter(&frames, cause));
        assert_eq!(told, 1, "{features:?} {offload:?} {payload}");
        let sent: Vec<_> = wire.borrow().sent.iter().map(Vec::len).collect();
        let expected = if cause.is_none() { vec![54 + usize::from(payload)] } else { vec![] };
        assert_eq!(sent, expected);
        let left = if features == Features::NONE { TxOffload::NONE } else { offload };
        let expected = if cause.is_none() { vec![left] } else { vec![] };
        assert_eq!(wire.borrow().left, expected);
        assert!(inet.heads.take(area).is_ok());
    }
}

#[test]
fn a_super_segment_lies_in_one_area() {
    let layout = NicLayout::new(true);
    let (region, _fd) = Region::create("frames", layout.len, Backing::Small).unwrap();
    let pool = Pool::create(&region, layout.pool, INET).unwrap();
    let mut fill = Producer::attach(&region, layout.fill, RING).unwrap();
    let mut rx = Consumer::attach(&region, layout.rx, RING).unwrap();
    let (mut fake, wire) = Fake::new();
    fake.features = Features::RX_CHECKSUM.with(Features::GRO);
    let mut frames = Frames::attach(&region, &layout, fake, MAC, 1500).unwrap();
    let name = pool.alloc(layout.area_pages).unwrap().hand_over(NIC);
    fill.push(&FillSlot(name).encode()).unwrap();
    let bytes: Vec<u8> = (0..MAX_SUPER_FRAME).map(|n| (n % 251) as u8).collect();
    let segments = Some(Segments { kind: SegmentKind::Tcp6, size: 1428 });
    wire.borrow_mut().incoming.push_back(bytes.clone());
    wire.borrow_mut().known = RxOffload { verified: true, segments };
    frames.step().unwrap();
    let mut call = || DriverCall::decode(&rx.pop().unwrap().unwrap()).unwrap();
    let DriverCall::IfAttach(attach) = call() else { panic!("no ifattach") };
    let registered = Features::RX_CHECKSUM.with(Features::GRO).with(Features::GSO);
    assert_eq!(attach.features, registered);
    let DriverCall::EthInput(frame) = call() else { panic!("no ethinput") };
    assert_eq!(frame.offload, RxOffload { verified: true, segments });
    let area = pool.take(frame.area).unwrap();
    assert!(area.bytes()[..frame.len as usize] == bytes);
}

#[test]
fn a_refused_frame_is_dropped_and_a_lost_device_is_an_error() {
    let (mut inet, mut frames, wire) = set_up();
    let head = inet.head(&[0; 60]);
    inet.send(head, 60, &[]);
    wire.borrow_mut().error = Some(libc::EIO);
    assert!(frames.step().unwrap());
    assert_eq!(counter(&frames, "nic.tx-device-errors"), 1);
    assert!(inet.heads.take(head).is_ok());
    // No page to read into: only a probe learns of the loss.
    wire.borrow_mut().error = Some(libc::EBADFD);
    frames.step().unwrap();
    assert!(matches!(frames.probe(), Err(DriverError::DeviceLost(_))));
    inet.empty_page();
    wire.borrow_mut().error = Some(libc::EBADFD);
    assert!(matches!(frames.step(), Err(DriverError::DeviceLost(_))));
}

#[test]
fn a_successor_goes_on_where_the_dead_driver_stopped() {
    let (region, _fd) = Region::create("frames", LAYOUT.len, Backing::Small).unwrap();
    let pool = Pool::create(&region, LAYOUT.pool, INET).unwrap();
    let mut fill = Producer::attach(&region, LAYOUT.fill, RING).unwrap();
    let mut rx = Consumer::attach(&region, LAYOUT.rx, RING).unwrap();
    for round in 0..3 {
        let (fake, wire) = Fake::new();
        let mut frames = Frames::attach(&region, &LAYOUT, fake, MAC, 1500).unwrap();
        let name = pool.alloc(1).unwrap().hand_over(NIC);
        fill.push(&FillSlot(name).encode()).unwrap();
        wire.borrow_mut().incoming.push_back(vec![round; 60]);
        frames.step().unwrap();
        let calls: Vec<DriverCall> = std::iter::from_fn(|| rx.pop().unwrap())
            .map(|slot| DriverCall::decode(&slot).unwrap())
            .collect();
        assert!(matches!(calls[..], [DriverCall::IfAttach(_), DriverCall::EthInput(_)]));
    }
}

#[derive(Debug, Clone)]
enum Act {
    Page,
    Frame { len: u16, pieces: Vec<Piece> },
    Incoming(usize),
    FillSlot(Slot),
    TxSlot(Slot),
    Room(usize),
    Step,
}

fn piece() -> impl Strategy<Value = Piece> {
    (
        prop_oneof![Just(5_u16), any::<u16>()],
        any::<u16>(),
        prop_oneof![0_u32..300_000, any::<u32>()],
    )
        .prop_map(|(client, len, offset)| Piece { client, len: len % 2000, offset })
}

/// Slots that look somewhat like descriptors, and slots that do not.
fn slot() -> impl Strategy<Value = Slot> {
    let near = (0_u64..8, 0_u64..3, 0_u64..70, 0_u64..8, 0_u64..3).prop_map(
        |(page, generation, len, count, pages)| {
            [page | generation << 32, len << 16 | pages << 32 | count << 48, 0, 0, 0, 0, 0, 0]
        },
    );
    prop_oneof![near, any::<Slot>()]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => Just(Act::Page),
        3 => (0..4200_u16, prop::collection::vec(piece(), 0..=MAX_PIECES))
            .prop_map(|(len, pieces)| Act::Frame { len, pieces }),
        2 => (0..1600_usize).prop_map(Act::Incoming),
        1 => slot().prop_map(Act::FillSlot),
        1 => slot().prop_map(Act::TxSlot),
        1 => (0..5_usize).prop_map(Act::Room),
        4 => Just(Act::Step),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever the rings say, the driver goes on, and no page is lost.
    #[test]
    fn garbage_never_ends_the_driver_nor_loses_a_page(acts in prop::collection::vec(act(), 1..80)) {
        let (mut inet, mut frames, wire) = set_up();
        frames.add_client(5, client_region());
        let (mut names, mut heads) = (Vec::new(), Vec::new());
        for act in acts {
            match act {
                Act::Page => names.push(inet.empty_page()),
                Act::Frame { len, pieces } => {
                    let head = inet.head(&[0; 60]);
                    inet.send(head, len, &pieces);
                    heads.push(head);
                }
                Act::Incoming(len) => wire.borrow_mut().incoming.push_back(vec![0; len]),
                Act::FillSlot(slot) => inet.fill.push(&slot).unwrap(),
                Act::TxSlot(slot) => inet.tx.push(&slot).unwrap(),
                Act::Room(room) => wire.borrow_mut().room = room,
                Act::Step => _ = frames.step().unwrap(),
            }
        }
        wire.borrow_mut().room = usize::MAX;
        while frames.step().unwrap() {}
        drop(frames);
        // Garbage may have named any page for any use, so the inet server takes back what it can.
        names.into_iter().for_each(|name| drop(inet.pool.take(name)));
        heads.into_iter().for_each(|name| drop(inet.heads.take(name)));
        prop_assert_eq!(inet.heads.reclaim(NIC), 0);
        inet.heads.reclaim(INET);
        prop_assert_eq!(inet.heads.free_pages(), LAYOUT.heads.pages);
        // What was not received into, and one page in the driver's hand; all else was handed back.
        let unused = RING - inet.fill.free().unwrap();
        let kept = inet.pool.reclaim(NIC).div_ceil(LAYOUT.area_pages.into());
        prop_assert!(kept <= unused + 1, "the driver kept {} areas, {} unused", kept, unused);
        inet.pool.reclaim(INET);
        prop_assert_eq!(inet.pool.free_pages(), LAYOUT.pool.pages);
    }
}
