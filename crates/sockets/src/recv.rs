//! Receiving: descriptors out of the socket's queue, one copy out of the areas they name.
//!
//! A stream's descriptor may be taken in parts. What is taken is counted in `rx_consumed`, by which
//! the server gets its areas back and opens the peer's window. Telling the server costs a bell if
//! it sleeps, so small takings are only *marked*: the server reads them when it next wakes, which
//! any incoming segment makes it do. It is rung when enough was taken that a peer could be waiting
//! for it, see [`RecvSide::is_worth_a_bell`].

use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use abi::ancillary::RecvAncillary;
use abi::client::QUEUE;
use abi::data::DataDescriptor;
use abi::stages::Stage;
use abi::{Errno, SocketFlags, SocketKind};
use shm::{Consumer, OutOfRange, Region};

use crate::client::{Client, lock};
use crate::error::Broken;
use crate::native::{Kept, KeptList};
use crate::socket::Socket;
use crate::urgent::Ahead;
use crate::wait::{Wait, until};

/// Bytes taken that are always worth a bell.
const ALWAYS: u64 = 32 * 1024;
/// Bytes taken that are worth none unless the receive buffer was made small: far less than the
/// smallest buffer a server gives unasked, and more than most answers of request-response programs.
pub(crate) const SELDOM: u32 = 4096;
/// Descriptors taken that are worth a bell: the server may be waiting for room in a full queue.
const SLOTS: u32 = QUEUE / 2;

/// How to receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecvFlags {
    /// MSG_PEEK: leave what is received in the queue.
    pub peek: bool,
}

/// What was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Received {
    /// Bytes put into the buffers. 0 on a stream: the end, unless the buffers are empty.
    pub len: usize,
    /// The datagram's own length; above `len` when the buffers were too small (MSG_TRUNC). Streams:
    /// `len`.
    pub full_len: usize,
    /// Who sent the datagram. Streams: `None`.
    pub from: Option<SocketAddr>,
    /// How it came, if an option of the socket asks for it ([`abi::ancillary::asked`]).
    pub ancillary: Option<RecvAncillary>,
}

/// The receiving half of a socket; behind its receive lock.
pub(crate) struct RecvSide {
    pub(crate) queue: Consumer,
    /// Bytes of the oldest descriptor that are taken already.
    pub(crate) taken: u32,
    /// What the program has taken: bytes, or datagrams.
    pub(crate) consumed: u64,
    /// What it reads in place, for which `rx_consumed` stays behind.
    pub(crate) kept: KeptList,
    /// Bytes and descriptors taken since the server was last rung for it.
    pub(crate) quiet_bytes: u64,
    pub(crate) quiet_slots: u32,
}

impl RecvSide {
    pub(crate) fn attach(region: &Arc<Region>, offset: usize) -> Result<Self, OutOfRange> {
        Ok(Self {
            queue: Consumer::attach(region, offset, QUEUE)?,
            taken: 0,
            consumed: 0,
            kept: KeptList::default(),
            quiet_bytes: 0,
            quiet_slots: 0,
        })
    }

    pub(crate) fn consumed(&self) -> u64 {
        self.consumed
    }

    pub(crate) fn descriptor(&mut self, n: u32) -> Result<Option<DataDescriptor>, Broken> {
        Ok(self.queue.peek_at(n)?.map(|slot| DataDescriptor::decode(&slot)).transpose()?)
    }

    /// Copies what is there of a stream into `into`, up to an urgent byte, which is passed over if
    /// it is the first; returns how much. `ahead` says what is known of marks at a place of the
    /// stream, and is asked after the bytes there were seen.
    fn read_stream(
        &mut self,
        client: &Client,
        into: &mut Scatter<'_, '_>,
        peek: bool,
        ahead: impl Fn(u64) -> Ahead,
    ) -> Result<usize, Broken> {
        let (mut got, mut passed, mut number, mut taken) = (0, 0, 0, self.taken);
        while into.left > 0 {
            let Some(descriptor) = self.descriptor(number)? else { break };
            let left = descriptor.len.checked_sub(taken).filter(|&left| left > 0).ok_or(Broken)?;
            let (most, pass) = match ahead(self.consumed + got + passed) {
                Ahead::Nothing => (u32::MAX, false),
                Ahead::Mark(0) | Ahead::Hidden if got > 0 => break,
                Ahead::Mark(0) => (u32::MAX, false),
                Ahead::Hidden => (1, true),
                Ahead::Mark(bytes) => (u32::try_from(bytes).unwrap_or(u32::MAX), false),
            };
            let room = u32::try_from(into.left).unwrap_or(u32::MAX);
            let now = left.min(most).min(room);
            if pass {
                passed += 1;
            } else {
                let offset = descriptor.offset.checked_add(taken).ok_or(Broken)?;
                let (pool, area) = (client.pool_of(&descriptor)?, descriptor.area);
                let at = pool.borrow(area, offset, now)?;
                into.copy(client, (pool.region(), at), now as usize)?;
                got += u64::from(now);
            }
            taken += now;
            if taken == descriptor.len {
                taken = 0;
                if peek {
                    number += 1;
                } else {
                    self.queue.advance();
                    self.quiet_slots += 1;
                }
            }
        }
        if !peek {
            self.taken = taken;
            self.consumed += got + passed;
            self.quiet_bytes += got + passed;
        }
        // No more than the length of the buffers.
        Ok(usize::try_from(got).unwrap_or(usize::MAX))
    }

    /// The byte of a stream after so many that were not taken, if it is there.
    pub(crate) fn byte_after(&mut self, client: &Client, bytes: u64) -> Result<Option<u8>, Broken> {
        let (mut left, mut taken, mut number) = (bytes, self.taken, 0);
        while let Some(descriptor) = self.descriptor(number)? {
            let here = descriptor.len.checked_sub(taken).ok_or(Broken)?;
            if left < here.into() {
                let skip = taken + u32::try_from(left)?;
                let offset = descriptor.offset.checked_add(skip).ok_or(Broken)?;
                let pool = client.pool_of(&descriptor)?;
                let at = pool.borrow(descriptor.area, offset, 1)?;
                let mut byte = [0];
                pool.region().read(at, &mut byte)?;
                return Ok(Some(byte[0]));
            }
            (left, taken, number) = (left - u64::from(here), 0, number + 1);
        }
        Ok(None)
    }

    /// Copies the oldest datagram, or what of it has room.
    fn read_datagram(
        &mut self,
        client: &Client,
        into: &mut Scatter<'_, '_>,
        peek: bool,
    ) -> Result<Option<Received>, Broken> {
        let Some(descriptor) = self.descriptor(0)? else { return Ok(None) };
        let ancillary = match descriptor.flags & DataDescriptor::ANCILLARY {
            0 => None,
            _ => Some(RecvAncillary::decode(&self.queue.peek_at(1)?.ok_or(Broken)?)?),
        };
        let full_len = descriptor.len as usize;
        let len = full_len.min(into.left);
        if len > 0 {
            // All of it must exist, not only what is copied.
            let pool = client.pool_of(&descriptor)?;
            let at = pool.borrow(descriptor.area, descriptor.offset, descriptor.len)?;
            into.copy(client, (pool.region(), at), len)?;
        }
        if !peek {
            for _ in 0..1 + u32::from(ancillary.is_some()) {
                self.queue.advance();
                self.quiet_slots += 1;
            }
            self.consumed += 1;
            self.quiet_bytes += u64::from(descriptor.len);
        }
        Ok(Some(Received { len, full_len, from: descriptor.peer, ancillary }))
    }

    /// Is what was taken without a bell so much that somebody may be waiting for it? `outstanding`
    /// bytes are what the server believed to be unread; `seldom` see [`SELDOM`].
    ///
    /// The peer is held up when its window is closed. It stays open by what is not quiet: quiet
    /// bytes are fewer than a quarter of what the server counted as unread, or than `seldom`.
    fn is_worth_a_bell(&self, outstanding: u64, seldom: u32) -> bool {
        self.quiet_slots >= SLOTS
            || self.quiet_bytes >= ALWAYS
            || (self.quiet_bytes >= u64::from(seldom) && self.quiet_bytes >= outstanding / 4)
    }
}

/// What of a list of buffers is still to be filled.
struct Scatter<'a, 'b> {
    bufs: &'a mut [IoSliceMut<'b>],
    index: usize,
    at: usize,
    left: usize,
}

impl<'a, 'b> Scatter<'a, 'b> {
    fn new(bufs: &'a mut [IoSliceMut<'b>]) -> Self {
        let left = bufs.iter().fold(0_usize, |sum, buf| sum.saturating_add(buf.len()));
        Self { bufs, index: 0, at: 0, left }
    }

    /// Fills the next `len` bytes (at most `left`) from the region.
    fn copy(
        &mut self,
        client: &Client,
        (region, mut from): (&Region, usize),
        mut len: usize,
    ) -> Result<(), Broken> {
        client.count_copied_rx(len);
        while len > 0 {
            let buf = self.bufs.get_mut(self.index).ok_or(Broken)?;
            let room = buf.get_mut(self.at..).unwrap_or_default();
            if room.is_empty() {
                (self.index, self.at) = (self.index + 1, 0);
                continue;
            }
            let now = len.min(room.len());
            region.read(from, room.get_mut(..now).unwrap_or_default())?;
            (from, len) = (from + now, len - now);
            self.at += now;
            self.left -= now;
        }
        Ok(())
    }
}

impl Socket {
    /// Receives into `bufs`, one after the other: what is there of a stream, or one datagram.
    ///
    /// # Errors
    /// EAGAIN when nothing is there and no time; EINTR; a pending error of the socket, such as
    /// ECONNRESET, once; ENOTCONN on a stream that is not connected, and in a forked child; EIO
    /// when the server named bytes that do not exist; EBADF after close; ENETDOWN when the instance
    /// is gone.
    pub fn recv(
        &self,
        bufs: &mut [IoSliceMut<'_>],
        flags: RecvFlags,
        wait: Wait,
    ) -> Result<Received, Errno> {
        let mut into = Scatter::new(bufs);
        match self.kind() {
            SocketKind::Stream => {
                let attempt = || self.try_recv_stream(&mut into, flags.peek);
                self.until_received(wait, attempt)
            }
            SocketKind::Datagram => {
                let attempt = || self.try_recv_datagram(&mut into, flags.peek);
                self.until_received(wait, attempt)
            }
        }
    }

    /// Does `attempt` until something is received, and marks the stages of it.
    pub(crate) fn until_received<T>(
        &self,
        wait: Wait,
        mut attempt: impl FnMut() -> Result<Option<T>, Errno>,
    ) -> Result<T, Errno> {
        let attempt = || {
            self.client().mark(Stage::Recv);
            attempt()
        };
        let received = until(self, wait, attempt, || self.is_readable());
        if received.is_ok() {
            self.client().mark(Stage::Received);
        }
        received
    }

    fn try_recv_stream(
        &self,
        into: &mut Scatter<'_, '_>,
        peek: bool,
    ) -> Result<Option<Received>, Errno> {
        self.check()?;
        // The server writes flags last: what came before an end that they show is seen below.
        let flags = self.flags();
        if into.left == 0 {
            return Ok(Some(Received::default()));
        }
        let got = self.take(peek, |side| {
            side.read_stream(self.client(), into, peek, |at| self.urgent_ahead(at))
        })?;
        if got > 0 {
            return Ok(Some(Received { len: got, full_len: got, ..Received::default() }));
        }
        if let Some(errno) = self.take_error() {
            return Err(errno);
        }
        if flags.has(SocketFlags::READ_CLOSED) {
            return Ok(Some(Received::default()));
        }
        let coming = flags.0 & (SocketFlags::CONNECTED | SocketFlags::CONNECTING);
        if coming == 0 { Err(Errno::NOTCONN) } else { Ok(None) }
    }

    fn try_recv_datagram(
        &self,
        into: &mut Scatter<'_, '_>,
        peek: bool,
    ) -> Result<Option<Received>, Errno> {
        self.check()?;
        let flags = self.flags();
        if let Some(errno) = self.take_error() {
            return Err(errno);
        }
        let got = self.take(peek, |side| side.read_datagram(self.client(), into, peek))?;
        if let Some(Received { from: Some(from), .. }) = got {
            // Who sends to us can be answered.
            lock(self.confirmed()).note(Some(from), usize::MAX);
        }
        match got {
            None if flags.has(SocketFlags::READ_CLOSED) => Ok(Some(Received::default())),
            got => Ok(got),
        }
    }

    /// Takes something from the queue, and lets the server know.
    fn take<T>(
        &self,
        peek: bool,
        read: impl FnOnce(&mut RecvSide) -> Result<T, Broken>,
    ) -> Result<T, Errno> {
        let mut side = lock(self.recv_side());
        let side = side.as_mut().ok_or(Errno::BADF)?;
        let before = (side.consumed, side.quiet_bytes, side.quiet_slots);
        let got = read(side).map_err(|Broken| Errno::IO)?;
        if peek || side.consumed == before.0 {
            return Ok(got);
        }
        self.rx_taken().store(side.consumed, Ordering::Release);
        if !side.kept.is_empty() {
            // Told when what is before it is given back.
            let (bytes, slots) = (side.quiet_bytes - before.1, side.quiet_slots - before.2);
            (side.quiet_bytes, side.quiet_slots) = (before.1, before.2);
            side.kept.push(Kept { start: before.0, live: false, bytes, slots });
            return Ok(got);
        }
        self.tell_consumed(side, side.consumed);
        Ok(got)
    }

    /// The program has given back a part that it kept.
    pub(crate) fn give_back(&self, side: &mut RecvSide, number: u64) {
        let Some((bytes, slots)) = side.kept.end(number) else { return };
        side.quiet_bytes += bytes;
        side.quiet_slots += slots;
        let told = side.kept.first().unwrap_or(side.consumed);
        self.tell_consumed(side, told);
    }

    /// Lets the server know what is not needed any more.
    fn tell_consumed(&self, side: &mut RecvSide, told: u64) {
        self.words().rx_consumed.set(told);
        // Streams count bytes. Of datagrams the bytes outstanding are not known; slots decide.
        let outstanding = match self.kind() {
            SocketKind::Stream => {
                let published = self.words().rx_bytes.load(Ordering::Relaxed);
                published.saturating_sub(told).saturating_add(side.quiet_bytes)
            }
            SocketKind::Datagram => 0,
        };
        if side.is_worth_a_bell(outstanding, self.seldom()) {
            (side.quiet_bytes, side.quiet_slots) = (0, 0);
            self.client().announce(self.index(), false);
        } else {
            self.client().mark_dirty(self.index());
        }
    }

    /// Would a receive return at once, with data, an end or an error?
    pub(crate) fn is_readable(&self) -> bool {
        let ended = SocketFlags::READ_CLOSED;
        let flags = self.flags();
        flags.0 & ended != 0
            || self.words().error.load(Ordering::Acquire) != 0
            || self.has_data()
            || self.check().is_err()
            || (self.kind() == SocketKind::Stream
                && flags.0 & (SocketFlags::CONNECTED | SocketFlags::CONNECTING) == 0)
    }

    /// Is there something in the receiving queue? From the words alone.
    pub(crate) fn has_data(&self) -> bool {
        let published = self.words().rx_bytes.get();
        let consumed = self.rx_taken().load(Ordering::Relaxed);
        // An urgent byte that a receive would pass over is nothing to be received.
        let hidden = self.urgent_ahead(consumed) == Ahead::Hidden;
        published.wrapping_sub(consumed) > u64::from(hidden)
    }

    /// Bytes that can be received now: FIONREAD. For datagrams, the length of the next. 0 after
    /// close.
    #[must_use]
    pub fn readable_len(&self) -> usize {
        if self.check().is_err() {
            return 0;
        }
        let mut side = lock(self.recv_side());
        let Some(side) = side.as_mut() else { return 0 };
        match self.kind() {
            SocketKind::Stream => {
                let published = self.words().rx_bytes.get();
                let there = published.saturating_sub(side.consumed);
                let there = self.until_urgent(side.consumed).map_or(there, |at| at.min(there));
                usize::try_from(there).unwrap_or(usize::MAX)
            }
            SocketKind::Datagram => match side.descriptor(0) {
                Ok(Some(descriptor)) => descriptor.len as usize,
                Ok(None) | Err(Broken) => 0,
            },
        }
    }
}
