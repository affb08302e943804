//! One ACK, from its SACK blocks to the window.

use core::time::Duration;

use super::{CaState, Env, Recovery, Repeat, SackBlocks};
use crate::Instant;
use crate::tcp::Seq;
use crate::tcp::congestion::AckSample;

/// What an ACK says.
#[derive(Debug, Clone, Copy)]
pub(in crate::tcp) struct AckIn<'a> {
    pub(in crate::tcp) ack: Seq,
    /// SND.UNA before it.
    pub(in crate::tcp) prior_una: Seq,
    pub(in crate::tcp) blocks: &'a SackBlocks,
    /// It comes with payload, or changes the window.
    pub(in crate::tcp) data: bool,
    pub(in crate::tcp) window_update: bool,
    /// It echoes congestion (RFC 3168 6.1.2).
    pub(in crate::tcp) ece: bool,
    /// The timestamp that it echoes, if one was sent.
    pub(in crate::tcp) echo: Option<u32>,
}

impl AckIn<'_> {
    /// RFC 5681 2: it cannot be a duplicate.
    pub(super) fn not_dup(&self) -> bool {
        self.data || self.window_update || self.ack != self.prior_una
    }

    /// It may tell that something has left the network.
    pub(in crate::tcp) fn is_duplicate(&self) -> bool {
        !self.not_dup()
    }
}

/// Which timer is to be set after an ACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::tcp) enum TimerWish {
    /// The one that runs.
    #[default]
    Keep,
    /// A tail loss probe, or else the retransmission timer, anew.
    Restart,
    /// RACK's reordering timer, in so long.
    Reordering(Duration),
    /// The retransmission timer, in so long: the peer seems to have reneged.
    Retransmit(Duration),
}

/// What an ACK amounts to.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::tcp) struct AckOut {
    pub(in crate::tcp) timer: TimerWish,
    /// Segments newly acknowledged or sacked, and the sample of the delivery rate.
    pub(in crate::tcp) sample: Option<AckSample>,
}

/// What has been seen of an ACK so far.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) una_advanced: bool,
    /// End of the highest segment that was sacked before this ACK, or SND.UNA: its own blocks do
    /// not make what it acknowledges late.
    pub(super) prior_fack: Seq,
    /// Segments left the queue.
    pub(super) data_acked: bool,
    pub(super) data_sacked: bool,
    /// One that was never sent again was acknowledged or sacked, sent before `high_seq`.
    pub(super) original: bool,
    /// One that was sent again was acknowledged.
    pub(super) repeated_acked: bool,
    /// A repetition was found lost.
    pub(super) lost_repetition: bool,
    pub(super) dsack: bool,
    pub(super) dsack_of_probe: bool,
    /// The head of the queue is sacked, though not acknowledged.
    pub(super) reneging: bool,
    /// Lowest number that arrived after a later one.
    pub(super) reord: Option<Seq>,
    /// First and last transmission of what was sacked.
    pub(super) first_sacked: Option<Instant>,
    pub(super) last_sacked: Option<Instant>,
    /// The newest segment delivered, for the rate sample.
    pub(super) newest: Option<(Instant, super::Snapshot)>,
    pub(super) timer: TimerWish,
}

/// Round-trip times that an ACK gives.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::tcp) struct RttTimes {
    /// Of the first segment that it acknowledges, or sacks.
    pub(in crate::tcp) first: Option<Duration>,
    /// Of the last.
    pub(in crate::tcp) last: Option<Duration>,
    /// An echoed timestamp may be used instead.
    pub(in crate::tcp) acked: bool,
}

/// An ACK half taken.
#[derive(Debug)]
pub(in crate::tcp) struct Taken {
    seen: Seen,
    prior_delivered: u64,
    prior_lost: u64,
    prior_in_flight: u32,
    was_empty: bool,
    pub(in crate::tcp) times: RttTimes,
}

impl Recovery {
    /// First half: marks and removes segments. The round-trip time is to be updated before the
    /// second.
    pub(in crate::tcp) fn take_ack(&mut self, env: &mut Env<'_>, ack: &AckIn<'_>) -> Taken {
        let mut taken = Taken {
            seen: Seen {
                una_advanced: ack.ack.after(ack.prior_una),
                prior_fack: if self.sent.sacked_out == 0 { ack.prior_una } else { self.fack },
                ..Seen::default()
            },
            prior_delivered: self.delivered,
            prior_lost: self.lost,
            prior_in_flight: self.sent.in_flight(),
            was_empty: self.sent.is_empty(),
            times: RttTimes::default(),
        };
        self.repeat = Repeat::Nothing;
        if env.sack && !ack.blocks.is_empty() {
            self.tag(env, ack, &mut taken.seen);
        }
        if !taken.was_empty {
            taken.times = self.clean(env, &mut taken.seen);
        }
        taken
    }

    /// Second half: what it means.
    pub(in crate::tcp) fn judge_ack(
        &mut self,
        env: &mut Env<'_>,
        ack: &AckIn<'_>,
        taken: Taken,
    ) -> AckOut {
        let Taken { mut seen, prior_delivered, prior_lost, prior_in_flight, was_empty, times } =
            taken;
        let newest = seen.newest;
        if let Some((_, snapshot)) = newest.filter(|_| env.config.adapts_reordering()) {
            self.rack.update_window(snapshot.delivered, self.delivered);
        }
        if was_empty {
            // Only a DSACK can mean something now.
            self.judge_probe(env, ack, &seen);
            return AckOut::default();
        }
        if seen.data_acked {
            seen.timer = TimerWish::Restart;
        } else if self.measured_after_head(env, times, &seen) {
            // The head was sent again since: the timeout counts from now.
            seen.timer = TimerWish::Restart;
        }
        self.judge_probe(env, ack, &seen);
        let alert = seen.data_sacked || seen.dsack || ack.ece;
        if !ack.not_dup() || alert || self.state != CaState::Open {
            self.alert(env, ack, &mut seen);
        }
        let delivered = (self.delivered - prior_delivered) as u32;
        let sample = self.sample(env, delivered, prior_in_flight, newest);
        if self.reducing() {
            let safe = seen.una_advanced && self.lost == prior_lost && !ack.ece;
            self.reduce(env, delivered, safe);
            return AckOut { timer: seen.timer, sample: None };
        }
        // With known reordering, SACKs are progress as well.
        let known = self.reordering > u32::from(env.config.reordering);
        let may_grow = seen.data_acked || (known && seen.data_sacked);
        AckOut { timer: seen.timer, sample: sample.filter(|_| may_grow) }
    }

    /// Only SACKs, of what was sent after the head was last sent.
    fn measured_after_head(&self, env: &Env<'_>, times: super::ack::RttTimes, seen: &Seen) -> bool {
        let head = self.sent.head().map(|head| env.now - head.at);
        seen.first_sacked.is_some()
            && times.first.zip(head).is_some_and(|(sampled, head)| sampled > head)
    }

    /// RFC 9438's and BBR's view of the ACK.
    fn sample(
        &self,
        env: &Env<'_>,
        acked: u32,
        in_flight: u32,
        newest: Option<(Instant, super::Snapshot)>,
    ) -> Option<AckSample> {
        if acked == 0 {
            return None;
        }
        let (delivered, interval) = newest.map_or((acked, Duration::ZERO), |(sent, then)| {
            let sending = sent - then.first_sent;
            let arriving = env.now - then.delivered_at;
            ((self.delivered - then.delivered) as u32, sending.max(arriving))
        });
        Some(AckSample { now: env.now, acked, in_flight, delivered, interval })
    }
}
