//! Messages with file descriptors over a Unix stream socket.
//!
//! A message is a head of 8 bytes and a body. The head has the length of the body and the number of
//! descriptors, both `u32`, low byte first. The descriptors are attached to the head's first byte,
//! so they have arrived when the message is complete. The stream gives bytes in any pieces; the
//! channel keeps the beginning of an incomplete message.
//!
//! The other end may be hostile:
//!
//! * A body has at most [`MAX_BODY`] bytes, and memory grows only with bytes that really came.
//! * A message has at most [`MAX_FDS`] descriptors ([`Channel::limited`]: less).
//! * Descriptors that no message announces, or announced ones that did not come, are an error.
//! * Closing a descriptor may take as long as its sender chose. The other end of a
//!   [`Channel::refusing`] channel cannot send any. [`Channel::untrusted`] is for another end that
//!   may have sent some already; a thread closes them ([`crate::closer`]). A channel that is to
//!   bring none takes none out of the socket's queue.
//!
//! A process that is out of descriptors still gets the message, without some of its descriptors
//! ([`Message::lost`]).
//!
//! After an error drop the channel.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use crate::closer::{self, ClosedLater, MOST_PASSED};
use crate::descriptors::keep;
use crate::passing::{refuse_descriptors, takes_descriptors};

/// Most bytes of a body.
pub const MAX_BODY: usize = 4 << 20;
/// Most descriptors of a message.
pub const MAX_FDS: usize = 8;

const HEAD: usize = 8;
/// Bytes asked of the socket at a time.
const MOST_READ: usize = 64 << 10;

/// Why a channel is of no more use, or a message was not sent.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// Our own message is over the limits; nothing was sent.
    #[error("message of {body} bytes and {fds} descriptors is over the limits of a channel")]
    TooLarge {
        /// Bytes of the body.
        body: usize,
        /// Descriptors.
        fds: usize,
    },
    /// The other end broke the protocol; drop it.
    #[error("peer broke the channel: {what} ({value})")]
    Peer {
        /// The peer's fault.
        what: &'static str,
        /// The number that is wrong.
        value: usize,
    },
    /// The other end closed the channel before our message was sent.
    #[error("the other end of the channel is gone")]
    Gone,
    /// The system failed.
    #[error("channel: {0}")]
    System(#[source] Errno),
}

impl From<Errno> for ChannelError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::PIPE | Errno::CONNRESET => Self::Gone,
            errno => Self::System(errno),
        }
    }
}

/// One message.
#[derive(Debug)]
pub struct Message {
    /// Its bytes.
    pub body: Vec<u8>,
    /// Its descriptors, closed on exec.
    pub fds: Vec<OwnedFd>,
    /// Some of its descriptors are missing: this process has as many open files as it may have. The
    /// kernel has closed those.
    pub lost: bool,
}

/// The result of [`Channel::try_recv`].
#[derive(Debug)]
pub enum TryRecv {
    /// A message.
    Message(Message),
    /// No whole message yet.
    Empty,
    /// The other end closed the channel in good order.
    Ended,
}

/// One end of a connection that carries messages.
#[derive(Debug)]
pub struct Channel {
    fd: ClosedLater,
    /// Bytes received; those before `parsed` are used up.
    input: Vec<u8>,
    parsed: usize,
    fds: VecDeque<ClosedLater>,
    /// Where in `fds` some are missing. They are all of one message.
    lost_at: Option<usize>,
    ended: bool,
    /// Most bytes and descriptors of a message that is received.
    max_body: usize,
    max_fds: usize,
    /// Descriptors that come are kept ([`crate::descriptors`]).
    keeps: bool,
    /// The rest of a message that [`Channel::post`] began to send.
    output: VecDeque<u8>,
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<Channel> for OwnedFd {
    /// The socket. Input that was received and not taken is lost.
    fn from(channel: Channel) -> Self {
        channel.fd.into_inner()
    }
}

impl From<Channel> for ClosedLater {
    /// The socket, as the channel would have closed it.
    fn from(channel: Channel) -> Self {
        channel.fd
    }
}

impl Channel {
    /// A channel over a connected Unix stream socket; blocking or not makes no difference.
    #[must_use]
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self {
            fd: ClosedLater::new(fd, false),
            input: Vec::new(),
            parsed: 0,
            fds: VecDeque::new(),
            lost_at: None,
            ended: false,
            max_body: MAX_BODY,
            max_fds: MAX_FDS,
            keeps: false,
            output: VecDeque::new(),
        }
    }

    /// Receives no message with more than this: for another end that has no reason to send it.
    #[must_use]
    pub fn limited(self, body: usize, fds: usize) -> Self {
        Self { max_body: body.min(MAX_BODY), max_fds: fds.min(MAX_FDS), ..self }
    }

    /// Keeps its own descriptor and those that it receives: see [`crate::descriptors`].
    #[must_use]
    pub fn keeping(self) -> Self {
        let later = self.fd.is_later();
        Self { fd: ClosedLater::new(keep(self.fd.into_inner()), later), keeps: true, ..self }
    }

    /// Receives no descriptors. For a channel whose other end no untrusted process has had yet.
    #[must_use]
    pub fn refusing(self) -> Self {
        // On an older kernel the thread closes what comes.
        let later = refuse_descriptors(&self.fd).is_err();
        Self { fd: ClosedLater::new(self.fd.into_inner(), later), max_fds: 0, ..self }
    }

    /// For another end that may harm us, and may have sent something already. Closing what it sent
    /// never holds up the caller. The other end of a connection to a listening socket that takes
    /// no descriptors ([`refuse_descriptors`]) cannot have sent any.
    #[must_use]
    pub fn untrusted(self) -> Self {
        let later = takes_descriptors(&self.fd);
        if later && self.max_fds == 0 {
            // If that fails, they are received and closed by the thread.
            let _ = refuse_descriptors(&self.fd);
        }
        Self { fd: ClosedLater::new(self.fd.into_inner(), later), ..self }
    }

    /// Are messages left alone until descriptors are closed that came before them?
    #[must_use]
    pub fn is_held_up(&self) -> bool {
        self.max_fds > 0 && self.fd.is_later() && closer::is_behind()
    }

    /// Two connected channels; closed on exec.
    ///
    /// # Errors
    /// The system's, such as too many open files.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (unix, stream) = (AddressFamily::UNIX, SocketType::STREAM);
        let (a, b) = rustix::net::socketpair(unix, stream, SocketFlags::CLOEXEC, None)?;
        Ok((Self::from_fd(a), Self::from_fd(b)))
    }

    /// Sends a message; waits until the socket has taken all of it.
    ///
    /// # Errors
    /// [`ChannelError`]. After [`ChannelError::System`] part of the message may have been sent:
    /// drop the channel.
    pub fn send(&mut self, body: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), ChannelError> {
        let head = head(body, fds)?;
        let mut sent = 0;
        while sent < HEAD + body.len() {
            let head_left = head.get(sent..).unwrap_or(&[]);
            let body_left = &body[sent.saturating_sub(HEAD)..];
            // With the first byte go all descriptors.
            let fds = if sent == 0 { fds } else { &[] };
            let pieces = [IoSlice::new(head_left), IoSlice::new(body_left)];
            match self.send_some(&pieces, fds, SendFlags::NOSIGNAL) {
                Ok(n) => sent += n,
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT)?,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Sends as much of a message as the socket takes now, and keeps the rest for
    /// [`Channel::flush`]. Never waits. True: all is sent.
    ///
    /// # Errors
    /// [`ChannelError`], also when the socket takes nothing at all or the last message is not sent
    /// yet (EAGAIN). Drop the channel.
    pub fn post(&mut self, body: &[u8], fds: &[BorrowedFd<'_>]) -> Result<bool, ChannelError> {
        let head = head(body, fds)?;
        if !self.output.is_empty() {
            return Err(ChannelError::System(Errno::AGAIN));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let sent = self.send_some(&[IoSlice::new(&head), IoSlice::new(body)], fds, flags)?;
        self.output.extend(head.iter().chain(body).skip(sent));
        self.flush()
    }

    /// Sends more of the rest that [`Channel::post`] kept. Never waits. True: nothing is left.
    ///
    /// # Errors
    /// [`ChannelError`]; drop the channel.
    pub fn flush(&mut self) -> Result<bool, ChannelError> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        while !self.output.is_empty() {
            let (front, _) = self.output.as_slices();
            match self.send_some(&[IoSlice::new(front)], &[], flags) {
                Ok(n) => drop(self.output.drain(..n)),
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        self.output = VecDeque::new();
        Ok(true)
    }

    fn send_some(
        &self,
        data: &[IoSlice<'_>],
        fds: &[BorrowedFd<'_>],
        flags: SendFlags,
    ) -> Result<usize, Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(Errno::INVAL);
        }
        rustix::net::sendmsg(&self.fd, data, &mut control, flags)
    }

    /// Waits for a message and receives it. `None`: the peer closed the channel in good order.
    ///
    /// # Errors
    /// [`ChannelError::Peer`] and [`ChannelError::System`].
    pub fn recv(&mut self) -> Result<Option<Message>, ChannelError> {
        loop {
            match self.try_recv()? {
                TryRecv::Message(message) => return Ok(Some(message)),
                TryRecv::Ended => return Ok(None),
                TryRecv::Empty => self.wait(PollFlags::IN)?,
            }
        }
    }

    /// Receives a message if all of it has come, and the channel is not held up
    /// ([`Channel::is_held_up`]). Never waits.
    ///
    /// # Errors
    /// [`ChannelError::Peer`] and [`ChannelError::System`].
    pub fn try_recv(&mut self) -> Result<TryRecv, ChannelError> {
        loop {
            if let Some(message) = self.parse()? {
                return Ok(TryRecv::Message(message));
            }
            if self.ended {
                return self.end();
            }
            if self.is_held_up() {
                return Ok(TryRecv::Empty);
            }
            match self.receive_some() {
                Ok(()) | Err(ChannelError::System(Errno::INTR)) => {}
                Err(ChannelError::System(Errno::AGAIN)) => return Ok(TryRecv::Empty),
                Err(error) => return Err(error),
            }
        }
    }

    /// The stream is over: in good order only between two messages.
    fn end(&self) -> Result<TryRecv, ChannelError> {
        match self.input.len() - self.parsed {
            0 if self.fds.is_empty() => Ok(TryRecv::Ended),
            value => Err(ChannelError::Peer { what: "it ended within a message", value }),
        }
    }

    /// Takes a message out of the input, if a whole one is there.
    fn parse(&mut self) -> Result<Option<Message>, ChannelError> {
        let input = self.input.get(self.parsed..).unwrap_or(&[]);
        let Some((head, rest)) = input.split_first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let field = |at: usize| {
            let bytes = [head[at], head[at + 1], head[at + 2], head[at + 3]];
            usize::try_from(u32::from_le_bytes(bytes)).unwrap_or(usize::MAX)
        };
        let (len, count) = (field(0), field(4));
        if len > self.max_body {
            return Err(ChannelError::Peer { what: "its message is too long", value: len });
        }
        if count > self.max_fds {
            return Err(ChannelError::Peer { what: "too many descriptors", value: count });
        }
        let Some(body) = rest.get(..len) else { return Ok(None) };
        let lost = self.lost_at.take_if(|at| *at < count);
        let count = lost.unwrap_or(count);
        if self.fds.len() < count {
            return Err(ChannelError::Peer {
                what: "announced descriptors are missing",
                value: count,
            });
        }
        let body = body.to_vec();
        self.lost_at = self.lost_at.map(|at| at - count);
        let fds = self.fds.drain(..count).map(ClosedLater::into_inner).collect();
        self.parsed += HEAD + len;
        if self.parsed == self.input.len() {
            self.input.clear();
            self.parsed = 0;
            if !self.fds.is_empty() || self.lost_at.is_some() {
                let value = self.fds.len();
                return Err(ChannelError::Peer { what: "descriptors without a message", value });
            }
        }
        Ok(Some(Message { body, fds, lost: lost.is_some() }))
    }

    /// Reads the bytes that are there, at most [`MOST_READ`] or a message.
    fn receive_some(&mut self) -> Result<(), ChannelError> {
        self.input.drain(..self.parsed);
        self.parsed = 0;
        let before = self.input.len();
        self.input.resize(before + MOST_READ.min(HEAD + self.max_body), 0);
        if self.max_fds == 0 && self.fd.is_later() {
            return self.receive_bytes(before);
        }
        // Room for all that may come: the kernel closes those that do not fit, within the call.
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_PASSED))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let mut into = [IoSliceMut::new(&mut self.input[before..])];
        let received = rustix::net::recvmsg(&self.fd, &mut into, &mut control, flags);
        self.input.truncate(before + received.as_ref().map_or(0, |r| r.bytes));
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                let (keeps, later) = (self.keeps, self.fd.is_later());
                let keep = |fd| ClosedLater::new(if keeps { keep(fd) } else { fd }, later);
                self.fds.extend(fds.map(keep));
            }
        }
        let received = match received {
            Ok(received) => received,
            // The other end died with messages of ours unread: it is the end all the same.
            Err(Errno::CONNRESET) => {
                self.ended = true;
                return Ok(());
            }
            Err(errno) => return Err(ChannelError::System(errno)),
        };
        // There was room for all. So this process may have no more of them.
        let lost = received.flags.contains(ReturnFlags::CTRUNC);
        if lost && self.lost_at.is_some() {
            return Err(ChannelError::System(Errno::MFILE));
        }
        // A read ends with the data that descriptors came with, so the next ones are others'.
        self.lost_at = self.lost_at.or(lost.then_some(self.fds.len()));
        // The current message's and, if a read went into the next one, that one's.
        if (lost && self.max_fds == 0) || self.fds.len() > 2 * self.max_fds {
            let value = self.fds.len();
            return Err(ChannelError::Peer { what: "too many descriptors", value });
        }
        self.ended = received.bytes == 0;
        Ok(())
    }

    /// Reads bytes into the input from `before` on. Descriptors stay in the socket's queue.
    fn receive_bytes(&mut self, before: usize) -> Result<(), ChannelError> {
        let received = closer::recv_bytes(&self.fd, &mut self.input[before..]);
        self.input.truncate(before + received.unwrap_or(0));
        match received {
            Ok(count) => self.ended = count == 0,
            Err(Errno::CONNRESET) => self.ended = true,
            Err(Errno::BADMSG) => {
                return Err(ChannelError::Peer { what: "too many descriptors", value: 1 });
            }
            Err(errno) => return Err(ChannelError::System(errno)),
        }
        Ok(())
    }

    fn wait(&self, events: PollFlags) -> Result<(), ChannelError> {
        match rustix::event::poll(&mut [PollFd::new(&self.fd, events)], None) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(ChannelError::System(errno)),
        }
    }
}

/// A message's head.
fn head(body: &[u8], fds: &[BorrowedFd<'_>]) -> Result<[u8; HEAD], ChannelError> {
    let too_large = ChannelError::TooLarge { body: body.len(), fds: fds.len() };
    let (Ok(len), Ok(count)) = (u32::try_from(body.len()), u32::try_from(fds.len())) else {
        return Err(too_large);
    };
    if body.len() > MAX_BODY || fds.len() > MAX_FDS {
        return Err(too_large);
    }
    let mut head = [0; HEAD];
    head[..4].copy_from_slice(&len.to_le_bytes());
    head[4..].copy_from_slice(&count.to_le_bytes());
    Ok(head)
}

#[cfg(test)]
mod tests;
