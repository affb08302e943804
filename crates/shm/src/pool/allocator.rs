//! The allocator's private records. They decide which pages are free, not the shared table.

use super::entry::OwnerEntry;
use super::name::{AreaError, AreaName};
use crate::bitmap::Bitmap;

/// Free and taken pages, and the areas made of them.
#[derive(Debug)]
pub(super) struct Allocator {
    taken: Bitmap,
    /// A private owner table. The holder is the last one that this process knows of, and nothing is
    /// ever "offered". It ends with the highest page that was ever taken; pages behind are free and
    /// of generation 0. The lowest free page is taken first, so a pool of which little is used
    /// needs a short one.
    records: Vec<u64>,
    pages: usize,
}

/// Pages that the records of a pool grow to at first.
const FIRST_RECORDS: usize = 64;

impl Allocator {
    /// All of `pages` pages free and of generation 0.
    pub(super) fn new(pages: u32) -> Self {
        Self { taken: Bitmap::new(pages), records: Vec::new(), pages: pages as usize }
    }

    /// Number of free pages.
    pub(super) fn free(&self) -> u32 {
        self.taken.free()
    }

    fn record(&self, page: u32) -> OwnerEntry {
        OwnerEntry::from_word(self.records.get(page as usize).copied().unwrap_or(0))
    }

    fn set_record(&mut self, page: u32, record: OwnerEntry) {
        match self.records.get_mut(page as usize) {
            Some(word) => *word = record.to_word(),
            None => self.add_record(page as usize, record.to_word()),
        }
    }

    #[cold]
    fn add_record(&mut self, page: usize, word: u64) {
        if page < self.pages && word != 0 {
            let len = (page + 1).next_power_of_two().max(FIRST_RECORDS).min(self.pages);
            self.records.resize(len, 0);
            self.records[page] = word;
        }
    }

    /// The first area of `pages` pages that fits, for `me`.
    #[inline]
    pub(super) fn alloc(&mut self, pages: u16, me: u8) -> Option<AreaName> {
        let page = self.taken.take(pages)?;
        let generation = self.record(page).generation;
        self.set_record(page, OwnerEntry::held(me, pages, generation));
        Some(AreaName { page, pages, generation })
    }

    /// Frees the area that starts at `page`; returns the page's new generation.
    pub(super) fn free_area(&mut self, page: u32) -> u32 {
        let record = self.record(page);
        let generation = record.generation.wrapping_add(1);
        self.set_record(page, OwnerEntry::free(generation));
        self.taken.clear(page, record.pages.into());
        generation
    }

    /// Does this area exist?
    pub(super) fn knows(&self, name: AreaName) -> Result<(), AreaError> {
        let record = self.record(name.page);
        if record.names(name) { Ok(()) } else { Err(record.stale(name)) }
    }

    /// Notes that the area at `page` is now `to`'s.
    pub(super) fn moved(&mut self, page: u32, to: u8) {
        let record = self.record(page);
        self.set_record(page, OwnerEntry { holder: to, ..record });
    }

    /// The first area that starts at `page` or later, and its owner as far as known here.
    pub(super) fn next_area(&self, page: u32) -> Option<(AreaName, u8)> {
        let page = self.taken.next_taken(page)?;
        let OwnerEntry { holder, pages, generation, .. } = self.record(page);
        Some((AreaName { page, pages, generation }, holder))
    }

    /// Recovery: the table has an area at `page`, which lies in the pool. Returns its pages.
    #[cfg(not(loom))]
    pub(super) fn found(&mut self, page: u32, entry: OwnerEntry) -> u32 {
        let holder = if entry.offered == 0 { entry.holder } else { entry.offered };
        self.set_record(page, OwnerEntry::held(holder, entry.pages, entry.generation));
        self.taken.set(page, entry.pages.into());
        entry.pages.into()
    }

    /// Recovery: no area starts at `page`.
    #[cfg(not(loom))]
    pub(super) fn found_free(&mut self, page: u32, generation: u32) {
        self.set_record(page, OwnerEntry::free(generation));
    }
}
