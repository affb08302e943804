//! Losses found by time: RACK (RFC 8985 6).
//!
//! A segment is lost if a later transmission has arrived, and a round-trip time plus a *reordering
//! window* has passed since it was sent. The window is a quarter of the least round-trip time,
//! times a factor. The factor grows while DSACKs report needless retransmissions. The window is
//! zero under two conditions together: no reordering has ever been seen, and a recovery is on or
//! three segments are sacked. The latter is the classic threshold of three duplicate ACKs (RFC 5681
//! 3.2).

use core::time::Duration;

use super::sent::SentSegment;
use crate::Instant;
use crate::tcp::seq::Seq;

/// Recoveries after which an enlarged reordering window becomes normal again (RFC 8985 6.2 step 4).
const PERSIST: u8 = 16;

/// Least time of the reordering timer, as Linux.
pub(super) const TIMER_MIN: Duration = Duration::from_millis(2);

/// The state of RACK.
#[derive(Debug, Default)]
pub(in crate::tcp) struct RackState {
    /// Of the segment sent last among those that arrived: when, its end, and its round-trip time.
    at: Instant,
    end: Seq,
    rtt: Duration,
    /// The newest delivered segment has changed since losses were last looked for.
    advanced: bool,
    /// Factor of the reordering window, less one; recoveries that it lasts.
    steps: u8,
    persist: u8,
    /// A DSACK is to enlarge the window; the last one that did came at this count of deliveries.
    dsack_seen: bool,
    last_delivered: u64,
}

impl RackState {
    /// Round-trip time of the last segment that counted.
    pub(super) fn rtt(&self) -> Duration {
        self.rtt
    }

    /// `segment` has arrived (RFC 8985 6.2 step 2).
    pub(super) fn advance(&mut self, now: Instant, segment: &SentSegment, min_rtt: Duration) {
        let rtt = now - segment.at;
        // The answer to an earlier transmission, if it is quicker than any ever was.
        if rtt < min_rtt && segment.ever_retransmitted() {
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

    /// Whether losses are to be looked for; not again before something else has arrived.
    pub(super) fn take_advanced(&mut self) -> bool {
        core::mem::take(&mut self.advanced)
    }

    /// Losses are to be looked for with the next ACK, whatever it delivers.
    pub(super) fn look_again(&mut self) {
        self.advanced = true;
    }

    /// A DSACK may enlarge the reordering window.
    pub(super) fn note_dsack(&mut self) {
        self.dsack_seen = true;
    }

    /// Quarters of the least round-trip time in the reordering window.
    pub(super) fn window_factor(&self) -> u32 {
        u32::from(self.steps) + 1
    }

    /// Whether something that was sent after `segment` has arrived.
    pub(super) fn has_overtaken(&self, segment: &SentSegment) -> bool {
        segment.sent_before(self.at, self.end)
    }

    /// A recovery is over: an enlarged reordering window lasts for 16 of them.
    pub(super) fn recovery_over(&mut self) {
        self.persist = self.persist.saturating_sub(1);
    }

    /// A DSACK has undone a recovery. The reordering window lasts for one more.
    pub(super) fn persist_longer(&mut self) {
        self.persist = (self.persist + 1).min(PERSIST);
    }
}

/// Whether `segment` was sent after the one that ends at `end` and was sent `at`.
fn segment_after(at: Instant, end: Seq, segment: &SentSegment) -> bool {
    segment.at > at || (segment.at == at && segment.end.after(end))
}
