//! Requests for output, beside queued data.
//!
//! Calls, segments and timers only leave requests here. Segments are made when the caller polls. So
//! nothing is sent twice, and an ACK rides on data whenever there is some.

use alloc::boxed::Box;

use super::segment::SegmentRepr;

/// The requests that wait for the next poll.
#[derive(Debug, Default)]
pub(super) struct PendingOutput {
    /// There may be something to send.
    poll: bool,
    syn: bool,
    ack: bool,
    fin_ack: bool,
    duplicate_acks: u16,
    tail_probe: bool,
    probe: bool,
    small: bool,
    push: bool,
    final_segment: Option<Box<SegmentRepr>>,
}

/// Requests.
impl PendingOutput {
    /// There may be something to send.
    #[inline]
    pub(super) fn request_poll(&mut self) {
        self.poll = true;
    }

    /// A SYN or SYN-ACK is to be sent.
    #[inline]
    pub(super) fn request_syn(&mut self) {
        self.syn = true;
        self.poll = true;
    }

    /// The SYN waits for data (RFC 7413).
    pub(super) fn withdraw_syn(&mut self) {
        self.syn = false;
    }

    /// An ACK is to leave at once, alone or with data.
    #[inline]
    pub(super) fn request_ack(&mut self) {
        self.ack = true;
        self.poll = true;
    }

    /// Requests the ACK of the peer's FIN. It leaves at once, unless the caller waits a moment for
    /// the program's answer. Most programs close as soon as they read the end. The FIN of this side
    /// then carries the ACK, which saves a frame.
    pub(super) fn request_fin_ack(&mut self) {
        self.fin_ack = true;
        self.poll = true;
    }

    /// Whether the peer's FIN is not acknowledged yet.
    #[inline]
    pub(super) fn wants_fin_ack(&self) -> bool {
        self.fin_ack
    }

    /// The ACK of the peer's FIN waits for nothing more.
    #[inline]
    pub(super) fn promote_fin_ack(&mut self) {
        self.ack |= self.fin_ack;
    }

    /// One more segment came out of order. The peer counts the ACKs for them (RFC 5681 4.2). At
    /// most `limit` are sent.
    pub(super) fn request_duplicate_ack(&mut self, limit: u16) {
        self.duplicate_acks = (self.duplicate_acks + 1).min(limit);
        self.poll = true;
    }

    /// ACKs that are sent now would not be duplicates any more.
    #[inline]
    pub(super) fn withdraw_duplicate_acks(&mut self) {
        self.duplicate_acks = 0;
    }

    /// A tail loss probe is to be sent (RFC 8985 7.3).
    pub(super) fn request_tail_probe(&mut self) {
        self.tail_probe = true;
        self.poll = true;
    }

    /// An ACK is to be sent that the peer must answer, for its window or its life.
    pub(super) fn request_probe(&mut self) {
        self.probe = true;
        self.poll = true;
    }

    /// Data that fits the window is to leave, however little.
    pub(super) fn request_small(&mut self) {
        self.small = true;
        self.poll = true;
    }

    /// The same with PSH, after the override timeout of RFC 9293 3.8.6.2.1.
    pub(super) fn request_small_push(&mut self) {
        self.push = true;
        self.request_small();
    }

    /// `segment` is the last one, after which the connection is over.
    pub(super) fn request_final(&mut self, segment: SegmentRepr) {
        self.final_segment = Some(Box::new(segment));
        self.poll = true;
    }

    /// Nothing is to be sent any more.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Questions of the code that makes segments.
impl PendingOutput {
    /// Whether there may be something to send.
    #[inline]
    pub(super) fn wants_poll(&self) -> bool {
        self.poll
    }

    /// There turned out to be nothing.
    #[inline]
    pub(super) fn poll_done(&mut self) {
        self.poll = false;
    }

    /// The last segment, if there is one.
    #[inline]
    pub(super) fn take_final(&mut self) -> Option<SegmentRepr> {
        self.final_segment.take().map(|segment| *segment)
    }

    /// Whether a last segment is to be sent.
    #[inline]
    pub(super) fn has_final(&self) -> bool {
        self.final_segment.is_some()
    }

    /// Whether a SYN or SYN-ACK is to be sent.
    #[inline]
    pub(super) fn wants_syn(&self) -> bool {
        self.syn
    }

    /// A SYN or SYN-ACK was made.
    pub(super) fn syn_sent(&mut self) {
        self.syn = false;
    }

    /// Whether an ACK is to be sent for a segment out of order; it counts as sent.
    #[inline]
    pub(super) fn take_duplicate_ack(&mut self) -> bool {
        let due = self.duplicate_acks > 0;
        self.duplicate_acks = self.duplicate_acks.saturating_sub(1);
        due
    }

    /// With SACK one ACK reports all that fits into it; `more` if something did not.
    pub(super) fn set_duplicate_ack(&mut self, more: bool) {
        self.duplicate_acks = u16::from(more);
    }

    /// Whether a tail loss probe is to be sent.
    #[inline]
    pub(super) fn wants_tail_probe(&self) -> bool {
        self.tail_probe
    }

    /// A tail loss probe is made, or there is nothing to make it of.
    pub(super) fn tail_probe_done(&mut self) {
        self.tail_probe = false;
    }

    /// Whether a window or keep-alive probe is to be sent; it counts as sent.
    #[inline]
    pub(super) fn take_probe(&mut self) -> bool {
        core::mem::take(&mut self.probe)
    }

    /// Whether an ACK is to leave at once.
    #[inline]
    pub(super) fn wants_ack(&self) -> bool {
        self.ack
    }

    /// A segment acknowledges all that was received.
    #[inline]
    pub(super) fn ack_sent(&mut self) {
        (self.ack, self.fin_ack) = (false, false);
    }

    /// Whether small segments leave.
    #[inline]
    pub(super) fn wants_small(&self) -> bool {
        self.small
    }

    /// Whether the next new segment is pushed; asked once.
    #[inline]
    pub(super) fn take_push(&mut self) -> bool {
        core::mem::take(&mut self.push)
    }

    /// New data has left.
    #[inline]
    pub(super) fn data_sent(&mut self) {
        (self.small, self.push) = (false, false);
    }
}
