//! The server processes and the control connections to them.
//!
//! Requests carry an id; the context of the reply waits under that id.
//!
//! In mode `library` there are no processes. Requests go into the control connections as in the
//! other modes. Their other ends wait here for the first process that wants a socket
//! ([`Servers::give`]), which then hosts the servers. When that process is gone, so are the servers
//! ([`Servers::are_lost`]), and the next process may begin anew.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use abi::control::{
    NumberedRequest, SandboxStatus, ServerEvent, ServerOutput, ServerReply, ServerRequest,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Pid;
use sandbox::Role;
use shm::{Channel, ChannelError, TryRecv};

use super::server_process::{SandboxPlan, ServerProcess};
use crate::config::Mode;
use crate::exit::{Code, Failure};
use crate::limits::TOO_MANY_IN_FLIGHT;

/// How long a server may take to end after its control connection ended.
const EXIT_PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// Most unanswered requests of a control connection. More of them wait here. So few always fit into
/// the socket. So the supervisor never waits for a server that may be waiting for its replies to be
/// read.
const WINDOW: usize = 32;

/// One of the lines; in fused mode the first driver's ends in the inet server's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ServerId {
    /// To the inet server.
    Inet,
    /// To the NIC driver of that interface.
    Nic(u16),
}

/// A message of a server.
pub(super) enum ServerMessage<P> {
    /// A reply to a request that was made for this purpose.
    Reply(P, ServerReply),
    /// Something happened there.
    Event(ServerEvent),
    /// Nothing more for now.
    Nothing,
}

/// A request that is not sent yet: its number, body and descriptors.
struct WaitingRequest(u64, Vec<u8>, Vec<OwnedFd>);

/// One end of a line.
struct ControlConnection {
    channel: Channel,
    /// The other end is gone.
    broken: bool,
    /// Requests that were sent and not answered.
    unanswered: usize,
    /// Requests that wait until fewer are.
    waiting: VecDeque<WaitingRequest>,
    /// Requests that could not be sent, with the reason.
    refused: VecDeque<(u64, String)>,
    /// The other end may be any program, which may answer requests that it has not read.
    impatient: bool,
}

impl ControlConnection {
    fn new(channel: Channel) -> Self {
        let (waiting, refused) = (VecDeque::new(), VecDeque::new());
        Self { channel, broken: false, unanswered: 0, waiting, refused, impatient: false }
    }

    /// Sends a request. What the system refuses for now is refused to the request alone.
    fn send(&mut self, id: u64, body: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), ChannelError> {
        let sent = match self.impatient {
            true => self.channel.post(body, fds),
            false => self.channel.send(body, fds).map(|()| true),
        };
        match sent {
            Ok(true) => self.unanswered += 1,
            Ok(false) => return Err(ChannelError::System(Errno::AGAIN)),
            // Descriptors go with the first byte, so nothing of the request was sent.
            Err(ChannelError::System(Errno::TOOMANYREFS)) => {
                self.refused.push_back((id, TOO_MANY_IN_FLIGHT.to_owned()));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// A reply came: the next request may go.
    fn answered(&mut self) -> Result<(), ChannelError> {
        self.unanswered = self.unanswered.saturating_sub(1);
        while self.unanswered < WINDOW
            && let Some(WaitingRequest(id, body, fds)) = self.waiting.pop_front()
        {
            let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
            self.send(id, &body, &fds)?;
        }
        Ok(())
    }
}

/// In mode `library`: the holder of the other ends of the control connections.
enum LibraryHost {
    /// No process yet: the inet server's and the drivers' ends.
    Awaited(Vec<Channel>),
    /// This process.
    Process(Pid),
}

/// All servers of an instance. `P` is the purpose of a reply. Servers that still run when this is
/// dropped are killed.
pub(super) struct Servers<P> {
    inet: ControlConnection,
    /// By interface.
    nics: Vec<ControlConnection>,
    /// The inet server, then the drivers in order; in fused mode the first two are one.
    processes: Vec<ServerProcess>,
    /// In mode `library`.
    host: Option<LibraryHost>,
    next_id: u64,
    asked: BTreeMap<u64, P>,
    /// One was asked to end, so all will.
    ending: bool,
    plan: SandboxPlan,
    /// A message about an incomplete sandbox was written: one is enough.
    warned: bool,
}

impl<P> Servers<P> {
    /// Starts the processes of a mode, with a driver for each device of the plan (at least one).
    ///
    /// # Errors
    /// When the system has no process or descriptor left.
    pub(super) fn start(mode: Mode, plan: SandboxPlan) -> Result<Self, Failure> {
        let (inet, nics, mut ends) = lines(plan.devices.len())?;
        let devices = plan.devices.clone();
        let mut servers = Self {
            inet,
            nics,
            processes: Vec::new(),
            host: None,
            next_id: 1,
            asked: BTreeMap::new(),
            ending: false,
            plan,
            warned: false,
        };
        if mode == Mode::Library {
            servers.host = Some(LibraryHost::Awaited(ends));
            servers.be_impatient();
            return Ok(servers);
        }
        let inet_end = ends.remove(0);
        let mut drivers = devices.into_iter().zip(&ends);
        match mode {
            Mode::Fused => {
                let first = drivers.next();
                let role = first.map_or(Role::Inet, |(device, _)| Role::Fused(device));
                servers.spawn(role, &inet_end, first.map(|(_, end)| end))?;
            }
            _ => servers.spawn(Role::Inet, &inet_end, None)?,
        }
        for (device, end) in drivers {
            servers.spawn(Role::Driver(device), end, None)?;
        }
        Ok(servers)
    }

    /// In mode `library`, while no process hosts the servers: the ends of the control connections
    /// for this process, which hosts them from now on.
    pub(super) fn give(&mut self, pid: Pid) -> Option<Vec<OwnedFd>> {
        let Some(LibraryHost::Awaited(ends)) = &mut self.host else { return None };
        let ends = std::mem::take(ends).into_iter().map(OwnedFd::from).collect();
        self.host = Some(LibraryHost::Process(pid));
        Some(ends)
    }

    /// May this process be a client? In mode `library` only the host of the servers may. The error
    /// names the host.
    pub(super) fn serve(&self, pid: Pid) -> Result<(), Pid> {
        match self.host {
            Some(LibraryHost::Process(host)) if host != pid => Err(host),
            _ => Ok(()),
        }
    }

    /// Is there a process that answers?
    pub(super) fn are_there(&self) -> bool {
        !matches!(self.host, Some(LibraryHost::Awaited(_)))
    }

    /// In mode `library`: is the process gone that hosted the servers?
    pub(super) fn are_lost(&self) -> bool {
        let broken = self.inet.broken || self.nics.iter().any(|nic| nic.broken);
        self.host.is_some() && broken
    }

    /// In mode `library`: makes new control connections for another host. Returns the unanswered
    /// requests.
    ///
    /// # Errors
    /// When the system has no descriptor left.
    pub(super) fn renew(&mut self) -> Result<Vec<P>, Failure> {
        let (inet, nics, ends) = lines(self.nics.len())?;
        (self.inet, self.nics, self.host) = (inet, nics, Some(LibraryHost::Awaited(ends)));
        self.be_impatient();
        Ok(std::mem::take(&mut self.asked).into_values().collect())
    }

    /// In mode `library`: the process that hosts the servers.
    pub(super) fn host(&self) -> Option<Pid> {
        match self.host {
            Some(LibraryHost::Process(pid)) => Some(pid),
            _ => None,
        }
    }

    /// In mode `library`: does without the process that hosts the servers. `false` in other modes.
    pub(super) fn lose_host(&mut self) -> bool {
        self.inet.broken |= self.host.is_some();
        self.host.is_some()
    }

    /// The number of requests that wait until a server has answered others.
    pub(super) fn waiting(&self, server: ServerId) -> usize {
        match server {
            ServerId::Inet => self.inet.waiting.len(),
            ServerId::Nic(number) => {
                self.nics.get(usize::from(number)).map_or(0, |nic| nic.waiting.len())
            }
        }
    }

    fn be_impatient(&mut self) {
        [&mut self.inet].into_iter().chain(&mut self.nics).for_each(|line| line.impatient = true);
    }

    fn spawn(
        &mut self,
        role: Role,
        line: &Channel,
        second: Option<&Channel>,
    ) -> Result<(), Failure> {
        self.processes.push(ServerProcess::start(&mut self.plan, role, line, second)?);
        Ok(())
    }

    /// Sends a request to a server. Its reply comes out of [`Servers::receive`] with `context`.
    ///
    /// # Errors
    /// When the control connection is broken.
    pub(super) fn ask(
        &mut self,
        server: ServerId,
        request: ServerRequest,
        fds: &[BorrowedFd<'_>],
        context: P,
    ) -> Result<(), Failure> {
        let id = self.next_id;
        self.next_id += 1;
        let ending = request == ServerRequest::Shutdown;
        let body = serde_json::to_vec(&NumberedRequest { id, request })
            .map_err(|error| Failure::system("encode a request", error))?;
        self.asked.insert(id, context);
        self.ending |= ending;
        if self.connection(server).unanswered >= WINDOW {
            let fds: Result<Vec<_>, _> = fds.iter().map(|fd| fd.try_clone_to_owned()).collect();
            match fds {
                Ok(fds) => {
                    let request = WaitingRequest(id, body, fds);
                    self.connection(server).waiting.push_back(request);
                }
                Err(error) => {
                    let sentence = Failure::system("copy a descriptor", error).sentence;
                    self.connection(server).refused.push_back((id, sentence));
                }
            }
            return Ok(());
        }
        let sent = self.connection(server).send(id, &body, fds);
        sent.or_else(|error| self.broken(server, &error).map_or(Ok(()), Err))
    }

    /// The lines to all drivers.
    pub(super) fn drivers(&self) -> impl Iterator<Item = ServerId> + use<P> {
        (0..u16::try_from(self.nics.len()).unwrap_or(u16::MAX)).map(ServerId::Nic)
    }

    /// The next message of a server; never waits.
    ///
    /// # Errors
    /// When the control connection is broken or ended, or a reply has no request.
    pub(super) fn receive(&mut self, server: ServerId) -> Result<ServerMessage<P>, Failure> {
        if self.connection(server).broken {
            return Ok(ServerMessage::Nothing);
        }
        while let Some((id, message)) = self.connection(server).refused.pop_front() {
            if let Some(context) = self.asked.remove(&id) {
                return Ok(ServerMessage::Reply(context, ServerReply::Error { message }));
            }
        }
        let message = match self.connection(server).channel.try_recv() {
            Ok(TryRecv::Message(message)) => message,
            Ok(TryRecv::Empty) => return Ok(ServerMessage::Nothing),
            Ok(TryRecv::Ended) => return self.end_of_messages(server, &"it ended"),
            Err(error) => return self.end_of_messages(server, &error),
        };
        match serde_json::from_slice(&message.body) {
            Ok(ServerOutput::Event(event)) => Ok(ServerMessage::Event(event)),
            Ok(ServerOutput::Sandbox(status)) => match self.note_sandbox(server, status) {
                true => self.receive(server),
                false => self.end_of_messages(server, &"it speaks of its sandbox again"),
            },
            Ok(ServerOutput::Reply { id, reply }) => match self.asked.remove(&id) {
                Some(context) => {
                    if let Err(error) = self.connection(server).answered() {
                        self.broken(server, &error).map_or(Ok(()), Err)?;
                    }
                    Ok(ServerMessage::Reply(context, reply))
                }
                None => {
                    self.end_of_messages(server, &format_args!("reply {id} answers no request"))
                }
            },
            Err(error) => self.end_of_messages(server, &error),
        }
    }

    /// The servers to which a request could not be sent: [`Servers::receive`] has the refusal.
    pub(super) fn refused(&self) -> impl Iterator<Item = ServerId> {
        let refused = |(_, control): &(ServerId, &ControlConnection)| !control.refused.is_empty();
        self.all().filter(refused).map(|(server, _)| server)
    }

    /// The lines.
    fn all(&self) -> impl Iterator<Item = (ServerId, &ControlConnection)> {
        [(ServerId::Inet, &self.inet)].into_iter().chain(self.drivers().zip(&self.nics))
    }

    /// A server has entered its sandbox; `false` if it said so before. The first one that lacks
    /// something is reported.
    fn note_sandbox(&mut self, server: ServerId, status: SandboxStatus) -> bool {
        let index = self.process_of(server);
        let process = self.processes.get_mut(index).filter(|process| process.sandbox.is_none());
        let Some(process) = process else { return false };
        if !status.missing.is_empty() && !std::mem::replace(&mut self.warned, true) {
            let missing = status.missing.join(", ");
            tracing::warn!(
                server = server.name(),
                %missing,
                "the sandbox is not complete; `tasuki ps --security` shows what there is"
            );
        }
        process.sandbox = Some(status);
        true
    }

    fn end_of_messages(
        &mut self,
        server: ServerId,
        what: &dyn fmt::Display,
    ) -> Result<ServerMessage<P>, Failure> {
        self.broken(server, what).map_or(Ok(ServerMessage::Nothing), Err)
    }

    /// A control connection is broken. Mostly its server has ended or is just ending. Then that end
    /// is the failure to report, unless servers were asked to end. In mode `library` it is no
    /// failure yet: see [`Servers::are_lost`].
    fn broken(&mut self, server: ServerId, what: &dyn fmt::Display) -> Option<Failure> {
        self.connection(server).broken = true;
        if self.host.is_some() {
            tracing::debug!(server = server.name(), %what, "the host of the servers left");
            return None;
        }
        if self.ending {
            tracing::debug!(server = server.name(), %what, "while ending");
            return None;
        }
        let index = self.process_of(server);
        if let Some(process) = self.processes.get(index) {
            let mut death = [PollFd::new(&process.pidfd, PollFlags::IN)];
            // If this fails, the sentence below is the less telling one.
            let _ = poll(&mut death, Some(&EXIT_PATIENCE));
        }
        let sentence = self.collect(index).unwrap_or_else(|| {
            format!("the control connection to the {} failed: {what}", server.name())
        });
        Some(Failure::new(Code::Internal, sentence))
    }

    /// Lines are named by their number only here, in [`Servers::drivers`] and where interfaces are
    /// counted off, so there is one.
    fn connection(&mut self, server: ServerId) -> &mut ControlConnection {
        match server {
            ServerId::Inet => &mut self.inet,
            ServerId::Nic(number) => &mut self.nics[usize::from(number)],
        }
    }

    /// Place of the process behind a line.
    fn process_of(&self, server: ServerId) -> usize {
        match server {
            ServerId::Inet => 0,
            // One more than the drivers, or in fused mode as many.
            ServerId::Nic(number) => {
                usize::from(number) + self.processes.len().saturating_sub(self.nics.len())
            }
        }
    }

    /// The lines in use and their descriptors, for poll.
    pub(super) fn control_connections(&self) -> impl Iterator<Item = (ServerId, BorrowedFd<'_>)> {
        self.all()
            .filter(|(_, control)| !control.broken)
            .map(|(server, control)| (server, control.channel.as_fd()))
    }

    /// Index and pidfd of every process that has not ended.
    pub(super) fn running(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        let all = self.processes.iter().enumerate();
        all.filter(|(_, p)| p.status.is_none()).map(|(index, p)| (index, p.pidfd.as_fd()))
    }

    /// Has the process behind a line ended?
    pub(super) fn has_ended(&self, server: ServerId) -> bool {
        let process = self.processes.get(self.process_of(server));
        process.is_none_or(|process| process.status.is_some())
    }

    /// Role and process id of every process.
    pub(super) fn processes(&self) -> impl Iterator<Item = (&'static str, u32)> {
        self.processes.iter().map(|process| (process.role, process.id()))
    }

    /// The sandbox of every process, as far as it is known.
    pub(super) fn sandboxes(&self) -> impl Iterator<Item = Option<SandboxStatus>> {
        self.processes.iter().map(|process| process.sandbox.clone())
    }

    /// Collects a process whose pidfd became readable. Returns a sentence about its end, once.
    pub(super) fn collect(&mut self, index: usize) -> Option<String> {
        self.processes.get_mut(index)?.collect()
    }

    /// Kills the servers that still run, and collects them.
    pub(super) fn kill(&mut self) {
        for process in self.processes.iter_mut().filter(|process| process.status.is_none()) {
            process.kill();
        }
    }
}

impl<P> Drop for Servers<P> {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Lines to an inet server and so many drivers, and their other ends in that order.
fn lines(
    drivers: usize,
) -> Result<(ControlConnection, Vec<ControlConnection>, Vec<Channel>), Failure> {
    let pair = || match Channel::pair() {
        // Servers send no descriptors. In mode `library` they are in a program.
        Ok((ours, end)) => Ok((ours.refusing(), end)),
        Err(error) => Err(Failure::system("make a socket pair", error)),
    };
    let (inet, inet_end) = pair()?;
    let pairs = (0..drivers).map(|_| pair()).collect::<Result<Vec<_>, _>>()?;
    let (nics, mut ends): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    ends.insert(0, inet_end);
    Ok((ControlConnection::new(inet), nics.into_iter().map(ControlConnection::new).collect(), ends))
}

impl ServerId {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Inet => "inet server",
            Self::Nic(_) => "NIC driver",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host answers requests that it does not read, so more and more of them go out. The
    /// supervisor does not wait until the host reads them.
    #[test]
    fn a_host_that_reads_nothing_is_lost() {
        let mut servers: Servers<()> =
            Servers::start(Mode::Library, SandboxPlan::default()).unwrap();
        let pid = rustix::process::getpid();
        let ends = servers.give(pid).unwrap();
        let mut end = Channel::from_fd(ends.into_iter().next().unwrap());
        for id in 1..100_000 {
            servers.ask(ServerId::Inet, ServerRequest::Counters, &[], ()).unwrap();
            let reply = ServerOutput::Reply { id, reply: ServerReply::Done };
            end.send(&serde_json::to_vec(&reply).unwrap(), &[]).unwrap();
            let _ = servers.receive(ServerId::Inet).unwrap();
            if servers.are_lost() {
                return;
            }
        }
        panic!("its socket takes any number of requests");
    }
}
