//! Sending: one copy into the socket's open area, a descriptor into its queue.
//!
//! An area is filled progressively: small consecutive sends lie side by side in it, and the server
//! sees them as one run. A full area is *lent* until `tx_released` has passed its end; then it is
//! dropped and free for anyone. When all of a socket's bytes are released the open area is filled
//! from its start again, so a socket that sends little stays in the same warm page.
//!
//! Every socket is sure of one area ([`TxPool`]).
//!
//! No more than `tx_limit` bytes are ever unreleased. All pieces of one call but the last say that
//! more follows, so that the end of an area makes no small segment.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use abi::ancillary::SendAncillary;
use abi::client::{QUEUE, SocketWords};
use abi::data::DataDescriptor;
use abi::stages::Stage;
use abi::{Errno, SocketFlags, SocketKind};
use shm::{Area, AreaName, OutOfRange, Producer, Region, Slot};

use crate::client::lock;
use crate::drive::COLLECTED;
use crate::error::Broken;
use crate::native::TxSlice;
use crate::socket::Socket;
use crate::tx_pool::TxPool;
use crate::wait::{Wait, until};

/// How to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SendFlags {
    /// MSG_MORE: more follows at once. A small segment may wait for it; a datagram is not complete
    /// before.
    pub more: bool,
    /// MSG_EOR: a record ends with these bytes; the peer gets it in segments of its own. Streams
    /// only.
    pub eor: bool,
    /// MSG_OOB: the last of these bytes is urgent. Streams only.
    pub urgent: bool,
}

impl SendFlags {
    /// As a descriptor says it.
    pub(crate) fn to_bits(self) -> u16 {
        let bit = |on: bool, bit| if on { bit } else { 0 };
        bit(self.more, DataDescriptor::MORE)
            | bit(self.eor, DataDescriptor::RECORD)
            | bit(self.urgent, DataDescriptor::URGENT)
    }
}

/// The area being filled.
struct Open {
    area: Area,
    name: AreaName,
    used: usize,
}

/// Memory that was sent, until the bytes before stream position `end` are released.
struct Lent {
    memory: Memory,
    end: u64,
}

/// Whose memory it is.
enum Memory {
    /// A full area of the socket's.
    Filled(Area),
    /// The program's.
    Slice(TxSlice),
}

/// The sending half of a socket; behind its send lock.
pub(crate) struct SendSide {
    pub(crate) queue: Producer,
    open: Option<Open>,
    lent: VecDeque<Lent>,
    /// Areas held, open and lent.
    held: u32,
    /// Bytes ever published.
    pub(crate) sent: u64,
    /// `sent` when the stack in this process last worked for it.
    pub(crate) served: u64,
    /// Bytes released, as last believed.
    released: u64,
    /// Slices ever sent, and how many of them are released.
    slices_sent: u64,
    slices_done: u64,
}

impl SendSide {
    pub(crate) fn attach(region: &Arc<Region>, offset: usize) -> Result<Self, OutOfRange> {
        Ok(Self {
            queue: Producer::attach(region, offset, QUEUE)?,
            open: None,
            lent: VecDeque::new(),
            held: 0,
            sent: 0,
            served: 0,
            released: 0,
            slices_sent: 0,
            slices_done: 0,
        })
    }

    pub(crate) fn unreleased(&self) -> u64 {
        self.sent - self.released
    }

    /// Bytes released, as last looked at.
    pub(crate) fn released(&self) -> u64 {
        self.released
    }

    pub(crate) fn holds_memory(&self) -> bool {
        !self.lent.is_empty() || self.open.is_some()
    }

    /// Takes back what the server has released.
    #[inline]
    pub(crate) fn collect(&mut self, words: &SocketWords, pool: &TxPool) -> Result<(), Broken> {
        let released = words.tx_released.get();
        // Nothing new: what follows from it was done when it was.
        if released == self.released { Ok(()) } else { self.take_back(released, pool) }
    }

    fn take_back(&mut self, released: u64, pool: &TxPool) -> Result<(), Broken> {
        if !(self.released..=self.sent).contains(&released) {
            return Err(Broken);
        }
        self.released = released;
        while self.lent.front().is_some_and(|lent| lent.end <= released) {
            if let Some(lent) = self.lent.pop_front() {
                self.give_back(pool, lent.memory);
            }
        }
        if released == self.sent
            && let Some(open) = &mut self.open
        {
            open.used = 0;
        }
        Ok(())
    }

    fn give_back(&mut self, pool: &TxPool, memory: Memory) {
        match memory {
            Memory::Filled(area) => pool.put_back(&mut self.held, area),
            Memory::Slice(slice) => {
                drop(slice);
                self.slices_done += 1;
            }
        }
    }

    /// Is there room for so many slices, when `limit` bytes may be unreleased?
    pub(crate) fn takes(&mut self, slices: usize, limit: u64) -> Result<bool, Broken> {
        let slots = u32::try_from(slices)?;
        Ok(self.unreleased() < limit && self.queue.has_room(slots)?)
    }

    /// May what is published wait for more, for a stack in this process?
    fn may_collect(&mut self) -> Result<bool, Broken> {
        Ok(self.sent - self.served < COLLECTED && self.queue.free()? > 0)
    }

    /// Keeps a slice whose descriptor comes next.
    #[inline]
    pub(crate) fn lend(&mut self, slice: TxSlice) {
        self.sent += slice.len() as u64;
        self.slices_sent += 1;
        self.lent.push_back(Lent { memory: Memory::Slice(slice), end: self.sent });
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
        let slices = self.lent.iter().filter(|lent| matches!(lent.memory, Memory::Slice(_)));
        slices.map(|lent| lent.end).nth(index)
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
            self.lent.push_back(Lent { memory: Memory::Filled(full.area), end: self.sent });
        }
        let (name, len) = (area.lend(), area.len());
        self.open = Some(Open { area, name, used: 0 });
        len
    }

    /// Puts a slot into the queue, in which there is room.
    #[inline]
    pub(crate) fn stage(&mut self, slot: &Slot) -> Result<(), Broken> {
        // Full: room was seen, and only the server could have taken it away.
        self.queue.stage(slot).map_err(|_| Broken)
    }

    /// Copies `len` bytes into the open area, which has room for them.
    pub(crate) fn fill(
        &mut self,
        from: &mut Gather<'_>,
        len: usize,
    ) -> Result<DataDescriptor, Broken> {
        let open = self.open.as_mut().ok_or(Broken)?;
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
            flags: 0,
            peer: None,
        })
    }

    /// Could a send of `least` bytes in one piece go on, with enough room to be worth it? A third
    /// of the limit must be free, as on Linux. A socket of which nothing is under way has what it
    /// was promised.
    fn is_roomy(
        &mut self,
        words: &SocketWords,
        pool: &TxPool,
        least: usize,
    ) -> Result<bool, Broken> {
        self.collect(words, pool)?;
        let limit = words.tx_limit.load(Ordering::Relaxed);
        let unreleased = self.unreleased();
        if self.queue.free()? == 0 || unreleased > limit / 3 * 2 || unreleased >= limit {
            return Ok(false);
        }
        if self.finds_memory(pool, least) {
            return Ok(true);
        }
        // The server, which knows nothing of this pool, rings for less than enough if asked to.
        words.waiters.await_place(self.released + 1, self.released);
        fence(Ordering::SeqCst);
        self.collect(words, pool)?;
        Ok(self.finds_memory(pool, least))
    }

    fn finds_memory(&self, pool: &TxPool, least: usize) -> bool {
        let left = self.open.as_ref().map_or(0, |open| open.area.len().saturating_sub(open.used));
        let idle = self.unreleased() == 0 && self.held > 0;
        left >= least || idle || pool.has_room(self.held, least)
    }

    /// Gives all memory back.
    fn empty(&mut self, pool: &TxPool) {
        let open = self.open.take().map(|open| Memory::Filled(open.area));
        for memory in self.lent.drain(..).map(|lent| lent.memory).chain(open).collect::<Vec<_>>() {
            self.give_back(pool, memory);
        }
    }
}

/// The sending half of a socket that was closed before everything was released.
pub(crate) struct Grave {
    index: u16,
    words: SocketWords,
    side: SendSide,
}

impl std::fmt::Debug for Grave {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grave").field("index", &self.index).finish_non_exhaustive()
    }
}

impl Grave {
    pub(crate) fn new(index: u16, words: SocketWords, side: SendSide) -> Self {
        Self { index, words, side }
    }

    pub(crate) fn index(&self) -> u16 {
        self.index
    }

    /// Does nobody need its memory any more? Until the place has a new socket, of which the client
    /// hears before any byte of it can be released, its words speak of this one.
    pub(crate) fn is_released(&self) -> bool {
        let flags = SocketFlags(self.words.flags.load(Ordering::Acquire));
        !flags.has(SocketFlags::OPEN) || self.words.tx_released.get() >= self.side.sent
    }

    pub(crate) fn empty(&mut self, pool: &TxPool) {
        self.side.empty(pool);
    }
}

/// What of a list of buffers is still to be sent.
pub(crate) struct Gather<'a> {
    bufs: &'a [IoSlice<'a>],
    at: usize,
    pub(crate) left: usize,
}

impl<'a> Gather<'a> {
    pub(crate) fn new(bufs: &'a [IoSlice<'a>]) -> Self {
        let left = bufs.iter().fold(0_usize, |sum, buf| sum.saturating_add(buf.len()));
        Self { bufs, at: 0, left }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Not more than the first `most` of them.
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

impl Socket {
    /// Sends the bytes of `bufs`, one after the other: a stream's next bytes, or one datagram, to
    /// `to` or the connected peer. `to` is ignored on a stream, as on Linux.
    ///
    /// Returns how many bytes were queued. A stream queues all unless `wait` is over or a signal
    /// comes in between; [`Wait::No`] queues what there is room for.
    ///
    /// # Errors
    /// EAGAIN when there is no room and no time; EINTR; EPIPE when sending is shut down, the
    /// connection is over or there never was one (no SIGPIPE is raised); a pending error of the
    /// socket, such as ECONNRESET, once; those of [`Socket::send_message`] for datagrams; EBADF
    /// after close; ENETDOWN when the instance is gone; ENOTCONN in a forked child.
    pub fn send(
        &self,
        bufs: &[IoSlice<'_>],
        flags: SendFlags,
        to: Option<SocketAddr>,
        wait: Wait,
    ) -> Result<usize, Errno> {
        let mut from = Gather::new(bufs);
        match self.kind() {
            SocketKind::Stream => match self.take_syn_room() {
                Some(room) => self.send_first(&mut from, flags, wait, room),
                None => self.send_stream(&mut from, flags, wait),
            },
            SocketKind::Datagram => {
                self.send_datagram(&mut from, flags, to, &SendAncillary::default(), wait)
            }
        }
    }

    pub(crate) fn send_stream(
        &self,
        from: &mut Gather<'_>,
        flags: SendFlags,
        wait: Wait,
    ) -> Result<usize, Errno> {
        self.client().mark(Stage::Send);
        let mut sent = 0;
        let attempt = || {
            if !self.may_send(sent == 0)? {
                return Ok(None);
            }
            sent += self.push_stream(from, flags)?;
            let enough = from.left == 0 || (wait == Wait::No && sent > 0);
            Ok(enough.then_some(()))
        };
        let done = until(self, wait, attempt, || self.may_go_on());
        self.client().mark(Stage::Returned);
        match done {
            Err(errno) if sent == 0 => Err(errno),
            // What went wrong after some bytes is told by the next call.
            Ok(()) | Err(_) => Ok(sent),
        }
    }

    /// May a stream send? False: not yet. A pending error is taken only if this call can report it.
    #[inline]
    pub(crate) fn may_send(&self, report: bool) -> Result<bool, Errno> {
        self.check()?;
        let flags = self.flags();
        if self.words().error.load(Ordering::Acquire) != 0 {
            let pending = if report { self.take_error() } else { None };
            return Err(pending.unwrap_or(Errno::PIPE));
        }
        if flags.has(SocketFlags::WRITE_CLOSED) {
            Err(Errno::PIPE)
        } else if flags.has(SocketFlags::CONNECTED) {
            Ok(true)
        } else if flags.has(SocketFlags::CONNECTING) {
            Ok(false)
        } else {
            Err(Errno::PIPE)
        }
    }

    /// Publishes as much of `from` as there is room for now; returns how much.
    pub(crate) fn push_stream(
        &self,
        from: &mut Gather<'_>,
        flags: SendFlags,
    ) -> Result<usize, Errno> {
        let mut side = lock(self.send_side());
        let side = side.as_mut().ok_or(Errno::BADF)?;
        let pushed = self.fill_queue(side, from, flags);
        pushed.map_err(|Broken| Errno::IO)
    }

    fn fill_queue(
        &self,
        side: &mut SendSide,
        from: &mut Gather<'_>,
        said: SendFlags,
    ) -> Result<usize, Broken> {
        let pool = &self.client().tx;
        side.collect(self.words(), pool)?;
        let before = side.unreleased();
        let limit = self.words().tx_limit.load(Ordering::Relaxed);
        // The last descriptor made: published when it is known whether another follows.
        let mut last: Option<DataDescriptor> = None;
        let mut pushed = 0;
        while from.left > 0 && side.queue.has_room(1 + u32::from(last.is_some()))? {
            let allowed = limit.saturating_sub(side.unreleased());
            let allowed = usize::try_from(allowed).unwrap_or(usize::MAX);
            let now = allowed.min(from.left).min(side.room(pool, 1));
            if now == 0 {
                break;
            }
            let next = side.fill(from, now)?;
            self.client().count_copied_tx(now);
            pushed += now;
            if let Some(last) = last.replace(next) {
                let last = DataDescriptor { flags: DataDescriptor::MORE, ..last };
                match self.client().drive() {
                    None => self.publish(side, &last, None)?,
                    // The stack works once, for all of it.
                    Some(_) => side.stage(&last.encode())?,
                }
            }
        }
        if let Some(last) = last {
            let all = from.left == 0;
            let flags =
                SendFlags { eor: said.eor && all, urgent: said.urgent && all, ..said }.to_bits();
            side.stage(&DataDescriptor { flags, ..last }.encode())?;
            let collect = before > 0 && !said.urgent && side.may_collect()?;
            if self.let_see(side, collect) {
                side.served = side.sent;
            }
        }
        Ok(pushed)
    }

    /// Publishes a descriptor, and the slot that comes with it.
    pub(crate) fn publish(
        &self,
        side: &mut SendSide,
        descriptor: &DataDescriptor,
        with: Option<&Slot>,
    ) -> Result<(), Broken> {
        for slot in [Some(&descriptor.encode()), with].into_iter().flatten() {
            side.stage(slot)?;
        }
        self.publish_staged(side);
        Ok(())
    }

    /// Lets the server see what was staged.
    #[inline]
    pub(crate) fn publish_staged(&self, side: &mut SendSide) {
        self.let_see(side, false);
    }

    /// [`Socket::publish_staged`]; what may be collected is left to a stack in this process that
    /// works anyway. True: the server was told at once.
    #[inline]
    fn let_see(&self, side: &mut SendSide, collect: bool) -> bool {
        let client = self.client();
        client.mark(Stage::Request);
        self.words().tx_bytes.store(side.sent, Ordering::Release);
        side.queue.publish();
        let told = client.announce(self.index(), collect);
        client.mark(Stage::Send);
        told
    }

    /// Most bytes that may be unreleased.
    pub(crate) fn tx_limit(&self) -> u64 {
        self.words().tx_limit.load(Ordering::Relaxed)
    }

    /// Would a send that waits find room that is worth it, or a reason to end?
    pub(crate) fn may_go_on(&self) -> bool {
        let flags = self.flags();
        if flags.has(SocketFlags::WRITE_CLOSED)
            || self.words().error.load(Ordering::Acquire) != 0
            || self.check().is_err()
        {
            return true;
        }
        if self.kind() == SocketKind::Stream && !flags.has(SocketFlags::CONNECTED) {
            return !flags.has(SocketFlags::CONNECTING);
        }
        self.has_room()
    }

    /// Is there room that is worth waking a sender for? For datagrams, for one of any size. True
    /// when a send would fail at once.
    pub(crate) fn has_room(&self) -> bool {
        let (client, words) = (self.client(), self.words());
        let least = match self.kind() {
            SocketKind::Stream => 1,
            SocketKind::Datagram => client.tx.area_len().max(self.largest_datagram()),
        };
        let mut side = lock(self.send_side());
        let roomy = |side: &mut SendSide| side.is_roomy(words, &client.tx, least).unwrap_or(true);
        let room = side.as_mut().is_none_or(roomy);
        drop(side);
        if !room {
            self.hasten_release();
        }
        room
    }

    /// Has the server, which is not woken for datagrams that have left unless somebody waits for
    /// it, look which have. Call it after saying what is waited for.
    pub(crate) fn hasten_release(&self) {
        if self.kind() == SocketKind::Datagram {
            self.client().ring();
        }
    }

    /// Bytes sent and not yet released by the server: SIOCOUTQ. 0 after close.
    #[must_use]
    pub fn unsent_len(&self) -> usize {
        if self.check().is_err() {
            return 0;
        }
        let side = lock(self.send_side());
        let sent = side.as_ref().map_or(0, |side| side.sent);
        drop(side);
        let released = self.words().tx_released.load(Ordering::Acquire);
        if sent > released {
            self.hasten_release();
        }
        usize::try_from(sent.saturating_sub(released)).unwrap_or(usize::MAX)
    }
}
