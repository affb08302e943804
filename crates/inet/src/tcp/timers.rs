//! The deadlines of one connection.
//!
//! There are few, so they are an array. The caller puts the earliest one
//! ([`poll_at`](super::Connection::poll_at)) into its timer wheel.

use crate::Instant;

/// The purpose of a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TcpTimer {
    /// Sent data, a SYN or a FIN is unacknowledged (RFC 6298).
    Retransmit,
    /// The same, with a tail loss probe before the timeout (RFC 8985 7.2).
    LossProbe,
    /// A segment that later ones have overtaken is late (RFC 8985 6.2). Only one of these three
    /// timers runs.
    Reordering,
    /// The window is closed or too small, or small data is held back (RFC 9293 3.8.6.1, 3.8.6.2.1).
    /// Never runs together with those above.
    Persist,
    /// An acknowledgement waits for a companion (RFC 9293 3.8.6.3).
    DelayedAck,
    /// The connection is idle (RFC 9293 3.8.4).
    KeepAlive,
    /// TIME-WAIT or an orphan's FIN-WAIT-2 ends.
    Wait,
}

const ALL: [TcpTimer; 7] = [
    TcpTimer::Retransmit,
    TcpTimer::LossProbe,
    TcpTimer::Reordering,
    TcpTimer::Persist,
    TcpTimer::DelayedAck,
    TcpTimer::KeepAlive,
    TcpTimer::Wait,
];

/// The timers for unacknowledged data.
const SENDING: [TcpTimer; 3] = [TcpTimer::Retransmit, TcpTimer::LossProbe, TcpTimer::Reordering];

#[derive(Debug, Default)]
pub(super) struct TcpTimers([Option<Instant>; ALL.len()]);

impl TcpTimers {
    /// Sets `timer`, in place of the others of its group.
    #[inline]
    pub(super) fn set(&mut self, timer: TcpTimer, at: Instant) {
        if SENDING.contains(&timer) {
            self.clear_sending();
        }
        self.0[timer as usize] = Some(at);
    }

    #[inline]
    pub(super) fn clear(&mut self, timer: TcpTimer) {
        self.0[timer as usize] = None;
    }

    pub(super) fn clear_all(&mut self) {
        *self = Self::default();
    }

    /// Nothing is unacknowledged any more.
    #[inline]
    pub(super) fn clear_sending(&mut self) {
        for timer in SENDING {
            self.clear(timer);
        }
    }

    #[inline]
    pub(super) fn is_set(&self, timer: TcpTimer) -> bool {
        self.0[timer as usize].is_some()
    }

    /// Whether there is a deadline for unacknowledged data.
    #[inline]
    pub(super) fn is_sending(&self) -> bool {
        SENDING.into_iter().any(|timer| self.is_set(timer))
    }

    #[inline]
    pub(super) fn at(&self, timer: TcpTimer) -> Option<Instant> {
        self.0[timer as usize]
    }

    /// Whether only the keep-alive timer is set, if any.
    pub(super) fn is_quiet(&self) -> bool {
        ALL.into_iter().all(|timer| timer == TcpTimer::KeepAlive || !self.is_set(timer))
    }

    /// The earliest deadline.
    #[inline]
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.iter().flatten().min().copied()
    }

    /// A due timer, which is then no longer set.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<TcpTimer> {
        let due = |timer: &TcpTimer| self.0[*timer as usize].is_some_and(|at| at <= now);
        let timer = ALL.into_iter().find(due)?;
        self.clear(timer);
        Some(timer)
    }
}
