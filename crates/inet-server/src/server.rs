//! The server without its control connection: all of its state, and one iteration of its event
//! loop.
//!
//! An iteration moves bounded work through these stages, in the order of the data path:
//!
//! 1. The server takes back the head pages of frames that drivers have passed, and releases sent
//!    bytes.
//! 2. Received frames go through the core into clients' areas.
//! 3. The server serves calls and queues of every client. It starts with another client each time.
//! 4. The core's output leaves.
//! 5. The server publishes all words and results, and rings bells: once per iteration and party.
//!
//! Programs' bells come last. A driver of the same thread sends the core's output before them.
//!
//! An iteration never waits. The owner of the thread calls [`Server::iterate`] until it reports no
//! progress, then [`Server::announce`]. It looks with [`Server::has_work`] once more, and may sleep
//! until [`Server::deadline`].

use std::sync::Arc;
use std::{io, mem};

use abi::call::PackagedCall;
use abi::control::{InetConfig, ServerEvent};
use abi::frame::IfAttach;
use abi::network::InterfaceSettings;
use abi::stages::{StageReport, TraceStage};
use inet::Instant;
use shm::Spin;

use crate::calls::CallScan;
use crate::client::Client;
use crate::engine::{Engine, SocketOwner};
use crate::fault::ClientFault;
use crate::network::Network;
use crate::nic::DriverInput;
use crate::poller::Poller;
use crate::tx::chunk::ClientMemory;
use crate::wakefulness::Wakefulness;
use crate::xfrm::XfrmTable;

mod admission;
mod requests;
mod sharing;
mod sleep;
mod socket_status;

/// Frames taken from one interface in one iteration.
const FRAMES_PER_ITERATION: usize = 64;

/// A client that is gone, while chunks or frames still refer to its memory.
struct DepartingClient {
    number: u16,
    memory: Arc<ClientMemory>,
    /// The last frame that can name the memory. It is known once no chunk is left.
    awaited_frame: Option<u64>,
    /// The supervisor knows that the client is gone.
    supervisor_knows: bool,
}

/// Services of one client in succession, after which it counts as alone.
const ACTIVE_FOR: u32 = 256;

/// Whether several clients are active. If so, the parts of an iteration are short, so that none
/// waits long for another one. A client alone gets long ones, which cost less.
#[derive(Debug, Default)]
struct Activity {
    /// The client that was served last.
    last: usize,
    /// Services of it in succession until it counts as alone.
    left: u32,
}

impl Activity {
    /// A client made calls, or sent.
    fn note(&mut self, number: usize) {
        self.left = if self.last == number { self.left.saturating_sub(1) } else { ACTIVE_FOR };
        self.last = number;
    }

    fn is_shared(&self) -> bool {
        self.left > 0
    }
}

/// The inet server.
pub(crate) struct Server {
    pub(crate) config: InetConfig,
    pub(crate) engine: Engine,
    pub(crate) clients: Vec<Option<Box<Client>>>,
    pub(crate) poller: Poller,
    pub(crate) network: Network,
    /// Security associations and policies.
    pub(crate) xfrm: XfrmTable,
    /// The settings of each port's interface.
    interfaces: Vec<InterfaceSettings>,
    /// For each port that is not attached yet: its driver's registration, once it has come.
    announced: Vec<Option<IfAttach>>,
    leaving: Vec<DepartingClient>,
    /// Events to report to the supervisor.
    events: Vec<ServerEvent>,
    /// The client that the next iteration serves first.
    first: usize,
    activity: Activity,
    /// Room for the calls of one scan.
    scan: Vec<PackagedCall>,
    /// The spin of the thread that owns the server.
    pub(crate) spin: Spin,
    /// The request that idle processors do not halt.
    pub(crate) wakefulness: Wakefulness,
    /// `Some` while sleep is announced: do the drivers ring for frames that they have passed?
    sleeping: Option<bool>,
}

impl Server {
    /// A server without interfaces and clients. `secret` keys the core's hashes and sequence
    /// numbers.
    pub(crate) fn new(config: InetConfig, secret: [u8; 16]) -> io::Result<Self> {
        let (poller, spin) = (Poller::new()?, Spin::new(config.busy_poll.into()));
        spin.timer().map_or(Ok(()), |timer| poller.add_timer(timer))?;
        Ok(Self {
            engine: Engine::new(secret, &config),
            spin,
            config,
            clients: Vec::new(),
            poller,
            network: Network::default(),
            xfrm: XfrmTable::default(),
            interfaces: Vec::new(),
            announced: Vec::new(),
            leaving: Vec::new(),
            events: Vec::new(),
            first: 0,
            activity: Activity::default(),
            scan: Vec::new(),
            wakefulness: Wakefulness::default(),
            sleeping: None,
        })
    }

    /// Ends a client's sockets and drops the client. Its memory stays while the core or a driver
    /// needs it.
    fn drop_client(&mut self, number: u16, orderly: bool, supervisor_knows: bool) {
        let place = self.clients.get_mut(usize::from(number));
        let Some(mut client) = place.and_then(Option::take) else { return };
        client.leave(&mut self.engine, orderly);
        self.engine.stack.remove_owner(client.owner);
        client.add_program_counters(&mut self.engine.counters);
        self.poller.remove(client.bell());
        client.end().into_iter().for_each(|end| self.poller.remove_end(end));
        client.process.iter().for_each(|process| self.poller.remove_end(process));
        let memory = Arc::clone(&client.memory);
        self.leaving.push(DepartingClient {
            number,
            memory,
            awaited_frame: None,
            supervisor_knows,
        });
    }

    /// Drops a client that broke the rules; all others go on.
    fn fail(&mut self, number: u16, fault: &ClientFault) {
        let reason = format!("client {number} broke the rules of its region: {fault}");
        tracing::warn!(client = number, %fault, "client dropped");
        self.engine.counters.faults += 1;
        self.drop_client(number, false, false);
        self.events.push(ServerEvent::ClientFault { client: number, reason });
    }

    /// One iteration of the event loop. Returns whether there was anything to do.
    pub(crate) fn iterate(&mut self, now: Instant) -> bool {
        let progress = self.run_stages(now, false);
        self.ring();
        progress
    }

    /// [`Server::iterate`] without ringing the programs' bells. It may also leave FINs
    /// unacknowledged: see [`Server::defers_fin_acks`].
    pub(crate) fn iterate_silently(&mut self, now: Instant) -> bool {
        self.run_stages(now, true)
    }

    /// Does the core defer ACKs of peers' FINs, in case the programs close too? Then the owner
    /// calls [`Server::iterate`] once more before a sleep.
    pub(crate) fn defers_fin_acks(&self) -> bool {
        self.engine.stack.defers_fin_acks()
    }

    fn run_stages(&mut self, now: Instant, defer: bool) -> bool {
        self.engine.now = now;
        self.engine.counters.iterations += 1;
        self.engine.nics.trace.mark(TraceStage::Dispatch);
        let sent_before = self.engine.nics.emitted();
        let mut progress = self.engine.nics.complete();
        progress |= self.release();
        progress |= self.receive_frames();
        progress |= self.drain_events();
        progress |= self.serve_clients();
        if self.engine.shared.has_work() {
            self.serve_shared();
        }
        self.poll_core(defer);
        self.report_addresses();
        progress |= self.drain_events();
        let anew = progress;
        for client in self.clients.iter_mut().flatten() {
            progress |= client.serve_closing(&mut self.engine, anew);
        }
        // A release whose awaited frame the drivers have passed already does not wait for the next
        // iteration.
        self.release();
        self.flush();
        self.release_departed_clients();
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

    /// Begins to mark the stages of sends and receives, or ends it and returns the report.
    pub(crate) fn trace(&mut self, on: bool, marks: usize) -> StageReport {
        if !on {
            self.take_marks();
        }
        self.engine.stack.set_traced(on);
        self.engine.nics.set_trace(on);
        self.clients.iter().flatten().for_each(|client| client.trace.want(on));
        if on { StageReport::default() } else { self.engine.nics.trace.report(marks) }
    }

    fn take_marks(&mut self) {
        self.engine.nics.take_marks();
        for client in self.clients.iter_mut().flatten() {
            self.engine.nics.trace.take(&mut client.trace);
        }
    }

    /// Lets the core send, as far as the drivers' rings have room, and rings the drivers.
    fn poll_core(&mut self, defer: bool) {
        let Engine { stack, nics, now, .. } = &mut self.engine;
        nics.begin_output(self.activity.is_shared());
        match defer {
            true => stack.poll_deferring(*now, nics),
            false => stack.poll(*now, nics),
        }
        nics.restock(false);
        nics.flush();
        nics.trace.mark(TraceStage::InetRest);
    }

    fn receive_frames(&mut self) -> bool {
        let (mut progress, mut frames) = (false, 0);
        for port in 0..self.engine.nics.len() {
            for _ in 0..FRAMES_PER_ITERATION {
                let Some(input) = self.engine.nics.input(port) else { break };
                progress = true;
                match input {
                    DriverInput::Frame(frame) => {
                        frames += 1;
                        let Engine { stack, nics, now, .. } = &mut self.engine;
                        // Before `ifattach` a frame has no interface to arrive at.
                        if let Some(id) = nics.interface(port) {
                            stack.handle_frame(*now, id, frame, nics);
                        }
                    }
                    DriverInput::Attach(link) => self.attach(port, link),
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

    /// A driver registers its interface. A restarted driver does so again.
    fn attach(&mut self, port: usize, link: IfAttach) {
        self.engine.counters.nic_attached += 1;
        if let Some(id) = self.engine.nics.interface(port) {
            return self.engine.set_features(port, id, link.features);
        }
        if let Some(announced) = self.announced.get_mut(port) {
            *announced = Some(link);
        }
        // Interfaces attach in their order, whichever driver is the quickest. So the first one has
        // the first index.
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

    /// Reports interfaces whose addresses are ready to the supervisor, and duplicate addresses to
    /// the log.
    fn report_addresses(&mut self) {
        self.network.log_duplicates(&self.engine);
        self.network.log_short_leases(&self.engine);
        if !self.network.is_settled() {
            let settled = self.network.settled(&self.engine).into_iter();
            self.events.extend(settled.map(|nic| ServerEvent::InterfaceReady { nic }));
        }
    }

    /// Does every attached interface have its addresses?
    pub(crate) fn is_settled(&self) -> bool {
        self.network.is_settled()
    }

    /// Serves calls and queues of all clients, a bounded part of each.
    fn serve_clients(&mut self) -> bool {
        let count = self.clients.len();
        if count == 0 {
            return false;
        }
        self.first = (self.first + 1) % count;
        let mut progress = false;
        for offset in 0..count {
            let number = (self.first + offset) % count;
            let Some(client) = &mut self.clients[number] else { continue };
            let mut calls = client.serve_calls(&mut self.engine, &mut self.scan);
            if let Ok(CallScan::InUse(at)) = calls {
                self.end_ended_clients();
                // It may have been one of them.
                let Some(client) = &mut self.clients[number] else { continue };
                calls = client.serve_rest(&mut self.engine, &self.scan, at);
            }
            let Some(client) = &mut self.clients[number] else { continue };
            let shared = self.activity.is_shared();
            let served = calls.and_then(|calls| {
                let some = calls != CallScan::Empty;
                Ok(some | client.serve_sockets(&mut self.engine, shared)?)
            });
            match served {
                Ok(some) => {
                    progress |= some;
                    if some {
                        self.activity.note(number);
                    }
                }
                Err(fault) => {
                    progress = true;
                    let number = client.number;
                    self.fail(number, &fault);
                }
            }
        }
        progress
    }

    /// Handles the core's events. Each socket has at most one event of a kind, so this ends.
    fn drain_events(&mut self) -> bool {
        let mut progress = false;
        while let Some(event) = self.engine.stack.poll_event() {
            progress = true;
            let owner = SocketOwner::from_tag(event.tag);
            if owner.client == 0 {
                self.on_shared_event(owner.serial, event.kind);
                continue;
            }
            let place = self.clients.get_mut(usize::from(owner.client));
            let Some(client) = place.and_then(Option::as_mut) else { continue };
            if let Err(fault) = client.on_event(&mut self.engine, owner, event.kind) {
                self.fail(owner.client, &fault);
            }
        }
        progress
    }

    /// Releases sent bytes whose awaited frame the drivers have passed.
    #[inline]
    fn release(&mut self) -> bool {
        !self.engine.releases.is_empty() && self.release_passed()
    }

    fn release_passed(&mut self) -> bool {
        let mut progress = false;
        // A release may add another one behind the others, with a later frame.
        while let Some(owner) = self.engine.releases.poll(&self.engine.nics) {
            progress = true;
            let place = self.clients.get_mut(usize::from(owner.client));
            if let Some(client) = place.and_then(Option::as_mut) {
                client.released(&mut self.engine, owner);
            }
        }
        progress
    }

    /// Is there a bell for [`Server::ring`] to ring?
    pub(crate) fn has_due_bells(&self) -> bool {
        self.clients.iter().flatten().any(|client| client.has_due_bells())
    }

    /// Has a connect succeeded since the last call?
    pub(crate) fn take_connect_succeeded(&mut self) -> bool {
        mem::take(&mut self.engine.connect_succeeded)
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

    /// Drops the memory of departed clients, once no chunk and no frame refers to it.
    fn release_departed_clients(&mut self) {
        let nics = &self.engine.nics;
        let events = &mut self.events;
        let counters = &mut self.engine.counters;
        let before = self.leaving.len();
        self.leaving.retain_mut(|leaving| {
            if leaving.awaited_frame.is_none() && Arc::strong_count(&leaving.memory) == 1 {
                leaving.awaited_frame = Some(nics.emitted());
            }
            let exits = leaving.memory.exits();
            let passed = |frame| nics.awaited(exits, frame).is_none();
            let over = leaving.supervisor_knows && leaving.awaited_frame.is_some_and(passed);
            if over {
                counters.released += 1;
                events.push(ServerEvent::ClientReleased { client: leaving.number });
            }
            !over
        });
        if self.leaving.len() < before {
            // Each iteration looks at every place.
            let last = self.clients.iter().rposition(Option::is_some);
            self.clients.truncate(last.map_or(0, |last| last + 1));
        }
    }

    /// The events to report to the supervisor.
    pub(crate) fn take_events(&mut self) -> Vec<ServerEvent> {
        mem::take(&mut self.events)
    }

    /// Is there neither a client nor memory of a departed one?
    pub(crate) fn is_deserted(&self) -> bool {
        self.leaving.is_empty() && self.clients.iter().all(Option::is_none)
    }

    /// Resets all open sockets and gives the RSTs to the drivers. A socket that was closed and
    /// still
    /// sends gets no RST.
    pub(crate) fn shut_down(&mut self, now: Instant) {
        self.engine.now = now;
        for number in 0..self.clients.len() {
            let Ok(number) = u16::try_from(number) else { break };
            self.drop_client(number, false, true);
        }
        self.iterate(now);
    }
}
