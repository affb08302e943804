//! The state machine of recovery, for every ACK that is not plain progress.

use core::time::Duration;

use super::LossRecovery;
use crate::tcp::congestion::Prr;
use crate::tcp::loss::ack_info::{AckFindings, ReceivedAck, TimerRequest};
use crate::tcp::loss::ca_state::{CaState, RetransmitPolicy};
use crate::tcp::loss::context::LossContext;
use crate::tcp::loss::sent::SentSegment;

impl LossRecovery {
    pub(super) fn alert(
        &mut self,
        context: &mut LossContext<'_>,
        ack: &ReceivedAck<'_>,
        seen: &mut AckFindings,
    ) {
        if ack.ece {
            // Congestion is certain: nothing is undone.
            context.congestion.forget_threshold();
        }
        if self.check_reneging(context, seen) || self.leave(context, ack) {
            return;
        }
        let goes_on = match self.state {
            CaState::Recovery => self.in_recovery(context, ack, seen),
            CaState::Loss => self.in_loss(context, ack, seen),
            CaState::Open | CaState::Disorder | CaState::Cwr => self.in_order(context, ack, seen),
        };
        if goes_on {
            self.retransmit_policy = RetransmitPolicy::Lost;
        }
    }

    /// Whether the head of the queue is sacked although the acknowledgement has moved up to it. The
    /// peer has then dropped data that it had reported (RFC 2018 8). A short wait follows, in case
    /// its ACK is late.
    fn check_reneging(&mut self, context: &LossContext<'_>, seen: &mut AckFindings) -> bool {
        let reneging = seen.reneging && seen.una_advanced;
        if reneging {
            let wait = context.rtt.smoothed().unwrap_or_default() / 2;
            seen.timer = TimerRequest::Retransmit(wait.max(Duration::from_millis(10)));
        }
        reneging
    }

    /// The state may be over: `high_seq` is acknowledged. Whether nothing else is to be done.
    fn leave(&mut self, context: &mut LossContext<'_>, ack: &ReceivedAck<'_>) -> bool {
        if self.state == CaState::Open {
            self.retrans_stamp = None;
            return false;
        }
        if context.una.before(self.high_seq) {
            return false;
        }
        match self.state {
            // Held until something above it is acknowledged, so that the peer has seen CWR.
            CaState::Cwr if context.una != self.high_seq => {
                self.end_reduction(context);
                self.state = CaState::Open;
            }
            CaState::Recovery => {
                if !context.sack {
                    self.sent.guess_sacked(0);
                }
                if self.try_undo_recovery(context, ack) {
                    return true;
                }
                self.end_reduction(context);
            }
            _ => {}
        }
        false
    }

    /// An ACK in fast recovery. Whether lost segments are to be retransmitted.
    fn in_recovery(
        &mut self,
        context: &mut LossContext<'_>,
        ack: &ReceivedAck<'_>,
        seen: &mut AckFindings,
    ) -> bool {
        if !seen.una_advanced {
            if !context.sack && seen.is_duplicate(ack) {
                self.add_reno_sack(context);
            }
        } else if self.try_undo_partial(context, ack, ack.prior_una) {
            return false;
        }
        if self.try_undo_dsack(context) {
            self.try_to_open(context, ack);
        }
        self.identify_loss(context, seen);
        if self.state != CaState::Recovery {
            // Undone; but there may be a loss all the same.
            if self.sent.lost_out() == 0 {
                return false;
            }
            self.enter_recovery(context, ack.ece);
        }
        true
    }

    /// An ACK after a timeout.
    fn in_loss(
        &mut self,
        context: &mut LossContext<'_>,
        ack: &ReceivedAck<'_>,
        seen: &mut AckFindings,
    ) -> bool {
        self.process_loss(context, ack, seen);
        let policy = self.retransmit_policy;
        self.identify_loss(context, seen);
        if self.state != CaState::Open && !seen.lost_retransmission {
            return false;
        }
        // The window was restored, or retransmissions are lost again.
        let goes_on = self.in_order(context, ack, seen);
        if !goes_on {
            self.retransmit_policy = policy;
        }
        goes_on
    }

    /// An ACK in Open, Disorder or CWR.
    fn in_order(
        &mut self,
        context: &mut LossContext<'_>,
        ack: &ReceivedAck<'_>,
        seen: &mut AckFindings,
    ) -> bool {
        if !context.sack {
            if seen.una_advanced {
                self.sent.guess_sacked(0);
            }
            if seen.is_duplicate(ack) {
                self.add_reno_sack(context);
            }
        }
        if self.state <= CaState::Disorder {
            self.try_undo_dsack(context);
        }
        self.identify_loss(context, seen);
        if self.sent.lost_out() == 0 {
            self.try_to_open(context, ack);
            return false;
        }
        if !self.is_mtu_probe_lost(context) {
            self.enter_recovery(context, ack.ece);
        }
        true
    }

    /// Whether the segment found lost is a probe of the path's MTU, with nothing lost before it.
    /// Such a loss is no sign of congestion (RFC 4821 7.5).
    pub(super) fn is_mtu_probe_lost(&mut self, context: &LossContext<'_>) -> bool {
        let lost = self.state < CaState::Cwr && self.mtu_probe == Some(context.una);
        if lost {
            self.mtu_probe = None;
            self.mtu_probe_lost = true;
        }
        lost
    }

    /// RFC 5682 (F-RTO), and the way out of a timeout's recovery.
    fn process_loss(
        &mut self,
        context: &mut LossContext<'_>,
        ack: &ReceivedAck<'_>,
        seen: &AckFindings,
    ) {
        let recovered = context.una.at_or_after(self.high_seq);
        if seen.una_advanced && self.try_undo_loss(context, ack, false) {
            return;
        }
        if self.frto {
            // 3.1 step 3b: an original has arrived, so not all was lost.
            if seen.original && self.try_undo_loss(context, ack, true) {
                return;
            }
            if context.nxt.after(self.high_seq) {
                // Step 3a: the answer to the new segments shows that the loss was real.
                if seen.data_sacked || seen.is_duplicate(ack) {
                    self.frto = false;
                }
            } else if seen.una_advanced && !recovered {
                self.high_seq = context.nxt;
                // Step 2b: new data is sent. Its acknowledgement decides.
                if context.can_send_new {
                    self.retransmit_policy = RetransmitPolicy::NewFirst;
                    return;
                }
                self.frto = false;
            }
        }
        if recovered {
            // Step 2a, and the first part of 3a.
            self.try_undo_recovery(context, ack);
            return;
        }
        if !context.sack {
            // A duplicate shows that something new has arrived.
            if context.nxt.after(self.high_seq) && seen.is_duplicate(ack) {
                self.add_reno_sack(context);
            } else if seen.una_advanced {
                self.sent.guess_sacked(0);
            }
        }
        self.retransmit_policy = RetransmitPolicy::Lost;
    }

    /// Marks the segments that this ACK shows to be lost.
    fn identify_loss(&mut self, context: &mut LossContext<'_>, seen: &mut AckFindings) {
        if self.sent.is_empty() {
            return;
        }
        if !context.sack {
            // RFC 5681 3.2 with the threshold of duplicates; RFC 6582 3.2 step 3 partial ACK.
            let threshold =
                self.state < CaState::Recovery && self.sent.sacked_out() >= self.reordering;
            let partial = self.state == CaState::Recovery && seen.una_advanced;
            let known = self.sent.head().is_some_and(SentSegment::lost);
            if (threshold || partial) && !known && self.sent.mark_lost(0) {
                self.lost += 1;
            }
            return;
        }
        let retransmitted = self.sent.retrans_out();
        if let Some(wait) = self.rack_mark_lost(context) {
            seen.timer = TimerRequest::Reordering(wait);
        }
        seen.lost_retransmission |= self.sent.retrans_out() < retransmitted;
    }

    /// Returns to Open or Disorder if possible. An ECN echo begins a reduction.
    pub(super) fn try_to_open(&mut self, context: &mut LossContext<'_>, ack: &ReceivedAck<'_>) {
        if !self.any_retransmitted() {
            self.retrans_stamp = None;
        }
        if ack.ece {
            self.enter_cwr(context);
        }
        if self.state != CaState::Cwr {
            self.try_keep_open(context);
        }
    }

    pub(super) fn try_keep_open(&mut self, context: &LossContext<'_>) {
        let disorder = self.sent.left_out() > 0 || self.any_retransmitted();
        let state = if disorder { CaState::Disorder } else { CaState::Open };
        if state != self.state {
            self.state = state;
            self.high_seq = context.nxt;
        }
    }

    /// An ECN echo (RFC 3168 6.1.2): once per window of data.
    fn enter_cwr(&mut self, context: &mut LossContext<'_>) {
        context.congestion.forget_threshold();
        if self.state < CaState::Cwr {
            self.undo_marker = None;
            self.start_reduction(context);
            self.state = CaState::Cwr;
        }
    }

    /// Fast recovery begins (RFC 6675 5, RFC 6582 3.2 step 2).
    pub(super) fn enter_recovery(&mut self, context: &mut LossContext<'_>, ece: bool) {
        context.stats.fast_recoveries += 1;
        context.congestion.forget_threshold();
        self.init_undo(context.una);
        if !self.reducing() {
            if !ece {
                context.congestion.keep_threshold();
            }
            self.start_reduction(context);
        }
        self.state = CaState::Recovery;
    }

    /// The window is reduced from now on, over a round-trip time (RFC 6937).
    pub(super) fn start_reduction(&mut self, context: &mut LossContext<'_>) {
        self.high_seq = context.nxt;
        self.probe = None;
        self.prr = Some(Prr::new(context.congestion.begin_reduction(context.now)));
        self.cwr = Some(true);
    }

    /// The window after an ACK that delivers `delivered` segments (RFC 9937); `safe` as there.
    pub(super) fn reduce(&mut self, context: &mut LossContext<'_>, delivered: u32, safe: bool) {
        let in_flight = self.sent.in_flight();
        let Some(prr) = &mut self.prr else { return };
        if let Some(cwnd) = prr.on_ack(context.congestion.ssthresh(), in_flight, delivered, safe) {
            context.congestion.set_cwnd(cwnd);
        }
    }

    pub(super) fn end_reduction(&mut self, context: &mut LossContext<'_>) {
        let reduced = self.state == CaState::Cwr || self.undo_marker.is_some();
        context.congestion.end_reduction(context.now, reduced);
    }
}
