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

mod allocation;
mod error;
mod facts;
mod link;
mod order;
mod sectors;
mod unit_session;

use std::cell::Cell;
use std::future::Future;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use luks::LuksVolume;

use self::allocation::runs;
use self::error::is_unsupported;
use self::link::Link;
use self::order::WriteOrder;
use self::sectors::EncryptedSectors;
use self::unit_session::{Connect, UnitSession};
use crate::initiator::{Capacity, Initiator, InitiatorError, transfer};

pub use self::error::DiskError;
pub use self::sectors::DiskSize;

/// Operation codes (SBC-3 5.1).
const READ: u8 = 0x88;
const WRITE: u8 = 0x8a;
const WRITE_SAME: u8 = 0x93;
const SYNCHRONIZE_CACHE: u8 = 0x91;
/// Byte 1 of WRITE and WRITE SAME: FUA, UNMAP.
const FUA: u8 = 0x08;
const UNMAP: u8 = 0x08;

const SERVICE_ACTION_IN: u8 = 0x9e;
const GET_LBA_STATUS: u8 = 0x12;
/// Bytes of an answer to it: 256 descriptors.
const STATUS_LEN: u32 = 8 + 256 * 16;

/// Bytes of zeroes that are written at a time.
const ZEROES: u64 = 1 << 20;

/// Bytes of a disk, behind those of the extent before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskExtent {
    /// How many.
    pub len: u64,
    /// They have storage. Others read as zeroes.
    pub allocated: bool,
}

/// A unit of a target.
#[derive(Debug, Clone)]
pub struct Disk {
    link: Rc<Link>,
    order: Rc<WriteOrder>,
    /// What is between the unit's bytes and the disk's.
    sectors: Option<Rc<EncryptedSectors>>,
    size: DiskSize,
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
        let size = DiskSize::whole(link.size());
        Ok(Self { link, order: Rc::default(), sectors: None, size, written, flushed })
    }

    /// The disk in the LUKS volume that the unit has. `discard`: sectors may be given back.
    ///
    /// # Errors
    /// [`DiskError::Alignment`]
    pub(crate) fn encrypted(self, volume: LuksVolume, discard: bool) -> Result<Self, DiskError> {
        let block = self.link.facts().capacity.block_size;
        let sectors = EncryptedSectors::new(volume, discard);
        if !sectors.before.is_multiple_of(block.into()) {
            return Err(DiskError::Alignment { offset: sectors.before, block });
        }
        let size = DiskSize::within(self.link.size(), &sectors, block.max(sectors.sector()));
        // The order counts other blocks from now on.
        let (sectors, order) = (Some(Rc::new(sectors)), Rc::default());
        Ok(Self { sectors, size, order, ..self })
    }

    /// The disk's size now, in the blocks that are written at once.
    #[must_use]
    pub fn capacity(&self) -> Capacity {
        let unit = self.link.facts().capacity;
        match &self.sectors {
            None => unit,
            Some(sectors) => {
                let block_size = unit.block_size.max(sectors.sector());
                Capacity { blocks: self.size.bytes() / u64::from(block_size), block_size }
            }
        }
    }

    /// The disk's size, kept up to date.
    #[must_use]
    pub fn size(&self) -> DiskSize {
        self.size.clone()
    }

    /// Does the unit refuse writes?
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.link.facts().read_only
    }

    /// Asks the unit for its size, and whether it can be written.
    ///
    /// # Errors
    /// It does not say, or it has become another unit.
    pub async fn refresh(&self) -> Result<(), DiskError> {
        self.link.refresh().await
    }

    /// Can storage be given back ([`Disk::zero`] with `unmap`)?
    #[must_use]
    pub fn gives_back(&self) -> bool {
        self.link.facts().unmaps && self.sectors.as_ref().is_none_or(|sectors| sectors.discard)
    }

    /// Does the unit make these bytes zero by itself, or are zeroes sent to it?
    #[must_use]
    pub fn zeroes_itself(&self, offset: u64, len: u64, unmap: bool) -> bool {
        !self.whole_blocks(offset, len).is_empty() && self.takes_zeroes(unmap)
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
        let whole = self.whole_blocks(offset, len);
        if whole.is_empty() || !self.takes_zeroes(unmap) {
            return self.write_zeroes(offset, len).await;
        }
        // First what the unit may not be able to do: then nothing is changed.
        self.write_same(whole.start / block, (whole.end - whole.start) / block, unmap).await?;
        self.write_zeroes(offset, whole.start - offset).await?;
        self.write_zeroes(whole.end, offset + len - whole.end).await
    }

    /// Which of these bytes have storage; all others read as zeroes. The extents follow each other
    /// from `offset` on, and may end before the bytes do. A unit that does not know has one.
    ///
    /// # Errors
    /// The bytes are not all within the unit; the target's.
    pub async fn extents(&self, offset: u64, len: u64) -> Result<Vec<DiskExtent>, DiskError> {
        let place = self.place(offset, len)?;
        let all = vec![DiskExtent { len, allocated: true }];
        if len == 0 || self.sectors.is_some() || !self.link.facts().holes_are_zero {
            return Ok(all);
        }
        let mut cdb = transfer(SERVICE_ACTION_IN, place.first, STATUS_LEN);
        cdb[1] = GET_LBA_STATUS;
        let answer = match self.link.command(&cdb, &[], STATUS_LEN).await {
            Err(DiskError::Unit(error)) if is_unsupported(&error) => return Ok(all),
            other => other?,
        };
        let runs = runs(&answer, place.first, place.end());
        let runs = runs.ok_or(InitiatorError::Answer(SERVICE_ACTION_IN))?;
        let mut before = place.first * place.block as u64;
        let extents = runs.into_iter().filter_map(|run| {
            let end = before + run.blocks * place.block as u64;
            let (from, to) = (before.max(offset), end.min(offset + len));
            before = end;
            (from < to).then_some(DiskExtent { len: to - from, allocated: run.allocated })
        });
        Ok(extents.collect())
    }

    /// Logs out. Later requests fail.
    pub async fn close(&self) {
        self.link.close().await;
    }

    /// The bytes that are whole blocks.
    fn whole_blocks(&self, offset: u64, len: u64) -> Range<u64> {
        let block = u64::from(self.capacity().block_size);
        offset.next_multiple_of(block)..offset.saturating_add(len) / block * block
    }

    fn place(&self, offset: u64, len: u64) -> Result<Place, DiskError> {
        let capacity = self.capacity();
        let size = self.size.bytes();
        match offset.checked_add(len).filter(|end| *end <= size) {
            Some(_) => Ok(Place::new(offset, len, capacity.block_size)),
            None => Err(DiskError::Range { offset, len, size }),
        }
    }

    async fn read_blocks(&self, first: u64, blocks: u64) -> Result<Bytes, DiskError> {
        let block = self.capacity().block_size;
        let mut parts = Vec::new();
        for (first, count) in split(first, blocks, self.most(self.link.facts().most_transfer)) {
            let len = count * block;
            let (place, number) = self.in_unit(first, count);
            let data = self.link.command(&transfer(READ, place, number), &[], len).await?;
            if data.len() != len as usize {
                return Err(InitiatorError::Answer(READ).into());
            }
            parts.push(match &self.sectors {
                Some(sectors) => sectors.decrypt(first * u64::from(block), data),
                None => data,
            });
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
        for (first, count) in split(place.first, place.blocks, self.most(facts.most_transfer)) {
            let (begin, number) = self.in_unit(first, count);
            let mut cdb = transfer(WRITE, begin, number);
            if durable && facts.fua {
                cdb[1] = FUA;
            }
            let mut now = take(&mut pieces, count as usize * place.block);
            if let Some(sectors) = &self.sectors {
                now = vec![sectors.encrypt(first * place.block as u64, &now)];
            }
            let _ = self.link.command(&cdb, &now, 0).await?;
        }
        if durable && !facts.fua {
            self.synchronize().await?;
        }
        Ok(())
    }

    /// Writes zeroes in their turn, as any other bytes.
    async fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), DiskError> {
        let end = offset + len;
        let zeroes = BytesMut::zeroed(usize::try_from(len.min(ZEROES)).unwrap_or(0)).freeze();
        let mut begin = offset;
        while begin < end {
            // Later parts begin with a block.
            let part = (ZEROES - begin % ZEROES).min(end - begin);
            let bytes = zeroes.slice(..usize::try_from(part).unwrap_or(0));
            self.write_at(&self.place(begin, part)?, bytes, false).await?;
            begin += part;
        }
        Ok(())
    }

    /// Does the unit make the disk's bytes zero? In an encrypted disk zeroes are ciphertext, unless
    /// sectors are given back.
    fn takes_zeroes(&self, unmap: bool) -> bool {
        let gives_back = unmap && self.link.facts().unmaps;
        self.sectors.as_ref().is_none_or(|sectors| sectors.discard && gives_back)
    }

    /// How many of the disk's blocks so many of the unit's are; at least one.
    fn most(&self, unit_blocks: u32) -> u32 {
        let ratio = self.capacity().block_size / self.link.facts().capacity.block_size;
        (unit_blocks / ratio).max(1)
    }

    /// The unit's blocks that the disk's blocks are.
    fn in_unit(&self, first: u64, count: u32) -> (u64, u32) {
        let unit = self.link.facts().capacity.block_size;
        let ratio = self.capacity().block_size / unit;
        let before = self.sectors.as_ref().map_or(0, |sectors| sectors.before);
        (before / u64::from(unit) + first * u64::from(ratio), count * ratio)
    }

    async fn write_same(&self, first: u64, blocks: u64, unmap: bool) -> Result<(), DiskError> {
        let facts = self.link.facts();
        let zeroes = BytesMut::zeroed(facts.capacity.block_size as usize).freeze();
        for (first, count) in split(first, blocks, self.most(facts.most_same)) {
            let (place, number) = self.in_unit(first, count);
            let mut cdb = transfer(WRITE_SAME, place, number);
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
