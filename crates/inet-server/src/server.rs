//! The server without its line to the supervisor: everything it knows, and one turn of its event
//! loop.
//!
//! A turn moves bounded work through the stages in the order of the data path: frames that drivers
//! passed are taken back; received frames go through the core into clients' areas; calls and queues
//! of every client are served, starting with another client each turn; the core's output leaves;
//! and at the end all words and results are published and bells rung, once per turn and party;
//! programs' bells last, when a driver of the same thread has sent what the core had to send.
//!
//! A turn never waits. Whoever owns the thread calls [`Server::turn`] until it reports no progress,
//! then [`Server::announce`], looks with [`Server::has_work`] once more, and may sleep until
//! [`Server::deadline`].

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use std::{io, mem};

use abi::call::PackagedCall;
use abi::client::ClientParams;
use abi::control::{InetConfig, ServerEvent};
use abi::network::InterfaceSettings;
use abi::nic::NicLayout;
use abi::stages::{Stage, StageReport};
use inet::Instant;
use shm::{Access, Region, Spin};

use crate::client::Client;
use crate::engine::{Engine, Owner};
use crate::fault::ClientFault;
use crate::lend::Lending;
use crate::network::Network;
use crate::nic::{self, Input, Link};
use crate::sleep::Poller;
use crate::tx::ClientMemory;

/// Frames taken from one interface in one turn.
const FRAMES_PER_TURN: usize = 64;
/// While output waits for room with a driver that should ring us: how long to trust in that.
const NO_ROOM_RETRY: Duration = Duration::from_millis(1);

/// A client that is gone, but whose memory something still refers to.
struct Leaving {
    number: u16,
    memory: Arc<ClientMemory>,
    /// The last frame that can name the memory, known once no chunk is left.
    fence: Option<u64>,
    /// The supervisor knows that it is gone.
    told: bool,
}

/// The inet server.
pub(crate) struct Server {
    pub(crate) config: InetConfig,
    pub(crate) engine: Engine,
    pub(crate) clients: Vec<Option<Box<Client>>>,
    pub(crate) poller: Poller,
    pub(crate) network: Network,
    /// How the interface of each port is to be set up.
    interfaces: Vec<InterfaceSettings>,
    /// What the driver of each port said that is not attached yet.
    announced: Vec<Option<Link>>,
    leaving: Vec<Leaving>,
    /// What the supervisor is to be told.
    events: Vec<ServerEvent>,
    /// The client that the next turn serves first.
    first: usize,
    /// Room for the calls of one scan.
    scan: Vec<PackagedCall>,
    /// Of whoever owns the thread.
    pub(crate) spin: Spin,
    /// Sleep is announced: do the drivers ring for frames that they have passed?
    sleeping: Option<bool>,
}

/// A request of the supervisor that cannot be met; one sentence.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    #[error("interface {0} is here already")]
    NicExists(u16),
    #[error("interface {0} is not here")]
    NoNic(u16),
    #[error("client {0} is here already, or not wholly gone")]
    ClientExists(u16),
    #[error("client {0} is not here")]
    NoClient(u16),
    #[error("client {client} has no thread slot {thread}")]
    NoThread { client: u16, thread: u16 },
    #[error("{what} needs {want} file descriptors, {got} came")]
    Descriptors { what: &'static str, want: usize, got: usize },
    #[error("{0}")]
    Params(#[from] abi::client::BadParams),
    #[error("a region could not be mapped: {0}")]
    Region(#[from] shm::RegionError),
    #[error("a region is smaller than its layout: {0}")]
    Layout(#[from] shm::OutOfRange),
    #[error("a bell could not be watched: {0}")]
    Bell(#[source] io::Error),
    #[error("the inet server cannot do that")]
    NotOurs,
}

impl Server {
    /// A server without interfaces and clients. `secret` keys the core's hashes and sequence
    /// numbers.
    pub(crate) fn new(config: InetConfig, secret: [u8; 16]) -> io::Result<Self> {
        Ok(Self {
            engine: Engine::new(secret, &config),
            spin: Spin::new(Duration::from_micros(config.busy_poll.into())),
            config,
            clients: Vec::new(),
            poller: Poller::new()?,
            network: Network::default(),
            interfaces: Vec::new(),
            announced: Vec::new(),
            leaving: Vec::new(),
            events: Vec::new(),
            first: 0,
            scan: Vec::new(),
            sleeping: None,
        })
    }

    /// Takes up an interface: frame region, our bell, the driver's bell.
    pub(crate) fn add_nic(
        &mut self,
        number: u16,
        interface: InterfaceSettings,
        (strict, offload, umem): (bool, bool, bool),
        fds: Vec<OwnedFd>,
    ) -> Result<(), RequestError> {
        if self.engine.nics.contains(number) {
            return Err(RequestError::NicExists(number));
        }
        let [region, bell, driver] = descriptors("an interface", fds)?;
        let layout = NicLayout::of(offload, umem);
        let region = nic::map(&region, layout.len, strict)?;
        self.poller.add_bell(&bell).map_err(RequestError::Bell)?;
        self.engine.nics.add(number, &region, &layout, bell, driver)?;
        self.interfaces.push(interface);
        self.announced.push(None);
        Ok(())
    }

    /// Admits a client: region, our bell.
    pub(crate) fn add_client(
        &mut self,
        number: u16,
        params: ClientParams,
        fds: Vec<OwnedFd>,
    ) -> Result<(), RequestError> {
        let index = usize::from(number);
        let leaving = self.leaving.iter().any(|leaving| leaving.number == number);
        if leaving || self.clients.get(index).is_some_and(Option::is_some) {
            return Err(RequestError::ClientExists(number));
        }
        let [region, bell] = descriptors("a client", fds)?;
        let layout = params.layout()?;
        let region = Region::map(region.as_fd(), layout.len, Access::ReadWrite)?;
        self.poller.add_bell(&bell).map_err(RequestError::Bell)?;
        let lending = self.engine.lending.as_ref().map_or_else(Lending::new, Lending::another);
        let client = Client::new(number, params, layout, region, bell, lending)?;
        client.trace.want(self.engine.nics.trace.on);
        if self.clients.len() <= index {
            self.clients.resize_with(index + 1, || None);
        }
        self.clients[index] = Some(Box::new(client));
        self.engine.counters.admitted += 1;
        Ok(())
    }

    /// Takes up a thread of a client: the thread's bell.
    pub(crate) fn add_thread(
        &mut self,
        number: u16,
        thread: u16,
        fds: Vec<OwnedFd>,
    ) -> Result<(), RequestError> {
        let client = self.clients.get_mut(usize::from(number)).and_then(Option::as_mut);
        let client = client.ok_or(RequestError::NoClient(number))?;
        let [bell] = descriptors("a thread", fds)?;
        if client.add_thread(thread, bell)? {
            Ok(())
        } else {
            Err(RequestError::NoThread { client: number, thread })
        }
    }

    /// The supervisor says that a client is gone. One that was dropped before is now known to be.
    pub(crate) fn remove_client(&mut self, number: u16, orderly: bool) -> Result<(), RequestError> {
        if let Some(client) = self.clients.get_mut(usize::from(number)).and_then(Option::as_mut) {
            // What it called before it ended is still done: a close that nobody waited for. It may
            // have left nonsense, and is dropped anyway.
            let _ = client.serve_calls(&mut self.engine, &mut self.scan);
            self.drop_client(number, orderly, true);
            return Ok(());
        }
        let leaving = self.leaving.iter_mut().find(|leaving| leaving.number == number);
        leaving.ok_or(RequestError::NoClient(number))?.told = true;
        Ok(())
    }

    /// Ends a client's sockets and lets go of all that only it needs.
    fn drop_client(&mut self, number: u16, orderly: bool, told: bool) {
        let place = self.clients.get_mut(usize::from(number));
        let Some(mut client) = place.and_then(Option::take) else { return };
        client.leave(&mut self.engine, orderly);
        client.add_told(&mut self.engine.counters);
        self.poller.remove(client.bell());
        let memory = Arc::clone(&client.memory);
        self.leaving.push(Leaving { number, memory, fence: None, told });
    }

    /// A client broke the rules: it alone is dropped.
    fn fail(&mut self, number: u16, fault: &ClientFault) {
        let reason = format!("client {number} broke the rules of its region: {fault}");
        tracing::warn!(client = number, %fault, "client dropped");
        self.engine.counters.faults += 1;
        self.drop_client(number, false, false);
        self.events.push(ServerEvent::ClientFault { client: number, reason });
    }

    /// One turn of the event loop. Was there anything to do?
    pub(crate) fn turn(&mut self, now: Instant) -> bool {
        let progress = self.step(now, false);
        self.ring();
        progress
    }

    /// [`Server::turn`] that leaves the programs' bells to be rung, and may leave FINs to be
    /// acknowledged: see [`Server::defers_fin_acks`].
    pub(crate) fn turn_silently(&mut self, now: Instant) -> bool {
        self.step(now, true)
    }

    /// Do peers' FINs wait for our programs' answers? Then there is another [`Server::turn`]
    /// before a sleep.
    pub(crate) fn defers_fin_acks(&self) -> bool {
        self.engine.stack.defers_fin_acks()
    }

    fn step(&mut self, now: Instant, defer: bool) -> bool {
        self.engine.now = now;
        self.engine.counters.turns += 1;
        self.engine.nics.trace.mark(Stage::Dispatch);
        let sent_before = self.engine.nics.emitted();
        let mut progress = self.engine.nics.complete();
        progress |= self.release();
        progress |= self.receive_frames();
        progress |= self.drain_events();
        progress |= self.serve_clients();
        self.poll_core(defer);
        self.look_at_addresses();
        progress |= self.drain_events();
        for client in self.clients.iter_mut().flatten() {
            client.serve_closing(&mut self.engine);
        }
        // What can be released already is, in this turn.
        self.release();
        self.flush();
        self.let_go();
        if self.engine.nics.trace.on {
            self.take_marks();
        }
        let sent = self.engine.nics.emitted() - sent_before;
        self.engine.batches.frames_out.add(usize::try_from(sent).unwrap_or(usize::MAX));
        progress |= sent > 0;
        if !progress {
            self.engine.nics.restock(true);
            self.engine.nics.flush();
        }
        progress
    }

    /// Begins to mark the stages of sends, or ends it and tells what was found.
    pub(crate) fn trace(&mut self, on: bool) -> StageReport {
        if !on {
            self.take_marks();
        }
        self.engine.stack.set_traced(on);
        self.engine.nics.set_trace(on);
        self.clients.iter().flatten().for_each(|client| client.trace.want(on));
        if on { StageReport::default() } else { self.engine.nics.trace.report() }
    }

    fn take_marks(&mut self) {
        self.engine.nics.take_marks();
        for client in self.clients.iter_mut().flatten() {
            self.engine.nics.trace.take(&mut client.trace);
        }
    }

    /// Lets the core send what it has, as far as there is room, and wakes the drivers.
    fn poll_core(&mut self, defer: bool) {
        let Engine { stack, nics, now, .. } = &mut self.engine;
        match defer {
            true => stack.poll_deferring(*now, nics),
            false => stack.poll(*now, nics),
        }
        nics.restock(false);
        nics.flush();
        nics.trace.mark(Stage::InetRest);
    }

    fn receive_frames(&mut self) -> bool {
        let (mut progress, mut frames) = (false, 0);
        for port in 0..self.engine.nics.len() {
            for _ in 0..FRAMES_PER_TURN {
                let Some(input) = self.engine.nics.input(port) else { break };
                progress = true;
                match input {
                    Input::Frame(frame) => {
                        frames += 1;
                        let Engine { stack, nics, now, .. } = &mut self.engine;
                        // Before `ifattach` a frame has no interface to arrive at.
                        if let Some(id) = nics.interface(port) {
                            stack.handle_frame(*now, id, frame, nics);
                        }
                    }
                    Input::Attach(link) => self.attach(port, link),
                }
            }
        }
        self.engine.batches.frames_in.add(frames);
        for (number, reason) in mem::take(&mut self.engine.nics.lost) {
            tracing::error!(nic = number, reason, "interface lost");
            self.events.push(ServerEvent::DeviceLost { reason });
        }
        progress
    }

    /// A driver registers its interface; a second time after it was restarted.
    fn attach(&mut self, port: usize, link: Link) {
        self.engine.counters.nic_attached += 1;
        if let Some(id) = self.engine.nics.interface(port) {
            return self.engine.set_features(port, id, link.features);
        }
        if let Some(announced) = self.announced.get_mut(port) {
            *announced = Some(link);
        }
        // In their order, whichever driver is the quickest: so the first one has the first index.
        for (port, settings) in self.interfaces.iter().enumerate() {
            if self.engine.nics.interface(port).is_some() {
                continue;
            }
            let Some(link) = self.announced.get_mut(port).and_then(Option::take) else { return };
            let id = self.network.attach(&mut self.engine, settings, link, self.config.ipv6);
            self.engine.nics.set_interface(port, id);
            self.engine.set_features(port, id, link.features);
            if let Some(nic) = self.engine.nics.number(port) {
                self.network.await_addresses(self.engine.now, nic, id, settings);
            }
        }
    }

    /// Tells the supervisor of interfaces whose addresses are ours now, and the log of those that
    /// are somebody else's.
    fn look_at_addresses(&mut self) {
        self.network.tell_duplicates(&self.engine);
        if !self.network.is_settled() {
            let settled = self.network.settled(&self.engine).into_iter();
            self.events.extend(settled.map(|nic| ServerEvent::InterfaceReady { nic }));
        }
    }

    /// Has every interface that is attached its addresses?
    pub(crate) fn is_settled(&self) -> bool {
        self.network.is_settled()
    }

    /// Tells the link of interface `number` what we have and listen to there.
    pub(crate) fn announce_on(&mut self, number: u16) -> Result<(), RequestError> {
        let Engine { stack, nics, now, .. } = &mut self.engine;
        let port = (0..nics.len()).find(|port| nics.number(*port) == Some(number));
        // One that is not attached yet has nothing to tell of.
        if let Some(id) = nics.interface(port.ok_or(RequestError::NoNic(number))?) {
            let _ = stack.announce(*now, id);
        }
        Ok(())
    }

    /// Serves calls and queues of all clients, a bounded part of each.
    fn serve_clients(&mut self) -> bool {
        let count = self.clients.len();
        if count == 0 {
            return false;
        }
        self.first = (self.first + 1) % count;
        let mut progress = false;
        for turn in 0..count {
            let number = (self.first + turn) % count;
            let Some(client) = &mut self.clients[number] else { continue };
            let served = client
                .serve_calls(&mut self.engine, &mut self.scan)
                .and_then(|calls| Ok(calls | client.serve_sockets(&mut self.engine)?));
            match served {
                Ok(some) => progress |= some,
                Err(fault) => {
                    progress = true;
                    let number = client.number;
                    self.fail(number, &fault);
                }
            }
        }
        progress
    }

    /// Acts on what the core reports. Each socket has at most one event of a kind, so this ends.
    fn drain_events(&mut self) -> bool {
        let mut progress = false;
        while let Some(event) = self.engine.stack.poll_event() {
            progress = true;
            let owner = Owner::from_tag(event.tag);
            let place = self.clients.get_mut(usize::from(owner.client));
            let Some(client) = place.and_then(Option::as_mut) else { continue };
            if let Err(fault) = client.on_event(&mut self.engine, owner, event.kind) {
                self.fail(owner.client, &fault);
            }
        }
        progress
    }

    /// Releases sent bytes whose fence the drivers have passed.
    fn release(&mut self) -> bool {
        let passed = self.engine.nics.passed();
        let mut progress = false;
        // A release may set the next fence, which lies behind.
        while self.engine.releases.front().is_some_and(|release| release.fence <= passed) {
            let Some(release) = self.engine.releases.pop_front() else { break };
            progress = true;
            let place = self.clients.get_mut(usize::from(release.owner.client));
            if let Some(client) = place.and_then(Option::as_mut) {
                client.released(&mut self.engine, release.owner);
            }
        }
        progress
    }

    /// Does anybody wait for [`Server::ring`]?
    pub(crate) fn owes_bells(&self) -> bool {
        self.clients.iter().flatten().any(|client| client.owes_bells())
    }

    /// Has a connect succeeded since the last call?
    pub(crate) fn take_joined(&mut self) -> bool {
        mem::take(&mut self.engine.joined)
    }

    /// Rings the programs' bells.
    pub(crate) fn ring(&mut self) {
        self.clients.iter_mut().flatten().for_each(|client| client.ring(&mut self.engine));
    }

    /// Publishes words and results.
    fn flush(&mut self) {
        for number in 0..self.clients.len() {
            let Some(client) = &mut self.clients[number] else { continue };
            if let Err(fault) = client.flush(&mut self.engine) {
                let number = client.number;
                self.fail(number, &fault);
            }
        }
    }

    /// Lets go of the memory of clients that nothing refers to any more.
    fn let_go(&mut self) {
        let (emitted, passed) = (self.engine.nics.emitted(), self.engine.nics.passed());
        let events = &mut self.events;
        let counters = &mut self.engine.counters;
        self.leaving.retain_mut(|leaving| {
            if leaving.fence.is_none() && Arc::strong_count(&leaving.memory) == 1 {
                leaving.fence = Some(emitted);
            }
            let over = leaving.told && leaving.fence.is_some_and(|fence| fence <= passed);
            if over {
                counters.released += 1;
                events.push(ServerEvent::ClientReleased { client: leaving.number });
            }
            !over
        });
    }

    /// What is to be told to the supervisor.
    pub(crate) fn take_events(&mut self) -> Vec<ServerEvent> {
        mem::take(&mut self.events)
    }

    /// Does anybody wait for a driver to pass frames: for sent bytes to be released, for the memory
    /// of a client that is gone, or with output for which there was no room? Else nobody needs to
    /// be woken for a frame that has left; what it held is given back in the next turn.
    fn completions_are_awaited(&mut self) -> bool {
        let Self { clients, engine, .. } = self;
        let mut owners = engine.releases.iter().map(|release| release.owner);
        let awaited = owners.any(|owner| {
            let place = clients.get_mut(usize::from(owner.client));
            place.and_then(Option::as_mut).is_some_and(|client| client.awaits_release(owner))
        });
        awaited || self.completions_are_needed()
    }

    /// Does anybody wait for a driver to pass frames, whom no program can do without?
    fn completions_are_needed(&mut self) -> bool {
        use inet::Egress;
        self.leaving.iter().any(|leaving| leaving.fence.is_some()) || !self.engine.nics.ready()
    }

    /// Says on all bells that we sleep. Look with [`Server::has_work`] afterwards.
    pub(crate) fn announce(&mut self) {
        let completions = self.completions_are_awaited();
        self.sleeping = Some(completions);
        self.engine.nics.announce(completions);
        self.clients.iter().flatten().for_each(|client| client.announce());
    }

    /// Takes the announcement back.
    pub(crate) fn awake(&mut self) {
        self.sleeping = None;
        self.engine.nics.awake();
        self.clients.iter().flatten().for_each(|client| client.awake());
    }

    /// Has anybody left work for us?
    pub(crate) fn has_work(&mut self) -> bool {
        let completions = match self.sleeping {
            // Who is awake anyway need not wait until somebody waits for it.
            None => !self.engine.releases.is_empty() || self.completions_are_needed(),
            Some(wanted) => {
                let awaited = self.completions_are_awaited();
                if awaited && !wanted {
                    // Somebody began to wait meanwhile, and the drivers would not ring for it.
                    return true;
                }
                wanted
            }
        };
        self.engine.nics.has_work(completions)
            || !self.events.is_empty()
            || self.clients.iter_mut().flatten().any(|client| client.has_work())
    }

    /// How long the server may sleep if nobody rings; `None` is for ever.
    pub(crate) fn deadline(&mut self, now: Instant) -> Option<Duration> {
        use inet::Egress;
        let due = [self.engine.stack.poll_at(), self.network.settling_until()];
        let left = due.into_iter().flatten().min()?.since(now);
        // Output that waits for room is due all the time; the driver rings when there is some.
        let blocked = left.is_zero() && !self.engine.nics.ready();
        Some(if blocked { NO_ROOM_RETRY } else { left })
    }

    /// Is there no client, nor memory of a former one that is still in use?
    pub(crate) fn is_deserted(&self) -> bool {
        self.leaving.is_empty() && self.clients.iter().all(Option::is_none)
    }

    /// Resets everything that is open, and lets the drivers have the frames that say so.
    pub(crate) fn shut_down(&mut self, now: Instant) {
        self.engine.now = now;
        for number in 0..self.clients.len() {
            let Ok(number) = u16::try_from(number) else { break };
            self.drop_client(number, false, true);
        }
        self.turn(now);
    }
}

/// The descriptors of a request, as many as it needs.
fn descriptors<const N: usize>(
    what: &'static str,
    fds: Vec<OwnedFd>,
) -> Result<[OwnedFd; N], RequestError> {
    let got = fds.len();
    fds.try_into().map_err(|_| RequestError::Descriptors { what, want: N, got })
}
