//! The amount in flight never exceeds the congestion window that the sender reports
//! (`tcpi_snd_cwnd`). Two segments are exempt: a tail loss probe (RFC 8985 7.3), which leaves after
//! a silence, and a lone FIN, which has no bytes.
//!
//! A segment that the sender marks as lost is no longer in flight, and an observer cannot see that
//! mark. But a sender may mark only three kinds of segment: those sent before another one that it
//! knows to have arrived (RFC 8985 6.2, also true of duplicate ACKs), those sent before its last
//! timeout, and those sent before a router reported that packets were too long. All others must
//! fit. In the Open state (`tcpi_ca_state` 0) everything that was not SACKed must fit.

use std::collections::BTreeMap;

use inet::Instant;
use inet::tcp::TcpInfo;

use super::timers::TransmitRecord;
use super::{Check, RelativeSegment};
use crate::ranges::Ranges;

/// What the sender tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlightInfo {
    /// The congestion window, segments.
    pub cwnd: u32,
    /// State of its recovery by Linux's number: 0 open, 4 after a timeout.
    pub ca_state: u8,
    /// Timeouts in a row.
    pub backoff: u8,
}

impl From<&TcpInfo> for FlightInfo {
    fn from(info: &TcpInfo) -> Self {
        Self { cwnd: info.snd_cwnd, ca_state: info.ca_state, backoff: info.backoff }
    }
}

const OPEN: u8 = 0;
const LOSS: u8 = 4;
/// What is known of one side's flight.
#[derive(Debug, Default)]
pub(super) struct Flight {
    /// All that was ever SACKed to it.
    sacked: Ranges,
    /// The last transmission of what it knows to have arrived was then.
    arrived: Option<Instant>,
    /// What was sent before may be held to be lost.
    forgiven: Option<Instant>,
    /// ACKs that acknowledge nothing, since all was well.
    duplicates: i64,
    /// When it last sent something of the stream.
    sent_at: Option<Instant>,
    before: Option<FlightInfo>,
}

impl Flight {
    /// The side is given `placed`, which may repeat the acknowledgement of `una`.
    pub(super) fn told(
        &mut self,
        placed: &RelativeSegment<'_>,
        una: i64,
        place: impl Fn(u32) -> i64,
    ) {
        for (left, right) in &placed.segment.sack {
            self.sacked.add(place(*left), place(*right));
        }
        self.duplicates += i64::from(placed.ack.is_some_and(|ack| ack <= una));
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

    /// What was sent until now may be held to be lost.
    pub(super) fn forgive(&mut self, now: Instant) {
        self.forgiven = Some(now);
    }

    /// Segments that are certainly on their way.
    fn count(&self, sends: &BTreeMap<i64, TransmitRecord>, una: i64, all_is_well: bool) -> i64 {
        let left = if all_is_well { self.forgiven } else { self.forgiven.max(self.arrived) };
        let under_way = sends.iter().filter(|(start, sending)| {
            sending.end > una
                && left.is_none_or(|left| sending.last > left)
                && !self.sacked.covers(**start, sending.end)
        });
        under_way.count() as i64 - if all_is_well { 0 } else { self.duplicates }
    }
}

impl Check {
    /// Looks at what is on its way after a segment was sent.
    pub(super) fn check_flight(
        &mut self,
        now: Instant,
        side: usize,
        placed: &RelativeSegment<'_>,
        info: Option<FlightInfo>,
    ) -> Result<(), String> {
        let rules = self.rules[side];
        let own = &mut self.sides[side];
        let Some(info) = info.filter(|_| !rules.late) else { return Ok(()) };
        let flight = &mut own.flight;
        let before = flight.before.replace(info);
        let timeout = info.ca_state == LOSS
            && before.is_none_or(|before| before.ca_state != LOSS || info.backoff > before.backoff);
        if timeout {
            // What leaves now leaves after it.
            flight.forgiven = Some(now);
        }
        let all_is_well = info.ca_state == OPEN;
        if all_is_well {
            flight.duplicates = 0;
        }
        if placed.end == placed.start || placed.segment.syn {
            return Ok(());
        }
        let silent = flight.sent_at.replace(now).is_none_or(|at| now - at >= rules.round_trip);
        let head = own.sends.values().next();
        let overdue = head.is_some_and(|head| now - head.first >= rules.rto_min);
        let window = i64::from(info.cwnd);
        let may_be_probe = silent || overdue;
        if may_be_probe || placed.segment.len == 0 || own.sends.len() as i64 <= window {
            return Ok(());
        }
        let under_way = flight.count(&own.sends, own.una, all_is_well);
        if under_way > window {
            let cwnd = info.cwnd;
            return Err(format!("{under_way} segments on their way, the window is {cwnd}"));
        }
        Ok(())
    }
}
