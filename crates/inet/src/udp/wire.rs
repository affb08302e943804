//! The UDP header.

use core::net::{IpAddr, SocketAddr};
use core::ops::Range;

use smoltcp::wire::{IpProtocol, UdpPacket, checksum};

use crate::ip;

/// Length of the header, bytes.
pub(crate) const HEADER: usize = smoltcp::wire::UDP_HEADER_LEN;

/// A parsed datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParsedDatagram {
    pub(crate) src_port: u16,
    pub(crate) dst_port: u16,
    /// Where its payload is in the bytes parsed.
    pub(crate) payload: Range<usize>,
}

/// The fault of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadDatagram {
    Malformed,
    Checksum,
}

/// Where the checksum is in the header.
pub(crate) const CHECKSUM_AT: usize = 6;

/// Parses the datagram at the start of `len` bytes, sent from `src` to `dst`. `head` are the first
/// of them, and `sum` gives the sum of the first so many; `None`: the checksum is known to be
/// right.
pub(crate) fn parse(
    (src, dst): (IpAddr, IpAddr),
    head: &[u8],
    len: usize,
    sum: Option<impl FnOnce(usize) -> u16>,
) -> Result<ParsedDatagram, BadDatagram> {
    let header = head.get(..HEADER).ok_or(BadDatagram::Malformed)?;
    let view = UdpPacket::new_unchecked(header);
    let total = usize::from(view.len());
    if !(HEADER..=len).contains(&total) || view.dst_port() == 0 {
        return Err(BadDatagram::Malformed);
    }
    // RFC 8200 8.1: over IPv6 there must be one.
    if src.is_ipv6() && view.checksum() == 0 {
        return Err(BadDatagram::Checksum);
    }
    // RFC 1122 4.1.3.4: a checksum that is there must be verified; 0 means that there is none.
    if let Some(sum) = sum.filter(|_| view.checksum() != 0) {
        let pseudo = ip::pseudo_sum(src, dst, IpProtocol::Udp, total);
        if checksum::combine(&[pseudo, sum(total)]) != 0xffff {
            return Err(BadDatagram::Checksum);
        }
    }
    Ok(ParsedDatagram {
        src_port: view.src_port(),
        dst_port: view.dst_port(),
        payload: HEADER..total,
    })
}

/// Writes the header of a datagram into the first [`HEADER`] bytes of `out`. The payload has `len`
/// bytes and the sum `sum`. Without a sum, the checksum field gets that of the pseudo-header, and
/// the device completes it. `len` + [`HEADER`] fits the length field.
pub(crate) fn emit(src: SocketAddr, dst: SocketAddr, len: usize, sum: Option<u16>, out: &mut [u8]) {
    let Some(out) = out.get_mut(..HEADER) else { return };
    let total = u16::try_from(HEADER + len).unwrap_or(u16::MAX);
    let mut view = UdpPacket::new_unchecked(&mut *out);
    view.set_src_port(src.port());
    view.set_dst_port(dst.port());
    view.set_len(total);
    view.set_checksum(0);
    let pseudo = ip::pseudo_sum(src.ip(), dst.ip(), IpProtocol::Udp, usize::from(total));
    let Some(sum) = sum else {
        return UdpPacket::new_unchecked(out).set_checksum(pseudo);
    };
    let sum = !checksum::combine(&[pseudo, checksum::data(out), sum]);
    // RFC 768: a sum of zero is sent as all ones.
    UdpPacket::new_unchecked(out).set_checksum(if sum == 0 { 0xffff } else { sum });
}
