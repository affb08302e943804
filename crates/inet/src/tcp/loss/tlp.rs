//! Tail loss probes (RFC 8985 7).
//!
//! When the last segments of a flight are lost, nothing comes that would tell of it but the
//! retransmission timer. So one segment is sent after two round-trip times, a new one or the last
//! one again, whose SACK makes RACK see the loss. If the probe itself was what repaired the loss,
//! the answer shows it, and the window is reduced all the same (7.4).

use core::time::Duration;

use super::rack::TIMER_MIN;
use super::{AckIn, CaState, Env, Probe, Recovery};

impl Recovery {
    /// How long until a probe (RFC 8985 7.2), if one is due in this state at all.
    pub(in crate::tcp) fn probe_timeout(&self, env: &Env<'_>) -> Option<Duration> {
        let open = matches!(self.state, CaState::Open | CaState::Cwr);
        if !env.config.tail_loss_probe() || !env.sack || !open || self.sent.is_empty() {
            return None;
        }
        let Some(smoothed) = env.rtt.smoothed() else { return Some(env.config.rto_initial) };
        // A lone segment's ACK may be delayed.
        let alone = self.sent.packets_out() == 1;
        let margin = if alone { env.config.rto_min } else { TIMER_MIN };
        Some(smoothed * 2 + margin)
    }

    /// A probe may be sent: at most one is under way.
    pub(in crate::tcp) fn may_probe(&self) -> bool {
        self.probe.is_none()
    }

    /// A probe was sent; `repeated` unless it was a new segment.
    pub(in crate::tcp) fn on_probe(&mut self, env: &mut Env<'_>, repeated: bool) {
        self.probe = Some(Probe { end: env.nxt, repeated });
        env.stats.tail_loss_probes += 1;
    }

    /// What the ACK tells of the probe (RFC 8985 7.4).
    pub(super) fn judge_probe(
        &mut self,
        env: &mut Env<'_>,
        ack: &AckIn<'_>,
        seen: &super::ack::Seen,
    ) {
        let Some(probe) = self.probe.filter(|probe| ack.ack.at_or_after(probe.end)) else { return };
        let pure_duplicate = !seen.una_advanced && !ack.not_dup() && !seen.data_sacked;
        if !probe.repeated || seen.dsack_of_probe {
            self.probe = None;
        } else if ack.ack.after(probe.end) {
            // The probe repaired a loss: a window reduction that is over at once.
            env.stats.probe_recoveries += 1;
            self.start_reduction(env);
            self.state = CaState::Cwr;
            self.end_reduction(env);
            self.try_keep_open(env);
        } else if pure_duplicate {
            self.probe = None;
        }
    }

    /// Where a probe under way ends, for a DSACK of it.
    pub(super) fn probe_end(&self) -> Option<super::Seq> {
        self.probe.map(|probe| probe.end)
    }
}
