//! The region of one client: what lies where, and who writes it.
//!
//! ```text
//! page 0     server bell word · dirty summary word · dirty bitmap (one bit per socket) · counters
//! threads    per thread slot: bell word · request ring (program to server) · result ring · news
//!            bitmap (one bit per socket) and its summary
//! sockets    per socket: words ([`SocketWords`]) · tx queue · rx queue
//! tables     owner tables of the two pools
//! tx pool    pages the client allocates and fills, the servers read
//! rx pool    pages the inet server allocates and fills, the client reads
//! trace      a word and a ring of marks ([`crate::stages`])
//! ```
//!
//! **How data is announced.** Program to server: publish descriptors (or advance `rx_consumed`),
//! set the socket's bit in the dirty bitmap ([`ReadinessBitmap`]), ring the server's bell. The
//! server takes the bits *before* it looks at the sockets.
//!
//! Server to program: write the words, add 1 to `version`, then ring the bell of every thread in
//! `waiters`. A thread sets its own bit there before it looks at the words for the last time and
//! sleeps ([`Waiters`]). The server clears a bit when it rings. Before it rings, the server sets
//! the socket's bit in the thread's news bitmap. A thread that waits for many sockets takes these
//! bits when it wakes, and need not look at the other sockets.
//!
//! **Pool sizes** are the sum of who can hold what: each socket is sure of one area for sending and
//! of [`ClientParams::rx_floor_areas`] for receiving; what is left is shared by those who want
//! more.

use std::sync::Arc;

use crate::stages::TRACE_BYTES;
use serde::{Deserialize, Serialize};
use shm::{
    OutOfRange, Owner, PoolLayout, PositionWord, ReadinessBitmap, Region, Waiters, Word32, Word64,
};

/// The client in its own region's owner tables ([`crate::nic::INET`] is the other owner there).
pub const CLIENT: Owner = Owner(3);
/// Slots of a thread's request ring.
pub const REQUESTS: u32 = 256;
/// Slots of a thread's result ring: larger, since others may post results too (P3).
pub const RESULTS: u32 = 1024;
/// Slots of each of a socket's two queues.
pub const QUEUE: u32 = 64;

/// The measures of a client's region; chosen by the supervisor, known to both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientParams {
    /// Thread slots, at most 64.
    pub threads: u16,
    /// Socket places, at most 4,096.
    pub sockets: u16,
    /// Pages of one data area (P2's transfer unit), 1 to 256.
    pub area_pages: u16,
    /// Pages of the sending pool.
    pub tx_pages: u32,
    /// Pages of the receiving pool.
    pub rx_pages: u32,
}

impl Default for ClientParams {
    /// 16 KiB areas; each of 1,024 sockets is sure of 16 KiB to send and 80 KiB to receive. What is
    /// over that is shared: 240 MiB to send, so that hundreds of busy sockets find room for what
    /// SO_SNDBUF allows them, and 32 MiB to receive. Untouched pages cost nothing.
    fn default() -> Self {
        Self {
            threads: 32,
            sockets: 1024,
            area_pages: 4,
            tx_pages: 65_536,
            rx_pages: 1024 * 20 + 8192,
        }
    }
}

/// Measures that no region can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("client region with {0:?} is not possible: see the ranges in its documentation")]
pub struct BadParams(pub ClientParams);

impl ClientParams {
    /// Areas for receiving that every socket is sure of: a 64 KiB window and one being filled.
    #[must_use]
    pub fn rx_floor_areas(&self) -> u32 {
        let area = u32::from(self.area_pages) * 4096;
        65_536_u32.div_ceil(area) + 1
    }

    /// The layout for these measures.
    ///
    /// # Errors
    /// [`BadParams`] when a measure is out of its range, or a pool cannot give each socket its
    /// floor.
    pub fn layout(&self) -> Result<ClientLayout, BadParams> {
        let sockets = u32::from(self.sockets);
        let area = u32::from(self.area_pages);
        let fits = (1..=64).contains(&self.threads)
            && (1..=4096).contains(&self.sockets)
            && (1..=256).contains(&self.area_pages)
            && (sockets * area..=1 << 18).contains(&self.tx_pages)
            && (sockets * area * self.rx_floor_areas()..=1 << 18).contains(&self.rx_pages);
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
        let threads_at = shm::PAGE;
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
/// Beside the sending queue's own index, which the program writes next ([`shm::ring`]).
const TX_BYTES: usize = SOCKET_WORDS + 8;
/// Summary word in a line of its own, then a bit for each of 4,096 sockets.
const NEWS_BYTES: usize = 64 + 4096 / 8;
const DIRTY_SUMMARY: usize = 64;
/// On the summary's cache line, as long as there are no more than 448 sockets.
const DIRTY_BITS: usize = DIRTY_SUMMARY + 8;
const COPIED: usize = 1024;

/// Offsets in a client's region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientLayout {
    /// What it was made from.
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

    /// The bell word of a thread; the thread writes it, the server wakes by it.
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
        let words = usize::from(self.params.sockets).div_ceil(64);
        let sockets = (0..words).map(|i| region.word64(at + 64 + 8 * i));
        Ok(ReadinessBitmap {
            summary: region.word64(at)?,
            words: sockets.collect::<Result<_, _>>()?,
        })
    }

    /// The words of the region's head.
    ///
    /// # Errors
    /// [`OutOfRange`] when the region is smaller than the layout.
    pub fn head(&self, region: &Arc<Region>) -> Result<HeadWords, OutOfRange> {
        let words = usize::from(self.params.sockets).div_ceil(64);
        let dirty = (0..words).map(|i| region.word64(DIRTY_BITS + 8 * i));
        Ok(HeadWords {
            server_bell: region.word32(0)?,
            dirty: ReadinessBitmap {
                summary: region.word64(DIRTY_SUMMARY)?,
                words: dirty.collect::<Result<_, _>>()?,
            },
            copied_tx: region.word64(COPIED)?,
            copied_rx: region.word64(COPIED + 8)?,
            bells: region.word64(COPIED + 16)?,
            sleeps: region.word64(COPIED + 24)?,
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
    /// Sockets that have news for the server.
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

/// A socket's state words. Each has one writer, but for `error` (the program takes it by swapping
/// in 0) and `waiters`. All are reset by the server before the socket's name reaches the program.
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
    /// Sent bytes no longer needed by anyone, in queue order; server. Streams: acknowledged by the
    /// peer. Datagrams: handed to the device.
    pub tx_released: PositionWord,
    /// Most bytes the program may have unreleased (SO_SNDBUF); server.
    pub tx_limit: Word64,
    /// One more than the place of the newest urgent byte in the stream received, counted as in
    /// `rx_consumed`; 0 while there was none; server. It may lie beyond `rx_bytes`, and is up to
    /// date when the byte itself is counted there.
    pub urgent: Word64,
    /// The thread slots whose bells are to be rung at the next change. The place they wait for is
    /// one of `tx_released`: otherwise they hear of it only when there is room worth waking for.
    pub waiters: Waiters,
    /// Bytes ever published in the sending queue; program.
    pub tx_bytes: Word64,
    /// Bytes ever taken from the receiving queue, in queue order; program. Datagrams: number of
    /// datagrams.
    pub rx_consumed: PositionWord,
}
