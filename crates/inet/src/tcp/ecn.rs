//! Explicit congestion notification (RFC 3168).
//!
//! Both sides agree in the SYNs. Then new data is marked as ECN-capable (ECT(0)), never what is
//! sent again, nor pure ACKs and probes (6.1.4 to 6.1.6). A router that would drop marks instead
//! (CE). The receiver of the mark echoes congestion (ECE) on all its ACKs until the sender says
//! that it has reduced its window (CWR), once per window of data.

use super::SegmentRepr;

/// The ECN field of an IP packet (RFC 3168 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum EcnField {
    /// The transport does not know ECN.
    #[default]
    NotEct = 0,
    /// ECN-capable, of the experimental kind (RFC 9331).
    Ect1 = 1,
    /// ECN-capable.
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl EcnField {
    /// The field in the low bits of the IPv4 TOS or IPv6 traffic class.
    pub const fn from_tos(tos: u8) -> Self {
        match tos & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// Whether a connection asks for ECN and accepts it, as the values of Linux's `tcp_ecn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum EcnPolicy {
    /// Neither.
    Off = 0,
    /// Both.
    On = 1,
    /// It accepts.
    #[default]
    Accept = 2,
}

/// What two sides have agreed upon. Accurate ECN (RFC 9768) would be a third.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Mode {
    #[default]
    None,
    Classic,
}

/// State of ECN on one connection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ecn {
    mode: Mode,
    /// The next new data carries CWR.
    cwr_owed: bool,
    /// ACKs carry ECE until the peer's CWR.
    echoing: bool,
    /// The peer's data has come marked as capable.
    seen: bool,
}

/// What a segment's marks ask of its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Urge {
    /// Nothing.
    None,
    /// The next two segments are to be acknowledged at once: the sender's window may be small.
    Quick,
}

impl Ecn {
    /// Both sides know ECN, if `agreed`.
    pub(super) fn agree(&mut self, agreed: bool) {
        self.mode = if agreed { Mode::Classic } else { Mode::None };
    }

    pub(super) fn is_on(&self) -> bool {
        self.mode == Mode::Classic
    }

    /// Whether marked data was received.
    pub(super) fn seen(&self) -> bool {
        self.seen
    }

    /// Whether a peer's SYN asks for ECN (RFC 3168 6.1.1). One that is marked itself comes through
    /// something that mangles the field.
    pub(super) fn asks(syn: &SegmentRepr) -> bool {
        syn.ece && syn.cwr && syn.ecn == EcnField::NotEct
    }

    /// Whether a SYN-ACK agrees.
    pub(super) fn answers(syn_ack: &SegmentRepr) -> bool {
        syn_ack.ece && !syn_ack.cwr
    }

    /// Whether `segment` echoes congestion.
    pub(super) fn is_echo(&self, segment: &SegmentRepr) -> bool {
        self.is_on() && segment.ece && !segment.syn
    }

    /// The window was reduced, and the peer is to be told (6.1.2); or that was taken back.
    pub(super) fn owe_cwr(&mut self, owed: bool) {
        self.cwr_owed = owed && self.is_on();
    }

    /// Marks a segment to be sent; `new` if it has data that was never sent.
    pub(super) fn mark(&mut self, segment: &mut SegmentRepr, new: bool) {
        if !self.is_on() {
            return;
        }
        segment.ece = self.echoing;
        if new {
            segment.ecn = EcnField::Ect0;
            segment.cwr = core::mem::take(&mut self.cwr_owed);
        }
    }

    /// Takes the marks of a segment with payload (6.1.3).
    pub(super) fn take(&mut self, segment: &SegmentRepr) -> Urge {
        if !self.is_on() {
            return Urge::None;
        }
        if segment.cwr {
            self.echoing = false;
        }
        match segment.ecn {
            EcnField::Ce => {
                let first = !core::mem::replace(&mut self.echoing, true);
                self.seen = true;
                if first { Urge::Quick } else { Urge::None }
            }
            // Not marked, though the sender marks: probably sent again.
            EcnField::NotEct if self.seen => Urge::Quick,
            EcnField::NotEct => Urge::None,
            EcnField::Ect0 | EcnField::Ect1 => {
                self.seen = true;
                Urge::None
            }
        }
    }
}
