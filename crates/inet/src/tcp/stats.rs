//! Counts of events on connections, which the stack adds up.

/// Counts of events on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpStats {
    /// Segments retransmitted, for whatever reason.
    pub retransmits: u64,
    /// Segments retransmitted in fast recovery.
    pub fast_retransmits: u64,
    /// Segments retransmitted after a timeout.
    pub timeout_retransmits: u64,
    /// Expired retransmission timers.
    pub timeouts: u64,
    /// Timeouts that were needless (RFC 5682).
    pub spurious_timeouts: u64,
    /// Fast recoveries entered.
    pub fast_recoveries: u64,
    /// Window reductions undone (RFC 3522, RFC 3708, RFC 5682).
    pub undos: u64,
    /// Segments held to be lost because a later one had arrived and time had passed (RFC 8985).
    pub rack_lost: u64,
    /// Tail loss probes sent (RFC 8985 7).
    pub tail_loss_probes: u64,
    /// Losses that a tail loss probe repaired.
    pub probe_recoveries: u64,
    /// Reports of duplicates received and sent (RFC 2883).
    pub dsacks_in: u64,
    /// See `dsacks_in`.
    pub dsacks_out: u64,
    /// SACK blocks that were discarded as invalid.
    pub sack_discards: u64,
    /// Peers found to have dropped data that they had reported by SACK.
    pub sack_reneges: u64,
    /// Segments that were found to have overtaken others.
    pub reorderings: u64,
    /// Segments received that were marked for congestion (RFC 3168).
    pub ecn_marks_in: u64,
    /// Duplicate acknowledgements received.
    pub duplicate_acks: u64,
    /// Segments received out of order and queued.
    pub out_of_order: u64,
    /// Segments received outside the window, or without anything new.
    pub unacceptable: u64,
    /// Segments dropped for their timestamp (RFC 7323 5.3).
    pub old_timestamps: u64,
    /// Challenge ACKs sent (RFC 5961).
    pub challenges: u64,
    /// Segments sent to probe the path's MTU (RFC 4821).
    pub mtu_probes: u64,
    /// How many of them arrived, and were lost.
    pub mtu_probe_successes: u64,
    /// See `mtu_probe_successes`.
    pub mtu_probe_failures: u64,
    /// Times that segments became shorter because the path seemed to drop long ones.
    pub black_holes: u64,
    /// Window probes sent.
    pub window_probes: u64,
    /// Keep-alive probes sent.
    pub keep_alive_probes: u64,
    /// RST received and accepted.
    pub resets: u64,
    /// Attempts whose data in the SYN was accepted; attempts where it was not, or which timed out.
    pub fast_connects: u64,
    /// See `fast_connects`.
    pub fast_connect_fails: u64,
    /// Attempts with Fast Open that the path seems to have dropped (RFC 7413 4.1.3.1); watched
    /// attempts that succeeded.
    pub fast_open_black_holes: u64,
    /// See `fast_open_black_holes`.
    pub fast_open_works: u64,
}
