//! Two parties, and what lies where in the region that they share: the taker's bell, a ring in each
//! direction, then table and pages.

use abi::data::{DataDescriptor, DataFlags};
use shm::{AreaName, Owner, PoolLayout};

pub(super) const GIVER: Owner = Owner(1);
pub(super) const TAKER: Owner = Owner(2);
/// Slots of each ring.
pub(super) const SLOTS: u32 = 64;
/// The ring from giver to taker.
pub(super) const THERE: usize = shm::PAGE;
/// The ring from taker to giver.
pub(super) const BACK: usize = 3 * shm::PAGE;
const TABLE: usize = 5 * shm::PAGE;

/// Where so many pages lie.
pub(super) fn pool(pages: u32) -> PoolLayout {
    let pages_at = (TABLE + pages as usize * 8).next_multiple_of(shm::PAGE);
    PoolLayout { table: TABLE, pages_at, pages }
}

/// A slot that hands over an area.
pub(super) fn slot(area: AreaName) -> shm::Slot {
    DataDescriptor { area, offset: 0, len: 0, flags: DataFlags::NONE, peer: None }.encode()
}
