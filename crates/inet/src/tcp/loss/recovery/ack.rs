//! One ACK, from its SACK blocks to the window.

use core::time::Duration;

use super::LossRecovery;
use crate::Instant;
use crate::tcp::congestion::AckSample;
use crate::tcp::loss::ack_info::{
    AckFindings, AckOutcome, AckProgress, ReceivedAck, RttTimes, TimerRequest,
};
use crate::tcp::loss::ca_state::{CaState, RetransmitPolicy};
use crate::tcp::loss::context::LossContext;
use crate::tcp::loss::sent::DeliverySnapshot;

impl LossRecovery {
    /// First half: marks and removes segments. The round-trip time is to be updated before the
    /// second.
    pub(in crate::tcp) fn take_ack(
        &mut self,
        context: &mut LossContext<'_>,
        ack: &ReceivedAck<'_>,
    ) -> AckProgress {
        let mut progress = AckProgress {
            seen: AckFindings {
                una_advanced: ack.ack.after(ack.prior_una),
                prior_fack: if self.sent.sacked_out() == 0 { ack.prior_una } else { self.fack },
                ..AckFindings::default()
            },
            prior_delivered: self.delivered,
            prior_lost: self.lost,
            prior_in_flight: self.sent.in_flight(),
            was_empty: self.sent.is_empty(),
            times: RttTimes::default(),
        };
        self.retransmit_policy = RetransmitPolicy::Nothing;
        if context.sack && !ack.blocks.is_empty() {
            self.tag(context, ack, &mut progress.seen);
        }
        if !progress.was_empty {
            progress.times = self.clean(context, &mut progress.seen);
        }
        progress
    }

    /// Second half: judges the ACK.
    pub(in crate::tcp) fn judge_ack(
        &mut self,
        context: &mut LossContext<'_>,
        ack: &ReceivedAck<'_>,
        progress: AckProgress,
    ) -> AckOutcome {
        let AckProgress {
            mut seen,
            prior_delivered,
            prior_lost,
            prior_in_flight,
            was_empty,
            times,
        } = progress;
        let newest = seen.newest;
        if let Some((_, snapshot)) = newest.filter(|_| context.config.adapts_reordering()) {
            self.rack.update_window(snapshot.delivered, self.delivered);
        }
        if was_empty {
            // Only a DSACK can mean something now.
            self.check_probe_ack(context, ack, &seen);
            return AckOutcome::default();
        }
        if seen.data_acked {
            seen.timer = TimerRequest::Restart;
        } else if self.measured_after_head(context, times, &seen) {
            // The head was retransmitted since: the timeout counts from now.
            seen.timer = TimerRequest::Restart;
        }
        self.check_probe_ack(context, ack, &seen);
        let alert = seen.data_sacked || seen.dsack || ack.ece;
        if !ack.not_dup() || alert || self.state != CaState::Open {
            self.alert(context, ack, &mut seen);
        }
        let delivered = (self.delivered - prior_delivered) as u32;
        let sample = self.sample(context, delivered, prior_in_flight, newest);
        if self.reducing() {
            let safe = seen.una_advanced && self.lost == prior_lost && !ack.ece;
            self.reduce(context, delivered, safe);
            return AckOutcome { timer: seen.timer, sample: None };
        }
        // With known reordering, SACKs are progress as well.
        let known = self.reordering > u32::from(context.config.reordering);
        let may_grow = seen.data_acked || (known && seen.data_sacked);
        AckOutcome { timer: seen.timer, sample: sample.filter(|_| may_grow) }
    }

    /// Only SACKs, of segments sent after the head was last sent.
    fn measured_after_head(
        &self,
        context: &LossContext<'_>,
        times: RttTimes,
        seen: &AckFindings,
    ) -> bool {
        let head = self.sent.head().map(|head| context.now - head.at);
        seen.first_sacked.is_some()
            && times.first.zip(head).is_some_and(|(sampled, head)| sampled > head)
    }

    /// RFC 9438's and BBR's view of the ACK.
    fn sample(
        &self,
        context: &LossContext<'_>,
        acked: u32,
        in_flight: u32,
        newest: Option<(Instant, DeliverySnapshot)>,
    ) -> Option<AckSample> {
        if acked == 0 {
            return None;
        }
        let (delivered, interval) = newest.map_or((acked, Duration::ZERO), |(sent, then)| {
            let sending = sent - then.first_sent;
            let arriving = context.now - then.delivered_at;
            ((self.delivered - then.delivered) as u32, sending.max(arriving))
        });
        Some(AckSample { now: context.now, acked, in_flight, delivered, interval })
    }
}
