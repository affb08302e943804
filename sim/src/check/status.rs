//! The input of the checkers about a side, and their records of segments.

use core::time::Duration;

use inet::Instant;
use inet::tcp::TcpInfo;

use crate::wire::Segment;

/// The settings of a side and the path, as far as the checkers need them.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Least retransmission timeout.
    pub rto_min: Duration,
    /// Retransmission timeout of the first SYN.
    pub rto_initial: Duration,
    /// Longest retransmission timeout.
    pub rto_max: Duration,
    /// Longest time for which an ACK may be held back.
    pub delayed_ack: Duration,
    /// Length of TIME-WAIT.
    pub time_wait: Duration,
    /// Length of FIN-WAIT-2 after the application has left.
    pub fin_timeout: Duration,
    /// Most segments sent before anything is acknowledged.
    pub initial_window: u64,
    /// Length of the IP header in front of a segment, bytes.
    pub ip_header: usize,
    /// Least time from a segment to its answer.
    pub round_trip: Duration,
    /// The checkers see the segments of this side late, because it is the kernel in real time. They
    /// cannot tell which frames had reached the side when it sent a segment.
    pub late: bool,
}

/// The status of a side, as its host reports it.
#[derive(Debug, Clone, Copy, Default)]
pub struct SideStatus {
    /// Name of the TCP state as `ss` has it; `None` when there is no connection.
    pub state: Option<&'static str>,
    /// The application has shut its side.
    pub shut: bool,
    /// The application has left, and whether by an abort.
    pub left: bool,
    /// See `left`.
    pub aborted: bool,
    /// The connection has failed, and the application knows.
    pub failed: bool,
    /// Bytes that the application has written.
    pub written: u64,
    /// Bytes that the application has read and given back.
    pub consumed: u64,
    /// The host could not keep another frame.
    pub crowded: bool,
    /// The connection's own account of its congestion window, if it was asked.
    pub flight: Option<FlightInfo>,
}

/// A sender's account of its congestion state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlightInfo {
    /// The congestion window, segments.
    pub cwnd: u32,
    /// State of its recovery by Linux's number: 0 open, 4 after a timeout.
    pub ca_state: u8,
    /// Timeouts in a row.
    pub backoff: u8,
}

impl From<&TcpInfo> for FlightInfo {
    fn from(info: &TcpInfo) -> Self {
        Self { cwnd: info.snd_cwnd, ca_state: info.ca_state, backoff: info.backoff }
    }
}

/// The marks on the end of an application's write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteMark {
    /// A record ends (MSG_EOR).
    pub record: bool,
    /// Its last byte is urgent (MSG_OOB).
    pub urgent: bool,
}

/// A segment with positions instead of sequence numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct RelativeSegment<'a> {
    pub(super) segment: &'a Segment,
    /// Positions of the segment, of its payload, and one after its end.
    pub(super) start: i64,
    pub(super) text: i64,
    pub(super) end: i64,
    pub(super) ack: Option<i64>,
}

/// A segment under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct TransmitRecord {
    pub(super) end: i64,
    /// When its bytes left first, and last.
    pub(super) first: Instant,
    pub(super) last: Instant,
    /// Repetitions by the timer in a row.
    pub(super) expiries: u32,
}
