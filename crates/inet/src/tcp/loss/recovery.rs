//! The state of loss recovery; transmissions and timeouts in it.

mod ack;
mod alert;
mod clean;
pub(super) mod dormant;
mod rack;
mod sack;
mod tlp;
mod undo;

use core::time::Duration;

use super::ca_state::{CaState, RetransmitPolicy};
use super::context::LossContext;
use super::rack::RackState;
use super::sent::{DeliverySnapshot, SentQueue, SentSegment};
use crate::Instant;
use crate::tcp::config::TcpConfig;
use crate::tcp::congestion::Prr;
use crate::tcp::sack_blocks::SackBlocks;
use crate::tcp::send_queue::WriteMarks;
use crate::tcp::seq::Seq;

/// A tail loss probe in flight (RFC 8985 7.2).
#[derive(Debug, Clone, Copy)]
struct TailLossProbe {
    /// SND.NXT when it was sent.
    end: Seq,
    /// It retransmitted a segment.
    retransmitted: bool,
}

/// The sender's memory of segments in flight, and of losses.
#[derive(Debug)]
pub(in crate::tcp) struct LossRecovery {
    sent: SentQueue,
    state: CaState,
    /// SND.NXT when the state began.
    high_seq: Seq,
    /// SND.UNA when the recovery began, as long as it can be undone.
    undo_marker: Option<Seq>,
    /// Retransmissions of this recovery that are not known to have been unnecessary; `None` before
    /// the first.
    undo_retrans: Option<u32>,
    /// Own timestamp when the first retransmission of this recovery left.
    retrans_stamp: Option<u32>,
    /// Segments that may overtake each other, and whether that was ever seen.
    reordering: u32,
    reord_seen: u32,
    rack: RackState,
    probe: Option<TailLossProbe>,
    /// F-RTO is at work.
    frto: bool,
    /// The peer has reneged, and the recovery from that is not over.
    reneging: bool,
    prr: Option<Prr>,
    /// End of the highest segment that was ever sacked; counts if any is.
    fack: Seq,
    /// SACK blocks of the last ACK.
    cache: SackBlocks,
    /// Segments delivered, and held to be lost, in total.
    delivered: u64,
    lost: u64,
    delivered_at: Instant,
    first_sent: Instant,
    dsack_dups: u64,
    total_retrans: u64,
    /// CWR is to be sent to the peer because the window was reduced, or not any more.
    cwr: Option<bool>,
    retransmit_policy: RetransmitPolicy,
    /// Start of a probe of the path's MTU in flight, and whether its loss was found.
    mtu_probe: Option<Seq>,
    mtu_probe_lost: bool,
}

impl LossRecovery {
    pub(in crate::tcp) fn new(now: Instant, config: &TcpConfig) -> Self {
        Self {
            sent: SentQueue::new(),
            state: CaState::Open,
            high_seq: Seq::default(),
            undo_marker: None,
            undo_retrans: None,
            retrans_stamp: None,
            reordering: u32::from(config.reordering),
            reord_seen: 0,
            rack: RackState::default(),
            probe: None,
            frto: false,
            reneging: false,
            prr: None,
            fack: Seq::default(),
            cache: SackBlocks::default(),
            delivered: 0,
            lost: 0,
            delivered_at: now,
            first_sent: now,
            dsack_dups: 0,
            total_retrans: 0,
            cwr: None,
            retransmit_policy: RetransmitPolicy::Nothing,
            mtu_probe: None,
            mtu_probe_lost: false,
        }
    }

    /// The segments that are sent and not acknowledged.
    #[inline]
    pub(in crate::tcp) fn sent(&self) -> &SentQueue {
        &self.sent
    }

    /// Index of the first segment to be retransmitted.
    #[inline]
    pub(in crate::tcp) fn next_to_retransmit(&mut self) -> Option<usize> {
        self.sent.next_to_retransmit()
    }

    /// Cuts the segment at `index` in two, the first of `len` bytes.
    pub(in crate::tcp) fn split(&mut self, index: usize, len: u32) {
        self.sent.split(index, len);
    }

    /// Segments that may be retransmitted in answer to the last ACK, before anything else.
    #[inline]
    pub(in crate::tcp) fn retransmit_policy(&self) -> RetransmitPolicy {
        self.retransmit_policy
    }

    /// A probe of the path's MTU that begins at `start` was sent. `None` ends the watch.
    pub(in crate::tcp) fn watch_mtu_probe(&mut self, start: Option<Seq>) {
        self.mtu_probe = start;
    }

    /// Whether the loss of that probe was found since the last call.
    #[inline]
    pub(in crate::tcp) fn take_mtu_probe_loss(&mut self) -> bool {
        core::mem::take(&mut self.mtu_probe_lost)
    }

    #[inline]
    pub(in crate::tcp) fn state(&self) -> CaState {
        self.state
    }

    /// Segments that may overtake each other (`tcpi_reordering`).
    #[inline]
    pub(in crate::tcp) fn reordering(&self) -> u32 {
        self.reordering
    }

    /// This side's SYN has arrived. With the data that it brought, it counts as one segment.
    pub(in crate::tcp) fn syn_delivered(&mut self, now: Instant) {
        self.delivered += 1;
        self.delivered_at = now;
    }

    /// Segments delivered in total (`tcpi_delivered`).
    pub(in crate::tcp) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// How often a reordering was seen (`tcpi_reord_seen`).
    pub(in crate::tcp) fn reord_seen(&self) -> u32 {
        self.reord_seen
    }

    /// Duplicates that were reported (`tcpi_dsack_dups`).
    pub(in crate::tcp) fn dsack_dups(&self) -> u64 {
        self.dsack_dups
    }

    /// The window follows [`Prr`], not the algorithm.
    #[inline]
    pub(in crate::tcp) fn reducing(&self) -> bool {
        matches!(self.state, CaState::Cwr | CaState::Recovery)
    }

    /// Whether CWR is to be sent for a reduction (RFC 3168 6.1.2), if that is new.
    #[inline]
    pub(in crate::tcp) fn take_cwr(&mut self) -> Option<bool> {
        self.cwr.take()
    }

    /// The counts to be remembered with a segment sent now.
    fn snapshot(&mut self, now: Instant) -> DeliverySnapshot {
        if self.sent.in_flight() == 0 {
            self.first_sent = now;
            self.delivered_at = now;
        }
        DeliverySnapshot {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
        }
    }

    /// `len` bytes from `start` on were sent for the first time, in segments of `mss` bytes. The
    /// last segment has `marks`, and a FIN if `fin`.
    pub(in crate::tcp) fn on_sent(
        &mut self,
        now: Instant,
        (start, len, fin): (Seq, u32, bool),
        mss: u32,
        marks: WriteMarks,
    ) {
        if self.retransmit_policy == RetransmitPolicy::NewFirst {
            // F-RTO has its new data: now the answer counts.
            self.retransmit_policy = RetransmitPolicy::Nothing;
        }
        let snapshot = self.snapshot(now);
        let count = self.sent.push((start, len, fin), mss.max(1), (now, snapshot), marks);
        self.count_for_reduction(count);
    }

    /// The segment at `index` was retransmitted. If it is not marked lost, this was a probe, which
    /// no recovery counts. `stamp` is this side's timestamp in it. For `unambiguous` see
    /// [`SentQueue::retransmit`].
    pub(in crate::tcp) fn on_retransmitted(
        &mut self,
        now: Instant,
        index: usize,
        stamp: u32,
        unambiguous: bool,
    ) {
        let lost = self.sent.get(index).is_some_and(SentSegment::lost);
        let snapshot = self.snapshot(now);
        self.sent.retransmit(index, now, snapshot, unambiguous);
        self.total_retrans += 1;
        if !lost {
            return;
        }
        self.retrans_stamp.get_or_insert(stamp);
        self.undo_retrans = Some(self.undo_retrans.unwrap_or(0) + 1);
        self.count_for_reduction(1);
    }

    fn count_for_reduction(&mut self, segments: u32) {
        if self.reducing()
            && let Some(prr) = &mut self.prr
        {
            prr.sent(segments);
        }
    }

    /// The retransmission timer expired (RFC 6298 5.4 to 5.6, RFC 5681 3.1, RFC 5682 2.1 step 1).
    /// `again` if it had expired for the same data before.
    pub(in crate::tcp) fn on_timeout(&mut self, context: &mut LossContext<'_>, again: bool) {
        let new = self.state < CaState::Recovery;
        let in_disorder = self.state <= CaState::Disorder;
        let sacked = self.sent.sacked_out();
        self.mark_after_timeout(context);
        let past = context.una.at_or_after(self.high_seq);
        if in_disorder || past || (self.state == CaState::Loss && !again) {
            context.congestion.reduce_for_timeout(context.now, context.nxt);
            self.init_undo(context.una);
        }
        context.congestion.collapse(self.sent.in_flight() + 1);
        // Many duplicate ACKs and still a timeout: the reordering was overestimated.
        let usual = u32::from(context.config.reordering);
        if in_disorder && sacked >= usual {
            self.reordering = self.reordering.min(usual);
        }
        self.state = CaState::Loss;
        self.high_seq = context.nxt;
        self.probe = None;
        self.cwr = Some(true);
        self.frto = context.config.frto && (new || again);
        self.retransmit_policy = RetransmitPolicy::Lost;
    }

    /// All segments are lost but those that may still arrive by RACK (RFC 8985 6.3). Nothing is, if
    /// the peer has reneged: then the SACKs are worth nothing (RFC 2018 8).
    fn mark_after_timeout(&mut self, context: &mut LossContext<'_>) {
        let reneged = self.sent.head().is_some_and(SentSegment::sacked);
        if reneged {
            context.stats.sack_reneges += 1;
            self.sent.unmark_sacked();
            self.cache = SackBlocks::default();
            self.reneging = true;
        } else if !context.sack {
            self.sent.guess_sacked(0);
        }
        for index in 0..self.sent.packets_out() as usize {
            let recent = self.sent.get(index).is_some_and(|segment| {
                let at = segment.at;
                context.sack && !reneged && index > 0 && context.now - at < self.rack.rtt()
            });
            if !recent && self.sent.mark_lost(index) {
                self.lost += 1;
            }
        }
    }

    /// The path takes segments of at most `mss` bytes: longer ones are lost.
    pub(in crate::tcp) fn path_takes(&mut self, context: &mut LossContext<'_>, mss: u32) {
        self.lose(context, |segment| segment.end.since(segment.start) > mss);
    }

    /// All segments in flight are lost.
    pub(in crate::tcp) fn lose_all(&mut self, context: &mut LossContext<'_>) {
        self.lose(context, |_| true);
    }

    /// Marks the unreported segments lost for which `is_lost` holds, and sends them again.
    /// Congestion is not the cause: as Linux, the state is that after a timeout, with the window as
    /// it is.
    fn lose(&mut self, context: &mut LossContext<'_>, is_lost: impl Fn(&SentSegment) -> bool) {
        let mut any = false;
        for index in 0..self.sent.packets_out() as usize {
            let hit = self.sent.get(index).is_some_and(|sent| !sent.sacked() && is_lost(sent));
            if hit {
                any = true;
                self.lost += u64::from(self.sent.mark_lost(index));
            }
        }
        if !any {
            return;
        }
        if self.state != CaState::Loss {
            context.congestion.fix_threshold();
            self.undo_marker = None;
            self.frto = false;
            self.high_seq = context.nxt;
            self.state = CaState::Loss;
        }
        self.retransmit_policy = RetransmitPolicy::Lost;
    }

    /// The peer's closed window is open again. If the segment in flight was sent as a window probe,
    /// the peer had no room for it.
    pub(in crate::tcp) fn window_reopened(&mut self) {
        if self.state == CaState::Loss && !self.sent.is_empty() {
            self.lost += u64::from(self.sent.mark_lost(0));
            self.retransmit_policy = RetransmitPolicy::Lost;
        }
    }

    /// F-RTO found nothing new to send.
    pub(in crate::tcp) fn give_up_frto(&mut self) {
        self.frto = false;
        self.retransmit_policy = RetransmitPolicy::Lost;
    }

    /// The connection has ended: nothing is in flight any more.
    pub(in crate::tcp) fn clear(&mut self) {
        self.sent.clear();
        self.probe = None;
        self.retransmit_policy = RetransmitPolicy::Nothing;
    }

    /// How long until the retransmission timer would expire, had it been started when the first
    /// segment was last sent.
    pub(in crate::tcp) fn rto_left(&self, now: Instant, rto: Duration) -> Option<Duration> {
        self.sent.head().map(|head| (head.at + rto) - now)
    }
}

#[cfg(test)]
mod tests;
