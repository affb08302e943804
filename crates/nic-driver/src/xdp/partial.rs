//! Frames with a checksum that the sender's host left unfilled, for a device that does not exist.
//!
//! The place of the checksum then has the sum of the pseudo-header, not complemented (RFC 1071, and
//! Linux's CHECKSUM_PARTIAL). A frame that a wire has spoilt looks so once in 65,536 times, as
//! often as a wrong checksum looks right.

use shm::{checksum, fold};

const IPV4: [u8; 2] = [8, 0];
const IPV6: [u8; 2] = [0x86, 0xdd];

/// Is the checksum of this frame of TCP or UDP the sum of its pseudo-header alone?
pub(super) fn is_undone(frame: &[u8]) -> bool {
    let found = match frame.get(12..14).and_then(|kind| <[u8; 2]>::try_from(kind).ok()) {
        Some(IPV4) => v4(&frame[14..]),
        Some(IPV6) => v6(&frame[14..]),
        _ => None,
    };
    found.is_some_and(|(sum, field)| fold(sum.into()) == field)
}

/// Sum of the pseudo-header, and the value in the checksum's place.
fn v4(packet: &[u8]) -> Option<(u32, u16)> {
    let words = usize::from(packet.first()? & 15);
    let fragment = word(packet, 6)? & 0x3fff != 0;
    let (protocol, header) = (*packet.get(9)?, 4 * words);
    let len = u32::from(word(packet, 2)?).checked_sub(4 * words as u32)?;
    let sum = u32::from(checksum(packet.get(12..20)?)) + u32::from(protocol) + len;
    Some((sum, place(protocol, packet.get(header..)?)?)).filter(|_| !fragment && words >= 5)
}

fn v6(packet: &[u8]) -> Option<(u32, u16)> {
    let (protocol, len) = (*packet.get(6)?, u32::from(word(packet, 4)?));
    let sum = u32::from(checksum(packet.get(8..40)?)) + u32::from(protocol) + len;
    Some((sum, place(protocol, packet.get(40..)?)?))
}

/// The value in the checksum's place of a TCP segment or a UDP datagram.
fn place(protocol: u8, segment: &[u8]) -> Option<u16> {
    match protocol {
        6 => word(segment, 16),
        17 => word(segment, 6),
        _ => None,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of TCP with 4 bytes of payload, with this checksum.
    fn frame(ipv6: bool, checksum: u16) -> Vec<u8> {
        let mut frame = vec![2; 12];
        if ipv6 {
            frame.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 24, 6, 64]);
            frame.extend_from_slice(&[0x20; 32]);
        } else {
            frame.extend_from_slice(&[8, 0, 0x45, 0, 0, 44, 0, 0, 0x40, 0, 64, 6, 0, 0]);
            frame.extend_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        }
        let mut tcp = [0; 24];
        tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
        frame.extend_from_slice(&tcp);
        frame
    }

    #[test]
    fn the_sum_of_the_pseudo_header_is_recognised() {
        // 0a00 + 0001 + 0a00 + 0002 + 6 + 24, and 16 times 2020, folded, + 6 + 24.
        for (ipv6, sum) in [(false, 0x1421), (true, fold(16 * 0x2020 + 30))] {
            assert!(is_undone(&frame(ipv6, sum)));
            assert!(!is_undone(&frame(ipv6, !sum)));
            assert!(!is_undone(&frame(ipv6, sum + 1)));
            let whole = frame(ipv6, sum);
            for len in 0..whole.len() - 6 {
                assert!(!is_undone(&whole[..len]), "{len}");
            }
        }
        let mut fragment = frame(false, 0x1421);
        fragment[14 + 6] = 0x20;
        assert!(!is_undone(&fragment));
        let mut other = frame(false, 0x1421);
        other[14 + 9] = 1;
        assert!(!is_undone(&other));
    }
}
