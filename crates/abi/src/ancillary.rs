//! What is said about one datagram beside its bytes and its other end: the slot after its
//! descriptor ([`crate::data::DataDescriptor::ANCILLARY`]).
//!
//! | word | sending | receiving |
//! |---|---|---|
//! | 0 | is TTL, is TOS given `u16`, TTL `u8`, TOS `u8`, segment `u16` | asked for, the same |
//! | 1 | family of the source, or 0 | family of the destination, and our port |
//! | 2, 3 | our address to send from | the address it was sent to |
//! | 4 | interface `u32` | interface `u32`, our IPv4 address on it |
//! | 5 | 0 | nanoseconds since 1970 |

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use shm::Slot;

use crate::BadSlot;
use crate::bits::{pack16, pack32, u16_at, u32_at};

/// What a sender says of one datagram. [`Default`] says nothing.
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
    /// Payload bytes of each of the datagrams it is cut into (UDP_SEGMENT), 0 for the socket's.
    pub segment: u16,
}

impl SendAncillary {
    const TTL: u16 = 1;
    const TOS: u16 = 2;

    /// As a ring slot.
    #[must_use]
    pub fn encode(&self) -> Slot {
        let given = |some: bool, bit| if some { bit } else { 0 };
        let given = given(self.ttl.is_some(), Self::TTL) | given(self.tos.is_some(), Self::TOS);
        let bytes = [self.ttl.unwrap_or(0), self.tos.unwrap_or(0)];
        let [family, high, low] = ip_to_words(self.source);
        let word0 = pack16(given, u16::from_le_bytes(bytes), self.segment, 0);
        [word0, family, high, low, self.interface.into(), 0, 0, 0]
    }

    /// Out of a ring slot.
    ///
    /// # Errors
    /// [`BadSlot`] for an unknown field or a bad address.
    pub fn decode(slot: &Slot) -> Result<Self, BadSlot> {
        let given = u16_at(slot[0], 0);
        if given & !(Self::TTL | Self::TOS) != 0 {
            return Err(BadSlot::new("ancillary fields", given.into()));
        }
        let [ttl, tos] = u16_at(slot[0], 1).to_le_bytes();
        Ok(Self {
            source: ip_from_words([slot[1], slot[2], slot[3]])?,
            interface: u32_at(slot[4], 0),
            ttl: (given & Self::TTL != 0).then_some(ttl),
            tos: (given & Self::TOS != 0).then_some(tos),
            segment: u16_at(slot[0], 2),
        })
    }
}

/// How a datagram came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecvAncillary {
    /// What the socket's options ask for, [`asked`].
    pub asked: u16,
    /// To which address it was sent: ours, a broadcast address or a group.
    pub to: IpAddr,
    /// To which port.
    pub port: u16,
    /// An IPv4 address of ours to answer from, 0.0.0.0 for none.
    pub ours: Ipv4Addr,
    /// Index of the interface.
    pub interface: u32,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// Type of service or traffic class.
    pub tos: u8,
    /// Length of each of the datagrams that were joined to this one (UDP_GRO), but for the last,
    /// which may be shorter; 0 if it is one.
    pub segment: u16,
    /// When it came: nanoseconds since 1970.
    pub at: u64,
}

/// Bits of [`RecvAncillary::asked`]: the options that a socket has set.
pub mod asked {
    /// IP_PKTINFO.
    pub const PKTINFO: u16 = 1;
    /// IP_RECVTTL.
    pub const TTL: u16 = 1 << 1;
    /// IP_RECVTOS.
    pub const TOS: u16 = 1 << 2;
    /// IP_RECVORIGDSTADDR.
    pub const ORIGDSTADDR: u16 = 1 << 3;
    /// IPV6_RECVPKTINFO.
    pub const PKTINFO6: u16 = 1 << 4;
    /// IPV6_RECVHOPLIMIT.
    pub const HOPLIMIT: u16 = 1 << 5;
    /// IPV6_RECVTCLASS.
    pub const TCLASS: u16 = 1 << 6;
    /// IPV6_RECVORIGDSTADDR.
    pub const ORIGDSTADDR6: u16 = 1 << 7;
    /// SO_TIMESTAMP.
    pub const TIMESTAMP: u16 = 1 << 8;
    /// SO_TIMESTAMPNS.
    pub const TIMESTAMPNS: u16 = 1 << 9;
    /// UDP_GRO.
    pub const GRO: u16 = 1 << 10;
}

impl RecvAncillary {
    /// As a ring slot.
    #[must_use]
    pub fn encode(&self) -> Slot {
        let bytes = u16::from_le_bytes([self.ttl, self.tos]);
        let [family, high, low] = ip_to_words(Some(self.to));
        let word0 = pack16(self.asked, bytes, self.segment, 0);
        let ends = family | u64::from(self.port) << 16;
        let word4 = pack32(self.interface, self.ours.to_bits());
        [word0, ends, high, low, word4, self.at, 0, 0]
    }

    /// Out of a ring slot.
    ///
    /// # Errors
    /// [`BadSlot`] for a bad address.
    pub fn decode(slot: &Slot) -> Result<Self, BadSlot> {
        let [ttl, tos] = u16_at(slot[0], 1).to_le_bytes();
        let to = ip_from_words([u16_at(slot[1], 0).into(), slot[2], slot[3]])?;
        Ok(Self {
            asked: u16_at(slot[0], 0),
            to: to.ok_or(BadSlot::new("address family", slot[1]))?,
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

/// Family (0 for none), then 128 bits of address, big end first.
#[expect(clippy::cast_possible_truncation, reason = "split into two words")]
fn ip_to_words(ip: Option<IpAddr>) -> [u64; 3] {
    match ip {
        None => [0; 3],
        Some(IpAddr::V4(v4)) => [4, 0, v4.to_bits().into()],
        Some(IpAddr::V6(v6)) => [6, (v6.to_bits() >> 64) as u64, v6.to_bits() as u64],
    }
}

fn ip_from_words([family, high, low]: [u64; 3]) -> Result<Option<IpAddr>, BadSlot> {
    let bad = |_| BadSlot::new("IPv4 address", low);
    match (family, high) {
        (0, _) => Ok(None),
        (4, 0) => Ok(Some(Ipv4Addr::from_bits(u32::try_from(low).map_err(bad)?).into())),
        (6, _) => {
            let bits = u128::from(high) << 64 | u128::from(low);
            Ok(Some(Ipv6Addr::from_bits(bits).into()))
        }
        _ => Err(BadSlot::new("address family", family)),
    }
}
