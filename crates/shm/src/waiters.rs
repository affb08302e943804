//! Words that one side writes and threads of the other side wait for: counts, and waiting threads.
//!
//! A [`PositionWord`] says how far one side has come. Everything before that position belongs to
//! the other side from then on: bytes to read, or memory to write again. A thread that finds a
//! count too low sleeps on its bell, and [`Waiters`] tells the counting side.
//!
//! The waiting thread:
//! 1. announces on its bell that it sleeps;
//! 2. sets the position that it waits for ([`Waiters::await_position`]), if an earlier one than
//!    usual is to wake it, and sets its bit ([`Waiters::add`], which ends with a fence);
//! 3. looks at the counts again, and sleeps if they are unchanged.
//!
//! The counting side ([`Waiters::reached`], [`Waiters::take`]):
//! 1. writes its words;
//! 2. fence;
//! 3. reads the position and the bits, and rings the bells of the threads to wake.
//!
//! Both fences are sequentially consistent. So either the counting side sees the bit and the
//! position, or the waiting thread sees the count. The order matters on both sides: the counting
//! side reads the position only after it has written the count. The model check is `loom_models`.
//!
//! The words lie in shared memory. A hostile waiter can keep itself asleep or be woken for nothing.

use std::ops::Deref;

use crate::sync::{AtomicU64, Ordering, Word64, fence};

/// How far one side has come; see the module's head.
#[derive(Debug, Clone)]
pub struct PositionWord(pub Word64);

impl PositionWord {
    /// How far it has come. The bytes that this gives to us are seen as the other side left them.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Publishes how far this side has come. All its accesses to the bytes before that position
    /// happen before.
    #[inline]
    pub fn set(&self, count: u64) {
        self.0.store(count, Ordering::Release);
    }
}

impl Deref for PositionWord {
    type Target = AtomicU64;

    fn deref(&self) -> &AtomicU64 {
        &self.0
    }
}

/// The waiting threads; see the module's head.
#[derive(Debug, Clone)]
pub struct Waiters {
    /// Bit `t`: thread `t` waits. The waiting thread sets it; the counting side clears it.
    pub bits: Word64,
    /// The threads are to be rung when a count reaches this position, even if the ring would not be
    /// worth it otherwise. 0 for none. Written by waiting threads.
    pub position: Word64,
}

impl Waiters {
    /// A position that no count reaches. It requests a ring when there is more room in the queue
    /// than there was, even if the queue was not full.
    pub const ROOM: u64 = u64::MAX;

    /// Clears the words when they are used anew: no thread waits.
    pub fn reset(&self) {
        self.bits.store(0, Ordering::Relaxed);
        self.position.store(0, Ordering::Relaxed);
    }

    /// Requests a ring when the count reaches `position`. An earlier position that another thread
    /// requested, and that `count` has not reached, stays. Call it under a lock that all waiting
    /// threads use, and before [`Waiters::add`].
    pub fn await_position(&self, position: u64, count: u64) {
        let before = self.position.load(Ordering::Relaxed);
        if before <= count || position < before {
            self.position.store(position, Ordering::Relaxed);
        }
    }

    /// Asks for a ring at the next change. Look again afterwards.
    pub fn add(&self, bits: u64) {
        self.bits.fetch_or(bits, Ordering::SeqCst);
        // A read-modify-write orders no later reads by itself.
        fence(Ordering::SeqCst);
    }

    /// Has the count, which went from `before` to `now`, reached the requested position? Call it
    /// after the count was set.
    #[must_use]
    pub fn reached(&self, before: u64, now: u64) -> bool {
        fence(Ordering::SeqCst);
        let position = self.position.load(Ordering::Relaxed);
        before < position && position <= now
    }

    /// Does a thread wait for [`Waiters::ROOM`]? Call it after slots were given back.
    #[must_use]
    pub fn await_room(&self) -> bool {
        fence(Ordering::SeqCst);
        self.position.load(Ordering::Relaxed) == Self::ROOM
    }

    /// Takes all bits, after the words were written: ring these threads.
    #[must_use]
    pub fn take(&self) -> u64 {
        fence(Ordering::SeqCst);
        // A plain load leaves the cache line shared: mostly no thread waits.
        match self.bits.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.bits.swap(0, Ordering::SeqCst),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Backing, Region};

    #[test]
    fn the_nearest_place_is_kept_until_it_is_reached() {
        let (region, _) = Region::create("waiters", 4096, Backing::Small).unwrap();
        let waiters =
            Waiters { bits: region.word64(0).unwrap(), position: region.word64(8).unwrap() };
        assert!(!waiters.reached(0, u64::MAX), "nobody asked");
        waiters.await_position(50, 0);
        waiters.await_position(100, 10);
        assert!(!waiters.reached(10, 49) && waiters.reached(49, 50) && waiters.reached(10, 99));
        assert!(!waiters.reached(50, 100), "one asks again after a ring");
        waiters.await_position(100, 50);
        assert!(waiters.reached(50, 100));
        waiters.await_position(70, 60);
        assert!(waiters.reached(60, 70), "an earlier one");
        assert!(!waiters.await_room());
        waiters.await_position(90, 80);
        waiters.await_position(Waiters::ROOM, 80);
        assert!(!waiters.await_room() && waiters.reached(80, 90), "rung then, one asks again");
        waiters.await_position(Waiters::ROOM, 90);
        assert!(waiters.await_room() && !waiters.reached(90, u64::MAX - 1));
        waiters.await_position(100, 90);
        assert!(!waiters.await_room() && waiters.reached(90, 100));
        waiters.add(0b10);
        waiters.add(0b11);
        assert_eq!((waiters.take(), waiters.take()), (0b11, 0));
        waiters.add(1);
        waiters.reset();
        assert!(waiters.take() == 0 && !waiters.reached(0, u64::MAX));
    }
}
