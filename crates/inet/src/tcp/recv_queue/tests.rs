use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use proptest::prelude::*;

use super::*;
use crate::tcp::tests::Frame;

/// The stream's byte at offset `i`.
fn byte(i: u32) -> u8 {
    (i.wrapping_mul(31) >> 3) as u8
}

fn piece(offset: u32, len: u32) -> RxPiece<Frame> {
    // Some bytes around the payload, as in a frame.
    let bytes: Vec<u8> = (0..len + 8).map(|i| byte((offset + i).wrapping_sub(4))).collect();
    RxPiece { frame: Frame(bytes), range: 4..4 + len as usize }
}

fn drain(receiver: &mut ReceiveQueue<Frame>) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(piece) = receiver.pop() {
        bytes.extend_from_slice(piece.bytes());
    }
    bytes
}

proptest! {
    /// Against a map of single bytes: whatever order and overlap, the stream comes out, and no
    /// later than when the kept pieces complete it.
    #[test]
    fn the_stream_comes_out_in_order(
        base: u32,
        limit in 1_usize..20,
        arrivals in prop::collection::vec((0_u32..200, 0_u32..40), 1..120),
    ) {
        let mut receiver = ReceiveQueue::new(4096, limit);
        let mut next = Seq::new(base);
        let edge = Seq::new(base) + 180;
        let mut seen = BTreeMap::new();
        let mut got = 0_u32;
        for (offset, len) in arrivals {
            let seq = Seq::new(base) + offset;
            let arrival = receiver.insert(&mut next, edge, seq, piece(offset, len));
            seen.extend((offset..(offset + len).min(180)).map(|i| (i, ())));
            let bytes = drain(&mut receiver);
            for b in &bytes {
                prop_assert_eq!(*b, byte(got));
                got += 1;
            }
            prop_assert_eq!(next, Seq::new(base) + got);
            let complete = (0..).take_while(|i| seen.contains_key(i)).count() as u32;
            prop_assert!(got <= complete);
            let moved = matches!(arrival, PayloadArrival::InOrder | PayloadArrival::Filled);
            prop_assert_eq!(bytes.is_empty(), !moved);
            check_kept(&receiver, next, edge, limit);
        }
        prop_assert_eq!(receiver.unconsumed(), got as usize);
        // In the end the sender repeats everything in order.
        for offset in (0..180).step_by(10) {
            receiver.insert(&mut next, edge, Seq::new(base) + offset, piece(offset, 10));
        }
        let rest = drain(&mut receiver);
        let wanted: Vec<u8> = (got..180).map(byte).collect();
        prop_assert_eq!(rest, wanted);
        prop_assert!(receiver.out_of_order.is_empty());
    }

    /// Without overlap and with room for all, nothing has to be retransmitted.
    #[test]
    fn any_order_of_segments_is_enough(
        order in Just((0_u32..30).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let mut receiver = ReceiveQueue::new(4096, 64);
        let mut next = Seq::new(u32::MAX - 77);
        let (start, edge) = (next, next + 300);
        for i in order {
            receiver.insert(&mut next, edge, start + i * 10, piece(i * 10, 10));
        }
        prop_assert_eq!(drain(&mut receiver), (0..300).map(byte).collect::<Vec<_>>());
    }
}

/// Sorted, apart from each other, beyond the first gap, within the window, not too many.
fn check_kept(receiver: &ReceiveQueue<Frame>, next: Seq, edge: Seq, limit: usize) {
    assert!(receiver.out_of_order.len() <= limit);
    let mut last = next;
    for (i, early) in receiver.out_of_order.iter().enumerate() {
        assert!(!early.piece.range.is_empty());
        assert!(if i == 0 { early.seq.after(last) } else { early.seq.at_or_after(last) });
        last = early.end();
    }
    assert!(last.at_or_before(edge));
}

#[test]
fn what_was_reported_is_never_thrown_away() {
    let mut receiver = ReceiveQueue::new(4096, 2);
    let mut next = Seq::new(0);
    let edge = Seq::new(1000);
    let mut put =
        |offset: u32| receiver.insert(&mut next, edge, Seq::new(offset), piece(offset, 10));
    assert_eq!(put(500), PayloadArrival::OutOfOrder);
    assert_eq!(put(300), PayloadArrival::OutOfOrder);
    assert_eq!(put(700), PayloadArrival::Useless);
    assert_eq!(put(100), PayloadArrival::Useless);
    let kept: Vec<u32> = receiver.out_of_order.iter().map(|early| early.seq.get()).collect();
    assert_eq!(kept, [300, 500]);
}

#[test]
fn nothing_is_taken_after_the_fin() {
    let mut receiver = ReceiveQueue::new(4096, 8);
    let mut next = Seq::new(0);
    receiver.fin = Some(Seq::new(15));
    let edge = Seq::new(1000);
    assert_eq!(
        receiver.insert(&mut next, edge, Seq::new(0), piece(0, 20)),
        PayloadArrival::InOrder
    );
    assert_eq!(next, Seq::new(15));
    assert_eq!(
        receiver.insert(&mut next, edge, Seq::new(15), piece(15, 20)),
        PayloadArrival::Useless
    );
}

#[test]
fn an_early_fin_is_reported_with_the_data_before_it() {
    let mut receiver = ReceiveQueue::new(4096, 8);
    let mut next = Seq::new(0);
    let edge = Seq::new(1000);
    receiver.insert(&mut next, edge, Seq::new(10), piece(10, 20));
    receiver.take_fin(next, Seq::new(30));
    let blocks = |receiver: &mut ReceiveQueue<Frame>| -> Vec<(u32, u32)> {
        let (blocks, _) = receiver.sack_report(4, true);
        blocks.as_slice().iter().map(|block| (block.start.get(), block.end.get())).collect()
    };
    assert_eq!(blocks(&mut receiver), [(10, 31)]);
    receiver.insert(&mut next, edge, Seq::new(0), piece(0, 10));
    assert_eq!((next, blocks(&mut receiver)), (Seq::new(30), Vec::new()));
    // In order there is nothing to report.
    let mut receiver = ReceiveQueue::<Frame>::new(4096, 8);
    receiver.take_fin(Seq::new(0), Seq::new(0));
    assert_eq!(blocks(&mut receiver), []);
}

/// A frame whose holders can be counted.
struct Counted(alloc::rc::Rc<[u8; 10]>);

impl crate::bytes::RxBytes for Counted {
    fn bytes(&self) -> &[u8] {
        &self.0[..]
    }
}

#[test]
fn what_is_dropped_gives_its_frames_back() {
    let alive = alloc::rc::Rc::new([0; 10]);
    let frame = || RxPiece { frame: Counted(alive.clone()), range: 0..10 };
    let mut receiver = ReceiveQueue::new(4096, 10);
    let mut next = Seq::new(0);
    let edge = next + 4096;
    receiver.insert(&mut next, edge, Seq::new(0), frame());
    receiver.insert(&mut next, edge, Seq::new(20), frame());
    receiver.insert(&mut next, edge, Seq::new(40), frame());
    assert_eq!(alloc::rc::Rc::strong_count(&alive), 4);
    // What can never come in order goes; what is in order stays for the application.
    receiver.clear_out_of_order();
    assert_eq!(alloc::rc::Rc::strong_count(&alive), 2);
    assert_eq!(receiver.ready_len(), 10);
    receiver.insert(&mut next, edge, Seq::new(20), frame());
    receiver.clear();
    assert_eq!(alloc::rc::Rc::strong_count(&alive), 1);
}
