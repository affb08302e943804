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

/// What a call is about: its reply is read with it.
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

    /// As [`Socket::connect`]; completes when the socket is connected, or is not. Cancelled, the
    /// attempt goes on in the background.
    pub fn connect(socket: &Socket, addr: SocketAddr) -> Self {
        socket.forget_destinations();
        Self::about(socket, call::Request::Connect { socket: socket.id(), addr })
    }

    /// The next connection of a listener: [`Reply::Accepted`], once there is one. Errors: as
    /// [`Socket::accept`].
    pub fn accept(listener: &Socket) -> Self {
        Self::about(listener, call::Request::Accept { socket: listener.id() })
    }

    /// Completes when there is something to receive: [`Reply::Readable`]. What it is then comes out
    /// of the socket's queue by [`Socket::recv`], without a call.
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

    /// Completes when the server has taken all that was sent on the socket before; the error is a
    /// datagram's that could not be sent.
    pub fn flush(socket: &Socket) -> Self {
        Self::about(socket, call::Request::Flush { socket: socket.id() })
    }

    /// The server carries out the calls of higher priority first among those that it finds when it
    /// looks at the program's rings: the next 256, of all threads. Calls that it took before, and
    /// calls of other programs, are not overtaken; calls of one priority keep their order. 0 unless
    /// said otherwise.
    pub fn priority(mut self, priority: u8) -> Self {
        self.call.priority = priority;
        self
    }

    /// A word of the caller's own, for [`Completion::user_data`]. 0 unless said otherwise.
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

/// What a call gives.
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
    /// How long an option's value is, and the part of it that was asked for.
    Option {
        /// Bytes of the whole value.
        len: u64,
        /// From the byte on that was asked for; zeros follow its end.
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
    /// What it gives, or the call's own error; ECANCELED after a cancellation that came in time.
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

    /// The result of a call whose outcome alone determines it. `None`: it needs
    /// [`Completion::new`].
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
