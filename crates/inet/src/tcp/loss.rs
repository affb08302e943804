//! Detecting and repairing losses by duplicate ACKs: fast retransmit, NewReno's fast recovery
//! (RFC 6582), limited transmit (RFC 3042).
//!
//! The window during recovery is the congestion window plus an *inflation*: what is known to have
//! left the network since. It may be negative after a partial ACK (RFC 6582 3.2 step 3: deflate by
//! what was acknowledged, add back one segment).
//!
//! After a timeout, the segments that are sent again cause duplicate ACKs that tell of no loss. So
//! no recovery begins before the ACK has passed what had been sent then (`floor`, RFC 6582's
//! *recover*). After a fast recovery the floor itself is enough: there, nothing was sent twice
//! needlessly.

use super::Seq;

/// Duplicate ACKs that tell of a loss (RFC 5681 3.2).
const THRESHOLD: u32 = 3;

/// What an ACK of new data means for the recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Advance {
    /// There is no recovery.
    Open,
    /// The recovery goes on: the first unacknowledged segment is lost as well. `first` if this is
    /// the first such ACK: only that one restarts the timer (RFC 6582's impatient variant).
    Partial { first: bool },
    /// The recovery is over.
    Full,
}

#[derive(Debug, Default)]
pub(super) struct LossRecovery {
    duplicates: u32,
    inflation: isize,
    /// End of what was in flight when the recovery began.
    point: Option<Seq>,
    partial_seen: bool,
    floor: Option<Floor>,
}

#[derive(Debug, Clone, Copy)]
struct Floor {
    point: Seq,
    after_timeout: bool,
}

impl LossRecovery {
    /// Bytes to be added to the congestion window.
    pub(super) fn inflation(&self) -> isize {
        self.inflation
    }

    pub(super) fn in_recovery(&self) -> bool {
        self.point.is_some()
    }

    /// Whether the byte at `una` is among those that a timeout declared lost.
    pub(super) fn after_timeout(&self, una: Seq) -> bool {
        self.floor.is_some_and(|floor| floor.after_timeout && una.before(floor.point))
    }

    /// A duplicate ACK with `una..max` in flight. Whether a recovery begins: the segment at `una`
    /// is to be sent again.
    pub(super) fn on_duplicate(&mut self, una: Seq, max: Seq, mss: usize) -> bool {
        let mss = mss.cast_signed();
        let flight = (max.since(una) as usize).cast_signed();
        if self.in_recovery() {
            // No more can have left the network than was in flight, whatever a peer pretends
            // (RFC 5681 5, ACK division and spoofing).
            self.inflation = (self.inflation + mss).min(flight);
            return false;
        }
        self.duplicates += 1;
        if self.duplicates < THRESHOLD {
            // RFC 3042: one new segment for each of the first two.
            self.inflation = self.duplicates as isize * mss;
            return false;
        }
        if self.duplicates > THRESHOLD || !self.may_begin(una) {
            return false;
        }
        self.point = Some(max);
        self.partial_seen = false;
        self.inflation = 3 * mss;
        true
    }

    fn may_begin(&self, una: Seq) -> bool {
        self.floor.is_none_or(|floor| {
            if floor.after_timeout { una.after(floor.point) } else { una.at_or_after(floor.point) }
        })
    }

    /// `acked` new bytes are acknowledged, all before `una`.
    pub(super) fn on_advance(&mut self, una: Seq, acked: usize, mss: usize) -> Advance {
        self.duplicates = 0;
        // A floor that lies far behind would come round again.
        self.floor = self.floor.filter(|floor| una.offset_from(floor.point) < 1 << 28);
        let Some(point) = self.point else {
            self.inflation = 0;
            return Advance::Open;
        };
        if una.at_or_after(point) {
            self.inflation = 0;
            self.point = None;
            self.floor = Some(Floor { point, after_timeout: false });
            return Advance::Full;
        }
        self.inflation -= acked.cast_signed();
        if acked >= mss {
            self.inflation += mss.cast_signed();
        }
        Advance::Partial { first: !core::mem::replace(&mut self.partial_seen, true) }
    }

    /// The retransmission timer expired; all before `max` had been sent.
    pub(super) fn on_timeout(&mut self, max: Seq) {
        *self = Self { floor: Some(Floor { point: max, after_timeout: true }), ..Self::default() };
    }
}
