//! The congestion control of one connection: its window, and the algorithm that moves it.
//!
//! Loss recovery decides when the window is reduced and when a reduction was a mistake. The
//! algorithm decides by how much.

use alloc::boxed::Box;
use core::time::Duration;

use super::algorithm::{AckSample, Congestion, CongestionEvent, RttSample};
use super::cubic::Cubic;
use super::kind::CongestionKind;
use super::newreno::NewReno;
use super::window::{CongestionWindow, FlightReport};
use crate::Instant;
use crate::tcp::seq::Seq;

/// The window of a connection and its algorithm.
#[derive(Debug)]
pub(in crate::tcp) struct CongestionControl {
    window: CongestionWindow,
    algorithm: Box<dyn Congestion>,
}

/// The algorithm, at the start of a connection or in its midst; `nxt` is SND.NXT.
fn start(kind: CongestionKind, now: Instant, nxt: Seq) -> Box<dyn Congestion> {
    match kind {
        CongestionKind::Cubic => Box::new(Cubic::new(now, nxt)),
        CongestionKind::Reno => Box::new(NewReno),
    }
}

impl CongestionControl {
    /// The control of a connection during its handshake: one segment, and an algorithm that takes
    /// no memory.
    pub(in crate::tcp) fn opening(now: Instant, iss: Seq) -> Self {
        let algorithm = start(CongestionKind::Reno, now, iss);
        Self { window: CongestionWindow::new(now, 1, iss), algorithm }
    }

    /// The control of an established connection that starts with `initial` segments; `nxt` is
    /// SND.NXT.
    pub(in crate::tcp) fn established(
        now: Instant,
        kind: CongestionKind,
        initial: u32,
        nxt: Seq,
    ) -> Self {
        Self { window: CongestionWindow::new(now, initial, nxt), algorithm: start(kind, now, nxt) }
    }

    /// The control of a connection that was dormant: the window is as it was, the algorithm starts
    /// anew.
    pub(in crate::tcp) fn resumed(
        now: Instant,
        kind: CongestionKind,
        window: CongestionWindow,
        nxt: Seq,
    ) -> Self {
        Self { window, algorithm: start(kind, now, nxt) }
    }

    /// Changes the algorithm. The window does not change.
    pub(in crate::tcp) fn set_algorithm(&mut self, now: Instant, kind: CongestionKind, nxt: Seq) {
        self.algorithm = start(kind, now, nxt);
    }

    /// The window.
    #[inline]
    pub(in crate::tcp) fn window(&self) -> &CongestionWindow {
        &self.window
    }

    /// The congestion window, segments.
    #[inline]
    pub(in crate::tcp) fn cwnd(&self) -> u32 {
        self.window.cwnd
    }

    /// The slow start threshold, segments.
    #[inline]
    pub(in crate::tcp) fn ssthresh(&self) -> u32 {
        self.window.ssthresh
    }

    /// The congestion window before the last reduction, segments.
    #[cfg(test)]
    pub(in crate::tcp) fn prior_cwnd(&self) -> u32 {
        self.window.prior_cwnd
    }

    /// Segments that may leave while `in_flight` are on their way.
    #[inline]
    pub(in crate::tcp) fn room(&self, in_flight: u32) -> u32 {
        self.window.cwnd.saturating_sub(in_flight)
    }

    /// An ACK gave a round-trip time.
    pub(in crate::tcp) fn on_rtt(&mut self, sample: &RttSample) {
        self.algorithm.on_rtt(&mut self.window, sample);
    }

    /// An ACK outside of recovery delivered something: the window may grow if it is the limit.
    pub(in crate::tcp) fn on_ack(&mut self, now: Instant, sample: &AckSample) {
        self.window.delivered(now);
        if self.window.is_limited() {
            self.algorithm.on_ack(&mut self.window, sample);
        }
    }

    /// The first segment leaves after `idle` with nothing in flight. If the window is to decay, it
    /// does so for each `rto` of that time.
    pub(in crate::tcp) fn start_after_idle(
        &mut self,
        now: Instant,
        idle: Duration,
        rto: Duration,
        decays: bool,
    ) {
        if decays && idle > rto {
            self.window.restart(now, idle, rto);
        }
        self.algorithm.on_event(&mut self.window, now, CongestionEvent::TxStart { idle });
    }

    /// Something was sent, or the congestion window did not let it.
    #[inline]
    pub(in crate::tcp) fn on_flight(&mut self, flight: &FlightReport) {
        self.window.sent(flight);
    }
}

/// Reductions, and undoing them.
impl CongestionControl {
    /// A reduction begins. The window before it, segments.
    pub(in crate::tcp) fn begin_reduction(&mut self, now: Instant) -> u32 {
        let window = &mut self.window;
        window.cnt = 0;
        window.prior_cwnd = window.cwnd;
        window.ssthresh = self.algorithm.ssthresh(now, window);
        window.prior_cwnd
    }

    /// Ends a reduction. With `follows`, the window becomes the threshold.
    pub(in crate::tcp) fn end_reduction(&mut self, now: Instant, follows: bool) {
        if follows && self.window.has_threshold() {
            self.window.cwnd = self.window.ssthresh;
        }
        self.algorithm.on_event(&mut self.window, now, CongestionEvent::Recovered);
    }

    /// The retransmission timer expired: the threshold follows (RFC 5681 3.1). `nxt` is
    /// SND.NXT.
    pub(in crate::tcp) fn reduce_for_timeout(&mut self, now: Instant, nxt: Seq) {
        let window = &mut self.window;
        window.prior_ssthresh = window.current_ssthresh();
        window.prior_cwnd = window.cwnd;
        window.ssthresh = self.algorithm.ssthresh(now, window);
        self.algorithm.on_event(window, now, CongestionEvent::Loss { nxt });
    }

    /// The retransmission timer expired: the window is `cwnd` segments.
    pub(in crate::tcp) fn collapse(&mut self, cwnd: u32) {
        self.window.cwnd = cwnd;
        self.window.cnt = 0;
    }

    /// A loss is no sign of congestion: the threshold is that of now, and cannot be undone.
    pub(in crate::tcp) fn fix_threshold(&mut self) {
        self.window.ssthresh = self.window.current_ssthresh();
        self.window.prior_ssthresh = 0;
    }

    /// The window during a recovery, segments; at least 1.
    pub(in crate::tcp) fn set_cwnd(&mut self, cwnd: u32) {
        self.window.cwnd = cwnd.max(1);
    }

    /// An undone reduction gives back the threshold of now.
    pub(in crate::tcp) fn keep_threshold(&mut self) {
        self.window.prior_ssthresh = self.window.current_ssthresh();
    }

    /// A reduction that begins now cannot be undone.
    pub(in crate::tcp) fn forget_threshold(&mut self) {
        self.window.prior_ssthresh = 0;
    }

    /// The last reduction was a mistake. Whether the threshold was lower than before it: then no
    /// CWR need be sent any more.
    pub(in crate::tcp) fn undo(&mut self) -> bool {
        let window = &mut self.window;
        if window.prior_ssthresh == 0 {
            return false;
        }
        window.cwnd = self.algorithm.undo(window);
        let lower = window.prior_ssthresh > window.ssthresh;
        window.ssthresh = window.ssthresh.max(window.prior_ssthresh);
        lower
    }
}

/// Probes of the path's MTU, which take the room of two segments.
impl CongestionControl {
    /// A probe has left.
    pub(in crate::tcp) fn mtu_probe_sent(&mut self) {
        self.window.cwnd = self.window.cwnd.saturating_sub(1).max(1);
    }

    /// A probe was lost: its room comes back.
    pub(in crate::tcp) fn mtu_probe_lost(&mut self) {
        self.window.cwnd += 1;
    }

    /// A probe has arrived, and packets grow from `old` to `new` bytes. The window has the same
    /// bytes in fewer segments.
    pub(in crate::tcp) fn packets_grow(&mut self, old: u16, new: u16) {
        let cwnd = u64::from(self.window.cwnd) * u64::from(old) / u64::from(new.max(1));
        self.window.cwnd = u32::try_from(cwnd).unwrap_or(u32::MAX).max(1);
        self.window.cnt = 0;
    }
}
