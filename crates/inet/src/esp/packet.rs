//! Packets of ESP by the byte (RFC 4303 2, 3.3.2, 3.4.4).
//!
//! ```text
//!   IP header │ SPI, number │ IV │ payload, TFC padding, padding, pad length, next │ ICV
//!               8 bytes           └────────────────── encrypted ────────────────┘
//! ```

use alloc::vec;
use alloc::vec::Vec;

use super::association::{Association, EspMode};
use super::cipher::{EspCipherError, EspShape};
use crate::ip::{self, header_len, v4, v6};
use crate::link::ethernet;

/// SPI and sequence number, bytes.
pub(super) const ESP_HEADER: usize = 8;
/// Pad length and next header, bytes.
const TRAILER: usize = 2;
/// Longest packet of IPv4, and longest payload of IPv6, bytes.
const LONGEST: usize = 65_535;

/// IP protocol numbers.
pub(super) const ESP: u8 = 50;
pub(super) const IPV4_IN_IP: u8 = 4;
pub(super) const IPV6_IN_IP: u8 = 41;
/// The payload is to be dropped (RFC 4303 2.6).
pub(super) const NOTHING: u8 = 59;

/// Why a packet cannot be sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SealRefusal {
    /// It is a fragment, or not a packet.
    Unfit,
    /// It would be longer than packets can be.
    TooLong,
    /// There is no sequence number left.
    NoSequence,
    Cipher(EspCipherError),
}

/// Why a packet is not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenRefusal {
    /// It is shorter than its association's packets are, or no multiple of the block length.
    Length,
    Cipher(EspCipherError),
    /// The padding is not 1, 2, 3 …, or longer than the payload.
    Padding,
}

/// The header of the packet that carries a packet of ESP.
#[derive(Debug, Clone, Copy)]
pub(super) struct Carrier {
    /// Hops of the outer packet of a tunnel.
    pub(super) ttl: u8,
    /// Its identification, if routers may fragment it.
    pub(super) id: u32,
    /// Longest packet of the link, for padding that hides lengths.
    pub(super) mtu: usize,
}

/// Longest packet that becomes a packet of ESP of at most `mtu` bytes. The inner packet's header
/// has `inner` bytes; a tunnel adds a header of `outer` bytes.
pub(super) fn inner_mtu(
    shape: EspShape,
    mode: EspMode,
    mtu: usize,
    inner: usize,
    outer: usize,
) -> usize {
    let header = if mode == EspMode::Tunnel { outer } else { inner };
    let room = mtu.saturating_sub(header + ESP_HEADER + shape.iv + shape.icv);
    let payload = (room / shape.block * shape.block).saturating_sub(TRAILER);
    if mode == EspMode::Tunnel { payload } else { payload + inner }
}

/// Makes a packet of ESP of `packet`, a whole packet of this stack's making. Gives a frame with
/// room for the Ethernet header.
pub(super) fn seal(
    sa: &mut Association,
    packet: &[u8],
    carrier: &Carrier,
) -> Result<Vec<u8>, SealRefusal> {
    let is_v4 = packet.first().is_some_and(|first| first >> 4 == 4);
    let inner_header = if is_v4 { v4::HEADER } else { v6::HEADER };
    let next_at = if is_v4 { v4::PROTOCOL_AT } else { v6::NEXT_HEADER_AT };
    let next = *packet.get(next_at).ok_or(SealRefusal::Unfit)?;
    let (header, payload, next) = match sa.mode {
        EspMode::Transport if is_fragment(packet, is_v4) => return Err(SealRefusal::Unfit),
        EspMode::Transport => {
            let parts = packet.split_at_checked(inner_header).ok_or(SealRefusal::Unfit)?;
            (inner_header, parts.1, next)
        }
        EspMode::Tunnel => {
            let next = if is_v4 { IPV4_IN_IP } else { IPV6_IN_IP };
            (header_len(sa.id.destination), packet, next)
        }
    };
    let shape = sa.cipher.shape();
    let room = inner_mtu(shape, sa.mode, carrier.mtu, inner_header, header);
    let padded = match sa.mode {
        EspMode::Tunnel => payload.len().max(usize::from(sa.padded_to).min(room)),
        EspMode::Transport => payload.len(),
    };
    let body = (padded + TRAILER).next_multiple_of(shape.block);
    let carried = ESP_HEADER + shape.iv + body + shape.icv;
    let counted = if header == v4::HEADER { header } else { 0 };
    if counted + carried > LONGEST {
        return Err(SealRefusal::TooLong);
    }
    let start = ethernet::HEADER + header;
    let mut frame = vec![0; start + carried];
    let esp = sa.next_header().ok_or(SealRefusal::NoSequence)?;
    write_outer(sa, packet, carrier, carried, &mut frame);
    let (_, rest) = frame.split_at_mut(start);
    let (head, rest) = rest.split_at_mut(ESP_HEADER);
    let (iv, rest) = rest.split_at_mut(shape.iv);
    let (plain, icv) = rest.split_at_mut(body);
    head.copy_from_slice(&esp.wire());
    plain[..payload.len()].copy_from_slice(payload);
    pad(&mut plain[padded..], next);
    sa.cipher.seal(&esp, iv, plain, icv).map_err(SealRefusal::Cipher)?;
    Ok(frame)
}

/// Writes padding, pad length and next header (RFC 4303 2.4).
fn pad(tail: &mut [u8], next: u8) {
    let Some((trailer, padding)) = tail.split_last_chunk_mut::<TRAILER>().map(|(a, b)| (b, a))
    else {
        return;
    };
    // At most 15 bytes.
    let len = padding.len() as u8;
    padding.iter_mut().zip(1..=len).for_each(|(byte, number)| *byte = number);
    *trailer = [len, next];
}

/// Writes the IP header of a packet of ESP, behind the room for the Ethernet header.
fn write_outer(
    sa: &Association,
    packet: &[u8],
    carrier: &Carrier,
    carried: usize,
    frame: &mut [u8],
) {
    let is_v4 = packet.first().is_some_and(|first| first >> 4 == 4);
    let Some(class) = class_of(packet, is_v4) else { return };
    if sa.mode == EspMode::Transport {
        let (header, next_at) =
            if is_v4 { (v4::HEADER, v4::PROTOCOL_AT) } else { (v6::HEADER, v6::NEXT_HEADER_AT) };
        let out = &mut frame[ethernet::HEADER..];
        out[..header].copy_from_slice(&packet[..header]);
        out[next_at] = ESP;
        return set_length(out, is_v4, class);
    }
    let header = ip::Header {
        source: sa.source,
        destination: sa.id.destination,
        protocol: ESP.into(),
        ttl: carrier.ttl,
        // RFC 4301 5.1.2.1, RFC 6040 4.1.
        tos: class,
        flow: 0,
        payload_len: carried,
    };
    ip::write_ip(&header, frame);
    let is_fragmentable = is_v4 && packet.get(6).is_some_and(|flags| flags & 0x40 == 0);
    if is_fragmentable {
        // RFC 4301 8.1: the bit of the inner packet is copied.
        let out = frame.get_mut(ethernet::HEADER..).unwrap_or_default();
        ip::allow_fragments(out, sa.id.destination, carrier.id);
    }
}

/// Sets the length of `packet` in its header, and IPv4's checksum. Fragments of it are none any
/// more.
fn set_length(packet: &mut [u8], is_v4: bool, class: u8) {
    if !is_v4 {
        return v6::restore_header(packet, class & 3);
    }
    v4::restore_header(packet, class & 3);
}

/// The type of service byte, or traffic class, of a packet.
fn class_of(packet: &[u8], is_v4: bool) -> Option<u8> {
    let &[first, second] = packet.first_chunk()?;
    Some(if is_v4 { second } else { first << 4 | second >> 4 })
}

/// Whether a packet of this stack's making is a fragment.
fn is_fragment(packet: &[u8], is_v4: bool) -> bool {
    const FRAGMENT_HEADER: u8 = 44;
    match is_v4 {
        true => !matches!(packet.get(6..8), Some(&[high, low]) if high & 0x3f == 0 && low == 0),
        false => packet.get(v6::NEXT_HEADER_AT) == Some(&FRAGMENT_HEADER),
    }
}

/// Verifies and decrypts the packet of ESP behind the first `header` bytes of `packet`, and has its
/// payload follow these. Gives the next header.
pub(super) fn open(
    sa: &mut Association,
    packet: &mut Vec<u8>,
    header: usize,
    sequence: u64,
) -> Result<u8, OpenRefusal> {
    let shape = sa.cipher.shape();
    let about = sa.header(sequence);
    let start = header + ESP_HEADER + shape.iv;
    let end = packet.len().checked_sub(shape.icv).ok_or(OpenRefusal::Length)?;
    let len = end.checked_sub(start).ok_or(OpenRefusal::Length)?;
    if len == 0 || !len.is_multiple_of(shape.block) {
        return Err(OpenRefusal::Length);
    }
    let (head, icv) = packet.split_at_mut(end);
    let (head, body) = head.split_at_mut(start);
    let iv = head.get(header + ESP_HEADER..).unwrap_or_default();
    sa.cipher.open(&about, iv, body, icv).map_err(OpenRefusal::Cipher)?;
    let (rest, &[padding, next]) = body.split_last_chunk().ok_or(OpenRefusal::Length)?;
    let payload = rest.len().checked_sub(padding.into()).ok_or(OpenRefusal::Padding)?;
    // RFC 4303 2.4: the receiver should look at it.
    let expected = (1..=padding).eq(rest.iter().skip(payload).copied());
    if !expected {
        return Err(OpenRefusal::Padding);
    }
    packet.copy_within(start..start + payload, header);
    packet.truncate(header + payload);
    Ok(next)
}

/// Makes the header of `packet` that of a packet whose payload is of protocol `next`, which
/// `next_at` is to say.
pub(super) fn restore_header(packet: &mut [u8], next: u8, next_at: usize) {
    let is_v4 = packet.first().is_some_and(|first| first >> 4 == 4);
    let Some(class) = class_of(packet, is_v4) else { return };
    if let Some(place) = packet.get_mut(next_at) {
        *place = next;
    }
    set_length(packet, is_v4, class);
}

/// Brings the ECN field of the outer header of class `outer` into `packet`, which came in a tunnel
/// (RFC 6040 4.2). False if the packet must be dropped.
pub(super) fn leave_tunnel(packet: &mut [u8], outer: u8) -> bool {
    const CONGESTED: u8 = 3;
    let is_v4 = packet.first().is_some_and(|first| first >> 4 == 4);
    let Some(class) = class_of(packet, is_v4) else { return false };
    let ecn = match (class & 3, outer & 3) {
        (0, CONGESTED) => return false,
        (0, _) => 0,
        (CONGESTED, _) | (_, CONGESTED) => CONGESTED,
        (2, 1) => 1,
        (inner, _) => inner,
    };
    if ecn != class & 3 {
        if is_v4 { v4::set_ecn(packet, ecn) } else { v6::set_ecn(packet, ecn) }
    }
    true
}

/// The number and sequence number at the start of a packet of ESP.
pub(super) fn numbers(esp: &[u8]) -> Option<(u32, u32)> {
    let &[a, b, c, d, e, f, g, h] = esp.first_chunk::<ESP_HEADER>()?;
    Some((u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])))
}

/// The family of the packet that a next header announces in a tunnel.
pub(super) fn is_tunnelled(next: u8, packet: &[u8]) -> bool {
    let version = packet.first().map(|first| first >> 4);
    matches!((next, version), (IPV4_IN_IP, Some(4)) | (IPV6_IN_IP, Some(6)))
}
