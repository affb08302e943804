use alloc::string::String;
use proptest::prelude::*;

use super::*;

/// A sender with endless data in one recovery.
struct Sender {
    prr: Prr,
    ssthresh: u32,
    in_flight: u32,
}

impl Sender {
    fn new(prior: u32, ssthresh: u32, in_flight: u32) -> Self {
        Self { prr: Prr::new(prior), ssthresh, in_flight }
    }

    /// An ACK of `delivered`, which were in flight, with `lost` more found to be lost; what is
    /// sent.
    fn ack(&mut self, delivered: u32, lost: u32, safe: bool) -> u32 {
        self.in_flight -= delivered + lost;
        let cwnd = self.prr.on_ack(self.ssthresh, self.in_flight, delivered, safe);
        let count = cwnd.map_or(0, |cwnd| cwnd - self.in_flight);
        self.prr.sent(count);
        self.in_flight += count;
        count
    }

    fn trace(&mut self, acks: u32) -> String {
        (0..acks).map(|_| char::from_digit(self.ack(1, 0, false), 10).unwrap_or('?')).collect()
    }
}

/// RFC 9937, first example: 20 segments in flight, the first lost, the threshold is 10. Every
/// second ACK sends one, until the flight is down.
#[test]
fn a_single_loss_halves_the_rate() {
    // Two new segments left by limited transmit; the third duplicate comes next.
    let mut sender = Sender::new(20, 10, 20);
    assert_eq!(sender.ack(1, 1, false), 1);
    assert_eq!(sender.trace(16), "0101010101010100");
    assert_eq!(sender.in_flight, 10);
}

/// The second example: a burst of 15 losses leaves less than the threshold. Each ACK sends what
/// it delivered, not what is missing.
#[test]
fn a_burst_of_losses_is_no_burst_of_retransmissions() {
    let mut sender = Sender::new(20, 10, 20);
    assert_eq!(sender.ack(1, 15, false), 1);
    assert_eq!((sender.in_flight, sender.trace(3)), (5, String::from("111")));
    // A safe ACK makes up for a segment (PRR-SSRB), not beyond the threshold.
    for _ in 0..5 {
        assert_eq!(sender.ack(1, 0, true), 2);
    }
    assert_eq!((sender.in_flight, sender.ack(1, 0, true)), (10, 1));
}

/// What could not be sent, for lack of data, may be later.
#[test]
fn conservation_has_a_memory() {
    let mut prr = Prr::new(10);
    assert_eq!(prr.on_ack(7, 6, 1, false), Some(7));
    prr.sent(1);
    assert_eq!(prr.on_ack(7, 4, 3, false), Some(7));
    assert_eq!(prr.on_ack(7, 2, 2, false), Some(7));
    assert_eq!((prr.out(), prr.delivered()), (1, 6));
}

/// Linux's traces: three duplicates of ten in flight with one lost; four lost in ten; an ECN echo
/// with four in flight of a window of ten.
#[test]
fn known_windows() {
    assert_eq!(Prr::new(10).on_ack(7, 6, 1, false), Some(7));
    let mut sender = Sender::new(10, 7, 10 - 2);
    assert_eq!((sender.ack(1, 4, false), sender.trace(3)), (1, String::from("111")));
    assert_eq!(Prr::new(10).on_ack(7, 3, 1, false), Some(4));
    assert_eq!(Prr::new(10).on_ack(7, 3, 1, true), Some(5));
}

#[test]
fn an_ack_that_delivers_nothing_changes_nothing() {
    let mut prr = Prr::new(10);
    assert_eq!(prr.on_ack(7, 3, 0, true), None);
    assert_eq!(prr, Prr::new(10));
}

#[test]
fn the_first_answer_is_a_segment_at_least() {
    // ceil(1 * 2 / 100) is one anyway; with a flight just at the threshold nothing would be due.
    assert_eq!(Prr::new(100).on_ack(7, 7, 1, false), Some(8));
    let mut prr = Prr::new(100);
    prr.sent(1);
    assert_eq!(prr.on_ack(7, 7, 1, false), Some(7));
    assert_eq!(prr.on_ack(2, 98, 1, false), Some(98));
}

#[test]
fn nothing_overflows() {
    let mut prr = Prr::new(0);
    for _ in 0..3 {
        assert!(prr.on_ack(u32::MAX, u32::MAX, u32::MAX, true).is_some());
        assert!(prr.on_ack(u32::MAX - 1, u32::MAX, u32::MAX, true).is_some());
        assert!(prr.on_ack(u32::MAX, 0, u32::MAX, true).is_some());
        prr.sent(u32::MAX);
    }
}

proptest! {
    /// The bounds of RFC 9937: never more than the share while above the threshold, never beyond
    /// the threshold below it, never more than delivered plus a segment for each safe ACK.
    #[test]
    fn bounds(
        prior in 2_u32..200,
        share in 1_u32..100,
        acks in prop::collection::vec((0_u32..4, 0_u32..5, any::<bool>()), 1..200),
    ) {
        let ssthresh = (prior * share / 100).max(2);
        let mut sender = Sender::new(prior, ssthresh, prior);
        let (mut delivered, mut sent, mut safe) = (0, 0, 0);
        for (ack, lost, is_safe) in acks {
            let ack = ack.min(sender.in_flight);
            let lost = lost.min(sender.in_flight - ack);
            let before = sender.in_flight - ack - lost;
            let count = sender.ack(ack, lost, is_safe);
            delivered += ack;
            sent += count;
            safe += u32::from(is_safe);
            let forced = u32::from(sent == count && count == 1);
            prop_assert!(ack > 0 || count == 0);
            if before > ssthresh {
                let due = (u64::from(delivered) * u64::from(ssthresh)).div_ceil(u64::from(prior));
                prop_assert!(u64::from(sent) <= due.max(u64::from(sent - count + forced)));
            } else {
                prop_assert!(before + count <= ssthresh + forced);
            }
            prop_assert!(count <= delivered + 1);
            prop_assert!(sent <= delivered + safe + 1, "{} {} {}", sent, delivered, safe);
        }
    }

    /// Without further losses the flight ends at the threshold exactly.
    #[test]
    fn the_flight_converges(prior in 4_u32..300, share in 10_u32..90, lost in 1_u32..50) {
        let ssthresh = (prior * share / 100).max(2);
        let lost = lost.min(prior - 2);
        let mut sender = Sender::new(prior, ssthresh, prior);
        sender.ack(1, lost, false);
        for _ in 0..2 * prior {
            if sender.in_flight > 0 {
                sender.ack(1, 0, true);
            }
        }
        prop_assert!(sender.in_flight.abs_diff(ssthresh) <= 1, "{} {}", sender.in_flight, ssthresh);
    }
}
