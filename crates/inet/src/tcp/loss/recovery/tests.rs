//! The whole of recovery under random ACKs, against a count byte by byte.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use proptest::prelude::*;

use super::*;
use crate::tcp::congestion::{CongestionControl, CongestionKind};
use crate::tcp::loss::ack_info::ReceivedAck;
use crate::tcp::rtt::RttEstimator;
use crate::tcp::sack_blocks::SackBlock;
use crate::tcp::stats::TcpStats;

const MSS: u32 = 100;

/// A sender, and what its peer has said, byte by byte.
struct Model {
    recovery: LossRecovery,
    congestion: CongestionControl,
    rtt: RttEstimator,
    config: TcpConfig,
    stats: TcpStats,
    now: Instant,
    base: Seq,
    una: u32,
    nxt: u32,
    sacked: BTreeSet<u32>,
    sack: bool,
}

impl Model {
    fn new(base: u32, sack: bool) -> Self {
        let config = TcpConfig::default();
        let now = Instant::from_nanos(1 << 40);
        let base = Seq::new(base);
        let mut rtt = RttEstimator::new(&config);
        rtt.sample(now, Duration::from_millis(20), Duration::from_millis(20));
        Self {
            recovery: LossRecovery::new(now, &config),
            congestion: CongestionControl::established(now, CongestionKind::Cubic, 10, base),
            rtt,
            config,
            stats: TcpStats::default(),
            now,
            base,
            una: 0,
            nxt: 0,
            sacked: BTreeSet::new(),
            sack,
        }
    }

    fn context(&mut self) -> (&mut LossRecovery, LossContext<'_>) {
        let context = LossContext {
            now: self.now,
            una: self.base + self.una,
            nxt: self.base + self.nxt,
            mss: MSS,
            sack: self.sack,
            can_send_new: true,
            max_window: 1 << 20,
            congestion: &mut self.congestion,
            rtt: &self.rtt,
            config: &self.config,
            stats: &mut self.stats,
        };
        (&mut self.recovery, context)
    }

    fn send(&mut self, segments: u32) {
        let (start, len) = (self.base + self.nxt, segments * MSS);
        self.recovery.on_sent(self.now, (start, len, false), MSS, WriteMarks::default());
        self.nxt += len;
    }

    /// Sends again what is wanted, as far as the window permits.
    fn repeat(&mut self) {
        while self.recovery.retransmit_policy == RetransmitPolicy::Lost
            && self.recovery.sent.in_flight() < self.congestion.cwnd()
            && let Some(index) = self.recovery.sent.next_to_retransmit()
        {
            let segment = *self.recovery.sent.get(index).unwrap();
            assert!(!segment.sacked(), "what the peer has is not sent again");
            self.recovery.on_retransmitted(self.now, index, 1, false);
        }
    }

    /// An ACK up to `una` with `blocks`, which may be lies.
    fn ack(&mut self, una: u32, blocks: &[(u32, u32)]) {
        let prior = self.una;
        self.una = self.una.max(una);
        let mut option = SackBlocks::default();
        for (start, end) in blocks {
            option.push(SackBlock { start: self.base + *start, end: self.base + *end });
            let inside = *start > prior && start < end && *end <= self.nxt;
            if self.sack && inside && option.as_slice().len() <= SackBlocks::MOST {
                self.sacked.extend(*start..*end);
            }
        }
        let base = self.base;
        let said = ReceivedAck {
            ack: base + una,
            prior_una: base + prior,
            blocks: &option,
            data: false,
            window_update: false,
            ece: false,
            echo: None,
        };
        let (recovery, mut context) = self.context();
        let taken = recovery.take_ack(&mut context, &said);
        let (recovery, mut context) = self.context();
        recovery.judge_ack(&mut context, &said, taken);
        self.repeat();
    }

    fn timeout(&mut self, again: bool) {
        if self.recovery.sent.is_empty() {
            return;
        }
        let head = self.recovery.sent.head().is_some_and(SentSegment::sacked);
        if head {
            self.sacked.clear();
        }
        let (recovery, mut context) = self.context();
        recovery.on_timeout(&mut context, again);
        self.repeat();
    }

    fn check(&self) {
        let sent = &self.recovery.sent;
        let count =
            |is: fn(&SentSegment) -> bool| sent.iter().filter(|segment| is(segment)).count() as u32;
        assert_eq!(sent.lost_out(), count(SentSegment::lost));
        assert_eq!(sent.retrans_out(), count(SentSegment::retransmitted));
        assert!(sent.left_out() <= sent.packets_out());
        assert!(self.congestion.cwnd() >= 1);
        // The queue is what lies between the two ends, without a hole.
        let mut at = self.base + self.una;
        for segment in sent.iter() {
            assert_eq!(segment.start, at);
            assert!(segment.end.after(segment.start));
            assert!(!(segment.lost() && segment.sacked()));
            at = segment.end;
        }
        assert_eq!(at, self.base + self.nxt);
        if self.sack {
            // A segment is sacked only if all its bytes were reported.
            for segment in sent.iter() {
                let start = segment.start.since(self.base);
                let end = segment.end.since(self.base);
                let all = (start..end).all(|byte| self.sacked.contains(&byte));
                assert!(all || !segment.sacked(), "{start}..{end} {:?}", self.sacked);
            }
        }
        if sent.is_empty() {
            assert_eq!((sent.sacked_out(), sent.in_flight()), (0, 0));
        }
    }
}

/// Numbers around what is in flight, some beyond.
fn place(model: &Model, number: u32) -> u32 {
    model.una + number % (model.nxt - model.una + 150)
}

proptest! {
    /// Whatever the peer says, the counts are right, what it truly reported is not retransmitted,
    /// and an honest acknowledgement of all ends everything.
    #[test]
    fn the_scoreboard_is_the_peers_report(
        base: u32,
        sack: bool,
        steps in prop::collection::vec(
            (0_u8..8, any::<u32>(), prop::collection::vec(any::<(u32, u32)>(), 0..5), 0_u64..30),
            1..80,
        ),
    ) {
        let mut model = Model::new(base, sack);
        for (what, amount, blocks, ms) in steps {
            model.now += Duration::from_millis(ms);
            match what {
                0 | 1 => model.send(1 + amount % 5),
                2 => model.timeout(amount % 2 == 1),
                3 => {
                    let (recovery, mut context) = model.context();
                    recovery.on_reordering_timeout(&mut context);
                    model.repeat();
                }
                _ => {
                    let blocks: Vec<(u32, u32)> = blocks
                        .into_iter()
                        .map(|(a, b)| (place(&model, a), place(&model, b)))
                        .collect();
                    let moves = if what == 4 { amount % (model.nxt - model.una + 1) } else { 0 };
                    model.ack(model.una + moves, &blocks);
                }
            }
            model.check();
        }
        model.ack(model.nxt, &[]);
        model.check();
        prop_assert!(model.recovery.sent.is_empty());
    }
}
