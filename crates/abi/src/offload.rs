//! Offloads: the work that a device does for the frames of its interface, beyond carrying them.
//!
//! The terms are virtio's (virtio 1.3, 5.1.6), since every back end with offloads speaks its
//! header. A frame to send may leave its checksum to the device. It may also be a *super-segment*:
//! up to 64 KiB of one TCP stream under one set of headers. The device or its far end cuts it into
//! segments. A received frame may be a super-segment too, or have a verified checksum.
//!
//! A frame may use only the offloads in the interface's [`Features`].

use crate::bad_slot::BadSlot;
use crate::bits::{pack16, u16_at};
use crate::flags::flag_set;

/// Longest frame of an interface with [`Features::TSO4`], [`Features::TSO6`] or [`Features::GRO`],
/// bytes: an IP packet of the greatest length behind Ethernet header and VLAN tag.
pub const MAX_SUPER_FRAME: usize = 65_535 + 14 + 4;

flag_set! {
    /// The offloads of a device: an argument of `ifattach`.
    pub struct Features(u32) {
        /// Completes the checksum of a frame to send ([`Checksum`]).
        TX_CHECKSUM = 1;
        /// Cuts super-segments of TCP over IPv4 to send.
        TSO4 = 1 << 1;
        /// Cuts super-segments of TCP over IPv6 to send.
        TSO6 = 1 << 2;
        /// Vouches for the checksums of received frames ([`RxOffload::verified`]).
        RX_CHECKSUM = 1 << 3;
        /// Received frames may be super-segments, longer than the MTU.
        GRO = 1 << 4;
        /// The driver does those of [`Features::TX_CHECKSUM`], [`Features::TSO4`] and
        /// [`Features::TSO6`] that the device does not do.
        GSO = 1 << 5;
        /// Received frames stay where the kernel has put them; nobody copies them (AF_XDP).
        RX_IN_PLACE = 1 << 6;
    }
}

impl Features {
    /// The names of the features in `ethtool -k`, in its order. `rx-in-place` is our own; ethtool
    /// does not know it.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let all = [
            (Self::RX_CHECKSUM, "rx-checksumming"),
            (Self::TX_CHECKSUM, "tx-checksumming"),
            (Self::TSO4, "tx-tcp-segmentation"),
            (Self::TSO6, "tx-tcp6-segmentation"),
            (Self::GSO, "tx-generic-segmentation"),
            (Self::GRO, "rx-gro-hw"),
            (Self::RX_IN_PLACE, "rx-in-place"),
        ];
        all.into_iter().filter(move |(feature, _)| self.has(*feature)).map(|(_, name)| name)
    }

    /// As an argument of a call.
    #[must_use]
    pub fn encode(self) -> u64 {
        self.bits().into()
    }

    /// Out of an argument of a call.
    ///
    /// # Errors
    /// [`BadSlot`] for an unknown bit.
    pub fn decode(word: u64) -> Result<Self, BadSlot> {
        let known = u32::try_from(word).ok().and_then(Self::from_bits);
        known.ok_or(BadSlot::new("device features", word))
    }
}

/// A checksum that is left to the device. The device writes the one's complement sum (RFC 1071) of
/// all bytes from `start` on to `start + offset`. The sum of the pseudo-header is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checksum {
    /// First byte of the sum, from the frame's start; at most 255.
    pub start: u8,
    /// Position of the checksum, from `start`.
    pub offset: u8,
}

/// The headers of a super-segment.
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

/// The work that a frame to send leaves to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TxOffload {
    /// The checksum. Every super-segment has one.
    pub checksum: Option<Checksum>,
    /// The segments that the frame is to be cut into.
    pub segments: Option<Segments>,
}

impl TxOffload {
    /// Nothing: the frame is ready for the wire.
    pub const NONE: Self = Self { checksum: None, segments: None };

    /// As a word of a slot.
    #[must_use]
    pub fn encode(self) -> u64 {
        let (kind, size) = encode_segments(self.segments);
        let sum = self.checksum.map_or(0, |sum| u16::from_le_bytes([sum.start, sum.offset]));
        pack16(kind | u16::from(self.checksum.is_some()) << 8, size, sum, 0)
    }

    /// Out of a word of a slot.
    ///
    /// # Errors
    /// [`BadSlot`] for an invalid word, and for a super-segment without checksum.
    pub fn decode(word: u64) -> Result<Self, BadSlot> {
        let bad = BadSlot::new("transmit offload", word);
        let [kind, sum] = u16_at(word, 0).to_le_bytes();
        let segments = decode_segments(kind, u16_at(word, 1)).ok_or(bad)?;
        let [start, offset] = u16_at(word, 2).to_le_bytes();
        let checksum = match sum {
            0 if segments.is_none() => None,
            1 => Some(Checksum { start, offset }),
            _ => return Err(bad),
        };
        Ok(Self { checksum, segments })
    }
}

/// A device's knowledge of a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RxOffload {
    /// The device has verified the checksums of TCP and UDP, whatever their fields contain.
    pub verified: bool,
    /// The frame is a super-segment, made of segments of this size.
    pub segments: Option<Segments>,
}

impl RxOffload {
    /// Nothing: the frame is as it was on the wire.
    pub const NONE: Self = Self { verified: false, segments: None };

    /// As an argument of a call.
    #[must_use]
    pub fn encode(self) -> u64 {
        let (kind, size) = encode_segments(self.segments);
        pack16(kind | u16::from(self.verified) << 8, size, 0, 0)
    }

    /// Out of an argument of a call.
    ///
    /// # Errors
    /// [`BadSlot`] for an invalid word.
    pub fn decode(word: u64) -> Result<Self, BadSlot> {
        let bad = BadSlot::new("receive offload", word);
        let [kind, verified @ 0..=1] = u16_at(word, 0).to_le_bytes() else { return Err(bad) };
        let segments = decode_segments(kind, u16_at(word, 1)).ok_or(bad)?;
        Ok(Self { verified: verified == 1, segments })
    }
}

fn encode_segments(segments: Option<Segments>) -> (u16, u16) {
    match segments {
        None => (0, 0),
        Some(Segments { kind: SegmentKind::Tcp4, size }) => (1, size),
        Some(Segments { kind: SegmentKind::Tcp6, size }) => (2, size),
    }
}

/// `None` for an invalid pair.
fn decode_segments(kind: u8, size: u16) -> Option<Option<Segments>> {
    match (kind, size) {
        (0, 0) => Some(None),
        (1, 1..) => Some(Some(Segments { kind: SegmentKind::Tcp4, size })),
        (2, 1..) => Some(Some(Segments { kind: SegmentKind::Tcp6, size })),
        _ => None,
    }
}
