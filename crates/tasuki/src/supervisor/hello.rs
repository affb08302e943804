//! Admission of a process as a client, and of its threads.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use abi::control::{ClientReply, ServerRequest, VERSION};
use rustix::process::Uid;

use super::admission::ClientStage;
use super::budget;
use super::clients::Client;
use super::connections::{ConnectionId, is_own};
use super::faults::Origin;
use super::instance::{Memory, bell};
use super::requests::{MAX_NAME, Refusal, printable};
use super::servers::ServerId;
use super::{Phase, ReplyContext, Supervisor, WaitingHello};
use crate::exit::Failure;

/// Most clients that one process may be at a time. A process needs one. A process that takes all of
/// them must not keep others out.
const CLIENTS_PER_PROCESS: usize = 16;
/// Most clients together with those that are gone and not yet forgotten, as a multiple of
/// `instance.clients`. As many as that setting may have data that is still to be sent; the rest may
/// be about to be forgotten.
const CLIENTS_IN_ALL: usize = 3;
/// A user whom only `instance.group` lets in has at most this part of all clients. Departed ones
/// count.
const OTHER_USERS_PART: usize = 4;

impl Supervisor {
    /// A program wants to be a client.
    pub(super) fn hello(
        &mut self,
        id: ConnectionId,
        version: u32,
        program: &str,
    ) -> Result<(), Refusal> {
        self.check_admission(version)?;
        let Some(connection) = self.connections.get_mut(id) else { return Ok(()) };
        let program = printable(program, MAX_NAME);
        let origin = Origin::of(connection.pid, connection.user, &program);
        let waits = self.waiting_hellos.iter().any(|hello| hello.origin == origin);
        let now = Instant::now();
        if waits || self.faults.admit(&origin, now).is_err() {
            self.waiting_hellos.push(WaitingHello { id, program, origin });
            self.hello_at = Some(now);
            return Ok(());
        }
        self.admit(id, &program, origin)
    }

    /// Admits programs that have waited for it, in their order.
    pub(super) fn serve_waiting_hellos(&mut self) -> Result<(), Failure> {
        let now = Instant::now();
        if self.hello_at.is_none_or(|at| now < at) {
            return Ok(());
        }
        self.hello_at = None;
        for hello in std::mem::take(&mut self.waiting_hellos) {
            if self.connections.get_mut(hello.id).is_none() {
                continue;
            }
            if let Err(until) = self.faults.admit(&hello.origin, now) {
                self.hello_at = Some(self.hello_at.map_or(until, |at| at.min(until)));
                self.waiting_hellos.push(hello);
                continue;
            }
            let WaitingHello { id, program, origin } = hello;
            let done =
                self.check_admission(VERSION).and_then(|()| self.admit(id, &program, origin));
            self.refuse(id, done)?;
        }
        Ok(())
    }

    fn admit(&mut self, id: ConnectionId, program: &str, origin: Origin) -> Result<(), Refusal> {
        let refuse = |message: String| Err(Refusal::Client(message));
        let Some(connection) = self.connections.get_mut(id) else { return Ok(()) };
        if let Some(lines) = self.servers.give(connection.pid) {
            let lines: Vec<&OwnedFd> = lines.iter().collect();
            program.clone_into(&mut self.host_program);
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
        let (user, pid) = (connection.user, connection.pid);
        let pid = pid.as_raw_nonzero().get().unsigned_abs();
        self.check_shares(user, pid)?;
        let (promised, clients) = (self.clients.descriptors(), self.clients.len());
        budget::check_client(&self.instance, promised, clients).map_err(Refusal::Client)?;
        let Some(connection) = self.connections.get_mut(id) else { return Ok(()) };
        let Some(number) = self.clients.free_number() else {
            return refuse("all client numbers are in use".to_owned());
        };
        let params = self.instance.settings.params;
        let layout = params.layout().map_err(|error| Refusal::Client(error.to_string()))?;
        let huge = self.instance.settings.client_huge_pages;
        let memory = Memory::create(&format!("tasuki-client-{number}"), layout.len, huge);
        // Want of memory is this client's trouble only.
        let memory = memory.map_err(|failure| Refusal::Client(failure.sentence))?;
        let for_drivers = memory.read_only();
        let for_drivers = for_drivers.map_err(|failure| Refusal::Client(failure.sentence))?;
        let bell = bell().map_err(|failure| Refusal::Client(failure.sentence))?;
        connection.client = Some(number);
        let mut awaited = 0;
        for server in self.servers.drivers() {
            let request = ServerRequest::AddClient { client: number, params };
            self.servers.ask(
                server,
                request,
                &[for_drivers.as_fd()],
                ReplyContext::Mapped(number),
            )?;
            awaited += 1;
        }
        let program = program.to_owned();
        let client = Client {
            connection: Some(id),
            awaited,
            ..Client::new(program, pid, origin, memory, bell)
        };
        self.clients.insert(number, client);
        Ok(())
    }

    /// Does the process or its user have as many clients as it may have?
    fn check_shares(&self, user: Uid, pid: u32) -> Result<(), Refusal> {
        let refuse = |message: String| Err(Refusal::Client(message));
        let count = |is_meant: &dyn Fn(&Client) -> bool| {
            self.clients.iter().filter(|(_, client)| is_meant(client)).count()
        };
        let most = self.instance.settings.clients.div_ceil(OTHER_USERS_PART);
        if !is_own(user) && count(&|client| client.origin.user == user.as_raw()) >= most {
            return refuse(format!("a user who is not the instance's has at most {most} clients"));
        }
        if count(&|client| client.pid == pid) >= CLIENTS_PER_PROCESS {
            return refuse(format!(
                "this process is {CLIENTS_PER_PROCESS} clients already; it may not be more"
            ));
        }
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
        } else if self.clients.connected().len() >= most {
            refuse(format!("this instance takes {most} clients (instance.clients), no more"))
        } else if self.clients.len() >= most * CLIENTS_IN_ALL {
            refuse("clients that are gone still hold too much memory: try again".to_owned())
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

    pub(super) fn attach_thread(&mut self, id: ConnectionId) -> Result<(), Refusal> {
        let refuse = |message: String| Err(Refusal::Client(message));
        let promised = self.clients.descriptors();
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
        if client.threads > 0 {
            budget::check_more(&self.instance, promised, 1).map_err(Refusal::Client)?;
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
            Some(message) => {
                // The slot is free, unless a later one was given before this answer came.
                let number = self.connections.get_mut(id).and_then(|connection| connection.client);
                let client = number.and_then(|number| self.clients.get_mut(number));
                if let Some(client) = client.filter(|client| client.threads == thread + 1) {
                    client.threads = thread;
                }
                self.reply(id, &ClientReply::Error { message }, &[])
            }
        }
    }
}
