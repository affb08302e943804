//! The length of super-segments: how much leaves in one go.
//!
//! A device that splits super-segments makes bursts of them. Bursts fill queues on the way and make
//! ACKs come in bursts too. So, as in Linux, a super-segment is no longer than the connection's
//! rate gives in about a millisecond. Short paths are an exception: their rate and round trip are
//! guessed badly, and little can be spoiled. A super-segment never takes more than half of either
//! window, so that ACKs keep coming.

use core::time::Duration;

use super::config::TcpConfig;
use super::congestion::CongestionControl;
use super::rtt::RttEstimator;

/// Most payload of a super-segment: an IP packet's 64 KiB without the longest headers.
const MAX_PAYLOAD: usize = 65_535 - 120;

/// Most of an IP packet, which the shortest path may fill.
const PACKET: u64 = 65_536;

/// One burst holds the bytes of this fraction of a second: 2^-10.
const BURST_SHIFT: u32 = 10;

/// Whether super-segments are made, and how long they are.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SuperSegments {
    enabled: bool,
}

/// The values that the length of a super-segment follows from.
#[derive(Debug, Clone, Copy)]
pub(super) struct BurstLimits<'a> {
    /// Segments that the congestion window admits now.
    pub(super) room: u32,
    /// Payload of a full segment, bytes.
    pub(super) mss: usize,
    /// Largest window that the peer ever offered, bytes.
    pub(super) peer_window: u32,
    /// Segments sent and not acknowledged.
    pub(super) packets_out: u32,
    pub(super) congestion: &'a CongestionControl,
    pub(super) rtt: &'a RttEstimator,
    pub(super) config: &'a TcpConfig,
}

impl SuperSegments {
    /// Sets whether the interface splits super-segments.
    pub(super) fn enable(&mut self, on: bool) {
        self.enabled = on;
    }

    /// Segments that may leave in one go.
    #[inline]
    pub(super) fn segments(self, limits: &BurstLimits<'_>) -> usize {
        if !self.enabled || limits.config.gso_max_segs <= 1 {
            return 1;
        }
        limits.segments()
    }
}

impl BurstLimits<'_> {
    fn segments(&self) -> usize {
        let mss = self.mss.max(1);
        let window = self.peer_window as usize / 2 / mss;
        let most = usize::from(self.config.gso_max_segs).min(window).max(1);
        let half = (self.congestion.cwnd() / 2).max(1);
        let room = self.room.min(half).max(1) as usize;
        most.min(room).min(self.rated_segments()).min(MAX_PAYLOAD / mss).max(1)
    }

    /// The connection's share of a burst by its rate, segments. The rate is that of the congestion
    /// window after the next round trip in slow start, else a fifth more than that of now.
    fn rated_segments(&self) -> usize {
        let Some(smoothed) = self.rtt.smoothed() else { return usize::MAX };
        let mss = self.mss.max(1) as u64;
        let window = self.congestion.cwnd();
        let cwnd = u64::from(window.max(self.packets_out));
        let percent = if window < self.congestion.ssthresh() / 2 { 200 } else { 120 };
        let window = (mss * cwnd).saturating_mul(percent) / 100;
        let rate = window.saturating_mul(1_000_000) / micros(smoothed).max(1);
        let near = self.rtt.min().map_or(u64::MAX, micros) >> self.config.tso_rtt_log.min(63);
        let near = u32::try_from(near).ok().and_then(|shift| PACKET.checked_shr(shift));
        let bytes = (rate >> BURST_SHIFT).saturating_add(near.unwrap_or(0));
        let segments = bytes.min(PACKET) / mss;
        (segments as usize).max(usize::from(self.config.min_tso_segs))
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
