//! An address of an interface with the length of its network's prefix, as in `10.219.0.2/24` or
//! `fd00::2/64`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use abi::network::Prefixed;

/// An address that an interface can have, and its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Cidr(Prefixed);

impl Cidr {
    /// An address in a network.
    ///
    /// # Errors
    /// A sentence that says why no interface can have it.
    pub(crate) fn new(address: IpAddr, prefix: u8) -> Result<Self, String> {
        let cidr = Self(Prefixed { address, prefix });
        let most = cidr.0.width() - 2 + u8::from(address.is_ipv6());
        if !(1..=most).contains(&prefix) {
            return Err(format!("the prefix length {prefix} is not in 1 to {most}"));
        }
        let mapped = matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
        let zero = matches!(address, IpAddr::V4(v4) if v4.octets()[0] == 0);
        if address.is_multicast()
            || address.is_loopback()
            || address.is_unspecified()
            || mapped
            || zero
        {
            return Err(format!("{address} cannot be an interface's address"));
        }
        if let IpAddr::V4(v4) = address {
            if v4.to_bits() >= 0xf000_0000 {
                return Err(format!("{address} is in the reserved range 240.0.0.0/4"));
            }
            if address == cidr.network() || Some(address) == cidr.broadcast() {
                let what = if address == cidr.network() { "network" } else { "broadcast" };
                return Err(format!("{address} is the {what} address of {cidr}; give a host's"));
            }
        }
        Ok(cidr)
    }

    pub(crate) fn address(self) -> IpAddr {
        self.0.address
    }

    pub(crate) fn prefix(self) -> u8 {
        self.0.prefix
    }

    /// As messages have it.
    pub(crate) fn prefixed(self) -> Prefixed {
        self.0
    }

    pub(crate) fn is_ipv4(self) -> bool {
        self.0.address.is_ipv4()
    }

    /// The lowest address of the network.
    pub(crate) fn network(self) -> IpAddr {
        network(self.0.address, self.0.prefix)
    }

    /// The highest address of an IPv4 network.
    fn broadcast(self) -> Option<IpAddr> {
        let IpAddr::V4(address) = self.0.address else { return None };
        Some(Ipv4Addr::from_bits(address.to_bits() | !mask(self.0.prefix)).into())
    }

    /// Is it an address of the same network?
    pub(crate) fn contains(self, other: IpAddr) -> bool {
        other.is_ipv4() == self.is_ipv4() && network(other, self.0.prefix) == self.network()
    }

    /// Can a host of the same network have this address, besides ours? The network's own address is
    /// all routers' in IPv6 (RFC 4291 2.6.1).
    pub(crate) fn is_other_host(self, other: IpAddr) -> bool {
        self.contains(other)
            && other != self.0.address
            && other != self.network()
            && Some(other) != self.broadcast()
    }

    /// The first host's address of the network that is not ours.
    pub(crate) fn first_other_host(self) -> IpAddr {
        let first = next(self.network());
        if first == self.0.address { next(first) } else { first }
    }
}

fn next(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits().wrapping_add(1)).into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits().wrapping_add(1)).into(),
    }
}

/// The address without the bits behind the prefix.
pub(crate) fn network(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() & mask(prefix)).into(),
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
            Ipv6Addr::from_bits(v6.to_bits() & mask).into()
        }
    }
}

/// The netmask of an IPv4 prefix length.
pub(crate) fn mask(prefix: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0)
}

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Prefixed { address, prefix } = text.parse()?;
        Self::new(address, prefix)
    }
}

impl TryFrom<String> for Cidr {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_what_an_interface_can_have() {
        let table = [
            "10.219.0.2/24",
            "192.168.1.254/24",
            "10.0.0.1/30",
            "128.0.0.1/1",
            "fd00::2/64",
            "fe80::1/64",
            "2001:db8::/127",
        ];
        for text in table {
            let cidr: Cidr = text.parse().unwrap();
            assert_eq!(cidr.to_string(), text);
        }
    }

    #[test]
    fn refuses_the_rest_and_says_why() {
        let table = [
            ("10.219.0.2", "prefix length"),
            ("10.219.0.256/24", "not an IP address"),
            ("fe80::1/129", "not a prefix length"),
            ("10.219.0.2/x", "not a prefix length"),
            ("10.219.0.2/-1", "not a prefix length"),
            ("10.219.0.2/31", "1 to 30"),
            ("10.219.0.2/0", "1 to 30"),
            ("fd00::1/128", "1 to 127"),
            ("10.219.0.0/24", "network address"),
            ("10.219.0.255/24", "broadcast address"),
            ("127.0.0.1/8", "cannot be an interface's"),
            ("0.0.0.1/8", "cannot be an interface's"),
            ("224.0.0.1/24", "cannot be an interface's"),
            ("::1/64", "cannot be an interface's"),
            ("::ffff:10.0.0.1/64", "cannot be an interface's"),
            ("ff02::1/64", "cannot be an interface's"),
            ("250.0.0.1/24", "reserved"),
            ("", "prefix length"),
            ("/", "not an IP address"),
        ];
        for (text, why) in table {
            let error = text.parse::<Cidr>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn networks() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let cidr: Cidr = "10.219.7.2/24".parse().unwrap();
        assert_eq!(cidr.network(), ip("10.219.7.0"));
        assert_eq!(cidr.broadcast(), Some(ip("10.219.7.255")));
        assert_eq!(cidr.first_other_host(), ip("10.219.7.1"));
        assert!(cidr.is_other_host(ip("10.219.7.1")));
        assert!(!cidr.is_other_host(ip("10.219.7.2")));
        assert!(!cidr.is_other_host(ip("10.219.7.255")));
        assert!(!cidr.is_other_host(ip("10.219.8.1")));
        assert!(!cidr.is_other_host(ip("fd00::1")));
        let first: Cidr = "10.0.0.1/30".parse().unwrap();
        assert_eq!(first.first_other_host(), ip("10.0.0.2"));
        let six: Cidr = "fd00:1::1/64".parse().unwrap();
        assert_eq!((six.network(), six.first_other_host()), (ip("fd00:1::"), ip("fd00:1::2")));
        assert!(six.is_other_host(ip("fd00:1::ffff")) && !six.is_other_host(ip("fd00:1::")));
        assert_eq!((mask(0), mask(32), mask(8)), (0, u32::MAX, 0xff00_0000));
    }
}
