//! The requests of clients and operators to the supervisor, and their replies.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use abi::control::{Audience, ClientReply, ClientRequest, ServerReply, ServerRequest};
use abi::xfrm::XfrmRequest;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::admission::ClientEvent;
use super::awaited::REPLY_PATIENCE;
use super::connections::{ConnectionId, Received};
use super::servers::ServerId;
use super::{ReplyContext, Supervisor};
use crate::exit::Failure;
use crate::vectors::reserved;

/// Bytes of frames that a capture may have waiting.
const CAPTURE_BUFFER: usize = 16 << 20;
/// Requests of one connection in one turn: so many do not keep us from anybody else.
const REQUESTS_PER_ITERATION: usize = 16;
/// A reply that does not fit the request.
const WRONG_ANSWER: &str = "the inet server's answer does not fit the question";
/// Most requests that wait for one server. Operators' requests beyond that are refused.
const MOST_WAITING: usize = 256;
/// Longest program name that is kept, bytes; longer than the kernel's 15.
pub(super) const MAX_NAME: usize = 64;

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
                    self.wrong_request(id)?;
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
        let Some(connection) = self.connections.get_mut(id) else { return Ok(()) };
        connection.busy = true;
        if !request.is_for(connection.audience) {
            let right = match connection.audience {
                Audience::Programs => Audience::Operators,
                Audience::Operators => Audience::Programs,
            };
            let socket = self.instance.sockets.of(right).path().display().to_string();
            self.reply(id, &ClientReply::WrongSocket { socket }, &[])?;
            return self.wrong_request(id);
        }
        let done = match request {
            ClientRequest::Hello { version, program } => self.hello(id, version, &program),
            ClientRequest::AttachThread => self.attach_thread(id),
            ClientRequest::Share { sockets } => self.share(id, sockets),
            ClientRequest::Relay { version } => self.begin_relay(id, version),
            ClientRequest::Introduce { thread } => self.introduce(id, thread),
            ClientRequest::Bye => return self.drop_connection(id),
            ClientRequest::Ps => self.ask_counters(id),
            ClientRequest::Ss { info, from } => {
                let request = ServerRequest::Ss { info, from };
                self.ask(id, ServerId::Inet, request, ReplyContext::Sockets(id))
            }
            ClientRequest::Trace { on, marks } => {
                let request = ServerRequest::Trace { on, marks };
                self.ask(id, ServerId::Inet, request, ReplyContext::Network(id))
            }
            ClientRequest::Xfrm { xfrm } => self.ask_xfrm(id, xfrm),
            ClientRequest::Network => {
                self.ask(id, ServerId::Inet, ServerRequest::Network, ReplyContext::Network(id))
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
        self.refuse(id, done)
    }

    fn wrong_request(&mut self, id: ConnectionId) -> Result<(), Failure> {
        if !self.connections.wrong_request(id) {
            return Ok(());
        }
        tracing::warn!("connection dropped: it made too many wrong requests");
        self.drop_connection(id)
    }

    /// Tells a connection why its request is not carried out, if so.
    pub(super) fn refuse(
        &mut self,
        id: ConnectionId,
        done: Result<(), Refusal>,
    ) -> Result<(), Failure> {
        match done {
            Ok(()) => Ok(()),
            Err(Refusal::Client(message)) => {
                if let Some(connection) = self.connections.get_mut(id) {
                    connection.refused = true;
                }
                self.reply(id, &ClientReply::Error { message }, &[])
            }
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
        self.awaited.end(id);
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
        self.waiting_hellos.retain(|hello| hello.id != id);
        self.awaited.end(id);
        let Some(number) = self.connections.remove(id) else { return Ok(()) };
        if let Some(client) = self.clients.get_mut(number) {
            client.connection = None;
        }
        self.advance(number, ClientEvent::Lost)
    }

    /// Asks a server for a connection, which waits for the reply.
    pub(super) fn ask(
        &mut self,
        id: ConnectionId,
        server: ServerId,
        request: ServerRequest,
        context: ReplyContext,
    ) -> Result<(), Refusal> {
        self.ask_with(id, server, request, &[], context)
    }

    /// As [`Supervisor::ask`], with descriptors.
    fn ask_with(
        &mut self,
        id: ConnectionId,
        server: ServerId,
        request: ServerRequest,
        fds: &[BorrowedFd<'_>],
        context: ReplyContext,
    ) -> Result<(), Refusal> {
        self.may_ask()?;
        if self.servers.waiting(server) >= MOST_WAITING {
            return Err(Refusal::Client(self.no_answer()));
        }
        self.awaited.begin(id, Instant::now());
        Ok(self.servers.ask(server, request, fds, context)?)
    }

    /// Gives up the requests of operators that servers have not answered in time. Their connections
    /// end with that, so a later answer meets none.
    pub(super) fn give_up_late(&mut self) -> Result<(), Failure> {
        for id in self.awaited.late(Instant::now()) {
            let message = self.no_answer();
            self.reply(id, &ClientReply::Error { message }, &[])?;
            self.drop_connection(id)?;
        }
        Ok(())
    }

    /// A sentence about servers that do not answer.
    fn no_answer(&self) -> String {
        let seconds = REPLY_PATIENCE.as_secs();
        if let Some(host) = self.servers.host() {
            let (name, pid) = (&self.host_program, host.as_raw_nonzero());
            return format!(
                "{name} (process {pid}), which has the stack, does not answer within {seconds} \
                 seconds"
            );
        }
        let all = self.servers.processes();
        let all: Vec<String> = all.map(|(role, pid)| format!("{role} (process {pid})")).collect();
        format!("a server does not answer within {seconds} seconds: {}", all.join(" or "))
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

    pub(super) fn reply_sockets(
        &mut self,
        id: ConnectionId,
        reply: ServerReply,
    ) -> Result<(), Failure> {
        let reply = match reply {
            ServerReply::Sockets { sockets, more } => ClientReply::Sockets { sockets, more },
            ServerReply::Error { message } => ClientReply::Error { message },
            _ => ClientReply::Error { message: WRONG_ANSWER.to_owned() },
        };
        self.reply(id, &reply, &[])
    }

    fn ask_xfrm(&mut self, id: ConnectionId, xfrm: XfrmRequest) -> Result<(), Refusal> {
        let vectors = reserved(&xfrm).map_err(|refusal| Refusal::Client(refusal.to_string()))?;
        let request = ServerRequest::Xfrm { xfrm, vectors };
        self.ask(id, ServerId::Inet, request, ReplyContext::Xfrm(id))
    }

    pub(super) fn reply_xfrm(
        &mut self,
        id: ConnectionId,
        reply: ServerReply,
    ) -> Result<(), Failure> {
        let reply = match reply {
            ServerReply::Done => ClientReply::Done,
            ServerReply::Xfrm(status) => ClientReply::Xfrm(status),
            ServerReply::Error { message } => ClientReply::Error { message },
            _ => ClientReply::Error { message: WRONG_ANSWER.to_owned() },
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
            _ => ClientReply::Error { message: WRONG_ANSWER.to_owned() },
        };
        self.reply(id, &reply, &[])
    }

    fn ask_capture(
        &mut self,
        id: ConnectionId,
        snaplen: u32,
        interface: Option<&str>,
    ) -> Result<(), Refusal> {
        let number = match interface {
            None => 0,
            Some(name) => self.instance.link_named(name).ok_or_else(|| {
                let name = printable(name, MAX_NAME);
                Refusal::Client(format!("there is no interface {name}: see `tasuki addr`"))
            })?,
        };
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (driver, socket) = rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None)
            .map_err(|errno| Refusal::Client(format!("cannot make a socket pair: {errno}")))?;
        // Nothing comes from the operator, and so nothing that would take long to close.
        let _ = rustix::net::shutdown(&driver, rustix::net::Shutdown::Read);
        // A larger buffer misses fewer frames. Root may have it; other users get the system's
        // limit.
        let _ = sockopt::set_socket_send_buffer_size_force(&driver, CAPTURE_BUFFER)
            .or_else(|_| sockopt::set_socket_send_buffer_size(&driver, CAPTURE_BUFFER));
        let context = ReplyContext::Capture { connection: id, socket };
        let request = ServerRequest::Capture { snaplen };
        self.ask_with(id, ServerId::Nic(number), request, &[driver.as_fd()], context)
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
pub(super) enum Refusal {
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

/// A program may have any name. Tables and logs show only its printable characters, at most so many
/// bytes of them.
pub(super) fn printable(name: &str, most: usize) -> String {
    // A character has at most four bytes, and is not made longer.
    let chars = name.chars().take(most);
    let mut name: String = chars.map(|c| if c.is_control() { '?' } else { c }).collect();
    let end = (0..=most.min(name.len())).rev().find(|at| name.is_char_boundary(*at));
    name.truncate(end.unwrap_or(0));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_printable() {
        assert_eq!(printable("curl", 64), "curl");
        assert_eq!(printable("a\x1b[2J\nb", 64), "a?[2J?b");
        assert_eq!(printable(&"ä".repeat(100), 64).len(), 64);
        assert_eq!(printable(&format!("x{}", "ä".repeat(100)), 64).len(), 63);
    }
}
