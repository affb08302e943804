//! Detecting and repairing losses: SACK (RFC 2018, 2883, 6675), RACK-TLP (RFC 8985), NewReno where
//! the peer has no SACK (RFC 6582, 3042), undoing what was a mistake (RFC 3522, 4015, 5682).
//!
//! What was sent is in a queue of segments ([`sent`]). An ACK is taken in this order, which is
//! Linux's: the SACK blocks mark segments ([`sack`]); what is acknowledged leaves the queue
//! ([`clean`]), which gives samples of round-trip time and delivery; the answer to a tail loss
//! probe is judged ([`tlp`]); the state machine ([`alert`]) undoes or enters a recovery, with
//! losses found by time ([`rack`]); last, the congestion window follows. What was lost is not sent
//! here: it is marked, and `output` sends it as far as the window permits.
//!
//! | state | meaning |
//! |---|---|
//! | `Open` | nothing unusual |
//! | `Disorder` | SACKs or duplicate ACKs have come, which may be reordering |
//! | `Cwr` | the window is being reduced for an ECN echo or a loss that a probe repaired |
//! | `Recovery` | losses are being repaired (fast recovery) |
//! | `Loss` | losses are being repaired after a timeout |
//!
//! A recovery ends when all that had been sent at its start (`high_seq`) is acknowledged. It can be
//! undone while it lasts (`undo_marker`): if every repetition turns out to have arrived twice
//! (DSACK), or if the first ACK it brings forth answers an original (timestamps, F-RTO).

mod ack;
mod alert;
mod clean;
mod kept;
mod rack;
mod sack;
pub(super) mod sent;
mod tlp;
mod undo;

use core::time::Duration;

pub(super) use ack::{AckIn, TimerWish};
pub(super) use rack::Rack;
pub use sack::{Block, SackBlocks};
pub(super) use sent::{SentQueue, SentSegment, Snapshot};

use super::congestion::{Congestion, Event, Prr, Window};
use super::rtt::RttEstimator;
use super::send::Marks;
use super::{Seq, Stats, TcpConfig};
use crate::Instant;
pub(super) use kept::Kept;

/// State of the recovery, as Linux names and numbers them (`tcpi_ca_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[repr(u8)]
pub(super) enum CaState {
    /// Nothing unusual.
    #[default]
    Open,
    /// SACKs or duplicate ACKs have come.
    Disorder,
    /// The window is being reduced without a loss to be repaired.
    Cwr,
    /// Fast recovery.
    Recovery,
    /// Recovery after a timeout.
    Loss,
}

/// What may be sent in answer to the last ACK, before anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Repeat {
    /// Nothing is to be sent again.
    #[default]
    Nothing,
    /// What is held to be lost.
    Lost,
    /// F-RTO: something new, and only if there is nothing, what is held to be lost (RFC 5682 2.1
    /// step 2b).
    NewFirst,
}

/// A tail loss probe under way (RFC 8985 7.2).
#[derive(Debug, Clone, Copy)]
struct Probe {
    /// SND.NXT when it was sent.
    end: Seq,
    /// It repeated a segment.
    repeated: bool,
}

/// What a recovery needs of the connection.
#[derive(Debug)]
pub(super) struct Env<'a> {
    pub(super) now: Instant,
    /// SND.UNA, after the ACK that is being taken, and SND.NXT.
    pub(super) una: Seq,
    pub(super) nxt: Seq,
    /// Payload of full segments, bytes.
    pub(super) mss: u32,
    /// SACK is agreed upon.
    pub(super) sack: bool,
    /// There is something new to be sent that the peer's window admits.
    pub(super) can_send_new: bool,
    /// Largest window that the peer ever offered.
    pub(super) max_window: u32,
    pub(super) window: &'a mut Window,
    pub(super) congestion: &'a mut dyn Congestion,
    pub(super) rtt: &'a RttEstimator,
    pub(super) config: &'a TcpConfig,
    pub(super) stats: &'a mut Stats,
}

/// The sender's memory of what is under way, and of what went wrong.
#[derive(Debug)]
pub(super) struct Recovery {
    pub(super) sent: SentQueue,
    state: CaState,
    /// SND.NXT when the state began.
    high_seq: Seq,
    /// SND.UNA when the recovery began, as long as it can be undone.
    undo_marker: Option<Seq>,
    /// Repetitions of this recovery that are not known to have been needless; `None` before the
    /// first.
    undo_retrans: Option<u32>,
    /// Own timestamp when the first repetition of this recovery left.
    retrans_stamp: Option<u32>,
    /// Segments that may overtake each other, and whether that was ever seen.
    reordering: u32,
    reord_seen: u32,
    rack: Rack,
    probe: Option<Probe>,
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
    /// The peer is to be told that the window was reduced, or not any more.
    cwr: Option<bool>,
    pub(super) repeat: Repeat,
    /// Where a probe of the path's MTU under way begins, and whether its loss was found.
    pub(super) mtu_probe: Option<Seq>,
    pub(super) mtu_probe_lost: bool,
}

impl Recovery {
    pub(super) fn new(now: Instant, config: &TcpConfig) -> Self {
        Self {
            sent: SentQueue::new(),
            state: CaState::Open,
            high_seq: Seq::default(),
            undo_marker: None,
            undo_retrans: None,
            retrans_stamp: None,
            reordering: u32::from(config.reordering),
            reord_seen: 0,
            rack: Rack::default(),
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
            repeat: Repeat::Nothing,
            mtu_probe: None,
            mtu_probe_lost: false,
        }
    }

    pub(super) fn state(&self) -> CaState {
        self.state
    }

    /// Segments that may overtake each other (`tcpi_reordering`).
    pub(super) fn reordering(&self) -> u32 {
        self.reordering
    }

    /// Our SYN has arrived: it counts as one, with the data that it brought.
    pub(super) fn syn_delivered(&mut self, now: Instant) {
        self.delivered += 1;
        self.delivered_at = now;
    }

    /// Segments delivered in total (`tcpi_delivered`).
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// How often a reordering was seen (`tcpi_reord_seen`).
    pub(super) fn reord_seen(&self) -> u32 {
        self.reord_seen
    }

    /// Duplicates that were reported (`tcpi_dsack_dups`).
    pub(super) fn dsack_dups(&self) -> u64 {
        self.dsack_dups
    }

    /// The window follows [`Prr`], not the algorithm.
    pub(super) fn reducing(&self) -> bool {
        matches!(self.state, CaState::Cwr | CaState::Recovery)
    }

    /// Whether the peer is to be told of a reduction by CWR (RFC 3168 6.1.2), if that is new.
    pub(super) fn take_cwr(&mut self) -> Option<bool> {
        self.cwr.take()
    }

    /// What is to be remembered of a segment sent now.
    fn snapshot(&mut self, now: Instant) -> Snapshot {
        if self.sent.in_flight() == 0 {
            self.first_sent = now;
            self.delivered_at = now;
        }
        Snapshot {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
        }
    }

    /// `len` bytes from `start` on were sent for the first time, in segments of `mss` bytes; the
    /// last one with `marks`, and with a FIN if `fin`.
    pub(super) fn on_sent(
        &mut self,
        now: Instant,
        (start, len, fin): (Seq, u32, bool),
        mss: u32,
        marks: Marks,
    ) {
        if self.repeat == Repeat::NewFirst {
            // F-RTO has what it wanted: now the answer counts.
            self.repeat = Repeat::Nothing;
        }
        let snapshot = self.snapshot(now);
        let count = self.sent.push((start, len, fin), mss.max(1), (now, snapshot), marks);
        self.count_for_reduction(count);
    }

    /// The segment at `index` was sent again; if it is not held to be lost, that was a probe, which
    /// no recovery counts. `stamp` is the own timestamp it carries; `clear` see
    /// [`SentQueue::repeat`].
    pub(super) fn on_repeated(&mut self, now: Instant, index: usize, stamp: u32, clear: bool) {
        let lost = self.sent.get(index).is_some_and(sent::SentSegment::lost);
        let snapshot = self.snapshot(now);
        self.sent.repeat(index, now, snapshot, clear);
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
    pub(super) fn on_timeout(&mut self, env: &mut Env<'_>, again: bool) {
        let new = self.state < CaState::Recovery;
        let in_disorder = self.state <= CaState::Disorder;
        let sacked = self.sent.sacked_out;
        self.mark_after_timeout(env);
        let past = env.una.at_or_after(self.high_seq);
        if in_disorder || past || (self.state == CaState::Loss && !again) {
            env.window.prior_ssthresh = env.window.current_ssthresh();
            env.window.prior_cwnd = env.window.cwnd;
            env.window.ssthresh = env.congestion.ssthresh(env.now, env.window);
            env.congestion.on_event(env.window, env.now, Event::Loss { nxt: env.nxt });
            self.init_undo(env.una);
        }
        env.window.cwnd = self.sent.in_flight() + 1;
        env.window.cnt = 0;
        // Many duplicate ACKs and still a timeout: the reordering was overestimated.
        let usual = u32::from(env.config.reordering);
        if in_disorder && sacked >= usual {
            self.reordering = self.reordering.min(usual);
        }
        self.state = CaState::Loss;
        self.high_seq = env.nxt;
        self.probe = None;
        self.cwr = Some(true);
        self.frto = env.config.frto && (new || again);
        self.repeat = Repeat::Lost;
    }

    /// All is lost but what RACK says may still arrive (RFC 8985 6.3). Nothing is, if the peer has
    /// reneged: then the SACKs are worth nothing (RFC 2018 8).
    fn mark_after_timeout(&mut self, env: &mut Env<'_>) {
        let reneged = self.sent.head().is_some_and(sent::SentSegment::sacked);
        if reneged {
            env.stats.sack_reneges += 1;
            self.sent.unmark_sacked();
            self.cache = SackBlocks::default();
            self.reneging = true;
        } else if !env.sack {
            self.sent.sacked_out = 0;
        }
        for index in 0..self.sent.packets_out() as usize {
            let recent = self.sent.get(index).is_some_and(|segment| {
                let at = segment.at;
                env.sack && !reneged && index > 0 && env.now - at < self.rack.rtt()
            });
            if !recent && self.sent.mark_lost(index) {
                self.lost += 1;
            }
        }
    }

    /// The path takes segments of `mss` bytes only: longer ones are lost.
    pub(super) fn path_takes(&mut self, env: &mut Env<'_>, mss: u32) {
        self.lose(env, |segment| segment.end.since(segment.start) > mss);
    }

    /// All that is under way is lost.
    pub(super) fn lose_all(&mut self, env: &mut Env<'_>) {
        self.lose(env, |_| true);
    }

    /// What `is_lost` says of segments not reported is lost and leaves again, without blame on
    /// congestion: as Linux the state is that after a timeout, with the window as it is.
    fn lose(&mut self, env: &mut Env<'_>, is_lost: impl Fn(&sent::SentSegment) -> bool) {
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
            env.window.ssthresh = env.window.current_ssthresh();
            env.window.prior_ssthresh = 0;
            self.undo_marker = None;
            self.frto = false;
            self.high_seq = env.nxt;
            self.state = CaState::Loss;
        }
        self.repeat = Repeat::Lost;
    }

    /// The peer's window was closed and is open again: if what is in flight was sent as a probe of
    /// it, the peer has had no room for it.
    pub(super) fn window_reopened(&mut self) {
        if self.state == CaState::Loss && !self.sent.is_empty() {
            self.lost += u64::from(self.sent.mark_lost(0));
            self.repeat = Repeat::Lost;
        }
    }

    /// F-RTO found nothing new to send.
    pub(super) fn give_up_frto(&mut self) {
        self.frto = false;
        self.repeat = Repeat::Lost;
    }

    /// The connection is over: nothing is under way any more.
    pub(super) fn clear(&mut self) {
        self.sent.clear();
        self.probe = None;
        self.repeat = Repeat::Nothing;
    }

    /// How long until the retransmission timer would expire, had it been started when the first
    /// segment was last sent.
    pub(super) fn rto_left(&self, now: Instant, rto: Duration) -> Option<Duration> {
        self.sent.head().map(|head| (head.at + rto) - now)
    }
}

#[cfg(test)]
mod tests;
