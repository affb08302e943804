//! The lines of clients and operators: who may have one, one request at a time, never waiting for
//! them.
//!
//! Only root and the user of the instance are let in (SO_PEERCRED). A connection that does not read
//! its replies is dropped: the supervisor waits for nobody.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;

use abi::control::{ClientReply, ClientRequest};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use shm::{Channel, TryRecv};

use crate::exit::Failure;

/// Bytes of replies that a connection may have waiting: more than the longest message.
const SEND_BUFFER: usize = 8 << 20;

/// Number of a connection; never used twice.
pub(super) type ConnectionId = u64;

/// One client or operator.
pub(super) struct Connection {
    channel: Channel,
    /// The process that connected.
    pub(super) pid: Pid,
    /// Becomes readable when that process has ended; for clients.
    death: Option<OwnedFd>,
    /// A request is being answered: the next one waits.
    pub(super) busy: bool,
    /// The other end hung up while a request was being answered.
    hung_up: bool,
    /// The client that it admitted.
    pub(super) client: Option<u16>,
}

/// What came over a connection.
pub(super) enum Received {
    /// A request.
    Request(ClientRequest),
    /// Something else: a sentence about it.
    Unknown(String),
    /// None for now.
    Nothing,
    /// It ended, or is of no use: why, when it is the other end's fault.
    Ended(Option<String>),
}

impl Connection {
    /// The next request; never waits.
    pub(super) fn receive(&mut self) -> Received {
        match self.channel.try_recv() {
            Ok(TryRecv::Message(message)) => match serde_json::from_slice(&message.body) {
                Ok(request) => Received::Request(request),
                Err(error) => Received::Unknown(format!("the request is not known: {error}")),
            },
            Ok(TryRecv::Empty) => Received::Nothing,
            Ok(TryRecv::Ended) => Received::Ended(None),
            Err(error) => Received::Ended(Some(error.to_string())),
        }
    }

    /// Sends a reply; the connection takes requests again.
    ///
    /// # Errors
    /// A sentence; drop the connection.
    pub(super) fn reply(
        &mut self,
        reply: &ClientReply,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), String> {
        self.busy = false;
        let mut room = [PollFd::new(&self.channel, PollFlags::OUT)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut room, Some(&now)) != Ok(1) || !room[0].revents().contains(PollFlags::OUT) {
            return Err("it does not read its replies".to_owned());
        }
        let body = serde_json::to_vec(reply).map_err(|error| error.to_string())?;
        self.channel.send(&body, fds).map_err(|error| error.to_string())
    }

    /// Watches for the death of the process that connected. `false`: it is dead already.
    pub(super) fn watch(&mut self) -> bool {
        self.death = pidfd_open(self.pid, PidfdFlags::empty()).ok();
        self.death.is_some()
    }
}

/// What to poll of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watch {
    /// Its line.
    Line,
    /// The death of its process.
    Death,
}

/// All connections of an instance.
pub(super) struct Connections {
    all: BTreeMap<ConnectionId, Connection>,
    next: ConnectionId,
    /// Accepting failed for want of descriptors: no more until a connection ends.
    full: bool,
}

impl Connections {
    pub(super) fn new() -> Self {
        Self { all: BTreeMap::new(), next: 1, full: false }
    }

    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.all.get_mut(&id)
    }

    pub(super) fn ids(&self) -> Vec<ConnectionId> {
        self.all.keys().copied().collect()
    }

    /// Closes a connection; the number of the client that it was.
    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<u16> {
        self.full = false;
        self.all.remove(&id)?.client
    }

    /// May more connections be accepted?
    pub(super) fn accepts(&self, most: usize) -> bool {
        !self.full && self.all.len() < most
    }

    /// Accepts everybody who waits and may come in, up to `most` connections.
    ///
    /// # Errors
    /// When the listening socket fails.
    pub(super) fn accept(&mut self, listener: &UnixListener, most: usize) -> Result<(), Failure> {
        while self.accepts(most) {
            let flags = rustix::net::SocketFlags::CLOEXEC;
            let fd = match rustix::net::accept_with(listener, flags) {
                Ok(fd) => fd,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(errno @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS)) => {
                    tracing::warn!(%errno, "cannot accept more connections for now");
                    self.full = true;
                    break;
                }
                Err(errno) => return Err(Failure::system("accept connections", errno)),
            };
            self.admit(fd);
        }
        Ok(())
    }

    fn admit(&mut self, fd: OwnedFd) {
        let Ok(peer) = sockopt::socket_peercred(&fd) else { return };
        // Root may have a larger buffer than others; what cannot be had is not needed by small
        // replies.
        let _ = sockopt::set_socket_send_buffer_size_force(&fd, SEND_BUFFER)
            .or_else(|_| sockopt::set_socket_send_buffer_size(&fd, SEND_BUFFER));
        let mut connection = Connection {
            channel: Channel::from_fd(fd),
            pid: peer.pid,
            death: None,
            busy: false,
            hung_up: false,
            client: None,
        };
        if !peer.uid.is_root() && peer.uid != rustix::process::geteuid() {
            let pid = peer.pid.as_raw_nonzero();
            tracing::warn!(pid, uid = peer.uid.as_raw(), "refused: another user's process");
            let message = "this instance belongs to another user".to_owned();
            // Whether it reads that is its affair.
            let _ = connection.reply(&ClientReply::Error { message }, &[]);
            return;
        }
        self.all.insert(self.next, connection);
        self.next += 1;
    }

    /// All that is to be polled, with the connection that it belongs to.
    pub(super) fn watched(&self) -> impl Iterator<Item = (ConnectionId, Watch, PollFd<'_>)> {
        self.all.iter().flat_map(|(id, connection)| {
            let events =
                if connection.busy { PollFlags::RDHUP } else { PollFlags::IN | PollFlags::RDHUP };
            let line = (!connection.hung_up).then(|| {
                (*id, Watch::Line, PollFd::from_borrowed_fd(connection.channel.as_fd(), events))
            });
            let death = connection.death.as_ref();
            let death = death.map(|fd| (*id, Watch::Death, PollFd::new(fd, PollFlags::IN)));
            line.into_iter().chain(death)
        })
    }

    /// A busy connection's other end hung up: what it still sent is read when the request is
    /// answered.
    pub(super) fn hang_up(&mut self, id: ConnectionId) {
        if let Some(connection) = self.all.get_mut(&id) {
            connection.hung_up = true;
        }
    }
}
