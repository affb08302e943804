//! Settings and status of an instance's network, for the messages of [`crate::control`].

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// An address with the length of its network's prefix, or a network: `10.219.0.2/24`,
/// `2001:db8::/32`. In JSON it is text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Prefixed {
    /// The address.
    pub address: IpAddr,
    /// Bits of the prefix, at most 32 for IPv4 and 128 for IPv6.
    pub prefix: u8,
}

impl Prefixed {
    /// All of IPv4.
    pub const ALL_V4: Self = Self { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), prefix: 0 };
    /// All of IPv6.
    pub const ALL_V6: Self = Self { address: IpAddr::V6(Ipv6Addr::UNSPECIFIED), prefix: 0 };

    /// Number of bits of an address of its family.
    #[must_use]
    pub fn width(&self) -> u8 {
        if self.address.is_ipv4() { 32 } else { 128 }
    }

    /// Is it all of a family, the destination of a default route?
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.prefix == 0
    }
}

impl fmt::Display for Prefixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl FromStr for Prefixed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, prefix) = text
            .split_once('/')
            .ok_or_else(|| format!("`{text}` lacks a prefix length, as in 10.219.0.2/24"))?;
        let address = address.parse().map_err(|_| {
            format!("`{address}` is not an IP address such as 10.219.0.2 or fd00::2")
        })?;
        let mut prefixed = Self { address, prefix: 0 };
        let width = prefixed.width();
        prefixed.prefix = prefix
            .parse()
            .ok()
            .filter(|prefix| *prefix <= width)
            .ok_or_else(|| format!("`{prefix}` is not a prefix length from 0 to {width}"))?;
        Ok(prefixed)
    }
}

impl TryFrom<String> for Prefixed {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Prefixed> for String {
    fn from(prefixed: Prefixed) -> Self {
        prefixed.to_string()
    }
}

/// A route to be set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteSettings {
    /// The destinations.
    pub to: Prefixed,
    /// The router; `None` if the destinations are on the link. The unspecified address: they are
    /// unreachable.
    pub via: Option<IpAddr>,
    /// Of routes with the same destinations, the stack takes the one with the least metric.
    pub metric: u32,
}

/// How a stack gets IPv6 addresses and routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ipv6Mode {
    /// A link-local address; more addresses and routes from routers' advertisements.
    #[default]
    Auto,
    /// A link-local address, and the configured addresses and routes.
    Static,
    /// No IPv6.
    Off,
}

/// Settings of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InterfaceSettings {
    /// As programs see it, such as `eth0`.
    pub name: String,
    /// The stack's addresses on it, of both families.
    pub addresses: Vec<Prefixed>,
    /// Routes over it, default routes included. Once the addresses are set, a router must be on the
    /// link.
    pub routes: Vec<RouteSettings>,
    /// Whether it asks a DHCP server for an IPv4 address, routes and name servers.
    #[serde(default)]
    pub dhcp: bool,
    /// Probes for a duplicate of an IPv6 address, one per second, before the stack uses the address
    /// (0 to [`MOST_DAD_TRANSMITS`]; 0: the stack uses addresses at once).
    #[serde(default)]
    pub dad_transmits: u8,
    /// A router is known to be there: programs wait for the address that it gives, for a while.
    #[serde(default)]
    pub awaits_router: bool,
}

/// Most probes for an address. The start of an instance waits for them.
pub const MOST_DAD_TRANSMITS: u8 = 5;

/// Status of an instance's network.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NetworkStatus {
    /// The interfaces, in order of index.
    pub interfaces: Vec<InterfaceStatus>,
    /// The routing table, in the order of its search.
    pub routes: Vec<RouteStatus>,
    /// The neighbours, in order of interface and address.
    #[serde(default)]
    pub neighbours: Vec<NeighbourStatus>,
    /// Where programs look names up.
    #[serde(default)]
    pub resolver: ResolverStatus,
    /// Programs may have raw sockets.
    #[serde(default)]
    pub raw_sockets: bool,
}

/// Where the programs of an instance look names up.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ResolverStatus {
    /// Name servers in order of preference: the configured ones, otherwise those learnt on all
    /// interfaces.
    pub servers: Vec<IpAddr>,
    /// Domains that complete short names.
    pub search: Vec<String>,
    /// The servers may change, as the instance learns them.
    pub learns: bool,
}

/// A neighbour: another host on a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeighbourStatus {
    /// Its address.
    pub address: IpAddr,
    /// Name of the interface.
    pub interface: String,
    /// Its hardware address; `None` while the stack asks for it.
    pub mac: Option<String>,
    /// `INCOMPLETE`, `REACHABLE`, `STALE`, `DELAY` or `PROBE`.
    pub state: String,
}

/// An interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceStatus {
    /// As `if_nametoindex` gives it: 1 for the first.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Hardware address, `02:00:00:00:00:01`; `None` for a loopback interface.
    pub mac: Option<String>,
    /// Bytes of the longest IP packet.
    pub mtu: u32,
    /// As `ip link` has it: `UP`, `DOWN` (set down on the host), `LOWERLAYERDOWN` (no carrier) or
    /// `NOTPRESENT` (the device is gone).
    #[serde(default = "up")]
    pub state: String,
    /// Its addresses.
    pub addresses: Vec<AddressStatus>,
    /// Name servers learnt on it, in order of preference.
    #[serde(default)]
    pub name_servers: Vec<IpAddr>,
    /// The device behind it, as `--nic` names it; empty for a loopback interface.
    #[serde(default)]
    pub device: String,
    /// The device's offloads, as `ethtool -k` names them.
    #[serde(default)]
    pub features: Vec<String>,
}

fn up() -> String {
    "UP".to_owned()
}

/// An address of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressStatus {
    /// The address.
    pub address: IpAddr,
    /// Bits of its network's prefix.
    pub prefix: u8,
    /// `tentative` (another host may have it), `preferred`, `deprecated` or `dadfailed` (another
    /// host has it; it is not used).
    pub state: String,
    /// Origin: `static`, `link-local`, `slaac` or `dhcp`.
    pub origin: String,
    /// Seconds for which it stays valid, `None` for ever.
    pub valid: Option<u64>,
}

/// A route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteStatus {
    /// The destinations.
    pub to: Prefixed,
    /// The router; `None` if the destinations are on the link.
    pub via: Option<IpAddr>,
    /// Name of the interface.
    pub interface: String,
    /// The route's source address, where it is set: the stack's address in packets whose socket
    /// names none.
    pub source: Option<IpAddr>,
    /// Of routes with the same destinations, the stack takes the one with the least metric.
    pub metric: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixed_addresses_are_text() {
        for text in ["10.219.0.2/24", "fd00::2/64", "0.0.0.0/0", "::/0", "fe80::1/128"] {
            let parsed: Prefixed = text.parse().unwrap();
            assert_eq!(parsed.to_string(), text);
            assert_eq!(serde_json::to_string(&parsed).unwrap(), format!("\"{text}\""));
        }
        for text in ["10.0.0.1", "10.0.0.1/33", "fd00::1/129", "x/8", "10.0.0.1/", "10.0.0.1/-1"] {
            assert!(text.parse::<Prefixed>().is_err(), "{text}");
        }
    }
}
