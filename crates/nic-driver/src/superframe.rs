//! Super-frames segmented into the frames they were made of.
//!
//! The other end of a virtual cable sends frames of up to 64 KiB with its segmentation offload, and
//! a packet socket gives each as one frame. Where the stack takes such frames they go on as they
//! are. Otherwise they are segmented here, as a device at the end of the cable would do. Every
//! segment gets the headers, with its own lengths, identification, sequence number and flags.
//! Checksums of TCP and UDP are left undone: the frame went over no wire, so its segments count as
//! verified.

use abi::offload::RxOffload;
use shm::checksum;

use crate::device::{ETHERNET_HEADER, Received};
use crate::vnet;

/// Longest frame of all, bytes.
pub(crate) const LONGEST: usize = abi::offload::MAX_SUPER_FRAME;

/// TCP flags that only the last segment (FIN, PSH) or the first one (CWR) has.
const LAST_ONLY: u8 = 0x09;
const FIRST_ONLY: u8 = 0x80;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: [u16; 2] = [0x8100, 0x88a8];

/// Where the headers of a super-frame are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Headers {
    pub(crate) ipv6: bool,
    pub(crate) udp: bool,
    /// Offsets of the IP header, the header of TCP or UDP, and the payload.
    pub(crate) ip: usize,
    pub(crate) transport: usize,
    pub(crate) payload: usize,
}

/// A super-frame that is being cut.
#[derive(Debug)]
pub(crate) struct SuperFrame {
    bytes: Box<[u8]>,
    len: usize,
    headers: Headers,
    /// Payload bytes of each segment but the last; at least 1.
    size: usize,
    /// Payload bytes that are out.
    done: usize,
    /// Segments that are out.
    count: u16,
}

impl SuperFrame {
    /// None yet.
    pub(crate) fn new() -> Self {
        let headers = Headers { ipv6: false, udp: false, ip: 0, transport: 0, payload: 0 };
        let bytes = vec![0; LONGEST].into_boxed_slice();
        Self { bytes, len: 0, headers, size: 1, done: 0, count: 0 }
    }

    /// Room for the frame, [`LONGEST`] bytes.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Takes the first `len` bytes as a super-frame, as its header says. `false`: the frame's own
    /// headers contradict that.
    pub(crate) fn begin(&mut self, len: usize, header: &[u8; vnet::HEADER]) -> bool {
        let size = vnet::segment_size(header);
        self.len = 0;
        let Some(frame) = self.bytes.get(..len) else { return false };
        let Some(headers) = find(frame) else { return false };
        if size == 0 || headers.udp != vnet::is_udp(header) {
            return false;
        }
        (self.headers, self.size) = (headers, size);
        (self.len, self.done, self.count) = (len, 0, 0);
        self.len > headers.payload
    }

    /// Is there a next segment?
    pub(crate) fn has_more(&self) -> bool {
        self.len > self.headers.payload + self.done
    }

    /// The next segment, if there is one.
    pub(crate) fn next(&mut self, into: &mut [u8]) -> Option<Received> {
        let Headers { payload, .. } = self.headers;
        let left = self.len.checked_sub(payload + self.done).filter(|left| *left > 0)?;
        let size = left.min(self.size);
        let len = payload + size;
        let room = into.len().min(len);
        let mut head = [0; ETHERNET_HEADER + 8 + 60 + 60];
        let head = &mut head[..payload.min(ETHERNET_HEADER + 128)];
        head.copy_from_slice(&self.bytes[..head.len()]);
        let cut = SegmentPosition { size, done: self.done, count: self.count, last: left == size };
        adapt(head, &self.headers, &cut);
        let from = payload + self.done;
        for (to, piece) in [(0, &*head), (payload, &self.bytes[from..from + size])] {
            if let Some(to) = into[..room].get_mut(to..) {
                let fits = to.len().min(piece.len());
                to[..fits].copy_from_slice(&piece[..fits]);
            }
        }
        self.done += size;
        self.count = self.count.wrapping_add(1);
        Some(Received { len, offload: RxOffload { verified: true, segments: None } })
    }
}

/// A segment of a super-frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SegmentPosition {
    /// Payload, bytes.
    pub(crate) size: usize,
    /// Payload bytes, and segments, before it.
    pub(crate) done: usize,
    pub(crate) count: u16,
    /// There is none behind it.
    pub(crate) last: bool,
}

/// Turns the headers of a super-frame, all of `head`, into those of one of its segments. The
/// checksum of TCP or UDP is left out.
pub(crate) fn adapt(head: &mut [u8], headers: &Headers, cut: &SegmentPosition) {
    let Headers { ipv6, udp, ip, transport, payload } = *headers;
    let mut put = |at: usize, value: usize| {
        let value = u16::try_from(value).unwrap_or(u16::MAX);
        head[at..at + 2].copy_from_slice(&value.to_be_bytes());
    };
    let behind = payload + cut.size - ip;
    if ipv6 {
        put(ip + 4, behind - 40);
    } else {
        put(ip + 2, behind);
    }
    if udp {
        put(transport + 4, payload + cut.size - transport);
    } else {
        let done = u32::try_from(cut.done).unwrap_or(u32::MAX);
        let sequence = &mut head[transport + 4..transport + 8];
        let first = u32::from_be_bytes([sequence[0], sequence[1], sequence[2], sequence[3]]);
        sequence.copy_from_slice(&first.wrapping_add(done).to_be_bytes());
        let flags = &mut head[transport + 13];
        *flags &= if cut.last { 0xff } else { !LAST_ONLY };
        *flags &= if cut.count == 0 { 0xff } else { !FIRST_ONLY };
    }
    if !ipv6 {
        let id = be16(head, ip + 4).unwrap_or(0).wrapping_add(cut.count);
        head[ip + 4..ip + 6].copy_from_slice(&id.to_be_bytes());
        head[ip + 10..ip + 12].fill(0);
        let sum = !checksum(&head[ip..transport]);
        head[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
    }
}

/// The headers of a frame of TCP or UDP that is no fragment and has no extension header.
pub(crate) fn find(frame: &[u8]) -> Option<Headers> {
    let mut ip = ETHERNET_HEADER;
    let mut kind = be16(frame, ip - 2)?;
    if VLAN.contains(&kind) {
        ip += 4;
        kind = be16(frame, ip - 2)?;
    }
    let (ipv6, transport, protocol) = match kind {
        IPV4 => {
            let words = usize::from(frame.get(ip)? & 15).max(5);
            (false, ip + 4 * words, *frame.get(ip + 9)?)
        }
        IPV6 => (true, ip + 40, *frame.get(ip + 6)?),
        _ => return None,
    };
    let (udp, len) = match protocol {
        6 => (false, usize::from(frame.get(transport + 12)? >> 4).max(5) * 4),
        17 => (true, 8),
        _ => return None,
    };
    let payload = transport + len;
    (frame.len() >= payload).then_some(Headers { ipv6, udp, ip, transport, payload })
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A frame over IPv4 or IPv6, of TCP (with 12 bytes of options) or UDP, and its header.
    fn frame(ipv6: bool, udp: bool, payload: &[u8], size: u16) -> (Vec<u8>, [u8; vnet::HEADER]) {
        let mut frame = vec![2; 12];
        let transport = if udp { 8 } else { 32 };
        let behind = u16::try_from(transport + payload.len()).unwrap();
        let protocol = if udp { 17 } else { 6 };
        if ipv6 {
            frame.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend_from_slice(&behind.to_be_bytes());
            frame.extend_from_slice(&[protocol, 64]);
            frame.extend_from_slice(&[7; 32]);
        } else {
            frame.extend_from_slice(&[8, 0, 0x45, 0]);
            frame.extend_from_slice(&(behind + 20).to_be_bytes());
            frame.extend_from_slice(&[0xff, 0xff, 0x40, 0, 64, protocol, 0, 0]);
            frame.extend_from_slice(&[9; 8]);
        }
        if udp {
            frame.extend_from_slice(&[1, 2, 3, 4]);
            frame.extend_from_slice(&behind.to_be_bytes());
            frame.extend_from_slice(&[0, 0]);
        } else {
            frame.extend_from_slice(&[1, 2, 3, 4, 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 0, 0x80, 0x99]);
            frame.extend_from_slice(&[0; 18]);
        }
        frame.extend_from_slice(payload);
        let kind = if udp {
            5
        } else if ipv6 {
            4
        } else {
            1
        };
        let [a, b] = size.to_ne_bytes();
        (frame, [1, kind, 0, 0, a, b, 0, 0, 0, 0])
    }

    fn cut(frame: &[u8], header: &[u8; vnet::HEADER]) -> Vec<Vec<u8>> {
        let mut cutter = SuperFrame::new();
        cutter.bytes_mut()[..frame.len()].copy_from_slice(frame);
        let mut all = Vec::new();
        if cutter.begin(frame.len(), header) {
            let mut page = [0; 4096];
            while let Some(received) = cutter.next(&mut page) {
                assert!(received.offload.verified);
                all.push(page[..received.len].to_vec());
            }
        }
        all
    }

    #[test]
    fn segments_have_their_own_headers() {
        let payload: Vec<u8> = (0..3000_u32).map(|n| n as u8).collect();
        for (ipv6, udp) in [(false, false), (true, false), (false, true), (true, true)] {
            let (frame, header) = frame(ipv6, udp, &payload, 1400);
            let segments = cut(&frame, &header);
            assert_eq!(segments.len(), 3);
            let mut joined = Vec::new();
            for (number, segment) in segments.iter().enumerate() {
                let found = find(segment).unwrap();
                joined.extend_from_slice(&segment[found.payload..]);
                let len = segment.len();
                if ipv6 {
                    assert_eq!(be16(segment, 14 + 4), u16::try_from(len - 54).ok());
                } else {
                    assert_eq!(be16(segment, 14 + 2), u16::try_from(len - 14).ok());
                    assert_eq!(checksum(&segment[14..34]), u16::MAX);
                    assert_eq!(be16(segment, 18), Some(0xffff_u16.wrapping_add(number as u16)));
                }
                if udp {
                    assert_eq!(
                        be16(segment, found.transport + 4),
                        u16::try_from(len - found.transport).ok()
                    );
                } else {
                    let sequence = &segment[found.transport + 4..found.transport + 8];
                    let expected = 0xffff_fff0_u32.wrapping_add(number as u32 * 1400);
                    assert_eq!(sequence, expected.to_be_bytes());
                    // ACK on all, CWR on the first, FIN and PSH on the last.
                    assert_eq!(segment[found.transport + 13], [0x90, 0x10, 0x19][number]);
                }
            }
            assert_eq!(joined, payload);
        }
    }

    #[test]
    fn a_frame_that_is_not_what_it_claims_gives_nothing() {
        let (whole, header) = frame(false, false, &[1; 100], 10);
        assert_eq!(cut(&whole, &header).len(), 10);
        let mut udp = header;
        udp[1] = 5;
        assert!(cut(&whole, &udp).is_empty());
        let mut none = header;
        none[4..6].fill(0);
        assert!(cut(&whole, &none).is_empty());
        for len in 0..whole.len() - 100 {
            assert!(cut(&whole[..len], &header).is_empty(), "{len}");
        }
    }

    proptest! {
        #[test]
        fn no_frame_makes_it_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 0..300),
            kind in 0..8_usize,
            header in any::<[u8; vnet::HEADER]>(),
        ) {
            let types: [[u8; 2]; 4] = [[8, 0], [0x86, 0xdd], [0x81, 0], [0, 0]];
            if bytes.len() > 24 {
                bytes[12..14].copy_from_slice(&types[kind % 4]);
                bytes[if kind % 4 == 0 { 23 } else { 20 }] = if kind < 4 { 6 } else { 17 };
            }
            let _ = cut(&bytes, &header);
        }
    }
}
