//! Descriptors of the two queues that each socket has in its client's region.
//!
//! A descriptor names bytes inside an area of one of the region's two pools (sending: the client
//! allocates; receiving: the inet server allocates), or of a frame, where programs may read frames
//! ([`DataDescriptor::of_frame`]). Bytes come back by counters, not by messages:
//! a socket's `tx_released` and `rx_consumed` words count bytes in queue order, and the area under
//! them is its allocator's again once the counter has passed all of it.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use shm::{AreaName, Slot};

use crate::BadSlot;
use crate::bits::{pack16, pack32, u16_at, u32_at};
use crate::call::{addr_from_words, addr_to_words};

/// Some bytes of an area, and for datagrams where they go to or came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataDescriptor {
    /// The area.
    pub area: AreaName,
    /// First byte, from the area's start.
    pub offset: u32,
    /// Number of bytes; 0 only for an empty datagram.
    pub len: u32,
    /// Of [`DataDescriptor::MORE`], [`DataDescriptor::RECORD`] and [`DataDescriptor::ANCILLARY`].
    pub flags: u16,
    /// The datagram's other end; `None` on a stream or towards the connected peer.
    pub peer: Option<SocketAddr>,
}

impl DataDescriptor {
    /// More data follows at once (MSG_MORE): a small segment may wait, a datagram is not complete.
    pub const MORE: u16 = 1;
    /// A record of a stream ends here (MSG_EOR): no segment has bytes of before and after.
    pub const RECORD: u16 = 4;
    /// The next slot says more of this datagram ([`crate::ancillary`]). Both are published at once.
    pub const ANCILLARY: u16 = 1 << 3;
    /// The last byte of a stream's bytes is urgent (MSG_OOB).
    pub const URGENT: u16 = 1 << 4;
    /// The area is one of a frame region, whose number is in the flags' upper byte; only from a
    /// server, and only to a program that may read frames.
    const FRAME: u16 = 1 << 5;
    const FRAME_SHIFT: u32 = 8;

    /// The flag for an area of frame region `nic`, 0 to 255; `None` for others.
    #[must_use]
    pub fn of_frame(nic: u16) -> Option<u16> {
        (nic <= 255).then_some(Self::FRAME | nic << Self::FRAME_SHIFT)
    }

    /// The frame region that the area is in; `None`: it is in the client's own.
    #[must_use]
    pub fn frame_region(&self) -> Option<u16> {
        (self.flags & Self::FRAME != 0).then_some(self.flags >> Self::FRAME_SHIFT)
    }

    /// As a ring slot: area, extent, flags and peer.
    #[must_use]
    #[inline]
    pub fn encode(&self) -> Slot {
        let peer = self.peer.map_or([0; 3], addr_to_words);
        [
            pack16(self.flags, self.area.pages, 0, 0),
            pack32(self.area.page, self.area.generation),
            pack32(self.offset, self.len),
            peer[0],
            peer[1],
            peer[2],
            0,
            0,
        ]
    }

    /// Out of a ring slot. Whether the area exists, is of that generation and holds the extent is
    /// for the pool to say ([`shm::PoolMap::borrow`]).
    ///
    /// # Errors
    /// [`BadSlot`] for unknown flags or a bad address.
    pub fn decode(slot: &Slot) -> Result<Self, BadSlot> {
        let flags = u16_at(slot[0], 0);
        let region =
            if flags & Self::FRAME == 0 { 0 } else { Self::FRAME | 0xff << Self::FRAME_SHIFT };
        if flags & !(Self::MORE | Self::RECORD | Self::ANCILLARY | Self::URGENT | region) != 0 {
            return Err(BadSlot::new("data flags", flags.into()));
        }
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

/// The address that stands for "any", as bind(2) uses it.
pub const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
