//! The receiving half of a socket: from frames to areas of the client's receiving pool, to
//! descriptors.
//!
//! **Streams.** The server copies each payload byte once, from its frame into the socket's open
//! area. The frame goes back to its pool at once. Copied bytes lie densely, so a thousand tiny
//! segments cost neither a thousand frames nor a thousand descriptors. The server makes descriptors
//! when it publishes the words, one for each contiguous stretch. While the queue is full, the
//! stretch just grows.
//!
//! **Datagrams.** Each has a descriptor of its own, and a second slot if the socket's options ask
//! for ancillary data. Datagrams wait for room in the queue in a bounded list; the server drops
//! those over the bound.
//!
//! **Frames in place.** Where programs may read frames ([`sharing`]), the pieces of a stream stay
//! in their frames, each with a descriptor. The server still copies small pieces, and pieces over
//! the bound.
//!
//! **Release.** Areas come back by `rx_consumed`. The server checks this count: it never goes back,
//! and never passes the published bytes. A socket holds at most [`Rx::limit`] areas. The core's
//! receive buffer of a stream is such that all unconsumed bytes fit into them.
//!
//! Positions count bytes of a stream, or datagrams.

use std::collections::VecDeque;
use std::net::SocketAddr;

use abi::ancillary::RecvAncillary;
use abi::client::QUEUE;
use abi::data::{DataDescriptor, DataFlags};
use inet::RxBytes as _;
use shm::{Area, Consumer, Pool, Producer, PushError};

use crate::fault::ClientFault;
use crate::nic::frame::{FramePiece, copy_piece};

pub(crate) mod sharing;

use self::sharing::{FrameQuota, SMALL, SharedPiece};

/// More than the payload of any frame from outside. So the server never copies only a part of such
/// a piece.
pub(crate) const MAX_PIECE: usize = 4096;
/// Most datagrams that a socket holds for its program.
const MAX_DATAGRAMS: u64 = 512;

/// An area being filled or read, or a frame being read.
struct FilledArea {
    memory: AreaMemory,
    /// Position of its first byte or datagram.
    first: u64,
    /// Position after its last one.
    end: u64,
    /// Bytes filled.
    len: usize,
}

enum AreaMemory {
    /// Of the client's receiving pool.
    Area(Area),
    Frame(SharedPiece),
}

impl FilledArea {
    fn room(&self) -> usize {
        match &self.memory {
            AreaMemory::Area(area) => area.len() - self.len,
            AreaMemory::Frame(_) => 0,
        }
    }

    /// Bytes of the client's pool in it.
    fn held(&self) -> usize {
        match &self.memory {
            AreaMemory::Area(area) => area.len(),
            AreaMemory::Frame(_) => 0,
        }
    }

    /// Copies `len` bytes, which fit, from byte `at` of a piece on.
    fn fill(&mut self, piece: &FramePiece, at: usize, len: usize) {
        if let AreaMemory::Area(area) = &self.memory
            && copy_piece(piece, at, len, (area, self.len))
        {
            self.len += len;
        }
    }

    /// Appends its last `len` bytes to `bytes`.
    fn append_last(&self, len: u64, bytes: &mut Vec<u8>) {
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(self.len);
        let (from, at) = (bytes.len(), self.len - len);
        bytes.resize(from + len, 0);
        let Some(out) = bytes.get_mut(from..) else { return };
        match &self.memory {
            // In range: so many bytes were filled.
            AreaMemory::Area(area) => drop(area.read(at, out)),
            AreaMemory::Frame(lent) => lent.piece.frame.read(lent.piece.range.start + at, out),
        }
    }

    /// A descriptor of `len` bytes, of which the first lies `back` bytes before the end.
    fn part(&self, back: u64, len: u32) -> DataDescriptor {
        let (area, flags, first) = match &self.memory {
            AreaMemory::Area(area) => (area.lend(), DataFlags::NONE, 0),
            AreaMemory::Frame(lent) => (lent.area, lent.region, lent.offset),
        };
        let back = u32::try_from(back).unwrap_or(u32::MAX);
        let offset = first.saturating_add(as_u32(self.len)).saturating_sub(back);
        DataDescriptor { area, offset, len, flags, peer: None }
    }
}

/// The receiving half of one socket.
pub(crate) struct Rx {
    queue: Producer,
    areas: VecDeque<FilledArea>,
    /// Bytes of the client's pool in them.
    held: usize,
    /// Most areas of `area_pages`.
    limit: usize,
    area_pages: u16,
    written: u64,
    published: u64,
    consumed: u64,
    /// Datagrams written and not published.
    datagrams: VecDeque<(DataDescriptor, Option<RecvAncillary>)>,
    /// Lengths of the datagrams written and not consumed.
    lengths: VecDeque<u32>,
    /// There was no room, and the core may have more.
    pub(crate) stalled: bool,
}

impl Rx {
    /// For a queue that has just been emptied; `limit` is at least 1.
    pub(crate) fn new(queue: Producer, area_pages: u16, limit: usize) -> Self {
        Self {
            queue,
            areas: VecDeque::new(),
            held: 0,
            limit,
            area_pages,
            written: 0,
            published: 0,
            consumed: 0,
            datagrams: VecDeque::new(),
            lengths: VecDeque::new(),
            stalled: false,
        }
    }

    /// Makes sure that there is room for a piece of a stream, or for a part of a longer one. The
    /// caller takes the piece from the core only afterwards, since it could not put it back.
    pub(crate) fn reserve(&mut self, pool: &Pool) -> bool {
        let room = self.areas.back().map_or(0, FilledArea::room);
        self.stalled = room < MAX_PIECE && !self.open_area(pool, 1);
        !self.stalled
    }

    /// Opens an area of at least `least` bytes. Its size is a multiple of the usual size, so that
    /// the pool does not fragment. As on Linux, there is room for one datagram that is longer than
    /// the buffer. It may take areas that are promised to others while half of the pool is free.
    fn open_area(&mut self, pool: &Pool, least: usize) -> bool {
        let units = least.div_ceil(self.area_len()).max(1);
        if !self.areas.is_empty() && self.units() + units > self.limit {
            return false;
        }
        let pages = units.saturating_mul(self.area_pages.into());
        let Ok(pages) = u16::try_from(pages) else { return false };
        let least = if units > self.limit { pool.pages() / 2 } else { 0 };
        let Ok(area) = pool.alloc_leaving(pages, least) else { return false };
        self.held += area.len();
        let memory = AreaMemory::Area(area);
        self.areas.push_back(FilledArea { memory, first: self.written, end: self.written, len: 0 });
        true
    }

    /// Lends a piece of a stream to the program, to be read in its frame. Gives the piece back if
    /// the server should copy it: it is small, lies in no frame, or is over the quota.
    pub(crate) fn lend(
        &mut self,
        piece: FramePiece,
        frame_quota: &FrameQuota,
    ) -> Result<usize, FramePiece> {
        // Copy a small piece, if an area is open or the socket has none.
        let open = self.areas.back().is_none_or(|filled| filled.room() > 0) || self.units() == 0;
        if piece.range.len() <= SMALL && open {
            return Err(piece);
        }
        let lent = frame_quota.lend(piece)?;
        // A reserved, empty area would lie between the frames.
        while self.areas.back().is_some_and(|filled| filled.len == 0) {
            self.held -= self.areas.pop_back().map_or(0, |empty| empty.held());
        }
        let (len, first) = (lent.len as usize, self.written);
        self.written += u64::from(lent.len);
        let memory = AreaMemory::Frame(lent);
        self.areas.push_back(FilledArea { memory, first, end: self.written, len });
        Ok(len)
    }

    /// The held memory, in areas of the usual size.
    fn units(&self) -> usize {
        self.held / self.area_len()
    }

    /// Copies as much of a piece of a stream as [`Rx::reserve`] made room for. Returns how much
    /// that was.
    pub(crate) fn write(&mut self, piece: &FramePiece) -> usize {
        let mut done = 0;
        // Only the last two areas can have room: the one being filled and the one reserved after
        // it.
        for index in self.areas.len().saturating_sub(2)..self.areas.len() {
            let Some(open) = self.areas.get_mut(index) else { break };
            let now = (piece.range.len() - done).min(open.room());
            if now == 0 {
                continue;
            }
            if open.len == 0 {
                open.first = self.written;
            }
            open.fill(piece, done, now);
            self.written += now as u64;
            open.end = self.written;
            done += now;
        }
        // Keeps positions in order, if the copy did not need the reserved area yet.
        if let Some(empty) = self.areas.back_mut().filter(|filled| filled.len == 0) {
            (empty.first, empty.end) = (self.written, self.written);
        }
        done
    }

    /// Makes room for a datagram of at most `len` bytes; false if there is none.
    pub(crate) fn begin_datagram(&mut self, pool: &Pool, len: usize) -> bool {
        if self.written - self.consumed >= MAX_DATAGRAMS {
            return false;
        }
        let room = self.areas.back().map_or(0, FilledArea::room);
        !self.areas.is_empty() && room >= len || self.open_area(pool, len)
    }

    /// Copies a part of the datagram that [`Rx::begin_datagram`] made room for.
    pub(crate) fn add_to_datagram(&mut self, piece: &FramePiece) {
        if let Some(open) = self.areas.back_mut() {
            open.fill(piece, 0, piece.range.len());
        }
    }

    /// Ends a datagram: the last `len` bytes.
    pub(crate) fn end_datagram(
        &mut self,
        len: usize,
        peer: Option<SocketAddr>,
        ancillary: Option<RecvAncillary>,
    ) {
        let Some(open) = self.areas.back_mut() else { return };
        // Both fit: an area is at most 256 pages.
        let (offset, len) = (as_u32(open.len.saturating_sub(len)), as_u32(len));
        self.written += 1;
        open.end = self.written;
        let flags = DataFlags::ANCILLARY.when(ancillary.is_some());
        self.lengths.push_back(len);
        let descriptor = DataDescriptor { offset, flags, peer, ..open.part(len.into(), len) };
        self.datagrams.push_back((descriptor, ancillary));
    }

    /// Publishes what the queue has room for; returns the bytes that the new descriptors name.
    pub(crate) fn publish(&mut self, stream: bool) -> Result<u64, ClientFault> {
        if self.published == self.written {
            return Ok(0);
        }
        let mut bytes = 0;
        while let Some((descriptor, ancillary, position)) = self.next_descriptor(stream) {
            let free = self.queue.free().map_err(ClientFault::ring("receiving"))?;
            if free < 1 + u32::from(ancillary.is_some()) {
                break;
            }
            for slot in [Some(descriptor.encode()), ancillary.map(|more| more.encode())] {
                match slot.map_or(Ok(()), |slot| self.queue.stage(&slot)) {
                    Ok(()) => {}
                    Err(PushError::Fault(fault)) => {
                        return Err(ClientFault::Ring { ring: "receiving", fault });
                    }
                    // There was room, and the server is the only producer.
                    Err(PushError::Full) => return Ok(bytes),
                }
            }
            self.published = position;
            bytes += u64::from(descriptor.len);
            if !stream {
                self.datagrams.pop_front();
            }
        }
        self.queue.publish();
        Ok(bytes)
    }

    /// The descriptor of the bytes, or of the datagram, at `published`, and the position after it.
    fn next_descriptor(
        &self,
        stream: bool,
    ) -> Option<(DataDescriptor, Option<RecvAncillary>, u64)> {
        if !stream {
            let (first, ancillary) = self.datagrams.front().copied()?;
            return Some((first, ancillary, self.published + 1));
        }
        let published = self.areas.partition_point(|filled| filled.end <= self.published);
        let filled = self.areas.get(published)?;
        let left = filled.end - self.published;
        // A lent super-segment comes in parts as long as areas. So a program that keeps one part
        // while it waits for the next does not hold a whole window.
        let len = left.min(self.area_len() as u64);
        let descriptor = filled.part(left, u32::try_from(len).unwrap_or(u32::MAX));
        Some((descriptor, None, self.published + len))
    }

    /// Takes the program's word that it has consumed up to `alleged`. Returns how much more that is
    /// than before.
    pub(crate) fn consume(&mut self, socket: u16, alleged: u64) -> Result<u64, ClientFault> {
        let (least, most) = (self.consumed, self.published);
        if !(least..=most).contains(&alleged) {
            return Err(ClientFault::Consumed { socket, alleged, least, most });
        }
        self.consumed = alleged;
        // A stream has none.
        let datagrams = usize::try_from(alleged - least).unwrap_or(usize::MAX);
        self.lengths.drain(..datagrams.min(self.lengths.len()));
        if alleged == self.written {
            self.areas.clear();
            self.held = 0;
        }
        let passed = |filled: &FilledArea| filled.end > filled.first && filled.end <= alleged;
        while self.areas.front().is_some_and(passed) {
            self.held -= self.areas.pop_front().map_or(0, |filled| filled.held());
        }
        Ok(alleged - least)
    }

    /// Forgets the bytes of a stream that the program cannot see yet.
    pub(crate) fn forget_unpublished(&mut self) {
        let published = self.published;
        while self.areas.back().is_some_and(|filled| filled.first >= published) {
            self.held -= self.areas.pop_back().map_or(0, |filled| filled.held());
        }
        if let Some(filled) = self.areas.back_mut().filter(|filled| filled.end > published) {
            let forgotten = usize::try_from(filled.end - published).unwrap_or(filled.len);
            filled.len = filled.len.saturating_sub(forgotten);
            filled.end = published;
        }
        self.written = published;
        self.stalled = false;
    }

    /// Gives all areas back. The socket receives nothing any more.
    pub(crate) fn clear(&mut self) {
        self.areas.clear();
        self.held = 0;
        self.datagrams.clear();
        self.lengths.clear();
        self.published = self.written;
        self.consumed = self.written;
    }

    /// Most bytes that can be unconsumed, whatever their alignment: all areas but one.
    pub(crate) fn capacity(&self) -> usize {
        self.limit.saturating_sub(1).max(1) * self.area_len()
    }

    /// Sets how many areas there may be.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    fn area_len(&self) -> usize {
        usize::from(self.area_pages) * shm::PAGE
    }

    /// Bytes or datagrams ever published.
    pub(crate) fn published(&self) -> u64 {
        self.published
    }

    /// Bytes or datagrams that the program has consumed.
    pub(crate) fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Copies the bytes of a stream that the program has not consumed.
    pub(crate) fn unread_stream(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for filled in &self.areas {
            let unread = filled.end.saturating_sub(filled.first.max(self.consumed));
            filled.append_last(unread, &mut bytes);
        }
        bytes
    }

    /// Takes the datagrams that were not published.
    pub(crate) fn take_unpublished(&mut self) -> VecDeque<(DataDescriptor, Option<RecvAncillary>)> {
        std::mem::take(&mut self.datagrams)
    }

    /// Bytes or datagrams that the program has not consumed.
    pub(crate) fn unread(&self) -> u64 {
        self.written - self.consumed
    }

    /// Bytes of the datagrams that the program has not consumed.
    pub(crate) fn unread_bytes(&self) -> u64 {
        self.lengths.iter().map(|&len| u64::from(len)).sum()
    }

    /// Is everything published that was written?
    pub(crate) fn is_published(&self) -> bool {
        self.published == self.written
    }
}

/// Empties a queue of a place that a new socket is to use. The program has no socket there, so the
/// server may act for the consumer. A program that still publishes there does not hold the server
/// up. After as many slots as a full queue has, the queue is empty or the program is at fault.
pub(crate) fn empty(queue: &mut Consumer, socket: u16) -> Result<(), ClientFault> {
    let ring = "socket's";
    for _ in 0..=QUEUE {
        if queue.pop().map_err(ClientFault::ring(ring))?.is_none() {
            return Ok(());
        }
    }
    Err(ClientFault::Refilled { socket })
}

fn as_u32(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use abi::nic::INET;
    use shm::{Backing, PoolLayout, Producer, Region};

    use super::*;

    #[test]
    fn a_super_segment_is_told_in_parts_as_long_as_areas() {
        const PLACE: PoolLayout = PoolLayout { table: 8192, pages_at: 12_288, pages: 32 };
        let (region, _fd) = Region::create("rx", 12_288 + (32 << 12), Backing::Small).unwrap();
        let pool = Pool::create(&region, PLACE, INET).unwrap();
        let queue = Producer::attach(&region, 0, QUEUE).unwrap();
        let mut rx = Rx::new(queue, 4, 2);
        // As a lent frame lies there: 40,000 bytes, of which 5 are published already.
        let memory = AreaMemory::Area(pool.alloc(17).unwrap());
        let (first, end) = (100, 40_100);
        rx.areas.push_back(FilledArea { memory, first, end, len: 40_000 });
        (rx.written, rx.published) = (end, first + 5);
        let parts: Vec<_> = std::iter::from_fn(|| {
            let (part, _, position) = rx.next_descriptor(true)?;
            rx.published = position;
            Some((part.offset, part.len))
        })
        .collect();
        assert_eq!(parts, [(5, 16_384), (16_389, 16_384), (32_773, 7227)]);
        assert_eq!(rx.published, end);
    }
}
