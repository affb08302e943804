//! The header of virtio devices before a frame, which the kernel's TAP and packet sockets use too:
//! `struct virtio_net_hdr` (virtio 1.3, 5.1.6; Linux's `linux/virtio_net.h`), in the byte order of
//! the machine.
//!
//! The host's kernel or the other end of a link writes the header. Fields that make no sense count
//! as absent, with one exception. A frame whose checksum is still to be completed comes from this
//! machine and went over no wire, so it counts as right.

use abi::offload::{Checksum, RxOffload, SegmentKind, Segments, TxOffload};

/// Length of the header, bytes.
pub(crate) const HEADER: usize = 10;

/// `flags`: the checksum is to be completed; it was found right.
const NEEDS_CSUM: u8 = 1;
const DATA_VALID: u8 = 2;

/// `gso_type`: TCP over IPv4, over IPv6, UDP; beside it, that the first segment alone has CWR.
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

/// Length of the Ethernet header, and of the headers that are in front of TCP's.
const ETHERNET: usize = 14;

/// The header of a frame with `offload` left to the device. `head` is the frame's beginning with
/// all its headers.
pub(crate) fn encode(offload: &TxOffload, head: &[u8]) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    let mut put = |at: usize, value: u16| {
        header[at..at + 2].copy_from_slice(&value.to_ne_bytes());
    };
    if let Some(Checksum { start, offset }) = offload.checksum {
        put(6, start.into());
        put(8, offset.into());
    }
    if let Some(Segments { size, .. }) = offload.segments {
        put(2, headers_len(offload, head));
        put(4, size);
    }
    header[0] = if offload.checksum.is_some() { NEEDS_CSUM } else { 0 };
    header[1] = match offload.segments.map(|segments| segments.kind) {
        None => 0,
        Some(SegmentKind::Tcp4) => GSO_TCPV4,
        Some(SegmentKind::Tcp6) => GSO_TCPV6,
    };
    header
}

/// Length of all headers of a super-segment. TCP's header starts where its checksum does, and has
/// its own length in it.
fn headers_len(offload: &TxOffload, head: &[u8]) -> u16 {
    let start = offload.checksum.map_or(ETHERNET, |sum| sum.start.into());
    let tcp = head.get(start + 12).map_or(0, |byte| usize::from(byte >> 4) * 4);
    u16::try_from(start + tcp).unwrap_or(u16::MAX)
}

/// The offload state from a received frame's header.
pub(crate) fn decode(header: &[u8; HEADER]) -> RxOffload {
    let verified = header[0] & (NEEDS_CSUM | DATA_VALID) != 0;
    let size = u16::from_ne_bytes([header[4], header[5]]);
    let kind = match header[1] & !GSO_ECN {
        GSO_TCPV4 => Some(SegmentKind::Tcp4),
        GSO_TCPV6 => Some(SegmentKind::Tcp6),
        _ => None,
    };
    let segments = kind.filter(|_| size > 0).map(|kind| Segments { kind, size });
    RxOffload { verified, segments }
}

/// Payload bytes of each segment of a super-frame of any kind; 0 if it is none.
pub(crate) fn segment_size(header: &[u8; HEADER]) -> usize {
    let size = u16::from_ne_bytes([header[4], header[5]]);
    if header[1] & !GSO_ECN == 0 { 0 } else { size.into() }
}

/// Is a super-frame one of UDP?
pub(crate) fn is_udp(header: &[u8; HEADER]) -> bool {
    header[1] & !GSO_ECN == GSO_UDP_L4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(header: &[u8; HEADER], at: usize) -> u16 {
        u16::from_ne_bytes([header[at], header[at + 1]])
    }

    #[test]
    fn a_plain_frame_has_an_empty_header() {
        assert_eq!(encode(&TxOffload::NONE, &[0; 60]), [0; HEADER]);
        assert_eq!(decode(&[0; HEADER]), RxOffload::NONE);
    }

    #[test]
    fn what_is_left_to_the_device_is_in_its_place() {
        let mut head = [0; 86];
        // A TCP header of 32 bytes behind one of IPv6.
        head[54 + 12] = 0x80;
        let checksum = Some(Checksum { start: 54, offset: 16 });
        let segments = Some(Segments { kind: SegmentKind::Tcp6, size: 1428 });
        let header = encode(&TxOffload { checksum, segments }, &head);
        assert_eq!(header[..2], [NEEDS_CSUM, GSO_TCPV6]);
        let words = [2, 4, 6, 8].map(|at| word(&header, at));
        assert_eq!(words, [86, 1428, 54, 16]);
        let header = encode(&TxOffload { checksum, segments: None }, &head);
        assert_eq!((header[0], header[1], word(&header, 4)), (NEEDS_CSUM, 0, 0));
    }

    #[test]
    fn nonsense_is_as_if_it_had_not_been_said() {
        let of = |flags, kind, size: u16| {
            let [a, b] = size.to_ne_bytes();
            decode(&[flags, kind, 0xff, 0xff, a, b, 0xff, 0xff, 0xff, 0xff])
        };
        let joined = |kind, size| Some(Segments { kind, size });
        assert_eq!(of(NEEDS_CSUM, GSO_TCPV4, 1448).segments, joined(SegmentKind::Tcp4, 1448));
        assert!(of(NEEDS_CSUM, 0, 0).verified && of(DATA_VALID, 0, 0).verified);
        assert!(!of(0, GSO_TCPV4, 9).verified);
        let ecn = of(NEEDS_CSUM, GSO_TCPV6 | GSO_ECN, 1);
        assert_eq!(ecn.segments, joined(SegmentKind::Tcp6, 1));
        // No size; UDP, which was not requested; an unknown kind; no kind at all.
        for (kind, size) in [(GSO_TCPV4, 0), (3, 1448), (0x7f, 1), (0, 100)] {
            assert_eq!(of(0, kind, size), RxOffload::NONE, "{kind} {size}");
        }
    }
}
