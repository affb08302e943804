//! The words of a socket, as the native API uses them: bytes go between program and server without
//! a copy, so a count that is seen too early is memory that both use.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::{check, drain, push};
use crate::bell::{Ringer, Sleep, Sleeper};
use crate::readiness_bitmap::ReadinessBitmap;
use crate::ring::{Consumer, Producer};
use crate::sync::{OwnedFd, RingMemory, Word32, Word64, Words64};
use crate::waiters::{PositionWord, Waiters};

/// The bit of the program's thread.
const THREAD: u64 = 1 << 3;
/// The socket's place.
const SOCKET: u16 = 5;

/// The words that a program and the server share for one direction of one socket.
#[derive(Clone)]
struct Attachment {
    queue: RingMemory,
    /// Written by the server: bytes released, or bytes received.
    count: PositionWord,
    waiters: Waiters,
    /// Written by the program: bytes consumed.
    consumed: PositionWord,
    dirty: ReadinessBitmap,
    server: (Word32, OwnedFd),
    program: (Word32, OwnedFd),
    /// An area's bytes, of which loom reports accesses that could overlap.
    bytes: Arc<UnsafeCell<u64>>,
}

impl Attachment {
    fn new() -> Self {
        Self {
            queue: RingMemory::new(2, 0),
            count: PositionWord(Word64::new()),
            waiters: Waiters { bits: Word64::new(), position: Word64::new() },
            consumed: PositionWord(Word64::new()),
            dirty: ReadinessBitmap { summary: Word64::new(), words: Words64::new(1) },
            server: (Word32::new(), OwnedFd::new()),
            program: (Word32::new(), OwnedFd::new()),
            bytes: Arc::new(UnsafeCell::new(0)),
        }
    }

    #[allow(unsafe_code)]
    fn write(&self, value: u64) {
        // SAFETY: loom runs one thread at a time and reports accesses that could overlap.
        self.bytes.with_mut(|bytes| unsafe { *bytes = value });
    }

    #[allow(unsafe_code)]
    fn read(&self) -> u64 {
        // SAFETY: as in `write`.
        self.bytes.with(|bytes| unsafe { *bytes })
    }

    /// The program: has news for the server.
    fn announce(&self) {
        self.dirty.set(SOCKET);
        Ringer::new(self.server.0.clone(), self.server.1.clone()).ring();
    }

    /// The program: waits until `is_ready`, as `sockets` does.
    fn wait(&self, mut ask: impl FnMut(), is_ready: impl Fn() -> bool) {
        let sleeper = Sleeper::new(self.program.0.clone());
        while !is_ready() {
            ask();
            sleeper.announce(Sleep::Futex);
            self.waiters.add(THREAD);
            if is_ready() {
                sleeper.awake();
            } else {
                sleeper.wait_futex(None).unwrap();
            }
        }
    }

    /// The server: sleeps until the socket is marked.
    fn wait_for_mark(&self) {
        let sleeper = Sleeper::new(self.server.0.clone());
        let mut marked = false;
        while !marked {
            sleeper.announce(Sleep::Fd);
            if self.dirty.is_empty() {
                self.server.1.poll_and_drain();
            }
            sleeper.awake();
            self.dirty.take(usize::MAX, |_, bits| marked = bits >> SOCKET & 1 == 1);
        }
    }

    /// The server: rings the threads that wait for its words.
    fn tell(&self) {
        if self.waiters.take() & THREAD != 0 {
            Ringer::new(self.program.0.clone(), self.program.1.clone()).ring();
        }
    }
}

/// The program sends an area, waits for its release, and writes it again. `more`: a later release
/// rings nobody, as happens when there is no room worth waking for. If a ring is lost, the program
/// sleeps for ever.
fn slice_model(more: bool) {
    check(move || {
        let shared = Attachment::new();
        let program = thread::spawn({
            let shared = shared.clone();
            move || {
                shared.write(7);
                push(&mut Producer::over(shared.queue.clone()), 0);
                shared.announce();
                let ask = || shared.waiters.await_position(1, shared.count.get());
                shared.wait(ask, || shared.count.get() >= 1);
                shared.write(8);
            }
        });
        shared.wait_for_mark();
        assert_eq!(drain(&mut [Consumer::over(shared.queue.clone())]), 1);
        assert_eq!(shared.read(), 7);
        for released in 1..=1 + u64::from(more) {
            shared.count.set(released);
            if shared.waiters.reached(released - 1, released) {
                shared.tell();
            }
        }
        program.join().unwrap();
    });
}

#[test]
fn loom_a_slice_that_is_over_is_told_and_written_again() {
    slice_model(false);
}

#[test]
fn loom_a_slice_that_is_over_is_told_at_once_or_not_at_all() {
    slice_model(true);
}

#[test]
fn loom_what_is_received_in_place_is_given_back_before_it_is_written_again() {
    check(|| {
        let shared = Attachment::new();
        let program = thread::spawn({
            let shared = shared.clone();
            move || {
                let mut queue = Consumer::over(shared.queue.clone());
                for round in 0..2 {
                    shared.wait(|| {}, || shared.count.get() > round);
                    assert_eq!(queue.pop().unwrap(), Some(super::slot(round)));
                    assert_eq!(shared.read(), 10 + round);
                    shared.consumed.set(round + 1);
                    shared.announce();
                }
            }
        });
        let mut queue = Producer::over(shared.queue.clone());
        for round in 0..2 {
            while shared.consumed.get() < round {
                shared.wait_for_mark();
            }
            shared.write(10 + round);
            push(&mut queue, round);
            shared.count.set(round + 1);
            shared.tell();
        }
        program.join().unwrap();
        assert_eq!(shared.consumed.get(), 2);
    });
}
