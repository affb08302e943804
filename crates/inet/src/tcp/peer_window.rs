//! The window that the peer offers (RFC 9293 3.10.7.4, fifth check; 3.8.6).
//!
//! The window itself, SND.WND, is in the durable half. This part distinguishes a newer offer from
//! an older one, and remembers the largest offer ever.

use super::durable::Durable;
use super::segment::SegmentRepr;
use super::seq::Seq;

/// The peer's offers.
#[derive(Debug, Clone, Copy)]
pub(super) struct PeerWindow {
    /// Window field of the last accepted segment.
    field: u16,
    /// Sequence number of the segment that last updated the window (SND.WL1).
    seq: Seq,
    /// Largest window ever offered, bytes.
    max: u32,
}

/// The effect of a segment on the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WindowUpdate {
    /// A closed window was opened.
    pub(super) reopened: bool,
    /// The window admits new data, which it did not before.
    pub(super) admits_more: bool,
}

impl PeerWindow {
    pub(super) fn new(iss: Seq) -> Self {
        Self { field: 0, seq: iss, max: 0 }
    }

    /// Largest window ever offered, bytes.
    #[inline]
    pub(super) fn max(&self) -> u32 {
        self.max
    }

    /// The peer's SYN. RFC 7323 2.2: its window is never scaled.
    pub(super) fn take_syn(&mut self, durable: &mut Durable, syn: &SegmentRepr) {
        durable.snd_wnd = u32::from(syn.window);
        self.max = durable.snd_wnd;
        self.seq = syn.seq;
    }

    /// Whether an acceptable `segment` that acknowledges all before `ack` sets the window. This is
    /// RFC 9293 3.10.7.4 with Linux's last clause: of two reordered ACKs with the same numbers, the
    /// larger window is the later one.
    #[inline]
    pub(super) fn is_updated_by(&self, durable: &Durable, segment: &SegmentRepr, ack: Seq) -> bool {
        let una = durable.snd_una;
        let window = u32::from(segment.window) << durable.snd_scale;
        ack.after(una)
            || (ack == una
                && (segment.seq.after(self.seq)
                    || (segment.seq == self.seq && window > durable.snd_wnd)))
    }

    /// Sets the window from `segment`.
    #[inline]
    pub(super) fn update(&mut self, durable: &mut Durable, segment: &SegmentRepr) -> WindowUpdate {
        let was_closed = durable.snd_wnd == 0;
        let admitted = durable.send_edge().after(durable.snd_max);
        durable.snd_wnd = u32::from(segment.window) << durable.snd_scale;
        self.seq = segment.seq;
        self.max = self.max.max(durable.snd_wnd);
        WindowUpdate {
            reopened: was_closed && durable.snd_wnd > 0,
            admits_more: !admitted && durable.send_edge().after(durable.snd_max),
        }
    }

    /// Notes the window field of a segment. Whether it differs from the last one's: then its ACK is
    /// no duplicate (RFC 5681 2).
    #[inline]
    pub(super) fn note_field(&mut self, field: u16) -> bool {
        core::mem::replace(&mut self.field, field) != field
    }
}
