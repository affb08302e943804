//! Model checks of the ring, the bell, the marks, the pools ([`pool`]) and the words of a socket
//! ([`socket`]): `scripts/loom.sh`.
//!
//! Loom runs each model in every order of the threads' steps that the memory model allows, up to a
//! bound on preemptions. A slot read while it is written is reported by its cell, a lost wake-up as
//! a deadlock. Threads wait by `yield_now`, which tells loom that nothing happens until another
//! moves.

mod pool;
mod socket;

use loom::thread;

use crate::Slot;
use crate::bell::{Ringer, Sleep, Sleeper};
use crate::readiness_bitmap::ReadinessBitmap;
use crate::ring::{Consumer, Producer, PushError};
use crate::sync::{Ordering, OwnedFd, RingMemory, Word32, Word64, Words64};

/// Preemptions per execution. 3 find every published bug of such protocols; more take minutes.
const PREEMPTIONS: usize = 3;

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(model);
}

/// A slot with `n` in all its words, so that a mixture of two slots would show.
fn slot(n: u64) -> Slot {
    std::array::from_fn(|word| n * 8 + word as u64)
}

fn push(producer: &mut Producer, n: u64) {
    while let Err(error) = producer.push(&slot(n)) {
        assert_eq!(error, PushError::Full);
        thread::yield_now();
    }
}

/// `items` go through a ring of `capacity` whose indices stand at `start`.
fn ring_model(capacity: u32, start: u32, items: u64) {
    check(move || {
        let memory = RingMemory::new(capacity, start);
        let mut producer = Producer::over(memory.clone());
        let mut consumer = Consumer::over(memory);
        let writer = thread::spawn(move || {
            for n in 0..items {
                push(&mut producer, n);
                assert!(producer.consumed().unwrap() <= n + 1);
            }
            producer
        });
        let mut next = 0;
        while next < items {
            match consumer.pop().unwrap() {
                Some(got) => {
                    assert_eq!(got, slot(next), "lost, doubled, torn or out of order");
                    next += 1;
                }
                None => thread::yield_now(),
            }
        }
        let mut producer = writer.join().unwrap();
        assert_eq!(consumer.pop().unwrap(), None);
        assert_eq!(producer.consumed().unwrap(), items);
        assert_eq!(producer.free().unwrap(), capacity);
    });
}

#[test]
fn loom_ring_of_two_wraps_around() {
    ring_model(2, 0, 4);
}

#[test]
fn loom_ring_of_one_and_indices_past_their_end() {
    ring_model(1, u32::MAX, 3);
}

#[test]
fn loom_staged_slots_appear_together() {
    check(|| {
        let memory = RingMemory::new(4, u32::MAX - 1);
        let mut producer = Producer::over(memory.clone());
        let mut consumer = Consumer::over(memory);
        let writer = thread::spawn(move || {
            for n in 0..3 {
                producer.stage(&slot(n)).unwrap();
            }
            producer.publish();
        });
        // Looks twice at different places, then takes: nothing or all three is there.
        let first = consumer.peek_at(2).unwrap();
        if let Some(third) = first {
            assert_eq!(third, slot(2));
            assert_eq!(consumer.len().unwrap(), 3);
            assert_eq!(consumer.peek().unwrap(), Some(slot(0)));
        }
        writer.join().unwrap();
        for n in 0..3 {
            assert_eq!(consumer.pop().unwrap(), Some(slot(n)));
        }
        assert!(consumer.is_empty().unwrap());
    });
}

#[test]
fn loom_slots_taken_together_are_given_back_together() {
    check(|| {
        let memory = RingMemory::new(2, u32::MAX);
        let mut producer = Producer::over(memory.clone());
        let mut consumer = Consumer::over(memory);
        let writer = thread::spawn(move || {
            for n in 0..4 {
                while !producer.has_room(1).unwrap() {
                    thread::yield_now();
                }
                push(&mut producer, n);
            }
        });
        let mut next = 0;
        while next < 4 {
            let before = next;
            while let Some(got) = consumer.take().unwrap() {
                assert_eq!(got, slot(next), "lost, doubled, torn or out of order");
                next += 1;
            }
            consumer.give_back();
            if next == before {
                thread::yield_now();
            }
        }
        writer.join().unwrap();
    });
}

/// How the consumer of a model sleeps.
#[derive(Clone, Copy, PartialEq)]
enum SleepKind {
    Futex,
    Fd,
    /// First the one, then the other.
    Both,
    Driving,
    /// On the futex, after looking again for a while ([`crate::spin`]).
    Spun,
}

/// A consumer that sleeps whenever the rings are empty gets all items of `producers` threads. Each
/// thread has its own ring; all have the same bell. If a wake-up is lost, the consumer sleeps for
/// ever, and loom reports a deadlock.
fn bell_model(kind: SleepKind, producers: usize, items: u64) {
    check(move || {
        let (word, fd) = (Word32::new(), OwnedFd::new());
        let sleeper = Sleeper::new(word.clone());
        let mut rings = Vec::new();
        let mut writers = Vec::new();
        for _ in 0..producers {
            let memory = RingMemory::new(4, 0);
            rings.push(Consumer::over(memory.clone()));
            let ringer = Ringer::new(word.clone(), fd.clone());
            writers.push(thread::spawn(move || {
                let mut producer = Producer::over(memory);
                for n in 0..items {
                    push(&mut producer, n);
                    ringer.ring();
                }
            }));
        }
        let (mut left, mut futex) = (items * producers as u64, kind != SleepKind::Fd);
        while left > 0 {
            left -= drain(&mut rings);
            if left == 0 {
                break;
            }
            if kind == SleepKind::Spun {
                // Its bell says that it is awake, so no producer rings for the items that it finds
                // now.
                thread::yield_now();
                left -= drain(&mut rings);
                if left == 0 {
                    break;
                }
            }
            sleeper.announce(match (kind, futex) {
                (SleepKind::Driving, _) => Sleep::Driving,
                (_, true) => Sleep::Futex,
                (_, false) => Sleep::Fd,
            });
            let mut seen = false;
            for ring in &mut rings {
                seen |= !ring.is_empty().unwrap();
            }
            if seen {
                sleeper.awake();
            } else if kind == SleepKind::Driving {
                if sleeper.change(Sleep::Driving, Sleep::Fd) {
                    fd.poll_and_drain();
                }
                sleeper.awake();
            } else if futex {
                sleeper.wait_futex(None).unwrap();
            } else {
                fd.poll_and_drain();
                sleeper.awake();
            }
            futex = futex != (kind == SleepKind::Both);
        }
        for writer in writers {
            writer.join().unwrap();
        }
    });
}

/// A driver passes a frame, and then a frame is received. A consumer that waits for both hears of
/// both. A consumer that waits for received frames only also loses none, whatever it had announced
/// before.
fn quiet_model(waits: bool) {
    check(move || {
        let (word, fd) = (Word32::new(), OwnedFd::new());
        let (sleeper, ringer) = (Sleeper::new(word.clone()), Ringer::new(word, fd.clone()));
        let (passed, received) = (RingMemory::new(2, 0), RingMemory::new(2, 0));
        let mut rings = [Consumer::over(passed.clone()), Consumer::over(received.clone())];
        let driver = thread::spawn(move || {
            push(&mut Producer::over(passed), 0);
            ringer.ring_completion();
            push(&mut Producer::over(received), 0);
            ringer.ring();
        });
        let mut left = [u64::from(waits), 1];
        while left != [0, 0] {
            sleeper.announce(if left[0] > 0 { Sleep::Fd } else { Sleep::FdQuiet });
            let mut seen = false;
            for (ring, left) in rings.iter_mut().zip(left) {
                seen |= left > 0 && !ring.is_empty().unwrap();
            }
            if !seen {
                fd.poll_and_drain();
            }
            sleeper.awake();
            for (ring, left) in rings.iter_mut().zip(&mut left) {
                *left -= if *left > 0 { drain(std::slice::from_mut(ring)) } else { 0 };
            }
        }
        driver.join().unwrap();
    });
}

#[test]
fn loom_a_wanted_completion_wakes() {
    quiet_model(true);
}

#[test]
fn loom_a_quiet_sleeper_hears_of_the_rest() {
    quiet_model(false);
}

/// Two producers, each with a word of its own. A producer counts its word up, sets its number and
/// rings. The consumer looks only at the words whose numbers are set, and sleeps when there are
/// none. It sees every count, or it sleeps for ever.
fn marks_model(numbers: [u16; 2], counts: u64) {
    check(move || {
        let (word, fd) = (Word32::new(), OwnedFd::new());
        let sleeper = Sleeper::new(word.clone());
        let marks = ReadinessBitmap { summary: Word64::new(), words: Words64::new(66) };
        let values = [Word64::new(), Word64::new()];
        let markers: Vec<_> = (0..2)
            .map(|who| {
                let (marks, value) = (marks.clone(), values[who].clone());
                let ringer = Ringer::new(word.clone(), fd.clone());
                thread::spawn(move || {
                    for count in 1..=counts {
                        value.store(count, Ordering::Release);
                        marks.set(numbers[who]);
                        ringer.ring();
                    }
                })
            })
            .collect();
        let mut seen = [0; 2];
        while seen != [counts; 2] {
            sleeper.announce(Sleep::Fd);
            if marks.is_empty() {
                fd.poll_and_drain();
            }
            sleeper.awake();
            marks.take(usize::MAX, |word, bits| {
                for (who, number) in numbers.into_iter().enumerate() {
                    if usize::from(number) / 64 == word && bits >> (number % 64) & 1 == 1 {
                        seen[who] = values[who].load(Ordering::Acquire);
                    }
                }
            });
        }
        for marker in markers {
            marker.join().unwrap();
        }
    });
}

#[test]
fn loom_marks_in_one_word_are_not_lost() {
    marks_model([1, 2], 1);
}

#[test]
fn loom_marks_in_two_words_are_not_lost() {
    marks_model([1, 65], 1);
}

#[test]
fn loom_marks_that_share_a_bit_of_the_summary_are_not_lost() {
    marks_model([1, 4097], 1);
}

#[test]
fn loom_a_number_marked_again_is_not_lost() {
    check(|| {
        let marks = ReadinessBitmap { summary: Word64::new(), words: Words64::new(1) };
        let value = Word64::new();
        let marker = thread::spawn({
            let (marks, value) = (marks.clone(), value.clone());
            move || {
                for count in 1..=3 {
                    value.store(count, Ordering::Release);
                    marks.set(5);
                }
            }
        });
        let mut seen = 0;
        while seen < 3 {
            let before = seen;
            marks.take(usize::MAX, |_, bits| {
                if bits != 0 {
                    seen = value.load(Ordering::Acquire);
                }
            });
            if seen == before {
                thread::yield_now();
            }
        }
        marker.join().unwrap();
    });
}

fn drain(rings: &mut [Consumer]) -> u64 {
    let mut taken = 0;
    for ring in rings {
        while ring.pop().unwrap().is_some() {
            taken += 1;
        }
    }
    taken
}

#[test]
fn loom_futex_bell_loses_no_wake_up() {
    bell_model(SleepKind::Futex, 1, 2);
}

#[test]
fn loom_eventfd_bell_loses_no_wake_up() {
    bell_model(SleepKind::Fd, 1, 2);
}

#[test]
fn loom_bell_that_changes_how_it_sleeps_loses_no_wake_up() {
    bell_model(SleepKind::Both, 1, 2);
}

#[test]
fn loom_bell_that_sleeps_only_after_driving_loses_no_wake_up() {
    bell_model(SleepKind::Driving, 1, 2);
}

#[test]
fn loom_bell_that_sleeps_only_after_looking_again_loses_no_wake_up() {
    bell_model(SleepKind::Spun, 1, 2);
}

#[test]
fn loom_bell_of_two_producers_loses_no_wake_up() {
    bell_model(SleepKind::Both, 2, 1);
}
