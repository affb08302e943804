//! The frame region of one interface, shared by the inet server and one NIC driver.
//!
//! ```text
//! page 0        bell words: inet's (offset 0), driver's (offset 64)
//! then          rings: fill, rx, tx ([`RING`] slots each)
//! then          owner tables of both pools, pages of received frames, pages of frames' heads
//! then          a word and a ring of marks ([`crate::stages`])
//! ```
//!
//! There are two pools, so that neither fragments the other. A received frame has an **area** of
//! its own: five pages, in which the driver may join segments of a stream, or where the device may
//! hand over super-segments 17, in which one always lies in one piece; pages of an area that no
//! frame reached are never touched and cost nothing. The **heads** of frames to be sent have single
//! pages.
//!
//! Where the device is an AF_XDP socket, the pool is its memory (UMEM, [`NicLayout::for_umem`]):
//! the kernel puts each frame into a page of its own, so areas are single pages, and of segments
//! that are joined each stays where it is. The kernel holds more of them, since it drops what it
//! has no page for. All pages of it are locked; [`SEND_CHUNKS`] more, behind the pool, are the
//! driver's, to send from.
//!
//! Areas: the driver has at most [`NicLayout::stock`], in `fill`, `rx` or its hands, for the inet
//! server gives it no more before it has some back; the protocol core holds at most [`CORE_AREAS`]
//! (out-of-order segments, undelivered datagrams), and programs that read received bytes in their
//! frames at most [`PROGRAM_AREAS`] together. So [`NicLayout::areas`], their sum, can never leave the driver
//! without an empty one. Heads: `tx` holds at most [`RING`], and as many may be that the driver has
//! passed and the inet server has not taken back ([`HEADS`]). That is 178 MiB, or 557 MiB with
//! super-segments, of which what was never used costs nothing: the lowest free area is taken first,
//! so only a burst of loss or a slow reader touches the upper ones. As UMEM it is 54 MiB, of which
//! 46 are locked.

use shm::{Owner, PAGE, PoolLayout};

use crate::stages::TRACE_BYTES;

/// Slots of each ring.
pub const RING: u32 = 1024;
/// Areas that the protocol core may hold: `inet::Config::held_frames`.
pub const CORE_AREAS: u32 = 4 * RING;
/// Areas that programs may have to read in: a window of 4 MiB in segments of 1,460 bytes, and a
/// third more.
pub const PROGRAM_AREAS: u32 = 4 * RING;
/// Pages for the heads of frames to send.
pub const HEADS: u32 = 2 * RING;
/// The inet server in the owner tables of every region.
pub const INET: Owner = Owner(1);
/// The NIC driver in a frame region's owner table.
pub const NIC: Owner = Owner(2);

/// Pages to send from, behind the pool, where that is UMEM.
pub const SEND_CHUNKS: u32 = RING / 2;

/// Pages that the kernel has to receive into, where the pool is UMEM: so many frames may come
/// before the driver looks.
pub const UMEM_STOCK: u32 = 2 * RING;

/// Pages in which segments are joined: eleven of full Ethernet frames. With more of them less would
/// be gained by each, and more of the processor's cache used.
const JOINED_PAGES: u16 = 5;
/// Pages that hold the longest frame.
const SUPER_PAGES: u16 = crate::offload::MAX_SUPER_FRAME.div_ceil(PAGE) as u16;

/// Offsets in a frame region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NicLayout {
    /// The inet server's bell word for this interface.
    pub inet_bell: usize,
    /// The driver's bell word.
    pub nic_bell: usize,
    /// Ring of empty areas, inet to driver.
    pub fill: usize,
    /// Ring of calls, driver to inet.
    pub rx: usize,
    /// Ring of frames to transmit, inet to driver.
    pub tx: usize,
    /// The pool of areas for received frames; the inet server allocates.
    pub pool: PoolLayout,
    /// Pages of each area.
    pub area_pages: u16,
    /// Most areas that the driver has.
    pub stock: u32,
    /// Pages that the driver sends from, right behind the pool: then both are the device's UMEM.
    pub send_chunks: u32,
    /// The pool of heads; the inet server allocates.
    pub heads: PoolLayout,
    /// Where the driver makes marks ([`crate::stages::Tracer`]).
    pub trace: usize,
    /// Length of the region, bytes.
    pub len: usize,
}

/// The layout of a frame region without super-segments.
pub const LAYOUT: NicLayout = NicLayout::new(false);

impl NicLayout {
    /// The layout of a frame region, for a device that may hand over super-segments or not.
    #[must_use]
    pub const fn new(super_segments: bool) -> Self {
        // A super-segment stands for tens of frames, so fewer are needed; and as they are used in
        // turn, more than the processor's cache takes would make each of them cold.
        match super_segments {
            true => Self::with(SUPER_PAGES, RING / 16, 0),
            false => Self::with(JOINED_PAGES, RING / 2, 0),
        }
    }

    /// The layout of a frame region whose pool is the UMEM of an AF_XDP socket: the kernel has
    /// [`UMEM_STOCK`] of the driver's pages, and `fill` the others.
    #[must_use]
    pub const fn for_umem() -> Self {
        Self::with(1, UMEM_STOCK + RING, SEND_CHUNKS)
    }

    /// Either, as the supervisor says it to both sides.
    #[must_use]
    pub const fn of(super_segments: bool, umem: bool) -> Self {
        if umem { Self::for_umem() } else { Self::new(super_segments) }
    }

    const fn with(area_pages: u16, stock: u32, send_chunks: u32) -> Self {
        let ring = shm::ring_bytes(RING).next_multiple_of(64);
        let fill = PAGE;
        let rx = fill + ring;
        let tx = rx + ring;
        let table = tx + ring;
        let pages = (stock + CORE_AREAS + PROGRAM_AREAS) * area_pages as u32;
        let heads = HEADS;
        let heads_table = table + pages as usize * 8;
        let pages_at = (heads_table + heads as usize * 8).next_multiple_of(PAGE);
        let heads_at = pages_at + (pages + send_chunks) as usize * PAGE;
        let trace = heads_at + heads as usize * PAGE;
        Self {
            inet_bell: 0,
            nic_bell: 64,
            fill,
            rx,
            tx,
            pool: PoolLayout { table, pages_at, pages },
            area_pages,
            stock,
            send_chunks,
            heads: PoolLayout { table: heads_table, pages_at: heads_at, pages: heads },
            trace,
            len: (trace + TRACE_BYTES).next_multiple_of(PAGE),
        }
    }

    /// The layout of a region of that length; `None` if none has it.
    #[must_use]
    pub fn of_len(len: u64) -> Option<Self> {
        let layouts = [Self::new(false), Self::new(true), Self::for_umem()];
        layouts.into_iter().find(|layout| u64::try_from(layout.len) == Ok(len))
    }

    /// Where in the region its UMEM lies, and how long it is; `None` if it has none.
    #[must_use]
    pub const fn umem(&self) -> Option<(usize, usize)> {
        let len = (self.pool.pages + self.send_chunks) as usize * PAGE;
        if self.send_chunks > 0 { Some((self.pool.pages_at, len)) } else { None }
    }

    /// Number of areas.
    #[must_use]
    pub const fn areas(&self) -> u32 {
        self.pool.pages / self.area_pages as u32
    }
}
