//! What the core knows about an interface.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use smoltcp::wire::EthernetAddress;

use crate::cidr::Cidr;
use crate::ip::v6;
use crate::link::ethernet::Mac;
use crate::nd::{Link, dad::Dad};
use crate::offload::Features;
use crate::time::Instant;

/// How an interface is set up. Its addresses are added later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceConfig {
    /// Hardware address; not a group address.
    pub mac: [u8; 6],
    /// Longest IP packet, bytes (68..=65535; at least 1280 for IPv6).
    pub mtu: u16,
}

/// Whether an address may be used (RFC 4862 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressState {
    /// It is being found out whether somebody else has it: not used.
    Tentative,
    /// Used.
    Preferred,
    /// Used on, but not for anything new if there is a better one.
    Deprecated,
    /// Somebody else on the link has it: not used.
    Duplicate,
}

/// Where an address comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressOrigin {
    /// The owner of the stack.
    Static,
    /// The interface itself (RFC 4862 5.3).
    LinkLocal,
    /// A router's prefix (RFC 4862 5.5).
    Slaac,
}

/// An address of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// The address with its network.
    pub cidr: Cidr,
    /// Whether it may be used.
    pub state: AddressState,
    /// Where it comes from.
    pub origin: AddressOrigin,
    /// When it becomes deprecated; `None` for never.
    pub preferred_until: Option<Instant>,
    /// When it goes; `None` for never.
    pub valid_until: Option<Instant>,
    /// The hardware address of who has a duplicate one, as far as it was told.
    pub owner: Option<[u8; 6]>,
    /// While it is tentative.
    pub(crate) dad: Option<Dad>,
    /// When the link is to be told of it.
    pub(crate) tell: Option<Instant>,
    /// How many identifiers were tried for it before (RFC 7217 5).
    pub(crate) attempt: u8,
}

impl Address {
    /// One without an end.
    pub(crate) fn new(cidr: Cidr, origin: AddressOrigin) -> Self {
        Self {
            cidr,
            state: AddressState::Preferred,
            origin,
            preferred_until: None,
            valid_until: None,
            owner: None,
            dad: None,
            tell: None,
            attempt: 0,
        }
    }

    /// Whether packets to and from it are ours.
    pub(crate) fn is_usable(&self) -> bool {
        matches!(self.state, AddressState::Preferred | AddressState::Deprecated)
    }

    /// Whether it is somebody else's.
    pub(crate) fn is_duplicate(&self) -> bool {
        self.state == AddressState::Duplicate
    }
}

/// An interface of a stack.
#[derive(Debug)]
pub(crate) struct Interface {
    pub(crate) config: InterfaceConfig,
    /// In the order of adding.
    pub(crate) addresses: Vec<Address>,
    /// What it knows of its link, for IPv6.
    pub(crate) link: Link,
    /// Its link can be used.
    pub(crate) up: bool,
    /// What it does for frames.
    pub(crate) features: Features,
}

impl Interface {
    pub(crate) fn new(config: InterfaceConfig) -> Self {
        Self {
            config,
            addresses: Vec::new(),
            link: Link::default(),
            up: true,
            features: Features::default(),
        }
    }

    pub(crate) fn mac(&self) -> Mac {
        EthernetAddress(self.config.mac)
    }

    /// Its usable addresses.
    pub(crate) fn usable(&self) -> impl Iterator<Item = IpAddr> {
        let usable = self.addresses.iter().filter(|ours| ours.is_usable());
        usable.map(|ours| ours.cidr.address)
    }

    /// Longest packet to `destination`, bytes.
    pub(crate) fn mtu(&self, destination: IpAddr) -> u16 {
        match destination {
            IpAddr::V4(_) => self.config.mtu,
            IpAddr::V6(_) => self.link.mtu.unwrap_or(u16::MAX).min(self.config.mtu),
        }
    }

    /// Its address `ip`, usable or not.
    pub(crate) fn address(&self, ip: IpAddr) -> Option<&Address> {
        self.addresses.iter().find(|ours| ours.cidr.address == ip)
    }

    /// Whether `ip` is one of its own.
    pub(crate) fn has(&self, ip: IpAddr) -> bool {
        self.address(ip).is_some_and(Address::is_usable)
    }

    /// Whether it is in an IPv6 group: all nodes, and those that its addresses are asked for in.
    /// Tentative ones are (RFC 4862 5.4.2).
    pub(crate) fn listens(&self, group: Ipv6Addr) -> bool {
        let mut asked_for = self.addresses.iter().filter(|ours| !ours.is_duplicate());
        group == v6::ALL_NODES
            || asked_for.any(|ours| match ours.cidr.address {
                IpAddr::V6(ip) => v6::solicited_node(ip) == group,
                IpAddr::V4(_) => false,
            })
    }

    /// Whether `address` is the broadcast address of one of the interface's networks.
    pub(crate) fn is_broadcast(&self, address: IpAddr) -> bool {
        let IpAddr::V4(address) = address else { return false };
        self.addresses.iter().any(|ours| ours.cidr.broadcast() == Some(address))
    }

    /// Whether `address` is a host on the link.
    pub(crate) fn is_on_link(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|ours| ours.cidr.contains(address)) && !self.is_broadcast(address)
    }

    /// Our IPv4 address to be seen by `next`, the first hop: the one in its network, else the first
    /// (RFC 1122 3.3.4.3 leaves the choice to us).
    pub(crate) fn v4_source_for(&self, next: IpAddr) -> Option<IpAddr> {
        let ours = || self.addresses.iter().map(|ours| ours.cidr).filter(|c| c.address.is_ipv4());
        let found = ours().find(|ours| ours.contains(next)).or_else(|| ours().next())?;
        Some(found.address)
    }
}
