//! The requests of clients and operators to the supervisor, and their replies.

use std::collections::btree_map::Entry;
use std::os::fd::{AsFd, OwnedFd};

use abi::control::{
    ClientReply, ClientRequest, InstanceStatus, ProcessStatus, ServerReply, ServerRequest, VERSION,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::admission::{ClientEvent, ClientStage};
use super::clients::Client;
use super::connections::{ConnectionId, Received};
use super::instance::{Memory, bell};
use super::servers::ServerId;
use super::{PendingStatus, Phase, ReplyContext, Supervisor};
use crate::exit::Failure;

/// Bytes of frames that a capture may have waiting.
const CAPTURE_BUFFER: usize = 16 << 20;
/// Requests of one connection in one turn: so many do not keep us from anybody else.
const REQUESTS_PER_ITERATION: usize = 16;
/// Most clients that one process may be at a time. A process needs one. A process that takes all of
/// them must not keep others out.
const CLIENTS_PER_PROCESS: usize = 16;
/// Longest program name that is kept, bytes; longer than the kernel's 15.
const MAX_NAME: usize = 64;

impl Supervisor {
    /// Takes the requests of a connection, until one has to wait for a server; a bounded number.
    pub(super) fn serve(&mut self, id: ConnectionId) -> Result<(), Failure> {
        for _ in 0..REQUESTS_PER_ITERATION {
            let connection = self.connections.get_mut(id).filter(|c| !c.busy);
            let Some(connection) = connection else { return Ok(()) };
            match connection.receive() {
                Received::Request(request) => self.request(id, request)?,
                Received::Unknown(message) => {
                    self.reply(id, &ClientReply::Error { message }, &[])?;
                }
                Received::Nothing => return Ok(()),
                Received::Ended(why) => {
                    if let Some(why) = why {
                        let pid = connection.pid.as_raw_nonzero();
                        tracing::warn!(pid, %why, "connection dropped");
                    }
                    return self.drop_connection(id);
                }
            }
        }
        self.again.insert(id);
        Ok(())
    }

    fn request(&mut self, id: ConnectionId, request: ClientRequest) -> Result<(), Failure> {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.busy = true;
        }
        let done = match request {
            ClientRequest::Hello { version, program } => self.hello(id, version, &program),
            ClientRequest::AttachThread => self.attach_thread(id),
            ClientRequest::Bye => return self.bye(id),
            ClientRequest::Ps => self.ask_counters(id),
            ClientRequest::Ss { info, from } => {
                let request = ServerRequest::Ss { info, from };
                self.ask(ServerId::Inet, request, ReplyContext::Sockets(id))
            }
            ClientRequest::Trace { on } => {
                self.ask(ServerId::Inet, ServerRequest::Trace { on }, ReplyContext::Network(id))
            }
            ClientRequest::Network => {
                self.ask(ServerId::Inet, ServerRequest::Network, ReplyContext::Network(id))
            }
            ClientRequest::Capture { snaplen, interface } => {
                self.ask_capture(id, snaplen, interface.as_deref())
            }
            ClientRequest::Down => {
                self.ending.push(id);
                self.stop(None);
                return Ok(());
            }
        };
        match done {
            Ok(()) => Ok(()),
            Err(Refusal::Client(message)) => self.reply(id, &ClientReply::Error { message }, &[]),
            Err(Refusal::Instance(failure)) => Err(failure),
        }
    }

    /// Sends a reply, if the connection is still there.
    pub(super) fn reply(
        &mut self,
        id: ConnectionId,
        reply: &ClientReply,
        fds: &[&OwnedFd],
    ) -> Result<(), Failure> {
        let Some(connection) = self.connections.get_mut(id) else { return Ok(()) };
        let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
        self.again.insert(id);
        match connection.reply(reply, &fds) {
            Ok(()) => Ok(()),
            Err(why) => {
                let pid = connection.pid.as_raw_nonzero();
                tracing::info!(pid, %why, "no reply could be sent; connection dropped");
                self.drop_connection(id)
            }
        }
    }

    /// A connection is gone, and the client with it.
    pub(super) fn drop_connection(&mut self, id: ConnectionId) -> Result<(), Failure> {
        self.pending_status.remove(&id);
        let Some(number) = self.connections.remove(id) else { return Ok(()) };
        if let Some(client) = self.clients.get_mut(number) {
            client.connection = None;
        }
        self.advance(number, ClientEvent::Lost)
    }

    fn bye(&mut self, id: ConnectionId) -> Result<(), Failure> {
        let number = self.connections.get_mut(id).and_then(|connection| connection.client);
        if let Some(client) = number.and_then(|number| self.clients.get_mut(number)) {
            client.orderly = true;
        }
        self.drop_connection(id)
    }

    fn ask(
        &mut self,
        server: ServerId,
        request: ServerRequest,
        context: ReplyContext,
    ) -> Result<(), Refusal> {
        self.may_ask()?;
        Ok(self.servers.ask(server, request, &[], context)?)
    }

    /// While the servers end, nothing is asked of them any more.
    fn may_ask(&self) -> Result<(), Refusal> {
        if self.stopping() {
            return Err(Refusal::Client("the instance is ending".to_owned()));
        }
        if !self.servers.are_there() {
            let sentence = "in mode library the stack begins with the program's first socket";
            return Err(Refusal::Client(format!("{sentence}, and there is none")));
        }
        Ok(())
    }

    fn hello(&mut self, id: ConnectionId, version: u32, program: &str) -> Result<(), Refusal> {
        let refuse = |message: String| Err(Refusal::Client(message));
        self.check_admission(version)?;
        let Some(connection) = self.connections.get_mut(id) else { return Ok(()) };
        if let Some(lines) = self.servers.give(connection.pid) {
            let lines: Vec<&OwnedFd> = lines.iter().collect();
            return Ok(self.reply(id, &ClientReply::Host, &lines)?);
        }
        if let Err(host) = self.servers.serve(connection.pid) {
            return refuse(format!(
                "in mode library the stack is inside one program, process {host}: use --mode \
                 fused or split for several"
            ));
        }
        if connection.client.is_some() {
            return refuse("this connection is a client already".to_owned());
        }
        if !connection.watch() {
            return refuse("the process that connected has ended".to_owned());
        }
        let pid = connection.pid.as_raw_nonzero().get().unsigned_abs();
        if self.clients.iter().filter(|(_, c)| c.pid == pid).count() >= CLIENTS_PER_PROCESS {
            return refuse(format!(
                "this process is {CLIENTS_PER_PROCESS} clients already; it may not be more"
            ));
        }
        let Some(number) = self.clients.free_number() else {
            return refuse("all client numbers are in use".to_owned());
        };
        let params = self.instance.settings.params;
        let layout = params.layout().map_err(|error| Refusal::Client(error.to_string()))?;
        let huge = self.instance.settings.client_huge_pages;
        let memory = Memory::create(&format!("tasuki-client-{number}"), layout.len, huge);
        // Want of memory is this client's trouble only.
        let memory = memory.map_err(|failure| Refusal::Client(failure.sentence))?;
        let bell = bell().map_err(|failure| Refusal::Client(failure.sentence))?;
        connection.client = Some(number);
        let mut awaited = 0;
        for server in self.servers.drivers() {
            let request = ServerRequest::AddClient { client: number, params };
            self.servers.ask(
                server,
                request,
                &[memory.fd.as_fd()],
                ReplyContext::Mapped(number),
            )?;
            awaited += 1;
        }
        let client = Client {
            program: printable(program),
            pid,
            connection: Some(id),
            stage: ClientStage::Mapping,
            awaited,
            refused: false,
            memory,
            bell,
            threads: 0,
            orderly: false,
        };
        self.clients.insert(number, client);
        Ok(())
    }

    /// Can the instance take one more client with this version of the library?
    fn check_admission(&self, version: u32) -> Result<(), Refusal> {
        let refuse = |message: String| Err(Refusal::Client(message));
        let most = self.instance.settings.clients;
        if version != VERSION {
            refuse(format!(
                "the program's Tasuki library speaks version {version}, this instance {VERSION}: \
                 use the same installation for both"
            ))
        } else if self.phase != Phase::Running {
            refuse("the instance is ending".to_owned())
        } else if self.clients.len() >= most {
            refuse(format!("this instance takes {most} clients (instance.clients), no more"))
        } else {
            Ok(())
        }
    }

    /// A server refuses a client. The program is notified, and its connection is no client's any
    /// more.
    pub(super) fn log_refusal(
        &mut self,
        number: u16,
        refusal: Option<String>,
    ) -> Result<(), Failure> {
        let Some(message) = refusal else { return Ok(()) };
        tracing::warn!(client = number, %message, "a server does not take the client");
        let Some(client) = self.clients.get_mut(number) else { return Ok(()) };
        let Some(id) = client.connection.take() else { return Ok(()) };
        if let Some(connection) = self.connections.get_mut(id) {
            connection.client = None;
        }
        self.reply(id, &ClientReply::Error { message }, &[])
    }

    /// The client is known everywhere: it gets its region.
    pub(super) fn welcome(&mut self, number: u16) -> Result<(), Failure> {
        let Some(client) = self.clients.get(number) else { return Ok(()) };
        let Some(id) = client.connection else { return Ok(()) };
        let Some(connection) = self.connections.get_mut(id) else { return Ok(()) };
        let mut fds = vec![client.memory.fd.as_fd(), client.bell.as_fd()];
        fds.extend(self.instance.shared_frames());
        let params = self.instance.settings.params;
        // At most MAX_FDS.
        let frames = u16::try_from(fds.len() - 2).unwrap_or(0);
        let reply = ClientReply::Welcome { client: number, params, frames };
        self.again.insert(id);
        match connection.reply(&reply, &fds) {
            Ok(()) => Ok(()),
            Err(_) => self.drop_connection(id),
        }
    }

    fn attach_thread(&mut self, id: ConnectionId) -> Result<(), Refusal> {
        let refuse = |message: String| Err(Refusal::Client(message));
        let number = self.connections.get_mut(id).and_then(|connection| connection.client);
        let client = number.and_then(|number| self.clients.get_mut(number));
        let (Some(number), Some(client)) =
            (number, client.filter(|c| c.stage == ClientStage::Live))
        else {
            return refuse("this connection is not a client: say hello first".to_owned());
        };
        let most = self.instance.settings.params.threads;
        if client.threads >= most {
            return refuse(format!(
                "a client has {most} thread slots (memory.client.threads), no more"
            ));
        }
        let (ours, bell) = shm::doorbell().map_err(|error| {
            Refusal::Client(Failure::system("make a socket pair", error).sentence)
        })?;
        let thread = client.threads;
        client.threads += 1;
        let request = ServerRequest::AddThread { client: number, thread };
        let context = ReplyContext::Thread { connection: id, thread, bell };
        Ok(self.servers.ask(ServerId::Inet, request, &[ours.as_fd()], context)?)
    }

    pub(super) fn reply_thread(
        &mut self,
        id: ConnectionId,
        thread: u16,
        bell: &OwnedFd,
        refusal: Option<String>,
    ) -> Result<(), Failure> {
        match refusal {
            None => self.reply(id, &ClientReply::Thread { thread }, &[bell]),
            Some(message) => self.reply(id, &ClientReply::Error { message }, &[]),
        }
    }

    fn ask_counters(&mut self, id: ConnectionId) -> Result<(), Refusal> {
        let mut lines: Vec<ServerId> =
            [ServerId::Inet].into_iter().chain(self.servers.drivers()).collect();
        lines.retain(|_| self.servers.are_there());
        self.pending_status
            .insert(id, PendingStatus { left: lines.len(), ..PendingStatus::default() });
        for server in lines {
            self.ask(server, ServerRequest::Counters, ReplyContext::Counters(id))?;
        }
        Ok(self.reply_status(id)?)
    }

    /// One server's part of `tasuki ps` is here.
    pub(super) fn collect_status(
        &mut self,
        id: ConnectionId,
        reply: ServerReply,
    ) -> Result<(), Failure> {
        let Some(gather) = self.pending_status.get_mut(&id) else { return Ok(()) };
        match reply {
            ServerReply::Counters { counters, pools, histograms } => {
                // Counters of several drivers are added up.
                for (name, count) in counters {
                    *gather.counters.entry(name).or_default() += count;
                }
                gather.pools.extend(pools);
                for histogram in histograms {
                    match gather.histograms.entry(histogram.name.clone()) {
                        Entry::Vacant(place) => drop(place.insert(histogram)),
                        Entry::Occupied(mut place) => place.get_mut().merge(&histogram),
                    }
                }
            }
            other => tracing::warn!(?other, "a server does not tell its counters"),
        }
        gather.left -= 1;
        self.reply_status(id)
    }

    /// The answer to `tasuki ps`, once all parts of it are here.
    fn reply_status(&mut self, id: ConnectionId) -> Result<(), Failure> {
        if self.pending_status.get(&id).is_none_or(|gather| gather.left > 0) {
            return Ok(());
        }
        let Some(PendingStatus { pools, counters, histograms, .. }) =
            self.pending_status.remove(&id)
        else {
            return Ok(());
        };
        let stack = self.instance.links.iter().flat_map(|link| &link.addresses.stack);
        let addresses: Vec<String> = stack.map(ToString::to_string).collect();
        let status = InstanceStatus {
            instance: self.instance.settings.name.to_string(),
            mode: self.instance.settings.mode.to_string(),
            address: addresses.first().cloned().unwrap_or_default(),
            addresses,
            processes: self.processes(),
            pools,
            counters: counters.into_iter().collect(),
            histograms: histograms.into_values().collect(),
        };
        self.reply(id, &ClientReply::Processes(status), &[])
    }

    fn processes(&self) -> Vec<ProcessStatus> {
        let server = |role: &str, pid, name: &str, memory: &str| ProcessStatus {
            role: role.to_owned(),
            pid,
            name: name.to_owned(),
            client: None,
            memory: memory.to_owned(),
        };
        let mut all = vec![server("supervisor", std::process::id(), "tasuki", "-")];
        let mut links = self.instance.links.iter();
        let first = self.instance.links.first().map_or("", |link| link.frames.backing.as_str());
        for (role, pid) in self.servers.processes() {
            let link = if role == "inet" { None } else { links.next() };
            let (name, frames) = link.map_or(("tasuki-inet", first), |link| {
                (link.device.device.name(), link.frames.backing.as_str())
            });
            all.push(server(role, pid, name, frames));
        }
        for (number, client) in self.clients.iter().filter(|(_, c)| c.connection.is_some()) {
            let backing = &client.memory.backing;
            let process = server("client", client.pid, &client.program, backing);
            all.push(ProcessStatus { client: Some(number), ..process });
        }
        all
    }

    pub(super) fn reply_sockets(
        &mut self,
        id: ConnectionId,
        reply: ServerReply,
    ) -> Result<(), Failure> {
        let reply = match reply {
            ServerReply::Sockets { sockets, more } => ClientReply::Sockets { sockets, more },
            ServerReply::Error { message } => ClientReply::Error { message },
            other => ClientReply::Error { message: format!("the inet server answered {other:?}") },
        };
        self.reply(id, &reply, &[])
    }

    pub(super) fn reply_network(
        &mut self,
        id: ConnectionId,
        reply: ServerReply,
    ) -> Result<(), Failure> {
        let reply = match reply {
            ServerReply::Network(status) => ClientReply::Network(self.complete(status)),
            ServerReply::Stages(report) => ClientReply::Stages(report),
            ServerReply::Error { message } => ClientReply::Error { message },
            other => ClientReply::Error { message: format!("the inet server answered {other:?}") },
        };
        self.reply(id, &reply, &[])
    }

    fn ask_capture(
        &mut self,
        id: ConnectionId,
        snaplen: u32,
        interface: Option<&str>,
    ) -> Result<(), Refusal> {
        self.may_ask()?;
        let number = match interface {
            None => 0,
            Some(name) => self.instance.link_named(name).ok_or_else(|| {
                let name = printable(name);
                Refusal::Client(format!("there is no interface {name}: see `tasuki addr`"))
            })?,
        };
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (driver, socket) = rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None)
            .map_err(|errno| Refusal::Client(format!("cannot make a socket pair: {errno}")))?;
        // A larger buffer misses fewer frames. Root may have it; other users get the system's
        // limit.
        let _ = sockopt::set_socket_send_buffer_size_force(&driver, CAPTURE_BUFFER)
            .or_else(|_| sockopt::set_socket_send_buffer_size(&driver, CAPTURE_BUFFER));
        let context = ReplyContext::Capture { connection: id, socket };
        let request = ServerRequest::Capture { snaplen };
        Ok(self.servers.ask(ServerId::Nic(number), request, &[driver.as_fd()], context)?)
    }

    pub(super) fn reply_capture(
        &mut self,
        id: ConnectionId,
        socket: &OwnedFd,
        refusal: Option<String>,
    ) -> Result<(), Failure> {
        match refusal {
            None => self.reply(id, &ClientReply::Capture, &[socket]),
            Some(message) => self.reply(id, &ClientReply::Error { message }, &[]),
        }
    }
}

/// Why a request is not carried out.
enum Refusal {
    /// It gets this sentence.
    Client(String),
    /// The instance cannot go on.
    Instance(Failure),
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Instance(failure)
    }
}

/// A program may have any name. Tables and logs show only its printable characters.
fn printable(name: &str) -> String {
    let mut name: String = name.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    let end = (0..=MAX_NAME.min(name.len())).rev().find(|at| name.is_char_boundary(*at));
    name.truncate(end.unwrap_or(0));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_printable() {
        assert_eq!(printable("curl"), "curl");
        assert_eq!(printable("a\x1b[2J\nb"), "a?[2J?b");
        assert_eq!(printable(&"ä".repeat(100)).len(), 64);
        assert_eq!(printable(&format!("x{}", "ä".repeat(100))).len(), 63);
    }
}
