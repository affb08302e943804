//! UDP-Lite (RFC 3828): a datagram whose sender chooses how many of its bytes the checksum covers.
//!
//! The header is UDP's, with the coverage in place of the length, which the packet gives. A
//! coverage of 0 means everything. The header is always covered, and there is always a checksum.

use core::net::{IpAddr, SocketAddr};

use smoltcp::wire::{IpProtocol, UdpPacket, checksum};

use super::wire::{BadDatagram, HEADER, ParsedDatagram};
use crate::ip;

/// UDP-Lite in the protocol field of a packet.
pub(crate) const PROTOCOL: IpProtocol = IpProtocol::Unknown(136);

/// Number of covered bytes of a datagram of `len` bytes, header included, by its field `coverage`.
/// `None` for an invalid coverage (RFC 3828 3.1).
fn covered(coverage: u16, len: usize) -> Option<usize> {
    match usize::from(coverage) {
        0 => Some(len),
        bytes => (HEADER..=len).contains(&bytes).then_some(bytes),
    }
}

/// Reads the datagram of `len` bytes that came from `src` to `dst`; gives its coverage, too, if it
/// is only a part of the datagram. `head` are its first bytes, and `sum` gives the sum of the first
/// so many.
pub(crate) fn parse(
    (src, dst): (IpAddr, IpAddr),
    head: &[u8],
    len: usize,
    sum: impl FnOnce(usize) -> u16,
) -> Result<(ParsedDatagram, Option<u16>), BadDatagram> {
    let header = head.get(..HEADER).ok_or(BadDatagram::Malformed)?;
    let view = UdpPacket::new_unchecked(header);
    if view.dst_port() == 0 || u16::try_from(len).is_err() {
        return Err(BadDatagram::Malformed);
    }
    let covered = covered(view.len(), len).ok_or(BadDatagram::Malformed)?;
    // RFC 3828 3.1: a checksum is not optional.
    if view.checksum() == 0 {
        return Err(BadDatagram::Checksum);
    }
    let pseudo = ip::pseudo_sum(src, dst, PROTOCOL, len);
    if checksum::combine(&[pseudo, sum(covered)]) != 0xffff {
        return Err(BadDatagram::Checksum);
    }
    let parsed = ParsedDatagram {
        src_port: view.src_port(),
        dst_port: view.dst_port(),
        payload: HEADER..len,
    };
    let partial = u16::try_from(covered).ok().filter(|_| covered < len);
    Ok((parsed, partial))
}

/// How many bytes of a payload of `len` bytes a sender's `coverage` covers; the header counts in
/// it.
pub(crate) fn covered_payload(coverage: Option<u16>, len: usize) -> usize {
    match coverage.map(usize::from) {
        None | Some(0) => len,
        Some(bytes) => bytes.saturating_sub(HEADER).min(len),
    }
}

/// Writes the header of a datagram into the first [`HEADER`] bytes of `out`. The payload has `len`
/// bytes; `sum` is the sum of its covered part. As Linux, the field is the length unless a shorter
/// `coverage` was asked for. `len` + [`HEADER`] fits the field.
pub(crate) fn emit(
    src: SocketAddr,
    dst: SocketAddr,
    len: usize,
    coverage: Option<u16>,
    sum: u16,
    out: &mut [u8],
) {
    let Some(out) = out.get_mut(..HEADER) else { return };
    let total = u16::try_from(HEADER + len).unwrap_or(u16::MAX);
    let mut view = UdpPacket::new_unchecked(&mut *out);
    view.set_src_port(src.port());
    view.set_dst_port(dst.port());
    view.set_len(coverage.map_or(total, |coverage| coverage.min(total)));
    view.set_checksum(0);
    let pseudo = ip::pseudo_sum(src.ip(), dst.ip(), PROTOCOL, usize::from(total));
    let sum = !checksum::combine(&[pseudo, checksum::data(out), sum]);
    // RFC 3828 3.1: a sum of zero is sent as all ones.
    UdpPacket::new_unchecked(out).set_checksum(if sum == 0 { 0xffff } else { sum });
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    const SRC: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 1000);
    const DST: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 2000);

    fn datagram(payload: &[u8], coverage: Option<u16>) -> Vec<u8> {
        let mut bytes = std::vec![0; HEADER];
        let part = &payload[..covered_payload(coverage, payload.len())];
        emit(SRC, DST, payload.len(), coverage, checksum::data(part), &mut bytes);
        bytes.extend_from_slice(payload);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<(ParsedDatagram, Option<u16>), BadDatagram> {
        let sum = |len| checksum::data(&bytes[..len]);
        parse((SRC.ip(), DST.ip()), bytes, bytes.len(), sum)
    }

    #[test]
    fn fields_that_no_sender_writes_are_refused() {
        let good = datagram(b"payload", None);
        assert_eq!(read(&good[..7]), Err(BadDatagram::Malformed));
        for coverage in [1, 7, 16, 0xffff] {
            let mut bytes = good.clone();
            bytes[4..6].copy_from_slice(&u16::to_be_bytes(coverage));
            assert_eq!(read(&bytes), Err(BadDatagram::Malformed), "{coverage}");
        }
        let mut bytes = good.clone();
        bytes[6..8].fill(0);
        assert_eq!(read(&bytes), Err(BadDatagram::Checksum));
        let mut bytes = good;
        bytes[2..4].fill(0);
        assert_eq!(read(&bytes), Err(BadDatagram::Malformed));
    }

    proptest! {
        #[test]
        fn damage_is_found_where_the_sum_covers(
            payload in prop::collection::vec(any::<u8>(), 0..64),
            asked in prop::option::of(prop_oneof![Just(0), 8_u16..80]),
            at in any::<prop::sample::Index>(),
            flip in 1_u8..=255,
        ) {
            let mut bytes = datagram(&payload, asked);
            let covered = HEADER + covered_payload(asked, payload.len());
            let partial = u16::try_from(covered).ok().filter(|_| covered < bytes.len());
            let (parsed, coverage) = read(&bytes).unwrap();
            prop_assert_eq!((parsed.src_port, parsed.dst_port), (1000, 2000));
            prop_assert_eq!(&bytes[parsed.payload], &payload[..]);
            prop_assert_eq!(coverage, partial);
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            prop_assert_eq!(read(&bytes).is_ok(), at >= covered, "{}", at);
        }
    }
}
