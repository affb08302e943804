//! The two rings of a thread slot, and the calls whose results are due or not yet fetched.
//!
//! Each call has a place in a table as large as the result ring, so the server always finds room
//! for its result. The call's tag is that place and a serial number of it: a result finds its call
//! by index, and a result of an earlier call of the place is seen to be wrong. A result that has
//! come is linked into a list of its batch, oldest first. Every step takes the same time however
//! many calls are out.
//!
//! A batch that collects what has come ([`Rings::collect`]) gets it out of the ring without that
//! detour, as long as nothing is in its list, and the result can be told without asking anybody.
//!
//! Places hold sockets, and the last handle of a socket closes it, which takes the lock that these
//! rings are behind: so a place's socket is always handed out, never dropped here.

mod place;

use std::sync::Arc;

use abi::call::{Call, CallResult, Op, ReturnPath};
use abi::client::{ClientLayout, REQUESTS, RESULTS};
use shm::{Consumer, OutOfRange, Producer, PushError, Region};

use crate::error::Broken;
use crate::request::{Completion, Reply, Request, Ticket};
use crate::socket::Socket;

use self::place::{Batch, EMPTY, NEXT, NONE, Place, State, place_in};
pub(crate) use self::place::{Order, Outcome, Over};

/// Most batches on one slot.
const MAX_BATCHES: usize = 1 << 15;

/// A socket that was made before the program asked for one.
#[derive(Debug, Clone, Copy)]
struct Ahead {
    /// The call's arguments: kind and family.
    speaks: [u64; 2],
    /// Its name; `None`: the call's result is due.
    id: Option<u64>,
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Rings {
    client: u16,
    ring: u16,
    requests: Producer,
    results: Consumer,
    places: Vec<Place>,
    /// The first free place.
    free: u16,
    in_use: u32,
    /// Results that have come and were not fetched.
    unfetched: u32,
    batches: Vec<Batch>,
    free_batches: Vec<u16>,
    ahead: Option<Ahead>,
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
            ahead: None,
            connects: false,
        })
    }

    /// Stages a call for a socket such as the one that is being connected, if this is not the
    /// thread's first: it will want another. Its result rings nobody. True if there is a call.
    pub(crate) fn make_ahead(&mut self, speaks: [u64; 2]) -> Result<bool, Broken> {
        if !std::mem::replace(&mut self.connects, true) || self.ahead.is_some() {
            return Ok(false);
        }
        let [kind, family] = speaks;
        let mut order = Order::new(Op::Socket, Call::QUIET, [kind, family, 0, 0, 0, 0]);
        let staged = self.stage_as(NONE, State::Ahead, &mut order)?;
        self.ahead = staged.map(|_| Ahead { speaks, id: None });
        Ok(staged.is_some())
    }

    /// Was one made ahead, or is being made?
    pub(crate) fn makes_ahead(&self) -> bool {
        self.ahead.is_some()
    }

    /// The name of a socket that was made ahead and is now wanted.
    pub(crate) fn take_ahead(&mut self, speaks: [u64; 2]) -> Option<u64> {
        let id = self.ahead.filter(|ahead| ahead.speaks == speaks)?.id?;
        self.ahead = None;
        Some(id)
    }

    /// The name of the socket that was made ahead, if there is one.
    pub(crate) fn made_ahead(&self) -> Option<u64> {
        self.ahead?.id
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

    /// Ends a batch: what the server may keep waiting is cancelled, results that come later are
    /// thrown away, sockets that they name are closed. Returns what results still hold, to be
    /// dropped outside of the lock; after that [`Rings::publish`] and ring.
    pub(crate) fn close_batch(&mut self, batch: u16) -> Vec<Socket> {
        let mut held = Vec::new();
        while let Some(over) = self.fetch(batch) {
            held.extend(over.about);
            self.close_orphan(over.op, over.outcome);
        }
        if self.batch(batch).is_some_and(|batch| batch.due > 0) {
            for at in 0..self.places.len() {
                let Some(place) = self.places.get_mut(at) else { break };
                let State::Due(waits) = place.state else { continue };
                if place.batch != batch {
                    continue;
                }
                place.state = State::Abandoned;
                held.extend(place.about.take());
                let tag = place.tag;
                if waits {
                    self.cancel_unheard(tag);
                }
            }
        }
        if let Some(ended) = self.batches.get_mut(usize::from(batch)) {
            *ended = EMPTY;
            self.free_batches.push(batch);
        }
        held
    }

    fn batch(&mut self, batch: u16) -> Option<&mut Batch> {
        self.batches.get_mut(usize::from(batch))
    }

    fn place(&mut self, at: u16) -> Option<&mut Place> {
        self.places.get_mut(usize::from(at))
    }

    /// The place of a tag whose call is not forgotten.
    fn place_of(&mut self, tag: u32) -> Option<&mut Place> {
        let at = place_in(tag);
        self.place(at).filter(|place| place.tag == tag && place.state != State::Free)
    }

    /// Stages a call for a batch, or for nobody; `Ok(None)` when there is no room now. The order
    /// stays whole then.
    pub(crate) fn stage(
        &mut self,
        batch: Option<u16>,
        order: &mut Order,
    ) -> Result<Option<u32>, Broken> {
        let state = batch.map_or(State::Abandoned, |_| State::Due(order.may_wait()));
        self.stage_as(batch.unwrap_or(NONE), state, order)
    }

    fn stage_as(
        &mut self,
        batch: u16,
        state: State,
        order: &mut Order,
    ) -> Result<Option<u32>, Broken> {
        let tag = self.write(batch, state, order)?;
        self.count_staged(batch, tag.is_some().into());
        Ok(tag)
    }

    /// Stages calls for a batch, one after the other as far as there is room; their tickets go to
    /// the end of `tickets`.
    pub(crate) fn stage_all(
        &mut self,
        batch: u16,
        requests: &mut [Request],
        tickets: &mut Vec<Ticket>,
    ) -> Result<(), Broken> {
        tickets.reserve(requests.len());
        let mut staged = 0;
        for Request(order) in requests {
            let state = State::Due(order.may_wait());
            let Some(tag) = self.write(batch, state, order)? else { break };
            tickets.push(Ticket(tag));
            staged += 1;
        }
        self.count_staged(batch, staged);
        Ok(())
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
        state: State,
        order: &mut Order,
    ) -> Result<Option<u32>, Broken> {
        if self.free == NONE && !self.add_place() {
            return Ok(None);
        }
        let Some(place) = self.places.get_mut(usize::from(self.free)) else { return Err(Broken) };
        let tag = place.tag.wrapping_add(NEXT);
        let path = ReturnPath { client: self.client, ring: self.ring, tag };
        let Order { op, flags, priority, args, user_data, .. } = *order;
        match self.requests.stage(&Call { op, priority, flags, path, args }.encode()) {
            Ok(()) => {}
            Err(PushError::Full) => return Ok(None),
            Err(PushError::Fault(_)) => return Err(Broken),
        }
        self.free = place.next;
        (place.tag, place.op, place.priority) = (tag, op, priority);
        (place.batch, place.state) = (batch, state);
        (place.args, place.user_data) = ([args[0], args[1]], user_data);
        // A free place has none.
        if order.about.is_some() {
            place.about = order.about.take();
        }
        Ok(Some(tag))
    }

    /// Makes one more place, the next to be used; false if there are as many as there may be.
    #[cold]
    fn add_place(&mut self) -> bool {
        let Ok(at) = u16::try_from(self.places.len()) else { return false };
        if u32::from(at) >= RESULTS {
            return false;
        }
        self.places.push(Place::new(at));
        self.free = at;
        true
    }

    fn release(&mut self, at: u16) {
        let free = self.free;
        if let Some(place) = self.place(at) {
            place.state = State::Free;
            place.next = free;
            self.free = at;
            self.in_use -= 1;
        }
    }

    /// Makes what was staged visible to the server; ring it afterwards. False: there was nothing.
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
    pub(crate) fn drain(&mut self) -> Result<bool, Broken> {
        let mut made = false;
        while let Some(slot) = self.results.take()? {
            made |= self.sort(CallResult::decode(&slot)?)?;
        }
        self.results.give_back();
        if made {
            self.requests.publish();
        }
        Ok(made)
    }

    /// Sorts a result to its batch. True if a call was staged.
    fn sort(&mut self, result: CallResult) -> Result<bool, Broken> {
        let ReturnPath { client, ring, tag } = result.path;
        if client != self.client || ring != self.ring {
            return Err(Broken);
        }
        let place = self.place_of(tag).ok_or(Broken)?;
        let (batch, op) = (place.batch, place.op);
        match place.state {
            State::Due(_) => {
                (place.state, place.outcome) = (State::Done, result.outcome);
                self.link(batch, place_in(tag));
            }
            State::Abandoned => {
                self.release(place_in(tag));
                return Ok(self.close_orphan(op, result.outcome));
            }
            State::Ahead => {
                let speaks = place.args;
                self.release(place_in(tag));
                let id = result.outcome.ok().map(|[id, ..]| id);
                self.ahead = id.map(|_| Ahead { speaks, id });
            }
            State::Done | State::Free => return Err(Broken),
        }
        Ok(false)
    }

    /// As [`Rings::drain`], and results of `batch` go to the end of `into` at once, in the order in
    /// which they came, up to the first that needs more than itself to be told: that one and what
    /// comes after it is for [`Rings::fetch_some`], and so is all if there was something already.
    /// Sockets that they held go to `held`, to be dropped outside of the lock.
    pub(crate) fn collect(
        &mut self,
        batch: u16,
        into: &mut Vec<Completion>,
        held: &mut Vec<Socket>,
    ) -> Result<bool, Broken> {
        let (mut made, mut taken) = (false, 0);
        let mut direct = self.counts(batch).0 == 0;
        while let Some(slot) = self.results.take()? {
            let path = CallResult::path(&slot);
            if direct
                && (path.client, path.ring) == (self.client, self.ring)
                && let Some(place) = self.places.get_mut(usize::from(place_in(path.tag)))
                && (place.tag, place.batch) == (path.tag, batch)
                && matches!(place.state, State::Due(_))
            {
                let (ticket, user_data) = (Ticket(path.tag), place.user_data);
                let outcome = CallResult::decode(&slot)?.outcome;
                match Completion::plain(place.op, &outcome) {
                    // Apart, and made where it stays: no more than three words.
                    Some(Ok(Reply::Done)) => into.extend(std::iter::once_with(|| Completion {
                        ticket,
                        user_data,
                        result: Ok(Reply::Done),
                    })),
                    Some(result) => into.push(Completion { ticket, user_data, result }),
                    None => {
                        direct = false;
                        made |= self.sort(CallResult { path, outcome })?;
                        continue;
                    }
                }
                if place.about.is_some() {
                    held.extend(place.about.take());
                }
                (place.state, place.next) = (State::Free, self.free);
                self.free = place_in(path.tag);
                taken += 1;
            } else {
                made |= self.sort(CallResult::decode(&slot)?)?;
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
    pub(crate) fn fetch(&mut self, batch: u16) -> Option<Over> {
        let first = self.batch(batch)?.first;
        let tag = self.place(first)?.tag;
        self.take(batch, tag)
    }

    /// The oldest results of a batch, at most `most`, to the end of `into`: as [`Rings::fetch`] of
    /// each, and what all of them have in common is done once.
    pub(crate) fn fetch_some(&mut self, batch: u16, most: u32, into: &mut Vec<Over>) {
        let Some(list) = self.batches.get_mut(usize::from(batch)) else { return };
        let mut taken = 0;
        while taken < most
            && let Some(place) = self.places.get_mut(usize::from(list.first))
            && place.state == State::Done
        {
            into.push(place.over());
            let at = std::mem::replace(&mut list.first, place.next);
            (place.state, place.next) = (State::Free, self.free);
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
    pub(crate) fn take(&mut self, batch: u16, tag: u32) -> Option<Over> {
        let place = self.place_of(tag).filter(|place| place.batch == batch)?;
        (place.state == State::Done).then_some(())?;
        let over = place.over();
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
        self.place_of(tag).is_some_and(|place| place.state == State::Done)
    }

    /// The order that cancels a call, if its result is due. Its own call's priority, so that none
    /// of both overtakes the other.
    pub(crate) fn cancellation(&mut self, batch: u16, tag: u32) -> Option<Order> {
        let place = self.place_of(tag).filter(|place| place.batch == batch)?;
        matches!(place.state, State::Due(_)).then_some(())?;
        let ([socket, _], priority) = (place.args, place.priority);
        Some(self.order_to_cancel(tag, socket, priority))
    }

    fn order_to_cancel(&self, tag: u32, socket: u64, priority: u8) -> Order {
        let named = u64::from(tag) | u64::from(self.ring) << 32;
        Order { priority, ..Order::new(Op::Cancel, 0, [socket, named, 0, 0, 0, 0]) }
    }

    /// Cancels a call of which nobody wants to hear. Without room it waits on: harmless but for an
    /// accept, whose connection is then closed.
    fn cancel_unheard(&mut self, tag: u32) {
        let Some(place) = self.place_of(tag) else { return };
        let ([socket, _], priority) = (place.args, place.priority);
        let mut order = self.order_to_cancel(tag, socket, priority);
        // A fault shows again to whoever uses the slot next.
        let _ = self.stage(None, &mut order);
    }

    /// Stages the close of a socket that a call of nobody's has made. True if there was one.
    pub(crate) fn close_orphan(&mut self, op: Op, outcome: Outcome) -> bool {
        let (Op::Socket | Op::Accept, Ok([id, ..])) = (op, outcome) else {
            return false;
        };
        let mut order = Order::new(Op::Close, 0, [id, 0, 0, 0, 0, 0]);
        // Without room the socket stays until the process ends; a fault shows again.
        matches!(self.stage(None, &mut order), Ok(Some(_)))
    }
}
