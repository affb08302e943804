//! A program that writes garbage: slots into its rings and queues, words, indices, areas.
//!
//! Every slot is first given to all decoders of `abi`, then to a real inet server that a second,
//! good program uses too. For any input there is no panic, the server comes to rest, and the good
//! program's call is still answered.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use abi::address::addr_to_words;
use abi::call::{CallFlags, Op, PackagedCall, PackagedResult, Reply, Request, ReturnPath};
use abi::client::{CLIENT, ClientLayout, ClientParams, HeadWords, QUEUE, REQUESTS, RESULTS};
use abi::control::{InetConfig, ServerEvent, ServerReply, ServerRequest};
use abi::data::{DataDescriptor, DataFlags};
use abi::frame::{DriverCall, FillSlot, TxFrame};
use arbitrary::{Result, Unstructured};
use inet::Instant;
use inet_server::SteppedServer;
use shm::{Area, Backing, Consumer, Pool, Producer, Region};

use crate::packet::OURS;

const PARAMS: ClientParams =
    ClientParams { threads: 1, sockets: 4, area_pages: 1, tx_pages: 16, rx_pages: 96 };
/// Turns after which a server that is left alone must be at rest.
const MAX_ITERATIONS: usize = 10_000;
const BAD: u16 = 1;
const GOOD: u16 = 2;

type Slot = [u64; 8];

/// A program's side of its region.
struct Program {
    number: u16,
    region: Arc<Region>,
    layout: ClientLayout,
    head: HeadWords,
    requests: Producer,
    results: Consumer,
    pool: Pool,
    /// The areas that it has sent and not freed.
    sent: Vec<Area>,
    _bell: OwnedFd,
}

struct CallSlotsRun {
    server: SteppedServer,
    now: Instant,
    faulted: bool,
    /// The server needs nothing of the bad client any more.
    released: bool,
}

impl CallSlotsRun {
    fn new() -> Self {
        let config = InetConfig { instance: "fuzz".to_owned(), ..Default::default() };
        let server = SteppedServer::new(config, [5; 16]).expect("an epoll set");
        let now = Instant::from_nanos(1_000_000_000);
        Self { server, now, faulted: false, released: false }
    }

    fn request(&mut self, request: ServerRequest, fds: Vec<OwnedFd>) {
        let reply = self.server.request(self.now, request, fds);
        assert_eq!(reply, ServerReply::Done);
    }

    fn admit(&mut self, number: u16) -> Program {
        let layout = PARAMS.layout().expect("legal parameters");
        let (region, fd) = Region::create("fuzz", layout.len, Backing::Small).expect("a region");
        let bell = shm::eventfd().expect("an eventfd");
        let add = ServerRequest::AddClient { client: number, params: PARAMS };
        self.request(add, vec![fd, bell]);
        let (theirs, bell) = shm::doorbell().expect("a socket pair");
        self.request(ServerRequest::AddThread { client: number, thread: 0 }, vec![theirs]);
        let requests = Producer::attach(&region, layout.request_ring(0), REQUESTS);
        let results = Consumer::attach(&region, layout.result_ring(0), RESULTS);
        Program {
            number,
            head: layout.head(&region).expect("a region of this layout"),
            requests: requests.expect("a ring"),
            results: results.expect("a ring"),
            pool: Pool::create(&region, layout.tx_pool, CLIENT).expect("a pool"),
            sent: Vec::new(),
            _bell: bell,
            layout,
            region,
        }
    }

    /// Iterates until there is nothing to do.
    fn rest(&mut self) {
        let iterations = (0..MAX_ITERATIONS).take_while(|_| self.server.iterate(self.now)).count();
        assert!(iterations < MAX_ITERATIONS, "the server does not come to rest");
        for event in self.server.take_events() {
            match event {
                ServerEvent::ClientFault { client: BAD, .. } => self.faulted = true,
                ServerEvent::ClientReleased { client: BAD } => self.released = true,
                ServerEvent::ClientFault { client, reason } => panic!("{client}: {reason}"),
                _ => {}
            }
        }
    }
}

fn decode_all(slot: &Slot) {
    let _ = DriverCall::decode(slot);
    let result = PackagedResult::decode(slot);
    if let Ok(call) = PackagedCall::decode(slot) {
        let _ = call.request();
        let words = result.ok().and_then(|result| result.outcome.ok());
        let _ = words.map(|words| Reply::decode(call.op(), &words));
    }
    let _ = (DataDescriptor::decode(slot), TxFrame::decode(slot));
    let _ = FillSlot::decode(slot);
}

/// A call that is nearly right: a known operation, small numbers, addresses.
fn call(u: &mut Unstructured<'_>, client: u16) -> Result<Slot> {
    let number = u.int_in_range(1..=20)?;
    let path = ReturnPath { client, ring: u16::from(u.ratio(1, 32)?), tag: u.arbitrary()? };
    let mut args = [0; 6];
    // A socket's name: its place, and how often the place was used before.
    args[0] = u64::from(u.int_in_range(0_u8..=5)?) | u64::from(u.int_in_range(0_u8..=3)?) << 32;
    for arg in &mut args[1..] {
        *arg = if u.arbitrary()? { u64::from(u.arbitrary::<u8>()?) } else { u.arbitrary()? };
    }
    if u.arbitrary()? {
        let address = *u.choose(&[OURS, std::net::Ipv4Addr::UNSPECIFIED, [127, 0, 0, 1].into()])?;
        args[1..4].copy_from_slice(&addr_to_words((address, *u.choose(&[0, 80, 443])?).into()));
    }
    if number == u64::from(Op::Socket as u16) {
        (args[0], args[1]) = (*u.choose(&[1, 2])?, *u.choose(&[4, 6, 4, 5])?);
    }
    let flags = CallFlags::NONBLOCK.when(u.arbitrary()?);
    let request = Request::Null.encode();
    let call = PackagedCall::new(path, u.arbitrary()?, flags, request);
    let mut slot = call.encode();
    slot[0] = slot[0] & !0xffff | number;
    slot[2..].copy_from_slice(&args);
    Ok(slot)
}

/// A descriptor that is nearly right: an area that exists, or once did.
fn descriptor(u: &mut Unstructured<'_>, bad: &mut Program) -> Result<Slot> {
    let Ok(area) = bad.pool.alloc(1) else { return u.arbitrary() };
    let (offset, len) = (u.int_in_range(0..=64)?, u.int_in_range(0..=4200)?);
    let peer = if u.arbitrary()? { Some((OURS, 80).into()) } else { None };
    let flags = DataFlags::MORE.when(u.arbitrary()?);
    let mut slot = DataDescriptor { area: area.lend(), offset, len, flags, peer }.encode();
    if u.ratio(1, 4)? {
        slot[u.choose_index(8)?] ^= 1 << u.int_in_range(0..=63)?;
    }
    if !u.ratio(1, 8)? {
        bad.sent.push(area);
    }
    Ok(slot)
}

fn step(u: &mut Unstructured<'_>, fuzz: &mut CallSlotsRun, bad: &mut Program) -> Result<()> {
    match u.int_in_range(0..=9)? {
        0..=3 => {
            let slot = if u.ratio(1, 8)? { u.arbitrary()? } else { call(u, bad.number)? };
            decode_all(&slot);
            let _ = bad.requests.push(&slot);
        }
        4 | 5 => {
            let socket = u.int_in_range(0..=3)?;
            let slot = descriptor(u, bad)?;
            decode_all(&slot);
            let queue = Producer::attach(&bad.region, bad.layout.tx_queue(socket), QUEUE);
            let _ = queue.expect("a queue").push(&slot);
            let words = bad.layout.socket_words(&bad.region, socket).expect("a socket");
            words.tx_bytes.fetch_add(u64::from(u.arbitrary::<u16>()?), Ordering::SeqCst);
            bad.head.dirty.set(socket);
        }
        6 => {
            let words = bad.layout.socket_words(&bad.region, u.int_in_range(0..=3)?);
            let words = words.expect("a socket");
            let choice = [&words.rx_consumed.0, &words.tx_bytes, &words.waiters.bits];
            let word = *u.choose(&choice)?;
            word.store(u.arbitrary::<u64>()? >> u.int_in_range(0..=63)?, Ordering::SeqCst);
            bad.head.dirty.words[0].store(u.arbitrary()?, Ordering::SeqCst);
            bad.head.dirty.summary.store(u.arbitrary()?, Ordering::SeqCst);
        }
        7 => {
            // Any word before the pools: bells, indices, slots, owner tables.
            let words = bad.layout.rx_pool.pages_at.min(bad.layout.tx_pool.pages_at) / 8;
            let at = u.choose_index(words.max(1))? * 8;
            let _ = bad.region.write(at, &u.arbitrary::<u64>()?.to_le_bytes());
        }
        8 => fuzz.now += Duration::from_millis(1 << u.int_in_range(0..=17)?),
        _ => while let Ok(Some(_)) = bad.results.pop() {},
    }
    fuzz.rest();
    Ok(())
}

/// See the module.
pub fn run(data: &[u8]) {
    let mut fuzz = CallSlotsRun::new();
    let mut bad = fuzz.admit(BAD);
    let mut good = fuzz.admit(GOOD);
    let mut u = Unstructured::new(data);
    while !u.is_empty() && !fuzz.faulted && step(&mut u, &mut fuzz, &mut bad).is_ok() {}
    let path = ReturnPath { client: GOOD, ring: 0, tag: 1 };
    let request = Request::Null.encode();
    let call = PackagedCall::new(path, 0, CallFlags::NONE, request);
    good.requests.push(&call.encode()).expect("room");
    fuzz.rest();
    let slot = good.results.pop().expect("an intact ring").expect("an answer");
    assert_eq!(PackagedResult::decode(&slot).map(|result| result.path), Ok(path));
}

/// A server whose bad clients come and go.
pub struct ClientLives(CallSlotsRun);

impl std::fmt::Debug for ClientLives {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientLives").finish_non_exhaustive()
    }
}

impl Default for ClientLives {
    fn default() -> Self {
        Self(CallSlotsRun::new())
    }
}

impl ClientLives {
    /// A whole life: a client is admitted, does what `data` says, and leaves. Returns when the
    /// server needs nothing of it any more; false if it broke the rules.
    pub fn live(&mut self, data: &[u8]) -> bool {
        let fuzz = &mut self.0;
        (fuzz.faulted, fuzz.released) = (false, false);
        let mut bad = fuzz.admit(BAD);
        let mut u = Unstructured::new(data);
        while !u.is_empty() && !fuzz.faulted && step(&mut u, fuzz, &mut bad).is_ok() {}
        // Also after a fault, as the supervisor does.
        fuzz.request(ServerRequest::RemoveClient { client: BAD }, Vec::new());
        for _ in 0..3600 {
            fuzz.rest();
            if fuzz.released {
                break;
            }
            fuzz.now += Duration::from_secs(1);
        }
        assert!(fuzz.released, "the server still needs a client's memory after an hour");
        !fuzz.faulted
    }

    /// Lets all timers of the ended connections run out.
    pub fn wait(&mut self) {
        for _ in 0..600 {
            self.0.now += Duration::from_secs(1);
            self.0.rest();
        }
    }
}
