//! A connection request: the record of a SYN.

use crate::table::Handle;
use crate::tcp::{EcnField, Endpoints, SegmentRepr, Seq, Timestamps, reset_for};
use crate::time::Instant;
use crate::wheel::TimerId;
use core::time::Duration;

/// Least time between two answers to segments that a request cannot take, and between two SYN-ACKs
/// that repeated SYNs ask for: as Linux.
const PAUSE: Duration = Duration::from_millis(500);

/// What to do about a segment for a request.
pub(super) enum RequestVerdict {
    Drop,
    /// The SYN-ACK again.
    Retransmit,
    /// Send an ACK of the received SYN.
    Challenge,
    /// The request is over, with this answer.
    End(Option<SegmentRepr>),
    /// A RST that leaves the request alone.
    Reset(Option<SegmentRepr>),
    /// The handshake is complete.
    Complete,
}

/// What to do when a request's timer expires.
pub(super) enum RequestTimeout {
    /// The request is over.
    End,
    /// Nothing is sent this time.
    Wait,
    /// The SYN-ACK is sent again.
    Retransmit,
}

/// A request.
#[derive(Debug)]
pub(crate) struct ConnectionRequest {
    pub(crate) ends: Endpoints,
    pub(crate) listener: Handle,
    pub(super) iss: Seq,
    irs: Seq,
    /// The peer's timestamp, if it has them.
    ts_recent: u32,
    window: u16,
    /// 0 if the peer's SYN had no MSS.
    mss: u16,
    /// [`NO_SCALE`] if the peer does not scale.
    scale: u8,
    flags: u8,
    /// Expired timers.
    pub(super) timeouts: u8,
    pub(super) timer: Option<TimerId>,
    /// When the SYN-ACK was first sent.
    pub(super) sent_at: Instant,
    /// When a segment was last answered besides the regular SYN-ACKs.
    answered_at: Instant,
}

const NO_SCALE: u8 = u8::MAX;
/// The peer uses timestamps.
const HAS_TIMESTAMPS: u8 = 1;
/// The peer permits SACK.
const SACK: u8 = 1 << 1;
/// The last ACK has come and was dropped.
const ACKED: u8 = 1 << 2;
/// The SYN-ACK was sent again.
const RETRANSMITTED: u8 = 1 << 3;
/// The peer asks for ECN, in a SYN that no router has marked (RFC 3168 6.1.1).
const ECN: u8 = 1 << 4;

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
            flags: flag(syn.timestamps.is_some(), HAS_TIMESTAMPS)
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
        let stamped = self.has(HAS_TIMESTAMPS);
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

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Whether the SYN-ACK was sent again.
    pub(super) fn is_retransmitted(&self) -> bool {
        self.has(RETRANSMITTED)
    }

    /// The SYN-ACK is sent again.
    pub(super) fn mark_retransmitted(&mut self) {
        self.flags |= RETRANSMITTED;
    }

    /// The last ACK has come and is dropped.
    pub(super) fn mark_acked(&mut self) {
        self.flags |= ACKED;
    }

    /// Decides about a segment with `len` bytes of payload by RFC 9293 3.10.7.4 for SYN-RECEIVED,
    /// in Linux's order. `defer` is the number of timeouts for which the listener waits for data.
    pub(super) fn check(
        &mut self,
        now: Instant,
        defer: u8,
        segment: &SegmentRepr,
        len: usize,
    ) -> RequestVerdict {
        let next = self.irs + 1;
        let old = segment.timestamps.is_some_and(|timestamps| {
            let recent = Seq::new(self.ts_recent);
            self.has(HAS_TIMESTAMPS) && Seq::new(timestamps.value).before(recent)
        });
        if segment.syn && segment.ack.is_none() && !segment.rst && segment.seq == self.irs {
            let again = !old && self.may_answer(now);
            return if again { RequestVerdict::Retransmit } else { RequestVerdict::Drop };
        }
        if segment.ack.is_some_and(|ack| ack != self.iss + 1) && !segment.rst {
            return RequestVerdict::Reset(reset_for(segment, len));
        }
        let end = segment.seq + len as u32 + u32::from(segment.syn) + u32::from(segment.fin);
        let edge = next + u32::from(u16::MAX);
        if old || segment.seq.after(edge) || end.before(next) {
            let answer = !segment.rst && self.may_answer(now);
            return if answer { RequestVerdict::Challenge } else { RequestVerdict::Drop };
        }
        if segment.rst {
            // RFC 5961 3.2: only the exact number counts.
            return if segment.seq == next {
                RequestVerdict::End(None)
            } else {
                RequestVerdict::Drop
            };
        }
        if segment.syn && segment.seq != self.irs {
            // RFC 9293 3.10.7.4, fourth check: back to LISTEN.
            return RequestVerdict::End(reset_for(segment, len));
        }
        if segment.ack.is_none() {
            return RequestVerdict::Drop;
        }
        let bare = len == 0 && !segment.fin;
        if bare && self.timeouts < defer {
            self.flags |= ACKED;
            return RequestVerdict::Drop;
        }
        RequestVerdict::Complete
    }

    /// Time until the SYN-ACK is sent again: `least`, twice as long each time, `most` at most.
    pub(super) fn timeout(&self, least: Duration, most: Duration) -> Duration {
        let factor = 1_u32.checked_shl(u32::from(self.timeouts)).unwrap_or(u32::MAX);
        least.saturating_mul(factor).min(most)
    }

    /// The timer has fired, at most `most` times; `defer` as for [`check`](Self::check).
    pub(super) fn handle_timeout(&mut self, most: u8, defer: u8) -> RequestTimeout {
        let acked = self.has(ACKED);
        // As Linux: while the listener waits for data, a peer that has acknowledged gets no
        // SYN-ACK. A last one at the end of the wait fetches its data or its ACK.
        let (over, again) = match defer {
            0 => (self.timeouts >= most, true),
            defer => (
                self.timeouts >= most && (!acked || self.timeouts >= defer),
                !acked || self.timeouts + 1 >= defer,
            ),
        };
        if over {
            return RequestTimeout::End;
        }
        self.timeouts = self.timeouts.saturating_add(1);
        if again { RequestTimeout::Retransmit } else { RequestTimeout::Wait }
    }

    /// Whether a segment may be answered besides the regular SYN-ACKs. If so, it counts as
    /// answered.
    fn may_answer(&mut self, now: Instant) -> bool {
        let may = now - self.answered_at >= PAUSE;
        if may {
            self.answered_at = now;
        }
        may
    }
}
