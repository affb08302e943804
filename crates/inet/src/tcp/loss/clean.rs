//! What an ACK acknowledges leaves the queue.

use super::ack::{RttTimes, Seen};
use super::sent::{Acked, SentSegment};
use super::{Env, Recovery};
use crate::Instant;

impl Recovery {
    /// Removes what is before SND.UNA. Gives the round-trip times.
    pub(super) fn clean(&mut self, env: &mut Env<'_>, seen: &mut Seen) -> RttTimes {
        let prior_fack = seen.prior_fack;
        let (mut first, mut last, mut reord) = (None::<Instant>, None::<Instant>, None);
        let mut ambiguous = false;
        let mut gone = 0;
        while let Some(Acked { first: segment, last: end, count }) = self.sent.pop_acked(env.una) {
            gone += count;
            ambiguous |= segment.ambiguous();
            if segment.ever_repeated() {
                seen.repeated_acked = true;
            } else if !segment.sacked() {
                reord = reord.or(Some(segment.start));
                seen.original |= segment.end.at_or_before(self.high_seq);
            }
            if !segment.ambiguous() && !segment.sacked() {
                last = Some(segment.at);
                first = first.or(last);
            }
            if env.sack && !segment.sacked() {
                self.deliver(env, &segment, count, seen);
                let mut latest = segment;
                latest.end = end;
                self.rack.advance(env.now, &latest, env.rtt.min().unwrap_or_default());
            } else {
                newest(&segment, seen);
            }
        }
        seen.data_acked = gone > 0;
        seen.reneging = self.sent.head().is_some_and(SentSegment::sacked);
        if gone > 0 && !env.sack {
            self.remove_reno_sacks(env, gone);
            // Without SACK nobody knows whether the original or the repetition made the progress.
            seen.original &= !seen.repeated_acked;
        } else if let Some(low) = reord.filter(|low| gone > 0 && low.before(prior_fack)) {
            // A hole filled by what was never sent again.
            self.reordered(env, low, prior_fack);
        }
        if ambiguous {
            (first, last) = (None, None);
        }
        let since = |at: Option<Instant>| at.map(|at| env.now - at);
        RttTimes {
            first: since(first.or(seen.first_sacked)),
            last: since(seen.last_sacked.or(last)),
            acked: gone > 0,
        }
    }

    /// `segment`, and others like it, `count` in all, have arrived for the first time.
    pub(super) fn deliver(
        &mut self,
        env: &Env<'_>,
        segment: &SentSegment,
        count: u32,
        seen: &mut Seen,
    ) {
        self.delivered += u64::from(count);
        self.delivered_at = env.now;
        newest(segment, seen);
        if let Some((at, _)) = seen.newest {
            self.first_sent = self.first_sent.max(at);
        }
    }

    fn reordered(&mut self, env: &mut Env<'_>, low: super::Seq, fack: super::Seq) {
        let now = self.fack;
        let empty = self.sent.sacked_out == 0;
        // What counts is how far the highest sacked segment was ahead before this ACK.
        self.fack = fack;
        let segments = fack.since(low).div_ceil(env.mss.max(1));
        if segments > self.reordering {
            self.reordering = segments.min(u32::from(env.config.max_reordering));
        }
        self.reord_seen = self.reord_seen.saturating_add(1);
        env.stats.reorderings += 1;
        if !empty {
            self.fack = now;
        }
    }
}

/// Without SACK: how many have left the network is guessed from duplicate ACKs (RFC 5681 3.2, RFC
/// 6582), as if each were a SACK of one segment.
impl Recovery {
    /// `gone` segments were acknowledged: one was the hole, the others those that the duplicates
    /// told of.
    fn remove_reno_sacks(&mut self, env: &mut Env<'_>, gone: u32) {
        let sacked = self.sent.sacked_out;
        self.delivered += u64::from(gone.saturating_sub(sacked).max(1));
        self.delivered_at = env.now;
        self.sent.sacked_out = sacked.saturating_sub(gone - 1);
        self.limit_reno_sacks(env, gone);
    }

    /// A duplicate ACK: something has left the network.
    pub(super) fn add_reno_sack(&mut self, env: &mut Env<'_>) {
        let before = self.sent.sacked_out;
        self.sent.sacked_out += 1;
        self.limit_reno_sacks(env, 0);
        self.delivered += u64::from(self.sent.sacked_out.saturating_sub(before));
    }

    /// No more can have left than is out, but for the hole (RFC 5681 5: a peer may pretend). More
    /// duplicates than that mean that segments have overtaken each other.
    fn limit_reno_sacks(&mut self, env: &mut Env<'_>, gone: u32) {
        let out = self.sent.packets_out();
        let holes = self.sent.lost_out().max(1).min(out);
        if self.sent.sacked_out + holes <= out {
            return;
        }
        self.sent.sacked_out = out - holes;
        self.reordering =
            self.reordering.max((out + gone).min(u32::from(env.config.max_reordering)));
        self.reord_seen = self.reord_seen.saturating_add(1);
        env.stats.reorderings += 1;
    }
}

/// Remembers the segment that was sent last.
fn newest(segment: &SentSegment, seen: &mut Seen) {
    if seen.newest.is_none_or(|(at, _)| segment.at >= at) {
        seen.newest = Some((segment.at, segment.snapshot));
    }
}
