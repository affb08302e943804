//! The link: raw IP packets as packetdrill has them, over an Ethernet link as the core has it, with
//! a neighbour that answers for every address.

use std::net::{IpAddr, Ipv4Addr};

use inet::{Cidr, Egress, InterfaceConfig, InterfaceId, Route, Stack, TxPiece};

use super::Link;
use crate::bytes::{Chunk, Frame};

const OWN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const HEADER: usize = 14;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
const ARP: [u8; 2] = [0x08, 0x06];

/// Frames that the stack sends.
#[derive(Debug, Default)]
pub(super) struct Wire {
    pub(super) frames: Vec<Vec<u8>>,
}

impl Wire {
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}

impl Egress<Chunk> for Wire {
    fn ready(&mut self) -> bool {
        true
    }

    fn emit(&mut self, _: InterfaceId, head: &[u8], body: &[TxPiece<'_, Chunk>]) {
        let mut frame = head.to_vec();
        for piece in body {
            frame.extend_from_slice(piece.bytes.part(piece.range.clone()));
        }
        self.frames.push(frame);
    }
}

/// What a frame carries.
#[derive(Debug)]
pub(super) enum Carried<'a> {
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
    if let IpAddr::V4(address) = link.local {
        // Some other address of the network: the neighbour answers for all.
        let [a, b, c, d] = address.octets();
        let gateway = Ipv4Addr::new(a, b, c, d ^ 0x40).into();
        let _ = stack.add_route(Route::default(gateway, interface));
    }
}

/// A packet as frame.
pub(super) fn wrap(packet: &[u8]) -> Vec<u8> {
    let kind = if packet.first().is_some_and(|byte| byte >> 4 == 6) { IPV6 } else { IPV4 };
    [&OWN_MAC[..], &PEER_MAC, &kind, packet].concat()
}

/// What `frame` carries.
pub(super) fn unwrap(frame: &[u8]) -> Carried<'_> {
    let (Some(kind), Some(payload)) = (frame.get(12..HEADER), frame.get(HEADER..)) else {
        return Carried::Nothing;
    };
    if kind == ARP { answer_arp(payload) } else { Carried::Packet(payload) }
}

/// RFC 826: the answer to a request swaps the ends.
fn answer_arp(request: &[u8]) -> Carried<'static> {
    let (Some(head), Some(sender), Some(target)) =
        (request.get(..6), request.get(8..18), request.get(24..28))
    else {
        return Carried::Nothing;
    };
    if request.get(6..8) != Some(&[0, 1]) {
        return Carried::Nothing;
    }
    let answer = [&OWN_MAC[..], &PEER_MAC, &ARP, head, &[0, 2], &PEER_MAC, target, sender];
    Carried::Answer(answer.concat())
}
