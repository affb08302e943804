//! The congestion window, its growth and its validation (RFC 7661's purpose, Linux's way).
//!
//! *Limited* means that the window held back sending, not the application or the peer. Only then
//! may it grow. In slow start using half of it is enough, since the flight doubles each round trip.
//! The judgement holds for one window of data: it begins anew when everything sent until then is
//! acknowledged.
//!
//! A window that was not used for a retransmission timeout decays (RFC 2861). When sending begins
//! again after silence, it is halved for each timeout ([`CongestionWindow::restart`], RFC 5681
//! 4.1). When little is sent and no ACK comes for so long, it moves towards its used part
//! ([`CongestionWindow::sent`]). While ACKs come it stays, as in Linux; RFC 2861 2.1 lets it decay
//! then too.

use core::time::Duration;

use crate::Instant;
use crate::tcp::seq::Seq;

/// A slow start threshold that does not exist yet, as `tcpi_snd_ssthresh` shows it.
pub(in crate::tcp) const INFINITE: u32 = 0x7fff_ffff;

/// The congestion window and the values that belong to it; segments.
#[derive(Debug, Clone)]
pub(in crate::tcp) struct CongestionWindow {
    /// The congestion window: at least 1.
    pub(super) cwnd: u32,
    /// The slow start threshold.
    pub(super) ssthresh: u32,
    /// Segments acknowledged in congestion avoidance since the window last grew.
    pub(super) cnt: u32,
    /// Upper bound of `cwnd`.
    pub(super) clamp: u32,
    /// `cwnd` and `ssthresh` before the last reduction, should it prove a mistake.
    pub(super) prior_cwnd: u32,
    pub(super) prior_ssthresh: u32,
    /// Window at the start and after idleness.
    initial: u32,
    usage: WindowUsage,
}

/// The use of the window.
#[derive(Debug, Clone)]
struct WindowUsage {
    /// In this window of data the window was the limit; if not, the most that was in flight.
    limited: bool,
    most: u32,
    /// Where this window of data ends.
    end: Seq,
    /// Most segments in flight since `since`. That is the time of the last ACK, or when the window
    /// was last the limit or was reduced to its used part.
    used: u32,
    since: Instant,
}

/// The sender's flight after it has sent, or could not send.
#[derive(Debug, Clone, Copy)]
pub(in crate::tcp) struct FlightReport {
    pub(in crate::tcp) now: Instant,
    /// SND.UNA and SND.NXT.
    pub(in crate::tcp) una: Seq,
    pub(in crate::tcp) nxt: Seq,
    /// Segments sent and not acknowledged.
    pub(in crate::tcp) packets_out: u32,
    /// The congestion window has ended this burst.
    pub(in crate::tcp) limited: bool,
    /// Time without use after which the window decays: the retransmission timeout. `None` if it is
    /// not to decay (in recovery, with data waiting, or not configured).
    pub(in crate::tcp) decay_after: Option<Duration>,
}

impl CongestionWindow {
    /// A window of `initial` segments, at least 1.
    pub(super) fn new(now: Instant, initial: u32, nxt: Seq) -> Self {
        let initial = initial.max(1);
        Self {
            cwnd: initial,
            ssthresh: INFINITE,
            cnt: 0,
            clamp: INFINITE,
            prior_cwnd: 0,
            prior_ssthresh: 0,
            initial,
            usage: WindowUsage { limited: false, most: 0, end: nxt, used: 0, since: now },
        }
    }

    /// Whether there is a slow start threshold: something was lost, or the window has decayed.
    pub(super) fn has_threshold(&self) -> bool {
        self.ssthresh < INFINITE
    }

    /// RFC 5681 3.1.
    pub(super) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Grows by `acked` segments up to the threshold, and gives the rest of `acked`. The limit L of
    /// RFC 3465 2.2 is `acked` itself. A limit of two would slow down receivers that merge segments
    /// before they acknowledge, and Linux has none either.
    pub(super) fn slow_start(&mut self, acked: u32) -> u32 {
        let room = self.ssthresh.saturating_sub(self.cwnd);
        let growth = acked.min(room);
        self.cwnd = self.cwnd.saturating_add(growth).min(self.clamp);
        acked - growth
    }

    /// Grows by one segment for each `per` acknowledged segments (RFC 5681 (3) with `per = cwnd`).
    pub(super) fn avoid(&mut self, per: u32, acked: u32) {
        let per = per.max(1);
        // The count towards a larger `per` is worth one segment now.
        if self.cnt >= per {
            self.cnt = 0;
            self.cwnd = self.cwnd.saturating_add(1);
        }
        self.cnt = self.cnt.saturating_add(acked);
        let growth = self.cnt / per;
        self.cnt -= growth * per;
        self.cwnd = self.cwnd.saturating_add(growth).min(self.clamp);
    }

    /// Whether the window limits the flight, so that it may grow (RFC 7661 4.1).
    pub(super) fn is_limited(&self) -> bool {
        let half = self.cwnd < self.usage.most.saturating_mul(2);
        self.usage.limited || (self.in_slow_start() && half)
    }

    /// The threshold to set when the window decays without congestion. It preserves the window's
    /// former size (RFC 2861 2, as Linux: three quarters of the window).
    pub(super) fn current_ssthresh(&self) -> u32 {
        self.ssthresh.max(self.cwnd / 2 + self.cwnd / 4)
    }

    /// Something was sent, or the congestion window prevented that.
    pub(super) fn sent(&mut self, sent: &FlightReport) {
        let usage = &mut self.usage;
        let more = !usage.limited && sent.packets_out > usage.most;
        if sent.una.at_or_after(usage.end) || sent.limited || more {
            usage.limited = sent.limited;
            usage.most = sent.packets_out;
            usage.end = sent.nxt;
        }
        if self.is_limited() {
            self.usage.used = 0;
            self.usage.since = sent.now;
            return;
        }
        let usage = &mut self.usage;
        usage.used = usage.used.max(sent.packets_out);
        if sent.decay_after.is_some_and(|after| sent.now - usage.since >= after) {
            self.decay(sent.now);
        }
    }

    /// An ACK outside of recovery: the window is in use, however little of it.
    pub(super) fn delivered(&mut self, now: Instant) {
        self.usage.since = now;
    }

    /// Half way towards its used part (RFC 2861 2.1).
    fn decay(&mut self, now: Instant) {
        let used = self.usage.used.max(self.initial);
        if used < self.cwnd {
            self.ssthresh = self.current_ssthresh();
            self.cwnd = self.cwnd.midpoint(used);
        }
        self.usage.used = 0;
        self.usage.since = now;
    }

    /// Sending begins again after `idle` without a segment. The window is halved for each
    /// retransmission timeout `rto` of that time, down to the restart window (RFC 5681 4.1, RFC
    /// 2861 2).
    pub(super) fn restart(&mut self, now: Instant, idle: Duration, rto: Duration) {
        self.ssthresh = self.current_ssthresh();
        let floor = self.initial.min(self.cwnd);
        let times = idle.as_nanos().saturating_sub(1) / rto.as_nanos().max(1);
        let times = u32::try_from(times).unwrap_or(u32::MAX);
        self.cwnd = self.cwnd.checked_shr(times).unwrap_or(0).max(floor);
        self.usage.used = 0;
        self.usage.since = now;
    }
}

#[cfg(test)]
pub(super) mod tests;
