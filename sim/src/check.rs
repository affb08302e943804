//! The checkers: every segment that a host sends, and the time between segments, keep the RFCs.
//!
//! The checkers stand on the link. They read segments with a decoder of their own
//! ([`wire`](crate::wire)) and note which segments arrived intact. From that alone they derive what
//! a host may and must do. Only two things come from the hosts themselves: the name of the TCP
//! state, and the calls of the application.
//!
//! There is one module per concern: [`numbers`] (sequence numbers and payload), [`flight`] (the
//! amount in flight), [`feedback`] (ACK, window, SACK, timestamps), [`timers`] (retransmissions),
//! [`deadlines`] (answers that are due), [`marks`] (ends of records, urgent data), [`states`] (RFC
//! 9293 figure 5).
//!
//! Positions are offsets from the initial sequence number: the SYN is at 0, the first byte at 1.

mod deadlines;
mod feedback;
mod flight;
mod marks;
mod numbers;
mod side;
mod states;
mod status;
#[cfg(test)]
mod tests;
mod timers;

use inet::Instant;

use self::side::Side;
use self::status::RelativeSegment;
pub use self::status::{FlightInfo, Rules, SideStatus, WriteMark};
use crate::router::TooBig;
use crate::wire::Segment;

/// Looks at both sides' segments.
#[derive(Debug)]
pub struct Check {
    sides: [Side; 2],
    rules: [Rules; 2],
    keys: [u64; 2],
}

impl Check {
    /// For two sides that send the streams `keys`.
    pub fn new(keys: [u64; 2], rules: [Rules; 2]) -> Self {
        Self { sides: Default::default(), rules, keys }
    }

    /// Looks at a segment that `side` sends.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn sent(
        &mut self,
        now: Instant,
        side: usize,
        segment: &Segment,
        payload: &[u8],
        standing: SideStatus,
    ) -> Result<(), String> {
        self.sides[side].segments += 1;
        if segment.rst {
            return self.reset(side, segment, standing);
        }
        if segment.syn {
            self.syn(side, segment)?;
        }
        if self.sides[side].iss.is_none() {
            return Err("a segment before the SYN".into());
        }
        let relative = self.relative(side, segment);
        self.check_feedback(side, &relative)?;
        self.check_numbers(side, &relative, payload, standing)?;
        self.check_marks(side, &relative)?;
        self.check_timing(now, side, &relative)?;
        self.check_flight(now, side, &relative, standing.flight)?;
        self.sides[side].deadlines.answered(segment.ack.is_some());
        let own = &mut self.sides[side];
        own.end = own.end.max(relative.end);
        Ok(())
    }

    /// Notes that `side` asks all on its link for its neighbour's address.
    pub fn asked(&mut self, now: Instant, side: usize) {
        self.sides[side].deadlines.asked(now);
    }

    /// Notes that the host of `side` has dropped packets before they reached the link. They count
    /// as sent (RFC 1122 4.2.3.9: the connection's timers decide), so one gap in the numbers is
    /// right.
    pub fn note_unresolved(&mut self, side: usize) {
        self.sides[side].dropped_unseen = true;
    }

    /// Notes that a frame has reached `side`: a segment, or something else.
    pub fn delivered(
        &mut self,
        now: Instant,
        side: usize,
        segment: Option<&Segment>,
        standing: SideStatus,
    ) {
        self.sides[side].heard_at = Some(now);
        let Some(segment) = segment else { return };
        let relative = self.relative(1 - side, segment);
        if segment.rst {
            self.sides[side].reset = true;
            return;
        }
        self.note_feedback(side, &relative, standing);
        let delayed = self.rules[side].delayed_ack;
        let own = &mut self.sides[side];
        if relative.end > relative.start {
            let acked = own.acked.unwrap_or(0);
            own.deadlines.given(now, (acked, &own.got), &relative, standing, delayed);
            own.got.add(relative.start, relative.end);
        }
    }

    /// Notes that a router reports to `side` that a packet was too long. The report counts if it
    /// quotes a segment in flight (RFC 5927 7.2).
    pub fn note_too_big(&mut self, now: Instant, side: usize, report: TooBig) {
        let own = &mut self.sides[side];
        own.heard_at = Some(now);
        own.flight.allow_loss(now);
        if own.iss.is_some() && (own.una..own.end).contains(&own.position(report.seq)) {
            own.path = Some(own.path.map_or(report.mtu, |before| before.min(report.mtu)));
        }
    }

    /// Checks the status of `side` after every event of this moment has been handled.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn observe(
        &mut self,
        now: Instant,
        side: usize,
        standing: SideStatus,
    ) -> Result<(), String> {
        self.watch_state(now, side, standing)?;
        let own = &mut self.sides[side];
        let offered = own.edge.unwrap_or(0) - own.acked.unwrap_or(0);
        let unread = own.acked.unwrap_or(0) - 1 - standing.consumed as i64;
        own.deadlines.check(now, standing, offered, unread)
    }

    /// Segments that `side` sent, and those of them that repeated something.
    pub fn totals(&self, side: usize) -> (u64, u64) {
        (self.sides[side].segments, self.sides[side].repeated)
    }

    /// Numbers relative to the two initial ones, for people.
    pub fn relative_numbers(&self, side: usize, segment: &Segment) -> (i64, Option<i64>) {
        let ack = segment.ack.map(|ack| self.sides[1 - side].position(ack));
        (self.sides[side].position(segment.seq), ack)
    }

    /// When a deadline of `side` is neglected if nothing happens before.
    pub fn due(&self, side: usize) -> Option<Instant> {
        self.sides[side].deadlines.due()
    }

    fn relative<'a>(&self, side: usize, segment: &'a Segment) -> RelativeSegment<'a> {
        let start = self.sides[side].position(segment.seq);
        let text = start + i64::from(segment.syn);
        let end = start + i64::from(segment.span());
        let ack = segment.ack.map(|ack| self.sides[1 - side].position(ack));
        RelativeSegment { segment, start, text, end, ack }
    }

    fn syn(&mut self, side: usize, segment: &Segment) -> Result<(), String> {
        let own = &mut self.sides[side];
        if let Some(iss) = own.iss
            && iss != segment.seq
        {
            // The passive side has given up, and begins anew when the peer's SYN comes once more.
            if side == 0 || own.end > 1 {
                return Err("a SYN with another number than before".into());
            }
            let got = core::mem::take(&mut own.got);
            let watch = core::mem::take(&mut own.watch);
            let (segments, repeated) = (own.segments, own.repeated);
            let echoes = core::mem::take(&mut own.echoes);
            *own = Side { segments, repeated, got, watch, echoes, ..Side::default() };
            own.restarted = true;
            self.sides[1 - side].got.clear();
        }
        let peer = &self.sides[1 - side];
        let (peer_offered, peer_scale, peer_stamps) =
            (peer.sack_permitted, peer.scale.is_some(), peer.timestamps);
        // RFC 2018 2, RFC 7323 2.2 and 3.2: an answer has only what was offered.
        let answer = segment.ack.is_some();
        let unasked = segment.sack_permitted && !peer_offered
            || segment.scale.is_some() && !peer_scale
            || segment.timestamps.is_some() && !peer_stamps;
        if answer && unasked {
            return Err("a SYN-ACK with an option that the SYN had not".into());
        }
        let own = &mut self.sides[side];
        own.iss = Some(segment.seq);
        own.mss = segment.mss;
        own.scale = segment.scale;
        own.sack_permitted = segment.sack_permitted;
        own.timestamps = segment.timestamps.is_some();
        Ok(())
    }

    /// RFC 9293 3.5.2, 3.10: a host resets an open connection that has not failed only if its
    /// application leaves. A reset never acknowledges data that the host did not receive.
    fn reset(&self, side: usize, segment: &Segment, standing: SideStatus) -> Result<(), String> {
        let open = ["ESTAB", "FIN-WAIT-1", "FIN-WAIT-2", "CLOSE-WAIT", "CLOSING", "LAST-ACK"];
        let is_open = standing.state.is_some_and(|state| open.contains(&state));
        if is_open && !standing.left && !standing.failed {
            return Err(format!("a RST in {}", standing.state.unwrap_or_default()));
        }
        let own = &self.sides[side];
        let relative = self.relative(side, segment);
        let given = own.got.reach(0).max(relative.ack.map_or(0, |ack| own.got.reach(ack - 1)));
        if !own.restarted && relative.ack.is_some_and(|ack| ack > given) {
            return Err(format!("a RST with an ACK of {:?}, given was {given}", relative.ack));
        }
        Ok(())
    }

    /// Whether both sides offered what `has` tells.
    fn both(&self, has: impl Fn(&Side) -> bool) -> bool {
        self.sides.iter().all(has)
    }
}
