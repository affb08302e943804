//! Networks: an address and the length of the prefix that names the network.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address with the length of its network's prefix. A prefix longer than the address counts as
/// all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cidr {
    /// The address; bits behind the prefix may be set.
    pub address: IpAddr,
    /// Length of the prefix, bits (0..=32, or 0..=128).
    pub prefix: u8,
}

impl Cidr {
    /// All IPv4 addresses.
    pub const ANY_V4: Self = Self { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), prefix: 0 };
    /// All IPv6 addresses.
    pub const ANY_V6: Self = Self { address: IpAddr::V6(Ipv6Addr::UNSPECIFIED), prefix: 0 };

    /// `address` in a network of `prefix` bits.
    pub fn new(address: impl Into<IpAddr>, prefix: u8) -> Self {
        let address = address.into();
        Self { address, prefix: prefix.min(bits(address)) }
    }

    /// The network of this one address.
    pub fn host(address: impl Into<IpAddr>) -> Self {
        Self::new(address, u8::MAX)
    }

    /// The network's own name: the address without the bits behind the prefix.
    #[must_use]
    pub fn network(self) -> Self {
        let prefix = self.prefix.min(bits(self.address));
        let address = match self.address {
            IpAddr::V4(ip) => Ipv4Addr::from_bits(ip.to_bits() & mask_v4(prefix)).into(),
            IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & mask_v6(prefix)).into(),
        };
        Self { address, prefix }
    }

    /// Whether `address` is in the network; never if it is of the other family.
    pub fn contains(self, address: IpAddr) -> bool {
        let prefix = self.prefix;
        match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()) & mask_v4(prefix) == 0,
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()) & mask_v6(prefix) == 0,
            _ => false,
        }
    }

    /// The broadcast address of an IPv4 network that has one: of up to 30 bits (RFC 3021).
    pub(crate) fn broadcast(self) -> Option<Ipv4Addr> {
        match self.address {
            IpAddr::V4(ip) if self.prefix <= 30 => {
                Some(Ipv4Addr::from_bits(ip.to_bits() | !mask_v4(self.prefix)))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// Length of the address, bits.
fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn mask_v4(prefix: u8) -> u32 {
    !u32::MAX.checked_shr(prefix.into()).unwrap_or(0)
}

fn mask_v6(prefix: u8) -> u128 {
    !u128::MAX.checked_shr(prefix.into()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use crate::cidr::*;
    use std::string::ToString;

    fn cidr(text: &str) -> Cidr {
        let (address, prefix) = text.split_once('/').unwrap();
        Cidr::new(address.parse::<IpAddr>().unwrap(), prefix.parse().unwrap())
    }

    #[test]
    fn networks_contain_what_begins_as_they_do() {
        let table = [
            ("10.1.2.3/8", "10.255.0.1", true),
            ("10.1.2.3/8", "11.0.0.1", false),
            ("0.0.0.0/0", "255.255.255.255", true),
            ("0.0.0.0/0", "::", false),
            ("10.1.2.3/32", "10.1.2.3", true),
            ("10.1.2.3/32", "10.1.2.2", false),
            ("::/0", "ffff::1", true),
            ("::/0", "0.0.0.0", false),
            ("2001:db8::1/64", "2001:db8::ffff", true),
            ("2001:db8::1/64", "2001:db8:0:1::1", false),
            ("2001:db8::1/128", "2001:db8::1", true),
            ("2001:db8::1/127", "2001:db8::0", true),
        ];
        for (network, address, inside) in table {
            assert_eq!(cidr(network).contains(address.parse().unwrap()), inside, "{network}");
        }
    }

    #[test]
    fn names_of_networks() {
        assert_eq!(cidr("10.1.2.3/9").network().to_string(), "10.0.0.0/9");
        assert_eq!(cidr("2001:db8:ffff::1/33").network().to_string(), "2001:db8:8000::/33");
        assert_eq!(cidr("10.1.2.3/99").prefix, 32);
        assert_eq!(cidr("10.1.2.3/24").broadcast(), Some([10, 1, 2, 255].into()));
        assert_eq!(cidr("10.1.2.3/31").broadcast(), None);
        assert_eq!(cidr("::1/24").broadcast(), None);
        assert_eq!(Cidr::host(Ipv6Addr::LOCALHOST).prefix, 128);
    }
}
