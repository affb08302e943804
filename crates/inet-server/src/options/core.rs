//! Options that the core keeps, and their translation between Linux's form and the core's.

use std::time::Duration;

use abi::Errno;
use abi::option::OptionKey;
use inet::tcp::CongestionKind;
use inet::{FastOpenKeys, OptionName, SockOption};

use super::numbers::*;
use super::value::{OptionBytes, SetValue};

/// RFC 9293 3.7.1: the segment size assumed before the peer has announced its own.
const DEFAULT_MAXSEG: u64 = 536;
/// Bytes of the name of a congestion control algorithm, the zeros after it included.
const CONGESTION_NAME: usize = 16;
/// Largest TCP_LINGER2, as on Linux.
const LONGEST_LINGER2: Duration = Duration::from_secs(120);

/// The form of an option that the core keeps, with the option's name in the core and its
/// constructor.
#[derive(Debug, Clone, Copy)]
pub(super) enum CoreOption {
    Flag(OptionName, fn(bool) -> SockOption),
    Seconds(OptionName, fn(Duration) -> SockOption),
    Millis(OptionName, fn(Duration) -> SockOption),
    Byte(OptionName, fn(u8) -> SockOption),
    /// Not negative.
    Count(OptionName, fn(u32) -> SockOption),
    /// A negative number is the largest there can be.
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
    /// Bytes. A number that 16 bits do not hold counts as their largest.
    Coverage(OptionName, fn(u16) -> SockOption),
    /// Sixteen bytes.
    FastOpenKey,
}

/// All options that the core keeps.
pub(super) fn core_option(level: i32, name: i32) -> Option<CoreOption> {
    use CoreOption::{Amount, Byte, Congestion, Count, Coverage, FastOpenKey, Flag, Hops, Linger};
    use CoreOption::{Linger2, MaxSeg, Millis, Seconds, Segment};
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
        (IPPROTO_IP, IP_RECVERR) => Flag(Name::RecvErrors4, Make::RecvErrors4),
        (IPPROTO_IPV6, IPV6_RECVERR) => Flag(Name::RecvErrors6, Make::RecvErrors6),
        (IPPROTO_IPV6, IPV6_UNICAST_HOPS) => Hops,
        (IPPROTO_IPV6, IPV6_TCLASS) => Byte(Name::TrafficClass, Make::TrafficClass),
        (IPPROTO_IPV6, IPV6_V6ONLY) => Flag(Name::V6Only, Make::V6Only),
        (IPPROTO_UDP, UDP_CORK) => Flag(Name::Cork, Make::Cork),
        (IPPROTO_UDP, UDP_SEGMENT) => Segment,
        (IPPROTO_UDPLITE, UDPLITE_SEND_CSCOV) => Coverage(Name::SendCoverage, Make::SendCoverage),
        (IPPROTO_UDPLITE, UDPLITE_RECV_CSCOV) => Coverage(Name::RecvCoverage, Make::RecvCoverage),
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

/// An option of the core in Linux's form.
pub(super) fn value_of(option: SockOption) -> OptionBytes {
    let linger = |on: i32, time: Duration| {
        let seconds = i32::try_from(time.as_secs()).unwrap_or(i32::MAX);
        OptionBytes::pair(on, seconds)
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
        | SockOption::RecvErrors4(on)
        | SockOption::RecvErrors6(on)
        | SockOption::MulticastLoop(on)
        | SockOption::MulticastAll4(on)
        | SockOption::MulticastAll6(on)
        | SockOption::Broadcast(on) => OptionBytes::int(on.into()),
        SockOption::KeepIdle(time)
        | SockOption::KeepInterval(time)
        | SockOption::DeferAccept(time) => OptionBytes::count(time.as_secs()),
        SockOption::KeepCount(byte)
        | SockOption::SynCount(byte)
        | SockOption::Ttl(byte)
        | SockOption::MulticastTtl(byte)
        | SockOption::Tos(byte)
        | SockOption::TrafficClass(byte)
        | SockOption::UnicastHops(Some(byte)) => OptionBytes::int(byte.into()),
        // As Linux: the value in use.
        SockOption::UnicastHops(None) => {
            OptionBytes::int(inet::Config::default().v6.hop_limit.into())
        }
        SockOption::FastOpen(bytes)
        | SockOption::NotSentLowat(bytes)
        | SockOption::RecvLowat(bytes)
        | SockOption::WindowClamp(bytes) => OptionBytes::int(bytes.cast_signed()),
        SockOption::MtuDiscover(how) => OptionBytes::int(how as i32),
        SockOption::UdpSegment(bytes)
        | SockOption::SendCoverage(bytes)
        | SockOption::RecvCoverage(bytes) => OptionBytes::int(bytes.into()),
        SockOption::MulticastIf(interface) | SockOption::BindToDevice(interface) => {
            OptionBytes::count(interface.map_or(0, |id| id.scope_id().into()))
        }
        SockOption::MaxSeg(0) => OptionBytes::count(DEFAULT_MAXSEG),
        SockOption::MaxSeg(bytes) => OptionBytes::int(bytes.into()),
        SockOption::UserTimeout(time) => {
            OptionBytes::count(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
        }
        SockOption::Linger(None) => linger(0, Duration::ZERO),
        SockOption::Linger(Some(time)) => linger(1, time),
        SockOption::Congestion(kind) => OptionBytes::new(&congestion_name(kind)),
        SockOption::FastOpenKeys(keys) => {
            let other = keys.other.into_iter().flatten();
            OptionBytes::new(&keys.current.into_iter().chain(other).collect::<Vec<u8>>())
        }
        SockOption::Linger2(Duration::ZERO) => OptionBytes::int(-1),
        SockOption::Linger2(time) => OptionBytes::count(time.as_secs()),
        SockOption::RecvBuffer(bytes) | SockOption::SendBuffer(bytes) => {
            OptionBytes::count(bytes as u64)
        }
    }
}

/// The name of an algorithm, with zeros behind it.
fn congestion_name(kind: CongestionKind) -> [u8; CONGESTION_NAME] {
    let mut name = [0; CONGESTION_NAME];
    for (byte, letter) in name.iter_mut().zip(kind.name().bytes()) {
        *byte = letter;
    }
    name
}

pub(super) fn name_of(option: CoreOption) -> OptionName {
    match option {
        CoreOption::Flag(name, _)
        | CoreOption::Seconds(name, _)
        | CoreOption::Millis(name, _)
        | CoreOption::Byte(name, _)
        | CoreOption::Count(name, _)
        | CoreOption::Amount(name, _)
        | CoreOption::Coverage(name, _) => name,
        CoreOption::MaxSeg => OptionName::MaxSeg,
        CoreOption::Linger => OptionName::Linger,
        CoreOption::Linger2 => OptionName::Linger2,
        CoreOption::Congestion => OptionName::Congestion,
        CoreOption::Hops => OptionName::UnicastHops,
        CoreOption::Segment => OptionName::UdpSegment,
        CoreOption::FastOpenKey => OptionName::FastOpenKeys,
    }
}

/// An option of the core out of a value in Linux's form.
pub(super) fn option_of(
    option: CoreOption,
    key: OptionKey,
    given: SetValue<'_>,
) -> Result<SockOption, Errno> {
    let level = key.level;
    Ok(match option {
        CoreOption::Flag(_, make) => make(given.int(level)? != 0),
        // As Linux: none.
        CoreOption::Seconds(OptionName::DeferAccept, make) if given.int(level)? < 0 => {
            make(Duration::ZERO)
        }
        CoreOption::Seconds(_, make) => make(Duration::from_secs(given.positive(level)?.into())),
        CoreOption::Millis(_, make) => make(Duration::from_millis(given.positive(level)?.into())),
        CoreOption::Byte(_, make) => make(byte(key, given.int(level)?)?),
        // As Linux: a negative clamp is the least.
        CoreOption::Count(_, make) => make(u32::try_from(given.int(level)?).unwrap_or(1)),
        CoreOption::Amount(OptionName::FastOpen, make) => make(given.positive(level)?),
        CoreOption::Amount(OptionName::NotSentLowat, make) => {
            make(given.int(level)?.cast_unsigned())
        }
        CoreOption::Amount(_, make) => {
            make(u32::try_from(given.int(level)?).unwrap_or(i32::MAX.cast_unsigned()))
        }
        CoreOption::MaxSeg => {
            let bytes = given.positive(level)?;
            SockOption::MaxSeg(u16::try_from(bytes).map_err(|_| Errno::INVAL)?)
        }
        CoreOption::Congestion => SockOption::Congestion(congestion(given)?),
        CoreOption::Hops => SockOption::UnicastHops(match given.int(level)? {
            -1 => None,
            hops => Some(u8::try_from(hops).map_err(|_| Errno::INVAL)?),
        }),
        CoreOption::Segment => {
            let bytes = u16::try_from(given.int(level)?).map_err(|_| Errno::INVAL)?;
            SockOption::UdpSegment(bytes)
        }
        CoreOption::Coverage(_, make) => make(u16::try_from(given.int(level)?).unwrap_or(u16::MAX)),
        CoreOption::FastOpenKey => SockOption::FastOpenKeys(fast_open_key(given)?),
        CoreOption::Linger => SockOption::Linger(linger(given)?),
        CoreOption::Linger2 => SockOption::Linger2(match given.int(level)? {
            ..0 => Duration::ZERO,
            0 => inet::Config::default().tcp.fin_timeout,
            seconds => Duration::from_secs(seconds.cast_unsigned().into()).min(LONGEST_LINGER2),
        }),
    })
}

/// The algorithm of a name. The name ends at a zero byte, at the end of the value, or at the length
/// of the longest name.
fn congestion(given: SetValue<'_>) -> Result<CongestionKind, Errno> {
    if given.len == 0 {
        return Err(Errno::INVAL);
    }
    let name = given.bytes.iter().copied().take(CONGESTION_NAME - 1);
    let name: Vec<u8> = name.take_while(|byte| *byte != 0).collect();
    let name = str::from_utf8(&name).map_err(|_| Errno::NOENT)?;
    CongestionKind::from_name(name).ok_or(Errno::NOENT)
}

/// A key of Fast Open cookies. Linux takes two keys at once; they do not fit into a call.
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

/// A byte. As on Linux, -1 means the default of IP_TTL and IPV6_TCLASS, and IP_TOS takes the low
/// byte of any number.
fn byte(key: OptionKey, int: i32) -> Result<u8, Errno> {
    match (key.level, key.name, int) {
        (IPPROTO_IP, IP_TTL, -1) => Ok(inet::Config::default().ttl),
        (IPPROTO_IPV6, IPV6_TCLASS, -1) => Ok(0),
        (IPPROTO_IP, IP_TOS, tos) => Ok(tos.to_le_bytes()[0]),
        (_, _, other) => u8::try_from(other).map_err(|_| Errno::INVAL),
    }
}
