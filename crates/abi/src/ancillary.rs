//! Ancillary data of one datagram, beside its bytes and its peer's address. It fills the slot
//! after the datagram's descriptor ([`crate::data::DataFlags::ANCILLARY`]).
//!
//! | word | sending | receiving |
//! |---|---|---|
//! | 0 | [`SendFields`] `u16`, TTL `u8`, TOS `u8`, segment `u16` | [`AncillarySet`] `u16`, the same
//! |
//! | 1 | family of the source, or 0 | family of the destination, and its port |
//! | 2, 3 | source address | destination address |
//! | 4 | interface `u32` | interface `u32`, the stack's IPv4 address on it |
//! | 5 | 0 | nanoseconds since 1970 |

use core::net::{IpAddr, Ipv4Addr};

use shm::Slot;

use crate::address::{ip_from_words, ip_to_words};
use crate::bad_slot::BadSlot;
use crate::bits::{pack16, pack32, u16_at, u32_at};
use crate::flags::flag_set;

/// Ancillary data of a datagram to send. [`Default`] leaves everything to the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SendAncillary {
    /// Our address to send from (IP_PKTINFO's `ipi_spec_dst`).
    pub source: Option<IpAddr>,
    /// Index of the interface to leave by, 0 for any.
    pub interface: u32,
    /// Time to live or hop limit.
    pub ttl: Option<u8>,
    /// Type of service or traffic class.
    pub tos: Option<u8>,
    /// Payload bytes of each datagram that this one is split into (UDP_SEGMENT); 0: as the
    /// socket's option says.
    pub segment: u16,
}

flag_set! {
    /// The fields that a [`SendAncillary`] gives.
    pub struct SendFields(u16) {
        /// [`SendAncillary::ttl`].
        TTL = 1;
        /// [`SendAncillary::tos`].
        TOS = 1 << 1;
    }
}

impl SendAncillary {
    /// As a ring slot.
    #[must_use]
    pub fn encode(&self) -> Slot {
        let given =
            SendFields::TTL.when(self.ttl.is_some()) | SendFields::TOS.when(self.tos.is_some());
        let bytes = [self.ttl.unwrap_or(0), self.tos.unwrap_or(0)];
        let (family, high, low) = self.source.map_or((0, 0, 0), ip_to_words);
        let word0 = pack16(given.bits(), u16::from_le_bytes(bytes), self.segment, 0);
        [word0, family.into(), high, low, self.interface.into(), 0, 0, 0]
    }

    /// Out of a ring slot.
    ///
    /// # Errors
    /// [`BadSlot`] for an unknown field or a bad address.
    pub fn decode(slot: &Slot) -> Result<Self, BadSlot> {
        let bits = u16_at(slot[0], 0);
        let given = SendFields::from_bits(bits);
        let given = given.ok_or(BadSlot::new("ancillary fields", bits.into()))?;
        let [ttl, tos] = u16_at(slot[0], 1).to_le_bytes();
        let source = match slot[1] {
            0 => None,
            family => {
                let bad = |_| BadSlot::new("address family", family);
                let family = u16::try_from(family).map_err(bad)?;
                Some(ip_from_words(family, slot[2], slot[3])?)
            }
        };
        Ok(Self {
            source,
            interface: u32_at(slot[4], 0),
            ttl: given.has(SendFields::TTL).then_some(ttl),
            tos: given.has(SendFields::TOS).then_some(tos),
            segment: u16_at(slot[0], 2),
        })
    }
}

/// Ancillary data of a received datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecvAncillary {
    /// The kinds that the socket's options ask for.
    pub asked: AncillarySet,
    /// Destination address: the stack's own, a broadcast address or a multicast group.
    pub to: IpAddr,
    /// Destination port.
    pub port: u16,
    /// An IPv4 address of the stack to answer from, 0.0.0.0 for none.
    pub ours: Ipv4Addr,
    /// Index of the interface.
    pub interface: u32,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// Type of service or traffic class.
    pub tos: u8,
    /// Length of each datagram that was joined to this one (UDP_GRO); the last one may be
    /// shorter. 0 if nothing was joined.
    pub segment: u16,
    /// Time of arrival, nanoseconds since 1970.
    pub at: u64,
}

flag_set! {
    /// The kinds of ancillary data that a socket's options ask for.
    pub struct AncillarySet(u16) {
        /// IP_PKTINFO.
        PKTINFO = 1;
        /// IP_RECVTTL.
        TTL = 1 << 1;
        /// IP_RECVTOS.
        TOS = 1 << 2;
        /// IP_RECVORIGDSTADDR.
        ORIGDSTADDR = 1 << 3;
        /// IPV6_RECVPKTINFO.
        PKTINFO6 = 1 << 4;
        /// IPV6_RECVHOPLIMIT.
        HOPLIMIT = 1 << 5;
        /// IPV6_RECVTCLASS.
        TCLASS = 1 << 6;
        /// IPV6_RECVORIGDSTADDR.
        ORIGDSTADDR6 = 1 << 7;
        /// SO_TIMESTAMP.
        TIMESTAMP = 1 << 8;
        /// SO_TIMESTAMPNS.
        TIMESTAMPNS = 1 << 9;
        /// UDP_GRO.
        GRO = 1 << 10;
        /// IPV6_2292PKTINFO.
        PKTINFO2292 = 1 << 11;
        /// IPV6_2292HOPLIMIT.
        HOPLIMIT2292 = 1 << 12;
    }
}

impl RecvAncillary {
    /// As a ring slot.
    #[must_use]
    pub fn encode(&self) -> Slot {
        let bytes = u16::from_le_bytes([self.ttl, self.tos]);
        let (family, high, low) = ip_to_words(self.to);
        let word0 = pack16(self.asked.bits(), bytes, self.segment, 0);
        let ends = pack16(family, self.port, 0, 0);
        let word4 = pack32(self.interface, self.ours.to_bits());
        [word0, ends, high, low, word4, self.at, 0, 0]
    }

    /// Out of a ring slot.
    ///
    /// # Errors
    /// [`BadSlot`] for a bad address.
    pub fn decode(slot: &Slot) -> Result<Self, BadSlot> {
        let [ttl, tos] = u16_at(slot[0], 1).to_le_bytes();
        Ok(Self {
            asked: AncillarySet::from_bits_retain(u16_at(slot[0], 0)),
            to: ip_from_words(u16_at(slot[1], 0), slot[2], slot[3])?,
            port: u16_at(slot[1], 1),
            ours: Ipv4Addr::from_bits(u32_at(slot[4], 1)),
            interface: u32_at(slot[4], 0),
            ttl,
            tos,
            segment: u16_at(slot[0], 2),
            at: slot[5],
        })
    }
}
