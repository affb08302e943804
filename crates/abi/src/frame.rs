//! Frames between the inet server and a NIC driver.
//!
//! * `fill` ring (inet to driver): [`FillSlot`]s, empty pages to receive into.
//! * `rx` ring (driver to inet): [`DriverCall`]s. The first one registers the interface; each later
//!   one hands over a frame.
//! * `tx` ring (inet to driver): [`TxFrame`]s. The driver advances the ring only when it is done
//!   with the frame. So the ring's consumer count tells which memory nobody reads any more.

use shm::{AreaName, Slot};

use crate::bad_slot::BadSlot;
use crate::bits::{pack16, pack32, u16_at, u32_at};
use crate::call::Op;
use crate::offload::{Features, RxOffload, TxOffload};

/// Pages of the head of a frame to send. 4 KiB hold any frame of an MTU up to [`MAX_MTU`].
pub const HEAD_PAGES: u16 = 1;
/// Largest MTU that a frame page allows. It leaves 14 bytes for the Ethernet header, and some head
/// room.
pub const MAX_MTU: u16 = 4000;
/// Least MTU of an interface (RFC 791 3.2).
pub const MIN_MTU: u16 = 68;
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

    /// Out of a ring slot. The pool judges the name.
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

/// The place of a received frame in a chain of `rx` slots.
///
/// A driver may join segments of one TCP stream where they lie, each in an area of its own. They
/// are one super-segment: the first frame unchanged, with its headers, and the payloads of the
/// other frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chain {
    /// A frame, and the number of payloads that follow it; at most [`MAX_MORE`].
    First(u16),
    /// A payload that continues the frame before.
    Next,
}

impl Chain {
    /// A frame without other payloads.
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

/// A received frame: bytes `offset..offset + len` of `area`. The driver hands the area over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RxFrame {
    /// The area that the driver got from the `fill` ring.
    pub area: AreaName,
    /// First byte of the Ethernet header, or of a payload that continues another frame.
    pub offset: u32,
    /// Length without frame check sequence.
    pub len: u32,
    /// The device's knowledge of the frame.
    pub offload: RxOffload,
    /// The frame's place in a chain.
    pub chain: Chain,
}

impl RxFrame {
    /// As an `ethinput` call.
    #[must_use]
    #[inline]
    pub fn encode(&self) -> Slot {
        [
            ETH_INPUT,
            0,
            pack32(self.area.page, self.area.generation),
            pack32(self.offset, self.len),
            u64::from(self.area.pages),
            self.offload.encode(),
            self.chain.encode(),
            0,
        ]
    }

    /// Out of the arguments of an `ethinput` call. The pool judges area and extent.
    #[inline]
    fn decode(slot: &Slot) -> Result<Self, BadSlot> {
        Ok(Self {
            area: AreaName {
                page: u32_at(slot[2], 0),
                pages: u16_at(slot[4], 0),
                generation: u32_at(slot[2], 1),
            },
            offset: u32_at(slot[3], 0),
            len: u32_at(slot[3], 1),
            offload: RxOffload::decode(slot[5])?,
            chain: Chain::decode(slot[6])?,
        })
    }
}

/// An interface, as its driver registers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IfAttach {
    /// Its unicast Ethernet address.
    pub mac: [u8; 6],
    /// Its MTU, [`MIN_MTU`] to [`MAX_MTU`].
    pub mtu: u16,
    /// The offloads that device and driver do for its frames.
    pub features: Features,
}

impl IfAttach {
    /// As an `ifattach` call.
    #[must_use]
    pub fn encode(&self) -> Slot {
        let mac = self.mac.iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
        [IF_ATTACH, 0, mac, self.mtu.into(), self.features.encode(), 0, 0, 0]
    }

    fn decode(slot: &Slot) -> Result<Self, BadSlot> {
        let mac = match slot[2].to_be_bytes() {
            [0, 0, mac @ ..] if mac[0] & 1 == 0 => mac,
            _ => return Err(BadSlot::new("Ethernet address", slot[2])),
        };
        let mtu = u16::try_from(slot[3]).ok().filter(|mtu| (MIN_MTU..=MAX_MTU).contains(mtu));
        let mtu = mtu.ok_or(BadSlot::new("MTU", slot[3]))?;
        Ok(Self { mac, mtu, features: Features::decode(slot[4])? })
    }
}

const IF_ATTACH: u64 = Op::IfAttach as u64;
const ETH_INPUT: u64 = Op::EthInput as u64;

/// A call of a driver on the `rx` ring. Its slot is like that of a packaged call: the operation, no
/// return path, six arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverCall {
    /// Registers the interface.
    IfAttach(IfAttach),
    /// Hands over a frame.
    EthInput(RxFrame),
}

impl DriverCall {
    /// Out of a ring slot.
    ///
    /// # Errors
    /// [`BadSlot`] for another operation, or arguments that mean nothing.
    #[inline]
    pub fn decode(slot: &Slot) -> Result<Self, BadSlot> {
        match slot[0] {
            ETH_INPUT => RxFrame::decode(slot).map(Self::EthInput),
            IF_ATTACH => IfAttach::decode(slot).map(Self::IfAttach),
            operation => Err(BadSlot::new("operation of a driver", operation)),
        }
    }
}

/// Payload bytes in a client's region. The driver reads them in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Piece {
    /// The client whose region it is.
    pub client: u16,
    /// Number of bytes.
    pub len: u16,
    /// First byte, from the region's start.
    pub offset: u32,
}

/// A frame to transmit. Its headers (or all of a small frame) are in a head page; its payload stays
/// in its client's region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxFrame {
    /// The head page. The driver hands it back to the inet server before it advances the ring.
    pub area: AreaName,
    /// First byte of the Ethernet header in the page.
    pub offset: u16,
    /// Bytes of the frame that are in the page.
    pub len: u16,
    /// Number of valid `pieces`.
    pub count: u8,
    /// The rest of the frame.
    pub pieces: [Piece; MAX_PIECES],
    /// The work left to the device.
    pub offload: TxOffload,
    /// Several clients are active: frames to receive should not wait for many to send.
    pub shared: bool,
}

/// [`TxFrame::shared`], in the word of [`TxFrame::count`].
const SHARED: u16 = 1 << 8;

impl TxFrame {
    /// The valid pieces.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces[..usize::from(self.count).min(MAX_PIECES)]
    }

    fn count_and_flag(&self) -> u16 {
        u16::from(self.count) | if self.shared { SHARED } else { 0 }
    }

    /// As a ring slot.
    #[must_use]
    pub fn encode(&self) -> Slot {
        let mut slot = [0; 8];
        slot[0] = pack32(self.area.page, self.area.generation);
        slot[1] = pack16(self.offset, self.len, self.area.pages, self.count_and_flag());
        slot[2] = self.offload.encode();
        for (word, piece) in slot[3..].iter_mut().zip(self.pieces()) {
            *word = pack16(piece.client, piece.len, 0, 0) | u64::from(piece.offset) << 32;
        }
        slot
    }

    /// Out of a ring slot. Pools and regions judge names and extents.
    ///
    /// # Errors
    /// [`BadSlot`] for more than [`MAX_PIECES`] pieces, or for an invalid offload.
    pub fn decode(slot: &Slot) -> Result<Self, BadSlot> {
        let word = u16_at(slot[1], 3);
        let (count, shared) = (word & !SHARED, word & SHARED != 0);
        if usize::from(count) > MAX_PIECES {
            return Err(BadSlot::new("piece count", count.into()));
        }
        // Those behind the valid ones mean nothing, and nobody sees them.
        let pieces = std::array::from_fn(|at| {
            let word = slot[3 + at];
            Piece { client: u16_at(word, 0), len: u16_at(word, 1), offset: u32_at(word, 1) }
        });
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
            shared,
        })
    }
}
