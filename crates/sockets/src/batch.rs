//! Packaged calls: the one way in which control operations reach the inet server.
//!
//! Calls are registered into the thread's request ring, flushed when a threshold is reached or when
//! somebody waits, and complete in any order: each result names the caller's tag. A single call is
//! a batch of one. A caller that stops waiting *abandons* its tag: the result is thrown away when
//! it comes, and a socket that it would have made is closed.
//!
//! At most [`RESULTS`] calls of a slot are without a result at any time, so the server always
//! finds room in the result ring.

use std::sync::Arc;
use std::time::{Duration, Instant};

use abi::Errno;
use abi::call::{Call, CallResult, Op, ReturnPath};
use abi::client::{ClientLayout, REQUESTS, RESULTS};
use shm::{Consumer, OutOfRange, Producer, PushError, Region};

use crate::client::{Client, lock};
use crate::error::Broken;
use crate::thread::Held;
use crate::wait::Wait;

/// What a call came to: its six values, or why not.
pub(crate) type Outcome = Result<[u64; 6], Errno>;

/// Calls registered before a batch flushes by itself, unless told otherwise.
const THRESHOLD: u32 = REQUESTS / 2;
/// How long to wait for room in a full request ring before looking again: no bell is rung for room.
const ROOM: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, Copy)]
enum State {
    Waiting,
    /// Nobody will ask for the result.
    Abandoned,
    Done(Outcome),
}

#[derive(Debug)]
struct Outstanding {
    tag: u32,
    op: Op,
    state: State,
}

/// The two rings of a thread slot, and the calls whose results are due or not yet fetched.
#[derive(Debug)]
pub(crate) struct Rings {
    client: u16,
    ring: u16,
    requests: Producer,
    results: Consumer,
    calls: Vec<Outstanding>,
    next_tag: u32,
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
            calls: Vec::new(),
            next_tag: 0,
        })
    }

    /// Stages a call; `None` when there is no room now.
    fn stage(&mut self, op: Op, flags: u8, args: [u64; 6]) -> Result<Option<u32>, Broken> {
        if self.calls.len() >= RESULTS as usize {
            return Ok(None);
        }
        let mut tag = self.next_tag;
        while self.calls.iter().any(|call| call.tag == tag) {
            tag = tag.wrapping_add(1);
        }
        let path = ReturnPath { client: self.client, ring: self.ring, tag };
        let call = Call { op, priority: 0, flags, path, args };
        match self.requests.stage(&call.encode()) {
            Ok(()) => {}
            Err(PushError::Full) => return Ok(None),
            Err(PushError::Fault(_)) => return Err(Broken),
        }
        self.next_tag = tag.wrapping_add(1);
        self.calls.push(Outstanding { tag, op, state: State::Waiting });
        Ok(Some(tag))
    }

    /// Are all places for results taken by results that came and were not fetched?
    fn is_choked(&self) -> bool {
        let done = |call: &Outstanding| matches!(call.state, State::Done(_));
        self.calls.len() >= RESULTS as usize && self.calls.iter().all(done)
    }

    /// Sorts arrived results to their callers. True if calls were made (and must be rung for).
    fn drain(&mut self) -> Result<bool, Broken> {
        let mut closing = false;
        while let Some(slot) = self.results.pop()? {
            let result = CallResult::decode(&slot)?;
            let ours = result.path.client == self.client && result.path.ring == self.ring;
            let found = self.calls.iter().position(|call| call.tag == result.path.tag);
            let Some(at) = found.filter(|_| ours) else {
                return Err(Broken);
            };
            let Some(call) = self.calls.get_mut(at) else { continue };
            match call.state {
                State::Waiting => call.state = State::Done(result.outcome),
                State::Done(_) => return Err(Broken),
                State::Abandoned => {
                    let op = call.op;
                    self.calls.swap_remove(at);
                    closing |= self.close_orphan(op, result.outcome)?;
                }
            }
        }
        Ok(closing)
    }

    /// Closes the socket that an abandoned call has made.
    fn close_orphan(&mut self, op: Op, outcome: Outcome) -> Result<bool, Broken> {
        let (Op::Socket | Op::Accept, Ok([id, ..])) = (op, outcome) else {
            return Ok(false);
        };
        // Without room the socket stays until the process ends.
        let Some(tag) = self.stage(Op::Close, 0, [id, 0, 0, 0, 0, 0])? else {
            return Ok(false);
        };
        self.abandon(tag);
        self.requests.publish();
        Ok(true)
    }

    fn take(&mut self, tag: u32) -> Option<Outcome> {
        let at = self.calls.iter().position(|call| call.tag == tag)?;
        let State::Done(outcome) = self.calls.get(at)?.state else {
            return None;
        };
        self.calls.swap_remove(at);
        Some(outcome)
    }

    fn is_done(&self, tag: u32) -> bool {
        let call = self.calls.iter().find(|call| call.tag == tag);
        call.is_some_and(|call| matches!(call.state, State::Done(_)))
    }

    /// Returns the outcome if it had come already.
    fn abandon(&mut self, tag: u32) -> Option<(Op, Outcome)> {
        let at = self.calls.iter().position(|call| call.tag == tag)?;
        let call = self.calls.get_mut(at)?;
        if let State::Done(outcome) = call.state {
            let op = call.op;
            self.calls.swap_remove(at);
            return Some((op, outcome));
        }
        call.state = State::Abandoned;
        None
    }
}

/// Names a registered call of a [`CallBatch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(u32);

/// Calls that travel together. Made and used by one thread.
///
/// Dropping a batch abandons what it has not waited for: the calls are still made, their results
/// are thrown away.
pub struct CallBatch<'c> {
    client: &'c Client,
    thread: Held,
    threshold: u32,
    unflushed: u32,
    tags: Vec<u32>,
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
        let threshold = threshold.clamp(1, REQUESTS);
        Ok(Self { client, thread: client.thread()?, threshold, unflushed: 0, tags: Vec::new() })
    }

    /// Registers a call; `flags` as [`Call::flags`], `args` as [`Op`] lists them. Waits if the
    /// request ring is full.
    ///
    /// # Errors
    /// As [`CallBatch::new`]; EINTR; ENOBUFS when 256 results have come and none was fetched.
    pub fn register(&mut self, op: Op, flags: u8, args: [u64; 6]) -> Result<Ticket, Errno> {
        let tag = loop {
            let staged = lock(&self.thread.rings).stage(op, flags, args);
            if let Some(tag) = staged.map_err(|Broken| self.client.fault())? {
                break tag;
            }
            self.flush();
            let soon = Wait::Until(Instant::now() + ROOM);
            self.thread.sleep(self.client, soon, || false)?;
            self.drain()?;
            if lock(&self.thread.rings).is_choked() {
                return Err(Errno::NOBUFS);
            }
        };
        self.tags.push(tag);
        self.unflushed += 1;
        if self.unflushed >= self.threshold {
            self.flush();
        }
        Ok(Ticket(tag))
    }

    /// Sends what is registered on its way.
    pub fn flush(&mut self) {
        if std::mem::take(&mut self.unflushed) > 0 {
            lock(&self.thread.rings).requests.publish();
            self.client.ring();
        }
    }

    /// Waits for a call's result: its values as [`Op`] lists them.
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
        let known = self.tags.iter().position(|&known| known == tag).ok_or(Errno::INVAL)?;
        self.flush();
        loop {
            self.drain()?;
            let outcome = lock(&self.thread.rings).take(tag);
            if let Some(outcome) = outcome {
                self.tags.swap_remove(known);
                return Ok(Some(outcome));
            }
            if wait.is_over() {
                return Ok(None);
            }
            self.thread.sleep(self.client, wait, || {
                // A fault shows again, and is reported, in the next round.
                self.drain().is_err() || lock(&self.thread.rings).is_done(tag)
            })?;
        }
    }

    fn drain(&self) -> Result<(), Errno> {
        let drained = lock(&self.thread.rings).drain();
        if drained.map_err(|Broken| self.client.fault())? {
            self.client.ring();
        }
        Ok(())
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

    fn surely_register(&mut self, op: Op, flags: u8, args: [u64; 6]) -> Result<Ticket, Errno> {
        loop {
            match self.register(op, flags, args) {
                Err(Errno::INTR) => {}
                other => return other,
            }
        }
    }

    fn surely_wait(&mut self, ticket: Ticket) -> Result<[u64; 6], Errno> {
        loop {
            match self.outcome(ticket, Wait::Forever) {
                Err(Errno::INTR) => {}
                other => return other?.unwrap_or(Err(Errno::AGAIN)),
            }
        }
    }
}

impl Drop for CallBatch<'_> {
    fn drop(&mut self) {
        // In a forked child the rings are the parent's.
        if !self.client.is_mine() {
            return;
        }
        self.flush();
        let mut closing = false;
        let mut rings = lock(&self.thread.rings);
        for &tag in &self.tags {
            if let Some((op, outcome)) = rings.abandon(tag) {
                // A fault shows again to whoever uses the slot next.
                closing |= rings.close_orphan(op, outcome).unwrap_or(false);
            }
        }
        drop(rings);
        if closing {
            self.client.ring();
        }
    }
}
