//! The part of loss recovery that outlasts an idle time.

use super::LossRecovery;
use crate::tcp::loss::ca_state::{CaState, RetransmitPolicy};

/// The part of [`LossRecovery`] that is worth something when nothing is in flight.
#[derive(Debug, Clone, Copy)]
pub(in crate::tcp) struct DormantRecovery {
    reordering: u32,
    reord_seen: u32,
    delivered: u64,
    lost: u64,
    dsack_dups: u64,
    total_retrans: u64,
}

impl LossRecovery {
    /// Whether there is nothing else to keep.
    pub(in crate::tcp) fn is_idle(&self) -> bool {
        self.sent.is_empty()
            && self.state == CaState::Open
            && self.probe.is_none()
            && self.prr.is_none()
            && !self.frto
            && !self.reneging
            && self.cwr.is_none()
            && matches!(self.retransmit_policy, RetransmitPolicy::Nothing)
    }

    pub(in crate::tcp) fn dormant(&self) -> DormantRecovery {
        DormantRecovery {
            reordering: self.reordering,
            reord_seen: self.reord_seen,
            delivered: self.delivered,
            lost: self.lost,
            dsack_dups: self.dsack_dups,
            total_retrans: self.total_retrans,
        }
    }

    pub(in crate::tcp) fn resume(&mut self, dormant: &DormantRecovery) {
        self.reordering = dormant.reordering;
        self.reord_seen = dormant.reord_seen;
        self.delivered = dormant.delivered;
        self.lost = dormant.lost;
        self.dsack_dups = dormant.dsack_dups;
        self.total_retrans = dormant.total_retrans;
    }
}
