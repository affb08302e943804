//! Frames made by hand: addresses of the two ends, headers around a segment, checksums.

use core::net::Ipv4Addr;

/// The stack's address.
pub(crate) const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// The other end's.
pub(crate) const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// The stack's hardware address.
pub(crate) const MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// Where the stack listens.
pub(crate) const PORT: u16 = 80;
/// The other end's port.
pub(crate) const PEER_PORT: u16 = 5000;
/// Ethernet and IPv4 headers before a segment.
pub(crate) const HEADS: usize = 34;

/// RFC 1071 sum, folded.
pub(crate) fn sum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)])));
    let mut total: u32 = words.sum();
    while total > 0xffff {
        total = (total >> 16) + (total & 0xffff);
    }
    total as u16
}

/// The peer's ARP request for the stack's hardware address, which also gives the stack the peer's.
pub(crate) fn arp() -> Vec<u8> {
    let mut arp = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
    arp.extend_from_slice(&[2, 0, 0, 0, 0, 1]);
    arp.extend_from_slice(&PEER.octets());
    arp.extend_from_slice(&[0; 6]);
    arp.extend_from_slice(&OURS.octets());
    arp
}

/// Puts headers before a TCP segment from the other end, and makes its checksums right.
pub(crate) fn frame_of(segment: &[u8]) -> Vec<u8> {
    let mut frame = [&MAC[..], &[2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0]].concat();
    frame.extend_from_slice(&((20 + segment.len()) as u16).to_be_bytes());
    frame.extend_from_slice(&[0, 0, 0x40, 0, 64, 6, 0, 0]);
    frame.extend_from_slice(&PEER.octets());
    frame.extend_from_slice(&OURS.octets());
    frame.extend_from_slice(segment);
    repair(&mut frame);
    frame
}

/// Makes the checksums of an IPv4 frame right as far as lengths allow.
pub(crate) fn repair(frame: &mut [u8]) {
    if frame.len() < HEADS {
        return;
    }
    let header = usize::from(frame[14] & 15) * 4;
    let start = 14 + header;
    if header < 20 || frame.len() < start {
        return;
    }
    frame[24..26].fill(0);
    let ip = !sum(&frame[14..start]);
    frame[24..26].copy_from_slice(&ip.to_be_bytes());
    let end = (14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]))).min(frame.len());
    let place = start
        + match frame[23] {
            6 => 16,
            17 => 6,
            1 => 2,
            _ => return,
        };
    if place + 2 > end {
        return;
    }
    frame[place..place + 2].fill(0);
    let mut covered = Vec::new();
    if frame[23] != 1 {
        covered.extend_from_slice(&frame[26..34]);
        covered.extend_from_slice(&[0, frame[23]]);
        covered.extend_from_slice(&((end - start) as u16).to_be_bytes());
    }
    covered.extend_from_slice(&frame[start..end]);
    let transport = !sum(&covered);
    frame[place..place + 2].copy_from_slice(&transport.to_be_bytes());
}
