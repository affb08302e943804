//! The memory that the parties share: a bell for each, a ring between neighbours in each direction,
//! a ring for direct answers, and the areas.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use shm::{Access, Backing, Owner, PAGE, PoolLayout, Region, Ringer};

/// Slots of a ring: all calls with their data.
pub(super) const SLOTS: u32 = 64;
/// Pages of a ring.
const RING_PAGES: usize = 2;
/// Bytes between two bells: each has a line of the cache.
const BELL: usize = 64;
/// Pages of the areas.
pub(super) const CONTROL_PAGES: u16 = 1;
pub(super) const DATA_PAGES: u16 = 16;

/// How calls travel.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallWay {
    pub(super) relays: u32,
    /// The last party answers the caller itself.
    pub(super) direct: bool,
    /// An area of data travels with each call.
    pub(super) data: bool,
}

/// See the module.
pub(super) struct RelayWorld {
    pub(super) way: CallWay,
    pub(super) pool: PoolLayout,
    fd: OwnedFd,
    len: usize,
    over: AtomicBool,
}

impl RelayWorld {
    /// For so many calls at once.
    pub(super) fn new(way: CallWay, outstanding: u32) -> Result<Self> {
        let parties = way.relays as usize + 2;
        let table = PAGE + ring_count(parties) * RING_PAGES * PAGE;
        let pages = outstanding * u32::from(CONTROL_PAGES + DATA_PAGES);
        let pages_at = (table + pages as usize * 8).next_multiple_of(PAGE);
        let len = pages_at + pages as usize * PAGE;
        let (_, fd) = Region::create("bench", len, Backing::Small)?;
        let pool = PoolLayout { table, pages_at, pages };
        Ok(Self { way, pool, fd, len, over: AtomicBool::new(false) })
    }

    /// Caller, relays, and the party that answers.
    pub(super) fn parties(&self) -> usize {
        self.way.relays as usize + 2
    }

    /// A mapping of a party's own.
    pub(super) fn map(&self) -> Result<Arc<Region>> {
        Ok(Region::map(self.fd.as_fd(), self.len, Access::ReadWrite)?)
    }

    /// Where the bell of a party is.
    pub(super) fn bell(party: usize) -> usize {
        party * BELL
    }

    /// The side of a bell that wakes.
    pub(super) fn ringer(region: &Arc<Region>, party: usize) -> Result<Ringer> {
        Ok(Ringer::new(region.word32(Self::bell(party))?, shm::eventfd()?))
    }

    /// The ring from a party to the next one.
    pub(super) fn forward(from: usize) -> usize {
        ring(from)
    }

    /// The ring from a party to the one before.
    pub(super) fn backward(&self, from: usize) -> usize {
        ring(self.parties() + from)
    }

    /// The ring from the last party to the caller.
    pub(super) fn answers(&self) -> usize {
        ring(2 * self.parties())
    }

    /// Nobody needs to go on.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

/// Both directions, and the answers.
fn ring_count(parties: usize) -> usize {
    2 * parties + 1
}

fn ring(number: usize) -> usize {
    PAGE + number * RING_PAGES * PAGE
}

/// A party as an owner of areas.
pub(super) fn owner(party: usize) -> Owner {
    Owner(party as u16 + 1)
}
