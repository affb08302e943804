//! Congestion control: how many segments may be in flight (RFC 5681).
//!
//! What was lost and what is sent again is [`loss`](super::loss)'s business. The [`Window`] belongs
//! to the connection; an algorithm behind the trait [`Congestion`] changes it. Windows are counted
//! in segments, as in Linux: growth is then a matter of counting acknowledged segments
//! (appropriate byte counting, RFC 3465, falls out of it, since a segment counts once, however
//! many ACKs its bytes are split into), and whoever reads `tcpi_snd_cwnd` sees the same number.
//!
//! One ACK calls, in this order: [`Congestion::on_rtt`] if it gives a sample, then, outside of
//! recovery, [`Congestion::on_ack`]. A loss episode calls [`Congestion::ssthresh`] at its
//! start and [`Congestion::on_event`] with [`Event::Recovered`] at its end; what the window does
//! between is the same for every algorithm and not here.

mod cubic;
mod hooks;
mod hystart;
mod newreno;
mod prr;
mod window;

use alloc::boxed::Box;
use core::fmt::Debug;
use core::time::Duration;

use cubic::Cubic;
use newreno::NewReno;
pub(super) use prr::Prr;
use window::Sent;
pub(super) use window::{INFINITE, Window};

use super::Seq;
use crate::Instant;

/// The congestion control algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CongestionKind {
    /// CUBIC (RFC 9438) with HyStart.
    #[default]
    Cubic,
    /// NewReno (RFC 5681, RFC 6582).
    Reno,
}

impl CongestionKind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Cubic, Self::Reno];

    /// The name that `TCP_CONGESTION` uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
        }
    }

    /// The algorithm of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The algorithm, at the start of a connection or in its midst; `nxt` is what is sent next.
    pub(super) fn start(self, now: Instant, nxt: Seq) -> Box<dyn Congestion> {
        match self {
            Self::Cubic => Box::new(Cubic::new(now, nxt)),
            Self::Reno => Box::new(NewReno),
        }
    }
}

/// An ACK that delivers something, outside of recovery. The last three fields are for algorithms
/// that model the path's rate.
#[derive(Debug, Clone, Copy)]
pub(super) struct AckSample {
    pub(super) now: Instant,
    /// Segments that it acknowledges or selectively acknowledges for the first time.
    pub(super) acked: u32,
    /// Segments in flight before it.
    #[expect(dead_code, reason = "for rate-based algorithms")]
    pub(super) in_flight: u32,
    /// Segments delivered since the newest of `acked` was sent, and over which time.
    #[expect(dead_code, reason = "for rate-based algorithms")]
    pub(super) delivered: u32,
    #[expect(dead_code, reason = "for rate-based algorithms")]
    pub(super) interval: Duration,
}

/// A round-trip time measured by an ACK.
#[derive(Debug, Clone, Copy)]
pub(super) struct RttSample {
    pub(super) now: Instant,
    /// The newest segment's time; a microsecond at least.
    pub(super) rtt: Duration,
    /// SND.UNA and SND.NXT after the ACK.
    pub(super) una: Seq,
    pub(super) nxt: Seq,
    /// Payload of a full segment, bytes.
    pub(super) mss: u32,
}

/// What happens to a connection that an algorithm may have to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// Something is sent while nothing was in flight, so long after the last segment.
    TxStart { idle: Duration },
    /// The retransmission timer expired. Comes after `ssthresh`, if that is asked at all. `nxt` is
    /// what is sent next.
    Loss { nxt: Seq },
    /// A recovery, or a reduction for an ECN echo, is over.
    Recovered,
}

/// A congestion control algorithm.
pub(super) trait Congestion: Debug + Send {
    /// There is congestion: the slow start threshold that follows, segments, at least 2. The
    /// window is still as it was.
    fn ssthresh(&mut self, now: Instant, window: &Window) -> u32;

    /// Segments were delivered, no recovery is on and the window is what limits
    /// ([`Window::is_limited`]): it may grow.
    fn on_ack(&mut self, window: &mut Window, ack: &AckSample);

    /// A round-trip time was measured.
    fn on_rtt(&mut self, _window: &mut Window, _sample: &RttSample) {}

    /// Something happened.
    fn on_event(&mut self, _window: &mut Window, _now: Instant, _event: Event) {}

    /// The last reduction was a mistake: the window that follows, segments (RFC 4015, as Linux).
    fn undo(&mut self, window: &Window) -> u32 {
        window.cwnd.max(window.prior_cwnd)
    }

    /// Bytes per second at which segments should leave, if the algorithm says.
    #[expect(dead_code, reason = "for rate-based algorithms")]
    fn pacing_rate(&self) -> Option<u64> {
        None
    }
}
