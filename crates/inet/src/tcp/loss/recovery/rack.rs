//! Looking for losses by time (RFC 8985 6): see [`RackState`](crate::tcp::loss::rack::RackState).

use core::time::Duration;

use super::LossRecovery;
use crate::tcp::loss::ca_state::{CaState, RetransmitPolicy};
use crate::tcp::loss::context::LossContext;
use crate::tcp::loss::rack::TIMER_MIN;

impl LossRecovery {
    /// RFC 8985 6.2 step 4.
    fn reordering_window(&self, context: &LossContext<'_>) -> Duration {
        if self.reord_seen == 0 {
            let threshold =
                self.sent.sacked_out() >= self.reordering && context.config.dup_thresh();
            if self.state >= CaState::Recovery || threshold {
                return Duration::ZERO;
            }
        }
        let Some(min) = context.rtt.min() else { return Duration::ZERO };
        let window = min / 4 * self.rack.window_factor();
        window.min(context.rtt.smoothed().unwrap_or(window))
    }

    /// Marks the segments that are lost by now. How long to wait for the others that are overtaken
    /// (RFC 8985 6.2 step 5).
    pub(super) fn detect(&mut self, context: &mut LossContext<'_>) -> Option<Duration> {
        let window = self.reordering_window(context);
        let mut wait = None;
        let mut next = self.sent.oldest();
        while let Some(index) = next {
            next = self.sent.after(index);
            let Some(segment) = self.sent.get(index) else { break };
            if !self.rack.has_overtaken(segment) {
                break;
            }
            let deadline = segment.at + self.rack.rtt() + window;
            if deadline > context.now {
                wait = wait.max(Some(deadline - context.now));
            } else if self.sent.mark_lost(index) {
                self.lost += 1;
                context.stats.rack_lost += 1;
            }
        }
        wait
    }

    /// Marks losses if a newer segment was delivered since the last time. Gives the time that the
    /// timer is to wait for the others.
    pub(super) fn rack_mark_lost(&mut self, context: &mut LossContext<'_>) -> Option<Duration> {
        if !self.rack.take_advanced() {
            return None;
        }
        self.detect(context).map(|wait| wait + TIMER_MIN)
    }

    /// The reordering timer expired (RFC 8985 6.3).
    pub(in crate::tcp) fn on_reordering_timeout(
        &mut self,
        context: &mut LossContext<'_>,
    ) -> Option<Duration> {
        let in_flight = self.sent.in_flight();
        let wait = self.detect(context);
        if self.sent.in_flight() != in_flight {
            if self.state != CaState::Recovery && !self.is_mtu_probe_lost(context) {
                self.enter_recovery(context, false);
                self.reduce(context, 1, false);
            }
            self.retransmit_policy = RetransmitPolicy::Lost;
        }
        wait.map(|wait| wait + TIMER_MIN)
    }
}
