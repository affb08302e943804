//! CUBIC (RFC 9438) in integers.
//!
//! The window is a cubic function of the time since the last reduction: concave up to the window
//! at which that happened (W_max, reached after K), convex beyond it. Time is counted in 1/1024 s;
//! C = 0.4 and beta = 0.7 (717/1024). The function gives a target for one round-trip time
//! ahead, from which follows how many acknowledged segments make the window grow by one (`per`);
//! at least two, so that the target never asks for more than half a window per round trip (4.2).
//!
//! The Reno-friendly region (4.3) is an estimate of the window that Reno would have; the larger of
//! the two counts. After a timeout all is forgotten but the threshold (4.8).

use core::time::Duration;

use super::algorithm::{AckSample, Congestion, CongestionEvent, RttSample};
use super::hystart::HyStart;
use super::window::CongestionWindow;
use crate::Instant;
use crate::tcp::seq::Seq;

/// beta of RFC 9438 4.6, in 1/1024.
const BETA: u64 = 717;
const SCALE: u64 = 1024;

/// Acknowledged segments, in eighths of a window, for which the Reno estimate grows by one. That is
/// 1 / alpha with alpha = 3 (1 - beta) / (1 + beta) (RFC 9438 4.3).
const RENO_EIGHTHS: u64 = 8 * (SCALE + BETA) / 3 / (SCALE - BETA);

/// Least time between computations of the window while it does not change.
const PAUSE: Duration = Duration::from_nanos(1_000_000_000 / 32);

/// Nor at all within a tick.
const TICK: Duration = Duration::from_millis(1);

/// Least growth while no loss has shown where the path is full: a segment for each 20.
const PROBING: u32 = 20;

/// Round-trip times for that long after the start of an epoch are those of the queue that caused
/// its loss.
const AFTERMATH: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Cubic {
    /// W_max: the window at the last reduction, less with fast convergence; 0 before any.
    w_max: u32,
    /// The window just before the last reduction (cwnd_prior of RFC 9438 4.3).
    prior: u32,
    epoch: Option<CubicEpoch>,
    /// Least round-trip time.
    floor: Option<Duration>,
    hystart: HyStart,
}

/// A congestion avoidance stage.
#[derive(Debug)]
struct CubicEpoch {
    start: Instant,
    /// Where the function is flat, and when: segments, 1/1024 s.
    origin: u32,
    k: u64,
    /// The window and time for which `per` was last computed.
    window: u32,
    at: Instant,
    /// Acknowledged segments for which the window grows by one.
    per: u32,
    /// W_est: Reno's window, and segments acknowledged since it last grew.
    reno: u32,
    acked: u64,
}

impl Cubic {
    /// `nxt` is SND.NXT.
    pub(super) fn new(now: Instant, nxt: Seq) -> Self {
        Self { w_max: 0, prior: 0, epoch: None, floor: None, hystart: HyStart::new(now, nxt) }
    }

    /// Acknowledged segments for which the window grows by one now that `acked` more are.
    fn per(&mut self, now: Instant, cwnd: u32, acked: u32) -> u32 {
        let mut fresh = false;
        let epoch = self.epoch.get_or_insert_with(|| {
            fresh = true;
            CubicEpoch::new(now, self.w_max, cwnd)
        });
        epoch.acked += u64::from(acked);
        if fresh || epoch.window != cwnd || now - epoch.at > PAUSE {
            if fresh || now - epoch.at >= TICK {
                let ahead = now - epoch.start + self.floor.unwrap_or_default();
                epoch.window = cwnd;
                epoch.at = now;
                epoch.per = epoch.cubic_per(ahead, cwnd);
                if self.w_max == 0 {
                    epoch.per = epoch.per.min(PROBING);
                }
            }
            epoch.per = epoch.per.min(epoch.reno_per(cwnd, self.prior)).max(2);
        }
        epoch.per
    }
}

impl CubicEpoch {
    fn new(now: Instant, w_max: u32, cwnd: u32) -> Self {
        let missing = w_max.saturating_sub(cwnd);
        // RFC 9438 (2): K = cbrt(missing / C), here in 1/1024 s.
        let k = cube_root(u64::from(missing) * (5 << 29));
        let origin = w_max.max(cwnd);
        Self { start: now, origin, k, window: 0, at: now, per: 0, reno: cwnd, acked: 0 }
    }

    /// RFC 9438 (1), 4.4, 4.5.
    fn cubic_per(&self, since: Duration, cwnd: u32) -> u32 {
        let t = u64::try_from(since.as_millis()).unwrap_or(u64::MAX).saturating_mul(1024) / 1000;
        // 2^20 (17 minutes) is more than any window needs, and its cube no overflow.
        let away = t.abs_diff(self.k).min(1 << 20);
        let delta = u32::try_from((away * away * away / 5 * 2) >> 30).unwrap_or(u32::MAX);
        let target = if t < self.k {
            self.origin.saturating_sub(delta)
        } else {
            self.origin.saturating_add(delta)
        };
        match target.checked_sub(cwnd) {
            Some(more @ 1..) => cwnd / more,
            // There already: all but stay.
            _ => cwnd.saturating_mul(100),
        }
    }

    /// RFC 9438 4.3: Reno's window grows by alpha / cwnd for each acknowledged segment, and from
    /// `prior` on as quickly as Reno itself.
    fn reno_per(&mut self, cwnd: u32, prior: u32) -> u32 {
        let slow = (u64::from(cwnd) * RENO_EIGHTHS / 8).max(1);
        let quick = u64::from(cwnd).max(1);
        while self.acked > 0 {
            let step = if self.reno < prior { slow } else { quick };
            if self.acked <= step {
                break;
            }
            self.acked -= step;
            self.reno = self.reno.saturating_add(1);
        }
        match self.reno.checked_sub(cwnd) {
            Some(more @ 1..) => cwnd / more,
            _ => u32::MAX,
        }
    }
}

impl Congestion for Cubic {
    /// RFC 9438 4.6, 4.7. Of the window, not of the flight: see `newreno`.
    fn ssthresh(&mut self, _now: Instant, window: &CongestionWindow) -> u32 {
        let cwnd = u64::from(window.cwnd);
        let part = |numerator, denominator| (cwnd * numerator / denominator) as u32;
        self.epoch = None;
        self.prior = window.cwnd;
        // Fast convergence: the path's share seems to shrink, leave room for the newcomer.
        let shrinks = window.cwnd < self.w_max;
        self.w_max = if shrinks { part(SCALE + BETA, 2 * SCALE) } else { window.cwnd };
        part(BETA, SCALE).max(2)
    }

    fn on_ack(&mut self, window: &mut CongestionWindow, ack: &AckSample) {
        let rest = if window.in_slow_start() { window.slow_start(ack.acked) } else { ack.acked };
        if rest > 0 {
            let per = self.per(ack.now, window.cwnd, rest);
            window.avoid(per, rest);
        }
    }

    fn on_rtt(&mut self, window: &mut CongestionWindow, sample: &RttSample) {
        if self.epoch.as_ref().is_some_and(|epoch| sample.now - epoch.start < AFTERMATH) {
            return;
        }
        let floor = self.floor.map_or(sample.rtt, |floor| floor.min(sample.rtt));
        self.floor = Some(floor);
        if window.in_slow_start() && self.hystart.on_rtt(window, sample, floor) {
            window.ssthresh = window.cwnd;
            // RFC 9438 4.3: cwnd_prior is also the window at the end of the first slow start.
            self.prior = window.cwnd;
        }
    }

    fn on_event(&mut self, _window: &mut CongestionWindow, now: Instant, event: CongestionEvent) {
        match event {
            // RFC 9438 5.8: time in which nothing was sent is no time.
            CongestionEvent::TxStart { idle } => {
                if let Some(epoch) = &mut self.epoch {
                    epoch.start = (epoch.start + idle).min(now);
                }
            }
            // RFC 9438 4.8: K is 0 and W_max the window at the start of the next epoch.
            CongestionEvent::Loss { nxt } => {
                *self = Self { prior: self.prior, ..Self::new(now, nxt) }
            }
            CongestionEvent::Recovered => {}
        }
    }
}

/// The largest number whose cube is at most `n`.
fn cube_root(n: u64) -> u64 {
    let fits = |root: &u64| root.checked_pow(3).is_some_and(|cube| cube <= n);
    (0..22).rev().fold(0, |root, bit| Some(root | 1 << bit).filter(fits).unwrap_or(root))
}

#[cfg(test)]
mod tests;
