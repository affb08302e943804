//! Pools of pages, and areas: runs of pages that have exactly one owner at a time.
//!
//! A pool is a number of pages of a region and an **owner table**, one word per page. The word of
//! an area's first page names the holder, the party that the area is offered to, the number of
//! pages, and the generation of the page. The words of the area's other pages stay free. One party,
//! the *allocator* ([`Pool`]), makes areas out of free pages and gets them back. The other parties
//! attach a [`PoolMap`].
//!
//! ```text
//!             alloc               hand_over(to)                   take (by `to`)
//!   free ───────────▶ held by me ───────────────▶ offered by me ────────────────▶ held by `to`
//!    ▲ generation + 1     │ drop by the allocator, reclaim      │ reclaim             │ reclaim
//!    └────────────────────┴─────────────────────────────────────┴─────────────────────┘
//! ```
//!
//! An area that a process holds is a value there ([`Area`]); hand-over consumes it. An offered area
//! counts as the giver's and as the receiver's until it is taken, so the death of either gives it
//! back ([`Pool::reclaim`]). Freeing moves the generation on, and names of an earlier generation
//! are refused.
//!
//! **Trust.** The table lies in shared memory, so it is an allegation. The allocator decides by
//! private records which pages are free, and writes the table for the others and for its successor
//! ([`Pool::recover`]). Every process also keeps privately which pages its own areas cover. It
//! refuses to have an area twice, even if the table allows it. A peer that writes nonsense into the
//! table can lose areas, or get at bytes that it could read anyway. It cannot make two areas of one
//! process overlap, and it cannot move an access out of the pool.
//!
//! **Strict mode.** In a region mapped by [`Region::map_strict`], pages are accessible only while
//! an area value here covers them; a borrow makes them readable. One attachment per pool and
//! mapping.

mod allocator;
mod area;
mod entry;
mod name;
mod table;

use std::fmt;
use std::sync::Arc;

use self::allocator::Allocator;
use self::entry::OwnerEntry;
use self::table::{Attachment, lock};
use crate::layout::PAGE;
use crate::region::{Access, OutOfRange, PageAccess, Region};
use crate::sync::{Mutex, Ordering, OwnerTable};

pub use self::area::{Area, BorrowedBytes};
pub use self::name::{AreaError, AreaName, FREE, Owner, PoolExhausted, PoolLayout};

/// A pool as any party sees it. Clones are handles of the same attachment.
#[derive(Clone)]
pub struct PoolMap(Arc<Attachment>);

/// The allocating side of a pool. Clones are handles of the same pool.
#[derive(Clone)]
pub struct Pool {
    map: PoolMap,
    allocator: Arc<Mutex<Allocator>>,
}

impl fmt::Debug for PoolMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolMap").field("layout", &self.0.layout).field("me", &self.0.me).finish()
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("map", &self.map).field("free", &self.free_pages()).finish()
    }
}

impl PoolMap {
    /// A party's view of a pool, as `me`.
    ///
    /// # Errors
    /// [`OutOfRange`] when table or pages do not lie in the region or are not aligned.
    ///
    /// # Panics
    /// When `me` is not within `1..=Owner::MAX`.
    #[cfg(not(loom))]
    pub fn attach(region: &Arc<Region>, layout: PoolLayout, me: Owner) -> Result<Self, OutOfRange> {
        let table = OwnerTable::in_region(region, layout.table, layout.pages)?;
        Self::over(region, layout, table, me)
    }

    pub(crate) fn over(
        region: &Arc<Region>,
        layout: PoolLayout,
        table: OwnerTable,
        me: Owner,
    ) -> Result<Self, OutOfRange> {
        let shared = Attachment::new(region, layout, table, me, None)?;
        shared.protect_all()?;
        Ok(Self(Arc::new(shared)))
    }

    /// Accepts an area that was handed over to this party. On the allocating side it also accepts
    /// one that this party held in a previous life ([`Pool::recover`]).
    ///
    /// # Errors
    /// [`AreaError`]; the area stays what it was.
    pub fn take(&self, name: AreaName) -> Result<Area, AreaError> {
        let shared = &self.0;
        if shared.region.access() == Access::ReadOnly {
            return Err(AreaError::ReadOnly { name });
        }
        if !shared.in_pool(name) {
            return Err(shared.out_of_range(name, 0, 0));
        }
        // The lock is kept, so that no other thread reclaims meanwhile.
        let mut allocator = shared.allocator.as_deref().map(lock);
        if let Some(allocator) = &allocator {
            allocator.knows(name)?;
        }
        if !shared.cover(name.page, name.pages) {
            return Err(AreaError::AlreadyHeld { name });
        }
        let accessible = || shared.protect(name.page, name.pages, PageAccess::All);
        let taken = accept(shared, name, allocator.is_some())
            .and_then(|()| accessible().map_err(|errno| AreaError::System { name, errno }));
        if let Err(error) = taken {
            shared.uncover(name.page, name.pages);
            return Err(error);
        }
        if let Some(allocator) = &mut allocator {
            allocator.moved(name.page, shared.me);
        }
        Ok(Area::new(shared, name))
    }

    /// The region offset of bytes in an area that its owner lends ([`Area::lend`]). The owner may
    /// drop the area at any time, if the protocol between the two does not forbid it.
    ///
    /// # Errors
    /// [`AreaError`].
    pub fn borrow(&self, name: AreaName, offset: u32, len: u32) -> Result<usize, AreaError> {
        let shared = &self.0;
        let (start, area_len) = shared.extent(name.page, name.pages);
        let inside = (offset as usize).checked_add(len as usize).is_some_and(|end| end <= area_len);
        if !inside || !shared.in_pool(name) {
            return Err(shared.out_of_range(name, offset, len));
        }
        let entry = shared.entry(name.page);
        if !entry.names(name) {
            return Err(entry.stale(name));
        }
        if shared.region.is_strict() && !shared.is_covered(name.page) {
            shared
                .protect(name.page, name.pages, PageAccess::Reading)
                .map_err(|errno| AreaError::System { name, errno })?;
        }
        Ok(start + offset as usize)
    }

    /// As [`PoolMap::borrow`], the bytes themselves. Only for areas that a trusted server lends. No
    /// party may write to them until this party has notified the lender that it needs them no more.
    ///
    /// # Errors
    /// [`AreaError`].
    pub fn borrow_bytes(
        &self,
        name: AreaName,
        offset: u32,
        len: u32,
    ) -> Result<BorrowedBytes, AreaError> {
        let at = self.borrow(name, offset, len)?;
        Ok(BorrowedBytes::new(&self.0, at, len as usize))
    }

    /// Number of pages of the pool.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.0.layout.pages
    }

    /// Byte offset of the first page in the region.
    #[must_use]
    pub fn first_page(&self) -> usize {
        self.0.layout.pages_at
    }

    /// The region that the pool lies in.
    #[must_use]
    pub fn region(&self) -> &Arc<Region> {
        &self.0.region
    }
}

/// Moves the table's entry from "offered to me" to "held by me". `adopt`: this is the allocating
/// side, which has locked the allocator.
fn accept(shared: &Attachment, name: AreaName, adopt: bool) -> Result<(), AreaError> {
    let entry = shared.entry(name.page);
    if !entry.names(name) {
        return Err(entry.stale(name));
    }
    let orphan = adopt && entry.holder == shared.me && entry.offered == 0;
    let refused = AreaError::NotOffered { name, holder: Owner(entry.holder.into()) };
    let Some(word) = shared.table().get(name.page as usize) else { return Err(refused) };
    if entry.offered != shared.me && !orphan {
        return Err(refused);
    }
    let mine = OwnerEntry::held(shared.me, name.pages, name.generation);
    if adopt {
        // Under the allocator's lock: only this party may change an entry that is offered to it.
        shared.set_entry(name.page, mine);
        return Ok(());
    }
    // Fails if the entry changed since: someone else took it, or it was reclaimed.
    let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
    word.compare_exchange(entry.to_word(), mine.to_word(), success, failure)
        .map_or(Err(refused), |_| Ok(()))
}

impl Pool {
    /// The allocating side of a new pool. Its memory is zero: all pages are free and of generation
    /// 0. The table is not touched.
    ///
    /// # Errors
    /// [`OutOfRange`] when table or pages do not lie in the region or are not aligned, or the
    /// region is mapped read-only.
    ///
    /// # Panics
    /// When `me` is not within `1..=Owner::MAX`.
    #[cfg(not(loom))]
    pub fn create(region: &Arc<Region>, layout: PoolLayout, me: Owner) -> Result<Self, OutOfRange> {
        // Refuses a read-only mapping.
        region.aligned(layout.table, layout.pages as usize * 8, 8)?;
        let table = OwnerTable::in_region(region, layout.table, layout.pages)?;
        Self::over(region, layout, table, me)
    }

    pub(crate) fn over(
        region: &Arc<Region>,
        layout: PoolLayout,
        table: OwnerTable,
        me: Owner,
    ) -> Result<Self, OutOfRange> {
        // Refuses a layout that no private memory should be spent on.
        region.inside(layout.pages_at, layout.pages as usize * PAGE)?;
        let allocator = Arc::new(Mutex::new(Allocator::new(layout.pages)));
        let shared = Attachment::new(region, layout, table, me, Some(Arc::clone(&allocator)))?;
        shared.protect_all()?;
        Ok(Self { map: PoolMap(Arc::new(shared)), allocator })
    }

    /// The allocating side of a pool whose allocator died. Areas that are owned in the table stay
    /// owned, also those of `me`. Take the areas that are still wanted by name ([`Pool::take`]),
    /// then [`Pool::reclaim`] `me` to free the others. An invalid entry counts as free.
    ///
    /// # Errors
    /// As [`Pool::create`].
    ///
    /// # Panics
    /// When `me` is not within `1..=Owner::MAX`.
    #[cfg(not(loom))]
    pub fn recover(
        region: &Arc<Region>,
        layout: PoolLayout,
        me: Owner,
    ) -> Result<Self, OutOfRange> {
        let pool = Self::create(region, layout, me)?;
        let shared = &pool.map.0;
        let mut allocator = lock(&pool.allocator);
        let mut area_end = 0;
        for page in 0..layout.pages {
            let entry = shared.entry(page);
            let name = AreaName { page, pages: entry.pages, generation: entry.generation };
            if page < area_end {
                allocator.found_free(page, entry.generation);
            } else if entry.holder != 0 && shared.in_pool(name) {
                area_end = page + allocator.found(page, entry);
            } else if entry == OwnerEntry::free(entry.generation) {
                allocator.found_free(page, entry.generation);
            } else {
                let generation = entry.generation.wrapping_add(1);
                shared.set_entry(page, OwnerEntry::free(generation));
                allocator.found_free(page, generation);
            }
        }
        drop(allocator);
        Ok(pool)
    }

    /// An area of `pages` pages (at least 1), the first that fits. Its bytes are those that the
    /// last owner left.
    ///
    /// # Errors
    /// [`PoolExhausted`].
    pub fn alloc(&self, pages: u16) -> Result<Area, PoolExhausted> {
        self.alloc_leaving(pages, 0)
    }

    /// As [`Pool::alloc`], if at least `least` pages stay free.
    ///
    /// # Errors
    /// [`PoolExhausted`].
    pub fn alloc_leaving(&self, pages: u16, least: u32) -> Result<Area, PoolExhausted> {
        let shared = &self.map.0;
        let mut allocator = lock(&self.allocator);
        let exhausted = PoolExhausted { wanted: pages, free: allocator.free() };
        if exhausted.free < least.saturating_add(pages.into()) {
            return Err(exhausted);
        }
        let name = allocator.alloc(pages, shared.me).ok_or(exhausted)?;
        if shared.protect(name.page, pages, PageAccess::All).is_err() {
            allocator.free_area(name.page);
            return Err(exhausted);
        }
        let covered = shared.cover(name.page, pages);
        debug_assert!(covered, "{name} was free, so no area can cover it");
        shared.set_entry(name.page, OwnerEntry::held(shared.me, pages, name.generation));
        Ok(Area::new(shared, name))
    }

    /// An area of `pages` pages that is offered to `to`. As [`Pool::alloc`] and [`Area::hand_over`]
    /// in one, for a party that has nothing to write into it.
    ///
    /// # Errors
    /// [`PoolExhausted`].
    ///
    /// # Panics
    /// When `to` is not within `1..=Owner::MAX`.
    pub fn offer(&self, pages: u16, to: Owner) -> Result<AreaName, PoolExhausted> {
        let (shared, offered) = (&self.map.0, to.number());
        let mut allocator = lock(&self.allocator);
        let exhausted = PoolExhausted { wanted: pages, free: allocator.free() };
        let name = allocator.alloc(pages, offered).ok_or(exhausted)?;
        let AreaName { page, generation, .. } = name;
        shared.set_entry(page, OwnerEntry { holder: shared.me, offered, pages, generation });
        Ok(name)
    }

    /// Frees an area that was handed over to this party. As [`Pool::take`] and a drop in one, for
    /// an area whose bytes are not wanted.
    ///
    /// # Errors
    /// [`AreaError`]; the area stays what it was.
    pub fn take_back(&self, name: AreaName) -> Result<(), AreaError> {
        let shared = &self.map.0;
        if !shared.in_pool(name) {
            return Err(shared.out_of_range(name, 0, 0));
        }
        let mut allocator = lock(&self.allocator);
        allocator.knows(name)?;
        if shared.is_covered(name.page) {
            return Err(AreaError::AlreadyHeld { name });
        }
        accept(shared, name, true)?;
        let generation = allocator.free_area(name.page);
        shared.set_entry(name.page, OwnerEntry::free(generation));
        Ok(())
    }

    /// Free pages; not all of them need to be in one run.
    #[must_use]
    pub fn free_pages(&self) -> u32 {
        lock(&self.allocator).free()
    }

    /// Is the area one of this pool, had through this attachment?
    #[must_use]
    pub fn made(&self, area: &Area) -> bool {
        area.is_of(&self.map.0)
    }

    /// Number of pages of the pool.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.map.pages()
    }

    /// Frees the areas of a dead party and returns how many pages they had. Those are the areas
    /// that it held, was offered, or had offered to a party that did not take them yet. So first
    /// take the areas that it had handed over to this party. Areas that are values in this process
    /// stay.
    ///
    /// # Panics
    /// When `owner` is not within `1..=Owner::MAX`.
    #[expect(clippy::must_use_candidate, reason = "the count is for reports only")]
    pub fn reclaim(&self, owner: Owner) -> u32 {
        let dead = owner.number();
        let shared = &self.map.0;
        let mut allocator = lock(&self.allocator);
        let mut freed = 0;
        let mut next = allocator.next_area(0);
        while let Some((name, to)) = next {
            let entry = shared.entry(name.page);
            // If the table's entry is invalid, the party counts to which we gave the area.
            let theirs = if entry.names(name) {
                entry.holder == dead || entry.offered == dead
            } else {
                to == dead
            };
            if theirs && !shared.is_covered(name.page) {
                shared.forbid(name.page, name.pages);
                let generation = allocator.free_area(name.page);
                shared.set_entry(name.page, OwnerEntry::free(generation));
                freed += u32::from(name.pages);
            }
            next = allocator.next_area(name.page + u32::from(name.pages));
        }
        freed
    }

    /// As [`PoolMap::take`].
    ///
    /// # Errors
    /// [`AreaError`].
    pub fn take(&self, name: AreaName) -> Result<Area, AreaError> {
        self.map.take(name)
    }

    /// As [`PoolMap::borrow`].
    ///
    /// # Errors
    /// [`AreaError`].
    pub fn borrow(&self, name: AreaName, offset: u32, len: u32) -> Result<usize, AreaError> {
        self.map.borrow(name, offset, len)
    }

    /// The pool as any party sees it.
    #[must_use]
    pub fn map(&self) -> &PoolMap {
        &self.map
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
