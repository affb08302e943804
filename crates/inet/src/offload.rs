//! Offloads: work that an interface does for frames.
//!
//! A frame to be sent may leave its checksum to the interface. It may also be a *super-segment*: up
//! to 64 KiB of one TCP stream under one set of headers. The interface, or the far end of its link,
//! segments it. A received frame may be a super-segment as well, and its checksum may be known to
//! be right. The code that makes a frame decides by [`Features`] which work is left to the
//! interface.

/// The offloads of an interface for frames to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    /// It completes the checksums of TCP and UDP.
    pub tx_checksum: bool,
    /// It segments super-segments of TCP over IPv4.
    pub tso4: bool,
    /// It segments super-segments of TCP over IPv6.
    pub tso6: bool,
}

impl Features {
    /// Whether it cuts super-segments of that kind.
    pub(crate) fn cuts(&self, kind: SegmentKind) -> bool {
        match kind {
            SegmentKind::Tcp4 => self.tso4,
            SegmentKind::Tcp6 => self.tso6,
        }
    }
}

/// A checksum that is left to the interface. The interface writes the one's complement sum (RFC
/// 1071) of everything from `start` on to `start + offset`, where the sum of the pseudo-header
/// already stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checksum {
    /// First byte to be summed, from the frame's start.
    pub start: u8,
    /// Where the checksum is, from `start`.
    pub offset: u8,
}

/// Which headers a super-segment has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentKind {
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
}

/// A super-segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segments {
    /// Its headers.
    pub kind: SegmentKind,
    /// Payload bytes of each segment but the last; at least 1.
    pub size: u16,
}

/// The work on a frame that is left to the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TxOffload {
    /// The checksum.
    pub checksum: Option<Checksum>,
    /// The segmentation of the frame.
    pub segments: Option<Segments>,
}

impl TxOffload {
    /// Nothing: the frame is ready for the wire.
    pub const NONE: Self = Self { checksum: None, segments: None };
}

/// The interface's knowledge of a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RxOffload {
    /// The checksum of TCP or UDP is right, whatever the field holds.
    pub verified: bool,
    /// Payload bytes of each segment that was joined into it; the last one may have fewer. 0 if it
    /// is as it was sent.
    pub segment: u16,
    /// Bytes of TCP payload that continue the frame's and lie elsewhere. A piece whose range goes
    /// so far beyond the frame names them to the owner of the frame ([`RxPiece`](crate::RxPiece)).
    pub behind: u32,
}

impl RxOffload {
    /// Nothing: the frame is as it was sent, and to be checked.
    pub const NONE: Self = Self { verified: false, segment: 0, behind: 0 };
}
