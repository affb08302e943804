//! Requests of programs to the inet server.

use core::net::SocketAddr;

use rustix::io::Errno;
use shm::Slot;

use crate::address::{addr_from_words, addr_to_words};
use crate::bad_slot::BadSlot;
use crate::bits::{pack16, pack32, u16_at, u32_at};
use crate::data::DataDescriptor;
use crate::option::{OptionKey, OptionValue};
use crate::socket::{Family, ShutdownHow, SocketId, SocketKind};

use super::flags::CallFlags;
use super::op::Op;
use super::path::ReturnPath;

/// An operation with its arguments. The comment of each variant names its [`Reply`](super::Reply),
/// unless that is `Done`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Does nothing and completes at once. It measures the call mechanism itself.
    Null,
    /// Makes a socket. Gives `Socket`.
    Socket {
        /// Stream or datagram.
        kind: SocketKind,
        /// The family of its addresses.
        family: Family,
    },
    /// Gives a socket its own address.
    Bind {
        /// The socket.
        socket: SocketId,
        /// The address; the server chooses a port for port 0.
        addr: SocketAddr,
    },
    /// Makes a stream socket a listener.
    Listen {
        /// The socket.
        socket: SocketId,
        /// Most connections that wait to be accepted. The server reduces a number that is too
        /// large to its maximum.
        backlog: u32,
    },
    /// Connects. Gives `Connecting`. The call completes when the attempt has succeeded or failed;
    /// under [`CallFlags::NONBLOCK`] at once with EINPROGRESS.
    ///
    /// A call whose SYN waits for data (Fast Open) completes at once. [`CallFlags::FAST`] asks the
    /// SYN to wait for data if it can. A second call under [`CallFlags::FAST`] says that the SYN
    /// gets the queued bytes and no more.
    Connect {
        /// The socket.
        socket: SocketId,
        /// The peer. [`ANY`](crate::data::ANY) disconnects a datagram socket.
        addr: SocketAddr,
    },
    /// Takes a connection. Gives `Accepted`. The call completes when there is a connection; under
    /// [`CallFlags::NONBLOCK`] it completes at once with EAGAIN.
    Accept {
        /// The listener.
        socket: SocketId,
    },
    /// Closes. The server still sends what is queued.
    Close {
        /// The socket.
        socket: SocketId,
    },
    /// Sends bytes on a stream: the queue's descriptor as a call.
    Send {
        /// The socket.
        socket: SocketId,
        /// The bytes. The descriptor's peer does not travel.
        data: DataDescriptor,
    },
    /// Completes when there is something to receive. The bytes themselves come through the socket's
    /// queue. Gives `Readable`.
    Recv {
        /// The socket.
        socket: SocketId,
    },
    /// Ends one direction, or both.
    Shutdown {
        /// The socket.
        socket: SocketId,
        /// Which directions.
        how: ShutdownHow,
    },
    /// Reads a part of an option's value. Gives `Option`.
    GetSockOpt {
        /// The socket.
        socket: SocketId,
        /// The option.
        key: OptionKey,
        /// First byte of the part.
        from: u32,
    },
    /// Sets an option.
    SetSockOpt {
        /// The socket.
        socket: SocketId,
        /// The option.
        key: OptionKey,
        /// Its value.
        value: OptionValue,
    },
    /// Asks for the socket's own address. Gives `Address`.
    GetSockName {
        /// The socket.
        socket: SocketId,
    },
    /// Asks for the peer's address. Gives `Address`.
    GetPeerName {
        /// The socket.
        socket: SocketId,
    },
    /// Takes the descriptors that are queued to be sent. It fails with the pending error, if that
    /// error is about a datagram that was not taken.
    Flush {
        /// The socket.
        socket: SocketId,
    },
    /// Ends a waiting call of this client. The waiting call's result, ECANCELED, is posted before
    /// the result of `Cancel`. Errors:
    ///
    /// * ENOENT: no such call waits. Its result is posted already, or there was no such call.
    /// * EBADF: the socket is closed, and so its calls are over.
    Cancel {
        /// The socket of the waiting call.
        socket: SocketId,
        /// The result ring of the waiting call.
        ring: u16,
        /// The tag of the waiting call.
        tag: u32,
    },
    /// Takes up a shared socket ([`crate::shared`]), of which this process holds a descriptor. The
    /// process has written a permit into that descriptor before. Gives `Adopted`. Errors:
    ///
    /// * ENOENT: there is no such shared socket.
    /// * EPERM: no permit for this client came out of the descriptor.
    /// * EMFILE: the client's region has no free place. The socket stays where it is.
    Adopt {
        /// The cookie of the descriptor (SO_COOKIE).
        cookie: u64,
    },
}

/// Why [`PackagedCall::request`] gives no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestError {
    /// No correct peer writes this.
    BadSlot(BadSlot),
    /// A value that this version does not know, or an operation that programs do not have. The
    /// call fails with this error number.
    Unsupported(Errno),
}

impl From<BadSlot> for RequestError {
    fn from(bad: BadSlot) -> Self {
        Self::BadSlot(bad)
    }
}

/// A [`Request`] as it lies in a slot: the operation, and six words that only this module reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestWords {
    op: Op,
    args: [u64; 6],
}

impl RequestWords {
    /// The operation.
    #[must_use]
    #[inline]
    pub fn op(&self) -> Op {
        self.op
    }

    /// The socket of the request. Of an operation without a socket the name means nothing.
    #[must_use]
    #[inline]
    pub fn socket(&self) -> SocketId {
        SocketId::from_word(self.args[0])
    }

    #[inline]
    fn new(op: Op, args: [u64; 6]) -> Self {
        Self { op, args }
    }

    /// An operation that takes nothing but a socket.
    #[inline]
    fn about(op: Op, socket: SocketId) -> Self {
        Self::new(op, [socket.to_word(), 0, 0, 0, 0, 0])
    }

    #[inline]
    fn with_addr(op: Op, socket: SocketId, addr: SocketAddr) -> Self {
        let [a, b, c] = addr_to_words(addr);
        Self::new(op, [socket.to_word(), a, b, c, 0, 0])
    }
}

impl Request {
    /// As words of a slot.
    #[must_use]
    #[inline]
    pub fn encode(&self) -> RequestWords {
        match *self {
            Self::Null => RequestWords::new(Op::Null, [0; 6]),
            Self::Socket { kind, family } => {
                RequestWords::new(Op::Socket, [kind.to_word(), family.to_word(), 0, 0, 0, 0])
            }
            Self::Bind { socket, addr } => RequestWords::with_addr(Op::Bind, socket, addr),
            Self::Listen { socket, backlog } => {
                RequestWords::new(Op::Listen, [socket.to_word(), backlog.into(), 0, 0, 0, 0])
            }
            Self::Connect { socket, addr } => RequestWords::with_addr(Op::Connect, socket, addr),
            Self::Accept { socket } => RequestWords::about(Op::Accept, socket),
            Self::Close { socket } => RequestWords::about(Op::Close, socket),
            Self::Send { socket, data } => {
                let [a, b, c, ..] = data.encode();
                RequestWords::new(Op::Send, [socket.to_word(), a, b, c, 0, 0])
            }
            Self::Recv { socket } => RequestWords::about(Op::Recv, socket),
            Self::Shutdown { socket, how } => {
                RequestWords::new(Op::Shutdown, [socket.to_word(), how.to_word(), 0, 0, 0, 0])
            }
            Self::GetSockOpt { socket, key, from } => {
                let args = [socket.to_word(), key.to_word(), from.into(), 0, 0, 0];
                RequestWords::new(Op::GetSockOpt, args)
            }
            Self::SetSockOpt { socket, key, value } => {
                let [len, a, b, c] = value.to_words();
                let args = [socket.to_word(), key.to_word(), len, a, b, c];
                RequestWords::new(Op::SetSockOpt, args)
            }
            Self::GetSockName { socket } => RequestWords::about(Op::GetSockName, socket),
            Self::GetPeerName { socket } => RequestWords::about(Op::GetPeerName, socket),
            Self::Flush { socket } => RequestWords::about(Op::Flush, socket),
            Self::Cancel { socket, ring, tag } => {
                let call = pack32(tag, ring.into());
                RequestWords::new(Op::Cancel, [socket.to_word(), call, 0, 0, 0, 0])
            }
            Self::Adopt { cookie } => RequestWords::new(Op::Adopt, [cookie, 0, 0, 0, 0, 0]),
        }
    }

    /// Out of an operation and its words.
    #[inline]
    fn decode(op: Op, args: &[u64; 6]) -> Result<Self, RequestError> {
        let socket = SocketId::from_word(args[0]);
        let addr = || addr_from_words([args[1], args[2], args[3]]);
        let unsupported = RequestError::Unsupported;
        Ok(match op {
            Op::Null => Self::Null,
            Op::Socket => Self::Socket {
                kind: SocketKind::from_word(args[0]).ok_or(unsupported(Errno::PROTONOSUPPORT))?,
                family: Family::from_word(args[1]).ok_or(unsupported(Errno::AFNOSUPPORT))?,
            },
            Op::Bind => Self::Bind { socket, addr: addr()? },
            Op::Listen => Self::Listen { socket, backlog: saturated(args[1]) },
            Op::Connect => Self::Connect { socket, addr: addr()? },
            Op::Accept => Self::Accept { socket },
            Op::Close => Self::Close { socket },
            Op::Send => {
                let slot = [args[1], args[2], args[3], 0, 0, 0, 0, 0];
                Self::Send { socket, data: DataDescriptor::decode(&slot)? }
            }
            Op::Recv => Self::Recv { socket },
            Op::Shutdown => {
                let how = ShutdownHow::from_word(args[1]).ok_or(unsupported(Errno::INVAL))?;
                Self::Shutdown { socket, how }
            }
            Op::GetSockOpt => {
                let (key, from) = (OptionKey::from_word(args[1]), saturated(args[2]));
                Self::GetSockOpt { socket, key, from }
            }
            Op::SetSockOpt => {
                let key = OptionKey::from_word(args[1]);
                let value = OptionValue::from_words([args[2], args[3], args[4], args[5]]);
                Self::SetSockOpt { socket, key, value }
            }
            Op::GetSockName => Self::GetSockName { socket },
            Op::GetPeerName => Self::GetPeerName { socket },
            Op::Flush => Self::Flush { socket },
            Op::Cancel => {
                Self::Cancel { socket, ring: u16_at(args[1], 2), tag: u32_at(args[1], 0) }
            }
            Op::Adopt => Self::Adopt { cookie: args[0] },
            // Only drivers make these calls.
            Op::IfAttach | Op::EthInput => return Err(unsupported(Errno::PERM)),
        })
    }
}

/// The number, or the largest `u32` for one above it.
#[inline]
fn saturated(word: u64) -> u32 {
    u32::try_from(word).unwrap_or(u32::MAX)
}

/// A request on its way to the server, in 64 bytes like its slot. It holds operation and arguments
/// itself, not a [`RequestWords`]. A nested one would add 8 bytes of padding to each call that the
/// server scans and sorts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackagedCall {
    /// Where the result goes.
    pub path: ReturnPath,
    /// 0 is ordinary; higher goes first among the calls of one scan.
    pub priority: u8,
    /// How to carry it out.
    pub flags: CallFlags,
    op: Op,
    args: [u64; 6],
}

impl PackagedCall {
    /// A call of `request`.
    #[must_use]
    #[inline]
    pub fn new(path: ReturnPath, priority: u8, flags: CallFlags, request: RequestWords) -> Self {
        let RequestWords { op, args } = request;
        Self { path, priority, flags, op, args }
    }

    /// The operation.
    #[must_use]
    #[inline]
    pub fn op(&self) -> Op {
        self.op
    }

    /// The request. The server judges whether its socket exists.
    ///
    /// # Errors
    /// [`RequestError`].
    #[inline]
    pub fn request(&self) -> Result<Request, RequestError> {
        Request::decode(self.op, &self.args)
    }

    /// As a ring slot.
    #[must_use]
    #[inline]
    pub fn encode(&self) -> Slot {
        let (op, a) = (self.op, &self.args);
        let how = u16::from(self.priority) | u16::from(self.flags.bits()) << 8;
        [pack16(op as u16, how, 0, 0), self.path.to_word(), a[0], a[1], a[2], a[3], a[4], a[5]]
    }

    /// Out of a ring slot. [`PackagedCall::request`] decodes the arguments later, when the server
    /// carries out the call.
    ///
    /// # Errors
    /// [`BadSlot`] for an unknown operation or flag.
    #[inline]
    pub fn decode(slot: &Slot) -> Result<Self, BadSlot> {
        let number = u16_at(slot[0], 0);
        let op = Op::from_number(number).ok_or(BadSlot::new("operation", number.into()))?;
        let [priority, flags] = u16_at(slot[0], 1).to_le_bytes();
        let flags = CallFlags::from_bits(flags).ok_or(BadSlot::new("call flags", flags.into()))?;
        let args = [slot[2], slot[3], slot[4], slot[5], slot[6], slot[7]];
        Ok(Self { path: ReturnPath::from_word(slot[1]), priority, flags, op, args })
    }
}
