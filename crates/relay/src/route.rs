//! Addresses, routes and rules of the relay's own network namespace, by rtnetlink(7).

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use netlink_packet_core::{
    DefaultNla, NLA_F_NESTED, NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader,
    NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{AfSpecInet, AfSpecUnspec, LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use crate::address::unspecified;

/// The kernel's table of its own addresses.
pub(crate) const TABLE_LOCAL: u32 = 255;

/// A connection to the namespace's rtnetlink, and its number.
pub(crate) struct RouteSocket(Socket, u32);

/// One policy rule; all others match too where a field is `None`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule<'a> {
    pub(crate) priority: u32,
    pub(crate) mark: Option<u32>,
    pub(crate) from_interface: Option<&'a str>,
    pub(crate) table: u32,
}

/// One route of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Route {
    pub(crate) to: (IpAddr, u8),
    pub(crate) interface: u32,
    pub(crate) table: u32,
    /// Packets that match are for this machine.
    pub(crate) local: bool,
    /// The address of sockets that have none yet.
    pub(crate) source: Option<IpAddr>,
}

impl RouteSocket {
    /// Of the calling thread's network namespace.
    pub(crate) fn new() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        let number = socket.bind_auto()?.port_number();
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self(socket, number))
    }

    /// The number by which the kernel knows the socket.
    pub(crate) fn number(&self) -> u32 {
        self.1
    }

    /// Sets an interface up; `mtu` where it is to change.
    pub(crate) fn set_up(&self, interface: u32, mtu: Option<u32>) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = interface;
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        message.attributes.extend(mtu.map(LinkAttribute::Mtu));
        self.ask(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// An interface takes packets with any source, also with addresses of this namespace and of its
    /// loopback: as the keys `rp_filter`, `accept_local` and `route_localnet` of /proc/sys say.
    pub(crate) fn accept_own_addresses(&self, interface: u32) -> io::Result<()> {
        // linux/ip.h, linux/if_link.h
        const RP_FILTER: u16 = 8;
        const ACCEPT_LOCAL: u16 = 23;
        const ROUTE_LOCALNET: u16 = 26;
        const IFLA_INET_CONF: u16 = 1;
        let mut values = Vec::new();
        for (key, value) in [(RP_FILTER, 0_u32), (ACCEPT_LOCAL, 1), (ROUTE_LOCALNET, 1)] {
            values.extend(8_u16.to_ne_bytes());
            values.extend(key.to_ne_bytes());
            values.extend(value.to_ne_bytes());
        }
        let values = DefaultNla::new(IFLA_INET_CONF | NLA_F_NESTED, values);
        let mut message = LinkMessage::default();
        message.header.index = interface;
        message.attributes.push(LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet(vec![
            AfSpecInet::Other(values),
        ])]));
        self.ask(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Gives an interface its hardware address.
    pub(crate) fn set_hardware(&self, interface: u32, address: &[u8; 6]) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = interface;
        message.attributes.push(LinkAttribute::Address(address.to_vec()));
        self.ask(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Adds or removes a route by a router, in the table that programs look at.
    pub(crate) fn shown_route(
        &self,
        (to, bits): (IpAddr, u8),
        via: IpAddr,
        (interface, metric): (u32, u32),
        add: bool,
    ) -> io::Result<()> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(to);
        message.header.destination_prefix_length = bits;
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.scope = RouteScope::Universe;
        message.header.kind = RouteType::Unicast;
        message.attributes =
            vec![RouteAttribute::Oif(interface), RouteAttribute::Gateway(route_address(via))];
        if metric > 0 {
            message.attributes.push(RouteAttribute::Priority(metric));
        }
        if bits > 0 {
            message.attributes.push(RouteAttribute::Destination(route_address(to)));
        }
        match add {
            true => self.ask(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_REPLACE),
            false => self.ask(RouteNetlinkMessage::DelRoute(message), 0),
        }
    }

    /// Gives an interface an address of its own, or takes it away. The second value is the length
    /// of its network's prefix.
    pub(crate) fn address(
        &self,
        interface: u32,
        (address, prefix): (IpAddr, u8),
        add: bool,
    ) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = family(address);
        message.header.prefix_len = prefix;
        message.header.index = interface;
        message.attributes =
            vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        message.attributes.extend(broadcast(address, prefix).map(AddressAttribute::Broadcast));
        if address.is_ipv6() {
            message.attributes = vec![
                AddressAttribute::Address(address),
                // No neighbour has it: nobody else is on this link.
                AddressAttribute::Flags(netlink_packet_route::address::AddressFlags::Nodad),
            ];
        }
        match add {
            true => {
                self.ask(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_REPLACE)
            }
            false => self.ask(RouteNetlinkMessage::DelAddress(message), 0),
        }
    }

    /// Adds or replaces a route.
    pub(crate) fn route(&self, route: Route) -> io::Result<()> {
        let (to, bits) = route.to;
        let mut message = RouteMessage::default();
        message.header.address_family = family(to);
        message.header.destination_prefix_length = bits;
        message.header.protocol = RouteProtocol::Static;
        message.header.scope = if route.local { RouteScope::Host } else { RouteScope::Link };
        message.header.kind = if route.local { RouteType::Local } else { RouteType::Unicast };
        message.attributes =
            vec![RouteAttribute::Oif(route.interface), RouteAttribute::Table(route.table)];
        if bits > 0 {
            message.attributes.push(RouteAttribute::Destination(route_address(to)));
        }
        message
            .attributes
            .extend(route.source.map(|source| RouteAttribute::PrefSource(route_address(source))));
        self.ask(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Adds a rule for one family of addresses.
    pub(crate) fn rule(&self, v6: bool, rule: Rule<'_>) -> io::Result<()> {
        self.ask(RouteNetlinkMessage::NewRule(rule.message(v6)), NLM_F_CREATE)
    }

    /// Removes the rule with that priority and table.
    pub(crate) fn remove_rule(&self, v6: bool, rule: Rule<'_>) -> io::Result<()> {
        self.ask(RouteNetlinkMessage::DelRule(rule.message(v6)), 0)
    }

    /// Makes a request and waits for the kernel's answer, which comes at once.
    fn ask(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.0.send(&bytes, 0)?;
        let mut reply = vec![0; 8192];
        let len = self.0.recv(&mut &mut reply[..], 0)?;
        let reply = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&reply[..len])
            .map_err(io::Error::other)?;
        match reply.payload {
            NetlinkPayload::Error(error) if error.code.is_some() => Err(error.to_io()),
            _ => Ok(()),
        }
    }
}

impl Rule<'_> {
    fn message(self, v6: bool) -> RuleMessage {
        let mut message = RuleMessage::default();
        message.header.family = if v6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
        message.header.action = RuleAction::ToTable;
        message.attributes =
            vec![RuleAttribute::Priority(self.priority), RuleAttribute::Table(self.table)];
        message.attributes.extend(self.mark.map(RuleAttribute::FwMark));
        message
            .attributes
            .extend(self.from_interface.map(|name| RuleAttribute::Iifname(name.to_owned())));
        message
    }
}

/// All addresses of a family, as a destination.
pub(crate) fn everywhere(v6: bool) -> (IpAddr, u8) {
    (unspecified(v6), 0)
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv6() { AddressFamily::Inet6 } else { AddressFamily::Inet }
}

/// The last address of an IPv4 network, where it has one of its own.
fn broadcast(address: IpAddr, prefix: u8) -> Option<Ipv4Addr> {
    let IpAddr::V4(address) = address else { return None };
    let hosts = u32::MAX.checked_shr(prefix.into()).filter(|_| prefix < 31)?;
    Some((address.to_bits() | hosts).into())
}

/// Bits of an address of this family.
pub(crate) fn width(address: IpAddr) -> u8 {
    if address.is_ipv6() { 128 } else { 32 }
}

fn route_address(address: IpAddr) -> RouteAddress {
    match address {
        IpAddr::V4(address) => RouteAddress::Inet(address),
        IpAddr::V6(address) => RouteAddress::Inet6(address),
    }
}
