//! Socket options.

use alloc::sync::Arc;
use core::time::Duration;

use super::ports::Reuse;
use crate::bytes::{RxBytes, TxBytes};
use crate::config::Config;
use crate::context::Context;
use crate::interface_id::InterfaceId;
use crate::ip::{self, route::Path};
use crate::sockets::fast_open_keys::FastOpenKeys;
use crate::tcp::{CongestionKind, Connection, KeepAlive, TcpConfig};
use crate::time::Instant;

/// An option with its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SockOption {
    /// Small segments leave at once.
    NoDelay(bool),
    /// Only full segments leave, for up to 200 ms.
    Cork(bool),
    /// Idle connections are probed.
    KeepAlive(bool),
    /// Silence before the first probe; at least 1 s.
    KeepIdle(Duration),
    /// Time between probes; at least 1 s.
    KeepInterval(Duration),
    /// Unanswered probes before the connection is given up; at least 1.
    KeepCount(u8),
    /// Most received payload bytes that wait for the application. Without a set size, a stream's
    /// buffer grows with what its application reads.
    RecvBuffer(usize),
    /// Most payload bytes that wait to be sent or acknowledged. The value is stored for the owner,
    /// which bounds its sends by it. The core does not refuse more.
    SendBuffer(usize),
    /// The address may be shared with others that allow it, TIME-WAIT connections foremost.
    ReuseAddr(bool),
    /// Datagrams to broadcast addresses are allowed.
    Broadcast(bool),
    /// The behaviour of `close`. Zero aborts. A longer time is stored for the owner, which waits or
    /// does not.
    Linger(Option<Duration>),
    /// Time to live of the packets sent, hops; not 0.
    Ttl(u8),
    /// Type of service byte of the packets sent.
    Tos(u8),
    /// Hop limit of IPv6 packets to a unicast destination, not 0. `None` takes the router's
    /// advertised value.
    UnicastHops(Option<u8>),
    /// Traffic class of the IPv6 packets sent.
    TrafficClass(u8),
    /// An IPv6 socket has nothing to do with IPv4. Cannot be changed once it has an address.
    V6Only(bool),
    /// Bound of the segment size, bytes of payload (88..=32767); 0 for none.
    MaxSeg(u16),
    /// Most time that sent data may be unacknowledged; zero for the default.
    UserTimeout(Duration),
    /// Allows other sockets with this option at the same address, listening or not (SO_REUSEPORT).
    /// A keyed hash of the two ends spreads arriving packets over them.
    ReusePort(bool),
    /// Acknowledgements leave at once, for a while. Reading the option gives the present state.
    QuickAck(bool),
    /// The owner gets room to send only while fewer than this many bytes are queued and not sent. 0
    /// means no such bound. The value is stored for the owner: see `Stack::unsent`. Its event is
    /// `Acked`.
    NotSentLowat(u32),
    /// The owner is notified of received bytes only from this many on, or if no more will come. At
    /// least 1.
    RecvLowat(u32),
    /// Bound of the window offered to the peer, bytes; 0 for none.
    WindowClamp(u32),
    /// Retransmissions of a SYN; 1..=127.
    SynCount(u8),
    /// Connections of a listener wait for their first data, up to this long, before they can be
    /// accepted. The value is stored as a number of SYN-ACK timeouts (1 s, 3 s, 7 s, ...), rounded
    /// up. Zero means not at all.
    DeferAccept(Duration),
    /// A listener accepts data with a SYN, by a cookie (RFC 7413). The value bounds the connections
    /// whose peer has not yet acknowledged anything; 0 allows none.
    FastOpen(u32),
    /// `connect` defers the SYN until there is data, if the peer's cookie is known. Otherwise its
    /// SYN asks for a cookie.
    FastOpenConnect(bool),
    /// Data is sent, and accepted, with a SYN without any cookie.
    FastOpenNoCookie(bool),
    /// The keys of a listener's Fast Open cookies; without, those of the stack.
    FastOpenKeys(FastOpenKeys),
    /// Length of FIN-WAIT-2 after `close`; zero ends the connection at once.
    Linger2(Duration),
    /// The congestion control algorithm.
    Congestion(CongestionKind),
    /// Whether packets may be fragmented on their way (IP_MTU_DISCOVER).
    MtuDiscover(MtuDiscover),
    /// Payload bytes of each datagram into which one send is segmented (UDP_SEGMENT). 0 means one
    /// datagram.
    UdpSegment(u16),
    /// Datagrams of equal length are received as one (UDP_GRO). The value is stored for the owner:
    /// see [`Stack::recv_run`](crate::Stack::recv_run).
    UdpGro(bool),
    /// UDP-Lite: number of a datagram's bytes, header included, that the checksum covers
    /// (UDPLITE_SEND_CSCOV). 0 and any larger number mean all. 1 to 7 count as 8, as on Linux.
    SendCoverage(u16),
    /// UDP-Lite: datagrams of which less is covered are dropped (UDPLITE_RECV_CSCOV); 0: those of
    /// which not all is. At first none is. 1 to 7 are 8, as on Linux.
    RecvCoverage(u16),
    /// The interface by which multicast leaves (IP_MULTICAST_IF); `None` to choose by route.
    MulticastIf(Option<InterfaceId>),
    /// Time to live of multicast, hops (IP_MULTICAST_TTL).
    MulticastTtl(u8),
    /// Multicast sent is received by members on this host (IP_MULTICAST_LOOP).
    MulticastLoop(bool),
    /// Multicast of groups that others on this host joined is received (IP_MULTICAST_ALL).
    MulticastAll4(bool),
    /// IPV6_MULTICAST_ALL.
    MulticastAll6(bool),
    /// The only interface to use (SO_BINDTODEVICE).
    BindToDevice(Option<InterfaceId>),
    /// Errors of IPv4 packets are queued, and reported without a connection too (IP_RECVERR).
    RecvErrors4(bool),
    /// Errors of IPv6 packets are queued, and reported without a connection too (IPV6_RECVERR).
    RecvErrors6(bool),
}

/// The values of IP_MTU_DISCOVER, as Linux numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MtuDiscover {
    /// Routers and this host may fragment packets.
    Dont,
    /// A packet that fits the path must not be fragmented. This host fragments one that does not
    /// fit.
    #[default]
    Want,
    /// Nothing is fragmented. A packet that does not fit the path is refused.
    Do,
    /// As `Do`, but with the interface's MTU in place of the path's.
    Probe,
    /// Routers may fragment packets. A packet that does not fit the interface's MTU is refused.
    Interface,
    /// Routers may fragment packets. This host fragments a packet that does not fit the interface's
    /// MTU.
    Omit,
}

impl MtuDiscover {
    /// Whether routers' reports about a path count.
    pub(crate) fn accepts_path_mtu(self) -> bool {
        matches!(self, Self::Dont | Self::Want | Self::Do | Self::Probe)
    }

    /// Whether packets may be as long as the path takes, and not only its first link.
    pub(crate) fn uses_path(self) -> bool {
        matches!(self, Self::Dont | Self::Want | Self::Do)
    }

    /// Whether packets forbid routers to fragment them.
    pub(crate) fn sets_df(self) -> bool {
        matches!(self, Self::Want | Self::Do | Self::Probe)
    }

    /// Whether a packet that does not fit is refused instead of being fragmented.
    pub(crate) fn refuses(self) -> bool {
        matches!(self, Self::Do | Self::Probe | Self::Interface)
    }
}

/// Names an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of SockOption")]
pub enum OptionName {
    NoDelay,
    Cork,
    KeepAlive,
    KeepIdle,
    KeepInterval,
    KeepCount,
    RecvBuffer,
    SendBuffer,
    ReuseAddr,
    Broadcast,
    Linger,
    Ttl,
    Tos,
    UnicastHops,
    TrafficClass,
    V6Only,
    MaxSeg,
    UserTimeout,
    ReusePort,
    QuickAck,
    NotSentLowat,
    RecvLowat,
    WindowClamp,
    SynCount,
    DeferAccept,
    FastOpen,
    FastOpenConnect,
    FastOpenNoCookie,
    FastOpenKeys,
    Linger2,
    Congestion,
    MtuDiscover,
    UdpSegment,
    UdpGro,
    SendCoverage,
    RecvCoverage,
    MulticastIf,
    MulticastTtl,
    MulticastLoop,
    MulticastAll4,
    MulticastAll6,
    BindToDevice,
    RecvErrors4,
    RecvErrors6,
}

/// The options of one socket; a connection inherits its listener's. Each socket has them, and each
/// datagram's sending copies them, so times are kept as short numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SocketOptions {
    pub(crate) nodelay: bool,
    pub(crate) cork: bool,
    pub(crate) keep_alive: bool,
    /// Milliseconds.
    keep_idle: u32,
    /// Milliseconds.
    keep_interval: u32,
    keep_count: u8,
    /// Bytes; see [`SocketOptions::recv_buffer`].
    recv_buffer: u32,
    /// The receive buffer's size was set, and does not grow.
    pub(crate) recv_locked: bool,
    pub(crate) send_buffer: u32,
    pub(crate) reuse_addr: bool,
    pub(crate) broadcast: bool,
    /// Seconds.
    linger: Option<u32>,
    pub(crate) ttl: u8,
    pub(crate) tos: u8,
    pub(crate) unicast_hops: Option<u8>,
    pub(crate) traffic_class: u8,
    pub(crate) v6_only: bool,
    pub(crate) max_seg: u16,
    /// Milliseconds; 0: not set.
    pub(crate) user_timeout: u32,
    pub(crate) reuse_port: bool,
    pub(crate) quick_ack: bool,
    pub(crate) not_sent_lowat: u32,
    pub(crate) recv_lowat: u32,
    pub(crate) window_clamp: u32,
    /// Of a listener also that of its SYN-ACKs.
    pub(crate) syn_count: Option<u8>,
    /// SYN-ACK timeouts.
    pub(crate) defer_accept: u8,
    pub(crate) fast_open: Option<u32>,
    pub(crate) fast_open_connect: bool,
    pub(crate) fast_open_no_cookie: bool,
    /// Milliseconds.
    linger2: u32,
    pub(crate) congestion: CongestionKind,
    pub(crate) mtu_discover: MtuDiscover,
    pub(crate) udp_segment: u16,
    pub(crate) udp_gro: bool,
    pub(crate) send_coverage: Option<u16>,
    pub(crate) recv_coverage: Option<u16>,
    pub(crate) multicast_if: Option<InterfaceId>,
    pub(crate) multicast_ttl: u8,
    pub(crate) multicast_loop: bool,
    pub(crate) multicast_all4: bool,
    pub(crate) multicast_all6: bool,
    pub(crate) device: Option<InterfaceId>,
    pub(crate) recv_errors4: bool,
    pub(crate) recv_errors6: bool,
}

/// Least bound of the window, bytes.
const LEAST_CLAMP: u32 = 1152;

/// Linux's default of SO_SNDBUF for streams and datagrams alike, near enough.
const SEND_BUFFER: u32 = 212_992;

/// Bytes of a buffer, in the half of a word that each of many sockets has for them.
fn narrow(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl SocketOptions {
    /// SO_RCVBUF, bytes.
    pub(crate) fn recv_buffer(&self) -> usize {
        self.recv_buffer as usize
    }

    pub(crate) fn new(config: &Config, recv_buffer: usize) -> Self {
        let keep_alive = config.tcp.keep_alive.unwrap_or_default();
        Self {
            nodelay: config.tcp.nodelay,
            cork: config.tcp.cork,
            keep_alive: config.tcp.keep_alive.is_some(),
            keep_idle: millis(keep_alive.idle),
            keep_interval: millis(keep_alive.interval),
            keep_count: keep_alive.probes,
            recv_buffer: narrow(recv_buffer),
            recv_locked: false,
            send_buffer: SEND_BUFFER,
            reuse_addr: false,
            broadcast: false,
            linger: None,
            ttl: config.ttl,
            tos: 0,
            unicast_hops: None,
            traffic_class: 0,
            v6_only: false,
            max_seg: 0,
            user_timeout: millis(config.tcp.user_timeout.unwrap_or_default()),
            reuse_port: false,
            quick_ack: true,
            not_sent_lowat: 0,
            recv_lowat: 1,
            window_clamp: config.tcp.window_clamp,
            syn_count: None,
            defer_accept: 0,
            fast_open: None,
            fast_open_connect: false,
            fast_open_no_cookie: false,
            linger2: millis(config.tcp.fin_timeout),
            congestion: config.tcp.congestion_control,
            mtu_discover: MtuDiscover::default(),
            udp_segment: 0,
            udp_gro: false,
            send_coverage: None,
            recv_coverage: None,
            multicast_if: None,
            // RFC 1112 6.1: a group's datagrams do not leave the link unless that is asked for.
            multicast_ttl: 1,
            multicast_loop: true,
            multicast_all4: true,
            multicast_all6: true,
            device: None,
            recv_errors4: false,
            recv_errors6: false,
        }
    }

    /// Whether errors of packets of that family are queued.
    pub(crate) fn queues_errors(&self, v6: bool) -> bool {
        if v6 { self.recv_errors6 } else { self.recv_errors4 }
    }

    /// The kinds of sockets that may share the address.
    pub(crate) fn reuse(&self) -> Reuse {
        Reuse { address: self.reuse_addr, port: self.reuse_port }
    }

    /// Time to live and type of service of packets over `path`, or their IPv6 counterparts.
    pub(crate) fn hops_and_class(&self, cx: &Context, path: &Path) -> (u8, u8) {
        if path.source.is_ipv4() {
            return (self.ttl, self.tos);
        }
        let hops = self.unicast_hops.unwrap_or_else(|| cx.hop_limit(path.interface));
        (hops, self.traffic_class)
    }

    /// How and whether to probe.
    pub(crate) fn probing(&self) -> Option<KeepAlive> {
        self.keep_alive.then_some(KeepAlive {
            idle: from_millis(self.keep_idle),
            interval: from_millis(self.keep_interval),
            probes: self.keep_count,
        })
    }

    /// SO_LINGER's time, if it is on.
    pub(crate) fn linger(&self) -> Option<Duration> {
        self.linger.map(|seconds| Duration::from_secs(seconds.into()))
    }

    /// How long the connection may stay in FIN-WAIT-2.
    fn fin_timeout(&self) -> Duration {
        from_millis(self.linger2)
    }

    /// The user timeout, if set.
    pub(crate) fn user_timeout(&self) -> Option<Duration> {
        let set = Some(self.user_timeout).filter(|millis| *millis != 0);
        set.map(from_millis)
    }

    /// The settings of a connection over `path`.
    pub(crate) fn tcp_config(&self, defaults: &Arc<TcpConfig>, path: &Path) -> Arc<TcpConfig> {
        /// A TCP header without options, bytes.
        const TCP_HEADER: usize = 20;
        let headers = ip::header_len(path.source) + TCP_HEADER;
        let link = usize::from(path.mtu).saturating_sub(headers).max(1);
        let link = u16::try_from(link).unwrap_or(u16::MAX);
        let mss = if self.max_seg == 0 { link } else { self.max_seg.min(link) };
        let config = TcpConfig {
            mss,
            recv_buffer: self.recv_buffer(),
            moderate_rcvbuf: defaults.moderate_rcvbuf && !self.recv_locked,
            user_timeout: self.user_timeout(),
            keep_alive: self.probing(),
            window_clamp: self.window_clamp,
            syn_retries: self.syn_count.unwrap_or(defaults.syn_retries),
            fin_timeout: self.fin_timeout(),
            congestion_control: self.congestion,
            ..**defaults
        };
        if config == **defaults { Arc::clone(defaults) } else { Arc::new(config) }
    }

    /// Applies to a new connection the options that are not in its
    /// [`tcp_config`](Self::tcp_config).
    pub(crate) fn apply<T: TxBytes, R: RxBytes>(
        &self,
        now: Instant,
        connection: &mut Connection<T, R>,
    ) {
        connection.set_nodelay(now, self.nodelay);
        connection.set_cork(now, self.cork);
        if !self.quick_ack {
            connection.set_quick_ack(false);
        }
    }

    /// `keys` are those of the socket's Fast Open cookies.
    pub(crate) fn get(
        &self,
        defaults: &TcpConfig,
        keys: FastOpenKeys,
        name: OptionName,
    ) -> SockOption {
        match name {
            OptionName::NoDelay => SockOption::NoDelay(self.nodelay),
            OptionName::Cork => SockOption::Cork(self.cork),
            OptionName::KeepAlive => SockOption::KeepAlive(self.keep_alive),
            OptionName::KeepIdle => SockOption::KeepIdle(from_millis(self.keep_idle)),
            OptionName::KeepInterval => SockOption::KeepInterval(from_millis(self.keep_interval)),
            OptionName::KeepCount => SockOption::KeepCount(self.keep_count),
            OptionName::RecvBuffer => SockOption::RecvBuffer(self.recv_buffer()),
            OptionName::SendBuffer => SockOption::SendBuffer(self.send_buffer as usize),
            OptionName::ReuseAddr => SockOption::ReuseAddr(self.reuse_addr),
            OptionName::Broadcast => SockOption::Broadcast(self.broadcast),
            OptionName::Linger => SockOption::Linger(self.linger()),
            OptionName::Ttl => SockOption::Ttl(self.ttl),
            OptionName::Tos => SockOption::Tos(self.tos),
            OptionName::UnicastHops => SockOption::UnicastHops(self.unicast_hops),
            OptionName::TrafficClass => SockOption::TrafficClass(self.traffic_class),
            OptionName::V6Only => SockOption::V6Only(self.v6_only),
            OptionName::MaxSeg => SockOption::MaxSeg(self.max_seg),
            OptionName::UserTimeout => {
                SockOption::UserTimeout(self.user_timeout().unwrap_or_default())
            }
            OptionName::ReusePort => SockOption::ReusePort(self.reuse_port),
            OptionName::QuickAck => SockOption::QuickAck(self.quick_ack),
            OptionName::NotSentLowat => SockOption::NotSentLowat(self.not_sent_lowat),
            OptionName::RecvLowat => SockOption::RecvLowat(self.recv_lowat),
            OptionName::WindowClamp => SockOption::WindowClamp(self.window_clamp),
            OptionName::SynCount => {
                SockOption::SynCount(self.syn_count.unwrap_or(defaults.syn_retries))
            }
            OptionName::FastOpen => SockOption::FastOpen(self.fast_open.unwrap_or(0)),
            OptionName::FastOpenConnect => SockOption::FastOpenConnect(self.fast_open_connect),
            OptionName::FastOpenNoCookie => SockOption::FastOpenNoCookie(self.fast_open_no_cookie),
            OptionName::DeferAccept => {
                SockOption::DeferAccept(time_of_timeouts(defaults, self.defer_accept))
            }
            OptionName::FastOpenKeys => SockOption::FastOpenKeys(keys),
            OptionName::Linger2 => SockOption::Linger2(self.fin_timeout()),
            OptionName::Congestion => SockOption::Congestion(self.congestion),
            OptionName::MtuDiscover => SockOption::MtuDiscover(self.mtu_discover),
            OptionName::UdpSegment => SockOption::UdpSegment(self.udp_segment),
            OptionName::UdpGro => SockOption::UdpGro(self.udp_gro),
            OptionName::SendCoverage => SockOption::SendCoverage(self.send_coverage.unwrap_or(0)),
            OptionName::RecvCoverage => SockOption::RecvCoverage(self.recv_coverage.unwrap_or(0)),
            OptionName::MulticastIf => SockOption::MulticastIf(self.multicast_if),
            OptionName::MulticastTtl => SockOption::MulticastTtl(self.multicast_ttl),
            OptionName::MulticastLoop => SockOption::MulticastLoop(self.multicast_loop),
            OptionName::MulticastAll4 => SockOption::MulticastAll4(self.multicast_all4),
            OptionName::MulticastAll6 => SockOption::MulticastAll6(self.multicast_all6),
            OptionName::BindToDevice => SockOption::BindToDevice(self.device),
            OptionName::RecvErrors4 => SockOption::RecvErrors4(self.recv_errors4),
            OptionName::RecvErrors6 => SockOption::RecvErrors6(self.recv_errors6),
        }
    }

    /// Sets one; false if the value is out of range.
    pub(crate) fn set(&mut self, defaults: &TcpConfig, option: SockOption) -> bool {
        match option {
            SockOption::KeepIdle(time) | SockOption::KeepInterval(time) if is_off(time) => {
                return false;
            }
            // Linux's MAX_TCP_KEEPCNT.
            SockOption::KeepCount(0 | 128..)
            | SockOption::Ttl(0)
            | SockOption::SynCount(0 | 128..) => {
                return false;
            }
            SockOption::MaxSeg(bytes) if bytes != 0 && !(88..=32_767).contains(&bytes) => {
                return false;
            }
            SockOption::NoDelay(on) => self.nodelay = on,
            SockOption::Cork(on) => self.cork = on,
            SockOption::KeepAlive(on) => self.keep_alive = on,
            SockOption::KeepIdle(time) => self.keep_idle = millis(time),
            SockOption::KeepInterval(time) => self.keep_interval = millis(time),
            SockOption::KeepCount(count) => self.keep_count = count,
            SockOption::RecvBuffer(bytes) => {
                (self.recv_buffer, self.recv_locked) = (narrow(bytes), true);
            }
            SockOption::SendBuffer(bytes) => {
                self.send_buffer = narrow(bytes);
            }
            SockOption::ReuseAddr(on) => self.reuse_addr = on,
            SockOption::Broadcast(on) => self.broadcast = on,
            SockOption::Linger(time) => self.linger = time.map(whole_seconds),
            SockOption::Ttl(hops) => self.ttl = hops,
            SockOption::Tos(tos) => self.tos = tos,
            SockOption::UnicastHops(hops) => self.unicast_hops = hops,
            SockOption::TrafficClass(class) => self.traffic_class = class,
            SockOption::V6Only(on) => self.v6_only = on,
            SockOption::MaxSeg(bytes) => self.max_seg = bytes,
            SockOption::UserTimeout(time) => self.user_timeout = millis(time),
            SockOption::ReusePort(on) => self.reuse_port = on,
            SockOption::QuickAck(on) => self.quick_ack = on,
            SockOption::NotSentLowat(bytes) => self.not_sent_lowat = bytes,
            SockOption::RecvLowat(bytes) => self.recv_lowat = bytes.max(1),
            // As Linux: a value below half of the least receive buffer is raised to that.
            SockOption::WindowClamp(0) => self.window_clamp = 0,
            SockOption::WindowClamp(bytes) => self.window_clamp = bytes.max(LEAST_CLAMP),
            SockOption::SynCount(count) => self.syn_count = Some(count),
            SockOption::FastOpen(most) => self.fast_open = Some(most),
            SockOption::FastOpenConnect(on) => self.fast_open_connect = on,
            SockOption::FastOpenNoCookie(on) => self.fast_open_no_cookie = on,
            SockOption::DeferAccept(time) => {
                self.defer_accept = timeouts_in(defaults, time);
            }
            // The stack stores them, because few sockets have them.
            SockOption::FastOpenKeys(_) => {}
            SockOption::Linger2(time) => self.linger2 = millis(time),
            SockOption::Congestion(kind) => self.congestion = kind,
            SockOption::MtuDiscover(how) => self.mtu_discover = how,
            SockOption::UdpSegment(bytes) => self.udp_segment = bytes,
            SockOption::UdpGro(on) => self.udp_gro = on,
            SockOption::SendCoverage(bytes) => self.send_coverage = Some(coverage(bytes)),
            SockOption::RecvCoverage(bytes) => self.recv_coverage = Some(coverage(bytes)),
            SockOption::MulticastIf(interface) => self.multicast_if = interface,
            SockOption::MulticastTtl(hops) => self.multicast_ttl = hops,
            SockOption::MulticastLoop(on) => self.multicast_loop = on,
            SockOption::MulticastAll4(on) => self.multicast_all4 = on,
            SockOption::MulticastAll6(on) => self.multicast_all6 = on,
            SockOption::BindToDevice(interface) => self.device = interface,
            SockOption::RecvErrors4(on) => self.recv_errors4 = on,
            SockOption::RecvErrors6(on) => self.recv_errors6 = on,
        }
        true
    }
}

/// Whether a time of keep-alive is out of Linux's range (MAX_TCP_KEEPIDLE, MAX_TCP_KEEPINTVL).
fn is_off(time: Duration) -> bool {
    !(Duration::from_secs(1)..=Duration::from_secs(32_767)).contains(&time)
}

/// A time in whole milliseconds. A shorter one is one, because 0 means none.
fn millis(time: Duration) -> u32 {
    let least = u128::from(!time.is_zero());
    u32::try_from(time.as_millis().max(least)).unwrap_or(u32::MAX)
}

fn from_millis(millis: u32) -> Duration {
    Duration::from_millis(millis.into())
}

/// A time in seconds. One that is begun counts as a whole, because 0 closes at once.
fn whole_seconds(time: Duration) -> u32 {
    let begun = u64::from(time.subsec_nanos() > 0);
    u32::try_from(time.as_secs() + begun).unwrap_or(u32::MAX)
}

/// RFC 3828 3.1: the header is always covered.
fn coverage(bytes: u16) -> u16 {
    if bytes == 0 { 0 } else { bytes.max(8) }
}

/// Time until a SYN-ACK timer has expired `count` times.
fn time_of_timeouts(defaults: &TcpConfig, count: u8) -> Duration {
    let timeout = |n| defaults.rto_initial.saturating_mul(1_u32 << n).min(defaults.rto_max);
    (0..u32::from(count)).map(|n| timeout(n.min(16))).sum()
}

/// The least number of expiries of a SYN-ACK timer that takes `time`.
fn timeouts_in(defaults: &TcpConfig, time: Duration) -> u8 {
    (0..u8::MAX).find(|count| time_of_timeouts(defaults, *count) >= time).unwrap_or(u8::MAX)
}
