//! Ownership in a pool: owners, the names of areas, and the reasons to refuse a name.

use std::fmt;

use rustix::io::Errno;

/// A party to a pool: a number from 1 to [`Owner::MAX`] that the layout gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(pub u16);

/// No owner: the table's value for free pages.
pub const FREE: Owner = Owner(0);

impl Owner {
    /// The largest number. The table has 8 bits for the holder and 8 for the party to which an area
    /// is offered.
    pub const MAX: u16 = 255;

    pub(super) fn number(self) -> u8 {
        match u8::try_from(self.0) {
            Ok(number) if number > 0 => number,
            _ => panic!("owner {} is not within 1..={}", self.0, Self::MAX),
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "owner {}", self.0)
    }
}

/// The name by which an area travels. It is an allegation until
/// [`PoolMap::take`](super::PoolMap::take) or [`PoolMap::borrow`](super::PoolMap::borrow) has
/// accepted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AreaName {
    /// First page, from the pool's first.
    pub page: u32,
    /// Number of pages.
    pub pages: u16,
    /// Generation of the first page.
    pub generation: u32,
}

impl fmt::Display for AreaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "area {}+{} generation {}", self.page, self.pages, self.generation)
    }
}

/// Where in a region a pool lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolLayout {
    /// Byte offset of the owner table, 8 bytes per page; a multiple of 8.
    pub table: usize,
    /// Byte offset of the first page; a multiple of [`PAGE`](crate::PAGE).
    pub pages_at: usize,
    /// Number of pages.
    pub pages: u32,
}

/// Why a name was not accepted. But for [`AreaError::System`] and [`AreaError::ReadOnly`] the fault
/// is the peer's that sent the name, unless an area was just reclaimed from a dead process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AreaError {
    /// Pages that do not exist, or bytes past the area's end.
    #[error(
        "{name}: bytes {offset}+{len} are not in it, or it is not in the pool of {pages} pages"
    )]
    OutOfRange {
        /// The name.
        name: AreaName,
        /// First requested byte.
        offset: u32,
        /// Requested number of bytes.
        len: u32,
        /// Pages in the pool.
        pages: u32,
    },
    /// The area does not exist any more, or never did.
    #[error("{name} is stale: the page is at generation {generation} with {pages} pages")]
    Stale {
        /// The name.
        name: AreaName,
        /// The first page's generation now.
        generation: u32,
        /// Pages of the area that starts there now, 0 for none.
        pages: u16,
    },
    /// The area exists and was not offered to this party.
    #[error("{name} is held by {holder} and was not offered to us")]
    NotOffered {
        /// The name.
        name: AreaName,
        /// The party that holds it.
        holder: Owner,
    },
    /// This process has some of its pages already.
    #[error("{name} was offered, but this process holds pages of it already")]
    AlreadyHeld {
        /// The name.
        name: AreaName,
    },
    /// Areas cannot be had through a read-only mapping.
    #[error("{name} cannot be taken through a read-only mapping")]
    ReadOnly {
        /// The name.
        name: AreaName,
    },
    /// Strict mode: the system did not give access to the pages (too many mappings).
    #[error("{name}: mprotect: {errno}")]
    System {
        /// The name.
        name: AreaName,
        /// The system's error.
        errno: Errno,
    },
}

/// There is no run of that many free pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no run of {wanted} free pages; {free} pages are free")]
pub struct PoolExhausted {
    /// Requested pages.
    pub wanted: u16,
    /// Pages free in all.
    pub free: u32,
}
