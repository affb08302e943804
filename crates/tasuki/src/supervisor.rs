//! The supervisor: makes an instance, admits clients to it, watches all processes, takes it down.
//!
//! One thread makes one `poll` over all descriptors: the listening socket, the connections of
//! clients and operators, the control connections to the servers, the pidfds of servers, clients
//! and program, and signals. The supervisor never touches the data path, and it never waits for a
//! peer. A request to a server carries a [`ReplyContext`], which says what to do with the reply.
//!
//! ```text
//! Starting ──servers configured──▶ Running ──program ended──▶ Draining ──▶ Stopping ──▶ over
//!     └──────── failure, signal, `down` ─┴──────────────────────────────────────▲
//! ```
//!
//! Draining gives data that was closed in order up to [`DRAIN_PATIENCE`] to arrive. Stopping ends
//! the program if there is one, then the inet server, then the drivers: so resets still get out. A
//! server that ends by itself ends the instance; a restart will take its place here.

mod admission;
mod backend;
mod child;
mod clients;
mod connections;
mod device_state;
mod instance;
mod links;
mod passt;
mod requests;
mod servers;
mod signals;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

use abi::control::{ClientReply, PoolStatus, ServerEvent, ServerReply, ServerRequest};
use abi::stats::Histogram;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;

use self::admission::{ClientAction, ClientEvent};
use self::child::Program;
pub(crate) use self::child::cannot_execute;
use self::clients::Clients;
use self::connections::{Busy, Connection, ConnectionId, Connections, Watch};
pub(crate) use self::instance::Instance;
use self::servers::{ServerId, ServerMessage, Servers};
use self::signals::ReceivedSignal;
pub(crate) use self::signals::Signals;
use crate::exit::{Code, Failure};

/// How long servers may take to get ready.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// How long data of clients that closed in order may take to arrive.
const DRAIN_PATIENCE: Duration = Duration::from_secs(5);
/// How long a program may take to end after SIGTERM, when its instance ends before it.
const PROGRAM_PATIENCE: Duration = Duration::from_secs(2);
/// How long servers may take to end.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

/// The purpose of an instance.
pub(crate) enum Workload {
    /// To run one program.
    Program(Command),
    /// To serve all programs that connect. The function is called when the instance is ready.
    Serve(Box<dyn FnOnce() -> Result<(), Failure>>),
}

/// The purpose of a server's reply.
enum ReplyContext {
    /// A server is configured.
    Configured,
    /// The driver knows a client.
    Mapped(u16),
    /// The inet server knows a client.
    Added(u16),
    /// The inet server is removing a client.
    Removed(u16),
    /// The driver has forgotten a client.
    Unmapped(u16),
    /// A client gets one more thread slot, with this bell.
    Thread { connection: ConnectionId, thread: u16, bell: OwnedFd },
    /// Part of `tasuki ps`.
    Counters(ConnectionId),
    /// `tasuki ss`.
    Sockets(ConnectionId),
    /// `tasuki addr` and `tasuki route`, or a program that asks for its interfaces.
    Network(ConnectionId),
    /// `tasuki capture`, with the operator's end.
    Capture { connection: ConnectionId, socket: OwnedFd },
    /// A driver gets the device of the link of that number again.
    Attached(usize),
    /// A driver does without its device.
    Detached,
    /// The stack was announced on the link of an interface.
    Announced,
    /// A server is ending.
    Ending,
}

/// The answers for `tasuki ps` so far.
#[derive(Default)]
struct PendingStatus {
    left: usize,
    pools: Vec<PoolStatus>,
    counters: BTreeMap<String, u64>,
    histograms: BTreeMap<String, Histogram>,
}

/// The phase of the instance; see the picture above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Starting {
        left: u32,
        until: Instant,
    },
    Running,
    Draining {
        until: Instant,
    },
    /// The program is asked to end.
    StoppingProgram {
        until: Instant,
    },
    /// The servers are asked to end: which have been.
    StoppingServers {
        until: Instant,
        inet: bool,
        nic: bool,
    },
}

/// Something to look after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventSource {
    Control(ServerId),
    Connection(ConnectionId, Watch),
    Program,
    Server(usize),
    Signals,
    Interfaces,
    Listener,
}

/// See the module's head.
pub(crate) struct Supervisor {
    // Dropped in this order: the processes go before the things that they use.
    program: Option<Program>,
    servers: Servers<ReplyContext>,
    instance: Instance,
    workload: Option<Workload>,
    signals: Signals,
    connections: Connections,
    clients: Clients,
    pending_status: BTreeMap<ConnectionId, PendingStatus>,
    /// Connections whose next request may have been received already.
    again: BTreeSet<ConnectionId>,
    /// Operators that wait for the end.
    ending: Vec<ConnectionId>,
    phase: Phase,
    verdict: Option<Result<u8, Failure>>,
}

impl Supervisor {
    /// Starts the servers of an instance.
    ///
    /// # Errors
    /// When the system refuses; nothing is left behind then.
    pub(crate) fn start(
        instance: Instance,
        signals: Signals,
        workload: Workload,
    ) -> Result<Self, Failure> {
        let mut servers = Servers::start(instance.settings.mode, instance.links.len())?;
        let left = instance.configure(&mut servers, || ReplyContext::Configured)?;
        let until = Instant::now() + START_PATIENCE;
        let mut supervisor = Self {
            program: None,
            servers,
            instance,
            workload: Some(workload),
            signals,
            connections: Connections::new(),
            clients: Clients::new(),
            pending_status: BTreeMap::new(),
            again: BTreeSet::new(),
            ending: Vec::new(),
            phase: Phase::Starting { left, until },
            verdict: None,
        };
        if !supervisor.servers.are_there() {
            // They will be in the program, so it comes first.
            supervisor.begin()?;
        }
        Ok(supervisor)
    }

    /// Runs the instance until it is over, and returns the exit code.
    ///
    /// # Errors
    /// Why the instance could not start or go on. Nothing is left behind in either case.
    pub(crate) fn run(mut self) -> Result<u8, Failure> {
        loop {
            let done = self.run_once();
            if let Err(failure) = done {
                self.stop(Some(Err(failure)));
            }
            if self.is_over() {
                break;
            }
        }
        let code = self.program.as_ref().and_then(Program::exit_code).unwrap_or(0);
        let Self { program, servers, instance, mut connections, ending, verdict, .. } = self;
        drop((program, servers, instance));
        for id in ending {
            if let Some(connection) = connections.get_mut(id) {
                // An operator that has gone does not matter.
                let _ = connection.reply(&ClientReply::Done, &[]);
            }
        }
        verdict.unwrap_or(Ok(code))
    }

    /// Waits for something to happen, and deals with it.
    fn run_once(&mut self) -> Result<(), Failure> {
        self.progress()?;
        for id in std::mem::take(&mut self.again) {
            self.serve(id)?;
        }
        for source in self.wait()? {
            self.handle(source)?;
        }
        Ok(())
    }

    fn until(&self) -> Option<Instant> {
        match self.phase {
            Phase::Running => None,
            Phase::Starting { until, .. }
            | Phase::Draining { until }
            | Phase::StoppingProgram { until }
            | Phase::StoppingServers { until, .. } => Some(until),
        }
    }

    fn stopping(&self) -> bool {
        matches!(self.phase, Phase::StoppingProgram { .. } | Phase::StoppingServers { .. })
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, Phase::StoppingServers { .. })
            && self.servers.running().next().is_none()
            && self.program.as_ref().is_none_or(|program| program.exit_code().is_some())
    }

    /// Waits for events. Connections come before deaths: last messages are read before an end.
    fn wait(&self) -> Result<Vec<EventSource>, Failure> {
        let read = |source: EventSource, fd| (source, PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let mut watched: Vec<(EventSource, PollFd<'_>)> = Vec::new();
        watched.extend(
            self.servers
                .control_connections()
                .map(|(server, fd)| read(EventSource::Control(server), fd)),
        );
        let connections = self.connections.watched();
        watched.extend(connections.map(|(id, watch, fd)| (EventSource::Connection(id, watch), fd)));
        let program = self.program.as_ref().and_then(Program::death);
        watched.extend(program.map(|fd| read(EventSource::Program, fd)));
        watched
            .extend(self.servers.running().map(|(index, fd)| read(EventSource::Server(index), fd)));
        watched.push((EventSource::Signals, PollFd::new(&self.signals, PollFlags::IN)));
        watched.push((EventSource::Interfaces, PollFd::new(&self.instance.watch, PollFlags::IN)));
        if !matches!(self.phase, Phase::Starting { .. }) && self.connections.accepts() {
            let listener = self.instance.socket.listener();
            watched.push((EventSource::Listener, PollFd::new(listener, PollFlags::IN)));
        }
        let (sources, mut fds): (Vec<EventSource>, Vec<PollFd<'_>>) = watched.into_iter().unzip();
        let left = self.until().map(|until| until.saturating_duration_since(Instant::now()));
        let left = if self.again.is_empty() { left } else { Some(Duration::ZERO) };
        let timeout = left.map(|left| Timespec {
            tv_sec: left.as_secs().cast_signed(),
            tv_nsec: left.subsec_nanos().into(),
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(errno) => return Err(Failure::system("wait for events", errno)),
        }
        let ready = sources.into_iter().zip(fds).filter(|(_, fd)| !fd.revents().is_empty());
        Ok(ready.map(|(source, _)| source).collect())
    }

    fn handle(&mut self, source: EventSource) -> Result<(), Failure> {
        match source {
            EventSource::Control(server) => self.receive_from(server),
            EventSource::Connection(id, Watch::Requests) => {
                match self.connections.get_mut(id).map(Connection::poll_busy) {
                    None | Some(Busy::No) => self.serve(id),
                    Some(Busy::Asking | Busy::Writing) => Ok(()),
                    Some(Busy::Broken) => self.drop_connection(id),
                }
            }
            EventSource::Connection(id, Watch::Death) => {
                self.serve(id)?;
                self.drop_connection(id)
            }
            EventSource::Program => self.program_ended(),
            EventSource::Server(index) => self.server_ended(index),
            EventSource::Signals => {
                for arrived in self.signals.arrived() {
                    self.handle_signal(arrived);
                }
                Ok(())
            }
            EventSource::Interfaces => self.interfaces_changed(),
            EventSource::Listener => self.connections.accept(self.instance.socket.listener()),
        }
    }

    /// Handles all messages of a server.
    fn receive_from(&mut self, server: ServerId) -> Result<(), Failure> {
        loop {
            match self.servers.receive(server) {
                Ok(ServerMessage::Nothing) => return Ok(()),
                Ok(ServerMessage::Reply(context, reply)) => self.handle_reply(context, reply)?,
                Ok(ServerMessage::Event(event)) => self.handle_event(server, event)?,
                // It was asked to end.
                Err(_) if self.stopping() => return Ok(()),
                Err(failure) => return Err(failure),
            }
        }
    }

    fn handle_event(&mut self, server: ServerId, event: ServerEvent) -> Result<(), Failure> {
        match event {
            ServerEvent::ClientReleased { client } => self.advance(client, ClientEvent::Released),
            ServerEvent::ClientFault { client, reason } => {
                let Some(known) = self.clients.get_mut(client) else { return Ok(()) };
                let (pid, program) = (known.pid, known.program.as_str());
                tracing::warn!(client, pid, program, %reason, "client dropped: it broke the rules");
                if let Some(id) = known.connection.take() {
                    self.connections.remove(id);
                }
                self.advance(client, ClientEvent::Faulted)
            }
            ServerEvent::InterfaceReady { .. } => self.one_more_ready(),
            ServerEvent::DeviceLost { reason } => self.device_lost(server, &reason),
        }
    }

    /// A server's reply: `Err` is its refusal.
    fn handle_reply(&mut self, context: ReplyContext, reply: ServerReply) -> Result<(), Failure> {
        let refusal = match &reply {
            ServerReply::Error { message } => Some(message.clone()),
            _ => None,
        };
        let done = if refusal.is_some() { Err(()) } else { Ok(()) };
        match context {
            ReplyContext::Configured => return self.configured(refusal),
            ReplyContext::Mapped(client) => {
                self.log_refusal(client, refusal)?;
                if let Some(done) = self.clients.answered(client, done) {
                    self.advance(client, ClientEvent::Mapped(done))?;
                }
            }
            ReplyContext::Added(client) => {
                self.log_refusal(client, refusal)?;
                self.advance(client, ClientEvent::Added(done))?;
            }
            ReplyContext::Removed(client) => self.advance(client, ClientEvent::Removed(done))?,
            ReplyContext::Unmapped(client) => {
                if self.clients.answered(client, done).is_some() {
                    self.advance(client, ClientEvent::Unmapped)?;
                }
            }
            ReplyContext::Thread { connection, thread, bell } => {
                self.reply_thread(connection, thread, &bell, refusal)?;
            }
            ReplyContext::Counters(connection) => self.collect_status(connection, reply)?,
            ReplyContext::Sockets(connection) => self.reply_sockets(connection, reply)?,
            ReplyContext::Network(connection) => self.reply_network(connection, reply)?,
            ReplyContext::Capture { connection, socket } => {
                self.reply_capture(connection, &socket, refusal)?;
            }
            ReplyContext::Attached(number) => self.attached(number, refusal)?,
            ReplyContext::Detached | ReplyContext::Announced | ReplyContext::Ending => {}
        }
        Ok(())
    }

    /// One more server is configured.
    fn configured(&mut self, refusal: Option<String>) -> Result<(), Failure> {
        if let Some(message) = refusal {
            let sentence = format!("a server refused its configuration: {message}");
            return Err(Failure::new(Code::Internal, sentence));
        }
        self.one_more_ready()
    }

    /// One more server is configured, or one more interface is usable. After the last one the
    /// instance is ready.
    fn one_more_ready(&mut self) -> Result<(), Failure> {
        let Phase::Starting { left, .. } = &mut self.phase else { return Ok(()) };
        *left -= 1;
        if *left > 0 {
            return Ok(());
        }
        self.instance.seal_frames()?;
        self.begin()
    }

    /// The instance is ready.
    fn begin(&mut self) -> Result<(), Failure> {
        self.phase = Phase::Running;
        match self.workload.take() {
            Some(Workload::Program(mut command)) => {
                self.program = Some(Program::start(&mut command)?);
            }
            Some(Workload::Serve(ready)) => ready()?,
            None => {}
        }
        // After the program has its own, smaller limit.
        crate::limits::raise_descriptors();
        Ok(())
    }

    /// Applies an event to a client, and takes the next action.
    fn advance(&mut self, number: u16, happening: ClientEvent) -> Result<(), Failure> {
        let Some(client) = self.clients.get_mut(number) else { return Ok(()) };
        let connected = client.connection.is_some();
        let step;
        (client.stage, step) = admission::next(client.stage, happening, connected);
        let params = self.instance.settings.params;
        match step {
            ClientAction::Wait => Ok(()),
            ClientAction::AddToInet => self.servers.ask(
                ServerId::Inet,
                ServerRequest::AddClient { client: number, params },
                &[client.memory.fd.as_fd(), client.bell.as_fd()],
                ReplyContext::Added(number),
            ),
            ClientAction::Welcome => self.welcome(number),
            ClientAction::Remove => self.servers.ask(
                ServerId::Inet,
                ServerRequest::RemoveClient { client: number, orderly: client.orderly },
                &[],
                ReplyContext::Removed(number),
            ),
            ClientAction::Unmap => {
                let mut drivers = self.servers.drivers();
                client.awaited = drivers.size_hint().0;
                drivers.try_for_each(|server| {
                    let request = ServerRequest::UnmapClient { client: number };
                    self.servers.ask(server, request, &[], ReplyContext::Unmapped(number))
                })
            }
            ClientAction::Forget => {
                self.clients.remove(number);
                Ok(())
            }
        }
    }

    fn program_ended(&mut self) -> Result<(), Failure> {
        let Some(code) = self.program.as_mut().and_then(Program::collect) else { return Ok(()) };
        if self.stopping() {
            return Ok(());
        }
        // Processes that ended with the program have sent their last messages. Read those before
        // dropping the remaining connections.
        for id in self.connections.ids() {
            self.serve(id)?;
        }
        for (_, connection) in self.clients.connected() {
            self.drop_connection(connection)?;
        }
        self.verdict = Some(Ok(code));
        self.phase = Phase::Draining { until: Instant::now() + DRAIN_PATIENCE };
        Ok(())
    }

    /// In mode `library` the process that hosted the servers is gone, and all its clients with it.
    /// Another one may begin anew.
    fn host_lost(&mut self) -> Result<(), Failure> {
        for (_, connection) in self.clients.connected() {
            self.connections.remove(connection);
        }
        self.clients = Clients::new();
        let unanswered = self.servers.renew()?;
        self.instance.renew()?;
        self.instance.configure(&mut self.servers, || ReplyContext::Configured)?;
        for context in unanswered {
            if !matches!(context, ReplyContext::Configured | ReplyContext::Ending) {
                let message = "the program that had the stack has ended".to_owned();
                self.handle_reply(context, ServerReply::Error { message })?;
            }
        }
        Ok(())
    }

    fn server_ended(&mut self, index: usize) -> Result<(), Failure> {
        match self.servers.collect(index) {
            Some(sentence) if !self.stopping() => Err(Failure::new(Code::Internal, sentence)),
            _ => Ok(()),
        }
    }

    fn handle_signal(&mut self, arrived: ReceivedSignal) {
        tracing::debug!(?arrived, "signal");
        match (&self.program, self.phase) {
            (Some(program), Phase::Running) => {
                if let Some(signal) = arrived.to_pass_on() {
                    program.signal(signal, arrived.sender);
                }
            }
            (None, Phase::Starting { .. }) if arrived.ends() => {
                let code = match self.workload {
                    Some(Workload::Program(_)) => {
                        u8::try_from(128 + arrived.signal).unwrap_or(u8::MAX)
                    }
                    _ => 0,
                };
                self.stop(Some(Ok(code)));
            }
            _ if arrived.ends() => self.stop(None),
            _ => {}
        }
    }

    /// Begins to end the instance. The first verdict counts; without one, the program's exit code.
    fn stop(&mut self, verdict: Option<Result<u8, Failure>>) {
        if let Some(Err(failure)) = &verdict
            && self.verdict.is_some()
        {
            tracing::debug!(%failure, "while ending");
        }
        if self.verdict.is_none() {
            self.verdict = verdict;
        }
        if self.stopping() {
            return;
        }
        if let Some(program) = &self.program {
            program.signal(Signal::TERM, None);
        }
        self.phase = Phase::StoppingProgram { until: Instant::now() + PROGRAM_PATIENCE };
    }

    /// Does the next work of this phase.
    fn progress(&mut self) -> Result<(), Failure> {
        if self.servers.are_lost() && !self.stopping() {
            self.host_lost()?;
        }
        let late = self.until().is_some_and(|until| Instant::now() >= until);
        match self.phase {
            Phase::Starting { .. } if late => {
                let seconds = START_PATIENCE.as_secs();
                let sentence = format!("the servers did not get ready within {seconds} seconds");
                return Err(Failure::new(Code::Internal, sentence));
            }
            Phase::Draining { .. } if late || self.clients.len() == 0 => self.stop(None),
            _ => {}
        }
        if let Phase::StoppingProgram { until } = self.phase {
            let ended = self.program.as_ref().is_none_or(|p| p.exit_code().is_some());
            if ended || Instant::now() >= until {
                // Dropping kills it.
                self.program = self.program.take().filter(|_| ended);
                let until = Instant::now() + STOP_PATIENCE;
                self.phase = Phase::StoppingServers { until, inet: false, nic: false };
            }
        }
        if let Phase::StoppingServers { until, inet, nic } = self.phase {
            self.stop_servers(until, inet, nic);
        }
        Ok(())
    }

    /// The inet server first: its resets must get out through the driver.
    fn stop_servers(&mut self, until: Instant, mut inet: bool, mut nic: bool) {
        if Instant::now() >= until {
            tracing::warn!("servers did not end in time: killed");
            self.servers.kill();
            return;
        }
        inet = inet || self.end_server(ServerId::Inet);
        if self.servers.has_ended(ServerId::Inet) {
            nic = nic || self.servers.drivers().all(|server| self.end_server(server));
        }
        self.phase = Phase::StoppingServers { until, inet, nic };
    }

    fn end_server(&mut self, server: ServerId) -> bool {
        if !self.servers.has_ended(server) {
            // A server that is just ending by itself need not be asked.
            let _ = self.servers.ask(server, ServerRequest::Shutdown, &[], ReplyContext::Ending);
        }
        true
    }
}
