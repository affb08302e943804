//! Typed calls of a [`CallBatch`](crate::CallBatch): [`Request`] going out, [`Completion`] with its
//! [`Reply`] coming back.

use std::net::SocketAddr;

use abi::call::{Call, Op, addr_from_words, addr_to_words};
use abi::option::{GET_PART, OptionKey, bytes_to_words};
use abi::{Errno, Family, How, SocketKind};

use crate::membership::{CallOutcome, FinishedCall, Membership, NewCall};
use crate::socket::Socket;

/// Names a registered call of a [`CallBatch`](crate::CallBatch).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(pub(crate) u32);

/// A call to be registered. Clones of the sockets it names are kept until its result is fetched.
#[derive(Debug)]
#[must_use = "a request does nothing before it is submitted"]
pub struct Request {
    pub(crate) call: NewCall,
    /// The socket that the call is about.
    pub(crate) socket: Option<Socket>,
}

impl Request {
    fn plain(op: Op, args: [u64; 6]) -> Self {
        Self { call: NewCall::new(op, 0, args), socket: None }
    }

    fn about(socket: &Socket, op: Op, args: [u64; 5]) -> Self {
        let [a, b, c, d, e] = args;
        let call = NewCall::new(op, 0, [socket.id().to_word(), a, b, c, d, e]);
        Self { call, socket: Some(socket.clone()) }
    }

    fn to(socket: &Socket, op: Op, addr: SocketAddr) -> Self {
        socket.forget_destinations();
        let [a, b, c] = addr_to_words(addr);
        Self::about(socket, op, [a, b, c, 0, 0])
    }

    /// Nothing, answered at once: [`Reply::Done`].
    pub fn null() -> Self {
        Self::plain(Op::Null, [0; 6])
    }

    /// A new socket: [`Reply::Socket`]. Errors: as [`Client::socket`].
    pub fn socket(family: Family, kind: SocketKind) -> Self {
        Self::plain(Op::Socket, [kind.to_word(), family.to_word(), 0, 0, 0, 0])
    }

    /// As [`Socket::bind`].
    pub fn bind(socket: &Socket, addr: SocketAddr) -> Self {
        socket.set_named();
        Self::to(socket, Op::Bind, addr)
    }

    /// As [`Socket::listen`].
    pub fn listen(socket: &Socket, backlog: u32) -> Self {
        socket.set_named();
        Self::about(socket, Op::Listen, [backlog.into(), 0, 0, 0, 0])
    }

    /// As [`Socket::connect`]; completes when the socket is connected, or is not. Cancelled, the
    /// attempt goes on in the background.
    pub fn connect(socket: &Socket, addr: SocketAddr) -> Self {
        Self::to(socket, Op::Connect, addr)
    }

    /// The next connection of a listener: [`Reply::Accepted`], once there is one. Errors: as
    /// [`Socket::accept`].
    pub fn accept(listener: &Socket) -> Self {
        Self::about(listener, Op::Accept, [0; 5])
    }

    /// Completes when there is something to receive: [`Reply::Readable`]. What it is then comes out
    /// of the socket's queue by [`Socket::recv`], without a call.
    pub fn readable(socket: &Socket) -> Self {
        Self::about(socket, Op::Recv, [0; 5])
    }

    /// As [`Socket::shutdown`].
    pub fn shutdown(socket: &Socket, how: How) -> Self {
        Self::about(socket, Op::Shutdown, [how.to_word(), 0, 0, 0, 0])
    }

    /// As [`Socket::close`]: from now on every operation on any clone gives EBADF. `None` when it
    /// was closed already.
    #[must_use]
    pub fn close(socket: &Socket) -> Option<Self> {
        socket.begin_close().then(|| Self::about(socket, Op::Close, [0; 5]))
    }

    /// The first 40 bytes of an option's value from byte `from` on: [`Reply::Option`].
    /// SO_ERROR is [`Socket::take_error`], without a call. Errors: as [`Socket::option`].
    pub fn option(socket: &Socket, level: i32, name: i32, from: u32) -> Self {
        let key = OptionKey { level, name }.to_word();
        Self::about(socket, Op::GetSockOpt, [key, from.into(), 0, 0, 0])
    }

    /// As [`Socket::set_option`].
    pub fn set_option(socket: &Socket, level: i32, name: i32, value: &[u8]) -> Self {
        socket.note_option(level, name, value);
        let [a, b, c] = bytes_to_words(value);
        let key = OptionKey { level, name }.to_word();
        Self::about(socket, Op::SetSockOpt, [key, value.len() as u64, a, b, c])
    }

    /// [`Reply::Address`]: as [`Socket::local_addr`].
    pub fn local_addr(socket: &Socket) -> Self {
        Self::about(socket, Op::GetSockName, [0; 5])
    }

    /// [`Reply::Address`]: as [`Socket::peer_addr`].
    pub fn peer_addr(socket: &Socket) -> Self {
        Self::about(socket, Op::GetPeerName, [0; 5])
    }

    /// Completes when the server has taken all that was sent on the socket before; the error is a
    /// datagram's that could not be sent.
    pub fn flush(socket: &Socket) -> Self {
        Self::about(socket, Op::Flush, [0; 5])
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
        self.call.flags |= Call::NONBLOCK;
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
        socket: Option<&Socket>,
    ) -> Self {
        let FinishedCall { tag, op, args, user_data, ref outcome } = *finished;
        let result = Self::plain(op, outcome).unwrap_or_else(|| {
            if op == Op::Close {
                membership.reap();
            }
            outcome.and_then(|values| reply(membership, op, socket, args, values))
        });
        Self { ticket: Ticket(tag), user_data, result }
    }

    /// The result of a call whose outcome alone determines it. `None`: it needs [`Completion::new`].
    #[inline]
    pub(crate) fn plain(op: Op, outcome: &CallOutcome) -> Option<Result<Reply, Errno>> {
        match (op, outcome) {
            (Op::Close, _) => None,
            (_, Err(errno)) => Some(Err(*errno)),
            (Op::Null | Op::SetSockOpt | Op::Flush | Op::Shutdown, Ok(_)) => Some(Ok(Reply::Done)),
            (Op::Recv, Ok([len, ..])) => Some(Ok(Reply::Readable(*len))),
            (Op::GetSockOpt, Ok([len, words @ ..])) => {
                let mut part = [0; GET_PART];
                for (to, word) in part.chunks_exact_mut(8).zip(words) {
                    to.copy_from_slice(&word.to_ne_bytes());
                }
                Some(Ok(Reply::Option { len: *len, part }))
            }
            _ => None,
        }
    }
}

fn reply(
    membership: &Membership,
    op: Op,
    socket: Option<&Socket>,
    args: [u64; 2],
    values: [u64; 6],
) -> Result<Reply, Errno> {
    let [first, words @ ..] = values;
    match (op, socket) {
        (Op::Socket, _) => {
            let membership = membership.shared().ok_or(Errno::NETDOWN)?;
            let [kind, family] = args;
            // The server made it, so it knows them.
            let fault = || membership.server.fault();
            let kind = SocketKind::from_word(kind).ok_or_else(fault)?;
            let family = Family::from_word(family).ok_or_else(fault)?;
            Socket::admit(&membership, first, family, kind).map(Reply::Socket)
        }
        (Op::Accept, Some(listener)) => {
            listener.accepted(values).map(|(socket, peer)| Reply::Accepted(socket, peer))
        }
        (Op::Connect, Some(socket)) => {
            socket.set_syn_room(first);
            Ok(Reply::Done)
        }
        (Op::GetSockName | Op::GetPeerName, Some(socket)) if first == 0 => {
            Ok(Reply::Address(socket.family().unspecified()))
        }
        (Op::GetSockName | Op::GetPeerName, _) => {
            let [a, b, ..] = words;
            let addr = addr_from_words([first, a, b]).map_err(|_| membership.server.fault())?;
            Ok(Reply::Address(addr))
        }
        _ => Ok(Reply::Done),
    }
}
