use abi::offload::{Checksum, RxOffload, SegmentKind, Segments};

use super::*;
use crate::device::is_lost;
use crate::testing::{ip, isolated};

const OURS: [u8; 6] = [2, 0, 0, 0, 0, 1];
const THEIRS: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// An EtherType for experiments: the host's stack does not answer.
const EXPERIMENT: [u8; 2] = [0x88, 0xb5];

/// Both ends of a virtual cable, in a network namespace of this thread's own.
fn cable() -> Option<(Packet, Packet)> {
    isolated()?;
    ip("link add va type veth peer name vb");
    for end in ["va", "vb"] {
        // Nobody but the test says anything on it.
        ip(&format!("link set {end} addrgenmode none"));
        ip(&format!("link set {end} up"));
    }
    let end = |name, mac| Packet::new(open(name, mac, 1500).unwrap(), 1500, true).unwrap();
    Some((end("va", OURS), end("vb", THEIRS)))
}

fn frame(to: [u8; 6], from: [u8; 6], kind: [u8; 2], body: &[u8]) -> Vec<u8> {
    [&to[..], &from, &kind, body].concat()
}

fn send(device: &mut Packet, frame: &[u8], offload: TxOffload) {
    assert!(
        device.transmit(&[Part::local(&frame[..20]), Part::local(&frame[20..])], offload).unwrap()
    );
}

/// All that is there. On a virtual cable what was sent has arrived at once, or nearly so.
fn all(device: &mut Packet) -> Vec<(Vec<u8>, RxOffload)> {
    let mut all = Vec::new();
    let mut page = [0; 4096];
    loop {
        let mut ready = [rustix::event::PollFd::new(&device.socket, rustix::event::PollFlags::IN)];
        let soon = rustix::event::Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        if !device.pending().receive && rustix::event::poll(&mut ready, Some(&soon)).unwrap() == 0 {
            return all;
        }
        while let Some(received) = device.receive(&mut page).unwrap() {
            all.push((page[..received.len].to_vec(), received.offload));
        }
    }
}

#[test]
fn frames_go_both_ways_and_those_for_others_do_not() {
    let Some((mut ours, mut theirs)) = cable() else { return };
    let group = [0x33, 0x33, 0, 0, 0, 1];
    let stranger = [2, 0, 0, 0, 0, 3];
    for (to, arrives) in [(THEIRS, true), ([0xff; 6], true), (group, true), (stranger, false)] {
        let frame = frame(to, OURS, EXPERIMENT, &[7; 100]);
        send(&mut ours, &frame, TxOffload::NONE);
        let arrived = all(&mut theirs);
        assert_eq!(arrived.len(), usize::from(arrives), "{to:x?}");
        assert!(arrived.iter().all(|(bytes, _)| *bytes == frame));
    }
    send(&mut theirs, &frame(OURS, THEIRS, EXPERIMENT, &[8; 1500]), TxOffload::NONE);
    assert_eq!(all(&mut ours).len(), 1, "what was sent by the interface itself is not seen");
    // Longer than the MTU: this frame is refused, the device is not lost.
    let long = frame(OURS, THEIRS, EXPERIMENT, &[8; 1600]);
    let error = theirs.transmit(&[Part::local(&long)], TxOffload::NONE).unwrap_err();
    assert!(!is_lost(&error), "{error}");
}

#[test]
fn a_vlan_tag_is_put_back() {
    let Some((mut ours, mut theirs)) = cable() else { return };
    let tagged = frame(THEIRS, OURS, [0x81, 0], &[&[0, 42][..], &EXPERIMENT, &[9; 60]].concat());
    send(&mut ours, &tagged, TxOffload::NONE);
    let arrived: Vec<_> = all(&mut theirs).into_iter().map(|(bytes, _)| bytes).collect();
    assert_eq!(arrived, [tagged]);
    let mut short = [1; 10];
    assert_eq!((put_tag(&mut short, 10, [2; 4]), short), (14, [1; 10]));
    let mut full = [1; 16];
    assert_eq!(put_tag(&mut full, 16, [2; 4]), 20);
    assert_eq!(full[12..], [2; 4]);
}

#[test]
fn a_super_segment_arrives_whole_or_in_segments_and_its_checksum_counts_as_right() {
    let Some((mut ours, mut theirs)) = cable() else { return };
    let payload: Vec<u8> = (0..20_000_u32).map(|n| (n % 251) as u8).collect();
    let mut head = frame(THEIRS, OURS, [8, 0], &[0x45, 0]);
    let total = u16::try_from(40 + payload.len()).unwrap();
    head.extend_from_slice(&total.to_be_bytes());
    head.extend_from_slice(&[0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let sum = !shm::checksum(&head[14..34]);
    head[24..26].copy_from_slice(&sum.to_be_bytes());
    head.extend_from_slice(&[0, 80, 0, 81, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
    let offload = TxOffload {
        checksum: Some(Checksum { start: 34, offset: 16 }),
        segments: Some(Segments { kind: SegmentKind::Tcp4, size: 1460 }),
    };
    let parts = [Part::local(&head), Part::local(&payload)];
    assert!(ours.transmit(&parts, offload).unwrap());
    let segments = all(&mut theirs);
    assert_eq!(segments.len(), 14);
    let mut joined = Vec::new();
    for (segment, offload) in &segments {
        assert!(segment.len() <= 1514 && offload.verified, "{offload:?}");
        joined.extend_from_slice(&segment[54..]);
    }
    assert!(joined == payload);
    let mut counters = Vec::new();
    theirs.counters(&mut |name, value| counters.push((name, value)));
    let expected = [
        ("packet.rx-dropped", 0),
        ("packet.rx-copied-bytes", 0),
        ("packet.rx-super-frames", 1),
        ("packet.rx-bad-super-frames", 0),
    ];
    assert_eq!(counters, expected);
    // With room for all of it, it comes as it is.
    assert!(ours.transmit(&parts, offload).unwrap());
    let mut room = vec![0; superframe::LONGEST];
    let received = theirs.receive(&mut room).unwrap().unwrap();
    let whole = Received { len: 54 + payload.len(), offload: vnet_of(offload) };
    assert_eq!(received, whole);
    assert!(room[54..received.len] == payload);
    assert!(all(&mut theirs).is_empty());
}

/// What is known of a frame that was sent with this left to the device.
fn vnet_of(offload: TxOffload) -> RxOffload {
    RxOffload { verified: offload.checksum.is_some(), segments: offload.segments }
}

#[test]
fn frames_in_ring_and_queue_keep_their_order() {
    let Some((mut ours, mut theirs)) = cable() else { return };
    let offload = TxOffload {
        checksum: Some(Checksum { start: 34, offset: 16 }),
        segments: Some(Segments { kind: SegmentKind::Tcp4, size: 1460 }),
    };
    let (mut room, mut expected) = (vec![0; superframe::LONGEST], Vec::new());
    for number in 0..200_u8 {
        // Those that fit into a slot in between, super-segments or not.
        let len = 500 + 3000 * usize::from(number % 3);
        let mut frame = frame(THEIRS, OURS, [8, 0], &[0x45, 0, 0, 0]);
        frame[16..18].copy_from_slice(&u16::try_from(len - 14).unwrap().to_be_bytes());
        frame.extend_from_slice(&[0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.resize(len, number);
        frame[46] = 0x50;
        let left = if len > 1500 { offload } else { TxOffload::NONE };
        send(&mut ours, &frame, left);
        expected.push((len, number, left.segments));
    }
    let mut arrived = Vec::new();
    while arrived.len() < expected.len()
        && let Some(Received { len, offload }) = theirs.receive(&mut room).unwrap()
    {
        arrived.push((len, room[len - 1], offload.segments));
    }
    assert_eq!(arrived, expected);
    assert!(all(&mut theirs).is_empty());
}

#[test]
fn the_error_of_an_interface_is_told_when_the_socket_was_ready() {
    let Some((mut ours, mut theirs)) = cable() else { return };
    send(&mut ours, &frame(THEIRS, OURS, EXPERIMENT, &[7; 100]), TxOffload::NONE);
    ip("link set vb down");
    let mut page = [0; 4096];
    theirs.awake(true);
    assert!(theirs.receive(&mut page).unwrap().is_some(), "first what came before");
    let error = theirs.receive(&mut page).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENETDOWN));
    assert!(!is_lost(&error) && theirs.receive(&mut page).unwrap().is_none());
}

#[test]
fn a_deleted_interface_is_a_lost_device() {
    let Some((mut ours, mut theirs)) = cable() else { return };
    ip("link set va down");
    let frame = frame(OURS, THEIRS, EXPERIMENT, &[7; 100]);
    let error = theirs.transmit(&[Part::local(&frame)], TxOffload::NONE);
    assert!(error.is_ok_and(|taken| taken), "without carrier frames are lost, nothing more");
    let error = ours.transmit(&[Part::local(&frame)], TxOffload::NONE).unwrap_err();
    assert!(!is_lost(&error), "{error}");
    ip("link delete va");
    let lost = (0..3)
        .find_map(|_| ours.transmit(&[Part::local(&frame)], TxOffload::NONE).err().filter(is_lost));
    assert!(lost.is_some());
}

#[test]
fn what_cannot_be_used_is_refused_with_the_reason() {
    let Some(_cable) = cable() else { return };
    ip("link set va mtu 1400");
    let refused = |name| open(name, OURS, 1500).unwrap_err().to_string();
    assert!(refused("va").contains("1400"), "{}", refused("va"));
    assert!(refused("lo").contains("not an Ethernet"), "{}", refused("lo"));
    assert!(refused("vx").contains("no interface vx"), "{}", refused("vx"));
}

#[test]
fn frames_that_the_kernel_had_no_room_for_are_counted() {
    let Some((mut ours, mut theirs)) = cable() else { return };
    let sent = 5000;
    for _ in 0..sent {
        send(&mut ours, &frame(THEIRS, OURS, EXPERIMENT, &[7; 100]), TxOffload::NONE);
    }
    let received = all(&mut theirs).len() as u64;
    assert_eq!(received, 4096, "as many as there are slots");
    assert_eq!((theirs.dropped(), theirs.dropped()), (sent - received, sent - received));
    // And it goes on.
    send(&mut ours, &frame(THEIRS, OURS, EXPERIMENT, &[8; 100]), TxOffload::NONE);
    assert_eq!(all(&mut theirs).len(), 1);
}

#[test]
fn whoever_has_the_socket_next_receives_what_comes_next() {
    let Some((mut ours, theirs)) = cable() else { return };
    let ours = &mut ours;
    let mut next = Some(theirs);
    for number in 0..5 {
        let mut theirs = next.take().unwrap();
        let frame = frame(THEIRS, OURS, EXPERIMENT, &[number; 100]);
        (0..=number).for_each(|_| send(ours, &frame, TxOffload::NONE));
        let arrived = all(&mut theirs);
        assert!(arrived.len() == usize::from(number) + 1, "{number}: {arrived:?}");
        assert!(arrived.iter().all(|(bytes, _)| *bytes == frame));
        // One that nobody took goes with its owner.
        send(ours, &frame, TxOffload::NONE);
        let socket = theirs.socket.try_clone().unwrap();
        let refused = Packet::new(socket.try_clone().unwrap(), 1500, true).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EBUSY));
        drop(theirs);
        next = Some(Packet::new(socket, 1500, true).unwrap());
    }
}

#[test]
fn without_a_ring_frames_come_out_of_the_queue() {
    let Some((mut ours, _)) = cable() else { return };
    // As an old kernel has none.
    let socket = open("vb", THEIRS, 1500).unwrap();
    let mut theirs = Packet::new(socket, 1500, true).unwrap();
    theirs.ring = None;
    ring::set_ring(&theirs.socket, None).unwrap();
    sockopt::set_socket_recv_buffer_size(&theirs.socket, 4096).unwrap();
    let frame = frame(THEIRS, OURS, EXPERIMENT, &[7; 1000]);
    (0..50).for_each(|_| send(&mut ours, &frame, TxOffload::NONE));
    let received = all(&mut theirs);
    assert!((1..50).contains(&received.len()) && received.iter().all(|(bytes, _)| *bytes == frame));
    assert_eq!(theirs.dropped(), 50 - received.len() as u64);
}

#[test]
fn the_tag_is_read_with_care() {
    let mut control = [0; 64];
    for len in 0..control.len() {
        assert_eq!(tag(&control[..len]), None);
    }
    let data = mem::size_of::<libc::cmsghdr>();
    control[data - 8..data - 4].copy_from_slice(&libc::SOL_PACKET.to_ne_bytes());
    control[data - 4..data].copy_from_slice(&libc::PACKET_AUXDATA.to_ne_bytes());
    control[data..data + 4].copy_from_slice(&libc::TP_STATUS_VLAN_VALID.to_ne_bytes());
    control[data + 16..data + 18].copy_from_slice(&42_u16.to_ne_bytes());
    assert_eq!(tag(&control), Some([0x81, 0, 0, 42]));
    assert_eq!(tag(&control[..data + 17]), None);
}
