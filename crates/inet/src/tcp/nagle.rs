//! Whether small segments wait: Nagle's rule (RFC 9293 3.7.4) and corks.
//!
//! As in Linux the rule is Minshall's variant: one small segment in flight is enough to hold back
//! the next, full ones do not matter.

use super::seq::Seq;

/// The state that decides about segments that are not full.
#[derive(Debug, Clone, Copy)]
pub(super) struct Nagle {
    nodelay: bool,
    cork: bool,
    /// The last write announced more data, and no ACK has come since.
    more: bool,
    /// End of the last segment sent that was not full.
    small_end: Seq,
}

impl Nagle {
    pub(super) fn new(nodelay: bool, cork: bool, iss: Seq) -> Self {
        Self { nodelay, cork, more: false, small_end: iss }
    }

    /// Sets whether small segments leave at once.
    pub(super) fn set_nodelay(&mut self, on: bool) {
        self.nodelay = on;
    }

    /// Sets whether only full segments leave.
    pub(super) fn set_cork(&mut self, on: bool) {
        self.cork = on;
    }

    /// Something was written; `more` if the writer says that more follows at once.
    #[inline]
    pub(super) fn written(&mut self, more: bool) {
        self.more = more;
    }

    /// An ACK has come. As in Linux, data that waits for a writer's next bytes waits for the next
    /// ACK at most.
    #[inline]
    pub(super) fn ack_received(&mut self) {
        self.more = false;
    }

    /// Whether the application holds small segments back.
    #[inline]
    pub(super) fn is_corked(&self) -> bool {
        self.cork || self.more
    }

    /// A segment that is not full was sent up to `end`.
    #[inline]
    pub(super) fn small_sent(&mut self, end: Seq) {
        self.small_end = end;
    }

    /// Whether a segment that is not full may leave, by Nagle's rule; `una` is SND.UNA.
    #[inline]
    pub(super) fn permits(&self, una: Seq) -> bool {
        !self.is_corked() && (self.nodelay || self.small_end.at_or_before(una))
    }

    /// Moves the numbers of a connection under test.
    #[cfg(test)]
    pub(super) fn shift(&mut self, by: u32) {
        self.small_end += by;
    }
}
