//! Messages of the control connections: JSON bodies on Unix stream sockets, some with file
//! descriptors (`fds:` below, in order).
//!
//! There are two kinds of control connection:
//!
//! * A *client* (program or operator) asks the supervisor. Each request gets one reply, in order.
//!   Programs and operators have a socket each. A request on the wrong one gets
//!   [`ClientReply::WrongSocket`].
//! * The *supervisor* asks the inet server and each NIC driver, over a socket pair. The server
//!   inherits its end as standard input; a fused server has the driver's end as standard output. A
//!   request carries an `id` that the reply repeats. Servers may also report events unasked
//!   ([`ServerEvent`]).

mod busy_poll;
mod capture;
mod status;

use serde::{Deserialize, Serialize};

pub use self::busy_poll::BusyPoll;
pub use self::capture::CaptureHeader;
pub use self::status::{
    InstanceStatus, PartyStatus, PoolStatus, ProcessStatus, RingStatus, SandboxStatus, SocketStatus,
};
use crate::client::ClientParams;
use crate::fastopen::FastopenKeys;
use crate::network::{InterfaceSettings, Ipv6Mode, NetworkStatus};
use crate::socket::SocketId;
use crate::stages::StageReport;
use crate::stats::Histogram;
use crate::xfrm::{XfrmRequest, XfrmStatus, XfrmVectors};

/// Most sockets in one reply. Programs and remote peers choose how many sockets there are; a page
/// is far below the longest message, and takes the inet server no longer than a few frames.
pub const SOCKET_PAGE: usize = 256;

/// Version of everything in this crate; both ends must agree.
pub const VERSION: u32 = 6;

/// A request of a client to the supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub enum ClientRequest {
    /// Admit this process as a client. Reply: [`ClientReply::Welcome`].
    Hello {
        /// [`VERSION`] of the client.
        version: u32,
        /// Its name for `tasuki ps`, as in /proc/self/comm.
        program: String,
    },
    /// Give this client one more thread slot. Reply: [`ClientReply::Thread`].
    AttachThread,
    /// Make these sockets of the client shared ones ([`crate::shared`]), at most
    /// [`MOST_SHARED`](crate::shared::MOST_SHARED). Reply: [`ClientReply::Shared`].
    Share {
        /// Their names in the client.
        sockets: Vec<SocketId>,
    },
    /// This connection will introduce programs ([`ClientRequest::Introduce`]). Reply:
    /// [`ClientReply::Done`], or [`ClientReply::Host`] in mode `library`, which has no relay.
    Relay {
        /// [`VERSION`] of the relay.
        version: u32,
    },
    /// A process behind the relay's filter wants a connection of its own. Reply:
    /// [`ClientReply::Introduced`].
    Introduce {
        /// Its thread that asks.
        thread: u32,
    },
    /// The client ends: close its sockets as `close` would, now. No reply.
    Bye,
    /// The instance's processes. Reply: [`ClientReply::Processes`].
    Ps,
    /// A page of the sockets. Reply: [`ClientReply::Sockets`].
    Ss {
        /// With the inside of TCP connections.
        info: bool,
        /// Rows before this one are left out.
        #[serde(default)]
        from: usize,
    },
    /// Interfaces, addresses and routes. Reply: [`ClientReply::Network`].
    Network,
    /// Begin to mark the stages of sends and receives, or end it. Reply: [`ClientReply::Stages`].
    Trace {
        /// Begin: the reply is empty.
        on: bool,
        /// At the end: most single marks in the reply, the newest ones.
        #[serde(default)]
        marks: usize,
    },
    /// Copy every frame. Reply: [`ClientReply::Capture`].
    Capture {
        /// Bytes kept of each frame.
        snaplen: u32,
        /// Name of the interface; the first interface if it is left out.
        #[serde(default)]
        interface: Option<String>,
    },
    /// Change or show security associations and policies. Reply: [`ClientReply::Done`] or
    /// [`ClientReply::Xfrm`].
    Xfrm {
        /// What to do.
        xfrm: XfrmRequest,
    },
    /// End the instance. Reply: [`ClientReply::Done`], when nothing of the instance is left.
    Down,
}

/// The type of socket, and the protocol, by which a program asks its relay for a connection to the
/// instance: socket(AF_INET, this, this). Linux has no such type, so the call fails with EINVAL
/// where there is no relay.
pub const INTRODUCTION: (u32, u32) = (15, 0x7a5);

/// Types of socket by which the library asks the relay for one that the library does not make, with
/// the types that it means: SOCK_DGRAM and SOCK_RAW. Linux has no such types, as
/// [`INTRODUCTION`]'s.
pub const RELAYED: [(u32, u32); 2] = [(13, 2), (14, 3)];

/// The two kinds of clients, each with a socket of the instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Audience {
    /// Programs become clients of the stack, and learn of its interfaces.
    Programs,
    /// Operators see everything and end the instance.
    Operators,
}

impl ClientRequest {
    /// May a client of this kind make this request?
    #[must_use]
    pub fn is_for(&self, audience: Audience) -> bool {
        match self {
            Self::Hello { .. }
            | Self::AttachThread
            | Self::Share { .. }
            | Self::Relay { .. }
            | Self::Introduce { .. }
            | Self::Bye => audience == Audience::Programs,
            Self::Network => true,
            Self::Ps
            | Self::Ss { .. }
            | Self::Trace { .. }
            | Self::Capture { .. }
            | Self::Xfrm { .. }
            | Self::Down => audience == Audience::Operators,
        }
    }
}

/// An answer of the supervisor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum ClientReply {
    /// Admitted. fds: region memfd, server's bell (eventfd), and `frames` frame regions, for
    /// reading.
    Welcome {
        /// The client's number.
        client: u16,
        /// The sizes of its region.
        params: ClientParams,
        /// Number of frame regions, of the interfaces from 0 on.
        #[serde(default)]
        frames: u16,
    },
    /// To `Hello`, in mode `library`: the stack is to be in this process. The program starts it and
    /// says hello once more.
    ///
    /// fds: the server ends of control connections: the inet server's, then each driver's, in
    /// order.
    Host,
    /// One more thread slot. fds: the thread's bell (its end of a [`shm::doorbell`]).
    Thread {
        /// Its number.
        thread: u16,
    },
    /// See [`ClientRequest::Share`]. fds: the program's end for each socket, in their order.
    Shared,
    /// See [`ClientRequest::Introduce`]. fds: the process's end of its connection.
    Introduced,
    /// See [`ClientRequest::Ps`].
    Processes(InstanceStatus),
    /// See [`ClientRequest::Ss`].
    Sockets {
        /// One row per socket, at most [`SOCKET_PAGE`].
        sockets: Vec<SocketStatus>,
        /// More rows follow.
        #[serde(default)]
        more: bool,
    },
    /// See [`ClientRequest::Network`].
    Network(NetworkStatus),
    /// See [`ClientRequest::Trace`].
    Stages(StageReport),
    /// To [`XfrmRequest::List`].
    Xfrm(XfrmStatus),
    /// Frames come as datagrams of a [`CaptureHeader`] and bytes. fds: SOCK_SEQPACKET socket.
    Capture,
    /// Done.
    Done,
    /// Refused: the request belongs on another socket of the instance.
    WrongSocket {
        /// The path of that socket.
        socket: String,
    },
    /// Refused.
    Error {
        /// One sentence: what and why.
        message: String,
    },
}

/// The inet server's configuration, in the first message it gets.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InetConfig {
    /// The instance's name, for log lines.
    pub instance: String,
    /// How its interfaces get IPv6 addresses.
    pub ipv6: Ipv6Mode,
    /// Check of the source of IPv4 packets (`rp_filter`): 0 off, 1 strict, 2 loose.
    pub rp_filter: u8,
    /// Initial settings of TCP sockets.
    pub tcp: TcpDefaults,
    /// Programs may read frames: they get received bytes in place.
    pub share_frames: bool,
    /// How long the server's thread spins before it sleeps.
    pub busy_poll: BusyPoll,
    /// Idle processors may be kept from halting while the instance is busy.
    pub keep_awake: bool,
}

/// Initial settings of an instance's TCP sockets; a program can change those of its own sockets.
/// The stack's default applies to a setting that is not given. Names and values are those of
/// Linux's `net.ipv4.tcp_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TcpDefaults {
    /// Congestion control algorithm.
    pub congestion: CongestionControl,
    /// Explicit congestion notification: 0 off, 1 asked for and granted, 2 granted.
    pub ecn: Option<u8>,
    /// Selective acknowledgements.
    pub sack: Option<bool>,
    /// Duplicate segments are reported (D-SACK).
    pub dsack: Option<bool>,
    /// Timestamps.
    pub timestamps: Option<bool>,
    /// Windows above 64 KiB.
    pub window_scaling: Option<bool>,
    /// SYN cookies: 0 never, 1 when the queue of a listener is full, 2 always.
    pub syncookies: Option<u8>,
    /// Most connection requests that a listener holds.
    pub max_syn_backlog: Option<u32>,
    /// A listener with a full accept queue resets new connections.
    pub abort_on_overflow: Option<bool>,
    /// Retransmissions of a SYN.
    pub syn_retries: Option<u8>,
    /// Retransmissions of a SYN-ACK.
    pub synack_retries: Option<u8>,
    /// Retransmissions of data before the connection fails.
    pub retries2: Option<u8>,
    /// Timeouts for the same data, after which the stack suspects an MTU black hole on the path.
    pub retries1: Option<u8>,
    /// Probing of the path's MTU: 0 off, 1 when a black hole is suspected, 2 always.
    pub mtu_probing: Option<u8>,
    /// First segment size of the MTU search, bytes of payload.
    pub base_mss: Option<u16>,
    /// Least segment size after a suspected black hole, bytes of payload.
    pub mtu_probe_floor: Option<u16>,
    /// The MTU search ends when fewer bytes than these are in doubt.
    pub probe_threshold: Option<u16>,
    /// Time until the MTU search begins anew, seconds.
    pub probe_interval: Option<u32>,
    /// An idle time reduces the congestion window.
    pub slow_start_after_idle: Option<bool>,
    /// Detection of spurious timeouts (F-RTO).
    pub frto: Option<bool>,
    /// Receive buffers grow with the rate at which the program reads.
    pub moderate_rcvbuf: Option<bool>,
    /// A new connection may replace one in TIME-WAIT: 0 never, 1 always, 2 within the instance.
    pub tw_reuse: Option<u8>,
    /// Most connections in TIME-WAIT.
    pub max_tw_buckets: Option<u32>,
    /// Fast Open, bits: 1 clients, 2 listeners that ask for it, 4 clients without a cookie.
    pub fastopen: Option<u32>,
    /// The key of Fast Open cookies, and perhaps the former key. Without it, the stack draws a key
    /// at its start.
    pub fastopen_key: Option<FastopenKeys>,
    /// How long the stack refrains from Fast Open after a path swallowed one, seconds.
    pub fastopen_blackhole_timeout_sec: Option<u32>,
}

/// A congestion control algorithm; the names are those of TCP_CONGESTION.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CongestionControl {
    /// RFC 9438.
    #[default]
    Cubic,
    /// RFC 5681, RFC 6582.
    Reno,
}

/// Faults that the driver's fault wrapper injects, in both directions. Probabilities are per frame,
/// 0.0 to 1.0.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FaultConfig {
    /// Dropped.
    pub loss: f64,
    /// Sent twice.
    pub duplicate: f64,
    /// Delayed behind the next frames.
    pub reorder: f64,
    /// One bit flipped.
    pub corrupt: f64,
    /// Microseconds for which each frame stays in the wrapper, in both directions.
    pub delay_us: u32,
    /// Seed of the random numbers. The same seed and the same frames give the same faults.
    pub seed: u64,
    /// Faults hit frames as stack and device exchange them, super-segments included. Otherwise they
    /// hit frames as on a wire.
    pub super_segments: bool,
}

impl FaultConfig {
    /// Is no fault injected?
    #[must_use]
    pub fn is_none(&self) -> bool {
        Self { seed: 0, super_segments: false, ..*self } == Self::default()
    }
}

/// A NIC driver's configuration, in the first message it gets. fds: frame region, driver's bell,
/// inet server's bell, then the device's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NicConfig {
    /// Device as given by `--nic`, such as `tap:tasuki0`.
    pub device: String,
    /// The stack's hardware address on it.
    pub mac: [u8; 6],
    /// IP bytes per frame.
    pub mtu: u16,
    /// Faults to inject.
    pub fault: FaultConfig,
    /// Strict mode: a hand-over takes the page from the giver's mapping.
    pub strict: bool,
    /// Leave checksums and TCP segmentation to the device, as far as it can. The frame region's
    /// layout has room for super-segments then.
    pub offload: bool,
    /// The frame region is the device's own memory ([`crate::nic::NicLayout::for_umem`]).
    pub umem: bool,
    /// How long the driver's own thread spins before it sleeps.
    pub busy_poll: BusyPoll,
}

/// A request of the supervisor to a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum ServerRequest {
    /// To the inet server, first.
    ConfigureInet(InetConfig),
    /// To a driver, first. fds: see [`NicConfig`].
    ConfigureNic(NicConfig),
    /// To the inet server: an interface. fds: frame region, inet server's bell (readable), driver's
    /// bell.
    AddNic {
        /// Number of the interface.
        nic: u16,
        /// Its name, addresses and routes.
        interface: InterfaceSettings,
        /// As in [`NicConfig`].
        strict: bool,
        /// As in [`NicConfig`]. It decides the frame region's layout.
        offload: bool,
        /// As in [`NicConfig`]. It decides the layout, too.
        umem: bool,
    },
    /// To the inet server: the interface may be on another link, or the link's hosts may have
    /// forgotten the stack. The server announces its addresses and multicast groups there.
    Announce {
        /// Number of the interface.
        nic: u16,
    },
    /// To both: a client. fds: region; to the inet server also the server's bell for this client,
    /// and a descriptor that is readable once the client's process has ended (pidfd).
    AddClient {
        /// The client's number.
        client: u16,
        /// The sizes of its region.
        params: ClientParams,
    },
    /// To the inet server: a thread of a client. fds: the thread's bell.
    AddThread {
        /// The client's number.
        client: u16,
        /// The thread slot.
        thread: u16,
    },
    /// To the inet server: these sockets of a client are shared from now on. fds: the server's end
    /// for each, in their order.
    ShareSockets {
        /// The client's number.
        client: u16,
        /// The sockets' names, and the cookies of the programs' ends.
        sockets: Vec<(SocketId, u64)>,
    },
    /// To the inet server: the client is gone. Its sockets close in the background. The server
    /// reports [`ServerEvent::ClientReleased`] when it does not need the region any more.
    RemoveClient {
        /// The client's number.
        client: u16,
    },
    /// To the inet server: a removed client's sockets that still close in the background are reset.
    /// [`ServerEvent::ClientReleased`] follows.
    AbortClient {
        /// The client's number.
        client: u16,
    },
    /// To a driver: it does not need the client's region any more.
    UnmapClient {
        /// The client's number.
        client: u16,
    },
    /// To the inet server: reply [`ServerReply::Sockets`].
    Ss {
        /// With the inside of TCP connections.
        info: bool,
        /// Rows before this one are left out.
        from: usize,
    },
    /// To the inet server: reply [`ServerReply::Network`].
    Network,
    /// To the inet server: mark the stages of sends and receives, or report them. Reply
    /// [`ServerReply::Stages`].
    Trace {
        /// Begin: the reply is empty.
        on: bool,
        /// As in [`ClientRequest::Trace`].
        marks: usize,
    },
    /// To the inet server: change or show security associations and policies. Reply
    /// [`ServerReply::Done`] or [`ServerReply::Xfrm`].
    Xfrm {
        /// What to do.
        xfrm: XfrmRequest,
        /// For an association that counts its vectors.
        vectors: Option<XfrmVectors>,
    },
    /// To both: reply [`ServerReply::Counters`].
    Counters,
    /// To a driver: copy frames. fds: SOCK_SEQPACKET socket, written without waiting.
    Capture {
        /// Bytes kept of each frame.
        snaplen: u32,
    },
    /// To a driver: another device, in the place of the one it had or lost. fds: the device's own.
    AttachDevice,
    /// To a driver: its device is gone. It goes on without a device until there is one.
    DetachDevice,
    /// End. The inet server resets open connections. Reply [`ServerReply::Done`], then exit 0.
    Shutdown,
}

/// A request with its number, on the control connection of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NumberedRequest {
    /// Repeated in the reply.
    pub id: u64,
    /// The request.
    pub request: ServerRequest,
}

/// An answer of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum ServerReply {
    /// Done.
    Done,
    /// See [`ServerRequest::Ss`].
    Sockets {
        /// One row per socket, at most [`SOCKET_PAGE`].
        sockets: Vec<SocketStatus>,
        /// More rows follow.
        more: bool,
    },
    /// See [`ServerRequest::Network`].
    Network(NetworkStatus),
    /// See [`ServerRequest::Trace`].
    Stages(StageReport),
    /// To [`XfrmRequest::List`].
    Xfrm(XfrmStatus),
    /// See [`ServerRequest::Counters`].
    Counters {
        /// Names and values; see docs/reference/counters.md.
        counters: Vec<(String, u64)>,
        /// Memory pools.
        pools: Vec<PoolStatus>,
        /// Sizes of batches.
        histograms: Vec<Histogram>,
        /// Of the inet server: the programs, and the rings of each interface.
        #[serde(default)]
        parties: Vec<PartyStatus>,
    },
    /// Refused.
    Error {
        /// One sentence: what and why.
        message: String,
    },
}

/// A message of a server on its control connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "kebab-case")]
pub enum ServerOutput {
    /// The answer to the request of that id.
    Reply {
        /// The request's number.
        id: u64,
        /// The answer.
        reply: ServerReply,
    },
    /// Something happened.
    Event(ServerEvent),
    /// The first message of a server process: its sandbox.
    Sandbox(SandboxStatus),
}

/// An event that a server reports unasked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum ServerEvent {
    /// The client broke the rules of its region. The inet server has dropped it.
    ClientFault {
        /// The client's number.
        client: u16,
        /// One sentence.
        reason: String,
    },
    /// The inet server uses nothing of the removed client any more. The supervisor may have its
    /// region unmapped and use its number again.
    ClientReleased {
        /// The client's number.
        client: u16,
    },
    /// An interface has its addresses and routes, and programs can use it. Neither its configured
    /// addresses nor its link-local address are tentative.
    InterfaceReady {
        /// Number of the interface.
        nic: u16,
    },
    /// A shared socket is one no more, and its descriptor is closed.
    SharedSocketEnded {
        /// The cookie of the programs' end.
        cookie: u64,
    },
    /// The device failed for good. A driver goes on without a device until
    /// [`ServerRequest::AttachDevice`].
    DeviceLost {
        /// One sentence.
        reason: String,
    },
}
