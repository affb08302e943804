//! The two rings of a thread slot, and the calls whose results are due or not yet fetched.
//!
//! Each call has a place in a table as large as the result ring, so the server always finds room
//! for its result. The call's tag is that place and a serial number of it. A result finds its call
//! by index; a result of an earlier call of the place has another serial number. A result that has
//! come is linked into a list of its batch, oldest first. Every step takes the same time however
//! many calls are out.
//!
//! A batch that collects its results ([`Rings::collect`]) takes them from the ring without that
//! list, as long as its list is empty.

mod pending;

use std::sync::Arc;

use abi::SocketId;
use abi::call::{CallFlags, Op, PackagedCall, PackagedResult, Reply, Request, ReturnPath};
use abi::client::{ClientLayout, REQUESTS, RESULTS};
use shm::{Consumer, OutOfRange, Producer, PushError, Region};

use crate::error::RegionFault;

use self::pending::{BatchCalls, CallState, EMPTY, NEXT, NONE, PendingCall};
pub(crate) use self::pending::{CallOutcome, FinishedCall, NewCall, SocketSpec, place_in};

/// Most batches on one slot.
const MAX_BATCHES: usize = 1 << 15;

/// A socket made before the program asks for one.
#[derive(Debug, Clone, Copy)]
struct SpareSocket {
    spec: SocketSpec,
    /// Its name; `None`: the call's result is due.
    id: Option<SocketId>,
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Rings {
    client: u16,
    ring: u16,
    requests: Producer,
    results: Consumer,
    places: Vec<PendingCall>,
    /// The first free place.
    free: u16,
    in_use: u32,
    /// Results that have come and were not fetched.
    unfetched: u32,
    batches: Vec<BatchCalls>,
    free_batches: Vec<u16>,
    spare: Option<SpareSocket>,
    /// A thread of this slot has connected before.
    connects: bool,
}

impl Rings {
    pub(crate) fn attach(
        client: u16,
        region: &Arc<Region>,
        layout: &ClientLayout,
        thread: u16,
    ) -> Result<Self, OutOfRange> {
        Ok(Self {
            client,
            ring: thread,
            requests: Producer::attach(region, layout.request_ring(thread), REQUESTS)?,
            results: Consumer::attach(region, layout.result_ring(thread), RESULTS)?,
            places: Vec::new(),
            free: NONE,
            in_use: 0,
            unfetched: 0,
            batches: Vec::new(),
            free_batches: Vec::new(),
            spare: None,
            connects: false,
        })
    }

    /// Stages a call for a spare socket like the one that is being connected. It does so only if
    /// the thread has connected before, because such a thread will want another. The result rings
    /// no bell. True: a call was staged.
    pub(crate) fn make_spare(&mut self, spec: SocketSpec) -> Result<bool, RegionFault> {
        if !std::mem::replace(&mut self.connects, true) || self.spare.is_some() {
            return Ok(false);
        }
        let call = NewCall::with_flags(spec.request(), CallFlags::QUIET);
        let staged = self.stage_as(NONE, CallState::Spare, &call)?;
        self.spare = staged.map(|_| SpareSocket { spec, id: None });
        Ok(staged.is_some())
    }

    /// Is there a spare socket, or is one being made?
    pub(crate) fn has_spare(&self) -> bool {
        self.spare.is_some()
    }

    /// The name of a socket that was made as a spare and is now wanted.
    pub(crate) fn take_spare(&mut self, spec: SocketSpec) -> Option<SocketId> {
        let id = self.spare.filter(|spare| spare.spec == spec)?.id?;
        self.spare = None;
        Some(id)
    }

    /// The name of the socket that was made as a spare, if there is one.
    pub(crate) fn made_spare(&self) -> Option<SocketId> {
        self.spare?.id
    }

    /// A number for a new batch; `None` when there are too many.
    pub(crate) fn open_batch(&mut self) -> Option<u16> {
        if let Some(free) = self.free_batches.pop() {
            return Some(free);
        }
        let number = u16::try_from(self.batches.len()).ok()?;
        if self.batches.len() >= MAX_BATCHES {
            return None;
        }
        self.batches.push(EMPTY);
        Some(number)
    }

    /// Ends a batch. Its waiting calls are cancelled. Later results are discarded, and sockets that
    /// they made are closed. Call [`Rings::publish`] afterwards, and ring.
    pub(crate) fn close_batch(&mut self, batch: u16) {
        while let Some(call) = self.fetch(batch) {
            self.close_orphan(call.op, call.outcome);
        }
        if self.batch(batch).is_some_and(|batch| batch.due > 0) {
            for at in 0..self.places.len() {
                let Some(place) = self.places.get_mut(at) else { break };
                let CallState::Due(waits) = place.state else { continue };
                if place.batch != batch {
                    continue;
                }
                place.state = CallState::Abandoned;
                let tag = place.tag;
                if waits {
                    self.cancel_abandoned(tag);
                }
            }
        }
        if let Some(ended) = self.batches.get_mut(usize::from(batch)) {
            *ended = EMPTY;
            self.free_batches.push(batch);
        }
    }

    fn batch(&mut self, batch: u16) -> Option<&mut BatchCalls> {
        self.batches.get_mut(usize::from(batch))
    }

    fn place(&mut self, at: u16) -> Option<&mut PendingCall> {
        self.places.get_mut(usize::from(at))
    }

    /// The place of a tag, unless its call is forgotten.
    fn place_of(&mut self, tag: u32) -> Option<&mut PendingCall> {
        let at = place_in(tag);
        self.place(at).filter(|place| place.tag == tag && place.state != CallState::Free)
    }

    /// Stages a call for a batch, or for an abandoned one; `Ok(None)` when there is no room now.
    pub(crate) fn stage(
        &mut self,
        batch: Option<u16>,
        call: &NewCall,
    ) -> Result<Option<u32>, RegionFault> {
        let state = batch.map_or(CallState::Abandoned, |_| CallState::Due(call.may_wait()));
        self.stage_as(batch.unwrap_or(NONE), state, call)
    }

    fn stage_as(
        &mut self,
        batch: u16,
        state: CallState,
        call: &NewCall,
    ) -> Result<Option<u32>, RegionFault> {
        let tag = self.write(batch, state, call)?;
        self.count_staged(batch, tag.is_some().into());
        Ok(tag)
    }

    /// Stages the calls of `items` for a batch, one after the other as far as there is room.
    /// `staged` gets each item and its call's tag.
    pub(crate) fn stage_all<T>(
        &mut self,
        batch: u16,
        items: &mut [T],
        call: impl Fn(&T) -> &NewCall,
        mut staged: impl FnMut(&mut T, u32),
    ) -> Result<u32, RegionFault> {
        let mut count = 0;
        for item in items {
            let new = call(item);
            let Some(tag) = self.write(batch, CallState::Due(new.may_wait()), new)? else { break };
            staged(item, tag);
            count += 1;
        }
        self.count_staged(batch, count);
        Ok(count)
    }

    fn count_staged(&mut self, batch: u16, calls: u32) {
        self.in_use += calls;
        if let Some(batch) = self.batch(batch) {
            batch.due += calls;
        }
    }

    /// Writes a call where it stays, into the next place and slot; its tag, or `None` without room.
    #[inline(always)]
    fn write(
        &mut self,
        batch: u16,
        state: CallState,
        call: &NewCall,
    ) -> Result<Option<u32>, RegionFault> {
        if self.free == NONE && !self.add_place() {
            return Ok(None);
        }
        let Some(place) = self.places.get_mut(usize::from(self.free)) else {
            return Err(RegionFault);
        };
        let tag = place.tag.wrapping_add(NEXT);
        let path = ReturnPath { client: self.client, ring: self.ring, tag };
        let NewCall { request, flags, priority, user_data } = *call;
        let (op, socket) = (request.op(), request.socket());
        match self.requests.stage(&PackagedCall::new(path, priority, flags, request).encode()) {
            Ok(()) => {}
            Err(PushError::Full) => return Ok(None),
            Err(PushError::Fault(_)) => return Err(RegionFault),
        }
        self.free = place.next;
        (place.tag, place.op, place.priority) = (tag, op, priority);
        (place.batch, place.state) = (batch, state);
        (place.socket, place.user_data) = (socket, user_data);
        Ok(Some(tag))
    }

    /// Makes one more place, the next to be used; false if there are as many as there may be.
    #[cold]
    fn add_place(&mut self) -> bool {
        let Ok(at) = u16::try_from(self.places.len()) else { return false };
        if u32::from(at) >= RESULTS {
            return false;
        }
        self.places.push(PendingCall::new(at));
        self.free = at;
        true
    }

    fn release(&mut self, at: u16) {
        let free = self.free;
        if let Some(place) = self.place(at) {
            place.state = CallState::Free;
            place.next = free;
            self.free = at;
            self.in_use -= 1;
        }
    }

    /// Makes the staged calls visible to the server. Ring it afterwards. False: nothing was staged.
    pub(crate) fn publish(&mut self) -> bool {
        let staged = self.requests.staged() > 0;
        self.requests.publish();
        staged
    }

    /// Has the server posted results that were not looked at? Or broken the ring.
    pub(crate) fn has_results(&mut self) -> bool {
        !matches!(self.results.is_empty(), Ok(true))
    }

    /// Are all places taken by results that have come and were not fetched?
    pub(crate) fn is_choked(&self) -> bool {
        self.unfetched >= RESULTS
    }

    /// Is there a place for one more call?
    pub(crate) fn has_place(&self) -> bool {
        self.in_use < RESULTS
    }

    /// Can a call be staged now? Or has the server broken the ring.
    pub(crate) fn has_room(&mut self) -> bool {
        self.has_place() && self.requests.has_room(1).unwrap_or(true)
    }

    /// Sorts arrived results to their batches. True if calls were made (and must be rung for).
    pub(crate) fn drain(&mut self) -> Result<bool, RegionFault> {
        let mut made = false;
        while let Some(slot) = self.results.take()? {
            made |= self.sort(PackagedResult::decode(&slot)?)?;
        }
        self.results.give_back();
        if made {
            self.requests.publish();
        }
        Ok(made)
    }

    /// Sorts a result to its batch. True if a call was staged.
    fn sort(&mut self, result: PackagedResult) -> Result<bool, RegionFault> {
        let ReturnPath { client, ring, tag } = result.path;
        if client != self.client || ring != self.ring {
            return Err(RegionFault);
        }
        let place = self.place_of(tag).ok_or(RegionFault)?;
        let (batch, op) = (place.batch, place.op);
        match place.state {
            CallState::Due(_) => {
                (place.state, place.outcome) = (CallState::Done, result.outcome);
                self.link(batch, place_in(tag));
            }
            CallState::Abandoned => {
                self.release(place_in(tag));
                return Ok(self.close_orphan(op, result.outcome));
            }
            CallState::Spare => {
                self.release(place_in(tag));
                let id = made_socket(op, &result.outcome);
                let made = |spare: SpareSocket| id.map(|_| SpareSocket { id, ..spare });
                self.spare = self.spare.and_then(made);
            }
            CallState::Done | CallState::Free => return Err(RegionFault),
        }
        Ok(false)
    }

    /// As [`Rings::drain`]. Results of `batch` go to `take` at once, in the order in which they
    /// came, up to the first that `take` declines. That one and the later ones are for
    /// [`Rings::fetch_some`]. If the batch's list was not empty, all of them are.
    pub(crate) fn collect(
        &mut self,
        batch: u16,
        mut take: impl FnMut(u32, Op, u64, &CallOutcome) -> bool,
    ) -> Result<bool, RegionFault> {
        let (mut made, mut taken) = (false, 0);
        let mut direct = self.counts(batch).0 == 0;
        while let Some(slot) = self.results.take()? {
            let path = PackagedResult::path(&slot);
            if direct
                && (path.client, path.ring) == (self.client, self.ring)
                && let Some(place) = self.places.get_mut(usize::from(place_in(path.tag)))
                && (place.tag, place.batch) == (path.tag, batch)
                && matches!(place.state, CallState::Due(_))
            {
                let outcome = PackagedResult::decode(&slot)?.outcome;
                if !take(path.tag, place.op, place.user_data, &outcome) {
                    direct = false;
                    made |= self.sort(PackagedResult { path, outcome })?;
                    continue;
                }
                (place.state, place.next) = (CallState::Free, self.free);
                self.free = place_in(path.tag);
                taken += 1;
            } else {
                made |= self.sort(PackagedResult::decode(&slot)?)?;
            }
        }
        self.results.give_back();
        self.in_use -= taken;
        if let Some(batch) = self.batch(batch) {
            batch.due -= taken;
        }
        if made {
            self.requests.publish();
        }
        Ok(made)
    }

    /// Puts a result at the end of its batch's list.
    fn link(&mut self, number: u16, at: u16) {
        self.unfetched += 1;
        let Some(batch) = self.batch(number) else { return };
        batch.due = batch.due.saturating_sub(1);
        batch.ready += 1;
        let last = std::mem::replace(&mut batch.last, at);
        if last == NONE {
            batch.first = at;
        }
        if let Some(place) = self.place(last) {
            place.next = at;
        }
        if let Some(place) = self.place(at) {
            (place.prev, place.next) = (last, NONE);
        }
    }

    /// Takes a result out of its batch's list.
    fn unlink(&mut self, number: u16, prev: u16, next: u16) {
        self.unfetched -= 1;
        if let Some(place) = self.place(prev) {
            place.next = next;
        }
        if let Some(place) = self.place(next) {
            place.prev = prev;
        }
        let Some(batch) = self.batch(number) else { return };
        batch.ready -= 1;
        if prev == NONE {
            batch.first = next;
        }
        if next == NONE {
            batch.last = prev;
        }
    }

    /// How many results of a batch have come and were not fetched; how many are due.
    pub(crate) fn counts(&mut self, batch: u16) -> (u32, u32) {
        self.batch(batch).map_or((0, 0), |batch| (batch.ready, batch.due))
    }

    /// The oldest result of a batch.
    pub(crate) fn fetch(&mut self, batch: u16) -> Option<FinishedCall> {
        let first = self.batch(batch)?.first;
        let tag = self.place(first)?.tag;
        self.take(batch, tag)
    }

    /// Moves the oldest results of a batch, at most `most`, to the end of `into`. As
    /// [`Rings::fetch`] of each, with the common work done once.
    pub(crate) fn fetch_some(&mut self, batch: u16, most: u32, into: &mut Vec<FinishedCall>) {
        let Some(list) = self.batches.get_mut(usize::from(batch)) else { return };
        let mut taken = 0;
        while taken < most
            && let Some(place) = self.places.get_mut(usize::from(list.first))
            && place.state == CallState::Done
        {
            into.push(place.finished());
            let at = std::mem::replace(&mut list.first, place.next);
            (place.state, place.next) = (CallState::Free, self.free);
            self.free = at;
            taken += 1;
        }
        match self.places.get_mut(usize::from(list.first)) {
            Some(first) => first.prev = NONE,
            None => list.last = NONE,
        }
        list.ready -= taken;
        self.unfetched -= taken;
        self.in_use -= taken;
    }

    /// The result of a call, if it has come.
    pub(crate) fn take(&mut self, batch: u16, tag: u32) -> Option<FinishedCall> {
        let place = self.place_of(tag).filter(|place| place.batch == batch)?;
        (place.state == CallState::Done).then_some(())?;
        let over = place.finished();
        let (prev, next) = (place.prev, place.next);
        self.unlink(batch, prev, next);
        self.release(place_in(tag));
        Some(over)
    }

    /// Is it a call of this batch that was not fetched?
    pub(crate) fn knows(&mut self, batch: u16, tag: u32) -> bool {
        self.place_of(tag).is_some_and(|place| place.batch == batch)
    }

    /// Has the call's result come?
    pub(crate) fn is_done(&mut self, tag: u32) -> bool {
        self.place_of(tag).is_some_and(|place| place.state == CallState::Done)
    }

    /// The call that cancels a call, if its result is due. Its own call's priority, so that none
    /// of both overtakes the other.
    pub(crate) fn cancellation(&mut self, batch: u16, tag: u32) -> Option<NewCall> {
        let place = self.place_of(tag).filter(|place| place.batch == batch)?;
        matches!(place.state, CallState::Due(_)).then_some(())?;
        let (socket, priority) = (place.socket, place.priority);
        Some(self.new_cancel(tag, socket, priority))
    }

    fn new_cancel(&self, tag: u32, socket: SocketId, priority: u8) -> NewCall {
        NewCall { priority, ..NewCall::new(Request::Cancel { socket, ring: self.ring, tag }) }
    }

    /// Cancels an abandoned call. Without room for the cancellation the call waits on. That is
    /// harmless: if an accept then gets a connection, the connection is closed.
    fn cancel_abandoned(&mut self, tag: u32) {
        let Some(place) = self.place_of(tag) else { return };
        let (socket, priority) = (place.socket, place.priority);
        let cancel = self.new_cancel(tag, socket, priority);
        // A fault shows again to the next user of the slot.
        let _ = self.stage(None, &cancel);
    }

    /// Stages the close of a socket that an abandoned call has made. True if there was one.
    fn close_orphan(&mut self, op: Op, outcome: CallOutcome) -> bool {
        let Some(socket) = made_socket(op, &outcome) else { return false };
        // Without room the socket stays until the process ends; a fault shows again.
        matches!(self.stage(None, &NewCall::new(Request::Close { socket })), Ok(Some(_)))
    }
}

/// The socket that a call has made.
fn made_socket(op: Op, outcome: &CallOutcome) -> Option<SocketId> {
    let words = outcome.as_ref().ok()?;
    match Reply::decode(op, words).ok()? {
        Reply::Socket(socket) | Reply::Accepted { socket, .. } => Some(socket),
        _ => None,
    }
}
