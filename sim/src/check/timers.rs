//! The time between two transmissions of the same bytes.
//!
//! A retransmission comes from the retransmission timer if nothing reached the sender since the
//! last transmission of the same bytes: then no ACK can have indicated a loss. The timer was
//! started at the first transmission or later (RFC 6298 5.1 to 5.3). So the bytes may not leave
//! again before the least timeout is over, and each further retransmission waits twice as long
//! (5.5). A tail loss probe (RFC 8985 7) may retransmit the end of the data sooner, but never
//! within a round trip.

use core::time::Duration;

use inet::Instant;

use super::Check;
use super::status::{RelativeSegment, TransmitRecord};

/// The timer's grain.
const GRANULARITY: Duration = Duration::from_millis(1);
/// Segments sent within this time have one cause: a host may have no room for a moment.
const SAME_CAUSE: Duration = Duration::from_millis(1);

impl Check {
    /// Looks at the time at which a segment is sent.
    pub(super) fn check_timing(
        &mut self,
        now: Instant,
        side: usize,
        relative: &RelativeSegment<'_>,
    ) -> Result<(), String> {
        let rules = self.rules[side];
        let mss = i64::from(self.sides[1 - side].mss.unwrap_or(536));
        let own = &mut self.sides[side];
        let &RelativeSegment { segment, start, end, .. } = relative;
        if end == start || rules.late {
            return Ok(());
        }
        let before = own.sends.range(..=start).next_back().map(|(_, sending)| *sending);
        let before = before.filter(|sending| sending.end > start);
        let mut sending = TransmitRecord { end, first: now, last: now, expiries: 0 };
        if let Some(before) = before {
            sending.first = before.first;
            let heard = own.heard_at.is_some_and(|at| at >= before.last);
            // RFC 5681 3.1: the loss window is one full segment, which may be several small ones.
            let together = own.timeout.is_some_and(|(at, from)| {
                now - at <= SAME_CAUSE && (from..=from + mss).contains(&end)
            });
            if own.timeout.is_none_or(|(at, _)| now - at > SAME_CAUSE) {
                own.timeout = Some((now, start));
            }
            let head = own.sends.values().next().copied().unwrap_or(before);
            let overdue = now - head.first >= rules.rto_min;
            if start <= own.una && now - before.last >= rules.rto_min {
                // It may be a timeout, though something was heard meanwhile.
                own.sacked.clear();
            }
            if !heard && !together {
                sending.expiries = before.expiries + 1;
                let is_tail = end >= own.end && !segment.syn;
                let (gap, least) = if segment.syn {
                    (now - before.last, rules.rto_initial)
                } else if is_tail && !overdue {
                    (now - before.last, rules.round_trip)
                } else if is_tail {
                    // RFC 8985 7.2: no probe waits longer than the timer of the head.
                    (now - before.last, Duration::ZERO)
                } else if before.expiries == 0 {
                    (now - before.first, rules.rto_min)
                } else {
                    // The first retransmission may have been a tail loss probe.
                    let doublings = (before.expiries - 1).min(16);
                    (now - before.last, (rules.rto_min * (1 << doublings)).min(rules.rto_max))
                };
                if gap < least.saturating_sub(GRANULARITY) {
                    return Err(format!("{start} again after {gap:?}, not {least:?} or more"));
                }
                // After a timeout a sender may forget what was SACKed (RFC 2018 8).
                own.sacked.clear();
            } else if own.sacked.covers(start, end) {
                return Err(format!("{start}..{end} again, though SACKed"));
            }
        }
        own.sends.insert(start, sending);
        Ok(())
    }
}
