//! The region of one client: its layout, and the writer of each word.
//!
//! ```text
//! head       server's bell word · counters · dirty summary word · dirty bitmap (one bit per
//!            socket)
//! threads    per thread slot: bell word · request ring (program to server) · result ring · news
//!            bitmap (one bit per socket) and its summary
//! sockets    per socket: words ([`SocketWords`]) · tx queue · rx queue
//! tables     owner tables of the two pools
//! tx pool    pages the client allocates and fills, the servers read
//! rx pool    pages the inet server allocates and fills, the client reads
//! trace      a word and a ring of marks ([`crate::stages`])
//! ```
//!
//! # How the program announces data to the server
//!
//! 1. The program publishes descriptors, or advances `rx_consumed`.
//! 2. The program sets the socket's bit in the dirty bitmap ([`ReadinessBitmap`]).
//! 3. The program rings the server's bell (doorbell).
//!
//! The server takes the bits *before* it looks at the sockets.
//!
//! # How the server announces data to the program
//!
//! 1. The server writes the socket's words and adds 1 to `version`.
//! 2. For each thread in `waiters`, the server sets the socket's bit in the thread's news bitmap. A
//!    thread that waits for many sockets takes these bits when it wakes, and need not look at the
//!    other sockets.
//! 3. The server clears the thread's bit in `waiters` and rings the thread's bell.
//!
//! A thread sets its own bit before it looks at the words for the last time and sleeps
//! ([`Waiters`]).
//!
//! # Pool sizes
//!
//! A pool is as large as the sum of its holders. Each socket is sure of one area for sending, and
//! of [`ClientParams::rx_floor_areas`] for receiving. Sockets that want more share the rest.
//!
//! The region has places for all sockets that a client could have. The server gives out the lowest
//! free place, so a program with few sockets touches few pages.

use std::sync::Arc;

use crate::stages::TRACE_BYTES;
use serde::{Deserialize, Serialize};
use shm::{
    OutOfRange, Owner, PoolLayout, PositionWord, ReadinessBitmap, Region, Waiters, Word32, Word64,
    Words64,
};

/// The client in its own region's owner tables ([`crate::nic::INET`] is the other owner there).
pub const CLIENT: Owner = Owner(3);
/// Slots of a thread's request ring.
pub const REQUESTS: u32 = 256;
/// Slots of a thread's result ring: larger, since other servers may post results too (P3).
pub const RESULTS: u32 = 1024;
/// Slots of each of a socket's two queues.
pub const QUEUE: u32 = 64;
/// No bound of [`SocketWords::tx_until`].
pub const NO_BOUND: u64 = u64::MAX;

/// The sizes of a client's region. The supervisor chooses them; program and server know them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientParams {
    /// Thread slots, at most 64.
    pub threads: u16,
    /// Socket places, at least 1.
    pub sockets: u16,
    /// Pages of one data area (P2's transfer unit), 1 to 256.
    pub area_pages: u16,
    /// Pages of the sending pool.
    pub tx_pages: u32,
    /// Pages of the receiving pool.
    pub rx_pages: u32,
}

impl Default for ClientParams {
    /// As many sockets as there are places for, in areas of 16 KiB. So a program meets its own
    /// RLIMIT_NOFILE first. Untouched pages cost nothing.
    fn default() -> Self {
        Self::with_pools(32, u16::MAX, 4)
    }
}

/// Pages of the sending pool that all sockets share: 240 MiB. So hundreds of busy sockets can send
/// as much as SO_SNDBUF allows.
const TX_SHARED: u32 = 61_440;
/// Pages of the receiving pool beyond a window of 64 KiB for each socket, 32 MiB, as long as those
/// windows are not too many.
const RX_SHARED: u32 = 8192;
/// Most pages of the receiving pool beyond one area for each socket: 512 MiB.
const MOST_RX_SHARED: u32 = 131_072;
/// Most pages of a pool: 4 GiB.
pub const MOST_PAGES: u32 = 1 << 20;

/// Sizes that no region can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("client region with {0:?} is not possible: see the ranges in its documentation")]
pub struct BadParams(pub ClientParams);

impl ClientParams {
    /// Measures with the usual pools: each socket is sure of one area to send and one to receive.
    /// All sockets share the rest.
    #[must_use]
    pub fn with_pools(threads: u16, sockets: u16, area_pages: u16) -> Self {
        let mut params = Self { threads, sockets, area_pages, tx_pages: 0, rx_pages: 0 };
        let least = params.least_pages();
        let windows = least.saturating_mul(params.rx_usual_areas()).saturating_add(RX_SHARED);
        params.tx_pages = least.saturating_add(TX_SHARED).min(MOST_PAGES);
        params.rx_pages = windows.min(least.saturating_add(MOST_RX_SHARED)).min(MOST_PAGES);
        params
    }

    /// The fewest pages of a pool: one area for each socket.
    #[must_use]
    pub fn least_pages(&self) -> u32 {
        u32::from(self.sockets) * u32::from(self.area_pages)
    }

    /// Areas for receiving that a socket has at first while the pool has them: a window of 64 KiB,
    /// and the area that the server is filling.
    #[must_use]
    pub fn rx_usual_areas(&self) -> u32 {
        let area = u32::from(self.area_pages) * 4096;
        65_536_u32.div_ceil(area) + 1
    }

    /// Areas for receiving that every socket is sure of: the usual ones in a pool that has them for
    /// all places; in a smaller pool what there is for each, at least one.
    #[must_use]
    pub fn rx_floor_areas(&self) -> u32 {
        let each = self.rx_pages / self.least_pages().max(1);
        each.clamp(1, self.rx_usual_areas())
    }

    /// The layout for these sizes.
    ///
    /// # Errors
    /// [`BadParams`] when a size is out of its range, or a pool cannot give each socket its floor.
    pub fn layout(&self) -> Result<ClientLayout, BadParams> {
        let fits = (1..=64).contains(&self.threads)
            && self.sockets > 0
            && (1..=256).contains(&self.area_pages)
            && (self.least_pages()..=MOST_PAGES).contains(&self.tx_pages)
            && (self.least_pages()..=MOST_PAGES).contains(&self.rx_pages);
        if !fits {
            return Err(BadParams(*self));
        }
        let request_ring = 64;
        let result_ring = request_ring + shm::ring_bytes(REQUESTS).next_multiple_of(64);
        let news = (result_ring + shm::ring_bytes(RESULTS)).next_multiple_of(64);
        let thread_stride = (news + NEWS_BYTES).next_multiple_of(shm::PAGE);
        let tx_queue = SOCKET_WORDS;
        let rx_queue = tx_queue + shm::ring_bytes(QUEUE).next_multiple_of(64);
        let socket_stride = (rx_queue + shm::ring_bytes(QUEUE)).next_multiple_of(shm::PAGE);
        let threads_at = HEAD_BYTES;
        let sockets_at = threads_at + usize::from(self.threads) * thread_stride;
        let tx_table = sockets_at + usize::from(self.sockets) * socket_stride;
        let rx_table = tx_table + self.tx_pages as usize * 8;
        let tx_at = (rx_table + self.rx_pages as usize * 8).next_multiple_of(shm::PAGE);
        let rx_at = tx_at + self.tx_pages as usize * shm::PAGE;
        let trace = rx_at + self.rx_pages as usize * shm::PAGE;
        Ok(ClientLayout {
            params: *self,
            threads_at,
            thread_stride,
            request_ring,
            result_ring,
            news,
            sockets_at,
            socket_stride,
            tx_queue,
            rx_queue,
            tx_pool: PoolLayout { table: tx_table, pages_at: tx_at, pages: self.tx_pages },
            rx_pool: PoolLayout { table: rx_table, pages_at: rx_at, pages: self.rx_pages },
            trace,
            len: (trace + TRACE_BYTES).next_multiple_of(shm::PAGE),
        })
    }
}

const SOCKET_WORDS: usize = 256;
/// On the cache line of the sending queue's own index, which the program writes next
/// ([`shm::ring`]).
const TX_BYTES: usize = SOCKET_WORDS + 8;
/// Bytes of a bit for each place.
const BITMAP_BYTES: usize = 65_536 / 8;
/// Summary word in a cache line of its own, then a bit for each socket.
const NEWS_BYTES: usize = 64 + BITMAP_BYTES;
const COPIED: usize = 64;
const DIRTY_SUMMARY: usize = 128;
/// On the summary's cache line, as long as there are no more than 448 sockets.
const DIRTY_BITS: usize = DIRTY_SUMMARY + 8;
const HEAD_BYTES: usize = (DIRTY_BITS + BITMAP_BYTES).next_multiple_of(shm::PAGE);

/// Offsets in a client's region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientLayout {
    /// The sizes that it was made from.
    pub params: ClientParams,
    threads_at: usize,
    thread_stride: usize,
    request_ring: usize,
    result_ring: usize,
    news: usize,
    sockets_at: usize,
    socket_stride: usize,
    tx_queue: usize,
    rx_queue: usize,
    /// The sending pool; the client allocates.
    pub tx_pool: PoolLayout,
    /// The receiving pool; the inet server allocates.
    pub rx_pool: PoolLayout,
    /// Where the program makes marks ([`crate::stages::Tracer`]).
    pub trace: usize,
    /// Length of the region, bytes.
    pub len: usize,
}

impl ClientLayout {
    /// Offset of a thread slot's request ring ([`REQUESTS`] slots, program to server).
    #[must_use]
    pub fn request_ring(&self, thread: u16) -> usize {
        self.thread(thread) + self.request_ring
    }

    /// Offset of a thread slot's result ring ([`RESULTS`] slots, server to program).
    #[must_use]
    pub fn result_ring(&self, thread: u16) -> usize {
        self.thread(thread) + self.result_ring
    }

    /// Offset of a socket's sending queue ([`QUEUE`] slots, program to server).
    #[must_use]
    pub fn tx_queue(&self, socket: u16) -> usize {
        self.socket(socket) + self.tx_queue
    }

    /// Offset of a socket's receiving queue ([`QUEUE`] slots, server to program).
    #[must_use]
    pub fn rx_queue(&self, socket: u16) -> usize {
        self.socket(socket) + self.rx_queue
    }

    fn thread(&self, thread: u16) -> usize {
        self.threads_at + usize::from(thread) * self.thread_stride
    }

    fn socket(&self, socket: u16) -> usize {
        self.sockets_at + usize::from(socket) * self.socket_stride
    }

    /// The bell word of a thread. The thread writes it; the server rings the thread by it.
    ///
    /// # Errors
    /// [`OutOfRange`] when the region is smaller than the layout.
    pub fn thread_bell(&self, region: &Arc<Region>, thread: u16) -> Result<Word32, OutOfRange> {
        region.word32(self.thread(thread))
    }

    /// The news words of a thread.
    ///
    /// # Errors
    /// [`OutOfRange`] when the region is smaller than the layout.
    pub fn news(&self, region: &Arc<Region>, thread: u16) -> Result<ReadinessBitmap, OutOfRange> {
        let at = self.thread(thread) + self.news;
        self.bitmap(region, at, at + 64)
    }

    /// The words of the region's head.
    ///
    /// # Errors
    /// [`OutOfRange`] when the region is smaller than the layout.
    pub fn head(&self, region: &Arc<Region>) -> Result<HeadWords, OutOfRange> {
        Ok(HeadWords {
            server_bell: region.word32(0)?,
            dirty: self.bitmap(region, DIRTY_SUMMARY, DIRTY_BITS)?,
            copied_tx: region.word64(COPIED)?,
            copied_rx: region.word64(COPIED + 8)?,
            bells: region.word64(COPIED + 16)?,
            sleeps: region.word64(COPIED + 24)?,
        })
    }

    /// A bitmap of all places.
    fn bitmap(
        &self,
        region: &Arc<Region>,
        summary: usize,
        bits: usize,
    ) -> Result<ReadinessBitmap, OutOfRange> {
        let words = usize::from(self.params.sockets).div_ceil(64);
        Ok(ReadinessBitmap {
            summary: region.word64(summary)?,
            words: Words64::in_region(region, bits, words)?,
        })
    }

    /// The words of one socket.
    ///
    /// # Errors
    /// [`OutOfRange`] when the region is smaller than the layout.
    pub fn socket_words(&self, region: &Arc<Region>, s: u16) -> Result<SocketWords, OutOfRange> {
        let at = self.socket(s);
        Ok(SocketWords {
            flags: region.word32(at)?,
            error: region.word32(at + 4)?,
            version: region.word32(at + 8)?,
            accept_ready: region.word32(at + 12)?,
            rx_bytes: PositionWord(region.word64(at + 16)?),
            tx_released: PositionWord(region.word64(at + 24)?),
            tx_limit: region.word64(at + 32)?,
            urgent: region.word64(at + 40)?,
            tx_until: region.word64(at + 48)?,
            moved_received: region.word64(at + 56)?,
            moved_sent: region.word64(at + 72)?,
            tx_lowat: region.word32(at + 80)?,
            waiters: Waiters { bits: region.word64(at + 64)?, position: region.word64(at + 144)? },
            tx_bytes: region.word64(at + TX_BYTES)?,
            rx_consumed: PositionWord(region.word64(at + 136)?),
        })
    }
}

/// The head of a client's region.
#[derive(Debug, Clone)]
pub struct HeadWords {
    /// The server's bell word for this client ([`shm::Sleeper`]).
    pub server_bell: Word32,
    /// The dirty bitmap: sockets with news for the server.
    pub dirty: ReadinessBitmap,
    /// Payload bytes that the program's side copied into its tx pool; for statistics only.
    pub copied_tx: Word64,
    /// Payload bytes that the program's side copied out of its rx pool; for statistics only.
    pub copied_rx: Word64,
    /// System calls by which the program woke the server; for statistics only.
    pub bells: Word64,
    /// Times that a thread of the program slept until the server had news; for statistics only.
    pub sleeps: Word64,
}

/// A socket's state words. The comment of each word names its only writer. Two words have two: the
/// program takes `error` by swapping in 0, and both sides write `waiters`. The server resets all
/// words before the program learns the socket's name.
#[derive(Debug, Clone)]
pub struct SocketWords {
    /// [`crate::SocketFlags`]; server.
    pub flags: Word32,
    /// Pending error number (SO_ERROR), 0 for none; server, taken by the program.
    pub error: Word32,
    /// Counts changes; server. Edge-triggered epoll compares it.
    pub version: Word32,
    /// Connections ready to be accepted; server.
    pub accept_ready: Word32,
    /// Bytes ever published in the receiving queue; server. Datagrams: number of datagrams.
    pub rx_bytes: PositionWord,
    /// Sent bytes that no process needs any more, in queue order; server. Streams: acknowledged by
    /// the peer. Datagrams: handed to the device.
    pub tx_released: PositionWord,
    /// Most bytes the program may have unreleased (SO_SNDBUF); server.
    pub tx_limit: Word64,
    /// TCP_NOTSENT_LOWAT: a send may begin only before this position of `tx_bytes`, which is so
    /// many bytes after the last one that has left; [`NO_BOUND`] without the option; server.
    pub tx_until: Word64,
    /// TCP_NOTSENT_LOWAT in bytes, 0 for none; server. There is room for a waiting sender while
    /// `tx_until` is more than half of it away.
    pub tx_lowat: Word32,
    /// Position after the newest urgent byte of the received stream, counted as in `rx_consumed`;
    /// 0 while there was none; server. It may lie beyond `rx_bytes`. It is up to date when
    /// `rx_bytes` counts the byte itself.
    pub urgent: Word64,
    /// With [`MOVED`](crate::SocketFlags::MOVED): how much of `tx_bytes` the server has taken.
    /// Bytes after that are not sent; server.
    pub moved_sent: Word64,
    /// With [`MOVED`](crate::SocketFlags::MOVED): how much the program had taken from the receiving
    /// queue when the server looked for the last time. What it took after that goes to another
    /// process as well, so it does not count; server. Streams: bytes, as in `rx_consumed`.
    /// Datagrams: the queue's own index of the next slot.
    pub moved_received: Word64,
    /// The thread slots whose bells the server rings at the next change. It rings them also when
    /// `tx_released` reaches the position that they wait for. Otherwise it rings for released bytes
    /// only when there is room worth waking for.
    pub waiters: Waiters,
    /// Bytes ever published in the sending queue; program.
    pub tx_bytes: Word64,
    /// Bytes ever taken from the receiving queue, in queue order; program. Datagrams: number of
    /// datagrams.
    pub rx_consumed: PositionWord,
}
