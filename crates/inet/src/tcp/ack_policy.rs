//! When received data is acknowledged (RFC 9293 3.8.6.3, RFC 5681 4.2).

use super::seq::Seq;

/// The acknowledgement policy of one connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct AckPolicy {
    /// `rcv_nxt` in the last ACK sent (Last.ACK.sent).
    acked_to: Seq,
    /// Number of segments still to be acknowledged at once.
    quick: u8,
}

impl AckPolicy {
    /// A policy that acknowledges the first `quick` segments at once.
    pub(super) fn new(quick: u8) -> Self {
        Self { acked_to: Seq::new(0), quick }
    }

    /// Last.ACK.sent.
    #[inline]
    pub(super) fn acked_to(&self) -> Seq {
        self.acked_to
    }

    /// A segment has acknowledged all before `rcv_nxt`.
    #[inline]
    pub(super) fn acked(&mut self, rcv_nxt: Seq) {
        self.acked_to = rcv_nxt;
    }

    /// Whether segments are acknowledged at once.
    pub(super) fn is_quick(&self) -> bool {
        self.quick > 0
    }

    /// The next `count` segments are acknowledged at once.
    pub(super) fn set_quick(&mut self, count: u8) {
        self.quick = count;
    }

    /// At least the next `count` segments are acknowledged at once.
    pub(super) fn raise_quick(&mut self, count: u8) {
        self.quick = self.quick.max(count);
    }

    /// Whether the last segment, with which `rcv_nxt` moved, must be acknowledged at once: at least
    /// every second full segment is, of `full` bytes.
    #[inline]
    pub(super) fn is_due(&mut self, rcv_nxt: Seq, full: usize) -> bool {
        let waiting = rcv_nxt.since(self.acked_to) as usize;
        let due = waiting >= 2 * full || self.quick > 0;
        if due {
            self.quick = self.quick.saturating_sub(1);
        }
        due
    }
}
