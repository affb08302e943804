//! The frame region of one interface, shared by the inet server and one NIC driver.
//!
//! ```text
//! page 0        bell words: inet server's (offset 0), driver's (offset 64)
//! then          rings: fill, rx, tx ([`RING`] slots each), priority tx ([`PRIORITY_RING`])
//! then          owner tables of both pools, pages of received frames, head pages
//! then          a word and a ring of marks ([`crate::stages`])
//! ```
//!
//! # Two pools
//!
//! There are two pools, so that neither fragments the other.
//!
//! * The first has the **areas** of received frames, one for each frame. An area has five pages, in
//!   which the driver may join segments of a stream. Where the device may hand over super-segments,
//!   an area has 17 pages: a super-segment always lies in one piece. Pages of an area that no frame
//!   reached are never touched and cost nothing.
//! * The second has the **heads** of frames to send: single pages.
//!
//! # AF_XDP
//!
//! Where the device is an AF_XDP socket, the first pool is its memory (UMEM,
//! [`NicLayout::for_umem`]). The kernel puts each frame into a page of its own. So areas are single
//! pages, and joined segments stay where they are. The kernel holds more areas than another driver
//! would, because it drops a frame for which it has no page. All pages of the UMEM are locked.
//! Behind the pool lie [`SEND_CHUNKS`] more pages, from which the driver sends.
//!
//! # Sizes
//!
//! The number of areas ([`NicLayout::areas`]) is the sum of what its holders may hold. So the
//! driver always gets an empty area.
//!
//! * The driver has at most [`NicLayout::stock`] areas: in `fill`, in `rx` or in its hands. The
//!   inet server gives it no more before it has some back.
//! * The protocol core holds at most [`CORE_AREAS`]: out-of-order segments, undelivered datagrams.
//! * Programs that read received bytes in their frames hold at most [`PROGRAM_AREAS`] together.
//!
//! Heads ([`HEADS`]): twice [`PRIORITY_RING`] of them are for frames of `tx_priority`, the others
//! for frames of `tx`: those in the ring, and those that the driver has passed and the inet server
//! has not taken back.
//!
//! # Two rings to send
//!
//! The driver serves `tx_priority` first. The inet server puts frames there whose sender has little
//! under way, and the others into `tx`. So a program that sends a packet now and then does not wait
//! behind programs that send in bulk. After [`PRIORITY_BURST`] frames of `tx_priority` in
//! succession the driver takes one of `tx`, so both go on.
//!
//! A region has 178 MiB, or 557 MiB with super-segments. Unused pages cost nothing. The allocator
//! takes the lowest free area first, so only a burst of loss or a slow reader touches the upper
//! ones. A region with UMEM has 54 MiB, of which 46 MiB are locked.

use shm::{Owner, PAGE, PoolLayout};

use crate::stages::TRACE_BYTES;

/// Slots of each ring.
pub const RING: u32 = 1024;
/// Most areas that the protocol core holds: `inet::Config::held_frames`.
pub const CORE_AREAS: u32 = 4 * RING;
/// Most areas that programs hold to read in: a window of 4 MiB in segments of 1,460 bytes, and a
/// third more.
pub const PROGRAM_AREAS: u32 = 4 * RING;
/// Slots of the ring of frames to send first.
pub const PRIORITY_RING: u32 = 256;
/// Frames of [`NicLayout::tx_priority`] in succession, after which the driver takes one of
/// [`NicLayout::tx`].
pub const PRIORITY_BURST: u32 = 16;
/// Pages for the heads of frames to send.
pub const HEADS: u32 = 2 * RING;
/// The inet server in the owner tables of every region.
pub const INET: Owner = Owner(1);
/// The NIC driver in a frame region's owner table.
pub const NIC: Owner = Owner(2);

/// Pages to send from, behind a pool that is UMEM.
pub const SEND_CHUNKS: u32 = RING / 2;

/// Pages that the kernel has to receive into, where the pool is UMEM. As many frames may arrive
/// before the driver looks.
pub const UMEM_STOCK: u32 = 2 * RING;

/// Pages in which the driver joins segments: room for eleven full Ethernet frames. Each page more
/// would gain less, and use more of the processor's cache.
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
    /// Ring of frames to transmit before those of `tx`, inet to driver.
    pub tx_priority: usize,
    /// The pool of areas for received frames; the inet server allocates.
    pub pool: PoolLayout,
    /// Pages of each area.
    pub area_pages: u16,
    /// Most areas that the driver has.
    pub stock: u32,
    /// Pages that the driver sends from, right behind the pool. If there are any, they and the pool
    /// are the device's UMEM.
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
    /// The layout of a frame region. `super_segments`: the device may hand over super-segments.
    #[must_use]
    pub const fn new(super_segments: bool) -> Self {
        // A super-segment stands for tens of frames, so the driver needs fewer areas. It uses all
        // of them in turn: more than the processor's cache holds would make each of them cold.
        match super_segments {
            true => Self::with(SUPER_PAGES, RING / 16, 0),
            false => Self::with(JOINED_PAGES, RING / 2, 0),
        }
    }

    /// The layout of a frame region whose pool is the UMEM of an AF_XDP socket. Of the driver's
    /// pages the kernel has [`UMEM_STOCK`], and `fill` the others.
    #[must_use]
    pub const fn for_umem() -> Self {
        Self::with(1, UMEM_STOCK + RING, SEND_CHUNKS)
    }

    /// The layout for the two settings that the supervisor sends to both sides.
    #[must_use]
    pub const fn of(super_segments: bool, umem: bool) -> Self {
        if umem { Self::for_umem() } else { Self::new(super_segments) }
    }

    const fn with(area_pages: u16, stock: u32, send_chunks: u32) -> Self {
        let ring = shm::ring_bytes(RING).next_multiple_of(64);
        let fill = PAGE;
        let rx = fill + ring;
        let tx = rx + ring;
        let tx_priority = tx + ring;
        let table = tx_priority + shm::ring_bytes(PRIORITY_RING).next_multiple_of(64);
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
            tx_priority,
            pool: PoolLayout { table, pages_at, pages },
            area_pages,
            stock,
            send_chunks,
            heads: PoolLayout { table: heads_table, pages_at: heads_at, pages: heads },
            trace,
            len: (trace + TRACE_BYTES).next_multiple_of(PAGE),
        }
    }

    /// The layout of a region of that length; `None` if no layout has it.
    #[must_use]
    pub fn of_len(len: u64) -> Option<Self> {
        let layouts = [Self::new(false), Self::new(true), Self::for_umem()];
        layouts.into_iter().find(|layout| u64::try_from(layout.len) == Ok(len))
    }

    /// Offset and length of the region's UMEM; `None` if it has none.
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
