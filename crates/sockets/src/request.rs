//! Typed calls of a [`CallBatch`](crate::CallBatch): [`Request`] going out, [`Completion`] with its
//! [`Reply`] coming back.

use std::net::SocketAddr;

use abi::call::{self, CallFlags, Op, ReplyWords};
use abi::option::{GET_PART, OptionKey, OptionValue};
use abi::{Errno, Family, ShutdownHow, SocketKind};

use crate::membership::{CallOutcome, FinishedCall, Membership, NewCall, SocketSpec};
use crate::socket::Socket;

/// Names a registered call of a [`CallBatch`](crate::CallBatch).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(pub(crate) u32);

/// A call to be registered. Clones of the sockets it names are kept until its result is fetched.
#[derive(Debug)]
#[must_use = "a request does nothing before it is submitted"]
pub struct Request {
    pub(crate) call: NewCall,
    pub(crate) subject: Option<CallSubject>,
}

/// The subject of a call. Its reply is decoded with it.
#[derive(Debug, Clone)]
pub(crate) enum CallSubject {
    /// An open socket.
    Socket(Socket),
    /// A socket to be made.
    New(SocketSpec),
}

impl Request {
    fn about(socket: &Socket, request: call::Request) -> Self {
        let subject = Some(CallSubject::Socket(socket.clone()));
        Self { call: NewCall::new(request), subject }
    }

    /// Nothing, answered at once: [`Reply::Done`].
    #[inline]
    pub fn null() -> Self {
        Self { call: NewCall::new(call::Request::Null), subject: None }
    }

    /// A new socket: [`Reply::Socket`]. Errors: as [`Client::socket`](crate::Client::socket).
    pub fn socket(family: Family, kind: SocketKind) -> Self {
        let spec = SocketSpec { kind, family };
        Self { call: NewCall::new(spec.request()), subject: Some(CallSubject::New(spec)) }
    }

    /// As [`Socket::bind`].
    pub fn bind(socket: &Socket, addr: SocketAddr) -> Self {
        socket.set_named();
        socket.forget_destinations();
        Self::about(socket, call::Request::Bind { socket: socket.id(), addr })
    }

    /// As [`Socket::listen`].
    pub fn listen(socket: &Socket, backlog: u32) -> Self {
        socket.set_named();
        Self::about(socket, call::Request::Listen { socket: socket.id(), backlog })
    }

    /// As [`Socket::connect`]. Completes when the socket is connected or the attempt failed. A
    /// cancelled attempt goes on in the background.
    pub fn connect(socket: &Socket, addr: SocketAddr) -> Self {
        socket.forget_destinations();
        Self::about(socket, call::Request::Connect { socket: socket.id(), addr })
    }

    /// The next connection of a listener. Completes with [`Reply::Accepted`] when there is one.
    /// Errors: as [`Socket::accept`].
    pub fn accept(listener: &Socket) -> Self {
        Self::about(listener, call::Request::Accept { socket: listener.id() })
    }

    /// Completes with [`Reply::Readable`] when there is something to receive. [`Socket::recv`] then
    /// takes it out of the socket's queue, without a call.
    pub fn readable(socket: &Socket) -> Self {
        Self::about(socket, call::Request::Recv { socket: socket.id() })
    }

    /// As [`Socket::shutdown`].
    pub fn shutdown(socket: &Socket, how: ShutdownHow) -> Self {
        Self::about(socket, call::Request::Shutdown { socket: socket.id(), how })
    }

    /// As [`Socket::close`]: from now on every operation on any clone gives EBADF. `None` when it
    /// was closed already.
    #[must_use]
    pub fn close(socket: &Socket) -> Option<Self> {
        let close = call::Request::Close { socket: socket.id() };
        socket.begin_close().then(|| Self::about(socket, close))
    }

    /// The first 40 bytes of an option's value from byte `from` on: [`Reply::Option`].
    /// SO_ERROR is [`Socket::take_error`], without a call. Errors: as [`Socket::option`].
    pub fn option(socket: &Socket, level: i32, name: i32, from: u32) -> Self {
        let (socket_id, key) = (socket.id(), OptionKey { level, name });
        Self::about(socket, call::Request::GetSockOpt { socket: socket_id, key, from })
    }

    /// As [`Socket::set_option`].
    pub fn set_option(socket: &Socket, level: i32, name: i32, value: &[u8]) -> Self {
        socket.note_option(level, name, value);
        let (key, value) = (OptionKey { level, name }, OptionValue::new(value));
        Self::about(socket, call::Request::SetSockOpt { socket: socket.id(), key, value })
    }

    /// [`Reply::Address`]: as [`Socket::local_addr`].
    pub fn local_addr(socket: &Socket) -> Self {
        Self::about(socket, call::Request::GetSockName { socket: socket.id() })
    }

    /// [`Reply::Address`]: as [`Socket::peer_addr`].
    pub fn peer_addr(socket: &Socket) -> Self {
        Self::about(socket, call::Request::GetPeerName { socket: socket.id() })
    }

    /// Completes when the server has taken all bytes sent on the socket before. The error is that
    /// of a datagram that could not be sent.
    pub fn flush(socket: &Socket) -> Self {
        Self::about(socket, call::Request::Flush { socket: socket.id() })
    }

    /// Sets the priority; the default is 0. The server looks at the next 256 calls in the program's
    /// rings, of all threads, and carries out those of higher priority first. Calls that it took
    /// before, and calls of other programs, are not overtaken. Calls of one priority keep their
    /// order.
    pub fn priority(mut self, priority: u8) -> Self {
        self.call.priority = priority;
        self
    }

    /// A word of the caller's own, for [`Completion::user_data`]. The default is 0.
    pub fn user_data(mut self, word: u64) -> Self {
        self.call.user_data = word;
        self
    }

    /// Completes at once, with EAGAIN (connect: EINPROGRESS) where it would wait.
    pub fn nonblocking(mut self) -> Self {
        self.call.flags = self.call.flags.with(CallFlags::NONBLOCK);
        self
    }
}

/// The result of a call.
#[derive(Debug)]
pub enum Reply {
    /// It is done.
    Done,
    /// A new socket.
    Socket(Socket),
    /// A connection and its peer's address.
    Accepted(Socket, SocketAddr),
    /// An address; the unspecified one for a socket without.
    Address(SocketAddr),
    /// The length of an option's value, and the requested part of the value.
    Option {
        /// Bytes of the whole value.
        len: u64,
        /// The value from the requested byte on. Zeros follow its end.
        part: [u8; GET_PART],
    },
    /// Bytes (or datagrams) that can be received; 0 is the end of the stream.
    Readable(u64),
}

/// A call that is over.
#[derive(Debug)]
pub struct Completion {
    /// The call, as [`CallBatch::submit`](crate::CallBatch::submit) named it.
    pub ticket: Ticket,
    /// [`Request::user_data`].
    pub user_data: u64,
    /// The call's reply or its own error. ECANCELED after a cancellation that came in time.
    pub result: Result<Reply, Errno>,
}

impl Completion {
    pub(crate) fn new(
        membership: &Membership,
        finished: &FinishedCall,
        subject: Option<&CallSubject>,
    ) -> Self {
        let FinishedCall { tag, op, user_data, ref outcome } = *finished;
        let result = Self::plain(op, outcome).unwrap_or_else(|| {
            if op == Op::Close {
                membership.reap();
            }
            outcome.and_then(|words| reply(membership, op, subject, &words))
        });
        Self { ticket: Ticket(tag), user_data, result }
    }

    /// The result of a call, if the outcome alone determines it. `None`: use [`Completion::new`].
    #[inline]
    pub(crate) fn plain(op: Op, outcome: &CallOutcome) -> Option<Result<Reply, Errno>> {
        match (op, outcome) {
            (Op::Close, _) => None,
            (_, Err(errno)) => Some(Err(*errno)),
            (Op::Null | Op::SetSockOpt | Op::Flush | Op::Shutdown, Ok(_)) => Some(Ok(Reply::Done)),
            (Op::Recv | Op::GetSockOpt, Ok(words)) => match call::Reply::decode(op, words) {
                Ok(call::Reply::Readable(len)) => Some(Ok(Reply::Readable(len))),
                Ok(call::Reply::Option(part)) => {
                    Some(Ok(Reply::Option { len: part.len, part: part.bytes }))
                }
                _ => None,
            },
            _ => None,
        }
    }
}

fn reply(
    membership: &Membership,
    op: Op,
    subject: Option<&CallSubject>,
    words: &ReplyWords,
) -> Result<Reply, Errno> {
    match (op, subject) {
        (Op::Socket, Some(CallSubject::New(spec))) => {
            let membership = membership.shared().ok_or(Errno::NETDOWN)?;
            match call::Reply::decode(op, words) {
                Ok(call::Reply::Socket(id)) => {
                    Socket::admit(&membership, id, spec.family, spec.kind).map(Reply::Socket)
                }
                _ => Err(membership.server.fault()),
            }
        }
        (Op::Accept, Some(CallSubject::Socket(listener))) => {
            listener.accepted(words).map(|(socket, peer)| Reply::Accepted(socket, peer))
        }
        (Op::Connect, Some(CallSubject::Socket(socket))) => {
            socket.note_connect(words);
            Ok(Reply::Done)
        }
        (Op::GetSockName | Op::GetPeerName, Some(CallSubject::Socket(socket))) => {
            socket.address(op, words).map(Reply::Address)
        }
        _ => Ok(Reply::Done),
    }
}
