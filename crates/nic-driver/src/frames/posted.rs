//! Pages that a device receives into where it chooses the place, and frames joined in them.

use shm::{Area, PAGE};

use crate::gro::GroFrame;

/// Pages that the kernel may write to.
#[derive(Default)]
pub(super) struct PostedPages {
    /// By page of the pool; empty where the device does not receive in place.
    pub(super) areas: Box<[Option<Area>]>,
    pub(super) count: u32,
    /// Pages that came back without a frame.
    pub(super) again: Vec<Area>,
}

impl PostedPages {
    /// For a pool of so many pages.
    pub(super) fn new(pages: u32) -> Self {
        let areas = (0..pages).map(|_| None).collect();
        Self { areas, ..Self::default() }
    }

    /// The page in which there is a frame at this offset of the pool, and where in the page.
    pub(super) fn take(&mut self, at: usize) -> Option<(Area, usize)> {
        let area = self.areas.get_mut(at / PAGE)?.take()?;
        self.count -= 1;
        Some((area, at % PAGE))
    }
}

/// Bytes of a page that is ours.
pub(super) struct PageBytes {
    pub(super) area: Area,
    pub(super) offset: usize,
    pub(super) len: usize,
}

impl PageBytes {
    pub(super) fn bytes(&self) -> &[u8] {
        self.area.bytes().get(self.offset..self.offset + self.len).unwrap_or_default()
    }
}

/// A frame that more segments may be joined to.
pub(super) struct OpenChain {
    pub(super) first: PageBytes,
    pub(super) more: Vec<PageBytes>,
    pub(super) joined: GroFrame,
}
