//! Proportional Rate Reduction (RFC 9937): how much leaves in answer to each ACK of a recovery, so
//! that the flight comes down to the threshold smoothly.
//!
//! Counts are segments. While more is in flight than the threshold, the share `ssthresh / prior` of
//! the delivered segments is sent. Below it, as many may be sent as the network has delivered
//! (conservation, PRR-CRB). An ACK that shows progress without a new loss permits one more
//! (PRR-SSRB, chosen by the RFC's SafeACK rule). The flight never goes beyond the threshold.
//!
//! As in Linux, the window before the reduction counts as the flight of that time (RecoverFS). The
//! same rule governs the reduction that an ECN echo asks for.

/// One recovery's counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tcp) struct Prr {
    /// RecoverFS: the flight when the recovery began, at least 1.
    prior: u32,
    /// prr_delivered: delivered in it.
    delivered: u32,
    /// prr_out: sent in it.
    out: u32,
}

impl Prr {
    /// A recovery begins; `prior` is the window that was.
    pub(in crate::tcp) fn new(prior: u32) -> Self {
        Self { prior: prior.max(1), delivered: 0, out: 0 }
    }

    /// `count` were sent, for the first time or again.
    pub(in crate::tcp) fn sent(&mut self, count: u32) {
        self.out = self.out.saturating_add(count);
    }

    /// FlightReport in this recovery.
    #[cfg(test)]
    pub(in crate::tcp) fn out(&self) -> u32 {
        self.out
    }

    /// Delivered in this recovery.
    #[cfg(test)]
    pub(in crate::tcp) fn delivered(&self) -> u32 {
        self.delivered
    }

    /// The congestion window after an ACK: `in_flight` and the segments that may be sent now. The
    /// ACK delivers `delivered` segments and leaves `in_flight`. It is `safe` if SND.UNA advances,
    /// nothing more is lost and it carries no ECN echo. `None` if the ACK delivers nothing: the
    /// window stays.
    pub(in crate::tcp) fn on_ack(
        &mut self,
        ssthresh: u32,
        in_flight: u32,
        delivered: u32,
        safe: bool,
    ) -> Option<u32> {
        if delivered == 0 {
            return None;
        }
        self.delivered = self.delivered.saturating_add(delivered);
        let count = if in_flight > ssthresh {
            let share = u64::from(self.delivered) * u64::from(ssthresh);
            let due = share.div_ceil(u64::from(self.prior));
            u32::try_from(due).unwrap_or(u32::MAX).saturating_sub(self.out)
        } else {
            let conserved = self.delivered.saturating_sub(self.out).max(delivered);
            conserved.saturating_add(u32::from(safe)).min(ssthresh - in_flight)
        };
        // The first ACK lets the lost segment be retransmitted, however many are in flight.
        let count = if self.out == 0 { count.max(1) } else { count };
        Some(in_flight.saturating_add(count))
    }
}

#[cfg(test)]
mod tests;
