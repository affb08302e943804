//! What the core knows about an interface.

use core::net::Ipv4Addr;

use smoltcp::wire::{EthernetAddress, Ipv4Cidr};

use crate::link::ethernet::Mac;

/// Names an interface of one stack, in the order of their adding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceId(pub u16);

/// How an interface is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceConfig {
    /// Hardware address; not a group address.
    pub mac: [u8; 6],
    /// Longest IP packet, bytes (68..=65535).
    pub mtu: u16,
    /// The stack's address on it.
    pub address: Ipv4Addr,
    /// Length of the network prefix, bits (0..=32).
    pub prefix: u8,
    /// The default router, on the interface's network.
    pub gateway: Option<Ipv4Addr>,
}

/// An interface of a stack.
#[derive(Debug, Clone)]
pub(crate) struct Interface {
    pub(crate) config: InterfaceConfig,
}

impl Interface {
    pub(crate) fn new(config: InterfaceConfig) -> Self {
        let prefix = config.prefix.min(32);
        Self { config: InterfaceConfig { prefix, ..config } }
    }

    pub(crate) fn mac(&self) -> Mac {
        EthernetAddress(self.config.mac)
    }

    /// The network that is reached on the link.
    pub(crate) fn network(&self) -> Ipv4Cidr {
        Ipv4Cidr::new(self.config.address, self.config.prefix).network()
    }

    /// Whether `address` is the broadcast address of the interface's network.
    pub(crate) fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        self.network().broadcast() == Some(address)
    }

    /// Whether `address` is a host on the link.
    pub(crate) fn is_on_link(&self, address: Ipv4Addr) -> bool {
        self.network().contains_addr(&address) && !self.is_broadcast(address)
    }
}
