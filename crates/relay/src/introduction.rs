//! Connections to the instance for programs that have the library.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use abi::control::{ClientReply, ClientRequest, VERSION};
use abi::network::NetworkStatus;
use rustix::io::Errno;
use shm::{Channel, ChannelError};

use crate::call::Notification;
use crate::notification::NotificationSocket;

/// The relay's own connection to the supervisor.
pub(crate) struct Introductions(Channel);

/// A connection that the supervisor has not answered yet. It may be unable to, while it starts the
/// program.
pub(crate) struct Unanswered(Introductions);

impl Unanswered {
    /// Connects to the instance with this socket.
    ///
    /// # Errors
    /// The system's: there is no instance.
    pub(crate) fn connect(instance: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(instance)?;
        Ok(Self(Introductions(Channel::from_fd(stream.into()))))
    }

    /// Begins at the instance. `None`: it is in mode `library`, and has no relay.
    ///
    /// # Errors
    /// One sentence: it has ended, or is of another installation.
    pub(crate) fn begin(self) -> io::Result<Option<Introductions>> {
        let Self(mut all) = self;
        let (reply, _) = all.ask(&ClientRequest::Relay { version: VERSION })?;
        Ok((reply != ClientReply::Host).then_some(all))
    }
}

impl Introductions {
    /// A connection for the process of `thread`.
    ///
    /// # Errors
    /// One sentence: why the instance takes no more programs, or that it has ended.
    pub(crate) fn introduce(&mut self, thread: u32) -> io::Result<OwnedFd> {
        let (_, fd) = self.ask(&ClientRequest::Introduce { thread })?;
        fd.ok_or_else(|| io::Error::other("the instance introduced nobody"))
    }

    /// The state of the instance's network.
    ///
    /// # Errors
    /// One sentence: the instance does not tell, or has ended.
    pub(crate) fn network(&mut self) -> io::Result<NetworkStatus> {
        match self.ask(&ClientRequest::Network)?.0 {
            ClientReply::Network(status) => Ok(status),
            _ => Err(io::Error::other("the instance does not tell its network")),
        }
    }

    fn ask(&mut self, request: &ClientRequest) -> io::Result<(ClientReply, Option<OwnedFd>)> {
        let body = serde_json::to_vec(request)?;
        match self.0.send(&body, &[]) {
            // An instance that refuses a process says why, and hangs up without reading.
            Ok(()) | Err(ChannelError::Gone) => {}
            Err(error) => return Err(io::Error::other(error)),
        }
        let message = self.0.recv().map_err(io::Error::other)?;
        let message = message.ok_or_else(|| io::Error::other("the instance has ended"))?;
        match serde_json::from_slice(&message.body)? {
            ClientReply::Error { message } => Err(io::Error::other(message)),
            reply => Ok((reply, message.fds.into_iter().next())),
        }
    }
}

/// Gives the caller its connection.
pub(crate) fn answer(all: &mut Introductions, calls: &NotificationSocket, call: &Notification) {
    match all.introduce(call.thread) {
        Ok(end) => calls.answer_with(call, end, true),
        Err(error) => {
            tracing::warn!(%error, "a program has no network");
            calls.answer(call, Err(Errno::NETDOWN));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_read_although_the_instance_has_hung_up() {
        let (ours, mut instance) = Channel::pair().unwrap();
        let message = "not here".to_owned();
        let refusal = serde_json::to_vec(&ClientReply::Error { message }).unwrap();
        instance.send(&refusal, &[]).unwrap();
        drop(instance);
        let said = Introductions(ours).network().unwrap_err();
        assert_eq!(said.to_string(), "not here");
    }
}
