//! Expired timers.

use core::time::Duration;

use super::Connection;
use crate::tcp::durable;
use crate::tcp::loss::TimerRequest;
use crate::tcp::state::{State, StateEvent};
use crate::tcp::timers::TcpTimer;
use crate::{Instant, RxBytes, TxBytes};

impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// Handles due timers.
    pub fn handle_timer(&mut self, now: Instant) {
        while let Some(timer) = self.timers.take_due(now) {
            match timer {
                TcpTimer::Retransmit => self.retransmission_timeout(now),
                TcpTimer::LossProbe => self.loss_probe_timeout(now),
                TcpTimer::Reordering => self.reordering_timeout(now),
                TcpTimer::Persist => self.persist_timeout(now),
                TcpTimer::DelayedAck => self.pending.request_ack(),
                TcpTimer::KeepAlive => self.keep_alive_timeout(now),
                TcpTimer::Wait => self.change(StateEvent::WaitOver),
            }
        }
    }

    /// RFC 6298 5.4 to 5.7.
    fn retransmission_timeout(&mut self, now: Instant) {
        let limit = match self.state() {
            State::SynSent => self.config.syn_retries,
            // As Linux: one more, because the application has the connection already.
            _ if self.is_half_open() => self.config.synack_retries.saturating_add(1),
            State::SynReceived => self.config.synack_retries,
            _ => self.retry_limit(),
        };
        // A window shrunk to nothing is probed with the data in flight, for as long as the peer
        // answers (RFC 9293 3.8.6.1).
        let opening = self.state().opening();
        let probing = !opening && self.durable.snd_wnd == 0 && self.heard_lately(now);
        let over = (self.attempts.timeouts() >= limit && !probing) || self.is_user_timeout(now);
        self.suspect_fast_open(over);
        if over {
            return self.give_up();
        }
        self.stats.timeouts += 1;
        let again = self.attempts.timeouts() > 0;
        if !probing {
            self.attempts.timed_out();
        }
        self.rtt.retransmitted();
        self.rtt.back_off();
        if opening || self.is_half_open() {
            return self.pending.request_syn();
        }
        self.forget_mtu_probe();
        if self.attempts.timeouts() > self.config.retries1 {
            self.suspect_black_hole(now);
        }
        let (loss, mut context) = self.loss_context(now);
        loss.on_timeout(&mut context, again);
        self.pass_on_cwr();
        self.start_retransmit(now);
        self.pending.request_poll();
    }

    /// The peer has sent something since the timer was last backed off, or a little earlier.
    fn heard_lately(&self, now: Instant) -> bool {
        self.progress.heard_within(now, self.config.rto_max * 2)
    }

    /// RFC 8985 7.3: at most one probe is in flight.
    fn loss_probe_timeout(&mut self, now: Instant) {
        if self.loss.may_probe() {
            self.pending.request_tail_probe();
        } else {
            self.resume_retransmit(now);
        }
    }

    /// RFC 8985 6.3.
    fn reordering_timeout(&mut self, now: Instant) {
        let (loss, mut context) = self.loss_context(now);
        let wait = loss.on_reordering_timeout(&mut context);
        self.pass_on_cwr();
        if self.loss.take_mtu_probe_loss() {
            self.mtu_probe_lost(now);
        }
        match wait {
            Some(wait) => self.timers.set(TcpTimer::Reordering, now + wait),
            None => self.resume_retransmit(now),
        }
        self.pending.request_poll();
    }

    /// RFC 9293 3.8.6.1: a closed window is probed for as long as the peer answers. An orphan is
    /// given up when its probes are `rto_max` apart, as on Linux. Otherwise a peer that never reads
    /// would keep it, and its memory, for ever.
    fn persist_timeout(&mut self, now: Instant) {
        let wait = self.rtt.backed_off(self.attempts.window_probes());
        let is_spent = self.durable.has(durable::ORPHAN) && wait >= self.config.rto_max;
        let unanswered = self.attempts.unanswered() >= self.retry_limit();
        if is_spent || unanswered || self.is_user_timeout(now) {
            return self.give_up();
        }
        if self.durable.send_edge().after(self.durable.snd_max) {
            // As Linux: it has waited long enough.
            return self.pending.request_small_push();
        }
        self.attempts.window_probe_sent();
        self.stats.window_probes += 1;
        self.timers
            .set(TcpTimer::Persist, now + self.rtt.backed_off(self.attempts.window_probes()));
        self.pending.request_probe();
    }

    /// RFC 9293 3.8.4.
    fn keep_alive_timeout(&mut self, now: Instant) {
        let Some(keep_alive) = self.config.keep_alive else { return };
        let quiet = now - self.progress.heard_at();
        let in_flight = self.durable.snd_una != self.durable.snd_max || self.send.unsent() > 0;
        if quiet < keep_alive.idle || in_flight {
            // Data in flight proves the peer's life, or its death, by itself.
            let at = if in_flight { now } else { self.progress.heard_at() };
            return self.timers.set(TcpTimer::KeepAlive, at + keep_alive.idle);
        }
        let spent = match self.config.user_timeout {
            Some(timeout) => quiet >= timeout && self.attempts.keep_alive_probes() > 0,
            None => self.attempts.keep_alive_probes() >= keep_alive.probes,
        };
        if spent {
            // As Linux: should the peer live after all, it learns.
            let reset = self.reset(now);
            self.give_up();
            return self.pending.request_final(reset);
        }
        self.attempts.keep_alive_probe_sent();
        self.stats.keep_alive_probes += 1;
        self.timers.set(TcpTimer::KeepAlive, now + keep_alive.interval);
        self.pending.request_probe();
    }

    fn retry_limit(&self) -> u8 {
        if self.durable.has(durable::ORPHAN) {
            self.config.orphan_retries
        } else {
            self.config.retries
        }
    }

    fn is_user_timeout(&self, now: Instant) -> bool {
        self.config.user_timeout.is_some_and(|timeout| now - self.progress.made_at() >= timeout)
    }

    /// Starts the retransmission timer; the user timeout may end sooner.
    pub(super) fn start_retransmit(&mut self, now: Instant) {
        self.retransmit_in(now, self.rtt.timeout());
    }

    fn retransmit_in(&mut self, now: Instant, time: Duration) {
        let at = now + time;
        let end = self.config.user_timeout.map(|timeout| self.progress.made_at() + timeout);
        let at = end.filter(|end| *end > now).map_or(at, |end| end.min(at));
        self.timers.set(TcpTimer::Retransmit, at);
    }

    /// Starts the retransmission timer as if it had run since the first segment was last sent. A
    /// probe timer or the reordering timer ran in its place (RFC 8985 7.3).
    pub(super) fn resume_retransmit(&mut self, now: Instant) {
        match self.loss.rto_left(now, self.rtt.timeout()) {
            Some(left) => self.retransmit_in(now, left.max(Duration::from_micros(1))),
            None => self.timers.clear_sending(),
        }
    }

    /// Sets the timer that an ACK asks for (RFC 6298 5.2, 5.3).
    pub(super) fn set_timer_after_ack(&mut self, now: Instant, request: TimerRequest) {
        if self.loss.sent().is_empty() {
            // The handshake has timers of its own.
            if !self.state().opening() && !self.is_half_open() {
                self.timers.clear_sending();
            }
            return;
        }
        match request {
            // Data sent before the handshake's end has no timer but the handshake's.
            TimerRequest::Keep if !self.timers.is_sending() => self.start_retransmit(now),
            TimerRequest::Keep => {}
            TimerRequest::Reordering(wait) => self.timers.set(TcpTimer::Reordering, now + wait),
            TimerRequest::Retransmit(wait) => self.retransmit_in(now, wait),
            TimerRequest::Restart => {
                if !self.start_probe(now, self.rtt.timeout()) {
                    self.start_retransmit(now);
                }
            }
        }
    }

    /// Something new was sent: the timer for it.
    pub(super) fn time_new_data(&mut self, now: Instant, first: bool) {
        if first {
            self.start_retransmit(now);
        } else if self.timers.is_set(TcpTimer::LossProbe) {
            self.resume_retransmit(now);
        }
        let left = self.loss.rto_left(now, self.rtt.timeout()).unwrap_or_default();
        self.start_probe(now, left);
    }

    /// Starts the timer of a tail loss probe if this state allows one. The timer does not outlast
    /// the retransmission timer. True if it was started.
    fn start_probe(&mut self, now: Instant, most: Duration) -> bool {
        // Not during a handshake, whose own timer runs.
        if self.state().opening() {
            return false;
        }
        let (loss, context) = self.loss_context(now);
        let Some(time) = loss.probe_timeout(&context) else { return false };
        let time = if most.is_zero() { time } else { time.min(most) };
        self.timers.set(TcpTimer::LossProbe, now + time);
        true
    }

    pub(super) fn start_keep_alive(&mut self, now: Instant) {
        self.attempts.segment_received();
        match self.config.keep_alive {
            Some(keep_alive) if !self.state().opening() && self.state() != State::Closed => {
                self.timers.set(TcpTimer::KeepAlive, now + keep_alive.idle);
            }
            _ => self.timers.clear(TcpTimer::KeepAlive),
        }
    }

    fn give_up(&mut self) {
        self.end(Some(self.failure.of_timeout()));
    }
}
