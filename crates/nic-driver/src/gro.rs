//! Generic receive offload, as Linux's: consecutive segments of one TCP stream are joined to one
//! frame. So the work for each frame is done once for tens of segments. It is for devices that hand
//! over single segments.
//!
//! Nothing is copied for it. Where the kernel chooses the place of each frame, the frames stay
//! there (`frames::in_place`). Otherwise the next frame is received into the area of the frame
//! before. Its headers go over the last payload bytes, which are kept aside meanwhile. If the frame
//! may be joined, the kept bytes go over its headers again, and both payloads lie in one piece.
//! Only a frame that does not fit is moved, to an area of its own.
//!
//! The rules are those of Linux's `tcp_gro_receive`. A segment is joined under three conditions. It
//! begins where the segments before it end, it is no longer than the first of them, and it has the
//! same headers: addresses, ports, DF, TTL, traffic class, acknowledgement, window and options,
//! timestamps included. Only ACK and PSH may be set. A segment with SYN, FIN, RST, URG, ECE, CWR or
//! a CE mark goes alone, and so do fragments and packets with IP options or extension headers. A
//! shorter segment is the last. Checksums are verified before, IP's and TCP's.
//!
//! Two things differ. Identifications of IPv4 are not looked at: those of packets that must not be
//! fragmented mean nothing (RFC 6864 4.1). A segment with PSH does not end the frame: frames are
//! joined only as long as the device has the next one already, so no receiver waits.

use abi::offload::{SegmentKind, Segments};
use shm::{checksum, fold};

use crate::superframe::{self, Headers};

/// Most bytes of all headers of a segment that can be joined, and least bytes of its payload. So
/// the headers of the next segment never lie over those of the first.
pub(crate) const MOST_HEADERS: usize = 128;

/// Longest IP packet, bytes.
const MOST_PACKET: usize = 65_535;

/// TCP's flags.
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;

/// A frame that more segments may be joined to.
#[derive(Debug)]
pub(crate) struct GroFrame {
    headers: Headers,
    /// Payload of the first segment, bytes: none is longer.
    size: u16,
    /// Bytes of the frame.
    len: usize,
    /// The sequence number of the next segment.
    next: u32,
    segments: u32,
    push: bool,
    /// A shorter segment was joined.
    over: bool,
}

impl GroFrame {
    /// `None` for a frame that no segment can be joined to. `verified`: its TCP checksum is known
    /// to be right.
    pub(crate) fn start(frame: &[u8], verified: bool) -> Option<Self> {
        let headers = superframe::find(frame).filter(|headers| !headers.udp)?;
        let (tcp, payload) = (headers.transport, headers.payload);
        let flags = frame[tcp + 13] & !PSH;
        let size = frame.len() - payload;
        let fits = payload <= MOST_HEADERS && size >= MOST_HEADERS && flags == ACK;
        if !fits || !is_plain(frame, &headers) || !is_right(frame, &headers, verified) {
            return None;
        }
        let size = u16::try_from(size).ok()?;
        let next = be32(frame, tcp + 4).wrapping_add(size.into());
        let push = frame[tcp + 13] & PSH != 0;
        Some(Self { headers, size, len: frame.len(), next, segments: 1, push, over: false })
    }

    /// The place in the area where the next frame is to be received. `None` without room for
    /// `longest` bytes, or if the packet may not become longer.
    pub(crate) fn place(&self, area: usize, longest: usize) -> Option<usize> {
        let place = self.len - self.headers.payload;
        (self.can_grow() && place + longest <= area).then_some(place)
    }

    /// May one more segment be joined?
    pub(crate) fn can_grow(&self) -> bool {
        let packet = self.len - self.headers.ip + usize::from(self.size);
        !self.over && packet <= MOST_PACKET
    }

    /// Bytes of the headers of each segment.
    pub(crate) fn headers(&self) -> usize {
        self.headers.payload
    }

    /// Joins `frame`, which was received at [`GroFrame::place`], if it is the next segment. `first`
    /// is the bytes before it, beginning with the headers of the first segment.
    pub(crate) fn join(&mut self, first: &[u8], frame: &[u8], verified: bool) -> bool {
        let payload = self.headers.payload;
        let size = frame.len().saturating_sub(payload);
        let next = (1..=usize::from(self.size)).contains(&size)
            && same(first, frame, &self.headers)
            && be32(frame, self.headers.transport + 4) == self.next
            && is_right(frame, &self.headers, verified);
        if next {
            self.len += size;
            // At most `self.size`, which is 16 bits.
            self.next = self.next.wrapping_add(size as u32);
            self.segments += 1;
            self.push |= frame[self.headers.transport + 13] & PSH != 0;
            self.over = size < usize::from(self.size);
        }
        next
    }

    /// Bytes of the frame.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Makes the headers those of the joined frame. Returns its segments if there is more than one.
    pub(crate) fn finish(&self, frame: &mut [u8]) -> Option<Segments> {
        if self.segments == 1 {
            return None;
        }
        let Headers { ipv6, ip, transport, .. } = self.headers;
        let mut put = |at: usize, value: usize| {
            let value = u16::try_from(value).unwrap_or(u16::MAX);
            frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
        };
        if ipv6 {
            put(ip + 4, self.len - transport);
        } else {
            put(ip + 2, self.len - ip);
            put(ip + 10, 0);
            let sum = !checksum(&frame[ip..transport]);
            frame[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
        }
        frame[transport + 13] |= if self.push { PSH } else { 0 };
        Some(self.segments())
    }

    /// As [`GroFrame::finish`], but each segment stays in its place. The first keeps its headers,
    /// but for PSH.
    pub(crate) fn finish_apart(&self, first: &mut [u8]) -> Option<Segments> {
        if self.segments == 1 {
            return None;
        }
        first[self.headers.transport + 13] |= if self.push { PSH } else { 0 };
        Some(self.segments())
    }

    fn segments(&self) -> Segments {
        let kind = if self.headers.ipv6 { SegmentKind::Tcp6 } else { SegmentKind::Tcp4 };
        Segments { kind, size: self.size }
    }
}

/// A packet that is whole, fills the frame, and has nothing special in its IP header.
fn is_plain(frame: &[u8], headers: &Headers) -> bool {
    const CE: u8 = 3;
    let (ip, behind) = (headers.ip, frame.len() - headers.ip);
    if headers.ipv6 {
        let marked = frame[ip + 1] >> 4 & CE == CE;
        frame[ip] >> 4 == 6 && !marked && usize::from(be16(frame, ip + 4)) + 40 == behind
    } else {
        let cut = be16(frame, ip + 6) & 0x3fff != 0;
        let marked = frame[ip + 1] & CE == CE;
        frame[ip] == 0x45 && !cut && !marked && usize::from(be16(frame, ip + 2)) == behind
    }
}

/// Are the headers of `frame` equal to those of `first`, apart from lengths, identification,
/// sequence number, checksums and PSH? The length must be the frame's.
fn same(first: &[u8], frame: &[u8], headers: &Headers) -> bool {
    let Headers { ipv6, ip, transport: tcp, payload, .. } = *headers;
    let equal = |from: usize, to: usize| first[from..to] == frame[from..to];
    let behind = frame.len() - ip;
    let network = if ipv6 {
        equal(0, ip + 4)
            && equal(ip + 6, ip + 40)
            && usize::from(be16(frame, ip + 4)) + 40 == behind
    } else {
        equal(0, ip + 2)
            && equal(ip + 6, ip + 10)
            && equal(ip + 12, ip + 20)
            && usize::from(be16(frame, ip + 2)) == behind
    };
    network
        && equal(tcp, tcp + 4)
        && equal(tcp + 8, tcp + 13)
        && (first[tcp + 13] ^ frame[tcp + 13]) & !PSH == 0
        && equal(tcp + 14, tcp + 16)
        && equal(tcp + 20, payload)
}

/// Are the checksums right? TCP's is known to be if `verified`.
fn is_right(frame: &[u8], headers: &Headers, verified: bool) -> bool {
    let Headers { ipv6, ip, transport, .. } = *headers;
    if !ipv6 && checksum(&frame[ip..transport]) != u16::MAX {
        return false;
    }
    let addresses = if ipv6 { ip + 8 } else { ip + 12 };
    verified || {
        // A frame is far shorter than 2^16.
        let segment = (frame.len() - transport) as u16;
        let pseudo = [checksum(&frame[addresses..transport]), 6, segment];
        let all = pseudo.map(u32::from).iter().sum::<u32>();
        let all = all + u32::from(checksum(&frame[transport..]));
        fold(all.into()) == u16::MAX
    }
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from(be16(bytes, at)) << 16 | u32::from(be16(bytes, at + 2))
}
