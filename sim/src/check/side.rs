//! The checkers' knowledge of one side.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use inet::Instant;

use super::deadlines::ResponseDeadlines;
use super::status::{FlightInfo, RelativeSegment, TransmitRecord};
use crate::ranges::Ranges;

/// The checkers' knowledge of one side: the segments that it sent and received.
#[derive(Debug, Default)]
pub(super) struct Side {
    pub(super) iss: Option<u32>,
    /// One more than the highest position sent.
    pub(super) end: i64,
    pub(super) fin: Option<i64>,
    pub(super) mss: Option<u16>,
    pub(super) scale: Option<u8>,
    pub(super) sack_permitted: bool,
    pub(super) timestamps: bool,
    /// Highest position acknowledged to the peer, and the right edge of the window offered to it.
    pub(super) acked: Option<i64>,
    pub(super) edge: Option<i64>,
    /// TSval of the last segment sent.
    pub(super) clock: Option<u32>,
    /// The parts of the peer's stream that it has received.
    pub(super) got: Ranges,
    /// TSvals that it may echo, and the newest it was given.
    pub(super) echoes: HashSet<u32>,
    pub(super) peer_clock: Option<u32>,
    /// Highest acknowledgement and right edge that it has received, and what the peer has SACKed.
    pub(super) una: i64,
    /// The part of `una` that it cannot have missed.
    pub(super) surely_acked: i64,
    pub(super) peer_edge: Option<i64>,
    pub(super) sacked: Ranges,
    pub(super) reset: bool,
    pub(super) sends: BTreeMap<i64, TransmitRecord>,
    pub(super) heard_at: Option<Instant>,
    /// When data was last retransmitted, and from which position on.
    pub(super) timeout: Option<(Instant, i64)>,
    /// Its host has dropped packets before the link, and no gap has yet shown which ones.
    pub(super) dropped_unseen: bool,
    /// Something was acknowledged to it since it sent data.
    pub(super) answered: bool,
    pub(super) deadlines: ResponseDeadlines,
    pub(super) flight: Flight,
    /// The longest packet, in bytes, that a router has reported to fit.
    pub(super) path: Option<usize>,
    pub(super) watch: StateWatch,
    pub(super) marks: MarkCheck,
    pub(super) restarted: bool,
    pub(super) segments: u64,
    /// Segments with payload or FIN whose numbers had been sent before.
    pub(super) repeated: u64,
}

impl Side {
    /// The position of a sequence number of this side.
    pub(super) fn position(&self, seq: u32) -> i64 {
        i64::from(seq.wrapping_sub(self.iss.unwrap_or(0)).cast_signed())
    }
}

/// The checkers' knowledge of one side's flight.
#[derive(Debug, Default)]
pub(super) struct Flight {
    /// All that was ever SACKed to it.
    pub(super) sacked: Ranges,
    /// Last transmission of the data that it knows to have arrived.
    pub(super) arrived: Option<Instant>,
    /// Data sent before this may count as lost.
    pub(super) lost_before: Option<Instant>,
    /// ACKs that acknowledge nothing, since all was well.
    pub(super) duplicates: i64,
    /// When it last sent something of the stream.
    pub(super) sent_at: Option<Instant>,
    pub(super) before: Option<FlightInfo>,
}

impl Flight {
    /// The side receives `relative`, which may repeat the acknowledgement of `una`.
    pub(super) fn surely_acked(
        &mut self,
        relative: &RelativeSegment<'_>,
        una: i64,
        position: impl Fn(u32) -> i64,
    ) {
        for (left, right) in &relative.segment.sack {
            self.sacked.add(position(*left), position(*right));
        }
        self.duplicates += i64::from(relative.ack.is_some_and(|ack| ack <= una));
    }

    /// What of `sends` is before `una`, or was SACKed, has arrived.
    pub(super) fn delivered(&mut self, sends: &BTreeMap<i64, TransmitRecord>, una: i64) {
        let arrived = sends
            .iter()
            .take_while(|(start, _)| **start < una || self.sacked.touches(**start, i64::MAX))
            .filter(|(start, sending)| {
                sending.end <= una || self.sacked.covers(**start, sending.end)
            })
            .map(|(_, sending)| sending.last)
            .max();
        self.arrived = self.arrived.max(arrived);
    }

    /// Data sent until now may count as lost.
    pub(super) fn allow_loss(&mut self, now: Instant) {
        self.lost_before = Some(now);
    }

    /// Segments that are certainly on their way.
    pub(super) fn count(
        &self,
        sends: &BTreeMap<i64, TransmitRecord>,
        una: i64,
        all_is_well: bool,
    ) -> i64 {
        let left = if all_is_well { self.lost_before } else { self.lost_before.max(self.arrived) };
        let under_way = sends.iter().filter(|(start, sending)| {
            sending.end > una
                && left.is_none_or(|left| sending.last > left)
                && !self.sacked.covers(**start, sending.end)
        });
        under_way.count() as i64 - if all_is_well { 0 } else { self.duplicates }
    }
}

/// The marks of one side: positions of the bytes after the marked ones.
#[derive(Debug, Default)]
pub(super) struct MarkCheck {
    pub(super) records: BTreeSet<i64>,
    pub(super) urgent: BTreeSet<i64>,
    /// Positions that its urgent pointer named because the mark was too far away for 16 bits.
    pub(super) named: BTreeSet<i64>,
    /// The newest mark of the peer that its application has seen.
    pub(super) seen: Option<i64>,
}

/// The state that was seen last, and since when.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StateWatch {
    pub(super) state: Option<&'static str>,
    pub(super) since: Instant,
    /// Since when the connection has ended without a report to the application. A last segment may
    /// have to leave first.
    pub(super) unreported: Option<Instant>,
}
