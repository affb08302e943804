//! How two parties map the region whose areas they hand over.

use std::os::fd::AsFd as _;
use std::sync::Arc;

use anyhow::Result;
use shm::{Access, Backing, Region};

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mapping {
    /// Both can always access all pages, as client regions have it.
    Shared,
    /// A page is accessible to its owner alone, as `[memory] strict` has it.
    Strict,
    /// As shared, on pages of 2 MiB, so that an area is contiguous in physical memory.
    Huge,
}

impl Mapping {
    /// A region of so many bytes, as the giver and as the taker have it. `None`: not enough huge
    /// pages are free.
    pub(super) fn regions(self, len: usize) -> Result<Option<[Arc<Region>; 2]>> {
        let backing = if self == Self::Huge { Backing::Huge } else { Backing::Small };
        let (made, fd) = Region::create("bench", len, backing)?;
        if made.backing() != backing {
            return Ok(None);
        }
        let fd = fd.as_fd();
        Ok(Some(match self {
            Self::Strict => [Region::map_strict(fd, len)?, Region::map_strict(fd, len)?],
            Self::Shared | Self::Huge => [made, Region::map(fd, len, Access::ReadWrite)?],
        }))
    }
}
