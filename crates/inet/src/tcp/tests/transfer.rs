use alloc::vec;

use super::*;

#[test]
fn data_flows_out_in_full_segments() {
    let mut rig = Rig::established(&plain());
    rig.write(2 * MSS + 10);
    rig.c.set_nodelay(rig.now, true);
    assert_eq!(rig.burst(), [(1, MSS), (MSS as u32 + 1, MSS), (2 * MSS as u32 + 1, 10)]);
    assert_eq!((rig.c.unacked_len(), rig.c.acked()), (2 * MSS + 10, 0));
    rig.ack(1, MSS as u32 + 1);
    assert_eq!((rig.c.unacked_len(), rig.c.acked()), (MSS + 10, MSS as u64));
    rig.ack(1, 2 * MSS as u32 + 11);
    rig.silent();
    assert_eq!(rig.c.poll_at(rig.now), None);
}

#[test]
fn small_chunks_are_gathered() {
    let mut rig = Rig::established(&plain());
    rig.c.set_cork(rig.now, true);
    for len in [300, 300, 300, 300] {
        rig.write(len);
    }
    let (_, body) = rig.sent_data();
    assert_eq!(body.len(), MSS);
    assert_eq!(body[..301], (0..300).map(|i| i as u8).chain([0]).collect::<Vec<_>>());
    rig.silent();
    rig.c.set_cork(rig.now, false);
    let (last, body) = rig.sent_data();
    assert!(last.psh && body.len() == 200);
}

#[test]
fn numbers_wrap() {
    let mut rig = Rig::established_from(&plain(), u32::MAX - 1500, u32::MAX - 3);
    for _ in 0..5 {
        rig.write(MSS);
    }
    assert_eq!(rig.burst().len(), 5);
    for i in 1..=5 {
        rig.ack(1, 1 + i * MSS as u32);
    }
    assert_eq!((rig.c.acked(), rig.c.unacked_len()), (5 * MSS as u64, 0));
    rig.data(1, b"abcd");
    rig.data(9, b"ijkl");
    rig.data(5, b"efgh");
    assert_eq!(rig.read(), b"abcdefghijkl");
    rig.c.shutdown_write(rig.now);
    assert!(!rig.burst().is_empty());
    rig.ack(13, 5 * MSS as u32 + 2);
    assert_eq!(rig.c.state(), State::FinWait2);
}

/// More than 2^32 bytes: nothing takes the numbers that come round for the handshake's.
#[test]
fn numbers_wrap_wholly() {
    const STEP: usize = 1 << 30;
    let mut rig = Rig::established(&plain());
    let steps = 5;
    for i in 1..=steps {
        // The stream's offsets are what matters; one segment of each step is really sent.
        rig.write(MSS);
        assert_eq!(rig.burst().len(), 1);
        let una = rig.c.durable().snd_una.get().wrapping_sub(ISS);
        rig.ack(1, una.wrapping_add(MSS as u32));
        assert_eq!(rig.c.acked(), i * MSS as u64);
        let skip = (STEP - MSS) as u32;
        rig.c.shift(skip);
    }
}

#[test]
fn every_second_full_segment_is_acknowledged_at_once() {
    let mut rig = Rig::established(&plain());
    rig.data(1, &[7; MSS]);
    rig.silent();
    rig.data(1 + MSS as u32, &[7; MSS]);
    let ack = rig.sent();
    assert_eq!(rig.acked(&ack), 1 + 2 * MSS as u32);
    rig.silent();
}

#[test]
fn a_single_segment_is_acknowledged_after_a_delay() {
    let mut rig = Rig::established(&plain());
    rig.data(1, b"one");
    rig.now += millis(15);
    rig.data(4, b"two");
    rig.quiet_until(millis(25));
    let ack = rig.sent();
    assert_eq!(rig.acked(&ack), 7);
    rig.silent();
    assert_eq!(rig.c.poll_at(rig.now), None);
}

#[test]
fn an_ack_rides_on_data() {
    let mut rig = Rig::established(&plain());
    rig.data(1, b"question");
    rig.write(6);
    let (answer, body) = rig.sent_data();
    assert_eq!((rig.acked(&answer), body.len()), (9, 6));
    rig.silent();
}

#[test]
fn the_first_segments_are_acknowledged_at_once() {
    let mut rig = Rig::established(&TcpConfig { quick_acks: 2, ..plain() });
    rig.data(1, b"a");
    rig.sent();
    rig.data(2, b"b");
    rig.sent();
    rig.data(3, b"c");
    rig.silent();
}

#[test]
fn segments_out_of_order_are_each_acknowledged_at_once() {
    let mut rig = Rig::established(&plain());
    for seq in [11, 21, 31] {
        rig.data(seq, &[1; 10]);
    }
    for _ in 0..3 {
        let ack = rig.sent();
        assert_eq!(rig.acked(&ack), 1);
    }
    rig.silent();
    // The gap fills: one ACK for all.
    rig.data(1, &[1; 10]);
    let ack = rig.sent();
    assert_eq!(rig.acked(&ack), 41);
    rig.silent();
    assert_eq!(rig.read().len(), 40);
}

/// Reordered within one batch: no duplicate ACKs of the new number, which would look like a loss.
#[test]
fn a_gap_that_fills_before_the_poll_causes_one_ack() {
    let mut rig = Rig::established(&plain());
    for seq in [11, 21, 31, 1] {
        rig.data(seq, &[1; 10]);
    }
    let ack = rig.sent();
    assert_eq!(rig.acked(&ack), 41);
    rig.silent();
}

#[test]
fn old_data_is_acknowledged_again_at_once() {
    let mut rig = Rig::established(&plain());
    rig.data(1, &[1; 10]);
    rig.pass(millis(40));
    rig.sent();
    rig.data(1, &[1; 10]);
    let ack = rig.sent();
    assert_eq!(rig.acked(&ack), 11);
    assert_eq!(rig.read().len(), 10);
    // Old and new bytes in one segment.
    rig.data(6, &[2; 10]);
    assert_eq!(rig.read(), [2; 5]);
}

#[test]
fn nagle_holds_back_a_second_small_segment() {
    let mut rig = Rig::established(&plain());
    rig.write(10);
    rig.write(10);
    assert_eq!(rig.burst(), [(1, 20)]);
    rig.write(10);
    rig.write(10);
    rig.silent();
    rig.ack(1, 21);
    assert_eq!(rig.burst(), [(21, 20)]);
    // A full one may always leave, and a small one behind full ones (Minshall).
    rig.ack(1, 41);
    rig.write(MSS + 1);
    assert_eq!(rig.burst(), [(41, MSS), (41 + MSS as u32, 1)]);
}

#[test]
fn nodelay_holds_back_nothing() {
    let mut rig = Rig::established(&TcpConfig { nodelay: true, ..plain() });
    for i in 0..3 {
        rig.write(10);
        assert_eq!(rig.burst(), [(1 + 10 * i, 10)]);
    }
}

#[test]
fn cork_holds_back_for_200_ms() {
    let mut rig = Rig::established(&TcpConfig { cork: true, nodelay: true, ..plain() });
    rig.write(10);
    rig.quiet_until(millis(200));
    assert_eq!(rig.burst(), [(1, 10)]);
    rig.ack(1, 11);
    rig.write(MSS);
    assert_eq!(rig.burst().len(), 1);
    rig.write(10);
    rig.silent();
    rig.c.shutdown_write(rig.now);
    assert_eq!(rig.sent_data().1.len(), 10);
}

#[test]
fn chunks_that_join_are_one_piece() {
    let mut rig = Rig::established(&TcpConfig { cork: true, ..plain() });
    for _ in 0..20 {
        rig.c.send(rig.now, Chunk { bytes: vec![1; 50], joins: true }).unwrap();
    }
    let out = rig.c.poll_segment(rig.now).unwrap();
    assert_eq!((out.body().len(), out.body_len()), (1, MSS));
}

#[test]
fn many_tiny_chunks_fill_a_segment_by_pieces() {
    let mut rig = Rig::established(&plain());
    for _ in 0..12 {
        rig.write(2);
    }
    // Twice a segment that takes no more pieces; the rest is small and waits.
    assert_eq!(rig.burst(), [(1, 10), (11, 10)]);
    rig.ack(1, 21);
    assert_eq!(rig.burst(), [(21, 4)]);
}

/// Publish before emit: the durable half never knows less than the segment tells.
#[test]
fn the_record_is_ahead_of_the_segment() {
    let mut rig = Rig::established(&plain());
    rig.data(1, b"abc");
    rig.write(5 * MSS);
    rig.c.shutdown_write(rig.now);
    while let Some(out) = rig.c.poll_segment(rig.now) {
        let repr = out.repr;
        let end = repr.seq + out.body_len() as u32 + u32::from(repr.fin);
        let d = rig.c.durable();
        assert!(end.at_or_before(d.snd_max));
        assert_eq!(repr.ack, Some(d.rcv_nxt));
        assert!((d.rcv_nxt + u32::from(repr.window)).at_or_before(d.rcv_adv));
    }
}

/// RFC 9293 3.7.1: with SACK blocks a segment carries less, so that it still fits the path; what is
/// retransmitted as well.
#[test]
fn sack_blocks_come_out_of_the_payload() {
    let config = plain();
    let mut rig = Rig::connect(&config);
    assert!(rig.sent().sack_permitted);
    let syn_ack = SegmentRepr { syn: true, mss: Some(MSS as u16), ..rig.seg(0, 1) };
    rig.take(&SegmentRepr { sack_permitted: true, ..syn_ack }, b"");
    rig.burst();
    rig.data(101, &[1; 100]);
    rig.burst();
    rig.write(2 * (MSS - 12));
    assert_eq!(rig.burst(), [(1, MSS - 12), (1 + MSS as u32 - 12, MSS - 12)]);
    rig.data(301, &[1; 100]);
    rig.burst();
    rig.pass(secs(1));
    for (_, len) in rig.burst() {
        assert!(len <= MSS - 20, "{len}");
    }
    // The gaps are filled, and full segments carry all they can again.
    rig.data(1, &[1; 400]);
    rig.write(3 * MSS);
    rig.ack(401, 1 + 2 * (MSS as u32 - 12));
    assert!(rig.burst().iter().any(|(_, len)| *len == MSS));
}

mod joined {
    use proptest::prelude::*;

    use super::*;

    /// What came in order out of `came`, segments of `MSS` bytes by their number.
    fn in_order(came: &[bool]) -> u32 {
        1 + (came.iter().take_while(|came| **came).count() * MSS) as u32
    }

    proptest! {
        /// However a stream is joined to super-segments and cut into batches, with what is lost and
        /// retransmitted: it arrives as it was, no ACK is of what has not come, each batch in order
        /// is acknowledged by one ACK at most, and at the end all is acknowledged.
        #[test]
        fn any_batches_give_the_same_bytes(
            parts in prop::collection::vec((1..8_usize, any::<bool>(), 0..10_u8), 1..24),
        ) {
            let count: usize = parts.iter().map(|part| part.0).sum();
            let bytes: Vec<u8> = (0..count * MSS).map(|n| (n % 251) as u8).collect();
            let mut rig = Rig::established(&TcpConfig { recv_buffer: 512 * MSS, ..plain() });
            let (mut came, mut got, mut at) = (vec![false; count], Vec::new(), 0);
            let (mut lost, mut acked) = (Vec::new(), 1);
            let mut passes: Vec<_> = parts.iter().map(|&(segments, batch_ends, fate)| {
                let first = at;
                at += segments;
                (first, segments, batch_ends, fate)
            }).collect();
            while !passes.is_empty() {
                for (first, segments, batch_ends, fate) in passes.drain(..) {
                    if fate == 0 {
                        lost.push((first, segments, true, 1));
                        continue;
                    }
                    // What is beyond the window is not taken.
                    let end = (first + segments) * MSS;
                    let next = rig.c.durable().rcv_nxt.since(Seq::new(rig.irs + 1));
                    let window = rig.c.durable().window_left();
                    if end > (next + window) as usize {
                        lost.push((first, segments, batch_ends, 1));
                        continue;
                    }
                    let joined = if segments > 1 { MSS as u16 } else { 0 };
                    let segment = SegmentRepr { joined, ..rig.seg(1 + (first * MSS) as u32, 1) };
                    rig.take(&segment, &bytes[first * MSS..end]);
                    came[first..first + segments].fill(true);
                    if batch_ends {
                        let mut acks = 0;
                        while let Some(out) = rig.c.poll_segment(rig.now) {
                            let ack = out.repr.ack.unwrap().get().wrapping_sub(IRS);
                            prop_assert!((acked..=in_order(&came)).contains(&ack));
                            acked = ack;
                            acks += 1;
                        }
                        let gap = came.iter().rev().skip_while(|came| !**came).any(|came| !came);
                        prop_assert!(gap || !lost.is_empty() || acks <= 1, "{} ACKs", acks);
                    }
                    let read = rig.read();
                    rig.c.consumed(rig.now, read.len());
                    got.extend(read);
                }
                passes = std::mem::take(&mut lost);
                // A peer that waits for room learns of it, also where no batch has ended.
                while let Some(out) = rig.c.poll_segment(rig.now) {
                    acked = out.repr.ack.unwrap().get().wrapping_sub(IRS);
                }
            }
            for _ in 0..2 {
                while let Some(out) = rig.c.poll_segment(rig.now) {
                    acked = out.repr.ack.unwrap().get().wrapping_sub(IRS);
                }
                rig.pass(millis(500));
            }
            prop_assert!(got == bytes);
            prop_assert_eq!(rig.c.durable().rcv_nxt.get(), IRS + 1 + bytes.len() as u32);
            prop_assert_eq!(acked, in_order(&came));
        }
    }
}
