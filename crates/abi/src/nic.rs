//! The frame region of one interface, shared by the inet server and one NIC driver.
//!
//! ```text
//! page 0        bell words: inet's (offset 0), driver's (offset 64)
//! then          rings: fill, rx, tx ([`RING`] slots each)
//! then          owner table, frame pages
//! then          a word and a ring of marks ([`crate::stages`])
//! ```
//!
//! Pages: `fill` and `rx` and `tx` hold at most [`RING`] each, the protocol core at most [`HELD`]
//! (out-of-order segments, undelivered datagrams), and programs that read received bytes in their
//! frames at most [`LENT`] together, so [`FRAMES`], their sum, can never leave the driver without
//! an empty page. That is 44 MiB, of which pages that were never used cost nothing: the lowest free
//! one is taken first, so only a burst of loss or a slow reader touches the upper ones.

use shm::{Owner, PoolPlace};

use crate::stages::TRACE_BYTES;

/// Slots of each ring.
pub const RING: u32 = 1024;
/// Pages that the protocol core may hold: `inet::Config::held_frames`.
pub const HELD: u32 = 4 * RING;
/// Pages that programs may have to read in: a window of 4 MiB in segments of 1,460 bytes, and a
/// third more.
pub const LENT: u32 = 4 * RING;
/// Frame pages.
pub const FRAMES: u32 = 3 * RING + HELD + LENT;
/// The inet server in the owner tables of every region.
pub const INET: Owner = Owner(1);
/// The NIC driver in a frame region's owner table.
pub const NIC: Owner = Owner(2);

/// Offsets in a frame region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NicLayout {
    /// The inet server's bell word for this interface.
    pub inet_bell: usize,
    /// The driver's bell word.
    pub nic_bell: usize,
    /// Ring of empty pages, inet to driver.
    pub fill: usize,
    /// Ring of calls, driver to inet.
    pub rx: usize,
    /// Ring of frames to transmit, inet to driver.
    pub tx: usize,
    /// The frame pool; the inet server allocates.
    pub pool: PoolPlace,
    /// Where the driver makes marks ([`crate::stages::Tracer`]).
    pub trace: usize,
    /// Length of the region, bytes.
    pub len: usize,
}

/// The one layout of frame regions.
pub const LAYOUT: NicLayout = {
    let ring = shm::ring_bytes(RING).next_multiple_of(64);
    let fill = shm::PAGE;
    let rx = fill + ring;
    let tx = rx + ring;
    let table = tx + ring;
    let pages_at = (table + FRAMES as usize * 8).next_multiple_of(shm::PAGE);
    let trace = pages_at + FRAMES as usize * shm::PAGE;
    NicLayout {
        inet_bell: 0,
        nic_bell: 64,
        fill,
        rx,
        tx,
        pool: PoolPlace { table, pages_at, pages: FRAMES },
        trace,
        len: (trace + TRACE_BYTES).next_multiple_of(shm::PAGE),
    }
};
