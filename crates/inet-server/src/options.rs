//! Socket options: Linux's numbers (getsockopt(2), socket(7), ip(7), tcp(7)) to the core's options.
//!
//! All values travel as one word. `SO_LINGER` is on/off in the low half and seconds in the high
//! half. As on Linux, `SO_SNDBUF` and `SO_RCVBUF` read as twice what was set. Options that only
//! tune what this stack does in another way are accepted without effect where programs are known to
//! insist on them.

use std::time::Duration;

use abi::{Errno, SocketKind};
use inet::{OptionName, SockOption};

use crate::calls::Refusal;
use crate::engine::Engine;
use crate::socket::{Socket, Stage};
use crate::tx::LIMITS;

const IPPROTO_IP: i32 = 0;
const SOL_SOCKET: i32 = 1;
const IPPROTO_TCP: i32 = 6;

const SO_REUSEADDR: i32 = 2;
const SO_TYPE: i32 = 3;
const SO_ERROR: i32 = 4;
const SO_BROADCAST: i32 = 6;
const SO_SNDBUF: i32 = 7;
const SO_RCVBUF: i32 = 8;
const SO_KEEPALIVE: i32 = 9;
const SO_PRIORITY: i32 = 12;
const SO_LINGER: i32 = 13;
const SO_REUSEPORT: i32 = 15;
const SO_ACCEPTCONN: i32 = 30;
const SO_PROTOCOL: i32 = 38;
const SO_DOMAIN: i32 = 39;

const IP_TOS: i32 = 1;
const IP_TTL: i32 = 2;
const IP_BIND_ADDRESS_NO_PORT: i32 = 24;

const TCP_NODELAY: i32 = 1;
const TCP_MAXSEG: i32 = 2;
const TCP_CORK: i32 = 3;
const TCP_KEEPIDLE: i32 = 4;
const TCP_KEEPINTVL: i32 = 5;
const TCP_KEEPCNT: i32 = 6;
const TCP_QUICKACK: i32 = 12;
const TCP_USER_TIMEOUT: i32 = 18;

const AF_INET: u64 = 2;
const UDP: u64 = 17;
const TCP: u64 = 6;
/// Most SO_RCVBUF, bytes.
const MAX_BUFFER: u32 = 4 << 20;
/// RFC 9293 3.7.1: the segment size assumed while the peer has said nothing.
const DEFAULT_MAXSEG: u64 = 536;

/// An option that the core keeps, in its own words.
#[derive(Debug, Clone, Copy)]
enum Kept {
    Flag(OptionName, fn(bool) -> SockOption),
    Seconds(OptionName, fn(Duration) -> SockOption),
    Byte(OptionName, fn(u8) -> SockOption),
    Millis,
    MaxSeg,
    Linger,
}

fn kept(level: i32, name: i32) -> Option<Kept> {
    Some(match (level, name) {
        (SOL_SOCKET, SO_REUSEADDR) => Kept::Flag(OptionName::ReuseAddr, SockOption::ReuseAddr),
        (SOL_SOCKET, SO_BROADCAST) => Kept::Flag(OptionName::Broadcast, SockOption::Broadcast),
        (SOL_SOCKET, SO_KEEPALIVE) => Kept::Flag(OptionName::KeepAlive, SockOption::KeepAlive),
        (SOL_SOCKET, SO_LINGER) => Kept::Linger,
        (IPPROTO_IP, IP_TOS) => Kept::Byte(OptionName::Tos, SockOption::Tos),
        (IPPROTO_IP, IP_TTL) => Kept::Byte(OptionName::Ttl, SockOption::Ttl),
        (IPPROTO_TCP, TCP_NODELAY) => Kept::Flag(OptionName::NoDelay, SockOption::NoDelay),
        (IPPROTO_TCP, TCP_CORK) => Kept::Flag(OptionName::Cork, SockOption::Cork),
        (IPPROTO_TCP, TCP_KEEPIDLE) => Kept::Seconds(OptionName::KeepIdle, SockOption::KeepIdle),
        (IPPROTO_TCP, TCP_KEEPINTVL) => {
            Kept::Seconds(OptionName::KeepInterval, SockOption::KeepInterval)
        }
        (IPPROTO_TCP, TCP_KEEPCNT) => Kept::Byte(OptionName::KeepCount, SockOption::KeepCount),
        (IPPROTO_TCP, TCP_USER_TIMEOUT) => Kept::Millis,
        (IPPROTO_TCP, TCP_MAXSEG) => Kept::MaxSeg,
        _ => return None,
    })
}

/// Accepted without effect: the acknowledgement strategy is the stack's, there is one queue to the
/// device, ports are chosen as late as can be anyway, and a port that another socket listens on is
/// refused by bind, where a program that shares ports has to be ready for it.
fn is_hint(level: i32, name: i32) -> bool {
    matches!(
        (level, name),
        (SOL_SOCKET, SO_PRIORITY | SO_REUSEPORT)
            | (IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT)
            | (IPPROTO_TCP, TCP_QUICKACK)
    )
}

fn check_level(socket: &Socket, level: i32) -> Result<(), Refusal> {
    // As Linux: a level that is not the socket's protocol does not exist for it.
    let tcp_on_udp = level == IPPROTO_TCP && !socket.is_stream();
    if tcp_on_udp { Err(Errno::OPNOTSUPP.into()) } else { Ok(()) }
}

/// getsockopt.
pub(crate) fn get(
    engine: &mut Engine,
    socket: &mut Socket,
    level: i32,
    name: i32,
) -> Result<u64, Refusal> {
    check_level(socket, level)?;
    if level == SOL_SOCKET
        && let Some(value) = own(engine, socket, name)?
    {
        return Ok(value);
    }
    if is_hint(level, name) {
        return Ok(0);
    }
    let kept = kept(level, name).ok_or(Errno::NOPROTOOPT)?;
    if matches!((level, name), (IPPROTO_TCP, TCP_CORK)) {
        // MSG_MORE corks the core for a moment; that is not the program's cork.
        return Ok(socket.cork.into());
    }
    let value = engine.stack.option(socket.handle, name_of(kept))?;
    Ok(match value {
        SockOption::NoDelay(on)
        | SockOption::Cork(on)
        | SockOption::KeepAlive(on)
        | SockOption::ReuseAddr(on)
        | SockOption::V6Only(on)
        | SockOption::Broadcast(on) => on.into(),
        SockOption::KeepIdle(time) | SockOption::KeepInterval(time) => time.as_secs(),
        SockOption::KeepCount(byte) | SockOption::Ttl(byte) | SockOption::Tos(byte) => byte.into(),
        SockOption::MaxSeg(0) => DEFAULT_MAXSEG,
        SockOption::MaxSeg(bytes) => bytes.into(),
        SockOption::UserTimeout(time) => u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
        SockOption::Linger(None) => 0,
        SockOption::Linger(Some(time)) => 1 | time.as_secs() << 32,
        SockOption::RecvBuffer(bytes) | SockOption::SendBuffer(bytes) => bytes as u64,
        // Not known by any name yet.
        _ => return Err(Errno::NOPROTOOPT.into()),
    })
}

fn name_of(kept: Kept) -> OptionName {
    match kept {
        Kept::Flag(name, _) | Kept::Seconds(name, _) | Kept::Byte(name, _) => name,
        Kept::Millis => OptionName::UserTimeout,
        Kept::MaxSeg => OptionName::MaxSeg,
        Kept::Linger => OptionName::Linger,
    }
}

/// The options of SOL_SOCKET that the server itself answers.
fn own(engine: &mut Engine, socket: &mut Socket, name: i32) -> Result<Option<u64>, Refusal> {
    Ok(Some(match name {
        SO_ERROR => {
            socket.take_error().map_or(0, |errno| errno.raw_os_error().unsigned_abs().into())
        }
        SO_TYPE => socket.kind.to_word(),
        SO_DOMAIN => AF_INET,
        SO_PROTOCOL => match socket.kind {
            SocketKind::Stream => TCP,
            SocketKind::Datagram => UDP,
        },
        SO_ACCEPTCONN => u64::from(socket.stage == Stage::Listening),
        SO_SNDBUF => 2 * socket.tx.limit,
        SO_RCVBUF if !socket.is_stream() => 2 * socket.rx.capacity() as u64,
        SO_RCVBUF => match engine.stack.option(socket.handle, OptionName::RecvBuffer)? {
            SockOption::RecvBuffer(bytes) => 2 * bytes as u64,
            _ => return Ok(None),
        },
        _ => return Ok(None),
    }))
}

/// setsockopt.
pub(crate) fn set(
    engine: &mut Engine,
    socket: &mut Socket,
    level: i32,
    name: i32,
    value: u64,
) -> Result<(), Refusal> {
    check_level(socket, level)?;
    match (level, name) {
        (SOL_SOCKET, SO_SNDBUF) => {
            socket.tx.limit = value.clamp(*LIMITS.start(), *LIMITS.end());
            return Ok(());
        }
        (SOL_SOCKET, SO_TYPE | SO_ERROR | SO_DOMAIN | SO_PROTOCOL | SO_ACCEPTCONN) => {
            return Err(Errno::NOPROTOOPT.into());
        }
        _ if is_hint(level, name) => return Ok(()),
        _ => {}
    }
    let option = match kept(level, name).ok_or(Errno::NOPROTOOPT)? {
        Kept::Flag(_, make) => make(int(value) != 0),
        Kept::Seconds(_, make) => make(Duration::from_secs(positive(value)?.into())),
        Kept::Byte(_, make) => make(byte(level, name, value)?),
        Kept::Millis => SockOption::UserTimeout(Duration::from_millis(positive(value)?.into())),
        Kept::MaxSeg => {
            SockOption::MaxSeg(u16::try_from(positive(value)?).map_err(|_| Errno::INVAL)?)
        }
        Kept::Linger if int(value) == 0 => SockOption::Linger(None),
        Kept::Linger => SockOption::Linger(Some(Duration::from_secs(value >> 32))),
    };
    if let SockOption::Cork(on) = option {
        socket.cork = on;
        socket.tx.more = false;
    }
    engine.stack.set_option(engine.now, socket.handle, option)?;
    Ok(())
}

/// The size of receive buffer that a call to setsockopt asks for, if that is what it is about. It
/// is for the client to see how much of it the pool has.
pub(crate) fn recv_buffer(level: i32, name: i32, value: u64) -> Option<u32> {
    // As Linux: a negative size is a huge one.
    ((level, name) == (SOL_SOCKET, SO_RCVBUF)).then(|| int(value).cast_unsigned().min(MAX_BUFFER))
}

#[expect(clippy::cast_possible_truncation, reason = "an int is the low half")]
fn int(value: u64) -> i32 {
    value as u32 as i32
}

/// An `int` that must not be negative.
fn positive(value: u64) -> Result<u32, Errno> {
    u32::try_from(int(value)).map_err(|_| Errno::INVAL)
}

/// A byte; -1 means the default of IP_TTL, and IP_TOS takes the low byte, as Linux does.
fn byte(level: i32, name: i32, value: u64) -> Result<u8, Errno> {
    match (level, name, int(value)) {
        (IPPROTO_IP, IP_TTL, -1) => Ok(inet::Config::default().ttl),
        (IPPROTO_IP, IP_TOS, tos) => Ok(tos.to_le_bytes()[0]),
        (_, _, other) => u8::try_from(other).map_err(|_| Errno::INVAL),
    }
}
