use alloc::vec::Vec;
use proptest::prelude::*;

use super::*;
use crate::tcp::tests::Chunk;

/// A queue beside the plain stream that it stands for.
struct Model {
    queue: TcpSendQueue<Chunk>,
    stream: Vec<u8>,
    acked: usize,
    next: usize,
}

impl Model {
    fn new() -> Self {
        Self { queue: TcpSendQueue::new(), stream: Vec::new(), acked: 0, next: 0 }
    }

    fn push(&mut self, len: usize, joins: bool) {
        let bytes: Vec<u8> = (0..len).map(|i| (self.stream.len() + i) as u8).collect();
        self.stream.extend(&bytes);
        self.queue.push(Chunk { bytes, joins }, SendFlags::default(), 0);
    }

    fn bytes(&self, range: &QueueRange) -> Vec<u8> {
        let pieces = self.queue.pieces(range);
        assert!(pieces.as_slice().len() <= MAX_TX_PIECES);
        let mut bytes = Vec::new();
        for piece in pieces.as_slice() {
            bytes.extend_from_slice(&piece.bytes.bytes[piece.range.clone()]);
        }
        assert_eq!(bytes.len(), range.len);
        bytes
    }

    fn take(&mut self, max: usize) {
        let range = self.queue.at_next(max);
        let bytes = self.bytes(&range);
        assert_eq!(bytes, self.stream[self.next..self.next + range.len]);
        let rest = self.stream.len() - self.next;
        assert!(range.len == max.min(rest) || range.pieces_full);
        self.queue.advance(&range);
        self.next += range.len;
    }

    fn check(&self) {
        assert_eq!(self.queue.unsent(), self.stream.len() - self.next);
        assert_eq!(self.queue.unacked(), self.stream.len() - self.acked);
        // Any place can be retransmitted.
        for offset in [self.acked, (self.acked + self.stream.len()) / 2] {
            let again = self.queue.at(offset as u64, 100);
            assert_eq!(self.bytes(&again), self.stream[offset..offset + again.len]);
            let rest = (self.stream.len() - offset).min(100);
            assert!(again.len == rest || again.pieces_full);
        }
    }
}

proptest! {
    #[test]
    fn the_queue_is_the_stream(
        steps in prop::collection::vec((0_u8..4, 0_usize..300, any::<bool>()), 1..200),
    ) {
        let mut m = Model::new();
        for (what, amount, joins) in steps {
            match what {
                0 => m.push(amount % 60, joins),
                1 => m.take(amount),
                2 => {
                    m.acked = (m.acked + amount).min(m.stream.len());
                    m.queue.acked_to(m.acked as u64);
                    m.next = m.next.max(m.acked);
                }
                _ => m.push(1, true),
            }
            m.check();
        }
    }
}

#[test]
fn chunks_go_when_their_last_byte_is_acknowledged() {
    let mut m = Model::new();
    m.push(10, false);
    m.push(10, false);
    m.queue.acked_to(9);
    assert_eq!(m.queue.chunks.len(), 2);
    m.queue.acked_to(10);
    assert_eq!(m.queue.chunks.len(), 1);
    m.queue.acked_to(20);
    assert_eq!(m.queue.chunks.len(), 0);
}

#[test]
fn a_joining_chunk_is_no_new_piece() {
    let mut m = Model::new();
    m.push(10, false);
    m.take(10);
    m.push(10, true);
    assert_eq!(m.queue.chunks.len(), 1);
    m.take(100);
    assert_eq!(m.queue.unsent(), 0);
}

#[test]
fn a_segment_has_no_more_pieces_than_a_frame_takes() {
    let mut m = Model::new();
    for _ in 0..MAX_TX_PIECES + 1 {
        m.push(1, false);
    }
    let range = m.queue.at_next(100);
    assert_eq!((range.len, range.pieces_full), (MAX_TX_PIECES, true));
}
