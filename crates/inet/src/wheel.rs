//! Hierarchical timer wheel: arming, cancelling and firing take constant time, whatever the number.
//!
//! Eight levels of 64 slots; a slot of level 0 is one tick ([`TICK_BITS`]: 131 µs), a slot of each
//! further level is 64 times as long. An entry lives at the level of the highest bit group in which
//! its tick differs from the wheel's own tick, so the earliest entries are always in the first
//! occupied slot of the lowest occupied level, and one bit map per level finds it. When the wheel's
//! tick reaches a slot of a higher level, its entries move down (at most seven times in an entry's
//! life). Slots are doubly linked lists through one slab, so that an entry is unlinked where it is.
//!
//! A timer never fires early, and late by at most one tick. [`Wheel::poll_at`] may name the start
//! of a higher slot, which is earlier than its timers: the caller then polls once for nothing.

use alloc::vec::Vec;

use crate::time::Instant;

/// Binary logarithm of a tick's nanoseconds.
const TICK_BITS: u32 = 17;
const LEVELS: usize = 8;
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
const NONE: u32 = u32::MAX;

/// An armed timer. It is valid until it fires or is cancelled; its owner forgets it then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimerId(u32);

#[derive(Debug)]
struct Entry<K> {
    /// `None` on the free list.
    key: Option<K>,
    tick: u64,
    level: u8,
    slot: u8,
    previous: u32,
    next: u32,
}

/// The wheel. `K` names the purpose of a timer.
#[derive(Debug)]
pub(crate) struct Wheel<K> {
    /// All entries are at this tick or later.
    tick: u64,
    heads: [[u32; SLOTS]; LEVELS],
    occupied: [u64; LEVELS],
    entries: Vec<Entry<K>>,
    free: u32,
}

impl<K: Copy> Wheel<K> {
    pub(crate) fn new() -> Self {
        Self {
            tick: 0,
            heads: [[NONE; SLOTS]; LEVELS],
            occupied: [0; LEVELS],
            entries: Vec::new(),
            free: NONE,
        }
    }

    /// Arms a timer that fires at `at`, or with the next [`pop`](Self::pop) if that has passed.
    pub(crate) fn arm(&mut self, at: Instant, key: K) -> TimerId {
        let tick = tick_not_before(at).max(self.tick);
        let entry = Entry { key: Some(key), tick, level: 0, slot: 0, previous: NONE, next: NONE };
        let index = if self.free == NONE {
            self.entries.push(entry);
            u32::try_from(self.entries.len() - 1).unwrap_or(NONE)
        } else {
            let index = self.free;
            self.free = self.entries[index as usize].next;
            self.entries[index as usize] = entry;
            index
        };
        self.link(index);
        TimerId(index)
    }

    /// Cancels an armed timer.
    pub(crate) fn cancel(&mut self, id: TimerId) {
        if self.entries.get(id.0 as usize).is_some_and(|entry| entry.key.is_some()) {
            self.unlink(id.0);
            self.release(id.0);
        }
    }

    /// Whether `id`, armed now for `at`, would fire in the very tick it is armed for.
    pub(crate) fn is_at(&self, id: TimerId, at: Instant) -> bool {
        self.entries[id.0 as usize].tick == tick_not_before(at)
    }

    /// Whether `id` fires no later than a timer armed for `at` would.
    pub(crate) fn is_before(&self, id: TimerId, at: Instant) -> bool {
        self.entries[id.0 as usize].tick <= tick_not_before(at)
    }

    /// The next timer due at `now`, which is no longer armed. Timers of one tick come in any order.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<K> {
        let now = now.as_nanos() >> TICK_BITS;
        loop {
            let Some((level, slot, start)) = self.first() else {
                self.tick = self.tick.max(now);
                return None;
            };
            if start > now {
                self.tick = self.tick.max(now);
                return None;
            }
            self.tick = start;
            let index = self.heads[level][slot];
            if level == 0 {
                self.unlink(index);
                let key = self.entries[index as usize].key;
                self.release(index);
                return key;
            }
            self.move_down(level, slot);
        }
    }

    /// Links all entries of a slot anew: it has begun, so they belong to lower levels.
    fn move_down(&mut self, level: usize, slot: usize) {
        let mut index = core::mem::replace(&mut self.heads[level][slot], NONE);
        self.occupied[level] &= !(1 << slot);
        while index != NONE {
            let next = self.entries[index as usize].next;
            self.link(index);
            index = next;
        }
    }

    /// When to call [`pop`](Self::pop) next; `None` if nothing is armed.
    pub(crate) fn poll_at(&self) -> Option<Instant> {
        self.first().map(|(_, _, start)| Instant::from_nanos(start << TICK_BITS))
    }

    /// The first occupied slot (level, slot) and the tick at which it starts.
    fn first(&self) -> Option<(usize, usize, u64)> {
        let level = self.occupied.iter().position(|map| *map != 0)?;
        let slot = self.occupied[level].trailing_zeros();
        let shift = shift_of(level);
        let base = self.tick >> (shift + SLOT_BITS) << (shift + SLOT_BITS);
        Some((level, slot as usize, base | u64::from(slot) << shift))
    }

    fn link(&mut self, index: u32) {
        let tick = self.entries[index as usize].tick;
        // The highest differing bit, counted within the lowest group if none differs.
        let highest = 63 - ((tick ^ self.tick) | (SLOTS as u64 - 1)).leading_zeros();
        let level = (highest / SLOT_BITS) as usize;
        let slot = (tick >> shift_of(level)) as usize % SLOTS;
        let head = self.heads[level][slot];
        if head != NONE {
            self.entries[head as usize].previous = index;
        }
        let entry = &mut self.entries[index as usize];
        (entry.level, entry.slot) = (level as u8, slot as u8);
        (entry.previous, entry.next) = (NONE, head);
        self.heads[level][slot] = index;
        self.occupied[level] |= 1 << slot;
    }

    fn unlink(&mut self, index: u32) {
        let Entry { previous, next, level, slot, .. } = self.entries[index as usize];
        let (level, slot) = (usize::from(level), usize::from(slot));
        if next != NONE {
            self.entries[next as usize].previous = previous;
        }
        if previous != NONE {
            self.entries[previous as usize].next = next;
        } else {
            self.heads[level][slot] = next;
            if next == NONE {
                self.occupied[level] &= !(1 << slot);
            }
        }
    }

    fn release(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        entry.key = None;
        entry.next = self.free;
        self.free = index;
    }
}

fn tick_not_before(at: Instant) -> u64 {
    at.as_nanos().div_ceil(1 << TICK_BITS)
}

/// Number of a tick's low bits that a slot of `level` does not distinguish.
fn shift_of(level: usize) -> u32 {
    SLOT_BITS * level as u32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Arm(u64),
        Cancel(usize),
        Advance(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        // Distances over all levels: a uniform number of bits, then a uniform value.
        let span = || (0u32..50).prop_flat_map(|bits| 0..=(1u64 << bits));
        prop_oneof![
            4 => span().prop_map(Step::Arm),
            2 => any::<usize>().prop_map(Step::Cancel),
            3 => span().prop_map(Step::Advance),
        ]
    }

    proptest! {
        /// Against a sorted map: each timer fires exactly once, not early, late by one tick at most
        /// after the pop that could see it, never after its cancelling; poll_at is never too late.
        #[test]
        fn behaves_like_a_sorted_map(steps in proptest::collection::vec(step(), 1..200)) {
            let mut wheel = Wheel::new();
            let mut model: BTreeMap<u64, (u64, TimerId)> = BTreeMap::new();
            let mut now = 0u64;
            for (n, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Arm(after) => {
                        let at = now + after;
                        let id = wheel.arm(Instant::from_nanos(at), n as u64);
                        model.insert(n as u64, (at, id));
                    }
                    Step::Cancel(which) => {
                        let Some(key) = model.keys().nth(which % model.len().max(1)).copied()
                        else { continue };
                        let (_, id) = model.remove(&key).unwrap();
                        wheel.cancel(id);
                    }
                    Step::Advance(by) => now += by,
                }
                while let Some(key) = wheel.pop(Instant::from_nanos(now)) {
                    let (at, _) = model.remove(&key).expect("fired once and not cancelled");
                    prop_assert!(at <= now, "not early");
                }
                for (at, _) in model.values() {
                    prop_assert!(at + (1 << TICK_BITS) > now, "not more than a tick late");
                    let next = wheel.poll_at().expect("armed").as_nanos();
                    prop_assert!(next < at + (1 << TICK_BITS), "poll_at is not too late");
                    prop_assert!(next > now, "nothing due is left");
                }
                if model.is_empty() {
                    prop_assert_eq!(wheel.poll_at(), None);
                }
            }
        }
    }

    #[test]
    fn slots_are_used_again() {
        let mut wheel = Wheel::new();
        for round in 0..1000u64 {
            let ids: Vec<_> =
                (0..10).map(|n| wheel.arm(Instant::from_nanos(round + n), n)).collect();
            ids.into_iter().for_each(|id| wheel.cancel(id));
        }
        assert_eq!(wheel.entries.len(), 10);
        assert_eq!(wheel.poll_at(), None);
    }
}
