//! Roles: which process this is, which says what it may do.

use std::fmt;
use std::str::FromStr;

use rustix::thread::CapabilitySet;

/// The device of a driver, which has system calls of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKind {
    /// A TAP device's queues.
    Tap,
    /// A packet socket.
    Packet,
    /// An AF_XDP socket.
    Xdp,
    /// A stream to passt(1).
    Passt,
    /// Capture files.
    Pcap,
    /// Memory shared with another instance.
    Wire,
}

/// All kinds and their words.
const KINDS: [(DeviceKind, &str); 6] = [
    (DeviceKind::Tap, "tap"),
    (DeviceKind::Packet, "packet"),
    (DeviceKind::Xdp, "xdp"),
    (DeviceKind::Passt, "passt"),
    (DeviceKind::Pcap, "pcap"),
    (DeviceKind::Wire, "wire"),
];

/// A process with a sandbox: `inet`, `nic:tap`, `fused:tap`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The inet server.
    Inet,
    /// A driver of such a device.
    Driver(DeviceKind),
    /// Inet server and driver in one process.
    Fused(DeviceKind),
    /// The relay of programs without the library. It brings its network namespace along.
    Relay,
    /// The relay's helper of `--host-loopback`. It connects to ports of the host's loopback.
    Connector,
    /// A target of iSCSI. It has its files open, and an io_uring for them.
    Target,
}

impl Role {
    /// Every role.
    pub fn all() -> impl Iterator<Item = Self> {
        let of_kind = |(kind, _)| [Self::Driver(kind), Self::Fused(kind)];
        [Self::Inet, Self::Relay, Self::Connector, Self::Target]
            .into_iter()
            .chain(KINDS.into_iter().flat_map(of_kind))
    }

    /// The capabilities that it keeps, of a user namespace of its own.
    pub(crate) fn keeps(self) -> CapabilitySet {
        match self {
            // For the addresses of its network namespace, and of its sockets there; for raw ones.
            Self::Relay => CapabilitySet::NET_ADMIN.union(CapabilitySet::NET_RAW),
            Self::Inet | Self::Driver(_) | Self::Fused(_) | Self::Connector | Self::Target => {
                CapabilitySet::empty()
            }
        }
    }

    /// The device that it drives.
    #[must_use]
    pub fn device(self) -> Option<DeviceKind> {
        match self {
            Self::Inet | Self::Relay | Self::Connector | Self::Target => None,
            Self::Driver(kind) | Self::Fused(kind) => Some(kind),
        }
    }
}

impl FromStr for DeviceKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kind = KINDS.iter().find(|(_, word)| *word == text);
        kind.map(|(kind, _)| *kind).ok_or_else(|| format!("there is no kind of device {text:?}"))
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(KINDS.iter().find(|(kind, _)| kind == self).map_or("", |(_, word)| word))
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "inet" => Ok(Self::Inet),
            None if text == "relay" => Ok(Self::Relay),
            None if text == "connector" => Ok(Self::Connector),
            None if text == "target" => Ok(Self::Target),
            Some(("nic", kind)) => kind.parse().map(Self::Driver),
            Some(("fused", kind)) => kind.parse().map(Self::Fused),
            _ => Err(
                "a role is inet, relay, connector, target, nic:KIND or fused:KIND, as in nic:tap"
                    .to_owned(),
            ),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet => f.write_str("inet"),
            Self::Relay => f.write_str("relay"),
            Self::Connector => f.write_str("connector"),
            Self::Target => f.write_str("target"),
            Self::Driver(kind) => write!(f, "nic:{kind}"),
            Self::Fused(kind) => write!(f, "fused:{kind}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_read_as_they_are_written() {
        for role in Role::all() {
            assert_eq!(role.to_string().parse(), Ok(role));
        }
        assert_eq!(Role::all().count(), 16);
        for wrong in ["", "nic", "nic:", "nic:tub", "inet:tap"] {
            assert!(wrong.parse::<Role>().is_err(), "{wrong}");
        }
    }
}
