//! TCP segments as an observer on the link reads them.
//!
//! This shares no code with the engine, so that an error in its parser or emitter cannot hide from
//! the checkers: a header is decoded here once more, with its checksum and every option.

use core::net::IpAddr;
use core::ops::Range;

/// Fixed part of the header, bytes.
const FIXED: usize = 20;

/// A block of a SACK option: from its left edge up to its right edge.
pub type SackBlock = (u32, u32);

/// A segment's header, decoded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Segment {
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number, if the ACK bit is set.
    pub ack: Option<u32>,
    /// SYN bit.
    pub syn: bool,
    /// FIN bit.
    pub fin: bool,
    /// RST bit.
    pub rst: bool,
    /// PSH bit.
    pub psh: bool,
    /// The urgent pointer, if the URG bit is set.
    pub urgent: Option<u16>,
    /// The window field as it stands.
    pub window: u16,
    /// Maximum segment size option.
    pub mss: Option<u16>,
    /// Window scale option.
    pub scale: Option<u8>,
    /// SACK-permitted option.
    pub sack_permitted: bool,
    /// Timestamps option: TSval, TSecr.
    pub timestamps: Option<(u32, u32)>,
    /// SACK option.
    pub sack: Vec<SackBlock>,
    /// Length of all options with their padding, bytes.
    pub options: usize,
    /// Length of the payload, bytes.
    pub len: usize,
}

impl Segment {
    /// SEG.LEN: the sequence numbers that it takes.
    pub fn span(&self) -> u32 {
        self.len as u32 + u32::from(self.syn) + u32::from(self.fin)
    }

    /// Decodes the segment `bytes` between two addresses; the payload is its last `len` bytes.
    ///
    /// # Errors
    /// The fault of the segment.
    pub fn decode(from: IpAddr, to: IpAddr, bytes: &[u8]) -> Result<Self, &'static str> {
        if bytes.len() < FIXED {
            return Err("a segment shorter than its header");
        }
        let head = usize::from(bytes[12] >> 4) * 4;
        if head < FIXED || head > bytes.len() {
            return Err("an impossible data offset");
        }
        if pseudo_sum(from, to, bytes) != 0xffff {
            return Err("a wrong checksum");
        }
        let bit = |bit: u8| bytes[13] & bit != 0;
        let mut segment = Self {
            seq: word(bytes, 4),
            ack: bit(0x10).then(|| word(bytes, 8)),
            syn: bit(0x02),
            fin: bit(0x01),
            rst: bit(0x04),
            psh: bit(0x08),
            urgent: bit(0x20).then(|| u16::from_be_bytes([bytes[18], bytes[19]])),
            window: u16::from_be_bytes([bytes[14], bytes[15]]),
            options: head - FIXED,
            len: bytes.len() - head,
            ..Self::default()
        };
        segment.read_options(&bytes[FIXED..head])?;
        Ok(segment)
    }

    fn read_options(&mut self, mut rest: &[u8]) -> Result<(), &'static str> {
        while let [kind, tail @ ..] = rest {
            match kind {
                0 => break,
                1 => {
                    rest = tail;
                    continue;
                }
                _ => {}
            }
            let len = usize::from(*tail.first().ok_or("an option without a length")?);
            if len < 2 || len > rest.len() {
                return Err("an option with an impossible length");
            }
            let (option, next) = rest.split_at(len);
            self.read_option(*kind, &option[2..])?;
            rest = next;
        }
        Ok(())
    }

    fn read_option(&mut self, kind: u8, value: &[u8]) -> Result<(), &'static str> {
        match (kind, value) {
            (2, [high, low]) => self.mss = Some(u16::from_be_bytes([*high, *low])),
            (3, [shift]) => self.scale = Some(*shift),
            (4, []) => self.sack_permitted = true,
            (8, value) if value.len() == 8 => {
                self.timestamps = Some((word(value, 0), word(value, 4)));
            }
            (5, blocks) if blocks.len().is_multiple_of(8) && !blocks.is_empty() => {
                self.sack = blocks.chunks(8).map(|b| (word(b, 0), word(b, 4))).collect();
            }
            (2..=5 | 8, _) => return Err("a known option with a wrong length"),
            _ => {}
        }
        Ok(())
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Adds 16-bit words to an RFC 1071 sum.
pub(crate) fn add(sum: &mut u64, bytes: &[u8]) {
    for pair in bytes.chunks(2) {
        *sum += u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    }
}

/// RFC 1071 sum over pseudo-header and segment; 0xffff if the checksum in it is right.
fn pseudo_sum(from: IpAddr, to: IpAddr, bytes: &[u8]) -> u16 {
    let mut sum = 6 + bytes.len() as u64;
    for address in [from, to] {
        match address {
            IpAddr::V4(address) => add(&mut sum, &address.octets()),
            IpAddr::V6(address) => add(&mut sum, &address.octets()),
        }
    }
    add(&mut sum, bytes);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Range of a TCP segment in an Ethernet frame, with its addresses. The frame must carry IPv4, or
/// IPv6 without extension headers, and be unfragmented.
pub fn find(frame: &[u8]) -> Option<(IpAddr, IpAddr, Range<usize>)> {
    const ETHERNET: usize = 14;
    let packet = frame.get(ETHERNET..)?;
    match (frame[12], frame[13], packet.first()? >> 4) {
        (0x08, 0x00, 4) => {
            let head = usize::from(packet[0] & 15) * 4;
            let total = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
            // Neither another protocol nor a fragment; and the header's sum is right.
            let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x3fff != 0;
            if *packet.get(9)? != 6 || fragment || head < 20 || total < head {
                return None;
            }
            let mut sum = 0;
            add(&mut sum, packet.get(..head)?);
            packet.get(..total)?;
            if sum % 0xffff != 0 {
                return None;
            }
            let at = |at: usize| <[u8; 4]>::try_from(&packet[at..at + 4]).expect("four bytes");
            Some((at(12).into(), at(16).into(), ETHERNET + head..ETHERNET + total))
        }
        (0x86, 0xdd, 6) => {
            let len = usize::from(u16::from_be_bytes([*packet.get(4)?, *packet.get(5)?]));
            if *packet.get(6)? != 6 {
                return None;
            }
            packet.get(..40 + len)?;
            let at = |at: usize| <[u8; 16]>::try_from(&packet[at..at + 16]).expect("sixteen bytes");
            Some((at(8).into(), at(24).into(), ETHERNET + 40..ETHERNET + 40 + len))
        }
        _ => None,
    }
}

/// Whether an Ethernet frame asks all on the link for a neighbour's address. Such a frame is an ARP
/// request (RFC 826) or a neighbour solicitation (RFC 4861 4.3). Not counted are those of a sender
/// without an address yet (RFC 5227 2.1.1, RFC 4862 5.4.2). Nor are those that probe a known
/// neighbour, which go to it alone (RFC 1122 2.3.2.1, RFC 4861 7.3.3).
pub fn is_question(frame: &[u8]) -> bool {
    if frame.first().is_none_or(|first| first & 1 == 0) {
        return false;
    }
    let has = |at: usize, bytes: &[u8]| frame.get(at..at + bytes.len()) == Some(bytes);
    let is_named = |at: Range<usize>| {
        frame.get(at).is_some_and(|address| address.iter().any(|byte| *byte != 0))
    };
    let arp = has(12, &[0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1]) && is_named(28..32);
    let solicits = has(12, &[0x86, 0xdd]) && has(20, &[58]) && has(54, &[135]) && is_named(22..38);
    arp || solicits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let from: IpAddr = [10, 0, 0, 1].into();
        let to: IpAddr = [10, 0, 0, 2].into();
        let mut bytes = vec![0, 1, 0, 2, 0, 0, 0, 9, 0, 0, 0, 7, 0xb0, 0x32, 1, 0, 0, 0, 0, 3];
        bytes.extend([2, 4, 5, 180, 4, 2, 1, 3, 3, 7, 1, 1, 5, 10, 0, 0, 0, 20, 0, 0, 0, 30, 0, 0]);
        bytes.extend(b"text");
        let sum = !pseudo_sum(from, to, &bytes);
        bytes[16..18].copy_from_slice(&sum.to_be_bytes());
        let segment = Segment::decode(from, to, &bytes).expect("a segment");
        assert_eq!((segment.seq, segment.ack, segment.len, segment.span()), (9, Some(7), 4, 5));
        assert_eq!((segment.mss, segment.scale, segment.urgent), (Some(1460), Some(7), Some(3)));
        assert!(segment.syn && segment.sack_permitted && !segment.fin);
        assert_eq!(segment.sack, [(20, 30)]);
        bytes[30] ^= 1;
        assert_eq!(Segment::decode(from, to, &bytes), Err("a wrong checksum"));
    }

    #[test]
    fn questions_are_told_from_other_frames() {
        let frame = |to: u8, rest: &[&[u8]]| [&[to; 6][..], &[2; 6], &rest.concat()].concat();
        let arp = |to: u8, operation: u8, sender: &[u8]| {
            let head = [0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, operation];
            frame(to, &[&head, &[2; 6], sender, &[0; 6], &[10, 0, 0, 2]])
        };
        let icmp = |to: u8, kind: u8, sender: u8| {
            let head = [0x86, 0xdd, 0x60, 0, 0, 0, 0, 24, 58, 255];
            frame(to, &[&head, &[sender; 16], &[0xff; 16], &[kind, 0, 0, 0], &[0; 20]])
        };
        let own = [10, 0, 0, 1];
        assert!(is_question(&arp(0xff, 1, &own)));
        assert!(!is_question(&arp(2, 1, &own)), "it proves a known one");
        assert!(!is_question(&arp(0xff, 2, &own)), "an announcement");
        assert!(!is_question(&arp(0xff, 1, &[0; 4])), "a probe");
        assert!(is_question(&icmp(0x33, 135, 0xfe)));
        assert!(!is_question(&icmp(2, 135, 0xfe)), "it proves a known one");
        assert!(!is_question(&icmp(0x33, 136, 0xfe)), "an advertisement");
        assert!(!is_question(&icmp(0x33, 135, 0)), "for duplicates");
        assert!(!is_question(&[0xff; 13]));
    }
}
