//! Removal of acknowledged segments from the queue.

use super::LossRecovery;
use crate::Instant;
use crate::tcp::loss::ack_info::{AckFindings, RttTimes};
use crate::tcp::loss::context::LossContext;
use crate::tcp::loss::sent::{AckedSegments, SentSegment};
use crate::tcp::seq::Seq;

impl LossRecovery {
    /// Removes the segments before SND.UNA. Gives the round-trip times.
    pub(super) fn clean(
        &mut self,
        context: &mut LossContext<'_>,
        seen: &mut AckFindings,
    ) -> RttTimes {
        let prior_fack = seen.prior_fack;
        let (mut first, mut last, mut reord) = (None::<Instant>, None::<Instant>, None);
        let mut ambiguous = false;
        let mut acked = 0;
        while let Some(AckedSegments { first: segment, last: end, count }) =
            self.sent.pop_acked(context.una)
        {
            acked += count;
            ambiguous |= segment.ambiguous();
            if segment.ever_retransmitted() {
                seen.retransmitted_acked = true;
            } else if !segment.sacked() {
                reord = reord.or(Some(segment.start));
                seen.original |= segment.end.at_or_before(self.high_seq);
            }
            if !segment.ambiguous() && !segment.sacked() {
                last = Some(segment.at);
                first = first.or(last);
            }
            if context.sack && !segment.sacked() {
                self.deliver(context, &segment, count, seen);
                let mut latest = segment;
                latest.end = end;
                self.rack.advance(context.now, &latest, context.rtt.min().unwrap_or_default());
            } else {
                newest(&segment, seen);
            }
        }
        seen.data_acked = acked > 0;
        seen.reneging = self.sent.head().is_some_and(SentSegment::sacked);
        if acked > 0 && !context.sack {
            self.remove_reno_sacks(context, acked);
            // Without SACK it is unknown whether the original or the retransmission made the
            // progress.
            seen.original &= !seen.retransmitted_acked;
        } else if let Some(low) = reord.filter(|low| acked > 0 && low.before(prior_fack)) {
            // An original has filled the hole.
            self.reordered(context, low, prior_fack);
        }
        if ambiguous {
            (first, last) = (None, None);
        }
        let since = |at: Option<Instant>| at.map(|at| context.now - at);
        RttTimes {
            first: since(first.or(seen.first_sacked)),
            last: since(seen.last_sacked.or(last)),
            acked: acked > 0,
        }
    }

    /// `segment` has arrived for the first time, and so have others like it; `count` in all.
    pub(super) fn deliver(
        &mut self,
        context: &LossContext<'_>,
        segment: &SentSegment,
        count: u32,
        seen: &mut AckFindings,
    ) {
        self.delivered += u64::from(count);
        self.delivered_at = context.now;
        newest(segment, seen);
        if let Some((at, _)) = seen.newest {
            self.first_sent = self.first_sent.max(at);
        }
    }

    fn reordered(&mut self, context: &mut LossContext<'_>, low: Seq, fack: Seq) {
        let now = self.fack;
        let empty = self.sent.sacked_out() == 0;
        // The distance counts by which the highest sacked segment was ahead before this ACK.
        self.fack = fack;
        let segments = fack.since(low).div_ceil(context.mss.max(1));
        if segments > self.reordering {
            self.reordering = segments.min(u32::from(context.config.max_reordering));
        }
        self.reord_seen = self.reord_seen.saturating_add(1);
        context.stats.reorderings += 1;
        if !empty {
            self.fack = now;
        }
    }
}

/// Without SACK, duplicate ACKs tell how many segments have left the network (RFC 5681 3.2, RFC
/// 6582). Each counts as a SACK of one segment.
impl LossRecovery {
    /// `acked` segments were acknowledged. One of them was the hole; the duplicate ACKs had
    /// reported the others.
    fn remove_reno_sacks(&mut self, context: &mut LossContext<'_>, acked: u32) {
        let sacked = self.sent.sacked_out();
        self.delivered += u64::from(acked.saturating_sub(sacked).max(1));
        self.delivered_at = context.now;
        self.sent.guess_sacked(sacked.saturating_sub(acked - 1));
        self.limit_reno_sacks(context, acked);
    }

    /// A duplicate ACK: something has left the network.
    pub(super) fn add_reno_sack(&mut self, context: &mut LossContext<'_>) {
        let before = self.sent.sacked_out();
        self.sent.guess_sacked(before + 1);
        self.limit_reno_sacks(context, 0);
        self.delivered += u64::from(self.sent.sacked_out().saturating_sub(before));
    }

    /// No more segments can have arrived than are in flight, but for the hole (RFC 5681 5: a peer
    /// may pretend). More duplicate ACKs than that show reordering.
    fn limit_reno_sacks(&mut self, context: &mut LossContext<'_>, acked: u32) {
        let out = self.sent.packets_out();
        let holes = self.sent.lost_out().max(1).min(out);
        if self.sent.sacked_out() + holes <= out {
            return;
        }
        self.sent.guess_sacked(out - holes);
        self.reordering =
            self.reordering.max((out + acked).min(u32::from(context.config.max_reordering)));
        self.reord_seen = self.reord_seen.saturating_add(1);
        context.stats.reorderings += 1;
    }
}

/// Remembers the segment that was sent last.
fn newest(segment: &SentSegment, seen: &mut AckFindings) {
    if seen.newest.is_none_or(|(at, _)| segment.at >= at) {
        seen.newest = Some((segment.at, segment.snapshot));
    }
}
