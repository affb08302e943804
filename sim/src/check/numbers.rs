//! Sequence numbers and payload. The payload is the application's stream. Nothing goes beyond the
//! peer's window or MSS. There is one FIN, and the first flight fits the initial window. There is
//! no gap, unless the host has dropped packets for want of its neighbour.

use super::Check;
use super::status::{RelativeSegment, SideStatus};
use crate::bytes::first_difference;

impl Check {
    /// Looks at what a segment carries.
    pub(super) fn check_numbers(
        &mut self,
        side: usize,
        relative: &RelativeSegment<'_>,
        payload: &[u8],
        standing: SideStatus,
    ) -> Result<(), String> {
        let peer_mss = self.sides[1 - side].mss;
        let (key, rules) = (self.keys[side], self.rules[side]);
        let own = &mut self.sides[side];
        let &RelativeSegment { segment, start, text, end, .. } = relative;
        if start > own.end {
            // The SYN, the stream and perhaps a FIN.
            let written = 1 + standing.written as i64 + i64::from(standing.shut || standing.left);
            if !core::mem::take(&mut own.dropped_unseen) || start > written {
                return Err(format!("{start} leaves a hole after {}", own.end));
            }
            own.end = start;
        } else if start == own.end && end > start {
            // What was dropped had left the link before: no gap is due to it.
            own.dropped_unseen = false;
        }
        // RFC 9293 3.8.6.1, 3.8.4: probes repeat one number; nothing else is so old.
        if end < own.surely_acked - 1 && !rules.late {
            return Err(format!(
                "{start}..{end} again, though {} is acknowledged",
                own.surely_acked
            ));
        }
        // RFC 9293 3.7.1.
        let most = usize::from(peer_mss.unwrap_or(536));
        if !payload.is_empty() || segment.fin {
            if own.peer_edge.is_none_or(|edge| end > edge) {
                let edge = own.peer_edge;
                return Err(format!("{end} is beyond the window, which ends at {edge:?}"));
            }
            // Options come out of the segment.
            if payload.len() + segment.options > most {
                let options = segment.options;
                return Err(format!("{}+{options} bytes are more than the MSS", payload.len()));
            }
            let packet = rules.ip_header + 20 + segment.options + payload.len();
            if own.path.is_some_and(|path| packet > path) {
                return Err(format!("a packet of {packet}, the path takes {:?}", own.path));
            }
            let offset = (text - 1) as u64;
            if let Some(at) = first_difference(key, offset, payload) {
                return Err(format!("wrong byte sent at {}", offset + at as u64));
            }
            own.repeated += u64::from(start < own.end);
        }
        if segment.fin {
            let fin = end - 1;
            if own.fin.is_some_and(|before| before != fin) {
                return Err(format!("FIN at {fin}, before at {:?}", own.fin));
            }
            own.fin = Some(fin);
        }
        if own.fin.is_some_and(|fin| end > fin + 1) {
            return Err(format!("{end} is beyond the FIN"));
        }
        // RFC 6928 2, and one segment as a probe (RFC 8985 7.3).
        let most = (rules.initial_window + 1) * most as u64;
        if !own.answered && (own.end as u64) <= most && (end as u64) > most + 2 {
            return Err(format!("{end} before the first ACK, with a window of {most}"));
        }
        Ok(())
    }
}
