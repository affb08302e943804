//! A range of addresses, `ADDRESS/PREFIX`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The addresses that begin alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

/// A text that is no [`Network`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// It has no address.
    #[error("`{0}` is no address or network such as 10.9.0.0/24 or fd00::/64")]
    Address(String),
    /// The length of the prefix is none.
    #[error("`{text}` has a prefix that is not in 0 to {most}")]
    Prefix {
        /// The text.
        text: String,
        /// The address's bits.
        most: u8,
    },
    /// The address has bits behind the prefix.
    #[error("`{text}` is a host in a network: say {network}, or the address alone")]
    Host {
        /// The text.
        text: String,
        /// The network that the host is in.
        network: Network,
    },
}

/// An address's bits, the first one highest, and their number.
fn bits(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

/// The first `prefix` bits.
fn mask(prefix: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0)
}

impl Network {
    /// Whether an address is in it. An IPv4 address mapped to IPv6 is an IPv4 address.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        let ((ours, width), (theirs, other)) = (bits(self.address), bits(address.to_canonical()));
        width == other && (ours ^ theirs) & mask(self.prefix) == 0
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(a, p)| (a, Some(p)));
        let address: IpAddr =
            address.parse().map_err(|_| NetworkError::Address(text.to_owned()))?;
        let (value, most) = bits(address);
        let number = prefix.map_or(Some(most), |prefix| prefix.parse().ok());
        let prefix = number.filter(|prefix| *prefix <= most);
        let prefix = prefix.ok_or_else(|| NetworkError::Prefix { text: text.to_owned(), most })?;
        let network = value & mask(prefix);
        if network == value {
            return Ok(Self { address, prefix });
        }
        let address = match address {
            // The highest 32 of 128 bits.
            IpAddr::V4(_) => IpAddr::V4(((network >> 96) as u32).into()),
            IpAddr::V6(_) => IpAddr::V6(network.into()),
        };
        Err(NetworkError::Host { text: text.to_owned(), network: Self { address, prefix } })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}
