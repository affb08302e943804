//! Explicit congestion notification (RFC 3168) on one connection.
//!
//! Both sides agree in the SYNs. Then new data is marked as ECN-capable (ECT(0)). Retransmissions,
//! pure ACKs and probes are never marked (6.1.4 to 6.1.6). A router marks a packet (CE) instead of
//! dropping it. The receiver of the mark echoes congestion (ECE) on all its ACKs until the sender
//! says, once per window of data, that it has reduced its window (CWR).

use super::ecn_field::{EcnField, EcnPolicy};
use super::segment::SegmentRepr;

/// The agreement of the two sides. Accurate ECN (RFC 9768) would be a third.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum EcnMode {
    #[default]
    None,
    Classic,
}

/// State of ECN on one connection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EcnState {
    mode: EcnMode,
    /// Our SYN asked for ECN.
    asked: bool,
    /// The next new data carries CWR.
    cwr_due: bool,
    /// ACKs carry ECE until the peer's CWR.
    echoing: bool,
    /// The peer's data has come marked as capable.
    seen: bool,
}

impl EcnState {
    /// Handles the peer's SYN or SYN-ACK (RFC 3168 6.1.1), on the side that is asked and on the
    /// side that has asked. True if both sides use ECN.
    pub(super) fn take_syn(&mut self, policy: EcnPolicy, syn: &SegmentRepr) -> bool {
        let agreed = match (policy, syn.ack) {
            (EcnPolicy::Off, _) => false,
            (EcnPolicy::On | EcnPolicy::Accept, None) => Self::asks(syn),
            (EcnPolicy::On, Some(_)) => self.asked && Self::answers(syn),
            (EcnPolicy::Accept, Some(_)) => false,
        };
        self.mode = if agreed { EcnMode::Classic } else { EcnMode::None };
        agreed
    }

    /// Marks a SYN or SYN-ACK that is sent. A SYN that is retransmitted does not ask, because
    /// some routers drop those that do (RFC 3168 6.1.1.1).
    pub(super) fn mark_syn(&mut self, policy: EcnPolicy, syn: &mut SegmentRepr, first: bool) {
        let answer = syn.ack.is_some();
        self.asked = !answer && first && policy == EcnPolicy::On;
        syn.ece = if answer { self.is_on() } else { self.asked };
        syn.cwr = self.asked;
    }

    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.mode == EcnMode::Classic
    }

    /// Whether marked data was received.
    pub(super) fn seen(&self) -> bool {
        self.seen
    }

    /// Whether a peer's SYN asks for ECN (RFC 3168 6.1.1). A mark on the SYN itself shows a
    /// middlebox that mangles the field.
    fn asks(syn: &SegmentRepr) -> bool {
        syn.ece && syn.cwr && syn.ecn == EcnField::NotEct
    }

    /// Whether a SYN-ACK agrees.
    fn answers(syn_ack: &SegmentRepr) -> bool {
        syn_ack.ece && !syn_ack.cwr
    }

    /// Whether `segment` echoes congestion.
    #[inline]
    pub(super) fn is_echo(&self, segment: &SegmentRepr) -> bool {
        self.is_on() && segment.ece && !segment.syn
    }

    /// The window was reduced, and the next data says so to the peer (6.1.2); or that was undone.
    #[inline]
    pub(super) fn set_cwr_due(&mut self, due: bool) {
        self.cwr_due = due && self.is_on();
    }

    /// Marks a segment to be sent; `new` if it has data that was never sent.
    #[inline]
    pub(super) fn mark(&mut self, segment: &mut SegmentRepr, new: bool) {
        if !self.is_on() {
            return;
        }
        segment.ece = self.echoing;
        if new {
            segment.ecn = EcnField::Ect0;
            segment.cwr = core::mem::take(&mut self.cwr_due);
        }
    }

    /// Handles the marks of a segment with payload (6.1.3). True if the next two segments are to be
    /// acknowledged at once, because the sender's window may be small.
    #[inline]
    pub(super) fn take(&mut self, segment: &SegmentRepr) -> bool {
        self.is_on() && self.take_marks(segment)
    }

    fn take_marks(&mut self, segment: &SegmentRepr) -> bool {
        if segment.cwr {
            self.echoing = false;
        }
        match segment.ecn {
            EcnField::Ce => {
                self.seen = true;
                !core::mem::replace(&mut self.echoing, true)
            }
            // Not marked, though the sender marks: probably retransmitted.
            EcnField::NotEct => self.seen,
            EcnField::Ect0 | EcnField::Ect1 => {
                self.seen = true;
                false
            }
        }
    }
}
