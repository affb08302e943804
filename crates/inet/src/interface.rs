//! What the core knows about an interface.

use alloc::vec::Vec;
use core::net::IpAddr;

use smoltcp::wire::EthernetAddress;

use crate::ip::cidr::Cidr;
use crate::link::ethernet::Mac;

/// Names an interface of one stack, in the order of their adding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceId(pub u16);

impl InterfaceId {
    /// The interface to ourselves, which every stack has.
    pub const LOOPBACK: Self = Self(u16::MAX);

    /// Its number in `sin6_scope_id` and as `if_nametoindex` gives it: 1 for the first.
    pub fn scope_id(self) -> u32 {
        u32::from(self.0) + 1
    }

    /// The interface of that number; `None` for 0, which means any.
    pub fn from_scope_id(scope: u32) -> Option<Self> {
        scope.checked_sub(1).and_then(|id| u16::try_from(id).ok()).map(Self)
    }
}

/// How an interface is set up. Its addresses are added later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceConfig {
    /// Hardware address; not a group address.
    pub mac: [u8; 6],
    /// Longest IP packet, bytes (68..=65535).
    pub mtu: u16,
}

/// An interface of a stack.
#[derive(Debug, Clone)]
pub(crate) struct Interface {
    pub(crate) config: InterfaceConfig,
    /// Its addresses with their networks, in the order of adding.
    pub(crate) addresses: Vec<Cidr>,
}

impl Interface {
    pub(crate) fn new(config: InterfaceConfig) -> Self {
        Self { config, addresses: Vec::new() }
    }

    pub(crate) fn mac(&self) -> Mac {
        EthernetAddress(self.config.mac)
    }

    /// Whether `address` is one of its own.
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|ours| ours.address == address)
    }

    /// Whether `address` is the broadcast address of one of the interface's networks.
    pub(crate) fn is_broadcast(&self, address: IpAddr) -> bool {
        let IpAddr::V4(address) = address else { return false };
        self.addresses.iter().any(|ours| ours.broadcast() == Some(address))
    }

    /// Whether `address` is a host on the link.
    pub(crate) fn is_on_link(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|ours| ours.contains(address)) && !self.is_broadcast(address)
    }

    /// Our address to be seen by `next`, the first hop: the one in its network, else the first
    /// (RFC 1122 3.3.4.3 leaves the choice to us).
    pub(crate) fn source_for(&self, next: IpAddr) -> Option<IpAddr> {
        let family =
            || self.addresses.iter().filter(|ours| ours.address.is_ipv4() == next.is_ipv4());
        let ours = family().find(|ours| ours.contains(next)).or_else(|| family().next())?;
        Some(ours.address)
    }
}
