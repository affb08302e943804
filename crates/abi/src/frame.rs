//! Frames between the inet server and a NIC driver.
//!
//! * `fill` ring (inet to driver): [`FillSlot`]s, empty pages to receive into.
//! * `rx` ring (driver to inet): calls, [`crate::call::Op::IfAttach`] once and then
//!   [`crate::call::Op::EthInput`] for each frame.
//! * `tx` ring (inet to driver): [`TxFrame`]s. The driver advances the ring only when the device
//!   has taken the frame, so the ring's consumer count tells when memory is no longer read.

use shm::{AreaName, Slot};

use crate::BadSlot;
use crate::bits::{pack16, pack32, u16_at, u32_at};
use crate::call::{Call, Op, ReturnPath};
use crate::offload::{RxOffload, TxOffload};

/// Pages of the head of a frame to send. 4 KiB hold any frame of an MTU up to [`MAX_MTU`].
pub const HEAD_PAGES: u16 = 1;
/// Largest MTU a frame page allows (14 bytes of Ethernet header and some head room stay free).
pub const MAX_MTU: u16 = 4000;
/// Most payload pieces of one transmitted frame.
pub const MAX_PIECES: usize = 5;

/// An empty page for the driver to receive into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FillSlot(pub AreaName);

impl FillSlot {
    /// As a ring slot.
    #[must_use]
    pub fn encode(&self) -> Slot {
        let name = self.0;
        [pack32(name.page, name.generation), u64::from(name.pages), 0, 0, 0, 0, 0, 0]
    }

    /// Out of a ring slot; the pool judges the name.
    #[must_use]
    pub fn decode(slot: &Slot) -> Self {
        Self(AreaName {
            page: u32_at(slot[0], 0),
            pages: u16_at(slot[1], 0),
            generation: u32_at(slot[0], 1),
        })
    }
}

/// Most frames of a [`Chain`] beyond the first.
pub const MAX_MORE: u16 = 44;

/// How a received frame goes with those next to it in the `rx` ring. Segments of one TCP stream
/// that were joined where they lie, each in an area of its own, are one super-segment: the first
/// frame with its headers, as it was, and the payloads of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chain {
    /// A frame, and the number of payloads that follow it; at most [`MAX_MORE`].
    First(u16),
    /// Payload that continues the frame before.
    Next,
}

impl Chain {
    /// A frame of its own.
    pub const ALONE: Self = Self::First(0);

    const NEXT: u64 = 1 << 16;

    fn encode(self) -> u64 {
        match self {
            Self::First(more) => more.into(),
            Self::Next => Self::NEXT,
        }
    }

    fn decode(word: u64) -> Result<Self, BadSlot> {
        if word == Self::NEXT {
            return Ok(Self::Next);
        }
        let more = u16::try_from(word).ok().filter(|&more| more <= MAX_MORE);
        more.map(Self::First).ok_or(BadSlot::new("chain of frames", word))
    }
}

/// A received frame: bytes `offset..offset + len` of `area`, which the driver gives away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RxFrame {
    /// The page that the driver had from the `fill` ring.
    pub area: AreaName,
    /// First byte of the Ethernet header, or of a payload that continues another frame.
    pub offset: u32,
    /// Length without frame check sequence.
    pub len: u32,
    /// What the device knows of it.
    pub offload: RxOffload,
    /// Whether it stands alone.
    pub chain: Chain,
}

impl RxFrame {
    /// As an `ethinput` call.
    #[must_use]
    pub fn encode(&self) -> Slot {
        let args = [
            pack32(self.area.page, self.area.generation),
            pack32(self.offset, self.len),
            u64::from(self.area.pages),
            self.offload.encode(),
            self.chain.encode(),
            0,
        ];
        let path = ReturnPath { client: 0, ring: 0, tag: 0 };
        Call { op: Op::EthInput, priority: 0, flags: 0, path, args }.encode()
    }

    /// Out of an `ethinput` call's arguments; the pool judges area and extent.
    ///
    /// # Errors
    /// [`BadSlot`] for an offload or a chain that means nothing.
    pub fn from_call(call: &Call) -> Result<Self, BadSlot> {
        Ok(Self {
            area: AreaName {
                page: u32_at(call.args[0], 0),
                pages: u16_at(call.args[2], 0),
                generation: u32_at(call.args[0], 1),
            },
            offset: u32_at(call.args[1], 0),
            len: u32_at(call.args[1], 1),
            offload: RxOffload::decode(call.args[3])?,
            chain: Chain::decode(call.args[4])?,
        })
    }
}

/// Payload bytes in a client's region, read by the driver in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Piece {
    /// The client whose region it is.
    pub client: u16,
    /// Number of bytes.
    pub len: u16,
    /// First byte, from the region's start.
    pub offset: u32,
}

/// A frame to transmit: headers (or all of a small frame) in a frame page, payload where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxFrame {
    /// The frame page; the driver hands it back to the inet server before it advances the ring.
    pub area: AreaName,
    /// First byte of the Ethernet header in it.
    pub offset: u16,
    /// Bytes of the frame that are in the page.
    pub len: u16,
    /// How many of `pieces` count.
    pub count: u8,
    /// The rest of the frame.
    pub pieces: [Piece; MAX_PIECES],
    /// What is left to the device.
    pub offload: TxOffload,
}

impl TxFrame {
    /// The pieces that count.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces[..usize::from(self.count).min(MAX_PIECES)]
    }

    /// As a ring slot.
    #[must_use]
    pub fn encode(&self) -> Slot {
        let mut slot = [0; 8];
        slot[0] = pack32(self.area.page, self.area.generation);
        slot[1] = pack16(self.offset, self.len, self.area.pages, u16::from(self.count));
        slot[2] = self.offload.encode();
        for (word, piece) in slot[3..].iter_mut().zip(self.pieces()) {
            *word = pack16(piece.client, piece.len, 0, 0) | u64::from(piece.offset) << 32;
        }
        slot
    }

    /// Out of a ring slot; pools and regions judge names and extents.
    ///
    /// # Errors
    /// [`BadSlot`] for more than [`MAX_PIECES`] pieces or an offload that means nothing.
    pub fn decode(slot: &Slot) -> Result<Self, BadSlot> {
        let count = u16_at(slot[1], 3);
        if usize::from(count) > MAX_PIECES {
            return Err(BadSlot::new("piece count", count.into()));
        }
        let mut pieces = [Piece::default(); MAX_PIECES];
        for (piece, &word) in pieces.iter_mut().zip(&slot[3..3 + usize::from(count)]) {
            *piece =
                Piece { client: u16_at(word, 0), len: u16_at(word, 1), offset: u32_at(word, 1) };
        }
        Ok(Self {
            area: AreaName {
                page: u32_at(slot[0], 0),
                pages: u16_at(slot[1], 2),
                generation: u32_at(slot[0], 1),
            },
            offset: u16_at(slot[1], 0),
            len: u16_at(slot[1], 1),
            count: count.to_le_bytes()[0],
            pieces,
            offload: TxOffload::decode(slot[2])?,
        })
    }
}
