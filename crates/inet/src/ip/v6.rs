//! IPv6 packets (RFC 8200).
//!
//! [`parse`] accepts complete packets from a possible source and walks their extension headers. The
//! walk is bounded by the packet, by [`MOST_HEADERS`] and by [`MOST_OPTIONS`]: no honest packet has
//! many (RFC 8504 5.3). It ends in a [`Content`]. The caller first checks whether the packet is for
//! this host, and then acts on the content: only packets to this host get an answer.

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use smoltcp::wire::{IpProtocol, Ipv6Packet, Ipv6Repr, checksum};

use crate::interface_id::InterfaceId;
use crate::ip::packet::{FRAGMENT_HEADER, FragmentHeader, Header, Packet, pseudo_sum};

/// Length of the fixed header, bytes.
pub(crate) const HEADER: usize = smoltcp::wire::IPV6_HEADER_LEN;
/// Least MTU of a link (RFC 8200 5), bytes.
pub(crate) const LEAST_MTU: u16 = 1280;

/// Extension headers that a packet may have.
const MOST_HEADERS: usize = 8;
/// Options, padding included, that one extension header may have.
const MOST_OPTIONS: usize = 16;
/// Where the length and the next header are in the fixed header.
pub(crate) const PAYLOAD_LENGTH_AT: usize = 4;
pub(crate) const NEXT_HEADER_AT: usize = 6;

/// The content of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// The payload of protocol `protocol` at `payload`, or a part of it if the packet is a
    /// fragment.
    Upper,
    /// An error that its source is to learn of (RFC 4443 3.4).
    Problem(Problem),
    /// Nothing (RFC 8200 4.7), or an option that says so (RFC 8200 4.2).
    Nothing,
}

/// A parameter problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) code: ProblemCode,
    /// Where it is, bytes from the start of the packet.
    pub(crate) pointer: u32,
    /// It is also sent if the packet was sent to a group (RFC 4443 2.4 (e.3)).
    pub(crate) to_groups: bool,
}

/// The codes of parameter problems (RFC 4443 3.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProblemCode {
    /// A field has an impossible value.
    Field = 0,
    /// The next header is unknown.
    NextHeader = 1,
    /// The option is unknown.
    Option = 2,
}

/// Why a packet is not let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ipv6Refusal {
    Malformed,
    Martian,
    /// More extension headers or options than is reasonable.
    Excessive,
}

/// Parses the packet that starts at `at` in a frame of `len` bytes, which came from `interface`.
/// `head` has the first bytes of the frame: all of them, unless the packet has no extension
/// headers.
pub(crate) fn parse(
    head: &[u8],
    len: usize,
    at: usize,
    interface: InterfaceId,
) -> Result<(Packet, Content), Ipv6Refusal> {
    let bytes = head.get(at..).ok_or(Ipv6Refusal::Malformed)?;
    if bytes.len() < HEADER {
        return Err(Ipv6Refusal::Malformed);
    }
    let view = Ipv6Packet::new_unchecked(bytes);
    if view.version() != 6 {
        return Err(Ipv6Refusal::Malformed);
    }
    let total = HEADER + usize::from(view.payload_len());
    if total > len - at {
        return Err(Ipv6Refusal::Malformed);
    }
    let bytes = bytes.get(..total).unwrap_or(bytes);
    let (source, destination) = (view.src_addr(), view.dst_addr());
    let outside = interface != InterfaceId::LOOPBACK;
    if is_impossible_source(source) || is_impossible_destination(destination) {
        return Err(Ipv6Refusal::Martian);
    }
    if outside && (source.is_loopback() || destination.is_loopback()) {
        return Err(Ipv6Refusal::Martian);
    }
    let mut walk = HeaderWalk {
        bytes,
        at: HEADER,
        next: view.next_header().into(),
        next_at: NEXT_HEADER_AT,
        fragment: None,
    };
    let content = walk.run()?.unwrap_or(Content::Upper);
    let fragment = walk.fragment.take().map(|fragment| FragmentHeader {
        header: at..at + fragment.header.end,
        next_header_at: at + fragment.next_header_at,
        ..fragment
    });
    let packet = Packet {
        interface,
        source: source.into(),
        destination: destination.into(),
        protocol: IpProtocol::from(walk.next),
        protocol_at: walk.next_at,
        ttl: view.hop_limit(),
        tos: view.traffic_class(),
        payload: at + walk.at..at + total,
        extent: at..at + total,
        fragment,
    };
    Ok((packet, content))
}

/// RFC 4291 2.5.5.2, 2.7: these are never the source of a packet. The unspecified address is, where
/// the protocol allows it.
fn is_impossible_source(source: Ipv6Addr) -> bool {
    source.is_multicast() || source.to_ipv4_mapped().is_some()
}

/// RFC 4291 2.5.2, 2.5.5.2, 2.7: never the destination of a packet on a link. Groups of scopes 0
/// and 1 never leave a node.
fn is_impossible_destination(destination: Ipv6Addr) -> bool {
    destination.is_unspecified()
        || destination.to_ipv4_mapped().is_some()
        || destination.is_multicast() && destination.octets()[1] & 0x0f <= 1
}

/// A walk along the headers.
struct HeaderWalk<'a> {
    /// The packet.
    bytes: &'a [u8],
    /// Position and type of the next header.
    at: usize,
    next: u8,
    /// Position of the field that tells its type.
    next_at: usize,
    /// The fragment header. Its positions are those in the packet.
    fragment: Option<FragmentHeader>,
}

impl HeaderWalk<'_> {
    /// Walks up to the first header that is no extension header. Gives the content that ends the
    /// walk earlier.
    fn run(&mut self) -> Result<Option<Content>, Ipv6Refusal> {
        for _ in 0..=MOST_HEADERS {
            let end = match IpProtocol::from(self.next) {
                // RFC 8200 4.1: nowhere but right after the fixed header.
                IpProtocol::HopByHop if self.at != HEADER => {
                    return Ok(Some(self.problem(ProblemCode::NextHeader, self.next_at)));
                }
                IpProtocol::HopByHop | IpProtocol::Ipv6Opts => self.options()?,
                IpProtocol::Ipv6Route => self.routing()?,
                IpProtocol::Ipv6Frag => {
                    let end = self.fragment()?;
                    // Headers behind a fragment's belong to the reassembled packet.
                    if end.is_some() || self.fragment.is_some() {
                        return Ok(end);
                    }
                    None
                }
                IpProtocol::Ipv6NoNxt => Some(Content::Nothing),
                _ => return Ok(None),
            };
            if end.is_some() {
                return Ok(end);
            }
        }
        Err(Ipv6Refusal::Excessive)
    }

    fn problem(&self, code: ProblemCode, at: usize) -> Content {
        let pointer = u32::try_from(at).unwrap_or(u32::MAX);
        Content::Problem(Problem { code, pointer, to_groups: false })
    }

    /// The end of the extension header here. All but fragment headers have a length field.
    fn extent(&self) -> Result<usize, Ipv6Refusal> {
        let len = self.bytes.get(self.at + 1).ok_or(Ipv6Refusal::Malformed)?;
        let end = self.at + (usize::from(*len) + 1) * 8;
        if end > self.bytes.len() { Err(Ipv6Refusal::Malformed) } else { Ok(end) }
    }

    /// Goes on behind the extension header here, which ends at `end`.
    fn pass(&mut self, end: usize) {
        self.next = self.bytes.get(self.at).copied().unwrap_or_default();
        self.next_at = self.at;
        self.at = end;
    }

    /// Handles a hop-by-hop or destination options header (RFC 8200 4.2, 4.3, 4.6). No option
    /// changes the handling of a packet. The type of an unknown option says what happens to the
    /// packet.
    fn options(&mut self) -> Result<Option<Content>, Ipv6Refusal> {
        const PAD1: u8 = 0;
        const PADN: u8 = 1;
        const ROUTER_ALERT: u8 = 5;
        let end = self.extent()?;
        let mut at = self.at + 2;
        for _ in 0..=MOST_OPTIONS {
            let Some(kind) = self.bytes.get(at).filter(|_| at < end).copied() else {
                self.pass(end);
                return Ok(None);
            };
            if kind == PAD1 {
                at += 1;
                continue;
            }
            let len =
                self.bytes.get(at + 1).filter(|_| at + 1 < end).ok_or(Ipv6Refusal::Malformed)?;
            let next = at + 2 + usize::from(*len);
            if next > end {
                return Err(Ipv6Refusal::Malformed);
            }
            let known = matches!(kind, PADN | ROUTER_ALERT);
            match kind >> 6 {
                _ if known => {}
                0 => {}
                1 => return Ok(Some(Content::Nothing)),
                action => {
                    let pointer = u32::try_from(at).unwrap_or(u32::MAX);
                    let code = ProblemCode::Option;
                    let to_groups = action == 2;
                    return Ok(Some(Content::Problem(Problem { code, pointer, to_groups })));
                }
            }
            at = next;
        }
        Err(Ipv6Refusal::Excessive)
    }

    /// RFC 8200 4.4: this host follows no route. One that has not ended is a problem, of type 0 as
    /// of any other (RFC 5095 3). One that has ended is skipped.
    fn routing(&mut self) -> Result<Option<Content>, Ipv6Refusal> {
        const TYPE_AT: usize = 2;
        const SEGMENTS_LEFT_AT: usize = 3;
        let end = self.extent()?;
        if self.bytes.get(self.at + SEGMENTS_LEFT_AT) != Some(&0) {
            return Ok(Some(self.problem(ProblemCode::Field, self.at + TYPE_AT)));
        }
        self.pass(end);
        Ok(None)
    }

    /// RFC 8200 4.5. A fragment that is the complete packet counts as none (RFC 6946 4).
    fn fragment(&mut self) -> Result<Option<Content>, Ipv6Refusal> {
        const LENGTH: usize = 8;
        let header = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<LENGTH>());
        let &[_, _, high, low, a, b, c, d] = header.ok_or(Ipv6Refusal::Malformed)?;
        let field = u16::from_be_bytes([high, low]);
        let (offset, more) = (usize::from(field & !7), field & 1 != 0);
        let (header_at, next_header_at) = (self.at, self.next_at);
        self.pass(header_at + LENGTH);
        if offset == 0 && !more {
            return Ok(None);
        }
        let len = self.bytes.len() - self.at;
        if more && !len.is_multiple_of(8) {
            return Ok(Some(self.problem(ProblemCode::Field, PAYLOAD_LENGTH_AT)));
        }
        if offset + len > usize::from(u16::MAX) {
            return Ok(Some(self.problem(ProblemCode::Field, header_at + 2)));
        }
        let id = u32::from_be_bytes([a, b, c, d]);
        self.fragment =
            Some(FragmentHeader { id, at: offset, more, header: 0..header_at, next_header_at });
        Ok(None)
    }
}

/// Writes `header`, from `source` to `destination`, into the first [`HEADER`] bytes of `out`.
pub(crate) fn emit(header: &Header, source: Ipv6Addr, destination: Ipv6Addr, out: &mut [u8]) {
    let repr = Ipv6Repr {
        src_addr: source,
        dst_addr: destination,
        next_header: header.protocol,
        payload_len: header.payload_len,
        hop_limit: header.ttl,
    };
    let mut view = Ipv6Packet::new_unchecked(out);
    repr.emit(&mut view);
    view.set_traffic_class(header.tos);
    view.set_flow_label(header.flow);
}

/// Makes the header of a reassembled `packet` that of an unfragmented one, with this ECN field.
pub(crate) fn restore_header(packet: &mut [u8], ecn: u8) {
    let Some(payload) = packet.len().checked_sub(HEADER) else { return };
    let mut view = Ipv6Packet::new_unchecked(packet);
    view.set_payload_len(u16::try_from(payload).unwrap_or(u16::MAX));
    let class = view.traffic_class() & !3 | ecn & 3;
    view.set_traffic_class(class);
}

/// Sets the ECN field of `packet`.
pub(crate) fn set_ecn(packet: &mut [u8], ecn: u8) {
    if packet.len() >= HEADER {
        let mut view = Ipv6Packet::new_unchecked(packet);
        view.set_traffic_class(view.traffic_class() & !3 | ecn & 3);
    }
}

/// Adds a fragment header to the packet's header at the start of `packet`; gives its length.
pub(crate) fn write_fragment(packet: &mut [u8], id: u32, at: usize, more: bool) -> usize {
    let len = FRAGMENT_HEADER;
    let Some((header, rest)) = packet.split_at_mut_checked(HEADER) else { return 0 };
    let Some(place) = rest.get_mut(..len) else { return 0 };
    let mut view = Ipv6Packet::new_unchecked(header);
    let next = view.next_header();
    view.set_next_header(IpProtocol::Ipv6Frag);
    view.set_payload_len(view.payload_len().saturating_add(len as u16));
    // The offset counts units of 8 bytes, in the upper 13 bits: bytes without the lower 3.
    let field = u16::try_from(at).unwrap_or(u16::MAX) & !7 | u16::from(more);
    let [a, b] = field.to_be_bytes();
    let [c, d, e, f] = id.to_be_bytes();
    place.copy_from_slice(&[next.into(), 0, a, b, c, d, e, f]);
    len
}

/// A packet with a router alert option (RFC 2711) in a hop-by-hop header, for one hop. `mld` gets
/// its checksum here.
pub(crate) fn with_router_alert(source: Ipv6Addr, to: Ipv6Addr, mld: &[u8]) -> Vec<u8> {
    const HOP_BY_HOP: [u8; 8] = [58, 0, 5, 2, 0, 0, 1, 0];
    let header = Header {
        source: source.into(),
        destination: to.into(),
        protocol: IpProtocol::HopByHop,
        ttl: 1,
        tos: 0,
        flow: 0,
        payload_len: HOP_BY_HOP.len() + mld.len(),
    };
    let mut packet = alloc::vec![0; HEADER];
    emit(&header, source, to, &mut packet);
    packet.extend_from_slice(&HOP_BY_HOP);
    let start = packet.len();
    packet.extend_from_slice(mld);
    let pseudo = pseudo_sum(source.into(), to.into(), IpProtocol::Icmpv6, mld.len());
    let sum = !checksum::combine(&[pseudo, checksum::data(mld)]);
    if let Some(field) = packet.get_mut(start + 2..start + 4) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
    packet
}

/// The group that the neighbours of `address` ask in (RFC 4291 2.7.1).
pub(crate) fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    const GROUP: u128 = 0xff02_0000_0000_0000_0000_0001_ff00_0000;
    Ipv6Addr::from_bits(GROUP | address.to_bits() & 0x00ff_ffff)
}

/// All nodes on the link (RFC 4291 2.7.1).
pub(crate) const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// All routers on the link (RFC 4291 2.7.1).
pub(crate) const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

#[cfg(test)]
mod tests;
