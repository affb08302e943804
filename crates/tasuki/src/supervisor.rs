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

mod accept_pace;
mod admission;
mod awaited;
mod backend;
mod budget;
mod child;
mod clients;
mod connections;
mod device_failure;
mod device_state;
mod ending;
mod faults;
mod hello;
mod instance;
mod links;
mod passt;
mod relays;
mod replies;
mod reply_context;
mod requests;
mod server_process;
mod servers;
mod sharing;
mod sharing_requests;
mod signals;
mod status;
mod wires;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::{Duration, Instant};

use abi::control::{Audience, ClientReply, PartyStatus, PoolStatus};
use abi::stats::Histogram;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use self::awaited::AwaitedReplies;
use self::child::Program;
pub(crate) use self::child::{cannot_execute, run_to_end};
use self::clients::Clients;
use self::connections::{Accepts, Busy, Connection, ConnectionId, Connections, Watch};
use self::faults::{FaultBudgets, Origin};
pub(crate) use self::instance::Instance;
use self::reply_context::ReplyContext;
pub(crate) use self::server_process::lease_user;
use self::servers::{ServerId, Servers};
use self::sharing_requests::SharingRequests;
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

/// The answers for `tasuki ps` so far.
#[derive(Default)]
struct PendingStatus {
    left: usize,
    pools: Vec<PoolStatus>,
    counters: BTreeMap<String, u64>,
    histograms: BTreeMap<String, Histogram>,
    parties: Vec<PartyStatus>,
    /// The counters of each driver, by the number of its interface.
    by_driver: BTreeMap<u16, Vec<(String, u64)>>,
}

/// A program that waits for its admission.
struct WaitingHello {
    id: ConnectionId,
    program: String,
    origin: Origin,
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
    /// The opener of the wire of that interface.
    Wire(usize),
    Listener(Audience),
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
    /// Servers that may have more messages than were handled.
    more_messages: BTreeSet<ServerId>,
    awaited: AwaitedReplies,
    faults: FaultBudgets,
    /// Programs of origins that break the rules: they wait for their admission, and until when.
    waiting_hellos: Vec<WaitingHello>,
    hello_at: Option<Instant>,
    sharing: SharingRequests,
    /// In mode `library`: the name of the program that hosts the servers.
    host_program: String,
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
        // One without room for a program would be of no use.
        budget::check_client(&instance, 0, 0)
            .map_err(|sentence| Failure::new(Code::Internal, sentence))?;
        let mut servers = Servers::start(instance.settings.mode, instance.sandbox_plan())?;
        let left = instance.configure(
            &mut servers,
            || ReplyContext::Configured,
            || ReplyContext::PolicyAdded,
        )?;
        let until = Instant::now() + START_PATIENCE;
        let faults = FaultBudgets::new(instance.settings.faults_per_second);
        let lets_others = instance.settings.group.is_some();
        // On older kernels: how long closing a connection takes is not the program's choice.
        shm::closer::interrupter::allow();
        let mut supervisor = Self {
            program: None,
            servers,
            instance,
            workload: Some(workload),
            signals,
            connections: Connections::new(lets_others),
            clients: Clients::new(),
            pending_status: BTreeMap::new(),
            again: BTreeSet::new(),
            more_messages: BTreeSet::new(),
            awaited: AwaitedReplies::default(),
            faults,
            waiting_hellos: Vec::new(),
            sharing: SharingRequests::default(),
            hello_at: None,
            host_program: String::new(),
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
        if self.is_over() {
            // Servers that were in the program ended with it: there is nothing left to wait for.
            return Ok(());
        }
        for id in std::mem::take(&mut self.again) {
            self.serve(id)?;
        }
        self.more_messages.extend(self.servers.refused());
        for server in std::mem::take(&mut self.more_messages) {
            self.receive_from(server)?;
        }
        for source in self.wait()? {
            self.handle(source)?;
        }
        Ok(())
    }

    /// The end of the present phase's patience.
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
        let openers = self.instance.openers();
        watched.extend(openers.map(|(number, fd)| read(EventSource::Wire(number), fd)));
        watched.push((EventSource::Interfaces, PollFd::new(&self.instance.watch, PollFlags::IN)));
        let now = Instant::now();
        let accept_in = self.watch_listeners(now, &mut watched);
        let (sources, mut fds): (Vec<EventSource>, Vec<PollFd<'_>>) = watched.into_iter().unzip();
        let until = self.until().into_iter().chain(self.awaited.until()).chain(self.hello_at).min();
        let left = until.map(|until| until.saturating_duration_since(now));
        let left = left.into_iter().chain(accept_in).min();
        let refused = self.servers.refused().next().is_some();
        let idle = self.again.is_empty() && self.more_messages.is_empty() && !refused;
        let left = if idle { left } else { Some(Duration::ZERO) };
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

    /// Adds the sockets where connections are accepted now. Returns when to look again at others.
    fn watch_listeners<'a>(
        &'a self,
        now: Instant,
        watched: &mut Vec<(EventSource, PollFd<'a>)>,
    ) -> Option<Duration> {
        if matches!(self.phase, Phase::Starting { .. }) {
            return None;
        }
        let mut again = None;
        for audience in [Audience::Programs, Audience::Operators] {
            match self.connections.accepts(audience, now) {
                Accepts::Now => {
                    let listener = self.instance.sockets.of(audience).listener();
                    let listener = PollFd::new(listener, PollFlags::IN);
                    watched.push((EventSource::Listener(audience), listener));
                }
                Accepts::In(pause) => again = again.into_iter().chain([pause]).min(),
                Accepts::AfterAnEnd => {}
            }
        }
        again
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
            EventSource::Wire(number) => {
                self.instance.serve_opener(number);
                Ok(())
            }
            EventSource::Listener(audience) => {
                let listener = self.instance.sockets.of(audience).listener();
                self.connections.accept(listener, audience)
            }
        }
    }
}
