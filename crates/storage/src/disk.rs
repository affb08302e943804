//! A disk: a unit of a target, as programs want it. Bytes at any place, and a session that comes
//! back when it was lost.
//!
//! # Commands that are made again
//!
//! A command whose session is lost may have been carried out, or not, or in part. On the next
//! session it is made again. That changes nothing for a read or a flush. A write gives the same
//! bytes to the same blocks, so it may be repeated as long as no later write to these blocks was
//! carried out in between. Four rules see to that:
//!
//! 1. Writes to the same block are sent one after the other ([`order`]): the second waits until the
//!    first is acknowledged. So no write is repeated after a later one.
//! 2. The session comes back under the same name and ISID. The target ends the old session and all
//!    of its commands before it lets the new one in (RFC 7143 6.3.5). So no command of the old
//!    session is carried out after a command of the new one.
//! 3. The unit is asked who it is before any other command. If its block size, serial number or
//!    identification is another one, or it has become smaller, every request fails from then on.
//! 4. Writes of parts of blocks read the block first. The order of rule 1 includes that reading.
//!
//! # What is promised
//!
//! A write that is acknowledged is seen by every later read. It is on stable storage after a flush,
//! or if it was `durable`. If the target's machine loses power before that, the write may be lost
//! without a sign, as with any disk that has a cache. A target with `writethrough` has none.
//! Writes are not kept here to be made again after they were acknowledged: another initiator may
//! have written to the same blocks since.

mod error;
mod facts;
mod link;
mod order;
mod unit_session;

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use self::error::is_unsupported;
use self::link::Link;
use self::order::WriteOrder;
use self::unit_session::{Connect, UnitSession};
use crate::initiator::{Capacity, Initiator, InitiatorError, transfer};

pub use self::error::DiskError;

/// Operation codes (SBC-3 5.1).
const READ: u8 = 0x88;
const WRITE: u8 = 0x8a;
const WRITE_SAME: u8 = 0x93;
const SYNCHRONIZE_CACHE: u8 = 0x91;
/// Byte 1 of WRITE and WRITE SAME: FUA, UNMAP.
const FUA: u8 = 0x08;
const UNMAP: u8 = 0x08;

/// A unit of a target.
#[derive(Debug, Clone)]
pub struct Disk {
    link: Rc<Link>,
    order: Rc<WriteOrder>,
    /// Writes so far, and how many of them had been acknowledged when a flush began that has ended.
    written: Rc<Cell<u64>>,
    flushed: Rc<Cell<u64>>,
}

impl Disk {
    /// Opens a unit. `connect` makes a session with its target, the first one and each later one,
    /// with the same ISID. Requests wait for a lost session as long as `give_up`, or for ever.
    ///
    /// # Errors
    /// Of the first session, and of the unit.
    pub async fn open<C, F>(
        connect: C,
        lun: u16,
        give_up: Option<Duration>,
    ) -> Result<Self, InitiatorError>
    where
        C: Fn() -> F + 'static,
        F: Future<Output = Result<Initiator, InitiatorError>> + 'static,
    {
        let connect: Connect = Box::new(move || {
            let session = connect();
            Box::pin(async move {
                let session: Rc<dyn UnitSession> = Rc::new(session.await?);
                Ok(session)
            })
        });
        Self::open_by(connect, lun, give_up).await
    }

    async fn open_by(
        connect: Connect,
        lun: u16,
        give_up: Option<Duration>,
    ) -> Result<Self, InitiatorError> {
        let link = Link::open(connect, lun, give_up).await?;
        // The first flush is for what another process has written.
        let (written, flushed) = (Rc::new(Cell::new(1)), Rc::default());
        Ok(Self { link, order: Rc::default(), written, flushed })
    }

    /// The unit's size now.
    #[must_use]
    pub fn capacity(&self) -> Capacity {
        self.link.facts().capacity
    }

    /// Bytes of the unit, kept up to date.
    #[must_use]
    pub fn size(&self) -> Arc<AtomicU64> {
        Arc::clone(self.link.size())
    }

    /// Does the unit refuse writes?
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.link.facts().read_only
    }

    /// Reads.
    ///
    /// # Errors
    /// The bytes are not all within the unit, or cannot be read.
    pub async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DiskError> {
        let place = self.place(offset, len as u64)?;
        let bytes = self.read_blocks(place.first, place.blocks).await?;
        Ok(bytes.slice(place.head..place.head + len))
    }

    /// Writes. `durable`: the bytes are on stable storage then.
    ///
    /// # Errors
    /// The bytes are not all within the unit, or cannot be written. What is there then is old or
    /// new, block by block.
    pub async fn write(&self, offset: u64, bytes: Bytes, durable: bool) -> Result<(), DiskError> {
        let place = self.place(offset, bytes.len() as u64)?;
        let _turn = self.order.enter(place.first..place.end()).await;
        self.written.set(self.written.get() + 1);
        self.write_at(&place, bytes, durable).await
    }

    /// What was acknowledged is on stable storage then.
    ///
    /// # Errors
    /// The target's.
    pub async fn flush(&self) -> Result<(), DiskError> {
        let mark = self.written.get();
        if self.flushed.get() < mark {
            self.synchronize().await?;
            self.flushed.set(self.flushed.get().max(mark));
        }
        Ok(())
    }

    /// Makes bytes zero. `unmap`: their storage may be given back.
    ///
    /// # Errors
    /// As [`Disk::write`], or the unit has no WRITE SAME.
    pub async fn zero(&self, offset: u64, len: u64, unmap: bool) -> Result<(), DiskError> {
        let place = self.place(offset, len)?;
        let block = u64::from(self.capacity().block_size);
        let _turn = self.order.enter(place.first..place.end()).await;
        self.written.set(self.written.get() + 1);
        let whole = offset.next_multiple_of(block)..(offset + len) / block * block;
        if whole.start >= whole.end {
            return self.write_zeroes(offset, len).await;
        }
        self.write_zeroes(offset, whole.start - offset).await?;
        self.write_zeroes(whole.end, offset + len - whole.end).await?;
        self.write_same(whole.start / block, (whole.end - whole.start) / block, unmap).await
    }

    /// Logs out. Later requests fail.
    pub async fn close(&self) {
        self.link.close().await;
    }

    fn place(&self, offset: u64, len: u64) -> Result<Place, DiskError> {
        let capacity = self.capacity();
        let size = self.link.size().load(Ordering::Relaxed);
        match offset.checked_add(len).filter(|end| *end <= size) {
            Some(_) => Ok(Place::new(offset, len, capacity.block_size)),
            None => Err(DiskError::Range { offset, len, size }),
        }
    }

    async fn read_blocks(&self, first: u64, blocks: u64) -> Result<Bytes, DiskError> {
        let facts = self.link.facts();
        let block = facts.capacity.block_size;
        let mut parts = Vec::new();
        for (first, count) in split(first, blocks, facts.most_transfer) {
            let len = count * block;
            let data = self.link.command(&transfer(READ, first, count), &[], len).await?;
            if data.len() != len as usize {
                return Err(InitiatorError::Answer(READ).into());
            }
            parts.push(data);
        }
        Ok(match &parts[..] {
            [one] => one.clone(),
            _ => parts.concat().into(),
        })
    }

    /// Writes in its turn.
    async fn write_at(&self, place: &Place, bytes: Bytes, durable: bool) -> Result<(), DiskError> {
        let block = place.block;
        let mut pieces = Vec::new();
        if place.head > 0 {
            pieces.push(self.read_blocks(place.first, 1).await?.slice(..place.head));
        }
        pieces.push(bytes);
        if place.tail > 0 {
            pieces.push(self.read_blocks(place.end() - 1, 1).await?.slice(block - place.tail..));
        }
        self.write_blocks(place, pieces, durable).await
    }

    async fn write_blocks(
        &self,
        place: &Place,
        mut pieces: Vec<Bytes>,
        durable: bool,
    ) -> Result<(), DiskError> {
        let facts = self.link.facts();
        for (first, count) in split(place.first, place.blocks, facts.most_transfer) {
            let mut cdb = transfer(WRITE, first, count);
            if durable && facts.fua {
                cdb[1] = FUA;
            }
            let now = take(&mut pieces, count as usize * place.block);
            let _ = self.link.command(&cdb, &now, 0).await?;
        }
        if durable && !facts.fua {
            self.synchronize().await?;
        }
        Ok(())
    }

    /// Writes zeroes to a part of a block.
    async fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), DiskError> {
        if len == 0 {
            return Ok(());
        }
        let place = self.place(offset, len)?;
        let zeroes = BytesMut::zeroed(usize::try_from(len).unwrap_or(usize::MAX)).freeze();
        self.write_at(&place, zeroes, false).await
    }

    async fn write_same(&self, first: u64, blocks: u64, unmap: bool) -> Result<(), DiskError> {
        let facts = self.link.facts();
        let zeroes = BytesMut::zeroed(facts.capacity.block_size as usize).freeze();
        for (first, count) in split(first, blocks, facts.most_same) {
            let mut cdb = transfer(WRITE_SAME, first, count);
            if unmap && facts.unmaps {
                cdb[1] = UNMAP;
            }
            let same = self.link.command(&cdb, std::slice::from_ref(&zeroes), 0).await;
            match same {
                Err(DiskError::Unit(error)) if is_unsupported(&error) => {
                    return Err(DiskError::Unsupported(error));
                }
                other => drop(other?),
            }
        }
        Ok(())
    }

    async fn synchronize(&self) -> Result<(), DiskError> {
        self.link.command(&transfer(SYNCHRONIZE_CACHE, 0, 0), &[], 0).await.map(drop)
    }
}

/// The blocks that bytes are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    /// The first block, and how many there are.
    first: u64,
    blocks: u64,
    /// Bytes of the first block before, and of the last block behind.
    head: usize,
    tail: usize,
    /// Bytes of a block.
    block: usize,
}

impl Place {
    fn new(offset: u64, len: u64, block_size: u32) -> Self {
        let block = u64::from(block_size);
        let (first, end) = (offset / block, (offset + len).div_ceil(block));
        // Both are less than a block.
        let small = |bytes: u64| usize::try_from(bytes).unwrap_or(0);
        Self {
            first,
            blocks: end.saturating_sub(first),
            head: small(offset % block),
            tail: small(end * block - (offset + len)),
            block: block_size as usize,
        }
    }

    fn end(&self) -> u64 {
        self.first + self.blocks
    }
}

/// Cuts blocks into parts of at most so many.
fn split(first: u64, blocks: u64, most: u32) -> impl Iterator<Item = (u64, u32)> {
    let part = move |done: u64| u32::try_from(blocks - done).map_or(most, |left| left.min(most));
    let starts = std::iter::successors(Some(0), move |done| Some(done + u64::from(part(*done))));
    let starts = starts.take_while(move |done| *done < blocks);
    starts.map(move |done| (first + done, part(done)))
}

/// Takes `len` bytes from the front.
fn take(pieces: &mut Vec<Bytes>, len: usize) -> Vec<Bytes> {
    let mut left = len;
    let mut taken = Vec::new();
    while let Some(piece) = pieces.first_mut().filter(|_| left > 0) {
        let now = piece.len().min(left);
        taken.push(piece.split_to(now));
        left -= now;
        if piece.is_empty() {
            pieces.remove(0);
        }
    }
    taken
}
