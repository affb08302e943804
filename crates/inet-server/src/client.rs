//! One client: its region, the rings of its threads, and the places of its sockets.
//!
//! The server empties a place's queues and resets its words before the socket's name reaches the
//! program. Both sides attach to the queues at the indices found there.
//!
//! All of the receiving pool is promised to sockets. Every place is sure of its floor. The first
//! sockets that want more share the rest; each gets at most an eighth of what is left. A stream
//! starts with a window of 64 KiB while more than a quarter of that rest is left. Otherwise it
//! starts with its floor.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use abi::call::{PackagedResult, ReturnPath};
use abi::client::{ClientLayout, ClientParams, HeadWords, QUEUE, REQUESTS, RESULTS};
use abi::control::{PartyStatus, RingStatus};
use abi::nic::INET;
use abi::stages::{TraceReader, TraceStage};
use abi::{Family, SocketId, SocketKind};
use inet::{Handle, OwnerId};
use shm::{
    Consumer, OutOfRange, Pool, PoolMap, Producer, Region, RingFault, Ringer, Sleep, Sleeper,
};

use crate::engine::{Engine, SocketOwner};
use crate::fault::ClientFault;
use crate::observe::counters::Counters;
use crate::rx::sharing::FrameQuota;
use crate::rx::{self, Rx};
use crate::socket::table::SocketTable;
use crate::socket::{Socket, SocketParts};
use crate::tx::Tx;
use crate::tx::chunk::ClientMemory;

mod dirty;
mod long_values;
mod threads;

use self::dirty::DirtySet;
use self::long_values::LongValues;
use self::threads::{ClientThread, PostedOutcome, mark_news};

/// Most results that wait for room in a thread's result ring. A client with more is at fault.
const MAX_BACKLOG: usize = 4 * RESULTS as usize;
/// Most waiting calls of a client.
pub(crate) const MAX_WAITING: usize = 1024;
/// Receive buffer of a datagram socket without SO_RCVBUF: Linux's default, bytes.
const DEFAULT_DATAGRAM_BUFFER: u32 = 212_992;
/// Least SO_RCVBUF, bytes: one full segment.
const MIN_BUFFER: u32 = 2048;
/// Most SO_RCVBUF and SO_SNDBUF, bytes. What SO_RCVBUFFORCE asks for beyond it is told, not given.
pub(crate) const MAX_BUFFER: u32 = 4 << 20;

/// A client.
pub(crate) struct Client {
    pub(crate) number: u16,
    /// Its name in the core, where shares are counted.
    pub(crate) owner: OwnerId,
    pub(crate) memory: Arc<ClientMemory>,
    pub(crate) tx_pool: PoolMap,
    pub(crate) rx_pool: Pool,
    layout: ClientLayout,
    pub(crate) head: HeadWords,
    /// The program's marks of stages.
    pub(crate) trace: TraceReader,
    sleeper: Sleeper,
    bell: OwnedFd,
    /// By number, up to the highest attached one.
    pub(crate) threads: Vec<Option<ClientThread>>,
    /// Number of thread slots.
    most_threads: u16,
    /// The thread slot that the next scan starts with.
    pub(crate) next_thread: usize,
    pub(crate) sockets: SocketTable,
    /// Sockets to look at: the dirty bits taken from the region, and the server's own.
    pub(crate) dirty: DirtySet,
    /// Sockets that were closed with unreleased sent bytes.
    pub(crate) closing: Vec<u16>,
    /// The next of them to be looked at, and how many have not been since something happened.
    pub(crate) closing_at: usize,
    pub(crate) closing_left: usize,
    /// Threads with results that wait for room in their ring.
    backlogged: u64,
    /// Number of waiting calls.
    pub(crate) waiting: usize,
    /// Areas of the receiving pool that are promised to no socket.
    shared_areas: u32,
    /// The same while there is no socket.
    most_shared_areas: u32,
    /// Threads to ring at the end of the iteration.
    ring: u64,
    /// Threads to ring for which everything is visible already.
    due: u64,
    /// Threads with results that are not visible yet.
    posted: u64,
    /// Its share of the frames lent to programs.
    pub(crate) frame_quota: FrameQuota,
    /// Values of options that are longer than a call.
    pub(crate) long_values: LongValues,
    /// Readable once its process has ended.
    pub(crate) process: Option<OwnedFd>,
}

impl Client {
    /// Takes up a client's new region.
    pub(crate) fn new(
        (number, owner): (u16, OwnerId),
        params: ClientParams,
        layout: ClientLayout,
        region: Arc<Region>,
        bell: OwnedFd,
        frame_quota: FrameQuota,
    ) -> Result<Self, OutOfRange> {
        let head = layout.head(&region)?;
        let area = u32::from(params.area_pages);
        let promised = u32::from(params.sockets) * params.rx_floor_areas();
        let shared_areas = (params.rx_pages / area).saturating_sub(promised);
        Ok(Self {
            number,
            owner,
            tx_pool: PoolMap::attach(&region, layout.tx_pool, INET)?,
            rx_pool: Pool::create(&region, layout.rx_pool, INET)?,
            sleeper: Sleeper::new(head.server_bell.clone()),
            dirty: DirtySet::new(head.dirty.words.len()),
            head,
            trace: TraceReader::attach(&region, layout.trace)?,
            bell,
            threads: Vec::new(),
            most_threads: params.threads,
            next_thread: 0,
            sockets: SocketTable::new(params.sockets),
            closing: Vec::new(),
            closing_at: 0,
            closing_left: 0,
            backlogged: 0,
            waiting: 0,
            shared_areas,
            most_shared_areas: shared_areas,
            ring: 0,
            due: 0,
            posted: 0,
            frame_quota,
            long_values: LongValues::default(),
            process: None,
            layout,
            memory: Arc::new(ClientMemory::new(region, number)),
        })
    }

    /// The server's bell for this client.
    pub(crate) fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    /// A descriptor that hangs up when the program ends; `None` before a thread has come.
    pub(crate) fn end(&self) -> Option<BorrowedFd<'_>> {
        self.threads.iter().flatten().next().map(|thread| thread.bell.as_fd())
    }

    /// The page size behind the region.
    pub(crate) fn backing(&self) -> String {
        self.memory.region.backing().to_string()
    }

    /// Takes up the rings of a thread slot; false if there is no such slot.
    pub(crate) fn add_thread(&mut self, thread: u16, bell: OwnedFd) -> Result<bool, OutOfRange> {
        let region = &self.memory.region;
        let place = usize::from(thread);
        if thread >= self.most_threads {
            return Ok(false);
        }
        // No longer than needed: every iteration walks through it.
        if self.threads.len() <= place {
            self.threads.resize_with(place + 1, || None);
        }
        self.threads[place] = Some(ClientThread {
            requests: Consumer::attach(region, self.layout.request_ring(thread), REQUESTS)?,
            results: Producer::attach(region, self.layout.result_ring(thread), RESULTS)?,
            bell: Ringer::for_untrusted(self.layout.thread_bell(region, thread)?, bell),
            news: self.layout.news(region, thread)?,
            backlog: VecDeque::new(),
        });
        Ok(true)
    }

    /// Puts a new socket into the next free place.
    pub(crate) fn occupy(
        &mut self,
        engine: &mut Engine,
        (family, kind): (Family, SocketKind),
        handle: Handle,
        serial: u32,
    ) -> Result<Option<SocketId>, ClientFault> {
        let Some(id) = self.sockets.claim() else { return Ok(None) };
        let index = id.index;
        let region = &self.memory.region;
        let (tx_at, rx_at) = (self.layout.tx_queue(index), self.layout.rx_queue(index));
        let mut sends = Consumer::attach(region, tx_at, QUEUE)?;
        rx::empty(&mut sends, index)?;
        rx::empty(&mut Consumer::attach(region, rx_at, QUEUE)?, index)?;
        let params = &self.layout.params;
        let limit = params.rx_floor_areas();
        let mut socket = Socket::new(SocketParts {
            id,
            serial,
            family,
            kind,
            handle,
            words: self.layout.socket_words(region, index)?,
            tx: Tx::new(sends),
            rx: Rx::new(Producer::attach(region, rx_at, QUEUE)?, params.area_pages, limit as usize),
        });
        self.size_recv_buffer(engine, &mut socket);
        self.sockets.put(socket);
        Ok(Some(id))
    }

    /// The offsets in its region.
    pub(crate) fn layout(&self) -> &ClientLayout {
        &self.layout
    }

    fn area_len(&self) -> u32 {
        u32::from(self.layout.params.area_pages) * 4096
    }

    /// Makes a socket's receive buffer as large as its program asked for. The buffer of a stream
    /// without SO_RCVBUF starts small, and the core finds out how much it needs:
    /// [`grant_recv_buffer`](Self::grant_recv_buffer).
    pub(crate) fn size_recv_buffer(&mut self, engine: &mut Engine, socket: &mut Socket) {
        let (stream, asked, handle) = (socket.is_stream(), socket.asked_recv, socket.handle);
        let Some(bytes) = asked.or((!stream).then_some(DEFAULT_DATAGRAM_BUFFER)) else {
            return self.size_first_window(engine, socket);
        };
        let bytes = bytes.clamp(MIN_BUFFER, MAX_BUFFER);
        let got = self.promise_areas(socket, bytes);
        // The core holds only those datagrams that arrive in one iteration.
        let core = if stream { bytes.min(got) } else { got };
        engine.set_recv_buffer(handle, core as usize);
    }

    /// Gives a stream without SO_RCVBUF the window that streams start with, or the part of it that
    /// the pool has.
    fn size_first_window(&mut self, engine: &mut Engine, socket: &mut Socket) {
        let params = &self.layout.params;
        let (floor, usual) = (params.rx_floor_areas(), params.rx_usual_areas());
        if floor >= usual {
            return;
        }
        let window = crate::engine::FIRST_WINDOW;
        let got = if self.shared_areas > self.most_shared_areas / 4 {
            self.promise_areas(socket, window)
        } else {
            u32::try_from(socket.rx.capacity()).unwrap_or(window)
        };
        if got < window {
            engine.set_recv_buffer(socket.handle, got as usize);
        }
    }

    /// Lets a stream's receive buffer grow to the size that the core wants.
    pub(crate) fn grant_recv_buffer(&mut self, engine: &mut Engine, socket: &mut Socket) {
        let handle = socket.handle;
        let Some(wanted) = engine.stack.recv_buffer_wanted(handle) else { return };
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
        let got = self.promise_areas(socket, wanted);
        engine.stack.grant_recv_buffer(handle, wanted.min(got) as usize);
    }

    /// Promises a socket that comes from another client areas for as many unread bytes as there,
    /// as far as possible.
    pub(crate) fn keep_recv_buffer(&mut self, socket: &mut Socket, bytes: usize) {
        if socket.is_stream() && socket.asked_recv.is_none() {
            self.promise_areas(socket, u32::try_from(bytes).unwrap_or(u32::MAX));
        }
    }

    /// Promises a socket areas for `bytes` unconsumed bytes, as far as the pool has unpromised
    /// areas. Returns for how many bytes the socket has areas now. It keeps them until it is
    /// closed.
    fn promise_areas(&mut self, socket: &mut Socket, bytes: u32) -> u32 {
        let (area, floor) = (self.area_len(), self.layout.params.rx_floor_areas());
        // Unconsumed bytes may fill all of its areas but the one being filled.
        let wanted = bytes.div_ceil(area).saturating_add(1);
        let more = wanted.saturating_sub(floor + socket.extra_areas).min(self.shared_areas / 8);
        self.shared_areas -= more;
        socket.extra_areas += more;
        let limit = wanted.min(floor + socket.extra_areas);
        socket.rx.set_limit(limit as usize);
        limit.saturating_sub(1).max(1) * area
    }

    /// Gives a closed socket's areas back to the pool.
    pub(crate) fn give_back(&mut self, socket: &mut Socket) {
        socket.rx.clear();
        self.shared_areas += std::mem::take(&mut socket.extra_areas);
    }

    /// Finds a socket once, for a step that also needs the rest of the client; `None` if the place
    /// is free. At the end it frees the place of a socket that is over.
    #[inline]
    pub(crate) fn with_socket<R>(
        &mut self,
        index: u16,
        step: impl FnOnce(&mut Self, &mut Socket) -> R,
    ) -> Option<R> {
        let mut socket = self.sockets.take(index)?;
        let result = step(self, &mut socket);
        if socket.over {
            self.vacate(&mut socket);
        } else {
            self.sockets.put_back(socket);
        }
        Some(result)
    }

    /// Frees the place of a socket that is over.
    fn vacate(&mut self, socket: &mut Socket) {
        self.give_back(socket);
        let index = socket.id.index;
        self.sockets.free(index);
        let waiters = socket.retire();
        self.ring |= waiters;
        mark_news(&self.threads, waiters, index);
    }

    /// Makes this iteration or the next look at the socket, as if the program had set its dirty
    /// bit.
    pub(crate) fn mark_dirty(&mut self, index: u16) {
        self.dirty.add(usize::from(index) / 64, 1 << (index % 64));
    }

    /// Posts a call's result. The result becomes visible at the end of the iteration. With `rings`
    /// the server rings the thread then. The function is inlined, so that the values of most calls,
    /// which are zeros, are never in memory.
    #[inline(always)]
    pub(crate) fn post(
        &mut self,
        engine: &mut Engine,
        path: ReturnPath,
        outcome: PostedOutcome<'_>,
        rings: bool,
    ) -> Result<(), ClientFault> {
        engine.counters.results += 1;
        let ring = usize::from(path.ring);
        // The scan has checked the return path, and threads stay.
        let Some(Some(thread)) = self.threads.get_mut(ring) else { return Ok(()) };
        self.posted |= 1 << ring;
        self.ring |= u64::from(rings) << ring;
        if thread.backlog.is_empty() && thread.stage(path, outcome)? {
            return Ok(());
        }
        self.post_late(engine, PackagedResult { path, outcome: outcome.copied() })
    }

    /// Keeps a result until there is room for it.
    #[cold]
    fn post_late(
        &mut self,
        engine: &mut Engine,
        result: PackagedResult,
    ) -> Result<(), ClientFault> {
        let ring = usize::from(result.path.ring);
        let Some(Some(thread)) = self.threads.get_mut(ring) else { return Ok(()) };
        engine.counters.results_late += 1;
        thread.backlog.push_back(result);
        self.backlogged |= 1 << ring;
        match thread.backlog.len() {
            ..=MAX_BACKLOG => Ok(()),
            len => Err(ClientFault::Backlog(len)),
        }
    }

    /// Also rings the threads that got results of no-reply calls in this iteration. Such a result
    /// says that an attempt goes on, and the attempt may be over already. A thread that waits for
    /// it may have set its bit too late for the words, and looked for the result too early.
    pub(crate) fn ring_posted(&mut self) {
        self.ring |= self.posted;
    }

    /// The end of an iteration: publishes words, then results. The bells are due then.
    pub(crate) fn flush(&mut self, engine: &mut Engine) -> Result<(), ClientFault> {
        while let Some(socket) = self.sockets.next_touched() {
            if socket.tx.lowat > 0 {
                socket.show_bound(engine.stack.unsent(socket.handle));
            }
            let published = socket.publish()?;
            engine.counters.payload_rx += published.bytes;
            self.ring |= published.waiters;
            mark_news(&self.threads, published.waiters, socket.id.index);
        }
        let ring = std::mem::take(&mut self.ring) | std::mem::take(&mut self.backlogged);
        let mut some = ring | std::mem::take(&mut self.posted);
        while some != 0 {
            let number = some.trailing_zeros() as usize;
            some &= some - 1;
            // A waiter bit without an attached thread means nothing.
            let Some(Some(thread)) = self.threads.get_mut(number) else { continue };
            thread.publish()?;
            if !thread.backlog.is_empty() {
                self.backlogged |= 1 << number;
            }
        }
        self.due |= ring;
        Ok(())
    }

    /// Rings the bells that are due.
    pub(crate) fn ring(&mut self, engine: &mut Engine) {
        let mut due = std::mem::take(&mut self.due);
        if due == 0 {
            return;
        }
        engine.nics.trace.mark(TraceStage::Announce);
        while due != 0 {
            let number = due.trailing_zeros() as usize;
            due &= due - 1;
            if let Some(Some(thread)) = self.threads.get(number) {
                engine.counters.bells += u64::from(thread.bell.ring());
            }
        }
        engine.nics.trace.mark(TraceStage::InetRest);
    }

    /// Is there a bell to ring?
    pub(crate) fn has_due_bells(&self) -> bool {
        self.due != 0
    }

    /// Announces sleep.
    pub(crate) fn announce(&self) {
        self.sleeper.announce(Sleep::Fd);
    }

    /// Takes the announcement back.
    pub(crate) fn awake(&self) {
        self.sleeper.awake();
    }

    /// Takes the dirty bits out of the region, before the look at the sockets. Bits of places that
    /// do not exist are ignored.
    pub(crate) fn take_dirty(&mut self) {
        self.head.dirty.take(self.sockets.len(), |word, bits| self.dirty.add(word, bits));
    }

    /// Does a program, or a closed socket, wait for the release of this socket's sent bytes?
    pub(crate) fn awaits_release(&mut self, owner: SocketOwner) -> bool {
        let socket = self.sockets.at(owner.index).filter(|socket| socket.serial == owner.serial);
        socket.is_some_and(|socket| socket.awaits_release())
    }

    /// Has this client work for the server?
    pub(crate) fn has_work(&mut self) -> bool {
        let mut threads = self.threads.iter_mut().flatten();
        !self.head.dirty.is_empty()
            || !self.dirty.is_empty()
            || threads.any(|thread| !matches!(thread.requests.is_empty(), Ok(true)))
    }

    /// Adds the program's own counters to `counters`.
    pub(crate) fn add_program_counters(&self, counters: &mut Counters) {
        use std::sync::atomic::Ordering;
        let (tx, rx) = (&self.head.copied_tx, &self.head.copied_rx);
        counters.program_tx = counters.program_tx.saturating_add(tx.load(Ordering::Relaxed));
        counters.program_rx = counters.program_rx.saturating_add(rx.load(Ordering::Relaxed));
        let (bells, sleeps) = (&self.head.bells, &self.head.sleeps);
        let relaxed = Ordering::Relaxed;
        counters.program_bells = counters.program_bells.saturating_add(bells.load(relaxed));
        counters.program_sleeps = counters.program_sleeps.saturating_add(sleeps.load(relaxed));
    }

    /// This program's rings and its own counters, for operators. The rings of all its threads are
    /// added up.
    pub(crate) fn as_party(&mut self) -> PartyStatus {
        let (mut requests, mut results) = ((0, 0), (0, 0));
        for thread in self.threads.iter_mut().flatten() {
            // A broken ring counts as none; its next use reports it.
            let add = |sum: &mut (u32, u32), fill: Result<(u32, u32), RingFault>| {
                let (slots, used) = fill.unwrap_or_default();
                *sum = (sum.0 + slots, sum.1 + used);
            };
            add(&mut requests, thread.requests.fill());
            add(&mut results, thread.results.fill());
        }
        let rings = [("requests", requests), ("results", results)];
        let rings =
            rings.map(|(name, (slots, used))| RingStatus { name: name.to_owned(), slots, used });
        let words = [
            ("copy.program-rx-bytes", &self.head.copied_rx),
            ("copy.program-tx-bytes", &self.head.copied_tx),
            ("program.bells-rung", &self.head.bells),
            ("program.sleeps", &self.head.sleeps),
        ];
        let counters = words
            .map(|(name, word)| (name.to_owned(), word.load(std::sync::atomic::Ordering::Relaxed)));
        let (rings, counters) = (rings.into(), counters.into());
        PartyStatus { role: "client".to_owned(), number: self.number, rings, counters }
    }

    /// Pages and free pages of the receiving pool.
    pub(crate) fn rx_pages(&self) -> (u32, u32) {
        (self.rx_pool.pages(), self.rx_pool.free_pages())
    }
}
