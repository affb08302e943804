//! The interfaces of a stack: hardware address, MTU, offloads, and the addresses of both families.

use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use smoltcp::wire::EthernetAddress;

use super::address::Address;
use super::ethernet::Mac;
use super::neighbour::NeighbourTimes;
use crate::interface_id::InterfaceId;
use crate::offload::Features;
use crate::sockaddr::link_of;

/// How an interface is set up. Its addresses are added later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceConfig {
    /// Hardware address; not a group address.
    pub mac: [u8; 6],
    /// Longest IP packet, bytes (68..=65535; at least 1280 for IPv6).
    pub mtu: u16,
}

/// The parameters that routers advertise for IPv6 on a link (RFC 4861 6.3.2).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LinkParameters {
    pub(crate) hop_limit: Option<u8>,
    pub(crate) mtu: Option<u16>,
    pub(crate) times: NeighbourTimes,
}

/// An interface of a stack.
#[derive(Debug)]
pub(crate) struct Interface {
    config: InterfaceConfig,
    /// In the order of adding.
    addresses: Vec<Address>,
    parameters: LinkParameters,
    /// Its link can be used.
    up: bool,
    features: Features,
}

impl Interface {
    pub(crate) fn new(config: InterfaceConfig) -> Self {
        Self {
            config,
            addresses: Vec::new(),
            parameters: LinkParameters::default(),
            up: true,
            features: Features::default(),
        }
    }

    pub(crate) fn mac(&self) -> Mac {
        EthernetAddress(self.config.mac)
    }

    /// Longest packet of either family, bytes.
    pub(crate) fn link_mtu(&self) -> u16 {
        self.config.mtu
    }

    pub(crate) fn set_link_mtu(&mut self, mtu: u16) {
        self.config.mtu = mtu;
    }

    /// Whether its link can be used.
    pub(crate) fn is_up(&self) -> bool {
        self.up
    }

    /// Sets whether its link is up. Gives the former state.
    pub(crate) fn set_up(&mut self, up: bool) -> bool {
        core::mem::replace(&mut self.up, up)
    }

    /// Sets its offloads.
    pub(crate) fn set_features(&mut self, features: Features) {
        self.features = features;
    }

    /// The parameters that routers advertise for its link.
    pub(crate) fn parameters(&self) -> &LinkParameters {
        &self.parameters
    }

    pub(crate) fn parameters_mut(&mut self) -> &mut LinkParameters {
        &mut self.parameters
    }

    /// Its addresses, in the order of adding.
    pub(crate) fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    pub(crate) fn addresses_mut(&mut self) -> &mut [Address] {
        &mut self.addresses
    }

    pub(crate) fn add_address(&mut self, address: Address) {
        self.addresses.push(address);
    }

    /// Removes an address.
    pub(crate) fn remove_address(&mut self, ip: IpAddr) -> Option<Address> {
        let index = self.addresses.iter().position(|ours| ours.cidr.address == ip)?;
        Some(self.addresses.remove(index))
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
            IpAddr::V6(_) => self.parameters.mtu.unwrap_or(u16::MAX).min(self.config.mtu),
        }
    }

    /// Its address `ip`, usable or not.
    pub(crate) fn address(&self, ip: IpAddr) -> Option<&Address> {
        self.addresses.iter().find(|ours| ours.cidr.address == ip)
    }

    /// Whether the interface has the address `ip`.
    pub(crate) fn has(&self, ip: IpAddr) -> bool {
        self.address(ip).is_some_and(Address::is_usable)
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

    /// The IPv4 source address towards `next`, the first hop: the one in its network, else the
    /// first (RFC 1122 3.3.4.3 leaves the choice open).
    pub(crate) fn v4_source_for(&self, next: IpAddr) -> Option<IpAddr> {
        let ours = || self.addresses.iter().map(|ours| ours.cidr).filter(|c| c.address.is_ipv4());
        let found = ours().find(|ours| ours.contains(next)).or_else(|| ours().next())?;
        Some(found.address)
    }
}

/// The interfaces of one stack.
#[derive(Debug, Default)]
pub(crate) struct Interfaces(Vec<Interface>);

impl Interfaces {
    pub(crate) fn add(&mut self, config: InterfaceConfig) -> InterfaceId {
        let id = InterfaceId(u16::try_from(self.0.len()).unwrap_or(u16::MAX));
        self.0.push(Interface::new(config));
        id
    }

    pub(crate) fn all(&self) -> &[Interface] {
        &self.0
    }

    pub(crate) fn get(&self, id: InterfaceId) -> Option<&Interface> {
        self.0.get(usize::from(id.0))
    }

    pub(crate) fn get_mut(&mut self, id: InterfaceId) -> Option<&mut Interface> {
        self.0.get_mut(usize::from(id.0))
    }

    /// The names of all interfaces.
    pub(crate) fn ids(&self) -> impl Iterator<Item = InterfaceId> + use<> {
        (0..u16::try_from(self.0.len()).unwrap_or(u16::MAX)).map(InterfaceId)
    }

    /// The offloads of an interface. Loopback packets need no checksum.
    pub(crate) fn features(&self, id: InterfaceId) -> Features {
        match self.get(id) {
            Some(interface) => interface.features,
            None => Features { tx_checksum: id == InterfaceId::LOOPBACK, ..Features::default() },
        }
    }

    /// Whether an interface has `address`.
    pub(crate) fn is_ours(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.0.iter().any(|interface| interface.has(address))
    }

    /// The interface that has `address`.
    pub(crate) fn owner_of(&self, address: IpAddr) -> Option<InterfaceId> {
        if address.is_loopback() {
            return Some(InterfaceId::LOOPBACK);
        }
        self.ids().find(|id| self.get(*id).is_some_and(|interface| interface.has(address)))
    }

    /// Whether packets to `address` are for all hosts of a link.
    pub(crate) fn is_broadcast(&self, address: IpAddr) -> bool {
        matches!(address, IpAddr::V4(ip) if ip.is_broadcast())
            || self.0.iter().any(|interface| interface.is_broadcast(address))
    }

    /// Whether an interface has `address`; if it names a link, the interface of that link.
    pub(crate) fn is_ours_at(&self, address: &SocketAddr) -> bool {
        match link_of(address) {
            Some(id) => self.get(id).is_some_and(|interface| interface.has(address.ip())),
            None => self.is_ours(address.ip()),
        }
    }
}
