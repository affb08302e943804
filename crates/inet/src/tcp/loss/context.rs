//! The context of loss recovery: the values and parts of its connection that it needs.

use crate::Instant;
use crate::tcp::config::TcpConfig;
use crate::tcp::congestion::CongestionControl;
use crate::tcp::rtt::RttEstimator;
use crate::tcp::seq::Seq;
use crate::tcp::stats::TcpStats;

/// The connection's values and parts that a recovery needs.
#[derive(Debug)]
pub(in crate::tcp) struct LossContext<'a> {
    pub(in crate::tcp) now: Instant,
    /// SND.UNA after the present ACK, and SND.NXT.
    pub(in crate::tcp) una: Seq,
    pub(in crate::tcp) nxt: Seq,
    /// Payload of full segments, bytes.
    pub(in crate::tcp) mss: u32,
    /// SACK is agreed upon.
    pub(in crate::tcp) sack: bool,
    /// There is something new to be sent that the peer's window admits.
    pub(in crate::tcp) can_send_new: bool,
    /// Largest window that the peer ever offered.
    pub(in crate::tcp) max_window: u32,
    pub(in crate::tcp) congestion: &'a mut CongestionControl,
    pub(in crate::tcp) rtt: &'a RttEstimator,
    pub(in crate::tcp) config: &'a TcpConfig,
    pub(in crate::tcp) stats: &'a mut TcpStats,
}
