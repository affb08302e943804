//! Frames of which something is left to the interface, and received ones of which something is
//! known. A device made of a few lines cuts and sums what A sends; B's gives super-segments to B.

use super::*;
use crate::{Checksum, Features, RxOffload, SegmentKind, Segments, TxOffload};

const ALL: Features = Features { tx_checksum: true, tso4: true, tso6: true };
/// Ethernet and IPv4 header.
const TCP_AT: usize = 34;

/// The sum of the pseudo-header is in the checksum's place: it becomes the checksum.
fn sum(frame: &mut [u8], left: Checksum) {
    let start = usize::from(left.start);
    let place = start + usize::from(left.offset);
    let mut total = checksum::data(&frame[start..]);
    if total == 0xffff {
        total = 0;
    }
    frame[place..place + 2].copy_from_slice(&(!total).to_be_bytes());
}

/// What a device makes of a frame: frames that can be on a wire.
fn device(frame: &[u8], left: &TxOffload) -> Vec<Vec<u8>> {
    let mut whole = Vec::from(frame);
    let Some(Segments { kind, size }) = left.segments else {
        if let Some(left) = left.checksum {
            sum(&mut whole, left);
        }
        assert!(frame.len() <= 14 + 1500);
        return std::vec![whole];
    };
    assert_eq!(kind, SegmentKind::Tcp4);
    assert_eq!(left.checksum, Some(Checksum { start: 34, offset: 16 }));
    let header = TCP_AT + usize::from(frame[TCP_AT + 12] >> 4) * 4;
    let seq = u32::from_be_bytes(*frame[TCP_AT + 4..].first_chunk().unwrap());
    let payload = &frame[header..];
    assert!(payload.len() > usize::from(size) && header + usize::from(size) <= 14 + 1500);
    let parts = payload.chunks(size.into()).enumerate();
    let cut = parts.map(|(n, part)| {
        let at = n * usize::from(size);
        let mut segment = [&frame[..header], part].concat();
        let total = u16::try_from(segment.len() - 14).unwrap();
        segment[16..18].copy_from_slice(&total.to_be_bytes());
        segment[TCP_AT + 4..TCP_AT + 8].copy_from_slice(&(seq + at as u32).to_be_bytes());
        if at + part.len() < payload.len() {
            // Neither FIN nor PSH before the end.
            segment[TCP_AT + 13] &= !0x09;
        }
        fix_ip(&mut segment);
        fix_transport(&mut segment);
        segment
    });
    cut.collect()
}

/// A pair whose A leaves everything to its device.
fn pair() -> Pair {
    let mut pair = Pair::new();
    pair.a.stack.set_features(ID, ALL).unwrap();
    pair
}

impl Pair {
    /// Moves frames until both are quiet: those of A through the device, of which `lose` says what
    /// gets lost; the longest that A gave it.
    fn exchange(&mut self, mut lose: impl FnMut() -> bool) -> usize {
        let mut longest = 0;
        loop {
            self.a.poll();
            let to_b: Vec<_> =
                self.a.wire.frames.drain(..).zip(self.a.wire.left.drain(..)).collect();
            let to_a = self.b.sent();
            self.b.wire.left.clear();
            if to_b.is_empty() && to_a.is_empty() {
                return longest;
            }
            for (frame, left) in &to_b {
                longest = longest.max(frame.len());
                for segment in device(frame, left) {
                    if !lose() {
                        self.b.take(&segment);
                    }
                }
            }
            to_a.iter().for_each(|frame| self.a.take(frame));
        }
    }

    fn connect_over_device(&mut self) -> (Handle, Handle) {
        let listener = self.b.stack.open(SocketKind::Stream, 2).unwrap();
        self.b.stack.bind(listener, at(Ipv4Addr::UNSPECIFIED, 80)).unwrap();
        self.b.stack.listen(listener, 5).unwrap();
        let client = self.a.stack.open(SocketKind::Stream, 1).unwrap();
        self.a.stack.connect(self.a.now, client, at(IP_B, 80)).unwrap();
        self.exchange(|| false);
        (client, self.b.stack.accept(listener, 3).unwrap().expect("a connection").0)
    }

    /// Sends `bytes` from A to B; the longest frame.
    fn upload(&mut self, bytes: &[u8], mut lose: impl FnMut() -> bool) -> usize {
        let (client, server) = self.connect_over_device();
        let (mut got, mut longest) = (Vec::new(), 0);
        bytes.chunks(50_001).for_each(|part| self.a.send(client, part));
        for _ in 0..2000 {
            longest = longest.max(self.exchange(&mut lose));
            got.extend(self.b.received(server));
            if got.len() == bytes.len() {
                break;
            }
            let now = self.a.now + Duration::from_millis(10);
            (self.a.now, self.b.now) = (now, now);
        }
        assert!(got == bytes, "{} of {} bytes", got.len(), bytes.len());
        assert_eq!(self.b.counter("tcp.bad-checksum"), 0);
        longest
    }
}

fn noise(len: u32) -> Vec<u8> {
    (0..len).map(|n| (n.wrapping_mul(2_654_435_761) >> 11) as u8).collect()
}

#[test]
fn super_segments_arrive_and_are_counted_as_what_they_become() {
    let bytes = noise(2_000_000);
    let mut pair = pair();
    let longest = pair.upload(&bytes, || false);
    assert!((20_000..=14 + 65_535).contains(&longest), "{longest}");
    let (out, sent) = (pair.a.counter("tcp.segments-out"), pair.a.counter("link.frames-out"));
    assert!(out >= 2_000_000 / 1448 && sent < out / 2, "{out} segments in {sent} frames");
}

#[test]
fn segments_that_may_be_cut_have_identifications_of_their_own() {
    let mut pair = pair();
    let (client, _) = pair.connect_over_device();
    let dont = SockOption::MtuDiscover(MtuDiscover::Dont);
    pair.a.stack.set_option(pair.a.now, client, dont).unwrap();
    // The initial window, in halves.
    pair.a.send(client, &noise(50_000));
    let mut next: Option<u16> = None;
    for (frame, left) in pair.a.sent().iter().zip(pair.a.wire.left.drain(..)) {
        let segments = device(frame, &left).len() as u16;
        assert!(segments > 1, "{left:?}");
        let id = u16::from_be_bytes([frame[18], frame[19]]);
        assert!(next.is_none_or(|next| id.wrapping_sub(next) < 8), "{id} after {next:?}");
        next = Some(id.wrapping_add(segments));
    }
    assert!(next.is_some());
}

#[test]
fn what_is_lost_of_a_super_segment_is_sent_again() {
    let bytes = noise(1_000_000);
    for every in [7, 50, 211] {
        let mut pair = pair();
        let mut count = 0;
        pair.upload(&bytes, || {
            count += 1;
            count % every == 0
        });
        assert!(pair.a.counter("tcp.retransmits") > 0, "{every}");
    }
}

#[test]
fn without_features_every_frame_is_ready_for_the_wire() {
    let bytes = noise(300_000);
    let mut pair = Pair::new();
    let longest = pair.upload(&bytes, || false);
    assert_eq!(longest, 14 + 1500);
    pair.a.stack.set_features(ID, Features { tx_checksum: true, ..Features::default() }).unwrap();
    assert_eq!(pair.a.stack.set_features(InterfaceId(9), ALL), Err(Error::BadHandle));
}

#[test]
fn datagrams_leave_their_checksum_unless_they_are_cut() {
    let mut pair = pair();
    let from = pair.a.stack.open(SocketKind::Datagram, 1).unwrap();
    let to = pair.b.stack.open(SocketKind::Datagram, 2).unwrap();
    pair.b.stack.bind(to, at(Ipv4Addr::UNSPECIFIED, 9)).unwrap();
    for len in [0, 1, 2, 1472, 1473, 5000] {
        let bytes = noise(len);
        let chunk = Chunk(bytes.clone());
        pair.a.stack.send(pair.a.now, from, chunk, Some(at(IP_B, 9))).unwrap();
        pair.a.poll();
        let left = pair.a.wire.left.clone();
        let udp = Some(Checksum { start: 34, offset: 6 });
        if len <= 1472 && left.iter().any(|left| left.checksum.is_some()) {
            assert_eq!(left.last().unwrap().checksum, udp);
        } else if len > 1472 {
            assert!(left.iter().all(|left| *left == TxOffload::NONE));
        }
        // The first waits until B is known, and keeps what was left to the device.
        pair.exchange(|| false);
        assert_eq!(pair.b.received(to), bytes, "{len}");
    }
    assert_eq!(pair.b.counter("udp.bad-checksum"), 0);
    assert_eq!(pair.a.counter("udp.datagrams-out"), 6);
}

/// Gives B a frame of which something is known.
fn take(b: &mut Host, frame: Vec<u8>, offload: RxOffload) {
    b.stack.handle_frame(b.now, ID, Known(frame, offload), &mut b.wire);
}

#[test]
fn what_the_device_vouches_for_is_not_summed() {
    let mut b = Host::b_knowing_a();
    let socket = b.stack.open(SocketKind::Datagram, 1).unwrap();
    b.stack.bind(socket, at(Ipv4Addr::UNSPECIFIED, 9)).unwrap();
    let mut frame = udp_frame(7, 9, b"half summed");
    frame[40] ^= 0x55;
    take(&mut b, frame.clone(), RxOffload::NONE);
    assert_eq!((b.counter("udp.bad-checksum"), b.received(socket)), (1, Vec::new()));
    take(&mut b, frame, RxOffload { verified: true, ..RxOffload::NONE });
    assert_eq!(b.received(socket), b"half summed");
}

/// B with a connection of its peer, whose first byte is 1001, and what B has sent.
fn accepted() -> (Host, Handle, tcp::Seq) {
    accepted_by(Config::default())
}

fn accepted_by(config: Config) -> (Host, Handle, tcp::Seq) {
    let mut b = Host::new(IP_B, MAC_B, config);
    b.take(&arp_frame(MAC_A, IP_A, IP_B, true));
    b.wire.frames.clear();
    let listener = b.stack.open(SocketKind::Stream, 2).unwrap();
    b.stack.bind(listener, at(Ipv4Addr::UNSPECIFIED, 80)).unwrap();
    b.stack.listen(listener, 5).unwrap();
    let syn = tcp::SegmentRepr {
        src_port: 4000,
        dst_port: 80,
        seq: tcp::Seq::new(1000),
        syn: true,
        window: 60_000,
        mss: Some(1460),
        ..tcp::SegmentRepr::default()
    };
    b.take(&tcp_frame(&syn, &[]));
    let ack = segment_of(&b.sent()[0]).seq + 1;
    b.take(&joined(1001, ack, &[]));
    let server = b.stack.accept(listener, 3).unwrap().expect("a connection").0;
    (b, server, ack)
}

/// A segment of B's peer that was joined of others.
fn joined(seq: u32, ack: tcp::Seq, payload: &[u8]) -> Vec<u8> {
    let repr = tcp::SegmentRepr {
        src_port: 4000,
        dst_port: 80,
        seq: tcp::Seq::new(seq),
        ack: Some(ack),
        psh: true,
        window: 60_000,
        ..tcp::SegmentRepr::default()
    };
    tcp_frame(&repr, payload)
}

#[test]
fn super_segments_are_taken_whole_in_part_and_out_of_order() {
    let (mut b, server, ack) = accepted();
    let bytes = noise(60_000);
    let known = |segment| RxOffload { verified: true, segment, behind: 0 };
    // The second of them first; one that overlaps both; sizes that make no sense are none.
    take(&mut b, joined(1001 + 20_000, ack, &bytes[20_000..40_000]), known(1460));
    assert_eq!(b.received(server), b"");
    take(&mut b, joined(1001, ack, &bytes[..30_000]), known(u16::MAX));
    assert!(b.received(server) == bytes[..40_000]);
    take(&mut b, joined(1001 + 40_000, ack, &bytes[40_000..]), known(1));
    assert!(b.received(server) == bytes[40_000..]);
    let last = b.sent().last().map(|frame| segment_of(frame).ack.unwrap());
    assert_eq!(last, Some(tcp::Seq::new(1001 + 60_000)));
    let stats = b.stack.tcp_info(b.now, server).expect("a connection");
    assert_eq!(stats.bytes_received, 60_000);
    assert_eq!(b.counter("memory.frames-held"), 0);
}

#[test]
fn payload_behind_a_frame_counts_and_is_named_by_the_piece() {
    let (mut b, server, ack) = accepted();
    let known = |behind| RxOffload { verified: true, segment: 1000, behind };
    let first = joined(1001, ack, &noise(1000));
    let header = first.len() - 1000;
    let segments = b.counter("tcp.segments-in");
    take(&mut b, first.clone(), known(2500));
    assert_eq!(b.counter("tcp.segments-in"), segments + 4);
    assert_eq!(b.counter("memory.frames-held"), 3, "as many as the frame takes up");
    let piece = b.stack.recv(server).expect("bytes").piece;
    assert_eq!(piece.range, header..header + 3500);
    b.stack.consumed(b.now, server, 3500);
    assert_eq!(b.counter("memory.frames-held"), 0);
    // Half of it is there already.
    take(&mut b, joined(1001 + 2000, ack, &noise(1000)), known(2000));
    let piece = b.stack.recv(server).expect("bytes").piece;
    assert_eq!(piece.range, header + 1500..header + 3000);
    b.stack.consumed(b.now, server, 1500);
    let last = b.sent().last().map(|frame| segment_of(frame).ack.unwrap());
    assert_eq!(last, Some(tcp::Seq::new(1001 + 5000)));
    // Nothing follows what does not end with its packet.
    let padded = [joined(1001 + 5000, ack, &noise(10)), Vec::from([0; 6])].concat();
    take(&mut b, padded, known(2000));
    assert_eq!(b.stack.recv(server).expect("bytes").piece.range.len(), 10);
}

#[test]
fn what_takes_up_more_frames_than_may_be_held_is_dropped() {
    let (mut b, server, ack) = accepted_by(Config { held_frames: 8, ..Config::default() });
    let known = |behind| RxOffload { verified: true, segment: 1448, behind };
    take(&mut b, joined(1001, ack, &noise(1448)), known(1448 * 8));
    assert!(b.stack.recv(server).is_none());
    assert_eq!(b.counter("memory.frames-held"), 0);
    take(&mut b, joined(1001, ack, &noise(1448)), known(1448 * 7));
    assert_eq!(b.counter("memory.frames-held"), 8);
}
