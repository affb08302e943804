//! Feedback to the peer. A segment acknowledges and SACKs only what its sender received. It never
//! shrinks the offered window. Its timestamps are the sender's clock and an echo of the peer's.

use super::Check;
use super::status::{RelativeSegment, SideStatus};

impl Check {
    /// Looks at acknowledgement, window and options.
    pub(super) fn check_feedback(
        &mut self,
        side: usize,
        relative: &RelativeSegment<'_>,
    ) -> Result<(), String> {
        self.check_ack(side, relative)?;
        self.check_window(side, relative)?;
        self.check_sack(side, relative)?;
        self.check_timestamps(side, relative)
    }

    fn check_ack(&mut self, side: usize, relative: &RelativeSegment<'_>) -> Result<(), String> {
        let own = &mut self.sides[side];
        let Some(ack) = relative.ack else { return Ok(()) };
        if !own.got.covers(0, ack) {
            return Err(format!("ACK of {ack}, given was only up to {}", own.got.reach(0)));
        }
        if own.acked.is_some_and(|acked| ack < acked) {
            return Err(format!("ACK of {ack} after one of {:?}", own.acked));
        }
        own.acked = Some(ack);
        Ok(())
    }

    fn check_window(&mut self, side: usize, relative: &RelativeSegment<'_>) -> Result<(), String> {
        let scaled = self.both(|side| side.scale.is_some()) && !relative.segment.syn;
        let own = &mut self.sides[side];
        let Some(ack) = relative.ack else { return Ok(()) };
        let scale = if scaled { own.scale.unwrap_or(0) } else { 0 };
        if scale > 14 {
            return Err(format!("a window scale of {scale}"));
        }
        let edge = ack + (i64::from(relative.segment.window) << scale);
        if let Some(before) = own.edge
            && before - edge >= 1 << scale
        {
            // Less than the scale's unit is what rounding may cost (RFC 7323 2.4).
            return Err(format!("the window shrank by {}", before - edge));
        }
        own.edge = Some(own.edge.map_or(edge, |before| before.max(edge)));
        Ok(())
    }

    fn check_sack(&self, side: usize, relative: &RelativeSegment<'_>) -> Result<(), String> {
        let blocks = &relative.segment.sack;
        if blocks.is_empty() {
            return Ok(());
        }
        let (own, peer) = (&self.sides[side], &self.sides[1 - side]);
        let Some(ack) = relative.ack.filter(|_| peer.sack_permitted) else {
            return Err("SACK without ACK, or to a peer that does not permit it".into());
        };
        let positions: Vec<(i64, i64)> = blocks
            .iter()
            .map(|(left, right)| (peer.position(*left), peer.position(*right)))
            .collect();
        for (number, (left, right)) in positions.iter().enumerate() {
            if left >= right || !own.got.covers(*left, *right) {
                return Err(format!("SACK of {left}..{right}, which was not given"));
            }
            // RFC 2883 4: only the first block may report a duplicate.
            if number > 0 && *left <= ack {
                return Err(format!("SACK of {left}..{right} as block {number} with ACK {ack}"));
            }
            if positions[..number].iter().skip(1).any(|(l, r)| left < r && l < right) {
                return Err(format!("SACK of {left}..{right} twice"));
            }
        }
        // RFC 2883 4: a first block above the ACK is a duplicate only if a later one holds it.
        let (left, right) = positions[0];
        let held = positions[1..].iter().any(|(l, r)| *l <= left && right <= *r);
        let overlaps = positions[1..].iter().any(|(l, r)| left < *r && *l < right);
        if left > ack && overlaps && !held {
            return Err(format!("SACK of {left}..{right} overlaps a later block"));
        }
        Ok(())
    }

    fn check_timestamps(
        &mut self,
        side: usize,
        relative: &RelativeSegment<'_>,
    ) -> Result<(), String> {
        let agreed = self.both(|side| side.timestamps) && !relative.segment.syn;
        let late = self.rules[side].late;
        let own = &mut self.sides[side];
        let Some((value, echo)) = relative.segment.timestamps else {
            // RFC 7323 3.2.
            return if agreed { Err("no timestamps, though agreed".into()) } else { Ok(()) };
        };
        if !agreed && !relative.segment.syn {
            return Err("timestamps, though not agreed".into());
        }
        if own.clock.is_some_and(|before| value.wrapping_sub(before).cast_signed() < 0) {
            return Err(format!("TSval {value} after {:?}", own.clock));
        }
        own.clock = Some(value);
        if relative.ack.is_some() && !late && !own.echoes.contains(&echo) {
            return Err(format!("TSecr {echo} was never given, or not in order"));
        }
        Ok(())
    }

    /// Notes the feedback in a segment that `side` receives.
    pub(super) fn note_feedback(
        &mut self,
        side: usize,
        relative: &RelativeSegment<'_>,
        standing: SideStatus,
    ) {
        let scaled = self.both(|side| side.scale.is_some()) && !relative.segment.syn;
        let peer = &self.sides[1 - side];
        let scale = if scaled { peer.scale.unwrap_or(0) } else { 0 };
        let permitted = self.sides[side].sack_permitted;
        let own = &mut self.sides[side];
        let mut fresh = true;
        if let Some((value, _)) = relative.segment.timestamps {
            // RFC 7323 4.3: only of a segment that is not beyond the last ACK sent.
            if relative.segment.syn || own.acked.is_none_or(|acked| relative.start <= acked) {
                own.echoes.insert(value);
            }
            let newer = |before: u32| value.wrapping_sub(before).cast_signed() >= 0;
            fresh = own.peer_clock.is_none_or(newer);
            if fresh {
                own.peer_clock = Some(value);
            }
        }
        own.flight.surely_acked(relative, own.una, |seq| {
            i64::from(seq.wrapping_sub(own.iss.unwrap_or(0)).cast_signed())
        });
        let window = i64::from(relative.segment.window) << scale;
        // The window of a SYN without ACK counts from this side's first byte.
        let ack = relative.ack.unwrap_or(1);
        if ack > own.end.max(1) {
            return;
        }
        let edge = ack + window;
        own.peer_edge = Some(own.peer_edge.map_or(edge, |before| before.max(edge)));
        own.una = own.una.max(ack.min(own.end));
        own.answered |= own.end > 1;
        // A host may drop a segment for its timestamp, as a duplicate, or for lack of room. Its
        // acknowledgement is then lost with it.
        let fresh = fresh && relative.end >= own.got.reach(0) && !standing.crowded;
        if fresh {
            own.surely_acked = own.una;
        }
        own.flight.delivered(&own.sends, own.una);
        let surely_acked = own.surely_acked;
        own.sends.retain(|_, sending| sending.end > surely_acked);
        let una = own.una;
        own.sacked.forget_before(una);
        if fresh && permitted && relative.ack.is_some() {
            // With room for another block, these are all that the peer holds. It may have dropped
            // others again (RFC 2018 8).
            if relative.segment.sack.len() < 3 {
                own.sacked.clear();
            }
            for (left, right) in &relative.segment.sack {
                let (left, right) = (own.position(*left), own.position(*right));
                if left >= una && right <= own.end {
                    own.sacked.add(left, right);
                }
            }
        }
        // The head is SACKed and not acknowledged: the peer has dropped it again (RFC 2018 8). It
        // may have dropped other data as well.
        if own.sacked.touches(una, una + 1) {
            own.sacked.clear();
        }
    }
}
