//! Urgent data (RFC 9293 3.8.5), as RFC 6093 has settled it and Linux does it.
//!
//! The urgent pointer names the byte *after* the urgent one (RFC 6093 5, `tcp_stdurg` 0). Urgent
//! bytes are ordinary bytes of the stream; that one is marked is all that is known here, and
//! whether it is read in or out of band is the reader's business. Only the newest mark counts in
//! either direction (RFC 9293 3.8.5: the pointer moves forward).

use super::connection::Connection;
use super::durable;
use super::{SegmentRepr, Seq};
use crate::{Instant, RxBytes, TxBytes};

/// The marks of a connection, as places in its streams.
#[derive(Debug, Default)]
pub(super) struct Urgent {
    /// Where what is to be read urgently ends in what we send, until it is acknowledged.
    sent: Option<u64>,
    /// The urgent byte of what the peer sends.
    received: Option<u64>,
    /// It is a new one.
    news: bool,
}

impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// The last byte that was queued is urgent (MSG_OOB). It leaves at once, as far as windows
    /// permit, whatever Nagle's rule says.
    pub fn mark_urgent(&mut self, _now: Instant) {
        let end = self.send.end();
        if end > self.durable.acked {
            self.urgent.sent = Some(end);
            self.wish(|_| {});
        }
    }

    /// Whether there is urgent data that is not acknowledged.
    pub(super) fn is_urgent(&self) -> bool {
        self.urgent.sent.is_some()
    }

    /// The peer has what ends before `acked`.
    pub(super) fn urgent_acked(&mut self) {
        self.urgent.sent = self.urgent.sent.filter(|end| *end > self.durable.acked);
    }

    /// The urgent pointer of a segment that starts at `seq`: in every segment before the mark (RFC
    /// 9293 3.8.5), as far as it can say.
    pub(super) fn urgent_pointer(&self, seq: Seq) -> Option<u16> {
        let end = self.durable.iss + 1 + self.urgent.sent? as u32;
        if !seq.before(end) {
            return None;
        }
        match u16::try_from(end.since(seq)) {
            Ok(pointer) => Some(pointer),
            // Too far to be said: so much is known if all of it is on its way.
            Err(_) => (seq + 0xffff).after(self.durable.snd_max).then_some(u16::MAX),
        }
    }

    /// Sixth check of RFC 9293 3.10.7.4: the urgent pointer.
    pub(super) fn take_urgent(&mut self, segment: &SegmentRepr) {
        let Some(pointer) = segment.urgent.filter(|_| self.state().receives()) else { return };
        let byte = segment.seq + u32::from(pointer.saturating_sub(1));
        let next = self.durable.rcv_nxt;
        if byte.before(next) || self.durable.has(durable::READ_SHUT) {
            return;
        }
        let at = self.durable.received + u64::from(byte.since(next));
        if self.urgent.received.is_none_or(|old| at > old) {
            self.urgent.received = Some(at);
            self.urgent.news = true;
        }
    }

    /// The place of the newest urgent byte in the peer's stream, whose first byte is at 0. It may
    /// not have arrived yet.
    pub fn urgent_mark(&self) -> Option<u64> {
        self.urgent.received
    }

    /// Whether the mark has moved since the last call.
    pub fn take_urgent_news(&mut self) -> bool {
        core::mem::take(&mut self.urgent.news)
    }

    /// Whether a mark lies ahead, in either direction.
    pub(super) fn awaits_urgent(&self) -> bool {
        let ahead = self.urgent.received.is_some_and(|at| at >= self.durable.received);
        self.is_urgent() || self.urgent.news || ahead
    }
}
