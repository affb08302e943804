//! Round-trip time and the retransmission timeout (RFC 6298).
//!
//! One segment at a time is timed with the clock's full resolution; after a retransmission the
//! timestamps option gives the sample, if there is one (RFC 7323 4), and without it Karn's rule
//! holds: no sample, and the backed-off timeout stays until there is one (RFC 6298 5). But when the
//! timer has been backed off so far that nothing sent before its expiry can be on its way any more,
//! what is sent after it is timed again ([`is_clear`](RttEstimator::is_clear)): else a lossy path
//! would keep the longest timeout for as long as there is something to be sent again.
//!
//! The minimum is added to the smoothed time instead of bounding the sum, as Linux does: the sum
//! may otherwise come so close to the round-trip time that the peer's delayed ACK looks like a
//! loss.

use core::time::Duration;

use super::{Seq, TcpConfig};
use crate::Instant;

/// Clock granularity G: that of the timestamps.
const GRANULARITY: Duration = Duration::from_millis(1);

/// Timeout of data if the SYN had to be sent again and gave no sample (RFC 6298 5.7).
const AFTER_LOST_SYN: Duration = Duration::from_secs(3);

/// Doublings after which any timeout has reached its maximum.
const MAX_BACKOFF: u32 = 16;

#[derive(Debug)]
pub(super) struct RttEstimator {
    smoothed: Option<Duration>,
    variation: Duration,
    /// Timeout before back-off.
    base: Duration,
    backoff: u32,
    min: Duration,
    max: Duration,
    /// The segment being timed: its end and when it was sent.
    timed: Option<(Seq, Instant)>,
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
        }
    }

    /// The timeout, with back-off.
    pub(super) fn timeout(&self) -> Duration {
        self.backed_off(self.backoff)
    }

    /// The timeout doubled `times` times.
    pub(super) fn backed_off(&self, times: u32) -> Duration {
        self.base.saturating_mul(1 << times.min(MAX_BACKOFF)).min(self.max)
    }

    /// Doubles the timeout (RFC 6298 5.5).
    pub(super) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(MAX_BACKOFF);
    }

    /// Whether an ACK that comes `since` the last transmission and later can only answer a newer
    /// one: it would have to be many times as late as any before.
    pub(super) fn is_clear(&self, since: Duration) -> bool {
        const TIMES: u32 = 8;
        since >= self.base.saturating_mul(TIMES)
    }

    pub(super) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// A segment ending before `end` was sent for the first time.
    pub(super) fn sent(&mut self, end: Seq, now: Instant) {
        if self.timed.is_none() {
            self.timed = Some((end, now));
        }
    }

    /// Something was sent again: an ACK does not tell any more which of the two it answers.
    pub(super) fn retransmitted(&mut self) {
        self.timed = None;
    }

    /// All before `una` is acknowledged. `echoed` is the time since the echoed timestamp was sent.
    /// The sample that this gives, if any.
    pub(super) fn acked(
        &mut self,
        una: Seq,
        now: Instant,
        echoed: Option<Duration>,
    ) -> Option<Duration> {
        let sample = match self.timed {
            Some((end, sent)) if end.at_or_before(una) => {
                self.timed = None;
                Some(now - sent)
            }
            // A segment is being timed with a better clock.
            Some(_) => None,
            None => echoed,
        };
        if let Some(rtt) = sample {
            self.sample(rtt);
        }
        sample
    }

    /// RFC 6298 2.2, 2.3.
    fn sample(&mut self, rtt: Duration) {
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

    /// The handshake is over, after `retries` retransmissions of the SYN.
    pub(super) fn established(&mut self, retries: u8) {
        if self.smoothed.is_none() && retries > 0 {
            self.base = AFTER_LOST_SYN.min(self.max);
            self.backoff = 0;
        }
    }
}
