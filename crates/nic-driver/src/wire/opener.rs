//! Finding the other end of a wire for a driver that may open no path.
//!
//! ```text
//! driver ──Find──▶ opener (supervisor)            meets at the path
//!        ◀──Connected, socket / Listening, listening socket / Busy / Failed──
//! ```
//!
//! The opener keeps a copy of the listening socket, and removes its file before it closes the copy.
//! So the other end never takes the file for that of a dead listener, and replaces it, while the
//! opener is about to remove it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use shm::closer::ClosedLater;
use shm::{Channel, ChannelError, Message, TryRecv};

use super::meet::{self, Listener, Meeting};

/// Longest message of a driver, bytes.
const LONGEST_REQUEST: usize = 64;
/// Requests answered before the supervisor does something else.
const REQUESTS_AT_ONCE: u32 = 4;

/// A driver's request.
#[derive(Debug, Serialize, Deserialize)]
enum OpenerRequest {
    /// The other end, or a listening socket for it.
    Find,
}

/// The opener's reply.
#[derive(Debug, Serialize, Deserialize)]
enum OpenerReply {
    /// fds: a socket that is connected to the other end, which listens.
    Connected,
    /// fds: a listening socket at the path.
    Listening,
    /// Another end is looking at this very moment.
    Busy,
    /// The other end cannot be met.
    Failed(String),
}

/// The half of a wire that needs the right to use its path: the supervisor's.
#[derive(Debug)]
pub struct WireOpener {
    path: PathBuf,
    channel: Channel,
    listener: Option<Listener>,
}

impl WireOpener {
    /// For a wire at `path`, and the descriptor for its driver.
    ///
    /// # Errors
    /// The system's, when no descriptor is left.
    pub fn new(path: &Path) -> io::Result<(Self, OwnedFd)> {
        let (ours, drivers) = Channel::pair()?;
        let channel = ours.limited(LONGEST_REQUEST, 0).refusing();
        Ok((Self { path: path.to_owned(), channel, listener: None }, drivers.into()))
    }

    /// Answers requests of the driver, if there are any. Never waits. False: the driver is gone or
    /// broke the rules; drop the opener.
    #[must_use]
    pub fn serve(&mut self) -> bool {
        for _ in 0..REQUESTS_AT_ONCE {
            let message = match self.channel.try_recv() {
                Ok(TryRecv::Message(message)) => message,
                Ok(TryRecv::Empty) => return true,
                Ok(TryRecv::Ended) | Err(_) => return false,
            };
            let Ok(OpenerRequest::Find) = serde_json::from_slice(&message.body) else {
                return false;
            };
            if self.answer().is_err() {
                return false;
            }
        }
        true
    }

    fn answer(&mut self) -> Result<(), ChannelError> {
        let (reply, socket) = match self.find() {
            Ok(Some(socket)) => (OpenerReply::Connected, Some(socket)),
            Ok(None) => (OpenerReply::Listening, None),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => (OpenerReply::Busy, None),
            Err(error) => (OpenerReply::Failed(error.to_string()), None),
        };
        let listening = self.listener.as_ref().filter(|_| matches!(reply, OpenerReply::Listening));
        let fd = socket.as_ref().or(listening.map(|listener| &listener.socket));
        let fds: Vec<_> = fd.iter().map(|fd| fd.as_fd()).collect();
        let body = serde_json::to_vec(&reply).unwrap_or_default();
        // A driver that reads no replies is not waited for.
        self.channel.post(&body, &fds).and_then(|all| match all {
            true => Ok(()),
            false => Err(ChannelError::System(Errno::AGAIN)),
        })
    }

    /// A socket that is connected to the other end, or none: the opener listens.
    fn find(&mut self) -> io::Result<Option<ClosedLater>> {
        if self.listener.is_none() {
            match meet::meet(&self.path)? {
                Meeting::Connected(socket) => return Ok(Some(socket)),
                Meeting::Listening(listener) => self.listener = Some(listener),
            }
        }
        Ok(None)
    }
}

impl AsFd for WireOpener {
    /// Readable when [`WireOpener::serve`] has something to do.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

/// The result of a search for the other end.
#[derive(Debug)]
pub(super) enum Found {
    Connected(OwnedFd),
    Listening(OwnedFd),
    Busy,
}

/// The driver's end of the channel to its opener.
#[derive(Debug)]
pub(super) struct OpenerClient(Channel);

impl OpenerClient {
    pub(super) fn new(channel: OwnedFd) -> Self {
        Self(Channel::from_fd(channel).keeping())
    }

    pub(super) fn ask(&mut self) -> io::Result<()> {
        let body = serde_json::to_vec(&OpenerRequest::Find)?;
        self.0.post(&body, &[]).map_err(io::Error::other)?;
        Ok(())
    }

    /// The reply, once it is there.
    pub(super) fn reply(&mut self) -> io::Result<Option<Found>> {
        let Message { body, fds, lost } = match self.0.try_recv().map_err(io::Error::other)? {
            TryRecv::Message(message) => message,
            TryRecv::Empty => return Ok(None),
            TryRecv::Ended => return Err(io::Error::other("the supervisor is gone")),
        };
        if lost {
            return Err(io::Error::from(Errno::MFILE));
        }
        let socket = fds.into_iter().next();
        match (serde_json::from_slice(&body)?, socket) {
            (OpenerReply::Connected, Some(socket)) => Ok(Some(Found::Connected(socket))),
            (OpenerReply::Listening, Some(socket)) => Ok(Some(Found::Listening(socket))),
            (OpenerReply::Busy, None) => Ok(Some(Found::Busy)),
            (OpenerReply::Failed(reason), None) => Err(io::Error::other(reason)),
            (reply, _) => Err(io::Error::other(format!("{reply:?} has the wrong descriptors"))),
        }
    }
}

impl AsFd for OpenerClient {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
