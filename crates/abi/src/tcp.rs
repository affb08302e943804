//! What `tasuki ss -i` tells of a TCP connection.

use serde::{Deserialize, Serialize};

/// The inside of a TCP connection: what TCP_INFO tells a program, by the names of ss(8). Times are
/// in the unit that the name ends in; windows and sizes are bytes but where segments are said.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TcpStatus {
    /// Congestion control, such as `cubic`.
    pub congestion: String,
    /// Timestamps are on.
    pub ts: bool,
    /// Selective acknowledgements are on.
    pub sack: bool,
    /// Explicit congestion notification is on.
    pub ecn: bool,
    /// A packet marked for it has come.
    pub ecnseen: bool,
    /// Data in the SYN was acknowledged.
    pub fastopen: bool,
    /// Window scales of the peer and of ours, if there are any.
    pub wscale: Option<(u8, u8)>,
    /// Retransmission timeout.
    pub rto_us: u32,
    /// Doublings of it.
    pub backoff: u8,
    /// Smoothed round-trip time, 0 before there is one.
    pub rtt_us: u32,
    /// Its mean deviation.
    pub rttvar_us: u32,
    /// Least round-trip time seen.
    pub minrtt_us: u32,
    /// Delay of acknowledgements.
    pub ato_us: u32,
    /// Size of segments sent.
    pub mss: u32,
    /// Path MTU.
    pub pmtu: u32,
    /// Size of segments received.
    pub rcvmss: u32,
    /// Size of segments announced.
    pub advmss: u32,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Slow-start threshold, segments; 2,147,483,647 for none.
    pub ssthresh: u32,
    /// Payload sent, repetitions included.
    pub bytes_sent: u64,
    /// Payload sent again.
    pub bytes_retrans: u64,
    /// Payload acknowledged.
    pub bytes_acked: u64,
    /// Payload received.
    pub bytes_received: u64,
    /// Segments sent.
    pub segs_out: u32,
    /// Segments received.
    pub segs_in: u32,
    /// Those with payload.
    pub data_segs_out: u32,
    /// Those with payload.
    pub data_segs_in: u32,
    /// Since the last payload sent.
    pub lastsnd_ms: u32,
    /// Since the last payload received.
    pub lastrcv_ms: u32,
    /// Since the last acknowledgement received.
    pub lastack_ms: u32,
    /// Pacing rate, bytes each second; 18,446,744,073,709,551,615 for none.
    pub pacing_rate: u64,
    /// Delivery rate, bytes each second.
    pub delivery_rate: u64,
    /// Segments delivered.
    pub delivered: u32,
    /// Time with unacknowledged data.
    pub busy_us: u64,
    /// Of it, limited by the peer's window.
    pub rwnd_limited_us: u64,
    /// Of it, limited by the send buffer.
    pub sndbuf_limited_us: u64,
    /// Segments in flight.
    pub unacked: u32,
    /// Of these, sent again.
    pub retrans: u32,
    /// Segments sent again ever.
    pub retrans_total: u32,
    /// Of those in flight, believed to be lost.
    pub lost: u32,
    /// Of those in flight, acknowledged selectively.
    pub sacked: u32,
    /// Segments that the peer says it got twice.
    pub dsack_dups: u32,
    /// Reordering that is put up with, segments.
    pub reordering: u32,
    /// Reordering events seen.
    pub reord_seen: u32,
    /// Round-trip time as the receiver sees it.
    pub rcv_rtt_us: u32,
    /// Receive buffer that is used for tuning.
    pub rcv_space: u32,
    /// Window limit of the receiver.
    pub rcv_ssthresh: u32,
    /// Queued and never sent.
    pub notsent: u32,
    /// The peer's window.
    pub snd_wnd: u32,
    /// Our window.
    pub rcv_wnd: u32,
}
