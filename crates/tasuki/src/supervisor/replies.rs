//! The messages of the servers: replies, each with the purpose of its request, and events.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use abi::control::{ServerEvent, ServerReply, ServerRequest};
use sandbox::Demand;

use super::admission::{self, ClientAction, ClientEvent};
use super::child::Program;
use super::reply_context::ReplyContext;
use super::requests::printable;
use super::servers::{ServerId, ServerMessage};
use super::{Phase, Supervisor, Workload};
use crate::config::Mode;
use crate::exit::{Code, Failure};

/// Most messages of one server that are handled in one iteration, and the longest time for them.
/// In mode `library` a program chooses how many there are, and how long.
const MESSAGES_PER_ITERATION: usize = 64;
const TIME_PER_ITERATION: Duration = Duration::from_millis(5);
/// Bytes of a server's sentence that are logged.
const MAX_SENTENCE: usize = 256;

impl Supervisor {
    /// Handles messages of a server; a bounded number.
    pub(super) fn receive_from(&mut self, server: ServerId) -> Result<(), Failure> {
        let begun = Instant::now();
        for _ in 0..MESSAGES_PER_ITERATION {
            match self.servers.receive(server) {
                Ok(ServerMessage::Nothing) => return Ok(()),
                Ok(ServerMessage::Reply(context, reply)) => self.handle_reply(context, reply)?,
                Ok(ServerMessage::Event(event)) => self.handle_event(server, event)?,
                // It was asked to end.
                Err(_) if self.stopping() => return Ok(()),
                Err(failure) => return Err(failure),
            }
            if begun.elapsed() >= TIME_PER_ITERATION {
                break;
            }
        }
        self.more_messages.insert(server);
        Ok(())
    }

    pub(super) fn handle_event(
        &mut self,
        server: ServerId,
        event: ServerEvent,
    ) -> Result<(), Failure> {
        match event {
            ServerEvent::ClientReleased { client } => self.advance(client, ClientEvent::Released),
            ServerEvent::ClientFault { client, reason } => {
                let Some(known) = self.clients.get_mut(client) else { return Ok(()) };
                let (pid, program) = (known.pid, known.program.as_str());
                let reason = printable(&reason, MAX_SENTENCE);
                tracing::warn!(client, pid, program, %reason, "client dropped: it broke the rules");
                self.faults.fault(&known.origin, Instant::now());
                if let Some(id) = known.connection.take() {
                    self.connections.remove(id);
                }
                self.advance(client, ClientEvent::Faulted)
            }
            ServerEvent::SharedSocketEnded { cookie } => {
                self.clients.end_shared(cookie);
                Ok(())
            }
            ServerEvent::InterfaceReady { .. } => self.one_more_ready(),
            ServerEvent::DeviceLost { reason } => {
                self.handle_device_lost(server, &printable(&reason, MAX_SENTENCE))
            }
        }
    }

    /// A server's reply: `Err` is its refusal.
    pub(super) fn handle_reply(
        &mut self,
        context: ReplyContext,
        reply: ServerReply,
    ) -> Result<(), Failure> {
        let refusal = match &reply {
            ServerReply::Error { message } => Some(message.clone()),
            _ => None,
        };
        let done = if refusal.is_some() { Err(()) } else { Ok(()) };
        match context {
            ReplyContext::Configured => return self.configured(refusal),
            ReplyContext::PolicyAdded => return self.policy_added(refusal),
            ReplyContext::Xfrm(connection) => self.reply_xfrm(connection, reply)?,
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
            ReplyContext::Shared { connection, cookies, ends } => {
                self.reply_shared(connection, &cookies, &ends, refusal)?;
            }
            // The reply may be late: then the connection is gone.
            ReplyContext::Counters { connection, server } => {
                self.collect_status(connection, server, reply)?;
            }
            ReplyContext::Sockets(connection) => self.reply_sockets(connection, reply)?,
            ReplyContext::Network(connection) => self.reply_network(connection, reply)?,
            ReplyContext::Capture { connection, socket } => {
                self.reply_capture(connection, &socket, refusal)?;
            }
            ReplyContext::Attached(number) => self.attached(number, refusal)?,
            ReplyContext::Detached
            | ReplyContext::Announced
            | ReplyContext::Aborted
            | ReplyContext::Ending => {}
        }
        Ok(())
    }

    /// A driver cannot use its device any more. In mode `library` any program may say so: unless it
    /// is the instance's own program, only the host of the servers is lost.
    fn handle_device_lost(&mut self, server: ServerId, reason: &str) -> Result<(), Failure> {
        match self.device_lost(server, reason) {
            Err(failure) if self.program.is_none() && self.servers.lose_host() => {
                tracing::warn!(%failure, "the program that had the stack has lost it");
                Ok(())
            }
            done => done,
        }
    }

    /// One more server is configured.
    pub(super) fn configured(&mut self, refusal: Option<String>) -> Result<(), Failure> {
        if let Some(message) = refusal {
            let message = printable(&message, MAX_SENTENCE);
            if self.program.is_none() && self.servers.lose_host() {
                tracing::warn!(%message, "the program that had the stack cannot configure it");
                return Ok(());
            }
            let sentence = format!("a server refused its configuration: {message}");
            return Err(Failure::new(Code::Internal, sentence));
        }
        self.one_more_ready()
    }

    /// A policy or association of the configuration is there.
    fn policy_added(&mut self, refusal: Option<String>) -> Result<(), Failure> {
        match refusal {
            Some(message) => {
                let sentence = format!("xfrm: {}", printable(&message, MAX_SENTENCE));
                Err(Failure::new(Code::Configuration, sentence))
            }
            None => self.one_more_ready(),
        }
    }

    /// One more server is configured, or one more interface is usable. After the last one the
    /// instance is ready.
    pub(super) fn one_more_ready(&mut self) -> Result<(), Failure> {
        let Phase::Starting { left, .. } = &mut self.phase else { return Ok(()) };
        *left -= 1;
        if *left > 0 {
            return Ok(());
        }
        self.instance.seal_frames()?;
        self.begin()
    }

    /// The instance is ready.
    pub(super) fn begin(&mut self) -> Result<(), Failure> {
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
        self.restrict();
        Ok(())
    }

    /// As many clients as there may be at once may have data that is still to be sent when they are
    /// gone. If there are more, the peers of the first to go get RSTs.
    fn bound_departed(&mut self) -> Result<(), Failure> {
        let most = self.instance.settings.clients;
        while let Some(client) = self.clients.give_up_departed(most) {
            tracing::info!(client, "too many clients are gone and not all sent: it is reset");
            let request = ServerRequest::AbortClient { client };
            self.servers.ask(ServerId::Inet, request, &[], ReplyContext::Aborted)?;
        }
        Ok(())
    }

    /// Gives up the rights that nothing needs from now on. The program has been started with all.
    fn restrict(&self) {
        let plan = self.instance.sandbox_plan();
        let starts = self.instance.settings.mode != Mode::Library;
        if plan.demand != Demand::Off
            && let Err(error) = sandbox::supervisor::restrict(&plan.devices, starts)
        {
            tracing::warn!(%error, "the supervisor keeps its rights");
        }
    }

    /// Applies an event to a client, and takes the next action.
    pub(super) fn advance(&mut self, number: u16, happening: ClientEvent) -> Result<(), Failure> {
        let Some(client) = self.clients.get_mut(number) else { return Ok(()) };
        let connected = client.connection.is_some();
        let step;
        (client.stage, step) = admission::next(client.stage, happening, connected);
        let params = self.instance.settings.params;
        match step {
            ClientAction::Wait => Ok(()),
            ClientAction::AddToInet => {
                let death = client.connection.and_then(|id| self.connections.death(id));
                let fds = [Some(client.memory.fd.as_fd()), Some(client.bell.as_fd()), death];
                let fds: Vec<BorrowedFd<'_>> = fds.into_iter().flatten().collect();
                let request = ServerRequest::AddClient { client: number, params };
                self.servers.ask(ServerId::Inet, request, &fds, ReplyContext::Added(number))
            }
            ClientAction::Welcome => self.welcome(number),
            ClientAction::Remove => {
                let request = ServerRequest::RemoveClient { client: number };
                self.servers.ask(ServerId::Inet, request, &[], ReplyContext::Removed(number))?;
                self.clients.depart(number);
                self.bound_departed()
            }
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
}
