use abi::offload::{Checksum, SegmentKind, Segments};
use proptest::prelude::*;

use super::*;

const ALL: Features = Features::TX_CHECKSUM
    .with(Features::RX_CHECKSUM)
    .with(Features::TSO4)
    .with(Features::TSO6)
    .with(Features::GRO);

struct Pair {
    region: Arc<Region>,
    a: Link,
    b: Link,
    /// What wakes each.
    bells: [OwnedFd; 2],
}

fn pair(features: Features) -> Pair {
    let (region, fd) = create().unwrap();
    let (to_b, b_hears) = shm::doorbell().unwrap();
    let (to_a, a_hears) = shm::doorbell().unwrap();
    let twice = |fd: OwnedFd| (fd.try_clone().unwrap(), fd);
    let a = Link::new(&region, End::Listening, features, twice(to_b)).unwrap();
    let theirs = map(&fd).unwrap();
    let b = Link::new(&theirs, End::Connecting, features, twice(to_a)).unwrap();
    Pair { region, a, b, bells: [a_hears, b_hears] }
}

fn send(link: &mut Link, bytes: &[u8]) -> bool {
    let (head, rest) = bytes.split_at(bytes.len().min(14));
    link.transmit(&[Part::local(head), Part::local(rest)], TxOffload::NONE).unwrap()
}

fn receive(link: &mut Link) -> Option<Vec<u8>> {
    let mut into = vec![0; MAX_SUPER_FRAME];
    let received = link.receive(&mut into).unwrap()?;
    into.truncate(received.len);
    Some(into)
}

/// Was this bell rung?
fn rung(bell: &OwnedFd) -> bool {
    rustix::net::recv(bell, &mut [0_u8; 8], rustix::net::RecvFlags::DONTWAIT).is_ok()
}

#[test]
fn frames_go_both_ways_in_order() {
    let Pair { mut a, mut b, .. } = pair(Features::NONE);
    assert!(send(&mut a, &[1; 60]) && send(&mut a, &[2; 1514]) && send(&mut b, &[3; 65_553]));
    assert_eq!(receive(&mut b), None, "not before the batch ends");
    a.flush();
    b.flush();
    assert_eq!(receive(&mut b), Some(vec![1; 60]));
    assert_eq!(receive(&mut b), Some(vec![2; 1514]));
    assert_eq!(receive(&mut b), None);
    assert_eq!(receive(&mut a), Some(vec![3; 65_553]));
}

#[test]
fn pieces_of_other_regions_are_gathered() {
    let Pair { mut a, mut b, .. } = pair(Features::NONE);
    let (client, _fd) = Region::create("client", 8192, Backing::Small).unwrap();
    client.write(4000, b"payload across pages").unwrap();
    let piece = Part::shared(&client, 4000, 20).unwrap();
    assert!(a.transmit(&[Part::local(&[7; 14]), piece], TxOffload::NONE).unwrap());
    a.flush();
    assert_eq!(receive(&mut b), Some([&[7; 14][..], b"payload across pages"].concat()));
}

#[test]
fn a_full_link_takes_no_more_and_tells_when_there_is_room() {
    for len in [60, 1514, 65_553] {
        let Pair { mut a, mut b, bells, .. } = pair(Features::NONE);
        let mut sent = 0_u32;
        while send(&mut a, &vec![sent as u8; len]) {
            sent += 1;
        }
        assert!(sent == RING || sent as usize * (len + ALIGN) > STORE - len - ALIGN, "{sent}");
        assert!(a.prepare_sleep(true).unwrap(), "nothing to do but to wait for room");
        assert!(b.prepare_sleep(false).unwrap());
        for n in 0..sent {
            assert_eq!(receive(&mut b), Some(vec![n as u8; len]));
        }
        assert_eq!(receive(&mut b), None);
        assert!(rung(&bells[0]), "there is room for {len}");
        assert!(send(&mut a, &vec![9; len]));
        // An end that does not wait for room hears nothing of it.
        a.flush();
        assert!(receive(&mut b).is_some() && receive(&mut b).is_none() && !rung(&bells[0]));
    }
}

#[test]
fn only_who_sleeps_is_woken() {
    let Pair { mut a, mut b, bells, .. } = pair(Features::NONE);
    send(&mut a, &[1; 60]);
    a.flush();
    assert!(!rung(&bells[1]));
    assert!(!b.prepare_sleep(true).unwrap(), "a frame is here");
    assert!(receive(&mut b).is_some() && b.prepare_sleep(true).unwrap());
    send(&mut a, &[1; 60]);
    a.flush();
    send(&mut a, &[1; 60]);
    a.flush();
    assert!(rung(&bells[1]));
    assert!(!rung(&bells[1]), "once");
}

#[test]
fn what_is_left_to_the_device_is_told_to_the_receiver() {
    let Pair { mut a, mut b, .. } = pair(ALL);
    let segments = Some(Segments { kind: SegmentKind::Tcp6, size: 1440 });
    let checksum = Some(Checksum { start: 54, offset: 16 });
    let offload = TxOffload { checksum, segments };
    assert!(a.transmit(&[Part::local(&[1; 60_000])], offload).unwrap());
    a.flush();
    let received = b.receive(&mut vec![0; MAX_SUPER_FRAME]).unwrap().unwrap();
    assert_eq!(received, Received { len: 60_000, offload: RxOffload { verified: true, segments } });
}

#[test]
fn a_frame_longer_than_the_page_is_cut() {
    let Pair { mut a, mut b, .. } = pair(Features::NONE);
    send(&mut a, &[1; 5000]);
    a.flush();
    let mut page = [0; 4096];
    assert_eq!(b.receive(&mut page).unwrap(), Some(Received::plain(5000)));
    assert_eq!(page, [1; 4096]);
}

/// A slot that a hostile end puts into its ring.
fn forge(slot: [u64; 8], features: Features) -> Result<Option<Received>, LinkFault> {
    let Pair { region, mut b, .. } = pair(features);
    let mut ring = Producer::attach(&region, End::Connecting.ring(), RING).unwrap();
    ring.push(&slot).unwrap();
    b.receive(&mut vec![0; MAX_SUPER_FRAME])
}

#[test]
fn slots_are_allegations() {
    let store = STORE as u64;
    for (offset, len) in [
        (store, 0),
        (u64::MAX, 60),
        (store - 59, 60),
        (0, MAX_SUPER_FRAME as u64 + 1),
        (0, u64::MAX),
        (u64::MAX, u64::MAX),
    ] {
        let found = forge([offset, len, 0, 0, 0, 0, 0, 0], ALL);
        assert_eq!(found, Err(LinkFault::Frame { offset, len }));
    }
    let fits = forge([store - 60, 60, 0, 0, 0, 0, 0, 0], ALL);
    assert_eq!(fits, Ok(Some(Received::plain(60))));
    // Nonsense, and what the features do not have.
    let verified = RxOffload { verified: true, segments: None }.encode();
    let segments = Some(Segments { kind: SegmentKind::Tcp4, size: 1 });
    let super_frame = RxOffload { verified: true, segments }.encode();
    for (word, features) in [
        (u64::MAX, ALL),
        (verified, Features::NONE),
        (super_frame, Features::RX_CHECKSUM),
        (RxOffload { verified: false, segments }.encode(), Features::GRO),
    ] {
        let found = forge([0, 60, word, 0, 0, 0, 0, 0], features);
        assert_eq!(found, Err(LinkFault::Offload(word)));
    }
}

#[test]
fn impossible_indices_are_faults() {
    let index = |end: End, at: usize, value: u32| {
        let Pair { region, mut a, b, .. } = pair(Features::NONE);
        send(&mut a, &[1; 60]);
        a.flush();
        // The ring's first word is its producer's or its consumer's index, 64 bytes on the other.
        region.write(end.ring() + at, &value.to_ne_bytes()).unwrap();
        (a, b)
    };
    let mut faults = 0;
    for at in [0, 64] {
        let (mut a, mut b) = index(End::Connecting, at, 0x4000_0000);
        // In this order: a receiver that finds a frame writes its index.
        let sending = a.reclaim().is_err();
        let receiving = b.receive(&mut [0; 4096]).is_err();
        faults += usize::from(receiving) + usize::from(sending);
        assert!(receiving != sending, "one of the two reads the other's index");
    }
    assert_eq!(faults, 2);
}

#[test]
fn foreign_memory_is_not_believed() {
    let (_region, short) = Region::create("short", 4096, Backing::Small).unwrap();
    assert!(matches!(map(&short), Err(shm::RegionError::TooShort { .. })));
    let file = OwnedFd::from(tempfile::tempfile().unwrap());
    assert!(matches!(map(&file), Err(shm::RegionError::Unsealed)));
}

proptest! {
    /// Any lengths, any order of sending and receiving: every frame arrives once and whole.
    #[test]
    fn as_a_queue(steps in proptest::collection::vec((0..3_u8, 1..66_000_usize), 1..300)) {
        let Pair { mut a, mut b, .. } = pair(Features::NONE);
        let (mut queue, mut number) = (VecDeque::new(), 0_u8);
        for (what, len) in steps {
            if what < 2 {
                let frame = vec![number; len.min(MAX_SUPER_FRAME)];
                number = number.wrapping_add(1);
                if send(&mut a, &frame) {
                    queue.push_back(frame);
                } else {
                    prop_assert!(!queue.is_empty(), "an empty link has room");
                }
            } else {
                a.flush();
                prop_assert_eq!(receive(&mut b), queue.pop_front());
            }
        }
    }

    /// Whatever the other end writes, nothing panics and every frame is within its bounds.
    #[test]
    fn scribbled_memory_is_received_or_refused(
        words in proptest::collection::vec((0..RINGS_AT + 2 * RING_BYTES - 8, any::<u64>()), 1..60),
        small in proptest::collection::vec((0..8_usize, 0..70_000_u64), 1..30),
    ) {
        let Pair { region, mut a, mut b, .. } = pair(ALL);
        for n in 0..5 {
            send(&mut a, &[n; 100]);
        }
        a.flush();
        for (at, value) in small {
            let slot = End::Connecting.ring() + 128 + at * 64;
            region.write(slot, &value.to_ne_bytes()).unwrap();
        }
        let mut into = vec![0; MAX_SUPER_FRAME];
        while let Ok(Some(received)) = b.receive(&mut into) {
            prop_assert!(received.len <= MAX_SUPER_FRAME);
        }
        for (at, value) in words {
            region.write(at, &value.to_ne_bytes()).unwrap();
        }
        for _ in 0..RING {
            if !matches!(b.receive(&mut into), Ok(Some(_))) {
                break;
            }
        }
        let _ = a.transmit(&[Part::local(&[1; 100])], TxOffload::NONE);
        let _ = (a.prepare_sleep(true), b.prepare_sleep(true));
    }
}
