//! How much leaves in one go: the length of super-segments.
//!
//! A device that cuts super-segments makes bursts of them, which fill queues on the way and make
//! ACKs come in bursts too. So, as Linux, one is no longer than what the connection's rate gives in
//! about a millisecond, but on short paths, where rate and round trip are guessed badly and little
//! can be spoiled; and never more than half of what either window allows, so that ACKs keep coming.

use core::time::Duration;

use super::connection::Connection;
use crate::{RxBytes, TxBytes};

/// Most payload of a super-segment: an IP packet's 64 KiB without the longest headers.
const MAX_LOAD: usize = 65_535 - 120;

/// How long `cork` holds back small data, as Linux.
pub(super) const CORK_TIME: Duration = Duration::from_millis(200);

/// Most of an IP packet, which the shortest path may fill.
const PACKET: u64 = 65_536;

/// The fraction of a second whose bytes one burst may have: 2^-10.
const BURST_SHIFT: u32 = 10;

impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// Says whether what carries the segments from now on cuts super-segments; at first, no.
    pub fn set_cuts(&mut self, cuts: bool) {
        self.cuts = cuts;
    }

    /// Segments that one load may stand for, with room for `room` in the congestion window.
    pub(super) fn burst_segments(&self, room: u32) -> usize {
        if !self.cuts || self.config.gso_max_segs <= 1 {
            return 1;
        }
        let mss = self.send_mss().max(1);
        let window = self.window_max as usize / 2 / mss;
        let most = usize::from(self.config.gso_max_segs).min(window).max(1);
        let half = (self.window.cwnd / 2).max(1);
        let room = room.min(half).max(1) as usize;
        most.min(room).min(self.rated_segments()).min(MAX_LOAD / mss).max(1)
    }

    /// What the connection's rate gives for a burst, segments: the rate is what the congestion
    /// window will be after a round trip (in slow start), or a fifth more than what it is.
    fn rated_segments(&self) -> usize {
        let Some(smoothed) = self.rtt.smoothed() else { return usize::MAX };
        let mss = self.send_mss().max(1) as u64;
        let cwnd = u64::from(self.window.cwnd.max(self.loss.sent.packets_out()));
        let percent = if self.window.cwnd < self.window.ssthresh / 2 { 200 } else { 120 };
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
