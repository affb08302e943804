//! Super-segments for a device that does nothing, against segments made one by one.

use abi::frame::MAX_PIECES;

use super::*;

/// The client with the payload in its region.
const CLIENT: u16 = 5;
const PSH_FIN_CWR: u8 = 0x08 | 0x01 | 0x80;

/// The frame to send.
#[derive(Debug, Clone)]
struct Stream {
    ipv6: bool,
    tagged: bool,
    flags: u8,
    id: u16,
    sequence: u32,
    /// Words of TCP options.
    options: usize,
    size: u16,
    /// Where in the region the pieces lie, and how long they are.
    pieces: Vec<(usize, usize)>,
}

/// RFC 1071, word by word.
fn sum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u64;
    for pair in bytes.chunks(2) {
        sum += u64::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

impl Stream {
    /// The headers of a frame with `len` bytes of payload, `done` bytes and `count` segments into
    /// the stream; the checksum is right for `payload`, or that of the pseudo-header.
    fn head(
        &self,
        len: usize,
        flags: u8,
        (done, count): (usize, u16),
        payload: Option<&[u8]>,
    ) -> Vec<u8> {
        let mut head = vec![2; 12];
        if self.tagged {
            head.extend_from_slice(&[0x81, 0, 0, 7]);
        }
        let tcp_len = 20 + 4 * self.options + len;
        let ip = head.len() + 2;
        let addresses = if self.ipv6 {
            head.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0]);
            head.extend_from_slice(&u16::try_from(tcp_len).unwrap().to_be_bytes());
            head.extend_from_slice(&[6, 64]);
            head.extend((0..32).map(|n| n * 7 + 1));
            ip + 8..ip + 40
        } else {
            head.extend_from_slice(&[8, 0, 0x45, 0]);
            head.extend_from_slice(&u16::try_from(tcp_len + 20).unwrap().to_be_bytes());
            head.extend_from_slice(&self.id.wrapping_add(count).to_be_bytes());
            head.extend_from_slice(&[0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            let sum = !sum(&head[ip..]);
            head[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
            ip + 12..ip + 20
        };
        let mut pseudo = head[addresses].to_vec();
        pseudo.extend_from_slice(&[0, 6]);
        pseudo.extend_from_slice(&u16::try_from(tcp_len).unwrap().to_be_bytes());
        let tcp = head.len();
        head.extend_from_slice(&[1, 2, 3, 4]);
        head.extend_from_slice(&self.sequence.wrapping_add(done as u32).to_be_bytes());
        head.extend_from_slice(&[9, 9, 9, 9, 0x50 + 0x10 * self.options as u8, flags, 1, 0]);
        head.extend_from_slice(&sum(&pseudo).to_be_bytes());
        head.extend_from_slice(&[0, 0]);
        head.extend((0..4 * self.options).map(|n| n as u8));
        if let Some(payload) = payload {
            let mut all = head[tcp..].to_vec();
            all.extend_from_slice(payload);
            let sum = !sum(&all);
            head[tcp + 16..tcp + 18].copy_from_slice(&sum.to_be_bytes());
        }
        head
    }

    fn payload(&self, memory: &[u8]) -> Vec<u8> {
        self.pieces.iter().flat_map(|&(at, len)| memory[at..at + len].to_vec()).collect()
    }

    /// The frames of the wire, each made by itself.
    fn expected(&self, memory: &[u8]) -> Vec<Vec<u8>> {
        let payload = self.payload(memory);
        let chunks: Vec<&[u8]> = payload.chunks(self.size.into()).collect();
        let last = chunks.len() - 1;
        let mut all = Vec::new();
        let mut done = 0;
        for (number, &chunk) in chunks.iter().enumerate() {
            let mut flags = self.flags;
            flags &= if number == last { 0xff } else { !0x09 };
            flags &= if number == 0 { 0xff } else { !0x80 };
            let mut frame = self.head(chunk.len(), flags, (done, number as u16), Some(chunk));
            frame.extend_from_slice(chunk);
            all.push(frame);
            done += chunk.len();
        }
        all
    }

    fn send(&self, inet: &mut Inet) {
        let len = self.pieces.iter().map(|(_, len)| len).sum();
        let head = self.head(len, self.flags, (0, 0), None);
        let area = inet.head(&head);
        let mut pieces = [Piece::default(); MAX_PIECES];
        for (piece, &(at, len)) in pieces.iter_mut().zip(&self.pieces) {
            let (offset, len) = (u32::try_from(at).unwrap(), u16::try_from(len).unwrap());
            *piece = Piece { client: CLIENT, len, offset };
        }
        let kind = if self.ipv6 { SegmentKind::Tcp6 } else { SegmentKind::Tcp4 };
        let start = u8::try_from(head.len() - 20 - 4 * self.options).unwrap();
        let offload = TxOffload {
            checksum: Some(Checksum { start, offset: 16 }),
            segments: Some(Segments { kind, size: self.size }),
        };
        let (len, count) = (head.len().try_into().unwrap(), self.pieces.len().try_into().unwrap());
        let frame = TxFrame { area, offset: 0, len, count, pieces, offload, shared: false };
        inet.tx.push(&frame.encode()).unwrap();
    }
}

fn stream() -> impl Strategy<Value = Stream> {
    let pieces = prop::collection::vec((0..40_000_usize, 1..5000_usize), 1..=MAX_PIECES);
    let flags = any::<u8>().prop_map(|flags| 0x10 | flags & (PSH_FIN_CWR | 0x40));
    let bits = (any::<bool>(), any::<bool>(), flags, any::<u16>(), any::<u32>());
    (bits, 0..=10_usize, 1..=1400_u16, pieces).prop_map(
        |((ipv6, tagged, flags, id, sequence), options, size, pieces)| Stream {
            ipv6,
            tagged,
            flags,
            id,
            sequence,
            options,
            size: size.max(40),
            pieces,
        },
    )
}

fn one() -> Stream {
    Stream {
        ipv6: false,
        tagged: false,
        flags: 0x98,
        id: 0xfffe,
        sequence: 0xffff_f000,
        options: 3,
        size: 1448,
        pieces: vec![(100, 5000), (9001, 777)],
    }
}

/// A device that does nothing, and the bytes of a client.
fn set_up_sending() -> (Inet, Frames<Fake>, SharedWire, Vec<u8>) {
    let (inet, mut frames, wire) = set_up();
    let region = client_region();
    let memory: Vec<u8> = (0..50_000_u32).map(|n| ((n * 31) >> 3) as u8).collect();
    region.write(0, &memory).unwrap();
    frames.add_client(CLIENT, region);
    (inet, frames, wire, memory)
}

proptest! {
    #[test]
    fn segments_are_as_if_made_one_by_one(stream in stream()) {
        let (mut inet, mut frames, wire, memory) = set_up_sending();
        stream.send(&mut inet);
        frames.step().unwrap();
        let expected = stream.expected(&memory);
        prop_assert_eq!(&wire.borrow().sent, &expected);
        prop_assert!(wire.borrow().left.iter().all(|left| *left == TxOffload::NONE));
        prop_assert_eq!(counter(&frames, "nic.tx-packets"), expected.len() as u64);
        let bytes: usize = expected.iter().map(Vec::len).sum();
        prop_assert_eq!(counter(&frames, "nic.tx-bytes"), bytes as u64);
        prop_assert_eq!(counter(&frames, "nic.tx-cut"), 1);
    }

    #[test]
    fn a_device_without_room_gets_the_rest_later(
        stream in stream(),
        rooms in prop::collection::vec(0..4_usize, 1..60),
    ) {
        let (mut inet, mut frames, wire, memory) = set_up_sending();
        stream.send(&mut inet);
        stream.send(&mut inet);
        for room in rooms {
            wire.borrow_mut().room = room;
            frames.step().unwrap();
            let consumed = inet.tx.consumed().unwrap();
            prop_assert_eq!(frames.wants_room(), consumed < 2);
        }
        wire.borrow_mut().room = usize::MAX;
        while frames.step().unwrap() {}
        let twice = [stream.expected(&memory), stream.expected(&memory)].concat();
        prop_assert_eq!(&wire.borrow().sent, &twice);
        prop_assert_eq!(inet.tx.consumed().unwrap(), 2);
    }
}

#[test]
fn a_step_sends_so_many_segments() {
    let (mut inet, mut frames, wire, _) = set_up_sending();
    let stream = Stream { size: 100, pieces: vec![(0, 5000)], ..one() };
    for _ in 0..4 {
        stream.send(&mut inet);
    }
    frames.step().unwrap();
    assert_eq!(wire.borrow().sent.len(), 100, "the second is begun before there are enough");
    frames.step().unwrap();
    assert_eq!(wire.borrow().sent.len(), 200);
}

#[test]
fn the_rest_of_a_refused_super_segment_is_given_up() {
    let (mut inet, mut frames, wire, memory) = set_up_sending();
    one().send(&mut inet);
    one().send(&mut inet);
    wire.borrow_mut().room = 2;
    frames.step().unwrap();
    wire.borrow_mut().error = Some(libc::EIO);
    wire.borrow_mut().room = usize::MAX;
    // Nothing is received meanwhile, so the device's error is that of sending.
    frames.transmit_some().unwrap();
    assert_eq!(counter(&frames, "nic.tx-device-errors"), 1);
    let expected = one().expected(&memory);
    let sent = wire.borrow().sent.clone();
    assert_eq!(sent[..2], expected[..2]);
    assert_eq!(sent[2..], expected[..]);
}

#[test]
fn a_super_segment_that_is_not_what_is_said_of_it_is_refused() {
    let kind = |kind, size| Some(Segments { kind, size });
    let (four, six) = (SegmentKind::Tcp4, SegmentKind::Tcp6);
    let sum = |start, offset| Some(Checksum { start, offset });
    let (bad, long) = ("nic.tx-bad-offload", "nic.tx-bad-length");
    // Headers are 66 bytes; two more are payload.
    for (checksum, segments, head_len, cause) in [
        (sum(34, 16), kind(six, 1448), 66, bad),
        (sum(33, 16), kind(four, 1448), 66, bad),
        (sum(34, 6), kind(four, 1448), 66, bad),
        (sum(34, 16), kind(four, 1448), 65, bad),
        (sum(34, 16), kind(four, 1448), 68, bad),
        (sum(34, 16), kind(four, 1453), 66, long),
        (sum(51, 16), None, 66, bad),
        (sum(255, 255), None, 66, bad),
    ] {
        let (mut inet, mut frames, wire, _) = set_up_sending();
        let mut head = one().head(3000, 0x10, (0, 0), None);
        head.extend_from_slice(&[1, 1]);
        let area = inet.head(&head);
        let mut pieces = [Piece::default(); MAX_PIECES];
        let len = if segments.is_some() { 3000 } else { 300 };
        pieces[0] = Piece { client: CLIENT, len, offset: 0 };
        let offload = TxOffload { checksum, segments };
        let frame =
            TxFrame { area, offset: 0, len: head_len, count: 1, pieces, offload, shared: false };
        inet.tx.push(&frame.encode()).unwrap();
        frames.step().unwrap();
        assert_eq!(counter(&frames, cause), 1, "{offload:?} {head_len}");
        assert!(wire.borrow().sent.is_empty());
        assert!(inet.heads.take(area).is_ok());
    }
}

#[test]
fn checksums_are_completed() {
    let (mut inet, mut frames, wire, memory) = set_up_sending();
    // A segment in two pieces, the first of odd length.
    let stream = Stream { pieces: vec![(0, 333), (700, 100)], ..one() };
    let payload = stream.payload(&memory);
    let area = inet.head(&stream.head(payload.len(), 0x18, (0, 0), None));
    let mut pieces = [Piece::default(); MAX_PIECES];
    pieces[0] = Piece { client: CLIENT, len: 333, offset: 0 };
    pieces[1] = Piece { client: CLIENT, len: 100, offset: 700 };
    let offload = TxOffload { checksum: Some(Checksum { start: 34, offset: 16 }), segments: None };
    let frame = TxFrame { area, offset: 0, len: 66, count: 2, pieces, offload, shared: false };
    inet.tx.push(&frame.encode()).unwrap();
    // A datagram whose sum is zero, and so is sent as all ones (RFC 768).
    let mut datagram = vec![0; 44];
    datagram[40..42].copy_from_slice(&[0x12, 0x34]);
    datagram[42..44].copy_from_slice(&(!0x1234_u16).to_be_bytes());
    let area = inet.head(&datagram);
    let offload = TxOffload { checksum: Some(Checksum { start: 34, offset: 6 }), segments: None };
    let pieces = [Piece::default(); MAX_PIECES];
    inet.tx
        .push(
            &TxFrame { area, offset: 0, len: 44, count: 0, pieces, offload, shared: false }
                .encode(),
        )
        .unwrap();
    frames.step().unwrap();
    let mut expected = stream.head(payload.len(), 0x18, (0, 0), Some(&payload));
    expected.extend_from_slice(&payload);
    assert_eq!(wire.borrow().sent[0], expected);
    assert_eq!(wire.borrow().sent[1][40..42], [0xff, 0xff]);
    assert_eq!(wire.borrow().left, [TxOffload::NONE; 2]);
    assert_eq!(counter(&frames, "nic.tx-cut"), 0);
}
