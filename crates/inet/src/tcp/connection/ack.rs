//! An arriving acknowledgement (RFC 9293 3.10.7.4, fifth check).
//!
//! This module moves the connection's numbers, the peer's window, the round-trip time and the
//! timers. Loss recovery ([`loss`](crate::tcp::loss)) judges losses and the congestion window.

use core::time::Duration;

use super::check::{SegmentCheck, WindowChange};
use super::{Connection, SegmentReply};
use crate::tcp::congestion::RttSample;
use crate::tcp::durable;
use crate::tcp::loss::ReceivedAck;
use crate::tcp::segment::SegmentRepr;
use crate::tcp::seq::Seq;
use crate::tcp::state::{State, StateEvent};
use crate::tcp::timers::TcpTimer;
use crate::tcp::timestamps;
use crate::{Instant, RxBytes, TxBytes};

impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// Fifth check: ACK.
    pub(super) fn check_ack(
        &mut self,
        now: Instant,
        segment: &SegmentRepr,
        len: usize,
    ) -> SegmentCheck {
        let Some(ack) = segment.ack else { return SegmentCheck::Done(SegmentReply::None) };
        let (una, max) = (self.durable.snd_una, self.durable.snd_max);
        if self.state() == State::SynReceived {
            if ack.at_or_before(una) || ack.after(self.syn_edge()) {
                return SegmentCheck::Done(SegmentReply::reset(segment, len));
            }
            self.take_syn_data(ack);
            self.change(StateEvent::AckOfSyn);
            self.set_window(segment);
            self.take_ack(now, segment, ack, len, WindowChange::Updated);
            self.established(now);
            self.lose_syn_data(now);
            return SegmentCheck::Pass;
        }
        // RFC 5961 5.2.
        if ack.after(max) || ack.before(una - self.peer_window.max()) {
            self.stats.unacceptable += 1;
            self.challenge(now, len > 0);
            return SegmentCheck::Done(SegmentReply::None);
        }
        self.attempts.answered();
        let update = self.peer_window.is_updated_by(&self.durable, segment, ack);
        let change = match update && self.set_window(segment) {
            true => WindowChange::Reopened,
            false if update => WindowChange::Updated,
            false => WindowChange::None,
        };
        self.take_ack(now, segment, ack, len, change);
        if self.state() == State::Closed {
            return SegmentCheck::Done(SegmentReply::None);
        }
        SegmentCheck::Pass
    }

    /// Whether the window was closed until now.
    fn set_window(&mut self, segment: &SegmentRepr) -> bool {
        let update = self.peer_window.update(&mut self.durable, segment);
        if update.admits_more {
            self.timers.clear(TcpTimer::Persist);
            self.attempts.window_opened();
        }
        self.pending.request_poll();
        update.reopened
    }

    /// Handles an acceptable ACK. SACK blocks of an old one still count.
    pub(super) fn take_ack(
        &mut self,
        now: Instant,
        segment: &SegmentRepr,
        ack: Seq,
        len: usize,
        change: WindowChange,
    ) {
        self.nagle.ack_received();
        let prior_una = self.durable.snd_una;
        let advances = ack.after(prior_una);
        let old = ack.before(prior_una);
        if old && (!self.durable.has(durable::SACK) || segment.sack.is_empty()) {
            return;
        }
        let update = change != WindowChange::None;
        let field_changed = self.peer_window.note_field(segment.window);
        let window = update && (advances || field_changed);
        let stamped = self.durable.has(durable::TIMESTAMPS);
        let echo = segment.timestamps.map(|t| t.echo).filter(|echo| stamped && *echo != 0);
        let received = ReceivedAck {
            ack,
            prior_una,
            blocks: &segment.sack,
            data: len > 0 || segment.fin,
            window_update: window,
            ece: self.ecn.is_echo(segment),
            echo,
        };
        if received.is_duplicate() && !self.loss.sent().is_empty() {
            self.stats.duplicate_acks += 1;
        }
        let fin_acked = advances && self.advance(now, ack, segment);
        if advances {
            self.check_mtu_probe();
        }
        let (loss, mut context) = self.loss_context(now);
        let progress = loss.take_ack(&mut context, &received);
        let times = progress.times;
        let echoed = timestamps::echoed(&self.durable, now, segment).filter(|_| times.acked);
        if let Some(rtt) = times.first.or(echoed) {
            let newest = times.last.unwrap_or(rtt);
            self.rtt.sample(now, rtt, newest);
            self.take_rtt(now, Some(newest));
        }
        let (loss, mut context) = self.loss_context(now);
        let out = loss.judge_ack(&mut context, &received, progress);
        if let Some(sample) = out.sample {
            self.congestion.on_ack(now, &sample);
        }
        self.pass_on_cwr();
        if self.loss.take_mtu_probe_loss() {
            self.mtu_probe_lost(now);
        }
        if change == WindowChange::Reopened {
            self.loss.window_reopened();
        }
        self.set_timer_after_ack(now, out.timer);
        self.pending.request_poll();
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
        self.urgent.acked(self.durable.acked);
        if syn_acked {
            let rtt = self.rtt.syn_acked(ack, now, timestamps::echoed(&self.durable, now, segment));
            self.take_rtt(now, rtt);
            self.loss.syn_delivered(now);
            self.timers.clear(TcpTimer::Retransmit);
        } else {
            self.attempts.clear_timeouts();
        }
        self.progress.restart(now);
        self.failure.forget_report();
        self.timers.clear(TcpTimer::Persist);
        self.attempts.window_opened();
        fin_acked
    }

    /// Our FIN is acknowledged.
    fn fin_acked(&mut self, now: Instant) {
        self.change(StateEvent::AckOfFin);
        match self.state() {
            State::TimeWait => self.start_time_wait(now),
            State::FinWait2 if self.durable.has(durable::ORPHAN) => {
                self.timers.set(TcpTimer::Wait, now + self.config.fin_timeout);
            }
            _ => {}
        }
    }

    /// Sets whether the next new data tells the peer of a window reduction (CWR).
    pub(super) fn pass_on_cwr(&mut self) {
        if let Some(due) = self.loss.take_cwr() {
            self.ecn.set_cwr_due(due);
        }
    }

    /// An ACK gave a round-trip time.
    fn take_rtt(&mut self, now: Instant, rtt: Option<Duration>) {
        let Some(rtt) = rtt else { return };
        self.congestion.on_rtt(&RttSample {
            now,
            rtt: rtt.max(Duration::from_micros(1)),
            una: self.durable.snd_una,
            nxt: self.durable.snd_max,
            mss: u32::from(self.durable.snd_mss),
        });
    }
}
