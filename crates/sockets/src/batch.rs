//! Packaged calls: the one way in which control operations reach the inet server.
//!
//! Calls are registered into the thread's request ring, flushed when a threshold is reached or when
//! somebody waits, and complete in any order: a result names its call. A single call is a batch of
//! one. A call that may take long (connect, accept, readable) completes when it can and holds up
//! nothing; it can be cancelled.
//!
//! A batch that is dropped *abandons* its calls: those that wait are cancelled, the others are
//! still made; their results are thrown away when they come, and a socket that one of them has made
//! is closed.
//!
//! What goes through the rings is `rings.rs`; what a call is, typed, is `request.rs`.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use abi::call::{Call, Op};
use abi::client::REQUESTS;
use abi::{Errno, SocketId};

use crate::client::{Client, lock};
use crate::error::Broken;
use crate::request::{Completion, Request, Ticket};
use crate::rings::{Order, Outcome, Over, Rings};
use crate::socket::Socket;
use crate::thread::{Held, ThreadSlot};
use crate::wait::Wait;

/// Results that [`CallBatch::collect`] takes at a time, of those that were sorted before.
const FETCHED: u32 = 32;
/// Calls registered before a batch flushes by itself, unless told otherwise.
const THRESHOLD: u32 = REQUESTS / 2;
/// How often a collector looks again before it sleeps, while its results come: 2 to 5 µs, and to
/// sleep and be woken takes longer. The server is at the rest of them, if it has not just ended.
const LOOKS: u32 = 64;
/// The same for room in a full request ring: about half a µs.
const LOOKS_FOR_ROOM: u32 = 16;
/// How long to wait for room in a full request ring before looking again: no bell is rung for room.
const ROOM: Duration = Duration::from_millis(1);

/// The client of a batch.
enum Whose<'c> {
    Borrowed(&'c Client),
    Shared(Arc<Client>),
}

impl Deref for Whose<'_> {
    type Target = Client;

    fn deref(&self) -> &Client {
        match self {
            Self::Borrowed(client) => client,
            Self::Shared(client) => client,
        }
    }
}

/// Calls that travel together. Made and used by one thread.
pub struct CallBatch<'c> {
    client: Whose<'c>,
    thread: Held,
    number: u16,
    threshold: u32,
    unflushed: u32,
    /// Empty; room for what [`CallBatch::collect`] takes.
    fetched: Vec<Over>,
    held: Vec<Socket>,
}

impl<'c> CallBatch<'c> {
    /// A batch that flushes by itself when half of the request ring is full.
    ///
    /// # Errors
    /// ENETDOWN when the instance is gone, ENOBUFS when it has no thread slot, ENOTCONN in a forked
    /// child.
    pub fn new(client: &'c Client) -> Result<Self, Errno> {
        Self::with_threshold(client, THRESHOLD)
    }

    /// A batch that flushes by itself at each `threshold`-th call (1: at every call).
    ///
    /// # Errors
    /// As [`CallBatch::new`].
    pub fn with_threshold(client: &'c Client, threshold: u32) -> Result<Self, Errno> {
        Self::of(Whose::Borrowed(client), threshold)
    }

    /// [`CallBatch::new`] that keeps the client.
    ///
    /// # Errors
    /// As there.
    pub fn shared(client: &Arc<Client>) -> Result<CallBatch<'static>, Errno> {
        CallBatch::of(Whose::Shared(Arc::clone(client)), THRESHOLD)
    }

    fn of(client: Whose<'c>, threshold: u32) -> Result<Self, Errno> {
        let threshold = threshold.clamp(1, REQUESTS);
        let thread = client.thread()?;
        let number = lock(&thread.rings).open_batch().ok_or(Errno::NOBUFS)?;
        Ok(Self {
            client,
            thread,
            number,
            threshold,
            unflushed: 0,
            fetched: Vec::new(),
            held: Vec::new(),
        })
    }

    /// Registers a call. Waits if the request ring is full, or 1,024 calls are out.
    ///
    /// # Errors
    /// As [`CallBatch::new`]; EINTR; ENOBUFS when 1,024 results have come and none was fetched.
    pub fn submit(&mut self, mut request: Request) -> Result<Ticket, Errno> {
        self.submit_from(&mut request)
    }

    /// [`CallBatch::submit`] that leaves the request whole when it fails.
    ///
    /// # Errors
    /// As there.
    pub fn submit_from(&mut self, request: &mut Request) -> Result<Ticket, Errno> {
        self.put(&mut request.0).map(Ticket)
    }

    /// [`CallBatch::submit`] for a call of which the server's own names are known: `flags` as
    /// [`abi::call::Call::flags`], `args` as [`Op`] lists them. Its result is for
    /// [`CallBatch::wait`].
    ///
    /// # Errors
    /// As there.
    pub fn register(&mut self, op: Op, flags: u8, args: [u64; 6]) -> Result<Ticket, Errno> {
        self.put(&mut Order::new(op, flags, args)).map(Ticket)
    }

    fn put(&mut self, order: &mut Order) -> Result<u32, Errno> {
        let tag = loop {
            let staged = lock(&self.thread.rings).stage(Some(self.number), order);
            if let Some(tag) = staged.map_err(|Broken| self.client.fault())? {
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

    /// [`CallBatch::submit`] of many calls, which costs each of them less: takes them out of
    /// `requests` and puts their tickets into `tickets`, in the same order.
    ///
    /// # Errors
    /// As there; `requests` keeps those that were not registered.
    pub fn submit_all(
        &mut self,
        requests: &mut Vec<Request>,
        tickets: &mut Vec<Ticket>,
    ) -> Result<(), Errno> {
        let before = tickets.len();
        let outcome = self.put_all(requests, tickets);
        requests.drain(..tickets.len() - before);
        outcome
    }

    fn put_all(
        &mut self,
        requests: &mut [Request],
        tickets: &mut Vec<Ticket>,
    ) -> Result<(), Errno> {
        let mut left = requests;
        while !left.is_empty() {
            let before = tickets.len();
            let run = left.len().min((self.threshold - self.unflushed) as usize);
            let mut rings = lock(&self.thread.rings);
            let staged = rings.stage_all(self.number, &mut left[..run], tickets);
            drop(rings);
            staged.map_err(|Broken| self.client.fault())?;
            let staged = tickets.len() - before;
            self.unflushed += u32::try_from(staged).unwrap_or(u32::MAX);
            left = &mut left[staged..];
            if staged < run {
                self.make_room()?;
            } else if self.unflushed >= self.threshold {
                self.flush();
            }
        }
        Ok(())
    }

    /// Waits for the server to take something, or to answer if all places are taken. Results are
    /// left where they are as long as there are places: room for all is in their ring.
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
            self.thread.sleep(&self.client, soon, has_room)?;
        }
        if lock(&self.thread.rings).has_place() { Ok(()) } else { self.drain() }
    }

    /// Sends what is registered on its way.
    pub fn flush(&mut self) {
        if std::mem::take(&mut self.unflushed) > 0 && lock(&self.thread.rings).publish() {
            self.client.ring();
        }
    }

    /// Calls that were submitted and not fetched: how many results have come, as of the last look,
    /// and how many are due.
    #[must_use]
    pub fn counts(&self) -> (u32, u32) {
        lock(&self.thread.rings).counts(self.number)
    }

    /// Flushes, then waits until `wanted` results have come, or as many as are due if that is
    /// less; with 0, or when `wait` is over, only looks. Returns how many can be fetched.
    ///
    /// # Errors
    /// EINTR; ENETDOWN when the instance is gone; ENOTCONN in a forked child.
    pub fn wait_for(&mut self, wanted: u32, wait: Wait) -> Result<u32, Errno> {
        self.flush();
        loop {
            self.drain()?;
            let (ready, due) = self.counts();
            if ready >= wanted.min(ready + due) || wait.is_over() {
                return Ok(ready);
            }
            self.thread.sleep(&self.client, wait, || {
                // A fault shows again, and is reported, in the next round.
                self.drain().is_err() || self.counts().0 >= wanted.min(ready + due)
            })?;
        }
    }

    /// The oldest result that has come and was not fetched, as of the last look
    /// ([`CallBatch::wait_for`]); `None` without one.
    pub fn fetch(&mut self) -> Option<Completion> {
        let over = lock(&self.thread.rings).fetch(self.number)?;
        Some(Completion::new(&self.client, &over))
    }

    /// [`CallBatch::wait_for`] and [`CallBatch::fetch`] in one, for many results, which costs each
    /// of them less: flushes, and moves results as they come, oldest first, to the end of
    /// `completions`, until at least `wanted` are there, or as many as are due if that is less;
    /// with 0, or when `wait` is over, those that have come. Returns how many.
    ///
    /// # Errors
    /// As [`CallBatch::wait_for`]. What came before is in `completions`.
    pub fn collect(
        &mut self,
        wanted: u32,
        wait: Wait,
        completions: &mut Vec<Completion>,
    ) -> Result<usize, Errno> {
        self.flush();
        let before = completions.len();
        loop {
            let some = completions.len();
            self.take_results(completions)?;
            let came = completions.len() - before;
            if came >= wanted as usize || self.counts() == (0, 0) || wait.is_over() {
                return Ok(came);
            }
            let goes_on = came > some - before;
            let has_results = || lock(&self.thread.rings).has_results();
            if goes_on && (0..LOOKS).any(|_| looks(has_results)) {
                continue;
            }
            self.thread.sleep(&self.client, wait, has_results)?;
        }
    }

    /// Moves all results that have come to the end of `completions`.
    fn take_results(&mut self, completions: &mut Vec<Completion>) -> Result<(), Errno> {
        let Self { client, thread, number, fetched, held, .. } = self;
        sorted(client, thread, |rings| rings.collect(*number, completions, held))?;
        // Outside of the lock: the last handle of a socket closes it, by a call.
        held.clear();
        loop {
            lock(&thread.rings).fetch_some(*number, FETCHED, fetched);
            let some = fetched.len();
            completions.extend(fetched.drain(..).map(|over| Completion::new(client, &over)));
            if some < FETCHED as usize {
                return Ok(());
            }
        }
    }

    /// Cancels a call whose result is due: if it waits, it ends with ECANCELED; otherwise its
    /// result is on its way. Either way one result comes, to be fetched as always. Travels with the
    /// next flush.
    ///
    /// # Errors
    /// ENOENT when the result has come, or the ticket is none of this batch; otherwise as
    /// [`CallBatch::submit`].
    pub fn cancel(&mut self, ticket: Ticket) -> Result<(), Errno> {
        let Ticket(tag) = ticket;
        loop {
            let mut rings = lock(&self.thread.rings);
            let mut order = rings.cancellation(self.number, tag).ok_or(Errno::NOENT)?;
            let staged = rings.stage(None, &mut order);
            drop(rings);
            if staged.map_err(|Broken| self.client.fault())?.is_some() {
                self.unflushed += 1;
                return Ok(());
            }
            self.make_room()?;
        }
    }

    /// Waits for one call's result: its values as [`Op`] lists them.
    ///
    /// # Errors
    /// The call's own error. EAGAIN when `wait` is over; EINTR; the ticket stays good after both.
    /// ENETDOWN when the instance is gone. EINVAL for a ticket of another batch or one waited for
    /// already.
    pub fn wait(&mut self, ticket: Ticket, wait: Wait) -> Result<[u64; 6], Errno> {
        self.outcome(ticket, wait)?.unwrap_or(Err(Errno::AGAIN))
    }

    /// [`CallBatch::wait`] with the call's outcome apart from what became of the waiting. `None`:
    /// the time is over.
    pub(crate) fn outcome(&mut self, ticket: Ticket, wait: Wait) -> Result<Option<Outcome>, Errno> {
        let Ticket(tag) = ticket;
        if !lock(&self.thread.rings).knows(self.number, tag) {
            return Err(Errno::INVAL);
        }
        self.flush();
        loop {
            self.drain()?;
            let over = lock(&self.thread.rings).take(self.number, tag);
            if let Some(over) = over {
                return Ok(Some(over.outcome));
            }
            if wait.is_over() {
                return Ok(None);
            }
            self.thread.sleep(&self.client, wait, || {
                // A fault shows again, and is reported, in the next round.
                self.drain().is_err() || lock(&self.thread.rings).is_done(tag)
            })?;
        }
    }

    fn drain(&self) -> Result<(), Errno> {
        drain(&self.client, &self.thread)
    }

    /// Has a socket made ahead, if it looks as if one like this will be wanted; travels with the
    /// next flush.
    pub(crate) fn make_ahead(&mut self, speaks: [u64; 2]) -> Result<(), Errno> {
        let staged = lock(&self.thread.rings).make_ahead(speaks);
        self.unflushed += u32::from(staged.map_err(|Broken| self.client.fault())?);
        Ok(())
    }

    /// Makes a call of whose result nobody will hear; `rings`: at once, else before the server
    /// does anything else of this client. False if there is no room for it.
    ///
    /// # Errors
    /// As [`CallBatch::new`].
    pub(crate) fn call_unheard(
        client: &Client,
        op: Op,
        args: [u64; 6],
        rings: bool,
    ) -> Result<bool, Errno> {
        client.check_memory()?;
        let thread = client.thread()?;
        // Room: what was called so before is over by now.
        drain(client, &thread)?;
        let mut order = Order::new(op, Call::QUIET, args);
        let mut locked = lock(&thread.rings);
        let staged = locked.stage(None, &mut order).map_err(|Broken| client.fault())?;
        locked.publish();
        drop(locked);
        if rings && staged.is_some() {
            client.ring();
        }
        Ok(staged.is_some())
    }

    /// One call that the server completes at once, for as long as it takes: signals do not end it.
    ///
    /// # Errors
    /// The call's own error, or as [`CallBatch::new`].
    pub(crate) fn call(
        client: &Client,
        op: Op,
        flags: u8,
        args: [u64; 6],
    ) -> Result<[u64; 6], Errno> {
        let mut batch = CallBatch::new(client)?;
        let ticket = batch.surely_register(op, flags, args)?;
        batch.surely_wait(ticket)
    }

    /// As [`CallBatch::call`], for the same operation with several arguments; all travel together.
    ///
    /// # Errors
    /// The first call's that fails.
    pub(crate) fn call_all(
        client: &Client,
        op: Op,
        args: impl Iterator<Item = [u64; 6]>,
    ) -> Result<Vec<[u64; 6]>, Errno> {
        let mut batch = CallBatch::new(client)?;
        let mut tickets = Vec::new();
        for args in args {
            tickets.push(batch.surely_register(op, 0, args)?);
        }
        tickets.into_iter().map(|ticket| batch.surely_wait(ticket)).collect()
    }

    pub(crate) fn surely_register(
        &mut self,
        op: Op,
        flags: u8,
        args: [u64; 6],
    ) -> Result<Ticket, Errno> {
        loop {
            match self.register(op, flags, args) {
                Err(Errno::INTR) => {}
                other => return other,
            }
        }
    }

    pub(crate) fn surely_wait(&mut self, ticket: Ticket) -> Result<[u64; 6], Errno> {
        loop {
            match self.outcome(ticket, Wait::Forever) {
                Err(Errno::INTR) => {}
                other => return other?.unwrap_or(Err(Errno::AGAIN)),
            }
        }
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

/// Looks at what results have come for a thread.
pub(crate) fn drain(client: &Client, thread: &ThreadSlot) -> Result<(), Errno> {
    sorted(client, thread, Rings::drain)
}

/// Does `sort` to what results have come for a thread, and what follows from it.
fn sorted(
    client: &Client,
    thread: &ThreadSlot,
    sort: impl FnOnce(&mut Rings) -> Result<bool, Broken>,
) -> Result<(), Errno> {
    let mut rings = lock(&thread.rings);
    let before = rings.made_ahead();
    let drained = sort(&mut rings);
    let made = rings.made_ahead().filter(|_| before.is_none());
    drop(rings);
    if let Some(id) = made {
        // Its place had another socket, whose memory nobody needs any more.
        client.unbury(SocketId::from_word(id).index);
    }
    if drained.map_err(|Broken| client.fault())? {
        client.ring();
    }
    Ok(())
}

impl Drop for CallBatch<'_> {
    fn drop(&mut self) {
        // In a forked child the rings are the parent's.
        if self.client.is_stranger() {
            return;
        }
        let mut rings = lock(&self.thread.rings);
        let held = rings.close_batch(self.number);
        let made = rings.publish();
        drop(rings);
        if made {
            self.client.ring();
        }
        // Outside of the lock: the last handle of a socket closes it, by a call.
        drop(held);
    }
}
