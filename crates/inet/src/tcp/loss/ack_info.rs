//! The content of an ACK, and the findings of loss recovery about it.

use core::time::Duration;

use super::sent::DeliverySnapshot;
use crate::Instant;
use crate::tcp::congestion::AckSample;
use crate::tcp::sack_blocks::SackBlocks;
use crate::tcp::seq::Seq;

/// The content of an ACK.
#[derive(Debug, Clone, Copy)]
pub(in crate::tcp) struct ReceivedAck<'a> {
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

impl ReceivedAck<'_> {
    /// RFC 5681 2: it cannot be a duplicate.
    #[inline]
    pub(super) fn not_dup(&self) -> bool {
        self.data || self.window_update || self.ack != self.prior_una
    }

    /// It may show that a segment has left the network.
    #[inline]
    pub(in crate::tcp) fn is_duplicate(&self) -> bool {
        !self.not_dup()
    }
}

/// Which timer is to be set after an ACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::tcp) enum TimerRequest {
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

/// The outcome of an ACK.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::tcp) struct AckOutcome {
    pub(in crate::tcp) timer: TimerRequest,
    /// Segments newly acknowledged or sacked, and the sample of the delivery rate.
    pub(in crate::tcp) sample: Option<AckSample>,
}

/// Findings about an ACK so far.
#[derive(Debug, Default)]
pub(super) struct AckFindings {
    pub(super) una_advanced: bool,
    /// End of the highest segment that was sacked before this ACK, or SND.UNA: its own blocks do
    /// not make the acknowledged segments late.
    pub(super) prior_fack: Seq,
    /// Segments left the queue.
    pub(super) data_acked: bool,
    pub(super) data_sacked: bool,
    /// A segment that was never retransmitted was acknowledged or sacked, sent before `high_seq`.
    pub(super) original: bool,
    /// A retransmitted segment was acknowledged.
    pub(super) retransmitted_acked: bool,
    /// A retransmission was found lost.
    pub(super) lost_retransmission: bool,
    pub(super) dsack: bool,
    pub(super) dsack_of_probe: bool,
    /// The head of the queue is sacked, though not acknowledged.
    pub(super) reneging: bool,
    /// Lowest number that arrived after a later one.
    pub(super) reord: Option<Seq>,
    /// First and last transmission of the sacked segments.
    pub(super) first_sacked: Option<Instant>,
    pub(super) last_sacked: Option<Instant>,
    /// The newest segment delivered, for the rate sample.
    pub(super) newest: Option<(Instant, DeliverySnapshot)>,
    pub(super) timer: TimerRequest,
}

impl AckFindings {
    /// `ack` may show that a segment has left the network, and not by a report of duplicate data.
    #[inline]
    pub(super) fn is_duplicate(&self, ack: &ReceivedAck<'_>) -> bool {
        ack.is_duplicate() && !self.dsack
    }
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

/// An ACK whose segments are marked and removed.
#[derive(Debug)]
pub(in crate::tcp) struct AckProgress {
    pub(super) seen: AckFindings,
    pub(super) prior_delivered: u64,
    pub(super) prior_lost: u64,
    pub(super) prior_in_flight: u32,
    pub(super) was_empty: bool,
    pub(in crate::tcp) times: RttTimes,
}
