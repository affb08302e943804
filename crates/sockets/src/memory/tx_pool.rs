//! The sending pool of a client; the program allocates from it.
//!
//! The pool guarantees one area to every socket. A socket gets a second area only while enough
//! pages stay free for the first areas of all other sockets. So a sender that finds the pool empty
//! has an unreleased area itself, and its wait ends when that area is released.

use std::sync::{Arc, Mutex};

use abi::client::{CLIENT, ClientLayout};
use shm::{Area, OutOfRange, Pool, Region};

use crate::lock::lock;

/// The sending pool of a client, and its promise to each socket.
pub(crate) struct TxPool {
    pool: Pool,
    area_pages: u16,
    /// Socket places that hold no area.
    without: Mutex<u32>,
}

impl std::fmt::Debug for TxPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TxPool").field("area_pages", &self.area_pages).finish_non_exhaustive()
    }
}

impl TxPool {
    pub(crate) fn create(region: &Arc<Region>, layout: &ClientLayout) -> Result<Self, OutOfRange> {
        Ok(Self {
            pool: Pool::create(region, layout.tx_pool, CLIENT)?,
            area_pages: layout.params.area_pages,
            without: Mutex::new(layout.params.sockets.into()),
        })
    }

    /// Bytes of an area.
    pub(crate) fn area_len(&self) -> usize {
        usize::from(self.area_pages) * shm::PAGE
    }

    /// Pages that stay free for the first areas of others, when a socket that holds `held` takes
    /// one.
    fn reserve(&self, without: u32, held: u32) -> u32 {
        let others = if held == 0 { without.saturating_sub(1) } else { without };
        others.saturating_mul(self.area_pages.into())
    }

    /// Would a socket that holds `held` areas get one of at least `least` bytes?
    pub(crate) fn has_room(&self, held: u32, least: usize) -> bool {
        self.can_give(*lock(&self.without), held, self.pages_for(least))
    }

    fn can_give(&self, without: u32, held: u32, pages: u16) -> bool {
        let need = self.reserve(without, held).saturating_add(pages.into());
        self.pool.free_pages() >= need
    }

    /// Pages of an area of at least `least` bytes. Every size is a multiple of the usual one, which
    /// avoids fragmentation of the pool. As many as a pool can have if that is too much.
    fn pages_for(&self, least: usize) -> u16 {
        let areas = least.div_ceil(self.area_len()).max(1);
        u16::try_from(areas.saturating_mul(self.area_pages.into())).unwrap_or(u16::MAX)
    }

    /// Can there be an area of `least` bytes when no other socket holds any?
    #[inline]
    pub(crate) fn could_hold(&self, least: usize, sockets: u16) -> bool {
        // A pool has an area of the usual size for each socket.
        least <= self.area_len() || self.could_hold_long(least, sockets)
    }

    fn could_hold_long(&self, least: usize, sockets: u16) -> bool {
        let others = u32::from(sockets).saturating_sub(1).saturating_mul(self.area_pages.into());
        u32::from(self.pages_for(least)).saturating_add(others) <= self.pool.pages()
    }

    /// An area of at least `bytes` bytes for the program itself. The area promised to each socket
    /// must stay free.
    pub(crate) fn alloc(&self, bytes: usize) -> Option<Area> {
        let without = lock(&self.without);
        let pages = self.pages_for(bytes);
        // As for a socket that already has its promised area.
        self.pool.alloc_leaving(pages, self.reserve(*without, 1)).ok()
    }

    /// Is the area one of this pool?
    pub(crate) fn made(&self, area: &Area) -> bool {
        self.pool.made(area)
    }

    pub(crate) fn free_pages(&self) -> u32 {
        self.pool.free_pages()
    }

    /// An area of at least `least` bytes for a socket that holds `held` of them.
    pub(crate) fn take(&self, held: &mut u32, least: usize) -> Option<Area> {
        let mut without = lock(&self.without);
        let pages = self.pages_for(least);
        let promised = *held == 0 && pages == self.area_pages;
        let least = if promised { 0 } else { self.reserve(*without, *held) };
        let area = self.pool.alloc_leaving(pages, least).ok()?;
        if *held == 0 {
            *without = without.saturating_sub(1);
        }
        *held += 1;
        Some(area)
    }

    pub(crate) fn put_back(&self, held: &mut u32, area: Area) {
        let mut without = lock(&self.without);
        drop(area);
        *held = held.saturating_sub(1);
        if *held == 0 {
            *without += 1;
        }
    }
}
