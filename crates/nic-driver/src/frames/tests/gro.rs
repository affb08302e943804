//! Segments that the driver joins ([`crate::gro`]), seen from the inet server's end.

use super::*;

const ACK: u8 = 0x10;
const PSH: u8 = 0x08;

/// A TCP segment with timestamps; its checksums are right when it is built.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub(super) v6: bool,
    pub(super) port: u16,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: u8,
    pub(super) window: u16,
    pub(super) echo: u32,
    pub(super) class: u8,
    pub(super) ttl: u8,
    pub(super) fragment: u16,
    pub(super) payload: Vec<u8>,
}

impl Segment {
    /// `len` bytes of a stream from `seq` on. Each byte is derived from its number.
    pub(super) fn of(seq: u32, len: usize) -> Self {
        let payload = (0..len).map(|n| byte(seq.wrapping_add(n as u32))).collect();
        Self {
            v6: false,
            port: 80,
            seq,
            ack: 7,
            flags: ACK,
            window: 500,
            echo: 9,
            class: 0,
            ttl: 64,
            fragment: 0x4000,
            payload,
        }
    }

    pub(super) fn build(&self) -> Vec<u8> {
        let mut frame = [&MAC[..], &[2, 0, 0, 0, 0, 1]].concat();
        let tcp = 32 + self.payload.len();
        if self.v6 {
            frame.extend_from_slice(&[0x86, 0xdd, 0x60 | self.class >> 4, self.class << 4, 0, 0]);
            frame.extend_from_slice(&u16::try_from(tcp).unwrap().to_be_bytes());
            frame.extend_from_slice(&[6, self.ttl]);
            frame.extend_from_slice(&[0xfd; 32]);
        } else {
            frame.extend_from_slice(&[8, 0, 0x45, self.class]);
            frame.extend_from_slice(&u16::try_from(20 + tcp).unwrap().to_be_bytes());
            frame.extend_from_slice(&[0x12, 0x34]);
            frame.extend_from_slice(&self.fragment.to_be_bytes());
            frame.extend_from_slice(&[self.ttl, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            let sum = !shm::checksum(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        let at = frame.len();
        frame.extend_from_slice(&self.port.to_be_bytes());
        frame.extend_from_slice(&[0x9c, 0x40]);
        frame.extend_from_slice(&self.seq.to_be_bytes());
        frame.extend_from_slice(&self.ack.to_be_bytes());
        frame.extend_from_slice(&[0x80, self.flags]);
        frame.extend_from_slice(&self.window.to_be_bytes());
        frame.extend_from_slice(&[0, 0, 0, 0, 1, 1, 8, 10, 0, 0, 0, 1]);
        frame.extend_from_slice(&self.echo.to_be_bytes());
        frame.extend_from_slice(&self.payload);
        let addresses = if self.v6 { at - 32 } else { at - 8 };
        let mut summed = frame[addresses..].to_vec();
        summed.extend_from_slice(&vec![0; summed.len() % 2]);
        summed.extend_from_slice(&[0, 6]);
        summed.extend_from_slice(&u16::try_from(tcp).unwrap().to_be_bytes());
        let sum = !shm::checksum(&summed);
        frame[at + 16..at + 18].copy_from_slice(&sum.to_be_bytes());
        frame
    }
}

fn byte(seq: u32) -> u8 {
    (seq % 251) as u8
}

/// Frames with their offload state, as the inet server gets them.
fn all(inet: &mut Inet) -> Vec<(Vec<u8>, RxOffload)> {
    std::iter::from_fn(|| {
        let frame = inet.handed()?;
        let area = inet.pool.take(frame.area).expect("the area was handed over");
        Some((area.bytes()[..frame.len as usize].to_vec(), frame.offload))
    })
    .collect()
}

fn pass(frames_in: &[Vec<u8>]) -> Vec<(Vec<u8>, RxOffload)> {
    let (mut inet, mut frames, wire) = set_up();
    (0..frames_in.len() + 1).for_each(|_| _ = inet.empty_page());
    wire.borrow_mut().incoming.extend(frames_in.iter().cloned());
    while frames.step().unwrap() {}
    assert_eq!(counter(&frames, "nic.rx-packets"), frames_in.len() as u64);
    let out = all(&mut inet);
    assert_eq!(counter(&frames, "nic.rx-joined"), (frames_in.len() - out.len()) as u64);
    out
}

#[test]
fn what_follows_is_joined_under_the_headers_of_the_whole() {
    for v6 in [false, true] {
        let mut parts = [(1000, 1400), (2400, 1400), (3800, 600)]
            .map(|(seq, len)| Segment { v6, ..Segment::of(seq, len) });
        parts[1].flags |= PSH;
        let out = pass(&parts.each_ref().map(Segment::build));
        let whole = Segment { v6, flags: ACK | PSH, ..Segment::of(1000, 3400) }.build();
        let kind = if v6 { SegmentKind::Tcp6 } else { SegmentKind::Tcp4 };
        let segments = Some(Segments { kind, size: 1400 });
        assert_eq!(out.len(), 1);
        let (mut frame, offload) = out[0].clone();
        assert_eq!(offload, RxOffload { verified: true, segments });
        // TCP's checksum is not completed: it was verified.
        let sum = whole.len() - 3400 - 16;
        frame[sum..sum + 2].copy_from_slice(&whole[sum..sum + 2]);
        assert!(frame == whole);
    }
}

#[test]
fn one_segment_alone_is_as_it_came() {
    let segment = Segment::of(5, 1448).build();
    let offload = RxOffload { verified: true, segments: None };
    assert_eq!(pass(std::slice::from_ref(&segment)), [(segment, offload)]);
}

#[test]
fn nothing_behind_a_shorter_segment() {
    let parts = [(0, 1400), (1400, 900), (2300, 900), (3200, 900)].map(|(s, l)| Segment::of(s, l));
    let lens: Vec<_> =
        pass(&parts.map(|part| part.build())).iter().map(|(frame, _)| frame.len() - 66).collect();
    assert_eq!(lens, [2300, 1800]);
}

#[test]
fn only_what_says_the_same_is_joined() {
    type Change = fn(&mut Segment);
    let first = Segment::of(100, 1000);
    let changes: [(&str, Change); 15] = [
        ("a gap", |s| s.seq += 1),
        ("an overlap", |s| s.seq -= 1),
        ("another port", |s| s.port += 1),
        ("another ACK", |s| s.ack += 1),
        ("another window", |s| s.window += 1),
        ("another timestamp", |s| s.echo += 1),
        ("another TTL", |s| s.ttl -= 1),
        ("another class", |s| s.class = 4),
        ("marked CE", |s| s.class = 3),
        ("FIN", |s| s.flags |= 1),
        ("RST", |s| s.flags |= 4),
        ("ECE", |s| s.flags |= 0x40),
        ("CWR", |s| s.flags |= 0x80),
        ("longer", |s| s.payload.push(0)),
        ("empty", |s| s.payload.clear()),
    ];
    for v6 in [false, true] {
        let first = Segment { v6, ..first.clone() };
        for (what, change) in changes {
            let mut second = Segment { v6, ..Segment::of(1100, 1000) };
            change(&mut second);
            let frames = [first.build(), second.build()];
            let out = pass(&frames);
            assert!(out.iter().map(|(frame, _)| frame).eq(&frames), "{what}");
        }
    }
    for fragment in [0, 0x2000, 0x4001] {
        let frames = [first.build(), Segment { fragment, ..Segment::of(1100, 1000) }.build()];
        assert_eq!(pass(&frames).len(), 2, "{fragment:x}");
    }
}

#[test]
fn nothing_is_joined_to_what_is_special() {
    let special: [fn(&mut Segment); 7] = [
        |s| s.flags |= 2,
        |s| s.flags |= 0x20,
        |s| s.flags |= 0x40,
        |s| s.flags = 0,
        |s| s.class = 3,
        |s| s.fragment = 0x2000,
        |s| s.payload.truncate(MOST_HEADERS - 1),
    ];
    for change in special {
        let mut first = Segment::of(100, 1000);
        change(&mut first);
        let mut second = first.clone();
        second.seq += u32::try_from(first.payload.len()).unwrap();
        assert_eq!(pass(&[first.build(), second.build()]).len(), 2, "{first:?}");
    }
}

#[test]
fn what_is_spoilt_is_left_to_the_core() {
    for (spoilt, at) in [(0, 24), (0, 50), (0, 500), (1, 24), (1, 50), (1, 500), (1, 16)] {
        let mut frames = [Segment::of(0, 1000).build(), Segment::of(1000, 1000).build()];
        frames[spoilt][at] ^= 1;
        let out = pass(&frames);
        assert_eq!(out.len(), 2, "{spoilt} {at}");
        assert_eq!(out[spoilt], (frames[spoilt].clone(), RxOffload::NONE));
        assert_eq!(out[1 - spoilt].0, frames[1 - spoilt]);
    }
}

#[test]
fn what_the_device_joins_is_not_joined_again() {
    let (mut inet, mut frames, wire) = set_up_with(Features::GRO.with(Features::RX_CHECKSUM));
    (0..3).for_each(|_| _ = inet.empty_page());
    let parts = [Segment::of(0, 1000).build(), Segment::of(1000, 1000).build()];
    wire.borrow_mut().incoming.extend(parts);
    while frames.step().unwrap() {}
    assert_eq!(all(&mut inet).len(), 2);
}

#[test]
fn without_a_place_for_what_cannot_be_joined_nothing_is_received_behind() {
    let (mut inet, mut frames, wire) = set_up();
    inet.empty_page();
    let parts = [Segment::of(0, 1000).build(), Segment::of(5000, 1000).build()];
    wire.borrow_mut().incoming.extend(parts.clone());
    while frames.step().unwrap() {}
    assert_eq!(wire.borrow().incoming.len(), 1);
    assert_eq!(all(&mut inet)[0].0, parts[0]);
    inet.empty_page();
    assert!(frames.has_work().unwrap());
    while frames.step().unwrap() {}
    assert_eq!(all(&mut inet)[0].0, parts[1]);
}

#[test]
fn an_error_of_the_device_leaves_the_open_frame_whole() {
    let (mut inet, mut frames, wire) = set_up();
    (0..3).for_each(|_| _ = inet.empty_page());
    let part = Segment::of(0, 1000).build();
    wire.borrow_mut().incoming.push_back(part.clone());
    wire.borrow_mut().error_after = Some(libc::EBADFD);
    assert!(matches!(frames.step(), Err(DriverError::DeviceLost(_))));
    let out = all(&mut inet);
    assert_eq!(out.len(), 1);
    assert!(out[0].0 == part);
}

/// What a frame becomes on its way, and how many are received in one step at most.
#[derive(Debug, Clone)]
enum Fate {
    Sent { len: usize, flags: u8, class: u8 },
    Skip(u32),
    Back(u32),
    Other(usize),
    Spoilt { len: usize, at: usize },
    Step,
    Page,
}

fn fate() -> impl Strategy<Value = Fate> {
    let len = prop_oneof![4 => Just(1448_usize), 2 => 0..1448_usize];
    let flags = prop_oneof![6 => Just(ACK), 2 => Just(ACK | PSH), 1 => any::<u8>()];
    let class = prop_oneof![6 => Just(0_u8), 1 => 0..4_u8];
    prop_oneof![
        12 => (len, flags, class).prop_map(|(len, flags, class)| Fate::Sent { len, flags, class }),
        1 => (1..3000_u32).prop_map(Fate::Skip),
        1 => (1..3000_u32).prop_map(Fate::Back),
        1 => (0..1448_usize).prop_map(Fate::Other),
        1 => (200..1448_usize, 14..260_usize).prop_map(|(len, at)| Fate::Spoilt { len, at }),
        3 => Just(Fate::Step),
        4 => Just(Fate::Page),
    ]
}

proptest! {
    /// A stream is cut and mixed in any way, the device is empty and pages are missing at any time.
    /// The frames that come out are those that came in, except joined ones. Joined frames have
    /// equal headers, are in order, and have every byte in its place.
    #[test]
    fn joined_or_not_the_bytes_are_the_same(
        fates in prop::collection::vec(fate(), 1..60),
        first in any::<u32>(),
    ) {
        let (mut inet, mut frames, wire) = set_up();
        let (mut seq, mut sent, mut got) = (first, Vec::new(), Vec::new());
        for fate in fates {
            let mut frame = match fate {
                Fate::Skip(n) => { seq = seq.wrapping_add(n); continue; }
                Fate::Back(n) => { seq = seq.wrapping_sub(n); continue; }
                Fate::Step => { frames.step().unwrap(); got.extend(all(&mut inet)); continue; }
                Fate::Page => { (0..8).for_each(|_| _ = inet.empty_page()); continue; }
                Fate::Other(len) => Segment { port: 81, ..Segment::of(seq, len) }.build(),
                Fate::Spoilt { len, .. } => Segment::of(seq, len).build(),
                Fate::Sent { len, flags, class } => {
                    let segment = Segment { flags, class, ..Segment::of(seq, len) };
                    seq = seq.wrapping_add(len as u32);
                    segment.build()
                }
            };
            if let Fate::Spoilt { at, .. } = fate {
                frame[at] ^= 0x20;
            }
            wire.borrow_mut().incoming.push_back(frame.clone());
            sent.push(frame);
        }
        (0..sent.len() + 1).for_each(|_| _ = inet.empty_page());
        while frames.step().unwrap() {}
        got.extend(all(&mut inet));
        let mut sent = sent.into_iter();
        for (frame, offload) in got {
            let Some(Segments { size, .. }) = offload.segments else {
                prop_assert_eq!(Some(frame), sent.next());
                continue;
            };
            let size = usize::from(size);
            prop_assert!(offload.verified && frame.len() > 66 + size);
            let start = u32::from_be_bytes(frame[38..42].try_into().unwrap());
            let mut at = 66;
            while at < frame.len() {
                let part = sent.next().unwrap();
                let (from, len) = (start.wrapping_add(at as u32 - 66), part.len() - 66);
                prop_assert!(len == size || at + len == frame.len());
                prop_assert_eq!(&part[..16], &frame[..16]);
                prop_assert_eq!(&part[34..38], &frame[34..38]);
                prop_assert_eq!(&part[38..42], &from.to_be_bytes());
                prop_assert_eq!(part[47] & !PSH, ACK);
                prop_assert_eq!(&part[66..], &frame[at..at + len]);
                let told = |n: usize| byte(from.wrapping_add(n as u32));
                prop_assert!(part[66..].iter().enumerate().all(|(n, b)| *b == told(n)));
                at += len;
            }
        }
        prop_assert!(sent.next().is_none());
    }
}
