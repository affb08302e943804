//! An IPv4 address with the length of its network's prefix, as in `10.219.0.2/24`.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// An address that an interface can have, and its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Cidr {
    address: Ipv4Addr,
    prefix: u8,
}

impl Cidr {
    /// An address in a network.
    ///
    /// # Errors
    /// A sentence that says why no interface can have it.
    pub(crate) fn new(address: Ipv4Addr, prefix: u8) -> Result<Self, String> {
        let cidr = Self { address, prefix };
        if !(1..=30).contains(&prefix) {
            return Err(format!("the prefix length {prefix} is not in 1 to 30"));
        }
        if address.is_multicast() || address.is_loopback() || address.octets()[0] == 0 {
            return Err(format!("{address} cannot be an interface's address"));
        }
        if address.to_bits() >= 0xf000_0000 {
            return Err(format!("{address} is in the reserved range 240.0.0.0/4"));
        }
        if address == cidr.network() || address == cidr.broadcast() {
            let what = if address == cidr.network() { "network" } else { "broadcast" };
            return Err(format!("{address} is the {what} address of {cidr}; give a host's"));
        }
        Ok(cidr)
    }

    pub(crate) fn address(self) -> Ipv4Addr {
        self.address
    }

    pub(crate) fn prefix(self) -> u8 {
        self.prefix
    }

    fn mask(self) -> u32 {
        mask(self.prefix)
    }

    /// The lowest address of the network.
    pub(crate) fn network(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.address.to_bits() & self.mask())
    }

    /// The highest address of the network.
    pub(crate) fn broadcast(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.address.to_bits() | !self.mask())
    }

    /// Is it an address of the same network?
    pub(crate) fn contains(self, other: Ipv4Addr) -> bool {
        other.to_bits() & self.mask() == self.network().to_bits()
    }

    /// Can a host of the same network have this address, besides ours?
    pub(crate) fn is_other_host(self, other: Ipv4Addr) -> bool {
        self.contains(other)
            && other != self.address
            && other != self.network()
            && other != self.broadcast()
    }

    /// The first host's address of the network that is not ours.
    pub(crate) fn first_other_host(self) -> Ipv4Addr {
        let first = Ipv4Addr::from_bits(self.network().to_bits() + 1);
        if first == self.address { Ipv4Addr::from_bits(first.to_bits() + 1) } else { first }
    }
}

/// The netmask of a prefix length (at most 32).
pub(crate) fn mask(prefix: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0)
}

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, prefix) = text
            .split_once('/')
            .ok_or_else(|| format!("`{text}` lacks a prefix length, as in 10.219.0.2/24"))?;
        let address = address
            .parse()
            .map_err(|_| format!("`{address}` is not an IPv4 address such as 10.219.0.2"))?;
        let prefix = prefix
            .parse()
            .map_err(|_| format!("`{prefix}` is not a prefix length from 1 to 30"))?;
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
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_what_an_interface_can_have() {
        for text in ["10.219.0.2/24", "192.168.1.254/24", "10.0.0.1/30", "128.0.0.1/1"] {
            let cidr: Cidr = text.parse().unwrap();
            assert_eq!(cidr.to_string(), text);
        }
    }

    #[test]
    fn refuses_the_rest_and_says_why() {
        let table = [
            ("10.219.0.2", "prefix length"),
            ("10.219.0.256/24", "not an IPv4 address"),
            ("fe80::1/64", "not an IPv4 address"),
            ("10.219.0.2/x", "not a prefix length"),
            ("10.219.0.2/-1", "not a prefix length"),
            ("10.219.0.2/31", "1 to 30"),
            ("10.219.0.2/0", "1 to 30"),
            ("10.219.0.0/24", "network address"),
            ("10.219.0.255/24", "broadcast address"),
            ("127.0.0.1/8", "cannot be an interface's"),
            ("0.0.0.1/8", "cannot be an interface's"),
            ("224.0.0.1/24", "cannot be an interface's"),
            ("250.0.0.1/24", "reserved"),
            ("", "prefix length"),
            ("/", "not an IPv4 address"),
        ];
        for (text, why) in table {
            let error = text.parse::<Cidr>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn networks() {
        let cidr: Cidr = "10.219.7.2/24".parse().unwrap();
        assert_eq!(cidr.network(), Ipv4Addr::new(10, 219, 7, 0));
        assert_eq!(cidr.broadcast(), Ipv4Addr::new(10, 219, 7, 255));
        assert_eq!(cidr.first_other_host(), Ipv4Addr::new(10, 219, 7, 1));
        assert!(cidr.is_other_host(Ipv4Addr::new(10, 219, 7, 1)));
        assert!(!cidr.is_other_host(Ipv4Addr::new(10, 219, 7, 2)));
        assert!(!cidr.is_other_host(Ipv4Addr::new(10, 219, 7, 255)));
        assert!(!cidr.is_other_host(Ipv4Addr::new(10, 219, 8, 1)));
        let first: Cidr = "10.0.0.1/30".parse().unwrap();
        assert_eq!(first.first_other_host(), Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!((mask(0), mask(32), mask(8)), (0, u32::MAX, 0xff00_0000));
    }
}
