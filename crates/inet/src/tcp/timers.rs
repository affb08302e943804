//! The deadlines of one connection.
//!
//! There are few, so they are an array; the caller keeps the earliest one
//! ([`poll_at`](super::Connection::poll_at)) in its timer wheel.

use crate::Instant;

/// What a deadline is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    /// Sent data, a SYN or a FIN is unacknowledged (RFC 6298).
    Retransmit,
    /// The window is closed or too small, or small data is held back (RFC 9293 3.8.6.1, 3.8.6.2.1).
    /// Never runs together with `Retransmit`.
    Persist,
    /// An acknowledgement waits for a companion (RFC 9293 3.8.6.3).
    DelayedAck,
    /// The connection is idle (RFC 9293 3.8.4).
    KeepAlive,
    /// TIME-WAIT or an orphan's FIN-WAIT-2 ends.
    Wait,
}

const ALL: [Timer; 5] =
    [Timer::Retransmit, Timer::Persist, Timer::DelayedAck, Timer::KeepAlive, Timer::Wait];

#[derive(Debug, Default)]
pub(super) struct Timers([Option<Instant>; ALL.len()]);

impl Timers {
    pub(super) fn set(&mut self, timer: Timer, at: Instant) {
        self.0[timer as usize] = Some(at);
    }

    pub(super) fn clear(&mut self, timer: Timer) {
        self.0[timer as usize] = None;
    }

    pub(super) fn clear_all(&mut self) {
        *self = Self::default();
    }

    pub(super) fn is_set(&self, timer: Timer) -> bool {
        self.0[timer as usize].is_some()
    }

    /// The earliest deadline.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.iter().flatten().min().copied()
    }

    /// A timer that is due, which is no longer set.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Timer> {
        let due = |timer: &Timer| self.0[*timer as usize].is_some_and(|at| at <= now);
        let timer = ALL.into_iter().find(due)?;
        self.clear(timer);
        Some(timer)
    }
}
