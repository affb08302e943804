//! getsockopt(2) and setsockopt(2).

use std::time::Duration;

use inet::tcp::{CongestionKind, TcpInfo};
use inet::{FastOpenKeys, MtuDiscover, OptionName, SockOption};

use super::call::{Outcome, Stop, fail, failed};
use super::{Host, info};

const SOL_TCP: i32 = libc::IPPROTO_TCP;
const SOL_IP: i32 = libc::IPPROTO_IP;
const SO_MEMINFO: i32 = 55;
const TCP_CC_INFO: i32 = 26;
const TCP_NOTSENT_LOWAT: i32 = 25;
const TCP_INQ: i32 = 36;
const TCP_FASTOPEN_KEY: i32 = 33;
const TCP_FASTOPEN_NO_COOKIE: i32 = 34;

/// Bytes of the name of a congestion control algorithm, the zeros after it included.
const CONGESTION_NAME: usize = 16;

/// Linux's bounds of socket buffers, bytes.
const LEAST_SEND_BUFFER: i32 = 4608;
const LEAST_RECV_BUFFER: i32 = 2304;

fn int(value: i64) -> Vec<u8> {
    i32::try_from(value).unwrap_or(i32::MAX).to_ne_bytes().to_vec()
}

fn seconds(value: i32) -> Duration {
    Duration::from_secs(u64::from(value.unsigned_abs()))
}

impl Host {
    /// The send buffer's size as Linux reports it, bytes.
    pub(super) fn send_buffer(&mut self, fd: i32) -> Outcome<u32> {
        let set = self.entries.socket(fd)?.send_buffer;
        let default = self.sysctls.triple("tcp_wmem").map_or(16_384, |[_, default, _]| default);
        let default = i32::try_from(default).unwrap_or(i32::MAX);
        Ok(set.unwrap_or(default).unsigned_abs())
    }

    /// getsockopt(2): the value's bytes.
    ///
    /// # Errors
    /// EBADF, ENOTSOCK, ENOPROTOOPT.
    pub fn getsockopt(&mut self, fd: i32, level: i32, name: i32) -> Outcome<Vec<u8>> {
        let socket = self.entries.socket(fd)?;
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_ERROR) => {
                return Ok(int(socket.error.take().unwrap_or(0).into()));
            }
            (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => return Ok(int(socket.listening.into())),
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => return Ok(int(self.send_buffer(fd)?.into())),
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => {
                let default = self.sysctls.triple("tcp_rmem").map_or(131_072, |[_, d, _]| d);
                let set = self.entries.socket(fd)?.recv_buffer;
                return Ok(int(set.map_or(default, i64::from)));
            }
            (libc::SOL_SOCKET, SO_MEMINFO) => return Ok(vec![0; 9 * 4]),
            (SOL_TCP, libc::TCP_INFO) => return Ok(info::bytes(&self.tcp_info(fd)?)),
            (SOL_TCP, TCP_CC_INFO) => return Ok(Vec::new()),
            _ => {}
        }
        let name = option_name(level, name).ok_or(Stop::Errno(libc::ENOPROTOOPT))?;
        let handle = self.handle(fd)?;
        let value = self.stack().option(handle, name).map_err(failed)?;
        Ok(bytes_of(value))
    }

    /// The content of TCP_INFO.
    ///
    /// # Errors
    /// EBADF, ENOTSOCK, EOPNOTSUPP.
    pub fn tcp_info(&mut self, fd: i32) -> Outcome<TcpInfo> {
        let handle = self.handle(fd)?;
        let now = self.now;
        self.stack().tcp_info(now, handle).map_err(failed)
    }

    /// setsockopt(2).
    ///
    /// # Errors
    /// EBADF, ENOTSOCK, ENOPROTOOPT, EINVAL.
    pub fn setsockopt(&mut self, fd: i32, level: i32, name: i32, value: &[u8]) -> Outcome<()> {
        let handle = self.handle(fd)?;
        let long = match (level, name) {
            (SOL_TCP, libc::TCP_CONGESTION) => Some(SockOption::Congestion(congestion(value)?)),
            (SOL_TCP, TCP_FASTOPEN_KEY) => Some(SockOption::FastOpenKeys(fast_open_keys(value)?)),
            _ => None,
        };
        if let Some(option) = long {
            let now = self.now;
            return self.stack().set_option(now, handle, option).map_err(failed);
        }
        let int = match (value.first_chunk(), value.first()) {
            (Some(bytes), _) => i32::from_ne_bytes(*bytes),
            // Options of IP may be a byte.
            (None, Some(byte)) if level == SOL_IP => i32::from(*byte),
            _ => return fail(libc::EINVAL),
        };
        let socket = self.entries.socket(fd)?;
        let option = match (level, name) {
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => {
                let doubled = int.saturating_mul(2).max(LEAST_SEND_BUFFER);
                socket.send_buffer = Some(doubled);
                return Ok(());
            }
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => {
                let doubled = int.saturating_mul(2).max(LEAST_RECV_BUFFER);
                socket.recv_buffer = Some(doubled);
                SockOption::RecvBuffer(usize::try_from(doubled / 2).unwrap_or(0))
            }
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                let time = value.get(4..).and_then(<[u8]>::first_chunk);
                let time = time.map_or(0, |bytes| i32::from_ne_bytes(*bytes));
                SockOption::Linger((int != 0).then(|| seconds(time)))
            }
            (SOL_TCP, TCP_INQ) => {
                socket.tells_queue = int != 0;
                return Ok(());
            }
            // Without a meaning on one link without other users.
            (libc::SOL_SOCKET, libc::SO_MARK | libc::SO_PRIORITY) | (SOL_IP, libc::IP_FREEBIND) => {
                return Ok(());
            }
            _ => option_of(level, name, int)?,
        };
        let now = self.now;
        self.stack().set_option(now, handle, option).map_err(failed)?;
        self.settle();
        Ok(())
    }
}

fn option_name(level: i32, name: i32) -> Option<OptionName> {
    Some(match (level, name) {
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => OptionName::KeepAlive,
        (libc::SOL_SOCKET, libc::SO_REUSEADDR) => OptionName::ReuseAddr,
        (libc::SOL_SOCKET, libc::SO_BROADCAST) => OptionName::Broadcast,
        (libc::SOL_SOCKET, libc::SO_LINGER) => OptionName::Linger,
        (SOL_TCP, libc::TCP_NODELAY) => OptionName::NoDelay,
        (SOL_TCP, libc::TCP_CORK) => OptionName::Cork,
        (SOL_TCP, libc::TCP_KEEPIDLE) => OptionName::KeepIdle,
        (SOL_TCP, libc::TCP_KEEPINTVL) => OptionName::KeepInterval,
        (SOL_TCP, libc::TCP_KEEPCNT) => OptionName::KeepCount,
        (SOL_TCP, libc::TCP_MAXSEG) => OptionName::MaxSeg,
        (SOL_TCP, libc::TCP_USER_TIMEOUT) => OptionName::UserTimeout,
        (SOL_TCP, libc::TCP_QUICKACK) => OptionName::QuickAck,
        (SOL_TCP, TCP_NOTSENT_LOWAT) => OptionName::NotSentLowat,
        (SOL_TCP, libc::TCP_WINDOW_CLAMP) => OptionName::WindowClamp,
        (SOL_TCP, libc::TCP_SYNCNT) => OptionName::SynCount,
        (SOL_TCP, libc::TCP_LINGER2) => OptionName::Linger2,
        (SOL_TCP, libc::TCP_FASTOPEN) => OptionName::FastOpen,
        (SOL_TCP, libc::TCP_FASTOPEN_CONNECT) => OptionName::FastOpenConnect,
        (SOL_TCP, TCP_FASTOPEN_KEY) => OptionName::FastOpenKeys,
        (SOL_TCP, TCP_FASTOPEN_NO_COOKIE) => OptionName::FastOpenNoCookie,
        (SOL_TCP, libc::TCP_DEFER_ACCEPT) => OptionName::DeferAccept,
        (SOL_TCP, libc::TCP_CONGESTION) => OptionName::Congestion,
        (libc::SOL_SOCKET, libc::SO_REUSEPORT) => OptionName::ReusePort,
        (libc::SOL_SOCKET, libc::SO_RCVLOWAT) => OptionName::RecvLowat,
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => OptionName::V6Only,
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => OptionName::TrafficClass,
        (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => OptionName::UnicastHops,
        (SOL_IP, libc::IP_MTU_DISCOVER) => OptionName::MtuDiscover,
        (SOL_IP, libc::IP_TTL) => OptionName::Ttl,
        (SOL_IP, libc::IP_TOS) => OptionName::Tos,
        _ => return None,
    })
}

/// The congestion control algorithm of a name, which a zero byte may end.
///
/// # Errors
/// EINVAL, ENOENT.
fn congestion(value: &[u8]) -> Outcome<CongestionKind> {
    let name = match value.split(|byte| *byte == 0).next() {
        Some(name) if !value.is_empty() => name.get(..CONGESTION_NAME - 1).unwrap_or(name),
        _ => return fail(libc::EINVAL),
    };
    let kind = str::from_utf8(name).ok().and_then(CongestionKind::from_name);
    kind.ok_or(Stop::Errno(libc::ENOENT))
}

/// One key of 16 bytes, or two.
///
/// # Errors
/// EINVAL.
fn fast_open_keys(value: &[u8]) -> Outcome<FastOpenKeys> {
    let (current, rest) = value.split_first_chunk().ok_or(Stop::Errno(libc::EINVAL))?;
    let other = rest.try_into().ok();
    match rest.is_empty() || other.is_some() {
        true => Ok(FastOpenKeys { current: *current, other }),
        false => fail(libc::EINVAL),
    }
}

/// The option that an `int` sets.
///
/// # Errors
/// ENOPROTOOPT, EINVAL.
fn option_of(level: i32, name: i32, value: i32) -> Outcome<SockOption> {
    let on = value != 0;
    let byte = u8::try_from(value).map_err(|_| Stop::Errno(libc::EINVAL));
    let name = option_name(level, name).ok_or(Stop::Errno(libc::ENOPROTOOPT))?;
    Ok(match name {
        OptionName::KeepAlive => SockOption::KeepAlive(on),
        OptionName::ReuseAddr => SockOption::ReuseAddr(on),
        OptionName::Broadcast => SockOption::Broadcast(on),
        OptionName::NoDelay => SockOption::NoDelay(on),
        OptionName::Cork => SockOption::Cork(on),
        OptionName::KeepIdle if value > 0 => SockOption::KeepIdle(seconds(value)),
        OptionName::KeepInterval if value > 0 => SockOption::KeepInterval(seconds(value)),
        OptionName::KeepCount => SockOption::KeepCount(byte?),
        OptionName::MaxSeg => {
            SockOption::MaxSeg(u16::try_from(value).map_err(|_| Stop::Errno(libc::EINVAL))?)
        }
        OptionName::UserTimeout if value >= 0 => {
            SockOption::UserTimeout(Duration::from_millis(u64::from(value.unsigned_abs())))
        }
        OptionName::QuickAck => SockOption::QuickAck(on),
        OptionName::ReusePort => SockOption::ReusePort(on),
        OptionName::V6Only => SockOption::V6Only(on),
        OptionName::NotSentLowat => SockOption::NotSentLowat(value.cast_unsigned()),
        OptionName::RecvLowat => SockOption::RecvLowat(value.cast_unsigned()),
        OptionName::WindowClamp => SockOption::WindowClamp(value.cast_unsigned()),
        OptionName::SynCount => SockOption::SynCount(byte?),
        OptionName::FastOpen => SockOption::FastOpen(value.cast_unsigned()),
        OptionName::FastOpenConnect => SockOption::FastOpenConnect(on),
        OptionName::FastOpenNoCookie => SockOption::FastOpenNoCookie(on),
        OptionName::DeferAccept => SockOption::DeferAccept(seconds(value.max(0))),
        OptionName::Linger2 => SockOption::Linger2(seconds(value.max(0))),
        OptionName::Ttl => SockOption::Ttl(byte?),
        OptionName::MtuDiscover => SockOption::MtuDiscover(mtu_discover(value)?),
        OptionName::Tos => SockOption::Tos(byte?),
        // -1 is the default.
        OptionName::TrafficClass if value == -1 => SockOption::TrafficClass(0),
        OptionName::TrafficClass => SockOption::TrafficClass(byte?),
        OptionName::UnicastHops if value == -1 => SockOption::UnicastHops(None),
        OptionName::UnicastHops => SockOption::UnicastHops(Some(byte?)),
        _ => return fail(libc::EINVAL),
    })
}

/// A value of IP_MTU_DISCOVER.
///
/// # Errors
/// EINVAL.
fn mtu_discover(value: i32) -> Outcome<MtuDiscover> {
    let all = [
        MtuDiscover::Dont,
        MtuDiscover::Want,
        MtuDiscover::Do,
        MtuDiscover::Probe,
        MtuDiscover::Interface,
    ];
    all.into_iter().find(|how| *how as i32 == value).ok_or(Stop::Errno(libc::EINVAL))
}

/// An option's value as the bytes of an `int` or a `struct linger`.
fn bytes_of(option: SockOption) -> Vec<u8> {
    let secs = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    let size = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
    match option {
        SockOption::NoDelay(on)
        | SockOption::Cork(on)
        | SockOption::KeepAlive(on)
        | SockOption::ReuseAddr(on)
        | SockOption::QuickAck(on)
        | SockOption::ReusePort(on)
        | SockOption::V6Only(on)
        | SockOption::FastOpenConnect(on)
        | SockOption::FastOpenNoCookie(on)
        | SockOption::UdpGro(on)
        | SockOption::RecvErrors4(on)
        | SockOption::RecvErrors6(on)
        | SockOption::MulticastLoop(on)
        | SockOption::MulticastAll4(on)
        | SockOption::MulticastAll6(on)
        | SockOption::Broadcast(on) => int(on.into()),
        SockOption::KeepIdle(time)
        | SockOption::KeepInterval(time)
        | SockOption::DeferAccept(time)
        | SockOption::Linger2(time) => int(secs(time)),
        SockOption::KeepCount(count)
        | SockOption::SynCount(count)
        | SockOption::Ttl(count)
        | SockOption::MulticastTtl(count)
        | SockOption::Tos(count)
        | SockOption::TrafficClass(count)
        | SockOption::UnicastHops(Some(count)) => int(count.into()),
        SockOption::UnicastHops(None) => int(-1),
        SockOption::MtuDiscover(how) => int(how as i64),
        SockOption::UdpSegment(bytes)
        | SockOption::SendCoverage(bytes)
        | SockOption::RecvCoverage(bytes) => int(bytes.into()),
        SockOption::MulticastIf(interface) | SockOption::BindToDevice(interface) => {
            int(interface.map_or(0, |id| id.scope_id().into()))
        }
        SockOption::RecvBuffer(bytes) | SockOption::SendBuffer(bytes) => int(size(bytes)),
        SockOption::Linger(time) => {
            [int(time.is_some().into()), int(time.map_or(0, secs))].concat()
        }
        SockOption::MaxSeg(bytes) => int(bytes.into()),
        SockOption::FastOpen(bytes)
        | SockOption::NotSentLowat(bytes)
        | SockOption::RecvLowat(bytes)
        | SockOption::WindowClamp(bytes) => bytes.to_ne_bytes().to_vec(),
        SockOption::UserTimeout(time) => int(i64::try_from(time.as_millis()).unwrap_or(i64::MAX)),
        SockOption::FastOpenKeys(keys) => {
            keys.current.into_iter().chain(keys.other.into_iter().flatten()).collect()
        }
        SockOption::Congestion(kind) => {
            let mut name = kind.name().as_bytes().to_vec();
            name.resize(CONGESTION_NAME, 0);
            name
        }
    }
}
