//! One instance in this process: the inet server step by step, a driver of a device in memory, a
//! peer behind the device, and a client of the real library.
//!
//! While the *pump* runs, its own thread moves all of them, and the client's calls end as in any
//! program. While the pump rests, only the requested steps happen, so they can be counted.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use abi::client::ClientParams;
use abi::companion::Companion as _;
use abi::control::{
    BusyPoll, ClientReply, ClientRequest, FaultConfig, InetConfig, NicConfig, NumberedRequest,
    ServerOutput, ServerReply, ServerRequest,
};
use abi::network::{InterfaceSettings, Ipv6Mode, Prefixed};
use abi::nic::NicLayout;
use abi::offload;
use anyhow::{Context as _, Result, bail};
use inet::Instant;
use inet_server::SteppedServer;
use nic_driver::Driver;
use nic_driver::device::{Device, Part, Received};
use rustix::event::epoll::EventFlags;
use shm::{Backing, Channel, Region, Word32};
use sockets::Client;

use crate::counting::{Kind, Party, aside, count};
use crate::peer::{Packet, Peer, carried};

const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEERS: u8 = 2;
/// The peer listens here, and connects to it.
pub(crate) const PORT: u16 = 80;

/// The key of a driver's device in its epoll set.
const DEVICE: u64 = 2;
/// The number of the client. 0 stands for shared sockets.
const CLIENT: u16 = 1;

/// The frames on their way through the device.
#[derive(Default)]
struct Queues {
    incoming: VecDeque<(Vec<u8>, offload::RxOffload)>,
    sent: Vec<(Vec<u8>, offload::TxOffload)>,
}

/// A device that keeps frames in memory. Its own instructions are not counted.
struct Memory {
    queues: Arc<Mutex<Queues>>,
    offload: bool,
    fd: OwnedFd,
}

impl Device for Memory {
    fn features(&self) -> offload::Features {
        use offload::Features as F;
        match self.offload {
            true => F::TX_CHECKSUM.with(F::TSO4).with(F::TSO6).with(F::RX_CHECKSUM).with(F::GRO),
            false => F::NONE,
        }
    }

    fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<Received>> {
        Ok(aside(|| {
            let (frame, offload) = lock(&self.queues).incoming.pop_front()?;
            into[..frame.len()].copy_from_slice(&frame);
            Some(Received { len: frame.len(), offload })
        }))
    }

    fn transmit(&mut self, frame: &[Part<'_>], left: offload::TxOffload) -> io::Result<bool> {
        aside(|| {
            let mut bytes = Vec::new();
            for part in frame {
                part.append_to(&mut bytes, usize::MAX);
            }
            lock(&self.queues).sent.push((bytes, left));
        });
        Ok(true)
    }

    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All but the client.
pub(crate) struct World {
    pub(crate) server: SteppedServer,
    pub(crate) driver: Driver,
    pub(crate) peer: Peer,
    pub(crate) now: Instant,
    queues: Arc<Mutex<Queues>>,
    line: Channel,
    frames: OwnedFd,
    shared: bool,
    asked: u64,
    /// The bell of the client's first thread.
    bell: Option<Word32>,
}

impl World {
    fn new(kind: Kind) -> Result<Self> {
        let now = Instant::from_nanos(1_000_000_000);
        let config = InetConfig {
            instance: "instructions".to_owned(),
            ipv6: Ipv6Mode::Off,
            share_frames: kind.shared,
            ..InetConfig::default()
        };
        let mut server = SteppedServer::new(config, [7; 16])?;
        let len = NicLayout::new(kind.offload).len;
        let (region, frames) = Region::create("frames", len, Backing::Small)?;
        let (mut line, end) = Channel::pair()?;
        let (bell, inet_bell) = (shm::eventfd()?, shm::eventfd()?);
        let nic = NicConfig {
            device: "memory".to_owned(),
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1500,
            fault: FaultConfig::default(),
            offload: kind.offload,
            umem: false,
            strict: kind.strict,
            busy_poll: BusyPoll::OFF,
        };
        let ask = NumberedRequest { id: 0, request: ServerRequest::ConfigureNic(nic) };
        line.send(&serde_json::to_vec(&ask)?, &[frames.as_fd(), bell.as_fd(), inet_bell.as_fd()])?;
        let interface = InterfaceSettings {
            name: "eth0".to_owned(),
            addresses: vec![Prefixed { address: OURS.into(), prefix: 24 }],
            routes: Vec::new(),
            dhcp: false,
            dad_transmits: 0,
            awaits_router: false,
        };
        let add = ServerRequest::AddNic {
            nic: 0,
            interface,
            strict: kind.strict,
            offload: kind.offload,
            umem: false,
        };
        let fds = vec![frames.try_clone()?, inet_bell.try_clone()?, bell.try_clone()?];
        done(&server.request(now, add, fds))?;
        drop(region);
        let queues = Arc::new(Mutex::new(Queues::default()));
        let (inner, offload) = (Arc::clone(&queues), kind.offload);
        let driver = Driver::with_device(end, move |_, _| {
            let fd = shm::eventfd().map_err(|error| nic_driver::DriverError::System {
                doing: "make an eventfd",
                error,
            })?;
            Ok(Box::new(Memory { queues: Arc::clone(&inner), offload, fd }))
        })?;
        answer(&mut line)?;
        let mut peer = Peer::new(PEERS, kind.offload);
        peer.listen(PORT);
        let shared = kind.shared;
        Ok(Self { server, driver, peer, now, queues, line, frames, shared, asked: 0, bell: None })
    }

    /// Everything that the device has sent goes to the peer, and its answers to the device.
    pub(crate) fn carry(&mut self) -> bool {
        let sent = std::mem::take(&mut lock(&self.queues).sent);
        let mut any = !sent.is_empty();
        for (frame, left) in sent {
            let segment = left.segments.map_or(0, |segments| segments.size);
            let known = inet::RxOffload { verified: left.checksum.is_some(), segment, behind: 0 };
            self.peer.handle(self.now, Packet(frame, known));
        }
        self.peer.take(self.now);
        self.peer.poll(self.now);
        for emitted in std::mem::take(&mut self.peer.wire.0) {
            any = true;
            let kind = emitted.1.segments.is_some();
            let Packet(frame, known) = carried(emitted);
            let segments = kind.then_some(offload::Segments {
                kind: offload::SegmentKind::Tcp4,
                size: known.segment,
            });
            let known = offload::RxOffload { verified: known.verified, segments };
            lock(&self.queues).incoming.push_back((frame, known));
            // As the epoll set would.
            self.driver.woken(DEVICE, EventFlags::IN);
        }
        any
    }

    /// Has the client's first thread announced that it sleeps?
    pub(crate) fn is_awaited(&self) -> bool {
        self.bell.as_ref().is_some_and(|bell| bell.load(Ordering::SeqCst) != 0)
    }

    /// Steps of everybody until there is nothing to do, and then some time.
    pub(crate) fn rest(&mut self) -> Result<()> {
        while self.server.iterate(self.now) | self.driver.step()? | self.carry() {}
        self.now += Duration::from_micros(50);
        Ok(())
    }

    /// Has the driver carry out a request; it looks at its line now and then only.
    fn ask_driver(&mut self, request: ServerRequest, fds: &[BorrowedFd<'_>]) -> Result<()> {
        self.asked += 1;
        let ask = NumberedRequest { id: self.asked, request };
        self.line.send(&serde_json::to_vec(&ask)?, fds)?;
        for _ in 0..300 {
            self.driver.step()?;
        }
        answer(&mut self.line)
    }

    /// Answers a client.
    fn serve(&mut self, client: &mut Channel, request: &ClientRequest, threads: u16) -> Result<()> {
        let params = ClientParams::default();
        let (reply, fds) = match request {
            ClientRequest::Hello { .. } => {
                let layout = params.layout()?;
                let (memory, region) = Region::create("client", layout.len, Backing::Small)?;
                self.bell = Some(layout.thread_bell(&memory, 0)?);
                let bell = shm::eventfd()?;
                let add = ServerRequest::AddClient { client: CLIENT, params };
                self.ask_driver(add.clone(), &[region.as_fd()])?;
                let fds = vec![region.try_clone()?, bell.try_clone()?];
                done(&self.server.request(self.now, add, fds))?;
                let mut fds = vec![region, bell];
                if self.shared {
                    fds.push(self.frames.try_clone()?);
                }
                let frames = u16::from(self.shared);
                (ClientReply::Welcome { client: CLIENT, params, frames }, fds)
            }
            ClientRequest::AttachThread => {
                let (ours, theirs) = shm::doorbell()?;
                let add = ServerRequest::AddThread { client: CLIENT, thread: threads };
                done(&self.server.request(self.now, add, vec![ours]))?;
                (ClientReply::Thread { thread: threads }, vec![theirs])
            }
            other => bail!("{other:?} is none of the benchmark's requests"),
        };
        Self::reply(client, &reply, &fds)
    }

    fn reply(client: &mut Channel, reply: &ClientReply, fds: &[OwnedFd]) -> Result<()> {
        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        Ok(client.send(&serde_json::to_vec(reply)?, &fds)?)
    }
}

fn done(reply: &ServerReply) -> Result<()> {
    match reply {
        ServerReply::Done => Ok(()),
        other => bail!("the inet server says {other:?}"),
    }
}

fn answer(line: &mut Channel) -> Result<()> {
    let message = line.recv()?.context("the driver ended")?;
    match serde_json::from_slice(&message.body)? {
        ServerOutput::Reply { reply, .. } => done(&reply),
        ServerOutput::Event(event) => bail!("the driver says {event:?}"),
        ServerOutput::Sandbox(sandbox) => bail!("the driver says {sandbox:?}"),
    }
}

/// A world with its threads, and a client.
pub(crate) struct Instance {
    world: Arc<Mutex<World>>,
    pumping: Arc<AtomicBool>,
    pub(crate) client: Arc<Client>,
    only: String,
}

impl Instance {
    /// An instance that counts the rows with `only` in their title.
    pub(crate) fn new(kind: Kind, only: &str) -> Result<Self> {
        let world = Arc::new(Mutex::new(World::new(kind)?));
        let pumping = Arc::new(AtomicBool::new(true));
        let name = format!("tasuki-instructions-{}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        // One of an earlier instance.
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        let (inner, on) = (Arc::clone(&world), Arc::clone(&pumping));
        thread::spawn(move || pump(&inner, &on));
        let inner = Arc::clone(&world);
        thread::spawn(move || supervise(&listener, &inner));
        let client = Client::connect(&path)?;
        std::fs::remove_file(&path)?;
        Ok(Self { world, pumping, client, only: only.to_owned() })
    }

    /// Is the row of this title to be counted?
    pub(crate) fn counts(&self, title: &str) -> bool {
        title.contains(&self.only)
    }

    /// A connection to the peer.
    pub(crate) fn connect(&self) -> Result<sockets::TcpStream> {
        let to = SocketAddr::from((Ipv4Addr::new(10, 0, 0, PEERS), PORT));
        let stream = sockets::TcpStream::connect_via(&self.client, to)?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Runs `act` while nothing else happens.
    pub(crate) fn alone<T>(&self, act: impl FnOnce(&mut World) -> Result<T>) -> Result<T> {
        self.pumping.store(false, Ordering::SeqCst);
        let mut world = lock(&self.world);
        world.rest()?;
        let done = act(&mut world);
        self.pumping.store(true, Ordering::SeqCst);
        done
    }
}

fn pump(world: &Mutex<World>, on: &AtomicBool) {
    loop {
        if on.load(Ordering::SeqCst) {
            let rested = lock(world).rest();
            rested.expect("moving frames in memory does not fail");
        }
        thread::sleep(Duration::from_micros(200));
    }
}

/// Admits one client.
fn supervise(listener: &UnixListener, world: &Mutex<World>) -> Result<()> {
    let (stream, _) = listener.accept()?;
    let mut client = Channel::from_fd(OwnedFd::from(stream));
    let mut threads = 0;
    while let Some(message) = client.recv()? {
        let request = serde_json::from_slice(&message.body)?;
        lock(world).serve(&mut client, &request, threads)?;
        threads += u16::from(request == ClientRequest::AttachThread);
    }
    Ok(())
}

/// Runs server, driver and far end until none of them has work.
pub(crate) fn settle(world: &mut World, on: bool, part: Party) -> Result<()> {
    loop {
        let served = count(on && part == Party::Server, || world.server.iterate(world.now));
        let driven = count(on && part == Party::Driver, || world.driver.step())?;
        let carried = world.carry();
        world.now += Duration::from_micros(20);
        if !(served | driven | carried) {
            return Ok(());
        }
    }
}
