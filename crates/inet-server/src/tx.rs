//! The sending half of a socket: from its queue's descriptors to chunks of the protocol core, and
//! back to `tx_released`.
//!
//! A descriptor is checked once and becomes a [`ClientChunk`]. The chunk keeps the client's region
//! mapped and names bytes in it; payload is never copied here. The core drops a stream's chunk when
//! the peer has acknowledged all of it, and a datagram's when it has been emitted.
//!
//! One counter in queue order, `tx_released`, tells the program which bytes it may overwrite. The
//! counter follows the core's `acked` count. It waits until the drivers have passed every frame
//! sent until then, since a retransmission may still name the bytes.
//!
//! Three bounds apply: unreleased bytes ([`Tx::limit`], SO_SNDBUF), discontiguous unreleased runs
//! ([`MAX_RUNS`]), and descriptors per iteration. Descriptors over a bound stay in the queue, in
//! the program's memory.

use std::collections::VecDeque;
use std::sync::Arc;

use abi::ancillary::SendAncillary;
use abi::client::QUEUE;
use abi::data::{DataDescriptor, DataFlags};
use shm::{Consumer, PoolMap};

use crate::fault::ClientFault;

pub(crate) mod chunk;

use self::chunk::{ClientChunk, ClientMemory};

/// Most unreleased bytes on one socket, unless the program has set SO_SNDBUF. The server wakes a
/// program when a third is free. So the program has 170 KiB to fill, and few wake-ups.
pub(crate) const DEFAULT_LIMIT: u64 = 512 * 1024;
/// Bounds of SO_SNDBUF, as on Linux. Without SO_SNDBUF the limit grows by itself to the upper one.
pub(crate) const LIMITS: std::ops::RangeInclusive<u64> = 4096..=4 << 20;
/// Most discontiguous pieces of unreleased memory of one socket. It bounds the core's memory for a
/// program that sends single bytes.
pub(crate) const MAX_RUNS: usize = 1024;

/// A descriptor taken from the queue.
pub(crate) struct QueuedSend {
    pub(crate) descriptor: DataDescriptor,
    /// Its ancillary data; on a stream the default.
    pub(crate) ancillary: SendAncillary,
    pub(crate) chunk: ClientChunk,
}

/// Most unreleased bytes of `limit` that leave a program enough room to go on.
pub(crate) fn roomy(limit: u64) -> u64 {
    limit / 3 * 2
}

/// The sending half of one socket. Positions count bytes in queue order.
pub(crate) struct Tx {
    queue: Consumer,
    /// Most unreleased bytes.
    pub(crate) limit: u64,
    /// The program has set `limit`.
    pub(crate) limited: bool,
    /// TCP_NOTSENT_LOWAT in bytes, 0 for none.
    pub(crate) lowat: u32,
    /// Bytes taken from the queue.
    taken: u64,
    /// Bytes given to the core.
    given: u64,
    /// Bytes given to the core for earlier connections of this socket. The core's count starts
    /// after them.
    base: u64,
    /// Bytes of this connection that earlier homes gave to the core. The core's count starts with
    /// them.
    pub(crate) skip: u64,
    /// Bytes that the core refused: the position after them, and the number of refused bytes up to
    /// there. Consecutive refused bytes are one entry. So there are no more entries than stretches
    /// of accepted bytes.
    refused: VecDeque<(u64, u64)>,
    /// Refused bytes that [`Tx::target`] has passed.
    refused_passed: u64,
    /// Position to release up to, as soon as the drivers have passed all frames sent before.
    target: u64,
    /// Position that the program may read as `tx_released`.
    pub(crate) released: u64,
    /// While a release waits for its frame: the position that it releases.
    pub(crate) releasing: Option<u64>,
    /// Ends of the discontiguous unreleased runs.
    runs: VecDeque<u64>,
    /// The region offset after the last run.
    runs_end: u64,
    /// A bound stopped the server from taking descriptors.
    pub(crate) blocked: bool,
    /// The queue was full at the last look, or may have been since. So the program may wait for a
    /// slot.
    pub(crate) was_full: bool,
    /// The server has taken slots since it last published the words.
    pub(crate) took: bool,
    /// Slots taken since the last look.
    since_look: u32,
}

impl Tx {
    /// For a queue that has just been emptied.
    pub(crate) fn new(queue: Consumer) -> Self {
        Self {
            queue,
            limit: DEFAULT_LIMIT,
            limited: false,
            lowat: 0,
            taken: 0,
            given: 0,
            base: 0,
            skip: 0,
            refused: VecDeque::new(),
            refused_passed: 0,
            target: 0,
            released: 0,
            releasing: None,
            runs: VecDeque::new(),
            runs_end: 0,
            blocked: false,
            was_full: false,
            took: false,
            since_look: 0,
        }
    }

    /// Raises the limit to two congestion windows of `window` bytes, as Linux does, unless the
    /// program has set it. So one window is ready while the other is on its way.
    pub(crate) fn tune(&mut self, window: usize) {
        if !self.limited {
            let wanted = (2 * window as u64).min(*LIMITS.end());
            self.limit = self.limit.max(wanted);
        }
    }

    /// Bytes ever taken from the queue.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Looks at how full the queue is, before taking from it.
    pub(crate) fn look(&mut self) -> Result<(), ClientFault> {
        let len = self.queue.len().map_err(ClientFault::ring("sending"))?;
        self.was_full |= len >= QUEUE;
        self.since_look = 0;
        Ok(())
    }

    /// The server stops taking, although there may be more in the queue. All slots taken since the
    /// look may have been in use at one time with those that are left.
    pub(crate) fn stop_early(&mut self) -> Result<(), ClientFault> {
        let len = self.queue.len().map_err(ClientFault::ring("sending"))?;
        self.was_full |= len + self.since_look >= QUEUE;
        Ok(())
    }

    /// The next descriptor, checked. `None` when the queue is empty, or with `bounded` when a bound
    /// is reached.
    pub(crate) fn take(
        &mut self,
        socket: u16,
        pool: &PoolMap,
        memory: &Arc<ClientMemory>,
        bounded: bool,
    ) -> Result<Option<QueuedSend>, ClientFault> {
        self.blocked = false;
        let slot = self.queue.peek().map_err(ClientFault::ring("sending"))?;
        let Some(slot) = slot else { return Ok(None) };
        if bounded && self.is_full() {
            self.blocked = true;
            return Ok(None);
        }
        let descriptor = DataDescriptor::decode(&slot)?;
        if descriptor.frame_region().is_some() {
            return Err(ClientFault::Frame { socket });
        }
        let mut ancillary = SendAncillary::default();
        let has_more = descriptor.flags.has(DataFlags::ANCILLARY);
        if has_more {
            let slot = self.queue.peek_at(1).map_err(ClientFault::ring("sending"))?;
            ancillary =
                SendAncillary::decode(&slot.ok_or(ClientFault::MissingAncillary { socket })?)?;
        }
        let chunk = self.check(socket, &descriptor, pool, memory)?;
        self.queue.advance();
        if has_more {
            self.queue.advance();
        }
        self.since_look += 1 + u32::from(has_more);
        self.took = true;
        // A program that filled the queue after the look saw it full at one of these slots, and may
        // wait now.
        self.was_full |= self.since_look >= QUEUE;
        Ok(Some(QueuedSend { descriptor, ancillary, chunk }))
    }

    /// Turns a descriptor into a chunk, and counts its bytes as taken.
    pub(crate) fn check(
        &mut self,
        socket: u16,
        descriptor: &DataDescriptor,
        pool: &PoolMap,
        memory: &Arc<ClientMemory>,
    ) -> Result<ClientChunk, ClientFault> {
        let &DataDescriptor { area, offset, len, flags, .. } = descriptor;
        let offset = match len {
            0 => 0,
            _ => pool
                .borrow(area, offset, len)
                .map_err(|error| ClientFault::Area { socket, error })?,
        };
        let start = offset as u64;
        self.taken += u64::from(len);
        if len > 0 {
            match self.runs.back_mut() {
                Some(last) if start == self.runs_end => *last = self.taken,
                _ => self.runs.push_back(self.taken),
            }
            // The core joins nothing to the end of a record.
            let record = flags.has(DataFlags::RECORD);
            self.runs_end = if record { u64::MAX } else { start + u64::from(len) };
        }
        // By its layout a region is smaller than 4 GiB.
        let offset = u32::try_from(offset).unwrap_or(u32::MAX);
        Ok(ClientChunk { memory: Arc::clone(memory), offset, len })
    }

    /// Bytes of this connection that the core has taken from this home and earlier ones.
    pub(crate) fn core_taken(&self) -> u64 {
        self.skip + (self.given - self.base)
    }

    /// The core took the last `len` bytes.
    pub(crate) fn accepted(&mut self, len: u32) {
        self.given += u64::from(len);
    }

    /// The core refused the last `len` bytes. They are released in queue order.
    pub(crate) fn refuse(&mut self, len: u32, acked: u64) {
        let before = self.refused.back().map_or(self.refused_passed, |&(_, total)| total);
        let (position, total) = (self.taken, before + u64::from(len));
        match self.refused.back_mut() {
            // No accepted bytes lie between the two.
            Some(last) if last.0 - last.1 == position - total => *last = (position, total),
            _ => self.refused.push_back((position, total)),
        }
        self.acked(acked);
    }

    /// The core does not need the first `acked` bytes that it took any more.
    pub(crate) fn acked(&mut self, acked: u64) {
        let acked = self.base.saturating_add(acked.saturating_sub(self.skip)).min(self.given);
        while let Some(&(position, total)) = self.refused.front() {
            if acked + total < position {
                break;
            }
            self.refused_passed = total;
            self.refused.pop_front();
        }
        self.advance(acked + self.refused_passed);
    }

    /// The core does not need any taken bytes any more.
    pub(crate) fn abandon(&mut self) {
        if let Some((_, total)) = self.refused.drain(..).next_back() {
            self.refused_passed = total;
        }
        self.advance(self.taken);
    }

    /// The core starts a new connection, whose count begins at 0.
    pub(crate) fn restart(&mut self) {
        self.base = self.given;
        self.skip = 0;
        self.abandon();
    }

    fn advance(&mut self, target: u64) {
        self.target = self.target.max(target.min(self.taken));
        while self.runs.front().is_some_and(|&end| end <= self.target) {
            self.runs.pop_front();
        }
    }

    /// Are there bytes to release without a pending release?
    pub(crate) fn has_releasable(&self) -> bool {
        self.releasing.is_none() && self.target > self.released
    }

    /// Notes a pending release of all bytes up to `target`.
    pub(crate) fn note_release(&mut self) {
        self.releasing = Some(self.target);
    }

    /// The drivers have passed the awaited frame.
    pub(crate) fn release(&mut self) {
        if let Some(position) = self.releasing.take() {
            self.released = position;
        }
    }

    /// Bytes taken and not released.
    pub(crate) fn unreleased(&self) -> u64 {
        self.taken - self.released
    }

    /// Is a bound on unreleased bytes reached?
    pub(crate) fn is_full(&self) -> bool {
        self.unreleased() >= self.limit || self.runs.len() >= MAX_RUNS
    }

    /// Should a program that waits for room go on? As on Linux it should when a third is free.
    pub(crate) fn roomy(&self) -> bool {
        self.unreleased() <= roomy(self.limit)
    }

    /// Are all taken bytes released?
    pub(crate) fn is_drained(&self) -> bool {
        self.released == self.taken
    }
}

#[cfg(test)]
mod tests;
