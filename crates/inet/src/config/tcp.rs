//! Settings of TCP connections.

use alloc::sync::Arc;
use core::time::Duration;

use super::congestion::CongestionKind;
use crate::ecn_field::EcnPolicy;

/// When and how often an idle connection is probed (RFC 9293 3.8.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAlive {
    /// Silence after which the first probe is sent. Linux: 2 h.
    pub idle: Duration,
    /// Time between probes. Linux: 75 s.
    pub interval: Duration,
    /// Unanswered probes after which the connection is given up. Linux: 9.
    pub probes: u8,
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self { idle: Duration::from_secs(7200), interval: Duration::from_secs(75), probes: 9 }
    }
}

/// Settings of a connection. The defaults are those of Linux where it has such a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpConfig {
    /// Largest segment that this side can take, bytes of payload: MTU - 40 for IPv4. Also the bound
    /// of sent segments.
    pub mss: u16,
    /// Most received bytes that wait for the application (see `Connection::consumed`), at the start
    /// of a connection. This is half of Linux's `tcp_rmem[1]`, which counts memory.
    pub recv_buffer: usize,
    /// Linux's `tcp_rmem[2]`, bytes of memory: the window's scale is chosen for it, and by itself
    /// the receive buffer grows to half of it.
    pub recv_buffer_max: usize,
    /// How far the receive buffer grows by itself before its owner has to grant more
    /// (`Connection::grant_recv_buffer`), bytes.
    pub recv_buffer_granted: usize,
    /// The receive buffer grows with the bytes that the application reads in a round trip. Setting
    /// its size turns this off for a connection.
    pub moderate_rcvbuf: bool,
    /// Most pieces queued that came out of order; their bytes are bounded by the window anyway.
    /// Below the window divided by the peer's segment size, loss costs retransmissions that would
    /// not be needed.
    pub out_of_order_limit: usize,
    /// Small segments leave at once (RFC 9293 3.7.4).
    pub nodelay: bool,
    /// Only full segments leave, for up to 200 ms.
    pub cork: bool,
    /// Bound of the window that is offered, bytes (TCP_WINDOW_CLAMP); 0 for none.
    pub window_clamp: u32,
    /// How long an acknowledgement may wait for a companion (RFC 9293 MUST-59: less than 0.5 s).
    pub delayed_ack: Duration,
    /// At the start of a connection this many segments are acknowledged at once.
    pub quick_acks: u8,
    /// Retransmissions of a SYN.
    pub syn_retries: u8,
    /// Retransmissions of a SYN-ACK.
    pub synack_retries: u8,
    /// Most connection requests of one listener, whatever its backlog.
    pub max_syn_backlog: u32,
    /// SYN cookies (RFC 4987): 0 never, 1 when a listener has all the requests it may have, 2
    /// always.
    pub syncookies: u8,
    /// The last ACK of a handshake is answered with RST while the accept queue is full; else it is
    /// dropped and may come again.
    pub abort_on_overflow: bool,
    /// Fast Open (RFC 7413), a sum of these bits: 1 as a client; 2 as a server; 4 a client sends
    /// data without a cookie; 0x200 a server accepts data without one; 0x400 every listener accepts
    /// it.
    pub fastopen: u32,
    /// First pause of Fast Open after the path has dropped a connection that was opened fast (RFC
    /// 7413 4.1.3.1). With zero, such drops are not detected. Linux:
    /// tcp_fastopen_blackhole_timeout_sec.
    pub fastopen_blackhole_timeout: Duration,
    /// Probing of the path's MTU (RFC 4821): 0 never, 1 when a black hole is suspected, 2 always.
    pub mtu_probing: u8,
    /// Segments that a search for the path's MTU begins with, bytes of payload.
    pub base_mss: u16,
    /// Least segment that a black hole leads to, bytes of payload.
    pub mtu_probe_floor: u16,
    /// The search ends when it is about fewer bytes than this.
    pub probe_threshold: u16,
    /// Time after which the search is repeated.
    pub probe_interval: Duration,
    /// Timeouts for the same data after which the path is suspected (RFC 9293 3.8.3, R1).
    pub retries1: u8,
    /// Retransmissions of data, and unanswered window probes, before the peer is given up.
    pub retries: u8,
    /// The same for a connection whose application has closed.
    pub orphan_retries: u8,
    /// Length of TIME-WAIT.
    pub time_wait: Duration,
    /// A connection attempt may take the place of a connection in TIME-WAIT, if timestamps tell
    /// them apart (RFC 6191): 0 never, 1 always, 2 within this machine.
    pub tw_reuse: u8,
    /// Length of FIN-WAIT-2 after the application has closed.
    pub fin_timeout: Duration,
    /// Retransmission timeout while the round-trip time is unknown (RFC 6298 2.1).
    pub rto_initial: Duration,
    /// Least retransmission timeout.
    pub rto_min: Duration,
    /// Longest retransmission timeout, with back-off.
    pub rto_max: Duration,
    /// Initial congestion window, segments (RFC 6928).
    pub initial_window: u8,
    /// Congestion control algorithm.
    pub congestion_control: CongestionKind,
    /// The congestion window decays while it is not used (RFC 5681 4.1, RFC 2861).
    pub slow_start_after_idle: bool,
    /// Longest time that sent data may be unacknowledged (RFC 9293 3.9.1, RFC 5482), if bounded.
    pub user_timeout: Option<Duration>,
    /// Whether and how an idle connection is probed.
    pub keep_alive: Option<KeepAlive>,
    /// Offer window scaling (RFC 7323 2).
    pub window_scaling: bool,
    /// Offer timestamps (RFC 7323 3).
    pub timestamps: bool,
    /// Offer and accept selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Report duplicates (RFC 2883).
    pub dsack: bool,
    /// Loss detection by time, a sum of these bits: 1 RACK (always on with SACK), 2 the reordering
    /// window does not adapt, 4 no threshold of duplicate ACKs.
    pub recovery: u8,
    /// Tail loss probes are on if this is 3 or 4 (RFC 8985 7).
    pub early_retrans: u8,
    /// Spurious timeouts are detected by the ACKs after them (RFC 5682).
    pub frto: bool,
    /// Segments that may overtake each other before that counts as a loss (RFC 5681 3.2), at the
    /// start of a connection and at most.
    pub reordering: u16,
    /// See `reordering`.
    pub max_reordering: u16,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: EcnPolicy,
    /// Most segments that one `SegmentOut` stands for, if its interface splits super-segments
    /// (`Connection::enable_super_segments`).
    pub gso_max_segs: u16,
    /// Segments that one may stand for however slow the connection is.
    pub min_tso_segs: u16,
    /// Below a least round-trip time of 2 to the power of this many microseconds, a `SegmentOut`
    /// may be as long as a packet can be. For each further such time its bound is halved.
    pub tso_rtt_log: u8,
    /// Offset of this connection's timestamp clock, a secret function of the endpoints. With it the
    /// timestamps disclose nothing about the machine (RFC 7323 5.4).
    pub timestamp_offset: u32,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            mss: 1460,
            recv_buffer: 64 * 1024,
            recv_buffer_max: 6 * 1024 * 1024,
            recv_buffer_granted: usize::MAX,
            moderate_rcvbuf: true,
            out_of_order_limit: 4096,
            nodelay: false,
            cork: false,
            window_clamp: 0,
            delayed_ack: Duration::from_millis(40),
            quick_acks: 16,
            syn_retries: 6,
            synack_retries: 5,
            max_syn_backlog: 4096,
            syncookies: 1,
            abort_on_overflow: false,
            fastopen: 1,
            fastopen_blackhole_timeout: Duration::ZERO,
            mtu_probing: 0,
            base_mss: 1024,
            mtu_probe_floor: 48,
            probe_threshold: 8,
            probe_interval: Duration::from_secs(600),
            retries1: 3,
            retries: 15,
            orphan_retries: 8,
            time_wait: Duration::from_secs(60),
            tw_reuse: 2,
            fin_timeout: Duration::from_secs(60),
            rto_initial: Duration::from_secs(1),
            rto_min: Duration::from_millis(200),
            rto_max: Duration::from_secs(120),
            initial_window: 10,
            congestion_control: CongestionKind::Cubic,
            slow_start_after_idle: true,
            user_timeout: None,
            keep_alive: None,
            window_scaling: true,
            timestamps: true,
            sack: true,
            dsack: true,
            recovery: 1,
            early_retrans: 3,
            frto: true,
            reordering: 3,
            max_reordering: 300,
            ecn: EcnPolicy::Accept,
            gso_max_segs: u16::MAX,
            min_tso_segs: 2,
            tso_rtt_log: 9,
            timestamp_offset: 0,
        }
    }
}

impl TcpConfig {
    /// The classic threshold of duplicate ACKs holds as long as no reordering was seen.
    pub(crate) fn dup_thresh(&self) -> bool {
        self.recovery & 4 == 0
    }

    /// RACK's reordering window adapts to DSACKs.
    pub(crate) fn adapts_reordering(&self) -> bool {
        self.recovery & 2 == 0
    }

    /// Bound of the window that is offered, bytes.
    #[inline]
    pub(crate) fn most_window(&self) -> usize {
        match self.window_clamp as usize {
            0 => usize::MAX,
            clamp => clamp,
        }
    }

    pub(crate) fn tail_loss_probe(&self) -> bool {
        matches!(self.early_retrans, 3 | 4)
    }
}

/// A connection holds its settings by reference, because thousands of them have the same.
impl From<&TcpConfig> for Arc<TcpConfig> {
    fn from(config: &TcpConfig) -> Self {
        Self::new(*config)
    }
}
