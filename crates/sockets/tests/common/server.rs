//! The server's side of a client's region.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use abi::ancillary::{RecvAncillary, SendAncillary};
use abi::call::{CallFlags, Op, PackagedCall, PackagedResult, Reply, Request};
use abi::client::{
    CLIENT, ClientLayout, HeadWords, NO_BOUND, QUEUE, REQUESTS, RESULTS, SocketWords,
};
use abi::data::{DataDescriptor, DataFlags};
use abi::nic::INET;
use abi::option::{OptionKey, OptionPart};
use abi::{Errno, ShutdownHow, SocketFlags, SocketId, SocketKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use shm::{
    Area, AreaName, Consumer, Pool, PoolMap, Producer, ReadinessBitmap, Region, Ringer, Sleep,
    Sleeper, Slot,
};

pub(crate) const OPEN: SocketFlags = SocketFlags::OPEN;
pub(crate) const CONNECTED: SocketFlags = SocketFlags::OPEN.with(SocketFlags::CONNECTED);
/// The connection is over, as after RST.
pub(crate) const OVER: SocketFlags = SocketFlags::OPEN
    .with(SocketFlags::READ_CLOSED)
    .with(SocketFlags::WRITE_CLOSED)
    .with(SocketFlags::HANGUP);

pub(crate) struct ThreadSide {
    requests: Consumer,
    pub(crate) results: Producer,
    ringer: Ringer,
    news: ReadinessBitmap,
}

pub(crate) struct Sock {
    pub(crate) id: SocketId,
    pub(crate) kind: SocketKind,
    pub(crate) words: SocketWords,
    pub(crate) tx: Consumer,
    pub(crate) rx: Producer,
    areas: VecDeque<(Area, u64)>,
    used: usize,
    pub(crate) published: u64,
    /// Bytes taken from the sending queue.
    pub(crate) taken: u64,
    pub(crate) released: u64,
    /// What was taken.
    pub(crate) got: Vec<u8>,
    pub(crate) datagrams: Vec<(Vec<u8>, Option<SocketAddr>)>,
    pub(crate) descriptors: Vec<DataDescriptor>,
    pub(crate) said: Vec<SendAncillary>,
    version: u32,
}

/// The server's own work in each iteration.
pub(crate) struct Manner {
    /// Takes descriptors out of sending queues.
    pub(crate) takes: bool,
    /// Releases what was taken.
    pub(crate) releases: bool,
    /// Sends it back.
    pub(crate) echoes: bool,
    /// The result of a connection attempt; `None`: nothing yet.
    pub(crate) connects: Option<Result<(), Errno>>,
    /// Calls of this kind are kept unanswered.
    pub(crate) holds: Option<Op>,
}

pub(crate) struct Core {
    pub(crate) number: u16,
    pub(crate) layout: ClientLayout,
    pub(crate) region: Arc<Region>,
    pub(crate) head: HeadWords,
    sleeper: Sleeper,
    bell: Arc<OwnedFd>,
    pub(crate) threads: Vec<ThreadSide>,
    pub(crate) socks: Vec<Option<Sock>>,
    generations: Vec<u16>,
    tx_pool: PoolMap,
    pub(crate) rx_pool: Pool,
    pub(crate) manner: Manner,
    pub(crate) held: Vec<PackagedCall>,
    pub(crate) backlog: u32,
    /// The server's results for datagrams that it takes.
    pub(crate) flush: Result<Reply, Errno>,
    /// Operations in the order in which they came.
    pub(crate) calls: Vec<Op>,
    /// Iterations that began with a ring.
    pub(crate) wakes: u32,
}

/// The server has announced that it sleeps.
pub(crate) struct Asleep {
    bell: Arc<OwnedFd>,
    sleeper: Sleeper,
}

impl Asleep {
    pub(crate) fn sleep(&self, limit: Duration) {
        let limit = Timespec::try_from(limit).unwrap();
        let _ = poll(&mut [PollFd::new(&*self.bell, PollFlags::IN)], Some(&limit));
        self.sleeper.awake();
    }
}

impl Core {
    pub(crate) fn new(
        number: u16,
        layout: ClientLayout,
        region: Arc<Region>,
        bell: OwnedFd,
    ) -> Core {
        let head = layout.head(&region).unwrap();
        let sockets = usize::from(layout.params.sockets);
        Core {
            number,
            sleeper: Sleeper::new(head.server_bell.clone()),
            head,
            bell: Arc::new(bell),
            threads: Vec::new(),
            socks: (0..sockets).map(|_| None).collect(),
            generations: vec![0; sockets],
            tx_pool: PoolMap::attach(&region, layout.tx_pool, INET).unwrap(),
            rx_pool: Pool::create(&region, layout.rx_pool, INET).unwrap(),
            manner: Manner {
                takes: true,
                releases: true,
                echoes: false,
                connects: Some(Ok(())),
                holds: None,
            },
            held: Vec::new(),
            backlog: 0,
            flush: Ok(Reply::Done),
            calls: Vec::new(),
            wakes: 0,
            layout,
            region,
        }
    }

    pub(crate) fn add_thread(&mut self, thread: u16, bell: OwnedFd) {
        let (layout, region) = (&self.layout, &self.region);
        let word = layout.thread_bell(region, thread).unwrap();
        self.threads.push(ThreadSide {
            requests: Consumer::attach(region, layout.request_ring(thread), REQUESTS).unwrap(),
            results: Producer::attach(region, layout.result_ring(thread), RESULTS).unwrap(),
            ringer: Ringer::for_untrusted(word, bell),
            news: layout.news(region, thread).unwrap(),
        });
    }

    /// Pages of the sending pool that the client holds.
    pub(crate) fn pages_held(&self) -> u32 {
        let pool = Pool::recover(&self.region, self.layout.tx_pool, CLIENT).unwrap();
        pool.pages() - pool.free_pages()
    }

    /// Ends the server's sleep.
    pub(crate) fn rouse(&self) {
        rustix::io::write(&*self.bell, &1_u64.to_ne_bytes()).unwrap();
    }

    /// One turn. With nothing left to do, the server says that it sleeps.
    pub(crate) fn turn(&mut self) -> Option<Asleep> {
        let rung = rustix::io::read(&*self.bell, &mut [0; 8]).is_ok();
        self.wakes += u32::from(rung);
        if self.work() {
            return None;
        }
        self.sleeper.announce(Sleep::Fd);
        if self.work() {
            self.sleeper.awake();
            return None;
        }
        Some(Asleep { bell: Arc::clone(&self.bell), sleeper: self.sleeper.clone() })
    }

    fn work(&mut self) -> bool {
        let mut some = false;
        for thread in 0..self.threads.len() {
            while let Some(slot) = self.threads[thread].requests.pop().unwrap() {
                some = true;
                self.on_call(&PackagedCall::decode(&slot).unwrap());
            }
        }
        self.head.dirty.take(usize::MAX, |_, _| some = true);
        for index in 0..self.socks.len() {
            some |= self.serve(u16::try_from(index).unwrap());
        }
        some
    }

    fn serve(&mut self, index: u16) -> bool {
        let mut some = false;
        if self.manner.takes {
            some |= self.take(index, usize::MAX) > 0;
        }
        if self.manner.releases {
            some |= self.release(index, u64::MAX);
        }
        if self.manner.echoes && self.socks[usize::from(index)].is_some() {
            let got = std::mem::take(&mut self.sock(index).got);
            let sent = self.deliver(index, &got);
            some |= sent > 0;
            self.sock(index).got = got[sent..].to_vec();
        }
        some
    }

    pub(crate) fn sock(&mut self, index: u16) -> &mut Sock {
        self.socks[usize::from(index)].as_mut().expect("a socket")
    }

    fn occupy(&mut self, kind: SocketKind, flags: SocketFlags) -> Result<SocketId, Errno> {
        let place = self.socks.iter().position(Option::is_none).ok_or(Errno::MFILE)?;
        let index = u16::try_from(place).unwrap();
        self.generations[place] += 1;
        let id = SocketId { index, generation: self.generations[place] };
        let words = self.layout.socket_words(&self.region, index).unwrap();
        for word in [&words.flags, &words.error, &words.version, &words.accept_ready] {
            word.store(0, Ordering::Release);
        }
        for word in [&words.rx_bytes.0, &words.tx_released.0, &words.waiters.bits] {
            word.store(0, Ordering::Release);
        }
        words.tx_bytes.store(0, Ordering::Release);
        words.rx_consumed.store(0, Ordering::Release);
        words.tx_limit.store(64 * 1024, Ordering::Release);
        words.tx_until.store(NO_BOUND, Ordering::Release);
        words.tx_lowat.store(0, Ordering::Release);
        words.flags.store(flags.bits(), Ordering::Release);
        let (tx, rx) = (self.layout.tx_queue(index), self.layout.rx_queue(index));
        let mut tx = Consumer::attach(&self.region, tx, QUEUE).unwrap();
        while tx.pop().unwrap().is_some() {}
        let mut stale = Consumer::attach(&self.region, rx, QUEUE).unwrap();
        while stale.pop().unwrap().is_some() {}
        self.socks[place] = Some(Sock {
            id,
            kind,
            words,
            tx,
            rx: Producer::attach(&self.region, rx, QUEUE).unwrap(),
            areas: VecDeque::new(),
            used: 0,
            published: 0,
            taken: 0,
            released: 0,
            got: Vec::new(),
            datagrams: Vec::new(),
            descriptors: Vec::new(),
            said: Vec::new(),
            version: 0,
        });
        Ok(id)
    }

    /// Takes at most `most` descriptors; returns how many.
    pub(crate) fn take(&mut self, index: u16, most: usize) -> usize {
        let Some(sock) = &mut self.socks[usize::from(index)] else { return 0 };
        let was_full = sock.tx.len().unwrap() == QUEUE;
        let mut taken = 0;
        while taken < most
            && let Some(slot) = sock.tx.pop().unwrap()
        {
            taken += 1;
            let descriptor = DataDescriptor::decode(&slot).unwrap();
            if descriptor.flags.has(DataFlags::ANCILLARY) {
                let slot = sock.tx.pop().unwrap().unwrap();
                sock.said.push(SendAncillary::decode(&slot).unwrap());
            }
            let mut bytes = vec![0; descriptor.len as usize];
            let DataDescriptor { area, offset, len, .. } = descriptor;
            if len > 0 {
                let at = self.tx_pool.borrow(area, offset, len).unwrap();
                self.region.read(at, &mut bytes).unwrap();
            }
            sock.taken += u64::from(len);
            sock.descriptors.push(descriptor);
            match sock.kind {
                SocketKind::Stream => sock.got.extend(bytes),
                SocketKind::Datagram | SocketKind::UdpLite | SocketKind::Echo => {
                    sock.datagrams.push((bytes, descriptor.peer));
                }
            }
        }
        let asked = sock.words.waiters.await_room();
        if (was_full || asked) && taken > 0 {
            self.news(index);
        }
        taken
    }

    /// Releases at most `most` of the bytes taken.
    pub(crate) fn release(&mut self, index: u16, most: u64) -> bool {
        let Some(sock) = &mut self.socks[usize::from(index)] else { return false };
        let now = most.min(sock.taken - sock.released);
        if now == 0 {
            return false;
        }
        sock.released += now;
        sock.words.tx_released.store(sock.released, Ordering::Release);
        self.news(index);
        true
    }

    /// Received bytes of a stream for the program, as far as there is room; returns how many.
    pub(crate) fn deliver(&mut self, index: u16, bytes: &[u8]) -> usize {
        let done = self.deliver_uncounted(index, bytes);
        self.show_received(index);
        done
    }

    /// As [`Core::deliver`], in the moment before the server counts the bytes.
    pub(crate) fn deliver_uncounted(&mut self, index: u16, bytes: &[u8]) -> usize {
        let mut done = 0;
        while done < bytes.len() {
            let Some((name, at, room)) = self.rx_room(index, 1) else { break };
            let now = room.min(bytes.len() - done);
            let sock = self.socks[usize::from(index)].as_mut().unwrap();
            if sock.rx.free().unwrap() == 0 {
                break;
            }
            let area = &sock.areas.back().unwrap().0;
            area.write(at, &bytes[done..done + now]).unwrap();
            let descriptor = descriptor(name, at, now, DataFlags::NONE, None);
            sock.rx.push(&descriptor.encode()).unwrap();
            sock.used += now;
            sock.published += now as u64;
            sock.areas.back_mut().unwrap().1 = sock.published;
            done += now;
        }
        done
    }

    /// A received datagram.
    pub(crate) fn deliver_datagram(&mut self, index: u16, bytes: &[u8], from: SocketAddr) {
        self.deliver_slots(index, bytes, (DataFlags::NONE, from), &[]);
    }

    /// A received datagram, with how it came.
    pub(crate) fn deliver_with(
        &mut self,
        index: u16,
        bytes: &[u8],
        from: SocketAddr,
        how: &RecvAncillary,
    ) {
        self.deliver_slots(index, bytes, (DataFlags::ANCILLARY, from), &[how.encode()]);
    }

    fn deliver_slots(
        &mut self,
        index: u16,
        bytes: &[u8],
        (flags, from): (DataFlags, SocketAddr),
        more: &[Slot],
    ) {
        let (name, at, _) = self.rx_room(index, bytes.len().max(1)).unwrap();
        let sock = self.sock(index);
        sock.areas.back().unwrap().0.write(at, bytes).unwrap();
        let descriptor = descriptor(name, at, bytes.len(), flags, Some(from));
        sock.rx.push(&descriptor.encode()).unwrap();
        more.iter().for_each(|slot| sock.rx.push(slot).unwrap());
        sock.used += bytes.len();
        sock.published += 1;
        sock.areas.back_mut().unwrap().1 = sock.published;
        self.show_received(index);
    }

    /// Whatever in a receiving queue, with a count that matches.
    pub(crate) fn deliver_raw(&mut self, index: u16, slot: &Slot, count: u64) {
        let sock = self.sock(index);
        sock.rx.push(slot).unwrap();
        sock.published += count;
        self.show_received(index);
    }

    pub(crate) fn show_received(&mut self, index: u16) {
        let sock = self.sock(index);
        if sock.words.rx_bytes.load(Ordering::Relaxed) != sock.published {
            sock.words.rx_bytes.store(sock.published, Ordering::Release);
            self.news(index);
        }
    }

    /// Room in the socket's open receiving area: name, offset, length.
    fn rx_room(&mut self, index: u16, least: usize) -> Option<(AreaName, usize, usize)> {
        let pages = self.layout.params.area_pages;
        let sock = self.socks[usize::from(index)].as_mut()?;
        let consumed = sock.words.rx_consumed.load(Ordering::Acquire);
        assert!(consumed <= sock.published, "consumed {consumed} of {}", sock.published);
        while sock.areas.len() > 1 && sock.areas[0].1 <= consumed {
            sock.areas.pop_front();
        }
        let full = sock.areas.back().is_none_or(|(area, _)| area.len() - sock.used < least);
        if full {
            if sock.areas.len() >= 5 {
                return None;
            }
            sock.areas.push_back((self.rx_pool.alloc(pages).unwrap(), sock.published));
            sock.used = 0;
        }
        let area = &sock.areas.back()?.0;
        Some((area.lend(), sock.used, area.len() - sock.used))
    }

    pub(crate) fn set_flags(&mut self, index: u16, flags: SocketFlags) {
        self.sock(index).words.flags.store(flags.bits(), Ordering::Release);
        self.news(index);
    }

    /// The connection fails or breaks.
    pub(crate) fn break_off(&mut self, index: u16, errno: Errno) {
        let error = errno.raw_os_error().unsigned_abs();
        self.sock(index).words.error.store(error, Ordering::Release);
        self.set_flags(index, OVER);
    }

    /// Connections wait to be accepted.
    pub(crate) fn offer(&mut self, listener: u16, count: u32) {
        self.backlog = count;
        self.sock(listener).words.accept_ready.store(count, Ordering::Release);
        self.news(listener);
    }

    /// Words have changed: version, then the waiters' bells.
    pub(crate) fn news(&mut self, index: u16) {
        let sock = self.sock(index);
        sock.version += 1;
        sock.words.version.store(sock.version, Ordering::SeqCst);
        let mut waiters = sock.words.waiters.bits.swap(0, Ordering::SeqCst);
        while waiters != 0 {
            let thread = waiters.trailing_zeros() as usize;
            waiters &= waiters - 1;
            self.threads[thread].news.set(index);
            self.threads[thread].ringer.ring();
        }
    }

    pub(crate) fn post(&mut self, call: &PackagedCall, outcome: Result<Reply, Errno>) {
        let thread = &mut self.threads[usize::from(call.path.ring)];
        let outcome = outcome.map(|reply| reply.encode());
        thread.results.push(&PackagedResult { path: call.path, outcome }.encode()).unwrap();
        let usual = match call.op() {
            Op::Connect => self.manner.connects.is_none(),
            _ => outcome.is_ok(),
        };
        if !call.flags.has(CallFlags::QUIET) || !usual {
            thread.ringer.ring();
        }
    }

    /// Answers the calls that were held.
    pub(crate) fn answer_held(&mut self) {
        self.manner.holds = None;
        for call in std::mem::take(&mut self.held) {
            self.answer(&call);
        }
    }

    fn on_call(&mut self, call: &PackagedCall) {
        assert_eq!(call.path.client, self.number);
        self.calls.push(call.op());
        if self.manner.holds == Some(call.op()) {
            self.held.push(*call);
        } else {
            self.answer(call);
        }
    }

    fn answer(&mut self, call: &PackagedCall) {
        let outcome = self.execute(call);
        self.post(call, outcome);
    }

    fn execute(&mut self, call: &PackagedCall) -> Result<Reply, Errno> {
        let request = call.request().unwrap();
        match request {
            Request::Null => return Ok(Reply::Done),
            Request::Socket { kind, .. } => return self.occupy(kind, OPEN).map(Reply::Socket),
            Request::Cancel { tag, .. } => return self.cancel(tag),
            _ => {}
        }
        let id = request.encode().socket();
        let index = id.index;
        if self.socks.get(usize::from(index)).and_then(Option::as_ref).is_none_or(|s| s.id != id) {
            return Err(Errno::BADF);
        }
        match request {
            Request::Listen { .. } => self.set_flags(index, OPEN | SocketFlags::LISTENING),
            Request::Connect { .. } => return self.connect(call.flags, index),
            Request::Accept { .. } => return self.accept(index),
            Request::Close { .. } => {
                self.take(index, usize::MAX);
                self.release(index, u64::MAX);
                self.set_flags(index, SocketFlags::NONE);
                self.socks[usize::from(index)] = None;
            }
            Request::Shutdown { how, .. } => {
                let bits = [SocketFlags::READ_CLOSED, SocketFlags::WRITE_CLOSED];
                let flags = self.sock(index).words.flags.load(Ordering::Relaxed);
                let flags = SocketFlags::from_bits_retain(flags);
                let closed = match how {
                    ShutdownHow::Read => bits[0],
                    ShutdownHow::Write => bits[1],
                    ShutdownHow::Both => bits[0] | bits[1] | SocketFlags::HANGUP,
                };
                self.set_flags(index, flags | closed);
            }
            Request::GetSockOpt { key, from, .. } => return Ok(option(key, from)),
            Request::GetSockName { .. } => return Ok(address("10.219.0.2:4000")),
            Request::GetPeerName { .. } => return Ok(address("10.219.0.1:80")),
            Request::Bind { .. } | Request::SetSockOpt { .. } => {}
            Request::Flush { .. } => return self.flush,
            other => panic!("{other:?} is none of the library's calls"),
        }
        Ok(Reply::Done)
    }

    fn cancel(&mut self, tag: u32) -> Result<Reply, Errno> {
        let is_it = |held: &PackagedCall| held.path.tag == tag;
        let at = self.held.iter().position(is_it).ok_or(Errno::NOENT)?;
        let held = self.held.remove(at);
        self.post(&held, Err(Errno::CANCELED));
        Ok(Reply::Done)
    }

    fn connect(&mut self, how: CallFlags, index: u16) -> Result<Reply, Errno> {
        let flags = self.sock(index).words.flags.load(Ordering::Relaxed);
        let flags = SocketFlags::from_bits_retain(flags);
        if flags.has(SocketFlags::CONNECTING) {
            return Err(Errno::ALREADY);
        }
        let connected = Reply::Connecting { syn_room: 0 };
        if self.sock(index).kind == SocketKind::Datagram {
            self.set_flags(index, CONNECTED);
            return Ok(connected);
        }
        match self.manner.connects {
            Some(outcome) if !how.has(CallFlags::NONBLOCK) => {
                self.set_flags(index, outcome.map_or(OVER, |()| CONNECTED));
                return outcome.map(|()| connected);
            }
            Some(Ok(())) => self.set_flags(index, CONNECTED),
            Some(Err(errno)) => self.break_off(index, errno),
            None => self.set_flags(index, OPEN | SocketFlags::CONNECTING),
        }
        Err(Errno::INPROGRESS)
    }

    fn accept(&mut self, listener: u16) -> Result<Reply, Errno> {
        if self.backlog == 0 {
            return Err(Errno::AGAIN);
        }
        self.offer(listener, self.backlog - 1);
        let socket = self.occupy(SocketKind::Stream, CONNECTED)?;
        Ok(Reply::Accepted { socket, peer: "10.219.0.1:5555".parse().unwrap() })
    }
}

/// The option whose length is the number of the first byte asked for.
pub(crate) const ECHO: OptionKey = OptionKey { level: -1, name: -1 };

/// A part of [`ECHO`], or of an option of 100 bytes, each its own place.
fn option(key: OptionKey, from: u32) -> Reply {
    if key == ECHO {
        return Reply::Option(OptionPart { len: from.into(), ..OptionPart::new(&[], 0) });
    }
    let bytes: Vec<u8> = (0..100).collect();
    Reply::Option(OptionPart::new(&bytes, from))
}

fn address(text: &str) -> Reply {
    Reply::Address(Some(text.parse().unwrap()))
}

fn descriptor(
    area: AreaName,
    offset: usize,
    len: usize,
    flags: DataFlags,
    peer: Option<SocketAddr>,
) -> DataDescriptor {
    let (offset, len) = (u32::try_from(offset).unwrap(), u32::try_from(len).unwrap());
    DataDescriptor { area, offset, len, flags, peer }
}
