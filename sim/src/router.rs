//! The router between the hosts. It drops packets that are too long for its next link and reports
//! that to the sender (RFC 1191, RFC 8201). It also advertises a prefix (RFC 4861).
//!
//! Like [`wire`](crate::wire), this module shares no code with the engine.

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::wire::add;

/// Length of an Ethernet header, bytes.
pub const ETHERNET: usize = 14;
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xfe];
/// Where its messages come from: not from the hosts' network.
const V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 1);
/// The same on the hosts' link.
const LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0xfe);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Most that is quoted of a packet, bytes: header, ports, sequence number and more.
const QUOTED: usize = 96;

/// A message that a packet was too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooBig {
    /// The longest packet that is not, bytes.
    pub mtu: usize,
    /// The sequence number that is quoted.
    pub seq: u32,
}

/// RFC 1071 sum of `parts`, each but the last of an even length.
fn folded(parts: &[&[u8]]) -> u16 {
    let mut sum = 0;
    for part in parts {
        add(&mut sum, part);
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The header of an ICMPv6 message of `len` bytes. It is also its pseudo-header, in another order.
fn header6(from: Ipv6Addr, to: Ipv6Addr, len: usize, hops: u8) -> [u8; 40] {
    let mut header = [0; 40];
    header[0] = 0x60;
    header[4..6].copy_from_slice(&(len as u16).to_be_bytes());
    (header[6], header[7]) = (58, hops);
    header[8..24].copy_from_slice(&from.octets());
    header[24..40].copy_from_slice(&to.octets());
    header
}

/// Writes the checksum of an ICMPv6 message.
fn seal(header: &[u8; 40], message: &mut [u8]) {
    let sum = !folded(&[&header[4..6], &[0, 58], &header[8..], message]);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
}

fn frame(to: &[u8], kind: [u8; 2], header: &[u8], message: &[u8]) -> Vec<u8> {
    [to, &MAC, &kind, header, message].concat()
}

/// The error to the sender of `sent` if packets may have at most `mtu` bytes; `None` if it is not
/// IP.
pub fn too_big(sent: &[u8], mtu: usize) -> Option<Vec<u8>> {
    let (sender, packet) = (sent.get(6..12)?, sent.get(ETHERNET..)?);
    let quote = &packet[..packet.len().min(QUOTED)];
    let mtu = (mtu as u16).to_be_bytes();
    match [sent[12], sent[13]] {
        kind @ [0x08, 0x00] => {
            let mut message = [&[3, 4, 0, 0, 0, 0, mtu[0], mtu[1]], quote].concat();
            let sum = !folded(&[&message]);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
            let total = (20 + message.len() as u16).to_be_bytes();
            let mut header = vec![0x45, 0, total[0], total[1], 0, 0, 0, 0, 64, 1, 0, 0];
            header.extend(V4.octets());
            header.extend(packet.get(12..16)?);
            let sum = !folded(&[&header]);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            Some(frame(sender, kind, &header, &message))
        }
        kind @ [0x86, 0xdd] => {
            let mut message = [&[2, 0, 0, 0, 0, 0, mtu[0], mtu[1]], quote].concat();
            let to = <[u8; 16]>::try_from(packet.get(8..24)?).ok()?;
            let header = header6(V6, to.into(), message.len(), 64);
            seal(&header, &mut message);
            Some(frame(sender, kind, &header, &message))
        }
        _ => None,
    }
}

/// Reads such a message about a TCP segment from a frame, if the frame is one and intact.
pub fn read_too_big(frame: &[u8]) -> Option<TooBig> {
    let packet = frame.get(ETHERNET..)?;
    let (message, head) = match (frame.get(12..14)?, packet) {
        ([0x08, 0x00], [0x45, ..]) => {
            let (header, message) = packet.split_at_checked(20)?;
            let intact = folded(&[header]) == 0xffff && folded(&[message]) == 0xffff;
            (intact && header[9] == 1 && message.starts_with(&[3, 4])).then_some((message, 20))?
        }
        ([0x86, 0xdd], _) => {
            let (header, message) = packet.split_at_checked(40)?;
            let sum = folded(&[&header[4..6], &[0, 58], &header[8..], message]);
            let is = header[6] == 58 && message.starts_with(&[2, 0]);
            (is && sum == 0xffff).then_some((message, 40))?
        }
        _ => return None,
    };
    let segment = message.get(8 + head..)?;
    let seq = u32::from_be_bytes(*segment.get(4..)?.first_chunk()?);
    Some(TooBig { mtu: u16::from_be_bytes([message[6], message[7]]).into(), seq })
}

/// An advertisement of the first 64 bits of `prefix`, without an end of its lifetime. Its sender is
/// no default router.
pub fn advertisement(prefix: Ipv6Addr) -> Vec<u8> {
    let mut message = vec![134, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    // On the link, and for addresses (RFC 4861 4.6.2).
    message.extend([3, 4, 64, 0xc0]);
    message.extend([0xff; 8]);
    message.extend([0; 4]);
    message.extend(&prefix.octets()[..8]);
    message.extend([0; 8]);
    let header = header6(LOCAL, ALL_NODES, message.len(), 255);
    seal(&header, &mut message);
    frame(&[0x33, 0x33, 0, 0, 0, 1], [0x86, 0xdd], &header, &message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of `kind` whose packet starts with `first` and has a TCP segment at `head`.
    fn sent(kind: [u8; 2], first: u8, head: usize) -> Vec<u8> {
        let mut packet = vec![0; head + 1000];
        packet[0] = first;
        packet[head + 4..head + 8].copy_from_slice(&[1, 2, 3, 4]);
        [&[9; 12], &kind[..], &packet].concat()
    }

    #[test]
    fn what_is_said_is_read_unless_damaged() {
        for (kind, first, head) in [([0x08, 0x00], 0x45, 20), ([0x86, 0xdd], 0x60, 40)] {
            let mut message = too_big(&sent(kind, first, head), 1400).expect("IP");
            let expected = TooBig { mtu: 1400, seq: 0x0102_0304 };
            assert_eq!(read_too_big(&message), Some(expected));
            let last = message.len() - 1;
            message[last] ^= 8;
            assert_eq!(read_too_big(&message), None);
        }
        assert_eq!(too_big(&sent([0x08, 0x06], 0, 28), 1400), None);
    }
}
