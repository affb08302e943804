//! What a connection does when a timer expires.

use super::congestion::Event as Congested;
use super::connection::Connection;
use super::durable;
use super::state::Event;
use super::timers::Timer;
use super::{SegmentRepr, State};
use crate::{Error, Instant, RxBytes, TxBytes};

impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// Acts on the timers that are due.
    pub fn handle_timer(&mut self, now: Instant) {
        while let Some(timer) = self.timers.take_due(now) {
            match timer {
                Timer::Retransmit => self.retransmission_timeout(now),
                Timer::Persist => self.persist_timeout(now),
                Timer::DelayedAck => self.wish(|wishes| wishes.ack = true),
                Timer::KeepAlive => self.keep_alive_timeout(now),
                Timer::Wait => self.change(Event::WaitOver),
            }
        }
    }

    /// RFC 6298 5.4 to 5.7; RFC 5681 3.1.
    fn retransmission_timeout(&mut self, now: Instant) {
        let limit = match self.state() {
            State::SynSent => self.config.syn_retries,
            State::SynReceived => self.config.synack_retries,
            _ => self.retry_limit(),
        };
        if self.retries >= limit || self.is_user_timeout(now) {
            return self.give_up();
        }
        self.stats.timeouts += 1;
        let first = self.retries == 0;
        self.retries += 1;
        self.rtt.retransmitted();
        self.clear_repeats = self.rtt.is_clear(now - self.sent_at);
        self.rtt.back_off();
        if self.state().opening() {
            return self.wish(|wishes| wishes.syn = true);
        }
        // RFC 5681 3.1: the threshold only once for the same data.
        if first {
            self.reduce_threshold(now);
        }
        self.window.cwnd = 1;
        self.window.cnt = 0;
        let nxt = self.durable.snd_max;
        self.congestion.on_event(&mut self.window, now, Congested::Loss { nxt });
        self.loss.on_timeout(self.durable.snd_max);
        // Go back: all that is in flight counts as lost.
        self.snd_nxt = self.durable.snd_una;
        self.send.rewind();
        self.wish(|wishes| wishes.head = false);
    }

    /// RFC 9293 3.8.6.1: a closed window is probed for as long as the peer answers.
    fn persist_timeout(&mut self, now: Instant) {
        if self.unanswered >= self.retry_limit() || self.is_user_timeout(now) {
            return self.give_up();
        }
        if self.durable.send_edge().after(self.snd_nxt) {
            return self.wish(|wishes| wishes.little = true);
        }
        self.probes += 1;
        self.unanswered += 1;
        self.stats.window_probes += 1;
        self.timers.set(Timer::Persist, now + self.rtt.backed_off(self.probes));
        self.wish(|wishes| wishes.probe = true);
    }

    /// RFC 9293 3.8.4.
    fn keep_alive_timeout(&mut self, now: Instant) {
        let Some(keep_alive) = self.config.keep_alive else { return };
        let quiet = now - self.heard_at;
        let in_flight = self.durable.snd_una != self.durable.snd_max || self.send.unsent() > 0;
        if quiet < keep_alive.idle || in_flight {
            // What is in flight proves the peer's life, or its death, by itself.
            let at = if in_flight { now } else { self.heard_at };
            return self.timers.set(Timer::KeepAlive, at + keep_alive.idle);
        }
        let spent = match self.config.user_timeout {
            Some(timeout) => quiet >= timeout && self.keep_alive_probes > 0,
            None => self.keep_alive_probes >= keep_alive.probes,
        };
        if spent {
            // As Linux: should the peer live after all, it learns.
            let reset = SegmentRepr { rst: true, ..self.bare(self.durable.snd_max) };
            self.give_up();
            return self.wish(|wishes| wishes.farewell = Some(reset));
        }
        self.keep_alive_probes += 1;
        self.stats.keep_alive_probes += 1;
        self.timers.set(Timer::KeepAlive, now + keep_alive.interval);
        self.wish(|wishes| wishes.probe = true);
    }

    fn retry_limit(&self) -> u8 {
        if self.durable.has(durable::ORPHAN) {
            self.config.orphan_retries
        } else {
            self.config.retries
        }
    }

    fn is_user_timeout(&self, now: Instant) -> bool {
        self.config.user_timeout.is_some_and(|timeout| now - self.progress_at >= timeout)
    }

    /// Starts the retransmission timer; the user timeout may end sooner.
    pub(super) fn start_retransmit(&mut self, now: Instant) {
        let at = now + self.rtt.timeout();
        let end = self.config.user_timeout.map(|timeout| self.progress_at + timeout);
        let at = end.filter(|end| *end > now).map_or(at, |end| end.min(at));
        self.timers.set(Timer::Retransmit, at);
    }

    pub(super) fn start_keep_alive(&mut self, now: Instant) {
        self.keep_alive_probes = 0;
        match self.config.keep_alive {
            Some(keep_alive) if !self.state().opening() && self.state() != State::Closed => {
                self.timers.set(Timer::KeepAlive, now + keep_alive.idle);
            }
            _ => self.timers.clear(Timer::KeepAlive),
        }
    }

    fn give_up(&mut self) {
        let error = self.soft_error.unwrap_or(Error::TimedOut);
        self.end(Some(error));
    }
}
