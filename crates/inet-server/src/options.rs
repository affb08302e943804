//! Socket options: from Linux's numbers (getsockopt(2), socket(7), ip(7), tcp(7)) to the core's
//! options.
//!
//! Values are the program's own bytes. Their lengths are as on Linux: an `int`, or the option's
//! structure; IPPROTO_IP takes a single byte too. As on Linux, `SO_SNDBUF` and `SO_RCVBUF` read as
//! twice the value that was set.
//!
//! Some options tune a mechanism that this stack has in another form. The server accepts such an
//! option without effect, if programs are known to insist on it.

use abi::option::OptionKey;
use abi::{Errno, Family, SocketKind};
use inet::{OptionName, SockOption};

use crate::client::MAX_BUFFER;
use crate::engine::Engine;
use crate::refusal::Refusal;
use crate::socket::{Socket, SocketState};
use crate::tx::LIMITS;

mod ancillary;
mod core;
mod info;
mod interfaces;
mod kept;
mod membership;
mod multicast;
mod numbers;
mod paths;
mod value;

use self::core::{core_option, name_of, option_of, value_of};
use self::numbers::*;
use self::value::OptionBytes;
pub(crate) use self::value::SetValue;

/// What getsockopt tells at least of a receive buffer.
const LEAST_RECV_BUFFER: u64 = 2304;
/// The same of a send buffer.
const LEAST_SEND_BUFFER: u64 = 4608;
/// Where the size is kept that a program has asked for.
const SEND_BUFFER: OptionKey = OptionKey { level: SOL_SOCKET, name: SO_SNDBUF };
/// Where the seconds of SO_LINGER are kept while it is off. As on Linux, they are still told.
const LINGER: OptionKey = OptionKey { level: SOL_SOCKET, name: SO_LINGER };

/// Does the socket have options of this level? If not, Linux refuses getsockopt with EOPNOTSUPP, of
/// an IPv6 socket with ENOPROTOOPT, and setsockopt with ENOPROTOOPT.
fn has_level(socket: &Socket, level: i32) -> bool {
    match level {
        IPPROTO_TCP => socket.is_stream(),
        IPPROTO_UDP => !socket.is_stream(),
        IPPROTO_UDPLITE => socket.kind == SocketKind::UdpLite,
        IPPROTO_IPV6 => socket.family == Family::V6,
        SOL_SOCKET | IPPROTO_IP => true,
        _ => false,
    }
}

/// getsockopt.
pub(crate) fn get(
    engine: &mut Engine,
    socket: &mut Socket,
    key: OptionKey,
    given: &[u8],
) -> Result<OptionBytes, Refusal> {
    let OptionKey { level, name } = key;
    if !has_level(socket, level) {
        return Err(match socket.family {
            Family::V4 => Errno::OPNOTSUPP.into(),
            Family::V6 => Errno::NOPROTOOPT.into(),
        });
    }
    if level == SOL_SOCKET
        && let Some(value) = own(engine, socket, name)?
    {
        return Ok(value);
    }
    if let Some(value) = kept::get(socket, key)? {
        return Ok(value);
    }
    if let Some(value) = ancillary::get(socket, key) {
        return Ok(value);
    }
    if let Some(value) = multicast::get(engine, socket, key)? {
        return Ok(value);
    }
    if let Some(value) = membership::get(engine, socket, key, given)? {
        return Ok(value);
    }
    if let Some(value) = paths::get(engine, socket, key)? {
        return Ok(value);
    }
    if (level, name) == (IPPROTO_TCP, TCP_INFO) {
        return Ok(info::encode(&engine.stack.tcp_info(engine.now, socket.handle)?));
    }
    let option = core_option(level, name).ok_or(Errno::NOPROTOOPT)?;
    Ok(value_of(engine.stack.option(socket.handle, name_of(option))?))
}

/// The options of SOL_SOCKET that the server itself answers.
fn own(
    engine: &mut Engine,
    socket: &mut Socket,
    name: i32,
) -> Result<Option<OptionBytes>, Refusal> {
    Ok(Some(match name {
        SO_ERROR => OptionBytes::int(socket.take_error().map_or(0, Errno::raw_os_error)),
        SO_TYPE => OptionBytes::int(if socket.is_stream() { SOCK_STREAM } else { SOCK_DGRAM }),
        SO_DOMAIN => OptionBytes::int(match socket.family {
            Family::V4 => AF_INET,
            Family::V6 => AF_INET6,
        }),
        SO_PROTOCOL => OptionBytes::int(match socket.kind {
            SocketKind::Stream => IPPROTO_TCP,
            SocketKind::Datagram => IPPROTO_UDP,
            SocketKind::UdpLite => IPPROTO_UDPLITE,
            SocketKind::Echo => match socket.family {
                Family::V4 => IPPROTO_ICMP,
                Family::V6 => IPPROTO_ICMPV6,
            },
        }),
        SO_COOKIE => OptionBytes::new(&u64::from(socket.serial).to_ne_bytes()),
        // As Linux: any room is enough.
        SO_SNDLOWAT => OptionBytes::int(1),
        SO_ACCEPTCONN => OptionBytes::int((socket.state == SocketState::Listening).into()),
        SO_SNDBUF => OptionBytes::count(match kept::value(socket, SEND_BUFFER) {
            Some(asked) => doubled(asked.cast_unsigned(), LEAST_SEND_BUFFER),
            None => 2 * socket.tx.limit,
        }),
        SO_OOBINLINE => OptionBytes::int(socket.urgent_inline.into()),
        SO_LINGER => match engine.stack.option(socket.handle, OptionName::Linger)? {
            SockOption::Linger(None) => {
                OptionBytes::pair(0, kept::value(socket, LINGER).unwrap_or(0))
            }
            on => value_of(on),
        },
        SO_RCVBUF => match (socket.asked_recv, socket.is_stream()) {
            (Some(asked), _) => OptionBytes::count(doubled(asked, LEAST_RECV_BUFFER)),
            (None, false) => OptionBytes::count(2 * socket.rx.capacity() as u64),
            (None, true) => match engine.stack.option(socket.handle, OptionName::RecvBuffer)? {
                SockOption::RecvBuffer(bytes) => OptionBytes::count(2 * bytes as u64),
                _ => return Ok(None),
            },
        },
        _ => return Ok(None),
    }))
}

/// setsockopt.
pub(crate) fn set(
    engine: &mut Engine,
    socket: &mut Socket,
    key: OptionKey,
    given: SetValue<'_>,
) -> Result<(), Refusal> {
    let OptionKey { level, name } = key;
    if !has_level(socket, level) {
        return Err(Errno::NOPROTOOPT.into());
    }
    match (level, name) {
        (SOL_SOCKET, SO_SNDBUF | SO_SNDBUFFORCE) => {
            let bytes = asked_buffer(given.int(level)?, name == SO_SNDBUFFORCE);
            socket.tx.limit = u64::from(bytes).clamp(*LIMITS.start(), *LIMITS.end());
            socket.tx.limited = true;
            kept::keep(socket, SEND_BUFFER, bytes.cast_signed());
            return Ok(());
        }
        (SOL_SOCKET, SO_LINGER) => {
            let (on, seconds) = given.pair()?;
            if on != 0 {
                kept::keep(socket, LINGER, seconds);
            }
        }
        (SOL_SOCKET, SO_OOBINLINE) => {
            socket.urgent_inline = given.int(level)? != 0;
            return Ok(());
        }
        _ if kept::may_keep(key) && kept::set(socket, key, given)? => return Ok(()),
        _ => {}
    }
    if ancillary::set(socket, key, given)? {
        return Ok(());
    }
    if membership::set(engine, socket, key, given)? {
        return Ok(());
    }
    if multicast::set(engine, socket, key, given)? || paths::set(engine, socket, key, given)? {
        return Ok(());
    }
    let option = option_of(core_option(level, name).ok_or(Errno::NOPROTOOPT)?, key, given)?;
    engine.stack.set_option(engine.now, socket.handle, option)?;
    Ok(())
}

/// The size of the receive buffer that a setsockopt call asks for; `None` for other options. The
/// client decides how much of it the pool can give.
///
/// # Errors
/// EINVAL for less than an `int`.
pub(crate) fn recv_buffer(key: OptionKey, given: SetValue<'_>) -> Result<Option<u32>, Errno> {
    if key.level != SOL_SOCKET || !matches!(key.name, SO_RCVBUF | SO_RCVBUFFORCE) {
        return Ok(None);
    }
    Ok(Some(asked_buffer(given.int(key.level)?, key.name == SO_RCVBUFFORCE)))
}

/// The size of a buffer that a program asks for, as Linux reads it: a negative one counts as a huge
/// one, or with `force` as none; only `force` goes beyond [`MAX_BUFFER`].
fn asked_buffer(size: i32, force: bool) -> u32 {
    match (u32::try_from(size), force) {
        (Ok(size), true) => size.min(i32::MAX.cast_unsigned() / 2),
        (Err(_), true) => 0,
        (size, false) => size.unwrap_or(u32::MAX).min(MAX_BUFFER),
    }
}

/// What getsockopt tells of a buffer: twice the size, as Linux does for its own bookkeeping.
fn doubled(asked: u32, least: u64) -> u64 {
    (2 * u64::from(asked)).max(least)
}
