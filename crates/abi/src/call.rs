//! Packaged calls: control operations as 64-byte slots (P3's request and result tables, P1's
//! calls).
//!
//! | word | content, low bits first |
//! |---|---|
//! | 0 | operation `u16`, priority `u8` and flags `u8` in one `u16`, 0, 0 |
//! | 1 | return path: client `u16`, ring `u16`, tag `u32` |
//! | 2..8 | six arguments; a result carries an error number or six values |
//!
//! The **return path** names the client, the result ring of one of its threads, and the caller's
//! tag. Who relays a call copies it unchanged, so whoever finishes the call posts the result
//! straight to the caller's ring (P1's direct return). Calls complete in any order; a blocking call
//! completes later.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use rustix::io::Errno;
use shm::Slot;

use crate::BadSlot;
use crate::bits::{pack16, u16_at, u32_at};

/// Where a call's result goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReturnPath {
    /// The client whose region holds the result ring.
    pub client: u16,
    /// The thread slot in that client.
    pub ring: u16,
    /// The caller's own name for the call.
    pub tag: u32,
}

impl ReturnPath {
    #[inline]
    fn to_word(self) -> u64 {
        u64::from(self.client) | u64::from(self.ring) << 16 | u64::from(self.tag) << 32
    }

    #[inline]
    fn from_word(word: u64) -> Self {
        Self { client: u16_at(word, 0), ring: u16_at(word, 1), tag: u32_at(word, 1) }
    }
}

/// The operations. The first ten are P1's; their names are the paper's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Op {
    /// `socket(kind, family)` -> socket id.
    Socket = 1,
    /// `bind(socket, address 3 words)`.
    Bind = 2,
    /// `listen(socket, backlog)`.
    Listen = 3,
    /// `connect(socket, address 3 words)`; completes when connected or failed, at once with
    /// EINPROGRESS under [`Call::NONBLOCK`]. -> how many bytes the SYN would take, if it waits for
    /// data (Fast Open), and then at once; under [`Call::FAST`] it does if it can. Once more under
    /// [`Call::FAST`]: what is queued is all that the SYN gets.
    Connect = 4,
    /// `accept(socket)` -> socket id, peer address 3 words; completes when there is a connection,
    /// at once with EAGAIN under [`Call::NONBLOCK`].
    Accept = 5,
    /// `close(socket)`: what is queued is still sent.
    Close = 6,
    /// `send(socket, data descriptor words 0, 1, 2)`: the queue's descriptor as a call (streams).
    Send = 7,
    /// `recv(socket)` -> readable bytes (0: end of file); completes when there are some. The bytes
    /// themselves come through the socket's queue.
    Recv = 8,
    /// `ifattach(MAC as a big-endian 48-bit number, MTU)`: a driver registers its interface.
    IfAttach = 9,
    /// `ethinput(page | generation << 32, offset | length << 32)`: a driver hands over a frame.
    EthInput = 10,
    /// `shutdown(socket, how)`.
    Shutdown = 11,
    /// `getsockopt(socket, option, first byte)` -> length, value from that byte on (5 words).
    GetSockOpt = 12,
    /// `setsockopt(socket, option, length, value 3 words)`.
    SetSockOpt = 13,
    /// `getsockname(socket)` -> address 3 words.
    GetSockName = 14,
    /// `getpeername(socket)` -> address 3 words.
    GetPeerName = 15,
    /// Nothing, answered at once: the measure of the mechanism itself.
    Null = 16,
    /// `flush(socket)`: takes what is queued to be sent; fails with the pending error if that is
    /// about a datagram that was not taken.
    Flush = 17,
    /// `cancel(socket, tag | ring << 32)`: ends the waiting call of this client with this tag in
    /// that result ring that is about that socket. Its result, ECANCELED, is posted before this
    /// one's. ENOENT: no such call waits, so its result is posted already, or there is none.
    /// EBADF: the socket is closed, and so its calls are over.
    Cancel = 18,
}

impl Op {
    /// All, in the order of their numbers.
    const ALL: [Op; 18] = [
        Op::Socket,
        Op::Bind,
        Op::Listen,
        Op::Connect,
        Op::Accept,
        Op::Close,
        Op::Send,
        Op::Recv,
        Op::IfAttach,
        Op::EthInput,
        Op::Shutdown,
        Op::GetSockOpt,
        Op::SetSockOpt,
        Op::GetSockName,
        Op::GetPeerName,
        Op::Null,
        Op::Flush,
        Op::Cancel,
    ];

    #[inline]
    fn from_number(number: u16) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

/// A call, validated as far as it can be without knowing the callee's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// What to do.
    pub op: Op,
    /// 0 is ordinary; higher goes first among the calls of one scan.
    pub priority: u8,
    /// [`Call::NONBLOCK`], [`Call::FAST`], [`Call::QUIET`], several of them or 0.
    pub flags: u8,
    /// Where the result goes.
    pub path: ReturnPath,
    /// The arguments, as the operation's documentation lists them; the socket id comes first.
    pub args: [u64; 6],
}

impl Call {
    /// Complete at once, with EAGAIN or EINPROGRESS where the call would wait.
    pub const NONBLOCK: u8 = 1;
    /// Connect by Fast Open (MSG_FASTOPEN).
    pub const FAST: u8 = 2;
    /// Nobody waits for the result: it is posted without ringing, if it is what such a call nearly
    /// always comes to: done; of a connect, that the attempt goes on.
    pub const QUIET: u8 = 4;

    /// As a ring slot.
    #[must_use]
    #[inline]
    pub fn encode(&self) -> Slot {
        let a = &self.args;
        let word0 =
            pack16(self.op as u16, u16::from(self.priority) | u16::from(self.flags) << 8, 0, 0);
        [word0, self.path.to_word(), a[0], a[1], a[2], a[3], a[4], a[5]]
    }

    /// Out of a ring slot.
    ///
    /// # Errors
    /// [`BadSlot`] for an unknown operation or flag.
    #[inline]
    pub fn decode(slot: &Slot) -> Result<Self, BadSlot> {
        let number = u16_at(slot[0], 0);
        let op = Op::from_number(number).ok_or(BadSlot::new("operation", number.into()))?;
        let [priority, flags] = u16_at(slot[0], 1).to_le_bytes();
        if flags & !(Self::NONBLOCK | Self::FAST | Self::QUIET) != 0 {
            return Err(BadSlot::new("call flags", flags.into()));
        }
        let args = [slot[2], slot[3], slot[4], slot[5], slot[6], slot[7]];
        Ok(Self { op, priority, flags, path: ReturnPath::from_word(slot[1]), args })
    }
}

/// A call's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallResult {
    /// The call's return path, unchanged.
    pub path: ReturnPath,
    /// Its values, or why not.
    pub outcome: Result<[u64; 6], Errno>,
}

impl CallResult {
    /// As a ring slot; word 0 is 0 or the error number.
    #[must_use]
    #[inline]
    pub fn encode(&self) -> Slot {
        Self::encode_parts(self.path, self.outcome.as_ref().map_err(|errno| *errno))
    }

    /// [`CallResult::encode`] of a result whose values are elsewhere.
    #[must_use]
    #[inline]
    pub fn encode_parts(path: ReturnPath, outcome: Result<&[u64; 6], Errno>) -> Slot {
        let path = path.to_word();
        match outcome {
            Ok(v) => [0, path, v[0], v[1], v[2], v[3], v[4], v[5]],
            Err(errno) => [u64::from(errno.raw_os_error().unsigned_abs()), path, 0, 0, 0, 0, 0, 0],
        }
    }

    /// The return path alone.
    #[must_use]
    #[inline]
    pub fn path(slot: &Slot) -> ReturnPath {
        ReturnPath::from_word(slot[1])
    }

    /// Out of a ring slot.
    ///
    /// # Errors
    /// [`BadSlot`] for an impossible error number.
    #[inline]
    pub fn decode(slot: &Slot) -> Result<Self, BadSlot> {
        let path = ReturnPath::from_word(slot[1]);
        let outcome = match i32::try_from(slot[0]) {
            Ok(0) => Ok([slot[2], slot[3], slot[4], slot[5], slot[6], slot[7]]),
            Ok(raw) if raw < 4096 => Err(Errno::from_raw_os_error(raw)),
            _ => return Err(BadSlot::new("error number", slot[0])),
        };
        Ok(Self { path, outcome })
    }
}

/// A socket address as three slot words: family, port and scope (16 bits each), then 128 bits of
/// address, big end first. The scope names an interface; one above 65,535 names none and stays so.
#[must_use]
pub fn addr_to_words(addr: SocketAddr) -> [u64; 3] {
    let (family, bits, scope) = match addr {
        SocketAddr::V4(v4) => (4, u128::from(v4.ip().to_bits()), 0),
        SocketAddr::V6(v6) => (6, v6.ip().to_bits(), v6.scope_id()),
    };
    let scope = u16::try_from(scope).unwrap_or(u16::MAX);
    #[expect(clippy::cast_possible_truncation, reason = "split into two words")]
    let (high, low) = ((bits >> 64) as u64, bits as u64);
    [pack16(family, addr.port(), scope, 0), high, low]
}

/// The inverse of [`addr_to_words`].
///
/// # Errors
/// [`BadSlot`] for an unknown family, or what an IPv4 address does not have.
pub fn addr_from_words(words: [u64; 3]) -> Result<SocketAddr, BadSlot> {
    let (family, port, scope) = (u16_at(words[0], 0), u16_at(words[0], 1), u16_at(words[0], 2));
    let bits = u128::from(words[1]) << 64 | u128::from(words[2]);
    match family {
        4 => {
            let v4 = u32::try_from(bits).map_err(|_| BadSlot::new("IPv4 address", words[1]))?;
            Ok(SocketAddrV4::new(Ipv4Addr::from_bits(v4), port).into())
        }
        6 => Ok(SocketAddrV6::new(Ipv6Addr::from_bits(bits), port, 0, scope.into()).into()),
        _ => Err(BadSlot::new("address family", family.into())),
    }
}
