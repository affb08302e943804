//! The only codec of addresses in slots: a family, then 128 bits of address, big end first.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use crate::bad_slot::BadSlot;
use crate::bits::{pack16, u16_at};

/// The numbers of the families in a slot; 0 is no address.
const V4: u16 = 4;
const V6: u16 = 6;

/// The address "any" with port 0, as bind(2) uses it.
pub const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// A socket address as three slot words: family, port and scope (16 bits each), then the address.
/// The scope names an interface. A scope above 65,535 names none; it becomes 65,535, which names
/// none either.
#[must_use]
#[inline]
pub fn addr_to_words(addr: SocketAddr) -> [u64; 3] {
    let scope = match addr {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(v6) => u16::try_from(v6.scope_id()).unwrap_or(u16::MAX),
    };
    let (family, high, low) = ip_to_words(addr.ip());
    [pack16(family, addr.port(), scope, 0), high, low]
}

/// The inverse of [`addr_to_words`].
///
/// # Errors
/// [`BadSlot`] for an unknown family, or bits that an IPv4 address does not have.
pub fn addr_from_words(words: [u64; 3]) -> Result<SocketAddr, BadSlot> {
    let (family, port, scope) = (u16_at(words[0], 0), u16_at(words[0], 1), u16_at(words[0], 2));
    Ok(match ip_from_words(family, words[1], words[2])? {
        IpAddr::V4(v4) => SocketAddrV4::new(v4, port).into(),
        IpAddr::V6(v6) => SocketAddrV6::new(v6, port, 0, scope.into()).into(),
    })
}

/// The number of the family, and the upper and lower half of the address.
#[expect(clippy::cast_possible_truncation, reason = "split into two words")]
#[inline]
pub(crate) fn ip_to_words(ip: IpAddr) -> (u16, u64, u64) {
    match ip {
        IpAddr::V4(v4) => (V4, 0, v4.to_bits().into()),
        IpAddr::V6(v6) => (V6, (v6.to_bits() >> 64) as u64, v6.to_bits() as u64),
    }
}

/// The inverse of [`ip_to_words`].
///
/// # Errors
/// [`BadSlot`] for an unknown family, or bits that an IPv4 address does not have.
pub(crate) fn ip_from_words(family: u16, high: u64, low: u64) -> Result<IpAddr, BadSlot> {
    match family {
        V4 => match (high, u32::try_from(low)) {
            (0, Ok(v4)) => Ok(Ipv4Addr::from_bits(v4).into()),
            _ => Err(BadSlot::new("IPv4 address", if high != 0 { high } else { low })),
        },
        V6 => Ok(Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)).into()),
        _ => Err(BadSlot::new("address family", family.into())),
    }
}
