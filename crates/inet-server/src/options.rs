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

use crate::engine::Engine;
use crate::refusal::Refusal;
use crate::socket::{Socket, SocketState};
use crate::tx::LIMITS;

mod ancillary;
mod core;
mod info;
mod multicast;
mod numbers;
mod paths;
mod value;

use self::core::{core_option, name_of, option_of, value_of};
use self::numbers::*;
use self::value::OptionBytes;
pub(crate) use self::value::SetValue;

/// Most SO_RCVBUF, bytes.
const MAX_BUFFER: u32 = 4 << 20;

/// Is it an option without effect? The server keeps its value for getsockopt. There is one queue to
/// the device, so priorities mean nothing. The stack chooses ports as late as possible anyway.
fn is_hint(level: i32, name: i32) -> bool {
    matches!((level, name), (SOL_SOCKET, SO_PRIORITY) | (IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT))
}

/// Does the socket have options of this level? If not, Linux refuses getsockopt with EOPNOTSUPP and
/// setsockopt with ENOPROTOOPT.
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
) -> Result<OptionBytes, Refusal> {
    let OptionKey { level, name } = key;
    if !has_level(socket, level) {
        return Err(Errno::OPNOTSUPP.into());
    }
    if level == SOL_SOCKET
        && let Some(value) = own(engine, socket, name)?
    {
        return Ok(value);
    }
    if is_hint(level, name) {
        let set = socket.hints.iter().find(|(hint, _)| *hint == key);
        return Ok(OptionBytes::int(set.map_or(0, |(_, value)| *value)));
    }
    if let Some(value) = ancillary::get(socket, key) {
        return Ok(value);
    }
    if let Some(value) = multicast::get(engine, socket, key)? {
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
        SO_SNDBUF => OptionBytes::count(2 * socket.tx.limit),
        SO_OOBINLINE => OptionBytes::int(socket.urgent_inline.into()),
        SO_RCVBUF if !socket.is_stream() => OptionBytes::count(2 * socket.rx.capacity() as u64),
        SO_RCVBUF => match engine.stack.option(socket.handle, OptionName::RecvBuffer)? {
            SockOption::RecvBuffer(bytes) => OptionBytes::count(2 * bytes as u64),
            _ => return Ok(None),
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
            // As Linux: a negative size counts as a huge one.
            let bytes = given.int(level)?.cast_unsigned();
            socket.tx.limit = u64::from(bytes).clamp(*LIMITS.start(), *LIMITS.end());
            socket.tx.limited = true;
            return Ok(());
        }
        (SOL_SOCKET, SO_OOBINLINE) => {
            socket.urgent_inline = given.int(level)? != 0;
            return Ok(());
        }
        (
            SOL_SOCKET,
            SO_TYPE | SO_ERROR | SO_DOMAIN | SO_PROTOCOL | SO_ACCEPTCONN | SO_COOKIE | SO_SNDLOWAT,
        ) => return Err(Errno::NOPROTOOPT.into()),
        _ if is_hint(level, name) => {
            let value = given.int(level)?;
            socket.hints.retain(|(hint, _)| *hint != key);
            socket.hints.push((key, value));
            return Ok(());
        }
        _ => {}
    }
    if ancillary::set(socket, key, given)? {
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
    // As Linux: a negative size counts as a huge one.
    Ok(Some(given.int(key.level)?.cast_unsigned().min(MAX_BUFFER)))
}
