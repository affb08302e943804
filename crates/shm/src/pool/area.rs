//! Areas: the parts of a pool that a process owns, as values.

#![allow(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use super::entry::OwnerEntry;
use super::name::{AreaName, Owner};
use super::table::{Attachment, lock};
use crate::layout::PAGE;
use crate::region::OutOfRange;

/// An area that this process owns. If this process is the pool's allocator, dropping the value
/// frees the area. Otherwise the area stays this party's in the table until
/// [`Pool::reclaim`](super::Pool::reclaim).
pub struct Area {
    shared: Arc<Attachment>,
    name: AreaName,
    /// False once handed over: then drop has nothing to do.
    ours: bool,
}

impl fmt::Debug for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.name, f)
    }
}

impl Area {
    /// The pages were just covered and are the name's in the table.
    pub(super) fn new(shared: &Arc<Attachment>, name: AreaName) -> Self {
        Self { shared: Arc::clone(shared), name, ours: true }
    }

    pub(super) fn is_of(&self, shared: &Arc<Attachment>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    /// Length in bytes, whole pages.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "an area has at least one page")]
    pub fn len(&self) -> usize {
        usize::from(self.name.pages) * PAGE
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> AreaName {
        self.name
    }

    /// Offset of its first byte in the region.
    #[must_use]
    pub fn region_offset(&self) -> usize {
        self.shared.extent(self.name.page, self.name.pages).0
    }

    /// Copies bytes into the area.
    ///
    /// # Errors
    /// [`OutOfRange`] when they do not lie in it; nothing is copied then.
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), OutOfRange> {
        self.shared.region.write(self.offset(offset, from.len())?, from)
    }

    /// Copies bytes out of the area.
    ///
    /// # Errors
    /// [`OutOfRange`] when they do not lie in it; nothing is copied then.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), OutOfRange> {
        self.shared.region.read(self.offset(offset, into.len())?, into)
    }

    /// A private copy of `N` bytes from `offset` on. Those that are not in the area are zero.
    #[must_use]
    #[inline]
    pub fn head<const N: usize>(&self, offset: usize) -> [u8; N] {
        match self.offset(offset, N) {
            Ok(at) => self.shared.region.array(at).unwrap_or([0; N]),
            Err(_) => {
                let mut head = [0; N];
                let len = self.len().saturating_sub(offset).min(N);
                // In range: both the area and the array have as many bytes.
                let _ = head.get_mut(..len).map(|head| self.read(offset, head));
                head
            }
        }
    }

    /// Copies `len` bytes from `offset` on to the offset `at` of an area of another region.
    ///
    /// # Errors
    /// [`OutOfRange`] when they do not lie in the areas; nothing is copied then.
    pub fn copy_to(
        &self,
        offset: usize,
        len: usize,
        into: &Self,
        at: usize,
    ) -> Result<(), OutOfRange> {
        let (from, to) = (self.offset(offset, len)?, into.offset(at, len)?);
        self.shared.region.copy_to(from, len, &into.shared.region, to)
    }

    /// The one's complement sum of `len` bytes from `offset` on: see [`crate::Region::checksum`].
    ///
    /// # Errors
    /// [`OutOfRange`] when they do not lie in it.
    pub fn checksum(&self, offset: usize, len: usize) -> Result<u16, OutOfRange> {
        self.shared.region.checksum(self.offset(offset, len)?, len)
    }

    fn offset(&self, offset: usize, len: usize) -> Result<usize, OutOfRange> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len() => Ok(self.region_offset() + offset),
            _ => Err(OutOfRange { offset, len, region: self.len() }),
        }
    }

    /// Its bytes in place. Every other process that can write to the region must keep to the owner
    /// table. So this is for a program in its own region, where it trusts the inet server, and not
    /// for a server: the program, or a driver, may write at any time and would change the bytes
    /// under the reference. A server uses [`Area::read`], [`Area::head`] and
    /// [`Area::copy_to`]. While the reference lives,
    /// [`Area::write`] and [`crate::Region::write`] must not write these bytes either.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let Ok(at) = self.shared.region.inside(self.region_offset(), self.len()) else {
            return &[];
        };
        // SAFETY: in range and mapped readable while `self` lives. The owner table says that this
        // area is ours, so no other party writes; within this process no other area covers the
        // pages (`covered`), and writing through this one needs `&mut self` or is a raw copy by the
        // same owner.
        unsafe { std::slice::from_raw_parts(at.as_ptr(), self.len()) }
    }

    /// As [`Area::bytes`], for writing in place.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let len = self.len();
        let Ok(at) = self.shared.region.inside(self.region_offset(), len) else { return &mut [] };
        // SAFETY: as in `bytes`; an area is had only through a writable mapping, and `&mut self`
        // excludes every other reference made from this area.
        unsafe { std::slice::from_raw_parts_mut(at.as_ptr(), len) }
    }

    /// Gives the area away. Send the name to `to`, which takes it by
    /// [`PoolMap::take`](super::PoolMap::take). Until then the death of either party frees it. In
    /// strict mode this process cannot access the pages any more.
    ///
    /// # Panics
    /// When `to` is not within `1..=Owner::MAX`. In strict mode, when the system refuses mprotect.
    #[must_use = "the new owner needs the name; without it the area is lost until one of them dies"]
    pub fn hand_over(mut self, to: Owner) -> AreaName {
        let AreaName { page, pages, generation } = self.name;
        let (shared, to) = (&self.shared, to.number());
        let mut allocator = shared.allocator.as_deref().map(lock);
        if let Some(allocator) = &mut allocator {
            allocator.moved(page, to);
        }
        shared.forbid(page, pages);
        // Before the offer is visible: another handle in this process may be the one that takes it.
        shared.uncover(page, pages);
        let offer = OwnerEntry { holder: shared.me, offered: to, pages, generation };
        shared.set_entry(page, offer);
        drop(allocator);
        self.ours = false;
        self.name
    }

    /// The name by which others may read the area ([`PoolMap::borrow`](super::PoolMap::borrow))
    /// while this process owns it. It goes stale when the area is dropped.
    #[must_use]
    pub fn lend(&self) -> AreaName {
        self.name
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        if !self.ours {
            return;
        }
        let shared = &self.shared;
        let AreaName { page, pages, .. } = self.name;
        shared.forbid(page, pages);
        let Some(allocator) = &shared.allocator else {
            shared.uncover(page, pages);
            return;
        };
        let mut allocator = lock(allocator);
        shared.uncover(page, pages);
        let generation = allocator.free_area(page);
        shared.set_entry(page, OwnerEntry::free(generation));
    }
}

/// Bytes of an area that its owner lends, from [`PoolMap::borrow_bytes`](super::PoolMap).
pub struct BorrowedBytes {
    shared: Arc<Attachment>,
    /// In the region, and `len` bytes from there on.
    at: usize,
    len: usize,
}

impl fmt::Debug for BorrowedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BorrowedBytes").field("at", &self.at).field("len", &self.len).finish()
    }
}

impl BorrowedBytes {
    pub(super) fn new(shared: &Arc<Attachment>, at: usize, len: usize) -> Self {
        Self { shared: Arc::clone(shared), at, len }
    }
}

impl std::ops::Deref for BorrowedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let Ok(at) = self.shared.region.inside(self.at, self.len) else { return &[] };
        // SAFETY: in range and mapped readable while `self` lives. The lender is trusted to leave
        // the bytes alone until this party has notified it (`PoolMap::borrow_bytes`), and this
        // process writes to no area that it does not own.
        unsafe { std::slice::from_raw_parts(at.as_ptr(), self.len) }
    }
}
