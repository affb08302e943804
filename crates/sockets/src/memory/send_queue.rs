//! The sending queue of a socket, and the memory that it holds.
//!
//! Small consecutive sends lie side by side in one open area, so the server sees them as one run. A
//! full area stays *unreleased* until `tx_released` has passed its end. Then it goes back to the
//! pool. When the server has released all bytes of a socket, the open area is filled from its start
//! again: a socket that sends little stays in the same warm page.
//!
//! No more than `tx_limit` bytes are ever unreleased.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use abi::client::{QUEUE, SocketWords};
use abi::data::{DataDescriptor, DataFlags};
use shm::{Area, AreaName, OutOfRange, Producer, Region, Slot, Waiters};

use super::tx_area::TxSlice;
use super::tx_pool::TxPool;
use crate::error::RegionFault;

/// Most bytes of a segment that the device cuts.
const SUPER_SEGMENT: u64 = 64 * 1024;
/// The work of a stack in this process is deferred until so many bytes were sent.
const MOST_DEFERRED: u64 = SUPER_SEGMENT;

/// The area being filled.
struct OpenArea {
    area: Area,
    name: AreaName,
    used: usize,
}

/// Memory that was sent, until the bytes before stream position `end` are released.
struct UnreleasedMemory {
    memory: SentMemory,
    end: u64,
}

/// Memory that was sent, by its owner.
enum SentMemory {
    /// A full area of the socket's.
    Filled(Area),
    /// The program's.
    Slice(TxSlice),
}

/// See the module's head. Behind the socket's send lock.
pub(crate) struct SendQueue {
    queue: Producer,
    open: Option<OpenArea>,
    unreleased_memory: VecDeque<UnreleasedMemory>,
    /// Areas held: the open one, and full ones that are unreleased.
    held: u32,
    /// Bytes ever published.
    sent: u64,
    /// `sent` when the stack in this process last worked for it.
    served: u64,
    /// Bytes released, as of the last look.
    released: u64,
    /// Slices ever sent, and how many of them are released.
    slices_sent: u64,
    slices_done: u64,
    /// TCP_CORK as this process last set it.
    cork: Option<bool>,
    /// Slots that bytes may not take: while a cork holds, one for its end.
    reserved: u32,
}

impl SendQueue {
    pub(crate) fn attach(region: &Arc<Region>, offset: usize) -> Result<Self, OutOfRange> {
        Ok(Self {
            queue: Producer::attach(region, offset, QUEUE)?,
            open: None,
            unreleased_memory: VecDeque::new(),
            held: 0,
            sent: 0,
            served: 0,
            released: 0,
            slices_sent: 0,
            slices_done: 0,
            cork: None,
            reserved: 0,
        })
    }

    /// Bytes ever published.
    #[inline]
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// The stack in this process has worked for all bytes sent so far.
    #[inline]
    pub(crate) fn note_served(&mut self) {
        self.served = self.sent;
    }

    /// Is there room for so many slots?
    #[inline]
    pub(crate) fn has_slots(&mut self, slots: u32) -> Result<bool, RegionFault> {
        Ok(self.queue.has_room(slots + self.reserved)?)
    }

    /// Free slots.
    pub(crate) fn free_slots(&mut self) -> Result<u32, RegionFault> {
        Ok(self.queue.free()?.saturating_sub(self.reserved))
    }

    /// TCP_CORK as this process last set it.
    pub(crate) fn cork(&self) -> Option<bool> {
        self.cork
    }

    /// The server has set or ended the cork.
    pub(crate) fn note_cork(&mut self, on: bool) {
        self.cork = Some(on);
    }

    /// Stages a cork, or its end, in order with the bytes. False: there is no room. The end of a
    /// staged cork always has room.
    pub(crate) fn stage_cork(&mut self, on: bool) -> Result<bool, RegionFault> {
        let wanted = if on { 2 } else { 1 };
        if !self.queue.has_room(wanted)? {
            return Ok(false);
        }
        let flags = if on { DataFlags::CORK } else { DataFlags::UNCORK };
        let area = AreaName { page: 0, pages: 0, generation: 0 };
        let descriptor = DataDescriptor { area, offset: 0, len: 0, flags, peer: None };
        self.stage(&descriptor.encode())?;
        self.reserved = u32::from(on);
        self.cork = Some(on);
        Ok(true)
    }

    /// Lets the server see the staged slots.
    #[inline]
    pub(crate) fn publish(&mut self, words: &SocketWords) {
        words.tx_bytes.store(self.sent, Ordering::Release);
        self.queue.publish();
    }

    #[inline]
    pub(crate) fn unreleased(&self) -> u64 {
        self.sent - self.released
    }

    /// Bytes released, as last looked at.
    pub(crate) fn released(&self) -> u64 {
        self.released
    }

    pub(crate) fn holds_memory(&self) -> bool {
        !self.unreleased_memory.is_empty() || self.open.is_some()
    }

    /// Takes back the memory that the server has released.
    #[inline]
    pub(crate) fn take_back_released(
        &mut self,
        words: &SocketWords,
        pool: &TxPool,
    ) -> Result<(), RegionFault> {
        let released = words.tx_released.get();
        // Nothing new was released since the last call.
        if released == self.released { Ok(()) } else { self.free_released(released, pool) }
    }

    fn free_released(&mut self, released: u64, pool: &TxPool) -> Result<(), RegionFault> {
        if !(self.released..=self.sent).contains(&released) {
            return Err(RegionFault);
        }
        self.released = released;
        while self.unreleased_memory.front().is_some_and(|sent| sent.end <= released) {
            if let Some(sent) = self.unreleased_memory.pop_front() {
                self.give_back(pool, sent.memory);
            }
        }
        if released == self.sent
            && let Some(open) = &mut self.open
        {
            open.used = 0;
        }
        Ok(())
    }

    fn give_back(&mut self, pool: &TxPool, memory: SentMemory) {
        match memory {
            SentMemory::Filled(area) => pool.put_back(&mut self.held, area),
            SentMemory::Slice(slice) => {
                drop(slice);
                self.slices_done += 1;
            }
        }
    }

    /// The bytes that may be sent now: by SO_SNDBUF, and by TCP_NOTSENT_LOWAT, of which `spared`
    /// stay free. As on Linux, a send below the latter goes on for as much as one super-segment.
    #[inline]
    pub(crate) fn allowed(&self, words: &SocketWords, spared: u64) -> u64 {
        let left = words.tx_limit.load(Ordering::Relaxed).saturating_sub(self.unreleased());
        let until = words.tx_until.load(Ordering::Acquire);
        match until.saturating_sub(self.sent).saturating_sub(spared) {
            0 => 0,
            unbounded => left.min(unbounded.max(SUPER_SEGMENT)),
        }
    }

    /// Is there room for so many slices?
    pub(crate) fn takes(
        &mut self,
        slices: usize,
        words: &SocketWords,
    ) -> Result<bool, RegionFault> {
        let slots = u32::try_from(slices)?;
        Ok(self.allowed(words, 0) > 0 && self.has_slots(slots)?)
    }

    /// May a stack in this process wait for more bytes before it works?
    pub(crate) fn may_defer(&mut self) -> Result<bool, RegionFault> {
        Ok(self.sent - self.served < MOST_DEFERRED && self.free_slots()? > 0)
    }

    /// Counts a slice as sent, and keeps it until it is released. Its descriptor is to be staged
    /// next.
    #[inline]
    pub(crate) fn record_slice(&mut self, slice: TxSlice) {
        self.sent += slice.len() as u64;
        self.slices_sent += 1;
        self.unreleased_memory
            .push_back(UnreleasedMemory { memory: SentMemory::Slice(slice), end: self.sent });
    }

    /// Slices ever sent.
    pub(crate) fn slices_sent(&self) -> u64 {
        self.slices_sent
    }

    /// How many of them are released.
    pub(crate) fn slices_done(&self) -> u64 {
        self.slices_done
    }

    /// The position after a slice, 0 if it is released; `None` if there was none of that number.
    pub(crate) fn end_of_slice(&self, number: u64) -> Option<u64> {
        if number < self.slices_done {
            return Some(0);
        }
        let index = usize::try_from(number - self.slices_done).ok()?;
        let slices = self
            .unreleased_memory
            .iter()
            .filter(|sent| matches!(sent.memory, SentMemory::Slice(_)));
        slices.map(|sent| sent.end).nth(index)
    }

    /// Makes room for `least` bytes in the open area, in a new one if it must be. The room there
    /// is, or 0.
    pub(crate) fn room(&mut self, pool: &TxPool, least: usize) -> usize {
        let left = self.open.as_ref().map_or(0, |open| open.area.len().saturating_sub(open.used));
        if left >= least {
            return left;
        }
        let Some(area) = pool.take(&mut self.held, least) else {
            return 0;
        };
        if let Some(full) = self.open.take() {
            self.unreleased_memory.push_back(UnreleasedMemory {
                memory: SentMemory::Filled(full.area),
                end: self.sent,
            });
        }
        let (name, len) = (area.lend(), area.len());
        self.open = Some(OpenArea { area, name, used: 0 });
        len
    }

    /// Puts a slot into the queue, in which there is room.
    #[inline]
    pub(crate) fn stage(&mut self, slot: &Slot) -> Result<(), RegionFault> {
        // Full: room was seen, and only the server could have taken it away.
        self.queue.stage(slot).map_err(|_| RegionFault)
    }

    /// Copies `len` bytes into the open area, which has room for them.
    pub(crate) fn fill(
        &mut self,
        from: &mut SendBuffers<'_>,
        len: usize,
    ) -> Result<DataDescriptor, RegionFault> {
        let open = self.open.as_mut().ok_or(RegionFault)?;
        let start = open.used;
        while open.used - start < len {
            let piece = from.next(len - (open.used - start));
            open.area.write(open.used, piece)?;
            open.used += piece.len();
        }
        self.sent += len as u64;
        Ok(DataDescriptor {
            area: open.name,
            offset: u32::try_from(start)?,
            len: u32::try_from(len)?,
            flags: DataFlags::NONE,
            peer: None,
        })
    }

    /// Could a send of `least` bytes in one piece go on, with enough room to be worth it? A third
    /// of the limit and half of TCP_NOTSENT_LOWAT must be free, as on Linux. A socket that has
    /// nothing under way is sure of its one area.
    pub(crate) fn is_roomy(
        &mut self,
        words: &SocketWords,
        pool: &TxPool,
        least: usize,
    ) -> Result<bool, RegionFault> {
        self.take_back_released(words, pool)?;
        let limit = words.tx_limit.load(Ordering::Relaxed);
        let lowat = u64::from(words.tx_lowat.load(Ordering::Relaxed));
        let may_begin = self.unreleased() <= limit / 3 * 2 && self.allowed(words, lowat / 2) > 0;
        if !may_begin || !self.finds_slot(words)? {
            return Ok(false);
        }
        if self.finds_memory(pool, least) {
            return Ok(true);
        }
        // The server does not know this pool; it rings for less room only if asked to.
        words.waiters.await_position(self.released + 1, self.released);
        fence(Ordering::SeqCst);
        self.take_back_released(words, pool)?;
        Ok(self.finds_memory(pool, least))
    }

    /// Is there a free slot? If not, the server rings for one.
    fn finds_slot(&mut self, words: &SocketWords) -> Result<bool, RegionFault> {
        if self.reserved == 0 || self.free_slots()? > 0 {
            return Ok(self.queue.free()? > 0);
        }
        // For a queue that is not quite full it rings only if asked to.
        words.waiters.await_position(Waiters::ROOM, self.released);
        fence(Ordering::SeqCst);
        Ok(self.free_slots()? > 0)
    }

    fn finds_memory(&self, pool: &TxPool, least: usize) -> bool {
        let left = self.open.as_ref().map_or(0, |open| open.area.len().saturating_sub(open.used));
        let idle = self.unreleased() == 0 && self.held > 0;
        left >= least || idle || pool.has_room(self.held, least)
    }

    /// Gives all memory back.
    pub(crate) fn empty(&mut self, pool: &TxPool) {
        let open = self.open.take().map(|open| SentMemory::Filled(open.area));
        for memory in
            self.unreleased_memory.drain(..).map(|sent| sent.memory).chain(open).collect::<Vec<_>>()
        {
            self.give_back(pool, memory);
        }
    }
}

/// The bytes of a list of buffers that are still to be sent.
pub(crate) struct SendBuffers<'a> {
    bufs: &'a [IoSlice<'a>],
    at: usize,
    pub(crate) left: usize,
}

impl<'a> SendBuffers<'a> {
    pub(crate) fn new(bufs: &'a [IoSlice<'a>]) -> Self {
        let left = bufs.iter().fold(0_usize, |sum, buf| sum.saturating_add(buf.len()));
        Self { bufs, at: 0, left }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Leaves at most the next `most` bytes.
    pub(crate) fn limit(&mut self, most: usize) {
        self.left = self.left.min(most);
    }

    /// The next bytes, at most `most`, not empty while something is left.
    fn next(&mut self, most: usize) -> &'a [u8] {
        while let Some((first, rest)) = self.bufs.split_first() {
            let left = first.get(self.at..).unwrap_or_default();
            if left.is_empty() {
                (self.bufs, self.at) = (rest, 0);
                continue;
            }
            let now = left.get(..most).unwrap_or(left);
            self.at += now.len();
            self.left -= now.len();
            return now;
        }
        &[]
    }
}
