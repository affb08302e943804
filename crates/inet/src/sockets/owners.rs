//! Owners: the parties that share the sockets of one stack, and each one's share.
//!
//! The owner of a stack may serve several parties. It names the party when it opens a socket. The
//! sockets that come of this one, such as accepted connections, count for the same party. A party
//! may have one more of something scarce while it has at most 16 times what is left. So one alone
//! gets 16/17 of all, several get equal parts, and a newcomer always finds room.
//!
//! When the table of TIME-WAIT records is full, the party with the most records loses its oldest.
//!
//! A number is used again only when nothing counts for it any more.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::held::{HeldFrames, OutOfOrderUse, UnacceptedUse};
use crate::owner_id::OwnerId;
use crate::table::Handle;

/// Owners looked at for the one with the most TIME-WAIT records.
const LOOKED_AT: usize = 64;

/// What one owner has.
#[derive(Debug, Default)]
struct OwnerUsage {
    /// Parties with this number: one, but for the last number.
    parties: u32,
    sockets: usize,
    requests: usize,
    time_waits: usize,
    /// Its TIME-WAIT records in the order of their beginning; some may be over.
    ended: VecDeque<Handle>,
    /// Frames out of order of all its connections. It is made when the first comes.
    out_of_order: Option<OutOfOrderUse>,
    /// Frames of its connections that are not accepted. It is made when the first comes.
    unaccepted: Option<UnacceptedUse>,
    /// Bytes of the error queues of all its sockets.
    error_bytes: usize,
}

impl OwnerUsage {
    fn is_unused(&self) -> bool {
        self.parties == 0 && self.sockets + self.requests + self.time_waits == 0
    }
}

/// All owners of one stack.
#[derive(Debug)]
pub(crate) struct Owners {
    usage: Vec<OwnerUsage>,
    free: Vec<u16>,
    /// Numbers that have become free since [`Owners::poll_unused`] was last called.
    unused: Vec<u16>,
    /// The owner with the most TIME-WAIT records, as far as known.
    largest: u16,
    /// The next owner to be looked at.
    next: usize,
}

impl Owners {
    pub(super) fn new() -> Self {
        // The owner of the stack.
        let first = OwnerUsage { parties: 1, ..OwnerUsage::default() };
        Self {
            usage: Vec::from([first]),
            free: Vec::new(),
            unused: Vec::new(),
            largest: 0,
            next: 0,
        }
    }

    /// A number for a new party. If there is none, the last one is shared.
    pub(super) fn add(&mut self) -> OwnerId {
        let number = self.free.pop().unwrap_or_else(|| {
            let number = u16::try_from(self.usage.len()).unwrap_or(u16::MAX);
            if usize::from(number) == self.usage.len() {
                self.usage.push(OwnerUsage::default());
            }
            number
        });
        self.change(OwnerId::new(number), |usage| usage.parties += 1);
        OwnerId::new(number)
    }

    /// A party is gone. Its number is used again when nothing counts for it.
    pub(super) fn remove(&mut self, owner: OwnerId) {
        if owner.is_limited() {
            self.change(owner, |usage| usage.parties = usage.parties.saturating_sub(1));
        }
    }

    /// Whether no party has this number any more.
    pub(super) fn is_gone(&self, owner: OwnerId) -> bool {
        self.usage(owner).is_none_or(|usage| usage.parties == 0)
    }

    /// The next number that is free again.
    pub(super) fn poll_unused(&mut self) -> Option<OwnerId> {
        let number = self.unused.pop()?;
        self.free.push(number);
        Some(OwnerId::new(number))
    }

    fn change(&mut self, owner: OwnerId, change: impl FnOnce(&mut OwnerUsage)) {
        let Some(usage) = self.usage.get_mut(owner.index()) else { return };
        change(usage);
        if usage.is_unused() {
            *usage = OwnerUsage::default();
            self.unused.push(owner.number());
        }
    }

    fn usage(&self, owner: OwnerId) -> Option<&OwnerUsage> {
        self.usage.get(owner.index())
    }

    /// Whether an owner may have another socket while there is room for `free` ones.
    pub(super) fn may_add_socket(&self, owner: OwnerId, free: usize) -> bool {
        self.usage(owner).is_some_and(|usage| owner.may_have(usage.sockets, free))
    }

    /// Whether an owner's listeners may have another connection request while there is room for
    /// `free` ones.
    pub(super) fn may_add_request(&self, owner: OwnerId, free: usize) -> bool {
        self.usage(owner).is_some_and(|usage| owner.may_have(usage.requests, free))
    }

    pub(super) fn add_socket(&mut self, owner: OwnerId) {
        self.change(owner, |usage| usage.sockets += 1);
    }

    pub(super) fn remove_socket(&mut self, owner: OwnerId) {
        self.change(owner, |usage| usage.sockets = usage.sockets.saturating_sub(1));
    }

    pub(super) fn add_request(&mut self, owner: OwnerId) {
        self.change(owner, |usage| usage.requests += 1);
    }

    pub(super) fn remove_request(&mut self, owner: OwnerId) {
        self.change(owner, |usage| usage.requests = usage.requests.saturating_sub(1));
    }

    /// The count of frames out of order of an owner's connections. `None` if its share has no
    /// bound.
    pub(super) fn out_of_order(&mut self, owner: OwnerId) -> Option<&OutOfOrderUse> {
        let usage = self.usage.get_mut(owner.index()).filter(|_| owner.is_limited())?;
        Some(usage.out_of_order.get_or_insert_default())
    }

    /// The count of the data of an owner's connections that are not accepted. `None` if its share
    /// has no bound.
    pub(super) fn unaccepted(
        &mut self,
        owner: OwnerId,
        held: &HeldFrames,
    ) -> Option<&UnacceptedUse> {
        let usage = self.usage.get_mut(owner.index()).filter(|_| owner.is_limited())?;
        Some(usage.unaccepted.get_or_insert_with(|| held.unaccepted_use()))
    }

    /// Bytes that the error queues of an owner's sockets have.
    pub(super) fn error_bytes(&self, owner: OwnerId) -> usize {
        self.usage(owner).map_or(0, |usage| usage.error_bytes)
    }

    /// An owner's error queues have `more` bytes more and `fewer` bytes fewer.
    pub(super) fn count_error_bytes(&mut self, owner: OwnerId, more: usize, fewer: usize) {
        if let Some(usage) = self.usage.get_mut(owner.index()) {
            usage.error_bytes = (usage.error_bytes + more).saturating_sub(fewer);
        }
    }

    /// An owner has another TIME-WAIT record. `is_live` tells which of them are not over.
    pub(super) fn add_time_wait(
        &mut self,
        owner: OwnerId,
        key: Handle,
        is_live: impl Fn(Handle) -> bool,
    ) {
        let largest = self.usage.get(usize::from(self.largest)).map_or(0, |usage| usage.time_waits);
        let Some(usage) = self.usage.get_mut(owner.index()) else { return };
        usage.time_waits += 1;
        usage.ended.push_back(key);
        // Most end in the order of their beginning.
        while usage.ended.front().is_some_and(|first| !is_live(*first)) {
            usage.ended.pop_front();
        }
        if usage.ended.len() > 2 * usage.time_waits + 16 {
            usage.ended.retain(|key| is_live(*key));
        }
        if usage.time_waits > largest {
            self.largest = owner.number();
        }
    }

    pub(super) fn remove_time_wait(&mut self, owner: OwnerId) {
        self.change(owner, |usage| usage.time_waits = usage.time_waits.saturating_sub(1));
    }

    /// The TIME-WAIT record that gives way to one of `owner`'s: the oldest of the owner with the
    /// most. `None` if that is `owner` itself.
    pub(super) fn displaced_time_wait(
        &mut self,
        owner: OwnerId,
        is_live: impl Fn(Handle) -> bool,
    ) -> Option<Handle> {
        let count = |usage: &OwnerUsage| usage.time_waits;
        let mut largest = self.usage.get(usize::from(self.largest)).map_or(0, count);
        for _ in 0..LOOKED_AT.min(self.usage.len()) {
            self.next = (self.next + 1) % self.usage.len();
            let looked_at = self.usage.get(self.next).map_or(0, count);
            if looked_at > largest {
                largest = looked_at;
                self.largest = u16::try_from(self.next).unwrap_or(0);
            }
        }
        if self.usage(owner).map_or(0, count) >= largest {
            return None;
        }
        let ended = &mut self.usage.get_mut(usize::from(self.largest))?.ended;
        core::iter::from_fn(|| ended.pop_front()).find(|key| is_live(*key))
    }
}
