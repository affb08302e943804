use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::ring_bytes;
use crate::{Backing, Word32};

const AT: usize = 128;

fn slot(n: u64) -> Slot {
    std::array::from_fn(|word| n << 8 | word as u64)
}

struct Rig {
    region: Arc<Region>,
    capacity: u32,
    tail: Word32,
    head: Word32,
}

impl Rig {
    /// A ring whose indices stand at `start`.
    fn new(capacity: u32, start: u32) -> Self {
        let len = AT + ring_bytes(capacity);
        let (region, _fd) = Region::create("ring-test", len, Backing::Small).unwrap();
        let (tail, head) = (region.word32(AT).unwrap(), region.word32(AT + 64).unwrap());
        tail.store(start, Ordering::Relaxed);
        head.store(start, Ordering::Relaxed);
        Self { region, capacity, tail, head }
    }

    fn producer(&self) -> Producer {
        Producer::attach(&self.region, AT, self.capacity).unwrap()
    }

    fn consumer(&self) -> Consumer {
        Consumer::attach(&self.region, AT, self.capacity).unwrap()
    }
}

#[derive(Debug, Clone)]
enum Step {
    Stage,
    Publish,
    Push,
    Pop,
    PeekAt(u32),
    Advance,
    NewProducer,
    NewConsumer,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => Just(Step::Stage),
        2 => Just(Step::Publish),
        4 => Just(Step::Push),
        6 => Just(Step::Pop),
        2 => (0_u32..10).prop_map(Step::PeekAt),
        1 => Just(Step::Advance),
        1 => Just(Step::NewProducer),
        1 => Just(Step::NewConsumer),
    ];
    prop::collection::vec(step, 0..400)
}

proptest! {
    /// The ring against two queues: what is staged, and what is published.
    #[test]
    fn behaves_as_a_queue(power in 0_u32..5, start in index(), steps in steps()) {
        let rig = Rig::new(1 << power, start);
        let (mut producer, mut consumer) = (rig.producer(), rig.consumer());
        let (mut staged, mut published) = (VecDeque::new(), VecDeque::new());
        let (mut next, mut produced, mut consumed) = (0_u64, 0_u64, 0_u64);
        for step in steps {
            let full = staged.len() + published.len() == rig.capacity as usize;
            match step {
                Step::Stage | Step::Push => {
                    next += 1;
                    let push = matches!(step, Step::Push);
                    let next = slot(next);
                    let done = if push { producer.push(&next) } else { producer.stage(&next) };
                    prop_assert_eq!(done, if full { Err(PushError::Full) } else { Ok(()) });
                    if !full {
                        staged.push_back(next);
                        produced += 1;
                    }
                    if push && !full {
                        published.append(&mut staged);
                    }
                }
                Step::Publish => {
                    producer.publish();
                    published.append(&mut staged);
                }
                Step::Pop => {
                    let expected = published.pop_front();
                    consumed += u64::from(expected.is_some());
                    prop_assert_eq!(consumer.peek().unwrap(), expected);
                    prop_assert_eq!(consumer.pop().unwrap(), expected);
                }
                Step::PeekAt(n) => {
                    let expected = published.get(n as usize).copied();
                    prop_assert_eq!(consumer.peek_at(n).unwrap(), expected);
                }
                Step::Advance => {
                    if consumer.peek().unwrap().is_some() {
                        published.pop_front();
                        consumed += 1;
                    }
                    consumer.advance();
                }
                Step::NewProducer => {
                    // What was staged dies with the old one.
                    producer = rig.producer();
                    staged.clear();
                    (produced, consumed) = (published.len() as u64, 0);
                }
                Step::NewConsumer => consumer = rig.consumer(),
            }
            prop_assert_eq!(producer.staged() as usize, staged.len());
            let free = rig.capacity as usize - staged.len() - published.len();
            prop_assert_eq!(producer.free().unwrap() as usize, free);
            prop_assert_eq!(producer.produced(), produced);
            prop_assert_eq!(producer.consumed().unwrap(), consumed);
            prop_assert_eq!(consumer.len().unwrap() as usize, published.len());
            prop_assert_eq!(consumer.is_empty().unwrap(), published.is_empty());
        }
    }

    /// A peer that writes any indices at any time: faults or slots, no panic, and a view that fits.
    #[test]
    fn garbage_indices_are_faults(
        writes in prop::collection::vec((any::<bool>(), index(), 0_u8..4), 1..60),
    ) {
        let rig = Rig::new(8, 0);
        let (mut producer, mut consumer) = (rig.producer(), rig.consumer());
        for (which, value, step) in writes {
            (if which { &rig.tail } else { &rig.head }).store(value, Ordering::Relaxed);
            match step {
                0 => drop(producer.push(&slot(1))),
                1 => drop(consumer.pop()),
                2 => drop(consumer.peek_at(value)),
                _ => (producer, consumer) = (rig.producer(), rig.consumer()),
            }
            if let Ok(free) = producer.free() {
                prop_assert!(free <= 8);
            }
            if let Ok(len) = consumer.len() {
                prop_assert!(len <= 8);
            }
            if let Ok(consumed) = producer.consumed() {
                prop_assert!(consumed <= producer.produced());
            }
        }
    }
}

/// Indices: mostly near what is possible.
fn index() -> impl Strategy<Value = u32> {
    prop_oneof![0_u32..20, (0_u32..20).prop_map(|n| n.wrapping_neg()), any::<u32>()]
}

#[test]
fn each_impossible_move_is_a_fault() {
    let rig = Rig::new(4, 100);
    let (mut producer, mut consumer) = (rig.producer(), rig.consumer());
    producer.push(&slot(1)).unwrap();
    producer.stage(&slot(2)).unwrap();
    rig.head.store(102, Ordering::Relaxed);
    let unpublished = RingFault { from: 100, to: 102, room: 1 };
    assert_eq!(producer.free(), Err(unpublished), "consumed what was only staged");
    assert_eq!(producer.consumed(), Err(unpublished));
    rig.head.store(99, Ordering::Relaxed);
    assert!(producer.free().is_err(), "went backwards");
    rig.head.store(100, Ordering::Relaxed);
    assert_eq!(producer.free(), Ok(2));

    assert_eq!(consumer.len(), Ok(1));
    rig.tail.store(105, Ordering::Relaxed);
    assert_eq!(consumer.len(), Err(RingFault { from: 101, to: 105, room: 3 }), "more than fits");
    rig.tail.store(100, Ordering::Relaxed);
    assert!(consumer.len().is_err(), "took back what was seen");
    assert_eq!(consumer.pop(), Ok(Some(slot(1))), "known slots are still good");
    assert!(consumer.pop().is_err());
}

#[test]
fn a_full_ring_is_not_written_when_the_consumer_is_at_fault() {
    let rig = Rig::new(2, 0);
    let mut producer = rig.producer();
    producer.push(&slot(1)).unwrap();
    producer.push(&slot(2)).unwrap();
    assert_eq!(producer.push(&slot(3)), Err(PushError::Full));
    rig.head.store(3, Ordering::Relaxed);
    assert!(matches!(producer.push(&slot(3)), Err(PushError::Fault(_))));
    assert_eq!((producer.produced(), producer.staged()), (2, 0));
}

#[test]
fn a_ring_must_lie_in_its_region() {
    let rig = Rig::new(64, 0);
    assert!(Producer::attach(&rig.region, AT + 8, 64).is_err(), "not aligned");
    assert!(Consumer::attach(&rig.region, AT + 64 * 64, 64).is_err(), "past the end");
    assert!(Consumer::attach(&rig.region, usize::MAX & !63, 64).is_err());
    assert_eq!(ring_bytes(64), 128 + 64 * 64);
}

#[test]
fn two_threads_pass_a_million_slots() {
    let rig = Rig::new(64, u32::MAX - 1000);
    let (mut producer, mut consumer) = (rig.producer(), rig.consumer());
    let writer = std::thread::spawn(move || {
        for n in 0..1_000_000 {
            while producer.push(&slot(n)).is_err() {
                std::thread::yield_now();
            }
        }
    });
    for n in 0..1_000_000 {
        let got = loop {
            match consumer.pop().unwrap() {
                Some(got) => break got,
                None => std::thread::yield_now(),
            }
        };
        assert_eq!(got, slot(n));
    }
    writer.join().unwrap();
}
