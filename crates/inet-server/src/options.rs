//! Socket options: Linux's numbers (getsockopt(2), socket(7), ip(7), tcp(7)) to the core's options.
//!
//! Values come and go as the bytes that the program gave or gets. How long they must be is as on
//! Linux: an `int`, where IPPROTO_IP takes a single byte too, or the structure that the option has.
//! As on Linux, `SO_SNDBUF` and `SO_RCVBUF` read as twice what was set. Options that only tune what
//! this stack does in another way are accepted without effect where programs are known to insist on
//! them.

use std::time::Duration;

use abi::option::{GET_MOST, OptionKey, OptionValue, SET_MOST};
use abi::{Errno, Family, SocketKind};
use inet::tcp::CongestionKind;
use inet::{FastOpenKeys, OptionName, SockOption};

use crate::calls::Refusal;
use crate::engine::Engine;
use crate::socket::{Socket, Stage};
use crate::tx::LIMITS;

mod ancillary;
mod info;
mod multicast;
mod numbers;
mod paths;

use numbers::*;

/// Most SO_RCVBUF, bytes.
const MAX_BUFFER: u32 = 4 << 20;
/// RFC 9293 3.7.1: the segment size assumed while the peer has said nothing.
const DEFAULT_MAXSEG: u64 = 536;
/// Bytes of the name of a congestion control algorithm, the zeros after it included.
const CONGESTION_NAME: usize = 16;
/// Most TCP_LINGER2, as Linux has it.
const LONGEST_LINGER2: Duration = Duration::from_secs(120);

/// An option's value as the program gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Value(Vec<u8>);

impl Value {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self(bytes.iter().copied().take(GET_MOST).collect())
    }

    fn int(value: i32) -> Self {
        Self::new(&value.to_ne_bytes())
    }

    /// A number that an `int` may be too short for: as much as it can say.
    fn count(value: u64) -> Self {
        Self::int(i32::try_from(value).unwrap_or(i32::MAX))
    }

    /// All of it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A value to be set: its first bytes, and how many the program gave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SetValue<'a> {
    bytes: &'a [u8],
    len: u32,
}

impl<'a> SetValue<'a> {
    /// `bytes` are those of `value` with zeros behind its end.
    pub(crate) fn new(value: &OptionValue, bytes: &'a [u8; SET_MOST]) -> Self {
        let len = value.len();
        let shown = usize::try_from(len).unwrap_or(SET_MOST).min(SET_MOST);
        Self { bytes: &bytes[..shown], len }
    }

    /// An `int`; a single byte will do for options of IPPROTO_IP.
    fn int(&self, level: i32) -> Result<i32, Errno> {
        match (self.bytes.first_chunk(), self.bytes.first()) {
            (Some(int), _) if self.len >= 4 => Ok(i32::from_ne_bytes(*int)),
            (_, Some(byte)) if level == IPPROTO_IP && self.len >= 1 => Ok((*byte).into()),
            _ => Err(Errno::INVAL),
        }
    }

    /// An `int` that must not be negative.
    fn positive(&self, level: i32) -> Result<u32, Errno> {
        u32::try_from(self.int(level)?).map_err(|_| Errno::INVAL)
    }

    /// Two `int`s.
    fn pair(&self) -> Result<(i32, i32), Errno> {
        let bytes: &[u8; 8] = self.bytes.first_chunk().ok_or(Errno::INVAL)?;
        let [a, b, c, d, e, f, g, h] = *bytes;
        match self.len {
            8.. => Ok((i32::from_ne_bytes([a, b, c, d]), i32::from_ne_bytes([e, f, g, h]))),
            _ => Err(Errno::INVAL),
        }
    }
}

/// The form of an option that the core keeps; its name there, and how it is made.
#[derive(Debug, Clone, Copy)]
enum Kept {
    Flag(OptionName, fn(bool) -> SockOption),
    Seconds(OptionName, fn(Duration) -> SockOption),
    Millis(OptionName, fn(Duration) -> SockOption),
    Byte(OptionName, fn(u8) -> SockOption),
    /// Not negative.
    Count(OptionName, fn(u32) -> SockOption),
    /// A negative one is the most there can be.
    Amount(OptionName, fn(u32) -> SockOption),
    MaxSeg,
    Linger,
    Linger2,
    /// A name.
    Congestion,
    /// A byte, or -1 for the stack's own.
    Hops,
    /// 16 bits.
    Segment,
    /// Sixteen bytes.
    FastOpenKey,
}

/// All options that the core keeps.
fn kept(level: i32, name: i32) -> Option<Kept> {
    use Kept::{Amount, Byte, Congestion, Count, FastOpenKey, Flag, Hops, Linger, Linger2};
    use Kept::{MaxSeg, Millis, Seconds, Segment};
    use {OptionName as Name, SockOption as Make};
    Some(match (level, name) {
        (SOL_SOCKET, SO_REUSEADDR) => Flag(Name::ReuseAddr, Make::ReuseAddr),
        (SOL_SOCKET, SO_REUSEPORT) => Flag(Name::ReusePort, Make::ReusePort),
        (SOL_SOCKET, SO_BROADCAST) => Flag(Name::Broadcast, Make::Broadcast),
        (SOL_SOCKET, SO_KEEPALIVE) => Flag(Name::KeepAlive, Make::KeepAlive),
        (SOL_SOCKET, SO_LINGER) => Linger,
        (SOL_SOCKET, SO_RCVLOWAT) => Amount(Name::RecvLowat, Make::RecvLowat),
        (IPPROTO_IP, IP_TOS) => Byte(Name::Tos, Make::Tos),
        (IPPROTO_IP, IP_TTL) => Byte(Name::Ttl, Make::Ttl),
        (IPPROTO_IPV6, IPV6_UNICAST_HOPS) => Hops,
        (IPPROTO_IPV6, IPV6_TCLASS) => Byte(Name::TrafficClass, Make::TrafficClass),
        (IPPROTO_IPV6, IPV6_V6ONLY) => Flag(Name::V6Only, Make::V6Only),
        (IPPROTO_UDP, UDP_CORK) => Flag(Name::Cork, Make::Cork),
        (IPPROTO_UDP, UDP_SEGMENT) => Segment,
        (IPPROTO_TCP, TCP_NODELAY) => Flag(Name::NoDelay, Make::NoDelay),
        (IPPROTO_TCP, TCP_CORK) => Flag(Name::Cork, Make::Cork),
        (IPPROTO_TCP, TCP_QUICKACK) => Flag(Name::QuickAck, Make::QuickAck),
        (IPPROTO_TCP, TCP_KEEPIDLE) => Seconds(Name::KeepIdle, Make::KeepIdle),
        (IPPROTO_TCP, TCP_KEEPINTVL) => Seconds(Name::KeepInterval, Make::KeepInterval),
        (IPPROTO_TCP, TCP_KEEPCNT) => Byte(Name::KeepCount, Make::KeepCount),
        (IPPROTO_TCP, TCP_SYNCNT) => Byte(Name::SynCount, Make::SynCount),
        (IPPROTO_TCP, TCP_LINGER2) => Linger2,
        (IPPROTO_TCP, TCP_FASTOPEN) => Amount(Name::FastOpen, Make::FastOpen),
        (IPPROTO_TCP, TCP_FASTOPEN_CONNECT) => Flag(Name::FastOpenConnect, Make::FastOpenConnect),
        (IPPROTO_TCP, TCP_FASTOPEN_KEY) => FastOpenKey,
        (IPPROTO_TCP, TCP_FASTOPEN_NO_COOKIE) => {
            Flag(Name::FastOpenNoCookie, Make::FastOpenNoCookie)
        }
        (IPPROTO_TCP, TCP_DEFER_ACCEPT) => Seconds(Name::DeferAccept, Make::DeferAccept),
        (IPPROTO_TCP, TCP_CONGESTION) => Congestion,
        (IPPROTO_TCP, TCP_WINDOW_CLAMP) => Count(Name::WindowClamp, Make::WindowClamp),
        (IPPROTO_TCP, TCP_NOTSENT_LOWAT) => Amount(Name::NotSentLowat, Make::NotSentLowat),
        (IPPROTO_TCP, TCP_USER_TIMEOUT) => Millis(Name::UserTimeout, Make::UserTimeout),
        (IPPROTO_TCP, TCP_MAXSEG) => MaxSeg,
        _ => return None,
    })
}

/// Kept for the program that asks again, and without effect: there is one queue to the device,
/// ports are chosen as late as can be anyway.
fn is_hint(level: i32, name: i32) -> bool {
    matches!((level, name), (SOL_SOCKET, SO_PRIORITY) | (IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT))
}

/// Has the socket options of this level? Linux refuses to get them with EOPNOTSUPP, and to set them
/// with ENOPROTOOPT.
fn has_level(socket: &Socket, level: i32) -> bool {
    match level {
        IPPROTO_TCP => socket.is_stream(),
        IPPROTO_UDP => !socket.is_stream(),
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
) -> Result<Value, Refusal> {
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
        return Ok(Value::int(set.map_or(0, |(_, value)| *value)));
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
    let kept = kept(level, name).ok_or(Errno::NOPROTOOPT)?;
    Ok(value_of(engine.stack.option(socket.handle, name_of(kept))?))
}

/// An option of the core in Linux's form.
fn value_of(option: SockOption) -> Value {
    let linger = |on: i32, time: Duration| {
        let seconds = i32::try_from(time.as_secs()).unwrap_or(i32::MAX);
        Value::new([on.to_ne_bytes(), seconds.to_ne_bytes()].as_flattened())
    };
    match option {
        SockOption::NoDelay(on)
        | SockOption::Cork(on)
        | SockOption::KeepAlive(on)
        | SockOption::ReuseAddr(on)
        | SockOption::ReusePort(on)
        | SockOption::V6Only(on)
        | SockOption::FastOpenConnect(on)
        | SockOption::FastOpenNoCookie(on)
        | SockOption::QuickAck(on)
        | SockOption::UdpGro(on)
        | SockOption::MulticastLoop(on)
        | SockOption::MulticastAll(on)
        | SockOption::Broadcast(on) => Value::int(on.into()),
        SockOption::KeepIdle(time)
        | SockOption::KeepInterval(time)
        | SockOption::DeferAccept(time) => Value::count(time.as_secs()),
        SockOption::KeepCount(byte)
        | SockOption::SynCount(byte)
        | SockOption::Ttl(byte)
        | SockOption::MulticastTtl(byte)
        | SockOption::Tos(byte)
        | SockOption::TrafficClass(byte)
        | SockOption::UnicastHops(Some(byte)) => Value::int(byte.into()),
        // As Linux: what is used.
        SockOption::UnicastHops(None) => Value::int(inet::Config::default().v6.hop_limit.into()),
        SockOption::FastOpen(bytes)
        | SockOption::NotSentLowat(bytes)
        | SockOption::RecvLowat(bytes)
        | SockOption::WindowClamp(bytes) => Value::int(bytes.cast_signed()),
        SockOption::MtuDiscover(how) => Value::int(how as i32),
        SockOption::UdpSegment(bytes) => Value::int(bytes.into()),
        SockOption::MulticastIf(interface) | SockOption::BindToDevice(interface) => {
            Value::count(interface.map_or(0, |id| id.scope_id().into()))
        }
        SockOption::MaxSeg(0) => Value::count(DEFAULT_MAXSEG),
        SockOption::MaxSeg(bytes) => Value::int(bytes.into()),
        SockOption::UserTimeout(time) => {
            Value::count(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
        }
        SockOption::Linger(None) => linger(0, Duration::ZERO),
        SockOption::Linger(Some(time)) => linger(1, time),
        SockOption::Congestion(kind) => {
            let mut name = [0; CONGESTION_NAME];
            for (byte, letter) in name.iter_mut().zip(kind.name().bytes()) {
                *byte = letter;
            }
            Value::new(&name)
        }
        SockOption::FastOpenKeys(keys) => {
            let other = keys.other.into_iter().flatten();
            Value::new(&keys.current.into_iter().chain(other).collect::<Vec<u8>>())
        }
        SockOption::Linger2(Duration::ZERO) => Value::int(-1),
        SockOption::Linger2(time) => Value::count(time.as_secs()),
        SockOption::RecvBuffer(bytes) | SockOption::SendBuffer(bytes) => Value::count(bytes as u64),
    }
}

fn name_of(kept: Kept) -> OptionName {
    match kept {
        Kept::Flag(name, _)
        | Kept::Seconds(name, _)
        | Kept::Millis(name, _)
        | Kept::Byte(name, _)
        | Kept::Count(name, _)
        | Kept::Amount(name, _) => name,
        Kept::MaxSeg => OptionName::MaxSeg,
        Kept::Linger => OptionName::Linger,
        Kept::Linger2 => OptionName::Linger2,
        Kept::Congestion => OptionName::Congestion,
        Kept::Hops => OptionName::UnicastHops,
        Kept::Segment => OptionName::UdpSegment,
        Kept::FastOpenKey => OptionName::FastOpenKeys,
    }
}

/// The options of SOL_SOCKET that the server itself answers.
fn own(engine: &mut Engine, socket: &mut Socket, name: i32) -> Result<Option<Value>, Refusal> {
    Ok(Some(match name {
        SO_ERROR => Value::int(socket.take_error().map_or(0, Errno::raw_os_error)),
        SO_TYPE => Value::count(socket.kind.to_word()),
        SO_DOMAIN => Value::int(match socket.family {
            Family::V4 => AF_INET,
            Family::V6 => AF_INET6,
        }),
        SO_PROTOCOL => Value::int(match socket.kind {
            SocketKind::Stream => IPPROTO_TCP,
            SocketKind::Datagram => IPPROTO_UDP,
        }),
        SO_COOKIE => Value::new(&u64::from(socket.serial).to_ne_bytes()),
        // As Linux: any room will do.
        SO_SNDLOWAT => Value::int(1),
        SO_ACCEPTCONN => Value::int((socket.stage == Stage::Listening).into()),
        SO_SNDBUF => Value::count(2 * socket.tx.limit),
        SO_OOBINLINE => Value::int(socket.urgent_inline.into()),
        SO_RCVBUF if !socket.is_stream() => Value::count(2 * socket.rx.capacity() as u64),
        SO_RCVBUF => match engine.stack.option(socket.handle, OptionName::RecvBuffer)? {
            SockOption::RecvBuffer(bytes) => Value::count(2 * bytes as u64),
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
            // As Linux: a negative size is a huge one.
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
    let option = option_of(kept(level, name).ok_or(Errno::NOPROTOOPT)?, key, given)?;
    engine.stack.set_option(engine.now, socket.handle, option)?;
    Ok(())
}

/// An option of the core out of a value in Linux's form.
fn option_of(kept: Kept, key: OptionKey, given: SetValue<'_>) -> Result<SockOption, Errno> {
    let level = key.level;
    Ok(match kept {
        Kept::Flag(_, make) => make(given.int(level)? != 0),
        Kept::Seconds(_, make) => make(Duration::from_secs(given.positive(level)?.into())),
        Kept::Millis(_, make) => make(Duration::from_millis(given.positive(level)?.into())),
        Kept::Byte(_, make) => make(byte(key, given.int(level)?)?),
        Kept::Count(_, make) => make(given.positive(level)?),
        Kept::Amount(_, make) => {
            make(u32::try_from(given.int(level)?).unwrap_or(i32::MAX.cast_unsigned()))
        }
        Kept::MaxSeg => {
            let bytes = given.positive(level)?;
            SockOption::MaxSeg(u16::try_from(bytes).map_err(|_| Errno::INVAL)?)
        }
        Kept::Congestion => SockOption::Congestion(congestion(given)?),
        Kept::Hops => SockOption::UnicastHops(match given.int(level)? {
            -1 => None,
            hops => Some(u8::try_from(hops).map_err(|_| Errno::INVAL)?),
        }),
        Kept::Segment => {
            let bytes = u16::try_from(given.int(level)?).map_err(|_| Errno::INVAL)?;
            SockOption::UdpSegment(bytes)
        }
        Kept::FastOpenKey => SockOption::FastOpenKeys(fast_open_key(given)?),
        Kept::Linger => SockOption::Linger(linger(given)?),
        Kept::Linger2 => SockOption::Linger2(match given.int(level)? {
            ..0 => Duration::ZERO,
            0 => inet::Config::default().tcp.fin_timeout,
            seconds => Duration::from_secs(seconds.cast_unsigned().into()).min(LONGEST_LINGER2),
        }),
    })
}

/// The algorithm of a name that ends at a zero byte, if there is one, and else where the value does
/// or the longest name would.
fn congestion(given: SetValue<'_>) -> Result<CongestionKind, Errno> {
    if given.len == 0 {
        return Err(Errno::INVAL);
    }
    let name = given.bytes.iter().copied().take(CONGESTION_NAME - 1);
    let name: Vec<u8> = name.take_while(|byte| *byte != 0).collect();
    let name = str::from_utf8(&name).map_err(|_| Errno::NOENT)?;
    CongestionKind::from_name(name).ok_or(Errno::NOENT)
}

/// A key of Fast Open cookies; two at once, as on Linux, do not fit into a call.
fn fast_open_key(given: SetValue<'_>) -> Result<FastOpenKeys, Errno> {
    match given.bytes.first_chunk() {
        Some(key) if given.len == 16 => Ok(FastOpenKeys { current: *key, other: None }),
        _ => Err(Errno::INVAL),
    }
}

/// A `struct linger`.
fn linger(given: SetValue<'_>) -> Result<Option<Duration>, Errno> {
    let (on, seconds) = given.pair()?;
    let time = Duration::from_secs(seconds.cast_unsigned().into());
    Ok((on != 0).then_some(time))
}

/// The size of receive buffer that a call to setsockopt asks for, if that is what it is about. It
/// is for the client to see how much of it the pool has.
///
/// # Errors
/// EINVAL for less than an `int`.
pub(crate) fn recv_buffer(key: OptionKey, given: SetValue<'_>) -> Result<Option<u32>, Errno> {
    if key.level != SOL_SOCKET || !matches!(key.name, SO_RCVBUF | SO_RCVBUFFORCE) {
        return Ok(None);
    }
    // As Linux: a negative size is a huge one.
    Ok(Some(given.int(key.level)?.cast_unsigned().min(MAX_BUFFER)))
}

/// A byte; -1 means the default of IP_TTL and IPV6_TCLASS, and IP_TOS takes the low byte, as Linux
/// does.
fn byte(key: OptionKey, int: i32) -> Result<u8, Errno> {
    match (key.level, key.name, int) {
        (IPPROTO_IP, IP_TTL, -1) => Ok(inet::Config::default().ttl),
        (IPPROTO_IPV6, IPV6_TCLASS, -1) => Ok(0),
        (IPPROTO_IP, IP_TOS, tos) => Ok(tos.to_le_bytes()[0]),
        (_, _, other) => u8::try_from(other).map_err(|_| Errno::INVAL),
    }
}
