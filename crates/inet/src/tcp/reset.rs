//! The RST that answers a segment (RFC 9293 3.10.7.1).

use super::segment::SegmentRepr;

/// The RST that answers a segment which belongs to no connection (RFC 9293 3.10.7.1); `None` for a
/// RST.
pub fn reset_for(segment: &SegmentRepr, payload_len: usize) -> Option<SegmentRepr> {
    if segment.rst {
        return None;
    }
    let end = segment.seq + segment_len(segment, payload_len);
    Some(SegmentRepr {
        src_port: segment.dst_port,
        dst_port: segment.src_port,
        seq: segment.ack.unwrap_or_default(),
        ack: if segment.ack.is_some() { None } else { Some(end) },
        rst: true,
        ..SegmentRepr::default()
    })
}

/// SEG.LEN: a segment's share of the sequence space.
#[inline]
pub(super) fn segment_len(segment: &SegmentRepr, payload_len: usize) -> u32 {
    payload_len as u32 + u32::from(segment.syn) + u32::from(segment.fin)
}
