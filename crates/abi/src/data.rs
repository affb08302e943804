//! Descriptors of the two queues that each socket has in its client's region.
//!
//! A descriptor names bytes inside an area of one of the region's two pools. The client allocates
//! the areas of the sending pool, the inet server those of the receiving pool. Where programs may
//! read frames, a descriptor may also name bytes of a frame ([`DataFlags::of_frame`]).
//!
//! Areas come back by counters, not by messages. A socket's words `tx_released` and `rx_consumed`
//! count bytes in queue order. Once the counter has passed all bytes of an area, the area is its
//! allocator's again.

use core::net::SocketAddr;

use shm::{AreaName, Slot};

pub use crate::address::ANY;
use crate::address::{addr_from_words, addr_to_words};
use crate::bad_slot::BadSlot;
use crate::bits::{pack16, pack32, u16_at, u32_at};
use crate::flags::flag_set;

flag_set! {
    /// The flags of a [`DataDescriptor`].
    pub struct DataFlags(u16) {
        /// More data follows at once (MSG_MORE). A small segment may wait for it; a datagram is not
        /// complete.
        MORE = 1;
        /// A record of a stream ends here (MSG_EOR). No segment carries bytes from both sides of
        /// this point.
        RECORD = 1 << 2;
        /// The next slot holds the datagram's ancillary data ([`crate::ancillary`]). Both slots are
        /// published at once.
        ANCILLARY = 1 << 3;
        /// The last byte of a stream's bytes is urgent (MSG_OOB).
        URGENT = 1 << 4;
        /// From here on the stream holds back segments that are not full (TCP_CORK). Without bytes.
        CORK = 1 << 6;
        /// It does so no longer. Without bytes.
        UNCORK = 1 << 7;
    }
}

impl DataFlags {
    /// The area lies in a frame region, whose number is in the upper byte. Only a server sets this
    /// flag, and only towards a program that may read frames.
    const FRAME: u16 = 1 << 5;
    const FRAME_SHIFT: u32 = 8;

    /// The flag for an area of frame region `nic`, 0 to 255; `None` for others.
    #[must_use]
    pub fn of_frame(nic: u16) -> Option<Self> {
        (nic <= 255).then_some(Self::from_bits_retain(Self::FRAME | nic << Self::FRAME_SHIFT))
    }

    fn frame_region(self) -> Option<u16> {
        (self.bits() & Self::FRAME != 0).then_some(self.bits() >> Self::FRAME_SHIFT)
    }

    /// Out of a slot.
    #[inline]
    fn decode(bits: u16) -> Result<Self, BadSlot> {
        let region =
            if bits & Self::FRAME == 0 { 0 } else { Self::FRAME | 0xff << Self::FRAME_SHIFT };
        if bits & !(Self::KNOWN | region) != 0 {
            return Err(BadSlot::new("data flags", bits.into()));
        }
        Ok(Self::from_bits_retain(bits))
    }
}

/// Bytes of an area; of a datagram also its peer's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataDescriptor {
    /// The area.
    pub area: AreaName,
    /// First byte, from the area's start.
    pub offset: u32,
    /// Number of bytes; 0 only for an empty datagram, and for a cork in a stream.
    pub len: u32,
    /// Properties of the bytes, and the region that the area lies in.
    pub flags: DataFlags,
    /// The datagram's peer; `None` on a stream or towards the connected peer.
    pub peer: Option<SocketAddr>,
}

impl DataDescriptor {
    /// The frame region that the area lies in; `None`: it lies in the client's own region.
    #[must_use]
    pub fn frame_region(&self) -> Option<u16> {
        self.flags.frame_region()
    }

    /// As a ring slot: area, extent, flags and peer.
    #[must_use]
    #[inline]
    pub fn encode(&self) -> Slot {
        let peer = self.peer.map_or([0; 3], addr_to_words);
        [
            pack16(self.flags.bits(), self.area.pages, 0, 0),
            pack32(self.area.page, self.area.generation),
            pack32(self.offset, self.len),
            peer[0],
            peer[1],
            peer[2],
            0,
            0,
        ]
    }

    /// Out of a ring slot. The pool judges area, generation and extent
    /// ([`shm::PoolMap::borrow`]).
    ///
    /// # Errors
    /// [`BadSlot`] for unknown flags or a bad address.
    pub fn decode(slot: &Slot) -> Result<Self, BadSlot> {
        let flags = DataFlags::decode(u16_at(slot[0], 0))?;
        let peer = match slot[3] {
            0 => None,
            _ => Some(addr_from_words([slot[3], slot[4], slot[5]])?),
        };
        Ok(Self {
            area: AreaName {
                page: u32_at(slot[1], 0),
                pages: u16_at(slot[0], 1),
                generation: u32_at(slot[1], 1),
            },
            offset: u32_at(slot[2], 0),
            len: u32_at(slot[2], 1),
            flags,
            peer,
        })
    }
}
