//! ARP (RFC 826) for Ethernet and IPv4: the packets. `neighbour` stores the addresses that they
//! carry.

use core::net::Ipv4Addr;

use smoltcp::wire::{self, ArpOperation, ArpRepr};

use super::ethernet::Mac;

/// Length of an ARP packet for Ethernet and IPv4, bytes.
pub(crate) const PACKET: usize = 28;

/// A parsed ARP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ArpPacket {
    pub(crate) is_request: bool,
    pub(crate) sender: Ipv4Addr,
    pub(crate) sender_mac: Mac,
    pub(crate) target: Ipv4Addr,
}

/// Reads an ARP packet; `None` if it is malformed, of another kind, or from an impossible sender.
pub(crate) fn parse(bytes: &[u8]) -> Option<ArpPacket> {
    let view = wire::ArpPacket::new_checked(bytes).ok()?;
    let ArpRepr::EthernetIpv4 {
        operation,
        source_hardware_addr: sender_mac,
        source_protocol_addr: sender,
        target_protocol_addr: target,
        ..
    } = ArpRepr::parse(&view).ok()?
    else {
        return None;
    };
    let is_request = match operation {
        ArpOperation::Request => true,
        ArpOperation::Reply => false,
        ArpOperation::Unknown(_) => return None,
    };
    let possible = sender_mac.is_unicast()
        && sender_mac.0 != [0; 6]
        && !sender.is_multicast()
        && !sender.is_broadcast()
        && !sender.is_loopback();
    possible.then_some(ArpPacket { is_request, sender, sender_mac, target })
}

/// Writes a request for `target`, or with `to` the reply to it, into [`PACKET`] bytes.
pub(crate) fn emit(ours: (Ipv4Addr, Mac), target: Ipv4Addr, to: Option<Mac>, out: &mut [u8]) {
    let operation = if to.is_some() { ArpOperation::Reply } else { ArpOperation::Request };
    let repr = ArpRepr::EthernetIpv4 {
        operation,
        source_hardware_addr: ours.1,
        source_protocol_addr: ours.0,
        target_hardware_addr: to.unwrap_or(Mac::from_bytes(&[0; 6])),
        target_protocol_addr: target,
    };
    repr.emit(&mut wire::ArpPacket::new_unchecked(out));
}
