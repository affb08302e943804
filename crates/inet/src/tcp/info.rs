//! The fields of TCP_INFO.

/// The fields of Linux's `struct tcp_info`, by their names without `tcpi_` and in its units.
/// * microseconds: `rto`, `ato`, round-trip times and the three limited times
/// * milliseconds: the `last_` ones
/// * segments: `snd_cwnd` and `snd_ssthresh`
/// * bytes: all other windows and sizes
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "the names are those of Linux's tcp(7)")]
pub struct TcpInfo {
    /// The state by Linux's number: ESTABLISHED is 1.
    pub state: u8,
    /// 0 open, 1 disorder, 2 window reduced, 3 recovery, 4 loss.
    pub ca_state: u8,
    pub retransmits: u8,
    pub probes: u8,
    pub backoff: u8,
    /// 1 timestamps, 2 SACK, 4 window scaling, 8 ECN, 16 ECN seen, 32 data in the SYN acknowledged.
    pub options: u8,
    pub snd_wscale: u8,
    pub rcv_wscale: u8,
    pub delivery_rate_app_limited: bool,
    /// Why Fast Open was not used: 0 unknown or used, 1 no cookie, 2 data not acknowledged,
    /// 3 the SYN had to be retransmitted.
    pub fastopen_client_fail: u8,
    pub rto: u32,
    pub ato: u32,
    pub snd_mss: u32,
    pub rcv_mss: u32,
    pub unacked: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retrans: u32,
    pub last_data_sent: u32,
    pub last_data_recv: u32,
    pub last_ack_recv: u32,
    pub pmtu: u32,
    pub rcv_ssthresh: u32,
    pub rtt: u32,
    pub rttvar: u32,
    pub snd_ssthresh: u32,
    pub snd_cwnd: u32,
    pub advmss: u32,
    pub reordering: u32,
    pub rcv_rtt: u32,
    pub rcv_space: u32,
    pub total_retrans: u32,
    pub pacing_rate: u64,
    pub max_pacing_rate: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub segs_out: u32,
    pub segs_in: u32,
    pub notsent_bytes: u32,
    pub min_rtt: u32,
    pub data_segs_in: u32,
    pub data_segs_out: u32,
    pub delivery_rate: u64,
    pub busy_time: u64,
    pub rwnd_limited: u64,
    pub sndbuf_limited: u64,
    pub delivered: u32,
    pub delivered_ce: u32,
    pub bytes_sent: u64,
    pub bytes_retrans: u64,
    pub dsack_dups: u32,
    pub reord_seen: u32,
    pub rcv_ooopack: u32,
    pub snd_wnd: u32,
    pub rcv_wnd: u32,
    pub total_rto: u16,
    pub total_rto_recoveries: u16,
    pub total_rto_time: u32,
}
