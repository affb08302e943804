//! The owner table in shared memory, and this process's private record of its own areas.

use std::sync::{Arc, PoisonError};

use rustix::io::Errno;

use super::allocator::Allocator;
use super::entry::OwnerEntry;
use super::name::{AreaError, AreaName, Owner, PoolLayout};
use crate::bitmap::masks;
use crate::layout::PAGE;
use crate::region::{OutOfRange, PageAccess, Region};
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, OwnerTable, PrivateWords};

/// The state that all handles of one attachment share.
pub(super) struct Attachment {
    pub(super) region: Arc<Region>,
    pub(super) layout: PoolLayout,
    table: OwnerTable,
    pub(super) me: u8,
    /// One bit for each page that an [`super::Area`] value of this process covers. On the
    /// allocating side only the first page of each area has its bit, because the allocator's
    /// records let no two areas overlap. That bit is changed under the allocator's lock, at the
    /// same cost for any number of pages.
    covered: PrivateWords,
    /// Only with the allocating side.
    pub(super) allocator: Option<Arc<Mutex<Allocator>>>,
}

/// Locks the private records.
pub(super) fn lock(allocator: &Mutex<Allocator>) -> MutexGuard<'_, Allocator> {
    // Every change of the records is made in full before anything in it can panic.
    allocator.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Attachment {
    pub(super) fn new(
        region: &Arc<Region>,
        layout: PoolLayout,
        table: OwnerTable,
        me: Owner,
        allocator: Option<Arc<Mutex<Allocator>>>,
    ) -> Result<Self, OutOfRange> {
        let pages = layout.pages as usize;
        let me = me.number();
        region.inside(layout.pages_at, pages * PAGE)?;
        if !layout.pages_at.is_multiple_of(PAGE) {
            let (offset, len) = (layout.pages_at, pages * PAGE);
            return Err(OutOfRange { offset, len, region: region.len() });
        }
        let covered = PrivateWords::new(pages.div_ceil(64));
        Ok(Self { region: Arc::clone(region), layout, table, me, covered, allocator })
    }

    /// The owner table.
    pub(super) fn table(&self) -> &[AtomicU64] {
        self.table.words()
    }

    pub(super) fn entry(&self, page: u32) -> OwnerEntry {
        let word = self.table().get(page as usize).map_or(0, |word| word.load(Ordering::Acquire));
        OwnerEntry::from_word(word)
    }

    pub(super) fn set_entry(&self, page: u32, entry: OwnerEntry) {
        if let Some(word) = self.table().get(page as usize) {
            word.store(entry.to_word(), Ordering::Release);
        }
    }

    /// Does the name lie in the pool?
    pub(super) fn in_pool(&self, name: AreaName) -> bool {
        let end = u64::from(name.page) + u64::from(name.pages);
        name.pages > 0 && end <= u64::from(self.layout.pages)
    }

    /// The error for bytes that are not in the area, or an area that is not in the pool.
    pub(super) fn out_of_range(&self, name: AreaName, offset: u32, len: u32) -> AreaError {
        AreaError::OutOfRange { name, offset, len, pages: self.layout.pages }
    }

    /// Byte range of pages in the region; the pages must be in the pool.
    pub(super) fn extent(&self, page: u32, pages: u16) -> (usize, usize) {
        (self.layout.pages_at + page as usize * PAGE, usize::from(pages) * PAGE)
    }

    pub(super) fn protect(&self, page: u32, pages: u16, allow: PageAccess) -> Result<(), Errno> {
        let (offset, len) = self.extent(page, pages);
        self.region.protect(offset, len, allow)
    }

    /// Marks pages as covered by an area value of this process. False if some of them are already.
    /// The allocating side holds the allocator's lock, here and in `uncover`.
    pub(super) fn cover(&self, page: u32, pages: u16) -> bool {
        if self.allocator.is_some() {
            let free = !self.is_covered(page);
            self.change_first(page, |word, mask| word | mask);
            return free;
        }
        for (n, (index, mask)) in masks(page, pages.into()).enumerate() {
            let before =
                self.covered.get(index).map_or(u64::MAX, |w| w.fetch_or(mask, Ordering::AcqRel));
            if before & mask == 0 {
                continue;
            }
            if let Some(word) = self.covered.get(index) {
                word.fetch_and(!(mask & !before), Ordering::AcqRel);
            }
            for (index, mask) in masks(page, pages.into()).take(n) {
                self.covered[index].fetch_and(!mask, Ordering::AcqRel);
            }
            return false;
        }
        true
    }

    /// Under the allocator's lock no other thread changes a word, so no exchange is needed.
    fn change_first(&self, page: u32, change: impl Fn(u64, u64) -> u64) {
        if let Some(word) = self.covered.get(page as usize / 64) {
            let now = change(word.load(Ordering::Relaxed), 1 << (page % 64));
            word.store(now, Ordering::Release);
        }
    }

    pub(super) fn uncover(&self, page: u32, pages: u16) {
        if self.allocator.is_some() {
            return self.change_first(page, |word, mask| word & !mask);
        }
        for (index, mask) in masks(page, pages.into()) {
            if let Some(word) = self.covered.get(index) {
                word.fetch_and(!mask, Ordering::AcqRel);
            }
        }
    }

    pub(super) fn is_covered(&self, page: u32) -> bool {
        masks(page, 1).all(|(index, mask)| {
            self.covered.get(index).is_some_and(|word| word.load(Ordering::Acquire) & mask != 0)
        })
    }

    /// Strict mode, at attach: nothing of the pool is accessible, since no area value exists yet.
    pub(super) fn protect_all(&self) -> Result<(), OutOfRange> {
        let (offset, len) = (self.layout.pages_at, self.layout.pages as usize * PAGE);
        let refused = OutOfRange { offset, len, region: self.region.len() };
        self.region.protect(offset, len, PageAccess::Nothing).map_err(|_| refused)
    }

    /// Takes pages away from this process (strict mode).
    pub(super) fn forbid(&self, page: u32, pages: u16) {
        if let Err(errno) = self.protect(page, pages, PageAccess::Nothing) {
            // Strict mode promises that the pages are gone. Going on would silently break the
            // promise.
            panic!("strict mode could not take pages {page}+{pages} away: mprotect: {errno}");
        }
    }
}
