//! The amount in flight never exceeds the congestion window that the sender reports
//! (`tcpi_snd_cwnd`). Two segments are exempt: a tail loss probe (RFC 8985 7.3), which leaves after
//! a silence, and a lone FIN, which has no bytes.
//!
//! A segment that the sender marks as lost is no longer in flight, and an observer cannot see that
//! mark. But a sender may mark only three kinds of segment: those sent before another one that it
//! knows to have arrived (RFC 8985 6.2, also true of duplicate ACKs), those sent before its last
//! timeout, and those sent before a router reported that packets were too long. All others must
//! fit. In the Open state (`tcpi_ca_state` 0) everything that was not SACKed must fit.

use inet::Instant;

use super::Check;
use super::status::{FlightInfo, RelativeSegment};

const OPEN: u8 = 0;
const LOSS: u8 = 4;
impl Check {
    /// Checks the segments in flight after one was sent.
    pub(super) fn check_flight(
        &mut self,
        now: Instant,
        side: usize,
        relative: &RelativeSegment<'_>,
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
            flight.lost_before = Some(now);
        }
        let all_is_well = info.ca_state == OPEN;
        if all_is_well {
            flight.duplicates = 0;
        }
        if relative.end == relative.start || relative.segment.syn {
            return Ok(());
        }
        let silent = flight.sent_at.replace(now).is_none_or(|at| now - at >= rules.round_trip);
        let head = own.sends.values().next();
        let overdue = head.is_some_and(|head| now - head.first >= rules.rto_min);
        let window = i64::from(info.cwnd);
        let may_be_probe = silent || overdue;
        if may_be_probe || relative.segment.len == 0 || own.sends.len() as i64 <= window {
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
