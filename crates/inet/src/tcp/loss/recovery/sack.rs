//! SACK blocks of the peer (RFC 2018, RFC 2883, RFC 6675).
//!
//! A block is believed only if it lies within the bytes that are sent and not acknowledged. It
//! marks only segments that it covers wholly. The first block may be a DSACK: a report that
//! something arrived twice. Ranges that the previous ACK has reported are skipped. So each segment
//! is looked at once, however long the blocks.

use super::LossRecovery;
use crate::tcp::loss::ack_info::{AckFindings, ReceivedAck};
use crate::tcp::loss::ca_state::CaState;
use crate::tcp::loss::context::LossContext;
use crate::tcp::sack_blocks::{SackBlock, SackBlocks};
use crate::tcp::seq::Seq;

impl LossRecovery {
    /// Marks the segments that the blocks of `ack` report.
    pub(super) fn tag(
        &mut self,
        context: &mut LossContext<'_>,
        ack: &ReceivedAck<'_>,
        seen: &mut AckFindings,
    ) {
        if self.sent.sacked_out() == 0 {
            self.fack = context.una;
        }
        let blocks = ack.blocks.as_slice();
        let dsack = self.take_dsack(context, ack, seen);
        // The ACK is too old to tell anything about segments in flight.
        if ack.ack.before(ack.prior_una - context.max_window) || self.sent.is_empty() {
            return;
        }
        let before = core::mem::take(&mut self.cache);
        for (number, block) in blocks.iter().enumerate() {
            let duplicate = dsack && number == 0;
            if !self.is_valid(context, ack, *block, duplicate) {
                context.stats.sack_discards += u64::from(block.end.after(ack.prior_una));
                continue;
            }
            if duplicate {
                self.tag_range(context, ack, *block, true, seen);
            } else {
                self.tag_new(context, ack, *block, &before, seen);
                self.cache.push(*block);
            }
        }
        if let Some(reord) = seen.reord
            && (self.state != CaState::Loss || self.undo_marker.is_some())
        {
            self.check_reordering(context, reord);
        }
    }

    /// Whether the first block is a DSACK (RFC 2883 4.1, 4.2). A DSACK lies below the
    /// acknowledgement, or within the second block.
    fn take_dsack(
        &mut self,
        context: &mut LossContext<'_>,
        ack: &ReceivedAck<'_>,
        seen: &mut AckFindings,
    ) -> bool {
        let (first, second) = match *ack.blocks.as_slice() {
            [first, ref rest @ ..] => (first, rest.first()),
            [] => return false,
        };
        let inside = second.is_some_and(|second| {
            first.end.at_or_before(second.end) && first.start.at_or_after(second.start)
        });
        if !first.start.before(ack.ack) && !inside {
            return false;
        }
        let len = first.end.since(first.start);
        if len == 0 || len > context.max_window {
            return false;
        }
        context.stats.dsacks_in += 1;
        let segments = len.div_ceil(context.mss).max(1);
        if segments == 1 && self.probe_end() == Some(first.end) {
            seen.dsack_of_probe = true;
        }
        self.dsack_dups += u64::from(segments);
        // More duplicates than retransmissions: the network duplicates packets, or the peer invents
        // DSACKs.
        if self.dsack_dups > self.total_retrans {
            return false;
        }
        if self.reord_seen > 0 && !seen.dsack_of_probe {
            self.rack.note_dsack();
        }
        seen.dsack = true;
        self.delivered += u64::from(segments);
        // Of segments that have left the queue already.
        let forgotten = first.end.at_or_before(ack.prior_una);
        if forgotten && self.undo_marker.is_some_and(|marker| first.end.after(marker)) {
            self.undo_retrans = self.undo_retrans.map(|count| count.saturating_sub(segments));
        }
        true
    }

    /// Whether a block is valid. It must lie within the sent bytes. Only a DSACK may lie below
    /// SND.UNA, and only as far back as the recovery that it may undo.
    fn is_valid(
        &self,
        context: &LossContext<'_>,
        ack: &ReceivedAck<'_>,
        block: SackBlock,
        dsack: bool,
    ) -> bool {
        let SackBlock { start, end } = block;
        if end.after(context.nxt) || !start.before(end) || !start.before(context.nxt) {
            return false;
        }
        if start.after(ack.prior_una) {
            return true;
        }
        let Some(marker) = self.undo_marker.filter(|_| dsack && end.at_or_before(ack.prior_una))
        else {
            return false;
        };
        !start.before(marker) || (end.after(marker) && start.at_or_after(end - context.max_window))
    }

    /// Marks the parts of `block` that the last ACK had not reported.
    fn tag_new(
        &mut self,
        context: &mut LossContext<'_>,
        ack: &ReceivedAck<'_>,
        block: SackBlock,
        before: &SackBlocks,
        seen: &mut AckFindings,
    ) {
        let known = before
            .as_slice()
            .iter()
            .find(|old| old.start.before(block.end) && old.end.after(block.start));
        let Some(known) = known else { return self.tag_range(context, ack, block, false, seen) };
        if block.start.before(known.start) {
            // To the end of the segment in which the known part starts, which may be complete now.
            let index = self.sent.find(known.start);
            let end = self.sent.get(index).map_or(known.start, |segment| segment.end);
            let head = SackBlock { start: block.start, end: end.min(block.end) };
            self.tag_range(context, ack, head, false, seen);
        }
        if block.end.after(known.end) {
            // From the start of the segment in which the known part ends.
            let index = self.sent.find(known.end);
            let start = self.sent.get(index).map_or(known.end, |segment| segment.start);
            let tail = SackBlock { start: start.max(block.start), end: block.end };
            self.tag_range(context, ack, tail, false, seen);
        }
    }

    /// Marks the segments that lie wholly within `block`.
    fn tag_range(
        &mut self,
        context: &mut LossContext<'_>,
        ack: &ReceivedAck<'_>,
        block: SackBlock,
        duplicate: bool,
        seen: &mut AckFindings,
    ) {
        let mut index = self.sent.find(block.start);
        while let Some(segment) = self.sent.get(index) {
            if segment.end.after(block.end) {
                break;
            }
            if segment.start.at_or_after(block.start) {
                self.tag_one(context, ack, index, duplicate, seen);
            }
            index += 1;
        }
    }

    fn tag_one(
        &mut self,
        context: &mut LossContext<'_>,
        ack: &ReceivedAck<'_>,
        index: usize,
        duplicate: bool,
        seen: &mut AckFindings,
    ) {
        let Some(segment) = self.sent.get(index).copied() else { return };
        let earlier =
            |reord: Option<Seq>| Some(reord.map_or(segment.start, |r| r.min(segment.start)));
        if duplicate && segment.ever_retransmitted() {
            if self.undo_marker.is_some_and(|marker| segment.end.after(marker)) {
                self.undo_retrans = self.undo_retrans.map(|count| count.saturating_sub(1));
            }
            if segment.sacked() {
                seen.reord = earlier(seen.reord);
            }
        }
        if segment.end.at_or_before(ack.ack) {
            return;
        }
        if !segment.sacked() {
            self.rack.advance(context.now, &segment, context.rtt.min().unwrap_or_default());
            if !segment.ever_retransmitted() {
                // A hole that no retransmission filled: the network has changed the order.
                if segment.start.before(self.fack) {
                    seen.reord = earlier(seen.reord);
                }
                seen.original |= segment.end.at_or_before(self.high_seq);
                seen.first_sacked = seen.first_sacked.or(Some(segment.at));
                seen.last_sacked = Some(segment.at);
            }
            self.sent.sack(index);
            seen.data_sacked = true;
            self.deliver(context, &segment, 1, seen);
            self.fack = self.fack.max(segment.end);
        }
        if duplicate {
            self.sent.retransmission_arrived(index);
        }
    }

    /// A segment arrived at `low` after later ones had arrived. The distance is a measure of
    /// reordering (RFC 8985 6.2 step 3).
    pub(super) fn check_reordering(&mut self, context: &mut LossContext<'_>, low: Seq) {
        let distance = self.fack_now(context).since(low);
        if distance == 0 {
            return;
        }
        let segments = distance.div_ceil(context.mss.max(1));
        if segments > self.reordering {
            self.reordering = segments.min(u32::from(context.config.max_reordering));
        }
        self.reord_seen = self.reord_seen.saturating_add(1);
        context.stats.reorderings += 1;
    }

    /// End of the highest segment sacked; SND.UNA if none is.
    fn fack_now(&self, context: &LossContext<'_>) -> Seq {
        if self.sent.sacked_out() == 0 { context.una } else { self.fack.max(context.una) }
    }
}
