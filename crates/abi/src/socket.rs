//! Names of sockets and the bits of their state word.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::flags::flag_set;

/// The name of a client's socket: a place in its region's socket table and that place's generation.
///
/// The generation changes with each new use of the place, so the server refuses an old name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SocketId {
    /// Place in the socket table, `0..ClientParams::sockets`.
    pub index: u16,
    /// Generation of that place.
    pub generation: u16,
}

impl SocketId {
    /// As one word of a call's arguments.
    #[must_use]
    #[inline]
    pub fn to_word(self) -> u64 {
        u64::from(self.index) | u64::from(self.generation) << 16
    }

    /// Out of one word of a call's arguments. Any value is a name, valid or not.
    #[must_use]
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the truncation is the field extraction")]
    pub fn from_word(word: u64) -> Self {
        Self { index: word as u16, generation: (word >> 16) as u16 }
    }
}

/// Type and protocol of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SocketKind {
    /// SOCK_STREAM over TCP.
    Stream,
    /// SOCK_DGRAM over UDP.
    Datagram,
    /// SOCK_DGRAM over UDP-Lite (RFC 3828). In all else as `Datagram`.
    UdpLite,
    /// ICMP echo requests of one identifier, of the socket's family. The identifier is the port of
    /// the own address, the sequence number that of the peer's. A received message begins with its
    /// ICMP header: a reply, or an ICMP error about a request (whose sender has port 0).
    Echo,
}

impl SocketKind {
    /// The value that travels: Linux's SOCK_STREAM (1) or SOCK_DGRAM (2). UDP-Lite travels as its
    /// protocol number (136), an echo socket as that of ICMPv6 (58).
    #[must_use]
    #[inline]
    pub fn to_word(self) -> u64 {
        match self {
            Self::Stream => 1,
            Self::Datagram => 2,
            Self::UdpLite => 136,
            Self::Echo => 58,
        }
    }

    /// The kind named by `word`, if any.
    #[must_use]
    #[inline]
    pub fn from_word(word: u64) -> Option<Self> {
        match word {
            1 => Some(Self::Stream),
            2 => Some(Self::Datagram),
            136 => Some(Self::UdpLite),
            58 => Some(Self::Echo),
            _ => None,
        }
    }
}

/// The family of a socket's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// AF_INET.
    V4,
    /// AF_INET6; with IPV6_V6ONLY off also IPv4, as `::ffff:a.b.c.d`.
    V6,
}

impl Family {
    /// The value that travels: 4 or 6.
    #[must_use]
    #[inline]
    pub fn to_word(self) -> u64 {
        match self {
            Self::V4 => 4,
            Self::V6 => 6,
        }
    }

    /// The family named by `word`, if any.
    #[must_use]
    #[inline]
    pub fn from_word(word: u64) -> Option<Self> {
        match word {
            4 => Some(Self::V4),
            6 => Some(Self::V6),
            _ => None,
        }
    }

    /// The address "any" with port 0.
    #[must_use]
    pub fn unspecified(self) -> SocketAddr {
        match self {
            Self::V4 => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            Self::V6 => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        }
    }
}

/// Which directions `shutdown` ends; the values are POSIX's SHUT_RD, SHUT_WR, SHUT_RDWR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShutdownHow {
    /// No more receiving.
    Read,
    /// No more sending.
    Write,
    /// No more of either.
    Both,
}

impl ShutdownHow {
    /// The value that travels.
    #[must_use]
    #[inline]
    pub fn to_word(self) -> u64 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Both => 2,
        }
    }

    /// The direction named by `word`, if any.
    #[must_use]
    #[inline]
    pub fn from_word(word: u64) -> Option<Self> {
        match word {
            0 => Some(Self::Read),
            1 => Some(Self::Write),
            2 => Some(Self::Both),
            _ => None,
        }
    }
}

flag_set! {
    /// The flags word of a socket ([`SocketWords::flags`](crate::client::SocketWords::flags)). Only
    /// the server writes it.
    pub struct SocketFlags(u32) {
        /// A connection attempt is under way.
        CONNECTING = 1;
        /// Connected (stream), or has a default peer (datagram).
        CONNECTED = 1 << 1;
        /// Listening; `accept_ready` counts.
        LISTENING = 1 << 2;
        /// The peer sent FIN, or receiving was shut down. After the queued bytes comes end of file.
        READ_CLOSED = 1 << 3;
        /// Sending was shut down, or the connection is gone: EPIPE.
        WRITE_CLOSED = 1 << 4;
        /// Both directions are over, as POLLHUP means it.
        HANGUP = 1 << 5;
        /// The socket's place is in use: from `socket` or `accept` until the server has released
        /// everything of the socket.
        OPEN = 1 << 6;
        /// Programs receive urgent bytes in line with the others (SO_OOBINLINE).
        URGENT_INLINE = 1 << 7;
        /// Another process uses the socket now. This name only counts released bytes.
        MOVED = 1 << 8;
        /// Other processes may take the socket up. A program looks at the flags again after what it
        /// has published: [`crate::client::SocketWords::moved_sent`].
        SHARED = 1 << 9;
        /// The server is about to move it. Until [`SocketFlags::MOVED`] follows, nobody can say
        /// whether what the program publishes still counts.
        MOVING = 1 << 10;
        /// The error queue has an entry ([`queued_error`](crate::queued_error)): POLLERR.
        ERROR_QUEUED = 1 << 11;
        /// With [`SocketFlags::READ_CLOSED`]: the peer sent FIN. A receive gives the end, whatever
        /// error is pending.
        PEER_ENDED = 1 << 12;
    }
}
