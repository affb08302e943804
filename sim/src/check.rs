//! What must be true of every segment that a host sends.

use inet::tcp::{SegmentRepr, Seq};

use crate::bytes::first_difference;

/// What one side has sent so far.
#[derive(Debug, Default)]
struct Side {
    iss: Option<Seq>,
    /// One more than the highest number sent.
    end: Option<Seq>,
    /// Highest number acknowledged to the peer.
    acked: Option<Seq>,
    /// Right edge of the window offered to the peer.
    edge: Option<Seq>,
    fin: Option<Seq>,
    mss: Option<u16>,
    scale: Option<u8>,
    /// Segments with payload or FIN whose numbers had been sent before.
    repeated: u64,
    segments: u64,
}

/// Looks at both sides' segments.
#[derive(Debug)]
pub struct Check {
    sides: [Side; 2],
    keys: [u64; 2],
}

impl Check {
    /// For two sides that send the streams `keys`.
    pub fn new(keys: [u64; 2]) -> Self {
        Self { sides: [Side::default(), Side::default()], keys }
    }

    /// Looks at a segment that `side` sends.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn sent(&mut self, side: usize, repr: &SegmentRepr, payload: &[u8]) -> Result<(), String> {
        self.sides[side].segments += 1;
        if repr.rst {
            return Ok(());
        }
        if repr.syn {
            self.syn(side, repr)?;
        }
        self.numbers(side, repr, payload)?;
        self.window(side, repr)
    }

    /// Segments that `side` sent, and those of them that repeated something.
    pub fn totals(&self, side: usize) -> (u64, u64) {
        (self.sides[side].segments, self.sides[side].repeated)
    }

    /// Numbers relative to the two initial ones, for people.
    pub fn relative(&self, side: usize, repr: &SegmentRepr) -> (u32, Option<u32>) {
        let base = |side: usize| self.sides[side].iss.unwrap_or_default();
        let seq = repr.seq.get().wrapping_sub(base(side).get());
        let ack = repr.ack.map(|ack| ack.get().wrapping_sub(base(1 - side).get()));
        (seq, ack)
    }

    fn syn(&mut self, side: usize, repr: &SegmentRepr) -> Result<(), String> {
        let own = &mut self.sides[side];
        if let Some(iss) = own.iss
            && iss != repr.seq
        {
            // The passive side has given up, and begins anew when the peer's SYN comes once more.
            if side == 0 || own.end != Some(iss + 1) {
                return Err("a SYN with another number than before".into());
            }
            let (segments, repeated) = (own.segments, own.repeated);
            *own = Side { segments, repeated, ..Side::default() };
        }
        own.iss = Some(repr.seq);
        own.mss = repr.mss;
        own.scale = repr.window_scale;
        Ok(())
    }

    fn numbers(&mut self, side: usize, repr: &SegmentRepr, payload: &[u8]) -> Result<(), String> {
        let (peer_end, peer_edge, peer_mss) = {
            let peer = &self.sides[1 - side];
            (peer.end, peer.edge, peer.mss)
        };
        let key = self.keys[side];
        let own = &mut self.sides[side];
        let Some(iss) = own.iss else { return Err("a segment before the SYN".into()) };
        let text = repr.seq + u32::from(repr.syn);
        let end = text + payload.len() as u32 + u32::from(repr.fin);
        let len = end.get().wrapping_sub(repr.seq.get());
        if let Some(ack) = repr.ack {
            if peer_end.is_none_or(|sent| ack.after(sent)) {
                return Err(format!("ACK of {ack}, sent was only up to {peer_end:?}"));
            }
            if own.acked.is_some_and(|acked| ack.before(acked)) {
                return Err(format!("ACK of {ack} after one of {:?}", own.acked));
            }
            own.acked = Some(ack);
        }
        if own.end.is_some_and(|sent| len == 0 && repr.seq.after(sent)) {
            return Err(format!("number {} is beyond all sent", repr.seq));
        }
        if own.end.is_some_and(|sent| repr.seq.after(sent)) {
            return Err(format!("a hole before {}", repr.seq));
        }
        if !payload.is_empty() || repr.fin {
            if peer_edge.is_none_or(|edge| end.after(edge)) {
                return Err(format!("{end} is beyond the window, which ends at {peer_edge:?}"));
            }
            if payload.len() > usize::from(peer_mss.unwrap_or(536)) {
                return Err(format!("{} bytes are more than the MSS", payload.len()));
            }
            let offset = u64::from(text.get().wrapping_sub((iss + 1).get()));
            if let Some(at) = first_difference(key, offset, payload) {
                return Err(format!("wrong byte sent at {}", offset + at as u64));
            }
            own.repeated += u64::from(own.end.is_some_and(|sent| repr.seq.before(sent)));
        }
        if repr.fin {
            let fin = end - 1;
            if own.fin.is_some_and(|before| before != fin) {
                return Err(format!("FIN at {fin}, before at {:?}", own.fin));
            }
            own.fin = Some(fin);
        }
        if own.fin.is_some_and(|fin| end.after(fin + 1)) {
            return Err(format!("{end} is beyond the FIN"));
        }
        own.end = Some(own.end.map_or(end, |sent| sent.max(end)));
        Ok(())
    }

    fn window(&mut self, side: usize, repr: &SegmentRepr) -> Result<(), String> {
        let both = self.sides.iter().all(|side| side.scale.is_some());
        let own = &mut self.sides[side];
        let Some(ack) = repr.ack else { return Ok(()) };
        let scale = if both && !repr.syn { own.scale.unwrap_or(0) } else { 0 };
        let edge = ack + (u32::from(repr.window) << scale);
        if let Some(before) = own.edge
            && edge.before(before)
        {
            let lost = before.since(edge);
            // Less than the scale's unit is what rounding may cost (RFC 7323 2.4).
            if lost >= 1 << scale {
                return Err(format!("the window shrank by {lost}"));
            }
        }
        own.edge = Some(own.edge.map_or(edge, |before| before.max(edge)));
        Ok(())
    }
}
