//! The ring: a single-producer single-consumer queue of 64-byte slots in a region.
//!
//! ```text
//! offset 0     tail, u32: slots ever published; written by the producer. The layout may put more
//!              words of the producer behind it, from offset 8 on
//! offset 64    head, u32: slots ever consumed; written by the consumer
//! offset 128   slots
//! ```
//!
//! Both indices run freely and wrap at 2^32; index `i` lies in slot `i mod capacity`. Each side
//! keeps its own index in private memory, and a cached copy of the other's. It reads the other's
//! index again only when the copy says full or empty. So on the busy path the two sides share no
//! cache line but the slots. A release store of `tail` publishes a slot; a release store of `head`
//! gives it back.
//!
//! The other side may be hostile. An impossible index of the other side is a [`RingFault`]: more
//! consumed than published, more published than fits, or going backwards. The ring uses no such
//! index as an address before that check. One process at a time is on each side; the types take
//! `&mut self`.

#[cfg(not(loom))]
use std::sync::Arc;

use crate::layout::Slot;
#[cfg(not(loom))]
use crate::region::{OutOfRange, Region};
use crate::sync::{Ordering, RingMemory};

/// The peer wrote an impossible index. The ring cannot be used any more; drop the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("peer moved its ring index from {from} to {to} where at most {room} steps were possible")]
pub struct RingFault {
    /// Its index as last seen.
    pub from: u32,
    /// Its index now.
    pub to: u32,
    /// How far it could have moved.
    pub room: u32,
}

/// Why a slot was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// The consumer is behind; try again when it has consumed.
    #[error("the ring is full")]
    Full,
    /// The consumer broke the ring.
    #[error(transparent)]
    Fault(#[from] RingFault),
}

/// Checks a peer's index: from `seen`, it may have moved on by at most `room`.
#[inline]
fn moved(seen: u32, now: u32, room: u32) -> Result<u32, RingFault> {
    let steps = now.wrapping_sub(seen);
    if steps <= room { Ok(steps) } else { Err(RingFault { from: seen, to: now, room }) }
}

/// The writing side of a ring.
#[derive(Debug)]
pub struct Producer {
    ring: RingMemory,
    /// Next index to write; slots `published..tail` are staged.
    tail: u32,
    published: u32,
    /// The consumer's index as last read.
    head: u32,
    /// Slots published since attach, plus those that lay unread then.
    produced: u64,
}

impl Producer {
    /// The writing side of the ring at `offset`, going on where the indices there stand (an
    /// all-zero region holds empty rings).
    ///
    /// # Errors
    /// [`OutOfRange`] when [`ring_bytes`](crate::ring_bytes) do not fit, `offset` is no multiple of
    /// 64, or the region is mapped read-only.
    ///
    /// # Panics
    /// When `capacity` is no power of two: capacities are constants of a layout.
    #[cfg(not(loom))]
    pub fn attach(region: &Arc<Region>, offset: usize, capacity: u32) -> Result<Self, OutOfRange> {
        RingMemory::in_region(region, offset, capacity).map(Self::over)
    }

    pub(crate) fn over(ring: RingMemory) -> Self {
        let tail = ring.tail().load(Ordering::Relaxed);
        let head = ring.head().load(Ordering::Acquire);
        let produced = u64::from(tail.wrapping_sub(head));
        Self { ring, tail, published: tail, head, produced }
    }

    /// Slots that can be staged now.
    ///
    /// # Errors
    /// [`RingFault`].
    pub fn free(&mut self) -> Result<u32, RingFault> {
        self.look()?;
        Ok(self.ring.capacity() - self.tail.wrapping_sub(self.head))
    }

    /// Slots in all, and those published or staged that the consumer still has.
    ///
    /// # Errors
    /// [`RingFault`].
    pub fn fill(&mut self) -> Result<(u32, u32), RingFault> {
        let slots = self.ring.capacity();
        Ok((slots, slots - self.free()?))
    }

    /// Can so many slots be staged now? The consumer's index is read, and so its cache line taken
    /// from it, only if they could not when it was read last.
    ///
    /// # Errors
    /// [`RingFault`].
    #[inline]
    pub fn has_room(&mut self, slots: u32) -> Result<bool, RingFault> {
        let used = self.tail.wrapping_sub(self.head);
        Ok(self.ring.capacity().saturating_sub(used) >= slots || self.free()? >= slots)
    }

    /// Reads the consumer's index, which can be at most the published one.
    #[inline]
    fn look(&mut self) -> Result<(), RingFault> {
        let now = self.ring.head().load(Ordering::Acquire);
        let room = self.published.wrapping_sub(self.head);
        if room > self.ring.capacity() {
            // So it was found at attach.
            return Err(RingFault { from: self.head, to: now, room: self.ring.capacity() });
        }
        moved(self.head, now, room)?;
        self.head = now;
        Ok(())
    }

    /// Writes a slot that the consumer does not see yet.
    ///
    /// # Errors
    /// [`PushError`]; the slot is not written then.
    #[inline]
    pub fn stage(&mut self, slot: &Slot) -> Result<(), PushError> {
        if self.tail.wrapping_sub(self.head) >= self.ring.capacity() && self.free()? == 0 {
            return Err(PushError::Full);
        }
        self.ring.write(self.tail, slot);
        self.tail = self.tail.wrapping_add(1);
        Ok(())
    }

    /// Makes all staged slots visible to the consumer. Ring its bell afterwards.
    #[inline]
    pub fn publish(&mut self) {
        if self.published != self.tail {
            self.ring.tail().store(self.tail, Ordering::Release);
            self.produced += u64::from(self.staged());
            self.published = self.tail;
        }
    }

    /// [`Producer::stage`] and [`Producer::publish`].
    ///
    /// # Errors
    /// [`PushError`]; nothing is changed then.
    pub fn push(&mut self, slot: &Slot) -> Result<(), PushError> {
        self.stage(slot)?;
        self.publish();
        Ok(())
    }

    /// Slots staged and not published.
    #[inline]
    #[must_use]
    pub fn staged(&self) -> u32 {
        self.tail.wrapping_sub(self.published)
    }

    /// Slots written since attach, staged ones included, plus those that lay unread at attach. The
    /// slot that made this count `n` is consumed once [`Producer::consumed`] is `n` or more.
    #[inline]
    #[must_use]
    pub fn produced(&self) -> u64 {
        self.produced + u64::from(self.staged())
    }

    /// Slots consumed since attach.
    ///
    /// # Errors
    /// [`RingFault`].
    #[inline]
    pub fn consumed(&mut self) -> Result<u64, RingFault> {
        self.look()?;
        Ok(self.produced() - u64::from(self.tail.wrapping_sub(self.head)))
    }
}

/// The reading side of a ring.
#[derive(Debug)]
pub struct Consumer {
    ring: RingMemory,
    /// Next index to read; slots `returned..head` are taken and not given back.
    head: u32,
    returned: u32,
    /// The producer's index as last read.
    tail: u32,
}

impl Consumer {
    /// The reading side of the ring at `offset`, going on where the indices there stand.
    ///
    /// # Errors
    /// As [`Producer::attach`].
    ///
    /// # Panics
    /// When `capacity` is no power of two: capacities are constants of a layout.
    #[cfg(not(loom))]
    pub fn attach(region: &Arc<Region>, offset: usize, capacity: u32) -> Result<Self, OutOfRange> {
        RingMemory::in_region(region, offset, capacity).map(Self::over)
    }

    pub(crate) fn over(ring: RingMemory) -> Self {
        let head = ring.head().load(Ordering::Relaxed);
        Self { ring, head, returned: head, tail: head }
    }

    /// Unread slots as far as known.
    #[inline]
    fn known(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    /// Reads the producer's index, which can be at most a whole ring ahead of ours.
    #[inline]
    fn look(&mut self) -> Result<(), RingFault> {
        let now = self.ring.tail().load(Ordering::Acquire);
        // An empty ring is looked at again and again.
        if now == self.tail { Ok(()) } else { self.note_tail(now) }
    }

    fn note_tail(&mut self, now: u32) -> Result<(), RingFault> {
        let room = self.ring.capacity() - self.tail.wrapping_sub(self.returned);
        moved(self.tail, now, room)?;
        self.tail = now;
        Ok(())
    }

    /// Takes the oldest slot.
    ///
    /// # Errors
    /// [`RingFault`].
    #[inline]
    pub fn pop(&mut self) -> Result<Option<Slot>, RingFault> {
        let slot = self.peek()?;
        if slot.is_some() {
            self.advance();
        }
        Ok(slot)
    }

    /// The oldest slot, which stays. A hostile producer may change it, so use the value of one
    /// call.
    ///
    /// # Errors
    /// [`RingFault`].
    #[inline]
    pub fn peek(&mut self) -> Result<Option<Slot>, RingFault> {
        self.peek_at(0)
    }

    /// The `n`-th unread slot (0 is the oldest), which stays.
    ///
    /// # Errors
    /// [`RingFault`].
    #[inline]
    pub fn peek_at(&mut self, n: u32) -> Result<Option<Slot>, RingFault> {
        if n >= self.known() {
            self.look()?;
            if n >= self.known() {
                return Ok(None);
            }
        }
        Ok(Some(self.ring.read(self.head.wrapping_add(n))))
    }

    /// Gives the oldest slot back to the producer. Without an unread slot nothing happens.
    #[inline]
    pub fn advance(&mut self) {
        self.advance_by(1);
    }

    /// Gives the `slots` oldest slots back to the producer at once. Without so many unread slots
    /// nothing happens.
    #[inline]
    pub fn advance_by(&mut self, slots: u32) {
        if self.known() >= slots {
            self.head = self.head.wrapping_add(slots);
            self.give_back();
        }
    }

    /// The index of the next slot. It wraps around.
    #[must_use]
    pub fn position(&self) -> u32 {
        self.head
    }

    /// As [`Consumer::pop`] for one of many slots. The producer has the slot back only after
    /// [`Consumer::give_back`], which costs one store for all.
    ///
    /// # Errors
    /// [`RingFault`].
    #[inline]
    pub fn take(&mut self) -> Result<Option<Slot>, RingFault> {
        let slot = self.peek()?;
        self.head = self.head.wrapping_add(u32::from(slot.is_some()));
        Ok(slot)
    }

    /// Gives all slots that were taken back to the producer.
    #[inline]
    pub fn give_back(&mut self) {
        if self.returned != self.head {
            self.ring.head().store(self.head, Ordering::Release);
            self.returned = self.head;
        }
    }

    /// Slots in all, and those unread.
    ///
    /// # Errors
    /// [`RingFault`].
    pub fn fill(&mut self) -> Result<(u32, u32), RingFault> {
        Ok((self.ring.capacity(), self.len()?))
    }

    /// Unread slots.
    ///
    /// # Errors
    /// [`RingFault`].
    pub fn len(&mut self) -> Result<u32, RingFault> {
        self.look()?;
        Ok(self.known())
    }

    /// Is there nothing to read?
    ///
    /// # Errors
    /// [`RingFault`].
    #[inline]
    pub fn is_empty(&mut self) -> Result<bool, RingFault> {
        if self.known() == 0 {
            self.look()?;
        }
        Ok(self.known() == 0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
