//! The connection states and the transitions between them (RFC 9293 3.3.2, figure 5).
//!
//! ```text
//!     connect ──▶ SYN-SENT ── SYN-ACK ──▶ ESTABLISHED ───────── FIN ────────▶ CLOSE-WAIT
//!                  │ SYN                  ▲      │ shut                          │ shut
//!                  ▼                      │      ▼                               ▼
//! SYN to a ──▶ SYN-RECEIVED ─ ACK of SYN ─┘  FIN-WAIT-1 ── FIN ──▶ CLOSING    LAST-ACK
//! listener         │                             │ ACK               │ ACK       │ ACK
//!                  └── shut ──▶ FIN-WAIT-1       ▼ of FIN            ▼ of FIN    ▼ of FIN
//!                                            FIN-WAIT-2 ── FIN ──▶ TIME-WAIT   CLOSED
//! ```
//! TIME-WAIT ends in CLOSED when its time is over; any state does on a reset, an abort, or when the
//! peer is given up. LISTEN is not a state of a connection here: it is a listener's.

/// A connection's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum State {
    /// No connection (any more).
    Closed = 0,
    /// SYN sent, by `connect`.
    SynSent = 1,
    /// SYN received and answered.
    SynReceived = 2,
    /// Data can flow.
    Established = 3,
    /// This side is shut; its FIN is queued or sent.
    FinWait1 = 4,
    /// FIN sent and acknowledged.
    FinWait2 = 5,
    /// FIN received.
    CloseWait = 6,
    /// FIN sent and received, not acknowledged.
    Closing = 7,
    /// FIN received, then this side shut.
    LastAck = 8,
    /// Both sides closed; waiting for stray segments to die.
    TimeWait = 9,
}

/// An event that changes the state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StateEvent {
    /// A SYN without an ACK of this side's SYN.
    Syn,
    /// A SYN with an ACK of this side's SYN.
    SynAck,
    /// Our SYN is acknowledged.
    AckOfSyn,
    /// The application shuts the write side.
    Shut,
    /// Our FIN is acknowledged.
    AckOfFin,
    /// The peer's FIN, in order.
    Fin,
    /// TIME-WAIT, or an orphan's FIN-WAIT-2, is over.
    WaitOver,
    /// Reset, aborted or given up.
    Gone,
}

impl State {
    /// The state after `event`; the same one if the event changes nothing here.
    pub(super) const fn after(self, event: StateEvent) -> Self {
        match (self, event) {
            (_, StateEvent::Gone) => Self::Closed,
            (Self::SynSent, StateEvent::SynAck) => Self::Established,
            (Self::SynSent, StateEvent::Syn) => Self::SynReceived,
            (Self::SynReceived, StateEvent::AckOfSyn) => Self::Established,
            (Self::SynReceived | Self::Established, StateEvent::Shut) => Self::FinWait1,
            (Self::SynReceived | Self::Established, StateEvent::Fin) => Self::CloseWait,
            (Self::CloseWait, StateEvent::Shut) => Self::LastAck,
            (Self::FinWait1, StateEvent::AckOfFin) => Self::FinWait2,
            (Self::FinWait1, StateEvent::Fin) => Self::Closing,
            (Self::FinWait2, StateEvent::Fin) => Self::TimeWait,
            (Self::Closing, StateEvent::AckOfFin) => Self::TimeWait,
            (Self::LastAck, StateEvent::AckOfFin) => Self::Closed,
            (Self::FinWait2 | Self::TimeWait, StateEvent::WaitOver) => Self::Closed,
            (same, _) => same,
        }
    }

    /// The state that has this number in a durable record; CLOSED if none has.
    pub(super) const fn from_number(number: u8) -> Self {
        match number {
            1 => Self::SynSent,
            2 => Self::SynReceived,
            3 => Self::Established,
            4 => Self::FinWait1,
            5 => Self::FinWait2,
            6 => Self::CloseWait,
            7 => Self::Closing,
            8 => Self::LastAck,
            9 => Self::TimeWait,
            _ => Self::Closed,
        }
    }

    /// Whether data or a FIN may be on its way, or go on it.
    #[inline]
    pub(super) const fn sends(self) -> bool {
        matches!(
            self,
            Self::Established | Self::CloseWait | Self::FinWait1 | Self::Closing | Self::LastAck
        )
    }

    /// Whether the peer may still send data.
    #[inline]
    pub(super) const fn receives(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }

    /// Whether the handshake is not over.
    #[inline]
    pub(super) const fn opening(self) -> bool {
        matches!(self, Self::SynSent | Self::SynReceived)
    }

    /// The name that `ss` gives the state.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "UNCONN",
            Self::SynSent => "SYN-SENT",
            Self::SynReceived => "SYN-RECV",
            Self::Established => "ESTAB",
            Self::FinWait1 => "FIN-WAIT-1",
            Self::FinWait2 => "FIN-WAIT-2",
            Self::CloseWait => "CLOSE-WAIT",
            Self::Closing => "CLOSING",
            Self::LastAck => "LAST-ACK",
            Self::TimeWait => "TIME-WAIT",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_name_states() {
        for number in 0..=9 {
            assert_eq!(State::from_number(number) as u8, number);
        }
        assert_eq!(State::from_number(10), State::Closed);
    }

    /// Nothing but these; see the figure.
    #[test]
    fn the_table_is_the_figure() {
        use State::*;
        use StateEvent::{AckOfFin, AckOfSyn, Fin, Shut, Syn, SynAck, WaitOver};
        let figure = [
            (SynSent, SynAck, Established),
            (SynSent, Syn, SynReceived),
            (SynReceived, AckOfSyn, Established),
            (SynReceived, Shut, FinWait1),
            (SynReceived, Fin, CloseWait),
            (Established, Shut, FinWait1),
            (Established, Fin, CloseWait),
            (CloseWait, Shut, LastAck),
            (FinWait1, AckOfFin, FinWait2),
            (FinWait1, Fin, Closing),
            (FinWait2, Fin, TimeWait),
            (FinWait2, WaitOver, Closed),
            (Closing, AckOfFin, TimeWait),
            (LastAck, AckOfFin, Closed),
            (TimeWait, WaitOver, Closed),
        ];
        for state in (0..=9).map(State::from_number) {
            for event in [Syn, SynAck, AckOfSyn, Shut, AckOfFin, Fin, WaitOver] {
                let drawn = figure.iter().find(|(from, on, _)| (*from, *on) == (state, event));
                assert_eq!(state.after(event), drawn.map_or(state, |(_, _, to)| *to));
            }
            assert_eq!(state.after(StateEvent::Gone), Closed);
        }
    }
}
