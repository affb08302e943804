//! A connection request: what a SYN has said.

use crate::table::Handle;
use crate::tcp::{EcnField, Endpoints, SegmentRepr, Seq, Timestamps};
use crate::time::Instant;
use crate::wheel::TimerId;
use core::time::Duration;

/// Least time between two answers to segments that a request cannot take, and between two SYN-ACKs
/// that repeated SYNs ask for: as Linux.
pub(super) const PAUSE: Duration = Duration::from_millis(500);

/// A request.
#[derive(Debug)]
pub(crate) struct ConnectionRequest {
    pub(crate) ends: Endpoints,
    pub(crate) listener: Handle,
    pub(super) iss: Seq,
    pub(super) irs: Seq,
    /// The peer's timestamp, if it has them.
    pub(super) ts_recent: u32,
    pub(super) window: u16,
    /// 0 if the peer did not say.
    pub(super) mss: u16,
    /// [`NO_SCALE`] if the peer does not scale.
    pub(super) scale: u8,
    pub(super) flags: u8,
    /// Expired timers.
    pub(super) timeouts: u8,
    pub(super) timer: Option<TimerId>,
    /// When the SYN-ACK was first sent.
    pub(super) sent_at: Instant,
    /// When a segment was last answered out of turn.
    pub(super) answered_at: Instant,
}

pub(super) const NO_SCALE: u8 = u8::MAX;
/// The peer uses timestamps.
pub(super) const STAMPED: u8 = 1;
/// The peer permits SACK.
pub(super) const SACK: u8 = 1 << 1;
/// The last ACK has come and was dropped.
pub(super) const ACKED: u8 = 1 << 2;
/// The SYN-ACK was sent again.
pub(super) const RETRANSMITTED: u8 = 1 << 3;
/// The peer asks for ECN, in a SYN that no router has marked (RFC 3168 6.1.1).
pub(super) const ECN: u8 = 1 << 4;

impl ConnectionRequest {
    pub(super) fn new(
        listener: Handle,
        ends: Endpoints,
        syn: &SegmentRepr,
        iss: Seq,
        now: Instant,
    ) -> Self {
        let flag = |on, flag| if on { flag } else { 0 };
        Self {
            ends,
            listener,
            iss,
            irs: syn.seq,
            ts_recent: syn.timestamps.map_or(0, |timestamps| timestamps.value),
            window: syn.window,
            mss: syn.mss.unwrap_or(0),
            scale: syn.window_scale.unwrap_or(NO_SCALE),
            flags: flag(syn.timestamps.is_some(), STAMPED)
                | flag(syn.sack_permitted, SACK)
                | flag(syn.ece && syn.cwr && syn.ecn == EcnField::NotEct, ECN),
            timeouts: 0,
            timer: None,
            sent_at: now,
            answered_at: now,
        }
    }

    /// The SYN that made the request.
    pub(super) fn syn(&self) -> SegmentRepr {
        let stamped = self.has(STAMPED);
        SegmentRepr {
            src_port: self.ends.remote.port(),
            dst_port: self.ends.local.port(),
            seq: self.irs,
            syn: true,
            window: self.window,
            mss: (self.mss != 0).then_some(self.mss),
            window_scale: (self.scale != NO_SCALE).then_some(self.scale),
            sack_permitted: self.has(SACK),
            ece: self.has(ECN),
            cwr: self.has(ECN),
            timestamps: stamped.then_some(Timestamps { value: self.ts_recent, echo: 0 }),
            ..SegmentRepr::default()
        }
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Whether a segment may be answered out of turn; if so, it is.
    pub(super) fn may_answer(&mut self, now: Instant) -> bool {
        let may = now - self.answered_at >= PAUSE;
        if may {
            self.answered_at = now;
        }
        may
    }
}
