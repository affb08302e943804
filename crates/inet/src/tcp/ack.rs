//! What an acknowledgement does to a connection (RFC 9293 3.10.7.4, fifth check).
//!
//! What it means for losses and the congestion window is `loss`'s; here are the numbers of the
//! connection, the peer's window, the round-trip time and the timers.

use core::time::Duration;

use super::connection::{Connection, Reply};
use super::durable;
use super::input::Check;
use super::loss::{AckIn, Env, Recovery};
use super::state::Event;
use super::timers::Timer;
use super::{SegmentRepr, Seq, State};
use crate::{Instant, RxBytes, TxBytes};

/// What a segment does to the peer's window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WindowNews {
    /// It is too old to count.
    None,
    /// It sets it.
    Updated,
    /// It opens one that was closed.
    Reopened,
}

impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// Fifth check: ACK.
    pub(super) fn check_ack(&mut self, now: Instant, segment: &SegmentRepr, len: usize) -> Check {
        let Some(ack) = segment.ack else { return Check::Done(Reply::None) };
        let (una, max) = (self.durable.snd_una, self.durable.snd_max);
        if self.state() == State::SynReceived {
            if ack.at_or_before(una) || ack.after(self.syn_edge()) {
                return Check::Done(super::input::reset(segment, len));
            }
            self.take_syn_data(ack);
            self.change(Event::AckOfSyn);
            self.set_window(segment);
            self.take_ack(now, segment, ack, len, WindowNews::Updated);
            self.established(now);
            self.lose_syn_data(now);
            return Check::Pass;
        }
        // RFC 5961 5.2.
        if ack.after(max) || ack.before(una - self.window_max) {
            self.stats.unacceptable += 1;
            self.challenge(now, len > 0);
            return Check::Done(Reply::None);
        }
        self.unanswered = 0;
        // RFC 9293 3.10.7.4 with Linux's last clause: of two ACKs with the same numbers that
        // changed places, the larger window is the younger.
        let window = u32::from(segment.window) << self.durable.snd_scale;
        let update = ack.after(una)
            || (ack == una
                && (segment.seq.after(self.window_seq)
                    || (segment.seq == self.window_seq && window > self.durable.snd_wnd)));
        let news = match update && self.set_window(segment) {
            true => WindowNews::Reopened,
            false if update => WindowNews::Updated,
            false => WindowNews::None,
        };
        self.take_ack(now, segment, ack, len, news);
        if self.state() == State::Closed {
            return Check::Done(Reply::None);
        }
        Check::Pass
    }

    /// Whether the window was closed until now.
    fn set_window(&mut self, segment: &SegmentRepr) -> bool {
        let was_closed = self.durable.snd_wnd == 0;
        let was_open = self.durable.send_edge().after(self.durable.snd_max);
        self.durable.snd_wnd = u32::from(segment.window) << self.durable.snd_scale;
        self.window_seq = segment.seq;
        self.window_max = self.window_max.max(self.durable.snd_wnd);
        if !was_open && self.durable.send_edge().after(self.durable.snd_max) {
            self.timers.clear(Timer::Persist);
            self.probes = 0;
        }
        self.wish(|_| {});
        was_closed && self.durable.snd_wnd > 0
    }

    /// Takes an acceptable ACK; it may be an old one, whose SACK blocks still count.
    pub(super) fn take_ack(
        &mut self,
        now: Instant,
        segment: &SegmentRepr,
        ack: Seq,
        len: usize,
        news: WindowNews,
    ) {
        // As Linux: what waits for a writer's next bytes waits for the next ACK at most.
        self.more = false;
        let prior_una = self.durable.snd_una;
        let advances = ack.after(prior_una);
        let old = ack.before(prior_una);
        if old && (!self.durable.has(durable::SACK) || segment.sack.is_empty()) {
            return;
        }
        let update = news != WindowNews::None;
        let window = update && (advances || self.window_field != segment.window);
        self.window_field = segment.window;
        let stamped = self.durable.has(durable::TIMESTAMPS);
        let echo = segment.timestamps.map(|t| t.echo).filter(|echo| stamped && *echo != 0);
        let said = AckIn {
            ack,
            prior_una,
            blocks: &segment.sack,
            data: len > 0 || segment.fin,
            window_update: window,
            ece: self.ecn.is_echo(segment),
            echo,
        };
        if said.is_duplicate() && !self.loss.sent.is_empty() {
            self.stats.duplicate_acks += 1;
        }
        let fin_acked = advances && self.advance(now, ack, segment);
        if advances {
            self.judge_mtu_probe();
        }
        let (loss, mut env) = self.loss_env(now);
        let taken = loss.take_ack(&mut env, &said);
        let times = taken.times;
        let echoed = self.echoed(now, segment).filter(|_| times.acked);
        if let Some(rtt) = times.first.or(echoed) {
            let newest = times.last.unwrap_or(rtt);
            self.rtt.sample(now, rtt, newest);
            self.take_rtt(now, Some(newest));
        }
        let (loss, mut env) = self.loss_env(now);
        let out = loss.judge_ack(&mut env, &said, taken);
        if let Some(sample) = out.sample {
            self.window.delivered(now);
            if self.window.is_limited() {
                self.congestion.on_ack(&mut self.window, &sample);
            }
        }
        self.owe_cwr();
        if core::mem::take(&mut self.loss.mtu_probe_lost) {
            self.mtu_probe_lost(now);
        }
        if news == WindowNews::Reopened {
            self.loss.window_reopened();
        }
        self.follow(now, out.timer);
        self.wish(|_| {});
        if fin_acked {
            self.fin_acked(now);
        }
    }

    /// `ack` acknowledges something new: the connection's own numbers. Whether that is our FIN.
    fn advance(&mut self, now: Instant, ack: Seq, segment: &SegmentRepr) -> bool {
        let fin_acked = self.fin_seq().is_some_and(|fin| ack.after(fin));
        let syn_acked = self.durable.snd_una == self.durable.iss && self.durable.acked == 0;
        let bytes = ack.since(self.durable.snd_una) - u32::from(syn_acked) - u32::from(fin_acked);
        self.durable.snd_una = ack;
        self.durable.acked += u64::from(bytes);
        self.send.acked_to(self.durable.acked);
        self.urgent_acked();
        if syn_acked {
            let rtt = self.rtt.syn_acked(ack, now, self.echoed(now, segment));
            self.take_rtt(now, rtt);
            self.loss.syn_delivered(now);
            self.timers.clear(Timer::Retransmit);
        } else {
            self.retries = 0;
        }
        self.progress_at = now;
        self.soft_error = None;
        self.timers.clear(Timer::Persist);
        self.probes = 0;
        fin_acked
    }

    /// Our FIN is acknowledged.
    fn fin_acked(&mut self, now: Instant) {
        self.change(Event::AckOfFin);
        match self.state() {
            State::TimeWait => self.start_time_wait(now),
            State::FinWait2 if self.durable.has(durable::ORPHAN) => {
                self.timers.set(Timer::Wait, now + self.config.fin_timeout);
            }
            _ => {}
        }
    }

    /// The time since the timestamp that `segment` echoes was sent (RFC 7323 4.1).
    fn echoed(&self, now: Instant, segment: &SegmentRepr) -> Option<Duration> {
        let timestamps = segment.timestamps.filter(|t| t.echo != 0)?;
        let age = self.timestamp(now).wrapping_sub(timestamps.echo).cast_signed();
        let millis = u64::try_from(age).ok()?;
        self.durable.has(durable::TIMESTAMPS).then(|| Duration::from_millis(millis))
    }

    /// Tells the peer of a window reduction with the next new data, or does not any more.
    pub(super) fn owe_cwr(&mut self) {
        if let Some(owed) = self.loss.take_cwr() {
            self.ecn.owe_cwr(owed);
        }
    }

    /// The recovery, and what it needs of the rest.
    pub(super) fn loss_env(&mut self, now: Instant) -> (&mut Recovery, Env<'_>) {
        let can_send_new =
            self.has_unsent() && self.durable.send_edge().after(self.durable.snd_max);
        let env = Env {
            now,
            una: self.durable.snd_una,
            nxt: self.durable.snd_max,
            mss: u32::from(self.durable.snd_mss).max(1),
            sack: self.durable.has(durable::SACK),
            can_send_new,
            max_window: self.window_max,
            window: &mut self.window,
            congestion: &mut *self.congestion,
            rtt: &self.rtt,
            config: &self.config,
            stats: &mut self.stats,
        };
        (&mut self.loss, env)
    }
}
