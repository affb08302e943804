//! The interface of a congestion control algorithm.

use core::fmt::Debug;
use core::time::Duration;

use super::window::CongestionWindow;
use crate::Instant;
use crate::tcp::seq::Seq;

/// An ACK that delivers something, outside of recovery. The last three fields are for algorithms
/// that model the path's rate.
#[derive(Debug, Clone, Copy)]
pub(in crate::tcp) struct AckSample {
    pub(in crate::tcp) now: Instant,
    /// Segments that it acknowledges or selectively acknowledges for the first time.
    pub(in crate::tcp) acked: u32,
    /// Segments in flight before it.
    #[expect(dead_code, reason = "for rate-based algorithms")]
    pub(in crate::tcp) in_flight: u32,
    /// Segments delivered since the newest of `acked` was sent, and over which time.
    #[expect(dead_code, reason = "for rate-based algorithms")]
    pub(in crate::tcp) delivered: u32,
    #[expect(dead_code, reason = "for rate-based algorithms")]
    pub(in crate::tcp) interval: Duration,
}

/// A round-trip time measured by an ACK.
#[derive(Debug, Clone, Copy)]
pub(in crate::tcp) struct RttSample {
    pub(in crate::tcp) now: Instant,
    /// The newest segment's time; a microsecond at least.
    pub(in crate::tcp) rtt: Duration,
    /// SND.UNA and SND.NXT after the ACK.
    pub(in crate::tcp) una: Seq,
    pub(in crate::tcp) nxt: Seq,
    /// Payload of a full segment, bytes.
    pub(in crate::tcp) mss: u32,
}

/// An event on a connection that an algorithm may have to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CongestionEvent {
    /// Something is sent while nothing was in flight, so long after the last segment.
    TxStart { idle: Duration },
    /// The retransmission timer expired. Comes after `ssthresh`, if that is asked at all. `nxt` is
    /// SND.NXT.
    Loss { nxt: Seq },
    /// A recovery, or a reduction for an ECN echo, is over.
    Recovered,
}

/// A congestion control algorithm.
pub(super) trait Congestion: Debug + Send {
    /// There is congestion: the slow start threshold that follows, segments, at least 2. The
    /// window is still as it was.
    fn ssthresh(&mut self, now: Instant, window: &CongestionWindow) -> u32;

    /// Segments were delivered, no recovery is on and the window is the limit
    /// ([`CongestionWindow::is_limited`]): it may grow.
    fn on_ack(&mut self, window: &mut CongestionWindow, ack: &AckSample);

    /// A round-trip time was measured.
    fn on_rtt(&mut self, _window: &mut CongestionWindow, _sample: &RttSample) {}

    /// Something happened.
    fn on_event(&mut self, _window: &mut CongestionWindow, _now: Instant, _event: CongestionEvent) {
    }

    /// The last reduction was a mistake: the window that follows, segments (RFC 4015, as Linux).
    fn undo(&mut self, window: &CongestionWindow) -> u32 {
        window.cwnd.max(window.prior_cwnd)
    }

    /// Bytes per second at which segments should leave, if the algorithm says.
    #[expect(dead_code, reason = "for rate-based algorithms")]
    fn pacing_rate(&self) -> Option<u64> {
        None
    }
}
