//! Tests of the server, step by step in this process, between simulated programs and drivers.
//!
//! [`Program`] is a program's side of a client region, [`Driver`] a driver's side of a frame
//! region. Each has its own mapping of the region, and uses nothing but `shm` and `abi`. [`World`]
//! joins two servers back to back: each driver receives the frames that the other transmits.

mod addresses;
mod calls;
mod chain_of;
mod chains;
mod data;
mod datagrams;
mod hostile;
mod life;
mod native;
mod output;
mod raw;
mod shared;

use self::chain_of::chain_of;

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use abi::address::{addr_from_words, addr_to_words};
use abi::call::{Op, ReturnPath};
use abi::client::{
    CLIENT, ClientLayout, ClientParams, HeadWords, QUEUE, REQUESTS, RESULTS, SocketWords,
};
use abi::control::{BusyPoll, InetConfig, ServerEvent, ServerReply, ServerRequest, TcpDefaults};
use abi::data::{DataDescriptor, DataFlags};
use abi::frame::{Chain, FillSlot, IfAttach, RxFrame, TxFrame};
use abi::network::{InterfaceSettings, Ipv6Mode, Prefixed};
use abi::nic::{INET, LAYOUT, NIC, PRIORITY_RING, RING};
use abi::offload::{Features, RxOffload, SegmentKind, Segments};
use abi::option::OptionKey;
use abi::{Errno, Family, SocketFlags, SocketId, SocketKind};
use inet::Instant;
use shm::{Access, Area, Backing, Consumer, Pool, PoolMap, Producer, Region, Slot};
use std::net::{Ipv4Addr, SocketAddr};

use crate::server::Server;

use self::raw::{RawCall, RawResult};

pub(super) const PARAMS: ClientParams =
    ClientParams { threads: 2, sockets: 8, area_pages: 4, tx_pages: 256, rx_pages: 320 };

/// An `int` as bytes.
pub(super) fn int(value: i32) -> Vec<u8> {
    value.to_ne_bytes().to_vec()
}

/// A driver's side of a frame region.
pub(super) struct Driver {
    pub(super) region: Arc<Region>,
    pub(super) pool: PoolMap,
    heads: PoolMap,
    pub(super) fill: Consumer,
    pub(super) rx: Producer,
    pub(super) tx: Consumer,
    tx_priority: Consumer,
    clients: HashMap<u16, Arc<Region>>,
    /// Empty areas to receive into.
    spare: Vec<Area>,
    /// Number of payloads in the chains that received segments are cut into; 0: no chains.
    pub(super) chain: usize,
    /// Number of chains so far.
    pub(super) chains: u64,
    /// While set, the driver takes no frames.
    pub(super) stopped: bool,
}

impl Driver {
    fn new(region: Arc<Region>) -> Self {
        Self {
            pool: PoolMap::attach(&region, LAYOUT.pool, NIC).unwrap(),
            heads: PoolMap::attach(&region, LAYOUT.heads, NIC).unwrap(),
            fill: Consumer::attach(&region, LAYOUT.fill, RING).unwrap(),
            rx: Producer::attach(&region, LAYOUT.rx, RING).unwrap(),
            tx: Consumer::attach(&region, LAYOUT.tx, RING).unwrap(),
            tx_priority: Consumer::attach(&region, LAYOUT.tx_priority, PRIORITY_RING).unwrap(),
            region,
            clients: HashMap::new(),
            spare: Vec::new(),
            chain: 0,
            chains: 0,
            stopped: false,
        }
    }

    pub(super) fn attach(&mut self, mac: u64) {
        let features = Features::GRO.with(Features::RX_CHECKSUM);
        let [_, _, mac @ ..] = mac.to_be_bytes();
        self.rx.push(&IfAttach { mac, mtu: 1500, features }.encode()).unwrap();
    }

    /// The descriptors in both rings, which stay there.
    pub(super) fn queued(&mut self) -> Vec<Slot> {
        let mut slots = Vec::new();
        for ring in [&mut self.tx_priority, &mut self.tx] {
            slots.extend((0..).map_while(|n| ring.peek_at(n).unwrap()));
        }
        slots
    }

    /// Takes what the server sends, and hands the head pages back.
    pub(super) fn transmit(&mut self) -> Vec<Vec<u8>> {
        if self.stopped {
            return Vec::new();
        }
        let mut frames = Vec::new();
        for ring in [&mut self.tx_priority, &mut self.tx] {
            while let Some(slot) = ring.peek().unwrap() {
                let frame = TxFrame::decode(&slot).unwrap();
                let area = self.heads.take(frame.area).unwrap();
                let start = usize::from(frame.offset);
                let mut bytes = area.bytes()[start..start + usize::from(frame.len)].to_vec();
                for piece in frame.pieces() {
                    let mut part = vec![0; usize::from(piece.len)];
                    self.clients[&piece.client].read(piece.offset as usize, &mut part).unwrap();
                    bytes.extend_from_slice(&part);
                }
                let _ = area.hand_over(INET);
                ring.advance();
                frames.push(bytes);
            }
        }
        frames
    }

    /// Hands a frame to the server; false when there is no page or no room.
    pub(super) fn receive(&mut self, frame: &[u8]) -> bool {
        let parts = chain_of(frame, self.chain);
        if (self.rx.free().unwrap() as usize) < parts.len() {
            return false;
        }
        while self.spare.len() < parts.len() {
            let Some(slot) = self.fill.pop().unwrap() else { return false };
            self.spare.push(self.pool.take(FillSlot::decode(&slot).0).unwrap());
        }
        self.chains += u64::from(parts.len() > 1);
        for (index, part) in parts.iter().enumerate() {
            let mut area = self.spare.pop().unwrap();
            // Nowhere in particular.
            let at = if parts.len() > 1 { 256 + 3 * index } else { 0 };
            area.bytes_mut()[at..at + part.len()].copy_from_slice(part);
            let area = area.hand_over(INET);
            let (chain, offload) = match (index, parts.len() - 1) {
                (0, 0) => (Chain::ALONE, RxOffload::NONE),
                (0, more) => {
                    let size = u16::try_from(parts[1].len()).unwrap();
                    let segments = Some(Segments { kind: SegmentKind::Tcp4, size });
                    let known = RxOffload { verified: true, segments };
                    (Chain::First(u16::try_from(more).unwrap()), known)
                }
                _ => (Chain::Next, RxOffload::NONE),
            };
            let (offset, len) = (at as u32, u32::try_from(part.len()).unwrap());
            let said = RxFrame { area, offset, len, offload, chain };
            self.rx.stage(&said.encode()).unwrap();
        }
        self.rx.publish();
        true
    }
}

/// A program's side of a client region, with thread slot 0.
pub(super) struct Program {
    pub(super) number: u16,
    pub(super) region: Arc<Region>,
    pub(super) layout: ClientLayout,
    pub(super) head: HeadWords,
    pub(super) requests: Producer,
    pub(super) results: Consumer,
    pub(super) tx_pool: Pool,
    pub(super) rx_pool: PoolMap,
    frames: Option<PoolMap>,
    pub(super) bell: OwnedFd,
    tag: u32,
    done: HashMap<u32, Result<[u64; 6], Errno>>,
}

/// A program's side of a socket.
pub(super) struct Sock {
    pub(super) id: SocketId,
    pub(super) words: SocketWords,
    pub(super) tx: Producer,
    pub(super) rx: Consumer,
    pub(super) sent: u64,
    pub(super) consumed: u64,
    lent: Vec<(Area, u64)>,
}

impl Program {
    /// Publishes a call; returns its tag.
    pub(super) fn call(&mut self, op: Op, args: &[u64], flags: u8) -> u32 {
        self.tag += 1;
        let path = ReturnPath { client: self.number, ring: 0, tag: self.tag };
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        let call = RawCall { op, priority: 0, flags, path, args: all };
        self.requests.push(&call.encode()).unwrap();
        self.tag
    }

    /// The result of a call, if it has come.
    pub(super) fn result(&mut self, tag: u32) -> Option<Result<[u64; 6], Errno>> {
        while let Some(slot) = self.results.pop().unwrap() {
            let result = RawResult::decode(&slot);
            assert_eq!((result.path.client, result.path.ring), (self.number, 0));
            let earlier = self.done.insert(result.path.tag, result.outcome);
            assert!(earlier.is_none(), "a call was answered twice");
        }
        self.done.remove(&tag)
    }

    pub(super) fn attach(&self, id: u64) -> Sock {
        let id = SocketId::from_word(id);
        Sock {
            id,
            words: self.layout.socket_words(&self.region, id.index).unwrap(),
            tx: Producer::attach(&self.region, self.layout.tx_queue(id.index), QUEUE).unwrap(),
            rx: Consumer::attach(&self.region, self.layout.rx_queue(id.index), QUEUE).unwrap(),
            sent: 0,
            consumed: 0,
            lent: Vec::new(),
        }
    }

    pub(super) fn mark_dirty(&self, sock: &Sock) {
        self.head.dirty.set(sock.id.index);
    }

    /// Sends up to `bytes`, one descriptor for each area; returns how many were queued.
    pub(super) fn send(
        &mut self,
        sock: &mut Sock,
        bytes: &[u8],
        peer: Option<SocketAddr>,
    ) -> usize {
        let released = sock.words.tx_released.load(Ordering::Acquire);
        assert!(released <= sock.sent, "released {released} of {} sent", sock.sent);
        sock.lent.retain(|(_, end)| *end > released);
        let mut queued = 0;
        while queued < bytes.len() && sock.tx.free().unwrap() > 0 {
            let limit = sock.words.tx_limit.load(Ordering::Acquire);
            let room = usize::try_from(limit.saturating_sub(sock.sent - released)).unwrap();
            let now = room.min(bytes.len() - queued).min(16384);
            if now == 0 {
                break;
            }
            let Ok(area) = self.tx_pool.alloc(4) else { break };
            area.write(0, &bytes[queued..queued + now]).unwrap();
            sock.sent += now as u64;
            queued += now;
            let len = u32::try_from(now).unwrap();
            let descriptor =
                DataDescriptor { area: area.lend(), offset: 0, len, flags: DataFlags::NONE, peer };
            sock.tx.push(&descriptor.encode()).unwrap();
            sock.words.tx_bytes.store(sock.sent, Ordering::Release);
            sock.lent.push((area, sock.sent));
        }
        self.mark_dirty(sock);
        queued
    }

    /// Takes all received bytes of a stream.
    pub(super) fn recv(&mut self, sock: &mut Sock) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Some(slot) = sock.rx.pop().unwrap() {
            let descriptor = DataDescriptor::decode(&slot).unwrap();
            bytes.extend(self.read(&descriptor));
        }
        sock.consumed += bytes.len() as u64;
        assert_eq!(sock.consumed, sock.words.rx_bytes.load(Ordering::Acquire));
        sock.words.rx_consumed.store(sock.consumed, Ordering::Release);
        self.mark_dirty(sock);
        bytes
    }

    /// The bytes that a descriptor names.
    pub(super) fn read(&self, descriptor: &DataDescriptor) -> Vec<u8> {
        let &DataDescriptor { area, offset, len, .. } = descriptor;
        let mut bytes = vec![0; len as usize];
        if len > 0 {
            let frames = self.frames.as_ref();
            let pool = match descriptor.frame_region() {
                None => &self.rx_pool,
                Some(region) => frames.filter(|_| region == 0).expect("it may read frames"),
            };
            let at = pool.borrow(area, offset, len).unwrap();
            pool.region().read(at, &mut bytes).unwrap();
        }
        bytes
    }
}

impl Sock {
    pub(super) fn word(&self) -> u64 {
        self.id.to_word()
    }

    pub(super) fn flags(&self) -> SocketFlags {
        SocketFlags::from_bits_retain(self.words.flags.load(Ordering::Acquire))
    }

    pub(super) fn has(&self, bits: SocketFlags) -> bool {
        self.flags().has(bits)
    }

    pub(super) fn error(&self) -> i32 {
        i32::try_from(self.words.error.load(Ordering::Acquire)).unwrap()
    }
}

/// One server, its driver and the programs' regions.
pub(super) struct Host {
    pub(super) server: Server,
    pub(super) driver: Driver,
    pub(super) address: Ipv4Addr,
    pub(super) events: Vec<ServerEvent>,
    /// The frame region, where programs may read frames.
    frames: Option<PoolMap>,
}

impl Host {
    /// `strict`: the server loses access to the pages that it hands over.
    pub(super) fn new(last: u8, (strict, share_frames): (bool, bool)) -> Self {
        let address = Ipv4Addr::new(10, 0, 0, last);
        let interface = InterfaceSettings {
            name: "eth0".to_owned(),
            addresses: vec![Prefixed { address: address.into(), prefix: 24 }],
            ..InterfaceSettings::default()
        };
        let mut host = Self::with(last, interface, Ipv6Mode::Off, (strict, share_frames));
        host.server.iterate(Instant::ZERO);
        assert_eq!(host.server.take_events(), [ServerEvent::InterfaceReady { nic: 0 }]);
        host
    }

    /// A server whose driver has just registered its interface.
    pub(super) fn with(
        last: u8,
        interface: InterfaceSettings,
        ipv6: Ipv6Mode,
        (strict, share_frames): (bool, bool),
    ) -> Self {
        let address = Ipv4Addr::new(10, 0, 0, last);
        let config = InetConfig {
            instance: "test".to_owned(),
            ipv6,
            rp_filter: 0,
            tcp: TcpDefaults::default(),
            share_frames,
            busy_poll: BusyPoll::OFF,
            keep_awake: false,
        };
        let mut server = Server::new(config, [last; 16]).unwrap();
        let (region, fd) = Region::create("frames", LAYOUT.len, Backing::Small).unwrap();
        let frames = Region::map(fd.as_fd(), LAYOUT.len, Access::ReadOnly).unwrap();
        let frames = share_frames.then(|| PoolMap::attach(&frames, LAYOUT.pool, CLIENT).unwrap());
        let fds = vec![fd, shm::eventfd().unwrap(), shm::eventfd().unwrap()];
        let add = ServerRequest::AddNic { nic: 0, interface, strict, offload: false, umem: false };
        assert_eq!(server.request(Instant::ZERO, add, fds), ServerReply::Done);
        let mut driver = Driver::new(region);
        driver.attach(0x0200_0000_0000 | u64::from(last));
        Self { server, driver, address, events: Vec::new(), frames }
    }

    /// Admits a program with one thread.
    pub(super) fn admit(&mut self, number: u16, params: ClientParams) -> Program {
        let layout = params.layout().unwrap();
        let (region, fd) = Region::create("client", layout.len, Backing::Small).unwrap();
        let read_only = Region::map(fd.as_fd(), layout.len, Access::ReadOnly).unwrap();
        self.driver.clients.insert(number, read_only);
        let add = ServerRequest::AddClient { client: number, params };
        let fds = vec![fd, shm::eventfd().unwrap()];
        assert_eq!(self.server.request(Instant::ZERO, add, fds), ServerReply::Done);
        let (ours, bell) = shm::doorbell().unwrap();
        let add = ServerRequest::AddThread { client: number, thread: 0 };
        let fds = vec![ours];
        assert_eq!(self.server.request(Instant::ZERO, add, fds), ServerReply::Done);
        Program {
            number,
            head: layout.head(&region).unwrap(),
            requests: Producer::attach(&region, layout.request_ring(0), REQUESTS).unwrap(),
            results: Consumer::attach(&region, layout.result_ring(0), RESULTS).unwrap(),
            tx_pool: Pool::create(&region, layout.tx_pool, CLIENT).unwrap(),
            rx_pool: PoolMap::attach(&region, layout.rx_pool, CLIENT).unwrap(),
            frames: self.frames.clone(),
            bell,
            tag: 0,
            done: HashMap::new(),
            layout,
            region,
        }
    }

    pub(super) fn remove(&mut self, number: u16, now: Instant) {
        let remove = ServerRequest::RemoveClient { client: number };
        assert_eq!(self.server.request(now, remove, Vec::new()), ServerReply::Done);
    }

    pub(super) fn counter(&mut self, name: &str) -> u64 {
        let reply = self.server.request(Instant::ZERO, ServerRequest::Counters, Vec::new());
        let ServerReply::Counters { counters, .. } = reply else { panic!("{reply:?}") };
        counters.into_iter().find(|(n, _)| n == name).unwrap().1
    }

    /// Free pages of a pool by name.
    pub(super) fn free(&mut self, name: &str) -> Option<u32> {
        let reply = self.server.request(Instant::ZERO, ServerRequest::Counters, Vec::new());
        let ServerReply::Counters { pools, .. } = reply else { panic!("{reply:?}") };
        pools.into_iter().find(|pool| pool.name == name).map(|pool| pool.free)
    }

    pub(super) fn states(&mut self) -> Vec<String> {
        let request = ServerRequest::Ss { info: true, from: 0 };
        let reply = self.server.request(Instant::ZERO, request, Vec::new());
        let ServerReply::Sockets { sockets, more: false } = reply else { panic!("{reply:?}") };
        sockets.into_iter().map(|row| row.state).collect()
    }

    fn iterate(&mut self, now: Instant) -> bool {
        let progress = self.server.iterate(now);
        self.events.extend(self.server.take_events());
        progress
    }
}

/// Two hosts on one link.
pub(super) struct World {
    pub(super) a: Host,
    pub(super) b: Host,
    pub(super) now: Instant,
    /// Frames on the link so far.
    pub(super) frames: u64,
    /// One of so many frames is lost; 0 for none.
    pub(super) lose: u64,
}

impl World {
    pub(super) fn new() -> Self {
        Self::with(false)
    }

    pub(super) fn with(strict: bool) -> Self {
        Self::of((strict, false))
    }

    /// Programs may read frames.
    pub(super) fn sharing() -> Self {
        Self::of((false, true))
    }

    fn of(how: (bool, bool)) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        Self { a: Host::new(1, how), b: Host::new(2, how), now, frames: 0, lose: 0 }
    }

    /// One iteration of all. 1 ms passes when there was nothing to do, else 10 us.
    pub(super) fn step(&mut self) {
        let mut progress = self.a.iterate(self.now) | self.b.iterate(self.now);
        let (from_a, from_b) = (self.a.driver.transmit(), self.b.driver.transmit());
        progress |= !from_a.is_empty() || !from_b.is_empty();
        for (frames, to) in [(from_a, &mut self.b), (from_b, &mut self.a)] {
            for frame in frames {
                self.frames += 1;
                if self.lose == 0 || !self.frames.is_multiple_of(self.lose) {
                    to.driver.receive(&frame);
                }
            }
        }
        self.now += if progress { Duration::from_micros(10) } else { Duration::from_millis(1) };
    }

    /// Steps until `done`, at most `limit` of simulated time.
    pub(super) fn run_for(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) {
        let end = self.now + limit;
        while !done(self) {
            assert!(self.now < end, "not done after {limit:?}");
            self.step();
        }
    }

    pub(super) fn run(&mut self, done: impl FnMut(&mut Self) -> bool) {
        self.run_for(Duration::from_secs(20), done);
    }

    /// Lets everything come to rest.
    pub(super) fn rest(&mut self) {
        let end = self.now + Duration::from_millis(300);
        while self.now < end {
            self.step();
        }
    }

    /// Calls and waits for the result.
    pub(super) fn call(
        &mut self,
        program: &mut Program,
        op: Op,
        args: &[u64],
        flags: u8,
    ) -> Result<[u64; 6], Errno> {
        let tag = program.call(op, args, flags);
        let mut result = None;
        self.run(|_| {
            result = program.result(tag);
            result.is_some()
        });
        result.unwrap()
    }

    pub(super) fn socket(&mut self, program: &mut Program, kind: SocketKind) -> Sock {
        let id =
            self.call(program, Op::Socket, &[kind.to_word(), Family::V4.to_word()], 0).unwrap()[0];
        program.attach(id)
    }

    /// Sets an option from its value's bytes.
    pub(super) fn set_option(
        &mut self,
        program: &mut Program,
        socket: u64,
        level: i32,
        name: i32,
        value: &[u8],
    ) -> Result<(), Errno> {
        let [a, b, c] = raw::value_words(value);
        let key = OptionKey { level, name }.to_word();
        let args = [socket, key, value.len() as u64, a, b, c];
        self.call(program, Op::SetSockOpt, &args, 0).map(drop)
    }

    /// The first 40 bytes of an option's value.
    pub(super) fn option(
        &mut self,
        program: &mut Program,
        socket: u64,
        level: i32,
        name: i32,
    ) -> Result<Vec<u8>, Errno> {
        let key = OptionKey { level, name }.to_word();
        let [len, words @ ..] = self.call(program, Op::GetSockOpt, &[socket, key, 0], 0)?;
        Ok(raw::value_bytes(&words, usize::try_from(len).unwrap()))
    }

    pub(super) fn bind(&mut self, program: &mut Program, sock: &Sock, addr: SocketAddr) {
        self.call(program, Op::Bind, &with(sock, addr), 0).unwrap();
    }

    /// A listening socket.
    pub(super) fn listener(&mut self, program: &mut Program, port: u16) -> Sock {
        let sock = self.socket(program, SocketKind::Stream);
        self.bind(program, &sock, on_any(port));
        self.call(program, Op::Listen, &[sock.word(), 16], 0).unwrap();
        sock
    }

    /// A connection from `client` (of host a) to a new listener of `server` (of host b).
    pub(super) fn connect(
        &mut self,
        client: &mut Program,
        server: &mut Program,
        port: u16,
    ) -> (Sock, Sock) {
        let listener = self.listener(server, port);
        let sock = self.socket(client, SocketKind::Stream);
        let to = SocketAddr::from((self.b.address, port));
        self.call(client, Op::Connect, &with(&sock, to), 0).unwrap();
        let accepted = self.call(server, Op::Accept, &[listener.word()], 0).unwrap();
        let peer = addr_from_words([accepted[1], accepted[2], accepted[3]]).unwrap();
        assert_eq!(peer.ip(), self.a.address);
        let child = server.attach(accepted[0]);
        self.call(server, Op::Close, &[listener.word()], 0).unwrap();
        assert!(sock.has(SocketFlags::OPEN | SocketFlags::CONNECTED), "{:?}", sock.flags());
        assert!(child.has(SocketFlags::OPEN | SocketFlags::CONNECTED), "{:?}", child.flags());
        (sock, child)
    }
}

pub(super) fn with(sock: &Sock, addr: SocketAddr) -> [u64; 4] {
    let [a, b, c] = addr_to_words(addr);
    [sock.word(), a, b, c]
}

pub(super) fn on_any(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))
}

/// Bytes whose content tells their position.
pub(super) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i ^ i >> 8 ^ i >> 16).to_le_bytes()[0]).collect()
}
