//! The acknowledgement of the peer's FIN.
//!
//! It leaves at once, unless the caller waits a moment for the program's answer. A program mostly
//! closes as soon as it reads the end, and our own FIN then brings the ACK: one frame less.

use super::connection::Connection;
use super::send::SegmentOut;
use crate::{Instant, RxBytes, TxBytes};

impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// The next segment to be sent, with due timers taken into account; `None` when there is none
    /// now. A segment given out counts as sent.
    pub fn poll_segment(&mut self, now: Instant) -> Option<SegmentOut<'_, T>> {
        self.wishes.ack |= self.wishes.fin_ack;
        self.poll_segment_deferring(now)
    }

    /// Whether the peer's FIN is not acknowledged yet.
    pub fn defers_fin_ack(&self) -> bool {
        self.wishes.fin_ack
    }

    /// The next [`poll_segment`](Self::poll_segment) is to acknowledge the FIN that
    /// [`poll_segment_deferring`](Self::poll_segment_deferring) left alone.
    pub fn end_deferral(&mut self) {
        self.wishes.anything |= self.wishes.fin_ack;
    }
}
