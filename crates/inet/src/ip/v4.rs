//! IPv4 packets (RFC 791, RFC 1122 3.2).
//!
//! [`parse`] lets through whole, well-formed, correctly summed packets from a possible source, with
//! their options checked and otherwise ignored; everything else has a named reason.

use alloc::vec::Vec;
use core::net::Ipv4Addr;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{Ipv4Packet, Ipv4Repr};

use crate::interface_id::InterfaceId;
use crate::ip::packet::{FragmentHeader, Header, Packet};

/// Length of a header without options, bytes.
pub(crate) const HEADER: usize = smoltcp::wire::IPV4_HEADER_LEN;

/// Where the protocol is in the header.
pub(crate) const LENGTH_AT: usize = 2;
pub(crate) const PROTOCOL_AT: usize = 9;

/// Why a packet is not let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ipv4Refusal {
    Malformed,
    Checksum,
    Options,
    SourceRoute,
    Martian,
}

/// Parses the packet that starts at `at` in a frame of `len` bytes, which came from `interface`.
/// `head` has the first bytes of the frame, at least up to the end of the packet's header.
pub(crate) fn parse(
    head: &[u8],
    len: usize,
    at: usize,
    interface: InterfaceId,
) -> Result<Packet, Ipv4Refusal> {
    let bytes = head.get(at..).filter(|bytes| bytes.len() >= HEADER);
    let bytes = bytes.ok_or(Ipv4Refusal::Malformed)?;
    let view = Ipv4Packet::new_unchecked(bytes);
    let (header, total) = (usize::from(view.header_len()), usize::from(view.total_len()));
    if view.version() != 4
        || header < HEADER
        || header > bytes.len()
        || header > total
        || total > len - at
    {
        return Err(Ipv4Refusal::Malformed);
    }
    // RFC 1122 3.2.1.2: verify on every datagram, silently discard a bad one.
    if !view.verify_checksum() {
        return Err(Ipv4Refusal::Checksum);
    }
    check_options(bytes.get(HEADER..header).ok_or(Ipv4Refusal::Malformed)?)?;
    // RFC 1122 3.2.1.3: these are never the source of a packet from outside.
    let source = view.src_addr();
    if source.is_multicast()
        || source.is_loopback() && interface != InterfaceId::LOOPBACK
        || source.octets()[0] == 0
        || is_class_e(source)
    {
        return Err(Ipv4Refusal::Martian);
    }
    let extent = at..at + total;
    let fragment = (view.more_frags() || view.frag_offset() != 0).then(|| FragmentHeader {
        id: view.ident().into(),
        at: view.frag_offset().into(),
        more: view.more_frags(),
        header: at..at + header,
        next_header_at: 0,
    });
    Ok(Packet {
        interface,
        source: source.into(),
        destination: view.dst_addr().into(),
        protocol: view.next_header(),
        protocol_at: PROTOCOL_AT,
        ttl: view.hop_limit(),
        tos: view.dscp() << 2 | view.ecn(),
        payload: at + header..extent.end,
        extent,
        fragment,
    })
}

/// 240/4, the broadcast address included.
fn is_class_e(address: Ipv4Addr) -> bool {
    address.octets()[0] >= 240
}

/// Checks the options (RFC 791 3.1). Their lengths must fit. Source routes are refused, as RFC 1122
/// 3.3.5 lets a host do. All other options are skipped (RFC 1122 3.2.1.8).
fn check_options(mut options: &[u8]) -> Result<(), Ipv4Refusal> {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    const LOOSE_SOURCE_ROUTE: u8 = 131;
    const STRICT_SOURCE_ROUTE: u8 = 137;
    while let [kind, rest @ ..] = options {
        match *kind {
            END => break,
            NO_OPERATION => options = rest,
            LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE => return Err(Ipv4Refusal::SourceRoute),
            _ => {
                let len = usize::from(*rest.first().ok_or(Ipv4Refusal::Options)?);
                if len < 2 {
                    return Err(Ipv4Refusal::Options);
                }
                options = options.get(len..).ok_or(Ipv4Refusal::Options)?;
            }
        }
    }
    Ok(())
}

/// Makes the header of a reassembled `packet` that of an unfragmented one, with this ECN field.
pub(crate) fn restore_header(packet: &mut [u8], ecn: u8) {
    let total = u16::try_from(packet.len()).unwrap_or(u16::MAX);
    if packet.len() < HEADER {
        return;
    }
    let mut view = Ipv4Packet::new_unchecked(packet);
    view.set_total_len(total);
    view.set_more_frags(false);
    view.set_frag_offset(0);
    view.set_ecn(ecn);
    view.fill_checksum();
}

/// Sets the ECN field of `packet`.
pub(crate) fn set_ecn(packet: &mut [u8], ecn: u8) {
    if packet.len() >= HEADER {
        let mut view = Ipv4Packet::new_unchecked(packet);
        view.set_ecn(ecn);
        view.fill_checksum();
    }
}

/// Writes `header`, from `source` to `destination`, into the first [`HEADER`] bytes of `out`. DF is
/// set, so the identification has no meaning and is 0 (RFC 6864 4.1).
pub(crate) fn emit(header: &Header, source: Ipv4Addr, destination: Ipv4Addr, out: &mut [u8]) {
    let repr = Ipv4Repr {
        src_addr: source,
        dst_addr: destination,
        next_header: header.protocol,
        payload_len: header.payload_len,
        hop_limit: header.ttl,
    };
    let mut view = Ipv4Packet::new_unchecked(out);
    repr.emit(&mut view, &ChecksumCapabilities::ignored());
    view.set_dscp(header.tos >> 2);
    view.set_ecn(header.tos & 3);
    view.fill_checksum();
}

/// Makes the header at the start of `packet` that of a fragment whose payload has position `at`.
pub(crate) fn write_fragment(packet: &mut [u8], id: u32, at: usize, more: bool) {
    let Some(header) = packet.get_mut(..HEADER) else { return };
    let mut view = Ipv4Packet::new_unchecked(header);
    #[expect(clippy::cast_possible_truncation, reason = "the field has 16 bits")]
    view.set_ident(id as u16);
    view.set_dont_frag(false);
    view.set_more_frags(more);
    view.set_frag_offset(u16::try_from(at).unwrap_or(u16::MAX));
    view.fill_checksum();
}

/// Lets routers fragment the packet at the start of `packet`. It then needs an identification (RFC
/// 6864 4.1).
pub(crate) fn allow_fragments(packet: &mut [u8], id: u32) {
    write_fragment(packet, id, 0, false);
}

/// A packet with a router alert option (RFC 2113), of internetwork control, for one hop.
pub(crate) fn with_router_alert(source: Ipv4Addr, to: Ipv4Addr, igmp: &[u8]) -> Vec<u8> {
    const ROUTER_ALERT: [u8; 4] = [148, 4, 0, 0];
    const INTERNETWORK_CONTROL: u8 = 0xc0;
    let total = u16::try_from(HEADER + ROUTER_ALERT.len() + igmp.len()).unwrap_or(u16::MAX);
    let [high, low] = total.to_be_bytes();
    let mut packet = Vec::from([0x46, INTERNETWORK_CONTROL, high, low, 0, 0, 0x40, 0, 1, 2, 0, 0]);
    packet.extend_from_slice(&source.octets());
    packet.extend_from_slice(&to.octets());
    packet.extend_from_slice(&ROUTER_ALERT);
    Ipv4Packet::new_unchecked(packet.as_mut_slice()).fill_checksum();
    packet.extend_from_slice(igmp);
    packet
}
