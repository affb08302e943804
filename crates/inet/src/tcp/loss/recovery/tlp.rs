//! Tail loss probes (RFC 8985 7).
//!
//! When the last segments of a flight are lost, only the retransmission timer would find that out.
//! So one segment is sent after two round-trip times: a new one, or the last one again. Its SACK
//! makes RACK see the loss. If the probe itself has repaired the loss, its answer shows that, and
//! the window is reduced all the same (7.4).

use core::time::Duration;

use super::{LossRecovery, TailLossProbe};
use crate::tcp::loss::ack_info::{AckFindings, ReceivedAck};
use crate::tcp::loss::ca_state::CaState;
use crate::tcp::loss::context::LossContext;
use crate::tcp::loss::rack::TIMER_MIN;
use crate::tcp::seq::Seq;

impl LossRecovery {
    /// Time until a tail loss probe (RFC 8985 7.2); `None` if this state allows none.
    pub(in crate::tcp) fn probe_timeout(&self, context: &LossContext<'_>) -> Option<Duration> {
        let open = matches!(self.state, CaState::Open | CaState::Cwr);
        if !context.config.tail_loss_probe() || !context.sack || !open || self.sent.is_empty() {
            return None;
        }
        let Some(smoothed) = context.rtt.smoothed() else {
            return Some(context.config.rto_initial);
        };
        // A lone segment's ACK may be delayed.
        let alone = self.sent.packets_out() == 1;
        let margin = if alone { context.config.rto_min } else { TIMER_MIN };
        Some(smoothed * 2 + margin)
    }

    /// Whether a probe may be sent: at most one is in flight.
    pub(in crate::tcp) fn may_probe(&self) -> bool {
        self.probe.is_none()
    }

    /// A probe was sent; `retransmitted` unless it was a new segment.
    pub(in crate::tcp) fn on_probe(&mut self, context: &mut LossContext<'_>, retransmitted: bool) {
        self.probe = Some(TailLossProbe { end: context.nxt, retransmitted });
        context.stats.tail_loss_probes += 1;
    }

    /// Judges the probe by the ACK (RFC 8985 7.4).
    pub(super) fn check_probe_ack(
        &mut self,
        context: &mut LossContext<'_>,
        ack: &ReceivedAck<'_>,
        seen: &AckFindings,
    ) {
        let Some(probe) = self.probe.filter(|probe| ack.ack.at_or_after(probe.end)) else { return };
        let pure_duplicate = !seen.una_advanced && !ack.not_dup() && !seen.data_sacked;
        if !probe.retransmitted || seen.dsack_of_probe {
            self.probe = None;
        } else if ack.ack.after(probe.end) {
            // The probe repaired a loss: a window reduction that is over at once.
            context.stats.probe_recoveries += 1;
            self.start_reduction(context);
            self.state = CaState::Cwr;
            self.end_reduction(context);
            self.try_keep_open(context);
        } else if pure_duplicate {
            self.probe = None;
        }
    }

    /// The end of the probe in flight, for a DSACK of it.
    pub(super) fn probe_end(&self) -> Option<Seq> {
        self.probe.map(|probe| probe.end)
    }
}
