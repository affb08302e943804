//! Round-trip time and the retransmission timeout (RFC 6298, RFC 8961).
//!
//! An ACK gives a sample if it answers one known transmission. The clock's full resolution counts.
//! Segments that were sent once give samples (Karn's rule, RFC 6298 3). Where no segment does, the
//! timestamps option gives one (RFC 7323 4). Without either the backed-off timeout stays until
//! there is a sample (RFC 6298 5).
//!
//! There is one exception. When the timer has been backed off far enough, nothing sent before its
//! expiry can still be on its way. Then retransmissions are timed again
//! ([`is_unambiguous`](RttEstimator::is_unambiguous)). Without this a lossy path would keep the
//! longest timeout for as long as something has to be retransmitted.
//!
//! The minimum is added to the smoothed time instead of bounding the sum, as in Linux. Otherwise
//! the sum may come so close to the round-trip time that the peer's delayed ACK looks like a loss.

use core::time::Duration;

use super::config::TcpConfig;
use super::seq::Seq;
use crate::Instant;

/// Clock granularity G: that of the timestamps.
const GRANULARITY: Duration = Duration::from_millis(1);

/// Timeout of data if the SYN had to be retransmitted and gave no sample (RFC 6298 5.7).
const AFTER_LOST_SYN: Duration = Duration::from_secs(3);

/// Doublings after which any timeout has reached its maximum.
const MAX_BACKOFF: u32 = 16;

/// The least round-trip time is that of the last one to two of these (Linux: 300 s).
const MIN_SPAN: Duration = Duration::from_secs(150);

#[derive(Debug)]
pub(super) struct RttEstimator {
    smoothed: Option<Duration>,
    variation: Duration,
    /// Timeout before back-off.
    base: Duration,
    backoff: u32,
    min: Duration,
    max: Duration,
    /// The SYN being timed: its end and when it was sent.
    timed: Option<(Seq, Instant)>,
    least: Option<LeastRtt>,
}

/// Least round-trip time of this span and of the one before.
#[derive(Debug, Clone, Copy)]
struct LeastRtt {
    here: Duration,
    before: Duration,
    since: Instant,
}

impl RttEstimator {
    pub(super) fn new(config: &TcpConfig) -> Self {
        Self {
            smoothed: None,
            variation: Duration::ZERO,
            base: config.rto_initial.min(config.rto_max),
            backoff: 0,
            min: config.rto_min,
            max: config.rto_max,
            timed: None,
            least: None,
        }
    }

    /// Resumes with earlier measurements: smoothed time, variation and least time; zero for none.
    pub(super) fn resume(
        &mut self,
        now: Instant,
        smoothed: Duration,
        variation: Duration,
        least: Duration,
    ) {
        if smoothed.is_zero() {
            return;
        }
        self.smoothed = Some(smoothed);
        self.variation = variation;
        let margin = (variation * 4).max(GRANULARITY).max(self.min);
        self.base = smoothed.saturating_add(margin).min(self.max);
        self.least = Some(LeastRtt { here: least, before: least, since: now });
    }

    /// The timeout, with back-off.
    #[inline]
    pub(super) fn timeout(&self) -> Duration {
        self.backed_off(self.backoff)
    }

    /// The timeout doubled `times` times.
    #[inline]
    pub(super) fn backed_off(&self, times: u32) -> Duration {
        self.base.saturating_mul(1 << times.min(MAX_BACKOFF)).min(self.max)
    }

    /// Doubles the timeout (RFC 6298 5.5).
    pub(super) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(MAX_BACKOFF);
    }

    /// Doublings since the last sample.
    #[inline]
    pub(super) fn backoff(&self) -> u32 {
        self.backoff
    }

    /// Whether an ACK that arrives `since` or later after a transmission can only answer a newer
    /// one. An answer to the old transmission would be many times as late as any before.
    #[inline]
    pub(super) fn is_unambiguous(&self, since: Duration) -> bool {
        const TIMES: u32 = 8;
        since >= self.base.saturating_mul(TIMES)
    }

    #[inline]
    pub(super) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// RTTVAR.
    #[inline]
    pub(super) fn variation(&self) -> Duration {
        self.variation
    }

    /// The least round-trip time of the last minutes.
    #[inline]
    pub(super) fn min(&self) -> Option<Duration> {
        self.least.map(|least| least.here.min(least.before))
    }

    /// The SYN, which ends before `end`, was sent for the first time.
    pub(super) fn sent(&mut self, end: Seq, now: Instant) {
        if self.timed.is_none() {
            self.timed = Some((end, now));
        }
    }

    /// The SYN was retransmitted: an ACK may answer either transmission.
    pub(super) fn retransmitted(&mut self) {
        self.timed = None;
    }

    /// The SYN is acknowledged, and all before `una`. `echoed` is the time since the echoed
    /// timestamp was sent. The sample that this gives, if any.
    pub(super) fn syn_acked(
        &mut self,
        una: Seq,
        now: Instant,
        echoed: Option<Duration>,
    ) -> Option<Duration> {
        let timed = self.timed.take().filter(|(end, _)| end.at_or_before(una));
        let sample = timed.map(|(_, sent)| now - sent).or(echoed);
        if let Some(rtt) = sample {
            self.sample(now, rtt, rtt);
        }
        sample
    }

    /// A round-trip time `rtt` was measured; `newest` is that of the last segment that the ACK is
    /// for (RFC 6298 2.2, 2.3).
    pub(super) fn sample(&mut self, now: Instant, rtt: Duration, newest: Duration) {
        self.note_least(now, newest);
        self.smoothed = Some(match self.smoothed {
            None => {
                self.variation = rtt / 2;
                rtt
            }
            Some(smoothed) => {
                self.variation = (self.variation * 3 + smoothed.abs_diff(rtt)) / 4;
                (smoothed * 7 + rtt) / 8
            }
        });
        let margin = (self.variation * 4).max(GRANULARITY).max(self.min);
        self.base = self.smoothed.unwrap_or(rtt).saturating_add(margin).min(self.max);
        self.backoff = 0;
    }

    fn note_least(&mut self, now: Instant, rtt: Duration) {
        let rtt = rtt.max(Duration::from_micros(1));
        self.least = Some(match self.least {
            None => LeastRtt { here: rtt, before: rtt, since: now },
            Some(old) if now - old.since >= MIN_SPAN => {
                LeastRtt { here: rtt, before: old.here, since: now }
            }
            Some(old) => LeastRtt { here: old.here.min(rtt), ..old },
        });
    }

    /// The handshake is over, after `retries` retransmissions of the SYN.
    pub(super) fn established(&mut self, retries: u8) {
        if self.smoothed.is_none() && retries > 0 {
            self.base = AFTER_LOST_SYN.min(self.max);
            self.backoff = 0;
        }
    }
}
