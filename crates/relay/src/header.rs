//! IP headers of packets that the relay makes.

use std::net::IpAddr;

use etherparse::{
    IpDscp, IpEcn, IpHeaders, IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header, PacketBuilder,
    PacketBuilderStep,
};

/// Hops of packets that the relay makes.
const HOPS: u8 = 64;

/// Fields of an IP header that a program's socket may choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Manner {
    /// Time to live, or hop limit.
    pub(crate) hops: u8,
    /// Type of service, or traffic class.
    pub(crate) class: u8,
}

impl Manner {
    /// As of a socket without options.
    pub(crate) const USUAL: Self = Self { hops: HOPS, class: 0 };
}

/// A packet with an ICMP message that is complete.
pub(crate) fn with_header(
    (from, to): (IpAddr, IpAddr),
    manner: Manner,
    message: &[u8],
) -> Option<Vec<u8>> {
    let protocol = if to.is_ipv6() { IpNumber::IPV6_ICMP } else { IpNumber::ICMP };
    let step = header_with(from, to, manner)?;
    let mut bytes = Vec::with_capacity(step.size(message.len()));
    step.write(&mut bytes, protocol, message).ok()?;
    Some(bytes)
}

/// The header of a packet of the relay's own; `None` for addresses of two families.
pub(crate) fn header(from: IpAddr, to: IpAddr) -> Option<PacketBuilderStep<IpHeaders>> {
    header_with(from, to, Manner::USUAL)
}

/// `None` for addresses of two families.
fn header_with(from: IpAddr, to: IpAddr, manner: Manner) -> Option<PacketBuilderStep<IpHeaders>> {
    let header = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut header = Ipv4Header { time_to_live: manner.hops, ..Ipv4Header::default() };
            header.dscp = IpDscp::try_new(manner.class >> 2).ok()?;
            header.ecn = IpEcn::try_new(manner.class & 3).ok()?;
            (header.source, header.destination) = (from.octets(), to.octets());
            IpHeaders::Ipv4(header, Default::default())
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let mut header = Ipv6Header { hop_limit: manner.hops, ..Ipv6Header::default() };
            header.traffic_class = manner.class;
            header.flow_label = Ipv6FlowLabel::ZERO;
            (header.source, header.destination) = (from.octets(), to.octets());
            IpHeaders::Ipv6(header, Default::default())
        }
        _ => return None,
    };
    Some(PacketBuilder::ip(header))
}
