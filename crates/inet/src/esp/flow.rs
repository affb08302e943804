//! Flows and the selectors that they are compared with (RFC 4301 4.4.1.1).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::cidr::Cidr;
use crate::ip::{Packet, v4, v6};

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
const UDP_LITE: u8 = 136;

/// The addresses, protocol and ports of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EspFlow {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: u8,
    /// Of ICMP, type and code. `None` if the packet has none, or they cannot be seen.
    pub(crate) ports: Option<(u16, u16)>,
}

/// Which flows a policy or an association is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EspSelector {
    /// Of the packet's source.
    pub source: Cidr,
    /// Of its destination, of the same family.
    pub destination: Cidr,
    /// The transport protocol; `None` for all.
    pub protocol: Option<u8>,
    /// The source port, or the type of ICMP; `None` for all.
    pub source_port: Option<u16>,
    /// The destination port, or the code of ICMP; `None` for all.
    pub destination_port: Option<u16>,
}

impl EspSelector {
    /// All packets between two networks.
    #[must_use]
    pub fn between(source: Cidr, destination: Cidr) -> Self {
        Self { source, destination, protocol: None, source_port: None, destination_port: None }
    }

    /// Whether the selector can match anything: both networks are of one family, and ports belong
    /// to a protocol that has them.
    pub(crate) fn is_possible(&self) -> bool {
        let one_family = self.source.address.is_ipv4() == self.destination.address.is_ipv4();
        let has_ports = self.source_port.is_some() || self.destination_port.is_some();
        one_family && (!has_ports || self.protocol.is_some_and(names_ports))
    }

    /// Whether a flow is one of these.
    pub(crate) fn matches(&self, flow: &EspFlow) -> bool {
        let ports = match (self.source_port, self.destination_port, flow.ports) {
            (None, None, _) => true,
            (source, destination, Some((from, to))) => {
                source.is_none_or(|port| port == from) && destination.is_none_or(|port| port == to)
            }
            _ => false,
        };
        ports
            && self.protocol.is_none_or(|protocol| protocol == flow.protocol)
            && self.source.contains(flow.source)
            && self.destination.contains(flow.destination)
    }

    /// The same selector with the networks as they are compared.
    pub(crate) fn canonical(self) -> Self {
        let (source, destination) = (self.source.network(), self.destination.network());
        Self { source, destination, ..self }
    }
}

impl EspFlow {
    /// The flow of a received packet; `head` has the first bytes of its frame.
    pub(crate) fn of_packet(packet: &Packet, head: &[u8]) -> Self {
        let protocol = packet.protocol.into();
        let ports = match &packet.fragment {
            Some(fragment) if fragment.at > 0 => None,
            _ => ports_of(protocol, packet.payload_in(head)),
        };
        Self { source: packet.source, destination: packet.destination, protocol, ports }
    }

    /// The flow of a packet to be sent, which starts with `packet`; `None` if it is not one of this
    /// stack's making.
    pub(crate) fn of_own(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Self::of_own_v4(packet.first_chunk()?, packet),
            6 => Self::of_own_v6(packet.first_chunk()?, packet),
            _ => None,
        }
    }

    fn of_own_v4(header: &[u8; v4::HEADER], packet: &[u8]) -> Option<Self> {
        let [_, _, _, _, _, _, high, low, _, protocol, _, _, addresses @ ..] = *header;
        let [a, b, c, d, e, f, g, h] = addresses;
        let offset = u16::from_be_bytes([high, low]) & 0x1fff;
        let payload = packet.get(v4::HEADER..)?;
        let ports = (offset == 0).then(|| ports_of(protocol, payload)).flatten();
        let source = Ipv4Addr::new(a, b, c, d).into();
        let destination = Ipv4Addr::new(e, f, g, h).into();
        Some(Self { source, destination, protocol, ports })
    }

    fn of_own_v6(header: &[u8; v6::HEADER], packet: &[u8]) -> Option<Self> {
        const FRAGMENT: u8 = 44;
        let address = |at: usize| {
            let octets: [u8; 16] = header.get(at..at + 16)?.try_into().ok()?;
            Some(IpAddr::V6(Ipv6Addr::from(octets)))
        };
        let (source, destination) = (address(8)?, address(24)?);
        let mut protocol = *header.get(v6::NEXT_HEADER_AT)?;
        let mut payload = packet.get(v6::HEADER..)?;
        if protocol == FRAGMENT {
            let (&[next, _, high, low, ..], rest) = payload.split_first_chunk::<8>()?;
            let is_first = u16::from_be_bytes([high, low]) & !7 == 0;
            (protocol, payload) = (next, if is_first { rest } else { &[] });
        }
        let ports = ports_of(protocol, payload);
        Some(Self { source, destination, protocol, ports })
    }
}

/// Whether selectors may name ports of a protocol.
fn names_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | UDP_LITE | ICMP | ICMPV6)
}

/// The ports at the start of a payload.
fn ports_of(protocol: u8, payload: &[u8]) -> Option<(u16, u16)> {
    let &[a, b, c, d] = payload.first_chunk()?;
    match protocol {
        TCP | UDP | UDP_LITE => Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))),
        ICMP | ICMPV6 => Some((a.into(), b.into())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        let (address, prefix) = text.split_once('/').unwrap();
        Cidr::new(address.parse::<IpAddr>().unwrap(), prefix.parse().unwrap())
    }

    #[test]
    fn selectors_compare_addresses_protocol_and_ports() {
        let any = EspSelector::between(cidr("10.0.0.0/8"), cidr("10.1.0.0/16"));
        let tcp = EspSelector { protocol: Some(TCP), ..any };
        let web = EspSelector { destination_port: Some(80), ..tcp };
        let flow = |destination: &str, protocol, ports| EspFlow {
            source: "10.9.9.9".parse().unwrap(),
            destination: destination.parse().unwrap(),
            protocol,
            ports,
        };
        let table = [
            (flow("10.1.2.3", TCP, Some((1, 80))), [true, true, true]),
            (flow("10.1.2.3", TCP, Some((1, 81))), [true, true, false]),
            (flow("10.1.2.3", TCP, None), [true, true, false]),
            (flow("10.1.2.3", UDP, Some((1, 80))), [true, false, false]),
            (flow("10.2.2.3", TCP, Some((1, 80))), [false, false, false]),
            (flow("fd00::1", TCP, Some((1, 80))), [false, false, false]),
        ];
        for (flow, expected) in table {
            assert_eq!([any, tcp, web].map(|one| one.matches(&flow)), expected, "{flow:?}");
        }
    }

    #[test]
    fn selectors_that_can_match_nothing_are_known() {
        let any = EspSelector::between(Cidr::ANY_V4, Cidr::ANY_V4);
        assert!(any.is_possible());
        assert!(!EspSelector { destination: Cidr::ANY_V6, ..any }.is_possible());
        assert!(!EspSelector { source_port: Some(1), ..any }.is_possible());
        assert!(!EspSelector { source_port: Some(1), protocol: Some(50), ..any }.is_possible());
        assert!(EspSelector { source_port: Some(8), protocol: Some(ICMP), ..any }.is_possible());
    }
}
