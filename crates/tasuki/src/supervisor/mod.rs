//! The supervisor: makes an instance, admits clients to it, watches everybody, takes it down.
//!
//! One thread, one `poll` over the listening socket, the connections of clients and operators, the
//! lines to the servers, the pidfds of servers, clients and program, and signals. It never touches
//! the data path, and it waits for nobody: whatever is asked of a server carries what is to be done
//! with the reply ([`Purpose`]).
//!
//! ```text
//! Starting ──servers configured──▶ Running ──program ended──▶ Draining ──▶ Stopping ──▶ over
//!     └──────── failure, signal, `down` ─┴──────────────────────────────────────▲
//! ```
//!
//! Draining gives data that was closed in order up to [`DRAIN_PATIENCE`] to arrive. Stopping ends
//! the program if there is one, then the inet server, then the drivers: so resets still get out. A
//! server that ends by itself ends the instance; this is where a restart will take its place.

mod admission;
mod backend;
mod child;
mod clients;
mod connections;
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

use self::admission::{Happening, Step};
use self::child::Program;
pub(crate) use self::child::cannot_execute;
use self::clients::Clients;
use self::connections::{Busy, Connection, ConnectionId, Connections, Watch};
pub(crate) use self::instance::Instance;
use self::servers::{Heard, Line, Servers};
use self::signals::Arrived;
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

/// What an instance is for.
pub(crate) enum Duty {
    /// To run one program.
    Program(Command),
    /// To serve whoever comes. This is called when it is ready.
    Serve(Box<dyn FnOnce() -> Result<(), Failure>>),
}

/// What a server's reply is for.
enum Purpose {
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
    /// The link of an interface is told of the stack.
    Announced,
    /// A server is ending.
    Ending,
}

/// What `tasuki ps` has got so far.
#[derive(Default)]
struct Gather {
    left: usize,
    pools: Vec<PoolStatus>,
    counters: BTreeMap<String, u64>,
    histograms: BTreeMap<String, Histogram>,
}

/// What the instance is doing, see the picture above.
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
enum Token {
    Line(Line),
    Connection(ConnectionId, Watch),
    Program,
    Server(usize),
    Signals,
    Interfaces,
    Listener,
}

/// See the module's head.
pub(crate) struct Supervisor {
    // Dropped in this order: the processes go before what they use.
    program: Option<Program>,
    servers: Servers<Purpose>,
    instance: Instance,
    duty: Option<Duty>,
    signals: Signals,
    connections: Connections,
    clients: Clients,
    gathers: BTreeMap<ConnectionId, Gather>,
    /// Connections whose next request may have been received already.
    again: BTreeSet<ConnectionId>,
    /// Operators who wait for the end.
    ending: Vec<ConnectionId>,
    phase: Phase,
    verdict: Option<Result<u8, Failure>>,
}

impl Supervisor {
    /// Starts the servers of an instance.
    ///
    /// # Errors
    /// When the system refuses; nothing is left behind then.
    pub(crate) fn start(instance: Instance, signals: Signals, duty: Duty) -> Result<Self, Failure> {
        let mut servers = Servers::start(instance.settings.mode, instance.links.len())?;
        let left = instance.configure(&mut servers, || Purpose::Configured)?;
        let until = Instant::now() + START_PATIENCE;
        let mut supervisor = Self {
            program: None,
            servers,
            instance,
            duty: Some(duty),
            signals,
            connections: Connections::new(),
            clients: Clients::new(),
            gathers: BTreeMap::new(),
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

    /// Looks after the instance until it is over; the exit code.
    ///
    /// # Errors
    /// Why the instance could not start or go on. Nothing is left behind in either case.
    pub(crate) fn run(mut self) -> Result<u8, Failure> {
        loop {
            let done = self.turn();
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
                // Who does not want to know any more need not.
                let _ = connection.reply(&ClientReply::Done, &[]);
            }
        }
        verdict.unwrap_or(Ok(code))
    }

    /// Waits for something to happen, and deals with it.
    fn turn(&mut self) -> Result<(), Failure> {
        self.progress()?;
        for id in std::mem::take(&mut self.again) {
            self.serve(id)?;
        }
        for token in self.wait()? {
            self.handle(token)?;
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

    /// Everything that needs looking after. Lines and connections come before deaths: what was said
    /// before the end is heard before the end is dealt with.
    fn wait(&self) -> Result<Vec<Token>, Failure> {
        let read = |token: Token, fd| (token, PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let mut watched: Vec<(Token, PollFd<'_>)> = Vec::new();
        watched.extend(self.servers.lines().map(|(line, fd)| read(Token::Line(line), fd)));
        let connections = self.connections.watched();
        watched.extend(connections.map(|(id, watch, fd)| (Token::Connection(id, watch), fd)));
        let program = self.program.as_ref().and_then(Program::death);
        watched.extend(program.map(|fd| read(Token::Program, fd)));
        watched.extend(self.servers.running().map(|(index, fd)| read(Token::Server(index), fd)));
        watched.push((Token::Signals, PollFd::new(&self.signals, PollFlags::IN)));
        watched.push((Token::Interfaces, PollFd::new(&self.instance.watch, PollFlags::IN)));
        if !matches!(self.phase, Phase::Starting { .. }) && self.connections.accepts() {
            let listener = self.instance.socket.listener();
            watched.push((Token::Listener, PollFd::new(listener, PollFlags::IN)));
        }
        let (tokens, mut fds): (Vec<Token>, Vec<PollFd<'_>>) = watched.into_iter().unzip();
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
        let ready = tokens.into_iter().zip(fds).filter(|(_, fd)| !fd.revents().is_empty());
        Ok(ready.map(|(token, _)| token).collect())
    }

    fn handle(&mut self, token: Token) -> Result<(), Failure> {
        match token {
            Token::Line(line) => self.listen_to(line),
            Token::Connection(id, Watch::Line) => {
                match self.connections.get_mut(id).map(Connection::poll_busy) {
                    None | Some(Busy::No) => self.serve(id),
                    Some(Busy::Asking | Busy::Writing) => Ok(()),
                    Some(Busy::Broken) => self.lose(id),
                }
            }
            Token::Connection(id, Watch::Death) => {
                self.serve(id)?;
                self.lose(id)
            }
            Token::Program => self.program_ended(),
            Token::Server(index) => self.server_ended(index),
            Token::Signals => {
                for arrived in self.signals.arrived() {
                    self.signalled(arrived);
                }
                Ok(())
            }
            Token::Interfaces => self.interfaces_changed(),
            Token::Listener => self.connections.accept(self.instance.socket.listener()),
        }
    }

    /// Hears all that a server said.
    fn listen_to(&mut self, line: Line) -> Result<(), Failure> {
        loop {
            match self.servers.hear(line) {
                Ok(Heard::Nothing) => return Ok(()),
                Ok(Heard::Reply(purpose, reply)) => self.answered(purpose, reply)?,
                Ok(Heard::Event(event)) => self.happened(line, event)?,
                // It was asked to end.
                Err(_) if self.stopping() => return Ok(()),
                Err(failure) => return Err(failure),
            }
        }
    }

    fn happened(&mut self, line: Line, event: ServerEvent) -> Result<(), Failure> {
        match event {
            ServerEvent::ClientReleased { client } => self.advance(client, Happening::Released),
            ServerEvent::ClientFault { client, reason } => {
                let Some(known) = self.clients.get_mut(client) else { return Ok(()) };
                let (pid, program) = (known.pid, known.program.as_str());
                tracing::warn!(client, pid, program, %reason, "client dropped: it broke the rules");
                if let Some(id) = known.connection.take() {
                    self.connections.remove(id);
                }
                self.advance(client, Happening::Faulted)
            }
            ServerEvent::InterfaceReady { .. } => self.one_more_ready(),
            ServerEvent::DeviceLost { reason } => self.device_lost(line, &reason),
        }
    }

    /// A server's reply: `Err` is its refusal.
    fn answered(&mut self, purpose: Purpose, reply: ServerReply) -> Result<(), Failure> {
        let refusal = match &reply {
            ServerReply::Error { message } => Some(message.clone()),
            _ => None,
        };
        let done = if refusal.is_some() { Err(()) } else { Ok(()) };
        match purpose {
            Purpose::Configured => return self.configured(refusal),
            Purpose::Mapped(client) => {
                self.turned_away(client, refusal)?;
                if let Some(done) = self.clients.answered(client, done) {
                    self.advance(client, Happening::Mapped(done))?;
                }
            }
            Purpose::Added(client) => {
                self.turned_away(client, refusal)?;
                self.advance(client, Happening::Added(done))?;
            }
            Purpose::Removed(client) => self.advance(client, Happening::Removed(done))?,
            Purpose::Unmapped(client) => {
                if self.clients.answered(client, done).is_some() {
                    self.advance(client, Happening::Unmapped)?;
                }
            }
            Purpose::Thread { connection, thread, bell } => {
                self.give_thread(connection, thread, &bell, refusal)?;
            }
            Purpose::Counters(connection) => self.gathered(connection, reply)?,
            Purpose::Sockets(connection) => self.give_sockets(connection, reply)?,
            Purpose::Network(connection) => self.give_network(connection, reply)?,
            Purpose::Capture { connection, socket } => {
                self.give_capture(connection, &socket, refusal)?;
            }
            Purpose::Attached(number) => self.attached(number, refusal)?,
            Purpose::Detached | Purpose::Announced | Purpose::Ending => {}
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

    /// One more server is configured, or one more interface is usable; after the last one the
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
        match self.duty.take() {
            Some(Duty::Program(mut command)) => self.program = Some(Program::start(&mut command)?),
            Some(Duty::Serve(ready)) => ready()?,
            None => {}
        }
        // After the program has its own, smaller limit.
        crate::limits::raise_descriptors();
        Ok(())
    }

    /// Lets something happen to a client, and does what is next.
    fn advance(&mut self, number: u16, happening: Happening) -> Result<(), Failure> {
        let Some(client) = self.clients.get_mut(number) else { return Ok(()) };
        let connected = client.connection.is_some();
        let step;
        (client.stage, step) = admission::next(client.stage, happening, connected);
        let params = self.instance.settings.params;
        match step {
            Step::Wait => Ok(()),
            Step::AddToInet => self.servers.ask(
                Line::Inet,
                ServerRequest::AddClient { client: number, params },
                &[client.memory.fd.as_fd(), client.bell.as_fd()],
                Purpose::Added(number),
            ),
            Step::Welcome => self.welcome(number),
            Step::Remove => self.servers.ask(
                Line::Inet,
                ServerRequest::RemoveClient { client: number, orderly: client.orderly },
                &[],
                Purpose::Removed(number),
            ),
            Step::Unmap => {
                let mut drivers = self.servers.drivers();
                client.awaited = drivers.size_hint().0;
                drivers.try_for_each(|line| {
                    let request = ServerRequest::UnmapClient { client: number };
                    self.servers.ask(line, request, &[], Purpose::Unmapped(number))
                })
            }
            Step::Forget => {
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
        // What ended with the program has said so already; hear it before dropping who is left.
        for id in self.connections.ids() {
            self.serve(id)?;
        }
        for (_, connection) in self.clients.connected() {
            self.lose(connection)?;
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
        self.instance.configure(&mut self.servers, || Purpose::Configured)?;
        for purpose in unanswered {
            if !matches!(purpose, Purpose::Configured | Purpose::Ending) {
                let message = "the program that had the stack has ended".to_owned();
                self.answered(purpose, ServerReply::Error { message })?;
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

    fn signalled(&mut self, arrived: Arrived) {
        tracing::debug!(?arrived, "signal");
        match (&self.program, self.phase) {
            (Some(program), Phase::Running) => {
                if let Some(signal) = arrived.to_pass_on() {
                    program.signal(signal, arrived.sender);
                }
            }
            (None, Phase::Starting { .. }) if arrived.ends() => {
                let code = match self.duty {
                    Some(Duty::Program(_)) => u8::try_from(128 + arrived.signal).unwrap_or(u8::MAX),
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

    /// Does what is due in this phase.
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

    /// Inet server first: what it resets is to get out through the driver.
    fn stop_servers(&mut self, until: Instant, mut inet: bool, mut nic: bool) {
        if Instant::now() >= until {
            tracing::warn!("servers did not end in time: killed");
            self.servers.kill();
            return;
        }
        inet = inet || self.end_server(Line::Inet);
        if self.servers.has_ended(Line::Inet) {
            nic = nic || self.servers.drivers().all(|line| self.end_server(line));
        }
        self.phase = Phase::StoppingServers { until, inet, nic };
    }

    fn end_server(&mut self, line: Line) -> bool {
        if !self.servers.has_ended(line) {
            // Who is just ending by itself needs not be told.
            let _ = self.servers.ask(line, ServerRequest::Shutdown, &[], Purpose::Ending);
        }
        true
    }
}
