//! Losses found by time: RACK (RFC 8985 6).
//!
//! A segment is lost if one that was sent later has arrived and a round-trip time plus a
//! *reordering window* has passed since it was sent. The window is a quarter of the least
//! round-trip time, times a factor that grows while DSACKs tell of needless repetitions; it is zero
//! as long as no reordering has ever been seen and a recovery is on or three segments are sacked,
//! which is the classic threshold of three duplicate ACKs (RFC 5681 3.2).

use core::time::Duration;

use super::sent::SentSegment;
use super::{CaState, Env, Recovery};
use crate::Instant;
use crate::tcp::Seq;

/// Recoveries after which an enlarged reordering window becomes normal again (RFC 8985 6.2 step 4).
const PERSIST: u8 = 16;

/// Least time until a timer of ours, as Linux.
pub(super) const TIMER_MIN: Duration = Duration::from_millis(2);

/// What RACK remembers.
#[derive(Debug, Default)]
pub(in crate::tcp) struct Rack {
    /// Of the segment sent last among those that arrived: when, its end, and its round-trip time.
    at: Instant,
    end: Seq,
    rtt: Duration,
    /// That has moved since losses were last looked for.
    pub(super) advanced: bool,
    /// Factor of the reordering window, less one; recoveries for which it stays.
    steps: u8,
    pub(super) persist: u8,
    /// A DSACK is to enlarge the window; the last one that did came at this count of deliveries.
    pub(super) dsack_seen: bool,
    last_delivered: u64,
}

impl Rack {
    /// Round-trip time of the last segment that counted.
    pub(super) fn rtt(&self) -> Duration {
        self.rtt
    }

    /// `segment` has arrived (RFC 8985 6.2 step 2).
    pub(super) fn advance(&mut self, now: Instant, segment: &SentSegment, min_rtt: Duration) {
        let rtt = now - segment.at;
        // The answer to an earlier transmission, if it is quicker than any ever was.
        if rtt < min_rtt && segment.ever_repeated() {
            return;
        }
        self.advanced = true;
        self.rtt = rtt;
        if !segment_after(self.at, self.end, segment) {
            return;
        }
        self.at = segment.at;
        self.end = segment.end;
    }

    /// RFC 8985 6.2 step 4: the reordering window grows by a quarter of the least round-trip time
    /// in each round trip with a DSACK. `prior` is the count of deliveries when the segment was
    /// sent that the ACK is for.
    pub(super) fn update_window(&mut self, prior: u64, delivered: u64) {
        if prior < self.last_delivered {
            self.dsack_seen = false;
        }
        if self.dsack_seen {
            self.steps = self.steps.saturating_add(1);
            self.dsack_seen = false;
            self.last_delivered = delivered;
            self.persist = PERSIST;
        } else if self.persist == 0 {
            self.steps = 0;
        }
    }

    /// A DSACK has undone a recovery: the window stays for one more.
    pub(super) fn persist_longer(&mut self) {
        self.persist = (self.persist + 1).min(PERSIST);
    }
}

/// Whether `segment` was sent after what ends at `end` and was sent `at`.
fn segment_after(at: Instant, end: Seq, segment: &SentSegment) -> bool {
    segment.at > at || (segment.at == at && segment.end.after(end))
}

impl Recovery {
    /// RFC 8985 6.2 step 4.
    fn reordering_window(&self, env: &Env<'_>) -> Duration {
        if self.reord_seen == 0 {
            let threshold = self.sent.sacked_out >= self.reordering && env.config.dup_thresh();
            if self.state >= CaState::Recovery || threshold {
                return Duration::ZERO;
            }
        }
        let Some(min) = env.rtt.min() else { return Duration::ZERO };
        let window = min / 4 * (u32::from(self.rack.steps) + 1);
        window.min(env.rtt.smoothed().unwrap_or(window))
    }

    /// Marks what is lost by now. How long to wait for the others that a later one has overtaken
    /// (RFC 8985 6.2 step 5).
    pub(super) fn detect(&mut self, env: &mut Env<'_>) -> Option<Duration> {
        let window = self.reordering_window(env);
        let mut wait = None;
        let mut next = self.sent.oldest();
        while let Some(index) = next {
            next = self.sent.after(index);
            let Some(segment) = self.sent.get(index) else { break };
            if !segment.sent_before(self.rack.at, self.rack.end) {
                break;
            }
            let deadline = segment.at + self.rack.rtt + window;
            if deadline > env.now {
                wait = wait.max(Some(deadline - env.now));
            } else if self.sent.mark_lost(index) {
                self.lost += 1;
                env.stats.rack_lost += 1;
            }
        }
        wait
    }

    /// Looks for losses if something has arrived since the last look. How long the timer is to
    /// wait for the rest.
    pub(super) fn rack_mark_lost(&mut self, env: &mut Env<'_>) -> Option<Duration> {
        if !core::mem::take(&mut self.rack.advanced) {
            return None;
        }
        self.detect(env).map(|wait| wait + TIMER_MIN)
    }

    /// The reordering timer expired (RFC 8985 6.3).
    pub(in crate::tcp) fn on_reordering_timeout(&mut self, env: &mut Env<'_>) -> Option<Duration> {
        let in_flight = self.sent.in_flight();
        let wait = self.detect(env);
        if self.sent.in_flight() != in_flight {
            if self.state != CaState::Recovery && !self.is_mtu_probe_lost(env) {
                self.enter_recovery(env, false);
                self.reduce(env, 1, false);
            }
            self.repeat = super::Repeat::Lost;
        }
        wait.map(|wait| wait + TIMER_MIN)
    }
}
