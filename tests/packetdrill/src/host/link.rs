//! The link: raw IP packets on packetdrill's side, an Ethernet link on the core's side. A neighbour
//! answers for every address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use inet::{Cidr, Egress, InterfaceConfig, InterfaceId, Route, Stack, TxOffload, TxPiece, gather};

use crate::bytes::{Chunk, Frame};

const OWN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const HEADER: usize = 14;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
const ARP: [u8; 2] = [0x08, 0x06];
const ICMPV6: u8 = 58;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;

/// How the link looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The host's address.
    pub local: IpAddr,
    /// Length of the network prefix, bits.
    pub prefix: u8,
    /// Longest packet, bytes.
    pub mtu: u16,
    /// Payload, in bytes, of the segments that longer ones were joined of before they arrived. 0:
    /// the link joins none.
    pub joined: u16,
}

/// Frames that the stack sends.
#[derive(Debug, Default)]
pub(super) struct SentFrames {
    pub(super) frames: Vec<Vec<u8>>,
}

impl SentFrames {
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}

impl Egress<Chunk> for SentFrames {
    fn ready(&mut self, _: InterfaceId) -> bool {
        true
    }

    fn emit(
        &mut self,
        _: InterfaceId,
        head: &[u8],
        body: &[TxPiece<'_, Chunk>],
        _: TxOffload,
    ) -> bool {
        self.frames.push(gather(head, body));
        true
    }
}

/// The content of a frame.
#[derive(Debug)]
pub(super) enum FrameContent<'a> {
    /// An IP packet.
    Packet(&'a [u8]),
    /// A question that this frame answers.
    Answer(Vec<u8>),
    Nothing,
}

/// The interface of a host on `link`.
pub(super) fn interface(link: Link) -> InterfaceConfig {
    InterfaceConfig { mac: OWN_MAC, mtu: link.mtu }
}

/// Gives the interface the link's address and a way to everywhere.
pub(super) fn join(stack: &mut Stack<Chunk, Frame>, interface: InterfaceId, link: Link) {
    // Only an impossible address is refused, and then there is no way to anywhere.
    let _ = stack.add_address(interface, Cidr::new(link.local, link.prefix));
    // Some other address of the network: the neighbour answers for all.
    let gateway = match link.local {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() ^ 0x40).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() ^ 0x40).into(),
    };
    let _ = stack.add_route(Route::default(gateway, interface));
}

/// Payload of a packet without extension headers, if it is TCP's; else 0.
pub(super) fn payload_len(packet: &[u8]) -> usize {
    const TCP: u8 = 6;
    let byte = |at: usize| packet.get(at).copied().unwrap_or(0);
    let (protocol, header) = match byte(0) >> 4 {
        6 => (byte(6), 40),
        _ => (byte(9), usize::from(byte(0) & 15) * 4),
    };
    let tcp_header = usize::from(byte(header + 12) >> 4) * 4;
    if protocol == TCP { packet.len().saturating_sub(header + tcp_header) } else { 0 }
}

/// A packet as frame.
pub(super) fn wrap(packet: &[u8]) -> Vec<u8> {
    let kind = if packet.first().is_some_and(|byte| byte >> 4 == 6) { IPV6 } else { IPV4 };
    [&OWN_MAC[..], &PEER_MAC, &kind, packet].concat()
}

/// The content of `frame`.
pub(super) fn unwrap(frame: &[u8]) -> FrameContent<'_> {
    let (Some(kind), Some(payload)) = (frame.get(12..HEADER), frame.get(HEADER..)) else {
        return FrameContent::Nothing;
    };
    if kind == ARP {
        return answer_arp(payload);
    }
    if kind == IPV6 && payload.get(6) == Some(&ICMPV6) && payload.get(40) == Some(&SOLICITATION) {
        return answer_solicitation(payload);
    }
    FrameContent::Packet(payload)
}

/// RFC 4861 4.4: the answer to a neighbour solicitation, solicited and overriding. Probes for
/// duplicates have no source and get no answer.
fn answer_solicitation(packet: &[u8]) -> FrameContent<'static> {
    let (Some(sender), Some(target)) = (packet.get(8..24), packet.get(48..64)) else {
        return FrameContent::Nothing;
    };
    if sender.iter().all(|byte| *byte == 0) {
        return FrameContent::Nothing;
    }
    let mut message =
        [&[ADVERTISEMENT, 0, 0, 0, 0x60, 0, 0, 0], target, &[2, 1], &PEER_MAC].concat();
    let len = [0, 0, 0, 32, 0, 0, 0, ICMPV6];
    let sum = checksum(&[target, sender, &len, &message]).to_be_bytes();
    message[2..4].copy_from_slice(&sum);
    let header = [&[0x60, 0, 0, 0, 0, 32, ICMPV6, 255], target, sender].concat();
    FrameContent::Answer([&OWN_MAC[..], &PEER_MAC, &IPV6, &header, &message].concat())
}

/// RFC 1071, of parts of even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let pairs = parts.iter().flat_map(|part| part.chunks_exact(2));
    let total: u32 = pairs.map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (total & 0xffff) + (total >> 16);
    !u16::try_from((folded & 0xffff) + (folded >> 16)).unwrap_or(u16::MAX)
}

/// RFC 826: the answer to a request swaps the ends.
fn answer_arp(request: &[u8]) -> FrameContent<'static> {
    let (Some(head), Some(sender), Some(target)) =
        (request.get(..6), request.get(8..18), request.get(24..28))
    else {
        return FrameContent::Nothing;
    };
    if request.get(6..8) != Some(&[0, 1]) {
        return FrameContent::Nothing;
    }
    let answer = [&OWN_MAC[..], &PEER_MAC, &ARP, head, &[0, 2], &PEER_MAC, target, sender];
    FrameContent::Answer(answer.concat())
}
