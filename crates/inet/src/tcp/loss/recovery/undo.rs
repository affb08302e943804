//! Undoing a needless reduction.
//!
//! A recovery was needless in two cases. Each of its retransmissions is reported as a duplicate
//! (DSACK, RFC 3708). Or the ACK of the first repaired hole echoes a timestamp from before the
//! first retransmission (Eifel detection, RFC 3522). In both the originals had only been late. The
//! window goes back to its size of before (Eifel response, RFC 4015).

use super::LossRecovery;
use crate::tcp::loss::ack_info::ReceivedAck;
use crate::tcp::loss::ca_state::CaState;
use crate::tcp::loss::context::LossContext;
use crate::tcp::loss::sent::SentSegment;
use crate::tcp::seq::Seq;

impl LossRecovery {
    /// A recovery begins at `una`: retransmissions from here on count. Retransmissions in flight
    /// may cause DSACKs, too.
    pub(super) fn init_undo(&mut self, una: Seq) {
        self.undo_marker = Some(una);
        let probe = self.probe.is_some_and(|probe| probe.retransmitted);
        let out = self.sent.retrans_out() + u32::from(probe);
        self.undo_retrans = (out > 0).then_some(out);
    }

    /// The ACK answers an original, or nothing was retransmitted.
    pub(super) fn packet_delayed(&self, context: &LossContext<'_>, ack: &ReceivedAck<'_>) -> bool {
        match (self.retrans_stamp, ack.echo) {
            // Without SACK a recovery that is held has forgotten its retransmissions.
            (None, _) => context.sack || context.una.before(self.high_seq),
            (Some(stamp), Some(echo)) => Seq::new(echo).before(Seq::new(stamp)),
            (Some(_), None) => false,
        }
    }

    fn may_undo(&self, context: &LossContext<'_>, ack: &ReceivedAck<'_>) -> bool {
        self.undo_marker.is_some()
            && (self.undo_retrans == Some(0) || self.packet_delayed(context, ack))
    }

    /// RFC 4015 3.
    fn undo_reduction(&mut self, context: &mut LossContext<'_>, unmark: bool) {
        if unmark {
            self.sent.unmark_lost();
        }
        if context.congestion.undo() {
            self.cwr = Some(false);
        }
        self.undo_marker = None;
        self.rack.look_again();
        context.stats.undos += 1;
    }

    /// All that had been sent when the recovery began is acknowledged. Whether its state is held
    /// nevertheless.
    pub(super) fn try_undo_recovery(
        &mut self,
        context: &mut LossContext<'_>,
        ack: &ReceivedAck<'_>,
    ) -> bool {
        if self.may_undo(context, ack) {
            self.undo_reduction(context, false);
        }
        self.leave_rack_round();
        if self.holds_old_state(context) {
            return true;
        }
        self.state = CaState::Open;
        self.reneging = false;
        false
    }

    /// Whether the old state stays. Without SACK, duplicate ACKs of exactly `high_seq` may be of
    /// this recovery. The state is held until more is acknowledged (RFC 6582 3.2 step 1, the
    /// careful variant).
    fn holds_old_state(&mut self, context: &LossContext<'_>) -> bool {
        if context.sack || context.una != self.high_seq {
            return false;
        }
        if !self.any_retransmitted() {
            self.retrans_stamp = None;
        }
        true
    }

    /// DSACKs say that every retransmission was unnecessary.
    pub(super) fn try_undo_dsack(&mut self, context: &mut LossContext<'_>) -> bool {
        if self.undo_marker.is_none() || self.undo_retrans != Some(0) {
            return false;
        }
        self.rack.persist_longer();
        self.undo_reduction(context, false);
        true
    }

    /// After a timeout: its retransmissions were needless. `original` if F-RTO knows.
    pub(super) fn try_undo_loss(
        &mut self,
        context: &mut LossContext<'_>,
        ack: &ReceivedAck<'_>,
        original: bool,
    ) -> bool {
        if !original && !self.may_undo(context, ack) {
            return false;
        }
        self.undo_reduction(context, true);
        if original {
            context.stats.spurious_timeouts += 1;
        }
        if self.holds_old_state(context) {
            return true;
        }
        if original || context.sack {
            self.state = CaState::Open;
            self.reneging = false;
            self.leave_rack_round();
        }
        true
    }

    /// A partial ACK that an original brought forth: the repaired segment was only late. Whether
    /// nothing more is to be marked or retransmitted for now.
    pub(super) fn try_undo_partial(
        &mut self,
        context: &mut LossContext<'_>,
        ack: &ReceivedAck<'_>,
        prior_una: Seq,
    ) -> bool {
        if self.undo_marker.is_none() || !self.packet_delayed(context, ack) {
            return false;
        }
        self.check_reordering(context, prior_una);
        if self.sent.retrans_out() > 0 {
            return true;
        }
        if !self.any_retransmitted() {
            self.retrans_stamp = None;
        }
        self.undo_reduction(context, true);
        self.try_keep_open(context);
        false
    }

    /// Something that is still in the queue was retransmitted.
    pub(super) fn any_retransmitted(&self) -> bool {
        let head = self.sent.head().is_some_and(SentSegment::ever_retransmitted);
        self.sent.retrans_out() > 0 || head
    }

    /// A recovery ends: an enlarged reordering window lasts for 16 of them (RFC 8985 6.2 step 4).
    fn leave_rack_round(&mut self) {
        self.rack.recovery_over();
    }
}
