//! Tests of the sending half alone: released bytes, their order, and refused bytes.

use std::sync::Arc;

use abi::client::{CLIENT, QUEUE};
use abi::frame::Piece;
use abi::nic::INET;
use inet::TxBytes as _;
use proptest::prelude::*;
use shm::{Backing, Pool, PoolLayout, Producer, Region};

use super::*;

const PLACE: PoolLayout = PoolLayout { table: 8192, pages_at: 12_288, pages: 64 };
const LEN: usize = 12_288 + 64 * 4096;

struct Rig {
    queue: Producer,
    pool: Pool,
    map: PoolMap,
    memory: Arc<ClientMemory>,
    tx: Tx,
}

fn rig() -> Rig {
    let (region, _fd) = Region::create("tx", LEN, Backing::Small).unwrap();
    Rig {
        queue: Producer::attach(&region, 0, QUEUE).unwrap(),
        pool: Pool::create(&region, PLACE, CLIENT).unwrap(),
        map: PoolMap::attach(&region, PLACE, INET).unwrap(),
        tx: Tx::new(Consumer::attach(&region, 0, QUEUE).unwrap()),
        memory: Arc::new(ClientMemory::new(region, 1)),
    }
}

impl Rig {
    fn take(&mut self, bounded: bool) -> Option<ClientChunk> {
        self.tx.take(0, &self.map, &self.memory, bounded).unwrap().map(|taken| taken.chunk)
    }
}

fn descriptor(area: &shm::Area, offset: u32, len: u32) -> shm::Slot {
    DataDescriptor { area: area.lend(), offset, len, flags: DataFlags::NONE, peer: None }.encode()
}

#[test]
fn neighbours_are_one_chunk() {
    let mut rig = rig();
    let area = rig.pool.alloc(1).unwrap();
    area.write(0, b"0123456789").unwrap();
    for (offset, len) in [(0, 4), (4, 6), (20, 1)] {
        rig.queue.push(&descriptor(&area, offset, len)).unwrap();
    }
    let mut first = rig.take(true).unwrap();
    let second = rig.take(true).unwrap();
    let third = rig.take(true).unwrap();
    assert!(first.append(second).is_ok());
    assert_eq!(first.len(), 10);
    let third = first.append(third).unwrap_err();
    assert_eq!(rig.tx.runs.len(), 2, "two stretches are unreleased");
    let sum = u32::from(u16::from_be_bytes(*b"23")) + u32::from(u16::from_be_bytes(*b"45"));
    assert_eq!(u32::from(first.checksum(2..6)), sum);
    let at = u32::try_from(area.region_offset()).unwrap();
    assert_eq!(first.piece(2..10), Some(Piece { client: 1, len: 8, offset: at + 2 }));
    assert_eq!(first.piece(2..11), None);
    assert_eq!(third.piece(0..1), Some(Piece { client: 1, len: 1, offset: at + 20 }));
}

#[test]
fn a_queue_that_is_filled_after_the_look_counts_as_full() {
    let mut rig = rig();
    let area = rig.pool.alloc(1).unwrap();
    let slot = descriptor(&area, 0, 1);
    for late in [1, 2] {
        for _ in late..QUEUE {
            rig.queue.push(&slot).unwrap();
        }
        rig.tx.look().unwrap();
        // One slot more than was seen fills it; with one less than that nobody can have waited.
        for _ in 1..late {
            assert!(rig.take(false).is_some());
        }
        rig.queue.push(&slot).unwrap();
        while rig.take(false).is_some() {}
        assert_eq!(std::mem::take(&mut rig.tx.was_full), late == 1, "{late}");
    }
}

/// The server takes a part. The program fills the queue meanwhile, and waits for a slot.
#[test]
fn a_queue_that_is_left_in_part_counts_as_full() {
    let mut rig = rig();
    let area = rig.pool.alloc(1).unwrap();
    let slot = descriptor(&area, 0, 1);
    for late in [24, 23] {
        for _ in 0..40 {
            rig.queue.push(&slot).unwrap();
        }
        rig.tx.look().unwrap();
        for _ in 0..late {
            rig.queue.push(&slot).unwrap();
        }
        for _ in 0..32 {
            assert!(rig.take(false).is_some());
        }
        rig.tx.stop_early().unwrap();
        assert_eq!(std::mem::take(&mut rig.tx.was_full), late == QUEUE - 40, "{late}");
        while rig.take(false).is_some() {}
        rig.tx.was_full = false;
    }
}

#[test]
fn bounds_hold_up_the_queue_and_nothing_else() {
    let mut rig = rig();
    let area = rig.pool.alloc(1).unwrap();
    rig.tx.limit = 5;
    for offset in [0, 10, 20] {
        rig.queue.push(&descriptor(&area, offset, 4)).unwrap();
    }
    for _ in 0..2 {
        assert!(rig.take(true).is_some());
        rig.tx.accepted(4);
    }
    assert!(rig.take(true).is_none());
    assert!(rig.tx.blocked);
    assert!(!rig.tx.roomy());
    rig.tx.acked(8);
    rig.tx.note_release();
    rig.tx.release();
    assert!(rig.tx.roomy());
    assert!(rig.take(true).is_some());
    assert!(!rig.tx.blocked);
    // A socket that is closed takes all, whatever the bounds.
    rig.queue.push(&descriptor(&area, 30, 4)).unwrap();
    rig.tx.limit = 0;
    assert!(rig.take(true).is_none());
    assert!(rig.take(false).is_some());
}

#[test]
fn what_an_earlier_connection_sent_does_not_count_for_the_next() {
    let mut rig = rig();
    let area = rig.pool.alloc(1).unwrap();
    rig.queue.push(&descriptor(&area, 0, 100)).unwrap();
    rig.take(true).unwrap();
    rig.tx.accepted(100);
    rig.tx.restart();
    rig.tx.note_release();
    rig.tx.release();
    assert_eq!(rig.tx.released, 100);
    rig.queue.push(&descriptor(&area, 100, 50)).unwrap();
    rig.take(true).unwrap();
    rig.tx.accepted(50);
    rig.tx.acked(0);
    assert!(!rig.tx.has_releasable());
    rig.tx.acked(50);
    rig.tx.note_release();
    rig.tx.release();
    assert!(rig.tx.is_drained());
}

proptest! {
    /// Bytes are released in queue order: never one that the core still has, and in the end all.
    #[test]
    fn releases_follow_the_queue(
        sends in proptest::collection::vec((0_u32..50, any::<bool>()), 1..60),
        acks in proptest::collection::vec(0_u64..200, 0..60),
    ) {
        let mut rig = rig();
        let area = rig.pool.alloc(1).unwrap();
        let (mut given, mut acked) = (0_u64, 0_u64);
        let mut acks = acks.into_iter();
        // The model: each descriptor's end, and how much the core must have acked to release it.
        let mut model = Vec::new();
        let mut end = 0;
        for (len, refused) in sends {
            rig.queue.push(&descriptor(&area, 0, len)).unwrap();
            prop_assert!(rig.take(false).is_some());
            end += u64::from(len);
            if refused {
                rig.tx.refuse(len, acked);
            } else {
                rig.tx.accepted(len);
                given += u64::from(len);
            }
            model.push((end, given));
            acked = (acked + acks.next().unwrap_or(0)).min(given);
            rig.tx.acked(acked);
            let whole = model.iter().take_while(|(_, need)| *need <= acked);
            let sure = whole.last().map_or(0, |(end, _)| *end);
            prop_assert!(rig.tx.target >= sure, "{} < {sure}", rig.tx.target);
            // Of a descriptor that is not wholly acked, as much as is; of what follows nothing.
            let kept = given - acked;
            prop_assert!(rig.tx.target <= end - kept);
            if rig.tx.has_releasable() {
                rig.tx.note_release();
                rig.tx.release();
            }
        }
        rig.tx.acked(given);
        if rig.tx.has_releasable() {
            rig.tx.note_release();
            rig.tx.release();
        }
        prop_assert!(rig.tx.is_drained());
        prop_assert!(rig.tx.runs.is_empty());
        prop_assert!(rig.tx.refused.is_empty());
    }
}

#[test]
fn what_is_refused_costs_no_memory_each_time() {
    let mut rig = rig();
    let area = rig.pool.alloc(1).unwrap();
    rig.queue.push(&descriptor(&area, 0, 10)).unwrap();
    drop(rig.take(true).unwrap());
    rig.tx.accepted(10);
    // Behind bytes that are not acknowledged: nothing, and single bytes that follow each other.
    for n in 0..1000 {
        rig.queue.push(&descriptor(&area, 10 + n, n % 2)).unwrap();
        drop(rig.take(true).unwrap());
        rig.tx.refuse(n % 2, 0);
    }
    assert_eq!(rig.tx.refused.len(), 1);
    assert_eq!(rig.tx.target, 0);
    rig.tx.acked(10);
    assert_eq!(rig.tx.target, 510);
}
