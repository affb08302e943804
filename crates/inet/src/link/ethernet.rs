//! Ethernet II frames.

use core::net::IpAddr;

use smoltcp::wire::{EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr};

/// Length of the header, bytes.
pub(crate) const HEADER: usize = smoltcp::wire::ETHERNET_HEADER_LEN;

/// A hardware address.
pub(crate) type Mac = EthernetAddress;

/// Length of the tag of IEEE 802.1Q between the header's addresses and the payload type, bytes.
pub(crate) const TAG: usize = 4;
/// The types that say that a tag follows (IEEE 802.1Q 9.5).
const TAGS: [EthernetProtocol; 2] =
    [EthernetProtocol::Unknown(0x8100), EthernetProtocol::Unknown(0x88a8)];

/// The payload type of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EtherPayload {
    Arp,
    Ipv4,
    Ipv6,
    /// The tag of no VLAN, which only says how urgent the frame is, and then the payload of
    /// [`behind_tag`].
    Priority,
}

/// A frame for this host. Its payload starts at [`HEADER`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceivedFrame {
    pub(crate) carries: EtherPayload,
    /// Whether it was sent to a group address, the broadcast address included.
    pub(crate) to_group: bool,
}

/// Why a frame is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IgnoreReason {
    Malformed,
    NotOurs,
    UnknownType,
}

/// Parses the header of `frame`, received on the interface with the address `ours`.
pub(crate) fn parse(frame: &[u8], ours: Mac) -> Result<ReceivedFrame, IgnoreReason> {
    let view = EthernetFrame::new_checked(frame).map_err(|_| IgnoreReason::Malformed)?;
    if view.src_addr().is_multicast() {
        return Err(IgnoreReason::Malformed);
    }
    let to_group = view.dst_addr().is_multicast();
    if !to_group && view.dst_addr() != ours {
        return Err(IgnoreReason::NotOurs);
    }
    let carries = match view.ethertype() {
        EthernetProtocol::Arp => EtherPayload::Arp,
        EthernetProtocol::Ipv4 => EtherPayload::Ipv4,
        EthernetProtocol::Ipv6 => EtherPayload::Ipv6,
        tag if TAGS.contains(&tag) && behind_tag(frame).is_some() => EtherPayload::Priority,
        _ => return Err(IgnoreReason::UnknownType),
    };
    Ok(ReceivedFrame { carries, to_group })
}

/// The payload type behind the tag of a frame that has one. `None` if the tag names a VLAN (IEEE
/// 802.1Q 9.6): this host is on none.
pub(crate) fn behind_tag(frame: &[u8]) -> Option<EtherPayload> {
    let &[high, low, a, b] = frame.get(HEADER..)?.first_chunk()?;
    let vlan = u16::from_be_bytes([high, low]) & 0x0fff;
    match EthernetProtocol::from(u16::from_be_bytes([a, b])) {
        _ if vlan != 0 => None,
        EthernetProtocol::Arp => Some(EtherPayload::Arp),
        EthernetProtocol::Ipv4 => Some(EtherPayload::Ipv4),
        EthernetProtocol::Ipv6 => Some(EtherPayload::Ipv6),
        _ => None,
    }
}

/// The payload type of a frame of this host.
pub(crate) fn carries(frame: &[u8]) -> Option<EtherPayload> {
    match EthernetFrame::new_checked(frame).ok()?.ethertype() {
        EthernetProtocol::Ipv4 => Some(EtherPayload::Ipv4),
        EthernetProtocol::Ipv6 => Some(EtherPayload::Ipv6),
        _ => None,
    }
}

/// Writes a header into the first [`HEADER`] bytes of `head`.
pub(crate) fn emit(carries: EtherPayload, source: Mac, destination: Mac, head: &mut [u8]) {
    let ethertype = match carries {
        EtherPayload::Arp => EthernetProtocol::Arp,
        EtherPayload::Ipv4 => EthernetProtocol::Ipv4,
        EtherPayload::Ipv6 => EthernetProtocol::Ipv6,
        // This host tags no frame.
        EtherPayload::Priority => EthernetProtocol::Unknown(0),
    };
    let repr = EthernetRepr { src_addr: source, dst_addr: destination, ethertype };
    repr.emit(&mut EthernetFrame::new_unchecked(head));
}

/// The destination of a frame.
pub(crate) fn destination(head: &[u8]) -> Mac {
    EthernetFrame::new_unchecked(head).dst_addr()
}

/// Sets the destination of a frame that was written before its destination was known.
pub(crate) fn set_destination(head: &mut [u8], destination: Mac) {
    EthernetFrame::new_unchecked(head).set_dst_addr(destination);
}

/// The hardware address of a multicast group (RFC 1112 6.4, RFC 2464 7).
pub(crate) fn multicast(group: IpAddr) -> Mac {
    match group {
        IpAddr::V4(group) => {
            let [_, b, c, d] = group.octets();
            EthernetAddress([0x01, 0x00, 0x5e, b & 0x7f, c, d])
        }
        IpAddr::V6(group) => {
            let [.., a, b, c, d] = group.octets();
            EthernetAddress([0x33, 0x33, a, b, c, d])
        }
    }
}
