//! Answers of the inet server.

use core::net::SocketAddr;

use rustix::io::Errno;
use shm::Slot;

use crate::address::{addr_from_words, addr_to_words};
use crate::bad_slot::BadSlot;
use crate::option::OptionPart;
use crate::socket::{Family, SocketId, SocketKind};

use super::op::Op;
use super::path::ReturnPath;

/// The values of a successful call. A slot does not name the variant: it follows from the
/// operation, which the caller knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// Nothing.
    Done,
    /// `Socket`: the name of the new socket.
    Socket(SocketId),
    /// `Connect`: bytes that a SYN waiting for data (Fast Open) has room for; 0 if it does not
    /// wait.
    Connecting {
        /// Bytes of room.
        syn_room: u64,
    },
    /// `Accept`.
    Accepted {
        /// The name of the connection's socket.
        socket: SocketId,
        /// The address of its peer.
        peer: SocketAddr,
    },
    /// `Adopt`.
    Adopted {
        /// The name of the socket in this client.
        socket: SocketId,
        /// Stream or datagram.
        kind: SocketKind,
        /// The family of its addresses.
        family: Family,
    },
    /// `Recv`: bytes (or datagrams) that can be received; 0 is the end of the stream.
    Readable(u64),
    /// `GetSockOpt`.
    Option(OptionPart),
    /// `GetSockName` and `GetPeerName`; `None` if there is no address.
    Address(Option<SocketAddr>),
}

/// A [`Reply`] as it lies in a slot: six words that only this module reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyWords([u64; 6]);

impl ReplyWords {
    /// [`Reply::Done`]; of an operation with a number, 0.
    pub const DONE: Self = Self([0; 6]);

    #[inline]
    fn number(number: u64) -> Self {
        Self([number, 0, 0, 0, 0, 0])
    }
}

impl Reply {
    /// As words of a slot.
    #[must_use]
    #[inline]
    pub fn encode(&self) -> ReplyWords {
        match *self {
            Self::Done | Self::Address(None) => ReplyWords::DONE,
            Self::Socket(socket) => ReplyWords::number(socket.to_word()),
            Self::Connecting { syn_room } => ReplyWords::number(syn_room),
            Self::Readable(number) => ReplyWords::number(number),
            Self::Accepted { socket, peer } => {
                let [a, b, c] = addr_to_words(peer);
                ReplyWords([socket.to_word(), a, b, c, 0, 0])
            }
            Self::Adopted { socket, kind, family } => {
                ReplyWords([socket.to_word(), kind.to_word(), family.to_word(), 0, 0, 0])
            }
            Self::Option(part) => ReplyWords(part.to_words()),
            Self::Address(Some(addr)) => {
                let [a, b, c] = addr_to_words(addr);
                ReplyWords([a, b, c, 0, 0, 0])
            }
        }
    }

    /// Out of words of a slot, which answer a call of operation `op`.
    ///
    /// # Errors
    /// [`BadSlot`] for a bad address, kind or family.
    #[inline]
    pub fn decode(op: Op, words: &ReplyWords) -> Result<Self, BadSlot> {
        let [first, a, b, c, ..] = words.0;
        Ok(match op {
            Op::Socket => Self::Socket(SocketId::from_word(first)),
            Op::Connect => Self::Connecting { syn_room: first },
            Op::Accept => {
                let socket = SocketId::from_word(first);
                Self::Accepted { socket, peer: addr_from_words([a, b, c])? }
            }
            Op::Adopt => Self::Adopted {
                socket: SocketId::from_word(first),
                kind: SocketKind::from_word(a).ok_or(BadSlot::new("kind of socket", a))?,
                family: Family::from_word(b).ok_or(BadSlot::new("family", b))?,
            },
            Op::Recv => Self::Readable(first),
            Op::GetSockOpt => Self::Option(OptionPart::from_words(&words.0)),
            Op::GetSockName | Op::GetPeerName => match first {
                0 => Self::Address(None),
                _ => Self::Address(Some(addr_from_words([first, a, b])?)),
            },
            Op::Bind
            | Op::Listen
            | Op::Close
            | Op::Send
            | Op::IfAttach
            | Op::EthInput
            | Op::Shutdown
            | Op::SetSockOpt
            | Op::Null
            | Op::Flush
            | Op::Cancel => Self::Done,
        })
    }
}

/// A result on its way to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackagedResult {
    /// The call's return path, unchanged.
    pub path: ReturnPath,
    /// The call's values, or its error.
    pub outcome: Result<ReplyWords, Errno>,
}

impl PackagedResult {
    /// As a ring slot; word 0 is 0 or the error number.
    #[must_use]
    #[inline]
    pub fn encode(&self) -> Slot {
        Self::encode_parts(self.path, self.outcome.as_ref().map_err(|errno| *errno))
    }

    /// [`PackagedResult::encode`] of a result whose words are elsewhere.
    #[must_use]
    #[inline]
    pub fn encode_parts(path: ReturnPath, outcome: Result<&ReplyWords, Errno>) -> Slot {
        let path = path.to_word();
        match outcome {
            Ok(ReplyWords(v)) => [0, path, v[0], v[1], v[2], v[3], v[4], v[5]],
            Err(errno) => [u64::from(errno.raw_os_error().unsigned_abs()), path, 0, 0, 0, 0, 0, 0],
        }
    }

    /// The return path alone.
    #[must_use]
    #[inline]
    pub fn path(slot: &Slot) -> ReturnPath {
        ReturnPath::from_word(slot[1])
    }

    /// Out of a ring slot. The words are for [`Reply::decode`], with the call's operation.
    ///
    /// # Errors
    /// [`BadSlot`] for an impossible error number.
    #[inline]
    pub fn decode(slot: &Slot) -> Result<Self, BadSlot> {
        let path = ReturnPath::from_word(slot[1]);
        let outcome = match i32::try_from(slot[0]) {
            Ok(0) => Ok(ReplyWords([slot[2], slot[3], slot[4], slot[5], slot[6], slot[7]])),
            Ok(raw) if raw < 4096 => Err(Errno::from_raw_os_error(raw)),
            _ => return Err(BadSlot::new("error number", slot[0])),
        };
        Ok(Self { path, outcome })
    }
}
