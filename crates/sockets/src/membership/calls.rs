//! Packaged calls of one thread: the one way in which control operations reach the inet server.
//!
//! A call is registered into the thread's request ring. It leaves when a threshold is reached or
//! when the thread waits. Calls complete in any order: a result names its call. A single call is a
//! batch of one.
//!
//! Dropping a batch *abandons* its calls. Waiting calls are cancelled, the others are still made.
//! Their results are thrown away, and a socket that one of them has made is closed.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use abi::call::{Op, Reply, ReplyWords};
use abi::client::REQUESTS;
use abi::{Errno, SocketId};

use super::first_look::FirstLook;
use super::rings::{CallOutcome, FinishedCall, NewCall, Rings, SocketSpec};
use super::slot::ThreadSlot;
use super::state::Membership;
use super::threads::ThreadClaim;
use crate::error::RegionFault;
use crate::lock::lock;
use crate::wait::Wait;

/// Calls registered before a batch flushes by itself, by default.
const THRESHOLD: u32 = REQUESTS / 2;
/// How often a collector checks again before it sleeps, while its results come: 2 to 5 µs. Sleeping
/// and waking takes longer. Meanwhile the server works on the remaining calls, unless it has just
/// finished them.
const LOOKS: u32 = 64;
/// The same before the first result has come, if it [pays](FirstLook): 8 to 20 µs.
const FIRST_LOOKS: u32 = 256;
/// The same for room in a full request ring: about half a µs.
const LOOKS_FOR_ROOM: u32 = 16;
/// How long to wait for room in a full request ring before looking again: no bell is rung for room.
const ROOM: Duration = Duration::from_millis(1);

/// The membership of a batch.
pub(crate) enum MembershipRef<'m> {
    Borrowed(&'m Membership),
    Shared(Arc<Membership>),
}

impl Deref for MembershipRef<'_> {
    type Target = Membership;

    fn deref(&self) -> &Membership {
        match self {
            Self::Borrowed(membership) => membership,
            Self::Shared(membership) => membership,
        }
    }
}

/// Calls that travel together. Made and used by one thread.
pub(crate) struct RawBatch<'m> {
    membership: MembershipRef<'m>,
    thread: ThreadClaim,
    number: u16,
    threshold: u32,
    unflushed: u32,
    first_look: FirstLook,
}

impl<'m> RawBatch<'m> {
    /// A batch that flushes by itself when half of the request ring is full.
    pub(crate) fn new(membership: &'m Membership) -> Result<Self, Errno> {
        Self::open(MembershipRef::Borrowed(membership), None)
    }

    /// A batch that flushes by itself at each `threshold`-th call.
    pub(crate) fn open(
        membership: MembershipRef<'m>,
        threshold: Option<u32>,
    ) -> Result<Self, Errno> {
        let threshold = threshold.unwrap_or(THRESHOLD).clamp(1, REQUESTS);
        let thread = membership.thread()?;
        let number = lock(&thread.rings).open_batch().ok_or(Errno::NOBUFS)?;
        let first_look = FirstLook::default();
        Ok(Self { membership, thread, number, threshold, unflushed: 0, first_look })
    }

    pub(crate) fn membership(&self) -> &Membership {
        &self.membership
    }

    /// Registers a call; its tag. Waits for room.
    pub(crate) fn register(&mut self, call: &NewCall) -> Result<u32, Errno> {
        let tag = loop {
            let staged = lock(&self.thread.rings).stage(Some(self.number), call);
            if let Some(tag) = staged.map_err(|RegionFault| self.membership.server.fault())? {
                break tag;
            }
            self.make_room()?;
        };
        self.unflushed += 1;
        if self.unflushed >= self.threshold {
            self.flush();
        }
        Ok(tag)
    }

    /// Registers the calls of `items`. `staged` gets each item and its call's tag. After an error
    /// only the first items are registered.
    pub(crate) fn register_all<T>(
        &mut self,
        items: &mut [T],
        call: impl Fn(&T) -> &NewCall,
        mut staged: impl FnMut(&mut T, u32),
    ) -> Result<(), Errno> {
        let mut left = items;
        while !left.is_empty() {
            let run = left.len().min((self.threshold - self.unflushed) as usize);
            let mut rings = lock(&self.thread.rings);
            let count = rings.stage_all(self.number, &mut left[..run], &call, &mut staged);
            drop(rings);
            let count = count.map_err(|RegionFault| self.membership.server.fault())?;
            self.unflushed += count;
            left = &mut left[count as usize..];
            if (count as usize) < run {
                self.make_room()?;
            } else if self.unflushed >= self.threshold {
                self.flush();
            }
        }
        Ok(())
    }

    /// Waits until the server has taken a call, or has answered one if all places are taken.
    /// Results stay where they are as long as there are places: their ring has room for all.
    fn make_room(&mut self) -> Result<(), Errno> {
        self.flush();
        if !lock(&self.thread.rings).has_place() {
            self.drain()?;
            if lock(&self.thread.rings).is_choked() {
                return Err(Errno::NOBUFS);
            }
        }
        let soon = Wait::Until(Instant::now() + ROOM);
        let has_room = || lock(&self.thread.rings).has_room();
        if !(0..LOOKS_FOR_ROOM).any(|_| looks(has_room)) {
            self.thread.sleep(&self.membership.server, soon, has_room)?;
        }
        if lock(&self.thread.rings).has_place() { Ok(()) } else { self.drain() }
    }

    /// Sends the registered calls on their way.
    pub(crate) fn flush(&mut self) {
        if std::mem::take(&mut self.unflushed) > 0 && lock(&self.thread.rings).publish() {
            self.membership.server.ring();
        }
    }

    /// How many results have come and were not fetched, and how many are due.
    pub(crate) fn counts(&self) -> (u32, u32) {
        lock(&self.thread.rings).counts(self.number)
    }

    /// Flushes, then waits until `wanted` results have come, or all that are due.
    pub(crate) fn wait_for(&mut self, wanted: u32, wait: Wait) -> Result<u32, Errno> {
        self.flush();
        loop {
            self.drain()?;
            let (ready, due) = self.counts();
            if ready >= wanted.min(ready + due) || wait.is_over() {
                return Ok(ready);
            }
            self.thread.sleep(&self.membership.server, wait, || {
                // A fault shows again, and is reported, in the next round.
                self.drain().is_err() || self.counts().0 >= wanted.min(ready + due)
            })?;
        }
    }

    /// The oldest result that has come.
    pub(crate) fn fetch(&mut self) -> Option<FinishedCall> {
        lock(&self.thread.rings).fetch(self.number)
    }

    /// The oldest results that have come, at most `most`, to the end of `into`.
    pub(crate) fn fetch_some(&mut self, most: u32, into: &mut Vec<FinishedCall>) {
        lock(&self.thread.rings).fetch_some(self.number, most, into);
    }

    /// Takes results as they lie in the ring; see [`Rings::collect`].
    pub(crate) fn collect(
        &mut self,
        take: impl FnMut(u32, Op, u64, &CallOutcome) -> bool,
    ) -> Result<(), Errno> {
        let number = self.number;
        sorted(&self.membership, &self.thread, |rings| rings.collect(number, take))
    }

    /// Looks for results for a few µs. True: some have come. `go_on`: earlier results have come in
    /// this wait.
    pub(crate) fn results_come_soon(&mut self, go_on: bool) -> bool {
        let come = |most: u32| (0..most).any(|_| looks(|| lock(&self.thread.rings).has_results()));
        if go_on {
            return come(LOOKS);
        }
        // Where this thread itself drives the stack nothing comes while it looks.
        if self.thread.drives_stack() || !self.first_look.is_due() {
            return false;
        }
        let found = come(FIRST_LOOKS);
        self.first_look.was(found);
        found
    }

    /// Sleeps until results come.
    pub(crate) fn sleep_for_results(&self, wait: Wait) -> Result<(), Errno> {
        let has_results = || lock(&self.thread.rings).has_results();
        self.thread.sleep(&self.membership.server, wait, has_results)
    }

    /// Cancels a call whose result is due. ENOENT if it is not.
    pub(crate) fn cancel(&mut self, tag: u32) -> Result<(), Errno> {
        loop {
            let mut rings = lock(&self.thread.rings);
            let cancel = rings.cancellation(self.number, tag).ok_or(Errno::NOENT)?;
            let staged = rings.stage(None, &cancel);
            drop(rings);
            let staged = staged.map_err(|RegionFault| self.membership.server.fault())?;
            if staged.is_some() {
                self.unflushed += 1;
                return Ok(());
            }
            self.make_room()?;
        }
    }

    /// The outcome of a call. `None`: the time is over. An error is an error of the waiting.
    ///
    /// # Errors
    /// EINVAL for a tag of another batch or one waited for already; EINTR; ENETDOWN.
    pub(crate) fn outcome(&mut self, tag: u32, wait: Wait) -> Result<Option<CallOutcome>, Errno> {
        Ok(self.finished(tag, wait)?.map(|finished| finished.outcome))
    }

    /// [`RawBatch::outcome`] with the call that it is the outcome of.
    #[inline]
    pub(crate) fn finished(&mut self, tag: u32, wait: Wait) -> Result<Option<FinishedCall>, Errno> {
        if !lock(&self.thread.rings).knows(self.number, tag) {
            return Err(Errno::INVAL);
        }
        self.flush();
        loop {
            self.drain()?;
            let finished = lock(&self.thread.rings).take(self.number, tag);
            if finished.is_some() {
                return Ok(finished);
            }
            if wait.is_over() {
                return Ok(None);
            }
            self.thread.sleep(&self.membership.server, wait, || {
                // A fault shows again, and is reported, in the next round.
                self.drain().is_err() || lock(&self.thread.rings).is_done(tag)
            })?;
        }
    }

    fn drain(&self) -> Result<(), Errno> {
        drain(&self.membership, &self.thread)
    }

    /// Registers a call for a spare socket, if one like this will probably be wanted. The call
    /// travels with the next flush.
    pub(crate) fn make_spare(&mut self, spec: SocketSpec) -> Result<(), Errno> {
        let staged = lock(&self.thread.rings).make_spare(spec);
        let staged = staged.map_err(|RegionFault| self.membership.server.fault())?;
        self.unflushed += u32::from(staged);
        Ok(())
    }

    /// Makes a no-reply call. With `rings` the server makes it at once, else before it does
    /// anything else for this client. False if there is no room for it.
    pub(crate) fn call_no_reply(
        membership: &Membership,
        call: &NewCall,
        rings: bool,
    ) -> Result<bool, Errno> {
        let server = &membership.server;
        let thread = membership.thread()?;
        // Room: earlier calls of this kind are over by now.
        drain(membership, &thread)?;
        let mut locked = lock(&thread.rings);
        let staged = locked.stage(None, call).map_err(|RegionFault| server.fault())?;
        locked.publish();
        drop(locked);
        if rings && staged.is_some() {
            server.ring();
        }
        Ok(staged.is_some())
    }

    /// One call that the server completes at once. It waits as long as that takes; signals do not
    /// end it.
    pub(crate) fn call(membership: &Membership, call: &NewCall) -> Result<ReplyWords, Errno> {
        let mut batch = RawBatch::new(membership)?;
        let tag = batch.surely_register(call)?;
        batch.surely_wait(tag)
    }

    /// As [`RawBatch::call`] for several calls that travel together; the first error, if one fails.
    pub(crate) fn call_all(
        membership: &Membership,
        calls: impl Iterator<Item = NewCall>,
    ) -> Result<Vec<ReplyWords>, Errno> {
        let mut batch = RawBatch::new(membership)?;
        let mut tags = Vec::new();
        for call in calls {
            tags.push(batch.surely_register(&call)?);
        }
        tags.into_iter().map(|tag| batch.surely_wait(tag)).collect()
    }

    /// [`RawBatch::register`] that no signal ends.
    pub(crate) fn surely_register(&mut self, call: &NewCall) -> Result<u32, Errno> {
        loop {
            match self.register(call) {
                Err(Errno::INTR) => {}
                other => return other,
            }
        }
    }

    /// Waits for a call's result; no signal ends it.
    pub(crate) fn surely_wait(&mut self, tag: u32) -> Result<ReplyWords, Errno> {
        loop {
            match self.outcome(tag, Wait::Forever) {
                Err(Errno::INTR) => {}
                other => return other?.unwrap_or(Err(Errno::AGAIN)),
            }
        }
    }
}

impl Drop for RawBatch<'_> {
    fn drop(&mut self) {
        // In a forked child the rings are the parent's.
        if self.membership.server.is_forked() {
            return;
        }
        let mut rings = lock(&self.thread.rings);
        rings.close_batch(self.number);
        let made = rings.publish();
        drop(rings);
        if made {
            self.membership.server.ring();
        }
    }
}

impl Membership {
    /// The name of a new socket: a spare one, or one that is made now.
    pub(crate) fn new_socket(&self, spec: SocketSpec) -> Result<SocketId, Errno> {
        if let Some(id) = self.take_spare(spec)? {
            return Ok(id);
        }
        match self.make_socket(spec) {
            // Another thread may have a spare one, or have closed a socket just now.
            Err(Errno::MFILE) => match self.take_spare_of_any(spec) {
                Some(id) => Ok(id),
                None => self.make_socket(spec),
            },
            other => other,
        }
    }

    fn make_socket(&self, spec: SocketSpec) -> Result<SocketId, Errno> {
        let words = RawBatch::call(self, &NewCall::new(spec.request()))?;
        match Reply::decode(Op::Socket, &words) {
            Ok(Reply::Socket(id)) => Ok(id),
            _ => Err(self.server.fault()),
        }
    }

    fn take_spare(&self, spec: SocketSpec) -> Result<Option<SocketId>, Errno> {
        let thread = self.thread()?;
        if !lock(&thread.rings).has_spare() {
            return Ok(None);
        }
        drain(self, &thread)?;
        let id = lock(&thread.rings).take_spare(spec);
        Ok(id)
    }

    /// A spare socket of any thread.
    fn take_spare_of_any(&self, spec: SocketSpec) -> Option<SocketId> {
        self.slots.all().iter().find_map(|slot| {
            // A fault shows again to the slot's own thread.
            let _ = drain(self, slot);
            lock(&slot.rings).take_spare(spec)
        })
    }
}

/// Is it so? Else some time passes.
fn looks(is_so: impl Fn() -> bool) -> bool {
    let so = is_so();
    if !so {
        std::hint::spin_loop();
    }
    so
}

/// Sorts the results that have come for a thread.
fn drain(membership: &Membership, thread: &ThreadSlot) -> Result<(), Errno> {
    sorted(membership, thread, Rings::drain)
}

/// Applies `sort` to the results that have come for a thread, and acts on them.
fn sorted(
    membership: &Membership,
    thread: &ThreadSlot,
    sort: impl FnOnce(&mut Rings) -> Result<bool, RegionFault>,
) -> Result<(), Errno> {
    let mut rings = lock(&thread.rings);
    let before = rings.made_spare();
    let drained = sort(&mut rings);
    let made = rings.made_spare().filter(|_| before.is_none());
    drop(rings);
    if let Some(id) = made {
        // Memory of the socket that had this index before is not needed any more.
        membership.end_closed(id.index);
    }
    if drained.map_err(|RegionFault| membership.server.fault())? {
        membership.server.ring();
    }
    Ok(())
}
