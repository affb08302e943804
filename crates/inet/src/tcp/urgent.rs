//! Urgent data (RFC 9293 3.8.5), as RFC 6093 has settled it and Linux does it.
//!
//! The urgent pointer names the byte *after* the urgent one (RFC 6093 5, `tcp_stdurg` 0). Urgent
//! bytes are ordinary bytes of the stream. This module only records which byte is marked; the
//! reader decides whether it is read in or out of band. Only the newest mark counts in either
//! direction (RFC 9293 3.8.5: the pointer moves forward).

use super::durable::{self, Durable};
use super::segment::SegmentRepr;
use super::seq::Seq;

/// The urgent marks of a connection, as positions in its streams.
#[derive(Debug, Default)]
pub(super) struct UrgentMarks {
    /// End of the urgent data in our stream, until it is acknowledged.
    sent: Option<u64>,
    /// The urgent byte in the peer's stream.
    received: Option<u64>,
    /// That mark is new.
    moved: bool,
}

impl UrgentMarks {
    /// The byte before position `end` of this side's stream is urgent.
    pub(super) fn mark(&mut self, end: u64) {
        self.sent = Some(end);
    }

    /// Whether there is urgent data that is not acknowledged.
    #[inline]
    pub(super) fn is_sending(&self) -> bool {
        self.sent.is_some()
    }

    /// The peer has acknowledged all before `acked`.
    #[inline]
    pub(super) fn acked(&mut self, acked: u64) {
        self.sent = self.sent.filter(|end| *end > acked);
    }

    /// The urgent pointer of a segment that starts at `seq`. Every segment before the mark has one
    /// (RFC 9293 3.8.5), as far as the field reaches.
    #[inline]
    pub(super) fn pointer(&self, durable: &Durable, seq: Seq) -> Option<u16> {
        let end = durable.iss + 1 + self.sent? as u32;
        if !seq.before(end) {
            return None;
        }
        match u16::try_from(end.since(seq)) {
            Ok(pointer) => Some(pointer),
            // The mark is too far away for the field. While the field's largest value points beyond
            // all sent data, it tells at least that the mark is farther.
            Err(_) => (seq + 0xffff).after(durable.snd_max).then_some(u16::MAX),
        }
    }

    /// Sixth check of RFC 9293 3.10.7.4: the urgent pointer.
    #[inline]
    pub(super) fn take(&mut self, durable: &Durable, segment: &SegmentRepr) {
        if let Some(pointer) = segment.urgent.filter(|_| durable.state().receives()) {
            self.take_pointer(durable, segment.seq + u32::from(pointer.saturating_sub(1)));
        }
    }

    fn take_pointer(&mut self, durable: &Durable, byte: Seq) {
        let next = durable.rcv_nxt;
        if byte.before(next) || durable.has(durable::READ_SHUT) {
            return;
        }
        let at = durable.received + u64::from(byte.since(next));
        if self.received.is_none_or(|old| at > old) {
            self.received = Some(at);
            self.moved = true;
        }
    }

    /// Position of the newest urgent byte in the peer's stream.
    pub(super) fn received(&self) -> Option<u64> {
        self.received
    }

    /// Whether that has moved since the last call.
    pub(super) fn take_moved(&mut self) -> bool {
        core::mem::take(&mut self.moved)
    }

    /// Whether a mark lies ahead, in either direction; `received` bytes of the peer's have come.
    pub(super) fn is_ahead(&self, received: u64) -> bool {
        self.is_sending() || self.moved || self.received.is_some_and(|at| at >= received)
    }
}
