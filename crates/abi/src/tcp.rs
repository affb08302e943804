//! State of a TCP connection, as `tasuki ss -i` shows it.

use serde::{Deserialize, Serialize};

/// State of a TCP connection: the values of TCP_INFO, with the names of ss(8). A time's unit is the
/// end of its name. Windows and sizes are bytes, except where the comment says segments.
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
    /// A packet with a mark of explicit congestion notification has arrived.
    pub ecnseen: bool,
    /// Data in the SYN was acknowledged.
    pub fastopen: bool,
    /// Window scales of the peer and of the stack, if there are any.
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
    /// Payload sent, retransmissions included.
    pub bytes_sent: u64,
    /// Payload retransmitted.
    pub bytes_retrans: u64,
    /// Payload acknowledged.
    pub bytes_acked: u64,
    /// Payload received.
    pub bytes_received: u64,
    /// Segments sent.
    pub segs_out: u32,
    /// Segments received.
    pub segs_in: u32,
    /// Segments sent with payload.
    pub data_segs_out: u32,
    /// Segments received with payload.
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
    /// Part of `busy_us` in which the peer's window was the limit.
    pub rwnd_limited_us: u64,
    /// Part of `busy_us` in which the send buffer was the limit.
    pub sndbuf_limited_us: u64,
    /// Segments in flight.
    pub unacked: u32,
    /// Segments in flight that were retransmitted.
    pub retrans: u32,
    /// Segments ever retransmitted.
    pub retrans_total: u32,
    /// Segments in flight that are believed to be lost.
    pub lost: u32,
    /// Segments in flight that were acknowledged selectively.
    pub sacked: u32,
    /// Segments that the peer reported as duplicates (D-SACK).
    pub dsack_dups: u32,
    /// Reordering that loss detection tolerates, segments.
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
